"""Runs that meet, are killed, or start in odd places: real processes, real signals, in a checkout whose only work waits
until it is told to go on."""

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import fingerprint
import pandas as pd
import psutil
import pytest
import threadpoolctl
import torch
import yaml
from checkout import ROOT, environment, run, with_python
from joblib import Parallel, delayed
from omegaconf import OmegaConf
from smoke import copy_tree
from waiting import until

from dplangevin.pipeline import cache, lock
from dplangevin.pipeline import environment as machine
from dplangevin.pipeline.cache import Store

# an analysis of two units, which say that they are at work, and wait
WAITS = """
import os, time
from dataclasses import dataclass
from pathlib import Path

@dataclass(frozen=True)
class Waits:
    value: float

    def units(self):
        return ["one", "two"]

    def rows(self, unit, seed):
        Path(os.environ["AT_WORK"], f"{unit}.{os.getpid()}").touch()
        while not Path(os.environ["AT_WORK"], "go").exists():
            time.sleep(0.02)
        return [{"unit": unit, "value": self.value}]
"""
PIPELINE = """
stages:
  analysis:
    foreach: ${pipeline.analyses}
    do:
      cmd: ${python} pipelines/analyse.py ${key}
      deps: [pipelines/analyse.py, "${item}"]
      params: [seed, "analysis.${key}"]
      outs:
        - results/analyses/${key}.csv: {cache: false, persist: true}
        - results/analyses/${key}.units.json: {cache: false, persist: true}
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout without results, whose pipeline is the analyses `first` and `second`, which wait."""
    folder = tmp_path_factory.mktemp("template") / "checkout"
    copy_tree(ROOT, folder, ("results/", "data/", "dvc.lock", "params.yaml", "tests/", "docs/"))
    (folder / "src/waits.py").write_text(WAITS)
    (folder / "dvc.yaml").write_text((ROOT / "dvc.yaml").read_text().partition("\nstages:")[0] + PIPELINE)
    conf = folder / "conf"
    pipeline = OmegaConf.load(conf / "pipeline/default.yaml")
    nothing: dict[str, object] = {"datasets": [], "weights": [], "pretrain": [], "papers": []}
    pipeline.update({**nothing, "features": {}, "runs": {}, "exhibits": {}, "analyses": {}})
    groups = ["_self_", "dataset@dataset.adult: adult", "problem@problem.logistic: logistic"]
    groups += ["accountant@accountant.tight: tight"]
    for name in ("first", "second"):
        (conf / f"analysis/{name}.yaml").write_text("_target_: waits.Waits\nvalue: 1.0\n")
        groups.append(f"analysis@analysis.{name}: {name}")
        pipeline.analyses[name] = f"conf/analysis/{name}.yaml"
    OmegaConf.save(pipeline, conf / "pipeline/default.yaml")
    own = (conf / "config.yaml").read_text().partition("\nseed: ")[2]
    chosen = "".join(f"  - {entry}\n" for entry in [*groups, "pipeline: default", "scale: laptop"])
    (conf / "config.yaml").write_text(f"defaults:\n{chosen}experiment: {{}}\nmethod: {{}}\nseed: {own}")
    (conf / "scale/laptop.yaml").write_text("# @package _global_\nscale: laptop\n")
    with_python(folder)
    (folder / "at_work").mkdir()
    run(folder, "git", "init", "--quiet")
    (folder / ".git/info/exclude").write_text("at_work/\n")
    return folder


class Checkout:
    """A copy of the template, and the processes that were started in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.own = {"DPL_WORKERS": "2", "AT_WORK": str(folder / "at_work")}
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *command: str, **env: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment(self.folder, **self.own, **env),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def run(self, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*command, **env)
        out, error = process.communicate()
        return subprocess.CompletedProcess(command, process.returncode, out, error)

    def make(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return self.run("make", *words, **env)

    def edit(self, value: float, name: str = "first") -> None:
        (self.folder / f"conf/analysis/{name}.yaml").write_text(f"_target_: waits.Waits\nvalue: {value}\n")

    def workers(self) -> list[int]:
        """The processes that compute units, once both do."""
        folder = self.folder / "at_work"
        until(lambda: len({path.stem for path in folder.glob("*.*")}) == 2)
        return [int(path.suffix[1:]) for path in folder.glob("*.*")]

    def go(self) -> None:
        (self.folder / "at_work/go").touch()

    def values(self, name: str = "first") -> set[float]:
        """The numbers that the result has."""
        path = self.folder / f"results/analyses/{name}.csv"
        text = path.read_text() if path.exists() else ""
        return {float(row["value"]) for row in csv.DictReader(text.splitlines())}

    def locked(self, name: str = "first") -> float | None:
        """The number that dvc.lock states for it."""
        path = self.folder / "dvc.lock"
        stages = (yaml.safe_load(path.read_text()) if path.exists() else {}).get("stages", {})
        if f"analysis@{name}" not in stages:
            return None
        found: float = stages[f"analysis@{name}"]["params"]["params.yaml"][f"analysis.{name}"]["value"]
        return found

    def params(self) -> float:
        found: float = OmegaConf.load(self.folder / "params.yaml").analysis.first.value
        return found


@pytest.fixture
def checkout(template: Path, tmp_path: Path) -> Iterator[Checkout]:
    made = Checkout(shutil.copytree(template, tmp_path / "checkout"))
    yield made
    made.go()
    for process in made.started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


EDITED = pytest.mark.trial("two runs in one checkout")
OTHERS = pytest.mark.trial("two runs of different exhibits")
KILLED = pytest.mark.trial("the driver is killed")
ODD = pytest.mark.trial("hostile environment")
THREADS = pytest.mark.trial("threads")

CONFIG = (sys.executable, "-m", "dplangevin.pipeline.config")
DVC = (sys.executable, "-m", "dvc", "repro")
MAKE = ("make", "repro")
BUSY = r"another run is at work here: {}; wait for it, or end it: kill \d+"


# Two at once


@EDITED
@OTHERS
@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "named"), [(MAKE, "make repro"), ((*DVC, "analysis@first"), "analysis@first")]
)
def test_a_second_run_is_refused_and_changes_nothing(
    checkout: Checkout, command: tuple[str, ...], named: str
) -> None:
    """A plain `dvc repro` is a run like any other: nobody writes params.yaml, and another exhibit waits."""
    assert checkout.run(*CONFIG).returncode == 0
    first = checkout.start(*command)
    checkout.workers()
    checkout.edit(2.0)
    for other in (MAKE, CONFIG, (*DVC, "analysis@second")):
        done = checkout.run(*other)
        assert done.returncode != 0
        assert re.search(BUSY.format(named), done.stderr), done.stderr
    assert checkout.params() == 1.0
    checkout.go()
    assert first.wait() == 0
    assert (checkout.values(), checkout.locked()) == ({1.0}, 1.0)
    assert checkout.make("repro").returncode == 0
    assert (checkout.values(), checkout.locked()) == ({2.0}, 2.0)
    assert checkout.locked("second") == 1.0


@EDITED
@pytest.mark.parametrize("path", ["params.yaml", "src/a.py", "conf/exhibit/a.yaml"])
def test_the_hashes_are_not_entered_if_a_source_changes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["fingerprint.py"])
    monkeypatch.setattr(fingerprint, "check_values", lambda _: None)
    monkeypatch.setattr(fingerprint, "fingerprints", lambda _: {})
    for name in ("params.yaml", path):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a: 1\n")
        os.utime(tmp_path / name, (1, 1))
    assert fingerprint.main() == 0
    monkeypatch.setattr(fingerprint, "fingerprints", lambda _: os.utime(tmp_path / path, (4e9, 4e9)))
    assert fingerprint.main() == 1
    assert f"{path} changed while this stage was at work" in capsys.readouterr().err
    assert fingerprint.main() == 0  # the file is as it was found, though its time is to come


# Killed


def driver(process: subprocess.Popen[str]) -> int:
    """pipelines/repro.py, which make started."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    (found,) = (each.pid for each in family if "pipelines/repro.py" in each.cmdline())
    return found


KILLS = {
    "driver killed": (MAKE, lambda process: os.kill(driver(process), signal.SIGKILL)),
    "make ended": (MAKE, lambda process: process.terminate()),
    "Ctrl-C": (MAKE, lambda process: os.killpg(process.pid, signal.SIGINT)),
    "dvc killed": (DVC, lambda process: process.kill()),
}


@KILLED
@pytest.mark.slow
@pytest.mark.parametrize("kill", KILLS)
def test_a_run_that_is_ended_ends_its_stages(checkout: Checkout, kill: str) -> None:
    """After SIGKILL they end with their next task; the results have nothing of it; the next run makes them."""
    command, end = KILLS[kill]
    checkout.run(*CONFIG)
    process = checkout.start(*command, SHELL="/bin/sh")  # which may wait for the stage that DVC starts by it
    workers = checkout.workers()
    family = [each.pid for each in psutil.Process(process.pid).children(recursive=True)]
    assert set(workers) < set(family)
    end(process)
    if "killed" in kill:
        process.wait()
        assert not any(map(ended, workers))
        checkout.go()
    until(lambda: all(ended(pid) for pid in family))
    process.wait()
    assert checkout.values() == set()
    assert checkout.locked() is None
    checkout.go()
    checkout.edit(2.0)
    assert checkout.make("repro").returncode == 0
    assert checkout.values() == {2.0}
    assert checkout.locked() == 2.0


@KILLED
def test_a_part_of_a_run_needs_no_lock_and_one_of_a_run_that_has_ended_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with lock.run("the first"):
        with lock.run("a part of it"):
            assert not lock.orphaned()
        with monkeypatch.context() as elsewhere:
            elsewhere.delenv(lock.LEADER)
            with pytest.raises(lock.LockError, match=BUSY.format("the first")), lock.run("the second"):
                pass
    with lock.run("the second"):
        pass
    ended = subprocess.Popen(["true"])
    ended.wait()
    monkeypatch.setenv(lock.LEADER, str(ended.pid))
    with pytest.raises(lock.LockError, match="has ended"), lock.run("a stage"):
        pass


# Odd places


@ODD
@pytest.mark.slow
def test_warnings_as_errors_private_files_and_no_git(checkout: Checkout) -> None:
    """Each works."""
    checkout.go()
    done = checkout.run("sh", "-c", "umask 077; exec make repro", PYTHONWARNINGS="error")
    assert done.returncode == 0
    checkout.edit(3.0)
    assert checkout.make("repro").returncode == 0
    assert checkout.values() == {3.0}
    shutil.rmtree(checkout.folder / ".git")
    checkout.edit(4.0)
    refused = checkout.make("repro")
    assert refused.returncode != 0
    assert "Traceback" not in refused.stderr
    assert "up to date" not in refused.stdout
    checkout.run(sys.executable, "-m", "dvc", "config", "--local", "core.no_scm", "true")
    assert checkout.make("repro").returncode == 0
    assert checkout.values() == {4.0}


@ODD
@pytest.mark.parametrize("place", [".dvc/tmp", ".dvc/tmp/run.lock"])
def test_what_another_user_made_is_named_in_one_line(tmp_path: Path, place: str) -> None:
    """A run as root before one of a user: here as one without the rights that root has."""
    locked = tmp_path / place
    locked.parent.mkdir(parents=True)
    if locked.suffix:
        locked.touch()
    else:
        locked.mkdir()
    (tmp_path / "conf/scale").mkdir(parents=True)
    (tmp_path / "conf/config.yaml").write_text("defaults: [_self_, {scale: small}]\nscale: ???\n")
    (tmp_path / "conf/scale/small.yaml").write_text("# @package _global_\nscale: small\n")
    locked.chmod(0o500 if locked.is_dir() else 0o400)
    plain: tuple[str, ...] = ()
    if os.getuid() == 0:
        os.chown(locked, 12345, 12345)
        plain = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    try:
        done = run(tmp_path, *plain, *CONFIG, PYTHONPATH=str(ROOT / "src"))
    finally:
        locked.chmod(0o700)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "Permission denied" in line


# Threads


@pytest.mark.slow
@THREADS
def test_what_is_pinned_runs_on_one_thread() -> None:
    torch.set_num_threads(2)
    try:
        with machine.pinned():
            here = threads()
            there = set(Parallel(n_jobs=2)(delayed(threads)() for _ in range(4)))
            assert machine.described().startswith("threads 1, ")
        assert here == (1, 1, "1")
        assert there == {(1, 1, "1")}
    finally:
        torch.set_num_threads(1)


def threads() -> tuple[int, int, str]:
    """Of torch, the most of a BLAS, and what libraries that are loaded later will read."""
    blas = max(pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas")
    return torch.get_num_threads(), blas, os.environ["OMP_NUM_THREADS"]


@THREADS
def test_a_unit_that_is_computed_again_says_how_far_it_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which have the same bytes, and by how much the others moved."""
    path = tmp_path / "scores.csv"
    rows = {"a": 0.5, "b": 100.0}

    def written(made: str, **moved: float) -> Store:
        store = Store(path, tmp_path / "units")
        for key, value in (rows | moved).items():
            metrics = {"metric": ["accuracy", "ess"], "value": [value / 1000, value]}
            store.keep(key, pd.DataFrame({"run": "ops", "seed": 0, **metrics}), made=made)
        store.write(list(rows))
        return store

    def pairs(store: Store) -> list[tuple[cache.Rows, cache.Rows]]:
        return [*zip(store.before[0].values(), cache.listed(path).values(), strict=True)]

    written("an old machine")
    monkeypatch.setenv("DPL_RECOMPUTE", "1")
    same = machine.moved(pairs(written("another")))
    assert str(same) == "2 of 2 tasks have the same bytes as before"
    move = machine.moved(pairs(written("a third", b=72.0)))
    assert move.largest == pytest.approx({"ess": 0.28, "accuracy": 0.28})
    assert str(move).startswith("1 of 2 tasks have the same bytes as before; the others moved")
    assert str(move).endswith("accuracy 0.28, ess 0.28")
    monkeypatch.delenv("DPL_RECOMPUTE")
    written("a fourth", a=0.7)  # nothing is computed, so nothing is said of the arithmetic
    assert {rows.made for rows in cache.listed(path).values()} == {"a third"}
