"""Random settings: prices of last iterates against the exact law.

Every event has a price or is refused in a sentence. `make prices` tests 1,000 settings of each kind, `make test` 60.
"""

import math
import os
import re
from typing import Any, get_args

import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from exact_steps import gaussian
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from quick import sample

from dplangevin.privacy import LangevinDpEvent, PosteriorSampleDpEvent, events
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import Adjacency, RandomAllocationDpEvent

TIGHT = Tight()
random_cases = settings(max_examples=int(os.environ.get("CASES", "60")))
powers = st.floats(-12.0, -1.0)  # of delta
kinds = st.sampled_from(["add_remove", "replace_one"])


@random_cases
@given(st.floats(0.01, 0.99), st.floats(0.0, 2.0), st.integers(1, 60), st.floats(-1.5, 1.0), powers, kinds)
def test_the_last_iterate_of_a_quadratic(
    bend: float, decay: float, steps: int, noise: float, power: float, adjacency: Adjacency
) -> None:
    event = LangevinDpEvent(100, 100, steps, 0.5, 10**noise, 30.0, bend, bend, decay)
    price = TIGHT.epsilon(event, 10**power, adjacency)
    with mp.workdps(30):
        mean, variance = mpf(0), mpf(0)
        for eta in event.step_sizes().tolist():
            kept = 1 - mpf(eta) * mpf(bend)
            mean = kept * mean + mpf(eta) * (60 if adjacency == "replace_one" else 30) / 100
            variance = kept**2 * variance + 2 * mpf(eta) * mpf(10**noise) ** 2
        mu = mean / mp.sqrt(variance)
    with mp.workdps(50):
        assert gaussian(mu, mpf(price)) <= 10**power * (1 + mpf("1e-12"))
        if price > 1e-3:  # below, delta decides on few digits
            assert gaussian(mu, mpf(price) / (1 + 1e-9)) > 10**power


def power_of_10(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high).map(lambda power: float(10.0**power))


some, small, ranks = power_of_10(-3.0, 3.0), st.just(0.0) | power_of_10(-9.0, 0.0), st.integers(1, 5)
steps, gaussians = st.integers(1, 1000), st.builds(GaussianDpEvent, some)
sizes = st.tuples(st.integers(2, 10**5), st.integers(2, 10**5)).map(lambda pair: sorted(pair, reverse=True))
one, total = st.deferred(lambda: st.one_of(*EACH)), st.just(0.0) | power_of_10(-20.0, -2.0)
several = st.lists(one, min_size=1, max_size=3)
FIELDS: dict[type[DpEvent], tuple[st.SearchStrategy[Any], ...]] = {
    GaussianDpEvent: (some,),
    PoissonSampledDpEvent: (power_of_10(-6.0, 0.0), gaussians),
    PosteriorSampleDpEvent: (power_of_10(-6.0, 3.0), some),
    events.ObjectivePerturbationDpEvent: (some, some, some, some, ranks, st.booleans(), small, small),
    events.PureObjectivePerturbationDpEvent: (some, some, some, some, ranks, small, small),
    events.ShuffledEpochsDpEvent: (st.builds(SelfComposedDpEvent, gaussians, steps),),
    RandomAllocationDpEvent: (steps, gaussians),
    events.PateDpEvent: (steps, steps, some, some),
    # pairs of sizes and of curvatures, which are in order
    SampledWithoutReplacementDpEvent: (sizes, gaussians),
    events.FisherScoringDpEvent: (sizes, steps, some),
    LangevinDpEvent: (sizes, steps, some, some, some, st.tuples(some, some).map(sorted), small),
    ComposedDpEvent: (several.flatmap(lambda of: st.just([SelfComposedDpEvent(each, 7) for each in of])),),
    events.NearbyDpEvent: (one, total),
    RepeatAndSelectDpEvent: (one, st.floats(1.01, 60.0), st.sampled_from([0.0, 0.3, 1.0, 3.0, math.inf])),
}
SEVERAL = [ComposedDpEvent, events.NearbyDpEvent, RepeatAndSelectDpEvent]


def built(kind: type[DpEvent], *given: Any) -> DpEvent:
    pairs = kind in (SampledWithoutReplacementDpEvent, events.FisherScoringDpEvent, LangevinDpEvent)
    return kind(*(part for each in given for part in (each if pairs and isinstance(each, list) else [each])))


EACH: list[st.SearchStrategy[DpEvent]] = [
    st.builds(built, st.just(kind), *of) for kind, of in FIELDS.items() if kind not in SEVERAL
]
SUMS = GaussianDpEvent, PoissonSampledDpEvent, SampledWithoutReplacementDpEvent, PosteriorSampleDpEvent
QUICK = events.PureObjectivePerturbationDpEvent, events.ShuffledEpochsDpEvent, events.PateDpEvent


@pytest.mark.parametrize("kind", sample(FIELDS, QUICK.__contains__))
@random_cases
@given(st.data(), st.integers(1, 1000), st.floats(-15.0, -1.0), st.sampled_from([*get_args(Adjacency)]))
def test_every_setting_has_a_price_or_is_refused(
    kind: type[DpEvent], data: st.DataObject, count: int, power: float, adjacency: Adjacency
) -> None:
    event = data.draw(st.builds(built, st.just(kind), *FIELDS[kind]))
    event = SelfComposedDpEvent(event, count) if kind in SUMS else event
    try:
        price, refused = TIGHT.epsilon(event, 10**power, adjacency), ""
    except ValueError as error:
        price, refused = 0.0, str(error)
    assert price >= 0
    assert not refused or re.search("cannot price|add noise", refused)
