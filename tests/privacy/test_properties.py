"""Laws of a price, for random steps: more work never costs less, more noise never more."""

import math

import pytest
from dp_accounting import DpEvent, GaussianDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_steps import poisson, without_replacement

from dplangevin.privacy.accountants.li2019 import Li2019
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.rdp import Rdp
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.accountants.wang2015 import Wang2015
from dplangevin.privacy.events import Adjacency

RECORDS = 10_000
# accountant, adjacency, how far its own grid may blur an order
CASES: list[tuple[Accountant, Adjacency, float]] = [
    (Li2019(32), "add_remove", 1e-12),
    (Li2019(64, "printed"), "add_remove", 1e-12),
    (Wang2015(), "replace_one", 1e-12),
    (Rdp(), "add_remove", 1e-9),
    (Rdp(), "replace_one", 1e-9),
    (Tight(), "add_remove", 3e-4),
    (Tight(), "replace_one", 3e-4),
]
every_case = pytest.mark.parametrize(
    ("accountant", "adjacency", "slack"), CASES, ids=lambda value: getattr(value, "name", str(value))
)
few = settings(max_examples=4, deadline=None, derandomize=True)
noises, counts = st.floats(0.8, 30.0), st.integers(1, 2000)
batches, deltas = st.integers(1, 500), st.floats(1e-8, 1e-3)
more = st.floats(1.02, 3.0)


def steps(adjacency: Adjacency, noise: float, count: int, batch: int) -> DpEvent:
    """Poisson sampling under add_remove, without replacement under replace_one: what all here can price."""
    if adjacency == "add_remove":
        return poisson(noise, count, batch / RECORDS)
    return without_replacement(noise, count, batch, RECORDS)


@every_case
@few
@given(noises, counts, st.integers(1, 2000), batches, deltas)
def test_more_steps_never_cost_less(
    accountant: Accountant,
    adjacency: Adjacency,
    slack: float,
    noise: float,
    count: int,
    extra: int,
    batch: int,
    delta: float,
) -> None:
    fewer = accountant.epsilon(steps(adjacency, noise, count, batch), delta, adjacency)
    longer = accountant.epsilon(steps(adjacency, noise, count + extra, batch), delta, adjacency)
    assert fewer <= longer * (1 + slack)


@every_case
@few
@given(noises, more, counts, batches, deltas)
def test_more_noise_never_costs_more(
    accountant: Accountant,
    adjacency: Adjacency,
    slack: float,
    noise: float,
    factor: float,
    count: int,
    batch: int,
    delta: float,
) -> None:
    quiet = accountant.epsilon(steps(adjacency, noise, count, batch), delta, adjacency)
    loud = accountant.epsilon(steps(adjacency, noise * factor, count, batch), delta, adjacency)
    assert loud <= quiet * (1 + slack)


@every_case
@few
@given(noises, counts, batches, deltas, st.floats(1.5, 100.0))
def test_a_smaller_delta_never_costs_less(
    accountant: Accountant,
    adjacency: Adjacency,
    slack: float,
    noise: float,
    count: int,
    batch: int,
    delta: float,
    factor: float,
) -> None:
    event = steps(adjacency, noise, count, batch)
    smaller = accountant.epsilon(event, delta / factor, adjacency)
    assert accountant.epsilon(event, delta, adjacency) <= smaller * (1 + slack)


@every_case
@few
@given(noises, counts, st.integers(1, 250), st.integers(1, 250), deltas)
def test_larger_batches_never_cost_less(
    accountant: Accountant,
    adjacency: Adjacency,
    slack: float,
    noise: float,
    count: int,
    batch: int,
    extra: int,
    delta: float,
) -> None:
    small = accountant.epsilon(steps(adjacency, noise, count, batch), delta, adjacency)
    large = accountant.epsilon(steps(adjacency, noise, count, batch + extra), delta, adjacency)
    assert small <= large * (1 + slack)


@pytest.mark.parametrize(
    ("accountant", "adjacency", "slack"),
    [case for case in CASES if case[0].name in ("RDP", "tight")] + [(Li2019(32), "add_remove", 1e-9)],
)
@few
@given(st.floats(2.0, 30.0), st.integers(1, 20), deltas)
def test_at_rate_one_sampling_is_nothing(
    accountant: Accountant, adjacency: Adjacency, slack: float, noise: float, count: int, delta: float
) -> None:
    full = accountant.epsilon(GaussianDpEvent(noise / math.sqrt(count)), delta, adjacency)
    sampled = accountant.epsilon(steps(adjacency, noise, count, RECORDS), delta, adjacency)
    assert sampled == pytest.approx(full, rel=slack)
