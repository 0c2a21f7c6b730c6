r"""DP-SGLD of ryffel2022 (Algorithm 1) on softmax regression, with three ways to choose its noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import attr
import numpy as np
import torch
from dp_accounting import DpEvent

from dplangevin.attacks.softmax import Training, last_iterate
from dplangevin.audit import audit
from dplangevin.chains.linear import Chain, Schedule, step_sizes, stream_of, train
from dplangevin.checks import positive, require
from dplangevin.heads import NAN, Priced, Setting, Trained, steps_of
from dplangevin.privacy.accountants.bok2024 import Bok2024
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.ryffel2022 import Ryffel2022
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.calibrate import calibrate
from dplangevin.privacy.chain_events import LangevinDpEvent
from dplangevin.privacy.events import Budget
from dplangevin.problem import Problem

Calibration = Literal["published", "formula", "tight"]
FAINT, LOUD = 1e-2, 1e5  # noise multipliers that calibrations search


@dataclass(frozen=True)
class DpLangevin:
    r"""``theta <- Proj_C(theta - eta_k (mean of clipped gradients + lambda theta) + sqrt(2 eta_k) sigma N(0, I))``.

    B_k is a uniform subset of `batch` rows, drawn anew each step; the steps are those of `chains.step_sizes`.
    clip: None for none; L is the smaller of it and of sqrt(2) row_bound, which no gradient exceeds.
    radius: of the ball C, None for the whole space.
    initial: "theorem", theta_0 ~ Proj_C N(0, 2 sigma^2/lambda I), or "zero", which the theorem does not cover.
    calibration, of sigma: "published", `noise_std`; "formula", Theorem 3.1 with K in steps at the epsilon asked for;
    "tight", the smaller of PLD of all iterates and the last-iterate bound at that epsilon.

    The last-iterate bound (Bok2024) needs the loss of every record convex and smooth: with smoothness row_bound^2/2 +
    lambda it holds while no gradient is clipped.  A clipped softmax gradient need not be the gradient of any convex
    function; then there is no such bound and its epsilon is nan.
    """

    name: ClassVar[str] = "dp_langevin"
    calibration: Calibration
    schedule: Schedule
    batch: int
    epochs: float
    precision: float
    clip: float | None = None
    noise_std: float | None = None
    radius: float | None = None
    initial: Literal["theorem", "zero"] = "theorem"

    def __post_init__(self) -> None:
        positive(precision=self.precision)
        for name in ("clip", "noise_std", "radius"):
            if (value := getattr(self, name)) is not None:
                positive(**{name: value})
        require(self.calibration in get_args(Calibration), f"calibration {self.calibration!r} is unknown")
        require(self.initial in ("theorem", "zero"), f"initial {self.initial!r} is unknown: theorem or zero")
        given = self.noise_std is not None
        require(given == (self.calibration == "published"), "noise_std belongs to the published calibration")

    def stream(self, setting: Setting) -> str:
        return stream_of(self.batch, self.epochs)

    def limit(self, setting: Setting) -> float:
        """No gradient is longer: the clip, or what the rows allow if that is less."""
        limit = min(setting.lipschitz, math.inf if self.clip is None else self.clip)
        require(limit < math.inf, "rows without a bound need a clip: set row_bound or clip")
        return limit

    def clips(self, setting: Setting) -> bool:
        """Whether a gradient can be longer than the clip."""
        return setting.lipschitz > self.limit(setting) * (1 + 1e-9)

    def event(self, setting: Setting, noise: float) -> LangevinDpEvent:
        """The last iterate, with the smoothness of the mean loss as the paper has it; noise: sigma."""
        beta = setting.beta(self.precision)
        return LangevinDpEvent(
            records=setting.records,
            batch=self.batch,
            steps=steps_of(setting.records, self.batch, self.epochs),
            step_size=1 / (2 * beta),
            noise_std=noise,
            lipschitz=self.limit(setting),
            strong_convexity=self.precision,
            smoothness=beta,
            decay=self.precision / 2 if self.schedule == "decreasing" else 0.0,
        )

    def provable(self, setting: Setting, noise: float) -> DpEvent:
        """What `Tight` may price: the last iterate with every record's smoothness, or all iterates."""
        event = self.event(setting, noise)
        if self.clips(setting):
            return event.all_iterates()
        return attr.evolve(event, smoothness=setting.record_beta(self.precision))

    def calibrated(self, setting: Setting, epsilon: float) -> float:
        """sigma."""
        if self.noise_std is not None:
            return self.noise_std
        formula = self.calibration == "formula"
        unit = float(1 / self.event(setting, 1.0).multipliers()[0])  # sigma at noise multiplier 1
        accountant: Accountant = Ryffel2022() if formula else Tight()
        make = self.event if formula else self.provable
        budget = Budget(epsilon, setting.delta)
        return calibrate(
            accountant, lambda sigma: make(setting, sigma), budget, low=FAINT * unit, high=LOUD * unit
        )

    def chain(self, setting: Setting, noise: float) -> Chain:
        """noise: sigma; 0 is plain SGD."""
        steps = steps_of(setting.records, self.batch, self.epochs)
        sizes = step_sizes(self.schedule, setting.beta(self.precision), self.precision, steps)
        start = noise * math.sqrt(2 / self.precision) if self.initial == "theorem" else 0.0
        radius = math.inf if self.radius is None else self.radius
        clip = self.limit(setting) if self.clips(setting) else math.inf
        return Chain(sizes, np.sqrt(2 * sizes) * noise, self.precision, "subsets", clip, radius, start)

    def price(self, setting: Setting, epsilon: float, rng: torch.Generator) -> Priced:
        sigma = self.calibrated(setting, epsilon)
        event, delta, clips = self.event(setting, sigma), setting.delta, self.clips(setting)
        passes = attr.evolve(event, steps=max(1, round(self.epochs)))
        all_iterates = Tight().price(event.all_iterates(), delta)
        last = NAN
        if not clips:  # what all iterates tell includes the last
            last = min(Bok2024().epsilon(self.provable(setting, sigma), delta), all_iterates.epsilon)
        attack = last_iterate(self.attacked(setting, sigma), setting.audits.single, rng, delta)
        found = audit(attack.first, attack.second, delta, setting.audits.confidence)
        return {
            "noise": sigma,
            "epsilon_formula_epochs": Ryffel2022().epsilon(passes, delta),
            "epsilon_formula_steps": Ryffel2022().epsilon(event, delta),
            "epsilon_tight": all_iterates.epsilon,
            "accountant_tight": all_iterates.accountant,
            "adjacency_tight": "replace_one",
            "epsilon_last": last,
            "epsilon_audit": found.epsilon,
            "audit_confidence": found.confidence,
            "audit_pair": attack.pair.name,
            "step_size": event.step_size,
            "precision": self.precision,
            "beta": event.smoothness,
            "clip": event.lipschitz,
            "noise_std": sigma,
            "noise_multiplier": float(event.multipliers()[0]),
            "batch": self.batch,
            "epochs": self.epochs,
            "steps": event.steps,
            "violated": "; ".join(self.violated(setting, event)),
            "assumptions": "; ".join(self.assumptions(setting)),
        }

    def attacked(self, setting: Setting, noise: float) -> Training:
        """What an attack on this row sees the last iterate of; noise: sigma."""
        chain, row = self.chain(setting, noise), (setting.classes, setting.features, setting.row_bound)
        return Training(chain, setting.records, self.batch, *row)

    def violated(self, setting: Setting, event: LangevinDpEvent) -> list[str]:
        """What Theorem 3.1 needs and this run does not have."""
        notes = list(Ryffel2022().violated(event, setting.delta))
        if event.batch < event.records:
            notes.append(f"Theorem 3.1 is proved for full batches: batch {event.batch} of {event.records}")
        if self.clips(setting):
            notes.append(f"gradients up to {setting.lipschitz:.4g} are clipped at {event.lipschitz:.4g}")
        if self.initial == "zero":
            notes.append("Theorem 3.1 starts at N(0, 2 sigma^2/lambda): theta_0 = 0")
        return notes

    def assumptions(self, setting: Setting) -> list[str]:
        if self.clips(setting):
            bound = (
                "no last-iterate bound: a clipped softmax gradient need not be the gradient of a convex loss"
            )
        else:
            bound = (
                f"last-iterate bound: every record's loss {setting.record_beta(self.precision):.4g}-smooth"
            )
        return ["number of records public", setting.step_source, bound]

    @staticmethod
    def trained(
        problem: Problem, setting: Setting, runs: Sequence[tuple[Any, Priced]], rng: torch.Generator
    ) -> Trained:
        chains = [method.chain(setting, found["noise"]) for method, found in runs]
        return Trained(train(problem, chains, runs[0][0].batch, rng), [""] * len(chains))
