"""The driver, dvc.yaml and DVC together, in a copy of the repository with stubs for stages."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from stub_tree import Tree, build

ROOT = Path(__file__).parents[1]
ADULT = {"wang2015@adult-ops", "wang2015_composite@adult-hybrid", "wang2015_sensitivity@adult-ops"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A repository in which everything has been made and committed."""
    path = tmp_path_factory.mktemp("finished") / "tree"
    tree = build(path)
    done = tree.repro()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": made") == len(exhibits()) + 2
    tree.git("add", "--all")
    tree.git("commit", "--quiet", "--message", "all made")
    return tree


@pytest.fixture
def tree(finished: Tree, tmp_path: Path) -> Tree:
    """A copy of the finished repository with its data."""
    shutil.copytree(finished.path, tmp_path / "tree", symlinks=True)
    return Tree(tmp_path / "tree")


@pytest.fixture
def clone(finished: Tree, tmp_path: Path) -> Tree:
    """A fresh clone: results, no data."""
    finished.git("clone", "--quiet", str(finished.path), str(tmp_path / "clone"))
    return Tree(tmp_path / "clone")


def parents(path: str) -> list[str]:
    return [path, *map(str, Path(path).parents)]


def exhibits() -> list[str]:
    return sorted(path.stem for path in (ROOT / "conf/exhibit").glob("*.yaml"))


def test_fresh_clone_is_up_to_date_and_fetches_nothing(clone: Tree) -> None:
    start = time.monotonic()
    done = clone.repro()
    assert done.returncode == 0, done.stderr
    assert clone.ran == []
    assert not (clone.path / "data/raw").exists()
    assert done.stdout.count(": up to date") == len(exhibits()) + 2
    assert "claims: 1 reproduced" in done.stdout
    assert time.monotonic() - start < 10


def test_second_run_runs_nothing(tree: Tree) -> None:
    before = tree.results()
    assert tree.repro().returncode == 0
    assert tree.ran == []
    assert tree.results() == before


def test_stale_params_fail_plain_dvc_repro(tree: Tree) -> None:
    tree.change_ops()
    before = tree.ran
    done = tree.run("dvc", "repro")
    assert done.returncode != 0
    assert "method.ops.radius: 10.0 -> 3.0" in done.stderr
    assert tree.ran == before


def test_changed_data_set_runs_alone(clone: Tree) -> None:
    """In a fresh clone: with the data of what changed, and of nothing else."""
    path = clone.path / "conf/experiment/wang2015.yaml"
    experiment = OmegaConf.load(path)
    experiment.epsilons.abalone = list(experiment.epsilons.abalone)  # not that of Adult any more
    experiment.epsilons.adult = [1.0]
    OmegaConf.save(experiment, path)
    done = clone.repro()
    assert done.returncode == 0, done.stderr
    runs = [stage for stage in clone.ran if stage.startswith("wang2015")]
    assert {stage.split("@")[1].split("-")[0] for stage in runs} == {"adult"}
    assert "wang2015_composite@adult-hybrid" in runs
    others = set(clone.ran) - set(runs)
    assert {"fetch@adult", "prepare@adult", "render@wang2015_fig1c", "render@wang2015_plain"} <= others
    assert not others & {"fetch@synthetic", "render@wang2015_fig1a", "render@wang2015_fig1b"}
    assert len(clone.ran) == len(set(clone.ran))


def test_changed_method_runs_alone(tree: Tree) -> None:
    tree.change_ops()
    assert tree.repro().returncode == 0
    methods = {stage.split("-")[1] for stage in tree.ran if stage.startswith("wang2015")}
    assert methods == {"ops", "hybrid"}
    renders = {stage for stage in tree.ran if stage.startswith("render@")}
    read = {"results/runs/wang2015", "results/runs/wang2015_sensitivity"}
    sources = {name: OmegaConf.load(ROOT / f"conf/exhibit/{name}.yaml").source for name in exhibits()}
    assert renders == {f"render@{name}" for name, source in sources.items() if read & {*parents(source)}}


def test_changed_analysis_runs_alone(tree: Tree) -> None:
    tree.edit("conf/analysis/temperature.yaml", "number: 1", "number: 2")
    assert tree.repro().returncode == 0
    assert set(tree.ran) == {"analysis@temperature", "render@temperature", "claims"}


def test_unavailable_data_leave_earlier_results_and_the_rest_is_made(clone: Tree) -> None:
    clone.change_ops()
    before = clone.results()
    done = clone.repro(STUB_UNAVAILABLE="adult")
    assert done.returncode == 0, done.stderr
    assert clone.ran.count("fetch@adult") == 1
    assert "wang2015_fig1a: made" in done.stdout
    assert "wang2015_fig1b: made" in done.stdout
    assert "wang2015_fig1c: not made\n      fetch@adult: adult: no source has it" in done.stdout
    after = clone.results()
    kept = [name for name in before if "adult" in name or "fig1c" in name]
    assert kept
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert clone.repro("--strict", STUB_UNAVAILABLE="adult").returncode == 1
    assert clone.repro().returncode == 0
    assert set(clone.ran) >= ADULT


def test_another_failure_is_one(tree: Tree) -> None:
    tree.change_ops()
    before = tree.results()
    done = tree.repro(STUB_FAIL="wang2015@abalone-ops")
    assert done.returncode == 1
    assert "wang2015_fig1b: not made\n      wang2015@abalone-ops failed" in done.stdout
    assert "wang2015_fig1c: made" in done.stdout
    name = "results/runs/wang2015/abalone/ops.csv"
    assert tree.results()[name] == before[name]


def test_failure_beside_unavailable_data_is_one(clone: Tree) -> None:
    clone.change_ops()
    done = clone.repro(STUB_UNAVAILABLE="adult", STUB_FAIL="wang2015@abalone-ops")
    assert done.returncode == 1


def test_failing_fetch_without_its_message_is_a_failure(clone: Tree) -> None:
    clone.change_ops()
    assert clone.repro(STUB_UNAVAILABLE="adult").returncode == 0
    assert clone.repro(STUB_FAIL="fetch@adult").returncode == 1


def test_one_exhibit_forced(tree: Tree) -> None:
    done = tree.repro("--exhibit", "wang2015_fig1b", "--force")
    assert done.returncode == 0, done.stderr
    assert {"fetch@abalone", "prepare@abalone", "wang2015@abalone-ops", "render@wang2015_fig1b"} <= set(
        tree.ran
    )
    assert not [stage for stage in tree.ran if "adult" in stage or "fig1a" in stage]
    assert "fig1c" not in done.stdout


def test_unknown_exhibit(tree: Tree) -> None:
    done = tree.repro("--exhibit", "wang2015_fig9")
    assert done.returncode == 2
    assert all(name in done.stderr for name in ["wang2015_fig9", *exhibits()])
    assert tree.ran == []


def test_removed_result_is_made_again(clone: Tree) -> None:
    shutil.rmtree(clone.path / "results/exhibits/wang2015_fig1a")
    assert clone.repro().returncode == 0
    assert clone.ran == ["render@wang2015_fig1a"]


def test_killed_run_goes_on(tree: Tree) -> None:
    tree.change_ops()
    process = tree.start(STUB_HANG="wang2015@adult-ops")
    tree.wait_until_runs("wang2015@adult-ops")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = tree.repro()
    assert done.returncode == 0, done.stderr
    assert set(tree.ran) >= ADULT
    assert "wang2015@synthetic-ops" not in tree.ran  # finished before the kill


def test_killed_forced_run_goes_on(tree: Tree) -> None:
    process = tree.start("--exhibit", "wang2015_fig1c", "--force", STUB_HANG="wang2015@adult-ops")
    tree.wait_until_runs("wang2015@adult-ops")
    before = set(tree.ran) - {"wang2015@adult-ops"}
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = tree.repro("--exhibit", "wang2015_fig1c", "--force")
    assert done.returncode == 0, done.stderr
    assert "Going on with an earlier --force run" in done.stdout
    assert "wang2015@adult-ops" in tree.ran
    assert not before & set(tree.ran)  # finished before the kill
    again = tree.repro("--exhibit", "wang2015_fig1c", "--force")
    assert again.returncode == 0
    assert before <= set(tree.ran)  # that run had ended, so this one starts over


def test_interrupt_stops_the_whole_run(tree: Tree) -> None:
    tree.change_ops()
    process = tree.start(STUB_HANG="wang2015@abalone-ops")
    tree.wait_until_runs("wang2015@abalone-ops")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert tree.ran[-1] == "wang2015@abalone-ops"
    assert tree.repro().returncode == 0


@pytest.mark.slow
def test_smoke() -> None:
    """Every stage, for real, at scale=smoke, in a copy without results or data."""
    env = {**os.environ, "PYTHONPATH": "src", "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "pipelines/smoke.py"], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.count(": made") == len(exhibits()) + 2
