"""Sentences whose numbers are those of the claims table: "{wang2015_ops.ours}" is filled in, nothing is typed."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from dplangevin.text import short


class Value(float):
    """A number in a sentence: three significant digits; "points" in hundredths with its sign, "percent" in percent, or
    any format of Python."""

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
    """What a sentence may name of a claim."""

    ours: Value
    low: Value
    high: Value


class Unknown(KeyError):
    """A sentence names a claim that the table does not have."""


def named(text: str) -> set[str]:
    """The claims whose numbers are in a text."""
    fields = [field for _, field, _, _ in string.Formatter().parse(text) if field]
    return {field.partition(".")[0] for field in fields}


def filled(text: str, claims: pd.DataFrame) -> str:
    """The text with its numbers. claims: the table, by id. Raises Unknown for a claim that is not in it."""
    if absent := sorted(named(text) - set(claims.index)):
        raise Unknown(
            f"no claim {', '.join(absent)}: compare the braces in conf/report with results/claims.csv"
        )
    rows = {name: Row(*map(Value, claims.loc[name, ["ours", "low", "high"]])) for name in named(text)}
    return " ".join(text.format_map(rows).split())


def known(entry: Mapping[str, Any], claims: pd.DataFrame) -> bool:
    """Whether the table has every claim that a finding of conf/report/findings.yaml names."""
    ids = {entry["quote"], *entry["claims"], *entry["figure"].get("claims", ())}
    return ids.union(*(named(entry[part]) for part in ("title", "sentence", "why"))) <= set(claims.index)
