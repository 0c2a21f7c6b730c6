"""Which power of the posterior the samplers target as printed: pinned, so that no kernel is set right in silence."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dplangevin.papers.analyses.temperature import Temperature, stationary
from dplangevin.samplers.kernels.stochastic import SgfsState, SghmcState, SgnhtState, sgfs, sghmc, sgnht

N, TAU, SIGMA2, FRICTION = 100, 50, 2.0, 1.0


def momentum_variance(eta: float) -> float:
    """Of eq. 4.4 on N(0, 1), from its three moment equations by hand."""
    a = FRICTION * math.sqrt(eta)
    return 2 * a * (2 - a + eta) / ((a - eta) * (4 - 2 * a + eta))


# sampler: step, variance on N(0, 1) at that step, temperature of the target
PINNED: dict[str, tuple[float, Callable[[float], float], float]] = {
    "sgld": (0.1, lambda eta: 1 / (2 - eta), 1 / 2),
    "sgld_proper": (0.1, lambda eta: 2 / (2 - eta), 1.0),
    "li": (10.0, lambda eta: 1 / (2 - eta / N), 1 / 2),
    "li_proper": (10.0, lambda eta: 2 / (2 - eta / N), 1.0),
    "sgfs": (0.2, lambda eta: 1 / (4 + eta), 1 / 4),
    "sgfs_minibatch": (0.5, lambda eta: (N / TAU + 1 / eta) / (N / TAU + 4 / eta), 1 / 4),
    "sgfs_proper": (0.2, lambda eta: 4 / (4 + eta), 1.0),
    "sghmc": (0.004, momentum_variance, 1.0),
    "ryffel": (0.1, lambda eta: 2 * SIGMA2 / (2 - eta), SIGMA2),
}
STEPS = {name: step for name, (step, _, _) in PINNED.items()} | {"sgnht": 4e-4, "sgnht_fixed": 4e-4}


def analysis(**overrides: Any) -> Temperature:
    settings: dict[str, Any] = {
        "steps": {name: [step] for name, step in STEPS.items()},
        **{"chains": 2000, "settle": 6, "keep": 24, "correlation": 0.6, "friction": FRICTION},
        **{"momentum_loss": 0.1, "records": N, "batch": TAU, "noise_variance": SIGMA2},
    }
    return Temperature(**{**settings, **overrides})


@pytest.mark.parametrize("name", PINNED)
def test_simulation_and_closed_form_agree_with_the_formula(name: str) -> None:
    step, formula, _ = PINNED[name]
    rows = analysis().rows(name, 0)
    simulated, exact = (row for row in rows if row["problem"] == "1-d")
    assert exact["value"] == pytest.approx(formula(step), rel=1e-9)
    for i in range(0, len(rows), 2):  # N(0, 1), then both axes of the correlated normal
        found, expected = rows[i], rows[i + 1]["value"]
        error = (found["high"] - found["low"]) / 2 / 1.96
        assert error < 0.01 * expected
        assert abs(found["value"] - expected) < 4.5 * error
    assert [simulated["kind"], exact["kind"]] == ["simulated", "closed form"]


@pytest.mark.parametrize("name", PINNED)
def test_the_target_is_reached_as_the_step_vanishes(name: str) -> None:
    sampler, limit = analysis().samplers()[name], PINNED[name][2]
    assert sampler.limit == limit
    covariance = np.array([[1.0, 0.6], [0.6, 1.0]])
    theta = torch.zeros(1, 1, 2, dtype=torch.float64)
    chain = sampler.chain(theta, torch.tensor(np.linalg.inv(covariance)), 1e-6 * STEPS[name])
    assert stationary(chain)[:2, :2] == pytest.approx(limit * covariance, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sgnht", "sgnht_fixed"])
def test_sgnht_has_its_limit_as_the_step_vanishes(name: str) -> None:
    """1 if its friction a shrinks with the step; at a fixed friction (1 + sqrt(1 - 2 a))/2."""
    a = 0.1 if name == "sgnht" else 0.3
    limit = analysis(momentum_loss=a).samplers()[name].limit
    assert limit == pytest.approx(1 if name == "sgnht" else (1 + math.sqrt(1 - 2 * a)) / 2)
    rows = analysis(momentum_loss=a).rows(name, 0)
    assert {row["kind"] for row in rows} == {"simulated"}
    for row in rows:
        assert row["value"] == pytest.approx(limit, abs=0.06)


def test_sgnht_with_a_fixed_friction_and_step_stays_below_the_posteriors_temperature() -> None:
    """In many dimensions the thermostat is a number alpha with (alpha - eta)(4 - 2 alpha + eta) = 4 a, which makes
    E v^2 = eta; then E theta^2 = 1 - (alpha - eta)/2 on N(0, 1)."""
    a, eta, rng = 0.3, 0.01, torch.Generator().manual_seed(0)
    alpha = ((4 + 3 * eta) - math.sqrt((4 + 3 * eta) ** 2 - 8 * (4 * eta + eta**2 + 4 * a))) / 4
    theta = torch.randn(40, 1, 400, generator=rng)
    state, found = SgnhtState(theta, torch.zeros_like(theta), torch.full((40, 1, 1), a)), []
    for _ in range(2500):
        noise = math.sqrt(2 * a * eta) * torch.randn(theta.shape, generator=rng)
        state = sgnht().step(state, state.theta, noise, torch.tensor([[eta]]))
        found.append([float(state.thermostat.mean()), float(state.theta.square().mean())])
    assert np.mean(found[500:], axis=0) == pytest.approx([alpha, 1 - (alpha - eta) / 2], rel=0.01)


def test_one_step_of_sghmc_is_eq_44_and_of_sgnht_eq_45() -> None:
    theta, v, gradient, noise = torch.randn(4, 3, 2, 5, generator=torch.Generator().manual_seed(1))
    eta, alpha = torch.tensor([[0.1], [0.2]]), torch.full((3, 2, 1), 0.25)
    moved = v - eta * gradient - 0.25 * v + noise
    one = sghmc(0.25).step(SghmcState(theta, v), gradient, noise, eta)
    other = sgnht().step(SgnhtState(theta, v, alpha), gradient, noise, eta)
    for state in (one, other):
        assert torch.equal(state.theta, theta + v)
        assert torch.allclose(state.velocity, moved)
    assert torch.allclose(other.thermostat, alpha + moved.square().sum(-1, keepdim=True) / 5 - eta)


def test_one_step_of_sgfs_is_algorithm_4() -> None:
    rng, (n, tau) = np.random.default_rng(0), (60, 20)
    theta, gradient, noise = rng.normal(size=(3, 2, 2, 3))
    roots = rng.normal(size=(2, 2, 2, 3, 3))
    old, seen = roots @ roots.swapaxes(-1, -2)  # not of one eigenbasis
    factor, eta, kappa = rng.normal(size=(3, 3)), np.array([0.5, 4.0]), np.array([0.3, 1.0])
    kernel = sgfs(torch.tensor(factor), n, tau)
    columns = torch.tensor(eta)[:, None], torch.tensor(seen), torch.tensor(kappa)[:, None]
    state = SgfsState(torch.tensor(theta), torch.tensor(old))
    state = kernel.step(state, torch.tensor(gradient), torch.tensor(noise), *columns)
    for r, c in np.ndindex(2, 2):
        fisher = (1 - kappa[c]) * old[r, c] + kappa[c] * seen[r, c]
        precision = (tau + n) * n / tau * fisher + 4 * factor @ factor.T / eta[c]
        moved = theta[r, c] - 2 * np.linalg.inv(precision) @ (gradient[r, c] + noise[r, c])
        assert state.theta[r, c].numpy() == pytest.approx(moved, rel=1e-9)
        assert state.fisher[r, c].numpy() == pytest.approx(fisher, rel=1e-12)
