import torch

from dplangevin.diagnostics import mixing


def test_independent_draws_have_mixed_and_shifted_chains_have_not() -> None:
    draws = torch.randn(400, 2, 4, 3, 5, generator=torch.Generator().manual_seed(0))
    draws[:, 1, 0, 2, 3] += 2  # group 1, budget 2: one chain elsewhere
    r_hat, ess = mixing(draws)
    assert r_hat.shape == ess.shape == (2, 3)
    good = torch.ones(2, 3, dtype=torch.bool)
    good[1, 2] = False
    assert float(r_hat[good].max()) < 1.02
    assert float(r_hat[1, 2]) > 1.1
    assert float(ess[good].min()) > 1000
    assert float(ess[1, 2]) < 100
