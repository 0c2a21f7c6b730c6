"""Laws of a price, for random mechanisms: more work never costs less, more noise never more."""

import math
from collections.abc import Callable
from typing import NamedTuple

import pytest
from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from quick import sample
from sampled_steps import poisson, without_replacement

from dplangevin.privacy import ObjectivePerturbationDpEvent, PosteriorSampleDpEvent
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


SAMPLED = [
    Case(Li2019(32), "add_remove", poisson_steps, 1e-9),
    Case(Rdp(), "add_remove", poisson_steps, 1e-9),
    Case(Rdp(), "replace_one", subset_steps, 1e-9),
    Case(Tight(), "add_remove", poisson_steps, 3e-4),  # seconds
    Case(Tight(), "replace_one", poisson_steps, 3e-4),
    Case(Tight(), "replace_one", subset_steps, 3e-4),
]
CASES = [
    *SAMPLED,
    Case(Li2019(64, "printed"), "add_remove", poisson_steps, 1e-12),
    Case(Wang2015(), "replace_one", subset_steps, 1e-12),
    Case(Tight(), "replace_one", hybrid, 3e-4),
    Case(Tight(), "replace_one", one_fit, 1e-12),
    Case(Tight(), "replace_one", one_sample, 1e-12),
    Case(Kifer2012(), "replace_one", one_fit, 1e-12),
]


def each(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "case",
        sample(cases, lambda case: case != SAMPLED[-3]),
        ids=lambda case: f"{case.accountant.name}, {case.mechanism.__name__}",
    )


few = settings(max_examples=4, deadline=None, derandomize=True)
noises, counts, deltas = st.floats(0.8, 30.0), st.integers(1, 2000), st.floats(1e-8, 1e-3)
MORE: dict[str, Callable[[float], dict[str, float]]] = {  # what costs no less, for a factor of at least 1
    "steps": lambda factor: {"count": factor},
    "records in a batch": lambda factor: {"batch": factor},
    "noise taken away": lambda factor: {"noise": 1 / factor},
    "failures excluded": lambda factor: {"delta": 1 / factor},
}


@pytest.mark.parametrize("more", MORE)
@each(CASES)
@few
@given(noises, counts, st.integers(1, 500), deltas, st.floats(1.02, 10.0))
def test_more_work_or_less_noise_never_costs_less(
    more: str, case: Case, noise: float, count: int, batch: int, delta: float, factor: float
) -> None:
    by = MORE[more](factor)
    some = case.price(noise, count, batch, delta)
    dearer = case.price(
        noise * by.get("noise", 1),
        math.ceil(count * by.get("count", 1)),
        math.ceil(batch * by.get("batch", 1)),
        delta * by.get("delta", 1),
    )
    assert some <= dearer * (1 + case.slack)


@each(SAMPLED)
@few
@given(st.floats(2.0, 30.0), st.integers(1, 20), deltas)
def test_at_rate_one_sampling_is_nothing(case: Case, noise: float, count: int, delta: float) -> None:
    full = case.accountant.epsilon(GaussianDpEvent(noise / math.sqrt(count)), delta, case.adjacency)
    assert case.price(noise, count, RECORDS, delta) == pytest.approx(full, rel=case.slack)
