"""What a verdict's reason says about a comparison: points, counts, failed conditions, neighbours."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dplangevin.comparison import Comparison
from dplangevin.exhibits.style import number

DIVERGED = "chains diverged"  # in the column violated


def points(axis: str, gap: pd.DataFrame) -> str:
    """What the columns of a paired difference are."""
    if axis == "asked":
        return "budgets"
    low, high = np.exp([gap.columns.min(), gap.columns.max()])
    return f"points of equal audited epsilon in [{low:.3g}, {high:.3g}] (linear interpolation in ln eps)"


def counts(found: Comparison, bar: float) -> str:
    """At how many points the difference alone is significantly above or below the bar."""

    def at(those: list[float]) -> str:
        if len(those) in (0, found.points):
            return "all" if those else "none"
        if len(those) > 6:
            return f"{len(those)}, between eps {min(those):.2g} and {max(those):.2g}"
        return f"{len(those)} (eps {', '.join(f'{e:.2g}' for e in those)})"

    return (
        f"above {number(bar + 0.0)} with 95 % confidence at {at(found.above)}, below it at {at(found.below)}"
    )


def violations(*sides: pd.DataFrame) -> str:
    """Says how many budgets of each side violate a condition of its guarantee."""
    text = ""
    for rows in sides:
        diverged = rows.violated.str.contains(DIVERGED)
        failed = rows.violated.str.split("; ").map(lambda notes: any(n and DIVERGED not in n for n in notes))
        for what, kept in (
            ("violates a condition of its guarantee", failed),
            ("has diverged chains", diverged),
        ):
            if n := rows[kept].epsilon.nunique():
                text += f"; {rows.method.iloc[0]} {what} at {n} of its budgets"
    return text


def neighbours(*sides: pd.DataFrame) -> str:
    """Says so where the budgets of two methods are for different neighbours."""
    kinds = {rows.method.iloc[0]: rows.adjacency.iloc[0] for rows in sides if np.isfinite(rows.epsilon).any()}
    if len(set(kinds.values())) < 2:
        return ""
    return "; budgets for different neighbours: " + ", ".join(
        f"{name} {kind}" for name, kind in kinds.items()
    )
