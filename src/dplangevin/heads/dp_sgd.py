"""DP-SGD (Abadi et al. 2016, Algorithm 1) on softmax regression: the paper's comparison."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from dp_accounting import DpEvent

from dplangevin.attacks.softmax import Training, all_iterates
from dplangevin.audit import audit
from dplangevin.chains.linear import Chain, Schedule, step_sizes, stream_of
from dplangevin.checks import not_negative, positive, require
from dplangevin.heads import Priced, Setting, Trained, steps_of
from dplangevin.heads.dp_langevin import DpLangevin
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import Budget
from dplangevin.privacy.stepsize import smallest_multiplier, steps_event
from dplangevin.problem import Problem


@dataclass(frozen=True)
class DpSgd:
    """``theta <- theta - eta_k ((1/m) (sum_S clipped(grad l) + N(0, (z C)^2 I)) + lambda theta)`` from theta_0 = 0.

    S is a Poisson sample in which each row is with probability batch/n (m = batch, a constant), C the `clip`, the steps
    those of `chains.step_sizes`.  calibration, of the noise multiplier z: "published", `noise_multiplier`; "tight", PLD
    of all iterates under replace_one at the epsilon asked for.
    """

    name: ClassVar[str] = "dp_sgd"
    calibration: Literal["published", "tight"]
    schedule: Schedule
    batch: int
    epochs: float
    precision: float
    clip: float
    noise_multiplier: float | None = None

    def __post_init__(self) -> None:
        not_negative(precision=self.precision)
        positive(clip=self.clip)
        require(self.calibration in ("published", "tight"), f"calibration {self.calibration!r} is unknown")
        given = self.noise_multiplier is not None
        require(
            given == (self.calibration == "published"),
            "noise_multiplier belongs to the published calibration",
        )

    def stream(self, setting: Setting) -> str:
        return stream_of(self.batch, self.epochs)

    def calibrated(self, setting: Setting, epsilon: float) -> float:
        """z."""
        if self.noise_multiplier is not None:
            return self.noise_multiplier
        return smallest_multiplier(
            Tight(),
            Budget(epsilon, setting.delta),
            rate=self.batch / setting.records,
            steps=steps_of(setting.records, self.batch, self.epochs),
            schedule="fixed",
            adjacency="replace_one",
        )

    def event(self, setting: Setting, noise: float) -> DpEvent:
        """All iterates; noise: z."""
        steps = steps_of(setting.records, self.batch, self.epochs)
        return steps_event(noise, rate=self.batch / setting.records, steps=steps, schedule="fixed")

    def chain(self, setting: Setting, noise: float) -> Chain:
        """noise: z."""
        steps = steps_of(setting.records, self.batch, self.epochs)
        sizes = step_sizes(self.schedule, setting.beta(self.precision), self.precision, steps)
        std = sizes * (noise * self.clip / self.batch)
        return Chain(sizes, std, self.precision, "poisson", self.clip)

    def attacked(self, setting: Setting, noise: float) -> Training:
        """What an attack on this row sees all iterates of; noise: z."""
        chain, row = self.chain(setting, noise), (setting.classes, setting.features, setting.row_bound)
        return Training(chain, setting.records, self.batch, *row)

    def price(self, setting: Setting, epsilon: float, rng: torch.Generator) -> Priced:
        noise = self.calibrated(setting, epsilon)
        event, chain = self.event(setting, noise), self.chain(setting, noise)
        tight = Tight().price(event, setting.delta, "replace_one")
        attack = all_iterates(self.attacked(setting, noise), setting.audits.chain, rng)
        found = audit(attack.first, attack.second, setting.delta, setting.audits.confidence)
        return {
            "noise": noise,
            "epsilon_tight": tight.epsilon,
            "accountant_tight": tight.accountant,
            "adjacency_tight": "replace_one",
            "epsilon_tight_add_remove": Tight().epsilon(event, setting.delta, "add_remove"),
            "epsilon_audit": found.epsilon,
            "audit_confidence": found.confidence,
            "audit_pair": attack.pair.name,
            "step_size": float(chain.step_sizes[0]),
            "precision": self.precision,
            "beta": setting.beta(self.precision),
            "clip": self.clip,
            "noise_multiplier": noise,
            "batch": self.batch,
            "epochs": self.epochs,
            "steps": len(chain.step_sizes),
            "violated": "",
            "assumptions": f"number of records public; {setting.step_source}",
        }

    @staticmethod
    def trained(
        problem: Problem, setting: Setting, runs: Sequence[tuple[Any, Priced]], rng: torch.Generator
    ) -> Trained:
        return DpLangevin.trained(problem, setting, runs, rng)
