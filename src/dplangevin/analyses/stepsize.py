"""The largest step size that a budget allows Algorithm 1 of Li, Chen, Liu, Carin (2019): what Figures 1 and 2 share.

The noise of a step, sqrt(eta/N), is the one SGLD adds anyway, so the budget bounds the step size: the noise multiplier
is sigma = tau/(L sqrt(eta N)). L and eta enter through L^2 eta alone, so the bound is proportional to 1/L^2, exactly.

A row is one bound. panel: which part of the figure. curve: the accountant, or the paper's formula. schedule: fixed,
eta_t = eta; decreasing, eta_t = eta t^(-1/3). step_size: eta, the first step. noise_multiplier: at the first step.
constant: eps^2 N/(L^2 T^p ln(1/delta) eta), the c_2^2 of Theorem 3 (decreasing, p = 2/3) or the c^2 of Theorem 4
(fixed, p = 1) that would give eta. reachable: 0 where the accountant cannot report so small an epsilon; there the
bound is missing.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dplangevin.privacy.accountants.li2019 import Li2019
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import Adjacency, Budget
from dplangevin.privacy.li2019_theorems import POWERS
from dplangevin.privacy.stepsize import (
    LARGEST,
    Schedule,
    multiplier_of,
    smallest_multiplier,
    step_of,
    steps_event,
)

RTOL = 2e-3  # of the noise multiplier; the rounding of its levels is coarser
ORDERS = 256
Row = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """records: N. batch: tau. steps: T. lipschitz: L, the bound on one record's gradient. delta: in (0, 1)."""

    records: int
    batch: int
    steps: int
    lipschitz: float
    delta: float

    def __post_init__(self) -> None:
        if not 1 <= self.batch <= self.records:
            raise ValueError(f"batch = {self.batch} must be in [1, records = {self.records}]")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta = {self.delta} must be in (0, 1)")

    def multiplier(self, step_size: float) -> float:
        """sigma of a step of this size."""
        return multiplier_of(step_size, records=self.records, batch=self.batch, lipschitz=self.lipschitz)


@dataclass(frozen=True)
class Curve:
    """An accountant, for neighbours as `adjacency` says."""

    accountant: Accountant
    adjacency: Adjacency

    def least(self, delta: float) -> float:
        """The epsilon below which the accountant reports nothing."""
        return self.accountant.least(delta) if isinstance(self.accountant, Li2019) else 0.0

    def bound(self, schedule: Schedule, setting: Setting, epsilon: float) -> float:
        """The largest (first) step size to a relative 4e-3, from below; nan at or below `least`."""
        if epsilon <= self.least(setting.delta):
            return math.nan
        noise = LARGEST
        moments = Curve(Li2019(ORDERS), "add_remove")
        if isinstance(self.accountant, Tight) and self.adjacency == "add_remove":
            start = moments.bound(schedule, setting, epsilon)  # a price never below the tight one
            if math.isfinite(start):
                noise = 1.01 * setting.multiplier(start)
        multiplier = smallest_multiplier(
            self.accountant,
            Budget(epsilon, setting.delta),
            rate=setting.batch / setting.records,
            steps=setting.steps,
            schedule=schedule,
            adjacency=self.adjacency,
            high=noise,
            rtol=RTOL,
        )
        return step_of(multiplier, records=setting.records, batch=setting.batch, lipschitz=setting.lipschitz)

    def cost(self, schedule: Schedule, setting: Setting, step_size: float) -> float:
        """The epsilon that a (first) step size costs."""
        rate = setting.batch / setting.records
        event = steps_event(setting.multiplier(step_size), rate=rate, steps=setting.steps, schedule=schedule)
        return self.accountant.epsilon(event, setting.delta, self.adjacency)


def row(
    panel: str,
    curve: str,
    schedule: Schedule,
    adjacency: Adjacency,
    setting: Setting,
    epsilon: float,
    step_size: float,
    note: str = "",
) -> Row:
    """One row of the frame, its columns as the module says."""
    scale = setting.lipschitz**2 * setting.steps ** POWERS[schedule] * math.log(1 / setting.delta)
    return {
        "panel": panel,
        "curve": curve,
        "schedule": schedule,
        "adjacency": adjacency,
        **asdict(setting),
        "epsilon": epsilon,
        "step_size": step_size,
        "noise_multiplier": setting.batch / (setting.lipschitz * math.sqrt(step_size * setting.records)),
        "constant": epsilon**2 * setting.records / (scale * step_size),
        "reachable": int(math.isfinite(step_size)),
        "note": note,
    }


def bounds(
    panel: str,
    name: str,
    curve: Curve,
    schedules: Sequence[Schedule],
    settings: Sequence[Setting],
    epsilons: Sequence[float],
) -> list[Row]:
    """The bound by one curve on every schedule, in every setting, at every epsilon."""
    return [
        row(panel, name, schedule, curve.adjacency, setting, e, curve.bound(schedule, setting, e))
        for schedule in schedules
        for setting in settings
        for e in epsilons
    ]


def rescaled(line: Row, panel: str, lipschitz: float) -> Row:
    """The row of another L, by eta ~ 1/L^2."""
    eta = line["step_size"] * (line["lipschitz"] / lipschitz) ** 2
    return {**line, "panel": panel, "lipschitz": lipschitz, "step_size": eta}
