"""Reading runs with clear errors; byte-stable, atomic writing; the render and report scripts from end to
end."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from omegaconf import OmegaConf

from dplangevin import outputs
from dplangevin.data import Dataset
from dplangevin.exhibits import figures, files

TOP = Path(__file__).parents[2]


def save(frame: pd.DataFrame, root: Path) -> None:
    for (experiment, dataset, method), rows in frame.groupby(["experiment", "dataset", "method"]):
        folder = root / str(experiment) / str(dataset)
        folder.mkdir(parents=True, exist_ok=True)
        rows.to_csv(folder / f"{method}.csv", index=False)


def test_runs_come_back_as_written(runs: pd.DataFrame, tmp_path: Path) -> None:
    save(runs, tmp_path)
    read = files.read_runs(["wang2015/adult/nonprivate", "wang2015/adult/dp_sgld"], root=tmp_path)
    wanted = runs[runs.dataset.eq("adult") & runs.method.isin(["nonprivate", "dp_sgld"])]
    pd.testing.assert_frame_equal(read, wanted.reset_index(drop=True), check_dtype=False)
    assert read.violated.eq("").any()


def test_missing_run_names_the_file_and_its_stage(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"adult/ops\.csv is missing.*dvc repro wang2015@adult-ops"):
        files.read_runs(["wang2015/adult/ops"], root=tmp_path)
    composite = files.composites({"wang2015": {"composites": ["hybrid"]}, "other": {}})
    with pytest.raises(FileNotFoundError, match="dvc repro wang2015_composite@adult-hybrid"):
        files.read_runs(["wang2015/adult/hybrid"], composite, root=tmp_path)


def test_wrong_columns_are_refused(runs: pd.DataFrame, tmp_path: Path) -> None:
    save(runs[runs.dataset.eq("adult") & runs.method.eq("ops")], tmp_path)
    path = tmp_path / "wang2015/adult/ops.csv"
    pd.read_csv(path).drop(columns="violated").to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"expected .*violated"):
        files.read_runs(["wang2015/adult/ops"], root=tmp_path)


@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_same_input_gives_the_same_bytes(runs: pd.DataFrame, kind: str) -> None:
    adult = runs[runs.dataset.eq("adult")]
    drawn = [
        files.image_bytes(figures.accuracy_vs_epsilon(adult, methods=["ops", "hybrid"], title="t"), kind)
        for _ in range(2)
    ]
    assert drawn[0] == drawn[1]
    assert b"CreationDate" not in drawn[0]


def test_write_replaces_a_folder_and_leaves_no_scraps(tmp_path: Path) -> None:
    (tmp_path / "old.png").write_bytes(b"old")
    outputs.write(tmp_path, {"a.csv": b"1\n"}, only=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    with pytest.raises(TypeError):
        outputs.write(tmp_path, {"a.csv": "text"})  # type: ignore[dict-item]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.csv": b"1\n"}


def script(name: str, argument: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOP / "pipelines" / name), argument]
    env = {
        "PYTHONPATH": str(TOP / "src"),
        "OMP_NUM_THREADS": "1",
        "PATH": "/usr/bin:/bin",
        "MPLCONFIGDIR": str(folder),
    }
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_scripts_from_runs_to_exhibit_claims_and_metrics(
    runs: pd.DataFrame, sensitivity_runs: pd.DataFrame, tmp_path: Path
) -> None:
    claim = OmegaConf.load(TOP / "conf/claim/wang2015.yaml")
    claim.analyses = []
    claim.runs = [name for name in claim.runs if not name.startswith("wang2015_family")]
    claim.claims = {
        key: entry
        for key, entry in claim.claims.items()
        if "analysis" not in entry and entry.test.get("experiment") != "wang2015_family"
    }
    cfg = {
        "experiment": {"wang2015": {"composites": ["hybrid"]}},
        "exhibit": {"wang2015_fig1c": OmegaConf.load(TOP / "conf/exhibit/wang2015_fig1c.yaml")},
        "claim": {"wang2015": claim},
    }
    OmegaConf.save(OmegaConf.create(cfg), tmp_path / "params.yaml")
    missing = script("render.py", "wang2015_fig1c", tmp_path)
    assert missing.returncode == 1
    assert "dvc repro wang2015@adult-nonprivate" in missing.stderr
    assert "Traceback" not in missing.stderr
    save(pd.concat([runs, sensitivity_runs]), tmp_path / "results/runs")

    done = script("render.py", "wang2015_fig1c", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    folder = tmp_path / "results/exhibits/wang2015_fig1c"
    stems = ["wang2015_fig1c.csv"]
    stems += [f"wang2015_fig1c{twin}.{kind}" for twin in ("", "_audited") for kind in ("png", "pdf")]
    assert sorted(path.name for path in folder.iterdir()) == sorted(stems)

    absent = script("report.py", "claims", tmp_path)
    assert absent.returncode == 1
    assert "abalone.npz" in absent.stderr
    for name in ("abalone", "adult"):
        x = runs.value.to_numpy()[:40].reshape(1, 20, 2)
        y = (x[..., 0] > 0) * 2.0 - 1.0
        Dataset(x, y, x, y, {"name": name}).save(tmp_path / f"data/processed/{name}.npz")
    for what in ("claims", "metrics"):
        result = script("report.py", what, tmp_path)
        assert (result.returncode, result.stderr) == (0, "")
    claims = pd.read_csv(tmp_path / "results/claims.csv").set_index("id")
    assert claims.loc["wang2015_features_adult", "verdict"] == "contradicted"
    assert claims.loc["wang2015_features_adult", "ours"] == 2
    nested = json.loads((tmp_path / "results/report/metrics.json").read_text())
    assert "accuracy_at_eps_1" in nested["wang2015"]["adult"]["ops"]
    assert (tmp_path / "results/report/claims.md").read_text().startswith("# Claims and verdicts")


def test_scripts_from_analysis_to_exhibit_and_claims(tmp_path: Path) -> None:
    """The temperature of the samplers, tiny: analysis, figure, claims."""
    conf = OmegaConf.load(TOP / "params.yaml")
    conf.analysis = {"temperature": {**conf.analysis.temperature, "chains": 20, "settle": 1, "keep": 1}}
    entries = {key: e for key, e in conf.claim.wang2015.claims.items() if e.get("analysis") == "temperature"}
    conf.claim = {"wang2015": {"paper": "wang2015", "analyses": ["temperature"], "claims": entries}}
    OmegaConf.save(conf, tmp_path / "params.yaml")
    for name in ("render.py", "report.py"):
        missing = script(name, "claims" if name == "report.py" else "temperature", tmp_path)
        assert missing.returncode == 1
        assert "dvc repro analysis@temperature" in missing.stderr
    unknown = script("analyse.py", "none", tmp_path)
    assert unknown.returncode == 1
    assert "temperature" in unknown.stderr
    for name, what in (("analyse.py", "temperature"), ("render.py", "temperature"), ("report.py", "claims")):
        result = script(name, what, tmp_path)
        assert result.returncode == 0, result.stderr
    found = {path.name for path in (tmp_path / "results/exhibits/temperature").iterdir()}
    assert found == {f"temperature.{kind}" for kind in ("csv", "png", "pdf")}
    claims = pd.read_csv(tmp_path / "results/claims.csv")
    assert set(claims.id) == {f"wang2015_{key}" for key in entries}
    assert set(claims.evidence) == {"results/exhibits/temperature/temperature.csv"}
    assert not list((tmp_path / "data/units/analysis/temperature").glob("*.csv"))


def test_render_adds_timings_and_the_exhibits_own_numbers(compare_runs: pd.DataFrame, tmp_path: Path) -> None:
    save(compare_runs[compare_runs.dataset.eq("adult")], tmp_path / "results/runs")
    exhibit = OmegaConf.load(TOP / "conf/exhibit/compare.yaml")
    exhibit.files = [name for name in exhibit.files if name.startswith("adult/")]
    exhibit.draw.datasets = exhibit.table.datasets = {"adult": "Adult"}
    OmegaConf.save({"experiment": {}, "exhibit": {"compare": exhibit}}, tmp_path / "params.yaml")
    path = tmp_path / exhibit.timings
    assert pd.concat([compare_runs, files.read_timings(path)]).value.dtype == float  # nothing timed
    path.parent.mkdir()
    pd.DataFrame([{"dataset": "adult", "method": "ops", "seconds": 12.5}]).to_csv(path, index=False)
    done = script("render.py", "compare", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    folder = tmp_path / "results/exhibits/compare"
    assert pd.read_csv(folder / "compare.csv").seconds.dropna().unique().tolist() == [12.5]
    assert "| 12.5 |" in (folder / "compare.md").read_text()
