"""PATE's accountant: Papernot, Song, Mironov, Raghunathan, Talwar, Erlingsson (2018)."""

import math
from dataclasses import dataclass

from dp_accounting import DpEvent

from dplangevin.privacy.accountants.protocol import Theorem, leaves, refuse
from dplangevin.privacy.events import Adjacency, PateDpEvent


@dataclass(frozen=True)
class Papernot2018(Theorem):
    """Accountant of Confident-GNMax by Renyi privacy.

    epsilon = rdp(lambda) + ln(1/delta)/(lambda - 1). Data-independent: rdp = rho lambda (Proposition 8), so epsilon =
    rho + 2 sqrt(rho ln(1/delta)) at the best real order. If an event carries a published data-dependent value
    (`PateDpEvent.released_rdp`), the smaller epsilon counts. A record reaches one teacher, so relations cost the same.
    """

    name: str = "Papernot et al. 2018"

    def _proven(self, event: DpEvent, delta: float, adjacency: Adjacency) -> float:
        parts = list(leaves(event))
        (leaf, count), *more = parts
        if more or count != 1 or not isinstance(leaf, PateDpEvent):
            raise refuse(self.name, event, "it prices a single PateDpEvent")
        if leaf.rho == 0:
            return 0.0
        if delta == 0:
            return math.inf
        log = math.log(1 / delta)
        found = leaf.rho + 2 * math.sqrt(leaf.rho * log)
        if leaf.order > 1:
            found = min(found, leaf.released_rdp + log / (leaf.order - 1))
        return max(found, 0.0)
