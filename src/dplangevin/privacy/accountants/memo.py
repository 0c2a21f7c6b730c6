"""Prices remembered by content, so that the same question is answered once."""

from dataclasses import dataclass, field
from functools import lru_cache

from dp_accounting import DpEvent

from dplangevin.privacy.accountants.protocol import Accountant, leaves
from dplangevin.privacy.events import Adjacency


@dataclass(frozen=True)
class _Question:
    """Two questions are one if accountant, steps (leaves and counts), delta and adjacency are equal values."""

    accountant: Accountant
    content: tuple[tuple[DpEvent, int], ...]
    delta: float
    adjacency: Adjacency
    event: DpEvent = field(compare=False, repr=False)


@lru_cache(maxsize=16384)
def _answer(question: _Question) -> float:
    return question.accountant.epsilon(question.event, question.delta, question.adjacency)


def epsilon(accountant: Accountant, event: DpEvent, delta: float, adjacency: Adjacency) -> float:
    """accountant.epsilon(event, delta, adjacency), computed once per content; errors are not remembered.

    The accountant must be a value (a frozen dataclass); whatever cannot be hashed is priced each time.
    """
    question = _Question(accountant, tuple(leaves(event)), delta, adjacency, event)
    try:
        hash(question)
    except TypeError:
        return accountant.epsilon(event, delta, adjacency)
    return _answer(question)
