"""Figures of trained networks: accuracy beside privacy prices, learning curves and calibration.

The networks are those of li2019 (Table 1), and the heads and blocks on features of ryffel2022 (section 5).
All functions are pure functions of the frames of `papers.exhibits.read`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from dplangevin.papers.claims import ryffel2022, words
from dplangevin.papers.exhibits import style, tables
from dplangevin.papers.exhibits.privacy import PRICES
from dplangevin.papers.exhibits.style import GREY, Look, entry, hollow_entries, lay_out, look, markers
from dplangevin.papers.exhibits.tables import Features, Names, Published
from dplangevin.papers.statistics import matches, seed_summaries
from dplangevin.text import number, numbers, percent, short, span

# Accuracy against the proven ε: Table 1 of li2019

ACCURACY_TICKS = [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998]
LOGIT = (0.005, 0.9995)  # ends of the axis; a logit axis cannot show accuracies 0 and 1
STAR: dict[str, Any] = {"marker": "*", "ms": 12.0, "mfc": "none", "ls": "", "mew": 1.2}
TRAINING_TEXT = (
    "Mean over seeds; bars: standard deviation (none for one seed). δ = {delta}. Large stars: printed accuracy at the "
    "printed ε.\nSmall stars: the same accuracy at the proven ε of those settings. Vertical axis: logit scale."
)


def _of_networks(
    frame: pd.DataFrame, published: Published, networks: Names, names: Names | None
) -> tuple[pd.DataFrame, list[str], str]:
    """Return the summary of `networks`, the names of those that have rows, and δ as text."""
    table = tables.training_summary(frame, published=published, names=names)
    table = table[table.problem.isin(list(networks))]
    present = [network for network in networks if table.problem.eq(network).any()]
    return table, present, numbers(table.delta[np.isfinite(table.epsilon_add_remove)])


def training(
    frame: pd.DataFrame,
    *,
    published: Published,
    networks: Names,
    names: Names | None = None,
    chance: float,
    title: str = "",
) -> Figure:
    """Draw accuracy against the proven ε (add/remove, log axis), with one panel for each network.

    - `published`, `names`: As for `tables.training_summary`; each published number has an epsilon and a method.
    - `networks`: Name of a network in the frame -> title of its panel. Other networks are not drawn.
    - `chance`: Accuracy of a guess, in (0, 1), which is a horizontal line.
    """
    table, present, delta = _of_networks(frame, published, networks, names)
    table = table.assign(accuracy=table.accuracy.clip(*LOGIT))
    of = Look(f"chance: {100 * chance:g} %", GREY, "", (0, (1, 1)))
    with style.settings():
        figure = Figure(figsize=(3.9 * len(present) + 0.9, 4.9), layout="constrained")
        axes = figure.subplots(1, len(present), squeeze=False, sharey=True)[0]
        handles: dict[str, Line2D] = {}
        for ax, network in zip(axes, present, strict=True):
            rows = table[table.problem.eq(network)]
            ax.set(yscale="logit", xscale="log")
            handles |= _runs_of_network(ax, rows)
            handles |= _published(ax, rows, published)
            handles[of.label] = style.reference_line(ax, (chance,) * 3, of, label=of.label, lw=2.0)
            ax.set(title=networks[network], xlabel="proven ε (add/remove)")
            style.epsilon_ticks(ax)
        _accuracy_axis(axes[0], table)
        return lay_out(figure, title, TRAINING_TEXT.format(delta=delta), list(handles.values()))


def _runs_of_network(ax: Axes, rows: pd.DataFrame) -> dict[str, Line2D]:
    """Draw curves of equal proven ε, single points and non-private lines; return legend entries by label."""
    handles: dict[str, Line2D] = {}
    for method, run_rows in rows[rows.block.eq("equal")].groupby("method", sort=False):
        run_rows, of = run_rows.sort_values("epsilon_add_remove"), look(str(method), "network")
        ax.plot(run_rows.epsilon_add_remove, run_rows.accuracy, color=of.colour, ls=of.line, zorder=3)
        handles[of.label] = _points(ax, run_rows, of)
    for _, run_rows in rows[rows.block.eq("moments")].groupby("run", sort=False):
        of = Look(run_rows.label.iloc[0], look(run_rows.method.iloc[0], "network").colour, "^", "", 7.0)
        handles[of.label] = _points(ax, run_rows, of)
    for _, row in rows[rows.block.eq("nonprivate")].iterrows():
        of = look(row.method, "network")
        handles[of.label] = style.reference_line(ax, (row.accuracy,) * 3, of, label=of.label)
    return handles


def _points(ax: Axes, rows: pd.DataFrame, of: Look) -> Line2D:
    """Draw means with bars of one standard deviation; return the legend entry."""
    spread = rows[rows.sd.notna()]
    low, high = ((spread.accuracy + sign * spread.sd).clip(*LOGIT) for sign in (-1, 1))
    ax.vlines(spread.epsilon_add_remove, low, high, color=of.colour, lw=1.6, zorder=2)
    markers(ax, rows.epsilon_add_remove, rows.accuracy, rows.violated, of)
    return entry(of)


def _published(ax: Axes, rows: pd.DataFrame, published: Published) -> dict[str, Line2D]:
    """Draw the published numbers of methods; return their legend entry.

    A star stands at the published ε, and a dotted line leads to the proven ε of the same settings.
    """
    for printed in published:
        accuracy, here = printed["accuracy"], rows[matches(rows, printed["where"])]
        colour = look(printed["where"]["method"], "network").colour
        ax.plot(printed["epsilon"], accuracy, color=colour, zorder=5, **STAR)
        for price in here.epsilon_add_remove[here.block.eq("moments")]:
            ax.plot([price, printed["epsilon"]], [accuracy] * 2, color=colour, ls=":", lw=1.2, zorder=2)
            ax.plot(price, accuracy, color=colour, zorder=5, **{**STAR, "ms": 7.0})
    label = "printed, in the method's colour"
    return {"star": Line2D([], [], color="#555555", label=label, **STAR)} if published else {}


def _accuracy_axis(ax: Axes, table: pd.DataFrame, horizontal: bool = False) -> None:
    """Label an axis of accuracy in %, between the ticks just below and just above all drawn values."""
    ends = [table.accuracy + sign * table.sd for sign in (-1, 1)]
    drawn = pd.concat([table.accuracy, table.accuracy_paper, *ends]).dropna()
    low, high = drawn.clip(*LOGIT).min(), drawn.clip(*LOGIT).max()
    stops = [LOGIT[0], *ACCURACY_TICKS, LOGIT[1]]
    bottom, top = max(t for t in stops if t <= low), min(t for t in stops if t >= high)
    inside = [t for t in ACCURACY_TICKS if bottom <= t <= top]
    axis = ax.xaxis if horizontal else ax.yaxis
    axis.set_ticks(inside, labels=[f"{100 * t:g}" for t in inside])
    axis.set_ticks([], minor=True)
    set_limits = ax.set_xlim if horizontal else ax.set_ylim
    set_limits(bottom, top)
    axis.set_label_text("test accuracy (%)")


# Printed accuracies beside ours: Table 1 of li2019

NETWORK_LOOKS = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"))
DUMBBELL_TEXT = (
    "Mean over seeds; bars: 95 % t-interval over seeds (none for one seed). ε: proven, add/remove, δ = {delta}. "
    "Horizontal axis: logit scale."
)
GAP_LEFT, GAP_WIDTH = 10, 34  # in points: of the first column of differences, and of each column
GAP_AT: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8}


def printed_and_ours(
    frame: pd.DataFrame, *, published: Published, networks: Names, names: Names | None = None, title: str = ""
) -> Figure:
    """Draw each published accuracy and ours as a dumbbell, with one row for each published number and learner.

    - `published`, `names`: As for `tables.training_summary`.
    - `networks`: Name of a network in the frame -> its name in the legend, at most three. Others are not drawn.
    """
    table, present, delta = _of_networks(frame, published, networks, names)
    table = table[table.accuracy_paper.notna()]
    looks = {name: Look(networks[name], *of, "") for name, of in zip(present, NETWORK_LOOKS, strict=False)}
    keys = ["label", "block", "accuracy_paper", "epsilon"]
    groups = [rows for _, rows in table.groupby(keys, sort=False)]
    with style.settings():
        figure = Figure(figsize=(9.5, 2.0 + 0.42 * len(groups)), layout="constrained")
        ax = figure.subplots()
        ax.set_xscale("logit")
        for y, rows in enumerate(groups):
            _dumbbell(ax, y, rows, looks)
        ax.set_yticks(range(len(groups)), [_dumbbell_label(rows.iloc[0]) for rows in groups])
        ax.set_ylim(len(groups) - 0.5, -0.5)
        ax.annotate("ours − printed\n(points)", (1, 1), (GAP_LEFT, 4), xycoords="axes fraction", **GAP_AT)
        _accuracy_axis(ax, table, horizontal=True)
        star = Line2D([], [], color="#000000", label="printed", **STAR)
        text = DUMBBELL_TEXT.format(delta=delta)
        return lay_out(figure, title, text, [star, *(entry(of) for of in looks.values())])


def _dumbbell(ax: Axes, y: int, rows: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """Draw star, points with intervals, and differences at the right."""
    printed = float(rows.accuracy_paper.iloc[0])
    ends = pd.concat([rows.accuracy, rows.accuracy_paper]).clip(*LOGIT)
    ax.hlines(y, ends.min(), ends.max(), color="#BBBBBB", lw=2.0, zorder=1)
    ax.plot(min(max(printed, LOGIT[0]), LOGIT[1]), y, color="#000000", zorder=5, **STAR)
    for column, (network, of) in enumerate(looks.items()):
        for _, row in rows[rows.problem.eq(network)].iterrows():
            x, low, high = (min(max(value, LOGIT[0]), LOGIT[1]) for value in row[["accuracy", "low", "high"]])
            if not math.isnan(row.sd):
                ax.hlines(y, low, high, color=style.tint(of.colour), lw=5.0, zorder=2)
            face = "white" if row.violated else of.colour
            ax.plot(x, y, **(of.shape | {"ms": 6.5}), mfc=face, zorder=4)
            gap = round(100 * (row.accuracy - printed), 1)
            points = f"{gap:+.1f}".replace("-", "−") if gap else "0.0"
            at: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center", "color": of.colour}
            ax.annotate(points, (1, y), (GAP_LEFT + GAP_WIDTH * column, 0), **at, **GAP_AT)


def _dumbbell_label(row: pd.Series) -> str:
    """Return the label of a row of `printed_and_ours`, with its proven and printed ε."""
    if row.block == "nonprivate":
        return str(row.label)
    printed = f" (printed: {number(row.epsilon_claimed)})" if row.block in ("printed", "reference") else ""
    return f"{row.label}, ε = {words.at_most(row.epsilon_add_remove)}{printed}"


# Learning curves

NEIGHBOURS = {"epsilon_add_remove": ("-", "add/remove"), "epsilon_replace_one": ("--", "replace-one")}
CURVES_TEXT = (
    "Mean over seeds (number: {seeds}), bands: standard deviation. Accuracy: that of the last iterate, not of a "
    "posterior average."
)


def nearest_budget(rows: pd.DataFrame, epsilon: float | None) -> pd.DataFrame:
    """Return the rows of one run at the budget nearest to `epsilon` > 0 in ln ε; None needs a single budget."""
    budgets, run = rows.epsilon.unique(), f"run {rows.run.iloc[0]}"
    if epsilon is None:
        if len(budgets) > 1:
            raise ValueError(f"{run} has budgets {budgets.tolist()}: say which `epsilon` to draw")
        return rows
    if not np.isfinite(budgets).all():
        raise ValueError(f"{run} has no finite budget: take its `epsilon` out of the exhibit")
    return rows[rows.epsilon.eq(min(budgets, key=lambda budget: abs(np.log(budget / epsilon))))]


def learning_curve_summary(frame: pd.DataFrame, *, curves: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return one row for each curve and epoch, with mean accuracy, its sd over seeds, and two proven ε.

    - `frame`: Rows of `read.read_curve`.
    - `curves`: {run, label, epsilon}. `epsilon` is needed if the run has several budgets; the nearest one is drawn.
      {epsilon} in a label is replaced by that budget.
    """
    summaries = []
    for curve in curves:
        rows = nearest_budget(frame[frame.run.eq(curve["run"])], curve.get("epsilon"))
        epsilon, method = float(rows.epsilon.iloc[0]), rows.method.iloc[0]
        accuracy = rows.groupby("epoch").accuracy
        label = curve["label"].format(epsilon=short(epsilon))
        columns: dict[str, Any] = {"label": label, "run": curve["run"], "method": method, "epsilon": epsilon}
        scores = {"accuracy": accuracy.mean(), "sd": accuracy.std(ddof=1), "seeds": accuracy.size()}
        summary = pd.DataFrame(scores).join(rows.groupby("epoch")[list(NEIGHBOURS)].max()).reset_index()
        summaries.append(summary.assign(**columns)[[*columns, *summary.columns]])
    return pd.concat(summaries, ignore_index=True)


def learning_curves(frame: pd.DataFrame, *, curves: Sequence[Mapping[str, Any]], title: str = "") -> Figure:
    """Draw test accuracy in % (top) and the proven ε for both neighbour relations (bottom) against the epoch."""
    table = learning_curve_summary(frame, curves=curves)
    with style.settings():
        figure = Figure(figsize=(7.2, 6.2), layout="constrained")
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        by_label = [rows for _, rows in table.groupby("label", sort=False)]
        handles = [_learning_curve(top, bottom, rows, i) for i, rows in enumerate(by_label)]
        top.set_ylabel("test accuracy (%)")
        _late_accuracies(top, table)
        bottom.set(xlabel="epoch", ylabel="proven ε so far")
        bottom.set(ylim=(0, None), xlim=(0, table.epoch.max() * 1.01))
        bottom.xaxis.set_major_locator(MaxNLocator(integer=True))
        for line, name in NEIGHBOURS.values():
            handles.append(Line2D([], [], color="#555555", ls=line, label=f"ε, {name}"))
        return lay_out(figure, title, CURVES_TEXT.format(seeds=span(table.seeds)), handles)


def _learning_curve(top: Axes, bottom: Axes, rows: pd.DataFrame, order: int) -> Line2D:
    """Draw one curve in both panels; return its legend entry."""
    of = look(rows.method.iloc[0], "network")
    again = any(other.get_color() == of.colour for other in top.lines)  # another curve of this method exists
    marker, every = "D" if again else of.marker, max(1, len(rows) // 7)
    places: dict[str, Any] = {"marker": marker, "ms": 4.5, "markevery": (order % every, every)}
    top.plot(rows.epoch, 100 * rows.accuracy, color=of.colour, zorder=3 + order, **places)
    low, high = 100 * (rows.accuracy - rows.sd), 100 * (rows.accuracy + rows.sd)
    top.fill_between(rows.epoch, low, high, color=of.colour, alpha=style.BAND_ALPHA, lw=0)
    for column, (line, _) in NEIGHBOURS.items():
        if np.isfinite(rows[column]).all():
            bottom.plot(rows.epoch, rows[column], color=of.colour, ls=line, **{**places, "ms": 3.5})
    return Line2D([], [], color=of.colour, marker=marker, ms=4.5, label=rows.label.iloc[0])


def _late_accuracies(ax: Axes, table: pd.DataFrame) -> None:
    """Set the limits of the accuracy axis from the accuracies after the first tenth of the epochs."""
    late = table[table.epoch.ge(0.1 * table.epoch.max())]
    low = 100 * (late.accuracy - late.sd.fillna(0)).min()
    high = 100 * (table.accuracy + table.sd.fillna(0)).max()
    pad = 0.06 * max(high - low, 1.0)
    ax.set_ylim(max(low - pad, 0), min(high + pad, 100.2))


# Calibration

PREDICTORS = {
    "average": Look("posterior average", "#0072B2", "o", "-"),
    "single": Look("single sample", "#D55E00", "s", "--"),
}
RELIABILITY_TEXT = (
    "Bins of equal width, test predictions pooled over seeds (number: {seeds}); points of bins with less than {least} "
    "predictions are left out.\nECE (expected calibration error, {bins} bins) and log loss (nats): means over seeds. "
    "Below the diagonal: over-confident."
)
LEAST = 20  # smallest number of predictions in a bin that is drawn
BINS = 15  # number of bins of `scores.reliability`, numbered from 1


def reliability_summary(frame: pd.DataFrame, *, panels: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return one row for each panel, predictor and confidence bin, pooled over seeds.

    - `frame`: Rows of `read.read_reliability`.
    - `panels`: {run, title, epsilon}, as the curves of `learning_curve_summary`.
    - returns: confidence and accuracy: means weighted by count. share: of all predictions. ece and log_loss of the
      predictor: means over seeds.
    """
    summaries = []
    for order, panel in enumerate(panels):
        rows = nearest_budget(frame[frame.run.eq(panel["run"])], panel.get("epsilon"))
        epsilon = float(rows.epsilon.iloc[0])
        title = panel["title"].format(epsilon=short(epsilon))
        names: dict[str, Any] = {"panel": order, "title": title, "run": panel["run"], "epsilon": epsilon}
        for predictor in PREDICTORS:
            bins = rows[rows.predictor.eq(predictor)]
            seeds = bins[["seed", "log_loss", "ece"]].drop_duplicates()
            weighted = bins[["confidence", "accuracy"]].mul(bins["count"], axis=0)
            sums = weighted.assign(count=bins["count"]).groupby(bins.bin).sum()
            pooled = sums[["confidence", "accuracy"]].div(sums["count"], axis=0)
            count = sums["count"]
            pooled = pooled.assign(count=count, share=count / count.sum()).reset_index()
            names["predictor"] = predictor
            scores: dict[str, Any] = {"ece": seeds.ece.mean(), "log_loss": seeds.log_loss.mean()}
            scores["seeds"] = len(seeds)
            summaries.append(pooled.assign(**names, **scores)[[*names, *pooled.columns, *scores]])
    return pd.concat(summaries, ignore_index=True)


def reliability(frame: pd.DataFrame, *, panels: Sequence[Mapping[str, Any]], title: str = "") -> Figure:
    """Draw a reliability diagram for each panel, and below it the share of predictions in every bin."""
    table = reliability_summary(frame, panels=panels)
    groups = list(table.groupby("panel", sort=False))
    with style.settings():
        figure = Figure(figsize=(3.3 * len(groups) + 0.8, 5.6), layout="constrained")
        axes = figure.subplots(2, len(groups), squeeze=False, sharex=True, sharey="row", height_ratios=(3, 1))
        for (_, rows), top, bottom in zip(groups, axes[0], axes[1], strict=True):
            _diagram(top, bottom, rows)
        axes[0][0].set_ylabel("accuracy")
        axes[1][0].set_ylabel("share")
        handles = [entry(of, ms=4.5) for of in PREDICTORS.values()]
        handles.append(Line2D([], [], color=style.GREY, ls=":", label="calibrated"))
        text = RELIABILITY_TEXT.format(seeds=span(table.seeds), least=LEAST, bins=BINS)
        return lay_out(figure, title, text, handles)


def _diagram(top: Axes, bottom: Axes, rows: pd.DataFrame) -> None:
    """Draw the diagram, and the shares of the two predictors as bars side by side within each bin."""
    top.plot([0, 1], [0, 1], color=style.GREY, ls=":", lw=1.0, zorder=1)
    lines, width = [rows.title.iloc[0]], 1 / BINS
    for i, (predictor, of) in enumerate(PREDICTORS.items()):
        bins = rows[rows.predictor.eq(predictor)]
        if bins.empty:
            continue
        drawn = bins[bins["count"].ge(LEAST)]
        top.plot(drawn.confidence, drawn.accuracy, **(of.shape | {"ms": 4.0}), zorder=3)
        bottom.bar((bins.bin - 0.75 + 0.5 * i) * width, bins.share, width=0.46 * width, color=of.colour)
        lines.append(f"{of.label}: ECE {bins.ece.iloc[0]:.4f}, log loss {bins.log_loss.iloc[0]:.3f}")
    top.set_title("\n".join(lines), fontsize=8)
    top.set(xlim=(0, 1), ylim=(0, 1.02))
    bottom.set(yscale="log", xlabel="confidence")


# Training of backbones

BACKBONES_TEXT = (
    "Test accuracy (thick) and accuracy on the cropped and mirrored training images (thin) after each epoch.\n"
    "Dashed: what the name of the authors' file of weights says."
)


def training_curves(
    frame: pd.DataFrame, *, networks: Mapping[str, Mapping[str, Any]], title: str = ""
) -> Figure:
    """Draw the accuracy of every backbone network against the epoch.

    - `frame`: Rows of `read.read_training`.
    - `networks`: Name -> {label, published}. `published` is an accuracy in [0, 1], or None if the paper prints none.
    """
    with style.settings():
        figure = Figure(figsize=(7.4, 4.6), layout="constrained")
        ax, handles = figure.subplots(), []
        for (name, of), colour in zip(networks.items(), ("#0072B2", "#D55E00", "#009E73"), strict=False):
            rows = frame[frame.network.eq(name)]
            label = f"{of['label']}: {percent(rows.accuracy_kept.iloc[0])} % after {len(rows)} epochs"
            handles += ax.plot(rows.epoch, 100 * rows.accuracy, color=colour, lw=2.0, label=label)
            ax.plot(rows.epoch, 100 * rows.accuracy_training, color=colour, lw=0.8)
            if of["published"] is not None:
                ax.axhline(100 * of["published"], color=colour, ls="--", lw=1.0)
        ax.set(xlabel="epoch", ylabel="accuracy on CIFAR-100 (%)", ylim=(0, 100), xlim=(0, None))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        return lay_out(figure, title, BACKBONES_TEXT, handles)


# Accuracy and ε of each row: Tables 1 to 3 of ryffel2022

EPSILON_ENDS = (1e-2, 1e4)  # largest possible range of the axis
CLAIMED = Look("promised ε", style.PRICE_COLOURS["claimed"], "", "--")
EPSILONS = {
    "epsilon_attack": Look("attack ε (lower bound)", style.PRICE_COLOURS["attack"], ">", "", 6.0),
    "epsilon_add_remove": PRICES["epsilon_add_remove"],
    "epsilon_proven": PRICES["epsilon_replace_one"]._replace(size=6.0),
}
SPAN_ENDS = {"epsilon_attack": (-6, "right"), "epsilon_proven": (6, "left")}  # offset in points, alignment
PAPER_ACCURACIES = {
    "paper_resnet18": Look("printed accuracy, ResNet-18", "#555555", "*", "", 10.0),
    "paper_alexnet": Look("printed accuracy, AlexNet", "#555555", "P", "", 6.5),
}
BEST = Look("ours, best epoch on the test set", "#555555", "|", "", 11.0)
HOLLOW = "hollow: a condition of the privacy theorem fails"
CALIBRATIONS = {
    "published": ", the authors' noise",
    "formula": ", their formula says ε = 1",
    "tight": ", proven ε = 1",
    "": "",
}
HEAD_BLOCKS_DRAWN = "code", "published"  # the first of these that a set of features has, and "equal"
HEADS_TEXT = (
    "DP-Langevin is the paper's DP-SGLD. A bar leads from the attack ε to the proven ε for replaced records with all "
    "iterates visible. The true ε lies on it.\nAttack: on a pair of records that the problem admits, 95 % confidence. "
    "'<' and '>': beyond the axis. Accuracy: after our last epoch, mean and 95 % t-interval over {seeds} seeds. "
    "Printed accuracy: the paper's best epoch, by weights that are not public. Where the paper prints it for two other "
    "networks, we draw none."
)
FINETUNE_TEXT = (
    "Accuracy of the last iterate, mean and 95 % t-interval over {seeds} seeds. The paper's accuracies are of a "
    "ResNet-18 trained elsewhere, and of the best epoch on the test set. '<', '>': beyond the axis."
)


Panel = tuple[str, pd.DataFrame]
"""Title and rows. Columns: label, group (its heading, or ""), method, delta, accuracy, low and high (shares), violated,
and those columns of EPSILONS and PAPER_ACCURACIES that exist."""


def heads(
    frame: pd.DataFrame, *, schedule: str, published: Published, features: Features, title: str = ""
) -> Figure:
    """Draw accuracy and ε of heads trained on features, with one panel for each set of features.

    The rows have the noise of the authors (by their code, or else at the paper's steps), and noise for ε = 1.
    An accuracy of the paper is drawn where only one of its networks stands beside the panel.
    """
    table = tables.heads_summary(frame, schedule=schedule, published=published)
    kinds = zip(table.method, table.calibration, strict=True)
    labels = [look(method, "features").label + CALIBRATIONS[kind] for method, kind in kinds]
    table = table.assign(label=labels, group="").drop(columns=tables.BEST)
    panels, order = [], [*features, *table.dataset]
    for name, rows in sorted(table.groupby("dataset"), key=lambda part: order.index(part[0])):
        first = next((block for block in HEAD_BLOCKS_DRAWN if rows.block.eq(block).any()), "")
        rows = rows[rows.block.isin([first, "equal"])]
        papers = [column for column in PAPER_ACCURACIES if _finite(rows, column).size]
        of = tables.of_features(features, str(name))
        rows = rows.assign(**dict.fromkeys(papers, math.nan)) if len(papers) > 1 else rows
        panels.append((f"{of['task']} (features: {of['network']})", rows))
    return _rows_with_epsilons(panels, title, HEADS_TEXT.format(seeds=span(table.seeds)))


def finetune(frame: pd.DataFrame, *, published: Published, networks: Names, title: str = "") -> Figure:
    """Draw accuracy and ε of fine-tuned networks, with one panel for each network."""
    table = tables.finetune_summary(frame, published=published)
    labels = [look(method, "features").label for method in table.method]
    groups = table.problem.map(tables.TRAINED_PARTS)
    table = table.assign(label=labels, group=groups, epsilon_claimed=table.epsilon_promised)
    by_network: dict[Any, pd.DataFrame] = dict(list(table.groupby(table.problem.map(networks))))
    panels = [(name, by_network[name]) for name in dict.fromkeys(networks.values()) if name in by_network]
    return _rows_with_epsilons(panels, title, FINETUNE_TEXT.format(seeds=span(table.seeds)))


def _rows_with_epsilons(panels: Sequence[Panel], title: str, text: str) -> Figure:
    """Return a figure with accuracies on the left and ε on the right; `text` is the caption."""
    sizes = [len(rows) + rows.group[rows.group.ne("")].nunique() for _, rows in panels]
    table = pd.concat([rows for _, rows in panels])
    prices = {column: of for column, of in EPSILONS.items() if _finite(table, column).size}
    papers = {column: of for column, of in PAPER_ACCURACIES.items() if _finite(table, column).size}
    # the ε axis of all panels: at least 0.1 to 10, at most EPSILON_ENDS
    drawn = np.concatenate([[0.1, 10.0], _finite(table, [*prices])]).clip(*EPSILON_ENDS)
    limits = drawn.min() / 1.6, drawn.max() * 1.6
    with style.settings():
        height = 0.23 * sum(sizes) + 0.55 * len(panels) + 1.9
        figure = Figure(figsize=(10.2, height), layout="constrained")
        ratios: dict[str, Any] = {"height_ratios": sizes, "width_ratios": [1, 1.15]}
        axes = figure.subplots(len(panels), 2, squeeze=False, sharey="row", **ratios)
        for (left, right), (name, rows) in zip(axes, panels, strict=True):
            at = _place_rows(left, rows)
            _accuracies(left, at, papers)
            _prices(right, at, prices)
            left.set_title(name, loc="left")
            delta = float(rows.delta[rows.method.ne("sgd")].iloc[0])
            right.set_title(f"δ = {number(delta)}", loc="left")
            right.set_xlim(limits)
            right.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
            right.xaxis.set_minor_formatter(NullFormatter())
        left.set_xlabel("test accuracy (%)")
        right.set_xlabel("privacy loss ε (log scale)")
        handles = [entry(of, mfc="none") for of in papers.values()]
        handles += [entry(BEST)] if _finite(table, tables.BEST).size else []
        handles += [entry(of) for of in prices.values()]
        handles += [entry(CLAIMED)] if _finite(table, "epsilon_claimed").size else []
        return lay_out(figure, title, text, [*handles, *hollow_entries(table.violated, HOLLOW)])


def _finite(table: pd.DataFrame, columns: str | list[str]) -> np.ndarray:
    """Return the finite values of some columns; a column may be absent."""
    values = table.reindex(columns=np.atleast_1d(columns)).to_numpy(float)
    return values[np.isfinite(values)]


def _place_rows(ax: Axes, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows by group with their vertical position `y`; write the names of groups and rows."""
    groups, y = [], 0
    text: dict[str, Any] = {"ha": "right", "va": "center", "weight": "bold", "size": 8}
    for group, rows in table.groupby("group", sort=False):
        if group:
            ax.text(-0.02, y, str(group), transform=ax.get_yaxis_transform(), **text)
            y += 1
        groups.append(rows.assign(y=range(y, y + len(rows))))
        y += len(rows)
    table = pd.concat(groups)
    ax.set_yticks(table.y, table.label)
    ax.set_ylim(table.y.max() + 0.6, -0.6)
    return table


def _accuracies(ax: Axes, table: pd.DataFrame, papers: Mapping[str, Look]) -> None:
    """Draw our accuracies with intervals, and those of the paper."""
    for _, row in table.iterrows():
        of = look(row.method, "features")
        ax.hlines(row.y, 100 * row.low, 100 * row.high, color=of.colour, lw=2.0, zorder=2)
        face = "white" if row.violated else of.colour
        ax.plot(100 * row.accuracy, row.y, **(of.shape | {"ls": "", "ms": 6}), mfc=face, zorder=3)
        ax.plot(100 * row.get(tables.BEST, math.nan), row.y, **BEST.shape, mew=1.8, zorder=4)
        for column, of in papers.items():
            ax.plot(100 * row[column], row.y, **of.shape, mfc="none", zorder=4)


def _prices(ax: Axes, table: pd.DataFrame, columns: Mapping[str, Look]) -> None:
    """Draw the ε of every row, and a bar from attack to proof. "<" and ">" mark values beyond the axis."""
    ax.set(xscale="log")
    for claim in np.unique(_finite(table, "epsilon_claimed")):
        ax.axvline(claim, color=CLAIMED.colour, ls=CLAIMED.line, lw=1.2, zorder=1)
    if set(SPAN_ENDS) <= set(columns):
        ends = table[list(SPAN_ENDS)].clip(*EPSILON_ENDS)
        ax.hlines(table.y, ends.epsilon_attack, ends.epsilon_proven, color="#d0d0d0", lw=5.0, zorder=2)
    for column, of in columns.items():
        rows = table[table[column].notna() & table.method.ne("sgd")]
        inside = rows[column].between(*EPSILON_ENDS)
        at = rows[column].clip(*EPSILON_ENDS)
        ax.plot(at[inside], rows.y[inside], **of.shape, zorder=3)
        for x, y in zip(at[~inside], rows.y[~inside], strict=True):
            arrow = "<" if x == EPSILON_ENDS[0] else ">"
            ax.annotate(arrow, (x, y), color=of.colour, ha="center", va="center", weight="bold", size=9)
    for column in [column for column in columns if column in SPAN_ENDS]:
        _write_ends(ax, table, column)


def _write_ends(ax: Axes, table: pd.DataFrame, column: str) -> None:
    """Write the attack ε at the left of the marks of a row, or the proven ε at their right."""
    offset, side = SPAN_ENDS[column]
    text: dict[str, Any] = {"textcoords": "offset points", "ha": side, "va": "center", "size": 7}
    text["bbox"] = {"fc": "white", "ec": "none", "pad": 0.3}
    marks = table.reindex(columns=[*EPSILONS])
    at = marks.min(axis=1) if side == "right" else marks.max(axis=1)
    for value, x, y in zip(table[column], at, table.y, strict=True):
        if EPSILON_ENDS[0] <= value <= EPSILON_ENDS[1]:
            label = number(float(f"{value:.2g}"))
            x = min(max(x, EPSILON_ENDS[0]), EPSILON_ENDS[1])
            ax.annotate(label, (x, y), (offset, 0), color=EPSILONS[column].colour, zorder=2, **text)


# Heads against epsilon

OVER_EPSILON_TEXT = (
    "Mean and 95 % t-interval over {seeds} seeds on the features of {network}. x: the smallest ε that we can prove "
    "with all iterates visible, replace-one, δ = {delta}."
)


def heads_over_epsilon_summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Return accuracy and prices of each method and budget in block "figure", and of the non-private run.

    If the block has no non-private run, one with constant steps on the same data set takes its place.
    """
    runs = frame[frame.block.eq("figure")]
    if runs.empty:
        raise ValueError(f"no run of block 'figure': the runs have {sorted(set(frame.block))}")
    if not runs.method.eq("sgd").any():
        nonprivate = frame.method.eq("sgd") & ~frame.schedule.eq("decreasing")
        runs = pd.concat([runs, frame[nonprivate & frame.dataset.isin(set(runs.dataset))]])
    keys, prices = ["dataset", "method", "run", "epsilon"], ["delta", "epsilon_proven"]
    rows = [{**row, **group.iloc[0][prices]} for row, group in seed_summaries(runs, keys)]
    return pd.DataFrame(rows)[[*keys, *prices, *tables.SCORES, "violated"]]


def heads_over_epsilon(frame: pd.DataFrame, *, network: str, title: str = "") -> Figure:
    """Draw test accuracy against the proven ε, with one curve for each method.

    `network` is the name in the caption of the network that computed the features.
    """
    table = heads_over_epsilon_summary(frame)
    private = table[table.method.ne("sgd")]
    with style.settings():
        figure = Figure(figsize=(7.6, 4.4), layout="constrained")
        ax = figure.subplots()
        ax.set(xscale="log", xlabel="proven ε (replace-one)", ylabel="test accuracy (%)")
        nonprivate = 100 * table.loc[table.method.eq("sgd"), ["accuracy", "low", "high"]].to_numpy(float)
        of = look("sgd", "features")
        handles = [style.reference_line(ax, interval, of, label=of.label) for interval in nonprivate]
        for method, rows in private.groupby("method", sort=False):
            of, rows = look(str(method), "features"), rows.sort_values("epsilon_proven")
            rows = rows[np.isfinite(rows.epsilon_proven) & rows.epsilon_proven.gt(0)]
            in_percent = {"mean": 100 * rows.accuracy, "low": 100 * rows.low, "high": 100 * rows.high}
            style.curve(ax, rows.epsilon_proven, rows.assign(**in_percent), of)
            handles.append(entry(of))
        style.epsilon_ticks(ax)
        handles += hollow_entries(private.violated, HOLLOW)
        delta = numbers(private.delta.dropna())
        text = OVER_EPSILON_TEXT.format(seeds=span(private.seeds), network=network, delta=delta)
        if infinite := int((~np.isfinite(private.epsilon_proven)).sum()):
            text += f" Without a finite ε, and not drawn: {infinite} of {len(private)} points."
        return lay_out(figure, title, text, handles)


# How the number of steps grows: Table 4 of ryffel2022

RATIOS = {
    "ratio_published": Look("printed", "#CC79A7", "*", "", 10.0),
    "ratio_classes": Look("d = classes, as they do", "#E69F00", "s", "", 5.5),
    "ratio_theorem": Look("d = classes × features", "#0072B2", "o", "", 5.5),
    "ratio_proof": Look("α, ε of the proof as well", "#009E73", "^", "", 5.5),
}
RATIOS_TEXT = (
    "Below 1 the number of steps of Theorem 4.2 grows as n², above as n⁴. The paper's rows: from its printed β, the λ "
    "of its commands, n, and the number of features of its networks (its public code)."
)


def growth_ratios(frame: pd.DataFrame, *, paper: Published, features: Features, title: str = "") -> Figure:
    """Draw the ratios of Theorem 4.2 (see `papers.claims.ryffel2022.growth_ratios`) on a log axis."""
    table = ryffel2022.growth_ratios(frame, paper=paper, features=features)
    with style.settings():
        figure = Figure(figsize=(8.4, 0.42 * len(table) + 1.9), layout="constrained")
        ax = figure.subplots()
        ax.set(xscale="log", xlabel="(ε n²/(α d))/(β/λ)²")
        whose = table.source.replace("paper", "the paper")
        ax.set_yticks(table.index, table.task + ", " + table.network + " (" + whose + ")")
        ax.set_ylim(len(table) - 0.4, -0.6)
        threshold: dict[str, Any] = {"color": "#555555", "ls": "--", "lw": 1.0}
        ax.axvline(1.0, zorder=1, **threshold)
        handles = []
        for column, of in RATIOS.items():
            printed = column == "ratio_published"
            kind = of.shape | ({"mfc": "none"} if printed else {})
            ax.plot(table[column], table.index, zorder=4 if printed else 3, **kind)
            handles.append(Line2D([], [], label=of.label, **kind))
        handles.append(Line2D([], [], label="n² below, n⁴ above", **threshold))
        return lay_out(figure, title, RATIOS_TEXT, handles)
