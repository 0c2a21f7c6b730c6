"""Two kinds of figure, `lines` and `dots`. An entry of `conf/exhibit` says what they draw of a tidy frame.

They draw marks. A mark is a mapping of

- `where`: column -> value or list of values of the rows that it shows (default: all), or `query` for `DataFrame.query`;
- `label`: its entry in the legend (none without a label); `optional`: true if it may have no rows;
- `method` (name in `words.LOOKS`; `data` after its colon) or `price` (name in `words.PRICES`), and any of `colour`,
  `marker`, `line`, `size`, `width`, `hollow` (false: `violated` is not about the number);
- `x`, `y`, `low`, `high`: columns, where they differ from those of the panel; `order`: that which orders a line (x);
- `write`: offset in points at which the value is written, in `format` (of `tables.FORMATS`; default: short);
- `end`: offset in points at which `lines` writes the label at the last point, in place of the legend (null: nowhere);
- `shift`: how far below the middle of its row `dots` draws, as a share of the row;
- `level`: if True, each y is a line across the panel, with a band from `low` to `high`; `bar`: bar width in points.

Panels are mappings, too. Keys that `lines` and `dots` do not read are arguments of `Axes.set`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter
from pandas.api.types import is_numeric_dtype

from dplangevin.papers.exhibits.tables import FORMATS, chosen, fill, prepared
from dplangevin.reporting import style
from dplangevin.reporting.words import PRICES, Look, look
from dplangevin.text import number

Mark = Mapping[str, Any]
ROWS = ("where", "query", "x", "y", "low", "high")  # keys of a panel or mark that say what is drawn
GUIDE = {"color": style.GREY, "lw": 1.1, "zorder": 1}


def lines(
    frame: pd.DataFrame, *, text: str, marks: Sequence[Mark] = (), panels: Sequence[Mapping[str, Any]] = ({},),
    axes: Mapping[str, Any] | None = None, dashes: Sequence[Mark] = ({},), guides: Sequence[Mapping[str, Any]] = (),
    size: tuple[float, float] = (8.4, 4.9), columns: int = 3, grid: Mapping[str, Any] | None = None,
    proven: bool = False, title: str = "", **made: Any,
) -> Figure:  # fmt: skip
    """Draw y against x: in each panel a line for each pair of `marks` and `dashes`, which replace keys of the mark.

    - `text`: Caption, filled from the columns of the frame, before and after `tables.prepared`.
    - `axes`: What all panels share. A panel may have its own `marks`, `dashes` and `guides`.
    - `guides`: {power, at: [x, y], label, line}, the curve y = at_y (x/at_x)^power; {x, label, line}, a vertical line.
    - `columns`: Most panels in a row. `grid`: Arguments of `Figure.subplots`. `made`: Arguments of `tables.prepared`.
    - `proven`: If True, x is the proven ε where it is else the promised ε.
    """
    given, frame = frame, prepared(frame, **made)
    if proven:
        frame = frame.assign(epsilon=frame.epsilon_proven)
    shape = -(-len(panels) // columns), min(columns, len(panels))
    handles: dict[str, Line2D | None] = {}
    with style.settings():
        figure = Figure(figsize=size, layout="constrained")
        axs = figure.subplots(*shape, squeeze=False, **(grid or {})).flat
        for ax, own in zip(axs, panels, strict=True):
            panel = {"marks": marks, "dashes": dashes, "guides": guides, **(axes or {}), **own}
            here = {key: panel.pop(key) for key in ROWS if key in panel}
            mine, dashed, guided = (panel.pop(key) for key in ("marks", "dashes", "guides"))
            ax.set(**{**panel, "title": fill(panel.get("title", ""), chosen(frame, here))})
            if proven and here.get("x") == "epsilon":
                ax.set_xlabel("proven ε")
            for mark, dash in product(mine, dashed):
                rows = chosen(chosen(chosen(frame, here), mark), dash)
                shown = _line(ax, rows, {**here, **mark, **dash})
                _explain(handles, mark, shown)
            handles |= _guides(ax, guided)
            _plain_numbers(ax)
        for dash in dashes:
            if dash.get("label"):
                marker = "" if dash.get("line") else "o"
                handles[dash["label"]] = _entry({"colour": "#555555", "marker": marker, **dash})
        return _finished(figure, title, fill(text, {**given, **frame}), handles, frame)


def _finished(
    figure: Figure, title: str, text: str, handles: Mapping[str, Line2D | None], frame: pd.DataFrame
) -> Figure:
    """Return the figure with its legend; a label without a handle is that of a mark without rows."""
    if absent := [label for label, handle in handles.items() if handle is None]:
        raise ValueError(f"no row for the marks {absent}: check `where` and `query` in conf/exhibit")
    entries = [handle for handle in handles.values() if handle]
    if _violated(frame).ne("").any():
        entries.append(Line2D([], [], color="#555555", marker="o", mfc="white", ls="", label=style.HOLLOW))
    return style.lay_out(figure, title, text, entries)


def _violated(rows: pd.DataFrame) -> pd.Series:
    """Return the conditions of a guarantee that fail, "" for none; a number in the column says something else."""
    texts = rows.get("violated", pd.Series(0, index=rows.index))
    return pd.Series("", index=rows.index) if is_numeric_dtype(texts) else texts.fillna("")


def _look(mark: Mark) -> Look:
    of = look(mark["method"], mark.get("data", "")) if "method" in mark else Look("", "#000000", "")
    of = PRICES[mark["price"]] if "price" in mark else of
    return of._replace(**{key: mark[key] for key in Look._fields if key in mark})


def _explain(handles: dict[str, Line2D | None], mark: Mark, shown: bool) -> None:
    """Add the legend entry of a mark that has a label: None until some panel shows the mark."""
    if (label := mark.get("label")) and "end" not in mark and (shown or not mark.get("optional")):
        handles[label] = handles.get(label) or (_entry(mark) if shown else None)


def _entry(mark: Mark) -> Line2D:
    of = _look(mark)
    of = of._replace(marker="") if mark.get("level") else of
    face = "white" if mark.get("hollow") else of.colour
    return Line2D([], [], **of.shape, label=of.label, mfc=face, lw=mark.get("width", 1.3))


def _line(ax: Axes, rows: pd.DataFrame, mark: Mark) -> bool:
    x, y, of = str(mark["x"]), str(mark["y"]), _look(mark)
    if mark.get("level"):
        for at, low, high in rows[[y, mark.get("low", y), mark.get("high", y)]].to_numpy(float):
            ax.axhline(at, color=of.colour, ls=of.line, lw=1.1, zorder=1)
            ax.axhspan(low, high, color=of.colour, alpha=0.1, lw=0, zorder=0)
        return len(rows) > 0
    shown = np.isfinite(rows[x]) & np.isfinite(rows[y])
    shown &= (rows[x].gt(0) | (ax.get_xscale() != "log")) & (rows[y].gt(0) | (ax.get_yscale() != "log"))
    rows = rows[shown].sort_values(mark.get("order", x), kind="stable")
    ax.plot(rows[x], rows[y], color=of.colour, ls=of.line or "none", lw=mark.get("width", 1.3), zorder=3)
    if "low" in mark:
        pale = tuple(1 - 0.55 * (1 - channel) for channel in to_rgb(of.colour))
        bar: dict[str, Any] = {"color": pale, "lw": mark.get("bar", 2.0), "zorder": 2}
        ax.vlines(rows[x], rows[mark["low"]], rows[mark["high"]], **bar)
    _points(ax, rows[x], rows[y], rows[y], rows, mark)
    if mark.get("end") and of.line and len(rows):
        _text(ax, mark["label"], rows[x].iloc[-1], rows[y].iloc[-1], mark["end"], of)
    return len(rows) > 0


def _text(ax: Axes, text: str, x: float, y: float, offset: Sequence[float], of: Look) -> None:
    at: dict[str, Any] = {"textcoords": "offset points", "color": of.colour, "fontsize": 8}
    at |= {"ha": "right" if offset[0] < 0 else "left", "bbox": {"fc": "w", "ec": "none", "pad": 0.4}}
    ax.annotate(text, (x, y), (offset[0], offset[1]), va="center", zorder=5, **at)


def _points(ax: Axes, x: pd.Series, y: pd.Series, values: pd.Series, rows: pd.DataFrame, mark: Mark) -> None:
    of, hollow = _look(mark), mark.get("hollow")
    empty = _violated(rows).ne("") if hollow is None else pd.Series(bool(hollow), rows.index)
    for at, face in ((~empty, of.colour), (empty, "white")):
        if at.any():
            ax.plot(x[at], y[at], **(of.shape | {"ls": ""}), mfc=face, zorder=4)
    for right, up, value in zip(x, y, values, strict=True) if "write" in mark else ():
        if np.isfinite([right, up]).all():
            _text(ax, FORMATS[mark.get("format", "short")](value), right, up, mark["write"], of)


def _guides(ax: Axes, guides: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Line2D]]:
    """Draw the guides of a panel within its limits; yield legend entries by label."""
    if not guides:
        return
    limits, heights = ax.get_xlim(), ax.get_ylim()
    spaced = np.geomspace if ax.get_xscale() == "log" else np.linspace
    for guide in guides:
        drawn: Any = {**GUIDE, "ls": guide.get("line", "--"), "label": guide.get("label", "")}
        if "at" in guide:
            x = spaced(*limits, 101)
            ax.plot(x, guide["at"][1] * (x / guide["at"][0]) ** guide["power"], **drawn)
        else:
            ax.axvline(guide["x"], **drawn)
        if drawn["label"]:
            yield drawn["label"], Line2D([], [], **drawn)
    ax.set(xlim=limits, ylim=heights)


def _plain_numbers(ax: Axes) -> None:
    for axis in (ax.xaxis, ax.yaxis):
        if axis.get_scale() == "log":
            axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
            axis.set_minor_formatter(NullFormatter())


def dots(
    frame: pd.DataFrame, *, label: str, text: str, panels: Sequence[Mapping[str, Any]] = ({},),
    axes: Mapping[str, Any] | None = None, by: Sequence[str] = (), right: str = "", sharex: bool = False,
    width: float = 9.5, pitch: float = 0.25, title: str = "", **made: Any,
) -> Figure:  # fmt: skip
    """Draw rows of dots from top to bottom, one for each row of the frame, or for each group of its columns `by`.

    - `label`, `right`: Texts at both sides of a row, filled from the first of its rows in the frame.
    - `text`, `made`: As for `lines`. `pitch`: Inches between rows.
    - `panels`: Each has `marks`, whose `low` and `high` are the ends of a bar, and perhaps `guides` {x, label, line}.
    """
    axes = axes or {}
    given, frame = frame, chosen(prepared(frame, **made), axes).reset_index(drop=True)
    frame["row"] = frame.groupby([*by], sort=False, dropna=False).ngroup() if by else frame.index
    heads, seen = frame.drop_duplicates("row"), set[int]()
    handles: dict[str, Line2D | None] = {}
    with style.settings():
        figure = Figure(figsize=(width, 2.0 + pitch * len(heads)), layout="constrained")
        grid = figure.subplots(1, len(panels), squeeze=False, sharex=sharex, sharey=True)[0]
        for ax, own in zip(grid, panels, strict=True):
            panel = {"guides": (), **axes, **own}
            here = {key: panel.pop(key) for key in ROWS if key in panel}
            marks, guides = panel.pop("marks"), panel.pop("guides")
            ax.set(**panel, ylim=(len(heads) - 0.4, -0.6))
            for row in heads.row:
                ax.axhline(row, color="#eeeeee", lw=0.6, zorder=0)
            for mark in ({**here, "line": "", **mark} for mark in marks):
                rows = chosen(chosen(frame, here), mark)
                seen |= {*rows.row[np.isfinite(rows[mark["x"]])]}
                y = rows.row + mark.get("shift", 0.0)
                if "low" in mark:
                    bar: dict[str, Any] = {"color": _look(mark).colour, "lw": 1.6, "zorder": 2}
                    ax.hlines(y, rows[mark["low"]], rows[mark["high"]], **bar)
                _points(ax, rows[mark["x"]], y, rows[mark["x"]], rows, mark)
                _explain(handles, mark, len(rows) > 0)
            handles |= _guides(ax, guides)
            _plain_numbers(ax)
        if absent := heads[~heads.row.isin(seen)].to_dict("records"):
            raise ValueError(f"no mark shows the row {absent[0]}: add one in conf/exhibit")
        grid[0].set_yticks(heads.row, [fill(label, row) for _, row in heads.iterrows()])
        beside: dict[str, Any] = {"transform": grid[-1].get_yaxis_transform(), "va": "center", "fontsize": 8}
        for _, row in heads.iterrows():
            grid[-1].text(1.01, row.row, fill(right, row), **beside)
        return _finished(figure, title, fill(text, {**given, **frame}), handles, frame)
