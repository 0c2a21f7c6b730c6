"""Budgets, events and guarantees: what was promised, what was done to the data, and what it costs."""

from dplangevin.privacy.calibration import noise_for
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
    "noise_for",
]
