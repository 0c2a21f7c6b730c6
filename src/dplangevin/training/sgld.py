"""SGLD of networks without privacy: "standard SGLD" of Li, Chen, Liu and Carin (2019), section 4.3."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from dplangevin.chains.chain import Chain
from dplangevin.methods.dp_sgld_li2019 import HEAT, check_chain, step_sizes
from dplangevin.privacy.stepsize import Schedule
from dplangevin.sgmcmc import thinned
from dplangevin.training import Task, Trained
from dplangevin.training.loop import Steps
from dplangevin.training.prices import Prices
from dplangevin.training.promises import check_settings, public


@dataclass(frozen=True)
class Sgld:
    """`DpSgld` with eta_1 = step and without clipping; its samples cost what an unbounded gradient costs."""

    budgeted: ClassVar[bool] = False
    shares: ClassVar[bool] = False
    step: float
    schedule: Schedule
    precision: float
    samples: int
    burn_in: float
    minibatches: Steps
    temperature: Literal["printed", "proper"] = "printed"

    def __post_init__(self) -> None:
        check_chain(self.schedule, self.temperature, self.burn_in)
        check_settings(self.precision, step=self.step, samples=self.samples)

    def __call__(self, task: Task) -> Trained:
        n = task.problem.facts.n
        steps, rate = self.minibatches.count(n), self.minibatches.rate(n)
        eta = step_sizes([self.step], steps, self.schedule)[:, 0]
        std = self.minibatches.batch * (HEAT[self.temperature] / (eta * n)).sqrt()
        chain = Chain(eta, std, self.minibatches.sampling, l2=self.precision / n)
        prices = Prices(0.0, rate, task.budget.delta)
        keep = thinned(steps, self.burn_in, self.samples)
        predicted, curve = self.minibatches.run(task, chain, prices, keep)
        return Trained(predicted, curve, public(task.budget), {"step": self.step}, {})
