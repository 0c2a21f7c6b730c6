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


every_case = each(CASES)
few = settings(max_examples=4, deadline=None, derandomize=True)
noises, counts = st.floats(0.8, 30.0), st.integers(1, 2000)
batches, deltas = st.integers(1, 500), st.floats(1e-8, 1e-3)
more = st.floats(1.02, 3.0)


@every_case
@few
@given(noises, counts, st.integers(1, 2000), batches, deltas)
def test_more_steps_never_cost_less(
    case: Case, noise: float, count: int, extra: int, batch: int, delta: float
) -> None:
    longer = case.price(noise, count + extra, batch, delta)
    assert case.price(noise, count, batch, delta) <= longer * (1 + case.slack)


@every_case
@few
@given(noises, more, counts, batches, deltas)
def test_more_noise_never_costs_more(
    case: Case, noise: float, factor: float, count: int, batch: int, delta: float
) -> None:
    quiet = case.price(noise, count, batch, delta)
    assert case.price(noise * factor, count, batch, delta) <= quiet * (1 + case.slack)


@every_case
@few
@given(noises, counts, batches, deltas, st.floats(1.5, 100.0))
def test_a_smaller_delta_never_costs_less(
    case: Case, noise: float, count: int, batch: int, delta: float, factor: float
) -> None:
    smaller = case.price(noise, count, batch, delta / factor)
    assert case.price(noise, count, batch, delta) <= smaller * (1 + case.slack)


@every_case
@few
@given(noises, counts, st.integers(1, 250), st.integers(1, 250), deltas)
def test_larger_batches_never_cost_less(
    case: Case, noise: float, count: int, batch: int, extra: int, delta: float
) -> None:
    large = case.price(noise, count, batch + extra, delta)
    assert case.price(noise, count, batch, delta) <= large * (1 + case.slack)


@each(SAMPLED)
@few
@given(st.floats(2.0, 30.0), st.integers(1, 20), deltas)
def test_at_rate_one_sampling_is_nothing(case: Case, noise: float, count: int, delta: float) -> None:
    full = case.accountant.epsilon(GaussianDpEvent(noise / math.sqrt(count)), delta, case.adjacency)
    assert case.price(noise, count, RECORDS, delta) == pytest.approx(full, rel=case.slack)
