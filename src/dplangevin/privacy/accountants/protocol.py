"""What every accountant answers, and how it refuses."""

import math
from collections.abc import Iterator
from typing import Protocol

from dp_accounting import ComposedDpEvent, DpEvent, NonPrivateDpEvent, NoOpDpEvent, SelfComposedDpEvent

from dplangevin.privacy.events import Adjacency, check_delta


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
