r"""The problem: softmax regression of features with a ridge, its constants, and its predictions.

``L_D(W) = (1/n) sum_i -log softmax(W x_i)_(y_i) + (lambda/2) ||W||^2``, W of shape (K, p), kept class after class.
Differs: the text has ``lambda ||W||^2``, whose strong convexity is 2 lambda, and calls it lambda-strongly convex; here
the ridge is halved, so that lambda is what their formulas take.  The log has no minus sign in the text.

Constants (their Lemma of section 5.1, by Boehning 1992): the Hessian of one record's loss is ``(diag(p) - p p^T) (x) x
x^T + lambda I`` and the first factor is at most 1/2, so one record has beta = ``||x||^2/2 + lambda`` and the mean of
all ``lambda_max(X^T X/n)/2 + lambda``.  Gradients without the ridge have norm ``||p - e_y|| ||x|| < sqrt(2) ||x||``.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dplangevin.losses import softmax
from dplangevin.problem import Problem

ROWS = 5000  # that Hessians are estimated from


def problem_of(x: np.ndarray, y: np.ndarray, classes: int, seeds: int, row_bound: float) -> Problem:
    """Rows ``(n, p)`` of norm at most row_bound (`Dataset.clipped`), labels ``(n,)`` in 0, ..., K - 1, many seeds."""
    loss = softmax(classes)
    labels = loss.labels(torch.as_tensor(y).to(torch.float32))
    return Problem(torch.as_tensor(x)[None], labels[None], loss, seeds, row_bound)


def spread(problem: Problem) -> float:
    """lambda_max(X^T X/n) in float64."""
    x = problem.x[0].double()
    return float(torch.linalg.eigvalsh(x.mT @ x / problem.n)[-1])


def accuracy_and_loss(theta: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Share of rows whose label is the likeliest class, mean of -log p(y) in nats: ``(R, E)`` of theta ``(R, E, d)``.

    x ``(m, p)``, y ``(m,)`` int64.  nan where theta is not finite.
    """
    right, loss = [], []
    for each in theta.unbind(1):
        margins = each.unflatten(-1, (-1, x.shape[1])) @ x.T  # (R, K, m)
        labels = y.expand(len(margins), -1)
        right.append((margins.argmax(1) == labels).double().mean(-1))
        loss.append(F.cross_entropy(margins, labels, reduction="none").double().mean(-1))
    finite = theta.isfinite().all(-1)
    found = (torch.stack(part, 1).where(finite, math.nan) for part in (right, loss))
    return next(found), next(found)


class Estimated(Problem):
    """Its Hessian comes from about `ROWS` evenly spaced rows: what tunes a solver need not be exact."""

    def hessian(self, theta: Tensor) -> Tensor:
        every = max(1, self.n // ROWS)
        few = Problem(self.x[:, ::every], self.y[:, ::every], self.loss, self.repeats, self.row_bound)
        return few.hessian(theta) * (self.n / few.n)


def estimated(problem: Problem) -> Problem:
    """The same problem for `minimise`, which then needs seconds instead of minutes."""
    return Estimated(problem.x, problem.y, problem.loss, problem.repeats, problem.row_bound)
