"""Step sizes, noise multipliers and theorems of Li, Chen, Liu, Carin (2019), with the range of their proofs.

The keywords records, batch, steps, lipschitz and rate are N, tau = q N, T, L (bound on one record's gradient, or the
clip) and q. A step of Algorithm 1 moves by (eta/tau) times the minibatch sum of clipped gradients and adds N(0, (eta/N)
I). One record moves it by at most eta L/tau, so the noise multiplier is

    sigma = sqrt(eta/N) / (eta L/tau) = tau / (L sqrt(eta N)).

>>> round(multiplier_of(0.3, records=60_000, batch=128, lipschitz=0.3), 3)
3.18
>>> f"{wang_step(Budget(0.1, 1e-5), records=50_000, steps=10_000, lipschitz=1.0):.3e}"
'1.479e-06'
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from dplangevin.checks import positive
from dplangevin.privacy.events import Budget
from dplangevin.privacy.gaussian_steps import StepSchedule

POWERS: dict[StepSchedule, float] = {"fixed": 1.0, "decreasing": 2 / 3}  # p of T^p in Theorems 4, 3


def multiplier_of(step: float, *, records: int, batch: float, lipschitz: float) -> float:
    """Return the noise multiplier sigma = tau/(L sqrt(eta N)) of a step size."""
    positive(step=step, records=records, batch=batch, lipschitz=lipschitz)
    return batch / (lipschitz * math.sqrt(step * records))


def step_of(multiplier: float, *, records: int, batch: float, lipschitz: float) -> float:
    """Return the step size eta = tau^2/(N L^2 sigma^2)."""
    positive(multiplier=multiplier, records=records, batch=batch, lipschitz=lipschitz)
    return batch**2 / (records * (lipschitz * multiplier) ** 2)


def wang_step(budget: Budget, *, records: int, steps: int, lipschitz: float) -> float:
    """Return wang2015's bound on the step size as li2019 prints it.

        eps^2 N/(128 L^2 T ln(2.5 T/delta) ln(2/delta))

    Differs: the paper's worked example, 1.54e-6, is this formula without the 2.5.
    """
    logs = math.log(2.5 * steps / budget.delta) * math.log(2 / budget.delta)
    return budget.epsilon**2 * records / (128 * lipschitz**2 * steps * logs)


def printed_constant(budget: Budget, *, steps: int, schedule: StepSchedule) -> float:
    """Return c of Theorem 4 (fixed step) or c_2 of Theorem 3 (decreasing step) in closed form, for delta > 0.

    Conditions (2) of the printed proof with Remark 1's moments: exp(-lambda eps/2) <= delta gives lambda = 2
    ln(1/delta)/eps. Then sum_t q^2 lambda (lambda + 1)/sigma_t^2 <= lambda eps/2 gives c^2 = 2 (S/T') (2 +
    eps/ln(1/delta)). The fixed step has S = T' = T, the decreasing step T' = T^(2/3) and S = sum_t t^(-1/3) < 1.5 T'.
    Differs: the proof of Theorem 4 writes lambda^2 for lambda (lambda + 1), which would give c = 2.
    """
    total = float((np.arange(1, steps + 1) ** (-1 / 3)).sum()) if schedule == "decreasing" else float(steps)
    return math.sqrt(
        2 * total / steps ** POWERS[schedule] * (2 + budget.epsilon / math.log(1 / budget.delta))
    )


class Reach(NamedTuple):
    """The printed proof holds for smallest < epsilon < largest; nan where Lemma 2 holds for no epsilon and c_1 is 0."""

    c_1: float
    smallest: float
    largest: float


def printed_reach(delta: float, *, rate: float, steps: int, schedule: StepSchedule) -> Reach:
    """Return c_1 and the range of epsilon in which Lemma 2 holds as the printed proof uses it, delta in (0, 1).

    c_1 is the largest such eps/(q^2 T^(2/3)) (decreasing step) or eps/(q^2 T) (fixed step). The proof uses lambda = 2
    ln(1/delta)/eps and sigma_1 = c q sqrt(T' ln(1/delta))/eps, with c from `printed_constant`. sigma_1 >= 1 and lambda
    <= sigma_1^2 ln(1/(q sigma_1)) bound eps from above. q < 1/(16 sigma_T) bounds it below, which the theorems omit.
    """
    scale, log = steps ** POWERS[schedule], math.log(1 / delta)
    growth = steps ** (1 / 6) if schedule == "decreasing" else 1.0

    def sigma(epsilon: float) -> float:
        c = printed_constant(Budget(epsilon, delta), steps=steps, schedule=schedule)
        return c * rate * math.sqrt(scale * log) / epsilon

    def root(function: Callable[[float], float], low: float = 1e-12, high: float = 1e12) -> float:
        return math.exp(brentq(lambda x: function(math.exp(x)), math.log(low), math.log(high), xtol=1e-13))

    smallest = root(lambda e: 1 / (16 * rate) - growth * sigma(e))
    unit = root(lambda e: sigma(e) - 1)
    if smallest >= unit:
        return Reach(0.0, math.nan, math.nan)

    def room(epsilon: float) -> float:
        s = sigma(epsilon)
        return s * s * math.log(1 / (rate * s)) - 2 * log / epsilon

    if room(smallest) < 0:
        return Reach(0.0, math.nan, math.nan)
    largest = unit if room(unit) >= 0 else root(room, smallest, unit)
    return Reach(largest / (rate**2 * scale), smallest, largest)


def lemma_2(rate: float, noise_multipliers: Sequence[float], order: float) -> tuple[str, ...]:
    """Return the conditions of Lemma 2, s >= 1, q < 1/(16 s), lambda <= s^2 ln(1/(q s)), that fail for the worst s."""
    least, most = min(noise_multipliers), max(noise_multipliers)
    failed = []
    if not least >= 1:
        failed.append(f"sigma = {least:.4g} < 1")
    if not rate < 1 / (16 * most):
        failed.append(f"q = {rate:.4g} >= 1/(16 sigma) = {1 / (16 * most):.4g}")
    bound = min(s * s * math.log(1 / (rate * s)) for s in (least, most))
    if not order <= bound:
        failed.append(f"lambda = {order:.4g} > sigma^2 ln(1/(q sigma)) = {bound:.4g}")
    return tuple(failed)


class Conditions(NamedTuple):
    """Bounds on eta: conditions 1 and 2 of Theorem 3 as printed, and what follows from 1 <= sigma < 1/(16 q)."""

    printed_low: float
    printed_high: float
    needed_low: float
    needed_high: float


def conditions(*, records: int, batch: int, lipschitz: float) -> Conditions:
    """Return the bounds on eta that Theorem 3 prints, and those that its proof needs.

    The printed bounds are q^2 N/(256 L^2) < eta <= N/L^2. With sigma^2 = q^2 N/(L^2 eta), Lemma 2's sigma >= 1 is eta
    <= q^2 N/L^2 = tau^2/(N L^2), and its q < 1/(16 sigma) is eta > 256 q^4 N/L^2. At the printed limit eta = N/L^2 the
    multiplier is q. The printed proof writes sigma^2 = N/(L^2 eta), without q^2. It has 256 as a divisor, where its
    own sigma gives 256 as a factor.
    """
    rate, scale = batch / records, records / lipschitz**2
    return Conditions(
        printed_low=rate**2 * scale / 256,
        printed_high=scale,
        needed_low=256 * rate**4 * scale,
        needed_high=rate**2 * scale,
    )
