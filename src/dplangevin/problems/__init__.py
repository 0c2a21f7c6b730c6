"""Problems: private rows and the parameters that are learned from them, behind one interface.

Linear models, networks and the last block of a network all implement `Problem`.  `Facts` holds what a method
may know about a problem before a run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:  # prices of Gaussian steps need no torch, which takes a second to import
    import torch
    from torch import Tensor

    from dplangevin.problems.chain import Chain, Kernel
    from dplangevin.problems.losses import Loss
    from dplangevin.random import Batch


class Descent(Protocol):
    """A step of gradient descent.  It changes theta in place."""

    def __call__(
        self,
        theta: Tensor,
        batch: Batch,
        step: Tensor,
        shrink: Tensor,
        noise: tuple[Tensor, Tensor] | None = None,
        /,
    ) -> None:
        """Move theta ``(S, E, d)`` by step sizes ``(E, 1)``; l2 shrinks it by the factors `shrink` ``(E, 1)``.

        `noise` are standard deviations for `Batch.normals` and `random.grid_shift` of them, ``(E, 1)`` in float64.
        The noise is added to the sum of gradients before theta is rounded.
        """


class Facts(NamedTuple):
    """The facts about a problem that a method may use when it plans.

    They contain no row.  They contain a number that was read off the private rows only if `private` names it.

    Attributes
    ----------
    n : int
        Number of records.
    d : int
        Number of parameters.
    classes : int
        Number of classes of a prediction; 1 for regression.
    lipschitz : float
        Bound on the norm of the gradient of one record's loss; inf where there is no bound.
    smoothness, mean_smoothness : float
        Smoothness constant of one record's loss, and of the mean loss; inf where unknown.
    row_bound : float
        Bound on the norm of a record's features; inf where there is no bound.
    public : int
        Number of rows that need no privacy and whose labels are not used.
    loss : Loss or None
        Loss of a linear model, with its constants; None for a network.
    private : mapping of str to str
        Names of the facts that were read off the private rows.  The value is how a guarantee states this.
    tested : bool
        True if the public rows are the test rows; False if they are separate rows.
    row_quantile : float
        A length that 99 % of the public rows do not exceed.  It is not a bound.
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
        """The loss of a linear model.

        Raises
        ------
        ValueError
            For a network: perturbed fits and posterior sampling need a linear model.
        """
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
        """Return `lipschitz`.

        Raises
        ------
        ValueError
            Where `lipschitz` is not finite; the message names `method` and the fix.
        """
        if not self.lipschitz < math.inf:
            what = f"the {self.loss.name} loss on these rows has none" if self.loss else "a network has none"
            raise ValueError(
                f"{method} needs a bound on the gradient of a record, {what}: use the huber loss for linear "
                "regression, and bound the rows"
            )
        return self.lipschitz

    def on_ball(self, radius: float) -> tuple[float, float]:
        """Return the largest loss of one row and the largest range of one row's loss on a ball.

        Parameters
        ----------
        radius : float
            The ball is ``||theta|| <= radius``.

        Raises
        ------
        ValueError
            Where the loss has no bound on a ball, and for a network.
        """
        if self.linear.on_ball is None:
            raise ValueError(f"the {self.linear.name} loss has no bound on a ball: use the huber loss")
        return self.linear.on_ball(radius * self.row_bound)


class Sums(NamedTuple):
    """Sums over the records of a minibatch.

    - `gradient`: (S, E, d). Sum of the clipped gradients; float64 if there are many, see `engine.long_sums`.
    - `loss`: (S, E) or None. Sum of the losses, in nats.
    """

    gradient: Tensor
    loss: Tensor | None = None


class Problem(Protocol):
    """Private rows and the parameters that are learned from them.

    Shapes: S seeds, E chains on the same rows, d parameters, m test rows, K classes.

    - `y_test`: (1 or S, m). Classes 0, ..., K - 1 of the test rows; for regression (K = 1) their targets.
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

        - `theta`: (S, E, d). Parameters at which the gradients are taken.
        - `rows`: (S, B). Indices of the records of the minibatch.
        - `mask`: (S, E, B) or None. False for rows that take no part; None where all take part.
        - `clip`: (E,) or None. Bounds on the norm of a record's gradient, in (0, inf]; None means inf.
        """
        ...

    def predict(self, theta: Tensor) -> Tensor:
        """Return the predictions for the test rows, ``(S, E, m, K)`` on the CPU, at theta ``(S, E, d)``.

        They are the probabilities of the classes; for regression they are the predicted targets, with K = 1.
        """
        ...

    def descent(self, chains: Sequence[Chain]) -> Descent | None:
        """Return a faster step that the problem implements itself, or None.

        The step is for chains without momentum.  In `chains`, those that draw Poisson samples come last.
        """
        ...

    def around(self, kernel: Kernel, chains: Sequence[Chain]) -> Kernel:
        """Return the kernel, or a wrapper of it that also takes steps of the problem's own.

        An example of such steps is the training of a generator.  Then theta may have coordinates after the d
        of `Facts`.  Neither noise nor `clipped_sum` reaches these coordinates.  Their values are
        post-processing, like everything that a kernel computes.  The state of the kernel or wrapper is part
        of a checkpoint.
        """
        ...


class DefaultSteps:
    """Mixin of a `Problem` that takes no steps of its own."""

    def descent(self, chains: Sequence[Chain]) -> Descent | None:
        return None

    def around(self, kernel: Kernel, chains: Sequence[Chain]) -> Kernel:
        return kernel
