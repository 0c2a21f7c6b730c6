"""Confident-GNMax (Papernot et al. 2018, Algorithm 1): how many labels a budget affords, and which."""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import attr
import numpy as np
from dp_accounting import NonPrivateDpEvent
from torch import Tensor

from dplangevin.checks import positive, require
from dplangevin.methods.pate import FROM_VOTES
from dplangevin.privacy import Adjacency, Budget, Guarantee
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.calibrate import calibrate
from dplangevin.privacy.pate_event import PateDpEvent
from dplangevin.privacy.pate_release import Run, Settings

FINER = 1.2  # ratio between the numbers of answers that "data_dependent" tries
NOISE = (1e-3, 1e9)  # in votes: where the noise is searched


class Votes(NamedTuple):
    """Votes of the teachers (S, Q, K) float64, and the standard normals that every budget of a run shares."""

    counts: Tensor
    tests: Tensor  # (S, Q)
    answers: Tensor  # (S, Q, K)
    release: np.ndarray  # (S,)


class Labels(NamedTuple):
    """Which queries were tested and which answered, and the noisy winners, each (S, queries that could be asked)."""

    asked: Tensor
    answered: Tensor
    winner: Tensor


class Outcome(NamedTuple):
    """What the vote gave and cost; std: sigma_2.  spent, released: epsilon (S,) of `Run`, inf without a budget."""

    labels: Labels
    guarantee: Guarantee
    std: float
    spent: np.ndarray
    released: np.ndarray


@dataclass(frozen=True)
class Confident:
    r"""For a query with votes n_j, until A labels are given or A `asked` queries were tested:

        if max_j n_j + N(0, sigma_1^2) >= threshold:  label argmax_j (n_j + N(0, sigma_2^2)),  else none

    sigma_1 = ratio sigma_2.  A is the largest number that the budget affords at sigma_2 = `answer_std`, between
    `fewest` and queries/asked; then sigma_2 is the least that the budget affords for A.  At the settings of
    conf/learner/pate.yaml and delta = 1e-5, by the tight accountant:

        epsilon      .22      .5     .99    1.97       8
        A             40      40     118     411    1000
        sigma_2    138.3    65.1    59.9    60.0    27.8

    bound: "data_independent" prices both caps, which looks at no vote.  "data_dependent" takes the most answers, at
    sigma_2 = answer_std, whose released epsilon (`Run.release`), the largest over the seeds, is within the budget, as
    the published experiments do: that choice looks at the votes and is not accounted for.  It needs an accountant that
    reads the release (papernot2018).
    queries: the most that may be tested.  threshold, answer_std: in votes, > 0.  decay, share: of the release.
    """

    queries: int
    fewest: int
    asked: float
    threshold: float
    answer_std: float
    ratio: float
    accountant: Accountant
    bound: Literal["data_independent", "data_dependent"] = "data_independent"
    adjacency: Adjacency = "add_remove"
    decay: float = 0.2
    share: float = 0.05

    def __post_init__(self) -> None:
        positive(queries=self.queries, fewest=self.fewest, threshold=self.threshold, ratio=self.ratio)
        positive(answer_std=self.answer_std, decay=self.decay, share=self.share)
        require(self.asked >= 1, f"asked, queries per answer, must be at least 1, not {self.asked}")
        require(
            self.fewest <= self._most,
            f"fewest = {self.fewest} answers of {self.asked} queries each need more than {self.queries} queries",
        )
        require(
            self.decay < 0.5, f"decay must be below 1/2, where a release costs infinity, not {self.decay}"
        )
        require(self.bound in ("data_independent", "data_dependent"), f"bound {self.bound!r} is unknown")

    def __call__(self, votes: Votes, budget: Budget, assumptions: tuple[str, ...]) -> Outcome:
        """The labels of a run, priced; without noise or caps for epsilon = inf."""
        if budget.epsilon == math.inf:
            public = Guarantee(
                math.inf, budget.delta, NonPrivateDpEvent(), self.adjacency, "final", "full", ()
            )
            without = np.full(len(votes.counts), math.inf)
            return Outcome(self.label(votes, self.queries, self.queries, 0.0), public, 0.0, without, without)
        event = found = self.event(budget)
        if self.bound == "data_dependent":
            found = self._from_votes(votes, budget) or event
        labels = self.label(votes, found.queries, found.answers, found.answer_std)
        run = _run(self, votes, labels, found.answer_std)
        claimed = self.accountant.epsilon(found, budget.delta, self.adjacency)
        require(
            claimed <= budget.epsilon * (1 + 1e-6),
            f"{self.accountant.name} does not read a published epsilon: use papernot2018 with data_dependent",
        )
        assumptions += () if found is event else FROM_VOTES
        return Outcome(
            labels,
            Guarantee(claimed, budget.delta, found, self.adjacency, "final", "full", assumptions),
            found.answer_std,
            run.epsilon(budget.delta),
            run.release(budget, votes.release, self.decay, self.share).epsilon,
        )

    def event(self, budget: Budget) -> PateDpEvent:
        """The caps and the noise that spend a finite budget without a look at the votes."""

        def fits(answers: int) -> bool:
            event = self._event(answers, self.answer_std)
            return self.accountant.epsilon(event, budget.delta, self.adjacency) <= budget.epsilon

        few, many = self.fewest, self._most + 1  # A is in [few, many)
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (middle, many) if fits(middle) else (few, middle)
        low, high = NOISE
        std = calibrate(
            self.accountant,
            lambda std: self._event(few, std),
            budget,
            low=low,
            high=high,
            adjacency=self.adjacency,
            rtol=1e-6,
        )
        return self._event(few, std)

    def label(self, votes: Votes, queries: int, answers: int, std: float) -> Labels:
        """Algorithm 1 with sigma_2 = std on the first `queries` queries."""
        counts = votes.counts[:, :queries]
        passed = counts.amax(-1) + self.ratio * std * votes.tests[:, :queries] >= self.threshold
        asked = passed.cumsum(1) - passed.long() < answers
        winner = (counts + std * votes.answers[:, :queries]).argmax(-1)
        return Labels(asked, asked & passed, winner)

    def _from_votes(self, votes: Votes, budget: Budget) -> PateDpEvent | None:
        answers = self._most
        while answers >= self.fewest:
            event = self._event(answers, self.answer_std)
            labels = self.label(votes, event.queries, answers, event.answer_std)
            run = _run(self, votes, labels, event.answer_std)
            order, rdp, epsilon = run.release(budget, votes.release, self.decay, self.share)
            if epsilon.max() <= budget.epsilon:
                return attr.evolve(event, order=order, released_rdp=max(float(rdp.max()), 0.0))
            answers = int(answers / FINER)
        return None

    @property
    def _most(self) -> int:
        return int(self.queries / self.asked)

    def _event(self, answers: int, std: float) -> PateDpEvent:
        return PateDpEvent(math.ceil(answers * self.asked), answers, self.ratio * std, std)


def _run(settings: Confident, votes: Votes, labels: Labels, std: float) -> Run:
    counts = votes.counts[:, : labels.asked.shape[1]].numpy()
    teachers = round(float(votes.counts[0, 0].sum()))
    limits = Settings(teachers, settings.threshold, settings.ratio * std, std)
    return Run(limits, counts, labels.asked.numpy(), labels.answered.numpy())
