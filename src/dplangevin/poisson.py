"""Clipped gradients of Poisson samples: the loop that DP-SGLD in li2019's form, DP-SGD and their limits share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from dp_accounting import DpEvent
from torch import Tensor
from tqdm import tqdm

from dplangevin import noise
from dplangevin.kernels.sgld import sgld
from dplangevin.privacy import Adjacency, Budget, Guarantee
from dplangevin.problem import Problem

ASSUMPTIONS = (
    "number of records public",
    "step size, clip, batch, prior and scaling chosen without accounting",
)


@dataclass(frozen=True)
class Poisson:
    """Poisson samples: each row is in a step's minibatch with probability batch/N (q), for `passes` over the data.

    batch: tau, the expected size, in 1..N.  steps = floor(N passes/tau).
    """

    batch: int
    passes: float

    def __post_init__(self) -> None:
        if not (self.batch >= 1 and self.batch == int(self.batch)):
            raise ValueError(f"batch must be a whole number >= 1, not {self.batch}")
        if not (self.passes > 0 and math.isfinite(self.passes)):
            raise ValueError(f"passes must be positive and finite, not {self.passes}")

    def rate(self, problem: Problem) -> float:
        if self.batch > problem.n:
            raise ValueError(f"batch = {self.batch} is larger than the data set ({problem.n} rows)")
        return self.batch / problem.n

    def steps(self, problem: Problem) -> int:
        steps = math.floor(problem.n * self.passes / self.batch)
        if steps < 1:
            raise ValueError(f"passes = {self.passes} makes no step with batch = {self.batch}: raise passes")
        return steps

    def run(
        self,
        problem: Problem,
        step_size: Tensor,
        noise_std: Tensor,
        clip: float,
        precision: float,
        keep: Sequence[int],
        rng: torch.Generator,
    ) -> Tensor:
        """From theta_1 = 0: ``theta <- theta - eta_t ((1/tau) sum_S clipped + precision/N theta) + z_t``.

        Returns theta after the steps named in `keep` (1-based), ``(R, E, len(keep), d)``.  The sum is divided by tau, a
        constant: the size of S is private.  step_size, noise_std: eta_t and the deviation of z_t, ``(steps, E)``.
        clip: bound on the norm of one row's gradient, inf for none.
        """
        eta, std = step_size.float()[..., None], noise_std.float()[..., None]  # (steps, E, 1)
        kernel, wanted, kept = sgld(), set(keep), []
        state = kernel.init(torch.zeros(problem.repeats, eta.shape[1], problem.d))
        stream = noise.poisson_stream(
            rng, problem.repeats, problem.n, self.rate(problem), problem.d, len(eta)
        )
        for t, (rows, mask, normals) in enumerate(
            tqdm(stream, total=len(eta), unit="step", leave=False, disable=None)
        ):
            gradient = problem.clipped_grad(state.theta, rows, mask, clip) / self.batch
            gradient = gradient + (precision / problem.n) * state.theta
            state = kernel.step(state, gradient, std[t] * normals, eta[t])
            if t + 1 in wanted:
                kept.append(state.theta)
        return torch.stack(kept, 2)


def poisson_guarantee(claimed: float, budget: Budget, event: DpEvent, adjacency: Adjacency) -> Guarantee:
    """The guarantee of a chain on clipped gradients of Poisson samples whose every iterate is released."""
    return Guarantee(claimed, budget.delta, event, adjacency, "all_iterates", "poisson", ASSUMPTIONS)
