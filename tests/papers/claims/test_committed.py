"""The committed table against code and results, and what the claims table makes of conf/claim."""

from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import report
import torch
from composed import ROOT, parameters
from omegaconf import OmegaConf

from dplangevin.methods.evaluate import scores
from dplangevin.papers.claims.evaluation import COLUMNS as CLAIM_COLUMNS
from dplangevin.papers.claims.evaluation import expand
from dplangevin.reporting import read

CONF, RESULTS = ROOT / "conf/claim", ROOT / "results"


def committed(path: Path) -> dict[str, Any]:
    paper = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(paper, dict)
    return paper  # type: ignore[return-value]


@pytest.mark.timeout(120)  # all claims of a paper
@pytest.mark.parametrize("paper", sorted(path.stem for path in CONF.glob("*.yaml")))
def test_the_committed_table_is_what_code_and_results_give(
    paper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every field except the wording of `reason`; numbers to a millionth."""
    monkeypatch.chdir(ROOT)
    now, committed = report.table(paper, parameters()), read.read_claims(RESULTS / "claims.csv")
    committed = committed[committed.paper.eq(paper)].reset_index(drop=True)
    numbers = ["ours", "low", "high", "asked_low", "asked_high"]
    texts = [column for column in CLAIM_COLUMNS if column not in (*numbers, "reason")]
    assert list(now.columns) == list(committed.columns) == CLAIM_COLUMNS
    assert now[texts].fillna("").astype(str).equals(committed[texts].fillna("").astype(str))
    pd.testing.assert_frame_equal(now[numbers], committed[numbers], rtol=1e-6)
    assert now.reason.ne("").all()


def test_committed_titles_are_unique() -> None:
    """Across the papers, and short."""
    analyses = {"privacy_claims": read.read_analysis("privacy_claims", RESULTS / "analyses")}
    titles = [claim["title"] for path in CONF.glob("*.yaml") for claim in expand(committed(path), analyses)]
    assert len(titles) == len(set(titles)) > 300
    assert all(0 < len(title) <= 70 for title in titles)


def test_counts_are_the_published_ones() -> None:
    printed = pd.read_csv(CONF.parents[1] / "data" / "published" / "wang2015.csv")
    for claim in expand(committed(CONF / "wang2015.yaml")):
        test = claim["test"]
        if test.get("where", {}).get("experiment") == "data":
            quantity = test["where"]["metric"].removesuffix("_train")
            row = printed[printed.dataset.eq(test["dataset"]) & printed.quantity.eq(quantity)]
            assert row.value.tolist() == [test["published"]], claim["id"]


def test_accuracies_are_the_printed_ones() -> None:
    """Of ryffel2022 in percent, and of Table 1 of li2019."""
    printed = pd.read_csv(ROOT / "data/published/ryffel2022.csv")
    value = printed.set_index(["where", "dataset", "quantity"]).value.astype(float)
    methods = {"dp_langevin": "dp_langevin", "dp_sgd": "dp_sgd", "none": "nonprivate"}
    for claim in expand(committed(CONF / "ryffel2022.yaml")):
        test, name = claim["test"], claim["id"].removeprefix("ryffel2022_").partition("_accuracy_")[2]
        if test["_target_"].endswith("network_rules.accuracy"):
            method = next(of for start, of in methods.items() if name.startswith(start))
            at = claim["where"], test["paper"], f"accuracy_{method}"
            assert 100 * test["published"] == pytest.approx(value[at]), claim["id"]
            assert claim["statement"].endswith(f" {100 * test['published']:.1f}")
    printed = pd.read_csv(ROOT / "data/published/li2019.csv")
    table1 = printed[printed["where"].eq("Table 1") & printed.quantity.str.startswith("accuracy_")]
    cells = [claim for claim in expand(committed(CONF / "li2019.yaml")) if claim["kind"] == "paper"]
    cells = [c for c in cells if {"li2019_tab1", "li2019_tab1_svhn"} & {*c.get("runs", [])}]
    asked = [
        c["test"]["published"] for c in cells if c["test"]["_target_"].endswith("network_rules.accuracy")
    ]
    assert sorted(asked) == pytest.approx(sorted(table1.value.astype(float)))


def test_numbers_of_ryffel2022_are_published() -> None:
    """Of Table 4, of the step sizes of Section 5.2, and of the comparison of Tables 1 and 2."""
    printed = pd.read_csv(ROOT / "data/published/ryffel2022.csv")
    value = printed.set_index(["where", "dataset", "quantity"]).value.astype(float)
    names, seen = ("cifar10_resnet18", "cifar10_alexnet", "pneumonia_resnet18"), Counter[str]()
    for claim in expand(committed(CONF / "ryffel2022.yaml")):
        kind, test = claim["test"]["_target_"].rpartition(".")[2], claim["test"]
        of = next((name for name in names if claim["id"].endswith(f"_{name}")), "")
        given, wanted = {**test.get("given", {}), **test}, dict[str, Any]()
        if kind == "smoothness":
            wanted = {"features": of, "published": value["Table 4", of, "smoothness"]}
        elif kind == "printed" and of:
            wanted = {"published": value["Table 4", of, "smoothness_over_convexity"]}
        elif kind == "computed" and of:
            wanted = {"beta": value["Table 4", of, "smoothness"]}
            if "step" in given:
                wanted["step"] = value["authors' commands", of, "step_size"]
            else:
                wanted["published"] = value["Table 4", of, "ratio"]
                wanted["n"] = value["Appendix D", of, "records"]
                wanted["d"] = given["classes"] * value["authors' code", of, "features"]
        elif claim["id"].endswith("outperforms_in_print"):
            methods = "accuracy_dp_langevin", "accuracy_dp_sgd"
            pairs = [[value[(*row, of)] for of in methods] for row in product(("Table 1", "Table 2"), names)]
            wanted = {"formulas": {i: f"{one} - {two}" for i, (one, two) in enumerate(pairs, 1)}}
        assert {name: given[name] for name in wanted} == wanted, claim["id"]
        seen[kind] += bool(wanted)
    assert +seen == {"smoothness": 3, "printed": 3, "computed": 7}


def test_committed_runs_have_the_scores_that_a_run_has_today() -> None:
    """A key says that nothing a result depends on has changed; this sees one that was renewed wrongly."""
    today = set(scores(torch.tensor([[[0.5, 0.5]]]), torch.tensor([0])))
    for path in RESULTS.glob("runs/*/*/scores.csv"):
        for run, rows in pd.read_csv(path).groupby("run"):
            found = set(rows.metric)
            assert "accuracy" not in found or today <= found, f"{path}: {run} has no {today - found}"
