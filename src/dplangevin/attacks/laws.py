"""Laws of a release on worst-case pairs of data sets, in one dimension, and their divergences."""

import math
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp, ndtr
from scipy.stats import binom

from dplangevin.checks import count
from dplangevin.privacy.accountants.protocol import refuse
from dplangevin.privacy.events import (
    Adjacency,
    ObjectivePerturbationDpEvent,
    PateDpEvent,
    PosteriorSampleDpEvent,
    PureObjectivePerturbationDpEvent,
)

REACH = 40.0  # scales of b on either side
CELLS = 400  # in one scale of b
BENDS = np.arange(0.0, 5.01, 0.25)  # values of b at t, in scales of b below 0
WIDEST = 1e-3  # of the noise on the fit, in scales of the fit
GRID = 20_001  # points of theta for a posterior sample
PULLS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
MARGIN = 2.5  # standard errors that the audit is expected to lose on each data set


class Distributions(NamedTuple):
    """Log masses of a release under D and under D' at the same points, (points,) each."""

    points: np.ndarray
    first: np.ndarray
    second: np.ndarray


def epsilon_of(pair: Distributions, delta: float) -> float:
    """Return the smallest epsilon >= 0 at which `hockey_stick` is at most delta, in (0, 1)."""
    if hockey_stick(pair, 0.0) <= delta:
        return 0.0
    high = 1.0
    while hockey_stick(pair, high) > delta:
        high *= 2
    return float(brentq(lambda e: hockey_stick(pair, e) / delta - 1, 0.0, high, rtol=1e-12))


def drawn(pair: Distributions, runs: int, rng: torch.Generator) -> np.ndarray:
    """Return log-likelihood ratios of runs ``(2, runs)``, drawn under D and under D'."""
    with np.errstate(invalid="ignore"):
        ratio = pair.first - pair.second
    masses = (np.exp(mass - logsumexp(mass)) for mass in pair[1:])
    return np.stack([ratio[_places(mass, runs, rng)] for mass in masses])


def _places(mass: np.ndarray, runs: int, rng: torch.Generator) -> np.ndarray:
    """Draw indices (runs,) with probabilities proportional to mass (n,)."""
    edges = np.cumsum(mass)
    uniform = torch.rand(runs, generator=rng, dtype=torch.float64).numpy() * edges[-1]
    return np.searchsorted(edges, uniform, "right").clip(max=len(edges) - 1)


def renyi(found: Distributions, alpha: float) -> float:
    """Return the larger Renyi divergence of order alpha > 1 of the two directions."""
    pairs = (found.first, found.second), (found.second, found.first)
    return max(float(logsumexp(alpha * p + (1 - alpha) * q)) for p, q in pairs) / (alpha - 1)


def hockey_stick(found: Distributions, epsilon: float) -> float:
    """Return the larger delta(epsilon) of the two directions, up to 1e-4 of it (the integrand has a kink)."""
    pairs = (found.first, found.second), (found.second, found.first)
    return max(float(np.maximum(np.exp(p) - np.exp(epsilon + q), 0).sum()) for p, q in pairs)


def perturbed_fits(
    event: ObjectivePerturbationDpEvent | PureObjectivePerturbationDpEvent, adjacency: Adjacency
) -> list[Distributions]:
    """Return the laws of a fit by objective perturbation for several points t, for replaced records.

    The record's loss is, under D, linear with slope -L up to a point t, then bends with curvature beta until its slope
    is 0. Under D' it is linear with slope L. All other losses are 0. So theta is a one-to-one function of the
    perturbation: ``b = -(Lambda theta + phi'(theta))``. Its density is that of b times ``Lambda + phi''(theta)``. The
    log-ratio at t is the largest that slopes can give there, plus log(1 + beta/Lambda). The noise that covers the
    solver's error is left out: its width is below a thousandth of that of the events used, and it costs 1 % of epsilon.
    """
    gaussian = isinstance(event, ObjectivePerturbationDpEvent)
    scale = event.noise_std if gaussian else 1 / event.rate
    output = event.output_std if gaussian else event.output_scale
    if event.rank > 1:
        raise refuse("attacks.laws", event, "it attacks losses of one margin")
    if output * event.ridge > WIDEST * scale:
        raise refuse("attacks.laws", event, "the noise on the fit is not small beside the perturbation")
    found = []
    for bend in BENDS:
        t = (event.lipschitz + bend * scale) / event.ridge  # where b = -bend scale under D
        edges = (np.arange(-REACH, REACH, 1 / CELLS) * scale) / event.ridge + t
        slope = np.clip(event.smoothness * (edges - t), 0.0, event.lipschitz) - event.lipschitz
        sides = -(event.ridge * edges + slope), -(event.ridge * edges + event.lipschitz)
        masses = [_between(b / scale, gaussian) for b in sides]
        found.append(Distributions(edges[1:], masses[0], masses[1]))
    return found


def _between(b: np.ndarray, gaussian: bool) -> np.ndarray:
    """Return the log probability that b, of scale 1, is between neighbours of decreasing numbers."""

    def log_tail(x: np.ndarray) -> np.ndarray:
        return log_ndtr(-x) if gaussian else -x - math.log(2)

    low, high = b[1:], b[:-1]
    mirrored = np.abs(np.where(low + high > 0, low, high)), np.abs(np.where(low + high > 0, high, low))
    near, far = log_tail(mirrored[0]), log_tail(mirrored[1])
    inside = near + np.log(-np.expm1(np.minimum(far - near, -1e-300)))
    across = (low < 0) & (high > 0)
    both = np.log1p(-np.exp(np.minimum(near, 0.0)) - np.exp(np.minimum(far, 0.0)))
    return np.where(across, both, inside)


def votes(event: PateDpEvent, adjacency: Adjacency) -> list[Distributions]:
    """Return the law of the number of answers for the first of two classes, if all tests pass.

    The record's teacher votes for the first class under D, for the second or not at all under D'. Without him the
    votes are even, so each answer is one bit about him.
    """
    answers, spread = np.arange(event.answers + 1), math.sqrt(2) * event.answer_std
    shifts = (1.0, -1.0) if adjacency == "replace_one" else (1.0, 0.0)
    first, second = (binom.logpmf(answers, event.answers, ndtr(shift / spread)) for shift in shifts)
    return [Distributions(answers.astype(float), first, second)]


def linear_posteriors(event: PosteriorSampleDpEvent) -> list[Distributions]:
    """Return the laws of D and D' for linear losses ``-/+ W theta/(2 D)`` with the event's range W, for several pulls.

    The other records add up to `pull` times the loss of D'. So the log density is linear in theta, and its ratio has
    the bounded range 2 rho W. A large pull makes theta = D rare, and its ratio comes near that range.
    """
    u = (np.arange(GRID) + 0.5) / GRID * 2 - 1  # cells of equal width: their masses have the densities' ratio
    slope = event.rho * event.loss_range / 2
    found = []
    for pull in np.concatenate([[0.0], np.geomspace(0.05, 60, 60) / slope]):
        logs = [(side - pull) * slope * u for side in (1, -1)]
        first, second = (log - logsumexp(log) for log in logs)
        found.append(Distributions(u * event.radius, first, second))
    return found


def posterior_sample(
    event: PosteriorSampleDpEvent, runs: int, rng: torch.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return one posterior draw theta (runs,) under D and under D' of `posterior_pair` at `best_pull`.

    Their likelihood ratio grows with theta. The density is constant between neighbours on a grid of 20,001 points.
    """
    count(1, runs=runs)
    theta, first, second = posterior_pair(event, best_pull(event, runs))
    return theta[_places(first, runs, rng)], theta[_places(second, runs, rng)]


def posterior_pair(event: PosteriorSampleDpEvent, pull: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return theta on a grid of [-D, D], and the posterior densities of D and D' there, up to a factor, (GRID,) each.

    The record x = 1 has label +1 under D and -1 under D'. There are `pull` >= 0 further records x = 1 with label -1.
    log sigma(theta) - log sigma(-theta) = theta, so the log density ratio is rho theta + constant, with the bounded
    range 2 rho D of the event. The further records make theta = D rarer, and it tells more.
    """
    theta = np.linspace(-event.radius, event.radius, GRID)
    against, towards = (event.rho * -np.logaddexp(0, sign * theta) for sign in (1, -1))
    first, second = towards + pull * against, (pull + 1) * against
    return theta, np.exp(first - first.max()), np.exp(second - second.max())


def best_pull(event: PosteriorSampleDpEvent, runs: int) -> int:
    """Return the number of further records for which an audit at delta = 0 should find the largest epsilon."""
    found = []
    for pull in PULLS:
        _, first, second = posterior_pair(event, pull)
        p, q = (density[::-1].cumsum() / density.sum() for density in (first, second))
        low = p - MARGIN * np.sqrt(2 * p / runs)
        high = q + MARGIN * np.sqrt(2 * q / runs) + MARGIN / runs
        found.append(float(np.log(np.maximum(low, 1e-300) / high).max()))
    return PULLS[int(np.argmax(found))]
