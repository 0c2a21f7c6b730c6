"""Dominating pairs of distributions, whose privacy losses `composition` adds up.

The privacy loss is L = log dP/dQ. A pair (P, Q) dominates a mechanism if its hockey-stick divergence, ``delta(e) = E_P
max(0, 1 - exp(e - L))``, is at least that of the mechanism on neighbouring data sets, for every e. Compositions of
dominating pairs dominate compositions of mechanisms, adaptive ones too (Zhu, Dong, Wang 2022, Theorem 10).

A pair is described by a coordinate x, with which L grows: `place` is x at a loss, or the end of x's range where L takes
no such value; `mass` are the probabilities under P and Q between neighbours in x, (n - 1,), with small relative errors;
`above` is P beyond x. `reach` are the losses between which L stays, except with the given probabilities under P.
`spread` is the standard deviation of L under P. If `symmetric`, only losses above 0 are those of the pair.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from dplangevin.privacy.accountants.analytic_gaussian import (
    LARGEST,
    UNIT,
    epsilon_of,
    error_of_log,
    log_delta,
    mu_of,
    root_from_above,
)
from dplangevin.privacy.events import Adjacency


@dataclass(frozen=True)
class GaussianMixtures:
    """The pair P = (1 - rate) N(0, 1) + rate N(first, 1) and Q = (1 - rate) N(0, 1) + rate N(second, 1).

    first > second. Moreover one of the shifts is 0, or they are opposite numbers, or rate is 1.

    With mu = 1/(noise multiplier) this is the Poisson-sampled Gaussian mechanism: (first, second) is (mu, 0) for
    removal, (0, -mu) for addition, and (mu, -mu) for replace_one.

    With symmetric, the profile is that of (P, Q) where L > 0. Where L < 0 it is mirrored: ``delta(-e) = 1 - exp(-e) +
    exp(-e) delta(e)``. The rest of the mass lies at L = 0. With (mu, 0) and mu = 2/(noise multiplier), this is
    sampling without replacement under replace_one. It is the pointwise larger of both directions, because rate
    delta_mu(log(1 + (exp(e) - 1)/rate)) bounds either (Balle, Barthe, Gaboardi 2018, Theorem 11).
    """

    rate: float
    first: float
    second: float
    symmetric: bool = False

    @cached_property
    def spread(self) -> float:
        x = np.linspace(min(self.second, 0.0) - 10, max(self.first, 0.0) + 10, 20_001)
        weight, loss = self.density(x), self.loss(x)
        if self.symmetric:
            known = np.where(loss > 0, weight * loss**2 * (1 + np.exp(-np.maximum(loss, 0))), 0.0)
            return math.sqrt(float(np.trapezoid(known, x)))
        mean = np.trapezoid(weight * loss, x)
        return math.sqrt(float(np.trapezoid(weight * (loss - mean) ** 2, x)))

    def reach(self, below: float, above: float) -> tuple[float, float]:
        away = [-float(ndtri_exp(math.log(mass))) for mass in (below, above)]
        ends = np.array([min(self.first, 0.0) - away[0], max(self.first, 0.0) + away[1]])
        low, high = self.loss(ends).tolist()
        return (max(low, -high), high) if self.symmetric else (low, high)

    def place(self, loss: np.ndarray) -> np.ndarray:
        if self.rate == 1:
            gap = self.first - self.second
            return loss / gap + (self.first + self.second) / 2
        if self.second == 0:
            return self._removal(loss, self.first)
        if self.first == 0:
            return -self._removal(-loss, -self.second)
        # opposite shifts solve sinh(mu x - L/2) = (1 - q)/q exp(mu^2/2) sinh(L/2)
        half = np.abs(loss) / 2
        log_ratio = math.log((1 - self.rate) / self.rate) + self.first**2 / 2
        with np.errstate(divide="ignore"):
            log_sinh = log_ratio + half + np.log(-np.expm1(-2 * half) / 2)
        grown = np.where(
            log_sinh > 30, log_sinh + math.log(2), np.arcsinh(np.exp(np.minimum(log_sinh, 30.0)))
        )
        return np.sign(loss) * (grown + half) / self.first

    def _removal(self, loss: np.ndarray, mu: float) -> np.ndarray:
        """Return x at which log(1 - q + q exp(mu x - mu^2/2)) is `loss`; -inf if there is no such x."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # at the other's losses
            small = np.log1p(np.maximum(np.expm1(np.minimum(loss, 700.0)) / self.rate, -1.0))
            large = loss + np.log1p(-(1 - self.rate) * np.exp(-np.maximum(loss, 1.0))) - math.log(self.rate)
        found: np.ndarray = np.where(loss < 1, small, large) / mu + mu / 2
        return found

    def _log_ratio(self, x: np.ndarray, shift: float) -> np.ndarray:
        """Return log((1 - q) + q exp(shift x - shift^2/2)), the log-ratio of one mixture to N(0, 1)."""
        power = shift * x - shift**2 / 2
        if self.rate == 1:
            return power
        small = np.log1p(self.rate * np.expm1(np.minimum(power, 1.0)))
        large = (
            power
            + np.log(self.rate)
            + np.log1p((1 - self.rate) / self.rate * np.exp(-np.maximum(power, 1.0)))
        )
        return np.where(power < 1, small, large)

    def loss(self, x: np.ndarray) -> np.ndarray:
        return self._log_ratio(x, self.first) - self._log_ratio(x, self.second)

    def density(self, x: np.ndarray) -> np.ndarray:
        bells = [np.exp(-((x - shift) ** 2) / 2) for shift in (0.0, self.first)]
        return ((1 - self.rate) * bells[0] + self.rate * bells[1]) / math.sqrt(2 * math.pi)

    def mass(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        bell = normal_masses(x)
        return (
            (1 - self.rate) * bell + self.rate * normal_masses(x - self.first),
            (1 - self.rate) * bell + self.rate * normal_masses(x - self.second),
        )

    def above(self, x: float) -> float:
        return float((1 - self.rate) * ndtr(-x) + self.rate * ndtr(self.first - x))


@dataclass(frozen=True)
class BoundedRange:
    """The exact pair of an eta-bounded range; x is L.

    P(L > e) = (1 - exp((e - eta)/2))/(1 - exp(-eta)) for -eta <= e <= eta. The profile is (1 - exp((e - eta)/2))^2/(1
    - exp(-eta)).

    Dong, Durfee, Rogers (2020): the worst pair has losses t and t - eta, the first with probability p_t = (1 - exp(t -
    eta))/(1 - exp(-eta)). Then delta(e) = sup_t p_t (1 - exp(e - t)), attained at t = (eta + e)/2.
    """

    eta: float
    symmetric: bool = False

    @cached_property
    def spread(self) -> float:
        x = np.linspace(-self.eta, self.eta, 2001)
        weight = self.density(x)
        mean = np.trapezoid(weight * x, x)
        return math.sqrt(float(np.trapezoid(weight * (x - mean) ** 2, x)))

    def reach(self, below: float, above: float) -> tuple[float, float]:
        return -self.eta, self.eta

    def place(self, loss: np.ndarray) -> np.ndarray:
        return np.clip(loss, -self.eta, self.eta)

    def loss(self, x: np.ndarray) -> np.ndarray:
        return x

    def density(self, x: np.ndarray) -> np.ndarray:
        return np.exp((x - self.eta) / 2) / (-2 * math.expm1(-self.eta))

    def mass(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        whole, half = -math.expm1(-self.eta), np.diff(x) / 2
        wide, grown = half > 300, np.expm1(np.minimum(half, 300.0))
        p = np.exp((np.where(wide, x[1:], x[:-1]) - self.eta) / 2) * np.where(wide, 1.0, grown) / whole
        q = np.exp((-np.where(wide, x[:-1], x[1:]) - self.eta) / 2) * np.where(wide, 1.0, grown) / whole
        return p, q

    def above(self, x: float) -> float:
        return max(0.0, math.expm1((x - self.eta) / 2) / math.expm1(-self.eta))


DominatingPair = GaussianMixtures | BoundedRange


@dataclass(frozen=True, eq=False)
class Atoms:
    """A pair with losses `loss` (n,), increasing, of masses `mass` (n,) under P, and L = inf of mass `infinity`."""

    loss: np.ndarray
    mass: np.ndarray
    infinity: float
    symmetric: bool = False

    @cached_property
    def spread(self) -> float:
        weight = self.mass / self.mass.sum()
        return math.sqrt(float(weight @ (self.loss - float(weight @ self.loss)) ** 2))

    def reach(self, below: float, above: float) -> tuple[float, float]:
        first = int(np.searchsorted(np.cumsum(self.mass), below, "right"))
        last = len(self.mass) - int(np.searchsorted(np.cumsum(self.mass[::-1]), above, "right"))
        return float(self.loss[min(first, len(self.loss) - 1)]), float(self.loss[max(last - 1, 0)])


def gaussian(mu: float) -> GaussianMixtures:
    """Return the pair of the Gaussian mechanism with parameter mu."""
    return GaussianMixtures(1.0, mu, 0.0)


def without_replacement(rate: float, mu: float) -> GaussianMixtures:
    """Return the pair of a Gaussian mechanism on a uniform subset of fixed size, rate = batch/records, replace_one.

    The pairs (mu, 0) and (0, -mu), each composed alone, cost up to 25 % less (the larger of two epsilons). That is not
    proven: composition needs pairs that dominate at every e. The records u and -u among records 0 have the pair (mu/2,
    -mu/2), which exceeds (mu, 0) at e < 0 and (0, -mu) at e > 0. In a random search over compositions of the three
    pairs none cost more than (mu, 0) alone.
    """
    return GaussianMixtures(rate, mu, 0.0, symmetric=rate < 1)


def poisson(rate: float, noise_multiplier: float, adjacency: Adjacency) -> list[GaussianMixtures]:
    """Return the pairs of the Poisson-sampled Gaussian mechanism, one for each direction; one under replace_one."""
    mu = mu_of(noise_multiplier, "add_remove")
    if adjacency == "replace_one":
        return [GaussianMixtures(rate, mu, -mu)]
    return [GaussianMixtures(rate, mu, 0.0), GaussianMixtures(rate, 0.0, -mu)]


def bounded_range_epsilon(eta: float, delta: float) -> float:
    """Return eta + 2 log(1 - sqrt(delta (1 - exp(-eta)))), at least 0, the inverse of `BoundedRange`, rounded up."""
    root = math.sqrt(delta * -math.expm1(-eta))
    if root < 0.5:
        less = 2 * math.log1p(-root)
    else:  # 1 - root = (1 - root^2)/(1 + root), with 1 - root^2 = 1 - delta + delta exp(-eta)
        less = 2 * (math.log(1 - delta + delta * math.exp(-eta)) - math.log1p(root))
    return max(0.0, eta + less + (8 * UNIT * (eta - less) if delta > 0 else 0.0))


def sampled_epsilon(rate: float, mu: float, delta: float) -> float:
    """Return epsilon, never below the exact one, of a Gaussian step that draws a record with probability `rate`.

    It inverts the profile of a Poisson sample under add_remove (a removal costs more than an addition at every e >=
    0), and of a subset of fixed size under replace_one (Balle, Barthe, Gaboardi 2018, Theorem 11):

        delta(e) = rate delta_mu(log(1 + (exp(e) - 1)/rate)).
    """
    share = delta / rate * (1 - 8 * UNIT)
    inner = epsilon_of(mu, share) if share < 1 else 0.0
    if inner < 700:
        return math.log1p(rate * math.expm1(inner)) * (1 + 16 * UNIT)
    return float(np.logaddexp(math.log1p(-rate), math.log(rate) + inner)) + 16 * UNIT * (
        inner - math.log(rate)
    )


def replaced_epsilon(rate: float, mu: float, delta: float) -> float:
    """Return epsilon, never below the exact one, of a Poisson-sampled step under replace_one, mu = 1/multiplier.

    P and Q are `GaussianMixtures` (rate, mu, -mu). Let x > 0 be the point at which their densities have the ratio
    exp(e). The root is sought in x, with ``delta_mu[a]`` the delta of `analytic_gaussian.log_delta` at a:

        delta(e) = rate delta_mu[x - mu] + rate exp(e - mu x - mu^2/2) delta_mu[x].
    """
    if not delta / rate < 1:
        return 0.0
    if delta == 0 or mu > LARGEST:
        return math.inf
    wanted = math.log(delta / rate)

    def loss(x: float) -> float:
        power = mu * (x - mu / 2)
        others = 1 - rate + rate * math.exp(-mu * (x + mu / 2))
        if power > 700:
            return float(np.logaddexp(0.0, power + math.log(rate / others)))
        return math.log1p(rate * math.exp(power) * -math.expm1(-2 * mu * x) / others)

    def missing(x: float) -> float:
        """Return log(delta(e)/delta) at x, plus a bound on the rounding error."""
        second = loss(x) - mu * (x + mu / 2) + float(log_delta(mu, x))
        found = np.logaddexp(float(log_delta(mu, x - mu)), second)
        return float(found) + error_of_log(x + mu, wanted) - wanted

    x = root_from_above(missing, mu + math.sqrt(-2 * wanted))
    if x == 0:
        return 0.0
    epsilon = loss(x)
    rounding = UNIT * (16 * epsilon + min(1.0, epsilon) * (32 + 4 * mu * (x + mu)))
    return math.nextafter(epsilon + rounding, math.inf)


def normal_masses(x: np.ndarray) -> np.ndarray:
    """Return standard normal probabilities between neighbours in x, computed from the smaller tail."""
    low, high = x[:-1], x[1:]
    flip = low > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    with np.errstate(invalid="ignore"):
        share = -np.expm1(np.minimum(log_ndtr(low) - log_ndtr(high), 0.0))
    return np.where(high > low, ndtr(high) * share, 0.0)
