"""The exhibit `compare`: a page of tables and a dot plot of methods at equal audited epsilon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dplangevin.exhibits import style
from dplangevin.exhibits.at_epsilon import ABOVE, BELOW, FREE, REACHED, at_epsilon
from dplangevin.exhibits.figures import frame

NOTES = """\
Each repeat is read off at the audited ε (tight accountant, {adjacency}, δ = {delta}; steps without replacement, those
of wang2015's samplers, by the larger of both directions, up to 25 % above each alone), linearly in ln ε between the
method's neighbouring budgets. Mean over {repeats} repeats. **Bold**: the best private method; ≈: its difference to the
best is not significant. Differences are paired by repeat, their 95 % Student intervals are those of one comparison.
Significance is stricter: p-values by Holm's method over all pairs of methods that reach this ε on the data set, at a
family-wise error of 5 %, so that it also holds for a best that the same repeats have chosen.
"ends at x" or "begins at x": the method's budgets do not reach the ε, the numbers are those at its nearest audited ε,
and it is not compared. †: a condition of its guarantee fails there, or chains have
diverged, and those repeats are left out.
Repeats on Adult share one split into training and test rows and those on Abalone overlap: intervals are about the
randomness of the methods, not about other data.
Log score in nats per row, Brier score and expected calibration error (ECE): smaller is better.
Seconds: wall time of all repeats at three budgets, benchmarks/methods.csv; blank where not measured."""


def page(
    runs: pd.DataFrame, *, epsilons: Sequence[float], datasets: Mapping[str, str], title: str = ""
) -> str:
    """Markdown: accuracy of every method on every data set at every epsilon, then the other scores of each block."""
    table, datasets = at_epsilon(runs, epsilons=epsilons), _present(runs, datasets)
    lines = [f"# {title}", "", _notes(runs), "", "## Accuracy", "", *_overview(table, epsilons, datasets)]
    for dataset, name in datasets.items():
        for epsilon in epsilons:
            block = table[table.dataset.eq(dataset) & table.epsilon.eq(epsilon)]
            lines += ["", f"## {name}, audited ε = {style.number(epsilon)}", "", *_block(block)]
    return "\n".join(lines) + "\n"


def _present(runs: pd.DataFrame, datasets: Mapping[str, str]) -> dict[str, str]:
    """Those that were run."""
    return {dataset: name for dataset, name in datasets.items() if runs.dataset.eq(dataset).any()}


def _notes(runs: pd.DataFrame) -> str:
    private = runs[np.isfinite(runs.epsilon.astype(float)) & runs.metric.eq("accuracy")]

    def said(column: str) -> str:
        return "/".join(style.number(v) if isinstance(v, float) else str(v) for v in private[column].unique())

    repeats = private.repeat.nunique()
    adjacency = said("adjacency_tight").replace("_", "-")
    return NOTES.format(adjacency=adjacency, delta=said("delta"), repeats=repeats)


def _overview(table: pd.DataFrame, epsilons: Sequence[float], datasets: Mapping[str, str]) -> list[str]:
    head = ["method"]
    for name in datasets.values():
        head += [f"{name}, ε = {style.number(e)}" for e in epsilons] + ["seconds"]
    lines = [_line(head), _line(["---"] + ["---:"] * (len(head) - 1))]
    cells = table.set_index(["method", "dataset", "epsilon"])
    for method in table.method.unique():
        line = [style.look(method).label]
        for dataset in datasets:
            keys = [(method, dataset, epsilon) for epsilon in epsilons]
            rows = [cells.loc[key] for key in keys if key in cells.index]  # type: ignore[index]
            line += [_accuracy(row) for row in rows] or [""] * len(epsilons)
            line.append(_number(rows[0].seconds, ".3g") if rows else "")
        lines.append(_line(line))
    return lines


def _block(block: pd.DataFrame) -> list[str]:
    head = ["method", "accuracy (95 %)", "difference to the best (95 %)", "p (Holm)"]
    head += ["log score", "Brier", "ECE", "seconds"]
    lines = [_line(head), _line(["---"] + ["---:"] * (len(head) - 1))]
    order = block.reach.map({REACHED: 0, BELOW: 1, ABOVE: 1, FREE: 2})
    block = block.assign(order=order).sort_values(["order", "accuracy"], ascending=[True, False])
    rows: list[Any] = list(block.itertuples())
    for row in rows:
        compared = not (row.best or np.isnan(row.difference))
        gap = f"{row.difference:+.4f} {_limits(row, 'difference_')}" if compared else ""
        cells = [style.look(row.method).label, f"{_accuracy(row)} {_limits(row)}", gap]
        cells.append("" if row.best else _number(row.p_adjusted, ".2g"))
        cells += [_number(value, ".4f") for value in (row.log_score, row.brier, row.ece)]
        lines.append(_line([*cells, _number(row.seconds, ".3g")]))
    return lines


def _accuracy(row: Any) -> str:
    if np.isnan(row.accuracy):
        return row.reach
    text = f"{row.accuracy:.4f}" + ("†" if row.violated else "")
    if row.reach in (BELOW, ABOVE):
        return f"{row.reach.split()[0]} at {style.short(row.epsilon_end)}: {text}"
    if row.reach == FREE:
        return text
    return f"**{text}**" if row.best else text + ("" if row.significant else " ≈")


def _limits(row: Any, prefix: str = "") -> str:
    low, high = getattr(row, f"{prefix}low"), getattr(row, f"{prefix}high")
    return "" if np.isnan(low) else f"({low:.4f} to {high:.4f})"


def _number(value: float, form: str) -> str:
    return "" if np.isnan(value) else format(value, form)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def dots(
    runs: pd.DataFrame, *, epsilons: Sequence[float], datasets: Mapping[str, str], title: str = ""
) -> Figure:
    """Grid of panels, data sets x audited epsilons: accuracy of every method that reaches it, with its interval."""
    table, datasets = at_epsilon(runs, epsilons=epsilons), _present(runs, datasets)
    private = [m for m in table.method.unique() if not table[table.method.eq(m)].reach.eq(FREE).all()]
    with matplotlib.rc_context(style.RC):
        size = (3.1 * len(epsilons) + 2.0, (0.19 * len(private) + 0.6) * len(datasets) + 1.2)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(datasets), len(epsilons), squeeze=False, sharex="row", sharey=True)
        for line, (dataset, name) in zip(axes, datasets.items(), strict=True):
            for ax, epsilon in zip(line, epsilons, strict=True):
                _draw(ax, table[table.dataset.eq(dataset) & table.epsilon.eq(epsilon)], private)
                ax.set_title(f"{name}, audited ε = {style.number(epsilon)}", fontsize=8.5)
        for ax in axes[-1]:
            ax.set_xlabel("test accuracy")
        axes[0][0].set_yticks(range(len(private)), [style.look(method).label for method in private])
        axes[0][0].set_ylim(len(private) - 0.5, -0.5)
        text = "Mean and 95 % t-interval over repeats. Not significantly worse: by Holm's method over all pairs, 5 %."
        text += " No dot: the method's budgets do not reach this audited ε (the table says where they end)."
        frame(figure, title, text, _handles())
    return figure


def _draw(ax: Axes, block: pd.DataFrame, methods: Sequence[str]) -> None:
    rows = block.set_index("method")
    for method in rows.index[rows.reach.eq(FREE)]:
        look = style.look(method)
        ax.axvline(rows.accuracy[method], color=look.colour, ls=look.line, lw=1.0, zorder=1)
    for y, method in enumerate(methods):
        if method not in rows.index or rows.reach[method] != REACHED:
            continue
        row = rows.loc[method]
        kind = "best" if row.best else "worse" if row.significant else "equal"
        colour, marker, size = KINDS[kind][1:]
        ax.hlines(y, row.low, row.high, color=colour, lw=1.6, zorder=2)
        face = "white" if row.violated else colour
        ax.plot(row.accuracy, y, marker=marker, color=colour, mfc=face, ms=size, ls="", zorder=3)


KINDS = {
    "best": ("best private method", "#D55E00", "*", 9.0),
    "equal": ("not significantly worse than the best", "#0072B2", "o", 5.0),
    "worse": ("significantly worse", "#888888", "o", 4.0),
}


def _handles() -> list[Line2D]:
    found = [
        Line2D([], [], color=colour, marker=marker, ms=size, label=label)
        for label, colour, marker, size in KINDS.values()
    ]
    for method in ("nonprivate", "sgld"):
        look = style.look(method)
        found.append(Line2D([], [], color=look.colour, ls=look.line, lw=1.0, label=look.label))
    found.append(Line2D([], [], color="#555555", marker="o", mfc="white", ls="", label=style.HOLLOW_LABEL))
    return found
