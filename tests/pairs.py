"""Worst-case pairs of linear models, run through the code that plans and releases.

Rows have one feature.  The losses are the linear parts of the logistic loss and of the softmax loss with two
classes: what these are, up to a constant, where the prediction is far from right.  Their constants are those
of the full losses.  So gradients do not depend on theta.  The gradients of two labels are opposite, and as
long as the Lipschitz constant allows.  The noise of a method then has its full sensitivity to hide.
"""

import math

import torch
from torch import Tensor

from dplangevin.privacy import Adjacency
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC, Loss, softmax

LINEAR = Loss(
    "linear",
    value=lambda m, y: -y * m,
    slope=lambda m, y: m.copy_(-y.expand_as(m)),
    curvature=lambda m, y: torch.zeros_like(m),
    lipschitz=LOGISTIC.lipschitz,
    smoothness=LOGISTIC.smoothness,
    one_sided=True,
    on_ball=lambda t: (t, 2 * t),
)


def _sides(m: Tensor, y: Tensor) -> Tensor:
    """Return p - e_y, ``(..., 2, n)``, where p is 1 at the other class."""
    side = torch.where(y > 0, 1.0, -1.0).to(m.dtype).expand(*m.shape[:-2], m.shape[-1])
    return torch.stack([side, -side], -2)


STEEP = softmax(2)._replace(
    name="steep",
    value=lambda m, y: (_sides(m, y) * m).sum(-2),
    slope=_sides,
    curvature=lambda m, y: torch.zeros_like(m)[..., None, :].expand(*m.shape[:-2], 2, 2, m.shape[-1]),
    on_ball=lambda t: (math.sqrt(2) * t, 2 * math.sqrt(2) * t),
)


def neighbours(
    loss: Loss,
    records: int = 1,
    adjacency: Adjacency = "replace_one",
    *,
    length: float = 1.0,
    other: float = 1.0,
    bound: float | None = None,
) -> tuple[Glm, Glm]:
    """Return the problems of D and D', which all runs share.

    - `adjacency`: Under D' the record's gradient is the opposite one ("replace_one") or 0 ("add_remove"), as if the
      record had been removed while n stays.
    - `length`: Norm of the record's gradient.
    - `other`: Norm of the gradients of all other records, which oppose the record's.
    - `bound`: Bound on these norms that the problems state; None: length.
    """
    unit, problems = 1 / loss.lipschitz, []
    second = length if adjacency == "replace_one" else 0.0
    for label, long in ((1.0, length), (-1.0, second)):
        x = torch.full((1, records, 1), other * unit)
        y = -torch.ones(1, records)
        x[0, 0], y[0, 0] = long * unit, label
        row_bound = (length if bound is None else bound) * unit
        problems.append(Glm(x, loss.labels(y), loss, row_bound=row_bound))
    return problems[0], problems[1]
