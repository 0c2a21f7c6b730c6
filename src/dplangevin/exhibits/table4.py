"""The exhibit `ryffel2022_tab4`: beta, beta/lambda and the ratio that says how the number of steps grows with n.

Theorem 4.2 (decreasing steps) takes K = max((beta/lambda) q, (lambda/beta) q^2), q = eps n^2/(alpha d), d the number of
parameters: K is of order n^2 while q/(beta/lambda)^2 < 1 and of order n^4 above.
The printed ratios come out with eps = 1 (epsilon itself, where the theorem has the Renyi divergence), with d the number
of classes, and with alpha the integer order at which the paper's formula is smallest for the K, in epochs, of the
epoch with the best test accuracy; their public code computes them in this way, and beta as the mean over minibatches
of lambda_max(X^T X)/(2 m), without the + lambda of the lemma. A linear head has d = classes x features.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dplangevin.exhibits import style
from dplangevin.exhibits.figures import frame as put_frame
from dplangevin.exhibits.markdown import head, line

RATIOS = {
    "ratio_published": style.Look("printed", "#CC79A7", "*", "", 10.0),
    "ratio_classes": style.Look("d = classes, as they do", "#E69F00", "s", "", 5.5),
    "ratio_theorem": style.Look("d = classes × features", "#0072B2", "o", "", 5.5),
    "ratio_proof": style.Look("α, ε of the proof as well", "#009E73", "^", "", 5.5),
}
NOTES = """\
The ratio (ε n²/(α d))/(β/λ)² of Theorem 4.2: K grows as n² where it is below 1. Rows of the paper are computed from its
printed β, the λ of its commands and n; ours from the features. The printed ratios come out with d = classes, ε = 1 and
the integer order α of the epoch that its code reports (the best on the test set). The number of parameters, which the
theorem means by d, is classes × features (the number of features is that of their public code). In the last column
α = 1 + 2 ln(1/δ)/ε and half of ε as well, as the proof of the (ε, δ) version sets them, δ = 1e-5. Our α is the best
order of the formula at K = epochs. λ is the strong convexity (the regulariser is (λ/2)‖W‖²). Our β is that of the
lemma, ½ λ_max(XᵀX/n) + λ, read off the private features; their code averages ½ λ_max over minibatches, which is no
less. It grows with the square of the scale of the features, which is a choice (`conf/heads`)."""
CAPTION = (
    "Below 1 the number of steps of Theorem 4.2 grows as n², above as n⁴. The paper's rows: from its printed β, the λ\n"
    "of its commands, n, and the number of features of its networks (its public code)."
)


def ratio(
    beta: float, precision: float, records: float, parameters: float, order: float, epsilon: float = 1.0
) -> float:
    """(epsilon n^2/(order parameters))/(beta/precision)^2, unitless; all positive."""
    return epsilon * records**2 / (order * parameters) / (beta / precision) ** 2


def proof_ratio(beta: float, precision: float, records: float, parameters: float, delta: float) -> float:
    """The same with alpha = 1 + 2 ln(1/delta)/epsilon and the Renyi divergence epsilon/2 at epsilon = 1."""
    return ratio(beta, precision, records, parameters, 1 - 2 * math.log(delta), 0.5)


def best_order(epsilon: float, delta: float) -> float:
    """The real order alpha at which a alpha + ln(1/delta)/(alpha - 1) is smallest, from that smallest value epsilon =
    a + 2 sqrt(a ln(1/delta))."""
    log = -math.log(delta)
    return 1 + math.sqrt(log) / (math.sqrt(log + epsilon) - math.sqrt(log))


def summary(
    frame: pd.DataFrame,
    *,
    paper: Sequence[Mapping[str, Any]],
    features: Mapping[str, Mapping[str, str]],
) -> pd.DataFrame:
    """One row for each of `paper` (task, network, beta, precision, records, classes, features_dim, order, delta,
    ratio_published) and for each features of the frame, whose DP-Langevin run in the authors' settings with constant
    steps gives the numbers. frame: rows of `head_files.read_heads`; features: as for `heads_table.page`."""
    rows = [{"source": "paper", **entry} for entry in paper]
    chosen = (
        frame.method.eq("dp_langevin") & frame.calibration.eq("published") & frame.schedule.eq("constant")
    )
    for name, group in frame[chosen].groupby("features", sort=False):
        said = features.get(str(name), {"task": str(name), "network": str(name)})
        row: dict[str, Any] = {"source": "ours", "task": said["task"], "network": said["network"]}
        first = group.iloc[0]
        row |= {
            key: first[key] for key in ("beta", "precision", "records", "classes", "features_dim", "delta")
        }
        row["order"] = best_order(first.epsilon_formula_epochs, first.delta)
        rows.append({**row, "ratio_published": math.nan})
    for row in rows:
        given = (row["beta"], row["precision"], row["records"])
        parameters = row["classes"] * row["features_dim"]
        row["beta_over_precision"] = row["beta"] / row["precision"]
        row["ratio_classes"] = ratio(*given, row["classes"], row["order"])
        row["ratio_theorem"] = ratio(*given, parameters, row["order"])
        row["ratio_proof"] = proof_ratio(*given, parameters, 1e-5)
    return pd.DataFrame(rows)


def page(
    frame: pd.DataFrame,
    *,
    paper: Sequence[Mapping[str, Any]],
    features: Mapping[str, Mapping[str, str]],
    title: str = "",
) -> str:
    """Markdown: one table; arguments as for `summary`."""
    names = ["source", "task", "network", "n", "classes", "features", "β", "λ", "β/λ", "α", "printed"]
    lines = [f"# {title}", "", NOTES, ""]
    lines += head([*names, "d = classes", "d = classes × features", "and the proof's α, ε"], text=3)
    for row in summary(frame, paper=paper, features=features).to_dict("records"):
        cells = [row["source"], row["task"], row["network"]]
        cells += [f"{row[key]:.0f}" for key in ("records", "classes", "features_dim")]
        cells += [f"{row['beta']:.4g}", style.number(row["precision"]), _power(row["beta_over_precision"])]
        cells += [
            f"{row['order']:.3g}",
            *("" if math.isnan(row[key]) else _power(row[key]) for key in RATIOS),
        ]
        lines.append(line(cells))
    return "\n".join(lines) + "\n"


def _power(value: float) -> str:
    """To two digits, as the paper prints them: 5.5e4."""
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def chart(
    frame: pd.DataFrame,
    *,
    paper: Sequence[Mapping[str, Any]],
    features: Mapping[str, Mapping[str, str]],
    title: str = "",
) -> Figure:
    """The ratios of every row on a log axis; arguments as for `summary`."""
    table = summary(frame, paper=paper, features=features)
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(8.4, 0.42 * len(table) + 1.9), layout="constrained")
        ax = figure.subplots()
        ax.set_xscale("log")
        names = ["the paper" if source == "paper" else "ours" for source in table.source]
        labels = zip(table.task, table.network, names, strict=True)
        ax.set_yticks(table.index, [f"{task}, {network} ({whose})" for task, network, whose in labels])
        ax.set_ylim(len(table) - 0.4, -0.6)
        ax.axvline(1.0, color="#555555", ls="--", lw=1.0, zorder=1)
        handles = []
        for column, look in RATIOS.items():
            kind: dict[str, Any] = {"ls": "", "marker": look.marker, "ms": look.size, "color": look.colour}
            kind |= {"mfc": "none"} if column == "ratio_published" else {}
            ax.plot(table[column], table.index, zorder=4 if column == "ratio_published" else 3, **kind)
            handles.append(Line2D([], [], label=look.label, **kind))
        handles.append(Line2D([], [], color="#555555", ls="--", lw=1.0, label="n² below, n⁴ above"))
        ax.set_xlabel("(ε n²/(α d))/(β/λ)²")
        put_frame(figure, title, CAPTION, handles)
    return figure
