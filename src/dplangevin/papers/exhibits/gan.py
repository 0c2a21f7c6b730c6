"""Pictures of the semi-supervised GAN of li2019, section 4.3: pure functions of the frames of `reporting.read`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dplangevin.papers.exhibits.tables import with_problem_variants
from dplangevin.papers.statistics import sort_by
from dplangevin.reporting import style
from dplangevin.reporting.words import look
from dplangevin.text import short

BLOCKS = {"nonprivate": "", "moments": ", ε {}", "equal": ", proven ε {}"}  # block -> text of the budget
COVERAGE = ["recognised", "digits_covered", "digit_entropy"]  # scores by `digit_classifier.DigitClassifier`


def pictures_summary(
    frame: pd.DataFrame, *, problems: Mapping[str, str], names: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return label and coverage scores of each learner of `read.read_samples` whose images are shown."""
    keys = ["problem", "block", "run", "method", "epsilon"]
    rows = with_problem_variants(frame)
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
    images = with_problem_variants(frame).sort_values("image").groupby(["problem", "run", "epsilon"])
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
                scores = f"{100 * row.recognised:.0f} % recognised, {row.digits_covered:.1f} of 10 digits"
                name = f"{heading}\n" * (ax is column[0]) + row.label
                ax.set_title(
                    f"{name}{BLOCKS[row.block].format(short(row.epsilon))}: {scores}", fontsize=8, pad=2
                )
        return style.lay_out(figure, title, text, [])


def image(pixels: str) -> np.ndarray:
    """Return a square image, given as a text of hexadecimal digits, as an array in [0, 1]; 0 is black."""
    values = np.array([int(digit, 16) for digit in pixels]) / 15
    return values.reshape(math.isqrt(len(values)), -1)
