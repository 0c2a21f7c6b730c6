"""Privacy from the noise that SGHMC adds by itself, without clipping and without a privacy budget.

A step adds N(0, 2 a eta/n I), and a record of gradient norm L moves it by eta L/tau, so the noise multiplier is ``tau
sqrt(2 a/(eta n))/L``. A network has no bound L, so each row assumes one, and has the proven and the attack epsilon.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dplangevin.attacks.audit import audit
from dplangevin.attacks.sampled import all_iterates
from dplangevin.methods.dp_sgd import MOMENTS
from dplangevin.methods.pricing import NEIGHBOURS
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.gaussian_steps import steps_event
from dplangevin.privacy.li2019 import multiplier_of
from dplangevin.random import generator


@dataclass(frozen=True)
class SghmcNoise:
    """The settings of SGHMC, on Poisson samples, and the gradient norms L."""

    records: int
    batch: int
    epochs: float
    step: float  # eta, absolute
    delta: float
    runs: int  # of the attack, on each data set
    friction: float = 0.1
    norms: Sequence[float] = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # the values of L, > 0

    def units(self) -> list[str]:
        return [f"{norm:g}" for norm in self.norms]

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        norm, steps = float(unit), math.floor(self.records * self.epochs / self.batch)
        size: dict[str, Any] = {"records": self.records, "batch": self.batch}
        multiplier = multiplier_of(self.step / (2 * self.friction), **size, lipschitz=norm)
        event = steps_event(multiplier, rate=self.batch / self.records, steps=steps, schedule="fixed")
        row: dict[str, Any] = {"norm": norm, "noise_multiplier": multiplier, **size, "steps": steps}
        row |= {"step_size": self.step, "friction": self.friction, "delta": self.delta}
        row["epsilon_moments"] = MOMENTS.epsilon(event, self.delta, "add_remove")
        for kind in NEIGHBOURS:
            row[f"epsilon_{kind}"] = Tight().epsilon(event, self.delta, kind)
            values = all_iterates(event, self.runs, generator(seed, f"{unit} {kind}"), kind)
            attack = audit(*values, self.delta)
            row[f"attack_{kind}"], row["confidence"] = attack.epsilon, attack.confidence
        return [row]
