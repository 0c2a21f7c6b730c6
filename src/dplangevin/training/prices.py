"""What the steps taken so far have cost, for both kinds of neighbours."""

import math
from dataclasses import dataclass
from functools import cache

from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.stepsize import Schedule, steps_event

NEIGHBOURS = ("add_remove", "replace_one")


@dataclass(frozen=True)
class Prices:
    """Tight prices of the first steps of a chain, all of whose iterates are released.

    multiplier: noise multiplier of the first step, 0 for no privacy.  rate: q.  schedule: "fixed", or "decreasing" with
    sigma_t = sigma_1 t^(1/6).
    """

    multiplier: float
    rate: float
    delta: float
    schedule: Schedule = "fixed"

    def after(self, steps: int) -> dict[str, float]:
        """epsilon_add_remove and epsilon_replace_one of the first `steps` steps; inf without privacy."""
        return {f"epsilon_{kind}": _price(self, steps, kind) for kind in NEIGHBOURS}


@cache
def _price(prices: Prices, steps: int, kind: str) -> float:
    if prices.multiplier == 0:
        return math.inf
    event = steps_event(prices.multiplier, rate=prices.rate, steps=steps, schedule=prices.schedule)
    return Tight().epsilon(event, prices.delta, kind)  # type: ignore[arg-type]
