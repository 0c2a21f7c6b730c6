r"""Stochastic gradient chains of many seeds and runs at once.

Chain (r, e), of seed r and run e, with clipped gradients g_i of the loss of one record::

    theta <- Proj_C(theta - eta_k ((1/m) sum_(i in B_k) g_i + lambda theta) + s_k N(0, I)),    C: ||theta|| <= radius

Runs share each seed's normal draws and rows, so that they are compared on the same noise: B_k is the start of one
random order of the rows, of m rows where subsets are drawn and of Binomial(n, m/n) rows where Poisson samples are.
Differs: the theorem of ryffel2022 bounds gradients of the whole loss.  Here only the part that depends on the record is
clipped; the ridge needs no data and cancels in the difference of two neighbours.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from dplangevin import noise
from dplangevin.checks import not_negative, positive
from dplangevin.problem import Problem

CELLS = 2**19  # of drawn rows at a time
Schedule = Literal["constant", "decreasing"]
Sampling = Literal["subsets", "poisson"]
Batch = tuple[Tensor, Tensor, Tensor]  # indices (R, M), sizes of Poisson samples (R,), normals (R, 1, d)
# theta (R, E, d), which it changes, rows, sizes, step sizes (E, 1) and what the ridge keeps of theta, (E, 1)
Descent = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], None]


@dataclass(frozen=True)
class Chain:
    """One run.  step_sizes eta_k, noise_std s_k: ``(steps,)``; start_std: of theta_0 ~ Proj_C N(0, start_std^2 I).

    clip: inf for none.
    """

    step_sizes: np.ndarray
    noise_std: np.ndarray
    precision: float
    sampling: Sampling = "subsets"
    clip: float = math.inf
    radius: float = math.inf
    start_std: float = 0.0


def step_sizes(schedule: Schedule, beta: float, precision: float, steps: int) -> np.ndarray:
    """eta_k, k = 0, ..., steps - 1: 1/(2 beta), or decreasing 1/(2 beta + lambda k/2) (ryffel2022, section 5.2)."""
    if schedule not in get_args(Schedule):
        raise ValueError(f"schedule = {schedule!r} must be one of {', '.join(get_args(Schedule))}")
    positive(beta=beta)
    not_negative(precision=precision)
    later = np.arange(steps) * (precision / 2 if schedule == "decreasing" else 0.0)
    return 1 / (2 * beta + later)


def stream_of(batch: int, epochs: float) -> str:
    """Name of the random stream of a chain."""
    return f"batches of {batch} for {epochs:g} epochs"


def batches(
    rng: torch.Generator, problem: Problem, batch: int, steps: int, block: int = 64
) -> Iterator[Batch]:
    """For every step and seed the start of a random order of the rows: `batch` of them or more.

    Its first `batch` are a uniform subset; its first b, b ~ Binomial(n, batch/n), a Poisson sample, of which each row
    is one with probability batch/n.
    """
    n, seeds, rate = float(problem.n), problem.repeats, batch / problem.n
    for first in range(0, steps, block):
        shape = min(block, steps - first), seeds
        sizes = torch.binomial(torch.full(shape, n), torch.full(shape, rate), generator=rng).long()
        rows = noise.subsets(rng, shape, problem.n, max(batch, int(sizes.max())))
        normals = torch.randn(*shape, 1, problem.d, generator=rng)
        yield from zip(rows, sizes, normals, strict=True)


def train(problem: Problem, chains: Sequence[Chain], batch: int, rng: torch.Generator) -> Tensor:
    """The last iterates, ``(R, E, d)``, of runs with equally many steps."""
    order = sorted(range(len(chains)), key=lambda e: chains[e].sampling != "subsets")
    ordered = [chains[e] for e in order]
    start = torch.randn(problem.repeats, 1, problem.d, generator=rng)
    stream = batches(rng, problem, batch, len(chains[0].step_sizes))
    theta = run(ordered, start, stream, descent(problem, ordered, batch))
    return theta[:, [order.index(e) for e in range(len(chains))]]


def run(chains: Sequence[Chain], start: Tensor, stream: Iterator[Batch], descend: Descent) -> Tensor:
    """The last iterates, ``(R, E, d)``.

    start: standard normals ``(R, 1, d)``.  descend: a step without its noise, see `descent`.
    """
    steps = {len(chain.step_sizes) for chain in chains}
    if len(steps) != 1:
        raise ValueError(f"runs of {sorted(steps)} steps cannot share their batches")
    radius, spread = (_column(getattr(c, name) for c in chains) for name in ("radius", "start_std"))
    theta = _projected(spread * start, radius)
    etas = torch.tensor(np.stack([c.step_sizes for c in chains], 1), dtype=torch.float32)[..., None]
    stds = torch.tensor(np.stack([c.noise_std for c in chains], 1), dtype=torch.float32)[..., None]
    keep = 1 - etas * _column(c.precision for c in chains)
    noisy = bool((stds > 0).any())
    bar = tqdm(stream, total=steps.pop(), unit="step", leave=False, disable=None)
    for k, (rows, sizes, normals) in enumerate(bar):
        descend(theta, rows, sizes, etas[k], keep[k])
        if noisy:
            theta.addcmul_(stds[k], normals)
        theta = _projected(theta, radius)
    return theta


def descent(problem: Problem, chains: Sequence[Chain], batch: int) -> Descent:
    """``theta <- keep theta - (eta/batch) sum_B min(1, clip_e/||g_i||) g_i``, for rows that all repeats share.

    chains: those on subsets first.  batch: a constant, not the number of rows that were drawn.
    """
    x, classes = problem.x[0], problem.classes
    side = torch.stack([problem.y[0], x.norm(dim=1)], 1)
    clips = _column(chain.clip for chain in chains)
    if not float(clips.min()) > 0:
        raise ValueError(f"clips {clips.flatten().tolist()} must be positive; inf for none")
    split = sum(chain.sampling == "subsets" for chain in chains)
    parts = [slice(0, split), slice(split, None)]
    at_once = max(1, CELLS // (batch * problem.features))

    def descend(theta: Tensor, rows: Tensor, sizes: Tensor, eta: Tensor, keep: Tensor) -> None:
        longest = max(1, int(sizes.max())) if split < len(chains) else 0
        rows = rows[:, : max(batch if split else 0, longest)]
        scale = eta / batch  # (E, 1)
        for first in range(0, len(theta), at_once):
            seeds = slice(first, first + at_once)
            flat = rows[seeds].reshape(-1)
            drawn = x.index_select(0, flat).view(-1, rows.shape[1], problem.features)
            known = side.index_select(0, flat).view(-1, rows.shape[1], 2)
            if split:
                subset = drawn[:, :batch], known[:, :batch]
                into(theta[seeds, parts[0]], *subset, scale[parts[0]], parts[0], keep)
            if longest:
                there = torch.arange(rows.shape[1]) < sizes[seeds, None]  # (R, m)
                into(theta[seeds, parts[1]], drawn, known, there[:, None] * scale[parts[1]], parts[1], keep)

    def into(theta: Tensor, x: Tensor, known: Tensor, share: Tensor, runs: slice, keep: Tensor) -> None:
        """x (R, m, p); known: label and norm, (R, m, 2); share: eta/batch, or 0, (E, 1) or (R, E, m)."""
        labels, norms = known.unbind(-1)
        folded = theta.view(len(theta), -1, problem.features)  # (R, E K, p)
        margins = folded @ x.mT
        if classes > 1:
            margins = margins.unflatten(1, (-1, classes))
        slope = problem.loss.slope(margins, labels[:, None])  # (R, E, m) or (R, E, K, m)
        size = slope.abs() if classes == 1 else slope.square().sum(-2).sqrt_()
        weight = (clips[runs] / size.mul_(norms[:, None])).clamp_(max=1.0).mul_(share)  # (R, E, m)
        slope.mul_(weight if classes == 1 else weight[:, :, None])
        theta.mul_(keep[runs])
        folded.baddbmm_(slope.flatten(1, -2), x, alpha=-1)

    return descend


def _column(values: Iterator[float]) -> Tensor:
    return torch.tensor(list(values), dtype=torch.float32)[:, None]


def _projected(theta: Tensor, radius: Tensor) -> Tensor:
    if bool((radius == math.inf).all()):
        return theta
    return theta * (radius / theta.norm(dim=-1, keepdim=True)).clamp_(max=1.0)
