"""Rules for Table 4 of ryffel2022 and the lemma behind it: numbers recomputed, beta against the exact Hessian."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch

from dplangevin.claims import (
    CONTRADICTED,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDER_CHOICES,
    NoRows,
    Verdict,
    not_testable,
    result,
)
from dplangevin.comparison import Interval
from dplangevin.exhibits import table4
from dplangevin.noise import generator


def printed(
    frame: pd.DataFrame, *, value: float, published: float, digits: int, others: Mapping[str, float]
) -> Verdict:
    """A number recomputed from others that the paper prints: reproduced if `value` has the printed digits; under stated
    choices if one of `others` (name -> value) has; else contradicted. frame: unused."""
    reason = f"{value:.3g} where the paper prints {published:g}"
    reason += "".join(f"; {name}: {number:.3g}" for name, number in others.items())
    all_values = [value, *others.values()]
    interval = (
        Interval(value, min(all_values), max(all_values)) if others else Interval(value, math.nan, math.nan)
    )
    if _shown(value, digits) == _shown(published, digits):
        return result(interval, REPRODUCED, reason)
    held = any(_shown(number, digits) == _shown(published, digits) for number in others.values())
    return result(interval, UNDER_CHOICES if held else CONTRADICTED, reason)


def all_above(frame: pd.DataFrame, *, pairs: Sequence[Sequence[float]]) -> Verdict:
    """In every printed pair the first number is above the second. ours: the smallest difference, high: the largest;
    contradicted by one pair in which it is not. frame: unused."""
    gaps = [first - second for first, second in pairs]
    held = sum(gap > 0 for gap in gaps)
    interval = Interval(min(gaps), min(gaps), max(gaps))
    reason = f"above in {held} of {len(gaps)} printed pairs, by {min(gaps):.2g} to {max(gaps):.2g}"
    return result(interval, REPRODUCED if held == len(gaps) else CONTRADICTED, reason)


def ratio(
    frame: pd.DataFrame,
    *,
    beta: float,
    precision: float,
    records: float,
    classes: float,
    features_dim: float,
    order: float,
    published: float,
    delta: float = 1e-5,
    digits: int = 2,
) -> Verdict:
    """A printed ratio (eps n^2/(alpha d))/(beta/lambda)^2. ours: with d = classes x features and the alpha and eps of
    the (eps, delta) version of Theorem 4.2; the other choices: alpha = `order` and eps = 1, and d = classes."""
    given = (beta, precision, records)
    parameters = classes * features_dim
    others = {
        f"with α = {order:g}, ε = 1": table4.ratio(*given, parameters, order),
        f"with α = {order:g}, ε = 1 and d = classes": table4.ratio(*given, classes, order),
        "with α, ε of the proof and d = classes": table4.proof_ratio(*given, classes, delta),
    }
    ours = table4.proof_ratio(*given, parameters, delta)
    return printed(frame, value=ours, published=published, digits=digits, others=others)


def smoothness(frame: pd.DataFrame, *, features: str, published: float, digits: int) -> Verdict:
    """A printed beta. Not testable without features of the paper's network; the reason then tells the beta of ours."""
    rows = frame[frame.features.eq(features) & frame.beta.notna()]
    if rows.empty:
        have = frame[frame.features.str.startswith(features.split("_")[0])].groupby("features").beta.first()
        listed = ", ".join(f"{name} {value:.3g}" for name, value in have.items())
        return not_testable(
            f"no features of {features}; β of other networks says nothing ({listed or 'none'})"
        )
    return printed(frame, value=float(rows.beta.iloc[0]), published=published, digits=digits, others={})


def magnitude(frame: pd.DataFrame, *, most: float) -> Verdict:
    """The ratio is at most `most` on our features with their choice of alpha and eps: reproduced if with d = classes,
    under stated choices if with d = classes x features only, contradicted if on no features, else not reproduced."""
    table = table4.summary(frame, paper=[], features={})
    if table.empty:
        raise NoRows("no DP-Langevin run in the authors' settings with constant steps")
    narrow, wide = table.ratio_classes, table.ratio_theorem
    reason = f"asked: at most {most:g}; " + ", ".join(
        f"{row.task} {row.ratio_classes:.2g} with d = classes, {row.ratio_theorem:.2g} with d = classes x features"
        for row in table.itertuples()
    )
    interval = Interval(float(narrow.max()), float(narrow.min()), float(narrow.max()))
    if (narrow <= most).all():
        return result(interval, REPRODUCED, reason)
    if (wide <= most).all():
        return result(interval, UNDER_CHOICES, reason)
    return result(interval, NOT_REPRODUCED if (wide <= most).any() else CONTRADICTED, reason)


def lemma(
    frame: pd.DataFrame, *, problems: int, classes: Sequence[int], precision: float, end: str
) -> Verdict:
    """The constants of the lemma against the exact Hessian of the regularised softmax loss, on `problems` random data
    sets of each number of classes and at three W each (zero first). frame: unused.

    end "top": largest eigenvalue over beta = (1/2) lambda_max(X^T X/n) + lambda, at most 1; "bottom": smallest over
    lambda, at least 1. ours: the worst of these with the printed regulariser lambda |W|^2, low and high: the extremes.
    Reproduced if it holds; under stated choices if it does with (lambda/2) |W|^2, whose Hessian is the proof's; else
    contradicted.
    """
    rng = generator(0, "ryffel2022/lemma")
    found: dict[float, list[float]] = {2.0: [], 1.0: []}  # the regulariser's second derivative, in lambda
    for c in classes:
        for _ in range(problems):
            x = torch.randn(30, 3, generator=rng, dtype=torch.float64).numpy()
            beta = 0.5 * np.linalg.eigvalsh(x.T @ x / len(x))[-1] + precision
            for scale in (0.0, 0.3, 3.0):
                w = scale * torch.randn(c, x.shape[1], generator=rng, dtype=torch.float64).numpy()
                values = np.linalg.eigvalsh(hessian(w, x))
                for factor, ratios in found.items():
                    pick = values[-1] / beta if end == "top" else values[0] / precision
                    ratios.append(pick + factor * precision / (beta if end == "top" else precision))
    worst = max if end == "top" else min
    held = {
        factor: max(ratios) <= 1 + 1e-9 if end == "top" else min(ratios) >= 1 - 1e-9
        for factor, ratios in found.items()
    }
    ours = worst(found[2.0])
    what = (
        "largest eigenvalue of the Hessian over β"
        if end == "top"
        else "smallest eigenvalue of the Hessian over λ"
    )
    reason = f"{what}: {ours:.4g} with λ|W|², {worst(found[1.0]):.4g} with (λ/2)|W|², over {len(found[2.0])} points"
    interval = Interval(ours, min(found[2.0]), max(found[2.0]))
    word = REPRODUCED if held[2.0] else UNDER_CHOICES if held[1.0] else CONTRADICTED
    return result(interval, word, reason)


def hessian(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Of the mean cross-entropy: (1/n) sum_j (D(p_j) - p_j p_j^T) kron x_j x_j^T, (C p, C p). w: (C, p), x: (n, p)."""
    z = x @ w.T
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    inner = p[:, :, None] * np.eye(w.shape[0]) - p[:, :, None] * p[:, None, :]  # (n, C, C)
    full = np.einsum("nij,nk,nl->ikjl", inner, x, x) / len(x)
    return np.asarray(full.reshape(w.size, w.size))


def _shown(value: float, digits: int) -> str:
    return f"{value:.{digits - 1}e}"
