"""The commands `dplangevin price` and `dplangevin calibrate`.

`price` computes ε of one mechanism by every accountant. `calibrate` finds the least noise for a given ε.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from dplangevin.cli import curves, mechanisms, output
from dplangevin.cli.mechanisms import Mechanism, Options
from dplangevin.cli.options import with_options

if TYPE_CHECKING:
    from dplangevin.privacy.events import Adjacency
    from dplangevin.privacy.survey import Survey

NEIGHBOURS: dict[Adjacency, str] = {
    "add_remove": "add/remove",
    "replace_one": "replace-one",
    "zero_out": "zero-out",
}
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
    "lower bound": ("attack", "an attack shows at least this epsilon (95 % confidence, or exact for a pair)"),
}
ROUNDING = 1e-6  # an exact ε of a pair and the best proof may differ by this, relatively
TUNING = [
    "each run draws its setting without looking at the data; the number of runs is drawn first and stays secret",
    "only the best run leaves, by a score that one run releases too: what the score reads is part of that run's price",
]
EVENTS = {  # class of an event -> the mechanism in words
    "LangevinDpEvent": "run of DP-SGLD with hidden iterates",
    "PateDpEvent": "PATE run",
}
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document; infinity is the text inf.")]
Attacked = Annotated[
    bool,
    typer.Option(
        "--attack", help="Also attack the mechanism on a worst-case pair of data sets: a lower bound."
    ),
]
Runs = Annotated[int, typer.Option(help="Runs of the attack on each of its two data sets.", min=8)]
Seed = Annotated[int, typer.Option(help="Seed of the attack.")]
Law = Annotated[
    Literal["negative-binomial", "poisson"] | None,
    typer.Option(
        help="Also price tuning, the best of a random number of runs with this law (Papernot and Steinke 2022)."
    ),
]
MeanRuns = Annotated[
    float | None,
    typer.Option("--runs", help="With --tuned: the mean number of runs, at least 1; 10 by default."),
]
Shape = Annotated[
    float | None,
    typer.Option(help="With --tuned negative-binomial: its shape, 0 logarithmic (the default), 1 geometric."),
]
Traces = Annotated[
    bool,
    typer.Option(
        "--curve", help="Also print epsilon at many delta, and what an attack on a record can reach."
    ),
]
CurveFile = Annotated[Path | None, typer.Option(help="Write the points of both curves to a .csv file.")]
Accountant = Annotated[
    str,
    typer.Option(help="The accountant that proves --epsilon: tight, rdp, li2019, wang2015, ryffel2022, ..."),
]
Neighbours = Annotated[
    Literal["add_remove", "replace_one", "zero_out"],
    typer.Option(
        help="Neighbouring data sets: one has a record more, one record is another, or one contributes nothing."
    ),
]
ZeroOut = Annotated[
    bool,
    typer.Option(
        "--zero-out",
        help="Also price neighbours of which one record is replaced by one that contributes nothing.",
    ),
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Also print the settings, what each number rests on, and which accountants cannot price the mechanism.",
    ),
]


class Bound(NamedTuple):
    """Lower bound on ε that an attack shows for one neighbour relation."""

    adjacency: Adjacency
    epsilon: float | None  # attack ε (lower bound, 95 %); None: the attack cannot run
    runs: int  # of the mechanism on either data set; 0 if the ε of the pair is exact
    reason: str = ""  # why the attack cannot run
    pair: str = ""  # the two data sets, in words
    statistic: str = ""  # what the attacker computes, in words


class Extra(NamedTuple):
    """What `price` prints beside the prices of one run."""

    law: str = ""  # of the number of runs, in words; "" without tuning
    tuned: Survey | None = None  # prices of the best run
    curves: Mapping[Adjacency, curves.Traced] = {}  # of what is released
    no_curve: Mapping[Adjacency, str] = {}  # why there is none


NO_EXTRA = Extra()


@with_options(Options)
def price(
    options: Options,
    attack: Attacked = False,
    attack_runs: Runs = 200_000,
    seed: Seed = 0,
    tuned: Law = None,
    runs: MeanRuns = None,
    shape: Shape = None,
    curve: Traces = False,
    curve_file: CurveFile = None,
    zero_out: ZeroOut = False,
    explain: Explain = False,
    json: Json = False,
) -> None:
    """Print the epsilon of a mechanism by every accountant that can price it."""
    from dp_accounting.dp_event import RepeatAndSelectDpEvent

    from dplangevin.privacy.survey import survey

    mechanisms.check(options)
    curves.check(curve_file)
    best = repeats(tuned, runs, shape)
    asked = (*USUAL, "zero_out") if zero_out else USUAL
    if options.method is not None:
        mechanism = mechanisms.planned(options)
    else:
        steps = mechanisms.gaussian(options)
        mechanisms.needed(options, noise=1.1)
        assert options.noise is not None
        mechanism = steps.mechanism(options.noise)
    costs = survey(mechanism.event, options.delta, mechanism.paper, asked, mechanism.violated)
    bounds = attacked(mechanism, options, attack_runs, seed, asked) if attack else []
    extra, event = Extra(), mechanism.event
    if best is not None:
        event = RepeatAndSelectDpEvent(event, *best)
        extra = Extra(law(*best), survey(event, options.delta, neighbours=asked))
    if curve or curve_file is not None:
        found, refused = curves.traced(event, asked)
        extra = extra._replace(curves=found, no_curve=refused)
    shown(mechanism, options, costs, bounds, json, explain=explain, extra=extra)
    if curve_file is not None:
        curves.write(curve_file, extra.curves)


def repeats(tuned: str | None, runs: float | None, shape: float | None) -> tuple[float, float] | None:
    """Return mean and shape of the law of the number of runs, or None without tuning."""
    from dplangevin.privacy.selection import check_runs

    if tuned is None:
        for name, value in (("runs", runs), ("shape", shape)):
            if value is not None:
                raise ValueError(f"--{name} {value:g} belongs to --tuned: add --tuned negative-binomial")
        return None
    if tuned == "poisson" and shape is not None:
        raise ValueError(f"--tuned poisson has no shape: leave out --shape {shape:g}")
    best = 10.0 if runs is None else runs, math.inf if tuned == "poisson" else shape or 0.0
    check_runs(*best)
    return best


def law(runs: float, shape: float) -> str:
    """Return the law of the number of runs, in words."""
    if shape == math.inf:
        return f"Poisson with mean {runs:g}"
    name = {0.0: "logarithmic", 1.0: "geometric"}.get(shape, f"truncated negative binomial, shape {shape:g},")
    return f"{name} with mean {runs:g}"


@with_options(Options)
def calibrate(
    options: Options,
    accountant: Accountant = "tight",
    neighbours: Neighbours = "replace_one",
    explain: Explain = False,
    json: Json = False,
) -> None:
    """Find the least noise that keeps --epsilon; print its epsilon by every accountant."""
    from dplangevin.privacy.survey import survey

    mechanisms.check(options)
    mechanism = mechanisms.calibrated(options, accountant, neighbours)
    asked = USUAL if neighbours in USUAL else (*USUAL, neighbours)
    costs = survey(mechanism.event, options.delta, mechanism.paper, asked, mechanism.violated)
    goal = (
        f"Least noise for which the accountant {accountant} proves epsilon {options.epsilon:g}, neighbours "
        f"{NEIGHBOURS[neighbours]}."
    )
    shown(mechanism, options, costs, [], json, goal, explain)


def attacked(
    mechanism: Mechanism,
    options: Options,
    runs: int,
    seed: int,
    neighbours: Sequence[Adjacency] = USUAL,
) -> list[Bound]:
    """Return attack ε (lower bounds, 95 %) for each neighbour relation.

    The attack may choose any loss that the hypotheses of the prices allow.
    """
    from dplangevin import random
    from dplangevin.attacks import langevin, worst
    from dplangevin.attacks.audit import audit
    from dplangevin.privacy.events import LangevinDpEvent

    def bound(adjacency: Adjacency) -> Bound:
        event, rng = mechanism.event, random.generator(seed, f"dplangevin price {adjacency}")
        if not isinstance(event, LangevinDpEvent):
            found = worst.shown(event, options.delta, adjacency, runs, rng)
            return Bound(adjacency, found.epsilon, found.runs, "", found.pair, found.statistic)
        if adjacency != "replace_one":  # the start and the gradients are those of the paper's theorem
            raise ValueError("the attack replaces a record")
        values = langevin.last_iterate(event, runs, rng)
        words = worst.KINDS[LangevinDpEvent].pair, "how often the last iterate is beyond a threshold"
        return Bound(adjacency, audit(*values, options.delta).epsilon, runs, "", *words)

    bounds = []
    for adjacency in neighbours:
        try:
            bounds.append(bound(adjacency))
        except ValueError as error:
            bounds.append(Bound(adjacency, None, runs, str(error).partition("; ")[2] or str(error)))
    return bounds


def shown(
    mechanism: Mechanism,
    options: Options,
    costs: Survey,
    bounds: list[Bound],
    json: bool,
    goal: str = "",
    explain: bool = False,
    extra: Extra = NO_EXTRA,
) -> None:
    """Print the mechanism and its prices, as tables or as a JSON document."""
    if json:
        found = _document(mechanism, options, costs, bounds)
        if extra.tuned is not None:
            found["tuned"] = {"runs": extra.law, **_priced(extra.tuned)}
        if extra.curves:
            found["curve"] = curves.document(extra.curves)
        if extra.no_curve:
            found["no_curve"] = dict(extra.no_curve)
        output.document(found)
        return
    from dplangevin.text import epsilon, number, weak_delta

    if goal:
        output.line(goal, "bold")
    output.line(f"{mechanism.title}; delta {number(options.delta)}.")
    if mechanism.promised is not None:
        promised, name = mechanism.promised
        output.line(f"Its own theorem ({name}) promises epsilon {epsilon(promised)}.")
    if extra.tuned is not None:
        output.line()
        output.line("One run:", "bold")
    _tables(costs, bounds)
    if extra.tuned is not None:
        output.line()
        output.line(f"The best of a random number of runs, {extra.law}:", "bold")
        _tables(extra.tuned, [])
    if extra.curves:
        curves.shown(extra.curves, NEIGHBOURS)
    notes = {
        "Warning": [weak_delta(options.delta, options.records)] if options.records else [],
        "Rounded": [mechanism.rounding],
        "Assumes": [*mechanism.assumptions],
        "Failed conditions: a number that needs one has the status claim": _failed(mechanism, costs),
        "Attacked on the hypotheses of the prices, which may admit more than your problem": [
            f"{NEIGHBOURS[bound.adjacency]}: {bound.pair}; by {bound.statistic}"
            for bound in bounds
            if bound.pair
        ],
        "Tuning": TUNING if extra.tuned is not None else [],
        "No curve": [f"{NEIGHBOURS[each]}: {_in_words(reason)}" for each, reason in extra.no_curve.items()],
        "Not attacked": [
            f"{NEIGHBOURS[bound.adjacency]}: {_in_words(bound.reason)}" for bound in bounds if bound.reason
        ],
    }
    if goal or explain:
        notes["Settings"] = _settings(mechanism)
    if explain:
        notes |= _explained(costs, bounds)
    for title, texts in notes.items():
        if any(texts):
            output.line()
            output.line(title, "bold")
            for text in texts:
                output.line(f"  {text}", indent=4)
    if not explain:
        output.line()
        output.line(
            "--explain adds what each status means, what each number rests on, and which accountants cannot price this."
        )


def _tables(costs: Survey, bounds: list[Bound]) -> None:
    """Print a table of prices and attacks for each neighbour relation."""
    from dplangevin.papers.claims.words import at_least, at_most
    from dplangevin.text import epsilon

    for adjacency, words in NEIGHBOURS.items():
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
            output.line()
            output.line(f"Neighbours: {words} ({MEANING[adjacency]})", "bold")
            output.table(COLUMNS, rows)


def _settings(mechanism: Mechanism) -> list[str]:
    """Return the settings of the mechanism, in one line."""
    listed = [
        f"{name} {value if isinstance(value, str) else format(value, '.6g')}"
        for name, value in mechanism.settings.items()
        if value != ""
    ]
    return [", ".join(listed)] if listed else []


def _explained(costs: Survey, bounds: list[Bound]) -> dict[str, list[str]]:
    """Return the paragraphs that --explain adds, by title."""
    from dplangevin.privacy.survey import ACCOUNTANTS

    printed: set[str] = {row.status for row in costs.prices}
    if any(bound.epsilon is not None for bound in bounds):
        printed |= {"lower bound"}
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


def _failed(mechanism: Mechanism, costs: Survey) -> list[str]:
    """Return the conditions that fail: of the method's own theorem, and of the formulas in the table."""
    own = mechanism.violated
    formulas = [f"{row.name}: {text}" for row in costs.prices for text in row.violated if text not in own]
    return list(dict.fromkeys([*own, *formulas]))


def _times(ratio: float) -> str:
    from dplangevin.text import fixed

    return fixed(ratio, ".2f" if ratio < 100 else ".0f")


def _document(mechanism: Mechanism, options: Options, costs: Survey, bounds: list[Bound]) -> dict[str, Any]:
    promised = mechanism.promised
    return {
        "mechanism": mechanism.title,
        "delta": options.delta,
        "promised": None if promised is None else {"epsilon": promised[0], "by": promised[1]},
        "settings": mechanism.settings,
        "rounding": mechanism.rounding,
        "assumptions": mechanism.assumptions,
        "violated": mechanism.violated,
        **_priced(costs),
        "attacks": [bound._asdict() for bound in bounds],
    }


def _priced(costs: Survey) -> dict[str, Any]:
    return {
        "prices": [{**row._asdict(), "argument": row.argument} for row in costs.prices],
        "refused": [refusal._asdict() for refusal in costs.refusals],
    }
