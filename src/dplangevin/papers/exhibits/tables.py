"""Markdown pages, and the numbers of trained networks over seeds, as conf/exhibit describes them."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from dplangevin.papers.statistics import finite_interval, matches, seed_summaries, sort_by
from dplangevin.reporting.words import NEIGHBOURS, at_least, at_most, look
from dplangevin.text import distinct, epsilon, number, numbers, percent, setting, short

Text = str | Sequence[str]  # a text with fields, or texts of which those with an empty field are left out
Cell = Callable[[Any], str]  # a row of a frame -> text
Part = Mapping[str, Any]  # of a page


def method_label(name: str) -> str:
    """Return the label of a method, with what its name says after the first word."""
    method, _, rest = name.partition(" ")
    return f"{look(method).label}, {rest}" if rest else look(method).label


def _span(values: pd.Series, text: Callable[[float], str] = number) -> str:
    return " to ".join(map(text, sorted({values.min(), values.max()})))


FORMATS: dict[str, Callable[[Any], str]] = {
    "number": number,
    "short": short,
    "setting": lambda value: setting(value) if math.isfinite(value) else "",
    "percent": percent,
    "percent_0": lambda share: f"{100 * share:.0f}",
    "percent_1": lambda share: f"{100 * share:.1f}",
    "power": lambda value: re.sub(r"e([+-])0*", r"e\1", f"{value:.1e}").replace("e+", "e"),
    "epsilon": epsilon,
    "at_least": at_least,
    "at_most": at_most,
    "budget": lambda value: at_most(value) if math.isfinite(value) else "none",
    "method": method_label,
    "features": lambda name: look(name, "features").label,
    "network": lambda name: look(name, "network").label,
    "neighbours": NEIGHBOURS.__getitem__,
    "seeds": lambda seeds: {0: "diverged", 1: "1 seed"}.get(seeds, str(seeds)),
    "few": lambda seeds: {0: "diverged", 1: "1 seed"}.get(seeds, ""),
    "mark": lambda violated: "†" if "".join(violated) else "",
    # of a whole column
    "span": _span,
    "shorts": lambda values: _span(values, short),
    "percents": lambda shares: f"{short(100 * shares.min())} to {short(100 * shares.max())} %",
    "numbers": numbers,
    "listed": lambda texts: "; ".join(distinct(texts)),
}
WHOLE = ("span", "shorts", "percents", "numbers", "listed", "mark")


class _Text(string.Formatter):
    """A formatter with FORMATS. It writes nan as "", and of a column the first value, or all by a format of WHOLE."""

    complete = True  # no field was empty

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, pd.Series) and format_spec not in WHOLE:
            value = next(iter(value.dropna()), math.nan)
        form = FORMATS.get(format_spec, lambda value: format(value, format_spec))
        text = "" if isinstance(value, float) and math.isnan(value) else form(value)
        self.complete &= bool(text)
        return text


def fill(text: Text, of: Any, between: str = "") -> str:
    """Return a text of `conf/exhibit` with its fields filled from a row (Series), or from the columns of a frame."""
    if isinstance(text, str):
        return _Text().vformat(text, (), of)
    forms = [(form := _Text(), form.vformat(each, (), of)) for each in text]
    return between.join(filled for form, filled in forms if form.complete)


def table(columns: Sequence[str], rows: Iterable[Iterable[str]], left: int | None = None) -> list[str]:
    """Return the lines of a Markdown table; the first `left` columns are aligned to the left, if it is not None."""
    rule = f"|{'|'.join(['---'] * len(columns))}|"
    if left is not None:
        rule = f"| {' | '.join(['---'] * left + ['---:'] * (len(columns) - left))} |"
    head, *body = (f"| {' | '.join(cells)} |" for cells in [columns, *rows])
    return [head, rule, *body]


def crossed(rows: pd.DataFrame, by: Mapping[str, Cell], across: Cell, text: Cell) -> list[str]:
    """Return a Markdown table with a line for each value of the cells `by`, and a column for each of `across`."""
    names, lines = dict[str, None](), dict[tuple[str, ...], dict[str, str]]()
    for _, row in rows.iterrows():
        line = lines.setdefault(tuple(cell(row) for cell in by.values()), {})
        names[across(row)] = None
        line.setdefault(across(row), text(row))
    cells = [[*key, *(line.get(name, "") for name in names)] for key, line in lines.items()]
    return table([*by, *names], cells, left=1)


def page(frame: pd.DataFrame, *, parts: Sequence[Part], title: str = "") -> str:
    """Return a Markdown page of `parts`. Each takes its rows from the frame, and is left out if there are none.

    A part has arguments of `prepared`, `where` or `query`, and one of `text` (a paragraph), `columns` (a table with a
    line for each row: heading -> text; `left`, `optional`), `crossed` (a table of this text, `by` and `across`), `each`
    (a line for each row, or group of the column `by`) and `headings` (value of `by` -> heading of its `parts`).
    """
    return "\n\n".join([f"# {title}", *filter(None, _blocks(frame, parts))]) + "\n"


def _blocks(frame: pd.DataFrame, parts: Sequence[Part]) -> Iterator[str]:
    for part in parts:
        rows = chosen(prepared(frame, **{key: part[key] for key in PREPARED if key in part}), part)
        if rows.empty:
            continue
        if "headings" in part:
            for value, heading in part["headings"].items():
                if len(block := rows[rows[part["by"]].eq(value)]):
                    yield from (f"## {heading}", *_blocks(block, part["parts"]))
        elif "columns" in part:
            columns = cells(part["columns"])
            for name in part.get("optional", ()):
                if not any(columns[name](row) for _, row in rows.iterrows()):
                    del columns[name]
            lines = [[text(row) for text in columns.values()] for _, row in rows.iterrows()]
            yield "\n".join(table([*columns], lines, part.get("left")))
        elif "crossed" in part:
            across, text = (partial(fill, part[key]) for key in ("across", "crossed"))
            yield "\n".join(crossed(rows, cells(part["by"]), across, text))
        elif "each" in part:
            of = rows.groupby(part["by"], sort=False) if "by" in part else rows.iterrows()
            yield "\n".join(fill(part["each"], each, "\n") for _, each in of)
        else:
            yield fill(part["text"], rows, "\n")


def cells(columns: Mapping[str, Text]) -> dict[str, Cell]:
    """Return the cells whose texts `fill` fills."""
    return {heading: partial(fill, text, between=", ") for heading, text in columns.items()}


PREPARED = ("numbers", "assign", "join", "names", "sort")


def prepared(
    frame: pd.DataFrame, *, numbers: Callable[[pd.DataFrame], pd.DataFrame] | None = None,
    assign: Mapping[str, Any] | None = None, join: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    names: Mapping[str, Mapping[Any, str]] | None = None, sort: Mapping[str, Sequence[Any]] | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Return the rows that `numbers` makes, with columns by the formulas of `assign` (`DataFrame.eval`).

    `join`: column -> its values -> further columns. `names`: column -> its values -> what stands for them. `sort`:
    column -> order of its values; an empty one sorts by the values themselves.
    """
    frame = numbers(frame) if numbers else frame
    formulas: dict[str, Any] = {name: frame.eval(formula) for name, formula in (assign or {}).items()}
    frame = frame.assign(**formulas)
    for column, more in (join or {}).items():
        frame = frame.join(pd.DataFrame.from_dict({**more}, orient="index"), on=column)
    frame = frame.replace({name: dict(texts) for name, texts in (names or {}).items()})
    return sort_by(frame, **sort) if sort else frame


def chosen(frame: pd.DataFrame, of: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows that `where` and `query` of a part, a panel or a mark choose."""
    rows = frame[matches(frame, of.get("where", {}))]
    return rows.query(of["query"]) if "query" in of else rows


def with_problem_variants(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the variant of a problem added to its name, such as "gan labels=public"."""
    variant = frame.variant.str.removeprefix("problem.")
    return frame.assign(problem=(frame.problem + " " + variant).str.strip())


def over_seeds(
    frame: pd.DataFrame, *, keys: Sequence[str], columns: Sequence[str] = (), query: str = "",
    scores: Mapping[str, str] | None = None, intervals: Sequence[str] = (), labels: Mapping[str, str] | None = None,
    published: Sequence[Mapping[str, Any]] = (), assign: Mapping[str, Any] | None = None,
    sort: Mapping[str, Sequence[Any]] | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Return one row for each setting (its `keys`) of `read.read_seeds`, with published numbers beside ours.

    A row has `scores` (column -> aggregate), means of `intervals` with their limits, and else what the first seed has.
    `labels`: run -> label. `published`: {where, column: printed number}. `columns`: those of the table.
    """
    frame = with_problem_variants(frame)
    rows = []
    for row, group in seed_summaries(frame.query(query) if query else frame, keys):
        row |= {name: group[name].agg(how) for name, how in (scores or {}).items() if name in group}
        for name in (name for name in intervals if name in group):
            score = finite_interval(group[name])
            row |= {name: score.mean, f"{name}_low": score.low, f"{name}_high": score.high}
        rows.append({**group.iloc[0], **row})
    table = pd.DataFrame(rows)
    table["label"] = [
        (labels or {}).get(run, look(of, "network").label) for run, of in table[["run", "method"]].values
    ]
    for printed in published:
        for name, value in [*printed.items()][1:]:
            if name not in table:
                table[name] = "" if isinstance(value, str) else math.nan
            table.loc[matches(table, printed["where"]), name] = value
    table = prepared(table, assign=assign, sort=sort)
    return table[[name for name in columns if name in table]] if columns else table
