import math

import pytest
import torch
from scenarios import gaussian, logistic

from dplangevin.posterior import R_HAT, Boundary, Sampler


@pytest.mark.parametrize(("boundary", "radius"), [("sphere", 50.0), ("reflect", 50.0), ("sphere", math.inf)])
def test_a_gaussian_posterior_is_recovered_in_mean_and_covariance(boundary: Boundary, radius: float) -> None:
    problem, mean, covariance = gaussian()
    sampler = Sampler(boundary=boundary, block=800, max_draws=800)
    rho = torch.tensor([1.0, 0.25])
    posterior = sampler.sample(problem, rho, torch.zeros(2), radius, torch.Generator().manual_seed(0))
    assert float(posterior.mixing.r_hat.max()) < R_HAT
    for e, scale in enumerate(rho.tolist()):
        draws = posterior.draws[:, :, :, e].reshape(-1, problem.d).double()
        ess = float(posterior.mixing.ess[0, e])
        deviation = (covariance.diagonal() / scale).sqrt()
        assert float(((draws.mean(0) - mean) / deviation).abs().max()) < 4.5 / math.sqrt(ess)
        error = (torch.cov(draws.T) * scale - covariance) / deviation.outer(deviation) / scale
        assert float(error.abs().max()) < 0.12


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("radius", [0.5, 4.0])
def test_both_kernels_agree_inside_and_pressed_against_the_ball(shared: bool, radius: float) -> None:
    problem = logistic(repeats=4, n=300, d=4, shared=shared)
    rho, precision = torch.tensor([0.05, 1.0]), torch.tensor([0.0, 0.3])
    found = {}
    kinds: list[tuple[Boundary, int]] = [("sphere", 3), ("reflect", 12)]
    for boundary, leapfrogs in kinds:
        sampler = Sampler(boundary=boundary, chains=4, leapfrogs=leapfrogs, block=600, max_draws=2400)
        posterior = sampler.sample(problem, rho, precision, radius, torch.Generator().manual_seed(1))
        assert float(posterior.mixing.r_hat.max()) < R_HAT
        assert float(posterior.draws.norm(dim=-1).max()) <= radius * (1 + 1e-4)
        found[boundary] = posterior
    a, b = found["sphere"].draws, found["reflect"].draws
    axes = (0, 1, 2) if shared else (0, 2)
    spread = a.std(axes)
    ess = torch.minimum(found["sphere"].mixing.ess, found["reflect"].mixing.ess).squeeze(0)
    limit = 4.5 * (2 / ess).sqrt()[..., None]
    assert bool(((a.mean(axes) - b.mean(axes)).abs() / spread < limit).all())
    assert bool(((b.std(axes) / spread).log().abs() < limit).all())


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match='boundary must be "sphere" or "reflect", not \'wall\''):
        Sampler(boundary="wall")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="leapfrogs must be a positive integer, not 0"):
        Sampler(leapfrogs=0)
