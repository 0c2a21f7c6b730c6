"""Numbers as text, for tables, captions and the reasons of verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from difflib import get_close_matches


def number(value: float) -> str:
    """A short number: 1e-05 becomes 1e-5, 0.0001 becomes 1e-4, 10.0 becomes 10."""
    text = f"{value:g}"
    if text.startswith("0.000"):
        digits, _, power = f"{value:.5e}".partition("e")
        text = f"{digits.rstrip('0').rstrip('.')}e{power}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def short(value: float) -> str:
    """As `number`, to three significant digits."""
    return number(float(f"{value:.3g}"))


def numbers(values: Iterable[float]) -> str:
    """The distinct values in ascending order: "1e-5", or "1e-5/1e-4"."""
    return "/".join(number(value) for value in sorted(set(values)))


def setting(value: float) -> str:
    """A hyperparameter: whole numbers as they are, others to three digits."""
    return number(value) if float(value).is_integer() else short(value)


def epsilon(value: float) -> str:
    """An epsilon in [0, inf] to three digits; nan is empty."""
    if math.isnan(value):
        return ""
    return "∞" if math.isinf(value) else short(value)


def percent(share: float) -> str:
    """A share in [0, 1] in percent with two decimals, without the sign; nan is empty."""
    return "" if math.isnan(share) else f"{100 * share:.2f}"


def points(share: float, sign: str = "") -> str:
    """A difference of two shares; sign "+" to show it always."""
    return f"{100 * share:{sign}.2f} points"


def fixed(value: float, form: str) -> str:
    """A value in the format `form`; nan is empty."""
    return "" if math.isnan(value) else format(value, form)


def span(values: Iterable[int]) -> str:
    """The smallest and the largest of some counts: "10", or "3 to 10"."""
    counts = [*values]
    return " to ".join(str(n) for n in sorted({min(counts), max(counts)}))


def distinct(texts: Iterable[str], separator: str = "; ") -> list[str]:
    """The distinct pieces, in order, of texts that join theirs by `separator`."""
    return [*dict.fromkeys(piece for text in texts for piece in text.split(separator) if piece)]


def meant(name: str, known: Iterable[str]) -> str:
    """ "; did you mean ...?" with the names that are nearest, "" where none is near."""
    near = get_close_matches(name, sorted(known), n=3, cutoff=0.7)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def weak_delta(delta: float, records: int) -> str:
    """What a delta of 1/records or more allows; empty for a smaller one."""
    if delta * records < 1:
        return ""
    return (
        f"delta {number(delta)} is not below 1/{records}: a method that publishes a record outright, chosen at random, "
        "would meet it"
    )
