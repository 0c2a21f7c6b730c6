"""Problems: private rows and the parameters that are learned from them, behind the interface `Problem`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:  # prices of Gaussian steps need no torch, which takes a second to import
    import torch
    from torch import Tensor

    from dplangevin.problems.chain import Chain, Kernel
    from dplangevin.problems.losses import Loss


# A step of descent, which moves theta (S, E, d) in place.  Arguments: theta, batch, step sizes and factors by which l2
# shrinks theta, (E, 1); standard deviations for `Batch.normals` and `random.grid_shift` of them, (E, 1) in float64: the
# noise is added to the sum of gradients before theta is rounded.
FusedStep = Callable[..., None]


class Facts(NamedTuple):
    """The facts that a method may use when it plans: no row; what was read off the rows is in `private`.

    - `n`, `d`: Numbers of records and of parameters.
    - `classes`: Number of classes of a prediction; 1 for regression.
    - `lipschitz`: Bound on the norm of the gradient of one record's loss; inf where there is none.
    - `smoothness`, `mean_smoothness`: Smoothness constant of one record's loss, and of the mean loss; inf where
      unknown.
    - `row_bound`: Bound on the norm of a record's features; inf where there is none.
    - `public`: Number of rows that need no privacy and whose labels are not used.
    - `loss`: Loss of a linear model; None for a network.
    - `private`: Names of the facts that were read off the private rows, and how a guarantee states this.
    - `tested`: True if the public rows are the test rows; False if they are separate rows.
    - `row_quantile`: A length that 99 % of the public rows do not exceed. It is not a bound.
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
        """The loss of a linear model; ValueError for a network."""
        if self.loss is None:
            raise ValueError("this method needs a linear model with a convex loss, not a network")
        return self.loss

    def need_linear(self) -> None:
        """Raise ValueError for a network."""
        _ = self.linear

    @property
    def mean_curvature(self) -> float:
        """Bound on the mean of the non-zero eigenvalues of the Hessian of one record's loss."""
        return self.linear.mean_curvature * self.row_bound**2

    @property
    def rows(self) -> tuple[str, ...]:
        """The bound on the rows, in the words of a guarantee; empty where there is no bound."""
        return (f"||x|| <= {self.row_bound:g}",) if self.row_bound < math.inf else ()

    def read(self, *names: str) -> tuple[str, ...]:
        """Return how a guarantee states those of the facts `names` that were read off the private rows."""
        return tuple(self.private[name] for name in names if name in self.private)

    def bounded(self, method: str) -> float:
        """Return `lipschitz`; raise ValueError where it is not finite."""
        if not self.lipschitz < math.inf:
            what = f"the {self.loss.name} loss on these rows has none" if self.loss else "a network has none"
            raise ValueError(
                f"{method} needs a bound on the gradient of a record, {what}: use the huber loss for linear "
                "regression, and bound the rows"
            )
        return self.lipschitz

    def on_ball(self, radius: float) -> tuple[float, float]:
        """Return the largest loss of a row, and the largest range of one row's loss, where ``||theta|| <= radius``."""
        if self.linear.on_ball is None:
            raise ValueError(f"the {self.linear.name} loss has no bound on a ball: use the huber loss")
        return self.linear.on_ball(radius * self.row_bound)


class Sums(NamedTuple):
    """Sums over a minibatch: clipped gradients ``(S, E, d)``, see `engine.long_sums`, and losses ``(S, E)`` in nats."""

    gradient: Tensor
    loss: Tensor | None = None


class Problem(Protocol):
    """Private rows and the parameters that are learned from them.

    Shapes: S seeds, E chains on the same rows, d parameters, m test rows, K classes.  `y_test` is ``(1 or S, m)``:
    classes 0, ..., K - 1 of the test rows; for regression (K = 1) their targets.
    """

    @property
    def y_test(self) -> Tensor: ...

    @property
    def facts(self) -> Facts: ...

    @property
    def device(self) -> torch.device:
        """The device of the records and of theta."""
        ...

    def to(self, device: torch.device) -> Problem:
        """Return the problem with its records on another device; labels of test rows stay on the CPU."""
        ...

    def init(self, seeds: int, rng: torch.Generator) -> Tensor:
        """Return the parameters at which chains start, ``(S, d)``."""
        ...

    def clipped_sum(self, theta: Tensor, rows: Tensor, mask: Tensor | None, clip: Tensor | None) -> Sums:
        """Return ``sum_i mask_i min(1, clip_e/||g_i||) g_i`` for the gradients g_i of the records' losses.

        Shapes: theta ``(S, E, d)``, indices of rows ``(S, B)``, mask ``(S, E, B)`` or None for all rows, clip ``(E,)``
        in (0, inf] or None for inf.
        """
        ...

    def predict(self, theta: Tensor) -> Tensor:
        """Return predictions for the test rows, ``(S, E, m, K)`` on the CPU: probabilities, or targets with K = 1."""
        ...

    def descent(self, chains: Sequence[Chain]) -> FusedStep | None:
        """Return a faster step for chains without momentum, or None; chains that draw Poisson samples come last."""
        ...

    def around(self, kernel: Kernel, chains: Sequence[Chain]) -> Kernel:
        """Return the kernel, or a wrapper of it that also takes steps of the problem's own, such as a generator's.

        Then theta may have coordinates after the d of `Facts`.  Neither noise nor `clipped_sum` reaches them: their
        values are post-processing.  The wrapper's state is part of a checkpoint.
        """
        ...


class DefaultSteps:
    """Mixin of a `Problem` that takes no steps of its own."""

    def descent(self, chains: Sequence[Chain]) -> FusedStep | None:
        return None

    def around(self, kernel: Kernel, chains: Sequence[Chain]) -> Kernel:
        return kernel
