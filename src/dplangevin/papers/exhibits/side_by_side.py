"""Methods side by side at equal proven or promised epsilon: the numbers, two figures and sentences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from dplangevin.papers.exhibits import figures, tables
from dplangevin.papers.statistics import MAJORITY, NEAR, curve, holm, paired_p, read_off, t_interval
from dplangevin.reporting import style
from dplangevin.reporting.words import Look, look
from dplangevin.text import number, short


class Scores(NamedTuple):
    """The metrics by which methods are compared: column of the table -> metric; the first ranks the methods.

    `sign` is +1 if a larger main score is better, else -1. `constant`, `answer`: of the best constant answer.
    """

    metrics: Mapping[str, str]
    sign: int
    label: str
    constant: str
    answer: str

    @property
    def main(self) -> str:
        """Column of the main score."""
        return next(iter(self.metrics))

    def within(self, low: float, high: float) -> tuple[float, float]:
        """Return an interval of the main score, cut at [0, 1] for a share and at 0 for an error."""
        return max(low, 0.0), min(high, 1.0 if self.sign > 0 else math.inf)

    def text(self, value: float) -> str:
        """Return a main score as text: a share with three decimals, an error with four significant digits."""
        digits = 3 if self.sign > 0 or value == 0 else max(0, 3 - math.floor(math.log10(abs(value))))
        return f"{value:.{digits}f}"

    @property
    def columns(self) -> list[str]:
        """Columns of `at_epsilon`."""
        first, *others = self.metrics
        return [
            "dataset", "epsilon", "method", "reach", "epsilon_end", first, "low", "high", *others,
            "difference", "difference_low", "difference_high", "p_adjusted", "best", "significant", "violated",
            "repeats",
        ]  # fmt: skip


CLASSES = Scores(
    {"accuracy": "accuracy", "log_score": "log_loss", "brier": "brier", "ece": "ece"},
    1,
    "test accuracy",
    MAJORITY,
    "always the largest class",
)
TARGETS = Scores(
    {"absolute_error": "absolute_error", "squared_error": "squared_error"},
    -1,
    "mean absolute error of test rows",
    "constant_absolute_error",
    "always the training median",
)
REACHED, BELOW, ABOVE, NOT_PRIVATE = "reached", "ends below", "begins above", "not private"
DIVERGED, UNPRICED = "diverged", "no proven ε"
AXES = {"proven": "proven ε", "promised": "promised ε"}
FREE = "nonprivate"  # the fit that `heat` measures from
SIDE_BY_SIDE = 6  # data sets, up to which `heat` has its blocks beside each other
FAMILY_WISE = 0.05  # family-wise error of the tests in a block (one data set at one epsilon)
KINDS = {
    "best": Look("best private method", "#D55E00", "*", "-", 9.0),
    "equal": Look("not significantly worse than the best", "#0072B2", "o", "-", 5.0),
    "worse": Look("significantly worse", "#888888", "o", "-", 4.0),
    "free": Look("without privacy", "#000000", "s", "-", 4.0),
    "constant": Look("constant answer", "#000000", "|", "-", 9.0),
}


def scores_of(runs: pd.DataFrame) -> Scores:
    """Return the scores that the runs have: those of classes, or those of numeric targets."""
    return TARGETS if runs.metric.eq(TARGETS.metrics[TARGETS.main]).any() else CLASSES


def at_epsilon(runs: pd.DataFrame, *, epsilons: Sequence[float], axis: str = "proven") -> pd.DataFrame:
    """Compare methods at given values of epsilon, with one row for each data set, epsilon and method.

    Every repeat is interpolated linearly in ln epsilon between neighbouring budgets of the method. Methods are compared
    if their budgets reach the epsilon. The best of them must have a guarantee that holds and no diverged chain.

    - returns: Columns `Scores.columns`. low, high: 95 % interval of the main score. reach: one of REACHED to UNPRICED;
      else the scores are those at `epsilon_end`. difference: paired, to the best, with a 95 % Student interval.
      p_adjusted: of the paired t-test, by Holm's method over all pairs of methods of the data set and epsilon.
    """
    scores, rows = scores_of(runs), []
    for dataset, here in runs.groupby("dataset", sort=False):
        methods = {str(name): group for name, group in here.groupby("method", sort=False)}
        curves = {
            name: {of: curve(group[group.metric.eq(metric)], axis) for of, metric in scores.metrics.items()}
            for name, group in methods.items()
        }
        for epsilon in epsilons:
            block = {n: _one(group, curves[n], epsilon, axis, scores) for n, group in methods.items()}
            _against_best([row for row in block.values() if row["reach"] == REACHED], scores)
            for name, row in block.items():
                rows.append({"epsilon": epsilon, **row, "dataset": dataset, "method": name})
    return pd.DataFrame(rows).reindex(columns=scores.columns)


def _one(
    group: pd.DataFrame, curves: Mapping[str, pd.DataFrame], epsilon: float, axis: str, scores: Scores
) -> dict[str, Any]:
    ends = np.exp(curves[scores.main].columns.to_numpy(float))
    row: dict[str, Any] = {"reach": REACHED, "epsilon_end": np.nan, "best": False, "significant": False}
    free, used = np.isinf(ends).all(), epsilon
    end = epsilon if free else np.clip(epsilon, ends.min(), ends.max())
    if free:
        row["reach"] = NOT_PRIVATE
    elif abs(np.log(end / epsilon)) > NEAR:
        used = end
        row |= {"reach": BELOW if end < epsilon else ABOVE, "epsilon_end": end}
    read = {name: read_off(table, used) for name, table in curves.items() if table.size}
    row |= {name: values.mean() for name, values in read.items()}
    all_repeats = read.get(scores.main, pd.Series(dtype=float))
    values = all_repeats.dropna()
    if values.empty:
        return row | {"reach": DIVERGED if len(ends) else UNPRICED, "violated": True, "repeats": 0}
    interval, violated = t_interval(values), _violated(group, used, axis, scores)
    row |= {"values": values, "low": interval.low, "high": interval.high, "repeats": len(values)}
    return row | {"violated": violated, "trusted": not violated and len(values) == len(all_repeats)}


def _violated(group: pd.DataFrame, epsilon: float, axis: str, scores: Scores) -> bool:
    """Return whether a condition of the guarantee fails at one of the two budgets around an epsilon."""
    points = group[group.metric.eq(scores.metrics[scores.main])]
    at = points["epsilon_proven" if axis == "proven" else "epsilon"].to_numpy(float)
    usable = (at > 0) & np.isfinite(at)
    away = np.log(at[usable] / epsilon)
    near = [away[away <= NEAR].max(initial=-np.inf), away[away >= -NEAR].min(initial=np.inf)]
    return bool((points.violated.to_numpy()[usable][np.isin(away, near)] != "").any())


def _against_best(rows: list[dict[str, Any]], scores: Scores) -> None:
    """Mark the best of the trusted `rows` and add all differences to it, if there is a trusted row."""
    trusted = (i for i, row in enumerate(rows) if row["trusted"])
    winner = max(trusted, key=lambda i: scores.sign * rows[i][scores.main], default=None)
    if winner is None:
        return
    best = rows[winner]
    best["best"] = True
    pairs = list(itertools.combinations(range(len(rows)), 2))
    p = [paired_p(rows[i]["values"], rows[j]["values"]) for i, j in pairs]
    adjusted = {frozenset(pair): value for pair, value in zip(pairs, holm(p), strict=True)}
    for i, row in enumerate(rows):
        gap = t_interval((row["values"] - best["values"]).dropna())
        row |= {"difference": gap.mean, "difference_low": gap.low, "difference_high": gap.high}
        row["p_adjusted"] = adjusted.get(frozenset((i, winner)), np.nan)
        row["significant"] = row["p_adjusted"] <= FAMILY_WISE


def marked(runs: pd.DataFrame, *, epsilons: Sequence[float]) -> pd.DataFrame:
    """Return `at_epsilon` with texts for a page: shown, limits and gap; `at` is data set and epsilon."""
    table = at_epsilon(runs, epsilons=epsilons)
    rows, compared = [*table.itertuples()], ~table.best.astype(bool) & table.difference.notna()
    gaps = [f"{row.difference:+.4f} {_limits(row.difference_low, row.difference_high)}" for row in rows]
    return table.assign(
        at=table.dataset + " " + table.epsilon.map(number),
        shown=[*map(_accuracy, rows)],
        limits=[_limits(row.low, row.high) for row in rows],
        gap=np.where(compared, gaps, ""),
        p_adjusted=table.p_adjusted.mask(table.best.astype(bool)),
        loss=-table.accuracy,
    )


def _accuracy(row: Any) -> str:
    if np.isnan(row.accuracy):
        return str(row.reach)
    text = f"{row.accuracy:.4f}" + ("†" if row.violated else "")
    if row.reach in (BELOW, ABOVE):
        return f"{row.reach.split()[0]} at {short(row.epsilon_end)}: {text}"
    if np.isnan(row.difference):
        return text
    return f"**{text}**" if row.best else text + ("" if row.significant else " ≈")


def _limits(low: Any, high: Any) -> str:
    return "" if np.isnan(low) else f"({low:.4f} to {high:.4f})"


def heat(
    runs: pd.DataFrame, *, epsilons: Sequence[float], datasets: Mapping[str, str], text: str, title: str = ""
) -> Figure:
    """Draw how far methods are below the fit without privacy: a block for each epsilon, a column for each data set."""
    table = at_epsilon(runs, epsilons=epsilons)
    free = table[table.method.eq(FREE)].groupby("dataset").accuracy.first()
    names = {
        of: f"{name}\n{free[of]:.3f}".replace("\n0", "\n") for of, name in datasets.items() if of in free
    }
    cells = table[table.reach.eq(REACHED) & table.dataset.isin(names)]
    cells = cells.assign(points=100 * (cells.dataset.map(free) - cells.accuracy))
    means = cells.groupby("method").agg(tables=("dataset", "nunique"), points=("points", "mean"))
    rows = [*means.sort_values(["tables", "points"], ascending=[False, True]).index]
    across = 1 if len(names) > SIDE_BY_SIDE else len(epsilons)
    down = -(-len(epsilons) // across)
    with style.settings():
        width = 2.3 + (0.72 if len(names) < 5 else 0.56) * len(names) * across
        figure = Figure(figsize=(width, 1.8 + (0.4 + 0.23 * len(rows)) * down), layout="constrained")
        axs = figure.subplots(down, across, squeeze=False, sharex=across == 1, sharey=True).flat
        for ax, epsilon in zip(axs, epsilons, strict=True):
            _cells(ax, cells[cells.epsilon.eq(epsilon)], rows, [*names])
            turn = 90 if len(names) > 12 else 0
            ax.set_xticks(range(len(names)), names.values(), rotation=turn, fontsize=7.5)
            ax.set_yticks(range(len(rows)), [look(method).label for method in rows])
            ax.set_title(f"proven ε = {number(epsilon)}")
            ax.tick_params(length=0)
            ax.grid(visible=False)
        return style.lay_out(figure, title, text, [])


def _cells(ax: Axes, cells: pd.DataFrame, rows: list[str], columns: list[str]) -> None:
    losses = cells.pivot(index="method", columns="dataset", values="points").reindex(rows, columns=columns)
    shades: Any = np.log1p(losses.clip(lower=0))
    image = ax.imshow(shades, cmap="Blues", vmin=0, vmax=math.log1p(50), aspect="auto")
    cell: Any
    for cell in cells.itertuples():
        x, y = columns.index(cell.dataset), rows.index(cell.method)
        text = f"{round(cell.points, 1) + 0.0:.1f}".replace("-", "−") + "†" * bool(cell.violated)
        text += "≈" * (not (cell.best or cell.significant or np.isnan(cell.difference)))
        dark = np.dot(image.to_rgba(shades.iloc[y, x])[:3], [0.3, 0.6, 0.1]) < 0.5
        colour, weight = "white" if dark else "black", "bold" if cell.best else "normal"
        ax.text(x, y, text, ha="center", va="center", fontsize=7, weight=weight, color=colour)
        if cell.best:
            ax.add_patch(Rectangle((x - 0.47, y - 0.45), 0.94, 0.9, fill=False, ec="#D55E00", lw=1.5))


def dot_plot(
    table: pd.DataFrame, scores: Scores, *, constant: pd.Series, axis: str = "proven", title: str = ""
) -> Figure:
    """Draw a panel for each epsilon of a table of `at_epsilon`: the main scores of the methods that reach it."""
    worse = table.significant & (scores.sign * table.difference < 0)
    kind = np.select([table.reach.eq(NOT_PRIVATE), table.best, worse], ["free", "best", "worse"], "equal")
    rows = table.assign(kind=kind, value=table[scores.main], name=table.method.map(tables.method_label))
    rows["violated"] = np.where(rows.violated, "a condition", "")
    rows["low"], rows["high"] = zip(*map(scores.within, rows.low, rows.high), strict=True)
    rows = rows[rows.reach.isin([REACHED, NOT_PRIVATE])]
    answers = pd.DataFrame({"epsilon": table.epsilon.unique(), "value": constant.mean()})
    answers = answers.assign(method=MAJORITY, name=scores.answer, kind="constant", violated="")
    rows = pd.concat([rows, answers], ignore_index=True)
    drawn: dict[str, Any] = {"x": "value", "low": "low", "high": "high", "xlabel": scores.label}
    drawn["marks"] = [
        {"where": {"kind": name}, **of._asdict()} for name, of in KINDS.items() if rows.kind.eq(name).any()
    ]
    panels = [
        {"where": {"epsilon": e}, "title": f"{table.dataset.iloc[0]}, {AXES[axis]} = {number(e)}", **drawn}
        for e in table.epsilon.unique()
    ]
    text = (
        "Mean and 95 % t-interval over repeats. Not significantly worse: by Holm's method over all pairs, 5 %. No "
        f"dot: the method's budgets do not reach this {AXES[axis]} (the table says where they end)."
    )
    width = 3.1 * len(panels) + 2.0
    given: dict[str, Any] = {"by": ["method"], "sharex": True, "width": width, "title": title}
    return figures.dots(rows, label="{name}", text=text, panels=panels, **given)


def sentences(
    runs: pd.DataFrame, table: pd.DataFrame, *, constant: pd.Series, axis: str = "proven"
) -> list[str]:
    """Return a text for each epsilon: the best method, whether it beats a constant answer, how many equal it."""
    scores, texts = scores_of(runs), []
    points = runs[runs.metric.eq(scores.metrics[scores.main])]
    curves = {name: curve(group, axis) for name, group in points.groupby("method")}
    for epsilon in table.epsilon.unique().tolist():
        block = table[table.epsilon.eq(epsilon)]
        reached, far = block[block.reach.eq(REACHED)], block.reach.isin([BELOW, ABOVE]).sum()
        sure = reached[~reached.violated.astype(bool)]
        others = sure[~sure.best.astype(bool)]
        text = f"At a {AXES[axis]} of {number(epsilon)}"
        if not sure.best.any():
            text += " no method is compared."
        else:
            values = {name: read_off(curves[name], epsilon) for name in sure.method}
            text += f" {_verdict(sure[sure.best.astype(bool)].iloc[0], values, constant, scores)}"
            worse = others.significant.astype(bool) & (scores.sign * others.difference < 0)
            level = f"{len(others) - worse.sum()} of the {len(others)} others cannot be told from it (≈)"
            text += f" {level}." if len(others) else ""
        text += f" Not reached by {far} (→)." if far else ""
        hollow = len(reached) - len(sure)
        texts.append(text + (f" Shown but not trusted: {hollow} (†)." if hollow else ""))
    return texts


def _verdict(best: pd.Series, values: Mapping[str, pd.Series], constant: pd.Series, scores: Scores) -> str:
    """Say whether the best method beats a constant answer, by Holm's method over all methods, and if not, why."""
    name, score, mine = look(best.method).label, scores.text(best[scores.main]), values[best.method]
    p = dict(zip(values, holm([paired_p(each, constant) for each in values.values()]), strict=True))
    ahead, p_best = scores.sign * (mine - constant).mean() > 0, p[best.method]
    if ahead and p_best <= FAMILY_WISE:
        return f"{name} is best ({score})."
    why = "its mean is no better"
    if ahead:
        why = f"p = {p_best:.2g}, above {FAMILY_WISE}, by Holm's method over {len(values)} methods"
    return (
        f"the best, {name} ({score}), is not shown to beat a constant answer, {scores.answer} "
        f"({scores.text(constant.mean())}): over {len(mine)} repeats, {why}."
    )
