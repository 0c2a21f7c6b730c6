"""What users ran who asked in public threads, in small: what its ε truly is, and what the receipt says.

Threads: opacus 128, 200, 420, 571, 600, 813, 819; tensorflow/privacy 46, 81, 153, 483; jax_privacy 103, 222, 272, 395;
private-transformers 7.
"""

import math
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from minibatches import DELTA, epochs, gaussian, poisson, replaced

from dplangevin import Receipt

N, B, STEPS, NOISE = 600, 50, 36, 1.5


@cache
def sgm(rate: float, steps: int = STEPS, noise: float = NOISE) -> float:
    """Return the epsilon of Poisson samples (add/remove), by dp-accounting."""
    accountant = PLDAccountant()
    accountant.compose(SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), steps))
    return float(accountant.get_epsilon(DELTA))


def receipt(draws: Iterable[Any], noise: float = NOISE, rate: float | None = B / N, **more: Any) -> Receipt:
    found = Receipt(N, DELTA, rate, claim=sgm(B / N), claimed_by="the accountant")
    for draw in draws:
        divisor = more.get("divisor", B)
        found.step(draw, **{**more, "divisor": divisor or max(len(draw), 1)}, clip=1.0, noise_std=noise)
    return found


def costs(of: Receipt) -> tuple[float, float]:
    prices = of.prices()
    return prices["add_remove"].epsilon, prices["replace_one"].epsilon


def seen(of: Receipt) -> str:
    return of.found.samplers[0].scheme if of.found.samplers else ""


def pair(*pieces: np.ndarray) -> list[list[np.ndarray]]:
    """Return steps that accumulate two minibatches each."""
    return [list(two) for two in zip(pieces[::2], pieces[1::2], strict=True)]


@pytest.mark.parametrize(
    ("draws", "scheme", "per_row"),
    [  # per_row: how often a row is used, each time with the whole noise; 0: no price
        pytest.param(epochs(N, B, STEPS), "shuffled", 3, id="opacus 128, shuffled minibatches of one size"),
        pytest.param(epochs(N, B, STEPS, shuffle=False), "in_order", 0, id="tensorflow 153, in one order"),
        pytest.param(epochs(N, B, STEPS), "shuffled", 3, id="tensorflow 483, shuffle and iterate"),
        pytest.param(
            pair(*epochs(N, B, STEPS)), "shuffled", 3, id="jax_privacy 272, accumulated, Poisson off"
        ),
        pytest.param(
            epochs(N, 70, 24, drop=True), "shuffled", 3, id="jax_privacy 395, the remainder dropped"
        ),
        pytest.param(pair(*epochs(N, B, STEPS)), "shuffled", 3, id="private-transformers 7, virtual steps"),
    ],
)
def test_shuffled_minibatches_do_not_have_the_price_of_poisson_samples(
    draws: list[Any], scheme: str, per_row: int
) -> None:
    of = receipt(draws)
    added, changed = costs(of)
    assert seen(of) == scheme
    assert math.isnan(added)
    known = gaussian(2 * math.sqrt(per_row) / NOISE) if per_row else math.nan
    assert changed == pytest.approx(known, rel=1e-6, nan_ok=True)
    assert "not covered" in str(of)


@pytest.mark.parametrize("thread", ["jax_privacy 222", "opacus 420", "opacus 571", "opacus 819"])
def test_poisson_samples_with_a_constant_divisor_have_their_price(thread: str) -> None:
    """Sizes vary, the divisor does not: that is right.  No run shows whether it would be the same with a row fewer."""
    of = receipt(poisson(N, B, STEPS))
    assert seen(of) == "poisson"
    assert costs(of)[0] == pytest.approx(sgm(B / N), rel=1e-2)
    assert "covered for adding or removing" in str(of)
    if thread in ("opacus 571", "opacus 819"):
        assert "rate and divisor do not change with one row" in " ".join(of.statement()["assumptions"])


def test_opacus_420_division_by_the_realised_size_has_no_price() -> None:
    of = receipt(poisson(N, B, STEPS), divisor=None)
    assert math.isnan(costs(of)[0])
    assert "the realised size" in str(of)


def test_noise_on_the_mean_counts_times_the_divisor() -> None:
    """opacus 200, tensorflow 153, jax_privacy 395."""
    right = receipt(poisson(N, B, STEPS), noise=NOISE / B * B)  # opacus: both are divided
    assert costs(right)[0] == pytest.approx(sgm(B / N), rel=1e-2)
    more = receipt(poisson(N, B, STEPS), noise=NOISE * B)  # undivided noise on the mean
    assert costs(more)[0] < 0.1 < sgm(B / N)
    less = receipt(poisson(N, B, STEPS), noise=NOISE / B)  # noise for the mean, on the sum
    assert costs(less)[0] > 100


def test_opacus_600_weights_from_the_data_have_no_price() -> None:
    of = receipt(replaced(N, B, STEPS, 6.0), rate=None)
    assert seen(of) == "weighted"
    assert all(math.isnan(cost) for cost in costs(of))


def test_opacus_813_the_rate_that_ran_is_priced() -> None:
    """1/len(loader) of a sampler of few draws is a large rate: minibatches are large, and so is epsilon."""
    drawn = poisson(N, N // 8, 8)
    assert costs(receipt(drawn, rate=1 / 8))[0] == pytest.approx(sgm(1 / 8, 8), rel=1e-2)
    assert "stated rate" in str(receipt(drawn, rate=B / N))


@pytest.mark.parametrize("thread", ["tensorflow 46", "tensorflow 81"])
def test_microbatches_are_no_rows(thread: str) -> None:
    of = receipt(poisson(N, B, STEPS), rows_per_clip=8)
    assert all(
        math.isnan(cost) for cost in costs(of)
    )  # a sampled row turns the mean of its group, and moves others
    whole = receipt(
        [np.arange(N)] * STEPS, rows_per_clip=8
    )  # every row in its group: one clip, twice at most
    assert costs(whole)[1] == pytest.approx(gaussian(2 * STEPS**0.5 / NOISE), rel=1e-6)


def test_jax_privacy_103_cut_samples_are_no_poisson_samples() -> None:
    of = receipt([draw[:B] for draw in poisson(N, B, STEPS)])
    assert seen(of) != "poisson"
    assert math.isnan(costs(of)[0])
