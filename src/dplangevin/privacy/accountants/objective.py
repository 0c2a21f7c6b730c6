"""Objective perturbation with Gaussian noise for any convex loss: nothing is asked of the sign of its slope.

Sum scale, b ~ N(0, s^2 I) with s = noise_std.  The minimiser is a one-to-one function of b, so given theta the two
data sets differ in b by a shift Delta and the log-ratio of their densities at theta is at most

    <b, Delta>/s^2 + ||Delta||^2/(2 s^2) + rank log(1 + beta/Lambda).

Determinants: one record adds a Hessian E of that rank to A >= Lambda I.  The eigenvalues of A^(-1/2) E A^(-1/2) sum to
at most tr E/Lambda <= rank beta/Lambda, so log det(A + E) - log det A <= rank log(1 + beta/Lambda), since log is
concave; for replace_one both determinants lie in that interval above that of the records in common.

Shift: one record's gradient phi' x^T depends on theta, hence on b, but it lies in a space V that the record alone
decides, of dimension `rank`, and its norm is at most L.  So <b, Delta> <= L ||P_V b|| for add_remove, and ||P_V b||/s
has the chi distribution with `rank` degrees of freedom.  With m = L/s the privacy loss is below Z(rank, m) plus the
determinants' part, where Z(k, m) = m chi_k + m^2/2.  For replace_one Delta is in V + V', of norm at most 2 L: the loss
is below Z(2 rank, 2 m).  It is also below the mean of Z(rank, 2 m) for V and the same for V', so below the larger of
them, and delta is at most the sum of both deltas.  delta(epsilon) <= E max(0, 1 - exp(epsilon - Z)), whichever of the
data sets comes first.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln
from scipy.stats import chi, chi2

from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of
from dplangevin.privacy.events import Adjacency, ObjectivePerturbationDpEvent

SHARE = 0.01  # of delta, and of a method's epsilon: for the noise on the fit, see `with_output`
NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)
REACH = 14.0  # standard deviations that are integrated; what lies beyond has a chance below 1e-40


def with_output(event: ObjectivePerturbationDpEvent, delta: float, price: Callable[[float], float]) -> float:
    """Return epsilon of the minimiser, `price` of a delta, and of the noise on it, by basic composition.

    The noise on the fit is a Gaussian mechanism given the minimiser, and is charged `SHARE` of delta.
    """
    if event.output_mu == 0:
        return price(delta)
    return price((1 - SHARE) * delta) + epsilon_of(event.output_mu, SHARE * delta)


def epsilon(event: ObjectivePerturbationDpEvent, delta: float, adjacency: Adjacency) -> float:
    """The smallest epsilon that the argument above proves at delta; inf at delta = 0."""
    if delta == 0:
        return math.inf
    share = event.lipschitz / event.noise_std
    if adjacency == "add_remove":
        shift = _inverse(event.rank, share, delta)
    else:
        apart = _inverse(event.rank, 2 * share, delta / 2)
        shift = min(apart, _inverse(2 * event.rank, 2 * share, delta))
    return event.log_determinant + shift


def delta_of(freedom: int, shift: float, epsilon: float) -> float:
    """``E max(0, 1 - exp(epsilon - Z))`` for ``Z = shift chi_freedom + shift^2/2``, by Gauss-Legendre quadrature."""
    start = max(0.0, (epsilon - shift**2 / 2) / shift)
    half = (max(start, math.sqrt(freedom)) + REACH - start) / 2
    t = start + half * (1 + NODES)
    log_density = (
        (freedom - 1) * np.log(t) - t**2 / 2 - (freedom / 2 - 1) * math.log(2) - gammaln(freedom / 2)
    )
    gain = -np.expm1(np.minimum(epsilon - shift * t - shift**2 / 2, 0.0))
    return float(half * WEIGHTS @ (gain * np.exp(log_density)))


def _inverse(freedom: int, shift: float, delta: float) -> float:
    """The epsilon >= 0 at which `delta_of` falls to delta."""
    if delta_of(freedom, shift, 0.0) <= delta:
        return 0.0
    most = shift * float(chi.isf(delta / 2, freedom)) + shift**2 / 2  # Z exceeds it with chance delta/2
    return float(
        brentq(lambda e: delta_of(freedom, shift, e) - delta, 0.0, most, xtol=1e-300, rtol=1e-12)
    ) * (1 + 1e-9)


def log_tail(delta: float, rank: int) -> float:
    """l with ``P(chi_rank > sqrt(2 l)) <= delta/2``: ``ln(2/delta)`` up to rank 2, where it is Kifer et al.'s."""
    return math.log(2 / delta) if rank <= 2 else float(chi2.isf(delta / 2, rank)) / 2
