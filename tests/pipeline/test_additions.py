"""What a user adds without touching the package: a method in a module of their own, a data set that is a CSV."""

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from checkout import ROOT, run
from omegaconf import OmegaConf

from dplangevin.files import sha256
from dplangevin.papers.exhibits import side_by_side
from dplangevin.pipeline import config
from dplangevin.reporting import read

METHOD = re.findall(r"```python\n(.*?)```", (ROOT / "docs/design.md").read_text(), re.DOTALL)[0]
DATASET = """
files:
  - {{name: wine.csv, sha256: {sha256}, size: {size}, bundled: null, urls: []}}
limit: null
assumptions: [ranges read off the rows]
loader:
  _target_: dplangevin.data.loaders.table.load
  _convert_: all
  name: wine
  file: wine.csv
  schema:
    _target_: dplangevin.data.table_schema.Schema
    target: quality
    classes: [bad, good]
    columns:
      acid: {{low: -3.0, high: 3.0}}
      sugar: {{low: -1.0, high: 1.0}}
      salt: {{low: -1.0, high: 1.0}}
  split: {{_target_: dplangevin.data.splits.Split, train_share: 0.8, repeats: "${{splits}}", seed: "${{seed}}"}}
  limit: ${{..limit}}
"""
EXPERIMENT = """
datasets: [wine]
methods: [nonprivate, noisy_mean, objpert]
problem: logistic
scalings: [unit]
price_neighbours: replace_one
epsilons: {wine: [1.0, 10.0]}
metrics: true
"""


def stage(folder: Path, *words: str) -> None:
    """A script of pipelines/ in a folder, with the user's modules on PYTHONPATH and their data in a mirror."""
    env = {"PYTHONPATH": f"{ROOT / 'src'}:{folder / 'mine'}", "DATA_MIRROR": str(folder / "mirror")}
    env["OMP_NUM_THREADS"] = "2"  # which decides nothing
    done = run(folder, sys.executable, str(ROOT / "pipelines" / words[0]), *words[1:], **env)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows of the table in docs/design.md for a method, a table of numbers and an experiment, then the stages."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "conf", folder / "conf")
    for name in ("mine", "mirror/wine", "data"):
        (folder / name).mkdir(parents=True)
    (folder / "mine/noisy_mean.py").write_text(METHOD)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(150, 3)), columns=["acid", "sugar", "salt"])
    table["quality"] = np.where(table.acid / 3 + table.sugar > 0, "good", "bad")
    raw = folder / "mirror/wine/wine.csv"
    table.to_csv(raw, index=False)
    conf = folder / "conf"
    (conf / "method/noisy_mean.yaml").write_text("_target_: noisy_mean.NoisyMean\nscale: 10.0\n")
    (conf / "dataset/wine.yaml").write_text(DATASET.format(sha256=sha256(raw), size=raw.stat().st_size))
    (conf / "experiment/mine.yaml").write_text(EXPERIMENT)
    cfg = config.compose(["repeats=2", "splits=2"], conf)  # it finds the new files
    cfg.pipeline.update(analyses={}, exhibits={}, papers=[])  # since `code` hashes the code of each stage
    (folder / "params.yaml").write_text(OmegaConf.to_yaml(cfg))
    stage(folder, "fingerprint.py")
    stage(folder, "data.py", "dataset", "wine")
    stage(folder, "run.py", "mine-wine")
    return folder


@pytest.mark.slow
def test_a_table_and_a_method_from_outside_the_package_end_in_rows_that_are_priced_and_shown(
    project: Path,
) -> None:
    stated = json.loads((project / "data/manifest/dataset/wine.json").read_bytes())
    assert stated["rows"] == {"train": 120, "test": 30}
    assert stated["features"] == 4  # with the bias
    assert stated["draws"] == 2
    runs = pd.read_csv(project / "results/runs/mine/wine/runs.csv")
    assert runs.groupby("run", sort=False).epsilon.apply(list).to_dict() == {
        "nonprivate": [np.inf],
        "noisy_mean": [1.0, 10.0],
        "objpert": [1.0, 10.0],
    }
    assert set(runs.dataset) == {"wine"}
    assert set(runs.records) == {120}
    assert runs.assumptions.str.endswith("ranges read off the rows").all()
    units = json.loads((project / "results/runs/mine/wine/scores.units.json").read_bytes())
    assert all(", threads 1, " in unit["made"] for unit in units)
    frame = read.read_runs(["mine/wine"], root=project / "results/runs")
    mine = frame[frame.method.eq("noisy_mean") & frame.metric.eq("accuracy")]
    assert mine.epsilon_proven.tolist() == pytest.approx([1.0, 1.0, 10.0, 10.0], rel=1e-6)
    assert set(mine.accountant_proven) == {"analytic Gaussian"}
    assert mine[mine.epsilon.eq(10)].value.min() > 0.8
    assert "noisy_mean" in set(side_by_side.marked(frame, epsilons=[1.0]).method)
    assert set(json.loads((project / "results/metrics/mine-wine.json").read_bytes())["noisy_mean"]) > {"at_1"}
