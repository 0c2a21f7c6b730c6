"""Hamiltonian Monte Carlo (HMC) on a ball, with elastic reflection at its surface."""

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


def reflective_hmc(potential: Potential, root: Tensor, radius: float, max_bounces: int = 100) -> Dynamics:
    """Return an HMC kernel that leaves ``exp(-U(theta))`` on the ball ``||theta|| <= radius`` invariant.

    A drift that meets the sphere is split there, and the momentum is mirrored in the metric of the preconditioner:
    ``p <- p - 2 <p, m>/<m, m> m`` with ``m = root theta``.  This keeps the kinetic energy, and the Metropolis test
    uses the exact energy.  A drift that bounces more than `max_bounces` times is rejected, and so is its reverse,
    so detailed balance holds.

    - `potential`: theta -> (U, grad U).
    - `root`: (S', E, d, d), the preconditioner, symmetric: ``theta' = root p``. See `through`.
    - `radius`: inf for HMC without a ball.
    - returns: ``init(theta)`` and ``step(state, momentum, uniform, step_size, leapfrogs)``, with standard normal
      momentum ``(S, C, d)``, uniform ``(S, C)`` and step_size ``(C,)``.

    Source: Neal (2011), section 5.2, for HMC; Mohasel Afshar and Domke (2015) for the reflection.
    """

    def init(theta: Tensor) -> HmcState:
        value, grad = potential(theta)
        return HmcState(theta, value, grad, torch.ones_like(value))

    def step(
        state: HmcState, momentum: Tensor, uniform: Tensor, step_size: Tensor, leapfrogs: int
    ) -> HmcState:
        h = step_size[:, None]  # (C, 1)
        theta, value, grad = state.theta, state.potential, state.gradient
        p, failed = momentum, torch.zeros_like(value, dtype=torch.bool)
        for _ in range(leapfrogs):
            p = p - 0.5 * h * through(root, grad)
            theta, p, lost = drift_in_ball(theta, p, root, h, radius, max_bounces)
            failed = failed | lost
            value, grad = potential(theta)
            p = p - 0.5 * h * through(root, grad)
        energy = state.potential + 0.5 * momentum.square().sum(-1) - value - 0.5 * p.square().sum(-1)
        return metropolis(state, HmcState(theta, value, grad, energy), failed, uniform)

    return Dynamics(init, step)


def metropolis(old: HmcState, new: HmcState, failed: Tensor, uniform: Tensor) -> HmcState:
    """Accept or reject, chain by chain; `new.accepted` holds the log of the acceptance ratio, failed is ``(S, C)``."""
    log_ratio = torch.where(failed | ~new.accepted.isfinite(), -torch.inf, new.accepted)
    take = uniform.to(log_ratio.dtype).log() < log_ratio
    return HmcState(
        torch.where(take[..., None], new.theta, old.theta),
        torch.where(take, new.potential, old.potential),
        torch.where(take[..., None], new.gradient, old.gradient),
        log_ratio.clamp(max=0).exp(),
    )


def drift_in_ball(
    theta: Tensor, p: Tensor, root: Tensor, time: Tensor, radius: float, max_bounces: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return theta and p after a drift by ``time root p`` in the ball, and where max_bounces is too few, ``(S, C)``."""
    if radius == float("inf"):
        return theta + time * through(root, p), p, torch.zeros_like(theta[..., 0], dtype=torch.bool)
    left = time.expand(*theta.shape[:-1], 1)
    bounce = torch.zeros_like(left, dtype=torch.bool)
    for _ in range(max_bounces):
        velocity = through(root, p)
        a = velocity.square().sum(-1, keepdim=True).clamp(min=1e-30)
        b = (theta * velocity).sum(-1, keepdim=True)
        c = (theta.square().sum(-1, keepdim=True) - radius**2).clamp(max=0)
        hit = (-b + (b * b - a * c).clamp(min=0).sqrt()) / a  # time until theta meets the sphere, >= 0
        bounce = hit < left
        theta = theta + torch.minimum(hit, left) * velocity
        if not bool(bounce.any()):
            break
        left = torch.where(bounce, left - hit, 0.0)
        theta = torch.where(bounce, theta * (radius / theta.norm(dim=-1, keepdim=True)), theta)
        m = through(root, theta)
        mirrored = p - 2 * (p * m).sum(-1, keepdim=True) / m.square().sum(-1, keepdim=True) * m
        p = torch.where(bounce, mirrored, p)
    return theta, p, bounce[..., 0]
