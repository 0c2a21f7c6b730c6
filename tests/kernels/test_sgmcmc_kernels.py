"""Gradient kernels with exact gradients and small steps on N(0, 1)."""

import torch

from dplangevin.kernels.sgld import sgld
from dplangevin.kernels.sgnht import SgnhtState, sgnht


def test_sgld_as_printed_targets_half_the_variance() -> None:
    """theta <- theta - eta theta + N(0, eta) is AR(1) with variance 1/(2 - eta), that of exp(-2U), not exp(-U)."""
    kernel, eta, rng = sgld(), torch.tensor([[0.025]]), torch.Generator().manual_seed(0)
    state, moments = kernel.init(torch.zeros(4000, 1, 5)), []
    for t in range(1500):
        noise = eta.sqrt() * torch.randn(4000, 1, 5, generator=rng)
        state = kernel.step(state, state.theta, noise, eta)
        if t >= 300:
            moments.append(float(state.theta.square().mean()))
    exact = 1 / (2 - 0.025)
    assert abs(exact - 0.5063) < 1e-4
    assert abs(sum(moments) / len(moments) - exact) < 0.004


def test_sgnht_targets_the_posterior_in_spite_of_gradient_noise() -> None:
    """The thermostat settles at the injected friction a = .03 plus eta/2 times the gradient noise's variance, .009."""
    kernel, eta, rng = sgnht(), torch.tensor([[0.002]]), torch.Generator().manual_seed(0)
    start = torch.zeros(500, 1, 20)
    velocity = eta.sqrt() * torch.randn(start.shape, generator=rng)
    state = SgnhtState(start, velocity, torch.full((500, 1, 1), 0.03))
    moments: list[float] = []
    frictions: list[float] = []
    for t in range(6000):
        gradient = state.theta + 3 * torch.randn(start.shape, generator=rng)  # noise unknown to the sampler
        noise = (2 * 0.03 * eta).sqrt() * torch.randn(start.shape, generator=rng)
        state = kernel.step(state, gradient, noise, eta)
        if t >= 1500 and t % 10 == 0:
            moments.append(float(state.theta.square().mean()))
            frictions.append(float(state.thermostat.mean()))
    assert abs(sum(moments) / len(moments) - 1) < 0.03
    assert abs(sum(frictions) / len(frictions) - 0.039) < 0.003
