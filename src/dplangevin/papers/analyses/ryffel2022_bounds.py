"""The bounds of ryffel2022 against exact cases that meet their hypotheses.

The bounds are Proposition 2.1, Lemmas 3.1 to 3.3, the theorem under c-LSI, Theorem 3.1 on full batches, the
limits and the side note of Section 3.3, and all of Section 4.

Each case is one-dimensional. C = [low, high], and there are a few losses l_i with lambda <= l_i'' <= beta on
the whole line. A batch is one loss, each with equal probability, or the full batch. The law of theta_k,
projections included, comes from repeated Gauss-Legendre quadrature. It has masses on the nodes and one mass
on each end of C. Only the choice of cases is random.

One dimension is enough. Take losses that are sums over coordinates on a box C, with batches in common. Then
the risks add up over coordinates, and so do E|theta_0 - theta*|^2, xi^2 and d sigma^2, the terms of equations
7 and 11. Where the dimension d enters only through K (Theorem 4.2), C = [low, high] x {0}^(d-1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, get_args

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.optimize import brentq, minimize
from scipy.special import expit, ndtr, spence

from dplangevin.attacks.langevin import Others
from dplangevin.attacks.quadrature import epsilon_of, last_iterate_distributions, renyi
from dplangevin.papers.analyses.langevin import Setting
from dplangevin.papers.analyses.mechanisms import dp_sgd
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of as gaussian_epsilon
from dplangevin.privacy.accountants.ryffel2022 import Ryffel2022
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import LangevinDpEvent
from dplangevin.random import generator

ROUNDED = 1e-12  # smallest reported relative difference of two sides of an equation; rounding explains it
BEND = 0.1  # width over which a loss's second derivative changes from its left to its right value


@dataclass(frozen=True)
class Losses:
    """Losses on C = [low, high] whose second derivatives lie in [lambda, beta].

    With u = x - c_i and w = `BEND`, l_i'(x) = a_i u + (b_i - a_i) w (ln(1 + e^(u/w)) - ln 2) + tilt. So l_i''
    lies between a_i (far left of c_i) and b_i (far right).

    Attributes
    ----------
    left, right, centre : a, b and c, (k,) each.
    low, high : the ends of C.
    strength, smoothness : lambda and beta, the ends of the interval that contains all a and b.
    tilt : constant that is added to every l_i'.
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
        """Return l_i'(x), (k, len(x))."""
        u = np.atleast_1d(x)[None] - self.centre[:, None]
        bend = BEND * (np.logaddexp(0, u / BEND) - math.log(2))
        return self.left[:, None] * u + (self.right - self.left)[:, None] * bend + self.tilt

    def mean_loss(self, x: np.ndarray) -> np.ndarray:
        """Return (1/k) sum_i l_i(x), up to a constant, (len(x),).

        The integral of ln(1 + e^v) is -Li_2(-e^v).
        """
        u = np.atleast_1d(x)[None] - self.centre[:, None]
        bend = -(BEND**2) * spence(1 + np.exp(u / BEND)) - BEND * math.log(2) * u
        values = self.left[:, None] * u**2 / 2 + (self.right - self.left)[:, None] * bend + self.tilt * u
        return np.asarray(values.mean(axis=0))

    def slope(self, x: float) -> float:
        """Return the derivative of the mean loss."""
        return float(self.gradients(np.array([x])).mean())

    def minimiser(self) -> float:
        """Return theta*, the minimiser of the mean loss in C."""
        if self.slope(self.low) >= 0:
            return self.low
        return self.high if self.slope(self.high) <= 0 else float(brentq(self.slope, self.low, self.high))

    def lipschitz(self) -> float:
        """Return the smallest L on C: gradients increase with x, so the largest one is at an end."""
        return float(np.abs(self.gradients(np.array([self.low, self.high]))).max())

    def batches(self, x: np.ndarray, batch: str) -> np.ndarray:
        """Return the gradients of the equally likely batches, (batches, len(x)); batch: "1" or "full"."""
        each = self.gradients(x)
        return each.mean(axis=0, keepdims=True) if batch == "full" else each

    def xi2(self, batch: str) -> float:
        """Return xi^2 = E|grad L_B(theta*)|^2."""
        return float((self.batches(np.array([self.minimiser()]), batch) ** 2).mean())


class Chain:
    """The laws of theta_0, theta_1, ... of Algorithm 1 on `losses`, as masses on `points`.

    Parameters
    ----------
    losses : the losses; a batch is drawn from them.
    noise_std : sigma.
    batch : "1" or "full".
    nodes : quadrature nodes on C.
    """

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
        """Return the masses of Proj_C N(mean, std^2), (len(mean), points)."""
        away = (self.points - mean[:, None]) / std
        masses = np.empty_like(away)
        masses[:, 1:-1] = self.weight * np.exp(-0.5 * away[:, 1:-1] ** 2) / (std * math.sqrt(2 * math.pi))
        masses[:, 0], masses[:, -1] = ndtr(away[:, 0]), ndtr(-away[:, -1])
        return masses

    def step(self, eta: float) -> np.ndarray:
        """Take one more step of size eta and return the masses after it."""
        if self._last is None or self._last[0] != eta:
            std = math.sqrt(2 * eta) * self.noise_std
            each = [self.projected(self.points - eta * gradient, std) for gradient in self.gradients]
            self._last = (eta, np.mean(each, axis=0))
        self.mass = self.mass @ self._last[1]
        return self.mass


@dataclass(frozen=True)
class Risks:
    """The exact risks of one run.

    Attributes
    ----------
    start : E|theta_0 - theta*|^2.
    excess : excess risks E[L(theta_k)] - L(theta*) for k = 1, ..., K, (K,).
    """

    start: float
    excess: np.ndarray


def risks(losses: Losses, etas: np.ndarray, noise_std: float, batch: str, nodes: int) -> Risks:
    """Compute the exact risks of Algorithm 1 with step sizes `etas`, (K,); see `Chain` for the others."""
    chain = Chain(losses, noise_std, batch, nodes)
    best = losses.minimiser()
    above = losses.mean_loss(chain.points) - losses.mean_loss(np.array([best]))[0]
    start = float(chain.mass @ (chain.points - best) ** 2)
    return Risks(start, np.array([float(chain.step(float(eta)) @ above) for eta in etas]))


def constant_steps(losses: Losses, steps: int, share: float = 1.0) -> np.ndarray:
    """Return constant step sizes, `share` of the largest step 1/(2 beta), (steps,)."""
    return np.full(steps, share / (2 * losses.smoothness))


def decreasing_steps(losses: Losses, steps: int) -> np.ndarray:
    """Return eta_k = 1/(2 beta + lambda k/2) for k = 0, ..., K - 1."""
    return 1 / (2 * losses.smoothness + losses.strength / 2 * np.arange(steps))


def equation_7(losses: Losses, start: float, eta: float, steps: int, noise_std: float, batch: str) -> float:
    """Return the bound of equation 7, for constant steps and d = 1.

    (beta/2) E|theta_0 - theta*|^2 e^(-lambda eta K) + beta eta xi^2/(2 lambda) + beta sigma^2/lambda. start:
    E|theta_0 - theta*|^2.
    """
    condition = losses.smoothness / losses.strength
    first = losses.smoothness / 2 * start * math.exp(-losses.strength * eta * steps)
    return first + condition * (eta * losses.xi2(batch) / 2 + noise_std**2)


def equation_11(losses: Losses, start: float, steps: int, noise_std: float, batch: str) -> float:
    """Return the bound of equation 11, for decreasing steps and d = 1.

    (2 beta/K) E|theta_0 - theta*|^2 + 4 xi^2/(K lambda) ln(1 + lambda K/(4 beta)) + 2 sigma^2. start:
    E|theta_0 - theta*|^2.
    """
    strength, smoothness = losses.strength, losses.smoothness
    noisy = 4 * losses.xi2(batch) / (steps * strength) * math.log1p(strength * steps / (4 * smoothness))
    return 2 * smoothness / steps * start + noisy + 2 * noise_std**2


def rounds(condition: float, strength: float, schedule: str) -> int:
    """Return K of Theorem 4.1 (schedule "constant") or Theorem 4.2 ("decreasing"), rounded up.

    K is 2 kappa ln q in Theorem 4.1 and max(kappa q, q^2/kappa) in Theorem 4.2. kappa: `condition`.
    q = epsilon n^2/(alpha d): `strength`.
    """
    if schedule == "constant":
        return max(1, math.ceil(2 * condition * math.log(strength)))
    return math.ceil(max(condition * strength, strength**2 / condition))


def lemma_bounds(condition: float, strength: float) -> tuple[float, float]:
    """Return the bounds of equations 7 and 11 in units of L^2/lambda, at sigma and K of Theorems 4.1 and 4.2.

    |theta_0 - theta*| = 2L/lambda and d sigma^2 = 4 L^2/(lambda q). The first bound leaves xi out; the second
    has xi = L.
    """
    constant = condition * (2 / strength + 4 / strength)
    steps = max(condition * strength, strength**2 / condition)
    noisy = 4 / steps * math.log1p(steps / (4 * condition))
    return constant, 8 * condition / steps + noisy + 8 / strength


def gaussian_renyi(contractions: np.ndarray) -> float:
    """Compute R_alpha/alpha of theta_K for full batches, in units of L^2/(lambda n^2 sigma^2).

    The losses are (lambda/2) theta^2 -+ L theta. theta_K is Gaussian. Its two means differ by 2L/(n lambda)
    (1 - prod(1 - eta_k lambda)). Its variance is sigma^2/lambda times v, where v starts at 2 and v <-
    (1 - eta lambda)^2 v + 2 eta lambda. Projections are post-processing and are left out, so this is the
    largest value over all radii of C.

    Parameters
    ----------
    contractions : eta_k lambda, (K,).
    """
    kept, variance = 1.0, 2.0
    for contraction in contractions:
        kept *= 1 - contraction
        variance = (1 - contraction) ** 2 * variance + 2 * contraction
    return 2 * (1 - kept) ** 2 / variance


def every_constant(event: LangevinDpEvent, order: float) -> float:
    """Return the largest epsilon of the theorem under c-LSI over all c > 0.

    It is 2 alpha L^2 T/(n^2 sigma^2) with T = sum_k eta_k. The theorem's 2 alpha L^2/(c n^2 sigma^4)
    (1 - e^(-sigma^2 c T)) increases to it as c decreases to 0.
    """
    share = event.lipschitz / (event.records * event.noise_std)
    return 2 * order * share**2 * float(event.step_sizes().sum())


def gaussian_dynamics(contraction: float, start: float, steps: int) -> tuple[float, float]:
    """Compute R_alpha of theta_K and the epsilon of the theorem under c-LSI, both divided by alpha L^2/n^2.

    The case has eta = sigma = 1 and full batches. The losses are (h/2) theta^2 -+ L theta. C is so wide that
    its ends do not matter, and h theta is small beside L. All laws are Gaussian, so c is 1 over the largest
    variance. Between two steps the variance of the tracing diffusion is convex in time. It starts below the
    variance at the first of the two steps. So it is largest at a step.

    Parameters
    ----------
    contraction : h in [0, 2).
    start : variance of theta_0.
    steps : K.
    """
    apart, variance, widest = 0.0, start, start
    for _ in range(steps):
        apart = (1 - contraction) * apart + 2
        variance = (1 - contraction) ** 2 * variance + 2
        widest = max(widest, variance)
    return apart**2 / (2 * variance), 2 * widest * -math.expm1(-steps / widest)


def largest_constant(centres: np.ndarray, weights: np.ndarray, std: float, nodes: int = 4001) -> float:
    """Return an upper bound on c for a mixture of two Gaussians that is c-LSI.

    The bound is 2 E[f'^2]/Ent(f^2) by Definition 3.2, for the best of several functions f. Each f rises from
    0 between two points and is constant elsewhere. Where it rises, f' is inversely proportional to the
    density.

    Parameters
    ----------
    centres, weights : of the two Gaussians, (2,), ascending.
    std : of both.
    nodes : lattice points of the integrals.
    """
    low, high = centres
    x, width = np.linspace(low - 10 * std, high + 10 * std, nodes, retstep=True)
    density = np.exp(-0.5 * ((x - centres[:, None]) / std) ** 2).T @ weights / (std * math.sqrt(2 * math.pi))
    best = math.inf
    for begin, end in product(np.linspace(low, high, 21), np.linspace(low, high + 3 * std, 21)):
        if end - begin <= std:
            continue
        slope = ((x > begin) & (x < end)) / density
        f = np.cumsum(slope)
        slope, square = slope / (f[-1] * width), (f / f[-1]) ** 2
        mean = float(density @ square) * width
        logs = np.log(square, out=np.zeros_like(square), where=square > 0)
        entropy = float(density @ (square * logs)) * width - mean * math.log(mean)
        best = min(best, 2 * float(density @ slope**2) * width / entropy)
    return best


def fokker_planck(
    starts: np.ndarray, drifts: np.ndarray, mass: np.ndarray, diffusion: float, time: float, at: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute both sides of the equation of Lemma 3.1 at the points `at`.

    The law is that of start - time drift + N(0, 2 time diffusion), where (start, drift) is one of (starts,
    drifts). Derivatives are complex steps.

    Parameters
    ----------
    starts, drifts, mass : the atoms and their probabilities, (atoms,) each.
    diffusion : sigma^2.
    time : since the step began, > 0.
    at : (points,).
    """
    tiny = 1e-30

    def each(t: complex, x: np.ndarray) -> np.ndarray:
        """Return mass times density of every atom, (atoms, points)."""
        away = x - (starts - t * drifts)[:, None]
        scale = mass[:, None] / np.sqrt(4 * np.pi * diffusion * t)
        return np.asarray(scale * np.exp(-(away**2) / (4 * diffusion * t)))

    def slope(x: np.ndarray) -> np.ndarray:
        """Return the derivative of the density in x."""
        away = x - (starts - time * drifts)[:, None]
        return np.asarray((each(time, x) * -away / (2 * diffusion * time)).sum(axis=0))

    beside = at + tiny * 1j
    left = each(time + tiny * 1j, at.astype(complex)).sum(axis=0).imag / tiny
    density = each(time, beside)
    drift = (drifts @ density) / density.sum(axis=0)  # E[drift | theta]
    flow = (density.sum(axis=0) * drift).imag / tiny
    return left, flow + diffusion * slope(beside).imag / tiny


def shifted_renyi(order: float, time: float, radius: float, pull: float) -> float:
    """Compute R_order(Theta_t || Theta'_t) of two diffusions whose densities are shifts of each other.

    dTheta = -(pull Theta -+ 1/2) dt + sqrt(2) dW, from clip(N(0, 1), -radius, radius). So sigma = 1, and the
    gradients differ by S_g = 1.
    """
    kept, lasted = math.exp(-pull * time), _lasted(pull, time)
    noise = _lasted(2 * pull, time) * 2
    apart, end, total = lasted / 2, kept * radius, kept**2 + noise

    def log_density(theta: np.ndarray) -> np.ndarray:
        """Return the log-density of the law without its shift."""
        whole = np.exp(-(theta**2) / (2 * total)) / math.sqrt(2 * math.pi * total)
        if math.isinf(radius):
            return np.asarray(np.log(whole))
        mean, std = np.abs(theta) * kept**2 / total, kept * math.sqrt(noise / total)
        inner = whole * (ndtr((end - mean) / std) - ndtr((-end - mean) / std))
        atoms = sum(np.exp(-((theta - side) ** 2) / (2 * noise)) for side in (-end, end))
        return np.asarray(np.log(inner + ndtr(-radius) * atoms / math.sqrt(2 * math.pi * noise)))

    reach = 12 * math.sqrt(total) + 2 * order * apart
    theta, width = np.linspace(-reach, reach, 4001, retstep=True)
    log = order * log_density(theta - apart) + (1 - order) * log_density(theta + apart)
    return float(np.log(np.exp(log).sum() * width) / (order - 1))


def _lasted(rate: float, time: float) -> float:
    """Return the integral of e^(-rate s) over s from 0 to time."""
    return -math.expm1(-rate * time) / rate if rate else time


def renyi_dynamics(
    order: float, time: float, radius: float, pull: float, gamma: float
) -> tuple[float, float]:
    """Compute both sides of Lemma 3.2 for the diffusions of `shifted_renyi`.

    The left side is dR/dt + 2 (1 - gamma) sigma^2 c [R/alpha + (alpha - 1) dR/dalpha]. The lemma allows at
    most alpha S_g^2/(4 gamma sigma^2). The law is a 1-Lipschitz image of N(0, v) with v = e^(-2 pull t) + the
    variance of the noise. So it is c-LSI with c = 1/v.
    """
    small = 1e-4
    later, earlier = (shifted_renyi(order, time + sign * small, radius, pull) for sign in (1, -1))
    above, below = (shifted_renyi(order + sign * small, time, radius, pull) for sign in (1, -1))
    constant = 1 / (math.exp(-2 * pull * time) + 2 * _lasted(2 * pull, time))
    bracket = shifted_renyi(order, time, radius, pull) / order + (order - 1) * (above - below) / (2 * small)
    return (later - earlier) / (2 * small) + 2 * (1 - gamma) * constant * bracket, order / (4 * gamma)


def coins(order: float, delta: float, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the exact epsilon of pairs of coins and that of Proposition 2.1, for the worse direction.

    An event is a single outcome, because both outcomes together give no information.

    Parameters
    ----------
    order : alpha > 1.
    delta : in (0, 1).
    first, second : probabilities of heads of the two coins, in (0, 1).
    """
    directions = ((first, second), (second, first))
    sums = [p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order) for p, q in directions]
    outcomes = [pair for p, q in directions for pair in ((p, q), (1 - p, 1 - q))]
    exact = np.log(np.max([np.maximum((p - delta) / q, 1.0) for p, q in outcomes], axis=0))
    return exact, converted(np.log(np.maximum(*sums)) / (order - 1), order, delta)


def converted(divergence: Any, order: float, delta: float) -> Any:
    """Return the epsilon of Proposition 2.1 from R_order, of the same type as the divergence."""
    return divergence - math.log(delta) / (order - 1)


def minimiser(x: np.ndarray, margin: float, ridge: float) -> tuple[float, float]:
    """Return |theta*| and L_D(0) of a regularised logistic objective.

    The objective is the mean over records of ln(1 + e^(margin - <x_i, theta>)), plus (ridge/2) |theta|^2.
    Each loss is |x_i|-Lipschitz and positive.

    Parameters
    ----------
    x : records, (n, d).
    margin : constant in the exponent.
    ridge : lambda.
    """

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        off = margin - x @ theta
        value = np.logaddexp(0, off).mean() + ridge / 2 * theta @ theta
        return float(value), ridge * theta - x.T @ expit(off) / len(x)

    def hessian(theta: np.ndarray) -> np.ndarray:
        chance = expit(margin - x @ theta)
        return np.asarray((x.T * (chance * (1 - chance))) @ x / len(x) + ridge * np.eye(x.shape[1]))

    zero = np.zeros(x.shape[1])
    found = minimize(objective, zero, jac=True, hess=hessian, method="trust-exact", options={"gtol": 1e-10})
    return float(np.linalg.norm(found.x)), objective(zero)[0]


@dataclass(frozen=True)
class Bounds:
    """The exact cases of all statements, one task for each group of statements.

    The columns are kind, case, quantity, batch, schedule, records, condition (beta/lambda), step (eta beta),
    steps, x, exact, bound, ratio (exact/bound) and note. A column that does not apply is empty.

    Attributes
    ----------
    conditions : beta/lambda of the random cases.
    cases, losses : number of random cases for each condition, and of losses in each case.
    noises : sigma.
    shares : constant steps as shares of the largest step 1/(2 beta).
    steps : the K at which risks are computed.
    pushes : gradient at a minimiser on the boundary, in units of lambda times the width of C, which is 1.
    edge_steps, edge_noise : eta lambda and sigma of these boundary cases.
    nodes : quadrature nodes.
    order, epsilon, delta : of Section 4.
    records : schedule -> n; used if K is at most `longest`.
    longest : the largest K that is computed.
    privacy : the pair of data sets (lipschitz, radius; lambda = 1), its n (records) and, for Theorem 4.2, its
        d (dimension).
    table4 : settings of Table 4: smoothness, l2, records, parameters, classes, order; commands: schedule ->
        lambda of the authors' commands.
    budget : setting, noise multiplier and batch of DP-SGD.
    log_sobolev : noise_std and steps for the pair; contractions, starts and lengths for `gaussian_dynamics`.
    dynamics : arguments of `renyi_dynamics`.
    conversion : orders and deltas of Proposition 2.1, and distances of two Gaussians.
    minimisers : ridges and margins of `minimiser`.
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
    table4: Mapping[str, Mapping[str, Any]]
    budget: Mapping[str, Any]
    log_sobolev: Mapping[str, Any]
    dynamics: Mapping[str, Sequence[float]]
    conversion: Mapping[str, Sequence[float]]
    minimisers: Mapping[str, Sequence[float]]

    def units(self) -> list[str]:
        groups = [f"{kind}/{condition:g}" for kind in ("risk", "utility") for condition in self.conditions]
        single = ["boundary", "privacy", "sobolev", "full_batch", "formulas", "budget"]
        return [*groups, *single, "log_sobolev", "dynamics", "conversion", "minimiser"]

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        kind, _, condition = unit.partition("/")
        if condition:
            cases = self.random_cases(float(condition), seed)
            found = self._risk(cases) if kind == "risk" else self._utility(cases[0])
        else:
            found = self._minimiser(seed) if kind == "minimiser" else getattr(self, f"_{kind}")()
        return [_row(**entry) for entry in found]

    def random_cases(self, condition: float, seed: int) -> list[Losses]:
        """Draw the random cases of one condition beta/lambda.

        lambda = 1 and C = [-2, 2]. The centres lie in [-.5, .5], so theta* lies inside C. The second
        derivative of one loss takes both ends of [lambda, beta].
        """
        rng = np.random.default_rng(generator(seed, f"ryffel2022_bounds/{condition:g}").initial_seed())
        cases = []
        for _ in range(self.cases):
            left, right = rng.uniform(1.0, condition, (2, self.losses))
            left[0], right[0] = 1.0, condition
            centre = rng.uniform(-0.5, 0.5, self.losses)
            cases.append(Losses(left, right, centre, -2.0, 2.0, 1.0, condition))
        return cases

    def _risk(self, cases: Sequence[Losses]) -> Iterator[dict[str, Any]]:
        """Yield the excess risks of the random cases against equations 7 and 11 and Lemma 4.1."""
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
        """Yield the excess risks if the minimiser lies on the boundary of C.

        The loss is (lambda/2) theta^2 + G theta on C = [-1, 0] with G = lambda (1 + push). So theta* = -1,
        where the gradient is push lambda. theta_0 is at 0 or close to it.
        """
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
        """Return sigma at lambda = 1, the q of `rounds` at d = 1, and the O of Theorem 4.2 over L^2 d/lambda.

        - "Renyi": sigma^2 = 4 L^2/q, q = eps n^2/alpha, O = 1/q;
        - "(epsilon, delta)": sigma^2 = 8 L^2 (eps + 2 ln(1/delta))/(eps n)^2, q = (eps n)^2/(4 ln(1/delta)),
          O = 8 ln(1/delta)/(eps n)^2. The proof has this 8.
        """
        if kind == "Renyi":
            q = self.epsilon * records**2 / self.order
            return math.sqrt(4 / q) * lipschitz, q, 1 / q
        log = -math.log(self.delta)
        squared = (self.epsilon * records) ** 2
        noise = math.sqrt(8 * (self.epsilon + 2 * log) / squared) * lipschitz
        return noise, squared / (4 * log), 8 * log / squared

    def _utility(self, losses: Losses) -> Iterator[dict[str, Any]]:
        """Yield the excess risks at sigma and K of Section 4 against the bounds of Section 4.

        The bounds have the constants of the proofs, 6 and 18.
        """
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
                else:  # fewer nodes: each step has its own kernel, and the steps are broad
                    found = risks(losses, decreasing_steps(losses, steps), noise, batch, self.nodes // 2)
                    common["bound"] = 18 * scale
                    yield {**common, "quantity": f"{kind}, average", "exact": float(found.excess.mean())}
                yield {**common, "quantity": f"{kind}, last iterate", "exact": float(found.excess[-1])}

    def _privacy(self) -> Iterator[dict[str, Any]]:
        """Yield the exact divergence or epsilon of one pair of data sets at sigma and K of Section 4.

        The pair is that of `counterexample` ("flat"), with beta = lambda = 1.
        """
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
        """Yield Var(theta_k) against 1/c = 2 sigma^2/lambda.

        A law with a log-Sobolev inequality of constant c has a variance of at most 1/c (Poincare, with f the
        identity). There are two losses (theta -+ 1/2)^2/2 on [-1, 1], and eta = 1/2.
        """
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
        """Yield Renyi divergences over alpha for full batches, in units of L^2/(lambda n^2 sigma^2)."""
        for contraction in (0.5, 0.1, 0.001):
            common = {"kind": "full_batch", "batch": "full", "schedule": "constant", "step": contraction}
            limit = 2 - contraction  # 2/v at the stationary variance v = 2/(2 - eta lambda)
            for steps in (1, 2, 5, 10, 100, 1000, 10_000):
                exact = gaussian_renyi(np.full(steps, contraction))
                claimed = 4 * -math.expm1(-contraction * steps / 2)
                yield {**common, "quantity": "Theorem 3.1", "steps": steps, "exact": exact, "bound": claimed}
                gap, bound = 1 - exact / limit, 3 * math.exp(-contraction * steps)
                if bound > 1e-12:  # above rounding errors
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
        """Yield what follows from the printed formulas alone.

        Epsilon is given over alpha L^2/(n^2 sigma^2), with lambda = 1.
        """
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
                # stationary risk of (h/2) theta^2 over d sigma^2, eta = 1/(2 beta), worst h in [lambda, beta]
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
            for schedule, precision in given["commands"].items():
                yield {
                    "kind": "table4",
                    "case": name,
                    "quantity": "β/λ of the command",
                    "schedule": schedule,
                    "x": precision,
                    "exact": given["smoothness"] / precision,
                }
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
        """Yield the proven epsilon of the authors' DP-SGD against the promised one."""
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

    def _log_sobolev(self) -> Iterator[dict[str, Any]]:
        """Yield the cases of the theorem under c-LSI and of its corollary.

        The pairs are those of `attacks.langevin`, with beta = lambda = 1. For batches of one, the bound is
        for all c > 0 at once. For full batches, c = lambda/(2 sigma^2). Those laws have this c, because they
        are 1-Lipschitz images of a Gaussian of variance 1/c. One law with batches of one has it too: the law
        under the second data set of "opposite", where all losses are equal. The mixtures over batches have
        some c > 0: they are finite mixtures of such laws with finite chi-squared divergences (Schlichting
        2019).
        """
        given, records = self.log_sobolev, self.privacy["records"]["Renyi"]
        noise, lipschitz, radius = given["noise_std"], self.privacy["lipschitz"], self.privacy["radius"]
        runs = product(get_args(Others), ("constant", "decreasing"), (1, records), given["steps"])
        for others, schedule, batch, steps in runs:
            event = LangevinDpEvent(
                records=records,
                batch=batch,
                steps=steps,
                step_size=0.5,
                noise_std=noise,
                lipschitz=lipschitz,
                strong_convexity=1.0,
                smoothness=1.0,
                decay=0.5 if schedule == "decreasing" else 0.0,
            )
            pair = last_iterate_distributions(event, project=radius, others=others, nodes=self.nodes)
            yield {
                "kind": "log_sobolev",
                "case": others,
                "quantity": "every c" if batch == 1 else "c of the law",
                "batch": "1" if batch == 1 else "full",
                "schedule": schedule,
                "records": records,
                "condition": 1.0,
                "steps": steps,
                "exact": renyi(pair, self.order),
                "bound": every_constant(event, self.order)
                if batch == 1
                else Ryffel2022().renyi(event, self.order),
            }
        # after one step, before its projection
        push, std = 0.5 * (lipschitz - radius), math.sqrt(1.5) * noise
        for others, first in (("flat", 0.0), ("opposite", -push)):
            yield {
                "kind": "log_sobolev",
                "case": others,
                "quantity": "c at most",
                "batch": "1",
                "schedule": "constant",
                "records": records,
                "condition": 1.0,
                "steps": 1,
                "exact": largest_constant(
                    np.array([first, push]), np.array([1 - 1 / records, 1 / records]), std
                ),
                "bound": 1 / (2 * noise**2),
            }
        for contraction, start, steps in product(given["contractions"], given["starts"], given["lengths"]):
            exact, bound = gaussian_dynamics(contraction, start, steps)
            yield {
                "kind": "log_sobolev",
                "case": f"Gaussian, start {start:g}",
                "quantity": "c of the law",
                "batch": "full",
                "schedule": "constant",
                "step": contraction,
                "steps": steps,
                "exact": exact,
                "bound": bound,
            }

    def _dynamics(self) -> Iterator[dict[str, Any]]:
        """Yield the cases of Lemma 3.1, given the batch (its first record is x_i0), and of Lemma 3.2."""
        losses = self.random_cases(10.0, 0)[0]
        noise, eta = max(self.noises), 1 / (2 * losses.smoothness)
        chain = Chain(losses, noise, "1", self.nodes)
        mass, gradients = chain.step(eta), losses.gradients(chain.points)
        for batch, share in product((1, 2, len(gradients)), (0.1, 0.5, 0.9)):
            starts = chain.points - eta * gradients[1:batch].sum(axis=0) / batch
            at = np.linspace(losses.low, losses.high, 101)
            left, right = fokker_planck(starts, gradients[0] / batch, mass, noise**2, share * eta, at)
            yield {
                "kind": "fokker_planck",
                "quantity": "Lemma 3.1",
                "batch": str(batch),
                "condition": losses.smoothness,
                "x": share,
                "exact": max(float(np.abs(left - right).max() / np.abs(left).max()), ROUNDED),
            }
        names = ("orders", "times", "radii", "pulls", "gammas")
        for order, time, radius, pull, gamma in product(*(self.dynamics[name] for name in names)):
            exact, bound = renyi_dynamics(order, time, radius, pull, gamma)
            case = f"α {order:g}, γ {gamma:g}, start cut at {radius:g}, pull {pull:g}"
            row = {"kind": "renyi_dynamics", "case": case, "quantity": "Lemma 3.2", "x": time}
            yield {**row, "exact": exact, "bound": bound}

    def _conversion(self) -> Iterator[dict[str, Any]]:
        """Yield the cases of Proposition 2.1.

        They are two Gaussians, with R_alpha = alpha mu^2/2, and the worst of many pairs of coins.
        """
        logits = np.linspace(-12, 12, 97)
        first, second = (expit(side.ravel()) for side in np.meshgrid(logits, logits))
        for order, delta in product(self.conversion["orders"], self.conversion["deltas"]):
            common = {"kind": "conversion", "quantity": "Proposition 2.1", "x": delta}
            for mu in self.conversion["distances"]:
                said = {
                    "exact": gaussian_epsilon(mu, delta),
                    "bound": converted(order * mu**2 / 2, order, delta),
                }
                yield {**common, "case": f"α {order:g}, Gaussian, μ {mu:g}", **said}
            exact, bound = coins(order, delta, first, second)
            worst = int(np.argmax(exact / bound))
            said = {"exact": float(exact[worst]), "bound": float(bound[worst])}
            yield {**common, "case": f"α {order:g}, coins", **said}

    def _minimiser(self, seed: int) -> Iterator[dict[str, Any]]:
        """Yield |theta*| against the bounds of the side note of Section 3.3.

        The data sets are random ones of 20 records, and one record x = 1.
        """
        rng = np.random.default_rng(generator(seed, "ryffel2022_bounds/minimiser").initial_seed())
        data = {f"data set {number}": rng.normal(size=(20, 2)) for number in range(self.cases)}
        data["one record"] = np.ones((1, 1))
        for (name, x), ridge, margin in product(
            data.items(), self.minimisers["ridges"], self.minimisers["margins"]
        ):
            norm, at_zero = minimiser(x, margin, ridge)
            common = {
                "kind": "minimiser",
                "case": f"{name}, margin {margin:g}, λ {ridge:g}",
                "records": len(x),
            }
            common |= {"x": ridge, "exact": norm}
            yield {**common, "quantity": "positive", "bound": math.sqrt(2 * at_zero / ridge)}
            yield {**common, "quantity": "Lipschitz", "bound": float(np.linalg.norm(x, axis=1).max()) / ridge}


def _lemmas(
    losses: Losses,
    found: Risks,
    share: float,
    noise: float,
    batch: str,
    counts: Sequence[int],
    common: Mapping[str, Any],
) -> Iterator[dict[str, Any]]:
    """Yield the excess risks of constant steps against equation 7 and Lemma 4.1.

    Lemma 4.1 takes 4 L^2/lambda^2 for E|theta_0 - theta*|^2.
    """
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
    """Return one row of the frame, with `ratio` and defaults for the columns that are not given."""
    place = {"kind": kind, "case": case, "quantity": quantity, "batch": batch, "schedule": schedule}
    size = {"records": records, "condition": condition, "step": step, "steps": steps, "x": x}
    return {**place, **size, "exact": exact, "bound": bound, "ratio": exact / bound, "note": note}
