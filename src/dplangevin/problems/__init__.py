"""What is learned from private rows, as the chains see it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class Facts(NamedTuple):
    """What is known of a problem without a look at its rows.  n: records.  d: parameters.  classes: K."""

    n: int
    d: int
    classes: int


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
