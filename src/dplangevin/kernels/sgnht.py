"""Stochastic gradient Nose-Hoover thermostat."""

from typing import NamedTuple

from torch import Tensor

from dplangevin.kernels import Kernel


class SgnhtState(NamedTuple):
    """theta, velocity ``(S, C, d)``; thermostat alpha ``(S, C, 1)``."""

    theta: Tensor
    velocity: Tensor
    thermostat: Tensor


def sgnht() -> Kernel:
    r"""Wang, Fienberg and Smola (2015), eq. 4.5 (Ding et al. 2014 with ``v = h p``, ``eta = h^2``)::

        theta_t = theta_{t-1} + v_{t-1}
        v_t     = v_{t-1} - alpha_{t-1} v_{t-1} - eta grad(theta_{t-1}) + noise,   noise ~ N(0, 2 a eta I)
        alpha_t = alpha_{t-1} + ||v_t||^2 / d - eta

    As eta -> 0 with a = A sqrt(eta) it targets exp(-U). At a fixed a the thermostat holds E v^2 = eta, and the target
    is exp(-U/T) with T = (1 + sqrt(1 - 2a))/2, a little too cold.
    Differs: the printed equation has ``u_{t-1}`` for ``v_{t-1}`` and ``grad(theta_s)``; read as above, as in 4.4.
    init(theta, velocity, thermostat); step(state, gradient, noise, step_size); noise None: it is in the gradient.
    """

    def step(state: SgnhtState, gradient: Tensor, noise: Tensor | None, step_size: Tensor) -> SgnhtState:
        velocity = (state.velocity * (1 - state.thermostat)).sub_(step_size * gradient)
        if noise is not None:
            velocity.add_(noise)
        energy = velocity.square().mean(-1, keepdim=True)
        return SgnhtState(state.theta + state.velocity, velocity, state.thermostat + energy - step_size)

    return Kernel(SgnhtState, step)
