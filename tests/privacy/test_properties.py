"""Laws of a price, for random mechanisms: more work never costs less, more noise never more."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent, SelfComposedDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_steps import poisson, without_replacement

from dplangevin.privacy import ObjectivePerturbationDpEvent, PosteriorSampleDpEvent, RandomAllocationDpEvent
from dplangevin.privacy.accountants.kifer2012 import Kifer2012
from dplangevin.privacy.accountants.li2019 import Li2019
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.rdp import Rdp
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.accountants.wang2015 import Wang2015
from dplangevin.privacy.events import Adjacency

RECORDS = 10_000


def poisson_steps(noise: float, count: int, batch: int) -> DpEvent:
    return poisson(noise, count, batch / RECORDS)


def subset_steps(noise: float, count: int, batch: int) -> DpEvent:
    return without_replacement(noise, count, batch, RECORDS)


def allocated(noise: float, count: int, batch: int) -> DpEvent:
    epoch = RandomAllocationDpEvent(RECORDS // batch, GaussianDpEvent(noise))
    return SelfComposedDpEvent(epoch, math.ceil(count / 100))


def hybrid(noise: float, count: int, batch: int) -> DpEvent:
    return ComposedDpEvent([PosteriorSampleDpEvent(1.0, 2.0), subset_steps(noise, count, batch)])


def one_fit(noise: float, count: int, batch: int) -> DpEvent:
    return ObjectivePerturbationDpEvent(noise, 1.0, 0.25, 1.0)


def one_sample(noise: float, count: int, batch: int) -> DpEvent:
    return PosteriorSampleDpEvent(1 / noise, 2.0)


class Case(NamedTuple):
    """slack: how far the accountant's own grid may blur an order."""

    accountant: Accountant
    adjacency: Adjacency
    mechanism: Callable[[float, int, int], DpEvent]
    slack: float

    def price(self, noise: float, count: int, batch: int, delta: float) -> float:
        return self.accountant.epsilon(self.mechanism(noise, count, batch), delta, self.adjacency)

    def __str__(self) -> str:
        return f"{self.accountant.name}, {self.mechanism.__name__}"


CASES = [
    Case(Li2019(32), "add_remove", poisson_steps, 1e-9),
    Case(Rdp(), "add_remove", poisson_steps, 1e-9),
    Case(Rdp(), "replace_one", subset_steps, 1e-9),
    Case(Tight(), "replace_one", poisson_steps, 3e-4),
    Case(Tight(), "replace_one", subset_steps, 3e-4),
    Case(Li2019(64, "printed"), "add_remove", poisson_steps, 1e-12),
    Case(Wang2015(), "replace_one", subset_steps, 1e-12),
    Case(Tight(), "replace_one", hybrid, 3e-4),
    Case(Tight(), "replace_one", one_fit, 1e-12),
    Case(Tight(), "replace_one", one_sample, 1e-12),
    Case(Kifer2012(), "replace_one", one_fit, 1e-12),
    *(
        pytest.param(Case(Tight(), *case), marks=pytest.mark.slow)
        for case in (
            ("add_remove", poisson_steps, 3e-4),
            ("add_remove", allocated, 5e-3),
            ("replace_one", allocated, 3e-2),
        )
    ),
]


@pytest.mark.parametrize("what", ["count", "batch", "noise", "delta"])
@pytest.mark.parametrize("case", CASES, ids=str)
@settings(max_examples=4)
@given(
    st.floats(0.8, 30.0),
    st.integers(1, 2000),
    st.integers(1, 500),
    st.floats(1e-8, 1e-3),
    st.floats(1.02, 10.0),
)
def test_more_work_less_noise_and_a_smaller_delta_never_cost_less(
    what: str, case: Case, noise: float, count: int, batch: int, delta: float, factor: float
) -> None:
    some: dict[str, Any] = {"noise": noise, "count": count, "batch": batch, "delta": delta}
    more = math.ceil(some[what] * factor) if what in ("count", "batch") else some[what] / factor
    assert case.price(**some) <= case.price(**some | {what: more}) * (1 + case.slack)
