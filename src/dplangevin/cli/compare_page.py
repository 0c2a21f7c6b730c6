"""What `dplangevin compare` shows, on a page and a terminal: sentences, tables, figures and Python."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from dplangevin.cli import output, persons
from dplangevin.cli.comparison import NEIGHBOURS, PRIOR, Comparison, Outcome, classes_of
from dplangevin.data.table_schema import FROM_DATA, KINDS_FROM_DATA, LEFT_OUT
from dplangevin.papers.exhibits import side_by_side
from dplangevin.papers.statistics import finite_interval, sort_by
from dplangevin.reporting.style import image_bytes
from dplangevin.reporting.words import look, relations
from dplangevin.text import csv_bytes, distinct, number, short, weak_delta

AXES = {
    "proven": "Every method costs the same here. Its noise is set so that one accountant proves this ε for it. The "
    "neighbours are two tables of the same size that differ in one row (replace-one).",
    "promised": "Every method is given the same ε and promises it by its own theorem. The proven ε can be much "
    "smaller. So a method with a loose theorem looks worse here than it is.",
}
LEGEND = (
    "Mean over repeats ± half of its 95 % interval. *: the best private method; ≈: cannot be told from the best "
    "(paired t-tests, Holm over all pairs, 5 %); †: a condition of the method's theorem fails or chains diverged, "
    "never best; →: the method cannot spend this ε, the value is at the ε given."
)
TEMPLATES = Environment(
    loader=PackageLoader("dplangevin.cli", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True)
class Page:
    """What a terminal and the page show of a comparison."""

    comparison: Comparison
    outcome: Outcome
    predicted: str  # whether classes or a number are predicted, and how to choose the other
    read: Sequence[str]  # sentences about the table
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

    @property
    def measure(self) -> str:
        return "Accuracy" if self.scores.sign > 0 else "Mean absolute error (less is better)"

    def heading(self, axis: str) -> str:
        by = {"proven": "the same accountant for all", "promised": "by each method's theorem"}[axis]
        neighbours, delta = relations(NEIGHBOURS), number(self.comparison.delta)
        persons = " of a person's rows" * (self.comparison.group is not None)
        return f"{self.measure} at equal {axis} ε ({by}), {neighbours}{persons}, δ = {delta}"

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
    def warnings(self) -> list[str]:
        """What no guarantee covers, and how to correct that."""
        weak, schema = weak_delta(self.comparison.delta, self.outcome.rows[0]), self.comparison.schema
        ranges = "Replace them by public knowledge in a schema before you rely on any ε here"
        kinds = "Check them in the schema, and write kinds_from_data: false there"
        texts = {
            f"{FROM_DATA}. {ranges}": schema.ranges_from_data,
            f"{KINDS_FROM_DATA}. {kinds}": schema.kinds_from_data,
            LEFT_OUT: schema.unlabelled == "drop",
            f"{weak}. Give a smaller --delta": weak,
        }
        return [text for text, applies in texts.items() if applies]

    @property
    def released(self) -> list[str]:
        """Where the noise comes from, and which numbers are no private release."""
        scores = "The scores themselves are not private releases: they are computed from the test rows without noise."
        if self.comparison.seed is not None:
            return [
                f"The noise follows from seed {self.comparison.seed} and can be recomputed by anyone who reads this "
                "page: do not publish these fits as private releases.",
                scores,
            ]
        return [
            "The noise came from the system's entropy, and its seed is not kept: the fits cannot be recomputed from a "
            "seed.",
            "Each private fit alone costs the ε that is stated for it; several fits together cost more, and those of "
            "one method at several ε may have the same noise.",
            "The generator is one for research (Mersenne Twister), not a cryptographically secure one.",
            scores,
        ]

    @property
    def next(self) -> list[str]:
        """What to do with the answer: publish, tune."""
        ranges = self.comparison.schema.ranges_from_data
        public = "First state ranges and categories in a schema. " if ranges else ""
        most = self.comparison.rows_per_person
        rows = f"at most {most} rows of each person, with the budget of one record (`OfPersons` of {persons.__name__}),"
        return [
            f"To publish: {public}Choose the method on public data, or by a rule fixed in advance. Then fit it once on "
            f"{'all rows' if self.comparison.group is None else rows}, without a seed.",
            "To tune: give a method with your settings by --method, and choose on public rows. A choice by these "
            "scores costs privacy that no ε here counts; `dplangevin price --tuned` prices the best of several runs.",
        ]

    @cached_property
    def fit(self) -> tuple[str, str]:
        """A title and the Python that fits the best private method at the ε next to 1 on all rows; or empty texts."""
        asked, schema = self.comparison, self.comparison.schema
        wanted = min(asked.epsilons, key=lambda each: abs(math.log(each)))
        best = self.tables["proven"].query("epsilon == @wanted and best == True")
        if best.empty or asked.group is not None:
            return "", ""
        name, labels = best.method.iloc[0], 'loss="huber", label_bound=1.0'
        if schema.classes is not None:
            labels = f"classes={[*schema.classes]}"
        private = self._private[self._private.method.eq(name)]
        epsilon = private.epsilon.iloc[int((private.epsilon_proven / wanted - 1).abs().argmin())]
        method, voted = self.outcome.methods[name], name == "pate"
        made = repr(method) if is_dataclass(method) else f"{type(method).__name__}()"
        lines = [
            "# chosen by the scores above: no ε counts that choice",
            "from math import inf",
            *sorted(f"from {kind.__module__} import {kind.__name__}" for kind in classes_of(method)),
            "from dplangevin import Budget, Glm, encode, learn, price",
            "",
            f"X, y, row_bound = encode({str(asked.table)!r}, {str(asked.results / 'schema.yaml')!r})",
            *["# y is in [-1, 1]"] * (schema.classes is None),
            *["public = ...  # rows that need no privacy, encoded alike"] * voted,
            f"problem = Glm.from_arrays(X, y, row_bound=row_bound, {labels}{', public=public' * voted})",
            f"method = {made}",
            f"(model,) = learn(method, problem, Budget({epsilon:g}, {asked.delta:g}))",
            f'print(price(model.method, problem, model.budget, "{NEIGHBOURS}")["epsilon_proven"])',
        ]
        title = f"fits and keeps {look(name).label}, the best at a proven ε of {number(wanted)}"
        return title, "\n".join(lines)

    @property
    def clipped(self) -> list[str]:
        """Private counts of clipped values, which only the terminal shows."""
        counts = [f"{count} of {column}" for column, count in self.outcome.meta.get("clipped", {}).items()]
        return [f"Values outside their range, clipped: {', '.join(counts)}."] if counts else []

    @property
    def notes(self) -> list[tuple[str, str]]:
        """Label of each method without a result, and the reason."""
        return [(look(name).label, "; ".join(why)) for name, why in self.outcome.notes.items()]

    @property
    def assumptions(self) -> tuple[list[str], dict[str, list[str]]]:
        """What all guarantees rest on; by label, what those of one method rest on beyond that, and what fails of it."""
        texts = self._private.assumptions
        common = [each for each in distinct(texts) if texts.str.contains(each, regex=False).all()]
        own = dict[str, list[str]]()
        for method, block in self._private.groupby("method", sort=False):
            more = [each for each in distinct(block.assumptions) if each not in common]
            more += [f"it fails: {each}" for each in distinct(block.violated)]
            own |= {look(str(method)).label: more} if more else {}
        return common, own

    @property
    def _private(self) -> pd.DataFrame:
        """A row for each private method and promised ε."""
        rows = self.runs.drop_duplicates(["method", "epsilon"])
        return rows[np.isfinite(rows.epsilon)]

    def files(self) -> dict[str, bytes]:
        """Return a dot plot for each axis, the page that contains them, and the numbers behind it."""
        figures = {}
        for axis, table in self.tables.items():
            title = f"{self.measure} at equal {side_by_side.AXES[axis]}"
            figure = side_by_side.dot_plot(
                table, self.scores, constant=self.outcome.constant, axis=axis, title=title
            )
            figures[axis] = image_bytes(figure, "png")
        images = {axis: base64.b64encode(content).decode() for axis, content in figures.items()}
        html = TEMPLATES.get_template("compare.html").render(
            page=self, axes=AXES, images=images, number=number, legend=LEGEND, prior=PRIOR
        )
        numbers = pd.concat([table.assign(axis=axis) for axis, table in self.tables.items()])
        return {
            **{f"{axis}.png": content for axis, content in figures.items()},
            "fit.py": f"{self.fit[1] or '# no private method is best, or ε is for a person'}\n".encode(),
            "index.html": html.encode(),
            "compare.csv": csv_bytes(numbers.dropna(axis=1, how="all")),
        }


def show(page: Page) -> None:
    """Print the verdict, the table at equal proven ε, what they rest on, and what the folder has."""
    results = page.comparison.results
    for sentence in page.sentences("proven"):
        output.line(sentence, "bold")
    output.title(page.heading("proven"))
    _scores([*map(number, page.comparison.epsilons)], page.rows("proven"))
    output.line()
    warnings = [f"Warning: {text}." for text in page.warnings]
    notes = [f"{name}: {why}" for name, why in page.notes]
    for text in (LEGEND, *page.released, *warnings, *page.clipped, *notes):
        output.line(text)
    output.title("What next:")
    for text in page.next:
        output.line(f"- {text}", indent=2)
    output.line(
        f"{results}/index.html has also the table at equal promised ε; figures and numbers are beside it."
    )
    if page.fit[1]:
        output.line(f"{results}/fit.py {page.fit[0]}.")


def _scores(epsilons: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a row of scores for each method, as many budgets as fit at a time."""
    columns = [output.Column("method"), *(output.Column(f"ε = {e}", number=True) for e in epsilons)]
    label, *cells = (
        max(map(len, texts)) for texts in zip([each.title for each in columns], *rows, strict=True)
    )
    most = max(1, (output.width() - label) // (max(cells) + output.GAP))
    for k in range(1, len(columns), most):
        output.table([columns[0], *columns[k : k + most]], [[row[0], *row[k : k + most]] for row in rows])
