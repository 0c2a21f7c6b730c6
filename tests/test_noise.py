import itertools
import math

import numpy as np
import pytest
import scipy.stats
import torch

from dplangevin import noise


def test_streams_depend_on_seed_and_label_only() -> None:
    draw = noise.gaussian(noise.generator(7, "adult/ops"), 3, 4)
    assert torch.equal(draw, noise.gaussian(noise.generator(7, "adult/ops"), 3, 4))
    assert not torch.equal(draw, noise.gaussian(noise.generator(7, "adult/objpert"), 3, 4))
    assert not torch.equal(draw, noise.gaussian(noise.generator(8, "adult/ops"), 3, 4))
    assert draw.shape == (3, 1, 4)  # shared along the budget axis


@pytest.mark.parametrize(("n", "size"), [(5, 2), (40, 3), (9, 2)])  # by sorting keys, and by drawing again
def test_every_subset_is_equally_likely(n: int, size: int) -> None:
    found = noise.subsets(noise.generator(0, "t"), (60_000,), n, size).sort(-1).values.numpy()
    assert found.min() >= 0
    assert found.max() < n
    assert (np.diff(found) > 0).all()
    sets = list(itertools.combinations(range(n), size))
    codes = {s: i for i, s in enumerate(sets)}
    counts = np.bincount([codes[tuple(row)] for row in found.tolist()], minlength=len(sets))
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_large_subsets_have_no_copies() -> None:
    found = noise.subsets(noise.generator(0, "t"), (3, 4), 2000, 480)
    assert found.shape == (3, 4, 480)
    assert all(len(set(row.tolist())) == 480 for row in found.reshape(-1, 480))


def test_subsets_larger_than_the_data_are_refused() -> None:
    with pytest.raises(ValueError, match="a subset of 11 of 10 rows does not exist"):
        noise.subsets(noise.generator(0, "t"), (1,), 10, 11)


def test_gamma_noise_has_gamma_norms_and_uniform_directions() -> None:
    b = noise.gamma_ball(noise.generator(0, "g"), 20_000, 3)[:, 0].numpy()
    norms = np.linalg.norm(b, axis=1)
    assert scipy.stats.kstest(norms, scipy.stats.gamma(3).cdf).pvalue > 1e-3
    # in three dimensions each coordinate of a uniform direction is uniform on [-1, 1] (Archimedes)
    assert scipy.stats.kstest(b[:, 0] / norms, scipy.stats.uniform(-1, 2).cdf).pvalue > 1e-3


def test_minibatch_streams_do_not_depend_on_their_length() -> None:
    long = list(noise.minibatch_stream(noise.generator(1, "s"), 2, 50, 5, 3, 8, block=4))
    short = list(noise.minibatch_stream(noise.generator(1, "s"), 2, 50, 5, 3, 4, block=4))
    for (rows, normals), (same_rows, same_normals) in zip(long[:4], short, strict=True):
        assert torch.equal(rows, same_rows)
        assert torch.equal(normals, same_normals)


@pytest.mark.parametrize(("n", "rate"), [(10, 0.4), (100, 0.1)])
def test_poisson_samples_hold_each_row_with_the_same_probability_independently(n: int, rate: float) -> None:
    held = []
    for rows, mask, normals in noise.poisson_stream(noise.generator(2, "p"), 100, n, rate, 3, 400):
        assert normals.shape == (100, 1, 3)
        held.append(torch.zeros(100, n + 1).scatter_(1, torch.where(mask, rows, n), 1.0)[:, :n])
        assert torch.equal(held[-1].sum(1), mask.sum(1).float())  # no row twice
    sample = torch.cat(held).numpy()  # (40,000, n)
    count = sample.sum(0)
    assert scipy.stats.chi2(n).sf(((count - 4e4 * rate) ** 2 / (4e4 * rate * (1 - rate))).sum()) > 1e-3
    size = np.bincount(sample.sum(1).astype(int), minlength=n + 1)
    expected = 4e4 * scipy.stats.binom(n, rate).pmf(np.arange(n + 1))
    likely = expected > 10
    assert scipy.stats.chi2(likely.sum()).sf(((size - expected) ** 2 / expected)[likely].sum()) > 1e-3
    correlation = np.corrcoef(sample[:, 0], sample[:, -1])[0, 1]
    assert abs(correlation) < 4 / math.sqrt(4e4)


def test_poisson_samples_refuse_a_rate_that_is_none() -> None:
    with pytest.raises(ValueError, match=r"rate must be in \(0, 1\], not 1.5"):
        next(noise.poisson_stream(noise.generator(0, "p"), 1, 10, 1.5, 1, 1))
