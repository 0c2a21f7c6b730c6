"""Batched minimisation of losses with a ridge and a linear perturbation.

All seeds and budgets are computed at once, on a grid ``(S, E)``.  An entry is one seed with one budget.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from dplangevin.problems import Facts
from dplangevin.problems.glm import Glm

MEMORY, LONG = 12, 20  # pairs that L-BFGS keeps, in general and in `private_minimum`
# A step is halved while the slope at its end is uphill and steeper than this multiple of the start's slope
OVERSHOOT = 4.0
OVERSHOOT_KINKED = 0.5  # where the curvature jumps, longer steps can oscillate for ever
NEWTON = 10_000  # limit on Newton steps at one ridge: mostly a few are enough, the kinks of huber took 727
SHARE = 1e-4  # of the gradient, as far as `follow` lowers it before the next ridge
AWAY = 0.1  # if a Newton step moves a margin by more than this, the point is no minimum
PRIVATE = 8, 8, 24  # steps of `private_minimum`: two stages in single precision, one in double
ROUNDING = 2.0**-49  # relative error of a gradient in float64, generously: 16 units in the last place
LEAST = 1e-8  # share of the bound on a record's gradient; no smaller gradient needs to be reached

Metric = Callable[[Tensor, Tensor], Tensor]  # gradient (S, A, d), indices of A budgets (A,) -> (S, A, d)


class Minimum(NamedTuple):
    """Theta ``(S, E, d)`` in float64, the norm of the gradient there divided by n ``(S, E)``, and the steps taken."""

    theta: Tensor
    gradient_norm: Tensor
    steps: int


def minimise(
    problem: Glm, ridge: Tensor, linear: Tensor, tolerance: float = 1e-8, max_steps: int = 500
) -> Minimum:
    """Minimise ``sum_i phi(theta x_i, y_i) + ridge/2 ||theta||^2 + <linear, theta>``.

    `descend` does this first, and `follow` continues with the entries that need more than max_steps.  With ridge >
    0, this also finds the minimum on rows that a hyperplane separates (Albert and Anderson 1984).  Every entry
    reaches ``||gradient||/n < tolerance``, measured in float64.  linear is ``(S, E, d)``; ridge ``(E,)`` is >= 0.
    """
    linear = linear.double()
    theta, norm, steps = descend(problem, ridge, linear, tolerance, max_steps)
    for r, e in (~(norm < tolerance)).nonzero().tolist():
        theta[r, e], norm[r, e], taken = follow(one_of(problem, r), float(ridge[e]), linear[r, e], tolerance)
        steps += taken
    if not bool((norm < tolerance).all()):
        raise ValueError(
            f"no minimum to gradient norm/n {tolerance:g} within {steps} steps (reached {float(norm.max()):.3g}; "
            f"smallest ridge {float(ridge.min()):g}): raise the ridge or the tolerance"
        )
    for e in (ridge == 0).nonzero().flatten().tolist():
        for r in range(0 if problem.loss.kinked else len(theta)):
            moved = _newton_step_in_margins(one_of(problem, r), linear[r, e], theta[r, e])
            if not moved < AWAY:
                raise ValueError(
                    f"no minimum at ridge = 0: at gradient norm/n {float(norm[r, e]):.1g} a Newton step still moves a "
                    f"margin by {moved:.2g}, as where a hyperplane separates the rows by their labels: set ridge > 0"
                )
    return Minimum(theta, norm, steps)


def private_minimum(problem: Glm, ridge: Tensor, linear: Tensor, bound: Tensor) -> Tensor:
    """Return a point ``(S, E, d)`` at which the gradient of `minimise`'s objective has norm `bound` ``(E,)`` or less.

    The numbers of steps and the order of precisions are the same for all data: `PRIVATE` steps, the last of them in
    float64. Directions and halvings depend on the private rows, and noise covers that, see `methods.perturbed_fits`.

    In each stage every entry makes a step. Then an entry that has reached its goal stays, so it depends only on its own
    data set, bit for bit. Others continue alone, by `follow`. Neither a missed goal nor a singular Hessian raises an
    error, which would reveal something about the rows. The computed norm is at most half of `bound`; the other half is
    for its rounding error. By an estimate, not a proof, float64 attains the bound of `reachable` on every data set.
    """
    linear, ridge = linear.double(), ridge.double()
    tolerance = bound.double() / (2 * problem.n)
    theta, norm, _ = descend(problem, ridge, linear, tolerance, sum(PRIVATE), PRIVATE)
    for r, e in (~(norm <= tolerance)).nonzero().tolist():
        there, reached, _ = follow(one_of(problem, r), float(ridge[e]), linear[r, e], float(tolerance[e]))
        if not norm[r, e] <= reached:
            theta[r, e] = there
    return theta


def reachable(facts: Facts, ridge: float, push: float) -> float:
    """Return gamma, a norm of the summed gradient that float64 reaches; it depends on public numbers alone.

    Rounding moves the gradient by a relative error times its Lipschitz constant times the length of theta, which is at
    most ``sqrt(2 n phi(0)/Lambda) + 2 ||b||/Lambda`` at the minimum, and summing by a relative error times n L. The
    result is at least `LEAST` times the bound on one record's gradient. `push` is a length that b exceeds with a
    probability far below any delta.
    """
    loss, n = facts.linear, facts.n
    start = loss.on_ball(0.0)[0] if loss.on_ball else loss.label_bound**2 / 2
    length = math.sqrt(2 * n * start / ridge) + 2 * push / ridge
    lipschitz = min(facts.lipschitz, facts.smoothness * (length + loss.label_bound / facts.row_bound))
    error = ROUNDING * ((n * facts.smoothness + ridge) * length + n * lipschitz + push)
    return max(LEAST * lipschitz, error)


def descend(
    problem: Glm,
    ridge: Tensor,
    linear: Tensor,
    tolerance: float | Tensor,
    max_steps: int,
    fixed: tuple[int, int, int] | None = None,
) -> Minimum:
    """Minimise as `minimise` does, but without an error after max_steps: then gradient_norm exceeds the tolerance.

    The method is limited-memory BFGS on the whole ``(S, E)`` grid, in three stages:

    * float32, with the quadratic majoriser ``smoothness X^T X + ridge I`` (Boehning and Lindsay 1988).
    * float32, with the Hessian at the result of the first stage, for shared data at the mean over seeds.
    * float64, with the Hessian at the result of the second stage.

    A budget drops out when all its seeds have reached their goal. With `fixed` numbers of steps they stop moving.
    """
    exact, single = problem.to(torch.float64), problem.to(torch.float32)
    ridge, linear = ridge.double()[:, None], linear.double()
    metric = majoriser(exact, ridge)
    theta = -metric(linear, torch.arange(len(ridge), device=linear.device))
    steps = 0
    limits, goals = ((15, 30, max_steps), (1e-3, 1e-5, 0.0)) if fixed is None else (fixed, (1e-6, 1e-6, 0.0))
    for stage, least, limit in zip((single, single, exact), goals, limits, strict=True):
        goal = torch.as_tensor(tolerance, dtype=torch.float64, device=linear.device)
        goal = goal.clamp_min(least).expand(len(ridge))
        limit = min(limit, max_steps - steps)
        theta, norm, taken = _lbfgs(stage, theta, ridge, linear, metric, goal, limit, fixed is not None)
        theta, steps = theta.nan_to_num(0.0, 0.0, 0.0), steps + taken
        if least and (fixed or bool((goal > tolerance).all())):
            metric = _hessian_metric(exact, theta, ridge)
    return Minimum(theta, norm, steps)


def follow(problem: Glm, ridge: float, linear: Tensor, tolerance: float) -> tuple[Tensor, float, int]:
    """Find the minimum for one data set along a path of decreasing ridges, from n row_bound^2 by a factor of 4 each.

    `newton` finds each minimum from the one before, roughly on the way (`SHARE`).  This is needed where theta is
    long: the loss has sharp bends along it, in which a descent from far away gets stuck.
    """
    theta, steps = torch.zeros_like(linear, dtype=torch.float64), 0
    far = float(problem.n * problem.row_bound**2)
    stop = max(ridge, 1e-10 * far)
    while far > stop:
        theta, _, taken = newton(problem, far, linear, theta, tolerance, SHARE)
        far, steps = far / 4, steps + taken
    theta, norm, taken = newton(problem, ridge, linear, theta, tolerance)
    return theta, norm, steps + taken


def newton(
    problem: Glm, ridge: float, linear: Tensor, start: Tensor, tolerance: float, share: float = 0.0
) -> tuple[Tensor, float, int]:
    """Find the minimum for one data set by Newton's method with halved steps (Armijo 1966), in float64.

    It starts from `start` or from 0, whichever has the lower objective.  It reaches the minimum wherever ridge > 0,
    because the objective falls with each step.  It also stops when norm/n is below share times the first norm/n, or
    times `Glm.lipschitz` if that is less.  The result is theta ``(d,)``, the gradient's norm/n and the number of steps.
    """
    exact, linear = problem.to(torch.float64), linear.double()

    def objective(theta: Tensor) -> tuple[float, Tensor]:
        value, grad = exact.value_and_grad(theta[None, None])
        pull = ridge * theta + linear
        return float(value[0, 0] + theta @ (0.5 * ridge * theta + linear)), grad[0, 0] + pull

    theta = torch.zeros_like(linear)
    value, grad = objective(theta)
    other, other_grad = objective(start.double())
    if other < value:
        theta, value, grad = start.double(), other, other_grad
    enough = max(tolerance, share * min(problem.lipschitz, float(grad.norm()) / exact.n))
    for step in range(NEWTON):  # noqa: B007
        if float(grad.norm()) / exact.n < enough:
            break
        direction = -torch.cholesky_solve(grad[:, None], _factor(exact, theta, ridge))[:, 0]
        slope = float(direction @ grad)
        for halvings in range(50):
            trial = theta + 0.5**halvings * direction
            trial_value, trial_grad = objective(trial)
            if trial_value <= value + 1e-4 * 0.5**halvings * slope + 1e-14 * abs(value):
                break
        theta, value, grad = trial, trial_value, trial_grad
    return theta, float(grad.norm()) / exact.n, step


def one_of(problem: Glm, seed: int) -> Glm:
    """Return the problem with one seed's data set and its exact Hessian: the rows of an `Estimated` may all be 0."""
    row = 0 if problem.shared else seed
    return Glm(problem.x[row : row + 1], problem.y[row : row + 1], problem.loss, row_bound=problem.row_bound)


def _factor(problem: Glm, theta: Tensor, ridge: float) -> Tensor:
    """Return the Cholesky factor ``(d, d)`` of ``Hessian + ridge I``, plus little of I for singular Hessians."""
    hessian = problem.hessian(theta[None, None])[0, 0]
    size = problem.loss.smoothness * float(problem.x.square().sum())
    hessian.diagonal().add_(ridge + 1e-14 * size)
    return cholesky(hessian)


def cholesky(matrices: Tensor) -> Tensor:
    """Return lower Cholesky factors, also of matrices that rounding made indefinite.

    Such a matrix gets a larger diagonal, each matrix independently of the others.  An error instead would
    reveal something about the rows, and one matrix would stop the computation for all.
    """
    factor, failed = torch.linalg.cholesky_ex(matrices)
    share = torch.finfo(matrices.dtype).eps
    while share < 1 and bool(failed.any()):
        share *= 16
        most = matrices.diagonal(dim1=-2, dim2=-1).amax(-1) * share * (failed > 0)
        matrices = matrices + torch.diag_embed(most[..., None].expand(*most.shape, matrices.shape[-1]))
        factor, failed = torch.linalg.cholesky_ex(matrices)
    return factor


def _newton_step_in_margins(problem: Glm, linear: Tensor, theta: Tensor) -> float:
    """Return the largest distance by which a Newton step at ridge 0 moves a row's margin."""
    exact = problem.to(torch.float64)
    grad = exact.grad(theta[None, None])[0, 0] + linear
    step = torch.cholesky_solve(grad[:, None], _factor(exact, theta, 0.0))[:, 0]
    return float((exact.x[0] @ step.view(-1, exact.features).T).abs().max())


def majoriser(problem: Glm, ridge: Tensor) -> Metric:
    """Return ``g -> (smoothness X^T X + ridge I)^-1 g``, from one eigendecomposition per data set."""
    spectrum, basis = torch.linalg.eigh(problem.gram)  # (S', features), (S', features, features)
    least = 1e-10 * spectrum.amax(-1)[:, None, None]  # per data set, so that none affects another
    bound = problem.loss.smoothness * spectrum[:, None].clamp(min=0) + ridge + least

    def metric(g: Tensor, which: Tensor) -> Tensor:
        scale = bound[:, which].repeat_interleave(problem.classes, 1)  # (S', A K, features)
        each = g.reshape(len(g), -1, problem.features)  # (S, A K, features)
        return (((each @ basis) / scale) @ basis.mT).reshape(g.shape)

    return metric


def _hessian_metric(problem: Glm, theta: Tensor, ridge: Tensor) -> Metric:
    """Return ``g -> (Hessian + ridge I)^-1 g``; for shared data at the mean of theta over the seeds."""
    at = theta.mean(0, keepdim=True) if problem.shared else theta
    # with K margins only the ridge makes the Hessian regular, and single precision would lose the ridge
    dtype = torch.float32 if problem.classes == 1 else torch.float64
    hessian = problem.to(dtype).hessian(at.to(dtype)).double()  # (S', E, d, d)
    diagonal = hessian.diagonal(dim1=-2, dim2=-1)
    # for each data set by itself, as in `majoriser`
    diagonal.add_(ridge + 1e-7 * diagonal.amax((-2, -1), keepdim=True))
    factor = cholesky(hessian)
    if problem.shared:
        return lambda g, which: torch.cholesky_solve(g.permute(1, 2, 0), factor[0, which]).permute(2, 0, 1)
    return lambda g, which: torch.cholesky_solve(g[..., None], factor[:, which])[..., 0]


def _lbfgs(
    problem: Glm,
    theta: Tensor,
    ridge: Tensor,
    linear: Tensor,
    metric: Metric,
    goal: Tensor,
    max_steps: int,
    fixed: bool,
) -> tuple[Tensor, Tensor, int]:
    """Return theta, gradient norms/n and steps of a descent in the problem's precision.

    It ends when all gradient norms/n are below their `goal` ``(E,)``, at the latest after max_steps.  With `fixed` it
    makes all max_steps steps, and an entry below its goal stays from the second step on.
    """
    dtype = problem.x.dtype
    overshoot = OVERSHOOT_KINKED if problem.loss.kinked else OVERSHOOT

    def gradient(at: Tensor, which: Tensor) -> Tensor:
        pull = ridge[which].to(dtype) * at + linear[:, which].to(dtype)
        return problem.grad(at) + pull

    which = torch.arange(theta.shape[1], device=theta.device)  # indices of the budgets that still compute
    at = theta.to(dtype)
    grad = gradient(at, which)
    history: list[Secant] = []
    theta, norm = at.clone(), grad.norm(dim=-1) / problem.n
    for step in range(max_steps + 1):
        theta[:, which], norm[:, which] = at, grad.norm(dim=-1) / problem.n
        moving = ~(norm[:, which] < goal[which])
        stay = moving.any(0) | fixed
        if step == max_steps or not bool(stay.any()):
            break
        if not bool(stay.all()):
            which, at, grad = which[stay], at[:, stay], grad[:, stay]
            history = [Secant(*(part[:, stay] for part in pair)) for pair in history]
        direction = -_two_loop(grad, history, metric, which)
        slope = (direction * grad).sum(-1)
        uphill = slope >= 0
        direction = torch.where(uphill[..., None], -metric(grad.double(), which).to(dtype), direction)
        if fixed and step > 0:
            direction = direction * moving[..., None]
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
        history.append(Secant(moved, turned, torch.where(product > 0, 1 / product, 0.0)))
        del history[: -(LONG if fixed else MEMORY)]
        at, grad = trial, trial_grad
    return theta.double(), norm.double(), step


class Secant(NamedTuple):
    """A step and its change of the gradient ``(S, A, d)``, and 1/<step, change>, or 0 if that is not positive."""

    moved: Tensor
    turned: Tensor
    inverse: Tensor


def _two_loop(grad: Tensor, history: list[Secant], metric: Metric, which: Tensor) -> Tensor:
    """Return the inverse Hessian's L-BFGS estimate times the gradient (Nocedal and Wright, Algorithm 7.4)."""
    q, weights = grad, []
    for moved, turned, inverse in reversed(history):
        weight = inverse * (moved * q).sum(-1, keepdim=True)
        weights.append(weight)
        q = q - weight * turned
    q = metric(q.double(), which).to(grad.dtype)
    for (moved, turned, inverse), weight in zip(history, reversed(weights), strict=True):
        q = q + moved * (weight - inverse * (turned * q).sum(-1, keepdim=True))
    return q


ROWS, LARGE = 5000, 2.0**34  # rows for an estimated Hessian, and the n d^2 above which it is estimated


class Estimated(Glm):
    """A problem whose Hessian, which only tunes `descend`, is estimated from about `ROWS` evenly spaced rows."""

    def hessian(self, theta: Tensor) -> Tensor:
        every = max(1, self.n // ROWS)
        few = Glm(self.x[:, ::every], self.y[:, ::every], self.loss, row_bound=self.row_bound)
        return few.hessian(theta) * (self.n / few.n)


def estimated(problem: Glm) -> Glm:
    """Return the problem for `minimise`, with an estimated Hessian if it is large."""
    if problem.n * problem.d**2 <= LARGE:
        return problem
    return Estimated(problem.x, problem.y, problem.loss, row_bound=problem.row_bound)
