import numpy as np
import pytest
import scipy.stats
import torch
import torch.nn.functional as F
from torch import Tensor

from dplangevin.samplers.kernels.hmc import drift_in_ball, reflective_hmc, through
from dplangevin.samplers.kernels.sphere_hmc import sphere_hmc

TURN = torch.linalg.qr(torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0], [1.0, 0.0, 1.0]])).Q
ROOT = (TURN * torch.tensor([0.3, 1.0, 2.0]) @ TURN.T)[None, None]  # of one budget


def chain(kernel, start: Tensor, steps: int, step_size: float, leapfrogs: int) -> Tensor:
    rng = torch.Generator().manual_seed(0)
    state, draws = kernel.init(start), []
    for _ in range(steps):
        momentum = torch.randn(start.shape, generator=rng, dtype=start.dtype)
        uniform = torch.rand(start.shape[:-1], generator=rng)
        h = torch.full(start.shape[1:-1], step_size) * (0.8 + 0.4 * float(torch.rand(1, generator=rng)))
        state = kernel.step(state, momentum, uniform, h, leapfrogs)
        draws.append(state.theta)
    return torch.stack(draws[steps // 10 :])


def flat(theta: Tensor) -> tuple[Tensor, Tensor]:
    return torch.zeros(theta.shape[:-1]), torch.zeros_like(theta)


def tilted(theta: Tensor) -> tuple[Tensor, Tensor]:
    """exp(6 theta_1): pressed against the surface."""
    return -6 * theta[..., 0], torch.tensor([-6.0, 0.0, 0.0]).expand_as(theta)


def test_drift_keeps_energy_and_stays_in_the_ball() -> None:
    rng = torch.Generator().manual_seed(1)
    theta = torch.randn(50, 4, 3, generator=rng)
    theta = theta / theta.norm(dim=-1, keepdim=True) * 1.9
    p = 3 * torch.randn(50, 4, 3, generator=rng)
    time = torch.full((4, 1), 2.0)
    moved, momentum, lost = drift_in_ball(theta, p, ROOT.expand(1, 4, 3, 3), time, 2.0, 500)
    assert not lost.any()
    assert float(moved.norm(dim=-1).max()) <= 2.0 + 1e-5
    assert torch.allclose(momentum.norm(dim=-1), p.norm(dim=-1), rtol=1e-4)
    assert (momentum - p).abs().max() > 1  # some did bounce
    back, _, _ = drift_in_ball(
        moved.double(), -momentum.double(), ROOT.expand(1, 4, 3, 3).double(), time.double(), 2.0, 500
    )
    few = (time * through(ROOT, p).norm(dim=-1, keepdim=True) < 4)[..., 0]  # long billiards amplify rounding
    assert few.any()
    assert torch.allclose(back[few], theta.double()[few], atol=2e-3)


def test_a_drift_with_too_many_bounces_is_reported() -> None:
    theta, p = torch.tensor([[[0.0, 0.0, 0.0]]]), torch.tensor([[[100.0, 0.0, 0.0]]])
    assert drift_in_ball(theta, p, torch.eye(3)[None, None], torch.ones(1, 1), 1.0, 5)[2].all()


@pytest.mark.parametrize("boundary", ["reflect", "sphere"])
def test_uniform_distribution_on_the_ball(boundary: str) -> None:
    """||theta||/D has distribution function r^d, a coordinate the law Beta((d + 1)/2, (d + 1)/2) on [-D, D]."""
    radius, start = 2.0, torch.zeros(200, 1, 3)
    if boundary == "reflect":
        draws = chain(reflective_hmc(flat, ROOT, radius), start, 220, 0.8, 3)
    else:
        root = F.pad(ROOT / radius, (0, 2, 0, 2)) + torch.diag(torch.tensor([0.0, 0.0, 0.0, 1.0, 1.0]))
        points = torch.cat([start, torch.ones(200, 1, 2) / 2**0.5], -1)
        draws = radius * chain(sphere_hmc(flat, root, radius), points, 220, 0.5, 3)[..., :3]
    thin = draws[::20].reshape(-1, 3).numpy()
    r = np.linalg.norm(thin, axis=1) / radius
    assert r.max() <= 1 + 1e-5
    assert scipy.stats.kstest(r, lambda v: np.clip(v, 0, 1) ** 3).pvalue > 1e-3
    for j in range(3):
        assert scipy.stats.kstest(thin[:, j] / radius, scipy.stats.beta(2, 2, -1, 2).cdf).pvalue > 1e-3


@pytest.mark.parametrize("boundary", ["reflect", "sphere"])
def test_mass_pressed_against_the_surface(boundary: str) -> None:
    """Density exp(6 t) on the ball of R^3: the first coordinate has density exp(6 t)(1 - t^2) on [-1, 1]."""
    start = torch.zeros(200, 1, 3)
    if boundary == "reflect":
        draws = chain(reflective_hmc(tilted, 0.4 * torch.eye(3)[None, None], 1.0), start, 330, 0.4, 3)
    else:
        points = torch.cat([start, torch.ones(200, 1, 2) / 2**0.5], -1)
        root = torch.diag(torch.tensor([0.35, 0.4, 0.4, 0.3, 0.45]))[None, None]
        draws = chain(sphere_hmc(tilted, root, 1.0), points, 330, 0.6, 3)[..., :3]
    thin = draws[::30, :, 0, 0].flatten().double().numpy()
    grid = np.linspace(-1, 1, 20_001)
    cdf = np.cumsum(np.exp(6 * grid) * (1 - grid**2))
    cdf /= cdf[-1]
    assert scipy.stats.kstest(thin, lambda t: np.interp(t, grid, cdf)).pvalue > 1e-3
