"""Markov kernels on batched chains, one per file: `Kernel(init, step)` over explicit NamedTuple states.

Chains are tensor axes: every state holds ``theta`` of shape ``(S, C, d)``.  The randomness is an argument of
`step`, never drawn inside, so that the caller decides what chains share.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class Kernel(NamedTuple):
    """init: ``theta -> state``; step: ``(state, ...) -> state``."""

    init: Callable[..., Any]
    step: Callable[..., Any]
