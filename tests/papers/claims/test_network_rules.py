"""Every branch of every rule on trained networks, heads and fine-tuning."""

import math
import re
from types import MappingProxyType
from typing import Any

import pandas as pd
import pytest
from fake_results import final, head_run
from scipy import stats

from dplangevin.papers.claims import network_rules as rules
from dplangevin.papers.claims import verdicts

CELL = {"block": "equal", "method": "dp_sgd", "epsilon": 0.99}


def both(paper: float | None, small: float | None, seeds: int = 1, method: str = "dp_sgd") -> pd.DataFrame:
    """One budget of one method on the paper's network (`seeds` seeds) and on the small one (three)."""
    frames = []
    if paper is not None:
        frames.append(final(f"li2019_{method}", [paper], [0.99], seeds=seeds))
    if small is not None:
        frames.append(final(f"tanh_{method}", [small], [0.99]))
    return pd.concat(frames, ignore_index=True)


@pytest.mark.parametrize(
    ("paper", "small", "seeds", "verdict"),
    [
        (0.97, 0.99, 1, verdicts.HOLDS),
        (0.974, None, 1, verdicts.HOLDS),
        (0.94, 0.972, 1, verdicts.OPEN),  # a stand-in does not speak for a network that says otherwise
        (None, 0.972, 1, verdicts.IN_PART),
        (0.94, 0.95, 1, verdicts.OPEN),  # shown on the stand-in only
        (0.94, None, 3, verdicts.FAILS),
        (0.94, None, 1, verdicts.OPEN),  # one seed shows nothing
        (0.964, 0.976, 3, verdicts.OPEN),  # both intervals reach into what was asked
    ],
)
def test_accuracy(paper: float | None, small: float | None, seeds: int, verdict: str) -> None:
    frame = both(paper, small, seeds)
    found = rules.accuracy(frame, where=CELL, published=0.97, margin=0.005, small="tanh")
    assert found["verdict"] == verdict
    assert found["ours"] == pytest.approx(small if paper is None else paper)
    if paper is None or seeds == 3:
        half = stats.t.ppf(0.975, 2) * 0.001 / math.sqrt(3)
        assert found["high"] - found["ours"] == pytest.approx(half)
    else:
        assert math.isnan(found["low"])


def test_accuracy_in_other_settings() -> None:
    frame = pd.concat([both(0.94, 0.95), both(None, 0.969, method="dp_sgld")], ignore_index=True)
    where = {"block": "equal", "epsilon": 0.99}

    def verdict_of(others: Any = MappingProxyType({}), rows: pd.DataFrame = frame) -> verdicts.Verdict:
        here = {**where, "method": "dp_sgd"}
        return rules.accuracy(rows, where=here, published=0.97, margin=0.005, small="tanh", others=others)

    by_sgld = {"by SGLD": {**where, "method": "dp_sgld_li2019"}}
    rescued = verdict_of(by_sgld)
    assert rescued["verdict"] == verdicts.IN_PART
    hollow = frame.assign(violated=frame.violated.mask(frame.method.eq("dp_sgld_li2019"), "T too small"))
    assert verdict_of(by_sgld, hollow)["verdict"] == verdicts.OPEN
    assert verdict_of({"again": {**where, "method": "dp_sgd"}})["verdict"] == verdicts.OPEN
    assert verdict_of({"absent": {"method": "pate"}})["reason"] == verdict_of()["reason"]


def test_rows_that_do_not_fit() -> None:
    frame = both(0.94, 0.95)
    with pytest.raises(verdicts.NoRows, match=r"no row has \{'block': 'equal', 'method': 'pate'"):
        rules.accuracy(frame, where={"block": "equal", "method": "pate"}, published=0.9, margin=0.1)
    with pytest.raises(ValueError, match="meets several"):
        rules.accuracy(frame, where=CELL, published=0.9, margin=0.1)
    twice = final("tanh_dp_sgd", [0.9, 0.95], [0.5, 0.99])
    with pytest.raises(ValueError, match=r"0\.5.*narrow its `where`"):
        rules.accuracy(twice, where={"block": "equal"}, published=0.9, margin=0.1, small="tanh")


def ordered(frame: pd.DataFrame, **other: Any) -> verdicts.Verdict:
    first, second = {"method": "dp_sgld_li2019"}, {"method": "dp_sgd"}
    return rules.above(frame, first=first, second=second, small="tanh", **other)


@pytest.mark.parametrize(
    ("paper", "small", "seeds", "verdict"),
    [
        (0.01, 0.01, 1, verdicts.IN_PART),  # one seed of the paper's network shows nothing
        (0.01, None, 3, verdicts.HOLDS),
        (-0.01, None, 3, verdicts.FAILS),
        (-0.01, -0.01, 3, verdicts.FAILS),
        (0.01, -0.01, 3, verdicts.HOLDS),  # shown on the paper's network itself
        (-0.01, 0.01, 1, verdicts.OPEN),
        (None, 0.01, 1, verdicts.IN_PART),
        (None, -0.01, 1, verdicts.OPEN),  # a stand-in contradicts nothing
        (-0.01, None, 1, verdicts.OPEN),
        (0.01, -0.01, 1, verdicts.OPEN),  # the two networks disagree
        (None, 0.0005, 1, verdicts.OPEN),
    ],
)
def test_above(paper: float | None, small: float | None, seeds: int, verdict: str) -> None:
    level = [(None, None) if gap is None else (0.9 + gap, 0.9) for gap in (paper, small)]
    first = both(level[0][0], level[1][0], seeds, "dp_sgld")
    second = both(level[0][1], level[1][1], seeds)
    found = ordered(pd.concat([first, second], ignore_index=True))
    assert found["verdict"] == verdict
    assert found["ours"] == pytest.approx(small if paper is None else paper)


def test_above_over_common_budgets() -> None:
    """The mean counts, and a budget that is significantly below spoils it; others than common ones do not count."""
    second = final("tanh_dp_sgd", [0.5, 0.9, 0.9], [0.1, 0.5, 0.99])

    def verdict_of(means: list[float]) -> verdicts.Verdict:
        first = final("tanh_dp_sgld", [*means, 0.1], [0.5, 0.99, 8.0])
        return ordered(pd.concat([first, second], ignore_index=True), by="epsilon")

    clear = verdict_of([0.91, 0.92])
    assert clear["verdict"] == verdicts.IN_PART
    assert clear["ours"] == pytest.approx(0.015)
    assert verdict_of([0.89, 0.95])["verdict"] == verdicts.OPEN
    apart = pd.concat([final("tanh_dp_sgld", [0.9], [8.0]), second], ignore_index=True)
    with pytest.raises(verdicts.NoRows, match="no network was trained both"):
        ordered(apart, by="epsilon")


WHERE = {"method": "dp_sgd", "schedule": "constant", "calibration": "published"}
SIDES: dict[str, Any] = {"paper": "cifar10_resnet18", "stand_in": "cifar10_resnet20"}


def cell(frame: pd.DataFrame) -> verdicts.Verdict:
    return rules.accuracy(frame, where=WHERE, published=0.68, margin=0.01, **SIDES)


@pytest.mark.parametrize(
    ("mean", "verdict"), [(0.685, verdicts.HOLDS), (0.65, verdicts.FAILS), (0.6695, verdicts.OPEN)]
)
def test_cell_on_the_papers_network(mean: float, verdict: str) -> None:
    found = cell(head_run("cifar10_resnet18", "dp_sgd_constant_published", mean))
    assert found["verdict"] == verdict
    assert found["ours"] == pytest.approx(mean)


def test_cell_of_a_network_that_we_lack() -> None:
    found = cell(head_run("cifar10_resnet20", "dp_sgd_constant_published", 0.68))
    assert found["verdict"] == verdicts.NOT_TESTABLE
    assert math.isnan(found["ours"])
    assert "ResNet-20 features of CIFAR-10: 68.00 % [67.79, 68.21] over" in found["reason"]


def pair(features: str, gap: float) -> pd.DataFrame:
    means = {"dp_langevin_constant_tight": 0.6 + gap, "dp_sgd_constant_tight": 0.6, "none_constant": 0.7}
    return pd.concat([head_run(features, run, mean) for run, mean in means.items()], ignore_index=True)


def weighted(frame: pd.DataFrame, **other: Any) -> verdicts.Verdict:
    weights = {"dp_sgld_ryffel2022": 1.0, "dp_sgd": -1.0}
    test: dict[str, Any] = {"weights": weights, "what": "gap", **SIDES, **other}
    return rules.weighted_sum(frame, schedule="constant", calibration="tight", **test)


@pytest.mark.parametrize(
    ("paper", "ours", "verdict"),
    [
        (0.01, -0.01, verdicts.HOLDS),
        (None, 0.01, verdicts.IN_PART),
        (None, 0.0005, verdicts.IN_PART),  # the gap is the same in every seed
        (None, -0.01, verdicts.OPEN),
        (-0.01, 0.01, verdicts.FAILS),
    ],
)
def test_ordering(paper: float | None, ours: float, verdict: str) -> None:
    frame = pair("cifar10_resnet20", ours)
    if paper is not None:
        frame = pd.concat([frame, pair("cifar10_resnet18", paper)], ignore_index=True)
    found = weighted(frame)
    assert found["verdict"] == verdict
    assert found["ours"] == pytest.approx(ours if paper is None else paper)


def test_a_gap_that_varies_between_seeds_is_not_shown_and_an_exact_zero_is_no_gap() -> None:
    frame = pair("cifar10_resnet20", 0.0005)
    sgd = frame.method.eq("dp_sgd")
    frame.loc[sgd, "value"] = frame.value[sgd].to_numpy()[::-1]
    assert weighted(frame)["verdict"] == verdicts.OPEN
    with pytest.raises(verdicts.NoRows, match="no features on which all of"):
        weighted(frame[~sgd])
    same = weighted(pair("cifar10_resnet18", 0.0))
    assert (same["verdict"], same["low"], same["high"]) == (verdicts.FAILS, 0.0, 0.0)


def test_gap_is_a_weighted_sum() -> None:
    """Half of the gap of DP-SGD is .05: at .06 above DP-SGD the gap of .04 is less, at .04 it is more."""
    weights = {"dp_sgld_ryffel2022": 1.0, "dp_sgd": -0.5, "sgd": -0.5}
    assert weighted(pair("cifar10_resnet20", 0.06), weights=weights)["ours"] == pytest.approx(0.01)
    assert weighted(pair("cifar10_resnet20", 0.06), weights=weights)["verdict"] == verdicts.IN_PART
    assert weighted(pair("cifar10_resnet20", 0.04), weights=weights)["verdict"] == verdicts.OPEN


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schedule": "decreasing"}, "decreasing steps"),
        ({"problem": "block"}, "the last block"),
        ({"step_size": 0.5}, "run b"),
    ],
)
def test_two_sides_have_names_of_their_own(change: dict[str, Any], words: str) -> None:
    rows = head_run("cifar10_resnet18", "dp_sgd_constant_tight", 0.6, problem="head")
    frame = pd.concat([rows.assign(run="a"), rows.assign(run="b", **change)])
    reason = rules.weighted_sum(frame, weights={"a": 1.0, "b": -1.0}, column="run", what="gap", **SIDES)[
        "reason"
    ]
    one, other = re.findall(r"DP-SGD \((.*?)\) 60\.00 %", reason)
    assert words in other
    assert words not in one


BUDGET: dict[str, Any] = {"where": {"method": "dp_sgld_ryffel2022"}, "claimed": 1.0, "delta": 1e-5}


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, verdicts.FAILS),  # the attack shows 3
        ({"epsilon_attack": 0.5}, verdicts.OPEN),
        ({"epsilon_last": 0.9}, verdicts.HOLDS),
        ({"epsilon_proven": 1.004}, verdicts.HOLDS),
        ({"epsilon_add_remove": 1.0}, verdicts.FAILS),
        ({"epsilon_add_remove": 1.0, "epsilon_attack": 0.5}, verdicts.OPEN),
        # less is asked where delta is larger
        ({"delta": 1e-4, "epsilon_last": 0.9, "epsilon_attack": 0.5}, verdicts.OPEN),
        ({"delta": 1e-4, "epsilon_add_remove": 0.9, "epsilon_attack": 0.5}, verdicts.OPEN),
        ({"delta": 1e-4}, verdicts.FAILS),
    ],
)
def test_budget(change: dict[str, float], verdict: str) -> None:
    frame = head_run("cifar10_resnet20", "dp_langevin_constant_published", 0.6, **change)
    found = rules.budget(frame, **BUDGET)
    assert found["verdict"] == verdict
    prices = {"epsilon_proven": 11.0, "epsilon_last": 10.5, **change}
    assert math.isnan(found["ours"])
    assert found["high"] == min(prices["epsilon_proven"], prices["epsilon_last"])


def test_a_budget_of_a_tool_holds_for_what_the_tool_counts_and_one_without_a_price_is_not_tested() -> None:
    tool, none = {"epsilon_add_remove": 0.9}, dict.fromkeys(["epsilon_proven", "epsilon_last"], math.nan)
    frames = [
        head_run("cifar10_resnet20", "dp_langevin_constant_published", 0.6, **of) for of in (tool, none)
    ]
    found = rules.budget(frames[0], **BUDGET, tool=True)
    assert (found["verdict"], found["cause"], found["high"]) == (verdicts.IN_PART, verdicts.ADDED, 0.9)
    with pytest.raises(verdicts.NoRows, match="no proven price"):
        rules.budget(frames[1], **BUDGET)
