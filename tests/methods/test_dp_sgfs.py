"""DP-SGFS: its kernel, its noise and the covariance that it releases."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scenarios import logistic, method, release

from dplangevin import random
from dplangevin.methods.dp_sgfs import _Scoring
from dplangevin.privacy import Budget, FisherScoringDpEvent
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC
from dplangevin.samplers.kernels.stochastic import SgfsState, sgfs


@pytest.mark.parametrize(("temperature", "heat"), [("printed", 1.0), ("proper", 4.0)])
@pytest.mark.usefixtures("fine_grid")
def test_without_a_budget_it_is_sgfs(temperature: str, heat: float) -> None:
    """With the minibatch's own covariance, averaged over the steps that looked."""
    problem, size, n = logistic(), 20, 400
    settings = {"step": 0.3, "refresh": 4, "samples": 40, "burn_in": 0.0, "temperature": temperature}
    made = method("dp_sgfs", sampling={"batch": size, "epochs": 2}, **settings)
    found = release(made, problem, math.inf)[0].theta
    eta = torch.tensor([[2 * 0.3 / (0.25 * n)]], dtype=torch.float64)
    kernel, rng = sgfs(torch.eye(5, dtype=torch.float64), n, size), random.generator(0, "test")
    state, kept = SgfsState(torch.zeros(3, 1, 5), torch.zeros(3, 1, 5, 5).double()), []
    for t, batch in enumerate(random.batches(rng, {"subset"}, 3, n, size, 5, 40, 256)):
        each = problem.example_grads(state.theta, batch.rows)
        given = each.sum(2) * (n / size), (heat / eta).sqrt().float() * batch.normals.float(), eta
        if t % 4 == 0:
            seen = torch.stack([torch.cov(g[0].T) for g in each])[:, None].double()
            state = kernel.step(state, *given, seen, torch.tensor([[1.0 / (t // 4 + 1)]]).double())
        else:
            state = kernel.step(state, *given)
        kept.append(state.theta)
    assert torch.allclose(found, torch.stack(kept, 2), atol=1e-5)


def test_its_noise_is_algorithm_4_at_half_the_budget() -> None:
    steps, tau = 40, 20
    plan = method("dp_sgfs", sampling={"batch": tau, "epochs": 2}).plan(logistic().facts, Budget(2.0, 1e-5))
    event: Any = plan.guarantee.event
    variance = 32 * 2 * math.log(2.5 * 400 * 2 / (tau * 5e-6)) * math.log(2 / 5e-6) / (400 * tau * 1.0**2)
    assert event == FisherScoringDpEvent(400, tau, steps, event.noise_std)
    assert 0 <= event.noise_std / math.sqrt(variance) - 1 < 1e-9
    assert plan.guarantee.epsilon == pytest.approx(2.0, rel=1e-9)
    eta = float(plan.work.step[0])
    expected = tau * max(event.noise_std, 1 / (400 * math.sqrt(eta)))  # on the sum of a minibatch
    assert float(plan.work.noise_std[-1]) == pytest.approx(expected)


def test_the_covariance_is_noisy_projected_and_symmetric() -> None:
    problem = logistic(shared=True, n=100, d=3)
    theta, rows = torch.zeros(300, 1, 3), torch.arange(50).expand(300, 50)
    exact = np.cov(problem.example_grads(theta[:1], rows[:1])[0, 0].numpy().T)
    chain = method("dp_sgfs", sampling={"batch": 50}).plan(problem.facts, Budget(math.inf, 1e-5)).work

    def covariance(*sigma: float) -> torch.Tensor:
        std, rng = torch.tensor([[value] for value in sigma]).double(), random.generator(0, "")
        return _Scoring(problem, [chain] * len(sigma), std, 1, rng).covariance(theta, rows)

    plain, noisy = covariance(0.0), covariance(1e-4, 3.0)
    assert plain[0, 0].numpy() == pytest.approx(exact, rel=1e-5, abs=1e-9)
    assert torch.allclose(noisy, noisy.mT)
    assert float(torch.linalg.eigvalsh(noisy).min()) > -1e-9
    # W is small enough in the first column to leave V positive: its diagonal has deviation 7 sigma
    spread = (noisy[:, 0] - plain[:, 0]).diagonal(dim1=-2, dim2=-1).std()
    assert float(spread) == pytest.approx(7e-4, rel=0.1)


def test_squares_of_long_gradients_do_not_overflow() -> None:
    """The largest rows that a problem takes: with float32 squares one record turned a covariance into 0."""
    n, length = 2000, 1e18
    x = torch.zeros(1, n, 2)
    x[0, :, 0] = length * (1 - 2 * (torch.arange(n) % 2))
    problem = Glm(x, torch.ones(1, n), LOGISTIC, row_bound=length)
    chain = method("dp_sgfs", sampling={"batch": n}).plan(problem.facts, Budget(math.inf, 1e-5)).work
    scoring = _Scoring(problem, [chain], torch.zeros(1, 1).double(), 1, random.generator(0, ""))
    found = scoring.covariance(torch.zeros(1, 1, 2), torch.arange(n)[None])
    assert found[0, 0].tolist() == [[pytest.approx(length**2 / 4 * n / (n - 1), rel=1e-4), 0.0], [0.0, 0.0]]
