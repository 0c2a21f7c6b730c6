"""Newton's method with noise on the gradient and on the direction (Ganesh, Haghifam, Steinke and Thakurta 2023)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch
from dp_accounting import ComposedDpEvent, GaussianDpEvent, SelfComposedDpEvent
from torch import Tensor

from dplangevin import random
from dplangevin.checks import require
from dplangevin.methods import Execution, Plan, Release, guaranteed, of_works
from dplangevin.methods.dp_gd import CHOSEN, DpGd
from dplangevin.privacy import Budget, HalfReplacedDpEvent
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.problems import Facts, Problem
from dplangevin.problems.chain import Chain, State
from dplangevin.problems.glm import Glm
from dplangevin.samplers.chains import loop
from dplangevin.samplers.minimise import cholesky

FLOOR = 1e-4  # of the smoothness of one record's loss: lambda without noise


class Work(NamedTuple):
    """What a plan of `DpNewton` has to compute.

    - `direction_std`: >= 0. s, the noise on the direction for a gradient of norm 1.
    - `chain`: Chain, of steps 1/lambda.
    """

    direction_std: float
    chain: Chain


@dataclass(frozen=True)
class DpNewton:
    """Newton's method with two noisy releases in each step, whose release is a mean of the last iterates.

    One step is, for H the Hessian of the mean loss::

        g     <- (sum_i clipped(g_i) + N(0, (sigma C)^2 I))/n
        theta <- theta - (H + lambda I)^(-1) g - s ||g|| N(0, I)

    Given g, one record moves the direction by at most ``a/(lambda (lambda + a)) ||g||``, with a = beta/n and
    beta the smoothness of one record's loss.  Proof: let A >= lambda I be H + lambda I without the record,
    and let 0 <= D <= a I be its part.  Then ``A^-1 - (A + D)^-1 = A^(-1/2) (I - (I + E)^-1) A^(-1/2)`` with
    ``0 <= E = A^(-1/2) D A^(-1/2) <= a/lambda I``.  So it is at least 0, and at most ``a/(lambda + a) A^-1``.
    Replacing a record subtracts one such matrix and adds another, and the difference of two matrices between
    0 and c I has norm at most c.  So replacing moves the direction no further than adding.

    lambda follows from public facts.  It is the larger of 1/eta, with eta the step of `second` for this
    noise, and of the number for which the noise on the directions moves a margin as little.

    Differs: the paper's sensitivity is for the logistic loss and for adding or removing a record.
    Differs: lambda is fixed beforehand.  Of the paper's variants only the Hessian with lambda I added is here.

    Attributes
    ----------
    second : `DpGd` without momentum.  Its settings of steps, clip, margin noise and mean.
    share : float in (0, 1).  Share of mu^2, the squared parameter of Gaussian privacy, for the directions.

    References
    ----------
    ganesh2023, Algorithm 3.
    """

    budgeted: ClassVar[bool] = True
    second: DpGd = field(default_factory=lambda: DpGd(steps=40, momentum=0.0, margin_noise=2.0))
    share: float = 0.3

    def __post_init__(self) -> None:
        require(0 < self.share < 1, f"share must be in (0, 1), not {self.share}")
        require(self.second.momentum == 0, "dp_newton has no momentum: set second.momentum to 0")
        require(
            self.second.noise_multiplier is None,
            "noise_multiplier is for dp_gd alone: the budget is shared with the directions",
        )

    @property
    def accountant(self) -> Accountant:
        return self.second.accountant

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        loss, steps = facts.linear, self.second.steps
        facts.bounded("dp_newton")
        require(
            not loss.kinked,
            f"dp_newton may diverge on the {loss.name} loss, whose curvature has jumps: use dp_precond",
        )
        sigma, multiplier, event = 0.0, 0.0, None
        if budget.epsilon < math.inf:
            whole = self.second.calibrated(budget)
            sigma = whole * math.sqrt(steps / (1 - self.share))
            multiplier = whole * math.sqrt(steps / self.share)
            multiplier /= 2 if self.second.adjacency == "replace_one" else 1
            event = ComposedDpEvent(
                (
                    SelfComposedDpEvent(GaussianDpEvent(sigma), steps),
                    SelfComposedDpEvent(HalfReplacedDpEvent(multiplier), steps),
                )
            )
        chain = self.second.chain(facts, sigma, FLOOR * facts.smoothness)
        moved, reach = facts.smoothness / facts.n, self.second.margin_noise * loss.lipschitz / loss.smoothness
        # sqrt(T) s ||g|| B <= reach for ||g|| = C, with a/lambda^2 for a/(lambda (lambda + a))
        square = math.sqrt(steps) * multiplier * moved * chain.clip * facts.row_bound / reach
        ridge = max(1 / float(chain.step[0]), math.sqrt(square))
        chain = chain._replace(step=torch.full_like(chain.step, 1 / ridge))
        guarantee = guaranteed(
            self.accountant, event, budget, self.second.adjacency, "final", "full", (*CHOSEN, *facts.rows)
        )
        settings = {"noise_multiplier": sigma, "noise_std": float(chain.noise_std[0])}
        return Plan(guarantee, Work(multiplier * moved / (ridge * (ridge + moved)), chain), settings)

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        assert isinstance(problem, Glm)
        chains, std = [plan.work.chain for plan in plans], of_works(plans, "direction_std", problem.device)
        theta = loop.run(
            problem,
            chains,
            how.seeds,
            how.rng,
            kernel=_Newton(problem, chains, std, how.rng),
            observe=how.observe,
            checkpoint=how.checkpoint,
            drawn_in=how.drawn_in,
        )
        return Release(theta.mean(2, keepdim=True))


class _Newton:
    """The update as a kernel.  It reads the rows, for the Hessian, and the event counts that."""

    def __init__(self, problem: Glm, chains: Sequence[Chain], std: Tensor, rng: torch.Generator) -> None:
        self.problem, self.std, self.rng = problem.to(torch.float64), std[:, None], rng
        self.ridge = 1 / loop.schedules(chains, "step", problem.device).double()

    def init(self, theta: Tensor, rng: torch.Generator) -> State:
        return (theta,)

    def step(self, state: Any, noisy: Tensor, t: int, batch: random.Batch) -> State:
        (theta,) = state
        gradient = (noisy / self.problem.n).double()
        hessian = self.hessian(theta) / self.problem.n
        hessian.diagonal(dim1=-2, dim2=-1).add_(self.ridge[t])
        direction = torch.cholesky_solve(gradient[..., None], cholesky(hessian))[..., 0]
        normals = random.noise(self.rng, len(theta), 1, theta.shape[-1], device=theta.device)
        std = self.std * gradient.norm(dim=-1, keepdim=True)
        direction = random.on_grid(direction + std * normals, std)
        return ((theta - direction).to(theta.dtype),)

    def hessian(self, theta: Tensor) -> Tensor:
        """Return the Hessian of the summed loss in float64, see `engine.long_sums`."""
        return self.problem.hessian(theta.double())
