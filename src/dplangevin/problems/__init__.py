"""What is learned from private rows: one interface for linear models, networks and the last block of a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
from torch import Tensor

from dplangevin.losses import Loss

if TYPE_CHECKING:
    from dplangevin.chains.chain import Chain, Kernel
    from dplangevin.random import Batch

# A step without its noise, in place: theta (S, E, d), the batch, step sizes (E, 1) and what l2 keeps of theta, (E, 1)
Descent = Callable[[Tensor, "Batch", Tensor, Tensor], None]


class Facts(NamedTuple):
    """What a method may know of a problem when it plans: no row, and no number read off the private rows but those that
    `private` names.

    n: records.  d: parameters.  classes: of a prediction, 1 of regression.  lipschitz: bound on the norm of a record's
    gradient, inf where there is none.  smoothness: of one record's loss, mean_smoothness: of the mean loss; inf where
    unknown.  row_bound: on the norm of a record's features.  row_quantile: a length that 99 % of public rows do not
    exceed; no bound.  public: how many unlabelled rows need no privacy; tested: they are the test rows, not rows of
    their own.  loss: of a linear model, with its constants; None for a network.  private: fact -> where it was read off
    the private rows, as a guarantee names it.
    """

    n: int
    d: int
    classes: int
    lipschitz: float = math.inf
    smoothness: float = math.inf
    mean_smoothness: float = math.inf
    row_bound: float = math.inf
    public: int = 0
    loss: Loss | None = None
    private: Mapping[str, str] = {}
    tested: bool = True
    row_quantile: float = math.inf

    @property
    def linear(self) -> Loss:
        """The loss of a linear model.  ValueError for a network, which perturbed fits and posteriors are not for."""
        if self.loss is None:
            raise ValueError("this method needs a linear model with a convex loss, not a network")
        return self.loss

    def need_linear(self) -> None:
        """ValueError for a network."""
        _ = self.linear

    @property
    def mean_curvature(self) -> float:
        """Bound on the mean of the eigenvalues that are not 0 of the Hessian of one record's loss."""
        return self.linear.mean_curvature * self.row_bound**2

    @property
    def rows(self) -> tuple[str, ...]:
        """The bound on the rows, as a guarantee names it."""
        return (f"||x|| <= {self.row_bound:g}",) if self.row_bound < math.inf else ()

    def read(self, *names: str) -> tuple[str, ...]:
        """Those of the facts `names` that were read off the private rows, as a guarantee names them."""
        return tuple(self.private[name] for name in names if name in self.private)

    def bounded(self, method: str) -> float:
        """`lipschitz`.  ValueError, naming the fix, where it is not finite."""
        if not self.lipschitz < math.inf:
            what = f"the {self.loss.name} loss on these rows has none" if self.loss else "a network has none"
            raise ValueError(
                f"{method} needs a bound on the gradient of a record, {what}: use the huber loss for linear "
                "regression, and bound the rows"
            )
        return self.lipschitz

    def on_ball(self, radius: float) -> tuple[float, float]:
        """The largest loss of one row, and the range of one row's loss, over the ball ``||theta|| <= radius``."""
        if self.linear.on_ball is None:
            raise ValueError(f"the {self.linear.name} loss has no bound on a ball: use the huber loss")
        return self.linear.on_ball(radius * self.row_bound)


class Sums(NamedTuple):
    """Of a minibatch: the sum of clipped gradients ``(S, E, d)``, and of losses in nats ``(S, E)`` or None."""

    gradient: Tensor
    loss: Tensor | None = None


class Problem(Protocol):
    """Private rows and what is learned from them.  S seeds, E chains on the same rows, d parameters, m test rows.

    y_test: ``(1 or S, m)``, classes 0, ..., K - 1 of the test rows; of regression (K = 1) their targets.
    """

    @property
    def y_test(self) -> Tensor: ...

    @property
    def facts(self) -> Facts: ...

    @property
    def device(self) -> torch.device:
        """Where theta lives; random numbers are drawn on the CPU whatever it is."""
        ...

    def init(self, seeds: int, rng: torch.Generator) -> Tensor:
        """Where chains start, ``(S, d)``."""
        ...

    def clipped_sum(self, theta: Tensor, rows: Tensor, mask: Tensor | None, clip: Tensor | None) -> Sums:
        """``sum_i mask_i min(1, clip_e/||g_i||) g_i`` at theta ``(S, E, d)``.

        rows ``(S, B)``; mask ``(S, E, B)``, False for rows that take no part, None where all do; clip ``(E,)``, in
        (0, inf], None for inf.
        """
        ...

    def predict(self, theta: Tensor) -> Tensor:
        """Probabilities of the test rows, ``(S, E, m, K)`` on the CPU, at theta ``(S, E, d)``; of regression the
        predicted targets, K = 1."""
        ...

    def descent(self, chains: Sequence[Chain]) -> Descent | None:
        """A faster step of the problem's own, for chains without momentum, those with Poisson samples last, or None."""
        ...

    def around(self, kernel: Kernel, chains: Sequence[Chain]) -> Kernel:
        """The kernel, or one around it that takes steps of the problem's own beside, as of a generator.

        theta may then have coordinates after the d of `facts`, which neither noise nor `clipped_sum` reaches: what they
        become is post-processing, as all that a kernel does.  Its state is part of a checkpoint.
        """
        ...
