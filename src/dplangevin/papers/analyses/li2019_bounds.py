"""The formulas of Li, Chen, Liu, Carin (2019) that need no training, each compared with an exact computation.

Each row is one case. Its columns are

- value: the computed number;
- bound: the paper's number, or another number that `value` is compared with;
- ratio: value over bound;
- x: the number that varies in the case, as its panel says;
- rate q in (0, 1], steps T, delta, epsilon, schedule, adjacency, term: the settings of the case;
- multiplier: noise of the first step, divided by the bound on the gradient of one record.

The panels are

- lemma, theorems, printed: Section 2.2 and Theorems 3 and 4;
- step: the largest step by the moments accountant;
- conditions: conditions 1 and 2 of Theorem 3;
- limit: steps that go to 0;
- extension: SGHMC and SGNHT;
- average: the bounds of Propositions 5 and 6;
- generalization: Proposition 7;
- composition: Theorem 1;
- mixing: Section 3.1 on small steps;
- range: epsilon at the steps of the range in Section 4.1;
- accountant: the moments accountant at the printed settings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple, get_args

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.linalg import eigh_tridiagonal
from scipy.optimize import brentq, minimize_scalar
from scipy.special import lambertw, ndtr

from dplangevin.privacy.accountants.analytic_gaussian import delta_of, epsilon_of
from dplangevin.privacy.accountants.li2019 import Bound, Li2019, log_moment
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import Adjacency, Budget
from dplangevin.privacy.li2019_theorems import POWERS, conditions, printed_constant, printed_reach, wang_step
from dplangevin.privacy.stepsize import StepSchedule, multiplier_of, step_of, steps_event

Row = dict[str, Any]
EMPTY: Row = {
    "panel": "", "case": "", "term": "", "schedule": "", "adjacency": "", "rate": math.nan, "steps": math.nan,
    "delta": math.nan, "epsilon": math.nan, "multiplier": math.nan, "x": math.nan, "value": math.nan, "bound": math.nan,
    "ratio": math.nan,
}  # fmt: skip
ORDERS = np.geomspace(1.0, 4000.0, 200)  # lambda of the moments accountant
LEVELS = 9  # noise multipliers of a decreasing schedule at which alpha is computed, a spline between them
SIDE = 8.0  # of a quadrature, in standard deviations on each side


class Setting(NamedTuple):
    """An experiment of the paper; `step` is eta_1."""

    records: int
    batch: int
    steps: int
    step: float
    lipschitz: float
    schedule: StepSchedule


class Terms(NamedTuple):
    """The three terms of bound (8) of the paper without its constant.

    The bound is (N/tau - 1) N^2 Gamma_M `noise` + `bias` + `discretisation`.
    """

    noise: float  # sum eta_t^2/(sum eta_t)^2
    bias: float  # 1/sum eta_t
    discretisation: float  # (sum eta_t^2)^2/(sum eta_t)^2


def power_sum(steps: int, power: float) -> float:
    """Return sum_{t=1}^T t^power for power in (-1, 0].

    The sum is taken term by term up to t = 1e5, and by the Euler-Maclaurin formula from there.
    """
    split = min(steps, 100_000)
    total = float((np.arange(1, split + 1) ** power).sum())
    if steps == split:
        return total
    a, b = float(split), float(steps)
    integral = (b ** (power + 1) - a ** (power + 1)) / (power + 1)
    return total + integral + (b**power - a**power) / 2 + power * (b ** (power - 1) - a ** (power - 1)) / 12


def terms(scale: float, power: float, steps: int) -> Terms:
    """Return the terms of bound (8) for the steps eta_t = scale t^power, t = 1..T."""
    first, second = scale * power_sum(steps, power), scale**2 * power_sum(steps, 2 * power)
    return Terms(second / first**2, 1 / first, second**2 / first**2)


def sampled_moment(rate: float, multiplier: float, orders: np.ndarray, adjacency: Adjacency) -> np.ndarray:
    """Compute alpha(lambda) = log E_P (P/Q)^lambda of a Poisson-sampled Gaussian step by the trapezoid rule.

    P = (1 - q) N(0, s^2) + q N(1, s^2). If the record is added or removed, Q = N(0, s^2), which is the larger
    direction. If it is replaced by the opposite record, Q = (1 - q) N(0, s^2) + q N(-1, s^2). With
    t = P/Q - 1 and a = lambda + 1, alpha is log(1 + E_Q [(1 + t)^a - 1 - a t]). This form loses no digits
    where alpha is small.

    Parameters
    ----------
    rate : q in (0, 1).
    multiplier : s > 0.
    orders : the values of lambda, (K,), > 0.
    adjacency : the neighbour relation, which selects Q.

    Returns
    -------
    ndarray : (K,).
    """
    a = np.asarray(orders, dtype=float)[:, None] + 1
    x = np.arange(-SIDE * 1.5 - a.max() / multiplier, SIDE * 1.5 + a.max() / multiplier, 0.05)
    up, down = (sign * x / multiplier - 1 / (2 * multiplier**2) for sign in (1, -1))
    log_keep, log_rate = math.log1p(-rate), math.log(rate)
    log_p = np.logaddexp(log_keep, log_rate + up)
    log_q = np.logaddexp(log_keep, log_rate + down) if adjacency == "replace_one" else np.zeros_like(x)
    log_base = log_q - x**2 / 2 - math.log(math.sqrt(2 * math.pi))
    gap = log_p - log_q
    t = np.expm1(np.minimum(gap, 700.0))
    power = a * gap
    small = power < 30
    near = np.exp(log_base) * (np.expm1(np.where(small, power, 0.0)) - a * t)
    far = np.exp(log_base + power) - np.exp(log_base) - a * np.exp(log_base + np.minimum(gap, 700.0))
    return np.log1p(np.where(small, near, far).sum(axis=1) * 0.05)


def moments_price(rate: float, multiplier: float, steps: int, delta: float, schedule: StepSchedule) -> float:
    """Return the epsilon of the moments accountant for add_remove neighbours.

    It is min over lambda in ORDERS of (sum_t alpha_t(lambda) + ln(1/delta))/lambda.
    """
    if schedule == "fixed":
        total = steps * log_moment(rate, multiplier, ORDERS)
    else:
        levels = np.linspace(0.0, math.log(steps) / 6, LEVELS)
        moments = np.stack([log_moment(rate, multiplier * math.exp(level), ORDERS) for level in levels])
        curve = CubicSpline(levels, np.log(moments))
        edges = np.unique(
            np.floor(np.geomspace(1, steps + 1, 400)).astype(int)
        )  # cells of t; the first holds only t = 1
        counts, middle = np.diff(edges), np.sqrt(edges[:-1] * (edges[1:] - 1.0))
        total = counts @ np.exp(curve(np.log(middle) / 6))
    return float(((total + math.log(1 / delta)) / ORDERS).min())


def transcripts(channels: Sequence[Sequence[float]], rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute the probabilities of all outputs of an adaptive sequence of binary mechanisms, on X and on X'.

    Each round uses one channel. Its index is the number of ones so far, modulo the number of channels.

    Parameters
    ----------
    channels : (probability of a 1 on X, on X') for each channel, each in (0, 1).
    rounds : >= 0.

    Returns
    -------
    tuple of ndarray : the probabilities on X and on X', (2^rounds,) each.
    """
    table = np.asarray(channels, dtype=float)
    p, q, ones = np.ones(1), np.ones(1), np.zeros(1, dtype=int)
    for _ in range(rounds):
        one, other = table[ones % len(table)].T
        p = np.concatenate([p * (1 - one), p * one])
        q = np.concatenate([q * (1 - other), q * other])
        ones = np.concatenate([ones, ones + 1])
    return p, q


def finite_moment(p: np.ndarray, q: np.ndarray, order: float) -> float:
    """Return alpha(lambda) of Definition 3 for one pair of data sets, in the larger direction.

    Parameters
    ----------
    p, q : probabilities of the outputs on the two data sets, (K,), > 0.
    order : lambda > 0.
    """
    loss = np.log(p) - np.log(q)
    directions = (np.logaddexp.reduce(np.log(of) + sign * order * loss) for of, sign in ((p, 1), (q, -1)))
    return float(max(directions))


def tail_bound(moment: Callable[[float], float], epsilon: float) -> float:
    """Return min over lambda > 0 of exp(alpha(lambda) - lambda epsilon).

    The result is at most 1, the limit as lambda goes to 0. The search covers lambda from exp(-6) to exp(6).

    Parameters
    ----------
    moment : alpha, a convex function of lambda.
    epsilon : the value at which the bound is taken.
    """

    def exponent(log_order: float) -> float:
        return moment(math.exp(log_order)) - math.exp(log_order) * epsilon

    found = minimize_scalar(exponent, bounds=(-6.0, 6.0), method="bounded", options={"xatol": 1e-9})
    return math.exp(min(float(found.fun), 0.0))


def sampled_delta(rate: float, multiplier: float, epsilon: float) -> float:
    """Return the exact delta(epsilon) of a Poisson-sampled Gaussian step with or without the record.

    The step has the law (1 - q) N(0, s^2) + q N(1, s^2) with the record and N(0, s^2) without it.
    """
    edge = multiplier**2 * math.log1p(math.expm1(epsilon) / rate) + 0.5  # where the loss is epsilon
    moved, rest = ndtr((1 - edge) / multiplier), ndtr(-edge / multiplier)
    return float(rate * moved - (math.expm1(epsilon) + rate) * rest)


def relaxation_time(step: float, barrier: float) -> float:
    """Return the number of steps in which the slowest mode of SGLD on two modes falls by a factor e.

    This is -1/ln of the eigenvalue of the slowest mode. The chain is Algorithm 1 with full gradients on
    U(x) = B (x^2 - 1)^2, in units where U''/N at the modes is 1: x' = x - (eta/2) x
    (x^2 - 1) + N(0, eta/(8 B)). The slowest eigenfunction is odd. So its eigenvalue is the largest of the
    transition kernel on x > 0, which the midpoint rule turns into a matrix.

    Parameters
    ----------
    step : eta in (0, 1].
    barrier : B > 0.
    """
    noise = math.sqrt(step / (8 * barrier))
    x = np.arange(noise / 4, math.sqrt(1 + math.sqrt(30 / barrier)), noise / 2)
    mean = x - step / 2 * x * (x**2 - 1)
    to, across = (np.exp(-(((sign * x[None, :] - mean[:, None]) / noise) ** 2) / 2) for sign in (1, -1))
    matrix = (to - across) / (2 * math.sqrt(2 * math.pi))
    return -1 / math.log(np.linalg.eigvals(matrix).real.max())


def diffusion_time(barrier: float) -> float:
    """Return the limit of eta times `relaxation_time` as eta goes to 0.

    It is 1 over the least eigenvalue, among odd functions, of minus the generator f -> f''/(16 B) - x
    (x^2 - 1) f'/2. The generator is discretised as a reversible walk on a grid.
    """
    spacing = 1e-3
    x = np.arange(spacing / 2, math.sqrt(1 + math.sqrt(30 / barrier)), spacing)
    potential = 2 * barrier * (x**2 - 1) ** 2
    between = 2 * barrier * (((x[:-1] + x[1:]) / 2) ** 2 - 1) ** 2
    up, down = np.exp(potential[:-1] - between), np.exp(potential[1:] - between)
    leave = np.append(up, 0.0) + np.insert(down, 0, 0.0)
    leave[0] += 2 * math.exp(potential[0] - 2 * barrier)  # an odd function changes its sign across 0
    least = eigh_tridiagonal(leave, -np.sqrt(up * down), eigvals_only=True, select="i", select_range=(0, 0))
    return 16 * barrier * spacing**2 / float(least[0])


def two_steps(thermostat: bool, friction: float, noise: float, shift: float, epsilon: float) -> float:
    """Compute delta(epsilon) of two steps of SGHMC or SGNHT if all iterates are seen.

    The gradient steps on the two data sets differ by `shift`. The chain is v_1 = (1 - a)
    v_0 - g_1 + N(0, s^2), v_2 = (1 - xi_1) v_1 - g_2 + N(0, s^2), theta_{t+1} = theta_t + v_t. Without the
    thermostat xi_1 = a; with it, xi_1 = a + v_1^2 - s^2/(2 a) (Ding et al. 2014, eta = s^2/(2 a)). The
    gradient step is g_t = .3 theta_t, plus `shift` on the other data set. The result is the integral of
    max(p - exp(epsilon) p', 0) over (v_1, v_2).

    Parameters
    ----------
    thermostat : True for SGNHT.
    friction : a.
    noise : s.
    shift : difference of the gradient steps.
    epsilon : the value at which delta is computed.
    """
    theta, velocity = 0.2, 0.5 * noise
    mean = (1 - friction) * velocity - 0.3 * theta
    u = np.linspace(-SIDE, SIDE + 2 * shift / noise, 1601)  # noise of a step, in standard deviations
    first = mean + noise * u[:, None]
    rest = friction + first**2 - noise**2 / (2 * friction) if thermostat else friction
    carried = (1 - rest) * first - 0.3 * (theta + velocity)
    second = carried + noise * u[None, :]

    def density(moved: float) -> np.ndarray:
        squares = ((first - mean + moved) / noise) ** 2 + ((second - carried + moved) / noise) ** 2
        return np.exp(-squares / 2) / (2 * math.pi)

    gap = np.maximum(density(0.0) - math.exp(epsilon) * density(shift), 0.0)
    return float(gap.sum()) * (u[1] - u[0]) ** 2


@dataclass(frozen=True)
class Formulas:
    """All panels of the module, one task for each panel.

    Where a panel has only one delta, it is the first of `deltas`. Where the panel "step" varies one of
    epsilon, T, delta and L, the others keep their first values.

    Attributes
    ----------
    rates : q in (0, 1] of the panel "lemma" and of the case "rates" of the panel "conditions".
    multipliers : number of values of s between the ends of Lemma 2, for each q.
    theorem_rates, theorem_steps, deltas : q, T and delta of the cases of Theorem 4.
    decreasing_rates, decreasing_steps : q and T of the cases of Theorem 3, at the first of `deltas`.
    c_1, c_squared : constants that the panel "printed" tries.
    records, rate, epsilons, step_counts, step_deltas, lipschitz : N, q, epsilon, T, delta and L of the panel
        "step".
    settings : the paper's experiments, by name.
    shrinking : steps of the panel "limit", in the first of `settings`.
    frictions : a of the panel "extension".
    sizes : T of the panel "average".
    powers : alpha of eta_t = t^-alpha in the panel "average".
    budgets : the epsilons of Figure 1.
    larger_budgets : larger epsilons than in Figure 1, for the panel "average".
    horizons : log10 T of the panel "generalization".
    gaps : omega of the panel "generalization".
    channels, rounds, orders : of the panel "composition": see `transcripts`; `orders` holds lambda.
    printed_step : wang2015's step as li2019 prints it in the worked example.
    default_step, example_epsilon : the default step and the budget of the worked example.
    barrier, mixing_steps : B and eta of `relaxation_time` in the panel "mixing".
    ends : smallest and largest step of the range in Section 4.1.
    figure_records, figure_lipschitz : N and L of Figure 2; where one varies, the other keeps its first value.
    max_orders : numbers of orders of the moments accountant.
    mnist_records : N of MNIST.
    mnist_epsilon : the epsilon that the paper prints for MNIST.
    """

    rates: Sequence[float]
    multipliers: int
    theorem_rates: Sequence[float]
    theorem_steps: Sequence[int]
    deltas: Sequence[float]
    decreasing_rates: Sequence[float]
    decreasing_steps: Sequence[int]
    c_1: Sequence[float]
    c_squared: Sequence[float]
    records: int
    rate: float
    epsilons: Sequence[float]
    step_counts: Sequence[int]
    step_deltas: Sequence[float]
    lipschitz: Sequence[float]
    settings: Mapping[str, Mapping[str, Any]]
    shrinking: Sequence[float]
    frictions: Sequence[float]
    sizes: Sequence[int]
    powers: Sequence[float]
    budgets: Sequence[float]
    larger_budgets: Sequence[float]
    horizons: Sequence[float]
    gaps: Sequence[float]
    channels: Sequence[Sequence[float]]
    rounds: Sequence[int]
    orders: Sequence[float]
    printed_step: float
    default_step: float
    example_epsilon: float
    barrier: float
    mixing_steps: Sequence[float]
    ends: Sequence[float]
    figure_records: Sequence[int]
    figure_lipschitz: Sequence[float]
    max_orders: Sequence[int]
    mnist_records: Sequence[int]
    mnist_epsilon: float

    def units(self) -> list[str]:
        return [
            "lemma", "theorems", "printed", "step", "conditions", "limit", "extension", "average", "generalization",
            "composition", "mixing", "range", "accountant",
        ]  # fmt: skip

    def rows(self, unit: str, seed: int) -> list[Row]:
        """Return the rows of one panel; nothing is random."""
        found: list[Row] = getattr(self, f"_{unit}")()
        for row in found:
            row["ratio"] = row.get("ratio", row["value"] / row.get("bound", math.nan))
        return [{**EMPTY, "panel": unit, **row} for row in found]

    def _lemma(self) -> list[Row]:
        """Return alpha(lambda) against the bounds of Lemma 2 (without its O(q^3)) and of Remark 1.

        The cases cover 1 <= s < 1/(16 q). Each row is for the lambda in [1, s^2 ln(1/(q s))] at which value
        over bound is largest. x: this lambda.
        """
        rows = []
        for rate in self.rates:
            for s in np.geomspace(1.0, min(0.999 / (16 * rate), 20.0), self.multipliers):
                orders = np.geomspace(1.0, s * s * math.log(1 / (rate * s)), 20)
                simple = rate**2 * orders * (orders + 1) / s**2
                for adjacency in get_args(Adjacency):
                    moments = sampled_moment(rate, s, orders, adjacency)
                    worst = int((moments / simple).argmax())
                    base = {
                        "adjacency": adjacency,
                        "rate": rate,
                        "multiplier": float(s),
                        "value": moments[worst],
                    }
                    for case, bound in (("Lemma 2", simple / (1 - rate)), ("Remark 1", simple)):
                        rows.append({**base, "case": case, "x": orders[worst], "bound": bound[worst]})
        return rows

    def _theorems(self) -> list[Row]:
        """Return the proven epsilon of steps at the limit of Theorem 3 (its condition 3) or of Theorem 4.

        The constant is that of the printed proof. Each epsilon lies in the range where the proof may use
        Lemma 2 (`printed_reach`). If a record is replaced, a sum moves by 2 L, twice what the proof has. So
        for replace_one, twice the constant is tried as well (term). value: proven epsilon, all iterates. x:
        the constant squared.
        """
        cases: list[tuple[StepSchedule, float, int, float]] = [
            ("fixed", q, t, d) for q in self.theorem_rates for t in self.theorem_steps for d in self.deltas
        ]
        cases += [
            ("decreasing", q, t, self.deltas[0]) for q in self.decreasing_rates for t in self.decreasing_steps
        ]
        tried: list[tuple[str, float, Adjacency]] = [
            ("c", 1.0, "add_remove"), ("c", 1.0, "replace_one"), ("2 c", 2.0, "replace_one"),
        ]  # fmt: skip
        rows = []
        for schedule, rate, steps, delta in cases:
            reach = printed_reach(delta, rate=rate, steps=steps, schedule=schedule)
            if not reach.c_1:
                continue
            for share in (0.05, 0.95):
                epsilon = reach.smallest ** (1 - share) * reach.largest**share
                proof = printed_constant(Budget(epsilon, delta), steps=steps, schedule=schedule)
                base = {
                    "schedule": schedule,
                    "rate": rate,
                    "steps": steps,
                    "delta": delta,
                    "epsilon": epsilon,
                }
                for term, times, adjacency in tried:
                    c = times * proof
                    s = c * rate * math.sqrt(steps ** POWERS[schedule] * math.log(1 / delta)) / epsilon
                    event = steps_event(s, rate=rate, steps=steps, schedule=schedule)
                    row = {**base, "term": term, "adjacency": adjacency, "multiplier": s, "x": c**2}
                    rows.append({**row, "value": Tight().epsilon(event, delta, adjacency), "bound": epsilon})
        return rows

    def _printed(self) -> list[Row]:
        """Return cases in which Theorems 3 and 4 fail with conditions 1 and 2 as printed.

        The printed conditions admit such cases for all values of the constants. The cases have q = 1 and
        sigma_1 = 1, which is eta_1 = N/L^2, condition 1. Condition 3 is then eps > c T^(p/2)
        sqrt(ln(1/delta)), with p = 1 in Theorem 4, and p = 2/3 and c_2 in Theorem 3. The theorems also
        require eps < c_1 T^p. For Theorem 4, T is large enough for both. For Theorem 3, condition 2 at the
        last step is T^(1/3) < 256. At T = 255^3 the other conditions hold once ln(1/delta) < (255 c_1/c_2)^2.
        The exact epsilon is that of the Gaussian mechanism with mu^2 = sum_t 1/sigma_t^2. It is about mu^2/2,
        so of order T^p, while eps is of order T^(p/2). x: c_1. term: c^2 or c_2^2. value: exact epsilon.
        bound: eps.

        Case "void": a constant c that depends on eps, T and delta may have the square 256 c_1
        eps/ln(1/delta), and c_2 may have this over T^(1/3). Then at the last step the limit of condition 2
        (value) is above that of condition 3 (bound), for every q with eps < c_1 q^2 T^p. So no step meets
        both.
        """
        rows = []
        log = math.log(1 / self.deltas[0])
        for c_1 in self.c_1:
            for square in self.c_squared:
                c = math.sqrt(square)
                steps = math.ceil(max(1.1 * square * log / c_1**2, 16 * square * log))
                rows += self._leaks(
                    "fixed", steps, 1.001 * c * math.sqrt(steps * log), self.deltas[0], c_1, square
                )
                root = min(math.sqrt(log), 0.99 * 255 * c_1 / c)  # sqrt(ln(1/delta))
                epsilon, delta = 1.001 * c * 255 * root, math.exp(-(root**2))
                rows += self._leaks("decreasing", 255**3, epsilon, delta, c_1, square)
            rows += self._void(c_1)
        return rows

    def _void(self, c_1: float) -> list[Row]:
        """Return the rows of the case "void" of `_printed`."""
        rows = []
        ends = min(self.budgets), max(self.budgets)
        for schedule, steps, delta, epsilon in product(
            get_args(StepSchedule), self.theorem_steps, self.deltas, ends
        ):
            scale, log = steps ** POWERS[schedule], math.log(1 / delta)
            last = steps ** (-1 / 3) if schedule == "decreasing" else 1.0
            constant = 256 * c_1 * epsilon * last / log
            least = epsilon / (c_1 * scale)  # q^2 must exceed it
            base: Row = {"case": "void", "schedule": schedule, "steps": steps, "delta": delta, "x": c_1}
            base |= {"epsilon": epsilon, "term": "dependent"}
            base["bound"] = epsilon**2 * self.records * last / (constant * scale * log)  # L = 1
            for share in (0.99, 0.5, 0.0) if least < 1 else ():
                square = least**share
                rows.append({**base, "rate": math.sqrt(square), "value": square * self.records / 256})
        return rows

    @staticmethod
    def _leaks(
        schedule: StepSchedule, steps: int, epsilon: float, delta: float, c_1: float, square: float
    ) -> list[Row]:
        """Return the exact epsilons of one case of `_printed`, for both neighbour relations."""
        total = power_sum(steps, -1 / 3) if schedule == "decreasing" else float(steps)
        base: Row = {"schedule": schedule, "rate": 1.0, "steps": steps, "delta": delta, "epsilon": epsilon}
        base |= {"multiplier": 1.0, "x": c_1, "term": f"{square:g}", "bound": epsilon}
        return [
            {**base, "adjacency": name, "value": epsilon_of(size * math.sqrt(total), delta)}
            for name, size in (("add_remove", 1.0), ("replace_one", 2.0))
        ]

    def _largest(
        self, schedule: StepSchedule, epsilon: float, steps: int, delta: float, lipschitz: float
    ) -> float:
        """Return the largest (first) step whose T steps cost at most epsilon by the moments accountant."""
        batch = self.rate * self.records

        def excess(log_step: float) -> float:
            s = multiplier_of(math.exp(log_step), records=self.records, batch=batch, lipschitz=lipschitz)
            return moments_price(self.rate, s, steps, delta, schedule) - epsilon

        low, high = (
            math.log(step_of(s, records=self.records, batch=batch, lipschitz=lipschitz)) for s in (1e4, 0.3)
        )
        return math.exp(brentq(excess, low, high, xtol=1e-6))

    def _step(self) -> list[Row]:
        """Return the largest step against epsilon, T, ln(1/delta) and L, and compare it with wang2015's.

        Cases "epsilon", "steps", "log delta", "lipschitz": one of the four varies; x: its value. bound: the
        step of Theorem 3 or 4 with the constant of its proof.

        Case "lipschitz, proof": steps with equal multipliers tau/(L sqrt(eta N)) have equal epsilons under
        every accountant. So the largest step at each L has the multiplier of the largest step at the first L.

        Case "wang2015": that bound; x: T ln(2.5 T/delta).

        Case "factor": the first step of the decreasing schedule over wang2015's step; x: T^(1/3) ln(T/delta),
        the factor in the paper. term: whether the proof or the accountant gives the constant c_2.
        """
        base = (self.epsilons[0], self.step_counts[0], self.step_deltas[0], self.lipschitz[0])
        varied: dict[str, list[tuple[float, int, float, float]]] = {
            "epsilon": [(e, *base[1:]) for e in self.epsilons],
            "steps": [(base[0], t, *base[2:]) for t in self.step_counts],
            "log delta": [(*base[:2], d, base[3]) for d in self.step_deltas],
            "lipschitz": [(*base[:3], size) for size in self.lipschitz],
        }
        rows, found = [], {}
        for schedule in get_args(StepSchedule):
            for case, points in varied.items():
                for epsilon, steps, delta, lipschitz in points:
                    key = (schedule, epsilon, steps, delta, lipschitz)
                    if key not in found:
                        found[key] = self._largest(*key)
                    x = {
                        "epsilon": epsilon,
                        "steps": steps,
                        "log delta": math.log(1 / delta),
                        "lipschitz": lipschitz,
                    }
                    row = {
                        "case": case,
                        "schedule": schedule,
                        "rate": self.rate,
                        "steps": steps,
                        "delta": delta,
                    }
                    row |= {"epsilon": epsilon, "x": x[case], "value": found[key], "term": "first step"}
                    row["bound"] = self._theorem(schedule, epsilon, steps, delta, lipschitz)
                    row["multiplier"] = multiplier_of(
                        found[key], records=self.records, batch=self.rate * self.records, lipschitz=lipschitz
                    )
                    rows.append(row)
            batch = self.rate * self.records
            s = multiplier_of(
                found[schedule, *base], records=self.records, batch=batch, lipschitz=self.lipschitz[0]
            )
            for lipschitz in self.lipschitz:
                value = step_of(s, records=self.records, batch=batch, lipschitz=lipschitz)
                row = {"case": "lipschitz, proof", "schedule": schedule, "rate": self.rate, "steps": base[1]}
                row |= {"delta": base[2], "epsilon": base[0], "multiplier": s, "term": "first step"}
                rows.append({**row, "x": lipschitz, "value": value})
        epsilon, _, delta, lipschitz = base
        for steps in self.step_counts:
            wang = wang_step(Budget(epsilon, delta), records=self.records, steps=steps, lipschitz=lipschitz)
            row = {"steps": steps, "delta": delta, "epsilon": epsilon}
            rows.append(
                {**row, "case": "wang2015", "x": steps * math.log(2.5 * steps / delta), "value": wang}
            )
            factor = steps ** (1 / 3) * math.log(steps / delta)
            ours = {
                "proof": self._theorem("decreasing", epsilon, steps, delta, lipschitz),
                "accountant": found["decreasing", epsilon, steps, delta, lipschitz],
            }
            for term, step in ours.items():
                rows.append(
                    {
                        **row,
                        "case": "factor",
                        "term": term,
                        "x": factor,
                        "value": step / wang,
                        "bound": factor,
                    }
                )
        return rows

    def _theorem(
        self, schedule: StepSchedule, epsilon: float, steps: int, delta: float, lipschitz: float
    ) -> float:
        """Return the (first) step of Theorem 3 or 4 with the constant of its printed proof."""
        c = printed_constant(Budget(epsilon, delta), steps=steps, schedule=schedule)
        scale = lipschitz**2 * steps ** POWERS[schedule] * math.log(1 / delta)
        return epsilon**2 * self.records / (c**2 * scale)

    def _conditions(self) -> list[Row]:
        """Return conditions 1 and 2 of Theorem 3, as printed and as Lemma 2 requires them (term).

        Cases named by a setting: value is the step nearest to the limit, which is the first step for
        condition 1 and the last for condition 2.

        Case "rates", against q (x): for condition 1, value is the printed limit and bound is the required
        one. For condition 2 it is the reverse.
        """
        rows = []
        for case, one in self.settings.items():
            setting = Setting(**one)
            told = conditions(records=setting.records, batch=setting.batch, lipschitz=setting.lipschitz)
            last = setting.step * (setting.steps ** (-1 / 3) if setting.schedule == "decreasing" else 1.0)
            base = {"case": case, "schedule": setting.schedule, "steps": setting.steps, "x": setting.step}
            base["rate"] = setting.batch / setting.records
            for term, step, bound in (
                ("condition 1, printed", setting.step, told.printed_high),
                ("condition 1, needed", setting.step, told.needed_high),
                ("condition 2, printed", last, told.printed_low),
                ("condition 2, needed", last, told.needed_low),
            ):
                rows.append({**base, "term": term, "value": step, "bound": bound})
        for rate in self.rates:
            batch = 1000
            told = conditions(records=round(batch / rate), batch=batch, lipschitz=1.0)
            row = {"case": "rates", "term": "condition 2", "rate": rate, "x": rate}
            rows.append({**row, "value": told.needed_low, "bound": told.printed_low})
            row |= {"term": "condition 1", "value": told.printed_high, "bound": told.needed_high}
            rows.append(row)
        return rows

    def _limit(self) -> list[Row]:
        """Return the proven epsilon of the first setting with smaller and smaller fixed steps (x)."""
        setting = Setting(**next(iter(self.settings.values())))
        rows = []
        for step in self.shrinking:
            s = multiplier_of(step, records=setting.records, batch=setting.batch, lipschitz=setting.lipschitz)
            rate, delta = setting.batch / setting.records, self.deltas[0]
            event = steps_event(s, rate=rate, steps=setting.steps, schedule="fixed")
            price = Tight().epsilon(event, delta, "replace_one")
            row = {"schedule": "fixed", "adjacency": "replace_one", "rate": rate, "steps": setting.steps}
            rows.append({**row, "delta": delta, "multiplier": s, "x": step, "value": price})
        return rows

    def _extension(self) -> list[Row]:
        """Return delta(epsilon) of two visible steps of SGHMC and SGNHT against that of Algorithm 1.

        value: for SGHMC or SGNHT, with noise N(0, 2 a eta/N) and a gradient step that differs by eta L/N.
        bound: for two steps of Algorithm 1 with 2 a times the noise variance of its step. x: a.
        """
        records, lipschitz, step = 1000, 10.0, 0.5
        rows = []
        for case in ("SGHMC", "SGNHT"):
            for a in self.frictions:
                noise, shift = math.sqrt(2 * a * step / records), step * lipschitz / records
                s = noise / shift
                for epsilon in (0.1, 0.5, 1.0):
                    value = two_steps(case == "SGNHT", a, noise, shift, epsilon)
                    row = {"case": case, "steps": 2, "rate": 1.0, "epsilon": epsilon, "multiplier": s, "x": a}
                    rows.append({**row, "value": value, "bound": float(delta_of(math.sqrt(2) / s, epsilon))})
        return rows

    def _average(self) -> list[Row]:
        """Return the bounds of Propositions 5 and 6, from the sums in their proofs (`Terms`).

        - "equal privacy": decreasing (value) over fixed steps (bound) that spend the same privacy, sum_t
          1/sigma_t^2, so both have the same sum of steps;
        - "same constant": decreasing (value) over fixed steps (bound) with c = c_2;
        - "in print": the bias terms of the two propositions, 1/(3 eta~) (value) and 1/(eta~ N) (bound);
        - "Proposition 5": bound (8) at eta_t = eta~ N t^(-1/3) T^(-2/3) over the printed bound, term by term,
          with each ratio divided by N^0, N^-1 and N^2;
        - "powers": -(exponent in T) of the slowest term of (8) for eta_t = t^-alpha (x), without the noise
          term; bound: 2/3;
        - "best step", "best error": the minimum of the bound of Proposition 6 without the noise term; x: T;
        - "best budget": the eta~ that minimises the printed bound of Proposition 5;
        - "below wang2015": 1/(T eta) + eta^2 of Proposition 6 at the step of Theorem 4, over the same at
          wang2015's step, with T the first of `step_counts`; term: whether epsilon (x) is in Figure 1.
        """
        rows: list[Row] = []
        for steps in self.sizes:
            constant, falling = terms(1 / steps, 0.0, steps), terms(steps ** (-2 / 3), -1 / 3, steps)
            equal = terms(1 / power_sum(steps, -1 / 3), -1 / 3, steps)
            printed = Terms(2 / 3 / steps, 1 / 3, 2 * steps ** (-2 / 3))  # at eta~ = 1
            for term in Terms._fields:
                base = {"term": term, "steps": steps, "x": steps}
                for case, first, second in (
                    ("equal privacy", equal, constant),
                    ("same constant", falling, constant),
                    ("Proposition 5", falling, printed),
                ):
                    value, bound = getattr(first, term), getattr(second, term)
                    rows.append({**base, "case": case, "value": value, "bound": bound})
            base = {"steps": steps, "x": steps}
            rows.append(
                {**base, "case": "in print", "term": "bias", "value": 1 / 3, "bound": 1 / self.records}
            )

            def sixth(log_step: float, steps: int = steps) -> float:
                return math.exp(-log_step) / steps + math.exp(2 * log_step)

            def fifth(log_budget: float, steps: int = steps) -> float:
                return math.exp(-log_budget) / 3 + 2 * math.exp(2 * log_budget) * steps ** (-2 / 3)

            best = minimize_scalar(sixth, bracket=(-8.0, 0.0), tol=1e-12)
            rows.append({**base, "case": "best step", "value": math.exp(best.x)})
            rows.append({**base, "case": "best error", "value": float(best.fun)})
            budget = minimize_scalar(fifth, bracket=(-4.0, 4.0), tol=1e-12)
            rows.append({**base, "case": "best budget", "value": math.exp(budget.x)})
        steps, delta = self.step_counts[0], self.deltas[0]
        for epsilon in (*self.budgets, *self.larger_budgets):
            wang = wang_step(Budget(epsilon, delta), records=self.records, steps=steps, lipschitz=1.0)
            ours = self._theorem("fixed", epsilon, steps, delta, 1.0)
            value, bound = (1 / (steps * eta) + eta**2 for eta in (ours, wang))
            row: Row = {"case": "below wang2015", "term": "Figure 1" if epsilon in self.budgets else "larger"}
            row |= {"steps": steps, "delta": delta, "epsilon": epsilon, "x": epsilon}
            rows.append({**row, "value": value, "bound": bound})
        short, long = 10**9, 10**12
        for alpha in self.powers:
            pair = [terms(1.0, -alpha, steps) for steps in (short, long)]
            exponents = {
                term: math.log(getattr(pair[0], term) / getattr(pair[1], term)) / math.log(long / short)
                for term in ("bias", "discretisation")
            }
            slowest = min(exponents, key=lambda term: exponents[term])
            rows.append(
                {"case": "powers", "term": slowest, "x": alpha, "value": exponents[slowest], "bound": 2 / 3}
            )
        return rows

    def _generalization(self) -> list[Row]:
        """Return the terms of Proposition 7 at A = 1 and N = infinity.

        Case "Lambert": T = ln(1/omega)^5/omega^4 defines omega; x: ln T. Then ln(1/omega) = T^(1/5)
        omega^(4/5) exactly. value: this number, (5/4) W((4/5) T^(1/5)). bound: W^(1/5)(4 T/5), as printed.

        Case "gap": ln(1/omega) + omega, the first form of the printed bound, at omega (x).
        """
        rows = []
        for exponent in self.horizons:
            steps = 10.0**exponent
            value = 1.25 * float(lambertw(0.8 * steps**0.2).real)
            row = {"case": "Lambert", "x": math.log(steps), "value": value}
            rows.append({**row, "bound": float(lambertw(0.8 * steps).real) ** 0.2})
        rows += [{"case": "gap", "x": omega, "value": math.log(1 / omega) + omega} for omega in self.gaps]
        return rows

    def _composition(self) -> list[Row]:
        """Return the cases of Theorem 1, and of Section 2.1 on the tail of the privacy loss c.

        - "composability": exact alpha of an adaptive sequence of binary mechanisms, against the sum over
          rounds of the largest alpha that each round can have; x: lambda;
        - "tail": exact delta(epsilon) against min over lambda of exp(alpha - lambda epsilon); x: epsilon;
        - "tail", term "every mechanism": delta(epsilon) = E max(1 - exp(epsilon - c), 0) is at most
          exp(alpha - lambda epsilon) times the largest value of (1 - exp(-u)) exp(-lambda u), u > 0, which is
          lambda^lambda/(1 + lambda)^(1 + lambda); x: lambda;
        - "equivalence": the probability that c of a Gaussian step is above epsilon, against its
          delta(epsilon); x: epsilon.
        """
        rows: list[Row] = []
        for term, channels in (("adaptive", self.channels), ("one channel", self.channels[:1])):
            rounds_alone = [transcripts([channel], 1) for channel in channels]
            for rounds in self.rounds:
                pair = transcripts(channels, rounds)
                for order in self.orders:
                    alphas = [finite_moment(*one, order) for one in rounds_alone]
                    bound = sum(max(alphas[: i + 1]) for i in range(rounds))
                    row = {"case": "composability", "term": term, "steps": rounds, "x": order}
                    rows.append({**row, "value": finite_moment(*pair, order), "bound": bound})
        for epsilon in self.budgets:
            rows += self._tails(epsilon)
        for order in self.orders:
            value = math.exp(order * math.log(order) - (1 + order) * math.log1p(order))
            rows.append({"case": "tail", "term": "every mechanism", "x": order, "value": value, "bound": 1.0})
        return rows

    def _tails(self, epsilon: float) -> list[Row]:
        """Return the rows of the cases "tail" and "equivalence" at one epsilon."""
        row: Row = {"case": "tail", "epsilon": epsilon, "x": epsilon}
        p, q = transcripts(self.channels, self.rounds[-1])
        gap = p - math.exp(epsilon) * q, q - math.exp(epsilon) * p
        value = max(float(np.maximum(one, 0).sum()) for one in gap)
        bound = tail_bound(lambda order: finite_moment(p, q, order), epsilon)
        rows = [{**row, "term": "adaptive", "steps": self.rounds[-1], "value": value, "bound": bound}]
        row["steps"] = 1
        for s in (1.0, 4.0):
            row["multiplier"] = s
            value = float(delta_of(1 / s, epsilon))
            above = float(ndtr(0.5 / s - epsilon * s))  # c is N(1/(2 s^2), 1/s^2)
            rows.append({**row, "case": "equivalence", "term": "Gaussian", "value": above, "bound": value})
            bound = tail_bound(partial(_gaussian_moment, s), epsilon)
            rows.append({**row, "term": "Gaussian", "value": value, "bound": bound})
            for rate in self.theorem_rates:
                value = sampled_delta(rate, s, epsilon)
                bound = tail_bound(partial(_step_moment, rate, s), epsilon)
                rows.append({**row, "term": "sampled Gaussian", "rate": rate, "value": value, "bound": bound})
        return rows

    def _mixing(self) -> list[Row]:
        """Return how slowly Algorithm 1 with full gradients mixes at the steps of the worked example.

        x: the step eta. The steps are wang2015's, that of Theorem 4 (its rows have an epsilon) and the
        default. On a Gaussian posterior with U''/N = h (term) the samples form an autoregression. h is 1, or
        the largest value at which the default step is stable.

        - "correlation": eta h, which is 1 minus the correlation of successive samples;
        - "sample": (2 - eta h)/(eta h), the number of steps that count as one independent sample, against T;
        - "two modes": `relaxation_time`, against that of a Gaussian with the curvature of the modes; at
          wang2015's step it is `diffusion_time`/eta;
        - "sample", term "two modes": the same time against T.
        """
        setting = Setting(**next(iter(self.settings.values())))
        budget = self.example_epsilon
        theorem = self._theorem("fixed", budget, setting.steps, self.deltas[0], setting.lipschitz)
        base: Row = {"steps": setting.steps, "bound": float(setting.steps)}
        rows: list[Row] = []
        for step, more in ((self.printed_step, {}), (theorem, {"epsilon": budget}), (self.default_step, {})):
            for curvature in (1.0, 2 / self.default_step):
                rate = step * curvature
                row = {**base, **more, "term": f"curvature {curvature:g}", "x": step}
                rows.append({**row, "case": "correlation", "value": rate, "bound": math.nan})
                rows.append({**row, "case": "sample", "value": (2 - rate) / rate})
        times = {step: relaxation_time(step, self.barrier) for step in (theorem, *self.mixing_steps)}
        times[self.printed_step] = diffusion_time(self.barrier) / self.printed_step
        for step, time in times.items():
            row = {**base, "x": step, "value": time} | ({"epsilon": budget} if step == theorem else {})
            rows.append({**row, "case": "two modes", "bound": -1 / math.log1p(-step)})
            rows.append({**row, "case": "sample", "term": "two modes"})
        return rows

    def _range(self) -> list[Row]:
        """Return the proven epsilon at the smallest and the largest step of the range in Section 4.1.

        All iterates are visible. The method is Algorithm 1 in the settings of Figure 2, T = N and
        delta = 1/N, with the minibatch of MNIST. The step is the first step. x: L. term: which end of the
        range.
        """
        batch = Setting(**self.settings["mnist"]).batch
        pairs = [(records, self.figure_lipschitz[0]) for records in self.figure_records]
        pairs += [(self.figure_records[0], lipschitz) for lipschitz in self.figure_lipschitz[1:]]
        rows: list[Row] = []
        for records, lipschitz in pairs:
            rate, delta = batch / records, 1 / records
            for term, step in zip(("smallest", "largest"), self.ends, strict=True):
                s = multiplier_of(step, records=records, batch=batch, lipschitz=lipschitz)
                for schedule in get_args(StepSchedule):
                    event = steps_event(s, rate=rate, steps=records, schedule=schedule)
                    base: Row = {"term": term, "schedule": schedule, "rate": rate, "steps": records}
                    base |= {"delta": delta, "multiplier": s, "x": lipschitz}
                    for adjacency in get_args(Adjacency):
                        price = Tight().epsilon(event, delta, adjacency)
                        rows.append({**base, "adjacency": adjacency, "value": price})
        return rows

    def _accountant(self) -> list[Row]:
        """Return the moments accountant at the printed settings for MNIST, against the printed epsilon.

        Case "mnist": x is N, with the same number of epochs at each N. term: the number of orders, or Remark
        1. For replace_one neighbours the sensitivity is twice as large.

        Case "least": ln(1/delta)/orders, the smallest epsilon that the accountant can report, against the
        smallest epsilon of Figure 1.
        """
        delta, setting = self.deltas[0], Setting(**self.settings["mnist"])
        kinds: list[tuple[str, int, Bound]] = [(f"{k} orders", k, "numerical") for k in self.max_orders]
        kinds.append(("Remark 1", max(self.max_orders), "printed"))
        rows: list[Row] = []
        for records in self.mnist_records:
            rate, steps = setting.batch / records, setting.steps * records // setting.records
            s = multiplier_of(setting.step, records=records, batch=setting.batch, lipschitz=setting.lipschitz)
            base: Row = {"case": "mnist", "schedule": "fixed", "rate": rate, "steps": steps, "delta": delta}
            base |= {"x": records, "bound": self.mnist_epsilon}
            for adjacency, size in (("add_remove", 1.0), ("replace_one", 2.0)):
                event = steps_event(s / size, rate=rate, steps=steps, schedule="fixed")
                for term, orders, bound in kinds:
                    value = Li2019(orders, bound).epsilon(event, delta, "add_remove")
                    row = {**base, "adjacency": adjacency, "multiplier": s / size, "term": term}
                    rows.append({**row, "value": value})
        for orders in self.max_orders:
            row = {"case": "least", "term": f"{orders} orders", "delta": delta, "x": orders}
            rows.append({**row, "value": Li2019(orders).least(delta), "bound": min(self.budgets)})
        return rows


def _gaussian_moment(multiplier: float, order: float) -> float:
    """Return alpha(lambda) of the Gaussian mechanism with sensitivity 1."""
    return order * (order + 1) / (2 * multiplier**2)


def _step_moment(rate: float, multiplier: float, order: float) -> float:
    """Return alpha(lambda) of one Poisson-sampled Gaussian step."""
    return float(log_moment(rate, multiplier, [order])[0])
