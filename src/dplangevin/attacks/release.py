"""An attack on a whole release: a method's own `plan` and `release` on two neighbouring data sets.

One record differs. It has length `row_bound`, and under D' it has the other label. If labels are numbers, and for the
second of three classes, x changes its sign as well. The other records are `zeros`, with gradient 0, or `among_records`
of a data set, where x points in the direction of their smallest second moment. The result is the attack ε (lower bound)
for replacing one record, loose if there are many steps.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dplangevin.attacks.audit import audit
from dplangevin.checks import require
from dplangevin.methods import Execution, Method, Plan, placed
from dplangevin.problems import Facts, Problem
from dplangevin.problems.glm import Glm

AT_ONCE = 50  # runs of `among_records` whose random numbers are in memory together


class Neighbours(NamedTuple):
    """Two data sets that all runs share, and the direction (features,), of length 1, of the differing record."""

    first: Glm
    second: Glm
    along: Tensor


def zeros(facts: Facts) -> Neighbours:
    """Return neighbours whose other records are all 0."""
    loss, bound = facts.linear, facts.row_bound
    require(bound < torch.inf, "an attack needs rows with a bound: set row_bound")
    along = torch.zeros(facts.d // loss.classes)
    along[0] = 1.0
    public = (bound * along).expand(1, facts.public, -1) if facts.public else None
    ends = [0.0, 1.0] if loss.classes > 1 else [-loss.label_bound, loss.label_bound]
    problems = []
    for label, sign in zip(ends, (1.0, 1.0 if loss.classifies else -1.0), strict=True):
        x, y = torch.zeros(1, facts.n, len(along)), torch.full((1, facts.n), ends[0])
        x[0, 0], y[0, 0] = sign * bound * along, label
        problems.append(Glm(x, loss.labels(y), loss, row_bound=bound, x_test=public))
    return Neighbours(problems[0], problems[1], along)


def among_records(problem: Glm) -> Neighbours:
    """Return neighbours whose other records are those of a softmax problem, without its record 0.

    The differing record is ``(b v, 0)`` under D and ``(b v, 1)`` under D'. b is the row bound, v the eigenvector of
    the smallest eigenvalue of ``sum_i x_i x_i^T``.
    """
    softmax = isinstance(problem, Glm) and problem.classes > 1
    require(softmax, "this attack is for softmax regression: leave out attack, or take attacks.softmax.OnRow")
    require(problem.row_bound < torch.inf, "an attack needs rows with a bound: set row_norm and row_bound")
    require(problem.shared, "this attack needs seeds that share one data set: leave out splits and repeats")
    others = problem.x[0, 1:].double()
    along = torch.linalg.eigh(others.mT @ others).eigenvectors[:, 0].float()
    y, problems = problem.y.clone(), []
    y[0, 0] = 0.0
    for sign in (1.0, -1.0):
        x = problem.x.clone()
        x[0, 0] = sign * problem.row_bound * along
        problems.append(replace(problem, x=x, y=y))
    return Neighbours(problems[0], problems[1], along)


def statistics(
    method: Method,
    neighbours: Neighbours,
    plan: Plan,
    runs: int,
    rng: torch.Generator,
    at_once: int | None = None,
    drawn_in: torch.dtype = torch.float64,
) -> tuple[np.ndarray, np.ndarray]:
    """Run the method on both data sets and return three statistics (runs, 3) under D and under D', for `audit`.

    The first is theta of the last iterate along the differing record, projected on the direction of the classes in
    which the means of the runs with which `audit` chooses its event differ. The other two are those of `precision`.
    `at_once` runs are in one tensor program; None for all. `drawn_in` is the precision of the noise.
    """
    sizes = [min(at_once or runs, runs - done) for done in range(0, runs, at_once or runs)]
    released = [
        torch.cat(
            [
                method.release(problem, [plan], Execution(size, rng, drawn_in=drawn_in)).theta[:, 0, -1].cpu()
                for size in sizes
            ]
        )
        for problem in (placed(each, [plan], sizes[0]) for each in neighbours[:2])
    ]
    first, second = (
        (theta.unflatten(-1, (-1, len(neighbours.along))).double() @ neighbours.along.double()).nan_to_num()
        for theta in released
    )
    direction = first[::2].mean(0) - second[::2].mean(0)  # the other runs give the bound, see `audit`
    found = [
        np.column_stack([values @ direction, precision(theta)])
        for values, theta in zip((first, second), released, strict=True)
    ]
    return found[0], found[1]


def precision(theta: Tensor) -> np.ndarray:
    """Return two statistics ``(runs, 2)`` of how the numbers of theta ``(runs, d)`` are written.

    They are the share of the numbers that single precision holds, and the mean number of last bits that are 0. Each can
    separate the data sets if a solver's path depends on the rows, though no likelihood depends on them.
    """
    exact = theta.double()
    single = (exact.float().double() == exact).double().mean(-1)
    bits = exact.contiguous().view(torch.int64)
    zeros = torch.log2((bits & -bits).double().abs().clamp_min(1)).mean(-1)
    return torch.stack([single, zeros], -1).numpy()


@dataclass(frozen=True)
class AmongRecords:
    """The attack of `among_records` on a result row, as `methods.pricing.priced` takes it; each run is a training."""

    runs: int
    confidence: float = 0.95

    def __call__(
        self, method: Method, plan: Plan, problem: Problem, delta: float, rng: torch.Generator
    ) -> dict[str, Any]:
        neighbours = among_records(problem)  # type: ignore[arg-type]
        first, second = statistics(method, neighbours, plan, self.runs, rng, AT_ONCE, torch.float32)
        result = audit(first, second, delta, self.confidence)
        return result.columns("x to -x, among the records of the data set")
