"""An attack on a whole release: a method's own `plan` and `release` on two neighbouring data sets of its problem.

Every record but one is x = 0, which any row bound admits and whose gradient is 0.  The differing one has length
`row_bound`; under D' it has the opposite label, or where labels are numbers and for the second of three classes the
opposite x as well.  Only its own feature moves theta, by noise and by the record, so of the last iterate's values that
part alone is looked at.  Beside it an attacker asks how the numbers are written: see `precision`.

What it shows is a lower bound on the replace-one epsilon of the release for these facts.  It is loose where steps are
many: an attack on all iterates of a chain sees more (`attacks.softmax`).
"""

import numpy as np
import torch
from torch import Tensor

from dplangevin.checks import require
from dplangevin.methods import Execution, Method, Plan
from dplangevin.problems import Facts
from dplangevin.problems.glm import Glm


def neighbours(facts: Facts) -> tuple[Glm, Glm]:
    """D and D', which every run shares.  ValueError for networks, and rows without a bound."""
    loss, bound = facts.linear, facts.row_bound
    require(bound < torch.inf, "an attack needs rows with a bound: set row_bound")
    features = facts.d // loss.classes
    row = torch.zeros(features)
    row[0] = bound
    public = row.expand(1, facts.public, -1) if facts.public else None
    ends = [0.0, 1.0] if loss.classes > 1 else [-loss.label_bound, loss.label_bound]
    problems = []
    for label, sign in zip(ends, (1.0, 1.0 if loss.classifies else -1.0), strict=True):
        x, y = torch.zeros(1, facts.n, features), torch.full((1, facts.n), ends[0])
        x[0, 0], y[0, 0] = sign * row, label
        problems.append(Glm(x, loss.labels(y), loss, row_bound=bound, x_test=public))
    return problems[0], problems[1]


def statistics(
    method: Method, facts: Facts, plan: Plan, runs: int, rng: torch.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Three statistics for every run, ``(runs, 3)`` on either data set, as `audit` takes them.

    theta's part of the record's feature, along the direction in which its means differ in the runs that choose; and the
    two of `precision`.
    """
    released = [
        method.release(problem, [plan], Execution(runs, rng)).theta[:, 0, -1].cpu()
        for problem in neighbours(facts)
    ]
    first, second = (
        theta.unflatten(-1, (facts.linear.classes, -1))[..., 0].double().nan_to_num() for theta in released
    )
    direction = first[::2].mean(0) - second[::2].mean(0)  # the others bound, see `audit`
    found = [
        np.column_stack([values @ direction, precision(theta)])
        for values, theta in zip((first, second), released, strict=True)
    ]
    return found[0], found[1]


def precision(theta: Tensor) -> np.ndarray:
    """How the numbers of theta ``(runs, d)`` are written, ``(runs, 2)``: two statistics that no likelihood knows of.

    The share of them that single precision holds, and how many of their last bits are 0, on average.  Either tells data
    sets apart where a solver's path depends on the rows.
    """
    exact = theta.double()
    single = (exact.float().double() == exact).double().mean(-1)
    bits = exact.contiguous().view(torch.int64)
    zeros = torch.log2((bits & -bits).double().abs().clamp_min(1)).mean(-1)
    return torch.stack([single, zeros], -1).numpy()
