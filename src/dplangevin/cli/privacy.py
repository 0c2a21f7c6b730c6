"""The commands `dplangevin price` and `dplangevin calibrate`.

`price` computes ε of one mechanism by every accountant. `calibrate` finds the least noise for a given ε.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from dplangevin.checks import require
from dplangevin.cli import curves, mechanisms, output
from dplangevin.cli.mechanisms import Mechanism, Options
from dplangevin.cli.options import option, with_options
from dplangevin.reporting.words import NEIGHBOURS, at_least, at_most, relations
from dplangevin.text import epsilon, fixed, number, weak_delta

if TYPE_CHECKING:
    from dplangevin.privacy.events import Adjacency

Rows = Sequence[Mapping[str, Any]]
MEANING: dict[Adjacency, str] = {
    "add_remove": "one data set has a record more",
    "replace_one": "one record is replaced",
    "zero_out": "one record is replaced by one that contributes nothing",
}
USUAL: tuple[Adjacency, ...] = ("add_remove", "replace_one")
COLUMNS = (
    output.Column("accountant"),
    output.Column("epsilon", number=True, style="bold"),
    output.Column("x best proof", number=True),
    output.Column("status", whole=True),
)
STATUS = {  # status of a price -> what the table prints, and what that means
    "tight": ("best proof", "the smallest epsilon that we prove for what the line releases"),
    "proven": ("proven", "an upper bound that one theorem proves"),
    "claim": ("claim", "a paper's formula; one of its conditions fails here"),
    "reference": ("reference", "an upper bound by another package"),
    "attack": ("attack", "an attack shows at least this epsilon (95 % confidence, or exact for a pair)"),
}
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
MORE = "--explain adds what each status means, what each number rests on, and which accountants cannot price this."
Json = Annotated[bool, option("Print one JSON document; infinity is the text inf.", "--json")]
Neighbours = Annotated[
    Literal["add_remove", "replace_one", "zero_out"],
    option("Neighbouring data sets: one has a record more, one record is another, or contributes nothing."),
]
Explain = Annotated[
    bool, option("Also print what each number rests on, and which accountants cannot price it.", "--explain")
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
    curve: Annotated[
        bool, option("Also print epsilon at many delta, and what an attack can reach.", "--curve")
    ] = False,
    curve_file: Annotated[Path | None, option("Write the points of both curves to a .csv file.")] = None,
    zero_out: Annotated[
        bool, option("Also price a record that is replaced by one that contributes nothing.", "--zero-out")
    ] = False,
    explain: Explain = False,
    json: Json = False,
) -> None:
    """Print the epsilon of a mechanism by every accountant that can price it."""
    from dp_accounting.dp_event import RepeatAndSelectDpEvent

    from dplangevin.privacy.selection import check_runs
    from dplangevin.privacy.survey import reason

    mechanisms.check(options)
    csv = curve_file is None or curve_file.suffix == ".csv"
    require(csv, f"--curve-file {curve_file}: its name must end in .csv")
    law, shape = LAWS[tuned or "poisson"]
    mean = 10.0 if runs is None else runs
    require(runs is None or tuned is not None, f"--runs {runs} belongs to --tuned: add --tuned poisson")
    check_runs(mean, shape)
    asked = (*USUAL, "zero_out") if zero_out else USUAL
    mechanism = mechanisms.given(options)
    event, delta = mechanism.event, options.delta
    found = document(mechanism, delta, asked)
    if attack:
        found["attacks"] = [attacked(event, delta, each) for each in asked]
    if tuned is not None:
        event = RepeatAndSelectDpEvent(event, mean, shape)
        found["tuned"] = {"runs": f"{law} with mean {mean:g}", **prices(event, delta, None, asked)}
    traced: dict[Adjacency, curves.Traced] = {}
    refused: dict[Adjacency, str] = {}
    if curve or curve_file is not None:
        for each in asked:
            try:
                traced[each] = curves.traced(event, each)
            except ValueError as error:
                refused[each] = reason(error)
        parts = {"curve": {each: curves.document(of) for each, of in traced.items()}, "no_curve": refused}
        found |= {name: part for name, part in parts.items() if part}
    printed(found, options, json, explain)
    if curve_file is not None:
        curves.write(curve_file, traced)


@with_options(Options)
def calibrate(
    options: Options,
    accountant: Annotated[str, option("It proves --epsilon: tight, rdp, li2019, wang2015, ...")] = "tight",
    neighbours: Neighbours = "replace_one",
    explain: Explain = False,
    json: Json = False,
) -> None:
    """Find the least noise that keeps --epsilon; print its epsilon by every accountant."""
    mechanisms.check(options)
    mechanism = mechanisms.calibrated(options, accountant, neighbours)
    goal = (
        f"Least noise for which the accountant {accountant} proves epsilon {options.epsilon:g}, neighbours "
        f"{NEIGHBOURS[neighbours]}."
    )
    asked = tuple(dict.fromkeys((*USUAL, neighbours)))
    printed(document(mechanism, options.delta, asked), options, json, explain, goal)


def document(mechanism: Mechanism, delta: float, neighbours: Sequence[Adjacency]) -> dict[str, Any]:
    """Return a mechanism and its prices by every accountant, as --json prints them."""
    values = mechanism._asdict()
    title, event, paper = (values.pop(name) for name in ("title", "event", "paper"))
    costs = prices(event, delta, paper, neighbours, mechanism.violated)
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
    from dplangevin.attacks import langevin, worst
    from dplangevin.attacks.audit import audit
    from dplangevin.privacy.events import LangevinDpEvent
    from dplangevin.privacy.survey import reason

    names = "adjacency", "epsilon", "runs", "reason", "pair", "statistic"
    rng = random.generator(0, f"dplangevin price {adjacency}")
    found: tuple[float | None, int, str, str, str]
    try:
        if not isinstance(event, LangevinDpEvent):
            of = worst.shown(event, delta, adjacency, ATTACK_RUNS, rng)
            found = of.epsilon, of.runs, "", of.pair, of.statistic
        else:  # the start and the gradients are those of the paper's theorem
            require(adjacency == "replace_one", "the attack replaces a record")
            bound = audit(*langevin.last_iterate(event, ATTACK_RUNS, rng), delta).epsilon
            words = worst.KINDS[LangevinDpEvent].pair, "how often the last iterate is beyond a threshold"
            found = bound, ATTACK_RUNS, "", *words
    except ValueError as error:
        found = None, ATTACK_RUNS, reason(error), "", ""
    return dict(zip(names, (adjacency, *found), strict=True))


def printed(found: dict[str, Any], options: Options, json: bool, explain: bool, goal: str = "") -> None:
    """Print the mechanism and its prices, as tables or as a JSON document."""
    if json:
        output.document(found)
        return
    if goal:
        output.line(goal, "bold")
    output.line(f"{found['mechanism']}; delta {number(found['delta'])}.")
    if promised := found["promised"]:
        output.line(f"Its own theorem ({promised['by']}) promises epsilon {epsilon(promised['epsilon'])}.")
    tuned, curve = found.get("tuned"), found.get("curve")
    if tuned:
        output.title("One run:")
    tables(found["prices"], found["attacks"])
    if tuned:
        output.title(f"The best of a random number of runs, {tuned['runs']}:")
        tables(tuned["prices"])
    if curve:
        curves.printed(curve)
    paragraphs = notes(found, options, bool(goal) or explain) | (explained(found) if explain else {})
    for title, texts in paragraphs.items():
        if any(texts):
            output.title(title)
            for text in texts:
                output.line(f"  {text}", indent=4)
    if not explain:
        output.line()
        output.line(MORE)


def tables(priced: Rows, attacks: Rows = ()) -> None:
    """Print a table of prices and attacks for each neighbour relation."""
    for adjacency, words in MEANING.items():
        own, bounds = ([row for row in of if row["adjacency"] == adjacency] for of in (priced, attacks))
        if rows := [*table_rows(own, [bound for bound in bounds if bound["epsilon"] is not None])]:
            output.title(f"Neighbours: {NEIGHBOURS[adjacency]} ({words})")
            output.table(COLUMNS, rows)


def table_rows(priced: Rows, attacks: Rows) -> Iterator[tuple[str, str, str, str]]:
    """Yield the rows of COLUMNS for one neighbour relation."""
    hidden = len({row["scope"] for row in priced}) > 1
    for row in priced:
        name = row["name"] if not hidden or row["scope"] in row["name"] else f"{row['name']}, {row['scope']}"
        cost = epsilon(row["epsilon"]) if row["status"] == "claim" else at_most(row["epsilon"])
        yield name, cost, _times(row["ratio"]), STATUS[row["status"]][0]
    tight = priced[0]["epsilon"] if priced and priced[0]["status"] == "tight" else math.nan
    for bound in attacks:
        runs, ratio = bound["runs"], bound["epsilon"] / tight if tight > 0 else math.nan
        name = f"{runs:,} runs on each data set" if runs else "exact for a pair of data sets"
        doubt = (": chance, 5 %, or a bug" if runs else ": a bug") if ratio > 1 + ROUNDING else ""
        yield name, f">= {at_least(bound['epsilon'])}", _times(ratio), f"{STATUS['attack'][0]}{doubt}"


def _times(ratio: float) -> str:
    return fixed(ratio, ".2f" if ratio < 100 else ".0f")


def notes(found: Mapping[str, Any], options: Options, settings: bool) -> dict[str, list[str]]:
    """Return the paragraphs below the tables, by title."""
    own, attacks = found["violated"], found["attacks"]
    formulas = [
        f"{row['name']}: {text}" for row in found["prices"] for text in row["violated"] if text not in own
    ]
    values = [
        f"{name} {value if isinstance(value, str) else format(value, '.6g')}"
        for name, value in found["settings"].items()
        if value != ""
    ]
    return {
        "Warning": [weak_delta(found["delta"], options.records or 0)],
        "Rounded": [found["rounding"]],
        "Assumes": [*found["assumptions"]],
        "Failed conditions: a number that needs one has the status claim": list(
            dict.fromkeys([*own, *formulas])
        ),
        "Attacked on the hypotheses of the prices, which may admit more than your problem": [
            f"{NEIGHBOURS[bound['adjacency']]}: {bound['pair']}; by {bound['statistic']}"
            for bound in attacks
            if bound["pair"]
        ],
        "Tuning": TUNING if "tuned" in found else [],
        "No curve": [
            f"{NEIGHBOURS[each]}: {in_words(why)}" for each, why in found.get("no_curve", {}).items()
        ],
        "Not attacked": [
            f"{NEIGHBOURS[bound['adjacency']]}: {in_words(bound['reason'])}"
            for bound in attacks
            if bound["reason"]
        ],
        "Settings": [", ".join(values)] if settings else [],
    }


def explained(found: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the paragraphs that --explain adds, by title."""
    from dplangevin.privacy.survey import ACCOUNTANTS

    statuses = {row["status"] for row in found["prices"]}
    statuses |= {"attack" for bound in found["attacks"] if bound["epsilon"] is not None}
    arguments = {ACCOUNTANTS[row["key"]].accountant.name: row["argument"] for row in found["prices"]}
    return {
        "Status": [f"{word}: {meaning}" for status, (word, meaning) in STATUS.items() if status in statuses],
        "What each number rests on": [f"{name}: {argument}" for name, argument in arguments.items()],
        "Not priced by": [
            f"{', '.join(filter(None, (each['name'], NEIGHBOURS.get(each['adjacency']))))}: {in_words(each['reason'])}"
            for each in found["refused"]
        ],
    }


def in_words(reason: str) -> str:
    """Return a reason without names of classes and of values in the code."""
    if re.search(r" cannot price \w+: ", reason):
        return "it has no theorem for this mechanism"
    return relations(re.sub(r"(\w+)DpEvent", r"\1 mechanism", re.sub(r" \(\w+DpEvent\)", "", reason)))
