"""Private learners, one per file: hyperparameters in the constructor; problem, budgets and randomness in the call."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from dplangevin.checks import require
from dplangevin.privacy import Budget, Guarantee
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.problem import Problem


class Release(NamedTuple):
    """What a method gives out.

    theta: ``(repeats, budgets, samples, d)``, everything that crosses the privacy boundary.  guarantee: one per budget.
    info: diagnostics that are NOT private and never a result: tensors ``(repeats, budgets)`` by metric name, and
    ``violated``, one text per budget naming what a guarantee needs and this run did not reach ("" if nothing).
    """

    theta: Tensor
    guarantee: list[Guarantee]
    info: dict[str, Any]


class Method(Protocol):
    """A private learner.  `accountant` is the paper's own theorem, by which the method calibrates itself; `budgeted` is
    False for a method that has no privacy to spend."""

    budgeted: ClassVar[bool]

    @property
    def accountant(self) -> Accountant: ...

    def __call__(self, problem: Problem, budgets: Sequence[Budget], rng: torch.Generator) -> Release:
        """Release one answer per repeat and budget; ValueError where a budget is out of reach."""
        ...


def per_budget(values: Sequence[float], dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers, one per budget, as a column ``(E, 1)`` that broadcasts against theta ``(R, E, d)``."""
    return torch.tensor(list(values), dtype=dtype)[:, None]


def bounded(problem: Problem, method: str) -> None:
    """ValueError, naming the fix, unless the gradient of one row is bounded."""
    require(
        math.isfinite(problem.lipschitz),
        f"{method} needs a Lipschitz loss, {problem.loss.name} is not: use the huber loss for linear regression",
    )


def fit_assumptions(problem: Problem) -> tuple[str, ...]:
    """What a perturbed fit needs beyond its event."""
    return ("exact minimiser", problem.row_assumption, "ridge and scaling chosen without accounting")
