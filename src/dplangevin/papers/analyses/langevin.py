"""The settings of ryffel2022's commands as events; the epsilon of its baseline composition, and of one step."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import attr
import numpy as np

from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of
from dplangevin.privacy.events import LangevinDpEvent


@dataclass(frozen=True)
class Setting:
    """The settings of one of the authors' commands."""

    records: int  # n
    step_size: float  # eta
    strong_convexity: float  # lambda
    smoothness: float  # beta
    lipschitz: float  # L, the authors' clip
    noise_std: float  # sigma
    epochs: int  # passes over the data
    delta: float
    decreasing: Mapping[str, float]  # fields of the event that change with steps 1/(2 beta + lambda k/2)

    def steps(self, batch: int) -> int:
        """Return K, the number of steps in the authors' number of epochs."""
        return round(self.epochs * self.records / batch)

    def event(self, batch: int, steps: int, schedule: str = "constant") -> LangevinDpEvent:
        """Return the event that releases only the last of K = `steps` iterates, by "constant" or "decreasing" steps."""
        names = ("records", "step_size", "noise_std", "lipschitz", "strong_convexity", "smoothness")
        given = {name: getattr(self, name) for name in names}
        constant = LangevinDpEvent(**given, batch=batch, steps=steps)
        if schedule == "constant":
            return constant
        changed = attr.evolve(constant, **self.decreasing)  # type: ignore[arg-type]
        return attr.evolve(changed, step_size=1 / (2 * self.smoothness), decay=changed.strong_convexity / 2)


def averaged_composition(event: LangevinDpEvent, delta: float) -> float:
    """Return the epsilon of the paper's "baseline composition analysis", by Proposition 2.1 of ryffel2022.

    R_alpha = alpha L^2/(n^2 sigma^2) sum_k eta_k, which averages the sensitivity over batches, as Theorem 3.1 does.
    """
    slope = (event.lipschitz / (event.records * event.noise_std)) ** 2 * float(event.step_sizes().sum())
    return slope + 2 * math.sqrt(slope * -math.log(delta))


def one_step(event: LangevinDpEvent, delta: float) -> float:
    """Return the exact epsilon of the last step alone: delta(eps) = q delta_mu(log(1 + (e^eps - 1)/q)).

    Source: Balle, Barthe, Gaboardi (2018), Theorem 11.
    """
    rate = event.batch / event.records
    if delta >= rate:
        return 0.0
    alone = epsilon_of(2 / float(event.multipliers()[-1]), delta / rate)
    return float(np.logaddexp(math.log(rate) + alone, math.log1p(-rate))) if rate < 1 else alone
