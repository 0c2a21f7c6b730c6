"""Budgets, events and guarantees: what was promised, what was done to the data, and what it costs."""

from dplangevin.privacy.calibrate import calibrate
from dplangevin.privacy.events import (
    Adjacency,
    Budget,
    FisherScoringDpEvent,
    Guarantee,
    LangevinDpEvent,
    NearbyDpEvent,
    ObjectivePerturbationDpEvent,
    PosteriorSampleDpEvent,
    PureObjectivePerturbationDpEvent,
    RandomAllocationDpEvent,
    Released,
    SamplingScheme,
)

__all__ = [
    "Adjacency",
    "Budget",
    "FisherScoringDpEvent",
    "Guarantee",
    "LangevinDpEvent",
    "NearbyDpEvent",
    "ObjectivePerturbationDpEvent",
    "PosteriorSampleDpEvent",
    "PureObjectivePerturbationDpEvent",
    "RandomAllocationDpEvent",
    "Released",
    "SamplingScheme",
    "calibrate",
]
