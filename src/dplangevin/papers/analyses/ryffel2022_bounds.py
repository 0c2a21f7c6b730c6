"""The bounds of ryffel2022 against exact cases that meet their hypotheses; only the choice of cases is random.

Each case is one-dimensional, see `langevin_risk`. That is enough: for losses that are sums over coordinates, risks and
the terms of equations 7 and 11 add up. Where d enters only through K (Theorem 4.2), C = [low, high] x {0}^(d-1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, get_args

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from dplangevin.attacks.dp_langevin import Others, last_iterate_distributions
from dplangevin.attacks.laws import Distributions, epsilon_of, renyi
from dplangevin.papers.analyses.cases import Row, table
from dplangevin.papers.analyses.finite import moments
from dplangevin.papers.analyses.langevin import Setting
from dplangevin.papers.analyses.langevin_dynamics import (
    every_constant,
    fokker_planck,
    gaussian_dynamics,
    gaussian_renyi,
    renyi_dynamics,
)
from dplangevin.papers.analyses.langevin_risk import (
    IterateLaws,
    Losses,
    constant_steps,
    decreasing_steps,
    equation_7,
    equation_11,
    risks,
)
from dplangevin.papers.analyses.mechanisms import dp_sgd
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of as gaussian_epsilon
from dplangevin.privacy.accountants.last_iterate import Ryffel2022
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import LangevinDpEvent
from dplangevin.random import generator

TEXTS = ("kind", "case", "quantity", "batch", "schedule")
NUMBERS = ("records", "condition", "step", "steps", "x", "exact", "bound", "ratio")
COLUMNS: Row = {**dict.fromkeys(TEXTS, ""), **dict.fromkeys(NUMBERS, math.nan), "note": ""}
EPSILON, ORDER = 1, 2  # of Section 4
LIPSCHITZ, RADIUS = 1, 0.5075  # of the pair of `counterexample`, with lambda = 1
ROUNDED = 1e-12  # smallest reported relative difference of two sides of an equation; rounding explains it


def case(kind: str, quantity: str, exact: float, bound: float = math.nan, **columns: Any) -> Row:
    """Return the columns that a case gives; bound is nan if the paper has no number."""
    return {"kind": kind, "quantity": quantity, "exact": exact, "bound": bound, **columns}


def rounds(condition: float, strength: float, schedule: str) -> int:
    """Return K, rounded up: max(1, 2 kappa ln q) of Theorem 4.1 ("constant"), or that of 4.2; q = eps n^2/(alpha d)."""
    if schedule == "constant":
        return max(1, math.ceil(2 * condition * math.log(strength)))
    return math.ceil(decreasing_rounds(condition, strength))


def decreasing_rounds(condition: float, strength: float) -> float:
    """Return K of Theorem 4.2, max(kappa q, q^2/kappa), not rounded."""
    return max(condition * strength, strength**2 / condition)


def lemma_bounds(condition: float, strength: float) -> tuple[float, float]:
    """Return equations 7 (no xi) and 11 (xi = L) in units of L^2/lambda, at sigma and K of Theorems 4.1 and 4.2.

    |theta_0 - theta*| = 2L/lambda and d sigma^2 = 4 L^2/(lambda q).
    """
    constant = condition * (2 / strength + 4 / strength)
    steps = decreasing_rounds(condition, strength)
    noisy = 4 / steps * math.log1p(steps / (4 * condition))
    return constant, 8 * condition / steps + noisy + 8 / strength


def coins(order: float, delta: float, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the exact epsilon of pairs of coins and that of Proposition 2.1; the worst event is one outcome."""
    directions = ((first, second), (second, first))
    sums = [p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order) for p, q in directions]
    outcomes = [pair for p, q in directions for pair in ((p, q), (1 - p, 1 - q))]
    exact = np.log(np.max([np.maximum((p - delta) / q, 1.0) for p, q in outcomes], axis=0))
    return exact, converted(np.log(np.maximum(*sums)) / (order - 1), order, delta)


def converted(divergence: Any, order: float, delta: float) -> Any:
    """Return the epsilon of Proposition 2.1 from R_order = `divergence`, a number or an array."""
    return divergence - math.log(delta) / (order - 1)


def minimiser(x: np.ndarray, margin: float, ridge: float) -> tuple[float, float]:
    """Return |theta*| and L_D(0) of the mean of ln(1 + e^(margin - <x_i, theta>)) + (ridge/2) |theta|^2, x (n, d)."""

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        off = margin - x @ theta
        value = np.logaddexp(0, off).mean() + ridge / 2 * theta @ theta
        return float(value), ridge * theta - x.T @ expit(off) / len(x)

    def hessian(theta: np.ndarray) -> np.ndarray:
        chance = expit(margin - x @ theta)
        return np.asarray((x.T * (chance * (1 - chance))) @ x / len(x) + ridge * np.eye(x.shape[1]))

    zero = np.zeros(x.shape[1])
    best = minimize(objective, zero, jac=True, hess=hessian, method="trust-exact", options={"gtol": 1e-10})
    return float(np.linalg.norm(best.x)), objective(zero)[0]


@dataclass(frozen=True)
class Bounds:
    """The exact cases of all statements, one task for each group of statements; `condition` is beta/lambda."""

    conditions: Sequence[float]  # beta/lambda of the random cases
    cases: int  # number of random cases for each condition
    noises: Sequence[float]  # sigma
    steps: Sequence[int]  # the K at which risks are computed
    nodes: int  # of the quadrature
    delta: float  # of Section 4
    records: Mapping[str, Sequence[int]]  # schedule -> n of "utility"; used if K is at most 1100
    table4: Mapping[str, Mapping[str, Any]]  # Table 4; commands: schedule -> lambda of the authors' commands
    budget: Mapping[str, Any]  # of DP-SGD
    log_sobolev: Mapping[str, Any]  # noise_std and steps of the pair, lengths K of `gaussian_dynamics`

    def units(self) -> list[str]:
        groups = [f"{kind}/{condition:g}" for kind in ("risk", "utility") for condition in self.conditions]
        single = ["boundary", "privacy", "sobolev", "full_batch", "formulas", "budget"]
        return [*groups, *single, "log_sobolev", "dynamics", "conversion", "minimiser"]

    def rows(self, unit: str, seed: int) -> list[Row]:
        kind, _, condition = unit.partition("/")
        if condition:
            cases = self.random_cases(float(condition), seed)
            rows = self._risk(cases) if kind == "risk" else self._utility(cases[0])
        else:
            rows = self._minimiser(seed) if kind == "minimiser" else getattr(self, f"_{kind}")()
        return table(COLUMNS, rows, value="exact")

    def random_cases(self, condition: float, seed: int) -> list[Losses]:
        """Draw losses with lambda = 1 on C = [-2, 2]; theta* is inside, and one loss takes both lambda and beta."""
        rng = np.random.default_rng(generator(seed, f"ryffel2022_bounds/{condition:g}").initial_seed())
        cases = []
        for _ in range(self.cases):
            left, right = rng.uniform(1.0, condition, (2, 4))
            left[0], right[0] = 1.0, condition
            centre = rng.uniform(-0.5, 0.5, 4)
            cases.append(Losses(left, right, centre, -2.0, 2.0, 1.0, condition))
        return cases

    def _risk(self, cases: Sequence[Losses]) -> Iterator[Row]:
        """Yield the excess risks of the random cases against equations 7 and 11 and Lemma 4.1."""
        for (number, losses), noise, batch in product(enumerate(cases), self.noises, ("1", "full")):
            name = f"inside {number}"
            for share in (1.0, 0.25):
                yield from self._constant(name, losses, share, noise, batch)
            etas = decreasing_steps(losses, max(self.steps))
            risk = risks(losses, etas, noise, batch, self.nodes)
            columns = {"case": name, "batch": batch, "schedule": "decreasing", "condition": losses.condition}
            for steps in self.steps:
                bound = equation_11(losses, risk.start, steps, noise, batch)
                average = float(risk.excess[:steps].mean())
                yield case("risk", "equation 11", average, bound, **columns, steps=steps)

    def _boundary(self) -> Iterator[Row]:
        """Yield the excess risks of (lambda/2) theta^2 + lambda (1 + push) theta on C = [-1, 0]; theta* = -1."""
        one = np.ones(1)
        for push, size in product((1, 4), (1 / 4, 1 / 16, 1 / 64)):
            losses = Losses(one, one, 0 * one, -1.0, 0.0, 1.0, 1.0, tilt=1.0 + push)
            name = f"boundary, gradient {push:g}"
            yield from self._constant(name, losses, 2 * size, 0.05, "full")

    def _constant(self, name: str, losses: Losses, share: float, noise: float, batch: str) -> Iterator[Row]:
        """Yield constant steps against equation 7 and Lemma 4.1, with 4 L^2/lambda^2 for E|theta_0 - theta*|^2."""
        etas = constant_steps(losses, max(self.steps), share)
        risk = risks(losses, etas, noise, batch, self.nodes)
        starts = {"equation 7": risk.start, "Lemma 4.1": (2 * losses.lipschitz() / losses.strength) ** 2}
        columns = {"case": name, "batch": batch, "schedule": "constant", "condition": losses.condition}
        for steps, (quantity, start) in product(self.steps, starts.items()):
            bound = equation_7(losses, start, float(etas[0]), steps, noise, batch)
            excess = float(risk.excess[steps - 1])
            yield case("risk", quantity, excess, bound, **columns, step=share / 2, steps=steps)

    def _tuned(self, kind: str, lipschitz: float, records: float) -> tuple[float, float, float]:
        """Return sigma at lambda = 1, the q of `rounds` at d = 1, and the O of Theorem 4.2 over L^2 d/lambda.

        (epsilon, delta): sigma^2 = 8 L^2 (eps + 2 ln(1/delta))/(eps n)^2, q = (eps n)^2/(4 ln(1/delta)), and O with the
        factor 8 of the proof.
        """
        if kind == "Renyi":
            q = EPSILON * records**2 / ORDER
            return math.sqrt(4 / q) * lipschitz, q, 1 / q
        log = -math.log(self.delta)
        squared = (EPSILON * records) ** 2
        noise = math.sqrt(8 * (EPSILON + 2 * log) / squared) * lipschitz
        return noise, squared / (4 * log), 8 * log / squared

    def _utility(self, losses: Losses) -> Iterator[Row]:
        """Yield the excess risks at sigma and K of Section 4 against its bounds, with 6 and 18 of the proofs."""
        lipschitz, condition = losses.lipschitz(), losses.condition
        schedules = [(schedule, n) for schedule, listed in self.records.items() for n in listed]
        for (schedule, records), kind in product(schedules, ("Renyi", "(epsilon, delta)")):
            noise, q, rate = self._tuned(kind, lipschitz, records)
            if q <= 1 or rounds(condition, q, schedule) > 1100:
                continue
            steps, scale = rounds(condition, q, schedule), lipschitz**2 / losses.strength * rate
            size = {"records": records, "condition": condition, "steps": steps, "x": records}
            for batch in ("1", "full"):
                columns = {"case": "inside 0", "batch": batch, "schedule": schedule, **size}
                if schedule == "constant":
                    excess = risks(losses, constant_steps(losses, steps), noise, batch, self.nodes).excess
                    bound = 6 * condition * scale + losses.xi2(batch) / (4 * losses.strength)
                else:  # fewer nodes: each step has its own kernel, and the steps are broad
                    etas = decreasing_steps(losses, steps)
                    excess = risks(losses, etas, noise, batch, self.nodes // 2).excess
                    bound = 18 * scale
                    yield case("utility", f"{kind}, average", float(excess.mean()), bound, **columns)
                yield case("utility", f"{kind}, last iterate", float(excess[-1]), bound, **columns)

    def _pair(
        self, others: Others, records: int, batch: str, schedule: str, steps: int, noise: float
    ) -> tuple[LangevinDpEvent, Distributions]:
        """Return the event with beta = lambda = 1, and both laws of theta_K of a pair of `attacks.dp_langevin`."""
        event = LangevinDpEvent(
            records=records,
            batch=1 if batch == "1" else records,
            steps=steps,
            step_size=0.5,
            noise_std=noise,
            lipschitz=LIPSCHITZ,
            strong_convexity=1.0,
            smoothness=1.0,
            decay=0.5 if schedule == "decreasing" else 0.0,
        )
        return event, last_iterate_distributions(event, project=RADIUS, others=others, nodes=self.nodes)

    def _privacy(self) -> Iterator[Row]:
        """Yield the exact divergence or epsilon of the pair "flat" of `counterexample` at sigma and K of Section 4."""
        sizes = (("Renyi", 100, 1000), ("(epsilon, delta)", 1000, 5000))  # n, and d of Theorem 4.2
        for schedule, (kind, records, wide) in product(("constant", "decreasing"), sizes):
            noise, q, _ = self._tuned(kind, LIPSCHITZ, records)
            d = wide if schedule == "decreasing" else 1
            steps = rounds(1.0, q / d, schedule)
            size = {"records": records, "condition": 1.0, "steps": steps}
            for batch in ("1", "full"):
                _, laws = self._pair("flat", records, batch, schedule, steps, noise)
                exact = renyi(laws, ORDER) if kind == "Renyi" else epsilon_of(laws, self.delta)
                columns = {"case": f"d = {d:g}", "batch": batch, "schedule": schedule, **size}
                yield case("privacy", kind, exact, EPSILON, **columns)

    def _sobolev(self) -> Iterator[Row]:
        """Yield Var(theta_k) against 1/c = 2 sigma^2/lambda (Poincare), for losses (theta -+ 1/2)^2/2 and eta = 1/2."""
        one = np.ones(2)
        losses = Losses(one, one, np.array([-0.5, 0.5]), -1.0, 1.0, 1.0, 1.0)
        noise = min(self.noises)
        size = {"schedule": "constant", "records": 2, "condition": 1.0, "step": 0.5}
        for batch in ("1", "full"):
            chain = IterateLaws(losses, noise, batch, self.nodes)
            for steps in range(1, max(self.steps) + 1):
                _, variance = moments(chain.points, chain.step(0.5))
                if steps in self.steps:
                    columns = {"batch": batch, **size, "steps": steps}
                    yield case("sobolev", "variance", variance, 2 * noise**2, **columns)

    def _full_batch(self) -> Iterator[Row]:
        """Yield Renyi divergences over alpha for full batches, in units of L^2/(lambda n^2 sigma^2)."""
        lengths = (1, 2, 5, 10, 100, 1000, 10_000)
        for contraction, steps in product((0.5, 0.1, 0.001), lengths):
            columns = {"batch": "full", "schedule": "constant", "step": contraction, "steps": steps}
            exact = gaussian_renyi(np.full(steps, contraction))
            claimed = 4 * -math.expm1(-contraction * steps / 2)
            yield case("full_batch", "Theorem 3.1", exact, claimed, **columns)
            limit = 2 - contraction  # 2/v at the stationary variance v = 2/(2 - eta lambda)
            gap, bound = 1 - exact / limit, 3 * math.exp(-contraction * steps)
            if bound > 1e-12:  # above rounding errors
                yield case("full_batch", "gap", gap, bound, **columns)
        for condition, steps in product((1.0, 10.0, 1000.0), lengths):
            columns = {"batch": "full", "schedule": "decreasing", "steps": steps, "condition": condition}
            claimed = 4 * steps / (4 * condition + steps)
            exact = gaussian_renyi(1 / (2 * condition + np.arange(steps) / 2))
            yield case("full_batch", "Corollary 3.3", exact, claimed, **columns)
            total = float((1 / (2 * condition + np.arange(1, steps + 1) / 2)).sum())
            yield case(
                "full_batch", "sum over k = 1, ..., K", 4 * -math.expm1(-total / 2), claimed, **columns
            )

    def _formulas(self) -> Iterator[Row]:
        """Yield what follows from the printed formulas alone, epsilon over alpha L^2/(n^2 sigma^2) at lambda = 1."""
        beta = 1e8
        for x in (1e-6, 1e-3, 1e3, 1e6):  # K lambda/beta
            steps = x * beta
            epsilons = {"constant": 4 * -math.expm1(-x / 4), "decreasing": 4 * x / (4 + x)}
            bounds = {"small K": steps / beta, "composition": steps / (2 * beta), "large K": 4.0}
            for (schedule, exact), (name, bound) in product(epsilons.items(), bounds.items()):
                yield case("limit", name, exact, bound, schedule=schedule, condition=beta, x=x)
        for q, condition in product((10.0, 1e3, 1e6), (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)):
            first, second = lemma_bounds(condition, q)
            columns: Row = {"case": f"q = {q:g}", "condition": condition, "x": condition}
            yield case("improvement", "factor", first / second, condition, **columns)
        condition = 10.0
        sides = {"below": (-3, -2, -1, 0), "above": (0, 1, 2, 3)}  # of q = condition^2
        for side, power in ((side, power) for side, powers in sides.items() for power in powers):
            q = condition**2 * 4.0**power
            steps = decreasing_rounds(condition, q)
            yield case("regime", "K", steps, case=side, condition=condition, x=math.sqrt(q))
        for name, given in self.table4.items():
            for schedule, precision in given["commands"].items():
                columns = {"case": name, "schedule": schedule, "x": precision}
                yield case("table4", "β/λ of the command", given["smoothness"] / precision, **columns)
            condition = given["smoothness"] / given["l2"]
            for dimension, scale in product(("parameters", "classes"), (1.0, 1.1)):
                n = given["records"] * scale
                q = n**2 / (given["order"] * given[dimension])
                columns = {"case": f"{name}, d = {dimension}", "condition": condition, "x": n}
                note = f"ratio {q / condition**2:.2g}"
                yield case("regime", "K, Table 4", decreasing_rounds(condition, q), **columns, note=note)

    def _budget(self) -> Iterator[Row]:
        setting: Setting = self.budget["setting"]
        batch, noise = self.budget["batch"], self.budget["noise_multiplier"]
        event = dp_sgd(records=setting.records, batch=batch, epochs=setting.epochs, noise_multiplier=noise)
        size = {"batch": str(batch), "records": setting.records, "steps": setting.steps(batch)}
        proven = Tight().epsilon(event, setting.delta, "add_remove")
        columns = {"case": "add_remove", **size, "x": setting.delta}
        yield case("budget", "DP-SGD, Pneumonia", proven, EPSILON, **columns)

    def _log_sobolev(self) -> Iterator[Row]:
        """Yield the cases of the theorem under c-LSI and of its corollary, for the pairs of `attacks.dp_langevin`.

        For batches of one, the bound is for all c > 0 at once: mixtures over batches have some c (Schlichting 2019).
        Laws of full batches, and that under the second data set of "opposite", are 1-Lipschitz images of a Gaussian of
        variance 1/c, c = lambda/(2 sigma^2).
        """
        given, records = self.log_sobolev, 100
        noise = given["noise_std"]
        size = {"records": records, "condition": 1.0}
        runs = product(get_args(Others), ("constant", "decreasing"), ("1", "full"), given["steps"])
        for others, schedule, batch, steps in runs:
            event, laws = self._pair(others, records, batch, schedule, steps, noise)
            if batch == "1":
                quantity, bound = "every c", every_constant(event, ORDER)
            else:
                quantity, bound = "c of the law", Ryffel2022().renyi(event, ORDER)
            columns = {"case": others, "batch": batch, "schedule": schedule, **size, "steps": steps}
            yield case("log_sobolev", quantity, renyi(laws, ORDER), bound, **columns)
        for contraction, start, steps in product((0, 0.001, 0.1, 0.5, 1, 1.5), (0, 1, 100), given["lengths"]):
            exact, bound = gaussian_dynamics(contraction, start, steps)
            columns = {"batch": "full", "schedule": "constant", "step": contraction, "steps": steps}
            name = f"Gaussian, start {start:g}"
            yield case("log_sobolev", "c of the law", exact, bound, case=name, **columns)

    def _dynamics(self) -> Iterator[Row]:
        """Yield the cases of Lemma 3.1, given the batch (its first record is x_i0), and of Lemma 3.2."""
        losses = self.random_cases(10.0, 0)[0]
        noise, eta = max(self.noises), 1 / (2 * losses.smoothness)
        chain = IterateLaws(losses, noise, "1", self.nodes)
        mass, gradients = chain.step(eta), losses.gradients(chain.points)
        at = np.linspace(losses.low, losses.high, 101)
        for batch, share in product((1, 2, len(gradients)), (0.1, 0.5, 0.9)):
            starts = chain.points - eta * gradients[1:batch].sum(axis=0) / batch
            left, right = fokker_planck(starts, gradients[0] / batch, mass, noise**2, share * eta, at)
            gap = max(float(np.abs(left - right).max() / np.abs(left).max()), ROUNDED)
            columns: Row = {"batch": str(batch), "condition": losses.smoothness, "x": share}
            yield case("fokker_planck", "Lemma 3.1", gap, **columns)
        grid = product((1.5, 4), (0.1, 0.5, 3), (0.3, 1, math.inf), (0, 1), (0.25, 0.5, 0.75))
        for order, time, radius, pull, gamma in grid:
            exact, bound = renyi_dynamics(order, time, radius, pull, gamma)
            name = f"α {order:g}, γ {gamma:g}, start cut at {radius:g}, pull {pull:g}"
            yield case("renyi_dynamics", "Lemma 3.2", exact, bound, case=name, x=time)

    def _conversion(self) -> Iterator[Row]:
        """Yield Proposition 2.1 for two Gaussians, R_alpha = alpha mu^2/2, and for the worst of many pairs of coins."""
        logits = np.linspace(-12, 12, 97)
        first, second = (expit(side.ravel()) for side in np.meshgrid(logits, logits))
        for order, delta in product((1.5, 2, 8, 32), (0.01, 1e-5)):
            for mu in (0.1, 1, 5):
                exact, bound = gaussian_epsilon(mu, delta), converted(order * mu**2 / 2, order, delta)
                name = f"α {order:g}, Gaussian, μ {mu:g}"
                yield case("conversion", "Proposition 2.1", exact, bound, case=name, x=delta)
            pairs = np.array(coins(order, delta, first, second))
            exact, bound = map(float, pairs[:, np.argmax(pairs[0] / pairs[1])])
            yield case("conversion", "Proposition 2.1", exact, bound, case=f"α {order:g}, coins", x=delta)

    def _minimiser(self, seed: int) -> Iterator[Row]:
        """Yield |theta*| against the bounds of the side note of Section 3.3; one data set is one record x = 1."""
        rng = np.random.default_rng(generator(seed, "ryffel2022_bounds/minimiser").initial_seed())
        data = {f"data set {number}": rng.normal(size=(20, 2)) for number in range(self.cases)}
        data["one record"] = np.ones((1, 1))
        grid = product(data.items(), (0.001, 0.01, 0.1, 1, 10), (0, 2, 20))
        for (name, x), ridge, margin in grid:
            norm, at_zero = minimiser(x, margin, ridge)
            columns = {"case": f"{name}, margin {margin:g}, λ {ridge:g}", "records": len(x), "x": ridge}
            yield case("minimiser", "positive", norm, math.sqrt(2 * at_zero / ridge), **columns)
            longest = float(np.linalg.norm(x, axis=1).max())
            yield case("minimiser", "Lipschitz", norm, longest / ridge, **columns)
