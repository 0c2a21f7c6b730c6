"""Stochastic gradient descent without privacy: DP-Langevin's steps and batches without its noise and clip."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from dplangevin.chains.linear import Chain, Schedule, step_sizes, stream_of
from dplangevin.checks import not_negative
from dplangevin.heads import Priced, Setting, Trained, steps_of
from dplangevin.heads.dp_langevin import DpLangevin
from dplangevin.problem import Problem


@dataclass(frozen=True)
class Sgd:
    """``theta <- theta - eta_k (mean of gradients + lambda theta)`` from theta_0 = 0, steps of `chains.step_sizes`."""

    name: ClassVar[str] = "none"
    calibration: ClassVar[str] = ""
    schedule: Schedule
    batch: int
    epochs: float
    precision: float

    def __post_init__(self) -> None:
        not_negative(precision=self.precision)

    def stream(self, setting: Setting) -> str:
        return stream_of(self.batch, self.epochs)

    def chain(self, setting: Setting, noise: float) -> Chain:
        steps = steps_of(setting.records, self.batch, self.epochs)
        sizes = step_sizes(self.schedule, setting.beta(self.precision), self.precision, steps)
        return Chain(sizes, np.zeros(steps), self.precision)

    def price(self, setting: Setting, epsilon: float, rng: torch.Generator) -> Priced:
        chain, beta = self.chain(setting, 0.0), setting.beta(self.precision)
        return {
            "noise": 0.0,
            "epsilon_tight": math.inf,
            "accountant_tight": "none needed",
            "adjacency_tight": "replace_one",
            "step_size": float(chain.step_sizes[0]),
            "precision": self.precision,
            "beta": beta,
            "clip": math.inf,
            "batch": self.batch,
            "epochs": self.epochs,
            "steps": len(chain.step_sizes),
            "violated": "",
            "assumptions": "",
        }

    @staticmethod
    def trained(
        problem: Problem, setting: Setting, runs: Sequence[tuple[Any, Priced]], rng: torch.Generator
    ) -> Trained:
        return DpLangevin.trained(problem, setting, runs, rng)
