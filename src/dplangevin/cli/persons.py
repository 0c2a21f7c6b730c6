"""`dplangevin compare --group`: at most K rows of a person are used, and every ε is for all of these together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import attr
import numpy as np
from dp_accounting import DpEvent, NonPrivateDpEvent, NoOpDpEvent, UnsupportedDpEvent

from dplangevin.data.splits import Split, generator
from dplangevin.methods import Execution, Plan, Release
from dplangevin.methods.pricing import violated, whole
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants import tight
from dplangevin.privacy.events import Adjacency
from dplangevin.problems import Facts, Problem
from dplangevin.receipt.prices import MOST, grown, of_records

NEIGHBOURS: Adjacency = "replace_one"  # every method has a guarantee for these neighbours
SAME = (NonPrivateDpEvent, NoOpDpEvent, UnsupportedDpEvent)  # events whose price is not one of records
SPARE = 1e-9  # relative, of delta, for rounding


@attr.frozen
class RecordsDpEvent(DpEvent):
    """`event`, where neighbours differ in `rows` records; the tight accountant prices it by `of_records`."""

    event: DpEvent
    rows: int


@tight.alone.register
def _(leaf: RecordsDpEvent, delta: float, adjacency: Adjacency) -> tight.Price:
    return of_records(leaf.event, delta, adjacency, leaf.rows)


@dataclass(frozen=True)
class OfPersons:
    """`method` with budgets and prices for `rows` records together.

    The method's own theorem gets the budget of one record that by the group lemma gives the budget of K.
    """

    method: Any
    rows: int
    budgeted: ClassVar[bool] = True
    priced_by_release: ClassVar[bool] = True  # as an inner PATE: no training is kept under another price

    @property
    def accountant(self) -> Any:
        return SimpleNamespace(name=f"{self.method.accountant.name}, {self.rows} records by the group lemma")

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        one = (budget.epsilon if budget.epsilon == math.inf else min(budget.epsilon, MOST / 2)) / self.rows
        asked = Budget(one, budget.delta / grown(one, self.rows) * (1 - SPARE))
        plan = self.method.plan(facts, asked)
        of, event = plan.guarantee, whole(plan.guarantee.event)
        guarantee = of._replace(
            epsilon=self.rows * of.epsilon,
            delta=of.delta * grown(of.epsilon, self.rows),
            event=event if isinstance(event, SAME) else RecordsDpEvent(event, self.rows),
        )
        return plan._replace(guarantee=guarantee, paper=None, violated=(*violated(self.method, plan),))

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        """Return the method's release of its own plans, without what it says of the privacy of one record."""
        release: Release = self.method.release(problem, [self._of_one(plan) for plan in plans], how)
        seen = {name: each for name, each in release.not_private.items() if not name.startswith("epsilon")}
        return replace(release, not_private=seen)

    def _of_one(self, plan: Plan) -> Plan:
        of = plan.guarantee
        one = of.epsilon / self.rows
        event = of.event.event if isinstance(of.event, RecordsDpEvent) else of.event
        own = of._replace(epsilon=one, delta=of.delta / grown(one, self.rows), event=event)
        return plan._replace(guarantee=own)


def split_by_person(persons: np.ndarray, most: int, split: Split, name: str) -> list[np.ndarray]:
    """Return training rows (R, n) and test rows (R, m), with at most `most` rows of a person, who is in one of them.

    `persons` (N,) says whose a row is. Rows are drawn without a look at their values. All repeats have as many rows as
    the smallest.
    """
    order = generator(split.seed, f"{name}/persons").permutation(len(persons))
    names, whose = np.unique(persons[order], return_inverse=True)
    by_person = np.argsort(whose, kind="stable")
    rank = np.empty(len(order), int)
    rank[by_person] = np.arange(len(order)) - np.searchsorted(whose[by_person], whose[by_person])
    kept, whose = order[rank < most], whose[rank < most]
    parts = []
    for drawn in split.rows(len(names), name):
        rows = [kept[np.isin(whose, own)] for own in drawn]
        least = min(map(len, rows))
        parts.append(np.stack([each[:least] for each in rows]))
    return parts
