"""Problems: what is learned, and the constants that privacy proofs need.

A `Problem` is a generalised linear model on bounded rows.  With a loss ``phi(m, y)`` convex in the margins m::

    U(theta) = sum_i phi(theta x_i, y_i)

where theta is a vector, ``theta x = <x, theta>``, or for a loss of K margins a matrix ``(K, features)`` kept as a
vector, class after class.  Every method works on tensors ``theta`` of shape ``(repeats, budgets, d)``; each entry
``[r, e]`` is one chain or one solve.  Rows have shape ``(1, n, features)`` when all repeats share one data set and
``(repeats, n, features)`` otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dplangevin.losses import Loss, named

if TYPE_CHECKING:
    from dplangevin.data import Dataset


@dataclass(frozen=True)
class Problem:
    """A generalised linear model with rows ``||x_i||_2 <= row_bound``.

    x: ``(1 or repeats, n, features)``, y: ``(1 or repeats, n)``; `repeats` independent answers are wanted.  theta has
    length ``d = classes features``, classes being the margins of a row.  row_bound is public.  public: unlabelled rows
    that need no privacy, ``(1 or repeats, m, features)``.
    One row's gradient is ``phi' x^T``, of norm at most `lipschitz`; its Hessian, the Kronecker product of ``phi''`` and
    ``x x^T``, has norm at most `smoothness` (Chaudhuri, Monteleoni and Sarwate 2011, section 3) and ``loss.rank``
    eigenvalues with a mean of at most `mean_curvature`, which at rank one is `smoothness`.
    """

    x: Tensor
    y: Tensor
    loss: Loss
    repeats: int
    row_bound: float = 1.0
    public: Tensor | None = None

    @classmethod
    def from_dataset(cls, dataset: Dataset, repeats: int, loss: str | Loss = "logistic") -> Problem:
        """Training rows of a scaled `dataset` in float32, its test rows as public ones; loss: a `Loss` or its name."""
        loss = named(loss)
        if len(dataset.x_train) not in (1, repeats):
            raise ValueError(
                f"the data set holds {len(dataset.x_train)} repeats and {repeats} are asked for: "
                "prepare it again with the same `repeats`"
            )
        x = torch.as_tensor(dataset.x_train, dtype=torch.float32)
        bound = float(dataset.meta.get("row_bound", 1.0))
        norm = float(x.norm(dim=2).max())
        if norm > bound * (1 + 1e-5):
            raise ValueError(f"a row has norm {norm:.4g} > {bound:g}: scale the rows first (Dataset.scaled)")
        y = loss.labels(torch.as_tensor(dataset.y_train, dtype=torch.float32))
        return cls(x, y, loss, repeats, bound, torch.as_tensor(dataset.x_test, dtype=torch.float32))

    @property
    def n(self) -> int:
        return self.x.shape[1]

    @property
    def features(self) -> int:
        return self.x.shape[2]

    @property
    def classes(self) -> int:
        return self.loss.classes

    @property
    def d(self) -> int:
        return self.classes * self.features

    @property
    def shared(self) -> bool:
        """True when all repeats are answers on one and the same data set."""
        return self.x.shape[0] == 1

    @property
    def lipschitz(self) -> float:
        return self.loss.lipschitz * self.row_bound

    @property
    def smoothness(self) -> float:
        return self.loss.smoothness * self.row_bound**2

    @property
    def mean_curvature(self) -> float:
        return self.loss.mean_curvature * self.row_bound**2

    @property
    def row_assumption(self) -> str:
        """The bound on the rows that the data set was prepared with, as a guarantee names it."""
        return f"||x|| <= {self.row_bound:g}"

    def on_ball(self, radius: float) -> tuple[float, float]:
        """The largest loss of one row, and the range of one row's loss, over the ball ``||theta|| <= radius``."""
        if self.loss.on_ball is None:
            raise ValueError(f"the {self.loss.name} loss has no bound on a ball: use the huber loss")
        return self.loss.on_ball(radius * self.row_bound)

    def to(self, dtype: torch.dtype) -> Problem:
        return replace(self, x=self.x.to(dtype), y=self.y.to(dtype))

    def value_and_grad(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """``U`` of shape ``(R, E)`` and its gradient ``(R, E, d)`` at theta ``(R, E, d)``."""
        margins = self._margins(self._fold(theta), self.x)
        value = self.loss.value(margins, self.y[:, None]).sum(-1)
        grad = _times(self.loss.slope(margins, self.y[:, None]), self.x)
        return value.reshape(theta.shape[:-1]), grad.reshape(theta.shape)

    def grad(self, theta: Tensor) -> Tensor:
        """The gradient of ``U``, ``(R, E, d)``, at theta ``(R, E, d)``."""
        slope = self.loss.slope(self._margins(self._fold(theta), self.x), self.y[:, None])
        return _times(slope, self.x).reshape(theta.shape)

    def batch_grad(self, theta: Tensor, rows: Tensor) -> Tensor:
        """Sum of gradients over a minibatch: rows ``(R, tau)`` are indices, shared along the budget axis.

        Returns ``sum_{i in rows[r]} grad phi(theta[r, e] x_i, y_i)`` of shape ``(R, E, d)``.
        """
        return _times(*self._slope(theta, rows))

    def clipped_grad(
        self, theta: Tensor, rows: Tensor, mask: Tensor, clip: float, weight: Tensor | None = None
    ) -> Tensor:
        """Sum of clipped gradients over a minibatch, ``(R, E, d)``, at theta ``(R, E, d)``::

            sum_{i in rows[r]} mask_i min(1, clip/||g_i||) g_i,    g_i = grad phi(theta[r, e] x_i, y_i)

        rows: indices ``(R, tau)``, shared along the budget axis.  mask: bool ``(R, tau)``, False for rows that are
        not there (`noise.poisson_stream` pads).  clip: > 0, inf for none.  weight: ``(R, E, d)``, >= 0, of the squared
        coordinates in the norm; None for ones.
        """
        slope, x = self._slope(theta, rows)
        each = (slice(None), *[None] * (slope.dim() - 2))  # (R, tau) to (R, 1, tau) or (R, 1, 1, tau)
        if clip < float("inf"):
            length = x.norm(dim=-1)[each] if weight is None else self._margins(weight, x.square()).sqrt()
            norm = slope.abs() * length
            norm = norm if self.classes == 1 else norm.norm(dim=-2, keepdim=True)
            slope = slope * (clip / norm.clamp(min=clip))
        return _times(slope * mask[each], x)

    def example_grads(self, theta: Tensor, rows: Tensor) -> Tensor:
        """Each row's own gradient over a minibatch, ``(R, E, tau, d)``; theta ``(R, E, d)``, rows ``(R, tau)``."""
        slope, x = self._slope(theta, rows)
        if self.classes == 1:
            return slope[..., None] * x[:, None]
        return (slope.mT[..., None] * x[:, None, :, None]).flatten(-2)

    def hessian(self, theta: Tensor) -> Tensor:
        """``sum_i phi''(theta x_i) (x) x_i x_i^T`` of shape ``(R, E, d, d)``, one solve at a time to save memory."""
        flat = self._fold(theta)
        shape = self.classes, self.features
        out = flat.new_empty(*flat.shape[:2], *shape, *shape)
        for r, x in enumerate(self.x):
            for c, at in enumerate(flat[r]):
                margins = self._margins(at[None, None], x)[0, 0]
                weight = self.loss.curvature(margins, self.y[r]).reshape(self.classes, self.classes, self.n)
                for k in range(self.classes):
                    for j in range(self.classes):
                        out[r, c, k, :, j] = (x * weight[k, j][:, None]).T @ x
        return out.reshape(*theta.shape, self.d)

    @cached_property
    def gram(self) -> Tensor:
        """``sum_i x_i x_i^T``, ``(1 or R, features, features)``; I (x) that times ``loss.smoothness`` bounds U''."""
        return self.x.mT @ self.x

    def _margins(self, theta: Tensor, x: Tensor) -> Tensor:
        """theta x of theta ``(R', C, d)``, x ``(R', n, features)``: ``(R', C, n)``, of K margins ``(R', C, K, n)``."""
        if self.classes == 1:
            return theta @ x.mT
        margins = theta.reshape(len(theta), -1, self.features) @ x.mT
        return margins.unflatten(1, (-1, self.classes))

    def _slope(self, theta: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """phi' of a minibatch, ``(R, E, tau)`` or ``(R, E, K, tau)``, and its x ``(R, tau, features)``."""
        at = rows if self.shared else rows + self._offsets
        both = self._table.index_select(0, at.reshape(-1)).view(*rows.shape, -1)  # the label last
        x, y = both[..., :-1], both[..., -1]
        return self.loss.slope(self._margins(theta, x), y[:, None]), x

    @cached_property
    def _table(self) -> Tensor:
        return torch.cat([self.x, self.y[..., None]], -1).reshape(-1, self.features + 1)

    @cached_property
    def _offsets(self) -> Tensor:
        return torch.arange(len(self.x))[:, None] * self.n

    def _fold(self, theta: Tensor) -> Tensor:
        return theta.reshape(1, -1, self.d) if self.shared else theta


def _times(slope: Tensor, x: Tensor) -> Tensor:
    """``sum_i phi'_i x_i^T``, ``(R', C, d)``: slopes ``(R', C, n)`` or ``(R', C, K, n)``."""
    return slope @ x if slope.dim() == 3 else (slope.flatten(1, 2) @ x).reshape(*slope.shape[:2], -1)
