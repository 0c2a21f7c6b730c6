"""Figure 1 of Li, Chen, Liu, Carin (2019) and the worked example of their Section 3.1."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dplangevin.papers.analyses.stepsize import (
    Curve,
    Row,
    Setting,
    bounds,
    rescaled,
    row,
    theorem_step,
    wang2015_step,
)
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of
from dplangevin.privacy.li2019_theorems import POWERS, conditions, printed_reach
from dplangevin.privacy.stepsize import StepSchedule


def wang2015(panel: str, setting: Setting, epsilon: float) -> Row:
    """Return the bound of Wang, Fienberg, Smola (2015) as li2019 prints it, for fixed steps."""
    eta = wang2015_step(setting, epsilon)
    return row(panel, "wang2015", "fixed", "replace_one", setting, epsilon, eta)


def proof(panel: str, schedule: StepSchedule, setting: Setting, epsilon: float) -> Row:
    """Return the bound of Theorem 3 (decreasing) or 4 (fixed) of li2019 with the constant of the printed proof."""
    eta = theorem_step(schedule, setting, epsilon)
    reach = printed_reach(setting.delta, rate=setting.rate, steps=setting.steps, schedule=schedule)
    limits = f"Lemma 2 holds for {reach.smallest:.4g} < epsilon < {reach.largest:.4g}"
    note = limits if reach.c_1 else "Lemma 2 fails"
    return row(panel, "proof", schedule, "add_remove", setting, epsilon, eta, note)


@dataclass(frozen=True)
class Budgets:
    """The rows of Figure 1 and of the worked example of Section 3.1, one task for each curve and "paper" without one.

    Panels: step sizes against epsilon ("budget"), N ("records") and tau ("batch"), those of the worked example
    ("example"), the epsilon of its first step ("published"), and "conditions" 1 and 2 of Theorem 3.
    """

    curves: Mapping[str, Curve]  # name -> curve
    panels: Mapping[str, Mapping[str, Sequence[StepSchedule]]]  # panel -> curve -> schedules
    setting: Setting  # of the figure and of the worked example
    epsilons: Sequence[float]  # of the panel "budget"
    example: float  # the epsilon of the worked example
    published: Mapping[str, float]  # printed step sizes of the worked example, "decreasing" and "wang2015"
    sizes: Sequence[int]  # N of the panel "records", with delta = 1/N and T = N
    lipschitz: Sequence[float]  # L of the panel "records"
    batches: Sequence[int]  # tau of the panel "batch"; the paper states none

    def units(self) -> list[str]:
        return ["paper", *self.curves]

    def rows(self, unit: str, seed: int) -> list[Row]:
        if unit == "paper":
            return self._paper()
        curve = self.curves[unit]
        sizes = [replace(self.setting, records=n, steps=n, delta=1 / n) for n in self.sizes]
        batches = [replace(self.setting, batch=tau) for tau in self.batches]
        budget, records, batch = (
            self.panels[panel].get(unit, ()) for panel in ("budget", "records", "batch")
        )
        lines = bounds("records", unit, curve, records, sizes, [self.example])
        return [
            *bounds("budget", unit, curve, budget, [self.setting], self.epsilons),
            *bounds("example", unit, curve, tuple(POWERS), [self.setting], [self.example]),
            self._priced(unit),
            *(rescaled(line, "records", lipschitz) for line in lines for lipschitz in self.lipschitz),
            *bounds("batch", unit, curve, batch, batches, [self.example]),
        ]

    def _priced(self, name: str) -> Row:
        """Return the row with the epsilon that the published first step costs."""
        curve, eta = self.curves[name], self.published["decreasing"]
        cost = curve.cost("decreasing", self.setting, eta)
        return row("published", name, "decreasing", curve.adjacency, self.setting, cost, eta)

    def _conditions(self) -> list[Row]:
        """Return the step sizes at conditions 1 and 2 of Theorem 3, with a lower bound on the epsilon of one step.

        delta(eps) = q delta_mu(log(1 + (exp(eps) - 1)/q)), mu = 1/s, for the law with the record against that without
        it.
        """
        single = replace(self.setting, steps=1)
        limits = conditions(records=single.records, batch=single.batch, lipschitz=single.lipschitz)
        sizes = {
            "condition 1, printed": limits.printed_high,
            "condition 1, needed": limits.needed_high,
            "condition 2, printed": limits.printed_low,
            "condition 2, needed": limits.needed_low,
        }
        rate, rows = single.rate, []
        for note, eta in sizes.items():
            full = epsilon_of(1 / single.multiplier(eta), single.delta / rate)
            cost = full + math.log(rate - (rate - 1) * math.exp(-full))  # log(1 + q (exp(full) - 1))
            rows.append(row("conditions", "one step", "fixed", "add_remove", single, cost, eta, note))
        return rows

    def _without_factor(self) -> Row:
        """Return wang2015's bound with ln(T/delta) instead of ln(2.5 T/delta), as in the printed example."""
        line = wang2015("example", self.setting, self.example)
        logs = [math.log(factor * self.setting.steps / self.setting.delta) for factor in (2.5, 1.0)]
        eta = line["step_size"] * logs[0] / logs[1]
        name = "wang2015, no 2.5"
        return row("example", name, "fixed", "replace_one", self.setting, self.example, eta, "ln(T/delta)")

    def _paper(self) -> list[Row]:
        setting, e = self.setting, self.example
        printed: list[tuple[str, StepSchedule, float]] = [
            ("published", "decreasing", self.published["decreasing"]),
            ("published wang2015", "fixed", self.published["wang2015"]),
        ]
        return [
            *(wang2015("budget", setting, epsilon) for epsilon in self.epsilons),
            *(proof("budget", schedule, setting, x) for schedule in POWERS for x in self.epsilons),
            wang2015("example", setting, e),
            self._without_factor(),
            *(proof("example", schedule, setting, e) for schedule in POWERS),
            *(row("example", name, of, "replace_one", setting, e, eta) for name, of, eta in printed),
            *self._conditions(),
        ]
