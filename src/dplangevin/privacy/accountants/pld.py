"""dp_accounting's accountant of privacy loss distributions, at one fixed step of its grid."""

import math
from dataclasses import dataclass

from dp_accounting import DpEvent, GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant

from dplangevin.privacy.accountants.protocol import leaves, refuse, trivial
from dplangevin.privacy.events import Adjacency, check_adjacency


@dataclass(frozen=True)
class Pld:
    """Privacy loss distributions of Gaussian steps, full or Poisson-sampled, by connect-the-dots.

    dp_accounting's multiplier is relative to one record's norm here under both adjacencies, as ours.
    step: of the loss grid, > 0. Epsilon is never understated; with steps much noisier than 1/step it is
    coarse, where `Tight` refines its grid.
    """

    step: float = 1e-4
    name: str = "PLD"

    def __post_init__(self) -> None:
        if not (self.step > 0 and math.isfinite(self.step)):
            raise ValueError(f"step = {self.step} must be positive and finite; 1e-4 is usual")

    def epsilon(self, event: DpEvent, delta: float, adjacency: Adjacency = "replace_one") -> float:
        """Epsilon at delta; inf at delta = 0, or where the grid's truncated tail is heavier than delta."""
        check_adjacency(adjacency, who=self.name)
        price = trivial(event, delta)
        if price is not None:
            return price
        relation = {
            "replace_one": NeighboringRelation.REPLACE_ONE,
            "add_remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
        }[adjacency]
        accountant = PLDAccountant(relation, self.step)
        for leaf, count in leaves(event):
            inner = leaf.event if isinstance(leaf, PoissonSampledDpEvent) else leaf
            if not isinstance(inner, GaussianDpEvent):
                raise refuse(self.name, leaf, "it prices Gaussian steps, Poisson-sampled or full")
            accountant.compose(leaf, count)
        return float(accountant.get_epsilon(delta))
