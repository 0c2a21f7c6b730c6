"""Rules for ryffel2022 alone: bounds against exact cases, the numbers of Table 4 recomputed from what is printed, beta
against the exact Hessian, and the ratio that says how the number of steps grows with n.

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

import numpy as np
import pandas as pd
from scipy.special import softmax

from dplangevin.claims import words
from dplangevin.claims.verdicts import (
    ATTACK,
    CONTRADICTED,
    EXACT,
    RANGE,
    REPRODUCED,
    UNDER_CHOICES,
    Asked,
    NoRows,
    Verdict,
    Where,
    equal_as_printed,
    judged,
    not_testable,
    result,
    rows_where,
    single,
)
from dplangevin.statistics import Interval
from dplangevin.text import short

DELTA = 1e-5  # of the (epsilon, delta) version of Theorem 4.2
ROUNDING = 1e-9  # relative, of exact values
TRUNCATION = 0.01  # of a share that is printed in whole percent


def holds(frame: pd.DataFrame, *, where: Where, what: str) -> Verdict:
    """An upper bound in the column `bound` is kept by the exact value in the column `exact`, in every row `where`.

    ours: the largest exact/bound, low and high: the smallest and the largest.  One exact case above its bound
    contradicts it; that none is there reproduces it on these cases.
    """
    rows = rows_where(frame, where).reset_index(drop=True)
    ratios = rows.exact / rows.bound
    worst: dict[str, Any] = dict(rows.iloc[int(ratios.argmax())])
    above = int((ratios > 1 + ROUNDING).sum())
    words = {"batch": "batch {}", "schedule": "{} steps", "case": "{}"}
    texts = {key: worst[key] for key in words if isinstance(worst[key], str) and worst[key]}
    said = [words[key].format(text) for key, text in texts.items()]
    sizes = {"condition": "β/λ", "step": "ηβ", "records": "n", "steps": "K"}
    said += [f"{name} {short(worst[key])}" for key, name in sizes.items() if not math.isnan(worst[key])]
    cases = "case" if len(rows) == 1 else "cases"
    reason = (
        f"{what}: {ratios.min():.3g} to {ratios.max():.3g} in {len(rows)} exact {cases}, above 1 in {above}; largest "
        f"at {', '.join(said)}: {short(worst['exact'])} against {short(worst['bound'])}"
    )
    interval = Interval(float(ratios.max()), float(ratios.min()), float(ratios.max()))
    return result(interval, judged(above == 0, above > 0), reason, EXACT, asked=Asked(high=1.0))


def bracketed(
    frame: pd.DataFrame, *, where: Where, claimed: str, proven: str, attack: str, keys: Sequence[str]
) -> Verdict:
    """A claimed epsilon between a lower bound by an attack (95 %) and a proven upper bound, each a `quantity` of the
    rows `where`, matched on `keys`.

    Reproduced where the claim is at least what is proven in all settings, contradicted where an attack exceeds it in
    one, else undecided (not reproduced).  ours: the largest proven/claimed, low: the largest attack/claimed.
    """
    rows = rows_where(frame, where)
    wide = rows.pivot_table(index=list(keys), columns="quantity", values="epsilon", aggfunc="first")
    below, above = wide[attack] / wide[claimed], wide[proven] / wide[claimed]
    kept, largest = int((above <= 1).sum()), float(below.max())
    said = f"{short(wide[claimed].min())} to {short(wide[claimed].max())}"
    reason = (
        f"in {len(wide)} settings the claimed ε is {said}; an attack shows at most {largest:.2g} of it, and it is "
        f"proven in {kept}: what we can prove is {above.min():.2g} to {above.max():.3g} times as much"
    )
    interval = Interval(float(above.max()), largest, float(above.max()))
    verdict = judged(kept == len(wide), largest > 1)
    return result(interval, verdict, reason, ATTACK, asked=Asked(high=1.0))


def step_of_command(frame: pd.DataFrame, *, step: float, smoothness: float) -> Verdict:
    """eta = 1/(2 beta): 2 beta eta prints as 1, eta of a command and beta of Table 4; else not reproduced, since the
    command may not be that of the paper's run.  frame: unused."""
    ours = 2 * smoothness * step
    reason = f"the command has η = {step:g}, {ours:.3g} times 1/(2β) = {0.5 / smoothness:.2g} at β = {smoothness:g}"
    verdict = judged(equal_as_printed(ours, 1.0, 1), False)
    return result(single(ours), verdict, reason, "", asked=Asked.near(1.0))


def condition(frame: pd.DataFrame, *, least: float) -> Verdict:
    """beta/lambda on our features is at least `least`; ours: the smallest, high: the largest."""
    table = growth_ratios(frame, paper=[], features={})
    if table.empty:
        raise NoRows("no DP-Langevin run in the authors' settings with constant steps")
    values, asked = table.condition, Asked(low=least)
    listed = ", ".join(f"{words.features(row.task)}: {row.condition:.3g}" for row in table.itertuples())
    interval = Interval(float(values.min()), float(values.min()), float(values.max()))
    verdict = judged(bool((values >= least).all()), bool((values < least).all()))
    return result(interval, verdict, f"β/λ {asked}: {listed}", RANGE, asked=asked)


def shares(frame: pd.DataFrame, *, counts: Mapping[str, int], published: Mapping[str, float]) -> Verdict:
    """Printed shares of classes, each within TRUNCATION of that of the counted images; ours: the largest difference.
    frame: unused."""
    total = sum(counts.values())
    gaps = {name: counts[name] / total - share for name, share in published.items()}
    largest = max(map(abs, gaps.values()))
    listed = ", ".join(
        f"{name} {100 * counts[name] / total:.1f} % for {100 * published[name]:g} %" for name in counts
    )
    reason = f"of {total} training images: {listed}"
    verdict = judged(largest < TRUNCATION, largest >= TRUNCATION)
    return result(single(largest), verdict, reason, EXACT, asked=Asked(high=TRUNCATION))


def growth_ratio(
    beta: float, precision: float, records: float, parameters: float, order: float, epsilon: float = 1.0
) -> float:
    """(epsilon n^2/(order parameters))/(beta/precision)^2, unitless; all positive."""
    return epsilon * records**2 / (order * parameters) / (beta / precision) ** 2


def growth_ratio_of_proof(beta: float, precision: float, records: float, parameters: float) -> float:
    """The same with alpha = 1 + 2 ln(1/DELTA)/epsilon and the Renyi divergence epsilon/2 at epsilon = 1."""
    return growth_ratio(beta, precision, records, parameters, 1 - 2 * math.log(DELTA), 0.5)


def best_order(epsilon: float, delta: float) -> float:
    """The real order alpha at which a alpha + ln(1/delta)/(alpha - 1) is smallest, from that smallest value epsilon =
    a + 2 sqrt(a ln(1/delta))."""
    log = -math.log(delta)
    return 1 + math.sqrt(log) / (math.sqrt(log + epsilon) - math.sqrt(log))


def growth_ratios(
    frame: pd.DataFrame,
    *,
    paper: Sequence[Mapping[str, Any]],
    features: Mapping[str, Mapping[str, str]],
) -> pd.DataFrame:
    """One row for each of `paper` (task, network, smoothness, l2, records, parameters, classes, order, delta,
    ratio_published) and for each features of the frame, whose DP-Langevin run in the authors' settings with constant
    steps gives the numbers: as they ran it, where it was run so. frame: runs of `exhibits.read`; features: name ->
    {task, network}."""
    rows = [{"source": "paper", **entry} for entry in paper]
    chosen = (
        frame.method.eq("dp_sgld_ryffel2022")
        & frame.calibration.eq("published")
        & frame.schedule.eq("constant")
    )
    for name, group in frame[chosen].groupby("dataset", sort=False):
        of = features.get(str(name), {"task": str(name), "network": str(name)})
        row: dict[str, Any] = {"source": "ours", "task": of["task"], "network": of["network"]}
        first = group[group.block.eq("code")].iloc[0] if group.block.eq("code").any() else group.iloc[0]
        row |= {key: first[key] for key in ("smoothness", "l2", "records", "parameters", "classes", "delta")}
        row["order"] = best_order(first.epsilon_formula_epochs, first.delta)
        rows.append({**row, "ratio_published": math.nan})
    for row in rows:
        given, parameters = (row["smoothness"], row["l2"], row["records"]), row["parameters"]
        row["condition"] = row["smoothness"] / row["l2"]
        row["ratio_classes"] = growth_ratio(*given, row["classes"], row["order"])
        row["ratio_theorem"] = growth_ratio(*given, parameters, row["order"])
        row["ratio_proof"] = growth_ratio_of_proof(*given, parameters)
    return pd.DataFrame(rows)


def printed(
    frame: pd.DataFrame, *, value: float, published: float, digits: int, others: Mapping[str, float]
) -> Verdict:
    """A number recomputed from others that the paper prints: reproduced if `value` has the printed digits; under stated
    choices if one of `others` (name -> value) has; else contradicted. frame: unused."""
    reason = f"{value:.3g} where the paper prints {published:g}"
    reason += "".join(f"; {name}: {other:.3g}" for name, other in others.items())
    every = [value, *others.values()]
    interval = Interval(value, min(every), max(every)) if others else single(value)
    if equal_as_printed(value, published, digits):
        verdict = REPRODUCED
    else:
        held = any(equal_as_printed(other, published, digits) for other in others.values())
        verdict = UNDER_CHOICES if held else CONTRADICTED
    return result(interval, verdict, reason, EXACT, asked=Asked.near(published))


def all_above(frame: pd.DataFrame, *, pairs: Sequence[Sequence[float]]) -> Verdict:
    """In every printed pair the first number is above the second. ours: the smallest difference, high: the largest;
    contradicted if it is below in every pair, else not reproduced. frame: unused."""
    gaps = [first - second for first, second in pairs]
    above, below = sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
    interval = Interval(min(gaps), min(gaps), max(gaps))
    ties = len(gaps) - above - below
    said = f"above in {above}, tied in {ties} and below in {below} of {len(gaps)} printed pairs"
    reason = f"{said}, by {max(gaps):.2g} at most"
    verdict = judged(above == len(gaps), below == len(gaps))
    return result(interval, verdict, reason, RANGE, asked=Asked.difference(0.0))


def ratio(
    frame: pd.DataFrame,
    *,
    smoothness: float,
    l2: float,
    records: float,
    parameters: float,
    classes: float,
    order: float,
    published: float,
) -> Verdict:
    """A printed ratio (eps n^2/(alpha d))/(beta/lambda)^2. ours: with d = parameters and the alpha and eps of
    the (eps, delta) version of Theorem 4.2; the other choices: alpha = `order` and eps = 1, and d = classes."""
    given = (smoothness, l2, records)
    others = {
        f"with α = {order:g}, ε = 1": growth_ratio(*given, parameters, order),
        f"with α = {order:g}, ε = 1 and d = classes": growth_ratio(*given, classes, order),
        "with α, ε of the proof and d = classes": growth_ratio_of_proof(*given, classes),
    }
    ours = growth_ratio_of_proof(*given, parameters)
    return printed(frame, value=ours, published=published, digits=2, others=others)


def smoothness(frame: pd.DataFrame, *, features: str, published: float, digits: int) -> Verdict:
    """A printed beta. Not testable without features of the paper's network; the reason then tells the beta of ours."""
    rows = frame[frame.dataset.eq(features) & frame.smoothness.notna()]
    if rows.empty:
        own = frame[frame.dataset.str.startswith(features.split("_")[0])]
        have = own.groupby("dataset").smoothness.first()
        listed = ", ".join(f"{words.features(name)}: {value:.3g}" for name, value in have.items())
        return not_testable(
            f"there are no {words.features(features)}, and β of other networks says nothing ({listed or 'none'})",
            Asked.near(published),
        )
    return printed(frame, value=float(rows.smoothness.iloc[0]), published=published, digits=digits, others={})


def magnitude(frame: pd.DataFrame, *, most: float) -> Verdict:
    """The ratio is at most `most` on our features with their choice of alpha and eps: reproduced if with d = classes,
    under stated choices if with d = classes x features only, contradicted if on no features, else not reproduced."""
    table = growth_ratios(frame, paper=[], features={})
    if table.empty:
        raise NoRows("no DP-Langevin run in the authors' settings with constant steps")
    narrow, wide, asked = table.ratio_classes, table.ratio_theorem, Asked(high=most)
    reason = f"asked: {asked}; " + ", ".join(
        f"{words.features(row.task)}: {row.ratio_classes:.2g} with d = classes, "
        f"{row.ratio_theorem:.2g} with d = classes x features"
        for row in table.itertuples()
    )
    interval = Interval(float(narrow.max()), float(narrow.min()), float(narrow.max()))
    verdict = judged(bool((narrow <= most).all()), not (wide <= most).any())
    if verdict != REPRODUCED and (wide <= most).all():
        verdict = UNDER_CHOICES
    return result(interval, verdict, reason, RANGE, asked=asked)


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
    import torch  # here, so that what reads a verdict does not wait for it

    from dplangevin.random import generator

    rng = generator(0, "ryffel2022/lemma")
    top = end == "top"
    ratios: dict[float, list[float]] = {2.0: [], 1.0: []}  # by the regulariser's second derivative, in lambda
    for c in classes:
        for _ in range(problems):
            x = torch.randn(30, 3, generator=rng, dtype=torch.float64).numpy()
            beta = 0.5 * np.linalg.eigvalsh(x.T @ x / len(x))[-1] + precision
            for scale in (0.0, 0.3, 3.0):
                w = scale * torch.randn(c, x.shape[1], generator=rng, dtype=torch.float64).numpy()
                values = np.linalg.eigvalsh(hessian(w, x))
                for factor, listed in ratios.items():
                    unregularised = values[-1] / beta if top else values[0] / precision
                    listed.append(unregularised + factor * precision / (beta if top else precision))
    worst = {factor: max(listed) if top else min(listed) for factor, listed in ratios.items()}
    held = {factor: value <= 1 + 1e-9 if top else value >= 1 - 1e-9 for factor, value in worst.items()}
    what = "largest eigenvalue of the Hessian over β" if top else "smallest eigenvalue of the Hessian over λ"
    reason = f"{what}: {worst[2.0]:.4g} with λ|W|², {worst[1.0]:.4g} with (λ/2)|W|², over {len(ratios[2.0])} points"
    interval = Interval(worst[2.0], min(ratios[2.0]), max(ratios[2.0]))
    verdict = REPRODUCED if held[2.0] else UNDER_CHOICES if held[1.0] else CONTRADICTED
    asked = Asked(high=1.0) if top else Asked(low=1.0)
    return result(interval, verdict, reason, EXACT, asked=asked)


def hessian(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Of the mean cross-entropy: (1/n) sum_j (D(p_j) - p_j p_j^T) kron x_j x_j^T, (C p, C p). w: (C, p), x: (n, p)."""
    p = softmax(x @ w.T, axis=1)
    inner = p[:, :, None] * np.eye(w.shape[0]) - p[:, :, None] * p[:, None, :]  # (n, C, C)
    full = np.einsum("nij,nk,nl->ikjl", inner, x, x) / len(x)
    return np.asarray(full.reshape(w.size, w.size))
