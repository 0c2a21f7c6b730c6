"""Titles with numbers, against the committed numbers that they state."""

import math
import re
from itertools import product

import numpy as np
import pandas as pd
from drawing import CONF, exhibit
from scipy.stats import t as student

RESULTS = CONF.parent / "results"


def stated(name: str, key: str = "title") -> list[float]:
    """Return the numbers of a title, without those of names such as ResNet-18."""
    title = re.sub(r"(ResNet-|ryffel2022|Table |equation |batch )\d*", "", exhibit(name)[key])
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", title)]


def table(name: str) -> pd.DataFrame:
    return pd.read_csv(RESULTS / f"exhibits/{name}/{name}.csv")


def rounded_down(value: float, to: float) -> float:
    return to * math.floor(value / to)


def test_shares_of_the_proven_epsilon() -> None:
    rows = pd.read_csv(RESULTS / "analyses/brackets.csv")
    assert stated("brackets") == [rounded_down(100 * rows.ratio.min(), 10)]


def test_ops_by_a_proven_sampler() -> None:
    """Each 95 % interval of a difference (Welch) is within the margin, and a margin of half a point less is not."""
    margin, confidence = stated("ops_proven")
    assert confidence == 95
    most = 0.0
    for _, rows in table("ops_proven").groupby(["dataset", "epsilon"]):
        of = rows.set_index("method").loc[["ops_gdp:hmc", "ops_gdp:proximal"]]
        variances = of.sd**2 / of.repeats
        freedom = variances.sum() ** 2 / (variances**2 / (of.repeats - 1)).sum()
        half = student.ppf(0.975, freedom) * math.sqrt(variances.sum())
        most = max(most, 100 * (abs(of["mean"].diff().iloc[1]) + half))
    assert margin - 0.5 < most <= margin


def test_plain_methods_and_output_perturbation() -> None:
    rows = table("wang2015_plain")
    low, high = stated("wang2015_plain")
    for (_, of), method in product(rows.groupby("dataset"), ["dp_sgld", "dp_sgnht"]):
        wide = of.pivot_table(index="epsilon", columns="method", values="mean").dropna(subset=[method])
        assert wide.index.min() <= low
        within = wide[(wide.index >= low) & (wide.index <= high)]
        assert len(within) >= 5
        assert (within[method] < within.outpert).all()
    half, adult = stated("wang2015_plain", "proven")
    ends = {"synthetic": half, "abalone": half, "adult": adult}
    for name, of in rows.groupby("dataset"):
        one, other = (
            of[of.method.eq(method)].sort_values("epsilon_proven") for method in ("dp_sgnht", "outpert")
        )
        grid = np.geomspace(other.epsilon_proven.min(), ends[str(name)], 20)
        first, second = (
            np.interp(np.log(grid), np.log(of.epsilon_proven), of["mean"]) for of in (one, other)
        )
        assert (first > second).all(), name


def test_points_of_fine_tuning() -> None:
    rows = table("ryffel2022_tab3")
    ours = rows[rows.method.eq("dp_sgd")].set_index("problem").accuracy
    best = rows[rows.method.eq("dp_sgd")].set_index("problem").accuracy_best_epoch
    lost, gained = ours["head_resnet18"] - ours["fourth_stage"], ours["block"] - ours["head"]
    lost_at_best = best["head_resnet18"] - best["fourth_stage"]
    assert stated("ryffel2022_tab3") == [
        round(100 * lost_at_best, 1),
        round(100 * lost),
        round(100 * gained, 1),
    ]


def test_cases_of_the_bounds() -> None:
    rows = table("ryffel2022_bounds")
    bounds = rows.kind.isin(["sobolev", "privacy"]) | rows.quantity.isin(["Theorem 3.1", "Corollary 3.3"])
    privacy = bounds & rows.kind.isin(["full_batch", "sobolev", "privacy"])
    full, one = rows[privacy & rows.batch.ne("1")], rows[privacy & rows.batch.eq("1")]
    boundary = rows[rows.quantity.eq("equation 7") & rows.case.str.startswith("boundary")]
    assert (full.ratio <= 1).all()
    assert (one.ratio > 1).all()
    assert stated("ryffel2022_bounds") == [len(full), len(one), (boundary.ratio > 1).sum(), len(boundary)]
