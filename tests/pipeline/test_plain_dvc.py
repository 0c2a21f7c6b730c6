"""dvc.yaml, DVC and the scripts together, without a driver: in a clone, and in copies with a small dvc.yaml."""

import inspect
import json
import re
import shutil
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import analyse
import pandas as pd
import pytest
import render
import report
import repro
import run as run_stage
from checkout import ROOT, commit, dvc, fresh_clone, run, with_python
from composed import parameters
from omegaconf import OmegaConf
from run import at_prices

import data
from dplangevin.pipeline import config, plan

PLACES = {"results", "benchmarks", "data"}


@pytest.mark.slow
def test_a_setting_and_an_edit_reach_the_runs_that_they_concern_and_no_other_stage(clone: Path) -> None:
    """A setting of OPS, which is followed by its name, and a line in the module of PATE."""
    params, code, pate = (
        clone / name for name in ("params.yaml", "data/manifest/code.json", "src/dplangevin/methods/pate.py")
    )
    cfg, before = OmegaConf.load(params), json.loads(code.read_text())
    cfg.method.ops.radius = 11.0
    OmegaConf.save(cfg, params)
    diff = json.loads(dvc(clone, "params", "diff", "--json").stdout)
    assert diff["params.yaml"].keys() == {"method.ops.radius"}
    status = json.loads(dvc(clone, "status", "--json", "config").stdout)
    assert status["config"] == [{"changed deps": {"params.yaml": {"method": "modified"}}}]
    pate.write_text(pate.read_text() + "\nUNUSED = 1\n")
    done = dvc(clone, "repro", "--single-item", "code")
    assert done.returncode == 0, done.stderr
    after = json.loads(code.read_text())
    changed = {name for name, digest in after["run"].items() if digest != before["run"][name]}
    known = config.load(params)
    read = {
        name: {f"method.{run.method}" for run in plan.runs(known, entry.experiment, entry.dataset)}
        for name, entry in known.pipeline.run_stages.items()
    }
    edited = {"method.ops", "method.pate"}
    may = edited | {"method.hybrid", "method.hybrid_sgld"}  # have the radius of OPS, unless a run has its own
    assert {name for name in read if edited & read[name]} <= changed <= {n for n in read if may & read[n]}
    assert after["dataset"] == before["dataset"]
    assert after["render"] == before["render"]
    with_ops, without = "run@sweep", "run@li2019_sensitivity-adult"
    status = json.loads(dvc(clone, "status", "--json", with_ops, without).stdout)
    assert status[with_ops] == [{"changed deps": {"data/manifest/code.json": {"run.sweep": "modified"}}}]
    assert without not in status
    run(clone, "git", "restore", ".")


STAGES = """
stages:
  data: {cmd: sh pipelines/python.sh ends.py no_source, outs: [data.txt: {cache: false}]}
  run_a: {cmd: sh pipelines/python.sh ends.py 0 a.txt, outs: [a.txt: {cache: false}]}
  run_b: {cmd: sh pipelines/python.sh ends.py 1, deps: [a.txt], params: [radius], outs: [b.txt: {cache: false}]}
  render:
    foreach: [b]
    do: {cmd: sh pipelines/python.sh ends.py 0, deps: [b.txt], outs: [c.txt: {cache: false}]}
"""
END = """
import os, sys
sys.path.append("pipelines")
from pathlib import Path
from dplangevin.data.fetch import DataUnavailable
from stage import stage

@stage
def main(cfg, status, *names):
    for name in names:
        Path(name).write_text(os.environ["PYTHONPATH"])
    if status == "no_source":
        raise DataUnavailable("no source has it")
    if status == "1":
        raise ValueError("no such ball")
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Stages in a repository: one whose data no source has, one that works, one that fails, one that needs that."""
    folder = tmp_path / "small"
    (folder / "conf").mkdir(parents=True)
    (folder / "pipelines/hydra_plugins").mkdir(parents=True)
    for name in ("python.sh", "stage.py", "hydra_plugins/conf.py"):
        shutil.copy(ROOT / "pipelines" / name, folder / "pipelines" / name)
    (folder / "dvc.yaml").write_text(STAGES)
    (folder / "ends.py").write_text(END)
    for name in ("conf/config.yaml", "params.yaml"):
        (folder / name).write_text("radius: 10.0\n")
    run(folder, "git", "init", "--quiet")
    assert dvc(folder, "init", "--quiet").returncode == 0
    shutil.copy(ROOT / ".dvc/config", folder / ".dvc")
    return folder


@pytest.mark.slow
def test_what_fails_stops_nothing_else_and_is_listed_at_the_end(small: Path) -> None:
    (small / ".venv/bin").mkdir(parents=True)
    (small / ".venv/bin/python").symlink_to(sys.executable)
    path = f"{ROOT / 'src'}"
    done = dvc(small, "repro", "--keep-going", PYTHONPATH=path)
    assert done.returncode != 0
    assert (small / "a.txt").read_text() == f"src:{path}"  # the user's own path is kept
    assert "'render@b' will be skipped due to this failure" in done.stderr
    assert "data: no source has it" in done.stderr
    assert "run_b: no such ball" in done.stderr
    assert "failed to reproduce stages: 'data' and 'run_b'" in done.stderr


def test_git_sees_what_a_failed_experiment_has_set(small: Path) -> None:
    """Of the size that the file had, and written within the second in which git looked at it."""
    commit(small)
    for _ in range(3):
        assert dvc(small, "exp", "run", "-S", "radius=null", PYTHONPATH=str(ROOT / "src")).returncode != 0
        assert "params.yaml" in run(small, "git", "diff", "--name-only").stdout.split()
        run(small, "git", "restore", ".")
        assert (small / "params.yaml").read_text() == "radius: 10.0\n"


def test_the_interpreter_is_that_of_the_nearest_environment(small: Path) -> None:
    """Also in the copy of a queued experiment, which has none of its own."""
    own = small / ".venv/bin/python"
    own.parent.mkdir(parents=True)
    own.write_text(f'#!/bin/sh\necho own\nexec "{sys.executable}" "$@"\n')
    own.chmod(0o755)
    copy = small.joinpath(".dvc", "tmp", "exps", "copy")
    shutil.copytree(small / "pipelines", copy / "pipelines")
    (copy / "say.py").write_text("print('ran')\n")
    done = run(copy, "sh", "pipelines/python.sh", "say.py", DPL_PYTHON="", VIRTUAL_ENV="")
    assert done.stdout == "own\nran\n"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        *((script, ["nope"]) for script in (run_stage, analyse, render, report)),
        *((data, words) for words in (["nope", "adult"], ["dataset", "nope"])),
    ],
)
def test_a_name_that_is_not_there_is_said_with_those_that_are(
    script: Any, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    said = r"^no .* is named 'nope'.*; there are \w+"
    with pytest.raises(config.ConfigError, match=said):
        inspect.unwrap(script.main)(parameters(), *words)
    with pytest.raises(config.ConfigError, match=said):
        repro.reproduce(Namespace(exhibit="nope", overrides=[]))


@pytest.mark.slow
def test_an_exhibit_depends_on_what_its_render_reads_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file that is opened in results/, benchmarks/ or data/ while an exhibit is drawn."""
    monkeypatch.chdir(ROOT)
    opened: set[str] = set()
    sys.addaudithook(lambda event, given: opened.add(f"{given[0]}") if event == "open" else None)
    monkeypatch.setattr(render.files, "write", lambda *_, **__: None)
    monkeypatch.setattr(render, "image_bytes", lambda *_: b"")
    cfg, stages = parameters(), config.values("dvc.lock")["stages"]
    runs = [*Path("results/runs").glob("*/*")]
    for name in cfg.pipeline.exhibits:
        opened.clear()
        inspect.unwrap(render.main)(cfg, name)
        paths = {Path(path.removeprefix(f"{ROOT}/")) for path in opened}
        read = {path.parent if path.parent in runs else path for path in paths}
        deps = {Path(dep["path"]) for dep in stages[f"render@{name}"]["deps"]}
        deps = {run for run in runs if deps & {run, run.parent}} | {dep for dep in deps if dep.is_file()}
        places = [{str(p) for p in found if p.parts[0] in PLACES} for found in (read, deps)]
        assert places[0] == places[1], name


@pytest.mark.slow
def test_the_figure_of_the_readme_is_made_in_a_fresh_clone_without_a_network(tmp_path: Path) -> None:
    """And nothing else. Without its data the figure is not made, which is a failure."""
    command = "make exhibit ID=li2019_decreasing FORCE=1"
    assert command in (ROOT / "README.md").read_text()
    clone, off = fresh_clone(tmp_path), {"https_proxy": "http://127.0.0.1:9", "DATA_MIRROR": ""}
    with_python(clone)
    done = run(clone, *command.split(), **off)
    assert done.returncode == 0, done.stderr
    ran = re.findall("^Running stage '(.*)'", done.stdout, re.MULTILINE)
    assert sorted(ran) == ["code", "prepare@adult", "render@li2019_decreasing", "run@li2019_decreasing-adult"]
    assert "Nothing failed." in done.stdout
    for place in ("raw", "processed", "bundled"):
        shutil.rmtree(clone / "data" / place)
    done = run(clone, *command.split(), **off)
    assert done.returncode != 0
    assert "DVC names above what failed." in done.stdout
    assert "run@li2019_decreasing-adult: data/raw/adult/adult.data is not available" in done.stderr


def test_the_lock_has_the_stages_that_there_are() -> None:
    """No entry of a stage that was renamed: DVC reads and writes the whole file after each stage."""
    pipeline, stages = parameters().pipeline, config.values(ROOT / "dvc.lock")["stages"]
    for kind, names in (("run", "runs"), ("analysis", "analyses"), ("render", "exhibits")):
        assert {*pipeline[names]} == {
            name.partition("@")[2] for name in stages if name.startswith(f"{kind}@")
        }
    assert {name.partition("@")[0] for name in stages} <= config.values(ROOT / "dvc.yaml")["stages"].keys()


def test_metrics_are_accuracy_and_price_at_three_budgets() -> None:
    budgets = [(0.2, 0.11, 0.6), (1.5, 0.9, 0.7), (2.0, 1.2, 0.8), (20.0, 9.0, 0.9)]
    rows = [
        {"metric": metric, "epsilon": epsilon, "epsilon_proven": price, "value": value + repeat / 10}
        for epsilon, price, value in budgets
        for repeat in (-1, 1)
        for metric in ("accuracy", "log_loss")
    ]
    found = at_prices(pd.DataFrame(rows))
    assert found["at_0.1"] == {"accuracy": 0.6, "epsilon_proven": 0.11}
    assert found["at_1"] == {"accuracy": 0.7, "epsilon_proven": 0.9}
    assert found["at_10"] == {"accuracy": 0.9, "epsilon_proven": 9.0}
    free = pd.DataFrame(rows).assign(epsilon=float("inf"), epsilon_proven=float("inf"))
    assert at_prices(free) == {"accuracy": 0.75}
