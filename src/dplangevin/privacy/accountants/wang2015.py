"""The paper's own composition: Wang, Fienberg, Smola (2015), Theorem 1, Theorem 4 and Algorithm 3."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from dp_accounting import DpEvent, GaussianDpEvent, SampledWithoutReplacementDpEvent

from dplangevin.privacy.accountants.protocol import leaves, refuse, trivial
from dplangevin.privacy.events import Adjacency, PosteriorSampleDpEvent, check_adjacency

Bound = Literal["paper", "range"]


@dataclass(frozen=True)
class Wang2015:
    """Prices OPS, DP-SGLD and their composition as the paper does; replace_one.

    Posterior sample (pure): `bound="paper"` 4 rho log(1 + e^D) (Theorem 1 with Algorithm 1's B = log(1 +
    e^D)), `bound="range"` 2 rho D. k steps on minibatches of tau out of N, noise multiplier z (Theorem 4,
    Algorithm 2): the algorithm's noise variance, 128 N T L^2/(tau eps^2) ln(2.5 N T/(tau delta))
    ln(2/delta) eta^2 on (N/tau) times the minibatch sum, is (z L)^2 (N/tau)^2 eta^2, and k = N T/tau, so

        eps = (tau/N) sqrt(128 k ln(2.5 k/delta) ln(2/delta)) / z.

    Steps of different z cost as if all had the smallest. Sample and steps: epsilons add, delta goes to the
    steps.
    Differs: the printed proof bounds a step's loss by eps sqrt(N)/sqrt(32 tau T ln(2/delta)); with its own
    sensitivity 2L and this noise the Gaussian mechanism gives 16 for the 32. Formula and condition are as
    printed.
    """

    bound: Bound = "paper"

    def __post_init__(self) -> None:
        if self.bound not in get_args(Bound):
            raise ValueError(f"bound = {self.bound!r} must be one of {', '.join(get_args(Bound))}")

    @property
    def name(self) -> str:
        return f"Wang et al. 2015 ({self.bound})"

    def epsilon(self, event: DpEvent, delta: float, adjacency: Adjacency = "replace_one") -> float:
        """Epsilon at delta of posterior samples, sampled Gaussian steps, or both composed."""
        check_adjacency(adjacency, ("replace_one",), self.name)
        price = trivial(event, delta)
        if price is not None:
            return price
        samples, steps = self._parts(event)
        spent = sum(count * self._sample(sample) for sample, count in samples)
        return spent + (self._steps(steps, delta) if steps else 0.0)

    def violated(self, event: DpEvent, delta: float) -> tuple[str, ...]:
        """Conditions of Theorem 4 that the steps in `event` fail, as text with the values; () if none."""
        if trivial(event, delta) is not None:
            return ()
        _, steps = self._parts(event)
        if not steps or delta == 0:
            return ()
        records, batch, count = (
            steps[0][0].source_dataset_size,
            steps[0][0].sample_size,
            sum(c for _, c in steps),
        )
        passes = count * batch / records
        needed = self._steps(steps, delta) ** 2 * records / (32 * batch * math.log(2 / delta))
        if passes >= needed:
            return ()
        return (f"T = {passes:.4g} < eps^2 N/(32 tau ln(2/delta)) = {needed:.4g}",)

    def _parts(
        self, event: DpEvent
    ) -> tuple[list[tuple[PosteriorSampleDpEvent, int]], list[tuple[SampledWithoutReplacementDpEvent, int]]]:
        samples: list[tuple[PosteriorSampleDpEvent, int]] = []
        steps: list[tuple[SampledWithoutReplacementDpEvent, int]] = []
        for leaf, count in leaves(event):
            if isinstance(leaf, PosteriorSampleDpEvent):
                samples.append((leaf, count))
            elif isinstance(leaf, SampledWithoutReplacementDpEvent) and isinstance(
                leaf.event, GaussianDpEvent
            ):
                steps.append((leaf, count))
            else:
                raise refuse(
                    self.name, leaf, "it prices posterior samples and Gaussian steps without replacement"
                )
        sizes = {(step.sample_size, step.source_dataset_size) for step, _ in steps}
        if len(sizes) > 1:
            raise refuse(
                self.name, event, f"Theorem 4 needs one minibatch size, found (tau, N) = {sorted(sizes)}"
            )
        return samples, steps

    def _sample(self, event: PosteriorSampleDpEvent) -> float:
        if self.bound == "range":
            return event.range
        return 4 * event.rho * (event.radius + math.log1p(math.exp(-event.radius)))

    def _steps(self, steps: list[tuple[SampledWithoutReplacementDpEvent, int]], delta: float) -> float:
        multiplier = min(step.event.noise_multiplier for step, _ in steps)
        if multiplier == 0 or delta == 0:
            return math.inf
        k = sum(count for _, count in steps)
        rate = steps[0][0].sample_size / steps[0][0].source_dataset_size
        return rate * math.sqrt(128 * k * math.log(2.5 * k / delta) * math.log(2 / delta)) / multiplier
