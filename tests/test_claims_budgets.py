"""Budgets and settings that ryffel2022 says its rows share."""

import math

import head_rows
import pytest
from head_rows import run

from dplangevin import claims
from dplangevin.claims import budgets


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, claims.CONTRADICTED),  # the attack shows 3
        ({"epsilon_audit": 0.5}, claims.NOT_REPRODUCED),
        ({"epsilon_last": 0.9}, claims.REPRODUCED),
        ({"epsilon_tight": 1.004}, claims.REPRODUCED),
        ({"epsilon_tight_add_remove": 1.0}, claims.UNDER_CHOICES),
    ],
)
def test_budget(change: dict[str, float], verdict: str) -> None:
    frame = run("cifar10_resnet20", "dp_langevin_constant_published", 0.6, **change)
    found = budgets.budget(frame, where={"method": "dp_langevin"}, claimed=1.0)
    assert found["verdict"] == verdict
    prices = {"epsilon_tight": 11.0, "epsilon_last": 10.5, **change}
    assert found["ours"] == min(prices["epsilon_tight"], prices["epsilon_last"])
    assert (
        "by the paper's formula with K = epochs 0.98; by the paper's formula with K = steps 26"
        in found["reason"]
    )
    assert "an attack on these rows shows at least" in found["reason"]


def test_budget_without_a_price() -> None:
    frame = run(
        "cifar10_resnet20",
        "dp_langevin_constant_published",
        0.6,
        epsilon_tight=math.nan,
        epsilon_last=math.nan,
    )
    with pytest.raises(claims.NoRows, match="no proven price"):
        budgets.budget(frame, where={"method": "dp_langevin"}, claimed=1.0)


def test_shared_settings() -> None:
    where = {"block": "published", "schedule": "constant"}
    columns = ["step_size", "epochs"]
    frame = head_rows.heads()
    assert budgets.shared(frame, where=where, columns=columns)["verdict"] == claims.REPRODUCED
    other = frame.assign(step_size=frame.step_size.mask(frame.method.eq("dp_sgd"), 0.5))
    found = budgets.shared(other, where=where, columns=columns)
    assert found["verdict"] == claims.CONTRADICTED
    assert "dp_sgd 0.5" in found["reason"]
