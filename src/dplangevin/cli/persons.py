"""`dplangevin compare --group`: at most K rows of a person are used, and every ε is for all of these together."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from dp_accounting import GaussianDpEvent, NonPrivateDpEvent

from dplangevin.data.splits import Split, generator
from dplangevin.methods import Execution, Plan, Release
from dplangevin.methods.pricing import TIGHT, violated, whole
from dplangevin.privacy import Adjacency, Budget, noise_for
from dplangevin.problems import Facts, Problem
from dplangevin.receipt.prices import of_records

NEIGHBOURS: Adjacency = "replace_one"  # every method has a guarantee for these neighbours
LEAST, LARGEST = 1e-6, 1e9  # noise multipliers of the event that stands for K records
FINE = 1e-9  # relative tolerance of its price, which is rounded up


class _Theorem(NamedTuple):
    name: str


@dataclass(frozen=True)
class OfPersons:
    """`method` with budgets and prices for `rows` records together.

    Its own theorem gets the budget (ε/K, δ (e^(ε/K) - 1)/(e^ε - 1)) of one record, so that it promises (ε, δ) by the
    group lemma. The event of a plan is the Gaussian mechanism that costs at δ what K records cost by `of_records`.
    """

    method: Any
    rows: int
    budgeted: ClassVar[bool] = True

    @property
    def accountant(self) -> Any:
        return _Theorem(f"{self.method.accountant.name}, {self.rows} records by the group lemma")

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        one = budget.epsilon / self.rows
        share = math.exp(one - budget.epsilon) * math.expm1(-one) / math.expm1(-budget.epsilon)
        plan = self.method.plan(facts, Budget(one, share * budget.delta))
        cost, by = of_records(whole(plan.guarantee.event), budget.delta, NEIGHBOURS, self.rows)
        goal = Budget(cost * (1 + 10 * FINE), budget.delta)
        noise = noise_for(TIGHT, GaussianDpEvent, goal, low=LEAST, high=LARGEST, rtol=FINE)
        guarantee = plan.guarantee._replace(
            epsilon=self.rows * plan.guarantee.epsilon,
            delta=budget.delta,
            event=GaussianDpEvent(noise) if cost < math.inf else NonPrivateDpEvent(),
            assumptions=(
                *plan.guarantee.assumptions,
                f"proven ε of {self.rows} records: {by}",
                f"how many rows each person has, up to {self.rows}, is public: it decides the number of rows",
            ),
        )
        return plan._replace(guarantee=guarantee, paper=None, violated=(*violated(self.method, plan),))

    def release(self, problem: Problem, plans: Any, how: Execution) -> Release:
        release: Release = self.method.release(problem, plans, how)
        return release


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
