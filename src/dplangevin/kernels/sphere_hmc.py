"""Hamiltonian Monte Carlo on a ball without a boundary: the ball is the shadow of a sphere in two more dimensions."""

import torch
from torch import Tensor

from dplangevin.kernels import Kernel
from dplangevin.kernels.hmc import HmcState, Potential, metropolis


def sphere_hmc(potential: Potential, scale: Tensor, radius: float) -> Kernel:
    r"""HMC on the unit sphere of R^(d+2) whose first d coordinates, times radius, follow ``exp(-U)`` on the ball.

    The first d coordinates of a uniform point on the sphere S^(d+1) are uniform in the unit ball (Archimedes'
    theorem for d = 1), so a density on the ball becomes one on the sphere, ``exp(-U(radius q[:d]))``, which has no
    boundary: mass pressed against the ball's surface turns into a smooth Gaussian in the two extra coordinates (compare
    Lan, Zhou and Shahbaba 2014).  With ``S = diag(scale^2)`` as the inverse mass matrix the dynamics is integrated by
    RATTLE (Andersen 1983); because the update is linear in the Lagrange multiplier and the constraint quadratic, the
    multiplier is the smaller root of a quadratic.  Choosing that root makes ``q'^T S q > 0`` in both directions of
    time, so the map is its own reverse whenever the root exists; a step without a root is refused.
    Constrained dynamics with mass matrix ``S^-1`` samples with respect to the surface measure of that metric, which is
    ``sqrt(q^T S q)`` times the uniform one (up to a constant); ``log(q^T S q)/2`` is added to the potential to undo it.

    scale: ``(..., C, d + 2)``.  State and arguments as in `reflective_hmc`, except that ``theta`` is the point q on the
    sphere, ``(S, C, d + 2)``, and the momentum has d + 2 coordinates (it is projected to the tangent space here).
    """
    d = scale.shape[-1] - 2
    metric = scale.square()

    def on_sphere(q: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = potential(radius * q[..., :d])
        length = (metric * q.square()).sum(-1)
        slope = metric * q / length[..., None]
        slope[..., :d] += radius * grad
        return value + 0.5 * length.log(), slope

    def tangent(p: Tensor, q: Tensor) -> Tensor:
        normal = scale * q
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
            p = p - 0.5 * h * scale * grad
            pull = metric * q
            free = q + h * scale * p
            along = (free * pull).sum(-1, keepdim=True)
            square = pull.square().sum(-1, keepdim=True)
            discriminant = along.square() - square * (free.square().sum(-1, keepdim=True) - 1)
            failed = failed | (discriminant[..., 0] < 0)
            multiplier = (along - discriminant.clamp(min=0).sqrt()) / square
            p = p - multiplier / h * scale * q
            q = free - multiplier * pull
            q = q / q.norm(dim=-1, keepdim=True)  # against rounding only
            value, grad = on_sphere(q)
            p = tangent(p - 0.5 * h * scale * grad, q)
        energy = energy - value - 0.5 * p.square().sum(-1)
        return metropolis(state, HmcState(q, value, grad, energy), failed, uniform)

    return Kernel(init, step)
