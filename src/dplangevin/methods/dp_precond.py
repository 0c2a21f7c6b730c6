"""Preconditioned gradient descent on all rows, with a private matrix of second moments, for linear models."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import ClassVar, NamedTuple

import torch
from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent, SelfComposedDpEvent
from torch import Tensor

from dplangevin import random
from dplangevin.checks import positive, require
from dplangevin.methods import Execution, Plan, Release, guaranteed, of_works
from dplangevin.methods.dp_gd import CHOSEN, DpGd
from dplangevin.privacy import Budget, SecondMomentDpEvent
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.problems import DefaultSteps, Facts, Problem, Sums
from dplangevin.problems.chain import Chain
from dplangevin.problems.glm import Glm, linear_facts
from dplangevin.samplers.chains import loop

FLOOR = 1e-6  # times n B^2 is added to every eigenvalue, so that the matrix is regular without noise, too
AT_ONCE = 4096  # rows whose lengths are computed at a time


class Work(NamedTuple):
    """What a plan of `DpPrecond` has to compute.

    - `moment_std`: >= 0. Standard deviation of the noise on the sum of ``x x^T``.
    - `chain`: in the coordinates of `DpPrecond`. Its steps are as long as they are for R^2 = p.
    """

    moment_std: float
    chain: Chain


@dataclass(frozen=True)
class DpPrecond:
    """Release the second moments once with noise, then descend in coordinates in which they are equal.

    With Z a matrix of standard normals and s the noise, ``A = sum_i x_i x_i^T + s (Z + Z^T)/2`` is released
    first.  Let w be its eigenvalues, with 0 for negative ones, and let U be its eigenvectors.  Then::

        lambda = damping s sqrt(2 p) + 1e-6 n B^2
        R^2    = max(1, sum_j w_j/(w_j + lambda))
        W      = sqrt(n)/R U diag(w + lambda)^(-1/2) U^T

    p is the number of features, B the bound on a row, and ``s sqrt(2 p)`` the norm that the noise is expected
    to have.  Then `second` runs in the coordinates u with ``theta = W u``, on the rows ``W x_i``.  Their mean
    square length is about 1.  A gradient ``phi' W x_i`` longer than the clip is cut to it.  In these
    coordinates the curvature is about the same in all directions, so few steps are enough, and the noise is
    shaped like the curvature.  Everything after A is computed from A and from noisy sums.

    Replacing a row moves ``x x^T`` by at most ``sqrt(2) B^2`` in Frobenius norm, and adding one by B^2.

    Differs: dwork2014 adds noise of one variance to all entries.  Here the entries beside the diagonal have
    half of it, because they count twice in the norm.

    Attributes
    ----------
    second : `DpGd`.  The descent; its step is in units of the smoothness beta/R^2 of the mean loss.
    share : float in (0, 1).  Share of mu^2, the squared parameter of Gaussian privacy, for the matrix.
    damping : float, > 0.

    References
    ----------
    dwork2014, Algorithm 1: the matrix.  ganesh2023: few steps of second order.
    """

    budgeted: ClassVar[bool] = True
    second: DpGd = field(default_factory=lambda: DpGd(steps=20, momentum=0.0))
    share: float = 0.1
    damping: float = 0.25

    def __post_init__(self) -> None:
        require(0 < self.share < 1, f"share must be in (0, 1), not {self.share}")
        positive(damping=self.damping)
        require(
            self.second.noise_multiplier is None,
            "noise_multiplier is for dp_gd alone: the budget is shared with the matrix",
        )

    @property
    def accountant(self) -> Accountant:
        return self.second.accountant

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        loss, adjacency, steps = facts.linear, self.second.adjacency, self.second.steps
        features = facts.d // loss.classes
        facts.bounded("dp_precond")
        moment, sigma, event = 0.0, 0.0, None
        if budget.epsilon < math.inf:
            whole = self.second.calibrated(budget)
            moment = whole / math.sqrt(self.share * (2 if adjacency == "replace_one" else 1))
            sigma = whole * math.sqrt(steps / (1 - self.share))
            event = self.event(moment, sigma)
        chain = self.second.chain(
            linear_facts(loss, facts.n, features, 1.0), sigma, loss.smoothness / features
        )
        guarantee = guaranteed(
            self.accountant, event, budget, adjacency, "final", "full", (*CHOSEN, *facts.rows)
        )
        settings = {"noise_multiplier": sigma, "noise_std": float(chain.noise_std[0])}
        return Plan(guarantee, Work(moment * facts.row_bound**2, chain), settings)

    def event(self, moment: float, sigma: float) -> DpEvent:
        """Return the event of noise multipliers > 0 of the matrix and of a step."""
        steps = SelfComposedDpEvent(GaussianDpEvent(sigma), self.second.steps)
        return ComposedDpEvent((SecondMomentDpEvent(moment), steps))

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        assert isinstance(problem, Glm)
        std, chains = of_works(plans, "moment_std", problem.device), [plan.work.chain for plan in plans]
        found = second_moments(problem, std, how.seeds, how.rng)
        turn, size = self.preconditioner(found, std, problem.facts)
        turned = Turned(problem, turn)
        kernel = loop.Descent(chains, problem.n, problem.device)
        longest = self.second.stable(problem.loss.smoothness) * size.to(problem.x.dtype)
        kernel.step_size = kernel.step_size[:, None].minimum(longest[..., None])  # (T, S, E, 1)
        theta = loop.run(
            turned,
            chains,
            how.seeds,
            how.rng,
            kernel=kernel,
            observe=how.observe,
            checkpoint=how.checkpoint,
            drawn_in=how.drawn_in,
        )
        return Release(turned.turned(theta.mean(2))[:, :, None].to(theta.dtype))

    def preconditioner(self, moments: Tensor, std: Tensor, facts: Facts) -> tuple[Tensor, Tensor]:
        """Return the matrix W ``(S, E, p, p)`` and R^2 ``(S, E)``.

        Parameters
        ----------
        moments : Tensor (S, E, p, p).  The released matrix A; symmetric.
        std : Tensor (E,), >= 0.  Standard deviations s of its noise.
        facts : Facts.  The facts of the problem, for n and B.
        """
        values, vectors = torch.linalg.eigh(moments)
        values = values.clamp(min=0)
        ridge = self.damping * std * math.sqrt(2 * moments.shape[-1]) + FLOOR * facts.n * facts.row_bound**2
        raised = values + ridge[:, None]
        size = (values / raised).sum(-1).clamp(min=1)
        scale = (facts.n / (size[..., None] * raised)).sqrt()
        return (vectors * scale[..., None, :]) @ vectors.mT, size


def second_moments(problem: Glm, std: Tensor, seeds: int, rng: torch.Generator) -> Tensor:
    """Return ``sum_i x_i x_i^T`` with noise, ``(S, E, p, p)`` in float64.

    All budgets share Z.

    - `problem`: The private rows.
    - `std`: (E,), >= 0. Standard deviations s of the noise.
    - `seeds`: S.
    - `rng`: The generator of Z.
    """
    p = problem.features
    normals = random.noise(rng, seeds, 1, p, p, device=problem.device)
    std = std[:, None, None]
    return random.on_grid(problem.to(torch.float64).gram[:, None] + std * (normals + normals.mT) / 2, std)


class Turned(DefaultSteps):
    """A linear model in coordinates u with ``theta = W u``, as a problem.

    - `turn`: (S, E, p, p), W; symmetric, in float64. A row may be far shorter in the new coordinates, and float32
      would lose its length.
    - `lengths`: (S, E, n), of the rows ``W x_i``.
    """

    def __init__(self, model: Glm, turn: Tensor) -> None:
        self.model, self.turn, self.y_test = model, turn, model.y_test
        shape = *turn.shape[:2], model.n
        self.lengths = torch.empty(shape, dtype=model.x.dtype, device=model.device)
        for s in range(shape[0]):
            x = model.x[0 if model.shared else s]
            for e, first in product(range(shape[1]), range(0, model.n, AT_ONCE)):  # to save memory
                at = slice(first, first + AT_ONCE)
                self.lengths[s, e, at] = (x[at].double() @ turn[s, e]).norm(dim=-1)

    @property
    def facts(self) -> Facts:
        return self.model.facts

    @property
    def device(self) -> torch.device:
        return self.model.device

    def to(self, device: torch.device) -> "Turned":
        return Turned(self.model.to(device), self.turn.to(device))

    def init(self, seeds: int, rng: torch.Generator) -> Tensor:
        return self.model.init(seeds, rng)

    def clipped_sum(self, theta: Tensor, rows: Tensor, mask: Tensor | None, clip: Tensor | None) -> Sums:
        """Return the sum at u = theta; `rows` are all rows in their order.  See `Problem.clipped_sum`."""
        at = self.turned(theta).to(theta.dtype)
        found = self.model.clipped_sum(at, rows, mask, clip, lengths=self.lengths)
        return Sums(self.turned(found.gradient))

    def turned(self, theta: Tensor) -> Tensor:
        """Return W times the vector of each class, ``(S, E, d)`` in float64."""
        return (theta.double().unflatten(-1, (-1, self.model.features)) @ self.turn).flatten(-2)

    def predict(self, theta: Tensor) -> Tensor:
        return self.model.predict(self.turned(theta).to(theta.dtype))
