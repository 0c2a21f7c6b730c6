"""The exponent of a power law, its interval, and every verdict on it."""

import numpy as np
import pandas as pd
import pytest

from dplangevin import claims
from dplangevin.claims import slopes

X = np.array([10.0, 100.0, 1000.0, 10000.0])


def frame(power: float, error: float, shake: float = 0.0) -> pd.DataFrame:
    """Values on a power law with relative errors `error`, each off by `shake` of them with alternating sign."""
    value = 3 * X**power * (1 + shake * error * np.array([1, -1, 1, -1]))
    half = 1.96 * error * value
    return pd.DataFrame({"x": X, "value": value, "low": value - half, "high": value + half, "kind": "a"})


def test_fit_finds_the_power_and_polyfits_error() -> None:
    rows = frame(-0.5, 0.01, shake=1.0)
    found = slopes.fit(rows, "x")
    weights = np.full(4, 1 / 0.01)
    (slope, _), cov = np.polyfit(np.log(X), np.log(rows.value), 1, w=weights, cov="unscaled")
    assert found.mean == pytest.approx(slope, abs=1e-4)
    assert found.high - found.low == pytest.approx(2 * 1.96 * cov[0, 0] ** 0.5, rel=1e-3)


def test_values_without_spread_are_fitted_as_exact() -> None:
    rows = frame(0.25, 0.0)
    assert slopes.fit(rows, "x") == pytest.approx((0.25, 0.25, 0.25))
    named = rows.rename(columns={"value": "eta"})
    found = slopes.exponent(named, where={"kind": "a"}, x="x", bounds=[0.2, 0.3], column="eta")
    assert (found["verdict"], found["ours"]) == (claims.REPRODUCED, pytest.approx(0.25))


@pytest.mark.parametrize(
    ("error", "bounds", "verdict"),
    [
        (0.01, [-0.6, -0.4], claims.REPRODUCED),
        (0.01, [None, -0.4], claims.REPRODUCED),
        (0.01, [-0.4, None], claims.CONTRADICTED),
        (0.01, [None, -0.6], claims.CONTRADICTED),
        (0.5, [-0.6, -0.4], claims.NOT_REPRODUCED),
    ],
)
def test_verdicts(error: float, bounds: list[float | None], verdict: str) -> None:
    found = slopes.exponent(frame(-0.5, error), where={"kind": "a"}, x="x", bounds=bounds)
    assert found["verdict"] == verdict
    assert found["low"] < found["ours"] < found["high"]


def test_one_value_is_not_a_slope() -> None:
    found = slopes.exponent(frame(1, 0.1), where={"kind": "a"}, x="x", bounds=[0, 1], first=5000)
    assert found["verdict"] == claims.NOT_TESTABLE
    with pytest.raises(claims.NoRows, match="no row"):
        slopes.exponent(frame(1, 0.1), where={"kind": "b"}, x="x", bounds=[0, 1])
