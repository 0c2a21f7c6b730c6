"""The whole curve of a mechanism for `dplangevin price --curve`: epsilon(delta), and what attacks can reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dplangevin.cli import output
from dplangevin.files import atomic_path
from dplangevin.reporting.words import NEIGHBOURS
from dplangevin.text import epsilon, number, short

if TYPE_CHECKING:
    from dplangevin.privacy.curve import Curve
    from dplangevin.privacy.events import Adjacency

DELTAS = tuple(10.0**-k for k in range(2, 13))
RATES = (0.001, 0.01, 0.1, 0.25, 0.5)  # false positive rates
MEANING = (
    "TPR: the most that an attack on one record can have at this false positive rate (FPR), in either direction. "
    "FNR is 1 - TPR. Advantage: the largest TPR - FPR."
)


@dataclass(frozen=True)
class Traced:
    """The proven curve of a mechanism for one neighbour relation."""

    epsilons: tuple[float, ...]  # at each of DELTAS
    curve: Curve
    source: str  # the argument that proves the curve


def traced(
    event: Any, neighbours: Sequence[Adjacency]
) -> tuple[dict[Adjacency, Traced], dict[Adjacency, str]]:
    """Return the curve for each neighbour relation that has a proof, and why the others have none."""
    from dplangevin.privacy.accountants.tight import Tight
    from dplangevin.privacy.curve import Curve

    found, refused = {}, {}
    for adjacency in neighbours:

        @cache
        def price(delta: float, adjacency: Adjacency = adjacency) -> float:
            return Tight().epsilon(event, delta, adjacency)

        try:
            source = Tight().price(event, DELTAS[4], adjacency).accountant
            epsilons = tuple(price(delta) for delta in DELTAS)
            found[adjacency] = Traced(epsilons, Curve.of(price), source)
        except ValueError as error:
            refused[adjacency] = output.reason(error)
    return found, refused


def shown(found: Mapping[Adjacency, Traced]) -> None:
    """Print epsilon(delta), TPR and FNR at some FPR, and the advantage."""

    def columns(first: str, *kinds: str) -> list[output.Column]:
        names = [f"{kind} {NEIGHBOURS[each]}".strip() for each in found for kind in kinds]
        return [output.Column(first), *(output.Column(name, number=True) for name in names)]

    output.title("epsilon at delta")
    rows = [
        [number(delta), *(epsilon(each.epsilons[i]) for each in found.values())]
        for i, delta in enumerate(DELTAS)
    ]
    output.table(columns("delta", ""), rows)
    output.title("Trade-off: what an attack can reach")
    rows = []
    for rate in RATES:
        powers = [float(each.curve.power(rate)) for each in found.values()]
        rows.append(
            [f"FPR {number(rate)}", *(short(each) for power in powers for each in (power, 1 - power))]
        )
    advantages = [text for each in found.values() for text in (short(each.curve.advantage), "")]
    output.table(columns("", "TPR", "FNR"), [*rows, ["advantage", *advantages]])
    output.line(MEANING)
    for adjacency, each in found.items():
        output.line(f"Curve for {NEIGHBOURS[adjacency]}: {each.source}.")


def document(found: Mapping[Adjacency, Traced]) -> dict[str, Any]:
    """Return the curves as plain values."""
    return {
        adjacency: {
            "source": each.source,
            "epsilon": [{"delta": d, "epsilon": e} for d, e in zip(DELTAS, each.epsilons, strict=True)],
            "attack": [
                {"fpr": rate, "tpr": (power := float(each.curve.power(rate))), "fnr": 1 - power}
                for rate in RATES
            ],
            "advantage": each.curve.advantage,
        }
        for adjacency, each in found.items()
    }


def write(path: Path, found: Mapping[Adjacency, Traced]) -> None:
    """Write the points of the curves as CSV: epsilon over delta, and TPR over FPR."""
    import numpy as np
    import pandas as pd

    rates = np.concatenate([[0.0], np.geomspace(1e-6, 0.01, 81), np.linspace(0.01, 1, 100)[1:]])
    rows = [
        {"neighbours": adjacency, "curve": name, "x": x, "y": y}
        for adjacency, each in found.items()
        for name, pairs in {
            "epsilon at delta": zip(each.curve.delta, each.curve.epsilon, strict=True),
            "TPR at FPR": zip(rates, each.curve.power(rates), strict=True),
        }.items()
        for x, y in pairs
    ]
    with atomic_path(path) as part:
        part.write_bytes(pd.DataFrame(rows).to_csv(index=False).encode())
