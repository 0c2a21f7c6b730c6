import numpy as np
import scipy.stats
import torch
import torch.nn.functional as F
from torch import Tensor

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


ON_SPHERE = torch.cat([torch.zeros(200, 1, 3), torch.ones(200, 1, 2) / 2**0.5], -1)


def test_uniform_distribution_on_the_ball() -> None:
    """||theta||/D has distribution function r^d, a coordinate the law Beta((d + 1)/2, (d + 1)/2) on [-D, D]."""
    radius = 2.0
    root = F.pad(ROOT / radius, (0, 2, 0, 2)) + torch.diag(torch.tensor([0.0, 0.0, 0.0, 1.0, 1.0]))
    draws = radius * chain(sphere_hmc(flat, root, radius), ON_SPHERE, 220, 0.5, 3)[..., :3]
    thin = draws[::20].reshape(-1, 3).numpy()
    r = np.linalg.norm(thin, axis=1) / radius
    assert r.max() <= 1 + 1e-5
    assert scipy.stats.kstest(r, lambda v: np.clip(v, 0, 1) ** 3).pvalue > 1e-3
    for j in range(3):
        assert scipy.stats.kstest(thin[:, j] / radius, scipy.stats.beta(2, 2, -1, 2).cdf).pvalue > 1e-3
