"""Objective perturbation (Kifer, Smith and Thakurta 2012) of softmax regression, at a price that `Tight` sets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from dplangevin import noise
from dplangevin.checks import positive, require
from dplangevin.heads import Priced, Setting, Trained
from dplangevin.heads.softmax import estimated
from dplangevin.minimise import minimise
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.calibrate import calibrate
from dplangevin.privacy.events import Budget, ObjectivePerturbationDpEvent
from dplangevin.problem import Problem


@dataclass(frozen=True)
class ObjPert:
    r"""Minimise ``U(theta) + Lambda/2 ||theta||^2 + <b, theta>`` with ``b ~ N(0, s^2 I)`` (Kifer et al. 2012).

    ``Lambda = max(n lambda, beta/(e^(share eps/r) - 1))``, r = K - 1, beta the mean of the r eigenvalues of a record's
    Hessian: so the determinants cost at most ``share`` of epsilon; s is the smallest that `Tight` allows for the rest.
    Differs: Kifer et al. take ``Lambda = 2 beta/eps`` and an s that costs more than epsilon by `Tight`'s bound; see
    methods/objpert.  precision: lambda.  tolerance: gradient norm / n at which the minimum counts as exact.
    """

    name: ClassVar[str] = "objpert"
    schedule: ClassVar[str] = ""
    calibration: ClassVar[str] = "tight"
    precision: float
    share: float = 0.05
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        positive(precision=self.precision, tolerance=self.tolerance)
        require(0 < self.share < 1, f"share must be in (0, 1), not {self.share}")

    def stream(self, setting: Setting) -> str:
        return self.name

    def event(self, setting: Setting, epsilon: float, noise: float) -> ObjectivePerturbationDpEvent:
        """noise: s."""
        rank, beta = setting.classes - 1, setting.row_bound**2 / setting.classes
        ridge = max(setting.records * self.precision, beta / math.expm1(self.share * epsilon / rank))
        return ObjectivePerturbationDpEvent(noise, setting.lipschitz, beta, ridge, rank, setting.classes == 2)

    def price(self, setting: Setting, epsilon: float, rng: torch.Generator) -> Priced:
        require(setting.row_bound < math.inf, "objpert needs bounded rows: set row_norm")
        budget = Budget(epsilon, setting.delta)
        length = setting.lipschitz
        std = calibrate(
            Tight(), lambda s: self.event(setting, epsilon, s), budget, low=1e-3 * length, high=1e6 * length
        )
        event = self.event(setting, epsilon, std)
        tight = Tight().price(event, setting.delta)
        return {
            "noise": std,
            "epsilon_tight": tight.epsilon,
            "accountant_tight": tight.accountant,
            "adjacency_tight": "replace_one",
            "precision": event.ridge / setting.records,
            "beta": setting.beta(event.ridge / setting.records),
            "clip": length,
            "noise_std": std,
            "noise_multiplier": std / length,
            "ridge": event.ridge,
            "violated": "",
            "assumptions": "number of records public; exact minimiser; ridge chosen without accounting",
        }

    @staticmethod
    def trained(
        problem: Problem, setting: Setting, runs: Sequence[tuple[Any, Priced]], rng: torch.Generator
    ) -> Trained:
        normals = noise.gaussian(rng, problem.repeats, problem.d, torch.float64)
        stds = torch.tensor([found["noise"] for _, found in runs], dtype=torch.float64)
        ridges = torch.tensor([found["ridge"] for _, found in runs], dtype=torch.float64)
        tolerance = min(method.tolerance for method, _ in runs)
        found = minimise(estimated(problem), ridges, normals * stds[:, None], tolerance)
        return Trained(found.theta, [""] * len(runs))
