"""Rules for claims of ryffel2022 on printed numbers, and on the ratio that says how the number of steps grows with n.

Theorem 4.2 (decreasing steps) takes K = max((beta/lambda) q, (lambda/beta) q^2), where q = eps n^2/(alpha d) and d is
the number of parameters. K is of order n^2 while the ratio q/(beta/lambda)^2 is below 1, and of order n^4 above. The
printed ratios come out with these choices, which the authors' public code makes:

- eps = 1 is epsilon itself, where the theorem has the Renyi divergence;
- d is the number of classes, although a linear head has d = classes x features;
- alpha is the integer order at which the paper's formula is smallest, for K in epochs, at the epoch with the best test
  accuracy.

The code's beta is the mean over minibatches of lambda_max(X^T X)/(2 m), without the + lambda of the lemma.

Rules on printed numbers alone do not read the frame.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax

from dplangevin.papers.claims import words
from dplangevin.papers.claims.verdicts import (
    ABSENT,
    EXACT,
    FAILS,
    HOLDS,
    IN_PART,
    NOT_BY_DEFAULT,
    OPEN,
    RANGE,
    AskedRange,
    NoRows,
    Verdict,
    decide,
    equal_as_printed,
    not_testable,
    result,
    single,
)
from dplangevin.papers.statistics import Interval

DELTA = 1e-5  # delta of the (epsilon, delta) version of Theorem 4.2
TRUNCATION = 0.01  # largest error of a share that is printed in whole percent


# Printed numbers


def printed(
    frame: pd.DataFrame, *, value: float, published: float, digits: int, others: Mapping[str, float]
) -> Verdict:
    """Test a number that is recomputed from other printed numbers; `others`: a choice in words -> the number under it.

    The claim holds in part if one of `others` has the printed digits. low, high: the extremes of all these numbers.
    """
    reason = "; ".join(
        [f"{value:.3g} where the paper prints {published:g}", *(f"{k}: {v:.3g}" for k, v in others.items())]
    )
    every = [value, *others.values()]
    interval, verdict = Interval(value, min(every), max(every)) if others else single(value), FAILS
    if equal_as_printed(value, published, digits):
        verdict = HOLDS
    elif held := [other for other in others.values() if equal_as_printed(other, published, digits)]:
        interval, verdict, reason = single(held[0]), IN_PART, NOT_BY_DEFAULT + reason
    return result(interval, verdict, reason, EXACT, asked_range=AskedRange.near(published))


def step_of_command(frame: pd.DataFrame, *, step: float, smoothness: float) -> Verdict:
    """Test eta = 1/(2 beta), for eta of the authors' command and beta of Table 4.

    The claim is open if 2 beta eta does not print as 1, because the command may not be that of the paper's run.
    """
    ours = 2 * smoothness * step
    reason = f"the command has η = {step:g}, {ours:.3g} times 1/(2β) = {0.5 / smoothness:.2g} at β = {smoothness:g}"
    verdict = decide(equal_as_printed(ours, 1.0, 1), False)
    cause = ABSENT if verdict == OPEN else ""
    return result(single(ours), verdict, reason, EXACT, asked_range=AskedRange.near(1.0), cause=cause)


def shares(frame: pd.DataFrame, *, counts: Mapping[str, int], published: Mapping[str, float]) -> Verdict:
    """Test that printed shares of classes differ from the counted ones by less than TRUNCATION.

    Ours: the largest difference.
    """
    total = sum(counts.values())
    largest = max(abs(counts[name] / total - share) for name, share in published.items())
    listed = ", ".join(
        f"{name} {100 * counts[name] / total:.1f} % for {100 * published[name]:g} %" for name in counts
    )
    verdict = decide(largest < TRUNCATION, True)
    reason = f"of {total} training images: {listed}"
    return result(single(largest), verdict, reason, EXACT, asked_range=AskedRange(high=TRUNCATION))


def total(frame: pd.DataFrame, *, counts: Mapping[str, int], published: int) -> Verdict:
    """Test that the counts of the classes add up to the printed number of images."""
    ours = sum(counts.values())
    listed = " + ".join(f"{count} {name}" for name, count in counts.items())
    reason = f"{listed} = {ours} training images; {published} are printed"
    return result(
        single(ours), decide(ours == published, True), reason, EXACT, asked_range=AskedRange.near(published)
    )


def all_above(frame: pd.DataFrame, *, pairs: Sequence[Sequence[float]]) -> Verdict:
    """Test that in every printed pair the first number is above the second; ours, low: the smallest difference."""
    gaps = [first - second for first, second in pairs]
    above, below, n = sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps), len(gaps)
    reason = f"above in {above}, tied in {n - above - below} and below in {below} of {n} printed pairs"
    reason += f", by {max(gaps):.2g} at most"
    interval = Interval(min(gaps), min(gaps), max(gaps))
    verdict = decide(above == n, below == n)
    return result(interval, verdict, reason, RANGE, asked_range=AskedRange.difference(0.0))


# The ratio of Table 4


def growth_ratio(
    beta: float, precision: float, records: float, parameters: float, order: float, epsilon: float = 1.0
) -> float:
    """Return (epsilon n^2/(order parameters))/(beta/precision)^2, unitless; precision is lambda, order alpha."""
    return epsilon * records**2 / (order * parameters) / (beta / precision) ** 2


def growth_ratio_of_proof(beta: float, precision: float, records: float, parameters: float) -> float:
    """Return the growth ratio with the proof's alpha, 1 + 2 ln(1/DELTA)/epsilon, at epsilon = 1 and divergence 1/2."""
    return growth_ratio(beta, precision, records, parameters, 1 - 2 * math.log(DELTA), 0.5)


def best_order(epsilon: float, delta: float) -> float:
    """Return the real order alpha at which a alpha + ln(1/delta)/(alpha - 1) is smallest.

    That smallest value is epsilon = a + 2 sqrt(a ln(1/delta)) > 0, from which alpha is computed.
    """
    log = -math.log(delta)
    return 1 + math.sqrt(log) / (math.sqrt(log + epsilon) - math.sqrt(log))


def growth_ratios(
    frame: pd.DataFrame, *, paper: Sequence[Mapping[str, Any]], features: Mapping[str, Mapping[str, str]]
) -> pd.DataFrame:
    """Return the growth ratios of the paper's networks and of our features, one row for each.

    The numbers of our features come from their DP-Langevin run in the authors' settings with constant steps; of block
    "code", as the authors ran it, where there is one.

    - `frame`: Runs of `papers.exhibits.read`.
    - `paper`: Each has task, network, smoothness, l2, records, parameters, classes, order, delta and ratio_published.
    - `features`: task and network of each of our features, by its name.
    - returns: The columns of `paper`, and source, condition (beta/lambda), ratio_classes, ratio_theorem and
      ratio_proof.
    """
    rows = [{"source": "paper", **entry} for entry in paper]
    chosen = (
        frame.method.eq("dp_sgld_ryffel2022")
        & frame.calibration.eq("published")
        & frame.schedule.eq("constant")
    )
    for name, group in frame[chosen].groupby("dataset", sort=False):
        of = features.get(str(name), {"task": str(name), "network": str(name)})
        first = (group[group.block.eq("code")] if group.block.eq("code").any() else group).iloc[0]
        own = {key: first[key] for key in ("smoothness", "l2", "records", "parameters", "classes", "delta")}
        order = best_order(first.epsilon_formula_epochs, first.delta)
        row: dict[str, Any] = {
            "source": "ours",
            "task": of["task"],
            "network": of["network"],
            **own,
            "order": order,
        }
        rows.append({**row, "ratio_published": math.nan})
    for row in rows:
        given, parameters = (row["smoothness"], row["l2"], row["records"]), row["parameters"]
        row["condition"] = row["smoothness"] / row["l2"]
        row["ratio_classes"] = growth_ratio(*given, row["classes"], row["order"])
        row["ratio_theorem"] = growth_ratio(*given, parameters, row["order"])
        row["ratio_proof"] = growth_ratio_of_proof(*given, parameters)
    return pd.DataFrame(rows)


def _ours(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the growth ratios of our features."""
    table = growth_ratios(frame, paper=[], features={})
    if table.empty:
        raise NoRows("no DP-Langevin run in the authors' settings with constant steps")
    return table


def condition(frame: pd.DataFrame, *, least: float) -> Verdict:
    """Test that beta/lambda is at least `least` on our features; ours, low: the smallest ratio over these."""
    table, asked = _ours(frame), AskedRange(low=least)
    values = table.condition
    listed = ", ".join(f"{words.features(row.task)}: {row.condition:.3g}" for row in table.itertuples())
    interval = Interval(float(values.min()), float(values.min()), float(values.max()))
    verdict = decide(bool((values >= least).all()), bool((values < least).all()))
    return result(interval, verdict, f"β/λ {asked}: {listed}", RANGE, asked_range=asked)


def magnitude(frame: pd.DataFrame, *, most: float) -> Verdict:
    """Test that the ratio is at most `most` on our features, with the paper's choice of alpha and eps and d = classes.

    The claim holds in part if it is so only with d = classes x features, and fails if even that holds on no features.
    """
    table, asked = _ours(frame), AskedRange(high=most)
    narrow, wide = table.ratio_classes, table.ratio_theorem
    each = (
        f"{words.features(row.task)}: {row.ratio_classes:.2g} with d = classes, "
        f"{row.ratio_theorem:.2g} with d = classes x features"
        for row in table.itertuples()
    )
    reason, used = f"the claim asks for {asked}; {', '.join(each)}", narrow
    verdict = decide(bool((narrow <= most).all()), not (wide <= most).any())
    if verdict != HOLDS and (wide <= most).all():
        verdict, reason, used = IN_PART, NOT_BY_DEFAULT + reason, wide
    interval = Interval(float(used.max()), float(used.min()), float(used.max()))
    return result(interval, verdict, reason, RANGE, asked_range=asked)


def ratio(
    frame: pd.DataFrame, *, smoothness: float, l2: float, records: float, parameters: float, classes: float,
    order: float, published: float,
) -> Verdict:  # fmt: skip
    """Test a printed ratio (eps n^2/(alpha d))/(beta/lambda)^2 (ryffel2022, Theorem 4.2 and Table 4).

    ours has d = parameters, and the alpha and eps of the (eps, delta) version of the theorem. The other choices are
    alpha = `order`, that of the authors' code, with eps = 1, and d = classes.
    """
    given = (smoothness, l2, records)
    others = {
        f"with α = {order:g}, ε = 1": growth_ratio(*given, parameters, order),
        f"with α = {order:g}, ε = 1 and d = classes": growth_ratio(*given, classes, order),
        "with α, ε of the proof and d = classes": growth_ratio_of_proof(*given, classes),
    }
    ours = growth_ratio_of_proof(*given, parameters)
    return printed(frame, value=ours, published=published, digits=2, others=others)


def smoothness(frame: pd.DataFrame, *, features: str, published: float, digits: int) -> Verdict:
    """Test a printed beta against that of our features of the paper's network; it is not testable without these."""
    rows = frame[frame.dataset.eq(features) & frame.smoothness.notna()]
    if len(rows):
        return printed(
            frame, value=float(rows.smoothness.iloc[0]), published=published, digits=digits, others={}
        )
    have = frame[frame.dataset.str.startswith(features.split("_")[0])].groupby("dataset").smoothness.first()
    listed = ", ".join(f"{words.features(name)}: {value:.3g}" for name, value in have.items())
    reason = (
        f"there are no {words.features(features)}, and β of other networks says nothing ({listed or 'none'})"
    )
    return not_testable(reason, AskedRange.near(published))


def lemma(
    frame: pd.DataFrame, *, problems: int, classes: Sequence[int], precision: float, end: str
) -> Verdict:
    """Test the constants of the lemma of Section 5.1 against the exact Hessian of the regularised softmax loss.

    The Hessian is computed on `problems` random data sets for each number of classes, at three W for each, the first
    zero. The claim holds if the constant holds with the printed regulariser lambda |W|^2. It holds in part if it holds
    with (lambda/2) |W|^2, whose Hessian is that of the proof.

    - `precision`: lambda, > 0.
    - `end`: "top": the largest eigenvalue over beta = (1/2) lambda_max(X^T X/n) + lambda must be at most 1. "bottom":
      the smallest eigenvalue over lambda must be at least 1.
    - returns: ours: the worst ratio with the regulariser that decides; low, high: the extremes.
    """
    import torch  # imported here, so that whoever only reads verdicts does not wait for it

    from dplangevin.random import generator

    rng = generator(0, "ryffel2022/lemma")
    top = end == "top"
    ratios: dict[float, list[float]] = {2.0: [], 1.0: []}  # key: the regulariser's curvature / lambda
    for c in classes:
        for _ in range(problems):
            x = torch.randn(30, 3, generator=rng, dtype=torch.float64).numpy()
            scale = 0.5 * np.linalg.eigvalsh(x.T @ x / len(x))[-1] + precision if top else precision
            for size in (0.0, 0.3, 3.0):
                w = size * torch.randn(c, x.shape[1], generator=rng, dtype=torch.float64).numpy()
                value = np.linalg.eigvalsh(hessian(w, x))[-1 if top else 0]
                for factor, listed in ratios.items():
                    listed.append(value / scale + factor * precision / scale)
    worst = {factor: max(listed) if top else min(listed) for factor, listed in ratios.items()}
    held = {factor: value <= 1 + 1e-9 if top else value >= 1 - 1e-9 for factor, value in worst.items()}
    what = "largest eigenvalue of the Hessian over β" if top else "smallest eigenvalue of the Hessian over λ"
    reason = f"{what}: {worst[2.0]:.4g} with λ|W|², {worst[1.0]:.4g} with (λ/2)|W|², over {len(ratios[2.0])} points"
    verdict = HOLDS if held[2.0] else IN_PART if held[1.0] else FAILS
    reason = NOT_BY_DEFAULT + reason if verdict == IN_PART else reason
    at = 1.0 if verdict == IN_PART else 2.0
    interval, asked = (
        Interval(worst[at], min(ratios[at]), max(ratios[at])),
        AskedRange(high=1.0) if top else AskedRange(low=1.0),
    )
    return result(interval, verdict, reason, EXACT, asked_range=asked)


def hessian(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the Hessian of the mean cross-entropy, (C p, C p), for weights w (C, p) and rows x (n, p).

    It is (1/n) sum_j (D(p_j) - p_j p_j^T) kron x_j x_j^T.
    """
    p = softmax(x @ w.T, axis=1)
    inner = p[:, :, None] * np.eye(w.shape[0]) - p[:, :, None] * p[:, None, :]  # (n, C, C)
    full = np.einsum("nij,nk,nl->ikjl", inner, x, x) / len(x)
    return np.asarray(full.reshape(w.size, w.size))
