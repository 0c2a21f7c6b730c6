"""Markov kernels on batched chains, one kernel in each file.

A kernel is a pair `Dynamics(init, step)` of functions on explicit states, which are NamedTuples.  Chains are
tensor axes: every state holds ``theta`` of shape ``(S, C, d)``.  `step` takes its random numbers as arguments
and draws none, so that the caller decides what chains share.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class Dynamics(NamedTuple):
    """A Markov kernel.

    - `init`: function (theta, ...) -> state.
    - `step`: function (state, ...) -> state.
    """

    init: Callable[..., Any]
    step: Callable[..., Any]
