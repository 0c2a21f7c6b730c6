import numpy as np
import scipy.stats
import torch
import torch.nn.functional as F

from dplangevin.samplers.kernels.hmc import sphere_hmc


def test_uniform_distribution_on_the_ball() -> None:
    """||theta||/D has distribution function r^d, a coordinate the law Beta((d + 1)/2, (d + 1)/2) on [-D, D]."""
    radius, rng, draws = 2.0, torch.Generator().manual_seed(0), []
    turn = torch.linalg.qr(torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0], [1.0, 0.0, 1.0]])).Q
    root = F.pad((turn * torch.tensor([0.3, 1.0, 2.0]) @ turn.T)[None, None] / radius, (0, 2, 0, 2))
    root += torch.diag(torch.tensor([0.0, 0.0, 0.0, 1.0, 1.0]))
    kernel = sphere_hmc(lambda theta: (torch.zeros(theta.shape[:-1]), torch.zeros_like(theta)), root, radius)
    state = kernel.init(torch.cat([torch.zeros(200, 1, 3), torch.ones(200, 1, 2) / 2**0.5], -1))
    for _ in range(220):
        momentum, uniform = torch.randn(200, 1, 5, generator=rng), torch.rand(200, 1, generator=rng)
        step_size = torch.full((1,), 0.4 + 0.2 * float(torch.rand(1, generator=rng)))
        state = kernel.step(state, momentum, uniform, step_size, 3)
        draws.append(radius * state.theta[..., :3])
    thin = torch.stack(draws[22::20]).reshape(-1, 3).numpy()
    r = np.linalg.norm(thin, axis=1) / radius
    assert r.max() <= 1 + 1e-5
    assert scipy.stats.kstest(r, lambda v: np.clip(v, 0, 1) ** 3).pvalue > 1e-3
    for j in range(3):
        assert scipy.stats.kstest(thin[:, j] / radius, scipy.stats.beta(2, 2, -1, 2).cdf).pvalue > 1e-3
