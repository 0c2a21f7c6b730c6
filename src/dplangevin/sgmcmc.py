"""Stochastic gradient MCMC under wang2015's privacy: how much noise, which event, and the loop over minibatches."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from torch import Tensor
from tqdm import tqdm

from dplangevin import noise
from dplangevin.kernels import Kernel
from dplangevin.privacy import Budget, Guarantee
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.problem import Problem


@dataclass(frozen=True)
class Minibatches:
    """Minibatches of `batch` rows (tau), drawn without replacement within a step, for `passes` over the data (T).

    None stands for sqrt(N), what the paper uses in its experiments.  steps = floor(N T/tau).
    """

    batch: int | None = None
    passes: float | None = None

    def __post_init__(self) -> None:
        for name in ("batch", "passes"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} must be positive or null (for sqrt(N)), not {value}")

    def size(self, problem: Problem) -> int:
        size = round(math.sqrt(problem.n)) if self.batch is None else int(self.batch)
        if size > problem.n:
            raise ValueError(f"batch = {size} is larger than the data set ({problem.n} rows)")
        return size

    def steps(self, problem: Problem) -> int:
        passes = math.sqrt(problem.n) if self.passes is None else self.passes
        steps = math.floor(problem.n * passes / self.size(problem))
        if steps < 1:
            raise ValueError(
                f"passes = {passes} makes no step with batch = {self.size(problem)}: raise passes"
            )
        return steps

    def gradient_variance(self, problem: Problem, budget: Budget) -> float:
        """``C = 128 N T L^2/(tau eps^2) ln(2.5 N T/(tau delta)) ln(2/delta)``, 0 for eps = inf.

        The noise that Algorithm 2 adds to ``(N/tau) sum_S grad``.  N T/tau is counted in whole steps.
        """
        if budget.epsilon == math.inf:
            return 0.0
        if not math.isfinite(problem.lipschitz):
            raise ValueError(f"private minibatches need a Lipschitz loss, {problem.loss.name} is not")
        if budget.delta <= 0:
            raise ValueError(f"Theorem 4 of wang2015 needs delta > 0, not {budget.delta}")
        steps = self.steps(problem)
        logs = math.log(2.5 * steps / budget.delta) * math.log(2 / budget.delta)
        return 128 * steps * (problem.lipschitz / budget.epsilon) ** 2 * logs

    def event(self, problem: Problem, budget: Budget, gradient_std: Tensor) -> DpEvent:
        """What the steps do to the data; gradient_std ``(steps,)``: noise on ``(N/tau) sum_S grad``.

        Noise multipliers are rounded down to a grid of ratio 1.1, so the event never claims more noise than there was.
        """
        if budget.epsilon == math.inf:
            return NonPrivateDpEvent()
        size = self.size(problem)
        multipliers = gradient_std.double() * size / (problem.n * problem.lipschitz)
        least = float(multipliers.min())
        groups = ((multipliers / least).log() / math.log(1.1) + 1e-9).floor()
        parts = []
        for group, count in zip(*groups.unique(return_counts=True), strict=True):
            step = SampledWithoutReplacementDpEvent(
                problem.n, size, GaussianDpEvent(least * 1.1 ** float(group))
            )
            parts.append(SelfComposedDpEvent(step, int(count)))
        return parts[0] if len(parts) == 1 else ComposedDpEvent(parts)

    def momentum(
        self,
        problem: Problem,
        budgets: Sequence[Budget],
        friction: float,
        share: float,
        accountant: Accountant,
    ) -> tuple[Tensor, list[Guarantee]]:
        """Step sizes ``(E, 1)`` and guarantees of eq. 4.4 and 4.5, whose velocity gets N(0, 2 a eta I), a the friction.

        That is Theorem 4's noise when ``2 a eta >= C eta^2``, so ``eta = min(2 a/C, share/(beta N))``.  (The paper
        prints ``2 a >= C eta``, the same with eta divided out.)
        """
        steps, most = self.steps(problem), stable_step(problem, share)
        guarantee, sizes = [], []
        for budget in budgets:
            variance = self.gradient_variance(problem, budget)
            eta = min(most, 2 * friction / variance) if variance else most
            gradient_std = torch.full((steps,), (2 * friction / eta) ** 0.5, dtype=torch.float64)
            event = self.event(problem, budget, gradient_std)
            claimed = accountant.epsilon(event, budget.delta, "replace_one")
            guarantee.append(minibatch_guarantee(problem, claimed, budget, event))
            sizes.append(eta)
        return torch.tensor(sizes)[:, None], guarantee

    def run(
        self,
        problem: Problem,
        kernel: Kernel,
        state: Any,
        step_size: Callable[[int], Tensor],
        noise_std: Callable[[int], Tensor],
        precision: float,
        keep: Sequence[int],
        rng: torch.Generator,
    ) -> Tensor:
        """Run the chains; returns theta after the steps named in `keep` (1-based), ``(R, E, len(keep), d)``.

        step_size, noise_std: step t = 0, 1, ... to a column ``(E, 1)``; noise_std is that of the noise in the update.
        precision: of the Gaussian prior, whose gradient needs no data.
        """
        size, steps, wanted = self.size(problem), self.steps(problem), set(keep)
        stream = noise.minibatch_stream(rng, problem.repeats, problem.n, size, problem.d, steps)
        kept = []
        for t, (rows, normals) in enumerate(
            tqdm(stream, total=steps, unit="step", leave=False, disable=None)
        ):
            gradient = problem.batch_grad(state.theta, rows) * (problem.n / size) + precision * state.theta
            state = kernel.step(state, gradient, noise_std(t) * normals, step_size(t))
            if t + 1 in wanted:
                kept.append(state.theta)
        return torch.stack(kept, 2)


def minibatch_guarantee(problem: Problem, claimed: float, budget: Budget, event: DpEvent) -> Guarantee:
    """The guarantee of a chain whose every iterate is released."""
    assumptions = (problem.row_assumption, "step size, prior and scaling chosen without accounting")
    return Guarantee(
        claimed, budget.delta, event, "replace_one", "all_iterates", "without_replacement", assumptions
    )


def thinned(steps: int, burn_in: float, samples: int) -> list[int]:
    """At most `samples` step numbers, evenly spaced after the burn-in share, the last step included."""
    first = math.floor(burn_in * steps)
    return sorted({first + math.ceil((steps - first) * (i + 1) / samples) for i in range(samples)})


def stable_step(problem: Problem, share: float) -> float:
    """`share` of 1/(smoothness n); up to twice that, gradient descent is stable on any rows with ``||x|| <= 1``."""
    return share / (problem.smoothness * problem.n)
