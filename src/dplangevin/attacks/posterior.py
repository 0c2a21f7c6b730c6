"""One exact posterior sample on a ball (OPS), attacked in one dimension."""

import math
from typing import NamedTuple

import numpy as np
import torch

from dplangevin.privacy.events import PosteriorSampleDpEvent

GRID = 20_001
PULLS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
MARGIN = 2.5  # standard errors that the audit is expected to lose on either side


class Density(NamedTuple):
    """Densities ``(GRID,)`` at theta, each up to a factor, under D and D'."""

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
    """Log-likelihood ratios ``(runs,)`` of one draw from the posteriors of D and D' of `pair`, by inverse CDF.

    The density is taken as constant between neighbours of a grid of 20,001 points.  pull: None takes
    `best_pull` at delta.
    """
    if runs < 1:
        raise ValueError(f"runs = {runs} must be at least 1")
    theta, first, second = pair(event, best_pull(event, runs, delta) if pull is None else pull)
    shift = math.log(second.sum() / first.sum())
    out = []
    for density in (first, second):
        edges = np.concatenate([[0.0], np.cumsum(density)])
        uniform = torch.rand(runs, generator=rng, dtype=torch.float64).numpy() * edges[-1]
        cell = np.clip(np.searchsorted(edges, uniform, "right") - 1, 0, GRID - 1)
        out.append(event.rho * theta[cell] + shift)
    return out[0], out[1]


def pair(event: PosteriorSampleDpEvent, pull: int) -> Density:
    """Posteriors on [-D, D]: the record x = 1 has label +1 under D, -1 under D'; `pull` >= 0 further ones label -1.

    log sigma(theta) - log sigma(-theta) = theta, so the log density ratio is rho theta + constant: its range is the
    bounded range 2 rho D of the event, whatever the other records.  Both posteriors are log-concave, so unlike the
    worst case of that range they cannot sit at both ends.  The others gather them at -D, which moves the ratio's
    constant towards that end and makes theta = D the more telling, and rarer.
    """
    if pull < 0:
        raise ValueError(f"pull = {pull} must be >= 0: it counts records")
    theta = np.linspace(-event.radius, event.radius, GRID)
    against, towards = (event.rho * -np.logaddexp(0, sign * theta) for sign in (1, -1))
    first, second = towards + pull * against, (pull + 1) * against
    return Density(theta, np.exp(first - first.max()), np.exp(second - second.max()))


def best_pull(event: PosteriorSampleDpEvent, runs: int, delta: float = 0.0) -> int:
    """The number of further records at which an audit of so many runs is expected to find the largest epsilon."""
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
