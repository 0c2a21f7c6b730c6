"""Differentially private SGD without momentum (Abadi et al. 2016, Algorithm 1): "DP-SGD" of ryffel2022, Table 3."""

from dataclasses import dataclass
from typing import ClassVar

from dplangevin.finetune.loop import Descent, Task, Tuned, descend
from dplangevin.privacy import Adjacency
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.stepsize import smallest_multiplier
from dplangevin.training.loop import Steps
from dplangevin.training.prices import Prices
from dplangevin.training.promises import check_settings, private


@dataclass(frozen=True)
class DpSgd:
    """``theta <- theta - (eta/tau) (sum_S clipped(g_i) + N(0, (sigma C)^2 I))``, S a Poisson sample at q = tau/n.

    step: eta, constant.  clip: C, of all trained parameters' gradient together.  sigma: the smallest noise multiplier
    whose steps `accountant` prices within the budget; with `accountant.rdp` and "add_remove" as Opacus, which the paper
    uses, prices them.
    """

    name: ClassVar[str] = "dp_sgd"
    step: float
    clip: float
    minibatches: Steps
    accountant: Accountant
    adjacency: Adjacency = "add_remove"

    def __post_init__(self) -> None:
        check_settings(0.0, step=self.step, clip=self.clip)

    def __call__(self, task: Task) -> Tuned:
        n, budget = len(task.inputs.x_train), task.budget
        steps, rate = self.minibatches.count(n), self.minibatches.rate(n)
        multiplier = smallest_multiplier(
            self.accountant, budget, rate=rate, steps=steps, schedule="fixed", adjacency=self.adjacency
        )
        descent = Descent(self.step, self.clip, multiplier * self.clip)
        found = descend(task, self.minibatches, descent, Prices(multiplier, rate, budget.delta))
        guarantee = private(self.accountant, budget, multiplier, rate, steps, "fixed", self.adjacency)
        return Tuned(found, guarantee, self.step, self.clip, multiplier)
