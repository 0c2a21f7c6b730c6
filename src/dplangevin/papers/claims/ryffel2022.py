"""Rules for claims of ryffel2022 on printed numbers, and on the ratio that says how the number of steps grows with n.

Theorem 4.2 (decreasing steps) takes K = max((beta/lambda) q, (lambda/beta) q^2), where q = eps n^2/(alpha d) and d is
the number of parameters. K is of order n^2 while the ratio q/(beta/lambda)^2 is below 1, and of order n^4 above. The
printed ratios come out with the choices of the authors' code: eps = 1 is epsilon itself, where the theorem has the
Renyi divergence; d is the number of classes, although a linear head has d = classes x features; alpha is the integer
order at which the paper's formula is smallest, for K in epochs, at the epoch with the best test accuracy. The code's
beta is the mean over minibatches of lambda_max(X^T X)/(2 m), without the + lambda of the lemma.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax

from dplangevin.papers.claims import verdicts
from dplangevin.papers.claims.verdicts import AskedRange, Verdict, decide, result, within
from dplangevin.papers.statistics import matches
from dplangevin.reporting import words

DELTA = 1e-5  # delta of the (epsilon, delta) version of Theorem 4.2
TRUNCATION = 0.01  # largest error of a share that is printed in whole percent


# Printed numbers


def step_of_command(frame: pd.DataFrame, *, step: float, smoothness: float) -> Verdict:
    """Test eta = 1/(2 beta), for eta of the authors' command and beta of Table 4.

    The claim is open if 2 beta eta does not print as 1, because the command may not be that of the paper's run.
    """
    ours = 2 * smoothness * step
    reason = f"the command has η = {step:g}, {ours:.3g} times 1/(2β) = {0.5 / smoothness:.2g} at β = {smoothness:g}"
    verdict = decide(verdicts.equal_as_printed(ours, 1.0, 1), False)
    cause = verdicts.ABSENT if verdict == verdicts.OPEN else ""
    return result(ours, verdict, reason, verdicts.EXACT, AskedRange.near(1.0), cause)


def shares(frame: pd.DataFrame, *, counts: Mapping[str, int], published: Mapping[str, float]) -> Verdict:
    """Test that printed shares of classes differ from the counted ones by less than TRUNCATION, at the most."""
    total = sum(counts.values())
    largest = max(abs(counts[name] / total - share) for name, share in published.items())
    each = [f"{name} {100 * n / total:.1f} % for {100 * published[name]:g} %" for name, n in counts.items()]
    reason = f"largest error of {', '.join(each)} of {total} training images: {largest:.4g}"
    reason += f"; the claim asks for less than {TRUNCATION:g}"
    return result(
        largest, decide(largest < TRUNCATION, True), reason, verdicts.EXACT, AskedRange(high=TRUNCATION)
    )


def total(frame: pd.DataFrame, *, counts: Mapping[str, int], published: int) -> Verdict:
    """Test that the counts of the classes add up to the printed number of images."""
    return within(
        sum(counts.values()), AskedRange.near(published), f"training images, {words.listed([*counts])}"
    )


def all_above(frame: pd.DataFrame, *, pairs: Sequence[Sequence[float]]) -> Verdict:
    """Test that in every printed pair the first number is above the second; it fails if it is below in each.

    ours, low: the smallest difference.
    """
    gaps = pd.Series([first - second for first, second in pairs])
    tied, below = int(gaps.eq(0).sum()), int(gaps.lt(0).sum())
    what = f"difference of printed pairs, {tied} tied and {below} below"
    found = within(gaps, AskedRange.difference(0.0), what, verdicts.RANGE, "min", more=True)
    return found | {"verdict": decide(not tied + below, below == len(gaps))}


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

    Our numbers are those of DP-Langevin (ryffel2022) in the authors' settings with constant steps; of block "code",
    where there is one. `features`: features -> their task and network.
    """
    rows = [{"source": "paper", **entry} for entry in paper]
    settings = {"method": "dp_sgld_ryffel2022", "calibration": "published", "schedule": "constant"}
    for name, group in frame[matches(frame, settings)].groupby("dataset", sort=False):
        of = features.get(str(name), {"task": str(name), "network": str(name)})
        first = (group[group.block.eq("code")] if group.block.eq("code").any() else group).iloc[0]
        own = {key: first[key] for key in ("smoothness", "l2", "records", "parameters", "classes", "delta")}
        order = best_order(first.epsilon_formula_epochs, first.delta)
        row: dict[str, Any] = {"source": "ours", "task": of["task"], "network": of["network"], **own}
        rows.append({**row, "order": order, "ratio_published": math.nan})
    for row in rows:
        given = (row["smoothness"], row["l2"], row["records"])
        row["condition"] = row["smoothness"] / row["l2"]
        row["ratio_classes"] = growth_ratio(*given, row["classes"], row["order"])
        row["ratio_theorem"] = growth_ratio(*given, row["parameters"], row["order"])
        row["ratio_proof"] = growth_ratio_of_proof(*given, row["parameters"])
    return pd.DataFrame(rows)


def _ours(frame: pd.DataFrame) -> pd.DataFrame:
    table = growth_ratios(frame, paper=[], features={})
    if table.empty:
        raise verdicts.NoRows("no DP-Langevin run in the authors' settings with constant steps")
    return table.set_index(table.task.map(words.features))


def condition(frame: pd.DataFrame, *, least: float) -> Verdict:
    """Test that beta/lambda is at least `least` on our features; ours, low: the smallest ratio over these."""
    return within(_ours(frame).condition, AskedRange(low=least), "β/λ", verdicts.RANGE, "min")


def magnitude(frame: pd.DataFrame, *, most: float) -> Verdict:
    """Test that the ratio is at most `most` on our features, with the paper's choice of alpha and eps and d = classes.

    The other choice is d = classes x features.
    """
    table, asked = _ours(frame), AskedRange(high=most)
    wide = {"with d = classes x features": table.ratio_theorem}
    return within(table.ratio_classes, asked, "ratio with d = classes", verdicts.RANGE, "max", others=wide)


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
    return within(
        ours, AskedRange.near(published), "ratio by the proof", strict=True, digits=2, others=others
    )


def smoothness(frame: pd.DataFrame, *, features: str, published: float, digits: int) -> Verdict:
    """Test a printed beta against that of our features of the paper's network; it is not testable without these."""
    rows, asked = frame[frame.dataset.eq(features) & frame.smoothness.notna()], AskedRange.near(published)
    if len(rows):
        return within(float(rows.smoothness.iloc[0]), asked, "β", digits=digits)
    have = frame[frame.dataset.str.startswith(features.split("_")[0])].groupby("dataset").smoothness.first()
    listed = ", ".join(f"{words.features(name)}: {value:.3g}" for name, value in have.items())
    reason = f"there are no {words.features(features)}, and β of other networks says nothing "
    reason += f"({listed or 'none'})"
    return verdicts.not_testable(reason, asked)


def lemma(
    frame: pd.DataFrame, *, problems: int, classes: Sequence[int], precision: float, end: str
) -> Verdict:
    """Test the constants of the lemma of Section 5.1 against the exact Hessian of the regularised softmax loss.

    The Hessian is computed on `problems` random data sets for each number of classes, at three W for each. The claim
    holds in part if it does with (lambda/2) |W|^2, whose Hessian is that of the proof, in place of lambda |W|^2.

    - `precision`: lambda, > 0.
    - `end`: "top": the largest eigenvalue over beta = (1/2) lambda_max(X^T X/n) + lambda is at most 1. "bottom": the
      smallest eigenvalue over lambda is at least 1.
    """
    import torch  # imported here, so that whoever only reads verdicts does not wait for it

    from dplangevin.random import generator

    rng = generator(0, "ryffel2022/lemma")
    top = end == "top"
    found = []  # smallest or largest curvature of the loss over the constant, lambda over the constant
    for c in (c for c in classes for _ in range(problems)):
        x = torch.randn(30, 3, generator=rng, dtype=torch.float64).numpy()
        constant = 0.5 * np.linalg.eigvalsh(x.T @ x / len(x))[-1] + precision if top else precision
        for size in (0.0, 0.3, 3.0):
            w = size * torch.randn(c, x.shape[1], generator=rng, dtype=torch.float64).numpy()
            value = np.linalg.eigvalsh(hessian(w, x))[-1 if top else 0]
            found.append((value / constant, precision / constant))
    curvature, regulariser = np.array(found).T
    as_printed, of_proof = (pd.Series(curvature + factor * regulariser) for factor in (2.0, 1.0))
    asked = AskedRange(high=1.0) if top else AskedRange(low=1.0)
    what = "largest eigenvalue of the Hessian over β" if top else "smallest eigenvalue of the Hessian over λ"
    others, ours = {"with (λ/2)|W|²": of_proof}, "max" if top else "min"
    return within(as_printed, asked, f"{what}, with λ|W|²", ours=ours, strict=True, others=others)


def hessian(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the Hessian of the mean cross-entropy, (C p, C p), for weights w (C, p) and rows x (n, p).

    It is (1/n) sum_j (D(p_j) - p_j p_j^T) kron x_j x_j^T.
    """
    p = softmax(x @ w.T, axis=1)
    inner = p[:, :, None] * np.eye(w.shape[0]) - p[:, :, None] * p[:, None, :]  # (n, C, C)
    full = np.einsum("nij,nk,nl->ikjl", inner, x, x) / len(x)
    return np.asarray(full.reshape(w.size, w.size))
