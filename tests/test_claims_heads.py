"""Rules for claims on heads, fine-tuning and Table 4, each verdict provoked; the committed claims on made-up runs."""

import math
from pathlib import Path
from typing import Any

import head_rows
import numpy as np
import pandas as pd
import pytest
import torch
from head_rows import run
from omegaconf import OmegaConf
from scipy import stats

from dplangevin import claims
from dplangevin.claims import budgets, heads, table4
from dplangevin.claims.table import COLUMNS, evaluate, expand

ROOT = Path(__file__).parents[1]
WHERE = {"method": "dp_sgd", "schedule": "constant", "calibration": "published"}
SIDES = {"paper": "cifar10_resnet18", "stand_in": "cifar10_resnet20"}


def cell(frame: pd.DataFrame) -> claims.Verdict:
    return heads.cell(frame, where=WHERE, published=0.68, margin=0.01, **SIDES)


@pytest.mark.parametrize(
    ("mean", "verdict"),
    [(0.685, claims.REPRODUCED), (0.65, claims.CONTRADICTED), (0.6695, claims.NOT_REPRODUCED)],
)
def test_cell_on_the_papers_network(mean: float, verdict: str) -> None:
    found = cell(run("cifar10_resnet18", "dp_sgd_constant_published", mean))
    assert found["verdict"] == verdict
    assert found["ours"] == pytest.approx(mean)


def test_cell_of_a_network_that_we_lack() -> None:
    found = cell(run("cifar10_resnet20", "dp_sgd_constant_published", 0.68))
    assert found["verdict"] == claims.NOT_TESTABLE
    assert math.isnan(found["ours"])
    assert "no features of cifar10_resnet18" in found["reason"]
    assert "on cifar10_resnet20 68.00 % [67.79, 68.21] over 4 seeds at tight ε 1.9" in found["reason"]


def pair(features: str, gap: float) -> pd.DataFrame:
    frames = [
        run(features, "dp_langevin_constant_tight", 0.6 + gap),
        run(features, "dp_sgd_constant_tight", 0.6),
    ]
    return pd.concat([*frames, run(features, "none_constant", 0.7)], ignore_index=True)


def ordered(frame: pd.DataFrame, **other: Any) -> claims.Verdict:
    test: dict[str, Any] = {"weights": {"dp_langevin": 1.0, "dp_sgd": -1.0}, "what": "gap", **SIDES, **other}
    return heads.ordering(frame, schedule="constant", calibration="tight", **test)


@pytest.mark.parametrize(
    ("paper", "ours", "verdict"),
    [
        (0.01, -0.01, claims.REPRODUCED),
        (None, 0.01, claims.UNDER_CHOICES),
        (None, 0.0005, claims.NOT_REPRODUCED),
        (None, -0.01, claims.CONTRADICTED),
        (-0.01, 0.01, claims.UNDER_CHOICES),
    ],
)
def test_ordering(paper: float | None, ours: float, verdict: str) -> None:
    frame = pair("cifar10_resnet20", ours)
    if paper is not None:
        frame = pd.concat([frame, pair("cifar10_resnet18", paper)], ignore_index=True)
    found = ordered(frame)
    assert found["verdict"] == verdict
    assert found["ours"] == pytest.approx(ours if paper is None else paper)


def test_ordering_with_a_margin_and_several_networks() -> None:
    frame = pair("cifar10_resnet20", -0.004)
    assert ordered(frame, margin=0.01)["verdict"] == claims.UNDER_CHOICES
    both = pd.concat([frame, pair("cifar10_alexnet", 0.02)], ignore_index=True)
    assert ordered(both, paper=["cifar10_resnet18", "cifar10_alexnet"])["verdict"] == claims.REPRODUCED
    with pytest.raises(claims.NoRows, match="no features on which all of"):
        ordered(frame[frame.method.ne("dp_sgd")])


def test_gap_is_a_weighted_sum() -> None:
    """Half of the gap of DP-SGD is .05: at .06 above DP-SGD the gap of .04 is less, at .04 it is more."""
    weights = {"dp_langevin": 1.0, "dp_sgd": -0.5, "none": -0.5}
    assert ordered(pair("cifar10_resnet20", 0.06), weights=weights)["ours"] == pytest.approx(0.01)
    assert ordered(pair("cifar10_resnet20", 0.06), weights=weights)["verdict"] == claims.UNDER_CHOICES
    assert ordered(pair("cifar10_resnet20", 0.04), weights=weights)["verdict"] == claims.CONTRADICTED


def test_welch_sum_of_two_is_that_of_scipy(rng: np.random.Generator) -> None:
    first, second = pd.Series(rng.normal(1, 1, 4)), pd.Series(rng.normal(0, 3, 7))
    found = heads.welch_sum([(1.0, first), (-1.0, second)])
    expected = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    scaled = heads.welch_sum([(3.0, first), (-3.0, second)])
    assert scaled == pytest.approx([3 * part for part in found])


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


def test_printed() -> None:
    frame = pd.DataFrame()
    same = table4.printed(frame, value=0.0179, published=0.018, digits=2, others={})
    assert same["verdict"] == claims.REPRODUCED
    found = table4.printed(frame, value=1.0, published=2.0, digits=1, others={"doubled": 2.1})
    assert (found["verdict"], found["high"]) == (claims.UNDER_CHOICES, 2.1)
    assert (
        table4.printed(frame, value=1.0, published=2.0, digits=1, others={})["verdict"] == claims.CONTRADICTED
    )


def test_smoothness_needs_the_papers_network() -> None:
    ours, theirs = (run(f"cifar10_resnet{n}", "none_constant", 0.7, beta=55.3) for n in (20, 18))
    asked: dict[str, Any] = {"features": "cifar10_resnet18", "published": 55, "digits": 2}
    lacking = table4.smoothness(ours, **asked)
    assert lacking["verdict"] == claims.NOT_TESTABLE
    assert "cifar10_resnet20 55.3" in lacking["reason"]
    assert table4.smoothness(pd.concat([ours, theirs]), **asked)["verdict"] == claims.REPRODUCED


def test_magnitude() -> None:
    """Ratios of 2.5e-2 with d = classes and 3.9e-4 with d = classes x features."""
    frame = head_rows.heads()
    assert table4.magnitude(frame, most=0.1)["verdict"] == claims.REPRODUCED
    assert table4.magnitude(frame, most=1e-3)["verdict"] == claims.UNDER_CHOICES
    assert table4.magnitude(frame, most=1e-5)["verdict"] == claims.CONTRADICTED
    with pytest.raises(claims.NoRows, match="no DP-Langevin run"):
        table4.magnitude(frame[frame.method.eq("none")], most=1.0)


def test_hessian_is_that_of_autograd(rng: np.random.Generator) -> None:
    w, x, y = rng.normal(size=(3, 2)), rng.normal(size=(5, 2)), torch.tensor([0, 1, 2, 1, 0])

    def loss(flat: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(torch.as_tensor(x) @ flat.reshape(3, 2).T, y)

    exact = torch.autograd.functional.hessian(loss, torch.as_tensor(w).flatten()).numpy()
    assert table4.hessian(w, x) == pytest.approx(exact, abs=1e-12)


def test_lemma() -> None:
    """Two classes at W = 0 attain (1/2) lambda_max: with lambda |W|^2 the curvature is lambda above beta."""
    kind: dict[str, Any] = {"problems": 3, "precision": 0.1}
    top = table4.lemma(pd.DataFrame(), classes=[2], end="top", **kind)
    assert top["verdict"] == claims.UNDER_CHOICES
    assert 1.01 < top["ours"] < 1.3
    assert "1 with (λ/2)|W|²" in top["reason"]
    bottom = table4.lemma(pd.DataFrame(), classes=[2], end="bottom", **kind)
    assert (bottom["verdict"], bottom["ours"]) == (claims.REPRODUCED, pytest.approx(2.0))


@pytest.fixture(scope="module")
def paper() -> dict[str, Any]:
    found: Any = OmegaConf.to_container(OmegaConf.load(ROOT / "conf/claim/ryffel2022.yaml"))
    found["claims"] = {name: entry for name, entry in found["claims"].items() if "analysis" not in entry}
    return found


def test_committed_claims_on_made_up_runs(paper: dict[str, Any]) -> None:
    tuned = {str(name): rows for name, rows in head_rows.finetune().groupby("run")}
    sources = {"ryffel2022_cifar10": head_rows.heads(), "ryffel2022_pneumonia": head_rows.pneumonia()}
    table = evaluate(paper, pd.DataFrame(), heads=sources, finetune=tuned).set_index("id")
    assert [*table.reset_index().columns] == COLUMNS
    assert table.index.is_unique
    cells = table.index.str.match(r"ryffel2022_tab[123]_accuracy_")
    assert cells.sum() == 9 + 9 + 2
    assert set(table.verdict[cells]) == {claims.NOT_TESTABLE}
    rest = table[~cells & ~table.index.str.startswith("ryffel2022_tab4_smoothness")]
    assert claims.NOT_TESTABLE not in set(rest.verdict)
    for name, verdict in {
        "lemma_smooth": claims.UNDER_CHOICES,
        "lemma_strongly_convex": claims.REPRODUCED,
        "step_size_cifar10_resnet18": claims.CONTRADICTED,
        "step_size_pneumonia_resnet18": claims.REPRODUCED,
        "budget_dp_langevin_cifar10_constant": claims.CONTRADICTED,
        "budget_dp_sgd_cifar10_decreasing": claims.UNDER_CHOICES,
        "outperforms_cifar10_constant": claims.UNDER_CHOICES,
        "outperforms_cifar10_constant_equal": claims.CONTRADICTED,
        "outperforms_in_print": claims.CONTRADICTED,
        "closes_the_gap_pneumonia_constant_equal": claims.CONTRADICTED,
        "sgd_benefits": claims.UNDER_CHOICES,
        "dp_sgd_does_not_improve": claims.UNDER_CHOICES,
        "tab4_condition_cifar10_alexnet": claims.UNDER_CHOICES,
        "tab4_ratio_cifar10_resnet18": claims.UNDER_CHOICES,
        "tab4_ratio_pneumonia_resnet18": claims.UNDER_CHOICES,
        "quadratic_in_n": claims.REPRODUCED,
    }.items():
        assert table.verdict[f"ryffel2022_{name}"] == verdict, name


def test_cells_are_tested_where_their_network_is_there(paper: dict[str, Any]) -> None:
    both = pd.concat([head_rows.heads(), head_rows.heads("cifar10_resnet18")], ignore_index=True)
    table = evaluate(paper, pd.DataFrame(), heads={"ryffel2022_cifar10": both}).set_index("id")
    assert table.verdict["ryffel2022_tab1_accuracy_none_cifar10_resnet18"] == claims.CONTRADICTED
    assert table.verdict["ryffel2022_tab1_accuracy_none_cifar10_alexnet"] == claims.NOT_TESTABLE
    lungs = table.loc["ryffel2022_tab1_accuracy_none_pneumonia_resnet18"]
    assert (lungs.verdict, lungs.reason) == (claims.NOT_TESTABLE, "no run of ryffel2022_pneumonia was read")


def test_reason_for_a_missing_experiment_is_that_of_the_paper(paper: dict[str, Any]) -> None:
    said = {**paper, "heads": {**paper["heads"], "ryffel2022_pneumonia": "no X-rays here"}}
    table = evaluate(said, pd.DataFrame()).set_index("id")
    assert table.reason["ryffel2022_tab1_accuracy_none_pneumonia_resnet18"] == "no X-rays here"


def test_every_number_asked_for_is_published(paper: dict[str, Any]) -> None:
    printed = pd.read_csv(ROOT / "data/published/ryffel2022.csv")
    value = printed.set_index(["where", "dataset", "quantity"]).value.astype(float)
    for claim in expand(paper):
        test = claim["test"]
        name = claim["id"].removeprefix("ryffel2022_")
        if test["_target_"].endswith("heads.cell"):
            method = (
                test["where"]
                .get("method", "none" if "none" in name else "dp_sgd")
                .replace("none", "nonprivate")
            )
            assert 100 * test["published"] == pytest.approx(
                value[claim["where"], test["paper"], f"accuracy_{method}"]
            )
            assert claim["statement"].endswith(f" {100 * test['published']:.1f}")
        elif test["_target_"].endswith("table4.smoothness"):
            assert test["published"] == value["Table 4", test["features"], "smoothness"]
        elif name.startswith("tab4_condition"):
            dataset = name.removeprefix("tab4_condition_")
            assert test["published"] == value["Table 4", dataset, "smoothness_over_convexity"]
            command = value["authors' commands", dataset, "strong_convexity"]
            assert test["value"] == pytest.approx(value["Table 4", dataset, "smoothness"] / command)
        elif test["_target_"].endswith("table4.ratio"):
            dataset = name.removeprefix("tab4_ratio_")
            assert test["published"] == value["Table 4", dataset, "ratio"]
            assert test["records"] == value["Appendix D", dataset, "records"]
            assert test["features_dim"] == value["authors' code", dataset, "features"]
        elif name.startswith("step_size"):
            dataset = name.removeprefix("step_size_")
            assert test["value"] == value["authors' commands", dataset, "step_size"]
            assert test["published"] == pytest.approx(0.5 / value["Table 4", dataset, "smoothness"], rel=0.02)
        elif test["_target_"].endswith("all_above"):
            rows = [
                (t, d)
                for t in ("Table 1", "Table 2")
                for d in ("cifar10_resnet18", "cifar10_alexnet", "pneumonia_resnet18")
            ]
            methods = ("accuracy_dp_langevin", "accuracy_dp_sgd")
            assert test["pairs"] == [[value[(*row, method)] for method in methods] for row in rows]


def test_ratios_are_those_of_the_exhibit(paper: dict[str, Any]) -> None:
    found: Any = OmegaConf.to_container(OmegaConf.load(ROOT / "conf/exhibit/ryffel2022_tab4.yaml"))
    rows = found["numbers"]["paper"]
    tests = [claim["test"] for claim in expand(paper) if claim["test"]["_target_"].endswith("table4.ratio")]
    keys = ("beta", "precision", "records", "classes", "features_dim", "order")
    assert [[test[key] for key in keys] for test in tests] == [[row[key] for key in keys] for row in rows]
    assert [test["published"] for test in tests] == [row["ratio_published"] for row in rows]
