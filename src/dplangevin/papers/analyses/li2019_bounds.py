"""The formulas of Li, Chen, Liu, Carin (2019) that need no training, each compared with an exact computation.

Column x varies within a case. Column multiplier is the noise of the first step over the bound on one record's gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple, get_args

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import lambertw, ndtr

from dplangevin.papers.analyses.cases import Row, table
from dplangevin.papers.analyses.finite import finite_moment, transcripts
from dplangevin.papers.analyses.mixing import diffusion_time, relaxation_time
from dplangevin.papers.analyses.moments import moments_price, sampled_delta, sampled_moment, tail_bound
from dplangevin.papers.analyses.stepsize import Setting, theorem_step, wang2015_step
from dplangevin.privacy.accountants.analytic_gaussian import delta_of, epsilon_of
from dplangevin.privacy.accountants.moments_accountant import log_moment
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import Adjacency, Budget
from dplangevin.privacy.gaussian_steps import StepSchedule, steps_event
from dplangevin.privacy.li2019 import POWERS, conditions, printed_constant, printed_reach, step_of

NUMBERS = ("rate", "steps", "delta", "epsilon", "multiplier", "x", "value", "bound", "ratio")
COLUMNS: Row = dict.fromkeys(("panel", "case", "term", "schedule", "adjacency"), "") | dict.fromkeys(
    NUMBERS, math.nan
)
SENSITIVITY: dict[Adjacency, float] = {"add_remove": 1.0, "replace_one": 2.0}  # of a sum, over L
RATES = (0.0001, 0.001, 0.002133, 0.00256, 0.003, 0.01, 0.03, 0.06)  # q; the 3rd and 4th are the paper's
BUDGETS = (0.02, 0.05, 0.1, 0.2, 0.37, 0.5, 1.0, 1.7)  # the epsilons of Figure 1
RECORDS = 50_000  # N of "step"
CHANNELS = ((0.6, 0.4), (0.8, 0.5), (0.55, 0.52), (0.3, 0.7))  # of "composition", see `transcripts`
ROUNDS = (2, 4, 8)  # of "composition"
ORDERS = (0.1, 0.5, 1.0, 4.0, 16.0, 64.0)  # lambda of "composition"


def case(name: str, value: float, bound: float = math.nan, **columns: Any) -> Row:
    """Return the columns that a case gives; bound is nan if `value` is compared with nothing."""
    return {"case": name, "value": value, "bound": bound, **columns}


class Terms(NamedTuple):
    """The three terms of bound (8), (N/tau - 1) N^2 Gamma_M `noise` + `bias` + `discretisation`, up to a constant."""

    noise: float  # sum eta_t^2/(sum eta_t)^2
    bias: float  # 1/sum eta_t
    discretisation: float  # (sum eta_t^2)^2/(sum eta_t)^2


def power_sum(steps: int, power: float) -> float:
    """Return sum_{t=1}^T t^power for power in (-1, 0], above t = 1e5 by the Euler-Maclaurin formula."""
    split = min(steps, 100_000)
    total = float((np.arange(1, split + 1) ** power).sum())
    if steps == split:
        return total
    a, b = float(split), float(steps)
    integral = (b ** (power + 1) - a ** (power + 1)) / (power + 1)
    return total + integral + (b**power - a**power) / 2 + power * (b ** (power - 1) - a ** (power - 1)) / 12


def terms(scale: float, power: float, steps: int) -> Terms:
    """Return the terms of bound (8) for the steps eta_t = scale t^power, t = 1..T, with power in (-1/2, 0]."""
    first, second = scale * power_sum(steps, power), scale**2 * power_sum(steps, 2 * power)
    return Terms(second / first**2, 1 / first, second**2 / first**2)


def two_steps(thermostat: bool, friction: float, noise: float, shift: float, epsilon: float) -> float:
    """Compute delta(epsilon) of two visible steps of SGHMC, or of SGNHT with its `thermostat`, by quadrature.

    v_1 = (1 - a) v_0 - g_1 + N(0, s^2), v_2 = (1 - xi_1) v_1 - g_2 + N(0, s^2), theta_{t+1} = theta_t + v_t, s =
    `noise`; xi_1 = a, or a + v_1^2 - s^2/(2 a) with the thermostat (Ding et al. 2014, eta = s^2/(2 a)). g_t = .3
    theta_t, plus `shift` on the other data set.
    """
    theta, velocity = 0.2, 0.5 * noise
    mean = (1 - friction) * velocity - 0.3 * theta
    u = np.linspace(-8.0, 8.0 + 2 * shift / noise, 1601)  # noise of a step, in standard deviations
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
    """All panels of the module, one task for each; where only one delta is used, it is the first of `deltas`."""

    multipliers: int  # number of values of s between the ends of Lemma 2, for each q
    theorem_rates: Sequence[float]  # q of Theorem 4
    theorem_steps: Sequence[int]  # T of Theorem 4
    deltas: Sequence[float]
    decreasing_rates: Sequence[float]  # q of Theorem 3
    epsilons: Sequence[float]  # of "step", which varies one of four; the others keep their first values
    step_counts: Sequence[int]  # T of "step"
    step_deltas: Sequence[float]  # of "step"
    lipschitz: Sequence[float]  # L of "step"
    settings: Mapping[str, Mapping[str, Any]]  # the paper's "example", "mnist" and "svhn"; `step` is eta_1
    frictions: Sequence[float]  # a of "extension"
    sizes: Sequence[int]  # T of "average"
    figure_records: Sequence[int]  # N of Figure 2; where L varies, the first
    figure_lipschitz: Sequence[float]  # L of Figure 2; where N varies, the first

    def units(self) -> list[str]:
        return [
            "lemma", "theorems", "printed", "step", "conditions", "limit", "extension", "average", "generalization",
            "composition", "mixing", "range",
        ]  # fmt: skip

    def rows(self, unit: str, seed: int) -> list[Row]:
        return table({**COLUMNS, "panel": unit}, getattr(self, f"_{unit}")())

    def _experiment(self, name: str) -> tuple[Setting, float, StepSchedule]:
        """Return the setting of one of the paper's experiments, its (first) step and its schedule."""
        given = dict(self.settings[name])
        step, schedule = given.pop("step"), given.pop("schedule")
        return Setting(**given, delta=self.deltas[0]), step, schedule

    def _setting(self, steps: int, delta: float, lipschitz: float = 1.0) -> Setting:
        return Setting(RECORDS, RECORDS // 100, steps, lipschitz, delta)

    def _lemma(self) -> Iterator[Row]:
        """Yield alpha at the worst lambda (x) up to s^2 ln(1/(q s)) against Remark 1 and Lemma 2 without its O(q^3)."""
        for rate in RATES:
            for s in np.geomspace(1.0, min(0.999 / (16 * rate), 20.0), self.multipliers):
                orders = np.geomspace(1.0, s * s * math.log(1 / (rate * s)), 20)
                simple = rate**2 * orders * (orders + 1) / s**2
                for adjacency in get_args(Adjacency):
                    moments = sampled_moment(rate, s, orders, adjacency)
                    worst = int((moments / simple).argmax())
                    columns = {
                        "adjacency": adjacency,
                        "rate": rate,
                        "multiplier": float(s),
                        "x": orders[worst],
                    }
                    for name, bound in (("Lemma 2", simple / (1 - rate)), ("Remark 1", simple)):
                        yield case(name, moments[worst], bound[worst], **columns)

    def _theorems(self) -> Iterator[Row]:
        """Yield the proven epsilon of steps at the limit of Theorem 3 (its condition 3) or of Theorem 4.

        The constant is that of the printed proof, where it may use Lemma 2 (`printed_reach`), or twice that (term),
        because a replaced record moves a sum by 2 L. x: the constant squared.
        """
        schedules: tuple[StepSchedule, ...] = ("fixed", "decreasing")
        runs = [
            *product(schedules[:1], self.theorem_rates, self.theorem_steps, self.deltas),
            *product(schedules[1:], self.decreasing_rates, (1_000_000,), self.deltas[:1]),
        ]
        constants: list[tuple[str, float, Adjacency]] = [
            ("c", 1.0, "add_remove"), ("c", 1.0, "replace_one"), ("2 c", 2.0, "replace_one"),
        ]  # fmt: skip
        for schedule, rate, steps, delta in runs:
            reach = printed_reach(delta, rate=rate, steps=steps, schedule=schedule)
            columns: Row = {"schedule": schedule, "rate": rate, "steps": steps, "delta": delta}
            for share in (0.05, 0.95) if reach.c_1 else ():
                epsilon = reach.smallest ** (1 - share) * reach.largest**share
                printed = printed_constant(Budget(epsilon, delta), steps=steps, schedule=schedule)
                for term, times, adjacency in constants:
                    c = times * printed
                    s = c * rate * math.sqrt(steps ** POWERS[schedule] * math.log(1 / delta)) / epsilon
                    event = steps_event(s, rate=rate, steps=steps, schedule=schedule)
                    proven = Tight().epsilon(event, delta, adjacency)
                    columns |= {"epsilon": epsilon, "term": term, "adjacency": adjacency, "multiplier": s}
                    yield case("", proven, epsilon, **columns, x=c**2)

    def _printed(self) -> Iterator[Row]:
        """Yield cases in which Theorems 3 and 4 fail with conditions 1 and 2 as printed, at q = 1 and sigma_1 = 1.

        Condition 3 is eps > c T^(p/2) sqrt(ln(1/delta)), with p = 1 in Theorem 4, and p = 2/3 and c_2 in Theorem 3;
        both require eps < c_1 T^p. Condition 2 of Theorem 3 at the last step is T^(1/3) < 256. The exact epsilon is
        that at mu^2 = sum_t 1/sigma_t^2, of order T^p. x: c_1. term: c^2 or c_2^2. bound: eps.
        """
        log, cube = math.log(1 / self.deltas[0]), 255**3
        squares = (3.0, 6.0, 128.0, 1000.0)  # 6: of the printed proof; 128: what the paper says it is below
        for c_1 in (0.001, 0.1, 1.0, 10.0):
            for square in squares:
                c = math.sqrt(square)
                steps = math.ceil(max(1.1 * square * log / c_1**2, 16 * square * log))
                root = min(math.sqrt(log), 0.99 * 255 * c_1 / c)  # sqrt(ln(1/delta)) for Theorem 3
                falling = power_sum(cube, -1 / 3), 1.001 * c * 255 * root, math.exp(-(root**2))
                runs: dict[StepSchedule, tuple[int, float, float, float]] = {
                    "fixed": (steps, steps, 1.001 * c * math.sqrt(steps * log), self.deltas[0]),
                    "decreasing": (cube, *falling),
                }
                for schedule, (steps, total, epsilon, delta) in runs.items():
                    columns: Row = {"schedule": schedule, "steps": steps, "delta": delta, "epsilon": epsilon}
                    columns |= {"rate": 1.0, "multiplier": 1.0, "x": c_1, "term": f"{square:g}"}
                    for adjacency, size in SENSITIVITY.items():
                        exact = epsilon_of(size * math.sqrt(total), delta)
                        yield case("", exact, epsilon, **columns, adjacency=adjacency)
            yield from self._void(c_1)

    def _void(self, c_1: float) -> Iterator[Row]:
        """Yield the cases "void" of "printed", in which no step meets conditions 2 (value) and 3 (bound).

        They have c^2 = 256 c_1 eps/ln(1/delta), or c_2^2 = this over T^(1/3), and every q with eps < c_1 q^2 T^p.
        """
        ends = min(BUDGETS), max(BUDGETS)
        runs = product(get_args(StepSchedule), self.theorem_steps, self.deltas, ends)
        for schedule, steps, delta, epsilon in runs:
            scale, log = steps ** POWERS[schedule], math.log(1 / delta)
            last = steps ** (-1 / 3) if schedule == "decreasing" else 1.0
            constant = 256 * c_1 * epsilon * last / log
            least = epsilon / (c_1 * scale)  # q^2 must exceed it
            bound = epsilon**2 * RECORDS * last / (constant * scale * log)  # L = 1
            columns = {"schedule": schedule, "steps": steps, "delta": delta, "epsilon": epsilon, "x": c_1}
            for share in (0.99, 0.5, 0.0) if least < 1 else ():
                square = least**share
                columns |= {"term": "dependent", "rate": math.sqrt(square)}
                yield case("void", square * RECORDS / 256, bound, **columns)

    def _step(self) -> Iterator[Row]:
        """Yield the largest step against epsilon, T, ln(1/delta) and L (x), and that of Theorem 3 or 4 (bound).

        - "lipschitz, proof": the step at each L with the multiplier, so the epsilon, of the largest step at the first;
        - "wang2015": that bound; x: T ln(2.5 T/delta);
        - "factor": the decreasing step of the proof over wang2015's; x: T^(1/3) ln(T/delta), the paper's factor.
        """
        first = self._setting(self.step_counts[0], self.step_deltas[0], self.lipschitz[0])
        epsilon = self.epsilons[0]
        varied: dict[str, list[tuple[float, float, Setting]]] = {  # x, epsilon and setting
            "epsilon": [(e, e, first) for e in self.epsilons],
            "steps": [(t, epsilon, replace(first, steps=t)) for t in self.step_counts],
            "log delta": [(math.log(1 / d), epsilon, replace(first, delta=d)) for d in self.step_deltas],
            "lipschitz": [(size, epsilon, replace(first, lipschitz=size)) for size in self.lipschitz],
        }
        largest = cache(largest_step)
        for schedule in get_args(StepSchedule):
            columns: Row = {"schedule": schedule, "rate": first.rate, "term": "first step"}
            for name, points in varied.items():
                for x, budget, setting in points:
                    value = largest(schedule, setting, budget)
                    columns |= {"steps": setting.steps, "delta": setting.delta, "epsilon": budget, "x": x}
                    columns["multiplier"] = setting.multiplier(value)
                    yield case(name, value, theorem_step(schedule, setting, budget), **columns)
            s = first.multiplier(largest(schedule, first, epsilon))
            columns |= {"steps": first.steps, "delta": first.delta, "epsilon": epsilon, "multiplier": s}
            for size in self.lipschitz:
                value = step_of(s, records=first.records, batch=first.batch, lipschitz=size)
                yield case("lipschitz, proof", value, **columns | {"x": size})
        for _, _, setting in varied["steps"]:
            steps, delta = setting.steps, setting.delta
            wang = wang2015_step(setting, epsilon)
            columns = {"steps": steps, "delta": delta, "epsilon": epsilon}
            yield case("wang2015", wang, **columns, x=steps * math.log(2.5 * steps / delta))
            factor = steps ** (1 / 3) * math.log(steps / delta)
            value = theorem_step("decreasing", setting, epsilon) / wang
            yield case("factor", value, factor, **columns, term="proof", x=factor)

    def _conditions(self) -> Iterator[Row]:
        """Yield conditions 1 and 2 of Theorem 3, as printed and as Lemma 2 requires them (term).

        Cases named by a setting: value is the step nearest to the limit, the first for condition 1 and the last for
        condition 2. Case "rates", against q (x): for condition 1 the printed limit (value) over the required one, for
        condition 2 the reverse.
        """
        for name in self.settings:
            setting, step, schedule = self._experiment(name)
            limits = conditions(records=setting.records, batch=setting.batch, lipschitz=setting.lipschitz)
            last = step * (setting.steps ** (-1 / 3) if schedule == "decreasing" else 1.0)
            columns = {"schedule": schedule, "steps": setting.steps, "x": step, "rate": setting.rate}
            for term, value, bound in (
                ("condition 1, printed", step, limits.printed_high),
                ("condition 1, needed", step, limits.needed_high),
                ("condition 2, printed", last, limits.printed_low),
                ("condition 2, needed", last, limits.needed_low),
            ):
                yield case(name, value, bound, **columns, term=term)
        batch = 1000
        for rate in RATES:
            limits = conditions(records=round(batch / rate), batch=batch, lipschitz=1.0)
            columns = {"rate": rate, "x": rate}
            yield case("rates", limits.needed_low, limits.printed_low, **columns, term="condition 2")
            yield case("rates", limits.printed_high, limits.needed_high, **columns, term="condition 1")

    def _limit(self) -> Iterator[Row]:
        """Yield the proven epsilon of the worked example with smaller and smaller fixed steps (x)."""
        setting, *_ = self._experiment("example")
        columns: Row = {"rate": setting.rate, "steps": setting.steps, "delta": setting.delta}
        columns |= {"schedule": "fixed", "adjacency": "replace_one"}
        for step in (1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12):
            proven = Tight().epsilon(setting.event(step, "fixed"), setting.delta, "replace_one")
            yield case("", proven, **columns, multiplier=setting.multiplier(step), x=step)

    def _extension(self) -> Iterator[Row]:
        """Yield delta(epsilon) of two visible steps of SGHMC and SGNHT (value) against Algorithm 1 (bound); x: a.

        The noise is N(0, 2 a eta/N), and a gradient step differs by eta L/N.
        """
        records, lipschitz, step = 1000, 10.0, 0.5
        for name, a, epsilon in product(("SGHMC", "SGNHT"), self.frictions, (0.1, 0.5, 1.0)):
            noise, shift = math.sqrt(2 * a * step / records), step * lipschitz / records
            s = noise / shift
            value = two_steps(name == "SGNHT", a, noise, shift, epsilon)
            columns = {"steps": 2, "rate": 1.0, "epsilon": epsilon, "multiplier": s, "x": a}
            yield case(name, value, float(delta_of(math.sqrt(2) / s, epsilon)), **columns)

    def _average(self) -> Iterator[Row]:
        """Yield the bounds of Propositions 5 and 6, from the sums in their proofs (`Terms`).

        - "equal privacy": decreasing over fixed steps of the same sum_t 1/sigma_t^2;
        - "Proposition 5": (8) at eta_t = eta~ N t^(-1/3) T^(-2/3) over the printed bound, over N^0, N^-1 and N^2;
        - "powers": -(exponent in T) of the slowest term of (8) for eta_t = t^-alpha (x), without noise; bound: 2/3;
        - "best step", "best error", "best budget": least of Proposition 6 without noise, eta~ of Proposition 5; x: T;
        - "below wang2015": 1/(T eta) + eta^2 at the step of Theorem 4, over that at wang2015's step; x: epsilon.
        """
        for steps in self.sizes:
            size = {"steps": steps, "x": steps}
            constant, falling = terms(1 / steps, 0.0, steps), terms(steps ** (-2 / 3), -1 / 3, steps)
            equal = terms(1 / power_sum(steps, -1 / 3), -1 / 3, steps)
            printed = Terms(2 / 3 / steps, 1 / 3, 2 * steps ** (-2 / 3))  # at eta~ = 1
            for term in Terms._fields:
                for name, first, second in (
                    ("equal privacy", equal, constant),
                    ("Proposition 5", falling, printed),
                ):
                    yield case(name, getattr(first, term), getattr(second, term), **size, term=term)
            best = minimize_scalar(
                lambda x, t: math.exp(-x) / t + math.exp(2 * x), (-8.0, 0.0), args=(steps,), tol=1e-12
            )
            yield case("best step", math.exp(best.x), **size)
            yield case("best error", float(best.fun), **size)
            budget = minimize_scalar(
                lambda x, t: math.exp(-x) / 3 + 2 * math.exp(2 * x) * t ** (-2 / 3),
                bracket=(-4.0, 4.0),
                args=(steps,),
                tol=1e-12,
            )
            yield case("best budget", math.exp(budget.x), **size)
        setting = self._setting(self.step_counts[0], self.deltas[0])
        for epsilon in (*BUDGETS, 3.0, 6.0):
            etas = theorem_step("fixed", setting, epsilon), wang2015_step(setting, epsilon)
            value, bound = (1 / (setting.steps * eta) + eta**2 for eta in etas)
            columns = {"steps": setting.steps, "delta": setting.delta, "epsilon": epsilon, "x": epsilon}
            term = "Figure 1" if epsilon in BUDGETS else "larger"
            yield case("below wang2015", value, bound, **columns, term=term)
        short, long = 10**9, 10**12
        for alpha in (0.1, 0.2, 0.25, 0.3, 0.32, 1 / 3, 0.35, 0.4, 0.45):
            pair = [terms(1.0, -alpha, steps) for steps in (short, long)]
            exponents = {
                term: math.log(getattr(pair[0], term) / getattr(pair[1], term)) / math.log(long / short)
                for term in ("bias", "discretisation")
            }
            slowest = min(exponents, key=lambda term: exponents[term])
            yield case("powers", exponents[slowest], 2 / 3, term=slowest, x=alpha)

    def _generalization(self) -> Iterator[Row]:
        """Yield the terms of Proposition 7 at A = 1 and N = infinity.

        "Lambert": ln(1/omega) = (5/4) W((4/5) T^(1/5)), from T = ln(1/omega)^5/omega^4, against W^(1/5)(4 T/5), as
        printed; x: ln T. "gap": ln(1/omega) + omega, the first form of the printed bound; x: omega.
        """
        for exponent in (3, 6, 12, 24, 48, 96, 192):
            steps = 10.0**exponent
            value = 1.25 * float(lambertw(0.8 * steps**0.2).real)
            yield case("Lambert", value, float(lambertw(0.8 * steps).real) ** 0.2, x=math.log(steps))
        for omega in (0.01, 0.1, 0.3, 0.567, 0.8, 0.99):
            yield case("gap", math.log(1 / omega) + omega, x=omega)

    def _composition(self) -> Iterator[Row]:
        """Yield the cases of Theorem 1, and of Section 2.1 on the tail of the privacy loss c.

        - "composability": exact alpha of adaptive binary mechanisms, against the sum of rounds' largest; x: lambda;
        - "tail": exact delta(epsilon) against min over lambda of exp(alpha - lambda epsilon); x: epsilon;
        - "every mechanism": max over u > 0 of (1 - exp(-u)) exp(-lambda u) is lambda^lambda/(1 + lambda)^(1 + lambda);
          x: lambda;
        - "equivalence": P(c > epsilon) of a Gaussian step, against its delta(epsilon); x: epsilon.
        """
        for term, channels in (("adaptive", CHANNELS), ("one channel", CHANNELS[:1])):
            single = [transcripts([channel], 1) for channel in channels]
            for rounds, order in product(ROUNDS, ORDERS):
                alphas = [finite_moment(*laws, order) for laws in single]
                bound = sum(max(alphas[: i + 1]) for i in range(rounds))
                exact = finite_moment(*transcripts(channels, rounds), order)
                yield case("composability", exact, bound, term=term, steps=rounds, x=order)
        for epsilon in BUDGETS:
            yield from self._tails(epsilon)
        for order in ORDERS:
            value = math.exp(order * math.log(order) - (1 + order) * math.log1p(order))
            yield case("tail", value, 1.0, term="every mechanism", x=order)

    def _tails(self, epsilon: float) -> Iterator[Row]:
        columns: Row = {"epsilon": epsilon, "x": epsilon, "steps": ROUNDS[-1]}
        p, q = transcripts(CHANNELS, ROUNDS[-1])
        gaps = p - math.exp(epsilon) * q, q - math.exp(epsilon) * p
        value = max(float(np.maximum(gap, 0).sum()) for gap in gaps)
        bound = tail_bound(partial(finite_moment, p, q), epsilon)
        yield case("tail", value, bound, **columns, term="adaptive")
        columns["steps"] = 1
        for s in (1.0, 4.0):
            columns |= {"multiplier": s, "term": "Gaussian"}
            value = float(delta_of(1 / s, epsilon))
            above = float(ndtr(0.5 / s - epsilon * s))  # c is N(1/(2 s^2), 1/s^2)
            yield case("equivalence", above, value, **columns)
            bound = tail_bound(lambda order, s=s: order * (order + 1) / (2 * s**2), epsilon)  # type: ignore[misc]
            yield case("tail", value, bound, **columns)
            columns["term"] = "sampled Gaussian"
            for rate in self.theorem_rates:
                bound = tail_bound(partial(_step_moment, rate, s), epsilon)
                yield case("tail", sampled_delta(rate, s, epsilon), bound, **columns, rate=rate)

    def _mixing(self) -> Iterator[Row]:
        """Yield how slowly Algorithm 1 with full gradients mixes at steps eta (x) of the worked example.

        On a Gaussian posterior with U''/N = h (term) the samples form an autoregression.

        - "correlation": eta h, which is 1 minus the correlation of successive samples;
        - "sample": (2 - eta h)/(eta h), the steps that count as one independent sample, against T;
        - "two modes": `relaxation_time` (at wang2015's step `diffusion_time`/eta), against a Gaussian with the modes'
          curvature, or against T.
        """
        setting, *_ = self._experiment("example")
        length, epsilon, barrier = float(setting.steps), 0.1, 2.0
        printed, default, theorem = 1.54e-6, 0.1, theorem_step("fixed", setting, epsilon)

        def columns(step: float) -> Row:
            budget = {"epsilon": epsilon} if step == theorem else {}
            return {"steps": setting.steps, "x": step, **budget}

        for step in (printed, theorem, default):
            for curvature in (1.0, 2 / default):
                rate, term = step * curvature, f"curvature {curvature:g}"
                yield case("correlation", rate, **columns(step), term=term)
                yield case("sample", (2 - rate) / rate, length, **columns(step), term=term)
        times = {step: relaxation_time(step, barrier) for step in (theorem, 0.1, 0.03, 0.01, 0.003, 0.001)}
        times[printed] = diffusion_time(barrier) / printed
        for step, time in times.items():
            yield case("two modes", time, -1 / math.log1p(-step), **columns(step))
            yield case("sample", time, length, **columns(step), term="two modes")

    def _range(self) -> Iterator[Row]:
        """Yield the proven epsilon of all iterates at the ends (term) of Section 4.1's range of first steps; x: L."""
        batch = self.settings["mnist"]["batch"]
        sizes = [(records, self.figure_lipschitz[0]) for records in self.figure_records]
        sizes += [(self.figure_records[0], lipschitz) for lipschitz in self.figure_lipschitz[1:]]
        ends = (("smallest", 1e-4), ("largest", 0.1))
        for (n, lipschitz), (term, step), schedule in product(sizes, ends, get_args(StepSchedule)):
            setting = Setting(n, batch, n, lipschitz, 1 / n)
            event = setting.event(step, schedule)
            columns = {"term": term, "schedule": schedule, "rate": setting.rate, "steps": n, "delta": 1 / n}
            for adjacency in get_args(Adjacency):
                columns |= {"multiplier": setting.multiplier(step), "x": lipschitz, "adjacency": adjacency}
                yield case("", Tight().epsilon(event, setting.delta, adjacency), **columns)


def largest_step(schedule: StepSchedule, setting: Setting, epsilon: float) -> float:
    """Return the largest (first) step within epsilon by the moments accountant, of a multiplier in [0.3, 1e4]."""

    def excess(log_step: float) -> float:
        s = setting.multiplier(math.exp(log_step))
        return moments_price(setting.rate, s, setting.steps, setting.delta, schedule) - epsilon

    size: dict[str, Any] = {"records": setting.records, "batch": setting.batch}
    low, high = (math.log(step_of(s, **size, lipschitz=setting.lipschitz)) for s in (1e4, 0.3))
    return math.exp(brentq(excess, low, high, xtol=1e-6))


def _step_moment(rate: float, multiplier: float, order: float) -> float:
    """Return alpha(lambda) of one Poisson-sampled Gaussian step."""
    return float(log_moment(rate, multiplier, [order])[0])
