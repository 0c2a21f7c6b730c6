"""Stochastic gradient Nose-Hoover thermostat (SGNHT)."""

from typing import NamedTuple

from torch import Tensor

from dplangevin.samplers.kernels import Dynamics


class SgnhtState(NamedTuple):
    """The state of SGNHT: theta and velocity ``(S, C, d)``, thermostat alpha ``(S, C, 1)``."""

    theta: Tensor
    velocity: Tensor
    thermostat: Tensor


def sgnht() -> Dynamics:
    """Return the kernel of SGNHT, with the shapes of `sghmc.sghmc`.

    The update is::

        theta_t = theta_{t-1} + v_{t-1}
        v_t     = v_{t-1} - alpha_{t-1} v_{t-1} - eta grad(theta_{t-1}) + noise,   noise ~ N(0, 2 a eta I)
        alpha_t = alpha_{t-1} + ||v_t||^2 / d - eta

    It is the update of Ding et al. (2014) with ``v = h p`` and ``eta = h^2``.  As eta -> 0 with a = A sqrt(eta), it
    targets exp(-U).  At a fixed a the thermostat holds E v^2 = eta, and the target is exp(-U/T) with T = (1 +
    sqrt(1 - 2a))/2, which is slightly too cold.

    Source: wang2015, eq. 4.5; Ding et al. (2014).
    Differs: the printed equation has ``u_{t-1}`` for ``v_{t-1}`` and ``grad(theta_s)`` for ``grad(theta_{t-1})``.
    The equation above follows eq. 4.4 instead.
    """

    def step(state: SgnhtState, gradient: Tensor, noise: Tensor | None, step_size: Tensor) -> SgnhtState:
        velocity = (state.velocity * (1 - state.thermostat)).sub_(step_size * gradient)
        if noise is not None:
            velocity.add_(noise)
        energy = velocity.square().mean(-1, keepdim=True)
        return SgnhtState(state.theta + state.velocity, velocity, state.thermostat + energy - step_size)

    return Dynamics(SgnhtState, step)
