"""The commands `dplangevin price` and `dplangevin calibrate`.

`price` computes ε of one mechanism by every accountant. `calibrate` finds the least noise for a given ε.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, Literal

from dplangevin.checks import require
from dplangevin.cli import mechanism_options, output
from dplangevin.cli.mechanism_options import Mechanism, Options
from dplangevin.cli.options import option, with_options
from dplangevin.reporting.words import NEIGHBOURS, at_least, at_most, relations
from dplangevin.text import epsilon, number, weak_delta

MEANING = {"add_remove": "one data set has a record more", "replace_one": "one record is replaced"}
BEST = "best proof"  # how the table calls the status "tight"
ATTACK_RUNS = 200_000  # on each of the two data sets
DELTAS, RATES = tuple(10.0**-k for k in range(2, 13)), (0.001, 0.01, 0.1, 0.25, 0.5)  # of --curve
LAWS = {"negative-binomial": 0.0, "poisson": math.inf}  # of the number of runs -> its shape
RUNS = 10.0  # mean number of runs
TUNING = (
    "each run draws its setting without looking at the data; the number of runs is drawn first and stays secret",
    "only the best run leaves, by a score that one run releases too: what the score reads is part of that run's price",
)
Neighbours = Annotated[
    Literal["add_remove", "replace_one"],
    option("Neighbouring data sets: one has a record more, or one record is another."),
]


@with_options(Options)
def price(
    options: Options,
    attack: Annotated[bool, option("Also attack the worst pair: a lower bound.", "--attack")] = False,
    tuned: Annotated[
        Literal["negative-binomial", "poisson"] | None, option("Also price the best of runs with this law.")
    ] = None,
    runs: Annotated[float, option("With --tuned: the mean number of runs.")] = RUNS,
    rows_per_person: Annotated[int, option("Also price a person with so many records.", min=1)] = 1,
    curve: Annotated[
        bool, option("Also epsilon at many delta, and what attacks can reach.", "--curve")
    ] = False,
) -> None:
    """Print the epsilon of a mechanism by every accountant that can price it."""
    from dp_accounting.dp_event import RepeatAndSelectDpEvent

    from dplangevin.privacy.accountants.tight import Tight
    from dplangevin.privacy.curve import Curve
    from dplangevin.privacy.selection import check_runs
    from dplangevin.receipt import prices

    mechanism = mechanism_options.given(options)
    event, delta, more = mechanism.event, options.delta, list[dict[str, Any]]()
    if rows_per_person > 1:
        of: Any = prices.of_records if mechanism.steps is None else prices.price
        person = partial(of, mechanism.steps or event, delta, rows=rows_per_person)
        more += rows(f"person with {rows_per_person} records", "proven", person)
    require(tuned is not None or runs == RUNS, f"--runs {runs:g}: add --tuned poisson")
    if tuned is not None:
        check_runs(runs, LAWS[tuned])
        best = RepeatAndSelectDpEvent(event, runs, LAWS[tuned])
        more += rows(f"best of {runs:g} runs", "proven", lambda each: Tight().price(best, delta, each))
        mechanism = mechanism._replace(assumptions=[*mechanism.assumptions, *TUNING])
    if attack:
        more += rows("worst pair", "attack", lambda each: attacked(event, delta, each))
    if curve:
        of = cache(lambda adjacency: Curve.of(lambda delta: Tight().epsilon(event, delta, adjacency)))
        for other in DELTAS:
            price = partial(lambda other, each: Tight().price(event, other, each), other)
            more += rows(f"delta {number(other)}", "proven", price)
        for rate in RATES:
            power = partial(lambda rate, each: (float(of(each).power(rate)), "of any attack"), rate)
            more += rows(f"true positive rate at {rate:g} false ones", "at most", power)
    printed(document(mechanism, delta, more), options)


@with_options(Options)
def calibrate(
    options: Options,
    accountant: Annotated[str, option("It proves --epsilon: tight, rdp, li2019, wang2015, ...")] = "tight",
    neighbours: Neighbours = "replace_one",
) -> None:
    """Find the least noise that keeps --epsilon; print its epsilon by every accountant."""
    mechanism = mechanism_options.given(mechanism_options.calibrated(options, accountant, neighbours))
    printed(document(mechanism, options.delta), options)


def document(mechanism: Mechanism, delta: float, more: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return a mechanism, its prices by every accountant, and more rows, as --json prints them."""
    from dplangevin.privacy.survey import survey

    costs = survey(mechanism.event, delta, mechanism.paper, mechanism.violated)
    return {
        "mechanism": mechanism.title,
        "delta": delta,
        **{name: getattr(mechanism, name) for name in ("promised", "settings", "assumptions", "violated")},
        "prices": [row._asdict() for row in costs],
        "more": more,
    }


def rows(what: str, status: str, price: Callable[[Any], tuple[float, str]]) -> list[dict[str, Any]]:
    """Return a row for each neighbour relation; without an ε it is nan, and `name` says why."""
    from dplangevin.privacy.survey import reason

    found = []
    for adjacency in MEANING:
        try:
            value, by = price(adjacency)
        except ValueError as error:
            value, by = math.nan, reason(error)
        found.append({"name": f"{what}: {by}", "adjacency": adjacency, "epsilon": value, "status": status})
    return found


def attacked(event: Any, delta: float, adjacency: Any) -> tuple[float, str]:
    """Return an attack ε (lower bound, 95 %), and how it was found."""
    from dplangevin import random
    from dplangevin.attacks import worst
    from dplangevin.attacks.audit import audit
    from dplangevin.attacks.dp_langevin import last_iterate, worst_epsilon
    from dplangevin.privacy.events import LangevinDpEvent

    rng = random.generator(0, f"dplangevin price {adjacency}")
    by_runs = f"{ATTACK_RUNS:,} runs on each data set"
    if not isinstance(event, LangevinDpEvent):
        shown = worst.shown(event, delta, adjacency, ATTACK_RUNS, rng)
        return shown.epsilon, by_runs if shown.runs else "exact"
    # the start and the gradients are those of the paper's theorem
    require(adjacency == "replace_one", "the attack replaces a record")
    if event.radius < math.inf:  # projections: the law is not known
        return audit(*last_iterate(event, ATTACK_RUNS, rng), delta).epsilon, by_runs
    return worst_epsilon(event, delta) * (1 - worst.ROUNDED), "exact"


def printed(found: Mapping[str, Any], options: Options) -> None:
    """Print the mechanism and its prices, as a table or as a JSON document."""
    if options.json:
        output.document(found)
        return
    output.line(f"{found['mechanism']}; delta {number(found['delta'])}.")
    if promised := found["promised"]:
        output.line(f"Its own theorem ({promised['by']}) promises epsilon {epsilon(promised['epsilon'])}.")
    table(found["prices"], found["more"])
    failed = [f"{row['name']}: {text}" for row in found["prices"] for text in row["violated"]]
    without = [f"{row['name']}, {row['adjacency']}" for row in found["more"] if math.isnan(row["epsilon"])]
    values = {name: value for name, value in found["settings"].items() if value != ""}
    texts = (value if isinstance(value, str) else f"{value:.6g}" for value in values.values())
    output.section("Warning", weak_delta(found["delta"], options.records or 0))
    output.section("Assumes", *found["assumptions"])
    title = "Failed conditions: a number that needs one has the status claim"
    output.section(title, *dict.fromkeys([*found["violated"], *failed]))
    output.section("Without a number", *map(relations, without))
    if options.explain:
        from dplangevin.privacy.survey import ACCOUNTANTS

        kinds = {row["name"]: type(ACCOUNTANTS[row["key"]]) for row in found["prices"]}
        basis = (str(inspect.getdoc(kind)).split("\n\n")[0] for kind in kinds.values())
        output.section("What each number rests on", *map(": ".join, zip(kinds, basis, strict=True)))
    output.section("Settings", ", ".join(map(" ".join, zip(values, texts, strict=True))))


def table(priced: Sequence[Mapping[str, Any]], more: Sequence[Mapping[str, Any]]) -> None:
    """Print a row for each accountant, price of persons and attack, with a column for each neighbour relation."""
    scopes = len({row["scope"] for row in priced})
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in (*priced, *(row for row in more if not math.isnan(row["epsilon"]))):
        name, status, cost = row["name"], row["status"], row["epsilon"]
        if scopes > 1 and row.get("scope", name) not in name:
            name += f", {row['scope']}"
        text = epsilon(cost) if status == "claim" else at_most(cost)
        if status == "attack":
            text = f">= {at_least(cost)}"
        cells.setdefault((name, BEST if status == "tight" else status), {})[row["adjacency"]] = text
    there = [each for each in MEANING if any(each in of for of in cells.values())]
    output.title(f"Neighbours: {', '.join(f'{NEIGHBOURS[each]} ({MEANING[each]})' for each in there)}")
    lines = [[name, *(of.get(each, "") for each in there), status] for (name, status), of in cells.items()]
    titles = ["accountant", *(NEIGHBOURS[each] for each in there), "status"]
    output.table(titles, lines, left=(0, len(there) + 1))
