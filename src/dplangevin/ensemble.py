"""Teachers on disjoint rows, their votes on other rows, and students that learn from labels alone."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from dplangevin.minimise import minimise
from dplangevin.problem import Problem


class Labels(NamedTuple):
    """Which of Q queries were tested and which answered, and the noisy winners, each ``(R, E, Q)``."""

    asked: Tensor
    answered: Tensor
    winner: Tensor


def teachers(problem: Problem, count: int, ridge: float, tolerance: float) -> Tensor:
    """Ridge fits ``(1 or R, count, d)``: teacher k on rows k, k + count, k + 2 count, ..."""
    size = math.ceil(problem.n / count)
    pad = size * count - problem.n  # rows of zeros, which change no fit
    found = []
    for x, y in zip(problem.x, problem.y, strict=True):
        x = F.pad(x, (0, 0, 0, pad)).view(size, count, -1).transpose(0, 1).contiguous()
        y = F.pad(y, (0, pad)).view(size, count).T.contiguous()
        each = Problem(x, y, problem.loss, count, problem.row_bound)
        start = torch.zeros(count, 1, problem.d)
        found.append(minimise(each, torch.tensor([ridge]), start, tolerance).theta[:, 0].float())
    return torch.stack(found)


def tally(problem: Problem, fits: Tensor, rows: Tensor) -> Tensor:
    """Votes ``(R, Q, m)``, float64, of teachers ``(1 or R, K, d)`` on rows ``(R, Q, features)``.

    The classes are -1, +1 for a single margin, in this order.
    """
    margins = rows @ fits.reshape(len(fits), -1, problem.features).mT  # (R, Q, K classes)
    each = margins.unflatten(-1, (-1, problem.classes))
    choice = each.argmax(-1) if problem.classes > 1 else (each[..., 0] > 0).long()  # (R, Q, K)
    return torch.stack([(choice == j).sum(-1) for j in range(max(2, problem.classes))], -1).double()


def students(
    problem: Problem, rows: Tensor, labels: Labels, most: int, ridge: float, tolerance: float
) -> Tensor:
    """Ridge fits ``(R, E, d)``, one for each repeat and budget, on its answered rows, at most `most`; 0 for none."""
    repeats, budgets, _ = labels.answered.shape
    order = (~labels.answered).long().argsort(dim=-1, stable=True)[..., :most]
    here = labels.answered.gather(-1, order)
    x = rows[torch.arange(repeats)[:, None, None], order] * here[..., None]  # (R, E, most, features)
    y = labels.winner.gather(-1, order)
    y = (2 * y - 1 if problem.classes == 1 else y) * here
    count = repeats * budgets
    fit = Problem(x.flatten(0, 1), y.flatten(0, 1).to(x.dtype), problem.loss, count, problem.row_bound)
    found = minimise(fit, torch.tensor([ridge]), torch.zeros(count, 1, problem.d), tolerance)
    return found.theta.float().view(repeats, budgets, problem.d)
