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
from drawing import CONF, call, exhibit
from fake_results import INF, final, finals, write_runs
from omegaconf import OmegaConf

from dplangevin.papers.exhibits import read
from dplangevin.pipeline import manifest
from dplangevin.pipeline.config import content, load

TOP = CONF.parent
HEADS = ("ryffel2022_tab1", "ryffel2022_tab2", "ryffel2022_tab3", "ryffel2022_tab4", "ryffel2022_curve")
TRAINING = ("li2019_tab1", "li2019_curves", "li2019_reliability")
DATASETS = {
    path.stem: {"datasets": OmegaConf.load(path).datasets} for path in (CONF / "experiment").glob("*.yaml")
}
Run = Callable[[ModuleType, str], tuple[int, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit status and errors of a script with one argument."""

    def called(script: ModuleType, argument: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["script", argument])
        return int(script.main()), capsys.readouterr().err

    return called


def write_content(folder: Path, **groups: Any) -> None:
    """conf/<group>/<name>.yaml, which stages read from files."""
    for group, entries in groups.items():
        (folder / "conf" / group).mkdir(parents=True, exist_ok=True)
        for name, entry in entries.items():
            OmegaConf.save(OmegaConf.create(entry), folder / "conf" / group / f"{name}.yaml")


def claims_in(folder: Path) -> pd.DataFrame:
    return read.read_claims(folder / "claims.csv").set_index("id")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to run in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.timeout(30)  # all scripts in a row
def test_from_runs_to_exhibit_claims_and_metrics(runs: pd.DataFrame, tree: Path, run: Run) -> None:
    claim = OmegaConf.load(CONF / "claim/wang2015.yaml")
    claim.analyses = []
    claim.runs = {"wang2015": None}
    claim.claims = {
        key: claim.claims[key] for key in ("features_abalone", "features_adult", "hybrid_beats_dp_sgnht")
    }
    experiments = {
        str(name): {"datasets": sorted(set(rows.dataset))} for name, rows in runs.groupby("experiment")
    }
    pipeline = {"papers": ["wang2015"], "exhibits": {"wang2015_fig1c": "results/runs/wang2015/adult"}}
    shared = {"seed": 1, "repeats": 2, "scale": "laptop", "delta": 1e-5, "dataset": {}}
    cfg = {**shared, "experiment": experiments, "pipeline": pipeline}
    OmegaConf.save(OmegaConf.create(cfg), "params.yaml")
    texts = {path.stem: OmegaConf.load(path) for path in (CONF / "report").glob("*.yaml")}
    shown = {"wang2015_fig1c": exhibit("wang2015_fig1c")}
    write_content(tree, exhibit=shown, claim={"wang2015": claim}, report=texts)
    command = [sys.executable, str(TOP / "pipelines/render.py"), "wang2015_fig1c"]
    env = {"PYTHONPATH": str(TOP / "src"), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    missing = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert missing.returncode == 1
    assert "dvc repro run@wang2015-adult" in missing.stderr
    assert "Traceback" not in missing.stderr
    write_runs(tree / "results/runs", runs)

    assert run(render, "wang2015_fig1c") == (0, "")
    stems = ["wang2015_fig1c.csv"]
    stems += [f"wang2015_fig1c{twin}.{kind}" for twin in ("", "_proven") for kind in ("png", "pdf")]
    assert sorted(path.name for path in (tree / "results/exhibits/wang2015_fig1c").iterdir()) == sorted(stems)

    status, error = run(report, "claims")
    assert status == 1
    assert "dvc repro prepare@abalone" in error
    stated = {"file": {"sha256": "", "size": 1}, "inputs": "", "features": 2}
    stated |= {"rows": {"train": 20, "test": 20}}
    (tree / "data/manifest/dataset").mkdir(parents=True)
    for name in ("abalone", "adult"):
        (tree / f"data/manifest/dataset/{name}.json").write_text(json.dumps(manifest.with_sha256(stated)))
    (tree / "data/manifest/code.json").write_text("{}")
    for what in ("claims", "page"):
        assert run(report, what) == (0, "")
    counted = claims_in(tree / "results").loc["wang2015_features_adult"]
    assert (counted.verdict, counted.ours) == ("open", 2)
    assert "### wang2015_features_adult\n" in (tree / "results/report/wang2015.md").read_text()
    assert (
        "](../exhibits/wang2015_fig1c/wang2015_fig1c.png)"
        in (tree / "results/report/exhibits.md").read_text()
    )


@pytest.mark.slow
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
    assert set(claims.evidence) == {"results/analyses/temperature.csv"}
    assert not list((tree / "data/units/analysis/temperature").glob("*.csv"))


def test_the_rows_of_the_analyses_that_an_exhibit_names_beside_its_own(tree: Path) -> None:
    (tree / "results/analyses").mkdir(parents=True)
    for name, share in (("first", 0.5), ("second", 0.25)):
        pd.DataFrame({"ratio": [share]}).to_csv(tree / f"results/analyses/{name}.csv", index=False)
    shown, numbers = render.read(
        {"source": "results/analyses/first.csv", "beside": ["second"]}, OmegaConf.create()
    )
    assert shown.ratio.tolist() == [0.5, 0.25]
    assert shown.index.tolist() == [0, 1]
    pd.testing.assert_frame_equal(shown, numbers)


@pytest.mark.slow
def test_render_adds_timings_and_the_exhibits_own_numbers(
    compare_runs: pd.DataFrame, tree: Path, run: Run
) -> None:
    adult = compare_runs[compare_runs.dataset.eq("adult")]
    cfg = exhibit("compare")
    cfg.draw.datasets = cfg.table.datasets = {"adult": "Adult"}
    own = adult[adult.method.eq("outpert")].assign(run="mine", method="mine")  # not named by the exhibit
    write_runs(tree / "results/runs", pd.concat([own, adult]))
    OmegaConf.save({"experiment": {"compare": {"datasets": ["adult"]}}}, "params.yaml")
    write_content(tree, exhibit={"compare": cfg})
    assert pd.concat([compare_runs, read.read_timings("compare")]).value.dtype == float  # nothing timed
    read.TIMINGS.parent.mkdir()
    timed = {"experiment": "compare", "dataset": "adult", "method": "ops", "seconds": 12.5}
    pd.DataFrame([timed]).to_csv(read.TIMINGS, index=False)
    assert run(render, "compare") == (0, "")
    folder = tree / "results/exhibits/compare"
    numbers = pd.read_csv(folder / "compare.csv")
    assert numbers.seconds.dropna().unique().tolist() == [12.5]
    assert list(numbers.method.unique()) == [*cfg.methods, "mine"]
    assert "| 12.5 |" in (folder / "compare.md").read_text()


@pytest.fixture
def trained(tree: Path) -> Path:
    """The results of li2019_tab1, with parameters about them alone."""
    write_runs(tree / "results/runs", finals(), trained=True)
    paper = OmegaConf.load(CONF / "claim/li2019.yaml")
    claims = {name: entry for name, entry in paper.claims.items() if "runs" in entry and "gan" not in name}
    wanted = {name: said for name, said in paper.runs.items() if name.startswith("li2019_tab1")}
    params = {"experiment": DATASETS, "pipeline": {"papers": ["li2019"]}}
    OmegaConf.save(OmegaConf.create(params), "params.yaml")
    claim = {"li2019": {"paper": "li2019", "runs": wanted, "claims": claims}}
    write_content(tree, exhibit={name: exhibit(name) for name in TRAINING}, claim=claim)
    return tree / "results"


@pytest.fixture
def on_features(results: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The results of ryffel2022, with parameters about them alone."""
    paper: Any = OmegaConf.to_container(OmegaConf.load(CONF / "claim/ryffel2022.yaml"))
    on_runs = {name: entry for name, entry in paper["claims"].items() if "analysis" not in entry}
    claims = {n: e for n, e in on_runs.items() if not e["test"]["_target_"].endswith("runs.count")}
    params: dict[str, Any] = {"experiment": DATASETS, "pipeline": {"papers": ["ryffel2022"]}}
    params["dataset"] = {"pneumonia": {"source": "all X-rays, 112 x 112"}}
    OmegaConf.save(OmegaConf.create(params), results.parent / "params.yaml")
    del paper["data"]
    claim = {"ryffel2022": {**paper, "analyses": [], "claims": claims}}
    write_content(results.parent, exhibit={name: exhibit(name) for name in HEADS}, claim=claim)
    monkeypatch.chdir(results.parent)
    return results


@pytest.mark.slow
@pytest.mark.parametrize("name", ["li2019_tab1", "ryffel2022_tab1"])
def test_render_networks(name: str, request: pytest.FixtureRequest, run: Run) -> None:
    folder = request.getfixturevalue("trained" if name in TRAINING else "on_features") / "exhibits" / name
    assert run(render, name) == (0, "")
    kinds = ["png", "pdf", "csv", "md"]
    assert {path.name for path in folder.iterdir()} == {f"{name}.{kind}" for kind in kinds}
    assert len(pd.read_csv(folder / f"{name}.csv"))
    page = (folder / f"{name}.md").read_text()
    assert ("all X-rays, 112 x 112" in page) == (name == "ryffel2022_tab1")


@pytest.mark.slow
@pytest.mark.parametrize("others", ["trained", "on_features"])
def test_every_other_exhibit_reads_its_rows_and_draws(others: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(others)
    cfg = load()
    for name in TRAINING[1:] if others == "trained" else HEADS[1:]:
        exhibit = content("exhibit", name, cfg)
        frame, numbers = render.read(exhibit, cfg)
        assert len(numbers)
        assert call(OmegaConf.create(exhibit), "draw", frame)._suptitle.get_text() == exhibit["title"]


@pytest.mark.slow
def test_claims_on_features(on_features: Path, run: Run) -> None:
    assert run(report, "claims") == (0, "")
    claims = claims_in(on_features)
    assert claims.verdict["ryffel2022_budget_dp_langevin_pneumonia_constant"] == "open"
    assert not claims.reason.str.contains("was read").any()


@pytest.mark.slow
def test_missing_file_names_its_stage(trained: Path, run: Run) -> None:
    (trained / "runs/li2019_tab1/mnist/scores.csv").unlink()
    for script, what in ((render, "li2019_tab1"), (report, "claims")):
        status, error = run(script, what)
        assert status == 1
        assert "mnist/scores.csv is missing: make it with `dvc repro run@li2019_tab1-mnist`" in error


@pytest.mark.slow
def test_an_experiment_that_may_be_missing(trained: Path, run: Run) -> None:
    kind: dict[str, Any] = {"experiment": "li2019_tab1_svhn", "dataset": "svhn", "problem": "li2019_svhn"}
    verdicts = []
    for there in (False, True):
        if there:
            write_runs(trained / "runs", final("svhn_sgd", [0.93], [INF], block="nonprivate", **kind))
        assert run(report, "claims") == (0, "")
        claims = claims_in(trained)
        verdicts.append(claims.verdict["li2019_svhn_nonprivate"])
        assert claims.reason["li2019_svhn_pate"].startswith("no run with" if there else "no run on SVHN")
        assert claims.verdict["li2019_tab1_nonprivate"] == "holds in part"
    assert verdicts == ["open", "holds in part"]
