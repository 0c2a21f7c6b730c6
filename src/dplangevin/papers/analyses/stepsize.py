"""The largest step size that a budget allows Algorithm 1 of Li, Chen, Liu, Carin (2019): Figures 1 and 2.

SGLD adds the noise sqrt(eta/N) in any case, so sigma = tau/(L sqrt(eta N)) and the bound is proportional to 1/L^2.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from dp_accounting import DpEvent

from dplangevin.privacy.accountants.moments_accountant import Moments
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.calibration import LARGEST, noise_for
from dplangevin.privacy.events import Adjacency, Budget
from dplangevin.privacy.gaussian_steps import StepSchedule, steps_event
from dplangevin.privacy.li2019 import (
    POWERS,
    multiplier_of,
    printed_constant,
    printed_reach,
    step_of,
    wang_step,
)

RTOL = 2e-3  # of the noise multiplier; the levels of a decreasing schedule are rounded more coarsely
ORDERS = 256
Row = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """The setting of one run of Algorithm 1."""

    records: int  # N
    batch: int  # tau, in 1..N
    steps: int  # T
    lipschitz: float  # L, the bound on the gradient of one record
    delta: float

    def multiplier(self, step_size: float) -> float:
        """Return sigma, the noise multiplier of a step of this size."""
        return multiplier_of(step_size, records=self.records, batch=self.batch, lipschitz=self.lipschitz)

    @property
    def rate(self) -> float:
        """The sampling rate q."""
        return self.batch / self.records

    def event(self, step_size: float, schedule: StepSchedule) -> DpEvent:
        """Return the event that releases all iterates, with this (first) step size."""
        return steps_event(self.multiplier(step_size), rate=self.rate, steps=self.steps, schedule=schedule)


def theorem_step(schedule: StepSchedule, setting: Setting, epsilon: float) -> float:
    """Return the (first) step of Theorem 3 (decreasing) or 4 (fixed) of li2019 with its printed constant."""
    c = printed_constant(Budget(epsilon, setting.delta), steps=setting.steps, schedule=schedule)
    return epsilon**2 * setting.records / (c**2 * _scale(schedule, setting))


def wang2015_step(setting: Setting, epsilon: float) -> float:
    """Return the step size of Wang, Fienberg, Smola (2015) as li2019 prints it."""
    budget = Budget(epsilon, setting.delta)
    return wang_step(budget, records=setting.records, steps=setting.steps, lipschitz=setting.lipschitz)


def _scale(schedule: StepSchedule, setting: Setting) -> float:
    """Return L^2 T^p ln(1/delta)."""
    return setting.lipschitz**2 * setting.steps ** POWERS[schedule] * math.log(1 / setting.delta)


@dataclass(frozen=True)
class Curve:
    """An accountant and the neighbour relation that it is used for."""

    accountant: Accountant
    adjacency: Adjacency

    def bound(self, schedule: StepSchedule, setting: Setting, epsilon: float) -> float:
        """Return the largest (first) step size within the budget, from below, to a relative 4e-3; nan if it is none."""
        if isinstance(self.accountant, Moments) and epsilon <= self.accountant.least(setting.delta):
            return math.nan
        noise = LARGEST
        moments = Curve(Moments(ORDERS), "add_remove")
        if isinstance(self.accountant, Tight) and self.adjacency == "add_remove":
            start = moments.bound(schedule, setting, epsilon)  # its epsilon is never below the proven one
            if math.isfinite(start):
                noise = 1.01 * setting.multiplier(start)
        event = partial(steps_event, rate=setting.rate, steps=setting.steps, schedule=schedule)
        budget = Budget(epsilon, setting.delta)
        multiplier = noise_for(
            self.accountant, event, budget, high=noise, adjacency=self.adjacency, rtol=RTOL
        )
        return step_of(multiplier, records=setting.records, batch=setting.batch, lipschitz=setting.lipschitz)


def row(
    panel: str,  # part of the figure
    curve: str,  # the accountant, or the paper's formula
    schedule: StepSchedule,  # eta_t = eta, or eta t^(-1/3) if "decreasing"
    adjacency: Adjacency,
    setting: Setting,
    epsilon: float,
    step_size: float,  # eta, the first step
    note: str = "",
) -> Row:
    """Return one row of the frame; step_size is nan if the budget is out of reach."""
    return {
        "panel": panel,
        "curve": curve,
        "schedule": schedule,
        "adjacency": adjacency,
        **asdict(setting),
        "epsilon": epsilon,
        "step_size": step_size,
        "noise_multiplier": setting.batch / (setting.lipschitz * math.sqrt(step_size * setting.records)),
        # the c_2^2 of Theorem 3 (decreasing, p = 2/3) or c^2 of Theorem 4 (fixed, p = 1) that would give eta
        "constant": epsilon**2 * setting.records / (_scale(schedule, setting) * step_size),
        "reachable": int(math.isfinite(step_size)),  # 0 if the accountant cannot report so small an epsilon
        "note": note,
    }


def bounds(
    panel: str,
    name: str,
    curve: Curve,
    schedules: Sequence[StepSchedule],
    settings: Sequence[Setting],
    epsilons: Sequence[float],
) -> list[Row]:
    """Return the bounds of one curve for every schedule, setting and epsilon."""
    return [
        row(panel, name, schedule, curve.adjacency, setting, e, curve.bound(schedule, setting, e))
        for schedule in schedules
        for setting in settings
        for e in epsilons
    ]


def rescaled(line: Row, panel: str, lipschitz: float) -> Row:
    """Return the row for another L, since eta is proportional to 1/L^2."""
    eta = line["step_size"] * (line["lipschitz"] / lipschitz) ** 2
    return {**line, "panel": panel, "lipschitz": lipschitz, "step_size": eta}


def proof(panel: str, schedule: StepSchedule, setting: Setting, epsilon: float) -> Row:
    """Return the row of the step size of `theorem_step`; its note says for which epsilon the printed proof holds."""
    eta = theorem_step(schedule, setting, epsilon)
    reach = printed_reach(setting.delta, rate=setting.rate, steps=setting.steps, schedule=schedule)
    limits = f"Lemma 2 holds for {reach.smallest:.4g} < epsilon < {reach.largest:.4g}"
    note = limits if reach.c_1 else "Lemma 2 fails"
    return row(panel, "proof", schedule, "add_remove", setting, epsilon, eta, note)


@dataclass(frozen=True)
class Budgets:
    """The rows of Figure 1 and of the worked example of Section 3.1, one task for each curve and "paper" without one.

    Panels: step sizes against epsilon ("budget"), N ("records") and tau ("batch"), and those of the worked "example".
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
            *(rescaled(line, "records", lipschitz) for line in lines for lipschitz in self.lipschitz),
            *bounds("batch", unit, curve, batch, batches, [self.example]),
        ]

    def _paper(self) -> list[Row]:
        """Return the rows of the steps that the paper's formulas give and that it prints, for itself and for wang2015.

        "wang2015, no 2.5" has ln(T/delta) in place of the ln(2.5 T/delta) that the paper prints.
        """
        setting, example = self.setting, self.example
        wang = wang2015_step(setting, example)
        logs = [math.log(factor * setting.steps / setting.delta) for factor in (2.5, 1.0)]

        def fixed(panel: str, name: str, epsilon: float, eta: float, note: str = "") -> Row:
            return row(panel, name, "fixed", "replace_one", setting, epsilon, eta, note)

        printed = self.published["decreasing"]
        return [
            *(fixed("budget", "wang2015", x, wang2015_step(setting, x)) for x in self.epsilons),
            *(proof("budget", schedule, setting, x) for schedule in POWERS for x in self.epsilons),
            fixed("example", "wang2015", example, wang),
            fixed("example", "wang2015, no 2.5", example, wang * logs[0] / logs[1], "ln(T/delta)"),
            *(proof("example", schedule, setting, example) for schedule in POWERS),
            row("example", "published", "decreasing", "replace_one", setting, example, printed),
            fixed("example", "published wang2015", example, self.published["wang2015"]),
        ]


@dataclass(frozen=True)
class Sizes:
    """The rows of Figure 2: the step-size bounds at delta = 1/N and T = N, one task for each N."""

    curves: Mapping[str, Curve]
    epsilons: Sequence[float]
    sizes: Sequence[int]  # N of the panel "records", at L = 1
    size: int  # N of the panel "lipschitz", one of `sizes`
    lipschitz: Sequence[float]  # L of that panel; the bound is computed once, at L = 1, and rescaled
    batch: int  # tau, which the paper does not state

    def units(self) -> list[str]:
        return [str(n) for n in self.sizes]

    def rows(self, unit: str, seed: int) -> list[Row]:
        n = int(unit)
        setting = Setting(n, self.batch, n, 1.0, 1 / n)
        lines = [
            line
            for name, curve in self.curves.items()
            for line in bounds("records", name, curve, tuple(POWERS), [setting], self.epsilons)
        ]
        if n != self.size:
            return lines
        return lines + [
            rescaled(line, "lipschitz", lipschitz) for lipschitz in self.lipschitz for line in lines
        ]
