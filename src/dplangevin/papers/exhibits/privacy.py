"""Figures and a page about privacy alone: promises, the last iterate of ryffel2022, and step sizes of li2019.

All functions are pure functions of the rows of an analysis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from dplangevin.papers.claims import tally, verdicts, words
from dplangevin.papers.claims.rows import guarantee
from dplangevin.papers.claims.words import at_least, at_most
from dplangevin.papers.exhibits import style, tables
from dplangevin.papers.exhibits.style import PRICE_COLOURS, Look, entry, lay_out, tint
from dplangevin.papers.exhibits.tables import Cell, cell
from dplangevin.text import epsilon, number, short

# The papers' promises beside proven ε and attack ε

PRICES = {  # in the order of drawing
    "epsilon_formula": Look("ε by the paper's formula", PRICE_COLOURS["formula"], "s", "", 4.0),
    "epsilon_claimed": Look("promised ε", PRICE_COLOURS["claimed"], "|", "", 13.0),
    "epsilon_add_remove": Look(
        "proven ε (upper bound), add/remove", PRICE_COLOURS["add_remove"], "<", "", 5.5
    ),
    "epsilon_replace_one": Look(
        "proven ε (upper bound), replace-one", PRICE_COLOURS["replace_one"], "o", "", 5.5
    ),
}
ATTACK = Look("attack ε (lower bound), replace-one", PRICE_COLOURS["attack"], ">", "", 5.5)
ATTACKS = (
    "Every attack is on the hypotheses of a theorem, not on a paper's own problem. Where all iterates are visible, "
    "gradients have any direction up to the clip (any loss). On posterior samples, the loss is logistic and the other "
    "records are free. These attacks have 95 % confidence. On the last iterate of ryffel2022, the loss is any that is "
    "L-Lipschitz, strongly convex and smooth. This ε is exact for one pair of data sets."
)
COLOURS = {
    verdicts.HOLDS: "#009E73",
    verdicts.IN_PART: "#6B6B00",
    verdicts.OPEN: "#B35900",
    verdicts.FAILS: "#B2182B",
}
SMALLEST, LARGEST = 1e-3, 1e4
GUARANTEES_TEXT = (
    "A span leads from the attack ε to the proven ε. The true ε for replaced records lies on it. Where it begins at "
    "the left edge, no attack ε above {smallest} is known. Attacks are on the hypotheses of the theorem (95 % "
    "confidence, or exact for one pair of data sets). Each ε is at the δ of its promise. The "
    "word at the right judges the case that was priced."
)


def guarantees(frame: pd.DataFrame, *, title: str) -> Figure:
    """Draw the promised, proven and attack ε of every guarantee with settings, one row each, by paper.

    `frame` has the rows of `papers.analyses.promises`. Values beyond the axis are hollow markers at its end.
    """
    promised = frame[np.isfinite(frame.epsilon_claimed)]
    priced = promised.mechanism.notna()
    rows, left_out = promised[priced], promised.label[~priced]
    lines: list[tuple[str, pd.Series | None]] = []
    for paper, group in rows.groupby("paper", sort=False):
        lines.append((words.PAPERS.get(str(paper), str(paper)), None))
        lines += [(row.label, row) for _, row in group.iterrows()]
    with style.settings():
        figure = Figure(figsize=(9.6, 2.1 + 0.23 * len(lines)), layout="constrained")
        ax = figure.subplots()
        ax.set(xscale="log", xlim=(SMALLEST / 1.5, LARGEST * 1.5), ylim=(len(lines) - 0.4, -0.6))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
        text_style: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 8}
        for y, (label, row) in enumerate(lines):
            ax.text(-0.01, y, label, ha="right", weight="bold" if row is None else "normal", **text_style)
            if row is not None:
                verdict = outcome(frame, row)
                colour = COLOURS[verdict["verdict"]]
                _guarantee(ax, y, row, colour)
                ax.text(1.01, y, tally.word(verdict), color=colour, **text_style)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_xlabel("privacy loss ε (log scale)")
        handles = [entry(of, mew=_edge(of)) for of in (*PRICES.values(), ATTACK)]
        if rows[[*PRICES]].gt(LARGEST).to_numpy().any():
            handles.append(style.hollow_entry("hollow: beyond the axis"))
        text = GUARANTEES_TEXT.format(smallest=number(SMALLEST))
        if len(left_out):
            text += (
                f" Not drawn, because their settings are not stated ({len(left_out)}): {'; '.join(left_out)}."
            )
        return lay_out(figure, title, text, handles)


def outcome(frame: pd.DataFrame, row: pd.Series) -> verdicts.Verdict:
    """Return the verdict on a guarantee by its numbers alone; results/claims.csv has that on the paper's sentence."""
    return verdicts.claim_verdict(guarantee(frame, id=row.id), kind="paper", setting="paper")


def _edge(of: Look) -> float:
    return 2.2 if of.marker == "|" else 1.0


def _guarantee(ax: Axes, y: int, row: pd.Series, colour: str) -> None:
    """Draw the span and the marks of one guarantee; `colour` is that of the span."""
    ax.axhline(y, color="#eeeeee", lw=0.6, zorder=0)
    low = row.epsilon_attack if row.epsilon_attack > SMALLEST else SMALLEST / 1.5
    span: dict[str, Any] = {"lw": 5.0, "zorder": 1, "solid_capstyle": "butt"}
    ax.plot([low, min(row.epsilon_replace_one, LARGEST)], [y, y], color=tint(colour, 0.3), **span)
    if row.epsilon_attack > SMALLEST:
        ax.plot(min(row.epsilon_attack, LARGEST), y, **ATTACK.shape, zorder=7)
    for order, (column, of) in enumerate(PRICES.items()):
        value = row[column]
        if math.isnan(value):
            continue
        at = min(max(value, SMALLEST), LARGEST)
        face = of.colour if at == value else "white"
        ax.plot(at, y, **of.shape, mew=_edge(of), mfc=face, zorder=3 + order)


def guarantees_page(frame: pd.DataFrame, *, title: str) -> str:
    """Return a Markdown page with one table for each paper, and the reason of every verdict below it."""
    notes = (
        "All ε are at the δ of the promise. Proven ε: the smallest ε that our accountants prove. For steps without "
        "replacement it is the larger of both directions, up to 25 % above each alone. Attack ε: a lower bound. "
        + ATTACKS
    )
    found = {row.id: outcome(frame, row) for _, row in frame.iterrows()}
    columns: dict[str, Cell] = {
        "promise": cell("label"),
        "where": cell("where"),
        "promised ε": cell("epsilon_claimed", epsilon),
        "δ": cell("delta", epsilon),
        "ε by formula": cell("epsilon_formula", epsilon),
        "proven ε, add/remove": cell("epsilon_add_remove", at_most),
        "proven ε, replace-one": cell("epsilon_replace_one", at_most),
        "attack ε": cell("epsilon_attack", at_least),
        "verdict": lambda row: f"**{tally.word(found[row.id])}**",
    }
    sections = {}
    for paper, group in frame.groupby("paper", sort=False):
        reasons = [f"- {row.label}: {found[row.id]['reason']}." for _, row in group.iterrows()]
        heading = words.PAPERS.get(str(paper), str(paper))
        sections[heading] = [*tables.rows_table(group, columns), "", *reasons]
    return tables.page(title, [notes], sections)


# The ε of the last iterate against the number of steps: Theorem 3.1 of ryffel2022

STEP_CURVES = {
    "theorem": Look("Theorem 3.1 with K = steps, as it states", PRICE_COLOURS["formula"], "", "-"),
    "theorem_epochs": Look(
        "Theorem 3.1 with K = epochs, as the code counts", PRICE_COLOURS["formula"], "", "--"
    ),
    "all_iterates": Look(
        "proven ε (upper bound), all iterates visible", PRICE_COLOURS["replace_one"], "", "-"
    ),
    "last_iterate": Look("proven ε (upper bound), last iterate", "#009E73", "", "--"),
    "audit": Look("attack ε (lower bound), exact for one pair", PRICE_COLOURS["attack"], "^", "", 5.5),
}
PUBLISHED = Look("promised ε = 1.0", PRICE_COLOURS["claimed"], "*", "", 11.0)
EPOCHS = Look("steps in the authors' number of epochs", "#555555", "", ":")
AT_PUBLISHED = {  # offset in points and alignment of the ε that is written at the authors' number of steps
    "theorem": (-4, 5, "right"),
    "last_iterate": (4, -11, "left"),
    "audit": (6, -8, "left"),
}
LOW, HIGH = 0.01, 1e4
LAST_ITERATE_TEXT = (
    "Every ε is for replaced records. A triangle is the exact ε of the last iterate for one pair of data sets. Theorem "
    "3.1 admits this pair: its losses are L-Lipschitz, strongly convex and smooth, and the chain starts at the "
    "theorem's law. A triangle above a curve of Theorem 3.1 refutes that ε. Triangles below {low:g} are not drawn. The "
    "proof of Theorem 3.1 covers full batches only. Numbers: ε at the authors' number of steps."
)


def last_iterate(table: pd.DataFrame, *, panels: Mapping[str, str], title: str = "") -> Figure:
    """Draw the ε of the last iterate against the number of steps K, both on log axes.

    The first row has a panel for each setting, at the authors' batch size. The second row has the other batch
    sizes of the first setting.

    - `table`: Rows of `papers.analyses.ryffel2022_privacy.LangevinPrivacy`.
    - `panels`: Setting -> its name in the panel titles.
    """
    curves = table[table.kind.eq("curve")]
    fixed = table[table.kind.eq("published") & table.schedule.eq("constant")]
    published = {row.setting: row for _, row in fixed.iterrows()}
    first, *left_out = panels
    batches = curves.batch[curves.setting.eq(first)].unique()
    others = sorted(batch for batch in batches if batch != published[first].batch)
    width = max(len(panels), len(others))
    with style.settings():
        figure = Figure(figsize=(3.5 * width, 7.4), layout="constrained")
        shared: dict[str, Any] = {"sharex": True, "sharey": True}
        top, bottom = figure.subplots(2, width, squeeze=False, height_ratios=(1.5, 1), **shared)
        drawn = [(ax, name, published[name].batch) for ax, name in zip(top, panels, strict=False)]
        drawn += [(ax, first, batch) for ax, batch in zip(bottom, others, strict=False)]
        for ax, name, batch in drawn:
            rows = curves[curves.setting.eq(name) & curves.batch.eq(batch)]
            _over_steps(ax, rows, published[name])
            full = batch == rows.records.iloc[0]
            size, delta = "full batch" if full else f"batch {batch}", number(rows.delta.iloc[0])
            ax.set_title(f"{panels[name]}, {size}, δ = {delta}", fontsize=8.5)
            ax.set_xlabel("steps K")
        for ax in [*top, *bottom]:
            ax.set_visible(ax in [of for of, *_ in drawn])
        for ax in (top[0], bottom[0]):
            ax.set_ylabel("privacy loss ε (log scale)")
        kinds = [(of, _step_curve(of)) for of in (*STEP_CURVES.values(), PUBLISHED, EPOCHS)]
        handles = [Line2D([], [], label=of.label, **kind) for of, kind in kinds]
        text = LAST_ITERATE_TEXT.format(low=LOW)
        if left_out and others:
            text += " The CSV has the other batch sizes of the other settings."
        return lay_out(figure, title, text, handles)


def _over_steps(ax: Axes, rows: pd.DataFrame, published: pd.Series) -> None:
    ax.set(xscale="log", yscale="log", ylim=(LOW, HIGH), xlim=(0.8, 2.2 * rows.steps.max()))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    authors = published.batch == rows.batch.iloc[0]
    beyond = []
    for name, of in STEP_CURVES.items():
        curve = rows[rows.quantity.eq(name)].sort_values("steps")
        if curve.epsilon.gt(HIGH).all():
            beyond.append(name.replace("_", " "))
            continue
        ax.plot(curve.steps, curve.epsilon, **_step_curve(of))
        here = curve.epsilon[curve.steps.eq(published.steps)]
        if authors and name in AT_PUBLISHED and len(here):
            _write_epsilon(ax, published.steps, here.iloc[0], of.colour, *AT_PUBLISHED[name])
    if beyond:
        corner: dict[str, Any] = {"transform": ax.transAxes, "va": "top", "fontsize": 7}
        colour = STEP_CURVES["all_iterates"].colour
        ax.text(0.03, 0.97, f"▲ proven ε above {HIGH:g}:\n{', '.join(beyond)}", color=colour, **corner)
    epochs = published.epochs * rows.records.iloc[0] / rows.batch.iloc[0]
    ax.axvline(epochs, color=EPOCHS.colour, ls=EPOCHS.line, lw=1.1, zorder=1)
    if authors:
        ax.plot(published.steps, 1.0, **PUBLISHED.shape, zorder=5)
        _write_epsilon(ax, published.steps, 1.0, PUBLISHED.colour, 6, -10, "left")


def _write_epsilon(ax: Axes, steps: float, value: float, colour: str, right: int, up: int, side: str) -> None:
    """Write an ε beside its point; `right` and `up` are the offset in points."""
    text: dict[str, Any] = {"textcoords": "offset points", "ha": side, "fontsize": 8, "color": colour}
    ax.annotate(short(value), (steps, value), (right, up), zorder=6, **text)


def _step_curve(of: Look) -> dict[str, Any]:
    """Return the arguments of `Axes.plot` for a curve of `last_iterate`."""
    wide = of is STEP_CURVES["all_iterates"]  # because the bound of the last iterate covers it
    return of.shape | ({"color": tint(of.colour), "lw": 3.0} if wide else {"lw": 1.3})


# The pair of data sets that contradicts Theorem 3.1 of ryffel2022

PAIR = {
    "first": Look("θ on the data set", "#0072B2", "", "-"),
    "second": Look("θ with one record replaced", "#E69F00", "", "--"),
    "claimed": Look("Theorem 3.1 (promised upper bound)", "#D55E00", "s", "--", 4.0),
    "exact": Look("exact", "#000000", "o", "-", 4.0),
    "audit": Look("attack on the theorem's hypotheses (lower bound)", "#009E73", "^", "", 7.0),
}


def counterexample(table: pd.DataFrame, *, title: str = "") -> Figure:
    """Draw the laws of theta_K on the pair, their Rényi divergence against K, and epsilon > 0 against delta.

    `table` has the rows of `papers.analyses.counterexample.Counterexample`.
    """
    by_kind: dict[Any, pd.DataFrame] = dict(list(table.groupby("kind")))
    setting = by_kind["density"].note.iloc[0]
    with style.settings():
        figure = Figure(figsize=(11.0, 4.2), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        _pair_curves(left, by_kind["density"])
        peak = by_kind["density"].value.max()
        left.set(yscale="log", ylim=(peak * 1e-9, peak * 4), xlabel="θ", ylabel="density")
        left.set_title(f"Laws of θ, {setting}")
        _pair_curves(middle, by_kind["renyi"])
        middle.set(xscale="log", yscale="log", xlabel="steps K", ylabel="Rényi divergence")
        middle.set_title(f"Rényi divergence, {by_kind['renyi'].note.iloc[0]}")
        profile = by_kind["profile"]
        _pair_curves(right, profile[profile.value.gt(0)], marked=("audit",))
        right.set(xscale="log", yscale="log", xlabel="δ", ylabel="ε", title=f"Privacy loss, {setting}")
        right.set_yticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
        right.yaxis.set_minor_formatter(NullFormatter())
        return lay_out(figure, title, _counterexample_text(by_kind), [entry(of) for of in PAIR.values()])


def _pair_curves(ax: Axes, rows: pd.DataFrame, marked: tuple[str, ...] = ("claimed", "exact")) -> None:
    """Draw one curve for each quantity; only those in `marked` have markers."""
    for name, curve in rows.groupby("quantity", sort=False):
        of = PAIR[str(name)]
        ax.plot(curve.x, curve.value, **(of if name in marked else of._replace(marker="")).shape)


def _counterexample_text(by_kind: Mapping[Any, pd.DataFrame]) -> str:
    renyi, profile, hypotheses = by_kind["renyi"], by_kind["profile"], by_kind["hypotheses"]
    first = renyi[renyi.x.eq(renyi.x.min())].set_index("quantity").value
    audits = profile[profile.quantity.eq("audit")]
    delta = 1e-5 if audits.x.eq(1e-5).any() else audits.x.iloc[0]
    at = profile[profile.x.eq(delta)].set_index("quantity").value
    groups = by_kind["minibatches"].groupby(["x", "note"], sort=False)
    pairs = {key: of.set_index("quantity").value for key, of in groups}
    sizes = [
        f"m = {m:g}, {str(note).partition(', σ')[0]}: R {at['R promised']:.3g}, exact {at['R exact']:.3g}"
        for (m, note), at in pairs.items()
    ]
    return (
        f"K = {renyi.x.min():g}: R promised {first.claimed:.3g}, exact {first.exact:.3g}. "
        f"ε at δ = {number(delta)}: promised {at.claimed:.3g}, exact {at.exact:.3g}, "
        f"attack at least {at_least(at.audit)} ({audits.note.iloc[0]}).\n"
        "The attack is on the theorem's hypotheses (any L-Lipschitz, strongly convex, smooth loss). "
        f"Hypotheses of Theorem 3.1 that hold: {hypotheses.note.eq('holds').sum()} of {len(hypotheses)}. "
        "A record is rare in minibatches, but when it is drawn it shows. The curves are for n = 100 and "
        "minibatches of one.\n" + "; ".join(sizes) + "."
    )


# The largest step size that a budget allows: Figures 1 and 2 of li2019

ACCOUNTANTS = {
    "tight": Look("proven (PLD), add/remove", style.PRICE_COLOURS["add_remove"], "o"),
    "tight_replace_one": Look("proven (PLD), replace-one", style.PRICE_COLOURS["replace_one"], ""),
    "moments_256": Look("moments accountant, 256 orders", "#009E73", ""),
    "moments_32": Look("moments accountant, 32 orders (their code)", "#D55E00", ""),
    "wang2015": Look("bound of wang2015", "#000000", ""),
}
SCHEDULES = {"decreasing": "-", "fixed": "--"}
SIZE_COLOURS = ["#CC79A7", "#D55E00", "#0072B2", "#000000"]
PRINTED_COLOUR = "#CC0000"
ORDERS = 32
FIRST_STEP = "largest step size η\n(the first one where steps decrease)"
PRODUCT = "largest product η L²"


def step_size_budgets(frame: pd.DataFrame, *, title: str = "") -> Figure:
    """Draw Figure 1 of li2019: the largest step size that a budget allows, beside the printed numbers.

    `frame` has the rows of `papers.analyses.li2019_fig1.Budgets`.
    """
    (example,) = frame[frame.panel.eq("example")].epsilon.unique()
    setting = frame[frame.panel.eq("budget")].iloc[0]
    with style.settings():
        figure = Figure(figsize=(12.0, 4.9), layout="constrained")
        left, middle, right = figure.subplots(1, 3, width_ratios=[1.35, 1, 1])
        _steps_over_epsilon(left, frame, setting.delta)
        _steps_over_records(middle, frame, example)
        _steps_over_batch(right, frame, example, setting.batch)
        handles = [
            *(entry(of, ms=3.5, lw=_width(name)) for name, of in ACCOUNTANTS.items()),
            *(entry(Look(f"{name} step", "#666666", "", line), lw=1.4) for name, line in SCHEDULES.items()),
            Line2D([], [], color=PRINTED_COLOUR, marker="*", ms=9, ls="", label="printed in the paper"),
            Line2D([], [], color="#D55E00", alpha=0.15, lw=8, label=f"ε that {ORDERS} orders cannot report"),
        ]
        text = (
            f"Left and right: N = {setting.records:,}, T = {setting.steps:,}, L = {number(setting.lipschitz)}, "
            f"δ = {number(setting.delta)}. The paper states no minibatch: τ = {setting.batch} where it is not the axis."
            "\nMoments accountant: add/remove. With K orders it reports no ε below ln(1/δ)/K. "
            "Bound of wang2015: as li2019 prints it, replace-one."
        )
        return lay_out(figure, title, text, handles)


def step_size_sizes(frame: pd.DataFrame, *, title: str = "") -> Figure:
    """Draw Figure 2 of li2019 as the largest η L² against ε, with one curve for each N; crosses are other L.

    `frame` has the rows of `papers.analyses.li2019_fig2.Sizes`.
    """
    frame = frame.assign(step_size=frame.step_size * frame.lipschitz**2)
    rows, others = (frame[frame.panel.eq(panel)] for panel in ("records", "lipschitz"))
    sizes = sorted(rows.records.unique())
    colours = dict(zip(sizes, SIZE_COLOURS[: len(sizes)], strict=True))
    heights = {"tight": "proven ε", "moments_256": "moments accountant"}
    with style.settings():
        figure = Figure(figsize=(11.5, 7.2), layout="constrained")
        axes = figure.subplots(2, 2, sharex=True, sharey=True)
        for line, (accountant, name) in zip(axes, heights.items(), strict=True):
            for ax, schedule in zip(line, SCHEDULES, strict=True):
                by_size = dict(list(rows[rows.schedule.eq(schedule)].groupby("records")))
                handles = [_size_curve(ax, by_size[size], accountant, colours[size]) for size in sizes]
                here = others[others.curve.eq(accountant) & others.schedule.eq(schedule)]
                _step_sizes(ax, here, "epsilon", Look("", "#000000", "x", "none"))
                words = {"decreasing": "first of decreasing steps", "fixed": "fixed step"}[schedule]
                ax.set(xscale="log", yscale="log", title=f"{words}, {name}")
                ax.legend(handles=handles, loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=7.5)
            line[0].set_ylabel(PRODUCT)
        for ax in axes[-1]:
            ax.set_xlabel("ε (δ = 1/N)")
        listed = ", ".join(f"{value:g}" for value in sorted(others.lipschitz.unique()))
        label = f"L = {listed} at N = {others.records.iloc[0]:,}"
        legend = [Line2D([], [], color="#000000", marker="x", ms=3.5, ls="", label=label)]
        legend.append(entry(Look("32 orders instead of 256", "#444444", "", ":"), lw=1.4))
        text = (
            f"δ = 1/N, T = N, minibatch τ = {frame.batch.iloc[0]} (the paper states none), add/remove. Lines: L = 1. "
            "Slopes (ln η over ln ε): between the first two points and between the last two.\n"
            "An accountant of K orders reports no ε below ln(1/δ)/K: its curves begin there."
        )
        return lay_out(figure, title, text, legend)


def _size_curve(ax: Axes, rows: pd.DataFrame, accountant: str, colour: str) -> Line2D:
    """Draw the curve of one N, for 32 orders too; return its legend entry with the slopes at its ends."""
    if accountant == "moments_256":
        _step_sizes(ax, rows[rows.curve.eq("moments_32")], "epsilon", Look("", colour, "", ":"))
    here = rows[rows.curve.eq(accountant)]
    _step_sizes(ax, here, "epsilon", Look("", colour, "", "-"))
    here = here[here.reachable.eq(1)].sort_values("epsilon")
    slopes = np.diff(np.log(here.step_size)) / np.diff(np.log(here.epsilon))
    between = f": slope {slopes[0]:.1f} to {slopes[-1]:.1f}" if len(slopes) else ""
    return entry(Look(f"N = {rows.records.iloc[0]:,}{between}", colour, ""), lw=1.4)


def _steps_over_epsilon(ax: Axes, frame: pd.DataFrame, delta: float) -> None:
    _by_schedule(ax, frame[frame.panel.eq("budget")], "epsilon", [*ACCOUNTANTS])
    printed = frame[frame.panel.eq("example") & frame.curve.str.startswith("published")]
    ax.plot(printed.epsilon, printed.step_size, "*", color=PRINTED_COLOUR, ms=10, zorder=5)
    at_left: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "fontsize": 8}
    for x, y in printed[["epsilon", "step_size"]].to_numpy(float):
        ax.annotate(number(y), (x, y), (-5, 6), color=PRINTED_COLOUR, **at_left)
    ax.set(xscale="log", yscale="log", xlabel=f"ε (δ = {number(delta)})", ylabel=FIRST_STEP)
    low, high = ax.get_xlim()
    ax.set(xlim=(low, high), title="Step size against the budget")
    ax.axvspan(low, math.log(1 / delta) / ORDERS, color="#D55E00", alpha=0.1, lw=0, zorder=0)


def _steps_over_records(ax: Axes, frame: pd.DataFrame, epsilon: float) -> None:
    """Draw the product of step size and L² against N; it does not depend on L, so the curves coincide."""
    rows = frame[frame.panel.eq("records")]
    rows = rows.assign(step_size=rows.step_size * rows.lipschitz**2)
    _by_schedule(ax, rows, "records", ["moments_256", "tight"])
    listed = ", ".join(f"{value:g}" for value in sorted(rows.lipschitz.unique()))
    at: dict[str, Any] = {"xycoords": "axes fraction", "ha": "left", "va": "top", "fontsize": 8}
    ax.annotate(f"Curves for L = {listed} coincide.", (0.02, 0.98), **at)
    ax.set(xscale="log", yscale="log", ylabel=PRODUCT)
    low, high = ax.get_ylim()
    title = f"η falls as 1/L², ε = {number(epsilon)}"
    ax.set(ylim=(low, 2 * high), xlabel="records N (δ = 1/N, T = N)", title=title)


def _steps_over_batch(ax: Axes, frame: pd.DataFrame, epsilon: float, used: int) -> None:
    """Draw the step size against the minibatch size. `used` is the size of the other panels."""
    rows = frame[frame.panel.eq("batch")]
    _by_schedule(ax, rows, "batch", ["tight", "tight_replace_one", "moments_256"])
    printed = frame[frame.panel.eq("example") & frame.curve.eq("published")].step_size.iloc[0]
    ax.axhline(printed, color=PRINTED_COLOUR, lw=0.9, zorder=1)
    ax.annotate(
        f"printed: {printed:g}", (1, printed), (-2, 4), xycoords=("axes fraction", "data"),
        textcoords="offset points", ha="right", color=PRINTED_COLOUR, fontsize=8,
    )  # fmt: skip
    ax.set(xscale="log", yscale="log")
    batches = sorted({*rows.batch, used})
    ax.set_xticks(batches, [str(b) for b in batches])
    ax.minorticks_off()
    ax.set(xlabel="minibatch τ", title=f"Step size against the minibatch, ε = {number(epsilon)}")


def _by_schedule(ax: Axes, rows: pd.DataFrame, x: str, names: list[str]) -> None:
    """Draw the curves of some accountants, one for each schedule and Lipschitz constant."""
    for name in names:
        for schedule, line in SCHEDULES.items():
            here = rows[rows.curve.eq(name) & rows.schedule.eq(schedule)]
            for _, curve in here.groupby("lipschitz"):
                _step_sizes(ax, curve, x, ACCOUNTANTS[name]._replace(line=line), _width(name))


def _step_sizes(ax: Axes, rows: pd.DataFrame, x: str, of: Look, width: float = 1.4) -> None:
    """Draw one curve of step sizes, without the points at which the accountant gives no bound."""
    rows = rows[rows.reachable.eq(1)].sort_values(x)
    ax.plot(rows[x], rows.step_size, **(of.shape | {"ms": 3.5}), lw=width, zorder=3)


def _width(name: str) -> float:
    return 0.9 if name == "tight_replace_one" else 1.4
