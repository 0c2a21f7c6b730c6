import numpy as np
import pytest
import torch
from scenarios import gaussian, logistic, rows

from dplangevin.data import Dataset
from dplangevin.problem import LOSSES, Problem


@pytest.mark.parametrize("shared", [True, False])
def test_value_gradient_and_hessian_agree_with_automatic_differentiation(shared: bool) -> None:
    problem = logistic(shared=shared).to(torch.float64)
    theta = torch.randn(3, 2, problem.d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    value, grad = problem.value_and_grad(theta)

    def one(r: int, at: torch.Tensor) -> torch.Tensor:
        x, y = problem.x[0 if shared else r], problem.y[0 if shared else r]
        return torch.log1p(torch.exp(-y * (x @ at))).sum()

    for r in range(3):
        for e in range(2):
            at = theta[r, e].clone().requires_grad_()
            out = one(r, at)
            (expected,) = torch.autograd.grad(out, at)
            hessian = torch.autograd.functional.hessian(lambda t, r=r: one(r, t), theta[r, e])
            assert torch.allclose(value[r, e], out.detach(), rtol=1e-12)
            assert torch.allclose(grad[r, e], expected, rtol=1e-10, atol=1e-10)
            assert torch.allclose(problem.hessian(theta)[r, e], hessian, rtol=1e-9, atol=1e-9)
    assert torch.equal(problem.grad(theta), grad)


@pytest.mark.parametrize("shared", [True, False])
def test_batch_gradients_are_sums_over_the_named_rows(shared: bool) -> None:
    problem = logistic(shared=shared)
    theta = torch.randn(3, 2, problem.d, generator=torch.Generator().manual_seed(0))
    index = torch.tensor([[0, 5, 399], [7, 8, 9], [1, 2, 3]])
    found = problem.batch_grad(theta, index)
    for r in range(3):
        at = 0 if shared else r
        x, y = problem.x[at][index[r]], problem.y[at][index[r]]
        part = Problem(x[None], y[None], problem.loss, 1)
        assert torch.allclose(found[r : r + 1], part.value_and_grad(theta[r : r + 1])[1], atol=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_constants_bound_the_derivatives(name: str) -> None:
    loss = LOSSES[name]
    m = torch.linspace(-30, 30, 4001, dtype=torch.float64)
    for label in (-1.0, 1.0):
        y = torch.full_like(m, label)
        assert float(loss.slope(m.clone(), y).abs().max()) <= loss.lipschitz * (1 + 1e-12)
        assert float(loss.curvature(m, y).max()) <= loss.smoothness * (1 + 1e-12)
        step = torch.autograd.functional.jacobian(lambda t, y=y: loss.value(t, y).sum(), m)
        assert torch.allclose(step, loss.slope(m.clone(), y), atol=1e-12)


def test_row_gradients_of_logistic_regression_have_norm_at_most_one() -> None:
    problem = logistic(repeats=1, n=50)
    theta = 10 * torch.randn(1, 1, problem.d, generator=torch.Generator().manual_seed(1))
    for i in range(problem.n):
        assert float(problem.batch_grad(theta, torch.tensor([[i]])).norm()) <= problem.lipschitz + 1e-6


def test_problems_refuse_what_the_proofs_do_not_cover() -> None:
    x = rows(1, 20, 3) * 2
    y = np.where(np.arange(20) % 2, 1.0, -1.0)[None]
    unscaled = Dataset(x, y, x, y, {"row_norm_bound": 2.0})
    with pytest.raises(ValueError, match=r"norm 2 > 1: scale the rows first"):
        Problem.from_dataset(unscaled, 1)
    with pytest.raises(ValueError, match="loss 'hinge' is unknown"):
        Problem.from_dataset(unscaled.scaled("unit"), 1, "hinge")
    two = Dataset(np.repeat(x, 2, 0), np.repeat(y, 2, 0), x, y, {}).scaled("unit")
    with pytest.raises(ValueError, match="holds 2 repeats and 5 are asked for"):
        Problem.from_dataset(two, 5)
    assert gaussian()[0].lipschitz == float("inf")
