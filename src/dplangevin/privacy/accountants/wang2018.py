"""AdaSSP's accountant: Wang (2018), Algorithm 2 and the theorem on its privacy."""

import math
from dataclasses import dataclass

from dp_accounting import DpEvent

from dplangevin.privacy.accountants.protocol import leaves, refuse, trivial
from dplangevin.privacy.events import Adjacency, SufficientStatisticsDpEvent, check_adjacency


@dataclass(frozen=True)
class Wang2018:
    """Accountant of noisy sufficient statistics by basic composition.

    Each of m released parts has its own epsilon_i and delta/m. Its noise is ``sqrt(ln(2 m/delta))/epsilon_i``
    times its sensitivity. AdaSSP has m = 3 and epsilon_i = epsilon/3, which is ``sqrt(ln(6/delta))/(epsilon/3)``.

    Differs: the paper multiplies by one record's bounds, the sensitivities for add_remove. Under replace_one
    we multiply by those for replace_one: sqrt(2) for the matrix, 2 for the vector and 1 for the eigenvalue
    (`SufficientStatisticsDpEvent`).
    """

    name: str = "Wang 2018"

    def epsilon(self, event: DpEvent, delta: float, adjacency: Adjacency = "replace_one") -> float:
        """Return epsilon at delta of one SufficientStatisticsDpEvent; inf at delta = 0.

        See `Accountant.epsilon`.
        """
        check_adjacency(adjacency, who=self.name)
        price = trivial(event, delta)
        if price is not None:
            return price
        (leaf, count), *more = leaves(event)
        if more or count != 1 or not isinstance(leaf, SufficientStatisticsDpEvent):
            raise refuse(self.name, event, "it prices one release of sufficient statistics")
        if delta == 0:
            return math.inf
        parts = 2 if leaf.eigenvalue == math.inf else 3
        replaced = adjacency == "replace_one"
        moved = (math.sqrt(2), 2.0, 1.0) if replaced else (1.0, 1.0, 1.0)
        noise = leaf.matrix, leaf.vector, leaf.eigenvalue
        return math.sqrt(math.log(2 * parts / delta)) * sum(
            share / std for share, std in zip(moved, noise, strict=True)
        )
