"""Stochastic gradient Langevin dynamics (SGLD)."""

from typing import NamedTuple

from torch import Tensor

from dplangevin.samplers.kernels import Dynamics


class SgldState(NamedTuple):
    """The state of SGLD: theta ``(S, C, d)``."""

    theta: Tensor


def sgld() -> Dynamics:
    """Return the kernel of SGLD, ``theta <- theta - eta grad + z``.

    With ``z ~ N(0, eta)``, as printed in wang2015, the chain targets exp(-2U).  With ``z ~ N(0, 2 eta)`` it targets
    exp(-U).  `step` is (state, gradient, z, step_size); gradient, an estimate of grad U, and z are ``(S, C, d)``,
    eta is ``(C, 1)``.

    Source: Welling and Teh (2011); wang2015, eq. 4.1 and Algorithm 2.
    """

    def step(state: SgldState, gradient: Tensor, noise: Tensor, step_size: Tensor) -> SgldState:
        return SgldState(state.theta - step_size * gradient + noise)

    return Dynamics(SgldState, step)
