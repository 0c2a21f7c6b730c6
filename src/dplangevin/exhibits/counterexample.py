"""The figure of the pair of data sets that breaks Theorem 3.1 of ryffel2022: densities, Renyi divergence, epsilon."""

from __future__ import annotations

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from dplangevin.exhibits import style
from dplangevin.exhibits.figures import frame

LOOKS = {
    "first": style.Look("θ on the data set", "#0072B2", "", "-"),
    "second": style.Look("θ with one record replaced", "#E69F00", "", "--"),
    "claimed": style.Look("Theorem 3.1 (claimed upper bound)", "#D55E00", "s", "--", 4.0),
    "exact": style.Look("exact", "#000000", "o", "-", 4.0),
    "audit": style.Look("attack on the theorem's hypotheses (lower bound)", "#009E73", "^", "", 7.0),
}


def counterexample(table: pd.DataFrame, *, title: str = "") -> Figure:
    """Left the densities of theta_K (log scale), middle the Renyi divergence against K, right epsilon against delta.

    table: rows of `analyses.counterexample.Counterexample`. Points at which epsilon is 0 are not drawn.
    """
    parts = {kind: table[table.kind.eq(kind)] for kind in ("density", "renyi", "profile", "hypotheses")}
    shown = parts["density"].note.iloc[0]
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(11.0, 4.2), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        _curves(left, parts["density"])
        peak = parts["density"].value.max()
        left.set(
            yscale="log",
            ylim=(peak * 1e-9, peak * 4),
            xlabel="θ",
            ylabel="density",
            title=f"Laws of θ, {shown}",
        )
        _curves(middle, parts["renyi"])
        middle.set(xscale="log", yscale="log", xlabel="steps K", ylabel="Rényi divergence")
        middle.set_title(f"Rényi divergence, {parts['renyi'].note.iloc[0]}")
        profile = parts["profile"]
        _curves(right, profile[profile.value.gt(0)], marked=("audit",))
        right.set(xscale="log", yscale="log", xlabel="δ", ylabel="ε", title=f"Privacy loss, {shown}")
        right.set_yticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
        right.yaxis.set_minor_formatter(NullFormatter())
        frame(figure, title, _caption(parts), [_handle(look) for look in LOOKS.values()])
    return figure


def _curves(ax: Axes, rows: pd.DataFrame, marked: tuple[str, ...] = ("claimed", "exact")) -> None:
    for name, part in rows.groupby("quantity", sort=False):
        look = LOOKS[str(name)]
        marker = look.marker if name in marked else ""
        ax.plot(part.x, part.value, color=look.colour, ls=look.line or "none", marker=marker, ms=look.size)


def _handle(look: style.Look) -> Line2D:
    return Line2D(
        [], [], color=look.colour, ls=look.line or "none", marker=look.marker, ms=look.size, label=look.label
    )


def _caption(parts: dict[str, pd.DataFrame]) -> str:
    renyi, profile, held = parts["renyi"], parts["profile"], parts["hypotheses"]
    first = renyi[renyi.x.eq(renyi.x.min())].set_index("quantity").value
    audits = profile[profile.quantity.eq("audit")]
    delta = 1e-5 if audits.x.eq(1e-5).any() else audits.x.iloc[0]
    at = profile[profile.x.eq(delta)].set_index("quantity").value
    return (
        f"K = {renyi.x.min():g}: R claimed {first.claimed:.3g}, exact {first.exact:.3g}. "
        f"ε at δ = {style.number(delta)}: claimed {at.claimed:.3g}, exact {at.exact:.3g}, "
        f"attack at least {at.audit:.3g} ({audits.note.iloc[0]}).\n"
        "The attack is on the theorem's hypotheses (any L-Lipschitz, strongly convex, smooth loss). "
        f"Hypotheses of Theorem 3.1 that hold: {held.note.eq('holds').sum()} of {len(held)}. "
        "Batches of one: the record is rare, but when it is drawn it shows."
    )
