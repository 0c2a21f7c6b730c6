"""The cells and lines of the pages' tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from dplangevin.exhibits.style import short


def percent(share: float) -> str:
    """A share in [0, 1] in percent with two decimals; nan is empty."""
    return "" if math.isnan(share) else f"{100 * share:.2f}"


def price(epsilon: float) -> str:
    """An epsilon to three digits; nan is empty."""
    if math.isnan(epsilon):
        return ""
    return "∞" if math.isinf(epsilon) else short(epsilon)


def head(names: Sequence[str], text: int) -> list[str]:
    """Names and alignment of columns, the first `text` of them to the left."""
    return [line(names), line(["---"] * text + ["---:"] * (len(names) - text))]


def line(cells: Iterable[str]) -> str:
    """One row of a table."""
    return f"| {' | '.join(cells)} |"
