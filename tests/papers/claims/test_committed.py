"""The committed table against code and results, and what the claims table makes of conf/claim."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import report
import torch
from composed import parameters
from fake_results import INF, final
from omegaconf import OmegaConf

from dplangevin.methods.evaluate import scores
from dplangevin.papers.claims import verdicts
from dplangevin.papers.claims.table import COLUMNS as CLAIM_COLUMNS
from dplangevin.papers.claims.table import evaluate, expand
from dplangevin.reporting import read

ROOT = Path(__file__).parents[3]
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
        if test["_target_"].endswith("runs.count"):
            quantity = test["metric"].removesuffix("_train")
            row = printed[printed.dataset.eq(test["dataset"]) & printed.quantity.eq(quantity)]
            assert row.value.tolist() == [test["published"]], claim["id"]


@pytest.fixture(scope="module")
def ryffel2022() -> dict[str, Any]:
    found: Any = OmegaConf.to_container(OmegaConf.load(ROOT / "conf/claim/ryffel2022.yaml"))
    on_runs = {name: entry for name, entry in found["claims"].items() if "analysis" not in entry}
    found["claims"] = {n: e for n, e in on_runs.items() if not e["test"]["_target_"].endswith("runs.count")}
    return found


def test_numbers_of_ryffel2022_are_published(ryffel2022: dict[str, Any]) -> None:
    printed = pd.read_csv(ROOT / "data/published/ryffel2022.csv")
    value = printed.set_index(["where", "dataset", "quantity"]).value.astype(float)
    for claim in expand(ryffel2022):
        test = claim["test"]
        name = claim["id"].removeprefix("ryffel2022_")
        if test["_target_"].endswith("accuracy_on_features"):
            method = test["where"].get("method", "sgd" if "none" in name else "dp_sgd")
            method = {"sgd": "nonprivate", "dp_sgld_ryffel2022": "dp_langevin"}.get(method, method)
            assert 100 * test["published"] == pytest.approx(
                value[claim["where"], test["paper"], f"accuracy_{method}"]
            )
            assert claim["statement"].endswith(f" {100 * test['published']:.1f}")
        elif test["_target_"].endswith("ryffel2022.smoothness"):
            assert test["published"] == value["Table 4", test["features"], "smoothness"]
        elif test["_target_"].endswith("ryffel2022.ratio"):
            dataset = name.removeprefix("tab4_ratio_")
            assert test["published"] == value["Table 4", dataset, "ratio"]
            assert test["records"] == value["Appendix D", dataset, "records"]
            features = value["authors' code", dataset, "features"]
            assert test["parameters"] == test["classes"] * features
        elif name.startswith("step_size"):
            dataset = name.removeprefix("step_size_")
            assert test["step"] == value["authors' commands", dataset, "step_size"]
            assert test["smoothness"] == value["Table 4", dataset, "smoothness"]
        elif test["_target_"].endswith("all_above"):
            rows = [
                (t, d)
                for t in ("Table 1", "Table 2")
                for d in ("cifar10_resnet18", "cifar10_alexnet", "pneumonia_resnet18")
            ]
            methods = ("accuracy_dp_langevin", "accuracy_dp_sgd")
            assert test["pairs"] == [[value[(*row, method)] for method in methods] for row in rows]


@pytest.fixture(scope="module")
def li2019() -> dict[str, Any]:
    found: Any = OmegaConf.to_container(OmegaConf.load(ROOT / "conf/claim/li2019.yaml"))
    of_table = {name for name in found["runs"] if name.startswith("li2019_tab1")}
    found["claims"] = {
        name: entry for name, entry in found["claims"].items() if of_table & set(entry.get("runs", []))
    }
    return found


def test_claims_of_li2019_on_svhn(li2019: dict[str, Any]) -> None:
    """Every claim on SVHN can be tested once its runs are there."""
    names = {"dataset": "svhn", "problem": "li2019_svhn", "experiment": "li2019_tab1_svhn"}
    frames = [
        final("svhn_sgd", [0.93], [INF], block="nonprivate", **names),
        final("svhn_dp_sgld_printed", [0.2], [2.97], block="printed", **names),
        final("svhn_dp_sgld", [0.8, 0.85], [2.97, 4.96], **names),
        final("svhn_pate", [0.81, 0.9], [2.97, 4.96], **names),
    ]
    frame = pd.concat(frames, ignore_index=True)
    table = evaluate(li2019, {"li2019_tab1_svhn": frame}).set_index("id")
    svhn = table[table.index.str.startswith("li2019_svhn")]
    assert verdicts.NOT_TESTABLE not in set(svhn.verdict)
    assert svhn.verdict["li2019_svhn_nonprivate"] == verdicts.IN_PART
    rest = table.drop(svhn.index)
    assert set(rest.reason) == {"no run of li2019_tab1 was read"}


def test_numbers_of_li2019_are_published(li2019: dict[str, Any]) -> None:
    printed = pd.read_csv(ROOT / "data/published/li2019.csv")
    cells = [claim for claim in expand(li2019) if claim["test"]["_target_"].endswith("networks.accuracy")]
    cells = [claim for claim in cells if claim["kind"] != "extension"]
    table1 = printed[printed["where"].eq("Table 1") & printed.quantity.str.startswith("accuracy_")]
    asked = sorted(claim["test"]["published"] for claim in cells)
    assert asked == pytest.approx(sorted(table1.value.astype(float)))
    for claim in cells:
        assert f"{100 * claim['test']['published']:.2f}%" in claim["statement"]


def test_committed_runs_have_the_scores_that_a_run_has_today() -> None:
    """A key says that nothing a result depends on has changed; this sees one that was renewed wrongly."""
    today = set(scores(torch.tensor([[[0.5, 0.5]]]), torch.tensor([0])))
    for path in RESULTS.glob("runs/*/*/scores.csv"):
        for run, rows in pd.read_csv(path).groupby("run"):
            found = set(rows.metric)
            assert "accuracy" not in found or today <= found, f"{path}: {run} has no {today - found}"
