"""Sentences whose numbers come from the claims table.

A text has fields such as "{wang2015_ops.ours}", which are replaced by the numbers of that claim. No number of
ours is typed by hand.
"""

from __future__ import annotations

import math
import string
from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from dplangevin.text import short


class Value(float):
    """A number in a sentence, with three significant digits by default.

    The format "points" gives hundredths with their sign. "percent" gives percent. Any format of Python works
    too. nan is written "(not computed)".
    """

    def __format__(self, form: str) -> str:
        if math.isnan(self):
            return "(not computed)"
        if form == "points":
            text = f"{100 * self:+.1f}"
        elif form == "percent":
            text = f"{100 * self:.1f}"
        elif form:
            text = format(float(self), form)
            text = f"{float(text):g}" if "e" in text else text
        else:
            text = short(float(self))
        return text.replace("-", "−", 1) if text.startswith("-") else text


class Row(NamedTuple):
    """The numbers of a claim that a sentence may use."""

    ours: Value
    low: Value
    high: Value


class Unknown(KeyError):
    """The error that a sentence names a claim which the table lacks."""


def named(text: str) -> set[str]:
    """Return the ids of the claims whose numbers are in a text."""
    fields = [field for _, field, _, _ in string.Formatter().parse(text) if field]
    return {field.partition(".")[0] for field in fields}


def filled(text: str, claims: pd.DataFrame) -> str:
    """Return the text with its numbers filled in, on one line.

    Fields are such as "{id.ours}" or "{id.low:points}". `claims` is the table, indexed by id. Raise Unknown
    if it lacks a claim that the text names.
    """
    if absent := sorted(named(text) - set(claims.index)):
        raise Unknown(
            f"no claim {', '.join(absent)}: compare the braces in conf/report with results/claims.csv"
        )
    rows = {name: Row(*map(Value, claims.loc[name, ["ours", "low", "high"]])) for name in named(text)}
    return " ".join(text.format_map(rows).split())


def known(entry: Mapping[str, Any], claims: pd.DataFrame) -> bool:
    """Return whether the table has every claim that an entry of conf/report/findings.yaml names."""
    ids = {entry["quote"], *entry["claims"]}
    return ids.union(*(named(entry[part]) for part in ("title", "sentence", "why"))) <= set(claims.index)
