"""Linear models from noisy sufficient statistics: second moments of the rows, and their products with labels.

Both methods replace a record's loss by its Taylor polynomial of degree 2 at margin 0, where u = -phi'(0, y)
and kappa is the curvature::

    sum_i phi(theta x_i, y_i) = const - <theta, B> + kappa/2 tr(theta A theta^T) + ...
    A = X^T X,   B = sum_i u_i x_i^T,   theta = B (A + Lambda I)^-1 / kappa

The polynomial is the loss itself for least squares.  kappa is 1/4 for the logistic loss and 1/K for softmax,
where the Hessian is I/K on all margins that sum to 0.

A and B are released with Gaussian noise, once.  All else is post-processing: no solver sees a record.  The
noisy numbers are rounded to a public grid, which drops the bits that a float64 sum keeps of its summands
(`random.on_grid`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from dplangevin import random
from dplangevin.checks import positive, require
from dplangevin.methods import Execution, Plan, Release, guaranteed, of_works
from dplangevin.privacy import Adjacency, Budget, SufficientStatisticsDpEvent, calibrate
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.accountants.wang2018 import Wang2018
from dplangevin.problems import Facts, Problem
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import Loss

SMALLEST, LARGEST = 1e-3, 1e6  # noise multipliers that calibration tries


class Noise(NamedTuple):
    """What a plan adds to the statistics, in their own units; all 0 without privacy.

    - `matrix`, `vector`, `eigenvalue`: Standard deviations on A, on B, and on the least eigenvalue of A.
    - `least`: Least eigenvalue that A is to have when it is inverted.
    - `margin`: How much less than its noisy value the least eigenvalue is taken to be.
    """

    matrix: float = 0.0
    vector: float = 0.0
    eigenvalue: float = 0.0
    least: float = 0.0
    margin: float = 0.0


@dataclass(frozen=True)
class AdaSsp:
    """Ridge regression on noisy sufficient statistics, with a ridge from the noisy least eigenvalue.

    With W and Z standard normal, t the noise multiplier and the rows scaled to norm 1::

        low = max(0, lambda_min(A) + t (Z_1 - sqrt(ln(6/delta))))
        Lambda = max(0, t sqrt(p ln(2 p^2/rho)) - low)
        theta = (B + t W_B) (A + t W_A + Lambda I)^-1 / kappa

    With the paper's accountant and add_remove, ``t = sqrt(ln(6/delta))/(eps/3)`` as printed.

    Differs: W_A has variance 1/2 off the diagonal, for the same price.  Eigenvalues of the noisy matrix with
    the ridge are at least t.  Losses other than least squares by their quadratic.  Residuals of the Huber loss
    are clipped at margin 0.

    Attributes
    ----------
    failure : float in (0, 1).  rho, the probability with which the ridge may be too small for the noise.

    References
    ----------
    wang2018, Algorithm 2 (AdaSSP).
    """

    budgeted: ClassVar[bool] = True
    accountant: Accountant = field(default_factory=Wang2018)
    adjacency: Literal["replace_one", "add_remove"] = "replace_one"
    failure: float = 0.05

    def __post_init__(self) -> None:
        require(0 < self.failure < 1, f"failure must be in (0, 1), not {self.failure}")

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        p = _features(facts)
        least = math.sqrt(p * math.log(2 * p * p / self.failure))
        return _plan(self.accountant, self.adjacency, facts, budget, least, eigenvalue=True)

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        assert isinstance(problem, Glm)
        matrix, vector, least = _noisy(problem, plans, how)
        std, wanted, margin = (
            of_works(plans, name, problem.device) for name in ("matrix", "least", "margin")
        )
        low = (least - margin).clamp(min=0)
        return _solved(problem, matrix, vector, (wanted - low).clamp(min=0), std)


@dataclass(frozen=True)
class QuadraticFit:
    """Fit of the quadratic approximation, from one release of noisy sufficient statistics.

    With W standard normal, t the noise multiplier, the rows scaled to norm 1 and ``V diag(e) V^T = A + t W_A``::

        theta = (B + t W_B) V diag(1/max(e, floor t sqrt(2 p))) V^T / kappa

    ``t sqrt(2 p)`` is about the norm of ``t W_A``.  So directions in which the rows are shorter than the noise
    get a public curvature, and the other directions get no ridge.

    Differs: Huggins et al. fit a Chebyshev polynomial on an interval of margins; Kulkarni et al. release its
    statistics with a prior in place of the floor.

    Attributes
    ----------
    floor : float, > 0.  In units of the norm of the noise on A.

    References
    ----------
    huggins2017, section 3; kulkarni2021.
    """

    budgeted: ClassVar[bool] = True
    accountant: Accountant = field(default_factory=Tight)
    adjacency: Literal["replace_one", "add_remove"] = "replace_one"
    floor: float = 0.75

    def __post_init__(self) -> None:
        positive(floor=self.floor)

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        least = self.floor * math.sqrt(2 * _features(facts))
        return _plan(self.accountant, self.adjacency, facts, budget, least, eigenvalue=False)

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        assert isinstance(problem, Glm)
        matrix, vector, least = _noisy(problem, plans, how)
        floor = of_works(plans, "least", problem.device)
        return _solved(problem, matrix, vector, torch.zeros_like(least), floor)


def slope_bound(loss: Loss) -> float:
    """Return the largest ``||phi'(0, y)||`` over the labels of a loss."""
    if loss.classes > 1:
        y = torch.arange(float(loss.classes))
        return float(loss.slope(torch.zeros(loss.classes, len(y)), y).norm(dim=0).max())
    y = torch.tensor([-loss.label_bound, loss.label_bound])
    return float(loss.slope(torch.zeros(2), y).abs().max())


def _features(facts: Facts) -> int:
    """Return p, the length of a row."""
    return facts.d // facts.linear.classes


def _plan(
    accountant: Accountant,
    adjacency: Adjacency,
    facts: Facts,
    budget: Budget,
    least: float,
    eigenvalue: bool,
) -> Plan:
    """Return the plan with the smallest noise; `least` is in units of the noise on the matrix."""
    bound = facts.row_bound
    require(bound < math.inf, "sufficient statistics need a bound on the rows: scale or cut them")
    multiplier, event, noise = 0.0, None, Noise()

    def made(z: float) -> SufficientStatisticsDpEvent:
        return SufficientStatisticsDpEvent(z, z, z if eigenvalue else math.inf)

    if budget.epsilon < math.inf:
        multiplier = calibrate(
            accountant, made, budget, low=SMALLEST, high=LARGEST, adjacency=adjacency, rtol=1e-10
        )
        event, matrix = made(multiplier), multiplier * bound**2
        vector = multiplier * bound * slope_bound(facts.linear)
        noise = Noise(matrix, vector, matrix if eigenvalue else 0.0, least * matrix)
        if eigenvalue:
            noise = noise._replace(margin=matrix * math.sqrt(math.log(6 / budget.delta)))
    guarantee = guaranteed(accountant, event, budget, adjacency, "final", "full", facts.rows)
    violated = list[str]()
    if event is not None and not isinstance(accountant, Tight):
        exact = Tight().epsilon(event, budget.delta, adjacency)
        if exact > (1 + 1e-6) * guarantee.epsilon:
            violated.append(
                f"a Gaussian mechanism needs more noise at this epsilon: the exact price is {exact:.4g}"
            )
    settings = {"noise_std": noise.matrix, "noise_multiplier": multiplier}
    return Plan(guarantee, noise, settings, violated=tuple(violated))


def _noisy(problem: Glm, plans: Sequence[Plan], how: Execution) -> tuple[Tensor, Tensor, Tensor]:
    """Return A ``(S, E, p, p)``, B ``(S, E, K, p)`` and the least eigenvalue of A ``(S, E)``, all noisy."""
    x, p, loss = problem.x.double(), problem.features, problem.loss
    margins = torch.zeros(len(x), *([loss.classes] if loss.classes > 1 else []), problem.n)
    slope = -loss.slope(margins.to(problem.y), problem.y).double().view(len(x), -1, problem.n)
    slope = slope * (slope_bound(loss) / slope.norm(dim=1, keepdim=True)).clamp(max=1.0)
    matrix = x.mT @ x
    exact = matrix.flatten(1), (slope @ x).flatten(1), torch.linalg.eigvalsh(matrix)[:, :1]
    sizes = [part.shape[1] for part in exact]
    normals = random.noise(how.rng, how.seeds, len(plans), sum(sizes), device=problem.device)
    noisy = []
    for name, part, noise in zip(Noise._fields, exact, normals.split(sizes, -1), strict=False):
        if name == "matrix":  # off the diagonal the mean of two
            square = noise.unflatten(-1, (p, p))
            noise = ((square + square.mT) / 2).flatten(-2)
        std = of_works(plans, name, problem.device)
        noisy.append(random.on_grid(part[:, None] + noise * std[:, None], std[:, None]))
    return noisy[0].unflatten(-1, (p, p)), noisy[1].unflatten(-1, (-1, p)), noisy[2][..., 0]


def _solved(problem: Glm, matrix: Tensor, vector: Tensor, ridge: Tensor, floor: Tensor) -> Release:
    """Return ``B (A + Lambda I)^-1 / kappa`` for noisy A and B, ridge ``(S, E)`` and floor ``(E,)``.

    Eigenvalues of A + Lambda I are at least the floor.  Without privacy, those that are 0 up to rounding are
    left out, which gives the shortest solution.
    """
    values, vectors = torch.linalg.eigh(matrix)
    values = torch.maximum(values + ridge[..., None], floor[:, None])
    rounding = values[..., -1:] * values.shape[-1] * torch.finfo(values.dtype).eps
    inverse = torch.where(values > rounding, 1 / values, 0.0)
    theta = (vector @ vectors * inverse[..., None, :]) @ vectors.mT / problem.loss.mean_curvature
    return Release(theta.flatten(2)[:, :, None])
