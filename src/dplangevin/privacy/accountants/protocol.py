"""What every accountant answers, and how it refuses."""

import math
from collections.abc import Callable, Iterator
from typing import Protocol

from dp_accounting import ComposedDpEvent, DpEvent, NonPrivateDpEvent, NoOpDpEvent, SelfComposedDpEvent

from dplangevin.privacy.events import Adjacency, NearbyDpEvent, check_delta


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
    iteration, since the right-hand side does not decrease with epsilon; inf where delta does not suffice.
    """
    if not isinstance(event, NearbyDpEvent):
        return None
    epsilon = 0.0
    while True:
        spare = delta - (1 + math.exp(min(epsilon, 700.0))) * event.total_variation
        if spare < 0 or (spare == 0 and delta > 0):
            return math.inf
        found = price(event.event, spare)
        if found <= epsilon:
            return epsilon
        epsilon = found * (1 + 1e-12)
