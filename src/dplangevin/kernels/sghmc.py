"""Stochastic gradient Hamiltonian Monte Carlo."""

from typing import NamedTuple

import torch
from torch import Tensor

from dplangevin.kernels import Kernel


class SghmcState(NamedTuple):
    """theta, velocity ``(S, C, d)``."""

    theta: Tensor
    velocity: Tensor


def sghmc(friction: float | Tensor) -> Kernel:
    r"""Wang, Fienberg and Smola (2015), eq. 4.4 (Chen, Fox and Guestrin 2014); targets exp(-U)::

        theta_t = theta_{t-1} + v_{t-1}
        v_t     = v_{t-1} - a v_{t-1} - eta grad(theta_{t-1}) + noise,   noise ~ N(0, 2 (a - b) eta I)

    friction: a in (0, 1), a number or ``(C, 1)``; b is what the caller guesses of the gradient's own noise, 0 if exact.
    Stable on a quadratic of curvature h while ``eta h < a``.
    init(theta, velocity); step(state, gradient, noise, step_size): estimate of grad U and noise on the velocity, both
    ``(S, C, d)``, None where it is in the gradient; eta ``(C, 1)``.  Raises ValueError for friction outside (0, 1).
    """
    if not bool(((torch.as_tensor(friction) > 0) & (torch.as_tensor(friction) < 1)).all()):
        raise ValueError(f"friction must be in (0, 1), not {friction}")

    def step(state: SghmcState, gradient: Tensor, noise: Tensor | None, step_size: Tensor) -> SghmcState:
        velocity = (state.velocity * (1 - friction)).sub_(step_size * gradient)
        if noise is not None:
            velocity.add_(noise)
        return SghmcState(state.theta + state.velocity, velocity)

    return Kernel(SghmcState, step)
