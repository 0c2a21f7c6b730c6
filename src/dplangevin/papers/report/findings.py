"""Sentences whose numbers come from the claims table, and the findings of README.md that consist of them.

A text has fields such as "{wang2015_ops.ours}", which are replaced by the numbers of that claim. No number of
ours is typed by hand.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Mapping
from textwrap import TextWrapper
from typing import Any, NamedTuple

import pandas as pd

from dplangevin.files import between
from dplangevin.papers.claims.verdicts import BRACKETS
from dplangevin.reporting.words import at_least, at_most
from dplangevin.text import short

TEXTS = ("title", "claimed", "sentence", "certainty", "consequence", "why")  # of a finding, in conf/report
LABELS = {  # text -> its label in the report
    "claimed": "Claimed",
    "sentence": "Measured",
    "certainty": "How certain",
    "consequence": "What follows",
}
BEGIN = "<!-- findings: written by `python pipelines/report.py readme` from conf/report/findings.yaml -->"
END = "<!-- end of findings -->"
WIDTH = 130  # characters in a line of README.md


class Value(float):
    """A number in a sentence, with three significant digits by default; bounds on ε are rounded outward.

    The format "points" gives hundredths with their sign. "percent" gives percent. Any format of Python works
    too. nan is written "(not computed)".

    - `links`: Id of a claim -> its address. The first number of a claim takes it.
    """

    shown: Callable[[float], str] = staticmethod(short)
    claim: str
    links: dict[str, str]

    def __format__(self, form: str) -> str:
        if math.isnan(self):
            text = "(not computed)"
        elif form == "points":
            text = f"{100 * self:+.1f}"
        elif form == "percent":
            text = f"{100 * self:.1f}"
        elif form:
            text = format(float(self), form)
            text = f"{float(text):g}" if "e" in text else text
        else:
            text = self.shown(float(self))
        text = text.replace("-", "−", 1) if text.startswith("-") else text
        address = self.links.pop(self.claim, "")
        return f"[{text}]({address})" if address else text


class Row(NamedTuple):
    """The numbers of a claim that a sentence may use."""

    ours: Value
    low: Value
    high: Value


def named(text: str) -> set[str]:
    """Return the ids of the claims whose numbers are in a text."""
    fields = [field for _, field, _, _ in string.Formatter().parse(text) if field]
    return {field.partition(".")[0] for field in fields}


def filled(text: str, claims: pd.DataFrame, linked: bool = False) -> str:
    """Return the text on one line with fields such as "{id.ours}" or "{id.low:points}" filled from the table by id.

    With `linked`, the first number of each claim links to it in the report.
    """
    if absent := sorted(named(text) - set(claims.index)):
        raise ValueError(
            f"no claim {', '.join(absent)}: compare the braces in conf/report with results/claims.csv"
        )
    addresses = {name: f"results/report/{name.partition('_')[0]}.md#{name}" for name in named(text)}
    rows = {name: Row(*(Value(claims[column][name]) for column in Row._fields)) for name in addresses}
    for name, row in rows.items():
        for value in row:
            value.claim, value.links = name, addresses if linked else {}
        if claims.measure[name] in BRACKETS:
            row.low.shown, row.high.shown = at_least, at_most if claims.unit[name] == "epsilon" else at_least
    return " ".join(text.format_map(rows).split())


def in_readme(page: str, findings: Mapping[str, Mapping[str, Any]], claims: pd.DataFrame) -> str:
    """Return the text of README.md, in which the findings with a text `readme` stand between `BEGIN` and `END`."""
    wrapper = TextWrapper(WIDTH, subsequent_indent="   ", break_long_words=False, break_on_hyphens=False)
    shown = [entry["readme"] for entry in findings.values() if "readme" in entry]
    texts = [f"{place}. {filled(text, claims, linked=True)}" for place, text in enumerate(shown, 1)]
    return between(page, BEGIN, END, map(wrapper.fill, texts))
