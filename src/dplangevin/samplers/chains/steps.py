"""Step sizes of gradient descent."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from dplangevin.checks import require, settings
from dplangevin.problems import Facts

Unit = Literal["absolute", "smoothness", "mean_smoothness"]
Schedule = Literal["constant", "cosine", "li2019", "ryffel2022"]


@dataclass(frozen=True)
class Steps:
    """A schedule of step sizes eta_k, k = 0, ..., T - 1, with ``eta_0 = step/unit``.

    The units, with their values, are:

    * "absolute": 1.
    * "smoothness": that of one record's loss. With step < 2, descent is stable on any rows.
    * "mean_smoothness": that of the mean loss with its ridge, ``beta = mean_smoothness + l2``.

    The schedules are "constant", ``eta_0``; "cosine", ``eta_0 (1 + cos(pi k/T))/2``; "li2019", ``eta_0 (k +
    1)^(-1/3)``; "ryffel2022", ``1/(1/eta_0 + l2 k/2)`` (section 5.2, where ``eta_0 = 1/(2 beta)``).
    """

    step: float
    unit: Unit = "absolute"
    schedule: Schedule = "constant"

    def __post_init__(self) -> None:
        settings(self)

    def first(self, facts: Facts, l2: float = 0.0) -> float:
        """Return eta_0; raise ValueError if the unit needs a smoothness that the problem does not have."""
        if self.unit == "absolute":
            return self.step
        beta = facts.smoothness if self.unit == "smoothness" else facts.mean_smoothness + l2
        require(
            beta < math.inf, f"steps in units of 1/{self.unit} need a smooth loss on bounded rows: give steps"
        )
        return self.step / beta

    def sizes(self, facts: Facts, steps: int, l2: float = 0.0, factor: float = 1.0) -> Tensor:
        """Return `factor` times eta_k, ``(T,)`` in float64, for T = `steps`."""
        first = self.first(facts, l2) * factor
        k = torch.arange(steps, dtype=torch.float64)
        if self.schedule == "cosine":
            return first * (1 + torch.cos(math.pi * k / steps)) / 2
        if self.schedule == "li2019":
            return first * (k + 1) ** (-1 / 3)
        if self.schedule == "ryffel2022":
            return 1 / (1 / first + k * (l2 / 2))
        return torch.full((steps,), first, dtype=torch.float64)

    def read(self, facts: Facts) -> tuple[str, ...]:
        """Return what was read off the private rows for the step sizes, as texts for a guarantee."""
        return () if self.unit == "absolute" else facts.read(self.unit)

    def settings(self, facts: Facts, l2: float = 0.0) -> dict[str, float]:
        return {"smoothness": facts.mean_smoothness + l2} if self.unit == "mean_smoothness" else {}


def shown(schedule: Schedule) -> str:
    """Return the name of a schedule in rows of results, where both papers call their own "decreasing"."""
    return "decreasing" if schedule in ("li2019", "ryffel2022") else schedule
