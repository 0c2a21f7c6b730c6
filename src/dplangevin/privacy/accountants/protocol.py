"""What every accountant answers, and how it refuses."""

import math
from collections.abc import Callable, Iterator
from typing import Protocol

from dp_accounting import ComposedDpEvent, DpEvent, NonPrivateDpEvent, NoOpDpEvent, SelfComposedDpEvent
from scipy.optimize import brentq, minimize_scalar

from dplangevin.privacy.events import Adjacency, NearbyDpEvent, check_delta

ITERATIONS = 100  # towards a fixed point, before a bracket is sought


class Accountant(Protocol):
    """Prices events. name: how it is called in result files."""

    @property
    def name(self) -> str: ...

    def epsilon(self, event: DpEvent, delta: float, adjacency: Adjacency = "replace_one") -> float:
        """An epsilon such that `event` is (epsilon, delta)-DP. ValueError for what it cannot price."""
        ...


def trivial(event: DpEvent, delta: float) -> float | None:
    """The price all agree on (nothing done: 0; a part without privacy: inf), else None. Checks delta."""
    check_delta(delta)
    parts = [leaf for leaf, _ in leaves(event)]
    if not parts:
        return 0.0
    if any(isinstance(leaf, NonPrivateDpEvent) for leaf in parts):
        return math.inf
    return None


def refuse(name: str, event: DpEvent, reason: str = "") -> ValueError:
    """The error for an event that accountant `name` has no theorem for."""
    message = f"{name} cannot price {type(event).__name__}: {event!r}"
    return ValueError(f"{message}; {reason}" if reason else message)


def leaves(event: DpEvent, count: int = 1) -> Iterator[tuple[DpEvent, int]]:
    """The events that `event` composes, each with how often; a sampled event is one leaf, a NoOp none."""
    if count == 0 or isinstance(event, NoOpDpEvent):
        return
    if isinstance(event, SelfComposedDpEvent):
        yield from leaves(event.event, count * event.count)
    elif isinstance(event, ComposedDpEvent):
        for part in event.events:
            yield from leaves(part, count)
    else:
        yield event, count


def nearby(event: DpEvent, delta: float, price: Callable[[DpEvent, float], float]) -> float | None:
    """The price of a `NearbyDpEvent`; None if `event` is none, or a composition.

    The least epsilon with epsilon >= price(inner event, delta - (1 + e^epsilon) total_variation): from below by
    iteration, since the right-hand side does not decrease with epsilon; inf where delta does not suffice.  Where the
    two sides nearly touch, which takes thousands of iterations, their difference is minimised, which is convex, and the
    root below its minimum found by Brent's method.
    """
    if not isinstance(event, NearbyDpEvent):
        return None

    def needed(epsilon: float) -> float:
        spare = delta - (1 + math.exp(min(epsilon, 700.0))) * event.total_variation
        return math.inf if spare < 0 or (spare == 0 and delta > 0) else price(event.event, spare)

    epsilon = 0.0
    for _ in range(ITERATIONS):
        found = needed(epsilon)
        if found <= epsilon or found == math.inf:
            return epsilon if found <= epsilon else math.inf
        epsilon = found * (1 + 1e-12)
    end = math.log(delta / event.total_variation - 1) * (1 - 1e-9)  # beyond it nothing is left of delta
    gap = minimize_scalar(
        lambda e: needed(e) - e, bounds=(epsilon, end), method="bounded", options={"xatol": 1e-10}
    )
    if not gap.fun < 0:
        return math.inf
    root = float(brentq(lambda e: needed(e) - e, epsilon, gap.x, rtol=1e-14)) * (1 + 1e-10)
    return root if needed(root) <= root else float(gap.x)
