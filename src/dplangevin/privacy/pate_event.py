"""The event of Confident-GNMax: noisy threshold tests and noisy votes of teachers on disjoint records."""

import math

import attr
from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent, SelfComposedDpEvent

from dplangevin.privacy.events import Adjacency, not_negative, positive


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PateDpEvent(DpEvent):
    """At most `queries` threshold tests and `answers` answers (Papernot et al. 2018, Algorithm 1).

    A test releases whether max_j n_j + N(0, threshold_std^2) >= T, an answer argmax_j (n_j + N(0, answer_std^2)), where
    n_j teachers vote for class j.  A record reaches one teacher, so adding, removing or replacing it moves at most one
    vote: max_j n_j by at most 1, the counts by at most sqrt(2), whatever the adjacency.  queries, answers: caps fixed
    beforehand, >= 0.  threshold_std, answer_std: in votes, > 0.
    order, released_rdp: an order lambda > 1 and the published value, its own cost included, of the Renyi divergence of
    that order (`votes`); order 0 where nothing was published.
    """

    queries: int = attr.ib(validator=not_negative)
    answers: int = attr.ib(validator=not_negative)
    threshold_std: float = attr.ib(validator=positive)
    answer_std: float = attr.ib(validator=positive)
    order: float = attr.ib(default=0.0, validator=not_negative)
    released_rdp: float = attr.ib(default=math.inf)

    @property
    def rho(self) -> float:
        """The data-independent Renyi divergence of order lambda is rho lambda (Proposition 8)."""
        return self.queries / (2 * self.threshold_std**2) + self.answers / self.answer_std**2

    def gaussian_steps(self, adjacency: Adjacency) -> DpEvent:
        """The Gaussian mechanisms that tests and answers are functions of: mu = 1/threshold_std, sqrt(2)/answer_std.

        Which query is answered depends on earlier results, but the sum of mu^2 is at most that of the caps on every
        path, so they compose as if fixed (Smith and Thakurta 2022; for `rho` Feldman and Zrnic 2021).
        """
        share = (
            2.0 if adjacency == "replace_one" else 1.0
        )  # mu = share/noise multiplier, by the project's convention
        tests = SelfComposedDpEvent(GaussianDpEvent(share * self.threshold_std), self.queries)
        votes = SelfComposedDpEvent(GaussianDpEvent(share * self.answer_std / math.sqrt(2)), self.answers)
        return ComposedDpEvent([tests, votes])
