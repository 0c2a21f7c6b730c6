"""Exhibits of the semi-supervised GAN of li2019, section 4.3.

They show accuracy beside privacy prices, and scores and pictures of the generated images. All functions are pure
functions of the frames of `reporting.read`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dplangevin.papers.exhibits import tables
from dplangevin.papers.exhibits.tables import COVERAGE, Cell, Published, cell
from dplangevin.papers.statistics import sort_by
from dplangevin.reporting import style
from dplangevin.reporting.style import lay_out
from dplangevin.reporting.words import at_most, look
from dplangevin.text import distinct, epsilon, fixed, numbers, percent, short

BLOCKS = {"nonprivate": "", "moments": ", ε {}", "equal": ", proven ε {}"}  # block -> text of the budget
SETTINGS = ["step_size", "batch", "epochs", "steps", "clip", "noise_multiplier", "records", "parameters"]
COLUMNS = [
    "problem", "block", "run", "method", "epsilon", "label", "accuracy_paper", "seeds", "accuracy", "sd", "low", "high",
    "accuracy_single", *(f"{name}{end}" for name in COVERAGE for end in ("", "_low", "_high")), *tables.TRAINING_PRICES,
    "accountant_promised", "delta", *SETTINGS, "violated",
]  # fmt: skip


def summary(
    frame: pd.DataFrame, *, published: Published = (), names: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return the rows of `tables.training_summary` with coverage scores and their 95 % t-intervals over seeds."""
    table = tables.training_summary(frame, published=published, names=names, columns=COLUMNS)
    return sort_by(table, block=[*BLOCKS])


def page(
    frame: pd.DataFrame,
    *,
    published: Published,
    networks: Mapping[str, str],
    notes: str,
    names: Mapping[str, str] | None = None,
    title: str = "",
) -> str:
    """Return a page with a table for each problem of `summary`; `networks` maps problems to headings."""
    table = summary(frame, published=published, names=names)
    lines = [notes.format(delta=numbers(table.delta[np.isfinite(table.epsilon_add_remove)]))]
    for problem, heading in networks.items():
        rows = table[table.problem.eq(problem)]
        lines += ["", f"## {heading}", "", *tables.rows_table(rows, PAGE_COLUMNS, left=2)]
    if texts := distinct(table.violated):
        lines += ["", f"†: not met: {'; '.join(texts)}."]
    if texts := distinct(frame.assumptions):
        lines += ["", f"Assumed: {'; '.join(texts)}."]
    return tables.page(title, lines)


def _with_budget(row: pd.Series) -> str:
    return row.label + BLOCKS[row.block].format(short(row.epsilon))


def _settings(row: pd.Series) -> str:
    symbols = {"step_size": "η", "batch": "batch", "steps": "steps", "clip": "clip", "noise_multiplier": "σ"}
    return tables.hyperparameters(row, symbols)


PAGE_COLUMNS: dict[str, Cell] = {
    "learner": lambda row: _with_budget(row) + ("†" if row.violated else ""),
    "settings": _settings,
    "published": cell("accuracy_paper", percent),
    "ours": cell("accuracy", percent),
    "95 %": lambda row: f"{percent(row.low)} to {percent(row.high)}",
    "one sample": lambda row: percent(row.get("accuracy_single", math.nan)),
    "recognised, %": cell("recognised", percent),
    "digits": lambda row: fixed(row.digits_covered, ".1f"),
    "entropy": lambda row: fixed(row.digit_entropy, ".2f"),
    "seeds": cell("seeds"),
    "promised ε": cell("epsilon_promised", epsilon),
    "proven ε, add/remove": cell("epsilon_add_remove", at_most),
    "proven ε, replace-one": cell("epsilon_replace_one", at_most),
}


# Pictures


def pictures_summary(
    frame: pd.DataFrame, *, problems: Mapping[str, str], names: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return label and coverage scores of each learner of `read.read_samples` whose images are shown."""
    keys = ["problem", "block", "run", "method", "epsilon"]
    rows = tables.with_problem_variants(frame)
    table = rows[rows.problem.isin(list(problems))].drop_duplicates(keys)[[*keys, *COVERAGE]]
    labels = [
        (names or {}).get(run) or look(method, "network").label
        for run, method in zip(table.run, table.method, strict=True)
    ]
    return sort_by(table.assign(label=labels), problem=[*problems], block=[*BLOCKS])


def pictures(
    frame: pd.DataFrame,
    *,
    problems: Mapping[str, str],
    runs: Sequence[str],
    text: str,
    names: Mapping[str, str] | None = None,
    title: str = "",
) -> Figure:
    """Draw ten generated images for each budget of `runs` (rows) and each problem (columns, -> heading)."""
    table = pictures_summary(frame, problems=problems, names=names)
    table = table[table.run.isin(runs)]
    images = tables.with_problem_variants(frame).sort_values("image").groupby(["problem", "run", "epsilon"])
    height = table.groupby("problem").size().max()
    with style.settings():
        figure = Figure(figsize=(4.6 * len(problems) + 0.2, 0.66 * height + 1.2))
        axes = figure.subplots(height, len(problems), squeeze=False)
        for ax in axes.flat:
            ax.set_axis_off()
        for column, (problem, heading) in zip(axes.T, problems.items(), strict=True):
            learners = table[table.problem.eq(problem)]
            for ax, (_, row) in zip(column, learners.iterrows(), strict=False):
                pixels = images.get_group((problem, row.run, row.epsilon)).pixels
                ax.imshow(np.hstack([image(text) for text in pixels]), cmap="gray")
                scores = f"{percent(row.recognised)} %, {row.digits_covered:.1f} digits, {row.digit_entropy:.2f} nats"
                first = f"{heading}\n" if ax is column[0] else ""
                ax.set_title(f"{first}{_with_budget(row)}: {scores}", fontsize=8, pad=2)
        return lay_out(figure, title, text, [])


def image(pixels: str) -> np.ndarray:
    """Return a square image, given as a text of hexadecimal digits, as an array in [0, 1]; 0 is black."""
    values = np.array([int(digit, 16) for digit in pixels]) / 15
    side = math.isqrt(len(values))
    return values.reshape(side, side)
