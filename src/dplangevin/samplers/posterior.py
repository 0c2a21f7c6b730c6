"""Samplers of posteriors: Hamiltonian Monte Carlo (HMC), or exact rejection, with all seeds and budgets batched."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

from dplangevin import random
from dplangevin.checks import count, settings
from dplangevin.problems.glm import Glm
from dplangevin.samplers.diagnostics import Mixing, mixing
from dplangevin.samplers.kernels import Dynamics
from dplangevin.samplers.kernels.hmc import HmcState, Potential, hmc, sphere_hmc, through
from dplangevin.samplers.minimise import (
    cholesky,
    descend,
    estimated,
    newton,
    one_of,
    private_minimum,
    reachable,
)

START = 2.0**-12  # over the row bound: chains start near a multiple of it
SETTLED = 1e-13  # times the row bound: L-BFGS stops at this gradient norm/n
MODE = 500  # limit on L-BFGS steps to a mode that only tunes a sampler
WALK = 60  # limit on L-BFGS steps along the ridge path; 5 to 20 are enough where L-BFGS suits the rows
R_HAT = 1.05  # chains whose split R-hat is below this count as converged


class Posterior(NamedTuple):
    """Draws ``(draws, S, chains, E, d)`` and mixing ``(groups, E)``; seeds that share one data set are one group."""

    draws: Tensor
    mixing: Mixing

    @classmethod
    def of(cls, draws: Tensor, shared: bool) -> Posterior:
        return cls(draws, mixing(draws.flatten(1, 2)[:, None] if shared else draws))


class Centre(NamedTuple):
    """The start of the chains, in float64; S' is 1 if all seeds share one data set, else S.

    - `theta`: (S', E, d), mode of the posterior.
    - `hessian`: (S', E, d, d), of U at the mode.
    - `multiplier`: (S', E), Lagrange multiplier of the ball.
    """

    theta: Tensor
    hessian: Tensor
    multiplier: Tensor


@dataclass(frozen=True)
class Sampler:
    """HMC for ``exp(-rho U(theta) - precision/2 ||theta||^2)`` on the ball ``||theta|| <= radius``, inf for none.

    Draws come in blocks of `block` after `warmup`, until the worst split R-hat is below 1.05 or `max_draws` is reached.
    R-hat bounds neither the total variation distance nor the largest log-ratio.

    - `chains`: per seed if each seed has its own data set; else in total, and at least one per seed.
    - `leapfrogs`: mean number of leapfrog steps in a trajectory.
    - `target`: acceptance probability that warm-up tunes for, with one step size for each budget.
    """

    total_variation: ClassVar[float] = 0.0  # the distance to the posterior that is charged to the budget
    assumption: ClassVar[str] = (
        "the promise is that of an exact posterior sample; how far the HMC that is run is from it is not bounded, and "
        "R-hat does not bound it"
    )

    chains: int = 4
    warmup: int = 150
    block: int = 150
    max_draws: int = 1500
    leapfrogs: int = 3
    target: float = 0.8

    def __post_init__(self) -> None:
        count(1, chains=self.chains, warmup=self.warmup, block=self.block)
        count(1, max_draws=self.max_draws, leapfrogs=self.leapfrogs)

    def sample(
        self, problem: Glm, rho: Tensor, precision: Tensor, radius: float, seeds: int, rng: torch.Generator
    ) -> Posterior:
        """Draw from the posteriors of all seeds and budgets; rho > 0 and precision >= 0 are ``(E,)``."""
        chains = max(1, math.ceil(self.chains / seeds)) if problem.shared else self.chains
        exact, rho, precision = problem.to(torch.float64), rho.double(), precision.double()
        centre = find_centre(exact, rho, precision, radius)
        weights, precisions = rho.repeat(chains), precision.repeat(chains)  # (C E,): chain-major

        def potential(theta: Tensor) -> tuple[Tensor, Tensor]:
            value, grad = exact.value_and_grad(theta)
            value = value * weights + 0.5 * precisions * theta.square().sum(-1)
            return value, grad * weights[:, None] + precisions[:, None] * theta

        kernel, start = self._kernel(potential, centre, rho, precision, radius, chains, seeds, rng)
        # points on the sphere are in units of the radius
        scale = 1.0 if start.shape[-1] == problem.d else radius
        log_step = start.new_full((len(rho),), math.log(0.3))
        bounds = 1, 2 * self.leapfrogs - 1
        states = hmc_states(kernel, start, log_step, self.target, self.warmup, bounds, rng)
        draws: list[Tensor] = []
        while True:
            for state in islice(states, self.block):
                theta = state.theta[..., : problem.d] * scale
                draws.append(theta.view(seeds, chains, len(rho), problem.d).to(problem.x.dtype))
            found = Posterior.of(torch.stack(draws), problem.shared)
            if float(found.mixing.r_hat.max()) < R_HAT or len(draws) >= self.max_draws:
                return found

    def _kernel(
        self,
        potential: Potential,
        centre: Centre,
        rho: Tensor,
        precision: Tensor,
        radius: float,
        chains: int,
        seeds: int,
        rng: torch.Generator,
    ) -> tuple[Dynamics, Tensor]:
        """Return the kernel and starting points, spread twice as widely as the posterior's Gaussian approximation."""
        d, device = centre.theta.shape[-1], centre.theta.device
        ball = 0.0 if radius == math.inf else (d + 2) / radius**2
        normals = random.noise(rng, seeds, chains * len(rho), d, device=device)
        start = centre.theta.repeat(1, chains, 1)
        if radius == math.inf:
            root = _inverse_root(rho[:, None, None] * centre.hessian, precision + ball)
            return hmc(potential, root), start + 2 * through(root, normals)
        extra = rho * centre.multiplier  # (S', E)
        root = F.pad(
            _inverse_root(rho[:, None, None] * centre.hessian, precision + extra + ball), (0, 2, 0, 2)
        )
        root[..., d:, d:] = (extra + ball).rsqrt()[..., None, None] * torch.eye(2, device=device)
        root = root / radius
        normals = torch.cat([normals, random.noise(rng, *normals.shape[:2], 2, device=device)], -1)
        points = F.pad(start / radius, (0, 2)) + 2 * through(root, normals)
        points = points / points.norm(dim=-1, keepdim=True)
        return sphere_hmc(potential, root, radius), points


def hmc_states(
    kernel: Dynamics,
    start: Tensor,
    log_step: Tensor,
    target: float,
    warmup: int,
    leapfrogs: tuple[int, int],
    rng: torch.Generator,
) -> Iterator[HmcState]:
    """Yield the states after a warm-up that tunes a step size for each budget, log_step ``(E,)``, to `target`.

    Each trajectory has a number of leapfrog steps that is uniform between both bounds.
    """
    state, fewest, chains = kernel.init(start), leapfrogs[0], start.shape[1] // len(log_step)
    for i in tqdm(itertools.count(), desc="HMC", unit="draw", leave=False, disable=None):
        jitter = 0.8 + 0.4 * float(random.uniforms(rng, 1))
        steps = fewest + int(random.integers(rng, leapfrogs[1] + 1 - fewest, 1))
        momentum = random.noise(rng, *start.shape, device=start.device)
        uniform = random.uniforms(rng, *start.shape[:2], device=start.device)
        state = kernel.step(state, momentum, uniform, (log_step.exp() * jitter).repeat(chains), steps)
        if i >= warmup:
            yield state
            continue
        accepted = state.accepted.view(len(start), chains, -1).mean((0, 1))
        log_step = log_step + 2 / (i + 5) ** 0.6 * (accepted - target)


def _inverse_root(hessian: Tensor, ridge: Tensor) -> Tensor:
    """Return the symmetric ``(Hessian + ridge I)^(-1/2)`` of ``(S', E, d, d)`` and ``(E,)`` or ``(S', E)``.

    Rounding turns the eigenvectors of close eigenvalues.  The root does not depend on the basis of their space.
    """
    values, vectors = torch.linalg.eigh(hessian)
    return (vectors * (values.clamp(min=0) + ridge[..., None]).rsqrt()[..., None, :]) @ vectors.mT


@dataclass(frozen=True)
class Rejection:
    """Rejection sampling of ``exp(-f)`` without a ball, exact up to a small total variation distance.

    Here ``f = rho U + precision/2 ||theta||^2`` is precision-strongly convex. With its gradient r at any point theta*,
    f is at least the tangent paraboloid ``f(theta*) - ||r||^2/(2 precision) + precision/2 ||theta - c||^2``, with ``c =
    theta* - r/precision``. A proposal from ``N(c, I/precision)`` is accepted with probability exp(paraboloid - f) <= 1.

    theta* is the minimiser, up to rounding. There f(theta) is at most f(theta*) plus half the quadratic form of ``rho
    beta X^T X + precision I``, where beta is the smoothness of the loss in the margin. So a proposal is accepted with
    probability at least 1/w, ``w = det(I + rho beta X^T X/precision)^(1/2)``. After ``w log(1/total_variation)``
    rejected proposals, with probability at most `total_variation` in (0, 1), theta* is returned.

    The sampler is for losses of one margin, and for few features, few records or a strong prior. `sample` refuses a
    draw that may take more than `most` proposals. `batch` proposals are computed together.
    """

    total_variation: float = 1e-9
    most: float = 1e8
    batch: int = 1024

    def __post_init__(self) -> None:
        settings(self, total_variation="in (0, 1)")

    @property
    def assumption(self) -> str:
        return (
            f"rejection sampling, within total variation {self.total_variation:g} of the posterior, which is charged: "
            "delta + (1 + e^epsilon) tv (Wang et al. 2015, Proposition 3)"
        )

    def proposals(self, problem: Glm, rho: Tensor, precision: Tensor) -> Tensor:
        """Return the largest number of proposals for a draw, ``w log(1/total_variation)``, ``(E,)``.

        It holds for all rows within their bound and reads none, because a limit that depended on them would reveal
        something of them.  The trace of X^T X is at most n row_bound^2, so w is largest for d equal eigenvalues.
        """
        each = problem.n * problem.row_bound**2 / problem.d
        scale = rho.double() * problem.loss.smoothness / precision.double()
        return (0.5 * problem.d * torch.log1p(scale * each)).exp() * -math.log(self.total_variation)

    def sample(
        self, problem: Glm, rho: Tensor, precision: Tensor, radius: float, seeds: int, rng: torch.Generator
    ) -> Posterior:
        """Draw once for each seed and budget, ``(1, S, 1, E, d)``, from a loss of one margin; R-hat and ess are nan."""
        if radius < math.inf or problem.classes > 1 or not bool((precision > 0).all()):
            raise ValueError("rejection sampling needs a Gaussian prior, no ball, and a loss of one margin")
        limits = self.proposals(problem, rho, precision)
        if float(limits.max()) > self.most:
            raise ValueError(
                f"rejection sampling may take {float(limits.max()):.3g} proposals for a draw on rows like these, more "
                f"than most = {self.most:.3g}: raise precision, lower epsilon, or sample by HMC (posterior.Sampler)"
            )
        exact, budgets = problem.to(torch.float64), len(rho)
        ridge = precision.double() / rho.double()
        bound = exact.x.new_tensor([reachable(problem.facts, float(each), 0.0) for each in ridge])
        mode = private_minimum(exact, ridge, exact.x.new_zeros(seeds, budgets, problem.d), bound)
        draws = mode.clone()
        for r in range(seeds):
            one = one_of(exact, r)
            for e in range(budgets):
                numbers = float(rho[e]), float(precision[e]), math.ceil(float(limits[e]))
                draws[r, e] = self._draw(one, mode[r, e], *numbers, rng)
        return Posterior.of(draws[None, :, None].to(problem.x.dtype), problem.shared)

    def _draw(
        self, one: Glm, mode: Tensor, weight: float, prior: float, left: int, rng: torch.Generator
    ) -> Tensor:
        """Return the first accepted of `left` proposals, or theta* = `mode` ``(d,)``."""
        few = min(self.batch, math.ceil(-2 * left / math.log(self.total_variation)))  # 2 w
        low, slope = one.value_and_grad(mode[None, None])
        rest = weight * slope[0, 0] + prior * mode
        while left > 0:
            away = random.noise(rng, 1, min(few, left), len(mode), device=mode.device) / math.sqrt(prior)
            theta = mode - rest / prior + away
            value, _ = one.value_and_grad(theta)
            squares = theta.square().sum(-1) - mode.square().sum() - away.square().sum(-1)
            log_accept = weight * (low - value) - 0.5 * prior * squares - rest.square().sum() / (2 * prior)
            uniform = random.uniform(rng, theta.shape[1]).to(theta.device)
            accepted = torch.nonzero(uniform.log() < log_accept[0])
            if len(accepted):
                return theta[0, int(accepted[0])]
            left -= theta.shape[1]
        return mode


@dataclass(frozen=True)
class Whitened:
    """HMC for ``exp(-rho U(theta) - precision/2 ||theta||^2)`` in whitened coordinates, precision > 0, without a ball.

    In these coordinates the posterior's Hessian at its mode is about I.  Chains start at draws from the Gaussian
    with that mode and that Hessian.  The seeds share one data set and are the chains.
    """

    total_variation: ClassVar[float] = 0.0
    assumption: ClassVar[str] = Sampler.assumption
    warmup: int = 30
    draws: int = 100
    leapfrogs: int = 6
    target: float = 0.8

    def __post_init__(self) -> None:
        count(1, warmup=self.warmup, draws=self.draws, leapfrogs=self.leapfrogs)

    def sample(
        self, problem: Glm, rho: Tensor, precision: Tensor, radius: float, seeds: int, rng: torch.Generator
    ) -> Posterior:
        """Draw from the posteriors, ``(draws, S, 1, E, d)``."""
        if radius < math.inf or not problem.shared or not bool((precision > 0).all()):
            raise ValueError("whitened HMC needs a Gaussian prior, no ball, and rows that all seeds share")
        exact, rho, precision = problem.to(torch.float64), rho.double(), precision.double()
        mode, inverse = laplace(exact, rho, precision)

        def outward(z: Tensor) -> Tensor:
            return mode + torch.einsum("red,edf->ref", z, inverse)

        def potential(z: Tensor) -> tuple[Tensor, Tensor]:
            theta = outward(z)
            value, gradient = exact.value_and_grad(theta)
            value = value * rho + 0.5 * precision * theta.square().sum(-1)
            gradient = gradient * rho[:, None] + precision[:, None] * theta
            return value, torch.einsum("red,efd->ref", gradient, inverse)

        shape = seeds, len(rho), problem.d
        device = problem.device
        unit = torch.eye(problem.d, dtype=torch.float64, device=device)
        kernel = hmc(potential, unit.expand(1, len(rho), -1, -1))
        start = random.noise(rng, *shape, device=device)
        log_step = torch.full((len(rho),), math.log(0.25), device=device)
        bounds = max(1, self.leapfrogs // 2), self.leapfrogs + self.leapfrogs // 2
        states = hmc_states(kernel, start, log_step, self.target, self.warmup, bounds, rng)
        draws = [outward(state.theta).to(problem.x.dtype) for state in islice(states, self.draws)]
        return Posterior.of(torch.stack(draws)[:, :, None], shared=True)


def laplace(problem: Glm, rho: Tensor, precision: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mode ``(1, E, d)`` and the inverse lower Cholesky factor of the Hessian ``(E, d, d)``."""
    single = estimated(problem)
    start = torch.zeros(1, len(rho), problem.d, dtype=torch.float64, device=problem.device)
    mode = descend(single, precision / rho, start, SETTLED * problem.row_bound, MODE).theta
    hessian = single.hessian(mode)[0] * rho[:, None, None]
    hessian.diagonal(dim1=-2, dim2=-1).add_(precision[:, None])
    factor = cholesky(hessian)
    unit = torch.eye(problem.d, dtype=factor.dtype, device=factor.device).expand_as(factor)
    return mode, torch.linalg.solve_triangular(factor, unit, upper=False)


def find_centre(problem: Glm, rho: Tensor, precision: Tensor, radius: float) -> Centre:
    """Find the mode of the posterior in the ball, for each budget, and the curvature of U there.

    The mode is on the path ``theta(r) = argmin U + r/2 ||theta||^2``: at ``r = precision/rho`` if that point is
    inside the ball, else where the path meets its surface, and the excess of r over precision/rho is the Lagrange
    multiplier.  A logarithmic grid of r is exact enough, because the result only tunes the sampler.
    """
    ridges = (
        problem.n * problem.row_bound**2 * torch.logspace(-8, 1, 37, dtype=torch.float64).to(problem.device)
    )
    wanted = (precision / rho)[None, :, None]  # (1, E, 1)
    path = _ridge_path(problem, ridges, float(wanted.min()) * (1 - 1e-6), radius)
    inside = path.norm(dim=-1) <= 0.97 * radius  # (S', ridges)
    allowed = inside[:, None] & (ridges >= wanted * (1 - 1e-6))
    index = torch.where(allowed.any(-1), allowed.int().argmax(-1), len(ridges) - 1)  # (S', E)
    theta = path.gather(1, index[..., None].expand(-1, -1, problem.d))
    multiplier = (ridges[index] - wanted[..., 0]).clamp(min=0)
    # two Newton steps with one Hessian and a grid, because the descent stops at a gradient that rounding moves
    ridge = (wanted[..., 0] + multiplier)[..., None]
    factor = cholesky(problem.hessian(theta) + torch.diag_embed(ridge.expand_as(theta)))
    for _ in range(2):
        slope = problem.grad(theta) + ridge * theta
        theta = theta - torch.cholesky_solve(slope[..., None], factor)[..., 0]
    grid = START / 2.0 ** round(math.log2(problem.row_bound))
    theta = (theta / grid).round() * grid
    return Centre(theta, problem.hessian(theta), multiplier)


def _ridge_path(problem: Glm, ridges: Tensor, least: float, radius: float) -> Tensor:
    """Return ``theta(r)`` on an increasing grid of r, ``(S', ridges, d)``; inf where no budget needs it.

    Where L-BFGS on the whole grid fails, as on rows that a hyperplane separates, Newton's method starts from the
    minimum at the next larger r.  The path ends at r = `least`, or outside the ball: ``||theta(r)||`` grows as r falls.
    """
    tolerance = 1e-6 * problem.row_bound
    linear = torch.zeros(len(problem.x), len(ridges), problem.d, dtype=torch.float64, device=problem.device)
    path, norm, _ = descend(problem, ridges, linear, tolerance, WALK)
    # from the largest ridge of each data set down
    for r, e in (~(norm < tolerance)).nonzero().flip(0).tolist():
        last = path[r, e + 1] if e + 1 < len(ridges) else linear[r, e]
        if float(ridges[e]) < least or float(last.norm()) > radius:
            path[r, e] = math.inf
            continue
        # the mode only tunes the sampler, so a point near it is enough, and a miss raises no error
        path[r, e], _, _ = newton(one_of(problem, r), float(ridges[e]), linear[r, e], last, tolerance)
    return path
