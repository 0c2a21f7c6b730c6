"""An attack on the last iterate of DP-Langevin (ryffel2022, Algorithm 1), in one dimension.

C = [-radius, radius]. Every loss is ``lambda/2 theta^2 + c theta``, so it is lambda-strongly convex and lambda-smooth.
The differing record has c = -g under D and c = g under D'. The other records give two pairs:

    "flat"      c = 0; the paths of D and D' mirror each other
    "opposite"  c = g, like the record under D'; the path of D' is then plain autoregression

In "opposite", under D, a batch with the record differs by 2 g from a batch without it. All paths drift together, by at
most g times the sum of the step sizes.

``g = L - lambda radius`` makes all gradients at most L on C. With radius = inf, ``g = L``, and L bounds only the
gradient of the linear part, which differs, as if the ridge did not depend on the data.

A step uses the record with probability batch/records, independently of earlier steps. Such a step shifts theta by
eta_k/batch times the difference of the gradients. Everything else is linear and Gaussian.
"""

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from scipy.special import ndtri
from scipy.stats import binom
from torch import Tensor
from tqdm import tqdm

from dplangevin.privacy.events import LangevinDpEvent

Others = Literal["flat", "opposite"]
NEGLIGIBLE = 1e-12  # probability that some iterate of a run leaves C, if the radius is chosen here
USES, DRIFT = 4.0, 0.5
CHUNK = 2**20


class Pair(NamedTuple):
    """Radius of C, and per unit of step size: drift without the record, and what a use adds under D and under D'."""

    drift: float
    pushes: tuple[float, float]
    radius: float


def last_iterate(
    event: LangevinDpEvent,
    runs: int,
    rng: torch.Generator,
    init_std: float | None = None,
    project: float | None = None,
    others: Others | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw theta_K (runs,) of Algorithm 1 under D and D'; their likelihood ratio grows with theta.

    - `init_std`: theta_0 ~ Proj_C N(0, init_std^2); None: the paper's variance ``2 sigma^2/lambda``.
    - `project`: radius of C; finite: the runs go step by step. None: the event's, or if that is inf a radius so large
      that the projection acts in a run with probability below 1e-12. Then the noise of all steps is drawn as one
      Gaussian, and the steps that use the record one by one.
    - `others`: None takes `chosen_others`.

    Source: ryffel2022, Algorithm 1.
    """
    if runs < 1:
        raise ValueError(f"runs = {runs} must be at least 1")
    spread = initial_std(event, init_std)
    project = in_ball(event, project)
    pair = pair_for(event, spread, project, others)
    if project is not None and project < math.inf:
        return _stepwise(event, pair, runs, rng, spread)
    keep, shares = kept_shares(event)
    variance = (keep * spread) ** 2 + float((2 * event.step_sizes() * shares**2).sum()) * event.noise_std**2
    centre = pair.drift * float((event.step_sizes() * shares).sum())
    sizes = torch.as_tensor(event.step_sizes() * shares)
    out = []
    for push in pair.pushes:
        theta = centre + math.sqrt(variance) * torch.randn(runs, generator=rng, dtype=torch.float64)
        if push and event.batch == event.records:
            theta += push * float(sizes.sum())
        elif push:
            for run, step in _uses(event.batch / event.records, runs, event.steps, rng):
                theta.index_add_(0, run, push * sizes[step])
        out.append(theta.clamp(-pair.radius, pair.radius).numpy())
    return out[0], out[1]


def chosen_others(event: LangevinDpEvent) -> Others:
    """Choose the other records by a rule of thumb.

    "opposite" if batches are sampled, the record is used at most `USES` times on average, and lambda times the sum of
    the step sizes is at most `DRIFT`; else "flat": of many uses only the sum is visible, and the drift reduces g.
    """
    rare = event.steps * event.batch <= USES * event.records
    short = event.strong_convexity * float(event.step_sizes().sum()) <= DRIFT
    return "opposite" if event.batch < event.records and rare and short else "flat"


def pair_for(
    event: LangevinDpEvent,
    init_std: float,
    project: float | None = None,
    others: Others | None = None,
    negligible: float = NEGLIGIBLE,
) -> Pair:
    """Return the pair of data sets, with its radius and the largest g that this radius allows; see `last_iterate`."""
    project = in_ball(event, project)
    others = chosen_others(event) if others is None else others
    if others not in get_args(Others):
        raise ValueError(f"others = {others!r} must be one of {', '.join(get_args(Others))}")
    ridge, etas = event.strong_convexity, event.step_sizes()
    if event.step_size * ridge > 1:
        raise ValueError(
            f"step_size = {event.step_size} must be at most 1/strong_convexity = {1 / ridge:.4g}"
        )
    if project is None:
        radius = _radius(event, init_std, others, negligible)
    elif project > 0:
        radius = project
    else:
        raise ValueError(f"project = {project} must be positive, or None for a radius that hardly matters")
    g = event.lipschitz - (ridge * radius if radius < math.inf else 0.0)
    if g <= 0:
        raise ValueError(
            f"radius = {radius:.4g} leaves no gradient: strong_convexity * radius must be below lipschitz = "
            f"{event.lipschitz}; lower project or the noise (over {len(etas)} steps)"
        )
    if others == "flat":
        return Pair(0.0, (g / event.batch, -g / event.batch), radius)
    return Pair(-g, (2 * g / event.batch, 0.0), radius)


def in_ball(event: LangevinDpEvent, project: float | None) -> float | None:
    """Return `project`, or the radius of the event if it is None and this radius is finite."""
    return event.radius if project is None and event.radius < math.inf else project


def initial_std(event: LangevinDpEvent, init_std: float | None) -> float:
    """Return init_std, or the standard deviation of the paper's initial law if it is None."""
    if init_std is not None:
        if not init_std >= 0:
            raise ValueError(f"init_std = {init_std} must be >= 0, or None for sqrt(2 sigma^2/lambda)")
        return init_std
    if event.strong_convexity == 0:
        raise ValueError("strong_convexity = 0 has no initial law N(0, 2 sigma^2/lambda): give init_std")
    return event.noise_std * math.sqrt(2 / event.strong_convexity)


def kept_shares(event: LangevinDpEvent) -> tuple[float, np.ndarray]:
    """Return the share of theta_0 that remains in theta_K, and that of a shift at each step, ``(steps,)``."""
    kept = np.cumprod(1 - event.step_sizes()[::-1] * event.strong_convexity)[::-1]
    return float(kept[0]), np.append(kept[1:], 1.0)


def _radius(event: LangevinDpEvent, init_std: float, others: Others, negligible: float) -> float:
    """Return radius = noise + g reach, g = L - lambda radius, with P(some iterate exceeds it) <= `negligible`."""
    ridge, eta = event.strong_convexity, float(event.step_sizes()[0])
    total = float(event.step_sizes().sum())
    grown = init_std**2 + 2 * event.noise_std**2 * total
    if ridge:
        stationary = 2 * event.noise_std**2 / (ridge * (2 - eta * ridge))
        grown = min(grown, max(init_std**2, stationary))
    noise = -float(ndtri(negligible / (4 * (event.steps + 1)))) * math.sqrt(grown)
    most = most_uses(event.steps, event.batch / event.records, negligible / 2) / event.batch
    longest = min(total, 1 / ridge) if ridge else total
    push = min(most * eta, longest / event.batch)
    reach = push if others == "flat" else longest + 2 * push
    return (noise + reach * event.lipschitz) / (1 + ridge * reach)


def most_uses(steps: int, rate: float, negligible: float) -> int:
    """Return the largest number of uses, of Binomial(steps, rate), with probability above `negligible` by itself."""
    if rate >= 1:
        return steps
    likely = binom.logpmf(np.arange(steps + 1), steps, rate) > math.log(negligible)
    return int(np.flatnonzero(likely)[-1])


def _uses(rate: float, runs: int, steps: int, rng: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (run, step) of uses of the record in chunks, by the geometric gaps of a Bernoulli process."""
    last, cells = -1, runs * steps
    with tqdm(total=cells, unit="step", unit_scale=True, leave=False, disable=None) as bar:
        while last < cells:
            uniform = 1 - torch.rand(CHUNK, generator=rng, dtype=torch.float64)  # in (0, 1]
            gaps = (uniform.log() / math.log1p(-rate)).floor().clamp(max=float(cells)).long() + 1
            at = last + gaps.cumsum(0)
            before, last = last, int(at[-1])
            bar.update(min(last, cells) - max(before, 0))
            at = at[at < cells]
            yield at // steps, at % steps


def _stepwise(
    event: LangevinDpEvent, pair: Pair, runs: int, rng: torch.Generator, spread: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return theta_K of Algorithm 1 as printed, with a projection after each step."""
    rate, out = event.batch / event.records, []
    for push in pair.pushes:
        theta = spread * torch.randn(runs, generator=rng, dtype=torch.float64)
        theta.clamp_(-pair.radius, pair.radius)
        for eta in tqdm(event.step_sizes().tolist(), unit="step", leave=False, disable=None):
            used = torch.rand(runs, generator=rng, dtype=torch.float64) < rate
            theta.mul_(1 - eta * event.strong_convexity).add_(eta * pair.drift).add_(used, alpha=eta * push)
            normals = torch.randn(runs, generator=rng, dtype=torch.float64)
            theta.add_(normals, alpha=math.sqrt(2 * eta) * event.noise_std).clamp_(-pair.radius, pair.radius)
        out.append(theta.numpy())
    return out[0], out[1]
