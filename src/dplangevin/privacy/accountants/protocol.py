"""The interface of all accountants, and how an accountant refuses an event."""

import math
from collections.abc import Callable, Iterator
from typing import ClassVar, Protocol, get_args

from dp_accounting import ComposedDpEvent, DpEvent, NonPrivateDpEvent, NoOpDpEvent, SelfComposedDpEvent

from dplangevin.privacy.events import Adjacency, NearbyDpEvent, check_adjacency, check_delta

ITERATIONS = 1000  # fixed-point iterations in `nearby`


class Accountant(Protocol):
    """An object that computes an epsilon for an event; `name` is its name in result files."""

    @property
    def name(self) -> str: ...

    def epsilon(self, event: DpEvent, delta: float, adjacency: Adjacency = "replace_one") -> float:
        """Return an epsilon such that `event` is (epsilon, delta)-DP, or raise ValueError where there is no theorem.

        Parameters
        ----------
        event : DpEvent, what was done to the data.
        delta : float in [0, 1).
        adjacency : {"replace_one", "add_remove"}, the neighbour relation.
        """
        ...


class Theorem(Accountant):
    """Base of accountants that price by one theorem, `_proven`, for the neighbours `adjacencies`."""

    adjacencies: ClassVar[tuple[str, ...]] = get_args(Adjacency)

    def epsilon(self, event: DpEvent, delta: float, adjacency: Adjacency = "replace_one") -> float:
        """Return epsilon at delta; ValueError for an event or neighbours that the theorem does not cover."""
        check_adjacency(adjacency, self.adjacencies, self.name)
        price = trivial(event, delta)
        return self._proven(event, delta, adjacency) if price is None else price

    def _proven(self, event: DpEvent, delta: float, adjacency: Adjacency) -> float:
        raise NotImplementedError


def trivial(event: DpEvent, delta: float) -> float | None:
    """Return 0 if nothing was done to the data, inf if a part has no privacy, else None; check delta."""
    check_delta(delta)
    parts = [leaf for leaf, _ in leaves(event)]
    if not parts:
        return 0.0
    if any(isinstance(leaf, NonPrivateDpEvent) for leaf in parts):
        return math.inf
    return None


def refuse(name: str, event: DpEvent, reason: str = "") -> ValueError:
    """Return the error for an event that accountant or attack `name` has no theorem for."""
    message = f"{name} cannot price {type(event).__name__}: {event!r}"
    return ValueError(f"{message}; {reason}" if reason else message)


def leaves(event: DpEvent, count: int = 1) -> Iterator[tuple[DpEvent, int]]:
    """Yield the events that `event` composes, with counts. A sampled event is one leaf, a NoOpDpEvent has none."""
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
    """Return the price of a `NearbyDpEvent`, or None if `event` is not one (also for a composition of such events).

    The price is the least epsilon with epsilon >= price(inner event, delta - (1 + e^epsilon) total_variation), or inf
    where delta does not suffice. The right-hand side does not decrease with epsilon, so iteration from below finds it.
    Where the sides nearly touch, it may not end; the price is then inf, too.
    """
    if not isinstance(event, NearbyDpEvent):
        return None

    def needed(epsilon: float) -> float:
        """Return the epsilon of the inner event at the delta that remains, or inf if none remains."""
        spare = delta - (1 + math.exp(min(epsilon, 700.0))) * event.total_variation
        return math.inf if spare < 0 or (spare == 0 and delta > 0) else price(event.event, spare)

    epsilon = 0.0
    for _ in range(ITERATIONS):
        found = needed(epsilon)
        if found <= epsilon:
            return epsilon
        epsilon = found * (1 + 1e-12)
    return math.inf
