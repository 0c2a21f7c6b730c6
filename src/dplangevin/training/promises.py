"""What a learner of networks promises, and the domains of its settings."""

import math

from dp_accounting import NonPrivateDpEvent

from dplangevin.checks import not_negative, positive, require
from dplangevin.privacy import Adjacency, Budget, Guarantee
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.stepsize import Schedule, steps_event

ASSUMPTIONS = (
    "number of records public",
    "step size, clip, batch, epochs, prior and network chosen without accounting",
)


def private(
    accountant: Accountant,
    budget: Budget,
    multiplier: float,
    rate: float,
    steps: int,
    schedule: Schedule,
    adjacency: Adjacency,
) -> Guarantee:
    """The guarantee of a chain whose every iterate is released, as `accountant` claims it; see `steps_event`."""
    event = steps_event(multiplier, rate=rate, steps=steps, schedule=schedule)
    claimed = accountant.epsilon(event, budget.delta, adjacency)
    return Guarantee(claimed, budget.delta, event, adjacency, "all_iterates", "poisson", ASSUMPTIONS)


def public(budget: Budget) -> Guarantee:
    """What a learner without privacy promises: nothing."""
    return Guarantee(math.inf, budget.delta, NonPrivateDpEvent(), "add_remove", "all_iterates", "poisson", ())


def check_settings(precision: float, momentum: float = 0.0, **positives: float) -> None:
    """ValueError, naming it, for a setting out of its domain."""
    positive(**positives)
    not_negative(precision=precision)
    require(0 <= momentum < 1, f"momentum must be in [0, 1), not {momentum}")
