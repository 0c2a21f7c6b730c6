"""The commands `dplangevin price` and `dplangevin calibrate`.

`price` computes ε of one mechanism by every accountant. `calibrate` finds the least noise for a given ε.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from dplangevin.cli import mechanisms, output
from dplangevin.cli.mechanisms import Mechanism, Options
from dplangevin.cli.options import with_options

if TYPE_CHECKING:
    from dplangevin.privacy.events import Adjacency
    from dplangevin.privacy.survey import Survey

NEIGHBOURS: dict[Adjacency, str] = {"add_remove": "add/remove", "replace_one": "replace-one"}
COLUMNS = (
    output.Column("neighbours"),
    output.Column("accountant"),
    output.Column("epsilon", number=True, style="bold"),
    output.Column("x tight", number=True),
    output.Column("status"),
)
Json = Annotated[bool, typer.Option("--json", help="One JSON document; infinity is the text inf.")]
Attacked = Annotated[
    bool, typer.Option("--attack", help="Also run the mechanism on a worst-case pair: a lower bound.")
]
Runs = Annotated[int, typer.Option(help="Of the attack, on either data set.", min=8)]
Seed = Annotated[int, typer.Option(help="Of the attack.")]
Accountant = Annotated[
    str, typer.Option(help="By which the budget is kept, e.g. tight, rdp, li2019, wang2015, ryffel2022.")
]
Neighbours = Annotated[
    Literal["add_remove", "replace_one"],
    typer.Option(help="Neighbouring data sets: one has a record more, or one record is another."),
]


class Bound(NamedTuple):
    """Lower bound on ε that an attack shows for one neighbour relation.

    Attributes
    ----------
    adjacency : {"add_remove", "replace_one"}
        The neighbour relation.
    epsilon : float or None
        Attack ε (lower bound, 95 %). None: the attack cannot run.
    runs : int
        Runs of the mechanism on either data set.
    reason : str
        Why the attack cannot run.
    """

    adjacency: Adjacency
    epsilon: float | None
    runs: int
    reason: str = ""


@with_options(Options)
def price(
    options: Options,
    attack: Attacked = False,
    attack_runs: Runs = 200_000,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Show what a mechanism costs, by every accountant that can price it."""
    from dplangevin.privacy.survey import survey

    mechanisms.check(options)
    with unlogged() as logged:
        if options.method is not None:
            mechanism = mechanisms.planned(options)
        else:
            steps = mechanisms.gaussian(options)
            mechanisms.needed(options, noise=1.1)
            assert options.noise is not None
            mechanism = steps.mechanism(options.noise)
        costs = survey(mechanism.event, options.delta, mechanism.paper)
        bounds = attacked(mechanism, options, attack_runs, seed) if attack else []
    shown(mechanism, options, costs, bounds, json, logged)


@with_options(Options)
def calibrate(
    options: Options,
    accountant: Accountant = "tight",
    neighbours: Neighbours = "replace_one",
    json: Json = False,
) -> None:
    """Find the least noise that keeps --epsilon, and what it costs by every accountant."""
    from dplangevin.privacy.survey import survey

    mechanisms.check(options)
    with unlogged() as logged:
        mechanism = mechanisms.calibrated(options, accountant, neighbours)
        logged.clear()  # messages about noises that were only tried
        costs = survey(mechanism.event, options.delta, mechanism.paper)
    goal = f"Least noise for epsilon {options.epsilon:g} by {accountant}, {NEIGHBOURS[neighbours]}."
    shown(mechanism, options, costs, [], json, logged, goal)


@contextmanager
def unlogged() -> Iterator[list[str]]:
    """Hide the log of dp_accounting, which it writes to absl's logger, from the screen.

    Yield the list that collects the hidden messages.
    """
    messages: list[str] = []

    def hide(record: logging.LogRecord) -> bool:
        messages.append(record.getMessage())
        return False

    logger = logging.getLogger("absl")
    logger.addFilter(hide)
    try:
        yield messages
    finally:
        logger.removeFilter(hide)


def remarks(messages: list[str]) -> list[str]:
    """Return each hidden log message once, with all orders of a Rényi divergence in one line."""
    orders, others = set[float](), dict[str, None]()
    for text in messages:
        if match := re.search(r"failed to converge.*alpha=(\d+\.\d+)", text):
            orders.add(float(match[1]))
        else:
            others[text] = None
    if orders:
        listed = ", ".join(f"{order:g}" for order in sorted(orders))
        others[
            f"dp_accounting leaves out the Rényi orders {listed}, at which its sum does not converge: its RDP prices "
            "hold, and might be smaller with them"
        ] = None
    return [*others]


def attacked(mechanism: Mechanism, options: Options, runs: int, seed: int) -> list[Bound]:
    """Return attack ε (lower bounds, 95 %) for each neighbour relation.

    The attack may choose any loss that the hypotheses of the prices allow.
    """
    from dp_accounting import DpEvent

    from dplangevin import random
    from dplangevin.attacks import langevin, posterior, sampled
    from dplangevin.attacks.audit import audit
    from dplangevin.privacy.events import LangevinDpEvent, PosteriorSampleDpEvent

    def draw(event: DpEvent, adjacency: Adjacency) -> Any:
        rng = random.generator(seed, f"dplangevin price {adjacency}")
        if isinstance(event, LangevinDpEvent | PosteriorSampleDpEvent):
            if adjacency != "replace_one":
                raise ValueError("the attack replaces a record")
            if isinstance(event, LangevinDpEvent):
                return langevin.last_iterate(event, runs, rng)
            if options.loss != "logistic":
                raise ValueError("the attack on posterior samples is of the logistic loss")
            return posterior.sample(event, runs, rng, delta=options.delta)
        return sampled.all_iterates(event, runs, rng, adjacency)

    bounds = []
    for adjacency in NEIGHBOURS:
        try:
            first, second = draw(mechanism.event, adjacency)
            bounds.append(Bound(adjacency, audit(first, second, options.delta).epsilon, runs))
        except ValueError as error:
            bounds.append(Bound(adjacency, None, runs, str(error).partition("; ")[2] or str(error)))
    return bounds


def shown(
    mechanism: Mechanism,
    options: Options,
    costs: Survey,
    bounds: list[Bound],
    json: bool,
    logged: list[str],
    goal: str = "",
) -> None:
    """Print the mechanism and its prices, as tables or as a JSON document."""
    if json:
        output.document(_document(mechanism, options, costs, bounds) | {"remarks": remarks(logged)})
        return
    from dplangevin.privacy.survey import ACCOUNTANTS
    from dplangevin.text import epsilon, number, short, weak_delta

    if goal:
        output.line(goal, "bold")
    output.line(f"{mechanism.title}; delta {number(options.delta)}.")
    if mechanism.promised is not None:
        promised, name = mechanism.promised
        output.line(f"Promised by its own theorem ({name}): epsilon {epsilon(promised)}.")
    output.line()
    rows = []
    for adjacency, words in NEIGHBOURS.items():
        priced = [row for row in costs.prices if row.adjacency == adjacency]
        tight = priced[0].epsilon if priced and priced[0].status == "tight" else float("nan")
        hidden = {row.scope for row in priced} == {"last iterate", "all iterates"}
        for row in priced:
            name = f"{row.name}, {row.scope}" if hidden and row.scope not in row.name else row.name
            rows.append([words, name, epsilon(row.epsilon), _times(row.ratio), row.status])
        for bound in bounds:
            if bound.adjacency == adjacency and bound.epsilon is not None:
                name = f"attack, {bound.runs:,} runs, 95 %"
                ratio = bound.epsilon / tight if tight > 0 else float("nan")
                rows.append([words, name, f">= {short(bound.epsilon)}", _times(ratio), "lower bound"])
    output.table(COLUMNS, rows)
    arguments = {ACCOUNTANTS[row.key].accountant.name: row.argument for row in costs.prices}
    follows = [
        f"{name} {value if isinstance(value, str) else format(value, '.6g')}"
        for name, value in mechanism.settings.items()
        if value != ""
    ]
    notes = {
        "Warning": [weak_delta(options.delta, options.records)] if options.records else [],
        "Follows": [", ".join(follows)] if follows else [],
        "Assumes": [*mechanism.assumptions],
        "Conditions that fail (of a claim)": _failed(mechanism, costs),
        "Each rests on": [f"{name}: {argument}" for name, argument in arguments.items()],
        "Not priced by": [
            f"{each.name}{f', {NEIGHBOURS[each.adjacency]}' if each.adjacency else ''}: {each.reason}"
            for each in costs.refusals
        ],
        "Not attacked": [
            f"{NEIGHBOURS[bound.adjacency]}: {bound.reason}" for bound in bounds if bound.reason
        ],
        "Remarks": remarks(logged),
    }
    for title, texts in notes.items():
        if any(texts):
            output.line()
            output.line(title, "bold")
            for text in texts:
                output.line(f"  {text}", indent=4)


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
        "assumptions": mechanism.assumptions,
        "violated": mechanism.violated,
        "prices": [{**row._asdict(), "argument": row.argument} for row in costs.prices],
        "refused": [refusal._asdict() for refusal in costs.refusals],
        "attacks": [bound._asdict() for bound in bounds],
    }
