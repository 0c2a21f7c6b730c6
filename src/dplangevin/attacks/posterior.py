"""Attacks on one exact posterior sample on a ball (OPS), in one dimension, of logistic or (`linear_laws`) any loss."""

import math
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import logsumexp

from dplangevin.attacks.langevin import Distributions
from dplangevin.privacy.events import PosteriorSampleDpEvent

GRID = 20_001
PULLS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
MARGIN = 2.5  # standard errors that the audit is expected to lose on each data set


class Density(NamedTuple):
    """Posterior densities under D and under D' on a grid of theta, (GRID,) each, up to a factor."""

    theta: np.ndarray
    first: np.ndarray
    second: np.ndarray


def sample(
    event: PosteriorSampleDpEvent,
    runs: int,
    rng: torch.Generator,
    pull: int | None = None,
    delta: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return log-likelihood ratios (runs,) of one draw under D and under D' of `pair`, by inverse CDF.

    The density is constant between neighbours on a grid of 20,001 points. pull = None takes `best_pull` at delta.
    """
    if runs < 1:
        raise ValueError(f"runs = {runs} must be at least 1")
    theta, first, second = pair(event, best_pull(event, runs, delta) if pull is None else pull)
    at = int(np.minimum(first, second).argmax())  # each density is in units of its own maximum
    ratio = math.log(first[at] / second[at]) - event.rho * theta[at]
    shift = math.log(second.sum() / first.sum()) + ratio
    out = []
    for density in (first, second):
        edges = np.concatenate([[0.0], np.cumsum(density)])
        uniform = torch.rand(runs, generator=rng, dtype=torch.float64).numpy() * edges[-1]
        cell = np.clip(np.searchsorted(edges, uniform, "right") - 1, 0, GRID - 1)
        out.append(event.rho * theta[cell] + shift)
    return out[0], out[1]


def pair(event: PosteriorSampleDpEvent, pull: int) -> Density:
    """Return the posteriors of D and D' on [-D, D].

    The record x = 1 has label +1 under D and -1 under D'. There are `pull` >= 0 further records x = 1 with label -1.
    log sigma(theta) - log sigma(-theta) = theta, so the log density ratio is rho theta + constant. Its range is the
    bounded range 2 rho D of the event. The further records concentrate both posteriors at -D and move the constant
    towards that end. So theta = D becomes rarer and tells more.
    """
    if pull < 0:
        raise ValueError(f"pull = {pull} must be >= 0: it counts records")
    theta = np.linspace(-event.radius, event.radius, GRID)
    against, towards = (event.rho * -np.logaddexp(0, sign * theta) for sign in (1, -1))
    first, second = towards + pull * against, (pull + 1) * against
    return Density(theta, np.exp(first - first.max()), np.exp(second - second.max()))


def linear_laws(event: PosteriorSampleDpEvent) -> list[Distributions]:
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


def best_pull(event: PosteriorSampleDpEvent, runs: int, delta: float = 0.0) -> int:
    """Return the number of further records for which an audit at delta should find the largest epsilon."""
    found = []
    for pull in PULLS:
        _, first, second = pair(event, pull)
        p, q = (density[::-1].cumsum() / density.sum() for density in (first, second))
        low, high = (
            p - MARGIN * np.sqrt(2 * p / runs) - delta,
            q + MARGIN * np.sqrt(2 * q / runs) + MARGIN / runs,
        )
        found.append(float(np.log(np.maximum(low, 1e-300) / high).max()))
    return PULLS[int(np.argmax(found))]
