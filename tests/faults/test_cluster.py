"""Units on a Dask cluster, a scheduler and two workers as real processes: they have the bytes that they have here."""

import gc
import operator
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import logged
import numpy as np
import pandas as pd
import pytest
import toy
from distributed import Client, LocalCluster
from typer.testing import CliRunner
from waiting import until
from web import closed_port

from dplangevin.cli import app
from dplangevin.files import File
from dplangevin.pipeline import config, executor, manifest, sweep
from dplangevin.pipeline.cache import Store
from dplangevin.pipeline.plan import plain

ROOT = Path(__file__).parents[2]
# Dask leaves the sockets of connections that break to the garbage collector
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore:unclosed <socket:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]


class Sweep:
    """60 tasks of a method that logs what it computes."""

    def __init__(self, data: Path, folder: Path) -> None:
        self.data, self.folder, self.cfg = data, folder, toy.config("logged")
        self.logs = data.parent / "logs"  # one for all, as a unit's key is of its method's settings
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir()
        method = {**plain(self.cfg.method.objpert), "_target_": "logged.Logged", "folder": str(self.logs)}
        self.cfg.method.logged = method
        spec = self.cfg.experiment.toy
        spec.budgets_per_unit, spec.epsilons.rows = 1, np.geomspace(0.5, 5, 15).tolist()
        spec.vary = {"logged": {"ridge": [0.1, 5.0]}}
        self.store = Store([folder / f"results/{name}.csv" for name in ("runs", "scores")], folder / "units")

    def run(self) -> dict[str, bytes]:
        """The bytes of its results, by name."""
        inputs = sweep.Inputs(File.at(self.data))
        work = sweep.SweepTasks(self.cfg, "toy", "rows", inputs, self.store.folder)
        self.store.write(sweep.sweep(work, self.store))
        return {path.name: path.read_bytes() for path in (self.folder / "results").iterdir()}

    def computed(self) -> list[tuple[str, int]]:
        """Units, and the process that computed each, as often as they were."""
        log = self.logs / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [(unit, int(pid)) for unit, _, pid in (line.partition(",") for line in lines)]

    def kept(self) -> int:
        return len(list((self.folder / "units").glob("[!.]*.scores.units.json")))


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """What is left to the garbage collector goes here, not in the tests of another module."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workers' own folder."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit=0)
    with cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.write(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def here(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The results of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPL_WORKERS", "1")
        work = Sweep(data, tmp_path_factory.mktemp("here"))
        found = work.run()
    assert len(work.computed()) == len({unit for unit, _ in work.computed()}) == 60
    return found


def test_prepared_data_are_made_where_a_unit_is(
    address: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the manifest of who asks, in the worker's own folder, and checked."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DPL_CLUSTER", address)
    file = manifest.file(config.load(), "dataset", "synthetic")
    (done,) = executor.computed(logged.described, [file])
    assert done.error is None
    assert done.value == (file.sha256, str(folder / "data/processed/synthetic.npz"))
    assert not (folder / "data/manifest").exists()


@pytest.mark.trial("a worker is lost")
def test_units_have_their_bytes_though_a_worker_is_killed(
    address: str, data: Path, here: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what that worker had in hand is computed again."""
    monkeypatch.setenv("DPL_CLUSTER", address)
    work, killed = Sweep(data, tmp_path), list[int]()
    with Client(address, set_as_default=False) as client:
        pids = client.run(os.getpid).values()

    def kill() -> None:
        until(lambda: work.kept() > 10)
        (work.logs / "wait").touch()
        until(lambda: any((work.logs / f"waits-{pid}").exists() for pid in pids))
        killed.extend(pid for pid in pids if (work.logs / f"waits-{pid}").exists())
        os.kill(killed[0], signal.SIGKILL)
        (work.logs / "wait").unlink()

    thread = Thread(target=kill, daemon=True)
    thread.start()
    assert work.run() == here
    thread.join()
    units = work.computed()
    counts = Counter(unit for unit, _ in units)
    again = {unit for unit, count in counts.items() if count > 1}
    assert len(counts) == 60
    assert again
    assert again <= {unit for unit, pid in units if pid == killed[0]}
    assert max(counts.values()) == 2
    assert os.getpid() not in {pid for _, pid in units}


@pytest.mark.parametrize("what", ["torch", "code"])
def test_workers_of_other_versions_are_refused(
    what: str, address: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPL_CLUSTER", address)
    real = executor.versions
    monkeypatch.setattr(executor, "versions", lambda *given: {**real(*given), what: "another"})
    work = Sweep(data, tmp_path)
    with pytest.raises(ValueError, match=rf"worker tcp.* is refused.*: {what} .*, not another$"):
        work.run()
    assert work.computed() == []


def test_a_worker_of_two_threads_is_refused_and_its_errors_are_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=":0") as cluster:
        monkeypatch.setenv("DPL_CLUSTER", cluster.scheduler_address)
        with pytest.raises(ValueError, match=r"is refused.*: --nthreads 2, not 1$"):
            list(executor.computed(str, [1]))
        for error, fault in {
            "index": operator.index,
            r"\[Errno 2\]": lambda *_: os.stat("x"),
        }.items():
            with Client(cluster, set_as_default=False) as client:
                client.run(setattr, executor, "versions", fault)
            with pytest.raises(ValueError, match=rf"finished tasks are kept: .*{error}"):
                list(executor.computed(str, [1]))


def test_a_scheduler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPL_CLUSTER", f"tcp://127.0.0.1:{closed_port()}")
    with pytest.raises(ValueError, match=r"DPL_CLUSTER = tcp.*finished tasks are kept"):
        list(executor.computed(str, [1]))
    assert list(executor.computed(str, [])) == []  # nothing to do needs none
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"DPL_CLUSTER = tcp.*distributed"):
        list(executor.computed(str, [1]))


# One way for all


@pytest.mark.parametrize("how", ["here", "processes", "cluster"])
def test_what_fails_stops_no_other_and_says_where(
    how: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if how == "cluster":
        monkeypatch.setenv("DPL_CLUSTER", request.getfixturevalue("address"))
    monkeypatch.setenv("DPL_WORKERS", "1" if how == "here" else "2")
    found = sorted(executor.computed(float.fromhex, ["0x1", "one", "0x3"]))
    assert [done.value for done in found] == [1.0, None, 3.0]
    assert [bool(done.environment) for done in found] == [True, False, True]
    assert str(found[1].error) == "invalid hexadecimal floating-point string"
    assert "in attempted" in found[1].error.__notes__[0]  # type: ignore[union-attr]


def test_compare_on_a_cluster_has_the_numbers_that_it_has_here_and_leaves_no_row_there(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=60), "label": np.where(rng.random(60) < 0.5, "a", "b")})
    table.to_csv("mine.csv", index=False)
    written = CliRunner().invoke(app, ["schema", "mine.csv", "--target", "label", "--ranges-from-data"])
    Path("schema.yaml").write_text(written.stdout)
    words = "compare mine.csv --schema schema.yaml --methods objpert,sgld --epsilon 1 --repeats 2 --seed 0"
    found = {}
    with Client(address, set_as_default=False) as client:
        (there := tmp_path / "workers").mkdir()
        before = client.run(tempfile.gettempdir)
        client.run(setattr, tempfile, "tempdir", str(there))
        for name, scheduler in (("here", ""), ("remote", address)):
            monkeypatch.setenv("DPL_CLUSTER", scheduler)
            done = CliRunner().invoke(app, [*words.split(), "--out", name])
            assert done.exit_code == 0, done.output
            files = [path for path in Path(name).glob("*.*s*") if path.stem != "config"]
            found[name] = {path.name: path.read_bytes() for path in files}
        until(lambda: not [*there.iterdir()])
        client.run(setattr, tempfile, "tempdir", next(iter(before.values())))
    assert {"runs.csv", "scores.csv", "runs.units.json"} <= set(found["here"])
    assert found["remote"] == found["here"]
