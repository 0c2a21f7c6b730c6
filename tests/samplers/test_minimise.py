from collections.abc import Callable
from typing import Any

import pytest
import torch
from scenarios import linear, logistic, multinomial

from dplangevin.problems.glm import Glm
from dplangevin.samplers.minimise import follow, minimise, newton, one_of


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("make", "least"), [(logistic, 0.5), (linear, 0.01), (multinomial, 0.5)])
def test_perturbed_objectives_have_no_slope_at_their_minima(make: Any, least: float, shared: bool) -> None:
    problem, ridge = make(shared=shared), torch.tensor([least, 20.0])
    push = 5 * torch.randn(3, 2, problem.d, generator=torch.Generator().manual_seed(2))
    found = minimise(problem, ridge, push, tolerance=1e-10)
    slope = problem.to(torch.float64).grad(found.theta) + ridge[:, None] * found.theta + push
    assert float(slope.norm(dim=-1).max()) < 1e-9 * problem.n
    assert float(found.gradient_norm.max()) < 1e-10


@pytest.mark.slow
def test_an_unreachable_tolerance_is_an_error_that_says_so() -> None:
    problem = logistic(seeds=1)
    with pytest.raises(ValueError, match=r"no minimum to gradient norm/n 1e-30 within .* raise the ridge"):
        minimise(problem, torch.tensor([1.0]), torch.zeros(1, 1, 5), tolerance=1e-30, max_steps=5)


@pytest.mark.parametrize("make", [logistic, linear, multinomial])
@pytest.mark.parametrize("ridge", [1e-3, 2.0])
def test_newton_arrives_where_the_descent_does(make: Callable[..., Glm], ridge: float) -> None:
    problem = make()
    push = 5 * torch.randn(3, 1, problem.d, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    fit = minimise(problem, torch.tensor([ridge], dtype=torch.float64), push, tolerance=1e-11).theta
    for r in range(3):
        one, far = one_of(problem, r), 30 * torch.ones(problem.d)
        theta, norm, steps = newton(one, ridge, push[r, 0], far, 1e-11)
        assert norm < 1e-11
        assert steps < 30
        assert torch.allclose(theta, fit[r, 0], atol=1e-5, rtol=1e-6)
        theta, norm, _ = follow(one, ridge, push[r, 0], 1e-11)
        assert norm < 1e-11
        assert torch.allclose(theta, fit[r, 0], atol=1e-5, rtol=1e-6)


@pytest.mark.parametrize("make", [logistic, linear, multinomial])
def test_a_push_beyond_all_gradients_is_held_by_a_faint_ridge(make: Callable[..., Glm]) -> None:
    """Its theta is 1e6 long, where the loss is all but piecewise linear."""
    problem = make(n=100)
    push = torch.randn(3, 1, problem.d, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    found = minimise(problem, torch.tensor([1e-6], dtype=torch.float64), 100 * push)
    assert float(found.gradient_norm.max()) < 1e-8
    assert float(found.theta.norm(dim=-1).min()) > 1e6
    found = minimise(problem, torch.tensor([300.0]), 3e6 * push)  # does not stall in single precision
    assert float(found.gradient_norm.max()) < 1e-8
    assert found.steps < 100
