"""Stochastic gradient Hamiltonian Monte Carlo (SGHMC)."""

from typing import NamedTuple

import torch
from torch import Tensor

from dplangevin.samplers.kernels import Dynamics


class SghmcState(NamedTuple):
    """The state of SGHMC: theta and velocity, both ``(S, C, d)``."""

    theta: Tensor
    velocity: Tensor


def sghmc(friction: float | Tensor) -> Dynamics:
    """Return the kernel of SGHMC, which targets exp(-U).

    The update is::

        theta_t = theta_{t-1} + v_{t-1}
        v_t     = v_{t-1} - a v_{t-1} - eta grad(theta_{t-1}) + noise,   noise ~ N(0, 2 (a - b) eta I)

    Here b is the caller's estimate of the noise in the gradient itself.  On a quadratic of curvature h the update
    is stable while ``eta h < a``.

    - `friction`: a in (0, 1), a number or ``(C, 1)``.
    - returns: ``init(theta, velocity)`` and ``step(state, gradient, noise, step_size)``.  gradient, an estimate of
      grad U, and noise are ``(S, C, d)``; noise is None if the gradient contains it.  step_size is eta, ``(C, 1)``.

    Source: wang2015, eq. 4.4; Chen, Fox and Guestrin (2014).
    """
    if not bool(((torch.as_tensor(friction) > 0) & (torch.as_tensor(friction) < 1)).all()):
        raise ValueError(f"friction must be in (0, 1), not {friction}")

    def step(state: SghmcState, gradient: Tensor, noise: Tensor | None, step_size: Tensor) -> SghmcState:
        velocity = (state.velocity * (1 - friction)).sub_(step_size * gradient)
        if noise is not None:
            velocity.add_(noise)
        return SghmcState(state.theta + state.velocity, velocity)

    return Dynamics(SghmcState, step)
