"""Neighbours of which one record is replaced by one that contributes nothing."""

from typing import get_args

import numpy as np
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

from dplangevin import random
from dplangevin.attacks.audit import audit
from dplangevin.attacks.sampled import all_iterates
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of
from dplangevin.privacy.accountants.google import DpAccounting
from dplangevin.privacy.accountants.li2019 import Li2019
from dplangevin.privacy.accountants.rdp import Rdp
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import (
    Adjacency,
    FisherScoringDpEvent,
    LangevinDpEvent,
    NearbyDpEvent,
    ObjectivePerturbationDpEvent,
    PateDpEvent,
    PosteriorSampleDpEvent,
    PureObjectivePerturbationDpEvent,
    ShuffledEpochsDpEvent,
)
from dplangevin.privacy.survey import ACCOUNTANTS, survey

POISSON = SelfComposedDpEvent(PoissonSampledDpEvent(0.05, GaussianDpEvent(1.5)), 40)
SUBSETS = SelfComposedDpEvent(SampledWithoutReplacementDpEvent(100, 5, GaussianDpEvent(1.5)), 40)
MOST = SelfComposedDpEvent(SampledWithoutReplacementDpEvent(100, 99, GaussianDpEvent(1.5)), 4)
LANGEVIN = LangevinDpEvent(100, 100, 50, 0.1, 0.05, 1.0, 0.1, 1.0)
ALIKE = [  # the number of records decides nothing
    GaussianDpEvent(2.0),
    POISSON,
    ComposedDpEvent([POISSON, GaussianDpEvent(5.0)]),
    PosteriorSampleDpEvent(0.1, 3.0),
    ObjectivePerturbationDpEvent(3.0, 1.0, 0.25, 2.0),
    ObjectivePerturbationDpEvent(3.0, 1.0, 0.25, 2.0, rank=3, one_sided=False),
    PureObjectivePerturbationDpEvent(0.4, 1.0, 0.25, 2.0),
    PateDpEvent(100, 20, 40.0, 20.0),
    NearbyDpEvent(GaussianDpEvent(2.0), 1e-9),
    LANGEVIN,
    RepeatAndSelectDpEvent(POISSON, 5.0, 0.0),
]
FIXED = [
    SUBSETS,
    MOST,
    LangevinDpEvent(100, 10, 50, 0.1, 0.05, 1.0, 0.1, 1.0),
    FisherScoringDpEvent(100, 10, 20, 1.0),
    ShuffledEpochsDpEvent(SelfComposedDpEvent(GaussianDpEvent(3.0), 4)),
    RepeatAndSelectDpEvent(SUBSETS, 5.0, 0.0),
]


@pytest.mark.parametrize("event", ALIKE, ids=lambda event: type(event).__name__)
def test_it_costs_what_adding_a_record_costs_where_n_decides_nothing(event: DpEvent) -> None:
    for delta in (1e-3, 1e-7):
        assert Tight().epsilon(event, delta, "zero_out") == Tight().epsilon(event, delta, "add_remove")


@pytest.mark.parametrize("event", [*ALIKE, *FIXED], ids=lambda event: type(event).__name__)
def test_it_never_costs_more_than_replacing_a_record_by_any_other(event: DpEvent) -> None:
    for delta in (1e-3, 1e-7):
        replaced = Tight().epsilon(event, delta, "replace_one")
        assert 0 < Tight().epsilon(event, delta, "zero_out") <= replaced * (1 + 1e-9)


def test_a_shuffled_epoch_is_one_gaussian_mechanism_of_sensitivity_1() -> None:
    event = ShuffledEpochsDpEvent.of(10, np.full(40, 3.0))
    assert Tight().epsilon(event, 1e-5, "zero_out") == pytest.approx(epsilon_of(2 / 3, 1e-5), rel=1e-9)
    with pytest.raises(ValueError, match="add_remove"):
        Tight().epsilon(event, 1e-5, "add_remove")


@pytest.mark.parametrize("event", [GaussianDpEvent(2.0), POISSON], ids=["full", "poisson"])
def test_other_accountants_agree(event: DpEvent) -> None:
    tight = Tight().epsilon(event, 1e-5, "zero_out")
    for accountant in (Rdp(), Li2019(2048), DpAccounting()):
        assert accountant.epsilon(event, 1e-5, "zero_out") == pytest.approx(
            accountant.epsilon(event, 1e-5, "add_remove"), rel=1e-9
        )
    assert DpAccounting().epsilon(event, 1e-5, "zero_out") == pytest.approx(tight, rel=2e-3)


def test_large_subsets_cost_at_most_all_records() -> None:
    price = Tight().epsilon(MOST, 1e-5, "zero_out")
    assert price <= epsilon_of(2 / 1.5, 1e-5) * (1 + 1e-9)
    assert price < 0.7 * Tight().epsilon(MOST, 1e-5, "replace_one")


def test_an_attack_on_large_subsets_stays_below_the_price() -> None:
    shown = audit(*all_iterates(MOST, 20_000, random.generator(0, "zero out"), "zero_out"), delta=0.1)
    assert shown.epsilon <= Tight().epsilon(MOST, 0.1, "zero_out")


def test_a_refusal_of_zero_out_is_kept_beside_the_same_one_of_add_remove() -> None:
    """Renyi divergences of subsets are known for replaced records alone."""
    found = survey(SUBSETS, 1e-5, neighbours=get_args(Adjacency))
    assert {each.adjacency for each in found.refusals if each.name == "RDP"} == {"add_remove", "zero_out"}
    for adjacency in get_args(Adjacency):
        priced = {type(ACCOUNTANTS[row.key].accountant) for row in found.prices if row.adjacency == adjacency}
        refused = {each.name for each in found.refusals if each.adjacency in (adjacency, "")}
        for kind in {type(entry.accountant) for entry in ACCOUNTANTS.values()} - priced:
            of_kind = {e.accountant.name for e in ACCOUNTANTS.values() if type(e.accountant) is kind}
            assert of_kind & refused, (adjacency, kind)
