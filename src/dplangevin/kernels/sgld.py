"""Stochastic gradient Langevin dynamics."""

from typing import NamedTuple

from torch import Tensor

from dplangevin.kernels import Kernel


class SgldState(NamedTuple):
    """theta ``(S, C, d)``."""

    theta: Tensor


def sgld() -> Kernel:
    """``theta <- theta - eta grad + z`` (Welling and Teh 2011; Wang, Fienberg and Smola 2015, eq. 4.1 and Algorithm 2).

    step(state, gradient, noise, step_size): estimate of grad U and noise z, both ``(S, C, d)``; eta ``(C, 1)``.
    With ``z ~ N(0, eta)`` as wang2015 prints it the chain targets exp(-2U); with ``N(0, 2 eta)`` exp(-U).
    """

    def step(state: SgldState, gradient: Tensor, noise: Tensor, step_size: Tensor) -> SgldState:
        return SgldState(state.theta - step_size * gradient + noise)

    return Kernel(SgldState, step)
