"""What `dplangevin compare` shows, on a page and a terminal: sentences, tables and figures."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from dplangevin.cli import output
from dplangevin.cli.comparison import NEIGHBOURS, PRIOR, Comparison, Outcome
from dplangevin.papers.exhibits import side_by_side
from dplangevin.papers.statistics import finite_interval, sort_by
from dplangevin.reporting.style import image_bytes
from dplangevin.reporting.words import look, relations
from dplangevin.text import csv_bytes, distinct, number, short, weak_delta

AXES = {"proven": "the same accountant for all", "promised": "by each method's theorem"}
LEGEND = (
    "Mean over repeats ± half of its 95 % interval. *: the best private method; ≈: cannot be told from the best "
    "(paired t-tests, Holm over all pairs, 5 %); †: a condition of the method's theorem fails or chains diverged, "
    "never best; →: the method cannot spend this ε, the value is at the ε given."
)
SEEDED = "The noise follows from seed {}: whoever reads this can compute it, so these fits are no private releases."
SECRET = (
    "The noise came from the system's entropy, and its seed is not kept. Each fit alone costs its ε; several cost "
    "more, and those of one method at several ε may have the same noise. The generator is not cryptographically secure."
)
SCORES = (
    "The scores are not private releases: they are computed from the test rows without noise. To publish, choose the "
    "method without them, on public data, and fit it once without a seed."
)


@dataclass(frozen=True)
class Page:
    """What a terminal and the page show of a comparison; `read` has sentences about the table."""

    comparison: Comparison
    outcome: Outcome
    read: Sequence[str]
    quick: bool = False  # a first look: three repeats

    @cached_property
    def scores(self) -> side_by_side.Scores:
        return side_by_side.scores_of(self.outcome.runs)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """The runs: private methods from the best to the worst, then the others."""
        table = side_by_side.at_epsilon(self.outcome.runs, epsilons=self.comparison.epsilons)
        means = self.scores.sign * table[self.scores.main].where(table.reach.ne(side_by_side.NOT_PRIVATE))
        order = means.groupby(table.method).mean().sort_values(ascending=False, na_position="last").index
        return sort_by(self.outcome.runs, method=[*order])

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Axis -> table of `side_by_side.at_epsilon`."""
        asked = self.comparison.epsilons
        return {axis: side_by_side.at_epsilon(self.runs, epsilons=asked, axis=axis) for axis in AXES}

    def heading(self, axis: str) -> str:
        measure = "Accuracy" if self.scores.sign > 0 else "Mean absolute error (less is better)"
        persons = " of a person's rows" * (self.comparison.group is not None)
        where = f"{relations(NEIGHBOURS)}{persons}, δ = {number(self.comparison.delta)}"
        return f"{measure} at equal {axis} ε ({AXES[axis]}), {where}"

    def sentences(self, axis: str) -> list[str]:
        """Say which methods are best; a first look has no verdict."""
        if self.quick:
            return [f"{self.comparison.seeds} repeats are too few for a verdict. Drop --quick for one."]
        return side_by_side.sentences(self.runs, self.tables[axis], axis=axis, constant=self.outcome.constant)

    def rows(self, axis: str) -> list[list[str]]:
        """Return label and scores of each method, and of the best constant answer."""
        constant = self._mean(*finite_interval(self.outcome.constant))
        rows = [
            [look(str(method)).label, *map(self._cell, block.to_dict("records"))]
            for method, block in self.tables[axis].groupby("method", sort=False)
        ]
        return [*rows, [self.scores.answer.capitalize(), *[constant] * len(self.comparison.epsilons)]]

    def _cell(self, row: dict[Any, Any]) -> str:
        """Return the mean of a method at one ε, with its mark, see LEGEND, and half of its interval."""
        value, reach, mark = row[self.scores.main], row["reach"], ""
        if np.isnan(value):
            return str(reach)
        if reach != side_by_side.NOT_PRIVATE and row["violated"]:
            mark = "†"
        elif reach == side_by_side.REACHED and not np.isnan(row["difference"]):
            mark = "*" if row["best"] else "" if row["significant"] else "≈"
        if reach in (side_by_side.BELOW, side_by_side.ABOVE):
            return f"{self.scores.text(value)}{mark} → ε = {short(row['epsilon_end'])}"
        return self._mean(value, row["low"], row["high"], mark)

    def _mean(self, mean: float, low: float, high: float, mark: str = "") -> str:
        half = "" if np.isnan(low) else f" ±{self.scores.text((high - low) / 2)}"
        return f"{self.scores.text(mean)}{mark}{half}"

    @property
    def remarks(self) -> list[str]:
        """What no guarantee covers, what is no private release, and why a method has no result."""
        weak = weak_delta(self.comparison.delta, self.outcome.rows[0])
        warnings = [f"Warning: {text}." for text in (*self.comparison.schema.assumptions, weak) if text]
        notes = [f"{look(name).label}: {'; '.join(why)}" for name, why in self.outcome.notes.items()]
        seed = self.comparison.seed
        return [SECRET if seed is None else SEEDED.format(seed), SCORES, *warnings, *notes]

    @property
    def assumptions(self) -> dict[str, list[str]]:
        """By label, what the guarantees of a private method rest on, and what fails of it."""
        private = self.runs[np.isfinite(self.runs.epsilon)]
        return {
            look(str(method)).label: [
                *distinct(rows.assumptions.unique()),
                *(f"it fails: {each}" for each in distinct(rows.violated.unique())),
            ]
            for method, rows in private.groupby("method", sort=False)
        }

    def files(self) -> dict[str, bytes]:
        """Return a dot plot for each axis, the page that contains them, and the numbers behind it."""
        figures = {}
        for axis, table in self.tables.items():
            title, constant = f"At equal {axis} ε", self.outcome.constant
            figure = side_by_side.dot_plot(table, self.scores, constant=constant, axis=axis, title=title)
            figures[axis] = image_bytes(figure, "png")
        images = {axis: base64.b64encode(content).decode() for axis, content in figures.items()}
        loader = PackageLoader("dplangevin.cli", "templates")
        template = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
        page = template.get_template("compare.html")
        html = page.render(page=self, images=images, number=number, legend=LEGEND, prior=PRIOR)
        numbers = pd.concat([table.assign(axis=axis) for axis, table in self.tables.items()])
        return {
            **{f"{axis}.png": content for axis, content in figures.items()},
            "index.html": html.encode(),
            "compare.csv": csv_bytes(numbers.dropna(axis=1, how="all")),
        }

    def show(self) -> None:
        """Print the verdict, the table at equal proven ε, and what they rest on."""
        for sentence in self.sentences("proven"):
            output.line(sentence, bold=True)
        output.title(self.heading("proven"))
        epsilons = [f"ε = {number(epsilon)}" for epsilon in self.comparison.epsilons]
        output.table(["method", *epsilons], self.rows("proven"))
        clipped = [f"{count} of {name}" for name, count in self.outcome.meta.get("clipped", {}).items()]
        said = [f"Values outside their range, clipped: {', '.join(clipped)}."] if clipped else []
        for text in ("", LEGEND, *self.remarks, *said):
            output.line(text)
        output.line(f"{self.comparison.results}/index.html has also the table at equal promised ε.")
