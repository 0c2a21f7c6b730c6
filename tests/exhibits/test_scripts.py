"""The scripts of the stages, from results of every kind to exhibits, claims and metrics."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import analyse
import pandas as pd
import pytest
import render
import report
from content import write_content
from drawing import CONF, exhibit
from fake_results import INF, final, finals, write_runs, write_training
from omegaconf import OmegaConf

from dplangevin.config import content, load
from dplangevin.exhibits import read

TOP = CONF.parent
HEADS = ("ryffel2022_tab1", "ryffel2022_tab2", "ryffel2022_tab3", "ryffel2022_tab4", "ryffel2022_curve")
TRAINING = ("li2019_tab1", "li2019_curves", "li2019_reliability")
Run = Callable[[ModuleType, str], tuple[int, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit status and errors of a script with one argument."""

    def called(script: ModuleType, argument: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["script", argument])
        return int(script.main()), capsys.readouterr().err

    return called


def claims_in(folder: Path) -> pd.DataFrame:
    return read.read_claims(folder / "claims.csv").set_index("id")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to run in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_from_runs_to_exhibit_claims_and_metrics(
    runs: pd.DataFrame, sensitivity_runs: pd.DataFrame, tree: Path, run: Run
) -> None:
    claim = OmegaConf.load(CONF / "claim/wang2015.yaml")
    claim.analyses = []
    claim.runs = [name for name in claim.runs if not name.startswith("wang2015_family")]
    claim.claims = {
        key: entry
        for key, entry in claim.claims.items()
        if "analysis" not in entry and entry.test.get("experiment") != "wang2015_family"
    }
    cfg = {"experiment": {"wang2015": {}}, "pipeline": {"papers": ["wang2015"]}}
    OmegaConf.save(OmegaConf.create(cfg), "params.yaml")
    write_content(tree, exhibit={"wang2015_fig1c": exhibit("wang2015_fig1c")}, claim={"wang2015": claim})
    command = [sys.executable, str(TOP / "pipelines/render.py"), "wang2015_fig1c"]
    env = {"PYTHONPATH": str(TOP / "src"), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    missing = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert missing.returncode == 1
    assert "dvc repro run@wang2015-adult" in missing.stderr
    assert "Traceback" not in missing.stderr
    write_runs(tree / "results/runs", pd.concat([runs, sensitivity_runs]))

    assert run(render, "wang2015_fig1c") == (0, "")
    stems = ["wang2015_fig1c.csv"]
    stems += [f"wang2015_fig1c{twin}.{kind}" for twin in ("", "_audited") for kind in ("png", "pdf")]
    assert sorted(path.name for path in (tree / "results/exhibits/wang2015_fig1c").iterdir()) == sorted(stems)

    status, error = run(report, "claims")
    assert status == 1
    assert "dvc repro prepare@abalone" in error
    stated = {
        "file": {"sha256": "", "size": 1},
        "inputs": "",
        "rows": {"train": 20, "test": 20},
        "features": 2,
    }
    (tree / "data/manifest/dataset").mkdir(parents=True)
    for name in ("abalone", "adult"):
        (tree / f"data/manifest/dataset/{name}.json").write_text(json.dumps(stated))
    for what in ("claims", "page"):
        assert run(report, what) == (0, "")
    counted = claims_in(tree / "results").loc["wang2015_features_adult"]
    assert (counted.verdict, counted.ours) == ("contradicted", 2)
    assert (tree / "results/report/claims.md").read_text().startswith("# Claims and verdicts")


def test_from_analysis_to_exhibit_and_claims(
    tree: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """The temperature of the samplers, tiny: analysis, figure, claims."""
    cfg = load(TOP / "params.yaml")
    cfg.analysis = {"temperature": {**cfg.analysis.temperature, "chains": 20, "settle": 1, "keep": 1}}
    cfg.pipeline.papers = ["wang2015"]
    OmegaConf.save(cfg, "params.yaml")
    claims = OmegaConf.load(CONF / "claim/wang2015.yaml").claims
    entries = {key: e for key, e in claims.items() if e.get("analysis") == "temperature"}
    paper = {"paper": "wang2015", "analyses": ["temperature"], "claims": entries}
    write_content(tree, exhibit={"temperature": exhibit("temperature")}, claim={"wang2015": paper})
    for script, what in ((render, "temperature"), (report, "claims")):
        status, error = run(script, what)
        assert status == 1
        assert "dvc repro analysis@temperature" in error
    with pytest.raises(SystemExit, match="2"):
        run(analyse, "none")
    error = capsys.readouterr().err
    assert "temperature" in error
    for script, what in ((analyse, "temperature"), (render, "temperature"), (report, "claims")):
        assert run(script, what)[0] == 0
    made = {path.name for path in (tree / "results/exhibits/temperature").iterdir()}
    assert made == {f"temperature.{kind}" for kind in ("csv", "png", "pdf")}
    claims = claims_in(tree / "results")
    assert set(claims.index) == {f"wang2015_{key}" for key in entries}
    assert set(claims.evidence) == {"results/exhibits/temperature/temperature.csv"}
    assert not list((tree / "data/units/analysis/temperature").glob("*.csv"))


def test_render_adds_timings_and_the_exhibits_own_numbers(
    compare_runs: pd.DataFrame, tree: Path, run: Run
) -> None:
    write_runs(tree / "results/runs", compare_runs[compare_runs.dataset.eq("adult")])
    cfg = exhibit("compare")
    cfg.draw.datasets = cfg.table.datasets = {"adult": "Adult"}
    own = compare_runs[compare_runs.method.eq("outpert") & compare_runs.dataset.eq("adult")]
    # of a user's own, which the exhibit does not name
    write_runs(tree / "results/runs", own.assign(method="mine"))
    spec = {"datasets": ["adult"], "methods": [*sorted(set(compare_runs.method)), "mine"]}
    OmegaConf.save({"experiment": {"compare": spec}}, "params.yaml")
    write_content(tree, exhibit={"compare": cfg})
    path = Path(cfg.timings)
    assert pd.concat([compare_runs, read.read_timings(path)]).value.dtype == float  # nothing timed
    path.parent.mkdir()
    pd.DataFrame([{"dataset": "adult", "method": "ops", "seconds": 12.5}]).to_csv(path, index=False)
    assert run(render, "compare") == (0, "")
    folder = tree / "results/exhibits/compare"
    numbers = pd.read_csv(folder / "compare.csv")
    assert numbers.seconds.dropna().unique().tolist() == [12.5]
    assert "mine" in set(numbers.method)
    assert "| 12.5 |" in (folder / "compare.md").read_text()


@pytest.fixture
def trained(tree: Path) -> Path:
    """The results of li2019_tab1, with parameters about them alone."""
    write_training(tree / "results/training", finals())
    paper = OmegaConf.load(CONF / "claim/li2019.yaml")
    claims = {name: entry for name, entry in paper.claims.items() if "training" in entry}
    params = {
        "experiment": {},
        "pipeline": {"papers": ["li2019"]},
        "training": {
            "li2019_tab1": {"runs": dict.fromkeys(finals())},
            "li2019_tab1_svhn": {"runs": {"svhn_sgd": None}},
        },
    }
    OmegaConf.save(OmegaConf.create(params), "params.yaml")
    claim = {"li2019": {"paper": "li2019", "training": paper.training, "claims": claims}}
    write_content(tree, exhibit={name: exhibit(name) for name in TRAINING}, claim=claim)
    return tree / "results"


@pytest.fixture
def on_features(results: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The results of ryffel2022, with parameters about them alone."""
    paper: Any = OmegaConf.to_container(OmegaConf.load(CONF / "claim/ryffel2022.yaml"))
    claims = {name: entry for name, entry in paper["claims"].items() if "analysis" not in entry}
    params = {
        "experiment": {},
        "pipeline": {"papers": ["ryffel2022"]},
        "dataset": {"pneumonia": {"source": "all X-rays, 112 x 112"}},
    }
    OmegaConf.save(OmegaConf.create(params), results.parent / "params.yaml")
    claim = {"ryffel2022": {**paper, "analyses": [], "claims": claims}}
    write_content(results.parent, exhibit={name: exhibit(name) for name in HEADS}, claim=claim)
    monkeypatch.chdir(results.parent)
    return results


@pytest.mark.parametrize("name", [*TRAINING, "ryffel2022_tab1", "ryffel2022_tab3"])
def test_render_networks(name: str, request: pytest.FixtureRequest, run: Run) -> None:
    folder = request.getfixturevalue("trained" if name in TRAINING else "on_features") / "exhibits" / name
    assert run(render, name) == (0, "")
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    kinds = ["png", "pdf", "csv", *(["md"] if "tab" in name else [])]
    assert first.keys() == {f"{name}.{kind}" for kind in kinds}
    assert run(render, name) == (0, "")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == first
    assert len(pd.read_csv(folder / f"{name}.csv"))
    if "md" in kinds:
        page = (folder / f"{name}.md").read_text()
        assert ("all X-rays, 112 x 112" in page) == (name == "ryffel2022_tab1")


@pytest.mark.parametrize("name", HEADS)
def test_every_exhibit_reads_its_rows(name: str, on_features: Path) -> None:
    cfg = load()
    frame, numbers = render.read(content("exhibit", name, cfg), cfg)
    assert len(frame)
    assert len(numbers)


def test_claims_on_features(on_features: Path, run: Run) -> None:
    assert run(report, "claims") == (0, "")
    claims = claims_in(on_features)
    assert claims.verdict["ryffel2022_budget_dp_langevin_cifar10_constant"] == "contradicted"
    assert not claims.reason.str.contains("was read").any()


@pytest.mark.parametrize(
    ("file", "name", "stage"),
    [
        ("training/li2019_tab1/tanh_pate/final.csv", "li2019_tab1", "training@li2019_tab1"),
        ("heads/ryffel2022_pneumonia.csv", "ryffel2022_tab1", "heads@ryffel2022_pneumonia"),
        ("finetune/block_none.csv", "ryffel2022_tab3", "finetune"),
    ],
)
def test_missing_file_names_its_stage(
    file: str, name: str, stage: str, request: pytest.FixtureRequest, run: Run
) -> None:
    path = request.getfixturevalue("trained" if name in TRAINING else "on_features") / file
    content = path.read_bytes()
    path.unlink()
    try:
        for script, what in ((render, name), (report, "claims")):
            status, error = run(script, what)
            assert status == 1
            assert f"{file} is missing: make it with `dvc repro {stage}`" in error
    finally:
        path.write_bytes(content)


def test_an_experiment_that_may_be_missing_counts_when_all_of_it_is_there(trained: Path, run: Run) -> None:
    svhn = {"experiment": "li2019_tab1_svhn", "dataset": "svhn", "network": "li2019_svhn"}
    kind: dict[str, Any] = {**svhn, "block": "nonprivate"}
    cfg = load()
    cfg.training.li2019_tab1_svhn.runs = {"svhn_sgd": None, "svhn_pate": None}
    OmegaConf.save(cfg, "params.yaml")
    verdicts = []
    for rows in ({}, {"svhn_sgd": ([0.93], [INF])}, {"svhn_pate": ([0.9], [4.96])}):
        write_training(trained / "training", {name: final(name, *of, **kind) for name, of in rows.items()})
        assert run(report, "claims") == (0, "")
        claims = claims_in(trained)
        verdicts.append(claims.verdict["li2019_svhn_nonprivate"])
        assert claims.reason["li2019_svhn_pate"].startswith("no run on SVHN") == (len(verdicts) < 3)
        assert claims.verdict["li2019_tab1_nonprivate"] == "reproduced"
    assert verdicts == ["not testable", "not testable", "reproduced"]
