"""Learners over many tables at equal proven ε: the numbers, a figure and a page.

The distance of a learner on a table is the accuracy of the learner without privacy minus its own, in points. The
development tables, on which settings were chosen, stand apart. Paired t-tests compare each learner with DP-GD.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dplangevin.files import between
from dplangevin.papers.exhibits import style, tables
from dplangevin.papers.exhibits.style import look
from dplangevin.papers.statistics import MAJORITY, finite_interval, holm, paired_p
from dplangevin.text import fixed, number

COLUMNS = [
    "dataset", "split_group", "n", "d", "classes", "majority", "method", "epsilon", "epsilon_proven", "delta",
    "accuracy", "low", "high", "distance", "distance_low", "distance_high", "splits", "seconds", "violated",
]  # fmt: skip
GROUPS = "held_out", "development"
FREE, DEFAULT = "nonprivate", "dp_gd"  # the learner without privacy; the default of `PrivateClassifier`
POINTS = 100.0
SHORT = 0.98  # a learner whose proven ε is below this share of the asked one cannot spend more
SIGNIFICANCE = 0.05
VISIBLE = 0.05  # points, from which on a distance is not shown as 0
BEGIN = "<!-- guide: written by `python pipelines/report.py readme` from the exhibit leaderboard -->"
END = "<!-- end of guide -->"
NOTES = """\
Each learner gets the budget at which its proven ε is 0.1, 1 or 10, for replaced records and δ = min(1e-5, 1/n²). So
all learners of a column have the same proven privacy, whatever their papers promise. Accuracy is the mean over
{splits} random splits of a table, or over seeds where a table has its own test rows. Distance is the accuracy of the
learner without privacy minus that of the learner, in points (hundredths), paired by split. An interval of one table
covers splits and noise, or noise alone where a table has its own test rows. Splits share rows, so it is too narrow
for other data. All tables have the same settings; [how they were
chosen](../../../docs/leaderboard.md#how-the-settings-were-chosen).
*: the learner cannot spend the whole ε there. †: a condition of its guarantee fails on a table, or chains have
diverged."""
BEATEN = """\
A distance below 0 means that the private learner is the more accurate one. The learner without privacy is logistic or
softmax regression with a ridge of 0.01 on all tables. {text}"""
SECONDS = """\
Seconds are those of fitting {splits} splits at {epsilons} values of ε together, on a CPU with two threads
([benchmark](../../../benchmarks/README.md)). Preparing the data and testing are not in them."""
PAIRED = """\
Mean of the accuracy of DP-GD minus that of the other learner, in points, over the held-out tables on which both
run and keep their guarantees. The 95 % Student interval is over tables. In bold: the paired t-test is significant at
5 % after Holm's adjustment for all learners of the column."""
TEXT = (
    "Distance: accuracy without privacy minus accuracy of the learner, mean over splits. Dots: {tables} {group} "
    "tables; below the dotted line fewer ({few}). Large mark and number: median. Vertical line: as accurate as "
    "without privacy; left of it: more accurate. Axis: linear up to 1 point, logarithmic beyond. All learners have "
    "the same proven ε for replaced records, except where the table has a *; δ = min(1e-5, 1/n²)."
)


def numbers(runs: pd.DataFrame, *, development: Sequence[str]) -> pd.DataFrame:
    """Return one row for each table, learner and ε.

    - `runs`: Rows of `read.read_runs`, with those of `read.read_timings`.
    - `development`: Tables on which settings were chosen. The others are held out.
    - returns: Columns `COLUMNS`. n: training rows. d: features, with the bias. majority: share of the largest class
      among test rows, of the training rows' largest class. accuracy, low and high: mean over splits with its 95 %
      interval. distance, distance_low and distance_high: points below the learner without privacy, paired by split.
      seconds: time of all splits and ε together, where it was measured.
    """
    scores = runs[runs.metric.eq("accuracy")]
    majority = runs[runs.metric.eq(MAJORITY)].groupby("dataset").value.mean()
    seconds = runs[runs.metric.eq("seconds")].set_index(["dataset", "method"]).value
    rows = []
    for dataset, here in scores.groupby("dataset", sort=False):
        free = here[here.method.eq(FREE)].set_index("seed").value
        for (method, epsilon), found in here.groupby(["method", "epsilon"], sort=False):
            first, values = found.iloc[0], found.set_index("seed").value
            accuracy, gap = finite_interval(values), finite_interval(POINTS * (free - values))
            rows.append(
                {
                    "dataset": dataset,
                    "split_group": GROUPS[dataset in development],
                    "n": int(first.records),
                    "d": int(first.parameters // (first.classes if first.classes > 2 else 1)),
                    "classes": int(first.classes),
                    "majority": majority.get(dataset, np.nan),
                    "method": method,
                    "epsilon": epsilon,
                    "epsilon_proven": first.epsilon_proven,
                    "delta": first.delta,
                    "accuracy": accuracy.mean,
                    "low": accuracy.low,
                    "high": accuracy.high,
                    "distance": gap.mean,
                    "distance_low": gap.low,
                    "distance_high": gap.high,
                    "splits": int(values.notna().sum()),
                    "seconds": seconds.get((dataset, method), np.nan),
                    "violated": "; ".join(sorted(set(found.violated) - {""})),
                }
            )
    return pd.DataFrame(rows, columns=COLUMNS)


def points(value: float) -> str:
    """Return points of accuracy as text, with one decimal and without a negative zero."""
    return f"{round(value, 1) + 0.0:.1f}".replace("-", "−")


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the held-out tables; those of the development tables if no table is held out."""
    held = table[table.split_group.eq(GROUPS[0])]
    return table if held.empty else held


def medians(table: pd.DataFrame) -> pd.DataFrame:
    """Return the median distance over the tables of `shown`: a row for each learner, a column for each ε.

    Learners on more tables come first, then those with the smaller distances at the smallest ε.
    """
    held = shown(table[np.isfinite(table.epsilon)])
    wide = held.pivot_table(index="method", columns="epsilon", values="distance", aggfunc="median")
    order = wide.assign(absent=-held.groupby("method").dataset.nunique())
    return wide.loc[order.sort_values(["absent", *wide.columns]).index]


def behind(table: pd.DataFrame, epsilon: float) -> pd.DataFrame:
    """Return how far learners are behind `DEFAULT` at one ε, in points, over the tables of both in `shown`.

    - returns: A row for each other learner: mean, low, high (95 % Student interval over tables), tables, and p of the
      paired t-test over tables, adjusted for the number of learners (Holm). p is nan for one table. A result does not
      count where a condition of its guarantee fails or a chain has diverged.
    """
    here = shown(table)
    here = here[here.epsilon.eq(epsilon)]
    here = here.assign(accuracy=POINTS * here.accuracy.where(here.violated.isin(["", np.nan])))
    wide = here.pivot(index="dataset", columns="method", values="accuracy")[here.method.unique()]
    rows = {}
    for name in wide.columns.drop(DEFAULT):
        gap = (wide[DEFAULT] - wide[name]).dropna()
        p = paired_p(wide[DEFAULT], wide[name])
        rows[name] = {**finite_interval(gap)._asdict(), "tables": len(gap), "p": p}
    found = pd.DataFrame.from_dict(rows, orient="index")
    tested = found.p.notna()
    found.loc[tested, "p"] = holm(found.p[tested].tolist())
    return found


def advice(table: pd.DataFrame) -> list[str]:
    """Return the lines that compare `DEFAULT` with the other learners."""
    epsilons, of, centre = _epsilons(table), shown(table), medians(table)
    distances = "; ".join(f"{points(centre[e][DEFAULT])} at ε = {number(e)}" for e in epsilons)
    lines = [
        "**DP-GD is the default of `PrivateClassifier`.** Its median distance to no privacy on "
        f"{of.dataset.nunique()} {of.split_group.iloc[0].replace('_', '-')} tables is, in points of accuracy: "
        f"{distances}. Paired t-tests over these tables compare it with each other learner. Holm's adjustment keeps "
        "the error at 5 % for each ε. With so few tables, only a large and steady lead shows.",
        "",
    ]
    for epsilon in epsilons:
        gaps = behind(table, epsilon)
        sure = gaps.p.le(SIGNIFICANCE)
        ahead, worse = sure & gaps["mean"].gt(0), sure & gaps["mean"].lt(0)
        lines.append(
            f"* At ε = {number(epsilon)} it is ahead of {ahead.sum()} of {len(gaps)} other learners by more than "
            f"chance, and behind {'; '.join(look(name).label for name in gaps.index[worse]) or 'none'}."
        )
    return [*lines, "", BEATEN.format(text=" ".join(_beaten(table)))]


def _beaten(table: pd.DataFrame) -> list[str]:
    """Return sentences that say how often private learners are more accurate than without privacy."""
    said = []
    for group in GROUPS:
        here = table[table.split_group.eq(group) & np.isfinite(table.epsilon)]
        below = here.distance.lt(-VISIBLE)
        sure = sorted(here.dataset[below & here.distance_high.lt(0)].unique())
        more = f" (by more than the interval over splits on {', '.join(sure)})" if sure else ""
        if len(here):
            said.append(
                f"{below.sum()} of {len(here)} results on {group.replace('_', '-')} tables are below 0{more}."
            )
    return said


def in_docs(page: str, table: pd.DataFrame) -> str:
    """Return the text of docs/leaderboard.md with `advice` between its lines `BEGIN` and `END`."""
    return between(page, BEGIN, END, advice(table))


def _epsilons(table: pd.DataFrame) -> list[float]:
    """Return the finite values of ε, ascending."""
    return sorted(table.epsilon[np.isfinite(table.epsilon)].unique())


def distances(
    runs: pd.DataFrame, *, development: Sequence[str], absent: Mapping[str, str], title: str = ""
) -> Figure:
    """Draw the distance of every learner to no privacy on the held-out tables, a panel for each ε.

    - `runs`, `development`: As for `numbers`.
    - `absent`: Learner -> why it does not run on all tables. Not drawn.
    """
    table = numbers(runs, development=development)
    held, centre = shown(table), medians(table)
    names, epsilons = [*centre.index], [*centre.columns]
    everywhere = int(held.groupby("method").dataset.nunique()[names].eq(held.dataset.nunique()).sum())
    with style.settings():
        size = (3.3 * len(epsilons) + 1.6, 0.27 * len(names) + 1.9)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(1, len(epsilons), squeeze=False, sharey=True, sharex=True)[0]
        for ax, epsilon in zip(axes, epsilons, strict=True):
            ax.axvline(0, color="#000000", lw=1.0, zorder=1)
            if 0 < everywhere < len(names):
                ax.axhline(everywhere - 0.5, color="#999999", lw=0.8, ls=":", zorder=1)
            for y, name in enumerate(names):
                at = held[held.method.eq(name) & held.epsilon.eq(epsilon)].distance
                ax.plot(at, [y] * len(at), "o", ms=3.5, mfc="#777777", mec="white", mew=0.4, zorder=4)
                of = look(name)
                ax.plot(centre[epsilon][name], y, **(of.shape | {"ls": "", "ms": 8}), zorder=3)
                ax.annotate(
                    points(centre[epsilon][name]),
                    (1.01, y),
                    xycoords=("axes fraction", "data"),
                    va="center",
                    fontsize=8,
                )
            ax.annotate(
                "median", (1.01, 1.01), xycoords="axes fraction", va="bottom", fontsize=7, color="#444444"
            )
            ax.set_xscale("symlog", linthresh=1.0, linscale=0.6)
            ax.set_xticks([-3, -1, 0, 1, 3, 10, 30], ["−3", "−1", "0", "1", "3", "10", "30"])
            ax.set_xticks([], minor=True)
            ax.set(title=f"proven ε = {number(epsilon)}", xlabel="points below no privacy")
        axes[0].set_yticks(range(len(names)), [look(name).label for name in names])
        axes[0].set_ylim(len(names) - 0.5, -0.5)
        most = held.dataset.nunique()
        few = "; ".join(
            f"{look(name).label}: {count}"
            for name in names
            if (count := held[held.method.eq(name)].dataset.nunique()) < most
        )
        group = held.split_group.iloc[0].replace("_", "-")
        text = TEXT.format(tables=most, group=group, few=few or "all learners")
        dots = [
            Line2D([], [], marker="o", ls="", color="#777777", ms=3.5, label="one table"),
            Line2D([], [], marker="D", ls="", color="#444444", ms=7, label="median over tables"),
        ]
        return style.lay_out(figure, title, text, dots)


def page(
    runs: pd.DataFrame, *, development: Sequence[str], absent: Mapping[str, str], title: str = ""
) -> str:
    """Return a Markdown page: medians, the differences to `DEFAULT`, and each table's accuracies.

    The arguments are those of `distances`.
    """
    table = numbers(runs, development=development)
    epsilons = _epsilons(table)
    lines = [NOTES.format(splits=table.splits.max()), "", "## DP-GD and the others", ""]
    lines += advice(table)
    lines += ["", "## Distance to no privacy", ""]
    lines += [*_overview(runs, table), ""]
    if table.seconds.notna().any():
        lines += [SECONDS.format(splits=table.splits.max(), epsilons=len(epsilons)), ""]
    lines += [f"- {look(name).label}: {why}" for name, why in absent.items()]
    lines += ["", "## Differences", "", PAIRED, ""]
    lines += _pairs(table, epsilons)
    for group in GROUPS:
        here = table[table.split_group.eq(group)]
        if here.empty:
            continue
        lines += ["", f"## Accuracy on the {group.replace('_', '-')} tables", ""]
        for epsilon in epsilons:
            lines += [f"Proven ε = {number(epsilon)}:", "", *_accuracies(here, epsilon), ""]
    return tables.page(title, lines)


def _overview(runs: pd.DataFrame, table: pd.DataFrame) -> list[str]:
    """Return the table of the learners: median distances, attack over proven ε, and seconds."""
    centre, epsilons = medians(table), _epsilons(table)
    held = shown(table).groupby("method").dataset.nunique()
    brackets = runs[runs.metric.eq("bracket")].groupby("method").value.median()
    columns = ["learner", "tables", *(f"ε = {number(e)}" for e in epsilons), "attack / proven ε"]
    timed = table[table.seconds.notna()]
    seconds, sizes = timed.groupby(["method", "dataset"]).seconds.first(), timed.groupby("dataset").n.first()
    columns += [f"seconds, {name}" for name in sizes.sort_values().index]
    lines = []
    for name in centre.index:
        line = [look(name).label, str(held[name]), *(points(centre[e][name]) for e in epsilons)]
        share = brackets.get(name, np.nan)
        line.append("" if np.isnan(share) else f"{100 * share:.0f} %")
        lines.append(
            [*line, *(fixed(seconds.get((name, of), np.nan), ".2g") for of in sizes.sort_values().index)]
        )
    return tables.table(columns, lines, left=1)


def _pairs(table: pd.DataFrame, epsilons: Sequence[float]) -> list[str]:
    """Return the table of the differences to `DEFAULT`."""
    gaps = {epsilon: behind(table, epsilon) for epsilon in epsilons}
    names = [name for name in medians(table).index if name != DEFAULT]
    lines = []
    for name in names:
        line = [look(name).label, str(int(gaps[epsilons[0]].tables[name]))]
        for epsilon in epsilons:
            gap = gaps[epsilon].loc[name]
            text = f"{gap['mean']:+.1f} [{gap.low:+.1f}, {gap.high:+.1f}]"
            line.append(f"**{text}**" if gap.p <= SIGNIFICANCE else text)
        lines.append(line)
    return tables.table(["learner", "tables", *(f"ε = {number(e)}" for e in epsilons)], lines, left=1)


def _accuracies(here: pd.DataFrame, epsilon: float) -> list[str]:
    """Return the table of accuracies at one ε: a row for each table, a column for each learner."""
    names = [name for name in here.method.unique() if name != FREE]
    free = here[here.method.eq(FREE)].set_index("dataset")
    rows = {(row["dataset"], row["method"]): row for _, row in here[here.epsilon.eq(epsilon)].iterrows()}
    lines = []
    for dataset, of in free.iterrows():
        line = [str(dataset), f"{of.n:,}", str(of.d), str(of.classes), fixed(of.majority, ".3f")]
        line.append(f"{of.accuracy:.3f}")
        for name in names:
            line.append(_accuracy(rows[dataset, name], epsilon) if (dataset, name) in rows else "")
        lines.append(line)
    columns = ["table", "n", "d", "classes", "majority", "no privacy", *(look(name).label for name in names)]
    return tables.table(columns, lines, left=1)


def _accuracy(row: Any, epsilon: float) -> str:
    """Return an accuracy with half its interval, marked as explained in NOTES."""
    marks = ("*" if row.epsilon_proven < SHORT * epsilon else "") + ("†" if row.violated else "")
    half = "" if np.isnan(row.low) else f" ± {(row.high - row.low) / 2:.3f}"
    return f"{fixed(row.accuracy, '.3f')}{half}{marks}"
