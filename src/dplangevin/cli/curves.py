"""The whole curve of a mechanism for `dplangevin price --curve`: epsilon(delta), and what attacks can reach."""

from __future__ import annotations

from collections.abc import Mapping
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
    "Advantage: the largest TPR - FPR."
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


def printed(documents: Mapping[str, Mapping[str, Any]]) -> None:
    """Print epsilon(delta), TPR at some FPR, and the advantage."""
    output.title("The whole curve: epsilon at delta, and what an attack can reach")
    rows = [[f"epsilon at delta {number(delta)}"] for delta in DELTAS]
    rows += [[f"TPR at FPR {number(rate)}"] for rate in RATES] + [["advantage"]]
    for each in documents.values():
        texts = [epsilon(point["epsilon"]) for point in each["epsilon"]]
        texts += [short(point["tpr"]) for point in each["attack"]] + [short(each["advantage"])]
        for row, text in zip(rows, texts, strict=True):
            row.append(text)
    output.table(
        [output.Column(""), *(output.Column(NEIGHBOURS[name], number=True) for name in documents)], rows
    )
    output.line(MEANING)
    for adjacency, each in documents.items():
        output.line(f"Curve for {NEIGHBOURS[adjacency]}: {each['source']}.")


def write(path: Path, found: Mapping[Adjacency, Curve]) -> None:
    """Write the points of the curves as CSV: epsilon over delta, and TPR over FPR."""
    import numpy as np
    import pandas as pd

    rates = np.concatenate([[0.0], np.geomspace(1e-6, 0.01, 81), np.linspace(0.01, 1, 100)[1:]])
    rows = []
    for neighbours, curve in found.items():
        for name, x, y in (
            ("epsilon at delta", curve.delta, curve.epsilon),
            ("TPR at FPR", rates, curve.power(rates)),
        ):
            rows.append(pd.DataFrame({"neighbours": neighbours, "curve": name, "x": x, "y": y}))
    with atomic_path(path) as part:
        part.write_bytes(pd.concat(rows).to_csv(index=False).encode())
