"""The committed claims of section 5 of ryffel2022, on made-up runs."""

from pathlib import Path
from typing import Any

import head_rows
import pandas as pd
import pytest
from omegaconf import OmegaConf

from dplangevin import claims
from dplangevin.claims.table import COLUMNS, evaluate, expand

ROOT = Path(__file__).parents[1]


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
