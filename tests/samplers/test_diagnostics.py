import numpy as np
import pytest
import torch
from scipy import stats

from dplangevin.samplers.diagnostics import mixing


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


def split_r_hat(chains: np.ndarray) -> float:
    """Rank-normalised, folded, split R-hat (Vehtari et al. 2021, eqs. 1-14) of one coordinate, chains (C, S)."""
    half = chains.shape[1] // 2
    split = np.concatenate([chains[:, :half], chains[:, -half:]])
    values = []
    for x in (split, np.abs(split - np.median(split))):
        z = stats.norm.ppf((stats.rankdata(x).reshape(x.shape) - 3 / 8) / (x.size + 1 / 4))
        within = z.var(axis=1, ddof=1).mean()
        between = z.mean(axis=1).var(ddof=1)
        values.append(np.sqrt((half - 1) / half + between / within))
    return max(values)


def test_r_hat_is_that_of_the_paper() -> None:
    draws = torch.randn(60, 1, 3, 1, 1, generator=torch.Generator().manual_seed(1)).cumsum(0)
    assert float(mixing(draws).r_hat) == pytest.approx(split_r_hat(draws[:, 0, :, 0, 0].T.numpy()), rel=1e-6)


def test_a_single_chain_counts_as_its_halves() -> None:
    chain = torch.randn(101, 2, 1, 1, 1, generator=torch.Generator().manual_seed(3))
    chain[51:, 1] += 3  # group 1 has moved in the second half
    r_hat = mixing(chain).r_hat[:, 0]
    halves = chain[1:, :, 0, 0, 0].T.reshape(2, 2, 50).numpy()  # the odd first draw is left out
    assert r_hat.tolist() == pytest.approx([split_r_hat(two) for two in halves], rel=1e-6)
    assert r_hat[0] < 1.1 < 1.5 < r_hat[1]


def test_too_few_draws_and_one_that_is_not_finite_leave_no_number() -> None:
    assert all(bool(found.isnan().all()) for found in mixing(torch.zeros(7, 2, 1, 1, 1)))
    draws = torch.randn(50, 2, 3, 2, 4, generator=torch.Generator().manual_seed(4))
    draws[25:, 1, 0, 0, 2] = torch.nan  # group 1, budget 0: one coordinate of one chain
    for found in mixing(draws):
        assert found.isnan().tolist() == [[False, False], [True, False]]
