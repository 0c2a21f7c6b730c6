"""The whole curve of a mechanism for `dplangevin price --curve`: epsilon(delta), and what attacks can reach."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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


class Traced(NamedTuple):
    """The proven curve of a mechanism for one neighbour relation."""

    epsilons: tuple[float, ...]  # at each of DELTAS
    curve: Curve
    source: str  # the argument that proves the curve


def traced(event: Any, adjacency: Adjacency) -> Traced:
    """Return the curve, or raise ValueError where there is no proof."""
    from dplangevin.privacy.accountants.tight import Tight
    from dplangevin.privacy.curve import Curve

    price = cache(lambda delta: Tight().epsilon(event, delta, adjacency))
    source = Tight().price(event, DELTAS[4], adjacency).accountant
    return Traced(tuple(map(price, DELTAS)), Curve.of(price), source)


def document(traced: Traced) -> dict[str, Any]:
    """Return the curve as plain values."""
    powers = [float(traced.curve.power(rate)) for rate in RATES]
    return {
        "source": traced.source,
        "epsilon": [{"delta": d, "epsilon": e} for d, e in zip(DELTAS, traced.epsilons, strict=True)],
        "attack": [
            {"fpr": rate, "tpr": tpr, "fnr": 1 - tpr} for rate, tpr in zip(RATES, powers, strict=True)
        ],
        "advantage": traced.curve.advantage,
    }


def printed(documents: Mapping[str, Mapping[str, Any]]) -> None:
    """Print epsilon(delta), TPR and FNR at some FPR, and the advantage."""

    def columns(first: str, *kinds: str) -> list[output.Column]:
        names = [f"{kind} {NEIGHBOURS[each]}".strip() for each in documents for kind in kinds]
        return [output.Column(first), *(output.Column(name, number=True) for name in names)]

    of = documents.values()
    costs = zip(*(each["epsilon"] for each in of), strict=True)
    output.title("epsilon at delta")
    output.table(
        columns("delta", ""),
        [[number(row[0]["delta"]), *(epsilon(each["epsilon"]) for each in row)] for row in costs],
    )
    output.title("Trade-off: what an attack can reach")
    rows = [
        [f"FPR {number(row[0]['fpr'])}", *(short(each[rate]) for each in row for rate in ("tpr", "fnr"))]
        for row in zip(*(each["attack"] for each in of), strict=True)
    ]
    advantages = [text for each in of for text in (short(each["advantage"]), "")]
    output.table(columns("", "TPR", "FNR"), [*rows, ["advantage", *advantages]])
    output.line(MEANING)
    for adjacency, each in documents.items():
        output.line(f"Curve for {NEIGHBOURS[adjacency]}: {each['source']}.")


def write(path: Path, found: Mapping[Adjacency, Traced]) -> None:
    """Write the points of the curves as CSV: epsilon over delta, and TPR over FPR."""
    import numpy as np
    import pandas as pd

    rates = np.concatenate([[0.0], np.geomspace(1e-6, 0.01, 81), np.linspace(0.01, 1, 100)[1:]])
    rows = [
        {"neighbours": adjacency, "curve": name, "x": x, "y": y}
        for adjacency, each in found.items()
        for name, xs, ys in (
            ("epsilon at delta", each.curve.delta, each.curve.epsilon),
            ("TPR at FPR", rates, each.curve.power(rates)),
        )
        for x, y in zip(xs, ys, strict=True)
    ]
    with atomic_path(path) as part:
        part.write_bytes(pd.DataFrame(rows).to_csv(index=False).encode())
