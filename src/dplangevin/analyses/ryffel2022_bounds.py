"""The bounds of ryffel2022 (Lemma 3.3, Theorem 3.1 on full batches, both limits of Section 3.3, all of Section 4)
against exact cases that meet their hypotheses.

A case is one-dimensional: C = [low, high], a few losses l_i with lambda <= l_i'' <= beta on the whole line, a batch of
one (each loss alike often) or the full batch.  The law of theta_k, projections included, comes from repeated
Gauss-Legendre quadrature: masses on the nodes, and one on each end of C.  Nothing is drawn at random but the cases.

More dimensions need no cases of their own: losses that are sums over coordinates on a box C, with batches in common,
have risks that add up, and so do E|theta_0 - theta*|^2, xi^2 and d sigma^2, each term of equations 7 and 11.  Where
the dimension d enters K alone (Theorem 4.2), C = [low, high] x {0}^(d-1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.optimize import brentq
from scipy.special import ndtr, spence

from dplangevin.analyses.counterexample import epsilon_of
from dplangevin.analyses.langevin import Setting
from dplangevin.analyses.mechanisms import dp_sgd
from dplangevin.attacks.quadrature import last_iterate_distributions, renyi
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import LangevinDpEvent
from dplangevin.random import generator

BEND = 0.1  # width over which a loss's second derivative changes from its left to its right value


@dataclass(frozen=True)
class Losses:
    """l_i'(x) = a_i u + (b_i - a_i) w (ln(1 + e^(u/w)) - ln 2) + tilt, u = x - c_i, w = `BEND`, on C = [low, high].

    l_i'' lies between a_i (far left of c_i) and b_i (far right).  left, right, centre: a, b, c, (k,).  strength,
    smoothness: lambda and beta, the ends of the interval that holds all a and b.
    """

    left: np.ndarray
    right: np.ndarray
    centre: np.ndarray
    low: float
    high: float
    strength: float
    smoothness: float
    tilt: float = 0.0

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """l_i'(x), (k, len(x))."""
        u = np.atleast_1d(x)[None] - self.centre[:, None]
        bend = BEND * (np.logaddexp(0, u / BEND) - math.log(2))
        return self.left[:, None] * u + (self.right - self.left)[:, None] * bend + self.tilt

    def mean_loss(self, x: np.ndarray) -> np.ndarray:
        """(1/k) sum_i l_i(x), up to a constant, (len(x),); the integral of ln(1 + e^v) is -Li_2(-e^v)."""
        u = np.atleast_1d(x)[None] - self.centre[:, None]
        bend = -(BEND**2) * spence(1 + np.exp(u / BEND)) - BEND * math.log(2) * u
        values = self.left[:, None] * u**2 / 2 + (self.right - self.left)[:, None] * bend + self.tilt * u
        return np.asarray(values.mean(axis=0))

    def slope(self, x: float) -> float:
        """Derivative of the mean loss."""
        return float(self.gradients(np.array([x])).mean())

    def minimiser(self) -> float:
        """theta*, the minimiser of the mean loss in C."""
        if self.slope(self.low) >= 0:
            return self.low
        return self.high if self.slope(self.high) <= 0 else float(brentq(self.slope, self.low, self.high))

    def lipschitz(self) -> float:
        """The smallest L on C: gradients are increasing, so the largest one lies at an end."""
        return float(np.abs(self.gradients(np.array([self.low, self.high]))).max())

    def batches(self, x: np.ndarray, batch: str) -> np.ndarray:
        """Gradients of the equally likely batches, (batches, len(x)); batch: "1" or "full"."""
        each = self.gradients(x)
        return each.mean(axis=0, keepdims=True) if batch == "full" else each

    def xi2(self, batch: str) -> float:
        """xi^2 = E|grad L_B(theta*)|^2."""
        return float((self.batches(np.array([self.minimiser()]), batch) ** 2).mean())


class Chain:
    """The laws of theta_0, theta_1, ... of Algorithm 1 on `losses`, as masses on `points`."""

    def __init__(self, losses: Losses, noise_std: float, batch: str, nodes: int) -> None:
        x, weight = leggauss(nodes)
        half, middle = (losses.high - losses.low) / 2, (losses.high + losses.low) / 2
        self.points = np.concatenate([[losses.low], middle + half * x, [losses.high]])
        self.weight = half * weight
        self.noise_std = noise_std
        self.gradients = losses.batches(self.points, batch)
        start = noise_std * math.sqrt(2 / losses.strength)
        self.mass = self.projected(np.zeros(1), start)[0]
        self._last: tuple[float, np.ndarray] | None = None

    def projected(self, mean: np.ndarray, std: float) -> np.ndarray:
        """Masses of Proj_C N(mean, std^2), (len(mean), points)."""
        away = (self.points - mean[:, None]) / std
        masses = np.empty_like(away)
        masses[:, 1:-1] = self.weight * np.exp(-0.5 * away[:, 1:-1] ** 2) / (std * math.sqrt(2 * math.pi))
        masses[:, 0], masses[:, -1] = ndtr(away[:, 0]), ndtr(-away[:, -1])
        return masses

    def step(self, eta: float) -> np.ndarray:
        """The masses after one more step of size eta."""
        if self._last is None or self._last[0] != eta:
            std = math.sqrt(2 * eta) * self.noise_std
            each = [self.projected(self.points - eta * gradient, std) for gradient in self.gradients]
            self._last = (eta, np.mean(each, axis=0))
        self.mass = self.mass @ self._last[1]
        return self.mass


@dataclass(frozen=True)
class Risks:
    """E|theta_0 - theta*|^2 and the excess risks E[L(theta_k)] - L(theta*) of k = 1, ..., K, (K,)."""

    start: float
    excess: np.ndarray


def risks(losses: Losses, etas: np.ndarray, noise_std: float, batch: str, nodes: int) -> Risks:
    chain = Chain(losses, noise_std, batch, nodes)
    best = losses.minimiser()
    above = losses.mean_loss(chain.points) - losses.mean_loss(np.array([best]))[0]
    start = float(chain.mass @ (chain.points - best) ** 2)
    return Risks(start, np.array([float(chain.step(float(eta)) @ above) for eta in etas]))


def constant_steps(losses: Losses, steps: int, share: float = 1.0) -> np.ndarray:
    """`share` of the largest step 1/(2 beta), (steps,)."""
    return np.full(steps, share / (2 * losses.smoothness))


def decreasing_steps(losses: Losses, steps: int) -> np.ndarray:
    """eta_k = 1/(2 beta + lambda k/2), k = 0, ..., K - 1."""
    return 1 / (2 * losses.smoothness + losses.strength / 2 * np.arange(steps))


def equation_7(losses: Losses, start: float, eta: float, steps: int, noise_std: float, batch: str) -> float:
    """(beta/2) E|theta_0 - theta*|^2 e^(-lambda eta K) + beta eta xi^2/(2 lambda) + beta sigma^2/lambda, d = 1."""
    condition = losses.smoothness / losses.strength
    first = losses.smoothness / 2 * start * math.exp(-losses.strength * eta * steps)
    return first + condition * (eta * losses.xi2(batch) / 2 + noise_std**2)


def equation_11(losses: Losses, start: float, steps: int, noise_std: float, batch: str) -> float:
    """(2 beta/K) E|theta_0 - theta*|^2 + 4 xi^2/(K lambda) ln(1 + lambda K/(4 beta)) + 2 sigma^2, d = 1."""
    strength, smoothness = losses.strength, losses.smoothness
    noisy = 4 * losses.xi2(batch) / (steps * strength) * math.log1p(strength * steps / (4 * smoothness))
    return 2 * smoothness / steps * start + noisy + 2 * noise_std**2


def rounds(condition: float, strength: float, schedule: str) -> int:
    """K of Theorem 4.1 (constant), 2 kappa ln q, and of Theorem 4.2 (decreasing), max(kappa q, q^2/kappa), rounded up;
    kappa: `condition`, q = epsilon n^2/(alpha d): `strength`."""
    if schedule == "constant":
        return max(1, math.ceil(2 * condition * math.log(strength)))
    return math.ceil(max(condition * strength, strength**2 / condition))


def lemma_bounds(condition: float, strength: float) -> tuple[float, float]:
    """The bounds of equations 7 and 11 in units of L^2/lambda, at sigma and K of Theorems 4.1 and 4.2, |theta_0 -
    theta*| = 2L/lambda; without xi in the first, xi = L in the second; d sigma^2 = 4 L^2/(lambda q)."""
    constant = condition * (2 / strength + 4 / strength)
    steps = max(condition * strength, strength**2 / condition)
    noisy = 4 / steps * math.log1p(steps / (4 * condition))
    return constant, 8 * condition / steps + noisy + 8 / strength


def gaussian_renyi(contractions: np.ndarray) -> float:
    """R_alpha/alpha in units of L^2/(lambda n^2 sigma^2) of theta_K, full batches, on (lambda/2) theta^2 -+ L theta.

    contractions: eta_k lambda, (K,).  theta_K is Gaussian: the means are 2L/(n lambda) (1 - prod(1 - eta_k lambda))
    apart; sigma^2/lambda times v is the variance, v <- (1 - eta lambda)^2 v + 2 eta lambda from 2.  Projections are
    post-processing and left out, so this is the largest over all radii of C.
    """
    kept, variance = 1.0, 2.0
    for contraction in contractions:
        kept *= 1 - contraction
        variance = (1 - contraction) ** 2 * variance + 2 * contraction
    return 2 * (1 - kept) ** 2 / variance


@dataclass(frozen=True)
class Bounds:
    """Units name a group of statements.  Columns: kind, case, quantity, batch, schedule, records, condition (beta/
    lambda), step (eta beta), steps, x, exact, bound, ratio (exact/bound), note; where a cell says nothing it is empty.

    conditions: beta/lambda of the random cases, `cases` each, of `losses` losses.  noises: sigma.  shares: of the
    largest step 1/(2 beta).  steps: K at which risks are read.  pushes: gradient at a minimiser on the boundary, in
    units of lambda times the width of C, which is 1.  edge_steps: eta lambda there.  edge_noise: sigma there.  order,
    epsilon, delta: of Section 4.  records: n of constant and of decreasing steps, used where K is at most `longest`.
    privacy: the pair of data sets (lipschitz, radius; lambda = 1), its n and, for Theorem 4.2, d (records, dimension).
    table4: settings of Table 4 (smoothness, l2, records, parameters, classes, order).  budget: DP-SGD's setting, noise
    multiplier and batch.
    """

    conditions: Sequence[float]
    cases: int
    losses: int
    noises: Sequence[float]
    shares: Sequence[float]
    steps: Sequence[int]
    pushes: Sequence[float]
    edge_steps: Sequence[float]
    edge_noise: float
    nodes: int
    order: float
    epsilon: float
    delta: float
    records: Mapping[str, Sequence[int]]
    longest: int
    privacy: Mapping[str, Any]
    table4: Mapping[str, Mapping[str, float]]
    budget: Mapping[str, Any]

    def units(self) -> list[str]:
        groups = [f"{kind}/{condition:g}" for kind in ("risk", "utility") for condition in self.conditions]
        return [*groups, "boundary", "privacy", "sobolev", "full_batch", "formulas", "budget"]

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        kind, _, condition = unit.partition("/")
        if condition:
            cases = self.random_cases(float(condition), seed)
            found = self._risk(cases) if kind == "risk" else self._utility(cases[0])
        else:
            found = getattr(self, f"_{kind}")()
        return [_row(**entry) for entry in found]

    def random_cases(self, condition: float, seed: int) -> list[Losses]:
        """lambda = 1, C = [-2, 2], centres in [-.5, .5], so that theta* lies inside; one loss has both ends of [lambda,
        beta] for its second derivative."""
        rng = np.random.default_rng(generator(seed, f"ryffel2022_bounds/{condition:g}").initial_seed())
        cases = []
        for _ in range(self.cases):
            left, right = rng.uniform(1.0, condition, (2, self.losses))
            left[0], right[0] = 1.0, condition
            centre = rng.uniform(-0.5, 0.5, self.losses)
            cases.append(Losses(left, right, centre, -2.0, 2.0, 1.0, condition))
        return cases

    def _risk(self, cases: Sequence[Losses]) -> Iterator[dict[str, Any]]:
        longest = max(self.steps)
        for number, losses in enumerate(cases):
            for noise, batch in ((noise, batch) for noise in self.noises for batch in ("1", "full")):
                common: dict[str, Any] = {"kind": "risk", "case": f"inside {number}", "batch": batch}
                common["condition"] = losses.smoothness / losses.strength
                for share in self.shares:
                    found = risks(losses, constant_steps(losses, longest, share), noise, batch, self.nodes)
                    yield from _lemmas(losses, found, share, noise, batch, self.steps, common)
                found = risks(losses, decreasing_steps(losses, longest), noise, batch, self.nodes)
                for steps in self.steps:
                    yield {
                        **common,
                        "quantity": "equation 11",
                        "schedule": "decreasing",
                        "steps": steps,
                        "exact": float(found.excess[:steps].mean()),
                        "bound": equation_11(losses, found.start, steps, noise, batch),
                    }

    def _boundary(self) -> Iterator[dict[str, Any]]:
        """(lambda/2) theta^2 + G theta on C = [-1, 0], G = lambda (1 + push): theta* = -1, where the gradient is push
        lambda; theta_0 is close to 0 or at it."""
        one = np.ones(1)
        for push in self.pushes:
            losses = Losses(one, one, 0 * one, -1.0, 0.0, 1.0, 1.0, tilt=1.0 + push)
            for size in self.edge_steps:
                common: dict[str, Any] = {
                    "kind": "risk",
                    "case": f"boundary, gradient {push:g}",
                    "batch": "full",
                }
                etas = np.full(max(self.steps), size)
                found = risks(losses, etas, self.edge_noise, "full", self.nodes)
                common["condition"] = 1.0
                yield from _lemmas(losses, found, 2 * size, self.edge_noise, "full", self.steps, common)

    def _tuned(self, kind: str, lipschitz: float, records: float) -> tuple[float, float, float]:
        """sigma with lambda = 1, the q of `rounds` with d = 1, and the O of Theorem 4.2 over L^2 d/lambda.

        kind "Renyi": sigma^2 = 4 L^2/q, q = eps n^2/alpha, O = 1/q.  "(epsilon, delta)": sigma^2 = 8 L^2 (eps + 2
        ln(1/delta))/(eps n)^2, q = (eps n)^2/(4 ln(1/delta)), O = 8 ln(1/delta)/(eps n)^2, the 8 being the proof's."""
        if kind == "Renyi":
            q = self.epsilon * records**2 / self.order
            return math.sqrt(4 / q) * lipschitz, q, 1 / q
        log = -math.log(self.delta)
        squared = (self.epsilon * records) ** 2
        noise = math.sqrt(8 * (self.epsilon + 2 * log) / squared) * lipschitz
        return noise, squared / (4 * log), 8 * log / squared

    def _utility(self, losses: Losses) -> Iterator[dict[str, Any]]:
        """Excess risks at sigma and K of Section 4 against the bounds with the constants of the proofs, 6 and 18."""
        lipschitz, condition = losses.lipschitz(), losses.smoothness / losses.strength
        schedules = [(schedule, n) for schedule, listed in self.records.items() for n in listed]
        for (schedule, records), kind in product(schedules, ("Renyi", "(epsilon, delta)")):
            noise, q, rate = self._tuned(kind, lipschitz, records)
            if q <= 1 or rounds(condition, q, schedule) > self.longest:
                continue
            steps, scale = rounds(condition, q, schedule), lipschitz**2 / losses.strength * rate
            for batch in ("1", "full"):
                common: dict[str, Any] = {"kind": "utility", "case": "inside 0", "batch": batch}
                common |= {"schedule": schedule, "records": records, "condition": condition}
                common |= {"steps": steps, "x": records}
                if schedule == "constant":
                    found = risks(losses, constant_steps(losses, steps), noise, batch, self.nodes)
                    common["bound"] = 6 * condition * scale + losses.xi2(batch) / (4 * losses.strength)
                else:  # broad steps, each with a kernel of its own
                    found = risks(losses, decreasing_steps(losses, steps), noise, batch, self.nodes // 2)
                    common["bound"] = 18 * scale
                    yield {**common, "quantity": f"{kind}, average", "exact": float(found.excess.mean())}
                yield {**common, "quantity": f"{kind}, last iterate", "exact": float(found.excess[-1])}

    def _privacy(self) -> Iterator[dict[str, Any]]:
        """The pair of `counterexample` (flat), at sigma and K of Section 4, beta = lambda = 1."""
        lipschitz = self.privacy["lipschitz"]
        for schedule, (kind, records) in product(("constant", "decreasing"), self.privacy["records"].items()):
            noise, q, _ = self._tuned(kind, lipschitz, records)
            d = self.privacy["dimension"][kind] if schedule == "decreasing" else 1
            steps = rounds(1.0, q / d, schedule)
            for batch in ("1", "full"):
                event = LangevinDpEvent(
                    records=records,
                    batch=1 if batch == "1" else records,
                    steps=steps,
                    step_size=0.5,
                    noise_std=noise,
                    lipschitz=lipschitz,
                    strong_convexity=1.0,
                    smoothness=1.0,
                    decay=0.5 if schedule == "decreasing" else 0.0,
                )
                radius = self.privacy["radius"]
                pair = last_iterate_distributions(event, project=radius, others="flat", nodes=self.nodes)
                yield {
                    "kind": "privacy",
                    "case": f"d = {d:g}",
                    "quantity": kind,
                    "batch": batch,
                    "schedule": schedule,
                    "records": records,
                    "condition": 1.0,
                    "steps": steps,
                    "exact": renyi(pair, self.order) if kind == "Renyi" else epsilon_of(pair, self.delta),
                    "bound": self.epsilon,
                }

    def _sobolev(self) -> Iterator[dict[str, Any]]:
        """Var(theta_k) against 1/c = 2 sigma^2/lambda: a law with a log-Sobolev inequality of constant c has a variance
        of at most 1/c (Poincare, f the identity).  Two losses (theta -+ 1/2)^2/2 on [-1, 1], eta = 1/2."""
        one = np.ones(2)
        losses = Losses(one, one, np.array([-0.5, 0.5]), -1.0, 1.0, 1.0, 1.0)
        noise = min(self.noises)
        for batch in ("1", "full"):
            chain = Chain(losses, noise, batch, self.nodes)
            for step in range(1, max(self.steps) + 1):
                mass = chain.step(0.5)
                mean = float(mass @ chain.points)
                if step in self.steps:
                    yield {
                        "kind": "sobolev",
                        "quantity": "variance",
                        "batch": batch,
                        "schedule": "constant",
                        "records": 2,
                        "condition": 1.0,
                        "step": 0.5,
                        "steps": step,
                        "exact": float(mass @ (chain.points - mean) ** 2),
                        "bound": 2 * noise**2,
                    }

    def _full_batch(self) -> Iterator[dict[str, Any]]:
        """Renyi divergences over alpha, in units of L^2/(lambda n^2 sigma^2)."""
        for contraction in (0.5, 0.1, 0.001):
            common = {"kind": "full_batch", "batch": "full", "schedule": "constant", "step": contraction}
            limit = 2 - contraction  # 2/v at the stationary variance v = 2/(2 - eta lambda)
            for steps in (1, 2, 5, 10, 100, 1000, 10_000):
                exact = gaussian_renyi(np.full(steps, contraction))
                claimed = 4 * -math.expm1(-contraction * steps / 2)
                yield {**common, "quantity": "Theorem 3.1", "steps": steps, "exact": exact, "bound": claimed}
                gap, bound = 1 - exact / limit, 3 * math.exp(-contraction * steps)
                if bound > 1e-12:  # above rounding
                    yield {**common, "quantity": "gap", "steps": steps, "exact": gap, "bound": bound}
        for condition in (1.0, 10.0, 1000.0):
            for steps in (1, 2, 5, 10, 100, 1000, 10_000):
                contractions = 1 / (2 * condition + np.arange(steps) / 2)
                claimed = 4 * steps / (4 * condition + steps)
                common = {"kind": "full_batch", "batch": "full", "schedule": "decreasing", "steps": steps}
                common |= {"condition": condition, "bound": claimed}
                yield {**common, "quantity": "Corollary 3.3", "exact": gaussian_renyi(contractions)}
                for first, name in ((1, "sum over k = 1, ..., K"), (0, "sum over k = 0, ..., K - 1")):
                    total = float((1 / (2 * condition + np.arange(first, steps + first) / 2)).sum())
                    yield {**common, "quantity": name, "exact": 4 * -math.expm1(-total / 2)}

    def _formulas(self) -> Iterator[dict[str, Any]]:
        """What follows from the printed formulas alone: epsilon over alpha L^2/(n^2 sigma^2) with lambda = 1."""
        beta = 1e8
        for x in (1e-6, 1e-3, 1e3, 1e6):  # K lambda/beta
            steps = x * beta
            formula = {"constant": 4 * -math.expm1(-x / 4), "decreasing": 4 * x / (4 + x)}
            for schedule, exact in formula.items():
                common = {"kind": "limit", "schedule": schedule, "condition": beta, "x": x, "exact": exact}
                yield {**common, "quantity": "small K", "bound": steps / beta}
                yield {**common, "quantity": "composition", "bound": steps / (2 * beta)}
                yield {**common, "quantity": "large K", "bound": 4.0}
        for q in (10.0, 1e3, 1e6):
            for condition in (1.0, 10.0, 100.0, 1e3, 1e4, 1e5):
                first, second = lemma_bounds(condition, q)
                common = {"kind": "improvement", "case": f"q = {q:g}", "condition": condition, "x": condition}
                yield {**common, "quantity": "factor", "exact": first / second, "bound": condition}
                yield {**common, "quantity": "Theorem 4.1", "exact": first, "bound": 6 * condition / q}
                yield {**common, "quantity": "Theorem 4.2", "exact": second, "bound": 18 / q}
                # stationary risk of (h/2) theta^2 over d sigma^2, eta = 1/(2 beta), the worst h in [lambda, beta]
                floor = max(1 / (2 - share / 2) for share in (1 / condition, 1.0))
                if q == 10.0:
                    yield {**common, "case": "", "quantity": "floor", "exact": floor, "bound": condition}
        for condition in (10.0,):
            for q in (condition**2 * 4.0**power for power in (-3, -2, -1, 0, 1, 2, 3)):
                side = "below" if q <= condition**2 else "above"
                common = {"kind": "regime", "case": side, "condition": condition, "x": math.sqrt(q)}
                steps = max(condition * q, q**2 / condition)
                yield {**common, "quantity": "K", "exact": steps}
                if q == condition**2:
                    yield {**common, "case": "above", "quantity": "K", "exact": steps}
        for name, given in self.table4.items():
            condition = given["smoothness"] / given["l2"]
            for dimension in ("parameters", "classes"):
                for scale in (1.0, 1.1):
                    n = given["records"] * scale
                    q = n**2 / (given["order"] * given[dimension])
                    yield {
                        "kind": "regime",
                        "case": f"{name}, d = {dimension}",
                        "quantity": "K, Table 4",
                        "condition": condition,
                        "x": n,
                        "exact": max(condition * q, q**2 / condition),
                        "note": f"ratio {q / condition**2:.2g}",
                    }

    def _budget(self) -> Iterator[dict[str, Any]]:
        setting: Setting = self.budget["setting"]
        event = dp_sgd(
            records=setting.records,
            batch=self.budget["batch"],
            epochs=setting.epochs,
            noise_multiplier=self.budget["noise_multiplier"],
        )
        for delta in (self.delta, setting.delta):
            for neighbours in ("add_remove", "replace_one"):
                yield {
                    "kind": "budget",
                    "case": neighbours,
                    "quantity": "DP-SGD, Pneumonia",
                    "batch": str(self.budget["batch"]),
                    "records": setting.records,
                    "steps": setting.steps(self.budget["batch"]),
                    "x": delta,
                    "exact": Tight().epsilon(event, delta, neighbours),
                    "bound": self.epsilon,
                }


def _lemmas(
    losses: Losses,
    found: Risks,
    share: float,
    noise: float,
    batch: str,
    counts: Sequence[int],
    common: Mapping[str, Any],
) -> Iterator[dict[str, Any]]:
    """Excess risks of constant steps against equation 7 and Lemma 4.1, whose start is 4 L^2/lambda^2."""
    eta = share / (2 * losses.smoothness)
    widest = (2 * losses.lipschitz() / losses.strength) ** 2
    for steps in counts:
        row = {**common, "schedule": "constant", "step": share / 2, "steps": steps}
        row["exact"] = float(found.excess[steps - 1])
        for quantity, start in (("equation 7", found.start), ("Lemma 4.1", widest)):
            bound = equation_7(losses, start, eta, steps, noise, batch)
            yield {**row, "quantity": quantity, "bound": bound}


def _row(
    *,
    kind: str,
    quantity: str,
    exact: float,
    case: str = "",
    batch: str = "",
    schedule: str = "",
    records: float = math.nan,
    condition: float = math.nan,
    step: float = math.nan,
    steps: float = math.nan,
    x: float = math.nan,
    bound: float = math.nan,
    note: str = "",
) -> dict[str, Any]:
    place = {"kind": kind, "case": case, "quantity": quantity, "batch": batch, "schedule": schedule}
    size = {"records": records, "condition": condition, "step": step, "steps": steps, "x": x}
    return {**place, **size, "exact": exact, "bound": bound, "ratio": exact / bound, "note": note}
