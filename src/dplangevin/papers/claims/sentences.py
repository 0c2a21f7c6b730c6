"""The result of a claim as one sentence: our number, its certainty, and what the claim asks for."""

from __future__ import annotations

import math
import re

import pandas as pd

from dplangevin.papers.claims import verdicts
from dplangevin.reporting.words import at_least, at_most
from dplangevin.text import number

UNITS = {"epsilon": "ε", "beta": "β", "exponent alpha": "exponent α"}  # columns of the table -> words
COUNTABLE = (
    "records", "features", "digits", "relaxation times", "data passes", "posterior standard deviations", "points",
)  # fmt: skip


def sentence(row: pd.Series) -> str:
    """Return our number, its certainty and what the claim asks for; without a number, the reason's first clause."""
    if pd.isna(row.ours) and row.measure not in verdicts.BRACKETS:
        return f"{capital(tidy(row.reason).split('; ')[0])}."
    asks = _asks(row)
    said = f"{capital(_measured(row))}{f'; {asks}' if asks else ''}."
    if row.reason.startswith(verdicts.NOT_BY_DEFAULT):
        said += " With the default choice it is not shown."
    return said


def _measured(row: pd.Series) -> str:
    spread = _span(row, *(end for end in (row.low, row.high) if pd.notna(end)))
    if row.measure in verdicts.BRACKETS:
        return _bounds(row)
    if row.measure == verdicts.EXACT:
        return f"exact computation gives {_quantity(row, spread or _amount(row, row.ours))}"
    certainty = "one value, without an interval"
    if row.measure == verdicts.RANGE:
        certainty = f"range, no interval: {spread}"
    elif row.measure in (verdicts.INTERVAL, verdicts.ONE_SPLIT):
        certainty = f"95 % interval {spread.removesuffix(' points').removesuffix(' %')}"
        certainty += ", corrected for the settings tried" * row.reason.startswith(verdicts.NOT_BY_DEFAULT)
        certainty += ", over seeds on one split" * (row.measure == verdicts.ONE_SPLIT)
    return f"we find {_quantity(row, _amount(row, row.ours))} ({certainty})"


def _bounds(row: pd.Series) -> str:
    attacks = row.unit != "epsilon" and row.ours != row.high  # else what is proven is an upper bound
    low, high = at_least(row.low), (at_least if attacks else at_most)(row.high)
    if attacks:
        return f"attacks (95 % confidence) show {_quantity(row, f'{low} to {high}')}"
    name = "ε" if row.unit == "epsilon" else f"the {row.unit}"
    how = "exact for one pair of data sets" if row.measure == verdicts.PAIR else "attack, 95 % confidence"
    if pd.isna(row.low):
        return f"{name} is at most {high} (proof)"
    if pd.isna(row.high):
        return f"{name} is at least {low} ({how}), and no proof bounds it"
    to = f" to {reference}" if (reference := _reference(row)) else ""
    return f"{name}{to} lies between {low} ({how}) and {high} (proof)"


def _asks(row: pd.Series) -> str:
    low, high = row.asked_low, row.asked_high
    if pd.isna(low) or _reference(row):
        return ""
    if low == high:
        return f"the paper says {_amount(row, low)}"
    if math.isinf(low):
        return f"the claim allows at most {_amount(row, high)}"
    if math.isinf(high):
        return f"the claim asks for {f'at least {_amount(row, low)}' if low else 'more than 0'}"
    return f"the claim asks for {_span(row, low, high)}"


def _reference(row: pd.Series) -> str:
    """Return what our number is a multiple of, in words, if it is our value over the value of the claim; else ""."""
    low, high = row.asked_low, row.asked_high
    if row.unit != "ratio" or 1 not in (low, high):
        return ""
    if low == high:
        return "the printed value"
    if high == 1 and low <= 0:
        return "the bound that the claim states"
    return "the least that the claim asks for" if math.isinf(high) else ""


def _quantity(row: pd.Series, amount: str) -> str:
    """Return a number with what it measures, such as "4,177 records" or "a ratio of 1.2"."""
    if row.unit == "accuracy":
        return f"{amount} of accuracy" if _difference(row) else f"an accuracy of {amount}"
    if reference := _reference(row):
        return f"{amount} times {reference}"
    name = UNITS.get(row.unit, row.unit)
    if row.unit in COUNTABLE:
        return f"{amount} {name}"
    if not name or not name[0].isascii() or not name[0].isalpha():
        return f"{name} = {amount}" if name else amount
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name} of {amount}"


def _span(row: pd.Series, *values: float) -> str:
    """Return the distinct values joined by "to", with the unit of an accuracy once."""
    texts = [*dict.fromkeys(_amount(row, value) for value in values)]
    unit = next((unit for unit in (" points", " %") if texts and texts[-1].endswith(unit)), "")
    return " to ".join([*(text.removesuffix(unit) for text in texts[:-1]), *texts[-1:]])


def _amount(row: pd.Series, value: float) -> str:
    if row.unit == "accuracy" and math.isfinite(value):
        text = f"{100 * value:+.2f} points" if _difference(row) else f"{100 * value:.2f} %"
        return text.replace("-", "−")
    if math.isfinite(value) and 1000 <= abs(value) < 1e6:
        return f"{value:,.0f}".replace("-", "−")
    return digits(value if row.measure == verdicts.EXACT else float(f"{value:.3g}"))


def _difference(row: pd.Series) -> bool:
    """Return whether a row compares two accuracies; what such a row asks for is near 0."""
    return bool(abs(row.asked_low) < 0.2)


def digits(value: float) -> str:
    """Return whole numbers as they are and others to four digits, with a typographic minus sign."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.0f}" if value % 1 == 0 and abs(value) < 1e6 else number(float(f"{value:.4g}"))
    return text.replace("-", "−", 1) if text.startswith("-") else text


def tidy(text: str) -> str:
    """Return the text on one line without a full stop at its end."""
    return " ".join(str(text).split()).rstrip(".")


def capital(text: str) -> str:
    """Return the text with a capital first letter if it begins with a word of two letters or more."""
    return text[0].upper() + text[1:] if re.match(r"[a-z]{2,}\b", text) else text
