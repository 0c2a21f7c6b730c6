"""Private aggregation of teacher ensembles, Confident-GNMax (Papernot et al. 2018)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from dp_accounting import DpEvent, NonPrivateDpEvent
from torch import Tensor

from dplangevin import noise
from dplangevin.checks import positive, require
from dplangevin.ensemble import Labels, students, tally, teachers
from dplangevin.methods import Release, per_budget
from dplangevin.privacy import Adjacency, Budget, Guarantee
from dplangevin.privacy.accountants.papernot2018 import Papernot2018, rho_of
from dplangevin.privacy.pate_event import PateDpEvent
from dplangevin.privacy.pate_release import Run, Settings
from dplangevin.problem import Problem

ASSUMPTIONS = (
    "each record's teacher is fixed beforehand",
    "public unlabelled rows",
    "teachers, threshold and scaling chosen without accounting, ridges on the test rows of Adult",
)
FROM_VOTES = (
    "noise chosen from the votes",
    "epsilon is an unbiased estimate of a bound, for this run's answers",
)
FINER, TRIED = 1.2, 30  # ratio between, and number of, the noise levels that "data_dependent" tries


class Draws(NamedTuple):
    """The queries ``(R, Q, features)``, their votes ``(R, Q, m)`` and standard normals, shared by all budgets."""

    rows: Tensor
    counts: Tensor
    tests: Tensor  # (R, 1, Q)
    answers: Tensor  # (R, 1, Q, m)
    release: Tensor  # (R, 1, 1)


@dataclass(frozen=True)
class Pate:
    r"""Teachers on disjoint records label public rows by a noisy vote; a student learns from the labels alone.

    Each of `teachers` is a ridge fit on every so-manieth record.  For a public row with votes n_j (Algorithm 1):

        if max_j n_j + N(0, sigma_1^2) >= threshold:  label argmax_j (n_j + N(0, sigma_2^2)),  else none

    until `answers` labels are given or `queries` rows, drawn at random from the public ones, are asked about.  sigma_1
    = ratio sigma_2.  The student is a ridge fit on the labelled rows, zero if there are none.
    bound: "data_independent" chooses sigma_2 by Proposition 8 and both caps, which is private; "data_dependent" takes
    the least of a grid of sigma_2 whose released epsilon (`Run.release`), the largest over the repeats, is within the
    budget, as the published experiments do: that choice looks at the votes and is not accounted for.  Either way `info`
    has the data-dependent epsilon and its release, with their decay and share of the budget.
    threshold: in votes, in (0, teachers].  ridge, student_ridge: on summed losses, > 0.
    Differs: teachers and student are of the problem's own model, the student is supervised (li2019), and the public
    rows are test rows without labels, on which the student is tested as well.
    """

    budgeted: ClassVar[bool] = True
    teachers: int
    queries: int
    answers: int
    threshold: float
    ratio: float
    ridge: float
    student_ridge: float
    accountant: Papernot2018
    bound: Literal["data_independent", "data_dependent"] = "data_independent"
    adjacency: Adjacency = "replace_one"
    decay: float = 0.2
    share: float = 0.05
    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        positive(teachers=self.teachers, queries=self.queries, answers=self.answers, threshold=self.threshold)
        positive(ratio=self.ratio, ridge=self.ridge, student_ridge=self.student_ridge)
        positive(decay=self.decay, share=self.share, tolerance=self.tolerance)
        require(
            self.threshold <= self.teachers,
            f"threshold must be at most teachers = {self.teachers}, not {self.threshold}",
        )
        require(
            self.decay < 0.5, f"decay must be below 1/2, where a release costs infinity, not {self.decay}"
        )
        require(self.bound in ("data_independent", "data_dependent"), f"bound {self.bound!r} is unknown")

    def __call__(self, problem: Problem, budgets: Sequence[Budget], rng: torch.Generator) -> Release:
        draws = self._draws(problem, rng)
        stds, guarantee = [], []
        spent, released = (torch.full((problem.repeats, len(budgets)), math.inf) for _ in range(2))
        for e, budget in enumerate(budgets):
            event: DpEvent = NonPrivateDpEvent()
            assumptions: tuple[str, ...] = ASSUMPTIONS
            std = 0.0
            if budget.epsilon < math.inf:
                event, from_votes = self._event(draws, budget)
                std = event.answer_std
                assumptions += FROM_VOTES if from_votes else ()
                run = self._run(draws, std)
                spent[:, e] = torch.as_tensor(run.epsilon(budget.delta))
                published = run.release(budget, draws.release.flatten().numpy(), self.decay, self.share)
                released[:, e] = torch.as_tensor(published.epsilon)
            claimed = self.accountant.epsilon(event, budget.delta, self.adjacency)
            guarantee.append(
                Guarantee(claimed, budget.delta, event, self.adjacency, "final", "full", assumptions)
            )
            stds.append(std)
        labels = self._labels(draws, per_budget(stds, torch.float64))
        info = {
            "answered": labels.answered.sum(-1).double(),
            "epsilon_data_dependent": spent,
            "epsilon_released": released,
            "violated": [""] * len(budgets),
        }
        theta = students(
            problem, draws.rows, labels, self.answers, self.student_ridge, self.tolerance
        )  # (R, E, d)
        return Release(theta[:, :, None], guarantee, info)

    def _event(self, draws: Draws, budget: Budget) -> tuple[PateDpEvent, bool]:
        """The event that spends the budget, and whether its noise was chosen from the votes."""
        queries = draws.rows.shape[1]
        tests, answers = queries / (2 * self.ratio**2), min(self.answers, queries)
        most = math.sqrt((tests + answers) / rho_of(budget)) * (1 + 1e-9)
        found = PateDpEvent(queries, answers, self.ratio * most, most), False
        if self.bound == "data_independent":
            return found
        for step in range(TRIED):
            std = most * FINER**-step
            order, rdp, epsilon = self._run(draws, std).release(
                budget, draws.release.flatten().numpy(), self.decay, self.share
            )
            if epsilon.max() <= budget.epsilon:
                value = max(float(rdp.max()), 0.0)
                found = PateDpEvent(queries, answers, self.ratio * std, std, order, value), True
        return found

    def _run(self, draws: Draws, std: float) -> Run:
        labels = self._labels(draws, torch.tensor([[std]], dtype=torch.float64))
        settings = Settings(self.teachers, self.threshold, self.ratio * std, std)
        return Run(settings, draws.counts.numpy(), labels.asked[:, 0].numpy(), labels.answered[:, 0].numpy())

    def _labels(self, draws: Draws, std: Tensor) -> Labels:
        """Algorithm 1 with sigma_2 = std, ``(E, 1)``."""
        counts = draws.counts[:, None]  # (R, 1, Q, m)
        passed = counts.amax(-1) + self.ratio * std * draws.tests >= self.threshold  # (R, E, Q)
        before = passed.cumsum(-1) - passed.long()
        winner = (counts + std[..., None] * draws.answers).argmax(-1)
        return Labels(before < self.answers, passed & (before < self.answers), winner)

    def _draws(self, problem: Problem, rng: torch.Generator) -> Draws:
        require(
            problem.classes > 1 or problem.loss.one_sided,
            f"pate needs classes to vote for, which the {problem.loss.name} loss has not: use a classification loss",
        )
        require(
            self.teachers <= problem.n,
            f"teachers = {self.teachers} must be at most the number of rows, {problem.n}",
        )
        if problem.public is None:
            raise ValueError("pate needs public rows for its queries: give the problem `public`")
        repeats, available = problem.repeats, problem.public.shape[1]
        size = min(self.queries, available)
        which = noise.subsets(rng, (repeats,), available, size)
        public = problem.public.expand(repeats, -1, -1)
        rows = public.gather(1, which[..., None].expand(-1, -1, problem.features))
        counts = tally(problem, teachers(problem, self.teachers, self.ridge, self.tolerance), rows)
        kinds = counts.shape[-1]
        tests = noise.gaussian(rng, repeats, size, torch.float64)
        answers = noise.gaussian(rng, repeats, size * kinds, torch.float64).view(repeats, 1, size, kinds)
        return Draws(rows, counts, tests, answers, noise.gaussian(rng, repeats, 1, torch.float64))
