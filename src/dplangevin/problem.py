"""Problems: what is learned, and the constants that privacy proofs need.

A `Problem` is a generalised linear model on bounded rows.  With margins ``m_i = <x_i, theta>`` and a loss
``phi(m, y)`` convex in ``m``::

    U(theta) = sum_i phi(<x_i, theta>, y_i)

Every method works on tensors ``theta`` of shape ``(repeats, budgets, d)``; each entry ``[r, e]`` is one chain or one
solve.  Rows have shape ``(1, n, d)`` when all repeats share one data set and ``(repeats, n, d)`` otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from dplangevin.data import Dataset


class Loss(NamedTuple):
    """A loss of the margin, its first two derivatives in ``m`` and the constants that bound them.

    `slope` works in place: it overwrites the margins it is given.
    """

    name: str
    value: Callable[[Tensor, Tensor], Tensor]
    slope: Callable[[Tensor, Tensor], Tensor]
    curvature: Callable[[Tensor, Tensor], Tensor]
    lipschitz: float  # sup |phi'|; inf where unbounded
    smoothness: float  # sup phi''


LOGISTIC = Loss(
    "logistic",
    value=lambda m, y: F.softplus(-y * m),
    slope=lambda m, y: m.mul_(-y).sigmoid_().mul_(-y),
    curvature=lambda m, y: torch.sigmoid(m) * torch.sigmoid(-m),
    lipschitz=1.0,
    smoothness=0.25,
)
SQUARED = Loss(
    "squared",
    value=lambda m, y: 0.5 * (m - y) ** 2,
    slope=lambda m, y: m.sub_(y),
    curvature=lambda m, y: torch.ones_like(m),
    lipschitz=float("inf"),
    smoothness=1.0,
)
LOSSES = {loss.name: loss for loss in (LOGISTIC, SQUARED)}


@dataclass(frozen=True)
class Problem:
    """A generalised linear model with rows ``||x_i||_2 <= 1``.

    x: ``(1 or repeats, n, d)``, y: ``(1 or repeats, n)``; `repeats` independent answers are wanted.
    The gradient of one row's loss has norm at most `lipschitz`, its Hessian norm at most `smoothness`
    (Chaudhuri, Monteleoni and Sarwate 2011, section 3), both because the rows have norm at most one.
    """

    x: Tensor
    y: Tensor
    loss: Loss
    repeats: int

    @classmethod
    def from_dataset(cls, dataset: Dataset, repeats: int, loss: str = "logistic") -> Problem:
        """Training rows of `dataset` (already scaled to norm <= 1) as a problem in float32."""
        if loss not in LOSSES:
            raise ValueError(f"loss {loss!r} is unknown: choose one of {sorted(LOSSES)}")
        if len(dataset.x_train) not in (1, repeats):
            raise ValueError(
                f"the data set holds {len(dataset.x_train)} repeats and {repeats} are asked for: "
                "prepare it again with the same `repeats`"
            )
        x = torch.as_tensor(dataset.x_train, dtype=torch.float32)
        norm = float(x.norm(dim=2).max())
        if norm > 1 + 1e-5:
            raise ValueError(f"a row has norm {norm:.4g} > 1: scale the rows first (Dataset.scaled)")
        return cls(x, torch.as_tensor(dataset.y_train, dtype=torch.float32), LOSSES[loss], repeats)

    @property
    def n(self) -> int:
        return self.x.shape[1]

    @property
    def d(self) -> int:
        return self.x.shape[2]

    @property
    def shared(self) -> bool:
        """True when all repeats are answers on one and the same data set."""
        return self.x.shape[0] == 1

    @property
    def lipschitz(self) -> float:
        return self.loss.lipschitz

    @property
    def smoothness(self) -> float:
        return self.loss.smoothness

    def to(self, dtype: torch.dtype) -> Problem:
        return replace(self, x=self.x.to(dtype), y=self.y.to(dtype))

    def value_and_grad(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """``U`` of shape ``(R, E)`` and its gradient ``(R, E, d)`` at theta ``(R, E, d)``."""
        flat = self._fold(theta)  # (1 or R, C, d)
        margins = flat @ self.x.mT  # (1 or R, C, n)
        value = self.loss.value(margins, self.y[:, None]).sum(-1)
        grad = self.loss.slope(margins, self.y[:, None]) @ self.x
        return value.reshape(theta.shape[:-1]), grad.reshape(theta.shape)

    def grad(self, theta: Tensor) -> Tensor:
        """The gradient of ``U``, ``(R, E, d)``, at theta ``(R, E, d)``."""
        slope = self.loss.slope(self._fold(theta) @ self.x.mT, self.y[:, None])
        return (slope @ self.x).reshape(theta.shape)

    def batch_grad(self, theta: Tensor, rows: Tensor) -> Tensor:
        """Sum of gradients over a minibatch: rows ``(R, tau)`` are indices, shared along the budget axis.

        Returns ``sum_{i in rows[r]} grad phi(<x_i, theta[r, e]>, y_i)`` of shape ``(R, E, d)``.
        """
        at = rows if self.shared else rows + self._offsets
        x = self._table.index_select(0, at.reshape(-1)).view(
            *rows.shape, self.d + 1
        )  # (R, tau, d + 1), the label last
        x, y = x[..., :-1], x[..., -1]
        slope = self.loss.slope(theta @ x.mT, y[:, None])  # (R, E, tau)
        return slope @ x

    def hessian(self, theta: Tensor) -> Tensor:
        """``sum_i phi''(<x_i, theta>) x_i x_i^T`` of shape ``(R, E, d, d)``, one solve at a time to save memory."""
        flat = self._fold(theta)
        out = flat.new_empty(*flat.shape, self.d)
        for r, x in enumerate(self.x):
            for c, at in enumerate(flat[r]):
                weight = self.loss.curvature(x @ at, self.y[r])
                out[r, c] = (x * weight[:, None]).T @ x
        return out.reshape(*theta.shape, self.d)

    @cached_property
    def gram(self) -> Tensor:
        """``sum_i x_i x_i^T`` of shape ``(1 or R, d, d)``; times `smoothness` it bounds every Hessian."""
        return self.x.mT @ self.x

    @cached_property
    def _table(self) -> Tensor:
        return torch.cat([self.x, self.y[..., None]], -1).reshape(-1, self.d + 1)

    @cached_property
    def _offsets(self) -> Tensor:
        return torch.arange(len(self.x))[:, None] * self.n

    def _fold(self, theta: Tensor) -> Tensor:
        return theta.reshape(1, -1, self.d) if self.shared else theta
