"""The exhibit `ops_distance`: how far the released draws of OPS are from the exact posterior, in small cases."""

from __future__ import annotations

import matplotlib
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dplangevin.exhibits import style
from dplangevin.exhibits.figures import frame as finish
from dplangevin.exhibits.markdown import head, line
from dplangevin.exhibits.style import short

SAMPLERS = {
    "ball": style.Look("ball, pure ε: HMC on the sphere", "#0072B2", "o", ""),
    "gaussian_prior": style.Look("Gaussian prior: HMC", "#D55E00", "s", ""),
    "gaussian_prior_rejection": style.Look("Gaussian prior: rejection", "#009E73", "^", ""),
}
NOTES = """\
OPS promises what an exact posterior sample would have; what is released comes from a sampler. Here the posterior is
known by quadrature, and one draw each of many independent chains is sorted into cells of equal posterior probability.
Total variation: of the shares of the cells from uniform, beside what exact draws would show in the mean (their sampling
error), and a limit above that of the laws of the cells at 95 % confidence. Largest |log ratio|: over the cells, with
limits that hold for all cells at once. The cells see nothing finer than they are: **no line of this table bounds the
largest log ratio of the laws themselves, on which a pure ε rests**, and R-hat, on which the chains stop, bounds
neither. For rejection sampling the total variation is at most {tv} by construction, and δ pays for it."""
TEXT = (
    "{draws:,} independent draws; {cells}. Left: total variation of the shares of the cells, limits above it at 95 %\n"
    "confidence (bars), and what exact draws would show (|). Right: largest |log ratio| over cells with simultaneous\n"
    "95 % limits. No sampler can be told from an exact one here; nothing finer than the cells is bounded."
)


def chart(frame: pd.DataFrame, *, title: str = "", tv: str = "") -> Figure:
    """frame: rows of `analyses.ops_distance`."""
    rows = frame.reset_index(drop=True)
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(9.5, 0.24 * len(rows) + 2.2), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        for y, row in rows.iterrows():
            look = SAMPLERS[row.sampler]
            left.hlines(y, row.tv, row.tv_limit, color=look.colour, lw=1.6)
            left.plot(row.tv, y, marker=look.marker, color=look.colour, ms=5, ls="")
            left.plot(row.tv_if_exact, y, marker="|", color="black", ms=10, ls="")
            right.hlines(y, row.ratio_low, row.ratio_high, color=look.colour, lw=1.6)
            right.plot(row.ratio, y, marker=look.marker, color=look.colour, ms=5, ls="")
        names = [f"{row.dimension}-d, ε = {style.number(row.epsilon)}" for _, row in rows.iterrows()]
        left.set_yticks(range(len(rows)), names)
        left.set_ylim(len(rows) - 0.5, -0.5)
        left.set_xlim(left=0)
        right.set_xlim(left=0)
        left.set_xlabel("total variation over the cells")
        right.set_xlabel("largest |log ratio| over the cells")
        handles = [
            Line2D([], [], color=look.colour, marker=look.marker, ms=5, ls="-", label=look.label)
            for look in SAMPLERS.values()
        ]
        handles.append(
            Line2D([], [], color="black", marker="|", ms=10, ls="", label="expected of exact draws")
        )
        finish(figure, title, text(frame), handles)
    return figure


def text(frame: pd.DataFrame) -> str:
    cells = [f"{int(n)} cells in {d}-d" for d, n in frame.groupby("dimension").cells.max().items()]
    return TEXT.format(draws=int(frame.draws.max()), cells=", ".join(cells))


def page(frame: pd.DataFrame, *, title: str = "", tv: str = "") -> str:
    """Markdown. tv: the total variation that rejection sampling is allowed."""
    names = [
        "sampler",
        "dimension",
        "ε",
        "ρ",
        "draws",
        "cells",
        "total variation",
        "if exact",
        "below (95 %)",
    ]
    names += ["largest |log ratio|", "95 % limits", "χ² p-value", "R-hat"]
    lines = [f"# {title}", "", NOTES.format(tv=tv), "", *head(names, text=1)]
    for _, row in frame.iterrows():
        cells = [SAMPLERS[row.sampler].label, f"{row.dimension}", style.number(row.epsilon), short(row.rho)]
        cells += [f"{int(row.draws):,}", f"{int(row.cells)}", f"{row.tv:.4f}", f"{row.tv_if_exact:.4f}"]
        cells += [f"{row.tv_limit:.4f}", f"{row.ratio:.3f}", f"{row.ratio_low:.3f} to {row.ratio_high:.3f}"]
        cells += [f"{row.p_value:.2f}", "" if pd.isna(row.r_hat) else f"{row.r_hat:.3f}"]
        lines.append(line(cells))
    return "\n".join(lines) + "\n"
