"""Hamiltonian Monte Carlo (HMC), in R^d and on a ball as the projection of a sphere in two more dimensions."""

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


def sphere_hmc(potential: Potential, root: Tensor, radius: float) -> Dynamics:
    """Return an HMC kernel on the unit sphere of R^(d+2), which has no boundary.

    The first d coordinates of its target, times radius, follow ``exp(-U)`` on the ball: those of a uniform point on the
    sphere S^(d+1) are uniform in the unit ball (Archimedes' theorem for d = 1).

    The inverse mass matrix is ``S = root^2``, and the integrator is RATTLE (Andersen 1983). The Lagrange multiplier is
    the smaller root of a quadratic, for which ``q'^T S q > 0`` in both directions of time. So the map is its own
    reverse. A step without a root is rejected.

    Constrained dynamics with mass matrix ``S^-1`` samples with respect to the surface measure of that metric,
    ``sqrt(q^T S q)`` times the uniform one up to a constant. So ``log(q^T S q)/2`` is added to the potential.

    State and arguments are those of `hmc`, with d + 2 for d; ``theta`` is the point q on the sphere. radius is finite.
    """
    d = root.shape[-1] - 2

    def on_sphere(q: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = potential(radius * q[..., :d])
        normal = through(root, q)
        length = normal.square().sum(-1)
        slope = through(root, normal) / length[..., None]
        slope[..., :d] += radius * grad
        return value + 0.5 * length.log(), slope

    def tangent(p: Tensor, q: Tensor) -> Tensor:
        normal = through(root, q)
        return p - (p * normal).sum(-1, keepdim=True) / normal.square().sum(-1, keepdim=True) * normal

    def init(q: Tensor) -> HmcState:
        value, grad = on_sphere(q)
        return HmcState(q, value, grad, torch.ones_like(value))

    def step(
        state: HmcState, momentum: Tensor, uniform: Tensor, step_size: Tensor, leapfrogs: int
    ) -> HmcState:
        h = step_size[:, None]  # (C, 1)
        q, value, grad = state.theta, state.potential, state.gradient
        p = tangent(momentum, q)
        energy = value + 0.5 * p.square().sum(-1)
        failed = torch.zeros_like(value, dtype=torch.bool)
        for _ in range(leapfrogs):
            p = p - 0.5 * h * through(root, grad)
            normal = through(root, q)
            pull = through(root, normal)
            free = q + h * through(root, p)
            along = (free * pull).sum(-1, keepdim=True)
            square = pull.square().sum(-1, keepdim=True)
            discriminant = along.square() - square * (free.square().sum(-1, keepdim=True) - 1)
            failed = failed | (discriminant[..., 0] < 0)
            multiplier = (along - discriminant.clamp(min=0).sqrt()) / square
            p = p - multiplier / h * normal
            q = free - multiplier * pull
            q = q / q.norm(dim=-1, keepdim=True)  # corrects rounding errors only
            value, grad = on_sphere(q)
            p = tangent(p - 0.5 * h * through(root, grad), q)
        energy = (energy - value - 0.5 * p.square().sum(-1)).masked_fill(failed, -torch.inf)
        return metropolis(state, HmcState(q, value, grad, energy), uniform)

    return Dynamics(init, step)
