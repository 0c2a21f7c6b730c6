"""An attack on the whole visible chain of sampled Gaussian steps, on the worst pair that a price's hypotheses admit."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from dp_accounting import DpEvent, GaussianDpEvent, PoissonSampledDpEvent, SampledWithoutReplacementDpEvent
from scipy.special import log_ndtr, ndtr
from torch import Tensor
from tqdm import tqdm

from dplangevin import checks
from dplangevin.privacy.accountants.protocol import leaves, refuse
from dplangevin.privacy.events import Adjacency, RandomAllocationDpEvent, check_adjacency
from dplangevin.privacy.gaussian_steps import rate_and_multiplier, rounding

BINS = 96  # cells of one step's output, if there are many equal steps
FEW = 4 * BINS  # up to so many equal steps are drawn one by one
REACH = 12.0  # standard deviations of noise that are divided into cells
SMALLEST = 1e-300  # least probability of a cell, so that log-ratios stay finite
CHUNK = 2**21  # draws held in memory at once


def all_iterates(
    event: DpEvent, runs: int, rng: torch.Generator, adjacency: Adjacency = "replace_one"
) -> tuple[np.ndarray, np.ndarray]:
    """Return the log-likelihood ratio of all steps' outputs, ``(runs,)`` under D and ``(runs,)`` under D'.

    A step releases a sum plus N(0, z^2), in units of one record's bound. The record is in the batch with probability
    q. The sum is 0 without the record and s with it. The other records are chosen so that s is:

        any, add_remove         D: s = 1    D': no such record
        Poisson, replace_one    D: s = 1    D': s = -1
        others, replace_one     D: s = 2    D': s = 0    (all others, and the record under D', are -1)

    The output is the mixture (1 - q) N(0, z^2) + q N(s, z^2). The last pair attains the profile of Balle, Barthe and
    Gaboardi (2018), Theorem 11, in one of its two directions. There is none without replacement under add_remove.

    An epoch of random allocation has t outputs. The record is in one of them, and s is that of Poisson samples. The
    density under D, over that of t outputs N(0, z^2), is the mean of exp((x_i s - s^2/2)/z^2).

    For many equal steps, or steps of an epoch, the counts of outputs in 96 cells are drawn from their multinomial
    distribution, and the ratio is that of the cells: a function of the outputs, so the audit stays valid.

    An event has the least noise of each epoch, and may have rounded noise down (`gaussian_steps.rounding`), which
    would overstate what an attack shows. So the attack leaves out epochs that end early or whose steps differ in
    noise, and all other steps get more noise by that factor.

    Source: balle2018subsampling, Theorem 11.
    """
    check_adjacency(adjacency, who="attacks.sampled")
    checks.count(1, runs=runs)
    kinds = list(leaves(event))
    shown = [each for each in kinds if not isinstance(each[0], RandomAllocationDpEvent) or each[0].whole]
    if kinds and not shown:
        raise refuse("attacks.sampled", event, "no epoch is whole, with equal noise in all of its steps")
    groups = [(_step(leaf, adjacency), count) for leaf, count in shown]
    more = rounding([step.noise_std for step, _ in groups])
    work = runs * sum(_draws(step, count) for step, count in groups)
    total = torch.zeros(2, runs, dtype=torch.float64)
    with tqdm(total=work, unit="draw", unit_scale=True, leave=False, disable=None) as bar:
        for least, count in groups:
            step, draws = least._replace(noise_std=more * least.noise_std), _draws(least, count)
            for side in range(2):
                for out in total[side].split(max(1, CHUNK // draws)):  # that fit in memory
                    if step.places > FEW:
                        for _ in range(count):
                            out += _allocated(len(out), side, step, rng)
                    elif step.places > 1 or count <= FEW:
                        out += _drawn(len(out), count, side, step, rng)
                    else:
                        out += _counted(len(out), count, side, step, rng)
                    bar.update(len(out) * draws / 2)
    return total[0].numpy(), total[1].numpy()


Mixture = tuple[float, float]  # q and s of the mixture (1 - q) N(0, z^2) + q N(s, z^2)
NOTHING: Mixture = (0.0, 0.0)


class _Step(NamedTuple):
    """z, the mixtures under D and D', and the number of outputs of which one is from its mixture, others N(0, z^2)."""

    noise_std: float
    mixtures: tuple[Mixture, Mixture]
    places: int = 1


def _draws(step: _Step, count: int) -> int:
    return min(count, FEW) if step.places == 1 else count * min(step.places, FEW)


def _step(leaf: DpEvent, adjacency: Adjacency) -> _Step:
    if isinstance(leaf, RandomAllocationDpEvent):
        inside = PoissonSampledDpEvent(1.0, leaf.event)
        return _step(inside, adjacency)._replace(places=leaf.steps)
    inner = leaf.event if isinstance(leaf, PoissonSampledDpEvent | SampledWithoutReplacementDpEvent) else leaf
    if not isinstance(inner, GaussianDpEvent):
        raise refuse("attacks.sampled", leaf, "it attacks Gaussian steps, sampled or not")
    if not inner.noise_multiplier > 0:
        raise ValueError(
            f"noise multiplier {inner.noise_multiplier} must be positive: there is nothing to attack"
        )
    rate, noise_std = rate_and_multiplier(leaf)
    if isinstance(leaf, SampledWithoutReplacementDpEvent) and adjacency == "add_remove":
        raise refuse("attacks.sampled", leaf, "sampling without replacement keeps the number of records")
    if adjacency != "replace_one":
        return _Step(noise_std, ((rate, 1.0), NOTHING))
    if isinstance(leaf, PoissonSampledDpEvent):
        return _Step(noise_std, ((rate, 1.0), (rate, -1.0)))
    return _Step(noise_std, ((rate, 2.0), NOTHING))


def log_density(x: Tensor, mixture: Mixture, noise_std: float) -> Tensor:
    """Return the log of the density of (1 - q) N(0, z^2) + q N(s, z^2) over that of N(0, z^2); mixture = (q, s)."""
    rate, shift = mixture
    if rate == 0:
        return torch.zeros_like(x)
    hit = (x - shift / 2) * (shift / noise_std**2) + math.log(rate)
    return hit if rate == 1 else torch.logaddexp(hit, hit.new_tensor(math.log1p(-rate)))


def _drawn(runs: int, count: int, side: int, step: _Step, rng: torch.Generator) -> Tensor:
    """Return the summed log-likelihood ratio of `count` steps, drawn one by one, ``(runs,)``."""
    rate, shift = step.mixtures[side]
    x = torch.randn(runs, count, step.places, generator=rng, dtype=torch.float64) * step.noise_std
    if rate > 0:  # at which place the record is makes no difference
        x[..., 0] += shift * (torch.rand(runs, count, generator=rng, dtype=torch.float64) < rate)
    first, second = (log_density(x, mixture, step.noise_std) for mixture in step.mixtures)
    if step.places > 1:  # log of the means, up to log(t) in both
        first, second = first.logsumexp(-1, keepdim=True), second.logsumexp(-1, keepdim=True)
    return (first - second).sum((1, 2))


def _counted(runs: int, count: int, side: int, step: _Step, rng: torch.Generator) -> Tensor:
    """Return the summed log-likelihood ratio of `count` steps, from their counts in cells, ``(runs,)``."""
    mass = cells(step.noise_std, step.mixtures).clip(min=SMALLEST)  # (2, cells)
    ratio = np.log(mass[0]) - np.log(mass[1])
    return _in_cells(runs, count, mass[side], ratio[None], rng)[0]


def _allocated(runs: int, side: int, step: _Step, rng: torch.Generator) -> Tensor:
    """Return the log-likelihood ratio of an epoch, from the counts of its outputs in cells, ``(runs,)``."""
    mass = cells(step.noise_std, (*step.mixtures, NOTHING)).clip(min=SMALLEST)  # (3, cells)
    means = _in_cells(runs, step.places - 1, mass[2], mass[:2] / mass[2], rng)
    own = torch.multinomial(torch.from_numpy(mass[side]), runs, replacement=True, generator=rng)
    means += torch.from_numpy(mass[:2] / mass[2])[:, own]
    return means[0].log() - means[1].log()


def _in_cells(runs: int, count: int, mass: np.ndarray, values: np.ndarray, rng: torch.Generator) -> Tensor:
    """Return the sums of each row of values, ``(rows, cells)``, over `count` draws of a cell, ``(rows, runs)``."""
    order = np.argsort(-mass)  # likely cells first, so that the remaining count shrinks quickly
    out = torch.zeros(len(values), runs, dtype=torch.float64)
    left = torch.full((runs,), float(count), dtype=torch.float64)
    rest = mass[order][::-1].cumsum()[::-1]  # of this cell and all later ones
    for cell, share in zip(order, np.minimum(mass[order] / rest, 1.0), strict=True):
        hits = torch.binomial(left, torch.full_like(left, float(share)), generator=rng)
        left -= hits
        for row, value in zip(out, values[:, cell], strict=True):
            row.add_(hits, alpha=float(value))
    return out


def cells(noise_std: float, mixtures: Sequence[Mixture]) -> np.ndarray:
    """Return the probabilities ``(mixtures, BINS)`` of the cells of the line, under D, under D' and of others.

    With the mean p of both densities and their log ratio r, the density of the cells is proportional to the cube root
    of p r'^2. This loses least of r for a given number of cells. The outer two cells are unbounded.
    """
    shifts = [0.0, *(shift for _, shift in mixtures)]
    low, high = min(shifts) - REACH * noise_std, max(shifts) + REACH * noise_std
    x = torch.linspace(low, high, 20_001, dtype=torch.float64)
    logs = [log_density(x, mixture, noise_std) for mixture in mixtures[:2]]
    ratio, noise = (logs[0] - logs[1]).numpy(), -0.5 * (x.numpy() / noise_std) ** 2
    density = np.exp(logs[0].numpy() + noise) + np.exp(logs[1].numpy() + noise)
    finest = np.cbrt(density * np.gradient(ratio, x.numpy()) ** 2)
    level = np.concatenate([[0.0], np.cumsum((finest[1:] + finest[:-1]) / 2)])
    edges = np.interp(np.arange(1, BINS) / BINS * level[-1], level, x.numpy())
    return np.stack(
        [(1 - q) * _between(edges / noise_std) + q * _between((edges - s) / noise_std) for q, s in mixtures]
    )


def _between(edges: np.ndarray) -> np.ndarray:
    """Return the standard normal probability of each cell, computed from the smaller tail."""
    low, high = np.append(-np.inf, edges), np.append(edges, np.inf)
    flip = low > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    return ndtr(high) * -np.expm1(np.minimum(log_ndtr(low) - log_ndtr(high), 0.0))
