"""Batched minimisation of ridge-regularised, linearly perturbed losses: all seeds and budgets at once."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from dplangevin.problems import Facts
from dplangevin.problems.glm import Glm

MEMORY, LONG = 12, 20  # pairs kept by L-BFGS, and by `private_minimum`
# A step is halved while the slope at its end is uphill and steeper than this many times the slope at its start.
OVERSHOOT = 4.0
OVERSHOOT_KINKED = 0.5  # where the curvature jumps, longer steps can go to and fro for ever
NEWTON = (
    100  # most steps of Newton's method at one ridge; a few do, from the minimum at a ridge 4 times as large
)
AWAY = 0.1  # a Newton step that moves a margin by more than this is not at a minimum
PRIVATE = 8, 8, 24  # steps of `private_minimum`: two stages in single precision, one in double
ROUNDING = 2.0**-49  # relative error of a gradient in float64, with room: 16 units in the last place
LEAST = 1e-8  # of a record's gradient: less than it need not be reached

Metric = Callable[[Tensor, Tensor], Tensor]  # gradient (S, A, d), which budgets (A,) -> (S, A, d)


class Minimum(NamedTuple):
    """theta ``(S, E, d)`` in float64; gradient_norm ``(S, E)``, divided by n; steps taken."""

    theta: Tensor
    gradient_norm: Tensor
    steps: int


def minimise(
    problem: Glm, ridge: Tensor, linear: Tensor, tolerance: float = 1e-8, max_steps: int = 500
) -> Minimum:
    r"""Minimise ``sum_i phi(theta x_i, y_i) + ridge/2 ||theta||^2 + <linear, theta>``.

    ridge: ``(E,)``, >= 0; linear: ``(S, E, d)``.  Ends when ``||gradient|| / n < tolerance`` for every entry, measured
    in float64.  By `descend`, and `follow` for the entries that it leaves after max_steps: with ridge > 0, rows that a
    hyperplane separates have their minimum too.
    ValueError where it is not reached, and where ridge = 0 and a loss without kinks has no minimum: it falls for ever
    along some direction if a hyperplane separates the rows (Albert and Anderson 1984).
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
    r"""Return a point ``(S, E, d)`` at which the gradient of `minimise`'s objective has norm `bound` or less.

    The numbers of steps and the order of precisions are the same for all data: `PRIVATE` steps, of which the last are
    in float64.  Directions and halvings depend on the rows; noise covers that, see `methods.perturbed_fits`.
    Each stage moves every entry once; after that, one that has arrived stays while the others go on, so that it depends
    on its own data set alone, bit for bit.  An entry that has not arrived at the end goes on alone, by `follow`.
    Failing to arrive, or a singular Hessian, raises no error, since an error would tell something about the rows.
    The norm that is computed is at most half of `bound`; the other half is room for its rounding error.  By an estimate
    of rounding errors, not by a proof, float64 attains the bound of `reachable` on every data set.

    Parameters
    ----------
    problem : Glm
        Its rows are private.
    ridge, bound : Tensor (E,)
        Of the summed loss, > 0.
    linear : Tensor (S, E, d)
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

    Rounding theta and the margins moves the gradient by a relative error times its Lipschitz constant times the length
    of theta; summing the gradient moves it by a relative error times n L.  The objective at its minimum is at most that
    at 0, so the minimum is at most ``sqrt(2 n phi(0)/Lambda) + 2 ||b||/Lambda`` long.  At least `LEAST` of a record's
    gradient is allowed.

    Parameters
    ----------
    facts : Facts
        Of a linear model with bounded rows.
    ridge : float
        Lambda > 0.
    push : float
        Length that the perturbation b exceeds with a probability far below any delta.
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
    """As `minimise`, but entries that max_steps do not suffice for are left where they are: see their gradient_norm.

    Limited-memory BFGS on the whole ``(S, E)`` grid, in three stages that differ in precision and in the initial
    Hessian: in float32 the quadratic majoriser ``smoothness X^T X + ridge I`` (Boehning and Lindsay 1988; of K margins
    the same for each), then the Hessian where that led (for shared data at the mean over seeds, one for each budget),
    then the same in float64.
    Budgets whose seeds are all done leave the computation, and a stage ends when all are.  With `fixed`, numbers of
    steps, none leaves, every stage makes its steps, and an entry that has arrived is kept: see `private_minimum`.
    """
    exact, single = problem.to(torch.float64), problem.to(torch.float32)
    ridge, linear = ridge.double()[:, None], linear.double()
    metric = _majoriser(exact, ridge)
    theta = -metric(linear, torch.arange(len(ridge)))
    steps = 0
    limits, goals = ((15, 30, max_steps), (1e-3, 1e-5, 0.0)) if fixed is None else (fixed, (1e-6, 1e-6, 0.0))
    for stage, least, limit in zip((single, single, exact), goals, limits, strict=True):
        goal = torch.as_tensor(tolerance, dtype=torch.float64).clamp_min(least).expand(len(ridge))
        limit = min(limit, max_steps - steps)
        theta, norm, taken = _lbfgs(stage, theta, ridge, linear, metric, goal, limit, fixed is not None)
        theta, steps = theta.nan_to_num(0.0, 0.0, 0.0), steps + taken
        if least and (fixed or bool((goal > tolerance).all())):
            metric = _hessian_metric(exact, theta, ridge)
    return Minimum(theta, norm, steps)


def follow(problem: Glm, ridge: float, linear: Tensor, tolerance: float) -> tuple[Tensor, float, int]:
    """The minimum for one data set, down the path of ridges: theta ``(d,)``, gradient norm/n, steps.

    linear: ``(d,)``.  From n row_bound^2 down by factors of 4, each minimum by `newton` from the one before: where
    theta is long, the loss has sharp bends along it, in which a descent from afar is caught.
    """
    theta, steps = torch.zeros(problem.d, dtype=torch.float64), 0
    far = float(problem.n * problem.row_bound**2)
    stop = max(ridge, 1e-10 * far)
    while far > stop:
        theta, _, taken = newton(problem, far, linear, theta, max(tolerance, 1e-4 * problem.row_bound))
        far, steps = far / 4, steps + taken
    theta, norm, taken = newton(problem, ridge, linear, theta, tolerance)
    return theta, norm, steps + taken


def newton(
    problem: Glm, ridge: float, linear: Tensor, start: Tensor, tolerance: float
) -> tuple[Tensor, float, int]:
    """Newton's method with halved steps (Armijo 1966) for one data set: theta ``(d,)``, gradient norm/n, steps.

    linear, start: ``(d,)``.  From `start` or 0, whichever is lower.  In float64, at a Hessian for each step: slow where
    there are many entries, but it arrives wherever ridge > 0, since the objective falls with each step.
    """
    exact, linear = problem.to(torch.float64), linear.double()

    def objective(theta: Tensor) -> tuple[float, Tensor]:
        value, grad = exact.value_and_grad(theta[None, None])
        pull = ridge * theta + linear
        return float(value[0, 0] + theta @ (0.5 * ridge * theta + linear)), grad[0, 0] + pull

    theta = torch.zeros(exact.d, dtype=torch.float64)
    value, grad = objective(theta)
    other, other_grad = objective(start.double())
    if other < value:
        theta, value, grad = start.double(), other, other_grad
    for step in range(NEWTON):  # noqa: B007
        if float(grad.norm()) / exact.n < tolerance:
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
    """The data of one seed."""
    row = 0 if problem.shared else seed
    return replace(problem, x=problem.x[row : row + 1], y=problem.y[row : row + 1])


def _factor(problem: Glm, theta: Tensor, ridge: float) -> Tensor:
    """Cholesky factor ``(d, d)`` of ``Hessian + ridge I``, raised by a little where that is singular."""
    hessian = problem.hessian(theta[None, None])[0, 0]
    size = problem.loss.smoothness * float(problem.x.square().sum())
    hessian.diagonal().add_(ridge + 1e-14 * size)
    return cholesky(hessian)


def cholesky(matrices: Tensor) -> Tensor:
    """Return lower Cholesky factors; what rounding left indefinite gets more on its diagonal, each matrix by itself.

    An error would tell something about the rows, and would end all for one of them.
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
    """How far a Newton step at ridge 0 moves a row's margin, at most."""
    exact = problem.to(torch.float64)
    grad = exact.grad(theta[None, None])[0, 0] + linear
    step = torch.cholesky_solve(grad[:, None], _factor(exact, theta, 0.0))[:, 0]
    return float((exact.x[0] @ step.view(-1, exact.features).T).abs().max())


def _majoriser(problem: Glm, ridge: Tensor) -> Metric:
    """``g -> (smoothness X^T X + ridge I)^-1 g``, from one eigendecomposition per data set."""
    spectrum, basis = torch.linalg.eigh(problem.gram)  # (S', features), (S', features, features)
    least = 1e-10 * spectrum.amax(-1)[:, None, None]  # of each data set: none knows of another
    bound = problem.loss.smoothness * spectrum[:, None].clamp(min=0) + ridge + least

    def metric(g: Tensor, which: Tensor) -> Tensor:
        scale = bound[:, which].repeat_interleave(problem.classes, 1)  # (S', A K, features)
        each = g.reshape(len(g), -1, problem.features)  # (S, A K, features)
        return (((each @ basis) / scale) @ basis.mT).reshape(g.shape)

    return metric


def _hessian_metric(problem: Glm, theta: Tensor, ridge: Tensor) -> Metric:
    """``g -> (Hessian + ridge I)^-1 g``, for shared data at the mean of theta over the seeds."""
    at = theta.mean(0, keepdim=True) if problem.shared else theta
    # with K margins the Hessian is singular but for the ridge, which single precision would hide
    dtype = torch.float32 if problem.classes == 1 else torch.float64
    hessian = problem.to(dtype).hessian(at.to(dtype)).double()  # (S', E, d, d)
    diagonal = hessian.diagonal(dim1=-2, dim2=-1)
    diagonal.add_(
        ridge + 1e-7 * diagonal.amax((-2, -1), keepdim=True)
    )  # of each data set, as in `_majoriser`
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
    """Descend in the problem's precision until all gradient norms/n are below their `goal` ``(E,)``: theta, norms,
    steps.  fixed: make max_steps steps all the same; an entry below its goal is kept from the first step on."""
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
        moving = ~(norm[:, which] < goal[which])
        stay = moving.any(0) | fixed
        if step == max_steps or not bool(stay.any()):
            break
        if not bool(stay.all()):
            which, at, grad = which[stay], at[:, stay], grad[:, stay]
            history = [Pair(*(part[:, stay] for part in pair)) for pair in history]
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
        history.append(Pair(moved, turned, torch.where(product > 0, 1 / product, 0.0)))
        del history[: -(LONG if fixed else MEMORY)]
        at, grad = trial, trial_grad
    return theta.double(), norm.double(), step


class Pair(NamedTuple):
    """A step of L-BFGS, the change of gradient along it, both ``(S, A, d)``, and 1 over their product (or 0)."""

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


ROWS, LARGE = 5000, 2.0**34  # rows that Hessians are estimated from, for problems of more than so many n d^2


class Estimated(Glm):
    """Its Hessian comes from about `ROWS` evenly spaced rows: what tunes a solver need not be exact."""

    def hessian(self, theta: Tensor) -> Tensor:
        every = max(1, self.n // ROWS)
        few = Glm(self.x[:, ::every], self.y[:, ::every], self.loss, row_bound=self.row_bound)
        return few.hessian(theta) * (self.n / few.n)


def estimated(problem: Glm) -> Glm:
    """The same problem for `minimise`, which of a large one then needs seconds instead of minutes."""
    if problem.n * problem.d**2 <= LARGE:
        return problem
    return Estimated(problem.x, problem.y, problem.loss, row_bound=problem.row_bound)
