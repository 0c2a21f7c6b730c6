"""Hamiltonian Monte Carlo (HMC)."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from dplangevin.samplers.kernels import Dynamics

Potential = Callable[[Tensor], tuple[Tensor, Tensor]]


class HmcState(NamedTuple):
    """Theta ``(S, C, d)``, U and its gradient there, and the acceptance probability of the last step ``(S, C)``."""

    theta: Tensor
    potential: Tensor
    gradient: Tensor
    accepted: Tensor


def through(root: Tensor, v: Tensor) -> Tensor:
    """Return root ``(S', E, d, d)`` times each v ``(S, C, d)``; S' is 1 or S, C has budgets fastest."""
    grid = v.reshape(len(root), -1, *root.shape[1:3])  # (S', chains, E, d)
    return (grid.transpose(1, 2) @ root).transpose(1, 2).reshape(v.shape)


def hmc(potential: Potential, root: Tensor) -> Dynamics:
    """Return an HMC kernel that leaves ``exp(-U(theta))`` invariant.

    - `potential`: theta -> (U, grad U).
    - `root`: (S', E, d, d), the preconditioner, symmetric: ``theta' = root p``. See `through`.
    - returns: ``init(theta)`` and ``step(state, momentum, uniform, step_size, leapfrogs)``, with standard normal
      momentum ``(S, C, d)``, uniform ``(S, C)`` and step_size ``(C,)``.

    Source: Neal (2011).
    """

    def init(theta: Tensor) -> HmcState:
        value, grad = potential(theta)
        return HmcState(theta, value, grad, torch.ones_like(value))

    def step(
        state: HmcState, momentum: Tensor, uniform: Tensor, step_size: Tensor, leapfrogs: int
    ) -> HmcState:
        h = step_size[:, None]  # (C, 1)
        theta, value, grad = state.theta, state.potential, state.gradient
        p = momentum
        for _ in range(leapfrogs):
            p = p - 0.5 * h * through(root, grad)
            theta = theta + h * through(root, p)
            value, grad = potential(theta)
            p = p - 0.5 * h * through(root, grad)
        energy = state.potential + 0.5 * momentum.square().sum(-1) - value - 0.5 * p.square().sum(-1)
        return metropolis(state, HmcState(theta, value, grad, energy), uniform)

    return Dynamics(init, step)


def metropolis(old: HmcState, new: HmcState, uniform: Tensor) -> HmcState:
    """Accept or reject, chain by chain; `new.accepted` holds the log of the acceptance ratio ``(S, C)``."""
    log_ratio = torch.where(new.accepted.isfinite(), new.accepted, -torch.inf)
    take = uniform.to(log_ratio.dtype).log() < log_ratio
    return HmcState(
        torch.where(take[..., None], new.theta, old.theta),
        torch.where(take, new.potential, old.potential),
        torch.where(take[..., None], new.gradient, old.gradient),
        log_ratio.clamp(max=0).exp(),
    )
