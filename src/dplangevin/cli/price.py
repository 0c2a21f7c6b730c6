"""The commands `dplangevin price` and `dplangevin calibrate`.

`price` computes ε of one mechanism by every accountant. `calibrate` finds the least noise for a given ε.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from dplangevin.checks import require
from dplangevin.cli import mechanism_options, output
from dplangevin.cli.mechanism_options import Mechanism, Options
from dplangevin.cli.options import option, with_options
from dplangevin.files import atomic_path
from dplangevin.reporting.words import NEIGHBOURS, at_least, at_most, relations
from dplangevin.text import epsilon, number, short, weak_delta

if TYPE_CHECKING:
    from dplangevin.privacy.curve import Curve
    from dplangevin.privacy.events import Adjacency

Rows = Sequence[Mapping[str, Any]]
MEANING: dict[Adjacency, str] = {
    "add_remove": "one data set has a record more",
    "replace_one": "one record is replaced",
}
BEST = "best proof"  # how the table calls the status "tight"
ROUNDING = 1e-6  # an exact ε of a pair and the best proof may differ by this, relatively
ATTACK_RUNS = 200_000  # on each of the two data sets
LAWS = {  # of the number of runs -> its words, and its shape
    "negative-binomial": ("logarithmic", 0.0),
    "poisson": ("Poisson", math.inf),
}
TUNING = [
    "each run draws its setting without looking at the data; the number of runs is drawn first and stays secret",
    "only the best run leaves, by a score that one run releases too: what the score reads is part of that run's price",
]
MORE = "--explain adds what each number rests on, and which accountants cannot price this."
DELTAS = tuple(10.0**-k for k in range(2, 13))  # of a printed curve
RATES = (0.001, 0.01, 0.1, 0.25, 0.5)  # false positive rates of a printed curve
TPR = (
    "TPR: the most that an attack on one record can have at this false positive rate (FPR), in either direction. "
    "Advantage: the largest TPR - FPR."
)
Neighbours = Annotated[
    Literal["add_remove", "replace_one"],
    option("Neighbouring data sets: one has a record more, or one record is another."),
]


@with_options(Options)
def price(
    options: Options,
    attack: Annotated[
        bool, option("Also attack it on a worst-case pair of data sets: a lower bound.", "--attack")
    ] = False,
    tuned: Annotated[
        Literal["negative-binomial", "poisson"] | None,
        option("Also price the best of a random number of runs with this law."),
    ] = None,
    runs: Annotated[float | None, option("With --tuned: the mean number of runs (default: 10).")] = None,
    rows_per_person: Annotated[
        int, option("Also price a person with up to so many records, all of them together.", min=1)
    ] = 1,
    curve: Annotated[
        bool, option("Also print epsilon at many delta, and what an attack can reach.", "--curve")
    ] = False,
    curve_file: Annotated[Path | None, option("Write the points of both curves to this CSV file.")] = None,
) -> None:
    """Print the epsilon of a mechanism by every accountant that can price it."""
    from dp_accounting.dp_event import RepeatAndSelectDpEvent

    from dplangevin.privacy.selection import check_runs
    from dplangevin.privacy.survey import reason

    mechanism_options.check(options)
    law, shape = LAWS[tuned or "poisson"]
    mean = 10.0 if runs is None else runs
    require(runs is None or tuned is not None, f"--runs {runs} belongs to --tuned: add --tuned poisson")
    check_runs(mean, shape)
    mechanism = mechanism_options.given(options)
    event, delta = mechanism.event, options.delta
    found = document(mechanism, delta)
    if attack:
        found["attacks"] = [attacked(event, delta, each) for each in MEANING]
    if rows_per_person > 1:
        found["person"] = [
            mechanism_options.of_a_person(options, event, each, rows_per_person) for each in MEANING
        ]
    if tuned is not None:
        event = RepeatAndSelectDpEvent(event, mean, shape)
        found["tuned"] = {"runs": f"{law} with mean {mean:g}", **prices(event, delta, None)}
    curves: dict[Adjacency, Curve] = {}
    for each in MEANING if curve or curve_file is not None else ():
        try:
            curves[each], points = traced(event, each)
            found.setdefault("curve", {})[each] = points
        except ValueError as error:
            found.setdefault("no_curve", {})[each] = reason(error)
    printed(found, options, rows_per_person=rows_per_person)
    if curve_file is not None and curves:
        write(curve_file, curves)


@with_options(Options)
def calibrate(
    options: Options,
    accountant: Annotated[str, option("It proves --epsilon: tight, rdp, li2019, wang2015, ...")] = "tight",
    neighbours: Neighbours = "replace_one",
) -> None:
    """Find the least noise that keeps --epsilon; print its epsilon by every accountant."""
    mechanism_options.check(options)
    mechanism = mechanism_options.given(mechanism_options.calibrated(options, accountant, neighbours))
    goal = (
        f"Least noise for which the accountant {accountant} proves epsilon {options.epsilon:g}, neighbours "
        f"{NEIGHBOURS[neighbours]}."
    )
    printed(document(mechanism, options.delta), options, goal)


def document(mechanism: Mechanism, delta: float) -> dict[str, Any]:
    """Return a mechanism and its prices by every accountant, as --json prints them."""
    title, event, paper, *_ = mechanism
    values = {name: getattr(mechanism, name) for name in Mechanism._fields[3:]}
    costs = prices(event, delta, paper, mechanism.violated)
    return {"mechanism": title, "delta": delta, **values, **costs, "attacks": []}


def prices(*asked: Any) -> dict[str, Any]:
    """Return what `survey` finds, as plain values."""
    from dplangevin.privacy.survey import survey

    costs = survey(*asked)
    return {
        "prices": [row._asdict() for row in costs.prices],
        "refused": [refusal._asdict() for refusal in costs.refusals],
    }


def attacked(event: Any, delta: float, adjacency: Adjacency) -> dict[str, Any]:
    """Return attack ε (lower bound, 95 %), runs of the mechanism (0: ε is exact for the pair), pair and statistic.

    The attack may choose any loss that the hypotheses of the prices allow. Without an ε, "reason" says why.
    """
    from dplangevin import random
    from dplangevin.attacks import worst
    from dplangevin.attacks.audit import audit
    from dplangevin.attacks.dp_langevin import last_iterate, worst_epsilon
    from dplangevin.privacy.events import LangevinDpEvent
    from dplangevin.privacy.survey import reason

    rng = random.generator(0, f"dplangevin price {adjacency}")
    found: dict[str, Any] = {"adjacency": adjacency, "epsilon": None, "runs": ATTACK_RUNS, "reason": ""}
    found |= {"pair": "", "statistic": ""}
    try:
        if not isinstance(event, LangevinDpEvent):
            of = worst.shown(event, delta, adjacency, ATTACK_RUNS, rng)._asdict()
            return {name: of.get(name, value) for name, value in found.items()}
        # the start and the gradients are those of the paper's theorem
        require(adjacency == "replace_one", "the attack replaces a record")
        if event.radius < math.inf:  # projections: the law is not known
            bound, runs = audit(*last_iterate(event, ATTACK_RUNS, rng), delta).epsilon, ATTACK_RUNS
            statistic = "how often the last iterate is beyond a threshold"
        else:
            bound, runs = worst_epsilon(event, delta) * (1 - worst.ROUNDED), 0
            statistic = worst.EXACT
    except ValueError as error:
        return found | {"reason": reason(error)}
    pair = worst.KINDS[LangevinDpEvent].pair
    return found | {"epsilon": bound, "runs": runs, "statistic": statistic, "pair": pair}


def printed(found: Mapping[str, Any], options: Options, goal: str = "", rows_per_person: int = 1) -> None:
    """Print the mechanism and its prices, as tables or as a JSON document."""
    from dplangevin.privacy.survey import ACCOUNTANTS

    if options.json:
        output.document(found)
        return
    if goal:
        output.line(goal, "bold")
    output.line(f"{found['mechanism']}; delta {number(found['delta'])}.")
    if promised := found["promised"]:
        output.line(f"Its own theorem ({promised['by']}) promises epsilon {epsilon(promised['epsilon'])}.")
    tuned, priced = found.get("tuned"), found["prices"]
    if tuned:
        output.title("One run:")
    table(priced, found["attacks"])
    if tuned:
        output.title(f"The best of a random number of runs, {tuned['runs']}:")
        table(tuned["prices"])
    persons = [
        f"{NEIGHBOURS[of['adjacency']]}: epsilon {epsilon(of['epsilon']) or 'no price'} ({of['argument']})"
        for of in found.get("person", ())
    ]
    output.section(f"A person with up to {rows_per_person} records", *persons)
    if "curve" in found:
        print_curves(found["curve"])
    failed = [(f"{row['name']}: ", text) for row in priced for text in row["violated"]]
    own = [name + text for name, text in failed if text not in found["violated"]]
    attacks = [(NEIGHBOURS[bound["adjacency"]], bound) for bound in found["attacks"]]
    output.section("Warning", weak_delta(found["delta"], options.records or 0))
    output.section("Rounded", found["rounding"])
    output.section("Assumes", *found["assumptions"])
    title = "Failed conditions: a number that needs one has the status claim"
    output.section(title, *dict.fromkeys([*found["violated"], *own]))
    title = "Attacked on the hypotheses of the prices, which may admit more than your problem"
    output.section(
        title, *(f"{name}: {of['pair']}; by {of['statistic']}" for name, of in attacks if of["pair"])
    )
    output.section("Tuning", *TUNING * bool(tuned))
    without = found.get("no_curve", {}).items()
    output.section("No curve", *(f"{NEIGHBOURS[name]}: {in_words(why)}" for name, why in without))
    unattacked = ((name, of["reason"]) for name, of in attacks if of["reason"])
    output.section("Not attacked", *(f"{name}: {in_words(why)}" for name, why in unattacked))
    if goal or options.explain:
        values = {name: value for name, value in found["settings"].items() if value != ""}
        texts = (value if isinstance(value, str) else f"{value:.6g}" for value in values.values())
        output.section("Settings", ", ".join(map(" ".join, zip(values, texts, strict=True))))
    if not options.explain:
        output.line()
        output.line(MORE)
        return
    arguments = {ACCOUNTANTS[row["key"]].accountant.name: row["argument"] for row in priced}
    output.section("What each number rests on", *map(": ".join, arguments.items()))
    refused = [
        ([each["name"], NEIGHBOURS.get(each["adjacency"])], each["reason"]) for each in found["refused"]
    ]
    output.section(
        "Not priced by", *(f"{', '.join(filter(None, who))}: {in_words(why)}" for who, why in refused)
    )


def table(priced: Rows, attacks: Rows = ()) -> None:
    """Print a row for each accountant and each attack, with a column for each neighbour relation."""
    there = {row["adjacency"] for row in (*priced, *attacks)}
    relations = [each for each in MEANING if each in there]
    scopes = len({row["scope"] for row in priced})
    best: dict[str, float] = {}
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for row in priced:
        name, status, cost = row["name"], row["status"], row["epsilon"]
        if scopes > 1 and row["scope"] not in name:
            name += f", {row['scope']}"
        if status == "tight":
            best.setdefault(row["adjacency"], cost)
            status = BEST
        text = epsilon(cost) if status == "claim" else at_most(cost)
        rows.setdefault((name, status), {})[row["adjacency"]] = text
    for bound in (bound for bound in attacks if bound["epsilon"] is not None):
        runs, price = bound["runs"], best.get(bound["adjacency"], math.inf)
        name = f"{runs:,} runs on each data set" if runs else "exact for a pair of data sets"
        doubt = ": chance, 5 %, or a bug" if runs else ": a bug"
        status = "attack" + doubt * (bound["epsilon"] > price * (1 + ROUNDING))
        rows.setdefault((name, status), {})[bound["adjacency"]] = f">= {at_least(bound['epsilon'])}"
    columns = [output.Column(NEIGHBOURS[each], number=True, style="bold") for each in relations]
    output.title(f"Neighbours: {', '.join(f'{NEIGHBOURS[each]} ({MEANING[each]})' for each in relations)}")
    output.table(
        [output.Column("accountant"), *columns, output.Column("status", whole=True)],
        [[name, *(of.get(each, "") for each in relations), status] for (name, status), of in rows.items()],
    )


def traced(event: Any, adjacency: Adjacency) -> tuple[Curve, dict[str, Any]]:
    """Return the proven curve, and some of its points as plain values; raise ValueError where there is no proof."""
    from dplangevin.privacy.accountants.tight import Tight
    from dplangevin.privacy.curve import Curve

    price = cache(lambda delta: Tight().epsilon(event, delta, adjacency))
    curve = Curve.of(price)
    powers = {rate: float(curve.power(rate)) for rate in RATES}
    return curve, {
        "source": Tight().price(event, DELTAS[4], adjacency).accountant,
        "epsilon": [{"delta": delta, "epsilon": price(delta)} for delta in DELTAS],
        "attack": [{"fpr": rate, "tpr": tpr, "fnr": 1 - tpr} for rate, tpr in powers.items()],
        "advantage": curve.advantage,
    }


def print_curves(curves: Mapping[Adjacency, Mapping[str, Any]]) -> None:
    """Print epsilon(delta), TPR at some FPR, and the advantage."""
    output.title("The whole curve: epsilon at delta, and what an attack can reach")
    names = [f"epsilon at delta {number(delta)}" for delta in DELTAS]
    names += [*(f"TPR at FPR {number(rate)}" for rate in RATES), "advantage"]
    texts = [
        [epsilon(point["epsilon"]) for point in each["epsilon"]]
        + [short(value) for value in (*(point["tpr"] for point in each["attack"]), each["advantage"])]
        for each in curves.values()
    ]
    columns = [output.Column(""), *(output.Column(NEIGHBOURS[name], number=True) for name in curves)]
    output.table(columns, [*zip(names, *texts, strict=True)])
    output.line(TPR)
    for adjacency, each in curves.items():
        output.line(f"Curve for {NEIGHBOURS[adjacency]}: {each['source']}.")


def write(path: Path, curves: Mapping[Adjacency, Curve]) -> None:
    """Write the points of the curves as CSV: epsilon over delta, and TPR over FPR."""
    import numpy as np
    import pandas as pd

    rates = np.concatenate([[0.0], np.geomspace(1e-6, 0.01, 81), np.linspace(0.01, 1, 100)[1:]])
    rows = [
        pd.DataFrame({"neighbours": neighbours, "curve": name, "x": x, "y": y})
        for neighbours, curve in curves.items()
        for name, x, y in (
            ("epsilon at delta", curve.delta, curve.epsilon),
            ("TPR at FPR", rates, curve.power(rates)),
        )
    ]
    with atomic_path(path) as part:
        part.write_bytes(pd.concat(rows).to_csv(index=False).encode())


def in_words(reason: str) -> str:
    """Return a reason without names of classes and of values in the code."""
    if re.search(r" cannot price \w+: ", reason):
        return "it has no theorem for this mechanism"
    return relations(re.sub(r"(\w+)DpEvent", r"\1 mechanism", re.sub(r" \(\w+DpEvent\)", "", reason)))
