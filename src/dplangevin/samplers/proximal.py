"""The proximal sampler: draws whose distance to the posterior is proven, with many features, too."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from dplangevin import random
from dplangevin.checks import require, settings
from dplangevin.problems import Facts
from dplangevin.problems.glm import Glm
from dplangevin.samplers.minimise import majoriser, one_of
from dplangevin.samplers.posterior import Posterior

NEAR = 0.25  # the tangent point is moved until acceptance is at least e^-0.25 times as probable as at the best point


class Walk(NamedTuple):
    """The public numbers of a chain: eta >= 0, 0 for one exact draw; K; and the limit on all proposals together."""

    pull: float
    steps: int
    proposals: int


@dataclass(frozen=True)
class Proximal:
    """Draws from ``exp(-f)`` within a proven total variation distance, by a fixed number of exact steps.

    Here ``f = rho U + m/2 ||theta||^2`` with ``m = precision > 0``, without a ball. A chain starts at 0. A step leaves
    exp(-f) invariant::

        y      ~ N(theta, I/eta)
        theta' ~ exp(-f(theta') - eta/2 ||theta' - y||^2)

    - **Steps.** Two chains with the same noise have the same distance at y as at theta. The second law is (m +
      eta)-strongly log-concave, and y only tilts it. So two chains can be coupled such that a step divides their
      distance by ``1 + m/eta``. One chain starts at a draw from the posterior. Its mean distance from 0 is at most
      ``D = rho n L/m + sqrt(d/m)``: the mode is within the first term of 0, and a draw within the second of the mode.
      After k steps and the noise of one more, the total variation distance is at most ``D (1 + m/eta)^-k sqrt(eta/(2
      pi))``.
    - **Proposals.** theta' is drawn by rejection, as in `posterior.Rejection`. In the Gaussian proposal a tangent of
      rho U replaces rho U. The draw is exact for every tangent point. This point is moved until the gradient of the
      exponent there has norm ``sqrt(2 NEAR (m + eta))`` at most. Then a proposal is accepted with probability at least
      ``e^-NEAR/w``, ``w = det(I + rho beta X^T X/(m + eta))^(r/2)``. beta bounds the Hessian of phi at all margins
      (Boehning 1992), because the draw is elsewhere than the tangent point. r is the rank of that Hessian.
    - **eta** follows from w <= `proposals` > 1 for all rows within their bound.

    Half of `total_variation` is for the coupling. The other half is for a chain that has made ``max(2 K, 8
    log(2/total_variation))`` times `proposals` e^NEAR proposals before its step K: it stops there (Chernoff's bound). A
    draw for which this may be more than `most` is refused. No number of a `Walk` depends on the rows, but the time of a
    draw does. The proof is for exact real numbers; the chains are computed in float64.

    Source: lee2021, for the sampler. chen2022, for its rate in other distances. lin2023, for the same purpose.
    Differs: lin2023 runs a Metropolis-adjusted Langevin algorithm, bounds the Wasserstein-infinity distance of its draw
    and adds noise for it. So its guarantee has no delta. Here delta pays for a total variation.
    """

    total_variation: float = 1e-12
    proposals: float = 8.0
    most: float = 1e7

    def __post_init__(self) -> None:
        settings(self, total_variation="in (0, 1)", most="positive and finite")
        require(self.proposals > 1, f"proposals must be more than 1, not {self.proposals}")

    @property
    def assumption(self) -> str:
        return (
            f"proximal sampler, within total variation {self.total_variation:g} of the posterior in exact "
            "arithmetic, which is charged: delta + (1 + e^epsilon) tv (Wang et al. 2015, Proposition 3)"
        )

    def walk(self, facts: Facts, rho: float, precision: float) -> Walk:
        """Return the numbers of a chain; they depend on public facts alone."""
        # a bound on the trace of the Hessian of rho U
        trace = rho * facts.n * facts.linear.rank * facts.smoothness
        require(
            precision > 0 and facts.lipschitz < math.inf and trace < math.inf,
            "the proximal sampler needs a Gaussian prior, and a loss with bounded gradient and curvature",
        )
        # Of all eigenvalues with this trace, equal ones have the smallest probability of acceptance.
        curvature = trace / (facts.d * math.expm1(2 / facts.d * math.log(self.proposals)))  # m + eta
        pull, steps = max(0.0, curvature - precision), 1
        if pull > 0:
            away = rho * facts.n * facts.lipschitz / precision + math.sqrt(facts.d / precision)
            log_ratio = math.log(2 * away * math.sqrt(pull / (2 * math.pi)) / self.total_variation)
            steps += max(0, math.ceil(log_ratio / math.log1p(precision / pull)))
        accepted = max(2 * steps, 8 * math.log(2 / self.total_variation))
        proposals = math.ceil(self.proposals * math.exp(NEAR) * accepted)
        if proposals > self.most:
            raise ValueError(
                f"the proximal sampler may take {proposals:.3g} proposals in {steps:,} steps for a draw on rows like "
                f"these, more than most = {self.most:.3g}: raise precision, or lower epsilon"
            )
        return Walk(pull, steps, proposals)

    def sample(
        self, problem: Glm, rho: Tensor, precision: Tensor, radius: float, seeds: int, rng: torch.Generator
    ) -> Posterior:
        """Draw once for each seed and budget, ``(1, S, 1, E, d)``; R-hat and ess are nan."""
        if radius < math.inf:
            raise ValueError("the proximal sampler needs a Gaussian prior, no ball")
        walks = [self.walk(problem.facts, *of) for of in zip(rho.tolist(), precision.tolist(), strict=True)]
        exact, budgets = problem.to(torch.float64), len(rho)
        chains = seeds if problem.shared else 1  # for each budget, one chain for each seed of a data set
        weight, prior = (of.double().to(problem.device).repeat(chains) for of in (rho, precision))
        draws = torch.cat(
            [
                walked(one_of(exact, r), weight, prior, walks * chains, rng).view(chains, budgets, problem.d)
                for r in range(seeds // chains)
            ]
        )
        return Posterior.of(draws[None, :, None].to(problem.x.dtype), problem.shared)


def walked(problem: Glm, weight: Tensor, prior: Tensor, walks: list[Walk], rng: torch.Generator) -> Tensor:  # noqa: PLR0914
    """Return where the chains of one data set end, ``(chains, d)``, for rho and precision ``(chains,)``.

    Each round computes rho U and its gradient once, at one point of each chain, a tangent point or a proposal.  A
    tangent point that is not near enough is moved by a step of the quadratic majoriser of the loss, which converges
    on all rows.
    """
    pull, steps, most = weight.new_tensor(walks).T
    curvature = prior + pull
    metric = majoriser(problem, (curvature / weight)[:, None])
    every = torch.arange(len(walks), device=weight.device)
    spread = torch.where(pull > 0, pull.rsqrt(), 0.0)  # no noise where one step is an exact draw

    def normals(scale: Tensor) -> Tensor:
        drawn = random.noise(rng, len(walks), problem.d, device=weight.device)
        return drawn * scale[:, None]

    theta = weight.new_zeros(len(walks), problem.d)
    y, point = normals(spread), theta.clone()
    touch, lean, centre = theta.clone(), theta.clone(), theta.clone()  # tangent point, gradient there, mean
    low, value, slope = weight.clone(), weight.clone(), theta.clone()
    tangent, taken, made = torch.ones_like(every, dtype=torch.bool), 0 * every, 0 * every
    while bool((live := (made < steps) & (taken < most)).any()):
        found, gradient = problem.value_and_grad(point[None, live])
        value[live], slope[live] = found[0] * weight[live], gradient[0] * weight[live, None]
        taken = taken + (live & ~tangent)
        gap = value - low - ((point - touch) * lean).sum(-1)  # of rho U to its tangent, at least 0
        accepted = live & ~tangent & (random.uniform(rng, len(walks)).to(gap.device).log() < -gap)
        made = made + accepted
        theta = torch.where(accepted[:, None], point, theta)
        y = torch.where(accepted[:, None], point + normals(spread), y)
        rest = slope + prior[:, None] * point + pull[:, None] * (point - y)
        far = accepted | (tangent & (rest.square().sum(-1) > 2 * NEAR * curvature))
        new = (tangent & ~far)[:, None]
        touch, lean = torch.where(new, point, touch), torch.where(new, slope, lean)
        low = torch.where(new[:, 0], value, low)
        centre = torch.where(new, point - rest / curvature[:, None], centre)
        moved = point - metric((rest / weight[:, None])[None], every)[0]
        point = torch.where(far[:, None], moved, centre + normals(curvature.rsqrt()))
        tangent = far
    return theta
