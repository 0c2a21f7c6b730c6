"""Batched minimisation of ridge-regularised, linearly perturbed losses: all repeats and budgets at once."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dplangevin.problem import Problem


class Minimum(NamedTuple):
    """theta ``(R, E, d)``; gradient_norm ``(R, E)``, divided by n; steps taken."""

    theta: Tensor
    gradient_norm: Tensor
    steps: int


def minimise(
    problem: Problem,
    ridge: Tensor,
    linear: Tensor,
    tolerance: float = 1e-8,
    memory: int = 12,
    max_steps: int = 500,
) -> Minimum:
    r"""Minimise ``sum_i phi(<x_i, theta>) + ridge/2 ||theta||^2 + <linear, theta>`` in float64.

    ridge: ``(E,)``, >= 0; linear: ``(R, E, d)``.  Stops when ``||gradient|| / n < tolerance`` for every entry.

    Limited-memory BFGS whose initial inverse Hessian is that of the quadratic majoriser
    ``smoothness * X^T X + ridge I`` (Boehning and Lindsay 1988), taken from one eigendecomposition per data set, with
    backtracking to the Armijo condition; every vector operation runs on the whole ``(R, E)`` grid.
    Raises ValueError when max_steps do not suffice, for instance because ``ridge = 0`` and the rows are separable.
    """
    problem = problem.to(torch.float64)
    ridge, linear = ridge.to(torch.float64)[:, None], linear.to(torch.float64)  # (E, 1), (R, E, d)
    spectrum, basis = torch.linalg.eigh(problem.gram)  # (R', d), (R', d, d)
    floor = 1e-10 * float(spectrum.max())
    scale = 1 / (problem.smoothness * spectrum[:, None].clamp(min=0) + ridge + floor)  # (R', E, d)

    def majoriser_step(g: Tensor) -> Tensor:
        return ((g @ basis) * scale) @ basis.mT

    def objective(theta: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = problem.value_and_grad(theta)
        value = value + (0.5 * ridge * theta + linear).mul(theta).sum(-1)
        return value, grad + ridge * theta + linear

    theta = -majoriser_step(linear)
    value, grad = objective(theta)
    pairs: list[tuple[Tensor, Tensor, Tensor]] = []  # (step, change of gradient, 1 / their product)
    for step in range(max_steps):
        norm = grad.norm(dim=-1) / problem.n
        if bool((norm < tolerance).all()):
            return Minimum(theta, norm, step)
        direction = -_two_loop(grad, pairs, majoriser_step)
        slope = (direction * grad).sum(-1)
        uphill = slope >= 0
        direction = torch.where(uphill[..., None], -majoriser_step(grad), direction)
        slope = torch.where(uphill, (direction * grad).sum(-1), slope)
        direction = torch.where((norm < tolerance)[..., None], 0.0, direction)
        length = torch.ones_like(value)
        for _ in range(30):
            trial = theta + length[..., None] * direction
            trial_value, trial_grad = objective(trial)
            rounding = 1e-13 * value.abs()
            worse = trial_value > value + 1e-4 * length * slope + rounding
            if not bool(worse.any()):
                break
            length = torch.where(worse, length / 2, length)
        moved, turned = trial - theta, trial_grad - grad
        product = (moved * turned).sum(-1, keepdim=True)
        usable = product > 1e-12 * moved.norm(dim=-1, keepdim=True) * turned.norm(dim=-1, keepdim=True)
        inverse = torch.where(usable, 1 / torch.where(usable, product, 1.0), 0.0)
        pairs = [*pairs[-(memory - 1) :], (moved, turned, inverse)]
        theta, value, grad = trial, trial_value, trial_grad
    raise ValueError(
        f"no minimum to gradient norm/n {tolerance:g} within {max_steps} steps (reached {float(norm.max()):.3g}; "
        f"smallest ridge {float(ridge.min()):g}): raise the ridge or the tolerance"
    )


def _two_loop(grad: Tensor, pairs: list[tuple[Tensor, Tensor, Tensor]], initial) -> Tensor:
    """L-BFGS two-loop recursion (Nocedal and Wright, Algorithm 7.4), one history for each grid entry."""
    q, weights = grad, []
    for moved, turned, inverse in reversed(pairs):
        weight = inverse * (moved * q).sum(-1, keepdim=True)
        weights.append(weight)
        q = q - weight * turned
    q = initial(q)
    for (moved, turned, inverse), weight in zip(pairs, reversed(weights), strict=True):
        q = q + moved * (weight - inverse * (turned * q).sum(-1, keepdim=True))
    return q
