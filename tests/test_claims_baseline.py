"""When a private method becomes its baseline, what its standard step costs, and chains that must have mixed."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dplangevin import claims
from dplangevin.claims import baseline
from dplangevin.claims.mixing import better_where_mixed

EPSILONS = [0.05, 0.1, 0.5, 2.0]
RIPPLE = np.array([0.002, -0.001, 0.0, 0.001, -0.002])
WHERE: dict[str, Any] = {"dataset": "adult", "experiment": "fig3"}


def rows(method: str, means: list[float], epsilons: list[float] = EPSILONS, **other: Any) -> pd.DataFrame:
    """Five repeats at each budget."""
    fixed = {"experiment": "fig3", "dataset": "adult", "method": method, "variant": "", "scaling": "unit"}
    fixed |= {"adjacency": "replace_one", "metric": "accuracy", "violated": ""}
    return pd.DataFrame(
        [
            {
                **fixed,
                "epsilon": e,
                "epsilon_paper": e,
                "epsilon_tight": e,
                "repeat": r,
                "value": mean + RIPPLE[r],
                **other,
            }
            for e, mean in zip(epsilons, means, strict=True)
            for r in range(5)
        ]
    )


SGLD = rows("sgld", [0.85], [math.inf])


def reaches(*frames: pd.DataFrame, **other: Any) -> claims.Verdict:
    settings = {**WHERE, "first": "dp", "baseline": "sgld", "margin": 0.005, "by": 0.1, **other}
    return baseline.reaches(pd.concat([SGLD, *frames]), **settings)


@pytest.mark.parametrize(
    ("means", "ours", "verdict"),
    [
        ([0.70, 0.849, 0.851, 0.85], 0.1, claims.REPRODUCED),
        ([0.85, 0.849, 0.851, 0.85], 0.05, claims.REPRODUCED),
        ([0.85, 0.80, 0.851, 0.85], 0.5, claims.CONTRADICTED),
        ([0.70, 0.75, 0.80, 0.84], math.nan, claims.CONTRADICTED),
        ([0.70, 0.849, 0.851, 0.87], math.nan, claims.CONTRADICTED),  # another accuracy, if a better one
    ],
)
def test_reaches_from_a_budget_on(means: list[float], ours: float, verdict: str) -> None:
    found = reaches(rows("dp", means))
    assert found["verdict"] == verdict
    assert found["ours"] == pytest.approx(ours, nan_ok=True)


def test_reaches_needs_the_interval_within_the_margin() -> None:
    loose = rows("dp", [0.85] * 4)
    loose["value"] += 8 * np.tile(np.roll(RIPPLE, 2), 4)  # +-.008 or so: neither within nor outside
    found = reaches(loose)
    assert found["verdict"] == claims.NOT_REPRODUCED
    assert math.isnan(found["ours"])
    wide = reaches(loose, margin=0.05)
    assert (wide["verdict"], wide["ours"]) == (claims.REPRODUCED, pytest.approx(0.05))


def test_reaches_under_other_settings() -> None:
    lost = rows("dp", [0.70, 0.75, 0.80, 0.84])
    kept = rows("dp", [0.70, 0.85, 0.85, 0.85], experiment="s", variant="clip=0.1", adjacency="add_remove")
    other = rows("dp", [0.85] * 4, experiment="s", variant="clip=0.1", scaling="raw")
    found = reaches(lost, kept, sensitivity="s")
    assert found["verdict"] == claims.UNDER_CHOICES
    assert "1 of 1 pairs of settings in s agree, for example dp (clip=0.1)" in found["reason"]
    elsewhere = reaches(lost, other, sensitivity="s")  # there is no SGLD on raw rows to compare with
    assert elsewhere["verdict"] == claims.CONTRADICTED


def price(*frames: pd.DataFrame, **other: Any) -> claims.Verdict:
    return baseline.price_of_standard_step(pd.concat(frames), **WHERE, method="dp", by=0.1, **other)


def test_price_is_where_the_event_costs_less_than_asked() -> None:
    spent = rows("dp", [0.8] * 4)
    capped = spent.assign(epsilon_paper=spent.epsilon.clip(upper=0.09))
    found = price(capped)
    assert (found["verdict"], found["ours"]) == (claims.REPRODUCED, pytest.approx(0.09))
    dear = price(spent.assign(epsilon_paper=spent.epsilon.clip(upper=1.2)))
    assert (dear["verdict"], dear["ours"]) == (claims.CONTRADICTED, pytest.approx(1.2))
    never = price(spent.assign(epsilon_paper=spent.epsilon * 0.999))
    assert never["verdict"] == claims.CONTRADICTED
    assert math.isnan(never["ours"])
    assert "every budget up to 2 is spent" in never["reason"]
    there = capped.assign(experiment="s", variant="clip=0.1")
    rescued = price(spent, there, spent.assign(experiment="s", variant="clip=1.0"), sensitivity="s")
    assert rescued["verdict"] == claims.UNDER_CHOICES
    assert "at most 0.1 in 1 of 2 settings in s, the least 0.09 with clip=0.1" in rescued["reason"]


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([900.0, 500.0], claims.REPRODUCED),
        ([90.0, 50.0], claims.CONTRADICTED),
        ([900.0, 50.0], claims.NOT_REPRODUCED),
    ],
)
def test_chains_are_compared_where_they_have_mixed(values: list[float], verdict: str) -> None:
    epsilons, r_hat = [0.05, 0.1, 0.5], {"metric": "r_hat"}
    runs = pd.concat(
        [
            rows("one", [3.0, 1.01, 1.02], epsilons, **r_hat),
            rows("two", [1.01, 1.01, 1.03], epsilons, **r_hat),
            rows("one", [1.0, *values], epsilons, metric="ess"),
            rows("two", [400.0, 300.0, 200.0], epsilons, metric="ess"),
        ]
    )
    settings = {**WHERE, "first": "one", "second": "two", "metric": "ess"}
    found = better_where_mixed(runs, **settings)
    assert found["verdict"] == verdict
    ratios = [values[0] / 300, values[1] / 200]
    assert (found["low"], found["high"]) == pytest.approx((min(ratios), max(ratios)), rel=1e-4)
    smaller = better_where_mixed(runs, **settings, larger=False)
    assert smaller["high"] == pytest.approx(1 / min(ratios), rel=1e-4)
    stuck = better_where_mixed(runs.assign(value=runs.value.where(runs.metric.ne("r_hat"), 5.0)), **settings)
    assert stuck["verdict"] == claims.NOT_TESTABLE
    assert "R-hat of one 5 to 5, two 5 to 5" in stuck["reason"]
