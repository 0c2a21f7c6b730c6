"""What a problem and the loop of `samplers.chains` share: the description of a chain, and two protocols."""

import math
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from dplangevin.problems import Sums
from dplangevin.problems.sampling import Sampling
from dplangevin.random import Batch

State = tuple[Tensor, ...]  # theta (S, E, d) first


class Chain(NamedTuple):
    """The settings of one chain.

    - `step`, `noise_std`: (T,), step sizes eta_t, and standard deviations of the noise on the sum of clipped gradients.
    - `clip`: > 0, bound on the norm of one record's gradient; inf for none.
    - `l2`: weight of ``l2/2 ||theta||^2``, which is added to the mean loss.
    - `momentum`: in [0, 1).
    - `radius`: of the ball that theta is projected onto; inf for no projection.
    - `start_std`: noise N(0, start_std^2 I) is added to the start, and the result is projected.
    - `keep`: steps (1-based) after which theta is kept; if empty, only the last step.
    - `mean_clip`: > 0, bound on the norm of ``sum_i g_i/tau`` before the noise; inf for none. With it, one record moves
      the sum by at most 2 tau mean_clip.
    """

    step: Tensor
    noise_std: Tensor
    sampling: Sampling
    clip: float = math.inf
    l2: float = 0.0
    momentum: float = 0.0
    radius: float = math.inf
    start_std: float = 0.0
    keep: tuple[int, ...] = ()
    mean_clip: float = math.inf

    def sensitivity(self, n: int) -> float:
        """Return how far adding or removing one of n records moves a minibatch's sum, at most."""
        return min(self.clip, 2 * self.sampling.size(n) * self.mean_clip)


class Observer(Protocol):
    """A callback that sees every step and changes nothing; its `state` is part of a checkpoint."""

    state: dict[str, Any]

    def __call__(self, step: int, theta: Tensor, rows: Tensor, sums: Sums) -> None:
        """Look at the chains after the 1-based `step`, with the sums before `Chain.mean_clip` and noise.

        Shapes: theta ``(S, E, d)`` after the step, numbers of rows of the minibatches ``(S, E)``.
        """
        ...


class Kernel(Protocol):
    """The rule that computes the next state of the chains from the noisy sums."""

    def init(self, theta: Tensor, rng: torch.Generator) -> State:
        """Return the first state for theta ``(S, E, d)``."""
        ...

    def step(self, state: Any, noisy: Tensor, t: int, batch: Batch) -> State:
        """Return the state after step t = 0, 1, ..., from the state before it and the noisy sum G_t ``(S, E, d)``.

        Theta is the first entry of a state.
        """
        ...
