"""Budgets, events and guarantees: what was promised, what was done to the data, and what it costs."""

from dplangevin.privacy.calibrate import calibrate
from dplangevin.privacy.events import (
    Adjacency,
    Budget,
    FisherScoringDpEvent,
    Guarantee,
    HalfReplacedDpEvent,
    LangevinDpEvent,
    NearbyDpEvent,
    ObjectivePerturbationDpEvent,
    OneOfDpEvent,
    PosteriorSampleDpEvent,
    PureObjectivePerturbationDpEvent,
    RandomAllocationDpEvent,
    Released,
    SamplingScheme,
    SecondMomentDpEvent,
    SufficientStatisticsDpEvent,
)

__all__ = [
    "Adjacency",
    "Budget",
    "FisherScoringDpEvent",
    "Guarantee",
    "HalfReplacedDpEvent",
    "LangevinDpEvent",
    "NearbyDpEvent",
    "ObjectivePerturbationDpEvent",
    "OneOfDpEvent",
    "PosteriorSampleDpEvent",
    "PureObjectivePerturbationDpEvent",
    "RandomAllocationDpEvent",
    "Released",
    "SamplingScheme",
    "SecondMomentDpEvent",
    "SufficientStatisticsDpEvent",
    "calibrate",
]
