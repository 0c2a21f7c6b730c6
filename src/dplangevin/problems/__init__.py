"""What is learned from private rows: one interface for linear models, networks and the last block of a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
from torch import Tensor

if TYPE_CHECKING:
    from dplangevin.chains.chain import Chain
    from dplangevin.chains.sampling import Batch

# A step without its noise, in place: theta (S, E, d), the batch, step sizes (E, 1) and what l2 keeps of theta, (E, 1)
Descent = Callable[[Tensor, "Batch", Tensor, Tensor], None]


class Facts(NamedTuple):
    """What a method may know of a problem when it plans; only what `private` names depends on the private rows.

    n: records.  d: parameters.  classes: K.  lipschitz: bound on the norm of one record's gradient, inf where there is
    none.  smoothness: of one record's loss; None where unknown.  row_bound: on the norm of a record's features.
    private: texts, one for each of these numbers that was read off the private rows.
    """

    n: int
    d: int
    classes: int
    lipschitz: float = math.inf
    smoothness: float | None = None
    row_bound: float = math.inf
    private: tuple[str, ...] = ()


class Sums(NamedTuple):
    """Of a minibatch: the sum of clipped gradients ``(S, E, d)``, and of losses in nats ``(S, E)`` or None."""

    gradient: Tensor
    loss: Tensor | None = None


class Problem(Protocol):
    """Private rows and what is learned from them.  S seeds, E chains on the same rows, d parameters."""

    @property
    def facts(self) -> Facts: ...

    @property
    def device(self) -> torch.device:
        """Where theta lives; random numbers are drawn on the CPU whatever it is."""
        ...

    def init(self, seeds: int, rng: torch.Generator) -> Tensor:
        """Where chains start, ``(S, d)``."""
        ...

    def clipped_sum(self, theta: Tensor, rows: Tensor, mask: Tensor, clip: Tensor) -> Sums:
        """``sum_i mask_i min(1, clip_e/||g_i||) g_i`` at theta ``(S, E, d)``.

        rows ``(S, B)``; mask ``(S, E, B)``, False for rows that take no part; clip ``(E,)``, in (0, inf].
        """
        ...

    def predict(self, theta: Tensor) -> Tensor:
        """Probabilities of the test rows, ``(S, E, m, K)`` on the CPU, at theta ``(S, E, d)``."""
        ...

    def descent(self, chains: Sequence[Chain]) -> Descent | None:
        """A faster step of the problem's own for chains without momentum; None: there is none."""
        ...
