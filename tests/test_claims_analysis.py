"""Every branch of every rule's verdict on an analysis."""

import math
from typing import Any

import pandas as pd
import pytest

from dplangevin import claims
from dplangevin.claims import analysis

NAN = math.nan
ROW = {
    "id": "a", "mechanism": "steps", "chosen": NAN, "solved": NAN, "note": NAN, "epsilon_claimed": 1.0,
    "epsilon_replace_one": 2.0, "epsilon_add_remove": 1.5, "epsilon_formula": NAN, "formula": NAN,
    "audit_epsilon": 0.5, "audit_runs": 10, "rescued": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, claims.NOT_REPRODUCED),
        ({"epsilon_replace_one": 1.0}, claims.REPRODUCED),
        ({"audit_epsilon": 1.1}, claims.CONTRADICTED),
        ({"audit_epsilon": NAN}, claims.NOT_REPRODUCED),
        ({"audit_epsilon": 1.1, "epsilon_add_remove": 0.9}, claims.UNDER_CHOICES),
        ({"audit_epsilon": 1.1, "solved": "batch >= 9", "rescued": 1}, claims.UNDER_CHOICES),
        ({"epsilon_add_remove": NAN}, claims.NOT_REPRODUCED),
        ({"mechanism": NAN, "note": "no settings"}, claims.NOT_TESTABLE),
    ],
)
def test_promise(change: dict[str, Any], verdict: str) -> None:
    other = {**ROW, "id": "b", "epsilon_replace_one": 0.1}
    found = analysis.promise(pd.DataFrame([{**ROW, **change}, other]), id="a")
    assert found["verdict"] == verdict
    if verdict == claims.NOT_TESTABLE:
        assert found["reason"] == "no settings"
    elif "solved" in change:
        assert "kept by batch >= 9" in found["reason"]
    if change == {}:
        assert (found["ours"], found["low"], found["high"]) == (2.0, 0.5, 2.0)


FRAME = pd.DataFrame(
    {"curve": ["a", "a", "b", "b"], "n": [1, 100, 1, 100], "eta": [0.1029, 1.029, 0.05, 0.25], "note": "x"}
)


def test_printed() -> None:
    def printed(value: float, digits: int = 3, **others: Any) -> claims.Verdict:
        where = {"curve": "a", "n": 1}
        return analysis.printed(FRAME, where=where, column="eta", published=value, digits=digits, **others)

    assert printed(0.103)["verdict"] == claims.REPRODUCED
    assert printed(0.1)["verdict"] == claims.CONTRADICTED
    rescued = printed(0.25, others={"curve": "b"}, names=["curve", "n"])
    assert rescued["verdict"] == claims.UNDER_CHOICES
    assert rescued["reason"].endswith("equal with curve b, n 100")
    missed = printed(0.04, others={"curve": "b"}, names=["n"])
    assert missed["verdict"] == claims.CONTRADICTED
    assert missed["reason"].endswith("nearest with n 1")
    with pytest.raises(ValueError, match="a printed number needs one"):
        analysis.printed(FRAME, where={"curve": "a"}, column="eta", published=1.0, digits=1)


@pytest.mark.parametrize(
    ("bounds", "strict", "verdict"),
    [
        ([0, 2], False, claims.REPRODUCED),
        ([0.5, None], False, claims.NOT_REPRODUCED),
        ([0.5, None], True, claims.CONTRADICTED),
        ([None, 0.1], False, claims.CONTRADICTED),
    ],
)
def test_inside(bounds: list[float | None], strict: bool, verdict: str) -> None:
    found = analysis.inside(FRAME, where={"curve": "a"}, column="eta", bounds=bounds, strict=strict)
    assert found["verdict"] == verdict
    assert (found["low"], found["high"]) == (0.1029, 1.029)


def test_inside_at_the_smallest_value_of_a_column() -> None:
    found = analysis.inside(FRAME, where={}, column="eta", bounds=[0, 0.2], smallest="n")
    assert found["verdict"] == claims.REPRODUCED
    assert "2 rows at n 1" in found["reason"]


def test_ratio_matches_rows() -> None:
    sides: dict[str, Any] = {"top": {"curve": "a"}, "bottom": {"curve": "b"}, "column": "eta", "keys": ["n"]}
    found = analysis.ratio(FRAME, **sides, bounds=[2, 5])
    assert found["verdict"] == claims.REPRODUCED
    assert (found["low"], found["high"]) == (pytest.approx(2.058), pytest.approx(4.116))
    assert "largest at n 100" in found["reason"]
    assert analysis.ratio(FRAME, **sides, bounds=[None, 3], strict=True)["verdict"] == claims.CONTRADICTED
    apart = FRAME.assign(n=[1, 2, 3, 4])
    assert analysis.ratio(apart, **sides, bounds=[0, 1])["verdict"] == claims.NOT_TESTABLE


def test_growth_is_the_exponent() -> None:
    settings: dict[str, Any] = {"where": {}, "x": "n", "y": "eta", "by": ["curve"]}
    found = analysis.growth(FRAME, **settings, bounds=[0.3, 0.6])
    assert found["verdict"] == claims.REPRODUCED
    assert (found["low"], found["high"]) == (pytest.approx(math.log(5) / math.log(100)), pytest.approx(0.5))
    alone = FRAME[FRAME.n.eq(1)]
    assert analysis.growth(alone, **settings, bounds=[0, 1])["verdict"] == claims.NOT_TESTABLE


def test_no_rows_is_an_error_that_names_them() -> None:
    with pytest.raises(ValueError, match=r"no row of the analysis has \{'curve': 'c'\}"):
        analysis.select(FRAME, {"curve": "c"})
    assert len(analysis.select(FRAME, {"curve": ["a", "c"]})) == 2
