"""SGLD without privacy."""

from dataclasses import dataclass
from typing import ClassVar

from dplangevin.checks import positive
from dplangevin.methods import ChainMethod, Plan, no_budget
from dplangevin.methods.dp_sgd import check_chain, without_privacy
from dplangevin.methods.dp_sgld import HEAT, Temperature, check_temperature
from dplangevin.methods.dp_sgld_li2019 import check_schedule, langevin_steps
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.stepsize import StepSchedule
from dplangevin.problems import Facts
from dplangevin.problems.chain import Chain
from dplangevin.problems.sampling import POISSON, Sampling
from dplangevin.samplers.chains.loop import thinned
from dplangevin.samplers.chains.steps import Steps, Unit


@dataclass(frozen=True)
class Sgld(ChainMethod):
    """`DpSgldLi2019` without a budget and without clipping, with eta_1 = step/unit.

    li2019 calls its baseline "standard SGLD" and gives neither its step size nor its minibatches.
    """

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

    def __post_init__(self) -> None:
        check_schedule(self.schedule)
        check_temperature(self.temperature)
        check_chain(0.0, self.precision, self.samples, self.burn_in)
        positive(step=self.step)

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        no_budget(budget, "sgld")
        n, steps = facts.n, self.sampling.steps(facts.n)
        eta = langevin_steps(Steps(self.step, self.unit).first(facts), steps, self.schedule)
        noise = self.sampling.size(n) * (HEAT[self.temperature] / (eta * n)).sqrt()
        keep = thinned(steps, self.burn_in, self.samples)
        chain = Chain(eta, noise, self.sampling, l2=self.precision / n, keep=keep)
        return Plan(
            without_privacy(self.accountant, budget, self.sampling), chain, {"schedule": self.schedule}
        )
