"""The figure of the last iterate's price: epsilon against the number of steps, per setting and batch size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dplangevin.exhibits import style
from dplangevin.exhibits.figures import frame

LOOKS = {
    "theorem": style.Look("Theorem 3.1, K = steps (claimed)", "#D55E00", "", "-"),
    "theorem_epochs": style.Look("Theorem 3.1, K = epochs, as their code counts", "#D55E00", "", "--"),
    "composition": style.Look("composition as they quote it (averaged sensitivity)", "#999999", "", "-."),
    "all_iterates": style.Look("PLD, all iterates visible (upper bound)", "#0072B2", "", "-"),
    "last_iterate": style.Look("last iterate, Bok et al. 2024 (upper bound)", "#009E73", "", "--"),
    "audit": style.Look("attack on the theorem's hypotheses (lower bound)", "#000000", "^", "", 5.0),
}
THEIRS = style.Look("published: ε = 1.0", "#CC79A7", "*", "", 11.0)
EPOCHS = style.Look("K of their number of epochs", "#CC79A7", "", ":")
LOW, HIGH = 0.01, 1e4


def privacy(table: pd.DataFrame, *, panels: Mapping[str, str], title: str = "") -> Figure:
    """Rows are settings (`panels`: setting -> name), columns batch sizes; both axes are logarithmic.

    table: rows of `analyses.langevin.LangevinPrivacy`; those of kind "curve" are drawn. Epsilon is cut at 0.01 and 1e4:
    curves that lie above are named at the top of their panel, and attacks that show less than 0.01 are not drawn.
    """
    curves = table[table.kind.eq("curve")]
    columns = {name: sorted(curves[curves.setting.eq(name)].batch.unique()) for name in panels}
    width = max(map(len, columns.values()))
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(2.9 * width, 2.5 * len(panels) + 1.2), layout="constrained")
        axes = figure.subplots(len(panels), width, squeeze=False, sharex=True, sharey=True)
        for line, (name, label) in zip(axes, panels.items(), strict=True):
            here = curves[curves.setting.eq(name)]
            own = table[table.setting.eq(name) & table.kind.eq("published") & table.schedule.eq("constant")]
            for ax, batch in zip(line, columns[name], strict=True):
                rows = here[here.batch.eq(batch)]
                _panel(ax, rows, own)
                full = batch == rows.records.iloc[0]
                ax.set_title(f"{label}, {'full batch' if full else f'batch {batch}'}", fontsize=8.5)
            line[0].set_ylabel(f"ε at δ = {style.number(here.delta.iloc[0])}")
        for ax in axes[-1]:
            ax.set_xlabel("steps K")
        handles = [_handle(look) for look in (*LOOKS.values(), EPOCHS, THEIRS)]
        frame(figure, title, _caption(table), handles)
    return figure


def _panel(ax: Axes, rows: pd.DataFrame, published: pd.DataFrame) -> None:
    ax.set(xscale="log", yscale="log", ylim=(LOW, HIGH), xlim=(0.8, 2.2 * rows.steps.max()))
    beyond = []
    for name, look in LOOKS.items():
        part = rows[rows.quantity.eq(name)].sort_values("steps")
        if part.epsilon.gt(HIGH).all():
            beyond.append(name)
            continue
        ax.plot(part.steps, part.epsilon, **_line(look))
    if beyond:
        names = {"all_iterates": "all iterates", "last_iterate": "last iterate"}
        text = "▲ beyond 1e4: " + ",\n".join(names.get(name, name) for name in beyond)
        ax.text(
            0.03, 0.97, text, transform=ax.transAxes, va="top", fontsize=7, color=LOOKS["all_iterates"].colour
        )
    epochs = published.epochs.iloc[0]
    ax.axvline(
        epochs * rows.records.iloc[0] / rows.batch.iloc[0],
        color=EPOCHS.colour,
        ls=EPOCHS.line,
        lw=1.1,
        zorder=1,
    )
    if published.batch.iloc[0] == rows.batch.iloc[0]:
        ax.plot(
            published.steps.iloc[0], 1.0, color=THEIRS.colour, marker=THEIRS.marker, ms=THEIRS.size, zorder=5
        )


def _handle(look: style.Look) -> Line2D:
    return Line2D([], [], label=look.label, **_line(look))


def _line(look: style.Look) -> dict[str, Any]:
    wide = look is LOOKS["all_iterates"]  # the last iterate's bound is drawn on top of it
    colour = style.tint(look.colour) if wide else look.colour
    return {
        "color": colour,
        "ls": look.line or "none",
        "lw": 3.0 if wide else 1.3,
        "marker": look.marker,
        "ms": look.size,
    }


def _caption(table: pd.DataFrame) -> str:
    audit = table[table.quantity.eq("audit")].note.iloc[0]
    return (
        "Replace-one. Attacks on the theorem's hypotheses (any L-Lipschitz, strongly convex, smooth loss) see the last "
        f"iterate: {audit};\nthe start has the theorem's initial law. They show at most about ln(runs/8); less than "
        f"{LOW:g} is not drawn.\n"
        "A claimed curve below a lower bound is refuted. The proof of Theorem 3.1 covers full batches only."
    )
