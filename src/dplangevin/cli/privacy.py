"""The commands `dplangevin price` and `dplangevin calibrate`.

`price` computes ε of one mechanism by every accountant. `calibrate` finds the least noise for a given ε.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from dplangevin.checks import require
from dplangevin.cli import curves, mechanisms, output
from dplangevin.cli.mechanisms import Mechanism, Options
from dplangevin.cli.options import option, with_options
from dplangevin.reporting.words import NEIGHBOURS, at_least, at_most
from dplangevin.text import epsilon, fixed, number, weak_delta

if TYPE_CHECKING:
    from dplangevin.privacy.events import Adjacency
    from dplangevin.privacy.survey import Survey

MEANING = {
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
    "lower bound": ("attack", "an attack shows at least this epsilon (95 % confidence, or exact for a pair)"),
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
EVENTS = {  # class of an event -> the mechanism in words
    "LangevinDpEvent": "run of DP-SGLD with hidden iterates",
    "PateDpEvent": "PATE run",
}
Json = Annotated[bool, option("Print one JSON document; infinity is the text inf.", "--json")]
Neighbours = Annotated[
    Literal["add_remove", "replace_one", "zero_out"],
    option("Neighbouring data sets: one has a record more, one record is another, or contributes nothing."),
]
Explain = Annotated[
    bool, option("Also print what each number rests on, and which accountants cannot price it.", "--explain")
]


class Bound(NamedTuple):
    """Lower bound on ε that an attack shows for one neighbour relation."""

    adjacency: Adjacency
    epsilon: float | None  # attack ε (lower bound, 95 %); None: the attack cannot run
    runs: int  # of the mechanism on either data set; 0 if the ε of the pair is exact
    reason: str = ""  # why the attack cannot run
    pair: str = ""  # the two data sets, in words
    statistic: str = ""  # what the attacker computes, in words


class Answer(NamedTuple):
    """What `price` and `calibrate` print."""

    mechanism: Mechanism
    options: Options
    costs: Survey  # prices of one run
    bounds: Sequence[Bound] = ()
    law: str = ""  # of the number of runs, in words; "" without tuning
    tuned: Survey | None = None  # prices of the best run
    curves: Mapping[Adjacency, curves.Traced] = {}  # of what is released
    no_curve: Mapping[Adjacency, str] = {}  # why there is none


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
    from dplangevin.privacy.survey import survey

    mechanisms.check(options)
    csv = curve_file is None or curve_file.suffix == ".csv"
    require(csv, f"--curve-file {curve_file}: its name must end in .csv")
    law, shape = LAWS[tuned or "poisson"]
    mean = 10.0 if runs is None else runs
    require(runs is None or tuned is not None, f"--runs {runs} belongs to --tuned: add --tuned poisson")
    check_runs(mean, shape)
    asked = (*USUAL, "zero_out") if zero_out else USUAL
    if options.method is not None:
        mechanism = mechanisms.planned(options)
    else:
        steps = mechanisms.gaussian(options)
        mechanisms.needed(options, noise=1.1)
        assert options.noise is not None
        mechanism = steps.mechanism(options.noise)
    answer = surveyed(mechanism, options, asked)
    event = mechanism.event
    if attack:
        answer = answer._replace(bounds=attacked(mechanism, options.delta, asked))
    if tuned is not None:
        event = RepeatAndSelectDpEvent(event, mean, shape)
        best = survey(event, options.delta, neighbours=asked)
        answer = answer._replace(law=f"{law} with mean {mean:g}", tuned=best)
    if curve or curve_file is not None:
        found, refused = curves.traced(event, asked)
        answer = answer._replace(curves=found, no_curve=refused)
    shown(answer, json, explain)
    if curve_file is not None:
        curves.write(curve_file, answer.curves)


def surveyed(mechanism: Mechanism, options: Options, neighbours: Sequence[Adjacency]) -> Answer:
    """Price one run by every accountant."""
    from dplangevin.privacy.survey import survey

    costs = survey(mechanism.event, options.delta, mechanism.paper, neighbours, mechanism.violated)
    return Answer(mechanism, options, costs)


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
    shown(surveyed(mechanism, options, asked), json, explain, goal)


def attacked(mechanism: Mechanism, delta: float, neighbours: Sequence[Adjacency]) -> list[Bound]:
    """Return attack ε (lower bounds, 95 %) for each neighbour relation.

    The attack may choose any loss that the hypotheses of the prices allow.
    """
    from dplangevin import random
    from dplangevin.attacks import langevin, worst
    from dplangevin.attacks.audit import audit
    from dplangevin.privacy.events import LangevinDpEvent

    def bound(adjacency: Adjacency) -> Bound:
        event, rng = mechanism.event, random.generator(0, f"dplangevin price {adjacency}")
        if not isinstance(event, LangevinDpEvent):
            found = worst.shown(event, delta, adjacency, ATTACK_RUNS, rng)
            return Bound(adjacency, found.epsilon, found.runs, "", found.pair, found.statistic)
        if adjacency != "replace_one":  # the start and the gradients are those of the paper's theorem
            raise ValueError("the attack replaces a record")
        values = langevin.last_iterate(event, ATTACK_RUNS, rng)
        words = worst.KINDS[LangevinDpEvent].pair, "how often the last iterate is beyond a threshold"
        return Bound(adjacency, audit(*values, delta).epsilon, ATTACK_RUNS, "", *words)

    bounds = []
    for adjacency in neighbours:
        try:
            bounds.append(bound(adjacency))
        except ValueError as error:
            bounds.append(Bound(adjacency, None, ATTACK_RUNS, output.reason(error)))
    return bounds


def shown(answer: Answer, json: bool, explain: bool, goal: str = "") -> None:
    """Print the mechanism and its prices, as tables or as a JSON document."""
    if json:
        output.document(_document(answer))
        return

    mechanism = answer.mechanism
    if goal:
        output.line(goal, "bold")
    output.line(f"{mechanism.title}; delta {number(answer.options.delta)}.")
    if mechanism.promised is not None:
        promised, name = mechanism.promised
        output.line(f"Its own theorem ({name}) promises epsilon {epsilon(promised)}.")
    if answer.tuned is not None:
        output.title("One run:")
    _tables(answer.costs, answer.bounds)
    if answer.tuned is not None:
        output.title(f"The best of a random number of runs, {answer.law}:")
        _tables(answer.tuned, [])
    if answer.curves:
        curves.shown(answer.curves)
    notes = _notes(answer)
    if goal or explain:
        values = {name: value for name, value in mechanism.settings.items() if value != ""}
        texts = [f"{name} {of if isinstance(of, str) else format(of, '.6g')}" for name, of in values.items()]
        notes["Settings"] = [", ".join(texts)] if texts else []
    if explain:
        notes |= _explained(answer)
    for title, texts in notes.items():
        if any(texts):
            output.title(title)
            for text in texts:
                output.line(f"  {text}", indent=4)
    if not explain:
        output.line()
        output.line(
            "--explain adds what each status means, what each number rests on, and which accountants cannot price this."
        )


def _notes(answer: Answer) -> dict[str, list[str]]:
    """Return the paragraphs below the tables, by title."""
    mechanism, options, bounds = answer.mechanism, answer.options, answer.bounds
    refused = {bound.adjacency: bound.reason for bound in bounds if bound.reason}
    own = mechanism.violated
    prices = answer.costs.prices
    formulas = [f"{row.name}: {text}" for row in prices for text in row.violated if text not in own]
    return {
        "Warning": [weak_delta(options.delta, options.records)] if options.records else [],
        "Rounded": [mechanism.rounding],
        "Assumes": [*mechanism.assumptions],
        "Failed conditions: a number that needs one has the status claim": list(
            dict.fromkeys([*own, *formulas])
        ),
        "Attacked on the hypotheses of the prices, which may admit more than your problem": [
            f"{NEIGHBOURS[bound.adjacency]}: {bound.pair}; by {bound.statistic}"
            for bound in bounds
            if bound.pair
        ],
        "Tuning": TUNING if answer.tuned is not None else [],
        "No curve": _reasons(answer.no_curve),
        "Not attacked": _reasons(refused),
    }


def _reasons(refused: Mapping[Adjacency, str]) -> list[str]:
    return [f"{NEIGHBOURS[each]}: {_in_words(reason)}" for each, reason in refused.items()]


def _tables(costs: Survey, bounds: Sequence[Bound]) -> None:
    """Print a table of prices and attacks for each neighbour relation."""
    for adjacency, words in MEANING.items():
        priced = [row for row in costs.prices if row.adjacency == adjacency]
        tight = priced[0].epsilon if priced and priced[0].status == "tight" else float("nan")
        hidden = {row.scope for row in priced} == {"last iterate", "all iterates"}
        rows = []
        for row in priced:
            name = f"{row.name}, {row.scope}" if hidden and row.scope not in row.name else row.name
            cost = epsilon(row.epsilon) if row.status == "claim" else at_most(row.epsilon)
            rows.append([name, cost, _times(row.ratio), STATUS[row.status][0]])
        for bound in bounds:
            if bound.adjacency == adjacency and bound.epsilon is not None:
                name = (
                    f"{bound.runs:,} runs on each data set" if bound.runs else "exact for a pair of data sets"
                )
                ratio = bound.epsilon / tight if tight > 0 else float("nan")
                status = STATUS["lower bound"][0]
                if ratio > 1 + ROUNDING:
                    status += ": chance, 5 %, or a bug" if bound.runs else ": a bug"
                rows.append([name, f">= {at_least(bound.epsilon)}", _times(ratio), status])
        if rows:
            output.title(f"Neighbours: {NEIGHBOURS[adjacency]} ({words})")
            output.table(COLUMNS, rows)


def _times(ratio: float) -> str:
    return fixed(ratio, ".2f" if ratio < 100 else ".0f")


def _explained(answer: Answer) -> dict[str, list[str]]:
    """Return the paragraphs that --explain adds, by title."""
    from dplangevin.privacy.survey import ACCOUNTANTS

    costs, attacks = answer.costs, any(bound.epsilon is not None for bound in answer.bounds)
    printed = {*(row.status for row in costs.prices), *(["lower bound"] if attacks else [])}
    arguments = {ACCOUNTANTS[row.key].accountant.name: row.argument for row in costs.prices}
    return {
        "Status": [f"{word}: {meaning}" for key, (word, meaning) in STATUS.items() if key in printed],
        "What each number rests on": [f"{name}: {argument}" for name, argument in arguments.items()],
        "Not priced by": [
            f"{each.name}{f', {NEIGHBOURS[each.adjacency]}' if each.adjacency else ''}: {_in_words(each.reason)}"
            for each in costs.refusals
        ],
    }


def _in_words(reason: str) -> str:
    """Return a reason without names of classes and of values in the code."""
    if re.search(r" cannot price \w+: ", reason):
        return "it has no theorem for this mechanism"
    reason = re.sub(r" \(\w+DpEvent\)", "", reason)
    for name, words in (*EVENTS.items(), *NEIGHBOURS.items()):
        reason = reason.replace(name, words)
    return reason


def _document(answer: Answer) -> dict[str, Any]:
    mechanism, promised = answer.mechanism, answer.mechanism.promised
    found = {
        "mechanism": mechanism.title,
        "delta": answer.options.delta,
        "promised": None if promised is None else {"epsilon": promised[0], "by": promised[1]},
        "settings": mechanism.settings,
        "rounding": mechanism.rounding,
        "assumptions": mechanism.assumptions,
        "violated": mechanism.violated,
        **_priced(answer.costs),
        "attacks": [bound._asdict() for bound in answer.bounds],
    }
    if answer.tuned is not None:
        found["tuned"] = {"runs": answer.law, **_priced(answer.tuned)}
    if answer.curves:
        found["curve"] = curves.document(answer.curves)
    if answer.no_curve:
        found["no_curve"] = answer.no_curve
    return found


def _priced(costs: Survey) -> dict[str, Any]:
    return {
        "prices": [{**row._asdict(), "argument": row.argument} for row in costs.prices],
        "refused": [refusal._asdict() for refusal in costs.refusals],
    }
