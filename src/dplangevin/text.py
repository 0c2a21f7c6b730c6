"""Numbers and names as text, for tables, captions and the reasons of verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def csv_bytes(frame: pd.DataFrame, digits: int | None = 10) -> bytes:
    """Return a frame as CSV with this many significant digits; None: as many as restore each number exactly."""
    form = None if digits is None else f"%.{digits}g"
    return frame.to_csv(index=False, float_format=form, lineterminator="\n").encode()


def number(value: float) -> str:
    """Return a number as a short text: 1e-05 becomes 1e-5, 0.0001 becomes 1e-4, 10.0 becomes 10."""
    text = f"{value:g}"
    if text.startswith("0.000"):
        digits, _, power = f"{value:.5e}".partition("e")
        text = f"{digits.rstrip('0').rstrip('.')}e{power}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def short(value: float) -> str:
    """Return a number as `number` does, with three significant digits."""
    return number(float(f"{value:.3g}"))


def numbers(values: Iterable[float]) -> str:
    """Return the distinct values in ascending order, as in "1e-5" or "1e-5/1e-4"."""
    return "/".join(number(value) for value in sorted(set(values)))


def setting(value: float) -> str:
    """Return a hyperparameter: whole numbers in full, others with three significant digits."""
    return number(value) if float(value).is_integer() else short(value)


def epsilon(value: float) -> str:
    """Return an epsilon in [0, inf] with three significant digits; an empty text for nan."""
    if math.isnan(value):
        return ""
    return "∞" if math.isinf(value) else short(value)


def percent(share: float) -> str:
    """Return a share in [0, 1] in percent, with two decimals and no percent sign; an empty text for nan."""
    return "" if math.isnan(share) else f"{100 * share:.2f}"


def points(share: float, sign: str = "") -> str:
    """Return a difference of two shares in percentage points; with sign "+" the sign is always shown."""
    return f"{100 * share:{sign}.2f} points"


def fixed(value: float, form: str) -> str:
    """Return a value in the format `form`; an empty text for nan."""
    return "" if math.isnan(value) else format(value, form)


def span(values: Iterable[int]) -> str:
    """Return the smallest and the largest of some counts, as in "10" or "3 to 10"."""
    counts = [*values]
    return " to ".join(str(n) for n in sorted({min(counts), max(counts)}))


def distinct(texts: Iterable[str], separator: str = "; ") -> list[str]:
    """Return the distinct pieces of some texts, in order; `separator` joins the pieces of a text."""
    return [*dict.fromkeys(piece for text in texts for piece in text.split(separator) if piece)]


def meant(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" with the known names that are similar, or "" if there are none."""
    near = get_close_matches(name, sorted(known), n=3, cutoff=0.7)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def weak_delta(delta: float, records: int) -> str:
    """Return a warning about a delta of 1/records or more; an empty text for a smaller delta."""
    if delta * records < 1:
        return ""
    return (
        f"delta {number(delta)} is not below 1/{records}: a method that publishes a record outright, chosen at random, "
        "would meet it"
    )
