"""Ryffel et al. (2022), Theorem 3.1, against its printed formula and the authors' settings."""

import math
from typing import Any

import attr
import pytest
from dp_accounting import ComposedDpEvent

from dplangevin import facts
from dplangevin.methods.dp_sgld_ryffel2022 import DpSgldRyffel2022
from dplangevin.privacy import Budget, LangevinDpEvent
from dplangevin.privacy.accountants.last_iterate import Ryffel2022
from dplangevin.privacy.survey import survey
from dplangevin.problems.sampling import Sampling

REAL, INTEGER = Ryffel2022("real"), Ryffel2022("integer")


def event(steps: int, **changed: Any) -> LangevinDpEvent:
    resnet = LangevinDpEvent(50_000, 128, steps, 0.018, 0.0022, 15.0, 0.001, 20.0)
    return attr.evolve(resnet, **changed)


@pytest.mark.parametrize(
    ("accountant", "steps", "expected"),
    [  # mpmath: a alpha + ln(1/delta)/(alpha - 1), over alpha = 2, 3, ..., or in closed form
        (INTEGER, 30, 0.9817035705836439),
        (INTEGER, 11719, 26.40374982424177),
        (REAL, 30, 0.9817010237563568),
        (REAL, 11719, 25.962266715990285),
    ],
)
def test_resnet18_with_epochs_and_with_steps(accountant: Ryffel2022, steps: int, expected: float) -> None:
    assert accountant.epsilon(event(steps), 1e-5) == pytest.approx(expected, rel=1e-9)


def test_corollary_33_lies_between_the_sum_from_0_and_the_sum_from_1() -> None:
    # beta = lambda = 1, K = 10: sums 2.69360 and 2.33646, printed 2 ln(1 + 10/4) = 2.50553
    decreasing = event(10, step_size=0.5, strong_convexity=1.0, smoothness=1.0, decay=0.5)
    assert decreasing.step_sizes() == pytest.approx([1 / (2 + k / 2) for k in range(10)], rel=1e-12)
    scale = 4 * 2 * 15**2 / (50_000 * 0.0022) ** 2
    from_one = 1 - math.exp(-sum(1 / (2 + k / 2) for k in range(1, 11)) / 2)
    printed = 10 / (4 + 10)
    assert scale * from_one < scale * printed < REAL.renyi(decreasing, 2.0)
    assert REAL.renyi(decreasing, 2.0) == pytest.approx(scale * 0.7399289514910774, rel=1e-9)


def test_runs_in_sequence_add_up() -> None:
    both = ComposedDpEvent([event(30), event(30, noise_std=0.0044)])
    slope = REAL.renyi(event(30), 2.0) / 2 * 1.25
    assert REAL.epsilon(both, 1e-5) == pytest.approx(slope + 2 * math.sqrt(slope * math.log(1e5)), rel=1e-12)


def test_condition_on_the_step_size() -> None:
    assert REAL.violated(event(30), 1e-5) == ()
    assert REAL.violated(event(30, smoothness=100.0), 1e-5) == ("eta = 0.018 >= 1/beta = 0.01",)


def test_a_clip_makes_the_theorem_a_claim() -> None:
    """Theorem 3.1 promises less than all iterates cost, where gradients are clipped."""
    sampling = Sampling("subset", 200, 300.0)
    for clip, status in ((0.1, "claim"), (None, "proven")):
        plan = DpSgldRyffel2022(sampling=sampling, l2=0.1, noise_std=0.5, clip=clip).plan(
            facts(200, 5), Budget(1.0, 1e-5)
        )
        assert isinstance(plan.paper, LangevinDpEvent)
        found = survey(plan.guarantee.event, 1e-5, plan.paper, plan.violated)
        assert [row.status for row in found.prices if row.key == "ryffel2022"] == [status]
