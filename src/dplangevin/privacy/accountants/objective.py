"""Objective perturbation: the theorems of two papers, and a bound for any convex loss, of slopes of both signs.

On the sum scale, b ~ N(0, s^2 I) with s = noise_std. The minimiser is a one-to-one function of b. So given theta the
two data sets differ in b by a shift Delta. The log-ratio of their densities at theta is at most

    <b, Delta>/s^2 + ||Delta||^2/(2 s^2) + rank log(1 + beta/Lambda).

Determinants: one record adds a Hessian E of that rank to A >= Lambda I. The eigenvalues of A^(-1/2) E A^(-1/2) sum to
at most tr E/Lambda <= rank beta/Lambda. So log det(A + E) - log det A <= rank log(1 + beta/Lambda), because log is
concave. For replace_one both determinants lie in that interval above the determinant of the common records.

Shift: one record's gradient phi' x^T depends on theta, hence on b. But it lies in a space V of dimension `rank` that
the record alone determines, and its norm is at most L. So <b, Delta> <= L ||P_V b|| for add_remove, and ||P_V b||/s
has the chi distribution with `rank` degrees of freedom. Let m = L/s and Z(k, m) = m chi_k + m^2/2. Then the privacy
loss is below Z(rank, m) plus the determinants' part.

For replace_one Delta is in V + V' and has norm at most 2 L, so the loss is below Z(2 rank, 2 m). The loss is also
below the mean of Z(rank, 2 m) for V and the same for V', so below the larger of them. Then delta is at most the sum of
both deltas. delta(epsilon) <= E max(0, 1 - exp(epsilon - Z)), whichever data set comes first.

Redberg, Koskela and Wang (2023) have the same Gaussian part for add_remove at rank 1, and a curvature of -log(1 -
beta/Lambda), which is more. So their bound is never the smaller one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from dp_accounting import DpEvent
from scipy.optimize import brentq
from scipy.special import gammaln
from scipy.stats import chi, chi2

from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of
from dplangevin.privacy.accountants.protocol import Theorem, refuse
from dplangevin.privacy.events import (
    Adjacency,
    ObjectivePerturbationDpEvent,
    PureObjectivePerturbationDpEvent,
)

SHARE = 0.01  # of delta and of a method's epsilon, for the noise on the minimiser: see `with_output`
NODES = 400  # of a quadrature by Gauss and Legendre
REACH = 14.0  # standard deviations to integrate; the rest has a probability below 1e-40


def with_output(event: ObjectivePerturbationDpEvent, delta: float, price: Callable[[float], float]) -> float:
    """Return epsilon of the minimiser and of the noise on it, which is charged `SHARE` of delta (basic composition)."""
    if event.output_mu == 0:
        return price(delta)
    return price((1 - SHARE) * delta) + epsilon_of(event.output_mu, SHARE * delta)


def epsilon(event: ObjectivePerturbationDpEvent, delta: float, adjacency: Adjacency) -> float:
    """Return the epsilon of the minimiser that the module's argument proves at delta; inf at delta = 0."""
    if delta == 0:
        return math.inf
    share = event.lipschitz / event.noise_std
    if adjacency != "replace_one":
        shift = _inverse(event.rank, share, delta)
    else:
        apart = _inverse(event.rank, 2 * share, delta / 2)
        shift = min(apart, _inverse(2 * event.rank, 2 * share, delta))
    return event.log_determinant + shift


def delta_of(freedom: int, shift: float, epsilon: float) -> float:
    """Return ``E max(0, 1 - exp(epsilon - Z))`` for ``Z = shift chi_freedom + shift^2/2``, by quadrature."""
    start = max(0.0, (epsilon - shift**2 / 2) / shift)
    half = (max(start, math.sqrt(freedom)) + REACH - start) / 2
    nodes, weights = _quadrature()
    t = start + half * (1 + nodes)
    log_density = (
        (freedom - 1) * np.log(t) - t**2 / 2 - (freedom / 2 - 1) * math.log(2) - gammaln(freedom / 2)
    )
    gain = -np.expm1(np.minimum(epsilon - shift * t - shift**2 / 2, 0.0))
    return float(half * weights @ (gain * np.exp(log_density)))


def _inverse(freedom: int, shift: float, delta: float) -> float:
    if delta_of(freedom, shift, 0.0) <= delta:
        return 0.0
    most = shift * float(chi.isf(delta / 2, freedom)) + shift**2 / 2  # Z exceeds it with probability delta/2
    return float(
        brentq(lambda e: delta_of(freedom, shift, e) - delta, 0.0, most, xtol=1e-300, rtol=1e-12)
    ) * (1 + 1e-9)


def log_tail(delta: float, rank: int) -> float:
    """Return l with ``P(chi_rank > sqrt(2 l)) <= delta/2``: up to rank 2 ``ln(2/delta)``, as in Kifer et al."""
    return math.log(2 / delta) if rank <= 2 else float(chi2.isf(delta / 2, rank)) / 2


@cache
def _quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Return nodes in [-1, 1] and weights; made when needed, because it takes seconds on a busy machine."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return nodes, weights


@dataclass(frozen=True)
class Kifer2012(Theorem):
    """Accountant of objective perturbation with Gaussian noise.

    Its epsilon is the smallest that satisfies both conditions of the theorem. On the sum scale, with ridge = Lambda:

        noise_std^2 >= L^2 (8 ln(2/delta) + 4 epsilon) / epsilon^2   and   Lambda >= 2 beta / epsilon.

    They are for one margin (a Hessian of rank 1). With K margins a record's gradient moves within a space of dimension
    r = rank: ln(2/delta) becomes `log_tail`, the tail of a chi variable, which is larger from r = 3 on. The
    log-determinant becomes r log(1 + beta/Lambda), so Lambda >= 2 r beta / epsilon (`objective` has the argument).

    The theorem is for add_remove. Replace_one costs 1.5 times that, for losses of the margin, by the following
    argument. Write l = ln(2/delta) and eps' for the add_remove epsilon.

    Both Hessians are a shared A >= Lambda I plus a rank-one term of size at most beta. So the log-ratio of the
    determinants is at most log(1 + beta/Lambda) <= eps'/2, as for add_remove. In the Gaussian part the shift is c u -
    c' u' with ||u||, ||u'|| <= 1 and ``|c|, |c'| <= L``. With probability at least 1 - delta neither ``|<b, u>|`` nor
    ``|<b, u'>|`` exceeds noise_std sqrt(2 l). Then this part is at most (2 L/noise_std) sqrt(2 l) + 2 L^2/noise_std^2 =
    eps' ((1+u)^(-1/2) + u/(2(1+u))) with u = eps'/(2 l). With w = (1+u)^(-1/2) the factor is w + (1 - w^2)/2 = 1 - (1 -
    w)^2/2 <= 1. Together the parts cost at most 1.5 eps'.

    Differs: the theorem has no replace_one statement and none for a rank above 1. It is about the exact minimiser. The
    noise that covers the solver's error costs extra (`objective.with_output`).
    """

    name: str = "Kifer et al. 2012"

    def _proven(self, event: DpEvent, delta: float, adjacency: Adjacency) -> float:
        if not isinstance(event, ObjectivePerturbationDpEvent):
            raise refuse(self.name, event, "it prices objective perturbation with Gaussian noise only")
        if delta == 0:
            return math.inf
        ratio = (event.lipschitz / event.noise_std) ** 2
        curvature = 2 * event.rank * event.smoothness / event.ridge

        def theorem(spare: float) -> float:
            """Return the theorem's epsilon at the part of delta that is left for the minimiser."""
            noise = 2 * ratio + math.sqrt(4 * ratio**2 + 8 * ratio * log_tail(spare, event.rank))
            return max(noise, curvature) * (1.5 if adjacency == "replace_one" else 1.0)

        return with_output(event, delta, theorem)


@dataclass(frozen=True)
class Chaudhuri2011(Theorem):
    """Accountant of pure objective perturbation.

    epsilon = eps' + r log(1 + 2c/(n Lambda) + c^2/(n Lambda)^2), with r = 1 in the paper, eps' = 2 L rate, c =
    smoothness and n Lambda = ridge.

    The paper's Algorithm 2 draws b with a density proportional to exp(-eps' ||b|| / 2) for a 1-Lipschitz loss. The
    proof is for replace_one (the paper's neighbours differ in one entry) and for one margin.
    Differs: for K margins r = rank. Each of the two records changes the determinant by a factor of at most (1 + c/(n
    Lambda))^r, see `objective`. The theorem is about the exact minimiser. The noise that covers the solver's error
    adds its own pure epsilon.
    """

    name: str = "Chaudhuri et al. 2011"
    adjacencies = ("replace_one",)

    def _proven(self, event: DpEvent, delta: float, adjacency: Adjacency) -> float:
        if not isinstance(event, PureObjectivePerturbationDpEvent):
            raise refuse(self.name, event, "it prices pure objective perturbation only")
        return 2 * event.lipschitz * event.rate + 2 * event.log_determinant + event.output_epsilon
