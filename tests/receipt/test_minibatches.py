"""Samplers are recognised from the rows that they draw, and a right one is rejected in less than one run of 300."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from minibatches import RNG, Rows, allocated, epochs, poisson, replaced, subset

from dplangevin.receipt.minibatches import recognised

SAMPLERS: dict[str, Callable[[int, int, int], Rows]] = {
    "full": lambda n, b, steps: [RNG.permutation(n)] * steps,
    "poisson": poisson,
    "subset": subset,
    "shuffled": epochs,
    "shuffled, drop_last": lambda n, b, steps: epochs(n, b, steps, drop=True),
    "in_order": lambda n, b, steps: epochs(n, b, steps, shuffle=False),
    "in_order, unequal": lambda n, b, steps: (np.split(np.arange(n), [b // 2, *range(b, n, b)]) * steps)[
        :steps
    ],
    "random_allocation": allocated,
    "with_replacement": replaced,
    "weighted": lambda n, b, steps: replaced(n, b, steps, 6.0),
}
BOTH = {"random_allocation": "shuffled,random_allocation"}  # shuffled rows can be cut at the same places


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize(("n", "b", "steps"), [(600, 50, 48), (1000, 30, 150), (90, 20, 60)])
def test_a_sampler_is_recognised_alone(name: str, n: int, b: int, steps: int) -> None:
    first = Counter(
        ",".join(each.scheme for each in recognised(SAMPLERS[name](n, b, steps), n).samplers)
        for _ in range(20)
    )
    assert first == {BOTH.get(name, name.partition(",")[0]): 20}


@pytest.mark.parametrize("name", ["poisson", "subset", "shuffled", "random_allocation"])
@pytest.mark.parametrize(("n", "b", "steps"), [(40, 5, 8), (60, 6, 100), (5000, 10, 30), (300, 100, 3)])
def test_a_right_sampler_is_not_rejected(name: str, n: int, b: int, steps: int) -> None:
    found = [recognised(SAMPLERS[name](n, b, steps), n).samplers for _ in range(100)]
    assert sum(name not in [each.scheme for each in samplers] for samplers in found) <= 1


def test_rows_may_be_left_out_of_each_epoch() -> None:
    (sampler,) = recognised(epochs(110, 20, 25, drop=True), 110).samplers
    assert (sampler.scheme, sampler.per_epoch) == ("shuffled", 5)


def test_epochs_that_end_early_are_epochs() -> None:
    """Neighbouring minibatches of any sampler would share few rows, but these draw every row about three times."""
    drawn = [draw for _ in range(3) for draw in epochs(5000, 5, 999)]
    found = recognised(drawn, 5000)
    assert [(each.scheme, each.per_epoch) for each in found.samplers] == [("shuffled", 999)]
    assert "too evenly" in found.ruled_out["subset"]


def test_the_mean_size_tests_a_stated_rate() -> None:
    drawn = poisson(10_000, 100, 500)
    assert "rate" in recognised(drawn, 10_000, 0.0097).ruled_out["poisson"]
