"""Markov kernels on batched chains.

Every state is a NamedTuple that holds ``theta`` of shape ``(S, C, d)``.  `step` takes its random numbers as
arguments and draws none, so that the caller decides what chains share.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class Dynamics(NamedTuple):
    """A Markov kernel: `init` is (theta, ...) -> state, `step` is (state, ...) -> state."""

    init: Callable[..., Any]
    step: Callable[..., Any]
