"""Fill fields such as "{wang2015_ops.ours}" of a sentence from the claims table; write the findings of README.md."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping
from textwrap import TextWrapper
from typing import Any

import pandas as pd

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


class _Numbers(string.Formatter):
    """Write fields such as {id.low:points} with numbers of the claims table, by id; with `linked` the first is a link.

    A number has three significant digits, and a bound on ε is rounded outward. "points" are hundredths with a sign.
    """

    def __init__(self, claims: pd.DataFrame, linked: bool) -> None:
        self.claims, self.linked = claims, linked
        self.seen: set[str] = set()

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        claim, _, column = field_name.partition(".")
        if claim not in self.claims.index:
            raise KeyError(f"no claim {claim}: compare the braces in conf/report with results/claims.csv")
        return (claim, column), claim

    def format_field(self, value: Any, format_spec: str) -> str:
        claim, column = value
        number, row = float(self.claims[column][claim]), self.claims.loc[claim]
        if math.isnan(number):
            text = "(not computed)"
        elif format_spec in ("points", "percent"):
            text = f"{100 * number:{'+' if format_spec == 'points' else ''}.1f}"
        elif format_spec:
            text = format(number, format_spec)
            text = f"{float(text):g}" if "e" in text else text
        elif row.measure in BRACKETS and column != "ours":
            text = (at_most if column == "high" and row.unit == "epsilon" else at_least)(number)
        else:
            text = short(number)
        text = text.replace("-", "−", 1) if text.startswith("-") else text
        if not self.linked or claim in self.seen:
            return text
        self.seen.add(claim)
        return f"[{text}](results/report/{row.paper}.md#{claim})"


def filled(text: str, claims: pd.DataFrame, linked: bool = False) -> str:
    """Return the text on one line with its fields filled; "" if the table lacks a claim, with `linked` a KeyError."""
    try:
        return " ".join(_Numbers(claims, linked).format(text).split())
    except KeyError:
        if linked:
            raise
        return ""


def in_readme(page: str, findings: Mapping[str, Mapping[str, Any]], claims: pd.DataFrame) -> str:
    """Return the text of README.md, in which the findings with a text `readme` stand between `BEGIN` and `END`."""
    wrapper = TextWrapper(WIDTH, subsequent_indent="   ", break_long_words=False, break_on_hyphens=False)
    shown = [entry["readme"] for entry in findings.values() if "readme" in entry]
    texts = [f"{place}. {filled(text, claims, linked=True)}" for place, text in enumerate(shown, 1)]
    before, rest = page.split(f"{BEGIN}\n")  # ValueError, unless there is one line of each
    _, after = rest.split(f"{END}\n")
    return "\n".join([before + BEGIN, *map(wrapper.fill, texts), END, after])
