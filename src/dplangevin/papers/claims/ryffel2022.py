"""Rules for claims of ryffel2022 alone.

They test bounds against exact cases, recompute Table 4 from printed numbers, and compare beta with the exact
Hessian. They also test the ratio that says how the number of steps grows with n.

Theorem 4.2 (decreasing steps) takes K = max((beta/lambda) q, (lambda/beta) q^2), where q = eps n^2/(alpha d)
and d is the number of parameters. K is of order n^2 while the ratio q/(beta/lambda)^2 is below 1, and of
order n^4 above. The printed ratios come out with these choices:

- eps = 1 is epsilon itself, where the theorem has the Renyi divergence;
- d is the number of classes, although a linear head has d = classes x features;
- alpha is the integer order at which the paper's formula is smallest, for K in epochs, at the epoch with the
  best test accuracy.

The authors' public code computes the ratios in this way. It computes beta as the mean over minibatches of
lambda_max(X^T X)/(2 m), without the + lambda of the lemma.

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
    ATTACK,
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
    Where,
    decide,
    equal_as_printed,
    not_testable,
    result,
    rows_where,
    single,
)
from dplangevin.papers.statistics import Interval
from dplangevin.text import short

DELTA = 1e-5  # delta of the (epsilon, delta) version of Theorem 4.2
ROUNDING = 1e-9  # relative rounding error that is allowed in exact values
TRUNCATION = 0.01  # largest error of a share that is printed in whole percent


def holds(frame: pd.DataFrame, *, where: Where, what: str) -> Verdict:
    """Test that the exact value never exceeds its upper bound.

    One exact case above its bound refutes the claim. The claim holds on these cases if there is none.

    - `frame`, `where`: Rows with the columns `exact` and `bound`, and conditions of the rows to test.
    - `what`: The ratio exact/bound in words, for the reason of the verdict.
    - returns: ours, high: the largest exact/bound; low: the smallest.
    """
    rows = rows_where(frame, where).reset_index(drop=True)
    ratios = rows.exact / rows.bound
    worst: dict[str, Any] = dict(rows.iloc[int(ratios.argmax())])
    above = int((ratios > 1 + ROUNDING).sum())
    texts = {"batch": "batch {}", "schedule": "{} steps", "case": "{}"}
    at = [
        text.format(worst[key]) for key, text in texts.items() if isinstance(worst[key], str) and worst[key]
    ]
    sizes = {"condition": "β/λ", "step": "ηβ", "records": "n", "steps": "K"}
    at += [f"{name} {short(worst[key])}" for key, name in sizes.items() if not math.isnan(worst[key])]
    cases = "case" if len(rows) == 1 else "cases"
    reason = (
        f"{what}: {ratios.min():.3g} to {ratios.max():.3g} in {len(rows)} exact {cases}, above 1 in {above}; largest "
        f"at {', '.join(at)}: {short(worst['exact'])} against {short(worst['bound'])}"
    )
    interval = Interval(float(ratios.max()), float(ratios.min()), float(ratios.max()))
    return result(interval, decide(above == 0, above > 0), reason, EXACT, asked_range=AskedRange(high=1.0))


def bracketed(
    frame: pd.DataFrame, *, where: Where, claimed: str, proven: str, attack: str, keys: Sequence[str]
) -> Verdict:
    """Test a promised ε that lies between an attack ε and a proven ε.

    The claim holds if in all settings the promised ε is at least the proven ε. It fails if
    in one setting the attack ε exceeds it. Otherwise it is open.

    - `claimed`, `proven`, `attack`: Values of the column `quantity`: the promised ε, the proven ε, and the attack ε
      (95 % confidence).
    - `keys`: Columns on which the three are matched; each combination is one setting.
    - returns: ours, high: the largest proven/claimed; low: the largest attack/claimed.
    """
    rows = rows_where(frame, where)
    wide = rows.pivot_table(index=list(keys), columns="quantity", values="epsilon", aggfunc="first")
    below, above = wide[attack] / wide[claimed], wide[proven] / wide[claimed]
    holding, largest = int((above <= 1).sum()), float(below.max())
    promised = f"{short(wide[claimed].min())} to {short(wide[claimed].max())}"
    reason = (
        f"in {len(wide)} settings the claimed ε is {promised}; an attack shows at most {largest:.2g} of it, and it is "
        f"proven in {holding}: what we can prove is {above.min():.2g} to {above.max():.3g} times as much"
    )
    interval = Interval(float(above.max()), largest, float(above.max()))
    verdict = decide(holding == len(wide), largest > 1)
    return result(interval, verdict, reason, ATTACK, asked_range=AskedRange(high=1.0))


def step_of_command(frame: pd.DataFrame, *, step: float, smoothness: float) -> Verdict:
    """Test eta = 1/(2 beta).

    The claim holds if 2 beta eta prints as 1. Otherwise it is open, because the command may
    not be that of the paper's run.

    - `step`: eta of the authors' command.
    - `smoothness`: beta of Table 4.
    """
    ours = 2 * smoothness * step
    reason = f"the command has η = {step:g}, {ours:.3g} times 1/(2β) = {0.5 / smoothness:.2g} at β = {smoothness:g}"
    verdict = decide(equal_as_printed(ours, 1.0, 1), False)
    cause = ABSENT if verdict == OPEN else ""
    return result(single(ours), verdict, reason, EXACT, asked_range=AskedRange.near(1.0), cause=cause)


def condition(frame: pd.DataFrame, *, least: float) -> Verdict:
    """Test that beta/lambda is at least `least` on our features.

    - returns: ours, low: the smallest ratio over our features; high: the largest.
    """
    table = growth_ratios(frame, paper=[], features={})
    if table.empty:
        raise NoRows("no DP-Langevin run in the authors' settings with constant steps")
    values, asked_range = table.condition, AskedRange(low=least)
    listed = ", ".join(f"{words.features(row.task)}: {row.condition:.3g}" for row in table.itertuples())
    interval = Interval(float(values.min()), float(values.min()), float(values.max()))
    verdict = decide(bool((values >= least).all()), bool((values < least).all()))
    return result(interval, verdict, f"β/λ {asked_range}: {listed}", RANGE, asked_range=asked_range)


def shares(frame: pd.DataFrame, *, counts: Mapping[str, int], published: Mapping[str, float]) -> Verdict:
    """Test that printed shares of classes differ from the counted ones by less than TRUNCATION.

    - `counts`: Number of training images of each class.
    - `published`: Printed share of each class, in [0, 1].
    - returns: ours: the largest absolute difference.
    """
    total = sum(counts.values())
    gaps = {name: counts[name] / total - share for name, share in published.items()}
    largest = max(map(abs, gaps.values()))
    listed = ", ".join(
        f"{name} {100 * counts[name] / total:.1f} % for {100 * published[name]:g} %" for name in counts
    )
    reason = f"of {total} training images: {listed}"
    verdict = decide(largest < TRUNCATION, largest >= TRUNCATION)
    return result(single(largest), verdict, reason, EXACT, asked_range=AskedRange(high=TRUNCATION))


def total(frame: pd.DataFrame, *, counts: Mapping[str, int], published: int) -> Verdict:
    """Test that the counts of the classes add up to the printed number of images.

    - `counts`: Number of training images of each class.
    - `published`: The printed number of images.
    """
    ours = sum(counts.values())
    listed = " + ".join(f"{count} {name}" for name, count in counts.items())
    reason = f"{listed} = {ours} training images; {published} are printed"
    verdict = decide(ours == published, ours != published)
    return result(single(ours), verdict, reason, EXACT, asked_range=AskedRange.near(published))


def growth_ratio(
    beta: float, precision: float, records: float, parameters: float, order: float, epsilon: float = 1.0
) -> float:
    """Return (epsilon n^2/(order parameters))/(beta/precision)^2, unitless.

    - `beta`, `precision`: beta and lambda, > 0.
    - `records`, `parameters`: n and d, > 0.
    - `order`, `epsilon`: alpha and epsilon, > 0.
    """
    return epsilon * records**2 / (order * parameters) / (beta / precision) ** 2


def growth_ratio_of_proof(beta: float, precision: float, records: float, parameters: float) -> float:
    """Return the growth ratio with the alpha of the proof.

    At epsilon = 1, alpha is 1 + 2 ln(1/DELTA)/epsilon, and the Renyi divergence is epsilon/2.
    """
    return growth_ratio(beta, precision, records, parameters, 1 - 2 * math.log(DELTA), 0.5)


def best_order(epsilon: float, delta: float) -> float:
    """Return the real order alpha at which a alpha + ln(1/delta)/(alpha - 1) is smallest.

    That smallest value is epsilon = a + 2 sqrt(a ln(1/delta)) > 0, from which alpha is computed; delta is in
    (0, 1).
    """
    log = -math.log(delta)
    return 1 + math.sqrt(log) / (math.sqrt(log + epsilon) - math.sqrt(log))


def growth_ratios(
    frame: pd.DataFrame,
    *,
    paper: Sequence[Mapping[str, Any]],
    features: Mapping[str, Mapping[str, str]],
) -> pd.DataFrame:
    """Return the growth ratios of the paper's networks and of our features, one row for each.

    The numbers of our features come from their DP-Langevin run in the authors' settings with constant steps.
    Where there is a run as the authors ran it (block "code"), it is used.

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
    """Test a number that is recomputed from other numbers that the paper prints.

    The claim holds if `value` has the printed digits. It holds in part if one of
    `others` has them. Otherwise it fails.

    - `value`, `published`: Our number and the printed one.
    - `digits`: Number of significant digits that the paper prints.
    - `others`: A choice in words -> the number under that choice.
    - returns: ours: `value`; low, high: the smallest and the largest of all these numbers, nan without others. Where
      another choice has the printed digits, its number alone.
    """
    reason = f"{value:.3g} where the paper prints {published:g}"
    reason += "".join(f"; {name}: {other:.3g}" for name, other in others.items())
    every = [value, *others.values()]
    interval = Interval(value, min(every), max(every)) if others else single(value)
    if equal_as_printed(value, published, digits):
        verdict = HOLDS
    else:
        held = [other for other in others.values() if equal_as_printed(other, published, digits)]
        verdict = IN_PART if held else FAILS
        interval = single(held[0]) if held else interval
        reason = NOT_BY_DEFAULT + reason if held else reason
    return result(interval, verdict, reason, EXACT, asked_range=AskedRange.near(published))


def all_above(frame: pd.DataFrame, *, pairs: Sequence[Sequence[float]]) -> Verdict:
    """Test that in every printed pair the first number is above the second.

    The claim fails if the first is below in every pair. If neither holds, it is open.

    - returns: ours, low: the smallest difference; high: the largest.
    """
    gaps = [first - second for first, second in pairs]
    above, below = sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
    interval = Interval(min(gaps), min(gaps), max(gaps))
    ties = len(gaps) - above - below
    counts = f"above in {above}, tied in {ties} and below in {below} of {len(gaps)} printed pairs"
    reason = f"{counts}, by {max(gaps):.2g} at most"
    verdict = decide(above == len(gaps), below == len(gaps))
    return result(interval, verdict, reason, RANGE, asked_range=AskedRange.difference(0.0))


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
    """Test a printed ratio (eps n^2/(alpha d))/(beta/lambda)^2.

    ours has d = parameters, and the alpha and eps of the (eps, delta) version of Theorem 4.2. The other
    choices are alpha = `order` with eps = 1, and d = classes.

    - `smoothness`, `l2`, `records`: beta, lambda and n; all positive.
    - `order`: The order alpha of the authors' code, > 1.

    Source: ryffel2022, Theorem 4.2 and Table 4.
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
    """Test a printed beta against that of our features.

    The claim is not testable without features of the paper's network. The reason then gives the beta of our
    features.

    - `frame`: Rows with the columns dataset and smoothness.
    - `features`: Name of the features of the paper's network, such as "cifar10_resnet18".
    - `published`: The printed beta.
    - `digits`: Number of significant digits that the paper prints.
    """
    rows = frame[frame.dataset.eq(features) & frame.smoothness.notna()]
    if rows.empty:
        own = frame[frame.dataset.str.startswith(features.split("_")[0])]
        have = own.groupby("dataset").smoothness.first()
        listed = ", ".join(f"{words.features(name)}: {value:.3g}" for name, value in have.items())
        return not_testable(
            f"there are no {words.features(features)}, and β of other networks says nothing ({listed or 'none'})",
            AskedRange.near(published),
        )
    return printed(frame, value=float(rows.smoothness.iloc[0]), published=published, digits=digits, others={})


def magnitude(frame: pd.DataFrame, *, most: float) -> Verdict:
    """Test that the ratio is at most `most` on our features, with the paper's choice of alpha and eps.

    The claim holds if this holds with d = classes on all features. It holds in part if it holds only with d =
    classes x features. It fails if it holds on no features even then. Otherwise it is open.
    """
    table = growth_ratios(frame, paper=[], features={})
    if table.empty:
        raise NoRows("no DP-Langevin run in the authors' settings with constant steps")
    narrow, wide, asked_range = table.ratio_classes, table.ratio_theorem, AskedRange(high=most)
    reason = f"the claim asks for {asked_range}; " + ", ".join(
        f"{words.features(row.task)}: {row.ratio_classes:.2g} with d = classes, "
        f"{row.ratio_theorem:.2g} with d = classes x features"
        for row in table.itertuples()
    )
    interval = Interval(float(narrow.max()), float(narrow.min()), float(narrow.max()))
    verdict = decide(bool((narrow <= most).all()), not (wide <= most).any())
    if verdict != HOLDS and (wide <= most).all():
        verdict, reason = IN_PART, NOT_BY_DEFAULT + reason
        interval = Interval(float(wide.max()), float(wide.min()), float(wide.max()))
    return result(interval, verdict, reason, RANGE, asked_range=asked_range)


def lemma(
    frame: pd.DataFrame, *, problems: int, classes: Sequence[int], precision: float, end: str
) -> Verdict:
    """Test the constants of the lemma against the exact Hessian of the regularised softmax loss.

    The Hessian is computed on random data sets, at three W for each; the first W is zero. The claim holds if
    the constant holds with the printed regulariser lambda |W|^2. It holds in part if it holds with (lambda/2)
    |W|^2, whose Hessian is that of the proof. Otherwise it fails.

    - `problems`, `classes`: Number of random data sets for each number of classes.
    - `precision`: lambda, > 0.
    - `end`: "top": the largest eigenvalue over beta = (1/2) lambda_max(X^T X/n) + lambda must be at most 1. "bottom":
      the smallest eigenvalue over lambda must be at least 1.
    - returns: ours: the worst ratio with the regulariser that decides; low, high: the extremes.

    Source: ryffel2022, Section 5.1, lemma on the convexity and smoothness constants.
    """
    import torch  # imported here, so that whoever only reads verdicts does not wait for it

    from dplangevin.random import generator

    rng = generator(0, "ryffel2022/lemma")
    top = end == "top"
    ratios: dict[float, list[float]] = {2.0: [], 1.0: []}  # key: the regulariser's curvature / lambda
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
    verdict = HOLDS if held[2.0] else IN_PART if held[1.0] else FAILS
    reason = NOT_BY_DEFAULT + reason if verdict == IN_PART else reason
    at = 1.0 if verdict == IN_PART else 2.0
    interval = Interval(worst[at], min(ratios[at]), max(ratios[at]))
    asked_range = AskedRange(high=1.0) if top else AskedRange(low=1.0)
    return result(interval, verdict, reason, EXACT, asked_range=asked_range)


def hessian(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the Hessian of the mean cross-entropy, of shape (C p, C p).

    It is (1/n) sum_j (D(p_j) - p_j p_j^T) kron x_j x_j^T, for the weights w (C, p) and the rows x (n, p).
    """
    p = softmax(x @ w.T, axis=1)
    inner = p[:, :, None] * np.eye(w.shape[0]) - p[:, :, None] * p[:, None, :]  # (n, C, C)
    full = np.einsum("nij,nk,nl->ikjl", inner, x, x) / len(x)
    return np.asarray(full.reshape(w.size, w.size))
