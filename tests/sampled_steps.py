"""Sampled Gaussian steps as events, shared by the tests of the tight accountant."""

from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)


def without_replacement(multiplier: float, count: int, batch: int = 180, records: int = 32561) -> DpEvent:
    """`count` steps on subsets of `batch` of `records`; multiplier: noise over one record's norm."""
    sampled = SampledWithoutReplacementDpEvent(records, batch, GaussianDpEvent(multiplier))
    return SelfComposedDpEvent(sampled, count)


def poisson(multiplier: float, count: int, rate: float) -> DpEvent:
    """`count` Poisson-sampled steps."""
    return SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier)), count)
