import hashlib
import itertools
import math
import zlib
from itertools import islice
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

from dplangevin import random


def test_streams_of_ordinary_seeds_are_those_of_32_bits_that_results_were_made_with() -> None:
    for seed in (0, 7, 2**32, 2**64 - 1):
        state = np.random.SeedSequence([seed, zlib.crc32(b"adult/ops")]).generate_state(1, np.uint64)[0]
        words = torch.Generator().manual_seed(int(state >> np.uint64(1)) % 2**32)
        assert torch.equal(random.noise(random.generator(seed, "adult/ops"), 9), random.noise(words, 9))
    drawn = random.noise(random.generator(0, "adult/ops"), 2).tolist()
    assert drawn == pytest.approx([0.9266027191570937, -0.8552735378621392], rel=1e-12)


def by_numpy(words: np.ndarray) -> np.ndarray:
    """1500 draws below 2^31 of numpy's Mersenne Twister with that state: torch takes two words each."""
    made = np.random.MT19937()
    made.state = {"bit_generator": "MT19937", "state": {"key": words, "pos": 624}}
    return np.asarray(made.random_raw(3000)[1::2] % 2**31)


def test_all_bits_of_a_seed_of_the_systems_entropy_count() -> None:
    """The whole state is SHAKE-256 of seed and label, not one of 2^32 states that torch can be seeded with."""
    seed = 2**128 + 5
    words = np.frombuffer(hashlib.shake_256(f"{seed} adult/ops".encode()).digest(2496), "<u4")
    drawn = torch.randint(2**31, (1500,), generator=random.generator(seed, "adult/ops"))
    assert np.array_equal(drawn.numpy(), by_numpy(words))
    for other in (random.generator(seed + 2**100, "adult/ops"), random.generator(seed, "adult/dpvi")):
        assert not torch.equal(drawn, torch.randint(2**31, (1500,), generator=other))


@pytest.mark.parametrize(("n", "size"), [(5, 2), (40, 3), (9, 2)])  # by sorting keys, and by drawing again
def test_every_subset_is_equally_likely(n: int, size: int) -> None:
    found = random.subsets(random.generator(0, "t"), (60_000,), n, size).sort(-1).values.numpy()
    assert found.min() >= 0
    assert found.max() < n
    assert (np.diff(found) > 0).all()
    sets = list(itertools.combinations(range(n), size))
    codes = {s: i for i, s in enumerate(sets)}
    counts = np.bincount([codes[tuple(row)] for row in found.tolist()], minlength=len(sets))
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize(("n", "size"), [(900, 200), (4_000_000, 1_000)])  # keys of 32 bits, and of 64
def test_a_later_copy_of_a_row_is_drawn_again(n: int, size: int) -> None:
    found = random.subsets(random.generator(3, "t"), (2, 30), n, size)
    rng = random.generator(3, "t")
    rows: list[list[int]] = random.integers(rng, n, 60, size).tolist()
    copies = 0
    while later := [(r, k) for r, row in enumerate(rows) for k in range(size) if row[k] in row[:k]]:
        drawn = random.integers(rng, n, len(later)).tolist()
        for (r, k), value in zip(later, drawn, strict=True):
            rows[r][k] = value
        copies += len(later)
    assert copies > 0
    assert found.reshape(60, size).tolist() == rows


def test_no_row_of_many_is_likelier() -> None:
    """Words of 32 bits modulo this n hit its first third 22 times in 64."""
    n, runs = 3 * 2**26, 200_000
    share = float((random.integers(random.generator(0, "t"), n, runs) < n // 3).double().mean())
    assert abs(share - 1 / 3) < 4 * math.sqrt(2 / 9 / runs)


def test_sizes_of_samples_of_many_rows_are_binomial() -> None:
    """More rows than float32 can count."""
    n, size = 30_000_000, 30
    drawn = random.batches(random.generator(0, "t"), {"poisson"}, 1000, n, size, 1, 60, 60)
    sizes = torch.cat([batch.sizes for batch in drawn if batch.sizes is not None]).numpy()
    expected = len(sizes) * scipy.stats.binom(n, size / n).pmf(np.arange(100))
    likely = expected > 10
    found = np.bincount(sizes, minlength=100)[:100]
    assert scipy.stats.chi2(likely.sum()).sf(((found - expected) ** 2 / expected)[likely].sum()) > 1e-3


def test_subsets_larger_than_the_data_are_refused() -> None:
    with pytest.raises(ValueError, match="a subset of 11 of 10 rows does not exist"):
        random.subsets(random.generator(0, "t"), (1,), 10, 11)


def test_gamma_noise_has_gamma_norms_and_uniform_directions() -> None:
    b = random.gamma_ball(random.generator(0, "g"), 20_000, 3).numpy()
    norms = np.linalg.norm(b, axis=1)
    assert scipy.stats.kstest(norms, scipy.stats.gamma(3).cdf).pvalue > 1e-3
    # in three dimensions each coordinate of a uniform direction is uniform on [-1, 1] (Archimedes)
    assert scipy.stats.kstest(b[:, 0] / norms, scipy.stats.uniform(-1, 2).cdf).pvalue > 1e-3


@pytest.mark.parametrize("fine", [random.FINE, 0.3])
def test_noise_is_normal(fine: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a third of the uniforms get more digits; both of a pair, which do not depend on each other."""
    monkeypatch.setattr(random, "FINE", fine)
    drawn = random.noise(random.generator(0, "n"), 100_000, 1, 3).double().numpy()
    assert drawn.shape == (100_000, 1, 3)
    pair = drawn.ravel().reshape(2, -1)
    for each in pair:
        assert scipy.stats.kstest(each, scipy.stats.norm.cdf).pvalue > 1e-3
    assert abs(scipy.stats.spearmanr(*pair).statistic) < 4 / math.sqrt(pair.shape[1])
    assert abs(scipy.stats.spearmanr(*np.abs(pair)).statistic) < 4 / math.sqrt(pair.shape[1])


def test_noise_has_the_tails_of_normals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uniforms of 0, as torch draws them once in 2^53 times, are followed by more digits: 38 standard deviations."""
    real = torch.rand
    found = []
    for zeros in (0, 1, 2, 20, 40):
        values = iter([0.0] * zeros + [0.5, 0.0])  # of the radius, and an angle of 0
        monkeypatch.setattr(
            torch, "rand", lambda *shape, values=values, **more: 0 * real(*shape, **more) + next(values)
        )
        found.append(float(random.noise(random.generator(0, "n"), 1)))
    assert found == pytest.approx(
        [math.sqrt(2 * math.log(2) * (1 + 26 * k)) for k in (0, 1, 2, 20, 40)], rel=1e-12
    )
    assert found[-1] > 37.9


@pytest.mark.parametrize("schemes", [{"subset"}, {"poisson"}, {"poisson", "subset"}, {"full"}])
def test_batches_do_not_depend_on_how_many_follow(schemes: set[str]) -> None:
    def drawn(steps: int) -> list[random.Batch]:
        size = 50 if schemes == {"full"} else 5
        return list(random.batches(random.generator(1, "s"), schemes, 2, 50, size, 3, steps, 4))

    for one, same in zip(drawn(8)[:4], drawn(4), strict=True):
        assert all(a is b is None or torch.equal(a, b) for a, b in zip(one, same, strict=True))  # type: ignore[arg-type]
        assert one.normals.shape == (2, 1, 3)
        assert one.rows.shape[1] >= 5
        assert (one.sizes is None) == ("poisson" not in schemes)
        assert schemes != {"full"} or torch.equal(one.rows, torch.arange(50).expand(2, 50))


def test_an_epoch_meets_every_row_once_in_an_order_of_its_own() -> None:
    """And a run that begins within it goes on with the same rows; two of 14 rows are left over."""
    rows = torch.stack(list(islice(random.epochs(3, 5, 14, 4, 0), 6)), 1)  # (S, T, B)
    each = rows.unflatten(1, (2, 3)).flatten(2).sort(-1).values
    assert (each.diff(dim=-1) > 0).all()
    assert not torch.equal(each[:, 0], each[:, 1])  # others are left over
    assert len({tuple(order.flatten().tolist()) for order in rows.unflatten(1, (2, 3)).flatten(0, 1)}) == 10
    assert torch.equal(torch.stack(list(islice(random.epochs(3, 5, 14, 4, 4), 2)), 1), rows[:, 4:])


@pytest.mark.parametrize(("n", "size"), [(10, 4), (100, 10)])
@pytest.mark.parametrize("schemes", [{"poisson"}, {"poisson", "subset"}])
def test_poisson_samples_and_subsets_have_their_laws(n: int, size: int, schemes: set[str]) -> None:
    """Each row in a Poisson sample with probability size/n, independently; of subsets beside them, size rows."""
    held: list[torch.Tensor] = []
    chosen: list[torch.Tensor] = []
    rate, runs = size / n, 40_000
    for batch in random.batches(random.generator(2, "p"), schemes, 100, n, size, 3, 400, 64):
        assert batch.sizes is not None
        place = torch.arange(batch.rows.shape[1])
        for found, mask in ((held, place < batch.sizes[:, None]), (chosen, (place < size).expand(100, -1))):
            found.append(torch.zeros(100, n + 1).scatter_(1, torch.where(mask, batch.rows, n), 1.0)[:, :n])
            assert torch.equal(found[-1].sum(1), mask.sum(1).float())  # no row twice
    sample, subset = torch.cat(held).numpy(), torch.cat(chosen).numpy()  # (40,000, n)
    count = sample.sum(0)
    spread = runs * rate * (1 - rate)
    assert scipy.stats.chi2(n).sf(((count - runs * rate) ** 2 / spread).sum()) > 1e-3
    sizes = np.bincount(sample.sum(1).astype(int), minlength=n + 1)
    expected = runs * scipy.stats.binom(n, rate).pmf(np.arange(n + 1))
    likely = expected > 10
    assert scipy.stats.chi2(likely.sum()).sf(((sizes - expected) ** 2 / expected)[likely].sum()) > 1e-3
    assert abs(np.corrcoef(sample[:, 0], sample[:, -1])[0, 1]) < 4 / math.sqrt(runs)
    if "subset" in schemes:
        error = math.sqrt(rate / runs)
        assert (subset.sum(1) == size).all()
        assert np.abs(subset.mean(0) - rate).max() < 5 * error
        together = subset.T @ subset / runs
        apart = ~np.eye(n, dtype=bool)
        assert np.abs(together[apart] - rate * (size - 1) / (n - 1)).max() < 6 * error


def test_the_noise_of_chains_has_tails_unless_float32_is_asked_for() -> None:
    for dtype in (torch.float64, torch.float32):
        rngs = [random.generator(0, "tails") for _ in range(2)]
        more: Any = {} if dtype == torch.float64 else {"drawn_in": dtype}
        (batch,) = random.batches(rngs[0], {"full"}, 2, 3, 3, 40, 1, 1, **more)
        wanted = random.noise(rngs[1], 1, 2, 1, 40, dtype=dtype)[0]
        assert (dtype == torch.float32) == torch.equal(
            wanted.float(), torch.randn(1, 2, 1, 40, generator=random.generator(0, "tails"))[0]
        )
        assert torch.equal(batch.normals, wanted)


def test_no_seed_of_an_unpredictable_generator_can_be_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """All 624 words are the system's: draws are those of numpy's Mersenne Twister with that state."""
    words = np.random.default_rng(0).integers(2**32, size=624, dtype=np.uint32)
    first, second = random.unpredictable(), random.unpredictable()
    assert not torch.equal(first.get_state(), second.get_state())
    monkeypatch.setattr("secrets.token_bytes", lambda count: words.tobytes()[:count])
    drawn = torch.randint(2**31, (1500,), generator=random.unpredictable())
    assert np.array_equal(drawn.numpy(), by_numpy(words))
