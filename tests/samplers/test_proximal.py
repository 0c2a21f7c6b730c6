"""The proximal sampler: the law of each step, the proven distance, and what an attack shows of a draw."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm
from torch import Tensor

from dplangevin import random
from dplangevin.methods.ops import Ops
from dplangevin.privacy import Budget
from dplangevin.problems import Facts
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC, SQUARED, softmax
from dplangevin.samplers.proximal import Proximal, Walk, walked

X = torch.tensor([[0.6, 0.8], [1.0, 0.0], [0.0, -1.0]], dtype=torch.float64)
Y = torch.tensor([1.0, -0.5, 0.25], dtype=torch.float64)
RHO, PRECISION = 2.0, 0.5


def after(steps: int, pull: float) -> tuple[Tensor, Tensor]:
    """The mean and the covariance of a chain from 0 on least squares, step by step."""
    one = torch.eye(2, dtype=torch.float64)
    inverse = torch.linalg.inv(RHO * X.T @ X + (PRECISION + pull) * one)
    mean, covariance = torch.zeros(2, dtype=torch.float64), 0 * one
    for _ in range(steps):
        mean = inverse @ (RHO * X.T @ Y + pull * mean)
        covariance = pull**2 * inverse @ (covariance + one / pull) @ inverse + inverse
    return mean, covariance


@pytest.mark.parametrize(("steps", "pull"), [(1, 0.5), (2, 3.0), (4, 20.0)])
def test_every_step_has_the_law_of_the_proof(steps: int, pull: float) -> None:
    """A chain that has not mixed yet shows each step; one that has would hide a wrong eta."""
    chains = 3000
    each = torch.ones(chains, dtype=torch.float64)
    walks = [Walk(pull, steps, 10**9)] * chains
    theta = walked(
        Glm(X[None], Y[None], SQUARED), RHO * each, PRECISION * each, walks, random.generator(1, "test")
    )
    mean, covariance = after(steps, pull)
    white = torch.linalg.solve_triangular(torch.linalg.cholesky(covariance), (theta - mean).T, upper=False)
    for values in white.numpy():
        assert kstest(values, norm.cdf).pvalue > 1e-3


@pytest.mark.parametrize("loss", [LOGISTIC, pytest.param(softmax(2), marks=pytest.mark.slow)])
def test_it_draws_from_the_posterior(loss: Any) -> None:
    """Along a direction, against draws by quadrature on a grid."""
    seeds, x, y = 2000, X[None].float().repeat(1, 4, 1), torch.tensor([1.0, -1.0, 1.0]).repeat(4)[None]
    problem = Glm(x[..., : 2 // loss.classes], loss.labels(y), loss)  # two parameters
    rho, precision = torch.tensor([1.0, 2.0]), torch.tensor([2.0, 0.5])
    found = Proximal(1e-6, 1.5).sample(problem, rho, precision, math.inf, seeds, random.generator(0, "test"))
    axis = torch.linspace(-6, 6, 401, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    value = problem.to(torch.float64).value_and_grad(grid[None])[0][0]
    for e in range(2):
        assert Proximal(1e-6, 1.5).walk(problem.facts, float(rho[e]), float(precision[e])).steps > 1
        mass = (-rho[e] * value - precision[e] / 2 * grid.square().sum(-1)).softmax(0).view(401, 401).sum(1)
        law = (mass.cumsum(0) - mass / 2).numpy()
        drawn = found.draws[0, :, 0, e, 0].double().numpy()
        assert kstest(drawn, lambda at, law=law: np.interp(at, axis.numpy(), law)).pvalue > 1e-3


@pytest.mark.slow
def test_seeds_with_data_of_their_own_draw_from_their_own_posteriors() -> None:
    """Two data sets with opposite labels, and two budgets with their own priors."""
    x = torch.ones(2, 400, 1)
    problem = Glm(x, torch.tensor([[1.0], [-1.0]]).expand(2, 400), LOGISTIC)
    rho, precision = torch.tensor([1.0, 1.0]), torch.tensor([1.0, 1e3])
    draws = (
        Proximal(1e-6, 1.5).sample(problem, rho, precision, math.inf, 2, random.generator(0, "test")).draws
    )
    assert draws.shape == (1, 2, 1, 2, 1)
    (weak, strong), (weak_too, strong_too) = draws[0, :, 0, :, 0].tolist()
    assert weak > 2 > 0.5 > strong > 0 > strong_too > -0.5 > -2 > weak_too


def distance(walk: Walk, steps: int, goal: float, precision: float) -> float:
    """A bound on the total variation of a chain on a linear loss from N(goal, 1/precision), in closed form.

    It adds the distance of two normals with one width to that of two normals with one mean.
    """
    left = (walk.pull / (walk.pull + precision)) ** steps
    shift = 2 * norm.cdf(left * goal * math.sqrt(precision) / 2) - 1
    return float(shift + 1 - math.sqrt(1 - left**2))


def test_the_number_of_steps_suffices_and_is_not_loose() -> None:
    """On losses that are linear a chain contracts most slowly."""
    for away in (1e-2, 1e-4, 1e-8):
        for n, rho, precision in ((10, 1.0, 1.0), (400, 0.3, 5.0), (3000, 1.0, 10.0)):
            facts = Facts(n, 1, 2, 1.0, 0.25, row_bound=1.0, loss=LOGISTIC)
            walk = Proximal(away, 1.2).walk(facts, rho, precision)
            assert walk.steps > 1
            assert distance(walk, walk.steps, rho * n / precision, precision) < away
            fewer = math.floor(0.7 * walk.steps)  # planted: a third of the steps left out
            assert distance(walk, fewer, rho * n / precision, precision) > away


def test_a_proposal_is_accepted_as_often_as_the_limit_takes_it() -> None:
    """A Hessian is at most 1/2 (I - 1/K) (x) X^T X, and of one margin X^T X/4 (Boehning 1992)."""
    rng = torch.Generator().manual_seed(0)
    sampler = Proximal(proposals=3.0)
    for loss in (LOGISTIC, softmax(3)):
        for spread in (0.0, 0.3, 1.0):
            x = torch.randn(1, 60, 3, generator=rng) * torch.tensor([1.0, spread, spread])
            problem = Glm(x / x.norm(dim=-1, keepdim=True), torch.zeros(1, 60), loss).to(torch.float64)
            walk = sampler.walk(problem.facts, 1.0, 0.5)
            margins = torch.eye(problem.classes, dtype=torch.float64)
            margins = (margins - 1 / problem.classes) / 2 if problem.classes > 1 else margins / 4
            values = torch.linalg.eigvalsh(torch.kron(margins, problem.gram[0]))
            rarest = 0.5 * float(torch.log1p(values / (0.5 + walk.pull)).sum())
            assert rarest <= math.log(3.0) + 1e-9


def test_a_chain_stops_at_its_limit_of_proposals() -> None:
    one = torch.ones(5, dtype=torch.float64)
    problem = Glm(X[None], Y[None], SQUARED)
    theta = walked(problem, one, one, [Walk(1.0, 3, 0)] * 5, random.generator(0, "test"))
    assert not theta.any()


def test_it_refuses_what_it_cannot_do() -> None:
    problem = Glm(X[None].float(), torch.tensor([[1.0, -1.0, 1.0]]), LOGISTIC)
    one, rng = torch.ones(1), torch.Generator()
    with pytest.raises(ValueError, match="no ball"):
        Proximal().sample(problem, one, one, 1.0, 1, rng)
    with pytest.raises(ValueError, match="needs a Gaussian prior"):
        Proximal().walk(problem.facts, 1.0, 0.0)
    with pytest.raises(ValueError, match="needs a Gaussian prior"):
        Proximal().walk(Glm(X[None], Y[None], SQUARED).facts, 1.0, 1.0)
    with pytest.raises(ValueError, match=r"proposals in .* more than most = 1e\+07"):
        Proximal().walk(problem.facts._replace(n=10**6), 1.0, 1e-3)
    with pytest.raises(ValueError, match="more than most"):  # before any row is read
        Ops("gdp", 1.0, 1e-3, Proximal()).plan(problem.facts._replace(n=10**6), Budget(10.0, 1e-5))
    for wrong in ({"total_variation": 0.0}, {"proposals": 1.0}, {"most": 0.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Proximal(**wrong)
