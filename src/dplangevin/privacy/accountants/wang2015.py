"""Wang, Fienberg and Smola's own composition: wang2015, Theorems 1, 4 and 5, Algorithm 3."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from dp_accounting import DpEvent, GaussianDpEvent, SampledWithoutReplacementDpEvent

from dplangevin.checks import settings
from dplangevin.privacy.accountants.protocol import Theorem, leaves, refuse, trivial
from dplangevin.privacy.events import Adjacency, FisherScoringDpEvent, PosteriorSampleDpEvent

Bound = Literal["paper", "range"]
KINDS = PosteriorSampleDpEvent, SampledWithoutReplacementDpEvent, FisherScoringDpEvent
Parts = list[tuple[Any, int]]  # events of one of these kinds, with counts


@dataclass(frozen=True)
class Wang2015(Theorem):
    """Accountant of wang2015 for OPS, DP-SGLD, DP-SGFS and their compositions; replace_one.

    Posterior sample (pure epsilon): `bound="paper"` gives 4 rho B (Theorem 1), with B = log(1 + e^D) the largest
    logistic loss on the ball. `bound="range"` gives 2 rho D, where D stands for the range of one record's loss there.

    k = N T/tau steps on minibatches of tau out of N, with noise multiplier z (Theorem 4, Algorithm 2): the noise
    variance on (N/tau) times the minibatch sum is 128 N T L^2/(tau eps^2) ln(2.5 N T/(tau delta)) ln(2/delta) eta^2,
    and equals (z L)^2 (N/tau)^2 eta^2. So

        eps = (tau/N) sqrt(128 k ln(2.5 k/delta) ln(2/delta)) / z.

    Steps with different z cost as much as if all had the smallest z. In a composition of samples and at most one run of
    steps the epsilons add up, and the steps receive all of delta.

    k steps of DP-SGFS (Theorem 5, Algorithm 4): sigma^2 = 32 T ln(2.5 N T/(tau d)) ln(2/d)/(N tau e^2) is (2 e, 2
    d)-DP. So with d = delta/2

        eps = 2 sqrt(32 k ln(2.5 k/d) ln(2/d))/(N sigma).

    Differs: on this scale (mean gradient, F for L) Theorem 4's variance has 128 where Algorithm 4 has 32, as if the
    sensitivity were L instead of 2L. By Theorem 4 the gradients alone would cost 2 e, and both parts 3 e. The printed
    proof bounds a step's loss by eps sqrt(N)/sqrt(32 tau T ln(2/delta)); with its own sensitivity the Gaussian
    mechanism gives 16 for the 32. Formulas and condition are as printed.

    Attributes
    ----------
    bound : {"paper", "range"}
    """

    bound: Bound = "paper"
    adjacencies = ("replace_one",)

    def __post_init__(self) -> None:
        settings(self)

    @property
    def name(self) -> str:
        return f"Wang et al. 2015 ({self.bound})"

    def _proven(self, event: DpEvent, delta: float, adjacency: Adjacency) -> float:
        samples, steps, scoring = self._parts(event)
        by_range = self.bound == "range"
        epsilon = sum(
            n * (each.range if by_range else 4 * each.rho * each.largest_loss) for each, n in samples
        )
        if scoring is not None:
            epsilon += 2 * self._scoring(scoring, delta / 2)
        return epsilon + (self._steps(steps, delta) if steps else 0.0)

    def violated(self, event: DpEvent, delta: float) -> tuple[str, ...]:
        """Return the conditions of Theorem 4 or 5 that the steps in `event` fail, as text with the values."""
        if trivial(event, delta) is not None or delta == 0:
            return ()
        _, steps, scoring = self._parts(event)
        if scoring is not None:
            records, batch, count = scoring.records, scoring.batch, scoring.steps
            delta = delta / 2
            epsilon = self._scoring(scoring, delta)
        elif steps:
            records, batch = steps[0][0].source_dataset_size, steps[0][0].sample_size
            count, epsilon = sum(c for _, c in steps), self._steps(steps, delta)
        else:
            return ()
        passes = count * batch / records
        needed = epsilon**2 * records / (32 * batch * math.log(2 / delta))
        if passes >= needed:
            return ()
        return (f"T = {passes:.4g} < eps^2 N/(32 tau ln(2/delta)) = {needed:.4g}",)

    def _parts(self, event: DpEvent) -> tuple[Parts, Parts, FisherScoringDpEvent | None]:
        """Return the posterior samples and the steps, with counts, and the run of DP-SGFS or None."""
        found: dict[type, Parts] = {kind: [] for kind in KINDS}
        for leaf, count in leaves(event):
            gaussian = isinstance(getattr(leaf, "event", None), GaussianDpEvent)
            if type(leaf) not in KINDS or (type(leaf) is SampledWithoutReplacementDpEvent and not gaussian):
                why = "it prices posterior samples, Gaussian steps without replacement and DP-SGFS"
                raise refuse(self.name, leaf, why)
            found[type(leaf)].append((leaf, count))
        samples, steps, scoring = found.values()
        if sum(count for _, count in scoring) > 1 or (scoring and steps):
            raise refuse(self.name, event, "Theorem 5 is for one run of DP-SGFS and no other steps")
        sizes = {(step.sample_size, step.source_dataset_size) for step, _ in steps}
        if len(sizes) > 1:
            why = f"Theorem 4 needs one minibatch size, found (tau, N) = {sorted(sizes)}"
            raise refuse(self.name, event, why)
        return samples, steps, scoring[0][0] if scoring else None

    def _steps(self, steps: Parts, delta: float) -> float:
        multiplier = min(step.event.noise_multiplier for step, _ in steps)
        if multiplier == 0 or delta == 0:
            return math.inf
        k = sum(count for _, count in steps)
        rate = steps[0][0].sample_size / steps[0][0].source_dataset_size
        return rate * math.sqrt(128 * k * math.log(2.5 * k / delta) * math.log(2 / delta)) / multiplier

    def _scoring(self, event: FisherScoringDpEvent, delta: float) -> float:
        if delta == 0:
            return math.inf
        logs = math.log(2.5 * event.steps / delta) * math.log(2 / delta)
        return math.sqrt(32 * event.steps * logs) / (event.records * event.noise_std)
