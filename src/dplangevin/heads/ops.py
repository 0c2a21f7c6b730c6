"""One posterior sample (Wang, Fienberg and Smola 2015) of softmax regression with a Gaussian prior."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from dp_accounting import GaussianDpEvent
from torch import Tensor
from tqdm import trange

from dplangevin.checks import positive, require
from dplangevin.diagnostics import least_draws, mixing
from dplangevin.heads import Priced, Setting, Trained
from dplangevin.heads.softmax import estimated
from dplangevin.kernels.hmc import HmcState, reflective_hmc
from dplangevin.minimise import minimise
from dplangevin.posterior import R_HAT, Sampler
from dplangevin.privacy.accountants.analytic_gaussian import mu_for
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problem import Problem


@dataclass(frozen=True)
class Ops:
    r"""One draw from ``exp(-rho U(theta) - precision/2 ||theta||^2)``.

    mu-GDP with ``mu = 2 rho L/sqrt(precision)`` (Gopi, Lee and Liu 2022, Theorem 4); rho <= 1 follows from epsilon.  By
    HMC in coordinates in which the posterior's Hessian at its mode is about I, started at the Gaussian that says:
    `draws` draws of about `leapfrogs` steps after `warmup` ones that tune the step size.  The seeds are the chains; the
    last draw of each is its answer.  A row says so where split R-hat was not below 1.05 on all coordinates.
    """

    name: ClassVar[str] = "ops"
    schedule: ClassVar[str] = ""
    calibration: ClassVar[str] = "tight"
    precision: float
    warmup: int = 30
    draws: int = 100
    leapfrogs: int = 6
    target: float = 0.8

    def __post_init__(self) -> None:
        positive(precision=self.precision, warmup=self.warmup, draws=self.draws, leapfrogs=self.leapfrogs)

    def stream(self, setting: Setting) -> str:
        return f"ops by {self.warmup} and {self.draws} draws of {self.leapfrogs} leapfrogs"

    def price(self, setting: Setting, epsilon: float, rng: torch.Generator) -> Priced:
        require(setting.row_bound < math.inf, "ops needs bounded rows: set row_norm")
        width = math.sqrt(self.precision) / setting.lipschitz
        rho = 1.0 if epsilon == math.inf else min(1.0, mu_for(epsilon, setting.delta) * width / 2)
        event = GaussianDpEvent(width / rho)
        tight = Tight().price(event, setting.delta)
        ridge = self.precision / rho / setting.records
        return {
            "noise": rho,
            "epsilon_tight": tight.epsilon,
            "accountant_tight": tight.accountant,
            "adjacency_tight": "replace_one",
            "precision": ridge,
            "beta": setting.beta(ridge),
            "clip": setting.lipschitz,
            "noise_multiplier": event.noise_multiplier,
            "violated": "",
            "assumptions": f"number of records public; {Sampler.assumption}; prior chosen without accounting",
        }

    @staticmethod
    def trained(
        problem: Problem, setting: Setting, runs: Sequence[tuple[Any, Priced]], rng: torch.Generator
    ) -> Trained:
        first = runs[0][0]
        rho = torch.tensor([found["noise"] for _, found in runs])
        prior = torch.tensor([method.precision for method, _ in runs])
        mode, inverse = laplace(problem, rho, prior)

        def potential(z: Tensor) -> tuple[Tensor, Tensor]:
            theta = _outward(z, mode, inverse)
            value, gradient = problem.value_and_grad(theta)
            value = value * rho + 0.5 * prior * theta.square().sum(-1)
            gradient = gradient * rho[:, None] + prior[:, None] * theta
            return value, torch.einsum("red,efd->ref", gradient, inverse)

        shape = problem.repeats, len(runs), problem.d
        kernel = reflective_hmc(potential, torch.ones(shape[1:]), math.inf)
        state = kernel.init(torch.randn(shape, generator=rng))
        log_step, draws = torch.full((len(runs),), math.log(0.25)), []
        for i in trange(first.warmup + first.draws, desc="HMC", unit="draw", leave=False, disable=None):
            state = _moved(kernel.step, state, log_step.exp(), first.leapfrogs, rng)
            if i < first.warmup:
                log_step = log_step + 2 / (i + 5) ** 0.6 * (state.accepted.mean(0) - first.target)
            else:
                draws.append(_outward(state.theta, mode, inverse))
        return Trained(draws[-1], unmixed(torch.stack(draws)))


def laplace(problem: Problem, rho: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
    """Mode of each posterior, ``(1, E, d)``, and the inverse ``(E, d, d)`` of its Hessian's lower Cholesky factor."""
    single = estimated(replace(problem, repeats=1))
    ridges = (prior / rho).double()
    start = torch.zeros(1, len(ridges), problem.d, dtype=torch.float64)
    mode = minimise(single, ridges, start, tolerance=1e-5).theta.float()
    hessian = single.hessian(mode)[0] * rho[:, None, None]
    hessian.diagonal(dim1=-2, dim2=-1).add_(prior[:, None])
    factor = torch.linalg.cholesky(hessian)
    unit = torch.eye(problem.d).expand_as(factor)
    return mode, torch.linalg.solve_triangular(factor, unit, upper=False)


def unmixed(draws: Tensor) -> list[str]:
    """A note for each run whose chains, ``(draws, R, E, d)``, have not mixed."""
    if len(draws) < least_draws(draws.shape[1]):
        return ["too few draws for R-hat"] * draws.shape[2]
    worst = mixing(draws[:, None]).r_hat[0].tolist()
    return ["" if value < R_HAT else f"R-hat {value:.3f} >= {R_HAT}" for value in worst]


def _outward(z: Tensor, mode: Tensor, inverse: Tensor) -> Tensor:
    """theta of the sampler's coordinates, ``(R, E, d)``."""
    return mode + torch.einsum("red,edf->ref", z, inverse)


def _moved(step: Any, state: HmcState, size: Tensor, leapfrogs: int, rng: torch.Generator) -> HmcState:
    """A transition of random length, its noise shared by all runs."""
    jitter = 0.8 + 0.4 * float(torch.rand(1, generator=rng))
    count = int(torch.randint(max(1, leapfrogs // 2), leapfrogs + leapfrogs // 2 + 1, (1,), generator=rng))
    shape = state.theta.shape
    momentum = torch.randn(shape[0], 1, shape[2], generator=rng).expand(shape)
    uniform = torch.rand(shape[0], 1, generator=rng).expand(shape[:2])
    moved: HmcState = step(state, momentum, uniform, size * jitter, count)
    return moved
