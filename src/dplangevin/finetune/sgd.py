"""Stochastic gradient descent without privacy or momentum: "No DP" of ryffel2022, Table 3."""

import math
from dataclasses import dataclass
from typing import ClassVar

from dplangevin.finetune.loop import Descent, Task, Tuned, descend
from dplangevin.training.loop import Steps
from dplangevin.training.prices import Prices
from dplangevin.training.promises import check_settings, public


@dataclass(frozen=True)
class Sgd:
    """``theta <- theta - (eta/tau) sum_S g_i``, S a Poisson sample of expected size tau.  step: eta, constant.

    So that it differs from `DpSgd` in nothing but the clip and the noise.
    """

    name: ClassVar[str] = "none"
    step: float
    minibatches: Steps

    def __post_init__(self) -> None:
        check_settings(0.0, step=self.step)

    def __call__(self, task: Task) -> Tuned:
        prices = Prices(0.0, self.minibatches.rate(len(task.inputs.x_train)), task.budget.delta)
        found = descend(task, self.minibatches, Descent(self.step, math.inf, 0.0), prices)
        return Tuned(found, public(task.budget), self.step, math.inf, 0.0)
