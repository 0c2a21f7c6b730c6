"""Rows that a hyperplane separates: fits, the posterior's centre and its samplers where theta has nothing to hold it.

Every method on such rows: methods/test_every_method.
"""

import math

import pytest
import torch
from scenarios import SEPARABLE, release, separable

from dplangevin import random
from dplangevin.methods.objpert import ObjPert
from dplangevin.methods.outpert import Ridge
from dplangevin.problems.glm import Glm
from dplangevin.samplers.posterior import START, Rejection, find_centre

INF = math.inf
LOSSES = ["logistic", "softmax"]


def fitted(method: object, of: Glm, *epsilons: float) -> torch.Tensor:
    return release(method, of, *epsilons)[0].theta


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("data", SEPARABLE)
def test_a_fit_without_ridge_has_no_minimum_and_says_so(data: str, loss: str) -> None:
    of = separable(data, loss)
    for method in (Ridge(0.0), ObjPert(ridge=0.0)):
        with pytest.raises(
            ValueError, match=r"no minimum at ridge = 0: .* separates the rows .*: set ridge > 0"
        ):
            fitted(method, of, INF)
    assert bool(fitted(ObjPert(ridge=0.0), of, 1.0).isfinite().all())  # privacy asks for a ridge


@pytest.mark.parametrize("data", SEPARABLE)
def test_the_centre_of_the_posterior_is_its_mode(data: str) -> None:
    """In a large ball, at the ridge that is asked for; against its surface; and with a weak prior alone."""
    of, one = separable(data), torch.ones(1)
    for precision, radius in ((1.0, INF), (1e-3, INF), (0.0, 10.0), (0.0, 300.0)):
        centre = find_centre(of.to(torch.float64), one.double(), precision * one.double(), radius)
        theta = centre.theta
        assert float(theta.norm()) <= 0.97 * radius * (1 + 1e-6)
        ridge = precision + float(centre.multiplier)
        left = of.to(torch.float64).grad(theta) + ridge * theta
        # the Hessian, times what rounding moves the mode by
        grid = START / 2 * of.d**0.5 * (of.n / 4 + ridge)
        assert float(left.norm()) < 2e-6 * of.n + grid
        if radius < INF:  # the ball, not the grid, ends the path
            assert float(theta.norm()) > 0.4 * radius or ridge <= 1.1e-8 * of.n


def test_rejection_from_a_weak_prior_is_refused_or_exact() -> None:
    one, rng = torch.ones(1), random.generator(0, "")
    draws = Rejection().sample(separable("three_rows"), one, 1e-3 * one, INF, 3, rng).draws
    assert bool(draws.isfinite().all())
    with pytest.raises(ValueError, match="raise precision, lower epsilon"):
        Rejection().sample(separable("breast_cancer"), one, 1e-3 * one, INF, 3, rng)
