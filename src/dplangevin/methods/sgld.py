"""SGLD without privacy."""

from dataclasses import dataclass
from typing import ClassVar

from dplangevin.methods import ChainMethod, Plan, no_budget
from dplangevin.methods.dp_sgld import HEAT, Temperature
from dplangevin.methods.dp_sgld_li2019 import tied
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.gaussian_steps import StepSchedule
from dplangevin.problems import Facts
from dplangevin.problems.sampling import POISSON, Sampling
from dplangevin.samplers.chains.steps import Steps, Unit


@dataclass(frozen=True)
class Sgld(ChainMethod):
    """`DpSgldLi2019` without a budget and without clipping, with eta_1 = step/unit.

    li2019 calls its baseline "standard SGLD" and gives neither its step size nor its minibatches.
    """

    name: ClassVar[str] = "sgld"
    budgeted: ClassVar[bool] = False
    accountant: ClassVar[Accountant] = Tight()
    schedule: StepSchedule = "fixed"
    step: float = 0.5
    precision: float = 1.0
    samples: int = 50
    burn_in: float = 0.5
    sampling: Sampling = POISSON
    unit: Unit = "smoothness"
    temperature: Temperature = "printed"

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        no_budget(budget, self.name)
        first, heat = Steps(self.step, self.unit).first(facts), HEAT[self.temperature]
        chain = self.chain(facts, *tied(self.sampling, facts.n, first, heat, self.schedule))
        return Plan(self.promise(budget, None), chain, {"schedule": self.schedule})
