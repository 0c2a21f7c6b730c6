"""The page of `dplangevin compare`: tables, figures, sentences and assumptions of one comparison, in one file."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

import dplangevin
from dplangevin.cli.comparison import NEIGHBOURS, PRIOR, Comparison, Outcome, expression
from dplangevin.data.schema import FROM_DATA, KINDS_FROM_DATA, LEFT_OUT
from dplangevin.papers.exhibits import compare
from dplangevin.papers.statistics import finite_interval, sort_by
from dplangevin.pipeline import cache
from dplangevin.reporting.style import image_bytes
from dplangevin.reporting.words import look, relations
from dplangevin.text import distinct, number, short, weak_delta

EVERY = 0.999  # an assumption of more than this share of rows counts as common to all


@dataclass(frozen=True)
class Page:
    """What a terminal and the page show of a comparison."""

    AXES: ClassVar = ("proven", "promised")
    LEGEND: ClassVar = (
        "Mean over repeats with its 95 % interval, or with ± half of it. *: the best private method; ≈: cannot be told "
        "from the best (paired t-tests, Holm over all pairs, 5 %); †: a condition of the method's theorem fails or "
        "chains diverged, never best; →: the method cannot spend this ε, the value is at the ε given."
    )
    comparison: Comparison
    outcome: Outcome
    predicted: str  # whether classes or a number are predicted, and how to choose the other
    read: Sequence[str]  # sentences about the table
    quick: bool = False  # a first look: three repeats

    @cached_property
    def runs(self) -> pd.DataFrame:
        """The runs: private methods from the best to the worst, then the others."""
        runs = self.outcome.runs
        table = compare.at_epsilon(runs, epsilons=self.comparison.epsilons)
        means = self.scores.sign * table[self.scores.main].where(table.reach.ne(compare.NOT_PRIVATE))
        order = means.groupby(table.method).mean().sort_values(ascending=False, na_position="last").index
        return sort_by(runs, method=[*order])

    @cached_property
    def scores(self) -> compare.Scores:
        return compare.scores_of(self.outcome.runs)

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Axis -> table of `compare.at_epsilon`."""
        return {
            axis: compare.at_epsilon(self.runs, epsilons=self.comparison.epsilons, axis=axis)
            for axis in self.AXES
        }

    @property
    def epsilons(self) -> list[str]:
        return [*map(number, self.comparison.epsilons)]

    @property
    def repeats(self) -> str:
        splits, seeds = self.comparison.splits, self.comparison.seeds
        of = f" (seed {splits['seed']})" if "seed" in splits else ""
        if "folds" in splits:
            return f"{seeds}-fold cross-validation{of}"
        if splits.get("repeats", 1) == seeds:
            return f"{seeds} random splits{of}"
        return f"{seeds} repeats of every method on one split{of}"

    @property
    def overlap(self) -> str:
        splits = self.comparison.splits
        if splits.get("repeats", 1) == self.comparison.seeds or "folds" in splits:
            return ", whose splits overlap: they are about splits and noise of this table, not about other tables"
        return ", which share their rows: they are about the noise of the methods alone"

    @property
    def how(self) -> str:
        """The model, and the settings that all methods share."""
        classes = self.comparison.schema.classes
        loss = "Huber" if classes is None else "Logistic" if len(classes) == 2 else "Softmax"
        return (
            f"{loss} regression on rows of norm at most 1. Methods of the package have their default settings, but "
            f"the same prior (precision or ridge {number(PRIOR)}, larger where a theorem needs it) and as many passes "
            "over the rows, none chosen with a look at these rows."
        )

    def heading(self, axis: str) -> str:
        by = {"proven": "the same accountant for all", "promised": "by each method's theorem"}[axis]
        neighbours, delta = relations(NEIGHBOURS), number(self.comparison.delta)
        return f"{self.measure} at equal {axis} ε ({by}), {neighbours}, δ = {delta}"

    @property
    def measure(self) -> str:
        return "Accuracy" if self.scores.sign > 0 else "Mean absolute error (less is better)"

    def rows(self, axis: str, half: bool = False) -> list[list[str]]:
        """Return label and scores of each method, and of the best constant answer; `half`: half intervals."""
        table = self.tables[axis]
        mean, low, high = finite_interval(self.outcome.constant)
        cell = f"{self.scores.text(mean)} {self._interval(low, high, half)}".rstrip()
        return [
            *(
                [look(str(method)).label, *(self._cell(row, half) for row in block.to_dict("records"))]
                for method, block in table.groupby("method", sort=False)
            ),
            [self.scores.answer.capitalize(), *[cell] * len(self.comparison.epsilons)],
        ]

    def _cell(self, row: dict[Any, Any], half: bool) -> str:
        """Return the mean of a method at one ε, with its mark, see LEGEND, and its interval."""
        value, private = row[self.scores.main], row["reach"] != compare.NOT_PRIVATE
        if np.isnan(value):
            return str(row["reach"])
        mean, mark = self.scores.text(value), ""
        if private and row["violated"]:
            mark = "†"
        elif row["reach"] == compare.REACHED:
            level = not np.isnan(row["difference"]) and not row["significant"]
            mark = "*" if row["best"] else "≈" if level else ""
        if row["reach"] in (compare.BELOW, compare.ABOVE):
            return f"{mean}{mark} → ε = {short(row['epsilon_end'])}"
        return f"{mean}{mark} {self._interval(row['low'], row['high'], half)}".rstrip()

    def _interval(self, low: float, high: float, half: bool) -> str:
        """Return an interval, cut to what scores can be, or half its width before that."""
        if np.isnan(low):
            return ""
        if half:
            return f"±{self.scores.text((high - low) / 2)}"
        low, high = self.scores.within(low, high)
        return f"[{self.scores.text(low)}, {self.scores.text(high)}]"

    def sentences(self, axis: str) -> list[str]:
        """Say which methods are best and which are worse; nothing after a first look."""
        if self.quick:
            return []
        return compare.sentences(self.runs, self.tables[axis], axis=axis, constant=self.outcome.constant)

    @property
    def warnings(self) -> list[str]:
        """What no guarantee or no verdict covers, and how to correct that."""
        weak, schema = weak_delta(self.comparison.delta, self.outcome.rows[0]), self.comparison.schema
        ranges = "Replace them by public knowledge in a schema before you rely on any ε here"
        kinds = "Check them in the schema, and write kinds_from_data: false there"
        texts = {
            f"{FROM_DATA}. {ranges}": schema.ranges_from_data,
            f"{KINDS_FROM_DATA}. {kinds}": schema.kinds_from_data,
            LEFT_OUT: schema.unlabelled == "drop",
            f"{weak}. Give a smaller --delta": weak,
            f"{self.comparison.seeds} repeats are too few for a verdict. Drop --quick for one": self.quick,
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
        public = (
            "First state ranges and categories in a schema. "
            if self.comparison.schema.ranges_from_data
            else ""
        )
        return [
            f"To publish: {public}Choose the method on public data, or by a rule fixed in advance. Then fit it once on "
            "all rows, without a seed.",
            "To tune: give a method with your settings by --method, and choose on public rows. A choice by these "
            "scores costs privacy that no ε here counts; `dplangevin price --tuned` prices the best of several runs.",
        ]

    @cached_property
    def kept(self) -> tuple[str, str]:
        """A title and the Python that fits the best private method at the ε next to 1, on all rows."""
        wanted = min(self.comparison.epsilons, key=lambda each: abs(math.log(each)))
        table = self.tables["proven"]
        best = table[table.epsilon.eq(wanted) & table.best.astype(bool)]
        if best.empty:
            return "", ""
        name, kinds = best.method.iloc[0], set[type]()
        private = self._private[self._private.method.eq(name)]
        epsilon = private.epsilon.iloc[int((private.epsilon_proven / wanted - 1).abs().argmin())]
        method = expression(self.outcome.methods[name], kinds, 4)
        if self.comparison.schema.classes is None:
            labels = 'loss="huber", label_bound=1.0,  # y is in [-1, 1]'
        else:
            labels = f"classes={[*self.comparison.schema.classes]},"
        own = [kind for kind in kinds if getattr(dplangevin, kind.__name__, None) is not kind]
        used = {"Budget", "Problem", "encode", "learn", "price", *(k.__name__ for k in kinds if k not in own)}
        file, schema = self.comparison.folder / self.comparison.file, self.comparison.results / "schema.yaml"
        lines = [
            "# chosen by the scores above: no ε counts that choice",
            *(f"from {kind.__module__} import {kind.__name__}" for kind in own),
            f"from dplangevin import (\n    {', '.join(sorted(used))},\n)",
            "",
            f"X, y, row_bound = encode({str(file)!r}, {str(schema)!r})",
            "problem = Problem.from_arrays(",
            f"    X, y, row_bound=row_bound, {labels}",
            *["    public=public_rows,  # rows that need no privacy, encoded alike"] * (name == "pate"),
            ")",
            f"(model,) = learn(\n    {method},",
            f"    problem,\n    Budget({epsilon:g}, {self.comparison.delta:g}),\n)",
            f'price(model.method, problem, model.budget, "{NEIGHBOURS}")["epsilon_proven"]',
        ]
        title = f"To fit and keep {look(name).label}, the best at a proven ε of {number(wanted)}, in Python:"
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
    def common(self) -> list[str]:
        """Assumptions that the guarantees of all private methods rest on."""
        private = self._private.assumptions
        return [each for each in distinct(private) if private.str.contains(each, regex=False).mean() > EVERY]

    @property
    def assumptions(self) -> Iterator[tuple[str, list[str]]]:
        """Label of each method with further assumptions or failed conditions, and these."""
        for method, block in self._private.groupby("method", sort=False):
            own = [each for each in distinct(block.assumptions) if each not in self.common]
            if own := [*own, *(f"it fails: {each}" for each in distinct(block.violated))]:
                yield look(str(method)).label, own

    @property
    def _private(self) -> pd.DataFrame:
        rows = self.runs.drop_duplicates(["method", "epsilon"])
        return rows[np.isfinite(rows.epsilon)]

    def files(self) -> dict[str, bytes]:
        """Return a dot plot for each axis, the page that contains them, and the numbers behind it."""
        figures = {}
        for axis, table in self.tables.items():
            figure = compare.dot_plot(
                self.runs,
                epsilons=self.comparison.epsilons,
                datasets={self.comparison.name: self.comparison.name},
                title=f"{self.measure} at equal {compare.AXES[axis]}",
                axis=axis,
                constant=self.outcome.constant,
                table=table,
            )
            figures[axis] = image_bytes(figure, "png")
        images = {axis: base64.b64encode(content).decode() for axis, content in figures.items()}
        environment = Environment(
            loader=PackageLoader("dplangevin.cli", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        html = environment.get_template("compare.html").render(page=self, images=images, number=number)
        numbers = pd.concat([table.assign(axis=axis) for axis, table in self.tables.items()])
        return {
            **{f"{axis}.png": content for axis, content in figures.items()},
            "index.html": html.encode(),
            "compare.csv": cache.csv_bytes(numbers.dropna(axis=1, how="all")),
        }
