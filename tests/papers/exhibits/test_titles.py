"""Titles with numbers, against the committed numbers that they state."""

import math
import re
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from drawing import CONF, exhibit
from scipy.stats import t as student

from dplangevin.papers.exhibits import three_epsilons

RESULTS = CONF.parent / "results"


def stated(name: str, key: str = "title") -> list[float]:
    """Return the numbers of a title, without those of names such as ResNet-18."""
    title = re.sub(r"(ResNet-|wang2015|li2019|ryffel2022|Table |equation |batch )\d*", "", exhibit(name)[key])
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
    assert (full.ratio <= 1).all()
    assert (one.ratio > 1).all()
    assert stated("ryffel2022_bounds") == [len(full), len(one)]


def test_promises_that_fail() -> None:
    rows = three_epsilons.judged(pd.read_csv(RESULTS / "analyses/privacy_claims.csv"))
    assert stated("privacy_claims")[0] == rows.priced[0]
    fail = rows[rows.verdict.eq("fails")].groupby("paper").id.agg(list)
    assert fail.map(len).to_dict() == {"li2019": 1, "ryffel2022": 6, "wang2015": 1}
    assert fail.wang2015 == ["lemma5"]


def test_deltas_of_the_tables() -> None:
    for name in ("ryffel2022_tab1", "ryffel2022_tab2"):
        (cifar,), (pneumonia,) = (set(of.delta) for _, of in table(name).groupby(table(name).dataset.str[:5]))
        assert exhibit(name)["title"].endswith(
            f"δ = {cifar:.0e} on CIFAR-10, {pneumonia:.0e} on Pneumonia".replace("e-0", "e-")
        )


def test_methods_that_cannot_be_told_from_the_best() -> None:
    rows = table("compare")
    rows = rows[rows.reach.eq("reached")]
    many, one = stated("compare")
    at = rows[rows.epsilon.eq(many)]
    assert (at.groupby("dataset").significant.mean() < 0.5).all()
    adult = rows[rows.dataset.eq("adult")]
    alone = {epsilon: set(of[~of.significant].method) for epsilon, of in adult.groupby("epsilon")}
    assert [epsilon for epsilon, level in alone.items() if level == {"dpvi"}] == [one]


@pytest.mark.parametrize(
    ("name", "higher", "lower"),
    [
        ("wang2015_fig1a", "objpert", "ops"),
        ("wang2015_fig1c", "objpert", "outpert"),
        ("li2019_fig3", "dpvi", "dp_sgld_li2019"),
        ("li2019_sensitivity", "dp_sgd", "dp_sgld_li2019"),
        ("ryffel2022_curve", "dp_sgd", "dp_sgld_ryffel2022"),
    ],
)
def test_orders_of_two_methods(name: str, higher: str, lower: str) -> None:
    rows = table(name).rename(columns={"accuracy": "mean"}).dropna(axis="columns", how="all")
    keys = [column for column in ("variant", "scaling", "epsilon") if column in rows]
    wide = rows.pivot_table(index=keys, columns="method", values="mean")[[higher, lower]].dropna()
    epsilons = wide.index.get_level_values("epsilon")
    ends = {"wang2015_fig1a": (1, math.inf), "wang2015_fig1c": (1, math.inf), "li2019_fig3": (0, 1)}
    low, high = ends.get(name, (0, math.inf))
    for end in {low, high} - {0, math.inf}:
        assert end in stated(name)
    wide = wide[(epsilons >= low) & (epsilons <= high)]
    assert len(wide) >= 5
    assert (
        wide[higher] >= wide[lower] if "at least" in exhibit(name)["title"] else wide[higher] > wide[lower]
    ).all()


def test_points_between_ops_and_objective_perturbation() -> None:
    points, start = stated("wang2015_fig1b")[:2]
    wide = table("wang2015_fig1b").pivot_table(index="epsilon", columns="method", values="mean")
    most = 100 * abs(wide.ops - wide.objpert).loc[start:].max()
    assert points - 0.1 < most <= points


def test_schedules() -> None:
    rows = table("wang2015_schedules")
    one, ten = stated("wang2015_schedules")
    rows = rows[rows.method.eq("dp_sgld")].pivot_table(
        index=["dataset", "scaling"], columns=["epsilon", "variant"], values="mean"
    )
    at: Any = {epsilon: rows.xs(epsilon, axis=1, level="epsilon") for epsilon in (one, ten)}
    assert at[one].le(at[one]["schedule=constant"], axis=0).all(axis=None)
    gains = 100 * (at[ten]["schedule=phase"] - at[ten]["schedule=constant"]).xs("unit", level="scaling")
    assert abs(gains["abalone"]) < 0.5
    assert gains["adult"] > 0.5


def test_output_perturbation_where_it_is_best() -> None:
    low, high, _ = stated("wang2015_fig1c")[:3]
    rows = table("wang2015_fig1c")
    best = (
        rows[rows.epsilon.lt(math.inf)]
        .pivot_table(index="epsilon", columns="method", values="mean")
        .idxmax(axis=1)
    )
    where = best[best.eq("outpert")].index
    assert best[where.min() : where.max()].eq("outpert").all()
    assert round(where.min(), 2) <= low
    assert round(where.max(), 2) >= high


def test_default_of_the_classifier_on_held_out_tables() -> None:
    rows = table("leaderboard")
    held = {
        name for name, label in exhibit("leaderboard")["draw"]["datasets"].items() if not label.endswith("*")
    }
    default = rows[rows.dataset.isin(held) & rows.method.eq("dp_gd")]
    assert stated("leaderboard") == [default.best.sum(), len(default), default.significant.sum()]
    rivals = rows[rows.reach.eq("reached") & ~rows.best].groupby(["dataset", "epsilon"]).significant.all()
    wins = [(row.dataset, row.epsilon) for row in default[default.best].itertuples()]
    assert [win for win in wins if rivals.to_dict()[win]] == [("optdigits", 10.0)]  # docs/methods.md says so
