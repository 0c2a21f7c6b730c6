"""Batched minimisation of ridge-regularised, linearly perturbed losses: all repeats and budgets at once."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from dplangevin.problem import Problem

MEMORY = 12  # pairs kept by L-BFGS
# A step is halved while the slope at its end is uphill and steeper than this many times the slope at its start.
OVERSHOOT = 4.0
OVERSHOOT_KINKED = 0.5  # where the curvature jumps, longer steps can go to and fro for ever

Metric = Callable[[Tensor, Tensor], Tensor]  # gradient (R, A, d), which budgets (A,) -> (R, A, d)


class Minimum(NamedTuple):
    """theta ``(R, E, d)`` in float64; gradient_norm ``(R, E)``, divided by n; steps taken."""

    theta: Tensor
    gradient_norm: Tensor
    steps: int


def minimise(
    problem: Problem, ridge: Tensor, linear: Tensor, tolerance: float = 1e-8, max_steps: int = 500
) -> Minimum:
    r"""Minimise ``sum_i phi(theta x_i, y_i) + ridge/2 ||theta||^2 + <linear, theta>``.

    ridge: ``(E,)``, >= 0; linear: ``(R, E, d)``.  Stops when ``||gradient|| / n < tolerance`` for every entry, measured
    in float64.

    Limited-memory BFGS on the whole ``(R, E)`` grid, in three stages that differ in precision and in the initial
    Hessian: in float32 the quadratic majoriser ``smoothness X^T X + ridge I`` (Boehning and Lindsay 1988; of K margins
    the same for each), then the Hessian where that led (for shared data at the mean over repeats, one for each budget),
    then the same in float64.
    Budgets whose repeats are all done leave the computation.
    Raises ValueError when max_steps do not suffice, for instance because ``ridge = 0`` and the rows are separable.
    """
    exact, single = problem.to(torch.float64), problem.to(torch.float32)
    ridge, linear = ridge.double()[:, None], linear.double()
    metric = _majoriser(exact, ridge)
    theta = -metric(linear, torch.arange(len(ridge)))
    steps = 0
    for stage, goal, limit in ((single, 1e-3, 15), (single, 1e-5, 30), (exact, 0.0, max_steps)):
        goal = max(goal, tolerance)
        theta, norm, taken = _lbfgs(stage, theta, ridge, linear, metric, goal, min(limit, max_steps - steps))
        steps += taken
        if goal > tolerance:
            metric = _newton(exact, theta, ridge)
    if not bool((norm < tolerance).all()):
        raise ValueError(
            f"no minimum to gradient norm/n {tolerance:g} within {max_steps} steps (reached {float(norm.max()):.3g}; "
            f"smallest ridge {float(ridge.min()):g}): raise the ridge or the tolerance"
        )
    return Minimum(theta, norm, steps)


def _majoriser(problem: Problem, ridge: Tensor) -> Metric:
    """``g -> (smoothness X^T X + ridge I)^-1 g``, from one eigendecomposition per data set."""
    spectrum, basis = torch.linalg.eigh(problem.gram)  # (R', features), (R', features, features)
    bound = problem.loss.smoothness * spectrum[:, None].clamp(min=0) + ridge + 1e-10 * spectrum.max()

    def metric(g: Tensor, which: Tensor) -> Tensor:
        scale = bound[:, which].repeat_interleave(problem.classes, 1)  # (R', A K, features)
        each = g.reshape(len(g), -1, problem.features)  # (R, A K, features)
        return (((each @ basis) / scale) @ basis.mT).reshape(g.shape)

    return metric


def _newton(problem: Problem, theta: Tensor, ridge: Tensor) -> Metric:
    """``g -> (Hessian + ridge I)^-1 g``, for shared data at the mean of theta over the repeats."""
    at = theta.mean(0, keepdim=True) if problem.shared else theta
    # with K margins the Hessian is singular but for the ridge, which single precision would hide
    dtype = torch.float32 if problem.classes == 1 else torch.float64
    hessian = problem.to(dtype).hessian(at.to(dtype)).double()  # (R', E, d, d)
    hessian.diagonal(dim1=-2, dim2=-1).add_(ridge + 1e-7 * hessian.diagonal(dim1=-2, dim2=-1).amax())
    factor = torch.linalg.cholesky(hessian)
    if problem.shared:
        return lambda g, which: torch.cholesky_solve(g.permute(1, 2, 0), factor[0, which]).permute(2, 0, 1)
    return lambda g, which: torch.cholesky_solve(g[..., None], factor[:, which])[..., 0]


def _lbfgs(
    problem: Problem,
    theta: Tensor,
    ridge: Tensor,
    linear: Tensor,
    metric: Metric,
    goal: float,
    max_steps: int,
) -> tuple[Tensor, Tensor, int]:
    """Descend in the problem's precision until all gradient norms/n are below `goal`: theta, norms, steps."""
    dtype = problem.x.dtype
    overshoot = OVERSHOOT_KINKED if problem.loss.kinked else OVERSHOOT

    def gradient(at: Tensor, which: Tensor) -> Tensor:
        pull = ridge[which].to(dtype) * at + linear[:, which].to(dtype)
        return problem.grad(at) + pull

    which = torch.arange(theta.shape[1])  # the budgets still at work
    at = theta.to(dtype)
    grad = gradient(at, which)
    history: list[Pair] = []
    theta, norm = at.clone(), grad.norm(dim=-1) / problem.n
    for step in range(max_steps + 1):
        theta[:, which], norm[:, which] = at, grad.norm(dim=-1) / problem.n
        stay = ~(norm[:, which] < goal).all(0)
        if step == max_steps or not bool(stay.any()):
            break
        if not bool(stay.all()):
            which, at, grad = which[stay], at[:, stay], grad[:, stay]
            history = [Pair(*(part[:, stay] for part in pair)) for pair in history]
        direction = -_two_loop(grad, history, metric, which)
        slope = (direction * grad).sum(-1)
        uphill = slope >= 0
        direction = torch.where(uphill[..., None], -metric(grad.double(), which).to(dtype), direction)
        slope = torch.where(uphill, (direction * grad).sum(-1), slope)
        for _ in range(30):
            trial = at + direction
            trial_grad = gradient(trial, which)
            over = (trial_grad * direction).sum(-1) > -overshoot * slope
            if not bool(over.any()):
                break
            factor = torch.where(over, 0.5, 1.0)
            direction, slope = direction * factor[..., None], slope * factor
        moved, turned = trial - at, trial_grad - grad
        product = (moved * turned).sum(-1, keepdim=True)
        history.append(Pair(moved, turned, torch.where(product > 0, 1 / product, 0.0)))
        del history[:-MEMORY]
        at, grad = trial, trial_grad
    return theta.double(), norm.double(), step


class Pair(NamedTuple):
    """A step of L-BFGS, the change of gradient along it, both ``(R, A, d)``, and 1 over their product (or 0)."""

    moved: Tensor
    turned: Tensor
    inverse: Tensor


def _two_loop(grad: Tensor, history: list[Pair], metric: Metric, which: Tensor) -> Tensor:
    """L-BFGS two-loop recursion (Nocedal and Wright, Algorithm 7.4), one history for each grid entry."""
    q, weights = grad, []
    for moved, turned, inverse in reversed(history):
        weight = inverse * (moved * q).sum(-1, keepdim=True)
        weights.append(weight)
        q = q - weight * turned
    q = metric(q.double(), which).to(grad.dtype)
    for (moved, turned, inverse), weight in zip(history, reversed(weights), strict=True):
        q = q + moved * (weight - inverse * (turned * q).sum(-1, keepdim=True))
    return q
