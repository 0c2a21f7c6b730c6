"""Events and budgets."""

import math

import pytest

from dplangevin.privacy import (
    Budget,
    FisherScoringDpEvent,
    LangevinDpEvent,
    ObjectivePerturbationDpEvent,
    PosteriorSampleDpEvent,
    PureObjectivePerturbationDpEvent,
)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        *((lambda e=e: Budget(e, 1e-5), f"epsilon = {e}") for e in (0.0, -1.0, math.nan)),
        *((lambda d=d: Budget(1.0, d), f"delta = {d}") for d in (-1e-9, 1.0, math.nan)),
        (lambda: PosteriorSampleDpEvent(0.0, 1.0), "rho must be positive and finite, not 0.0"),
        (lambda: PosteriorSampleDpEvent(1.0, math.inf), "radius must be positive and finite, not inf"),
        (
            lambda: ObjectivePerturbationDpEvent(1.0, 1.0, -0.25, 1.0),
            "smoothness must be finite and >= 0, not -0.25",
        ),
        (lambda: PureObjectivePerturbationDpEvent(1.0, 1.0, 0.25, 0.0), "ridge must be positive"),
        (lambda: LangevinDpEvent(100, 101, 5, 0.1, 1.0, 1.0, 0.1, 1.0), "batch = 101 .*records = 100"),
        (lambda: LangevinDpEvent(100, 10, 0, 0.1, 1.0, 1.0, 0.1, 1.0), "steps = 0"),
        (lambda: LangevinDpEvent(100, 10, 5, 0.1, 1.0, 1.0, 2.0, 1.0), "strong_convexity = 2.0"),
        (lambda: LangevinDpEvent(100, 10, 5, 0.1, 1.0, 1.0, 0.1, 1.0, -1.0), "decay must be finite and >= 0"),
        (lambda: FisherScoringDpEvent(100, 1, 5, 1.0), "batch = 1 "),
    ],
)
def test_budgets_and_events_refuse_values_outside_their_domain(make, field):
    with pytest.raises(ValueError, match=field):
        make()
