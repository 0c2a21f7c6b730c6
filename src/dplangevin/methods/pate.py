"""Private aggregation of teacher ensembles by Confident-GNMax (Papernot, Song, Mironov et al. 2018)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Literal, NamedTuple

import torch
from dp_accounting import DpEvent
from torch import Tensor

from dplangevin import random
from dplangevin.checks import positive, require, settings
from dplangevin.methods import Execution, Plan, Release, Workspace, guaranteed
from dplangevin.methods.teachers import Labels, Learner, RidgeLearner
from dplangevin.privacy import Adjacency, Budget, Guarantee
from dplangevin.privacy.accountants.papernot2018 import Papernot2018, Run, Settings
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.calibration import noise_for
from dplangevin.privacy.events import PUBLIC_RECORDS, PateDpEvent
from dplangevin.problems import Facts, Problem
from dplangevin.problems.glm import Glm

NOISE = 1e-3, 1e9  # in votes: the interval in which calibration searches the noise
DECAY, SHARE = 0.2, 0.05  # of the published price, see `papernot2018.Run.release`


class Votes(NamedTuple):
    """The teachers' votes ``(S, Q, K)`` for each query and class, and the standard normals that all budgets share."""

    counts: Tensor
    tests: Tensor  # (S, Q)
    answers: Tensor  # (S, Q, K)
    release: Tensor  # (S, 1)


class Caps(NamedTuple):
    """Limits for one budget: threshold tests, answers, and sigma_2 in votes."""

    queries: int
    answers: int
    answer_std: float
    budget: Budget


@dataclass(frozen=True)
class Confident:
    """Confident-GNMax, Algorithm 1 of Papernot et al. (2018): a noisy threshold test, then a noisy vote.

    For a query with n_j votes for class j::

        if max_j n_j + N(0, sigma_1^2) >= threshold:  label argmax_j (n_j + N(0, sigma_2^2)),  else none

    with sigma_1 = `ratio` times sigma_2.  It stops after A labels, or after A times `asked` tested queries.
    A is the largest number that the budget allows at sigma_2 = `answer_std`, between `fewest` and queries/asked.  Then
    sigma_2 is the smallest that the budget allows for A.  Without a budget all `queries` are tested without noise.

    - `queries`, `fewest`, `asked`: >= 1.  Most tested queries; smallest A; tested queries for each answer.
    - `threshold`, `answer_std`: > 0, in votes.
    """

    queries: int = 1000
    fewest: int = 100
    asked: float = 10.0
    threshold: float = 200.0
    answer_std: float = 40.0
    ratio: float = 4.0
    accountant: Accountant = field(default_factory=Papernot2018)
    adjacency: Adjacency = "replace_one"

    def __post_init__(self) -> None:
        positive(queries=self.queries, fewest=self.fewest, threshold=self.threshold, ratio=self.ratio)
        positive(answer_std=self.answer_std)
        require(self.asked >= 1, f"asked, queries per answer, must be at least 1, not {self.asked}")
        require(
            self.fewest <= self.most,
            f"fewest = {self.fewest} answers of {self.asked} queries each need more than {self.queries} queries",
        )
        settings(self)

    @property
    def most(self) -> int:
        """The largest A."""
        return int(self.queries / self.asked)

    def among(self, rows: int) -> "Confident":
        """Return the same vote for `rows` public rows, with no more queries and answers than they allow."""
        require(rows >= self.asked, f"pate has {rows} public rows and asks {self.asked:g} for an answer")
        queries = min(self.queries, rows)
        return replace(self, queries=queries, fewest=min(self.fewest, int(queries / self.asked)))

    def event(self, budget: Budget) -> PateDpEvent:
        """Return the caps and the noise that spend a finite budget, without a look at the votes."""

        def fits(answers: int) -> bool:
            event = self._event(answers, self.answer_std)
            return self.accountant.epsilon(event, budget.delta, self.adjacency) <= budget.epsilon

        few, many = self.fewest, self.most + 1  # A is in [few, many)
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (middle, many) if fits(middle) else (few, middle)
        std = noise_for(
            self.accountant,
            lambda std: self._event(few, std),
            budget,
            low=NOISE[0],
            high=NOISE[1],
            adjacency=self.adjacency,
            rtol=1e-6,
        )
        return self._event(few, std)

    def label(self, votes: Votes, caps: Sequence[Caps]) -> Labels:
        queries, answers = (torch.tensor([cap[i] for cap in caps])[:, None] for i in (0, 1))
        std = torch.tensor([cap.answer_std for cap in caps], dtype=torch.float64)[:, None]
        counts = votes.counts[:, None]  # (S, 1, Q, K)
        among = torch.arange(counts.shape[2]) < queries  # (E, Q)
        passed = counts.amax(-1) + self.ratio * std * votes.tests[:, None] >= self.threshold
        asked = (passed.cumsum(-1) - passed.long() < answers) & among
        winner = (counts + std[..., None] * votes.answers[:, None]).argmax(-1)
        return Labels(asked, asked & passed, winner)

    def run(self, votes: Votes, caps: Caps, labels: Labels, e: int) -> Run:
        counts, (asked, answered, _) = votes.counts[:, : caps.queries], (part[:, e] for part in labels)
        teachers = round(float(counts[0, 0].sum()))
        limits = Settings(teachers, self.threshold, self.ratio * caps.answer_std, caps.answer_std)
        seen = (part[:, : caps.queries].numpy() for part in (asked, answered))
        return Run(limits, counts.numpy(), *seen)

    def _event(self, answers: int, std: float) -> PateDpEvent:
        queries = min(self.queries, math.ceil(answers * self.asked))  # rounding could give one query too many
        return PateDpEvent(queries, answers, self.ratio * std, std)


@dataclass(frozen=True)
class Pate:
    """Teachers on disjoint records label public rows by noisy votes; a student learns from these labels only.

    Record i belongs to teacher i mod K.  The public rows are test rows without their labels.  Each seed asks about
    `vote.queries` of them, or about all if there are fewer, in an order of its own.  All budgets share teachers,
    queries and standard normals.

    Source: papernot2018.
    Differs: Papernot et al. train the student semi-supervised, with virtual adversarial training, on all public
    rows.  Here it learns supervised, on the labelled rows, and it is a model of the teachers' kind.
    Differs: they halve the test rows in their stored order; in MNIST the second half is the harder one.

    Attributes
    ----------
    teachers : int, >= 1.  K.
    teacher, student : How they learn: `RidgeLearner` for linear models, `Descent` for networks.
    scored : "odd": even rows are public and odd rows are scored, so a student is never scored on a row that it has
        seen.  "all": all rows are public and all are scored.
    """

    budgeted: ClassVar[bool] = True
    priced_by_release: ClassVar[bool] = True  # its scores include a price of the votes
    teachers: int = 250
    teacher: Learner = field(default_factory=RidgeLearner)
    vote: Confident = field(default_factory=Confident)
    student: Learner = field(default_factory=RidgeLearner)
    scored: Literal["odd", "all"] = "all"

    def __post_init__(self) -> None:
        positive(teachers=self.teachers)
        most, threshold = self.teachers, self.vote.threshold
        require(
            threshold <= most, f"threshold must be at most {most}, the number of teachers, not {threshold}"
        )
        settings(self)

    @property
    def accountant(self) -> Accountant:
        return self.vote.accountant

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        self.teacher.check(facts)
        self.student.check(facts)
        vote = self._vote(facts)
        require(self.teachers <= facts.n, f"teachers = {self.teachers} must be at most the {facts.n} records")
        event = None
        caps = Caps(vote.queries, vote.queries, 0.0, budget)
        if budget.epsilon < math.inf:
            event = vote.event(budget)
            caps = Caps(event.queries, event.answers, event.answer_std, budget)
        return Plan(self._guarantee(facts, event, budget), caps, {"noise_std": caps.answer_std})

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        """Return the students.

        `not_private` has the number of labels, the shares of correct labels and of correct votes, and the
        data-dependent epsilon with its released value.  A proven epsilon can be smaller than it.
        """
        vote = self._vote(problem.facts)
        caps = [plan.work for plan in plans]
        seed, queries, normals = self._draws(problem, how.seeds, how.rng, vote.queries)
        with TemporaryDirectory() as spare:
            at = how.workspace or Workspace(Path(spare), "pate")
            counts = self.teacher.votes(problem, self.teachers, queries, seed, at)
            votes = Votes(counts.double(), *normals)
            labels = vote.label(votes, caps)
            theta = self.student.students(problem, queries, labels, seed, at)
        found = _prices(vote, votes, labels, caps) | self._accuracies(problem, queries, votes, labels)
        return Release(
            theta[:, :, None],
            predicted=None if isinstance(problem, Glm) else problem.predict(theta),
            rows=None if self.scored == "all" else torch.arange(1, problem.facts.public, 2),
            not_private=found,
        )

    def _public(self, facts: Facts) -> Tensor:
        return torch.arange(0, facts.public, 1 if self.scored == "all" else 2)

    def _vote(self, facts: Facts) -> Confident:
        require(
            facts.public > 0, "pate needs public rows for its queries: give the problem test rows, `x_test`"
        )
        return self.vote.among(len(self._public(facts)))

    def _draws(
        self, problem: Problem, seeds: int, rng: torch.Generator, size: int
    ) -> tuple[int, Tensor, list[Tensor]]:
        """Return the learners' seed, queries ``(S, Q)``, normals of `Votes`; with networks each s has its own draws."""
        public, shapes = self._public(problem.facts), ((size,), (size, problem.facts.classes), (1,))
        if isinstance(problem, Glm):
            queries = public[random.subsets(rng, (seeds,), len(public), size)]
            return 0, queries, [random.noise(rng, seeds, *shape) for shape in shapes]
        seed = int(torch.randint(2**62, (), generator=rng))
        rngs = [random.generator(seed, f"queries/{s}") for s in range(seeds)]
        queries = torch.stack([public[torch.randperm(len(public), generator=each)[:size]] for each in rngs])
        normals = [torch.stack([random.noise(each, *shape) for each in rngs]) for shape in shapes]
        return seed, queries, normals

    def _guarantee(self, facts: Facts, event: DpEvent | None, budget: Budget) -> Guarantee:
        which = "the test rows" if self.scored == "all" else "the even test rows; the odd ones are scored"
        which = which if facts.tested else f"{len(self._public(facts))} that the problem was given"
        assumptions = (
            "each record's teacher is fixed beforehand",
            f"public unlabelled rows: {which}",
            "teachers, vote, training and scaling chosen without accounting",
            # n sets the rows of a teacher
            *([PUBLIC_RECORDS] if self.vote.adjacency == "add_remove" else []),
        )
        return guaranteed(self.accountant, event, budget, self.vote.adjacency, "final", "full", assumptions)

    def _accuracies(
        self, problem: Problem, queries: Tensor, votes: Votes, labels: Labels
    ) -> dict[str, Tensor]:
        """Return the shares of correct labels and votes, ``(S, E)``; nothing without labels of test rows."""
        if not problem.y_test.shape[1]:
            return {}
        truth = problem.y_test.expand(len(queries), -1).gather(1, queries)
        right = (labels.winner == truth[:, None]) & labels.answered
        agreeing = votes.counts.gather(-1, truth[..., None])[..., 0].mean(1) / self.teachers
        return {
            "label_accuracy": right.sum(-1) / labels.answered.sum(-1).double(),
            "teacher_accuracy": agreeing[:, None].expand(right.shape[:2]),
        }


def _prices(vote: Confident, votes: Votes, labels: Labels, caps: Sequence[Caps]) -> dict[str, Tensor]:
    """Return the number of labels and the data-dependent epsilon, exact and released, ``(S, E)``."""
    answered = labels.answered.sum(-1).double()
    spent, released = torch.full_like(answered, math.inf), torch.full_like(answered, math.inf)
    for e, cap in enumerate(caps):
        if cap.budget.epsilon < math.inf:
            run = vote.run(votes, cap, labels, e)
            spent[:, e] = torch.as_tensor(run.epsilon(cap.budget.delta))
            published = run.release(cap.budget, votes.release[:, 0].numpy(), DECAY, SHARE)
            released[:, e] = torch.as_tensor(published.epsilon)
    return {"answered": answered, "epsilon_data_dependent": spent, "epsilon_released": released}
