"""Units on a Dask cluster: a scheduler and three workers over TCP, as real processes, which are killed, cut off and run
out of memory.  Every unit is there at the end, with the bytes that it has here."""

import gc
import json
import lzma
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import cloudpickle
import dask.config
import logged
import numpy as np
import pandas as pd
import pytest
import toy
import yaml
from distributed import Client
from distributed.security import Security
from sixty import Sweep
from typer.testing import CliRunner
from waiting import until
from web import closed_port, served

from dplangevin.cli import app
from dplangevin.files import File, sha256
from dplangevin.pipeline import cluster as remote
from dplangevin.pipeline import config, environment, executor, manifest
from dplangevin.pipeline import sweep as sweeps
from dplangevin.pipeline.cache import Store

ROOT = Path(__file__).parents[2]
LIMIT = 1.5e9  # bytes of the third worker


class Cluster:
    """Processes of a scheduler and three workers; the third has a limit of memory, and a nanny that starts it again.
    mirror: where workers find raw data."""

    def __init__(self, folder: Path, mirror: str) -> None:
        self.folder, self.file, self.mirror = folder, folder / "scheduler.json", mirror
        self.started: list[subprocess.Popen[bytes]] = []
        self.start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        until(self.file.exists)
        for name in "ab":
            self.worker(name, "--no-nanny", "--memory-limit", "0")
        until(lambda: self.said().count("Registered to") == 2)  # three at once take longer
        self.worker("c", "--memory-limit", f"{LIMIT:.0f}", HUNGRY=f"{LIMIT}")
        until(lambda: self.said().count("Registered to") == 3)

    def said(self) -> str:
        return (self.folder / "said").read_text()

    def start(self, *words: str, **env: str) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
        own = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "2", "PYTHONWARNINGS": "", **env}
        own["DATA_MIRROR"] = self.mirror
        command = [sys.executable, "-m", "dask", *words, "--scheduler-file", str(self.file)]
        with open(self.folder / "said", "ab") as said:
            process = subprocess.Popen(
                command, env=own, cwd=self.folder, stdout=said, stderr=said, start_new_session=True
            )
        self.started.append(process)
        return process

    def worker(self, name: str, *words: str, **env: str) -> subprocess.Popen[bytes]:
        """In a folder of its own."""
        (self.folder / name).mkdir(exist_ok=True)
        place = ("--name", name, "--host", "127.0.0.1", "--local-directory", str(self.folder / name))
        return self.start("worker", "--nthreads", "1", "--no-dashboard", *place, *words, **env)

    def end(self) -> None:
        for process in self.started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Its workers fetch raw data over HTTP."""
    mirror = tmp_path_factory.mktemp("mirror")
    for packed in (ROOT / "data/bundled").glob("*.xz"):
        name = packed.name.partition(".")[0]
        (mirror / name).mkdir(exist_ok=True)
        (mirror / name / packed.stem).write_bytes(lzma.decompress(packed.read_bytes()))
    with served(mirror) as url:
        made = Cluster(tmp_path_factory.mktemp("cluster"), url)
        yield made
        made.end()


@pytest.fixture
def address(cluster: Cluster) -> str:
    found: str = json.loads(cluster.file.read_text())["address"]
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.write(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def here(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The results of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPL_WORKERS", "1")
        sweep = Sweep(data, tmp_path_factory.mktemp("here"))
        found = sweep.run()
    assert sweep.counts() == {1: 60}
    return found


@contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    """Do something in a thread; what it raises is raised at the end."""
    raised: list[BaseException] = []

    def acting() -> None:
        try:
            act()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=acting)
    thread.start()
    yield
    thread.join()
    if raised:
        raise raised[0]


class Proxy:
    """A port that leads to another, and can be closed and opened again."""

    def __init__(self, target: str) -> None:
        host, _, port = target.removeprefix("tcp://").rpartition(":")
        self.target, self.port, self.ends = (host, int(port)), 0, list[socket.socket]()
        self.open()

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def open(self) -> None:
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        self.ends = [listener]
        threading.Thread(target=self.accept, args=(listener,), daemon=True).start()

    def accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                pair = listener.accept()[0], socket.create_connection(self.target)
                self.ends += pair
                for one, other in (pair, pair[::-1]):
                    threading.Thread(target=self.lead, args=(one, other), daemon=True).start()

    def lead(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while content := one.recv(1 << 16):
                other.sendall(content)
            other.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for end in self.ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


LOST = pytest.mark.trial("a worker or a connection is lost")
# Dask leaves the sockets of connections that break to the garbage collector
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore:unclosed <socket:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """What is left to the garbage collector goes here, not in the tests of another module."""
    yield
    gc.collect()


def test_units_have_the_bytes_that_they_have_here(
    address: str, data: Path, here: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """And are computed once, there; the address of the dashboard is told."""
    monkeypatch.setenv("DPL_CLUSTER", address)
    sweep = Sweep(data, tmp_path)
    assert sweep.run() == here
    assert sweep.counts() == {1: 60}
    assert os.getpid() not in {pid for _, pid in sweep.computed()}
    assert f"{address}: 3 workers; dashboard http://127.0.0.1:" in capsys.readouterr().err


@LOST
def test_a_connection_that_is_cut_and_restored_loses_nothing(
    address: str, data: Path, here: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """What is at work on the cluster meanwhile is not computed twice."""
    proxy, sweep, submit = Proxy(address), Sweep(data, tmp_path), Client.submit
    asked: list[str] = []

    def submitted(self: Client, *args: Any, key: str, **more: Any) -> Any:
        asked.append(key)
        return submit(self, *args, key=key, **more)

    monkeypatch.setattr(Client, "submit", submitted)
    monkeypatch.setenv("DPL_CLUSTER", proxy.address)

    def cut() -> None:
        until(lambda: sweep.kept() > 10)
        (sweep.logs / "wait").touch()
        until(lambda: len(list(sweep.logs.glob("waits-*"))) == 3)  # what was computed before is done
        until(lambda: len(sweep.computed()) == sweep.kept() + 3)  # and has come back
        before = len(asked)
        proxy.close()
        time.sleep(0.5)
        proxy.open()
        until(lambda: len(asked) == before + 6)
        time.sleep(0.5)  # for these to arrive
        (sweep.logs / "wait").unlink()

    with meanwhile(cut):
        assert sweep.run() == here
    assert sweep.counts() == {1: 60}
    assert "is lost: " in capsys.readouterr().err
    proxy.close()


@LOST
def test_a_worker_that_is_killed_loses_what_it_had_in_hand(
    cluster: Cluster, address: str, data: Path, here: dict[str, bytes], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("DPL_CLUSTER", address)
    sweep, victim = Sweep(data, tmp_path), cluster.started[1]

    def kill() -> None:
        until(lambda: sweep.kept() > 10)
        (sweep.logs / "wait").touch()
        until((sweep.logs / f"waits-{victim.pid}").exists)
        victim.kill()
        (sweep.logs / "wait").unlink()

    with meanwhile(kill):
        assert sweep.run() == here
    assert victim.wait() == -signal.SIGKILL
    counts = Counter(unit for unit, _ in sweep.computed())
    again = {unit for unit, count in counts.items() if count > 1}
    assert len(counts) == 60
    assert 1 <= len(again) <= remote.WAITING
    assert max(counts.values()) == 2
    assert again <= {unit for unit, pid in sweep.computed() if pid == victim.pid}


@LOST
@pytest.mark.slow
def test_a_worker_out_of_memory_is_started_again(
    address: str, data: Path, here: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPL_CLUSTER", address)
    sweep = Sweep(data, tmp_path)
    (sweep.logs / "hungry").touch()
    assert sweep.run() == here
    assert not (sweep.logs / "hungry").exists()
    counts = Counter(unit for unit, _ in sweep.computed())
    (again,) = (unit for unit, count in counts.items() if count > 1)
    assert len(counts) == 60
    assert counts[again] == 2


@pytest.mark.slow
@LOST
def test_another_worker_of_a_shared_folder_goes_on_from_a_checkpoint(
    cluster: Cluster, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a network whose worker is killed, to the same bytes."""
    data, cfg = toy.write(tmp_path, "images"), toy.of_networks()
    monkeypatch.chdir(tmp_path)
    cfg.experiment.toy.settings = {"sgd": cfg.experiment.toy.settings.sgd}
    cfg.experiment.toy.runs = {"sgd": {"epsilons": None}}
    cfg.method.sgd._target_, cfg.method.sgd.folder = "logged.Resumed", str(tmp_path)

    def run(name: str, where: str) -> list[bytes]:
        monkeypatch.setenv("DPL_CLUSTER", where)
        paths = [Path(f"{name}/{table}.csv") for table in sweeps.tables(cfg.experiment.toy)]
        store = Store(paths, Path("data/units" if where else "units"))
        store.write(sweeps.sweep(cfg, "toy", "images", sweeps.Inputs(File.at(data)), store))
        return [path.read_bytes() for path in paths]

    monkeypatch.setenv("DPL_WORKERS", "1")
    here = run("here", "")
    (tmp_path / "log").unlink()
    (tmp_path / "stop").touch()
    cluster.worker("d", "--no-nanny", "--memory-limit", "0")
    monkeypatch.setenv("DPL_DEVICE", "cpu")
    assert run("there", address) == here
    (first, killed), (then, other) = (line.split(",") for line in (tmp_path / "log").read_text().splitlines())
    assert (first, then) == ("0", "10")
    assert killed != other


def test_networks_go_to_the_workers_that_declare_a_gpu(
    cluster: Cluster, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And are told to use it; whatever needs none is told to use the processor, also there."""
    monkeypatch.setenv("DPL_CLUSTER", address)
    before = cluster.said().count("Registered to")
    process = cluster.worker("with a GPU", "--no-nanny", "--memory-limit", "0", "--resources", "GPU=1")
    until(lambda: cluster.said().count("Registered to") > before)
    found = executor.computed(logged.device, range(6), executor.Resources(gpu=1))
    assert [done.value for done in found] == [("cuda", "with a GPU")] * 6
    others = [done.value for done in executor.computed(logged.device, range(6))]
    assert {told for told, _ in filter(None, others)} == {"cpu"}
    process.terminate()
    process.wait()


# What is refused, before anything is computed


@pytest.mark.parametrize("what", ["torch", "dplangevin", "logged"])
def test_workers_of_other_versions_are_refused(
    what: str, address: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPL_CLUSTER", address)
    if what == "torch":
        real = environment.version
        monkeypatch.setattr(
            environment, "version", lambda name: "2.12.0+cu" if name == "torch" else real(name)
        )
        said = r"torch 2\.13\.\d+, here 2\.12\.0$"
    else:
        name = "_package" if what == "dplangevin" else "_code"
        monkeypatch.setattr(remote, name, lambda *_: "another")
        said = rf"{what}[.\w]* [0-9a-f]{{12}}, here another$"
    sweep = Sweep(data, tmp_path)
    with pytest.raises(ValueError, match=rf"workers are refused.*\n(tcp://127.0.0.1:\d+, )*.*: {said}"):
        sweep.run()
    assert sweep.computed() == []


def test_a_worker_that_joins_later_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    job = cloudpickle.dumps(remote.Job(str, (), remote.versions(())))
    assert remote._loaded(job).function is str
    monkeypatch.setattr(remote, "_package", lambda: "another")
    remote._loaded.cache_clear()
    with pytest.raises(remote.Refused):
        remote._loaded(job)


class FakeClient:
    """A client of these workers: what each declares, and its answer to a call if that is not the call's own."""

    dashboard_link = "http://dashboard"

    def __init__(self, workers: dict[str, dict[str, Any]], answers: dict[str, Any] | None = None) -> None:
        self.workers, self.answers = workers, answers

    def nthreads(self) -> dict[str, int]:
        return dict.fromkeys(self.workers, 1)

    def run(self, function: Any, *given: Any, **more: Any) -> dict[str, Any]:
        return self.answers or dict.fromkeys(self.workers, function(*given))

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {
            "workers": {name: {"nthreads": 1, "resources": {}, **own} for name, own in self.workers.items()}
        }


@pytest.mark.parametrize(
    ("device", "workers", "asked"),
    [
        ("auto", {"a": {}, "b": {}}, {}),
        ("auto", {"a": {"resources": {"GPU": 1}}, "b": {}}, {"GPU": 1}),
        ("cpu", {"a": {"resources": {"GPU": 1}}, "b": {}}, {}),
        ("auto", {"a": {"resources": {"MEMORY": 4e9}}, "b": {}}, {"MEMORY": 2e9}),
        ("auto", {"a": {"resources": {"MEMORY": 4e9, "GPU": 1}}}, {"MEMORY": 2e9, "GPU": 1}),
        ("auto", {"a": {"resources": {"MEMORY": 1e9}}}, "no worker of tcp://a:1 has {'MEMORY': 2000000000.0}"),
        ("auto", {"a": {"resources": {"MEMORY": 4e9}}, "b": {"resources": {"GPU": 1}}}, "no worker of tcp://a:1 has"),
        ("cuda", {"a": {}}, "no worker declares a GPU: --resources GPU=1"),
        ("gpu", {"a": {}}, "DPL_DEVICE = 'gpu' must be auto, cpu or cuda"),
        ("auto", {"a": {}, "b": {"nthreads": 4}}, "b: 4 threads: start it with --nthreads 1"),
    ],
)  # fmt: skip
def test_units_ask_for_what_they_need_and_workers_declare(
    device: str, workers: dict[str, Any], asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPL_DEVICE", device)
    cluster, client = remote.Cluster("tcp://a:1", executor.Resources(2e9, gpu=1), ()), FakeClient(workers)
    if isinstance(asked, str):
        with pytest.raises(ValueError, match=re.escape(asked)):
            cluster.requested(cluster.accepted(client))  # type: ignore[arg-type]
    else:
        assert cluster.requested(cluster.accepted(client)) == asked  # type: ignore[arg-type]


def test_workers_that_would_draw_other_numbers_than_the_keys_state_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The keys are made here, where no GPU is."""
    monkeypatch.setenv("DPL_RANDOM", "device")
    workers: Any = FakeClient({"a": {"resources": {"GPU": 1}}})
    networks = remote.Cluster("tcp://a:1", executor.Resources(gpu=1), ())
    with pytest.raises(ValueError, match="DPL_RANDOM = 'device' means cuda on workers, but cpu here"):
        networks.requested(networks.accepted(workers))
    linear = remote.Cluster("tcp://a:1", executor.Resources(), ())
    assert linear.requested(linear.accepted(workers)) == {}


def test_an_address_that_is_none_and_a_scheduler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPL_CLUSTER", "elsewhere:8786")
    with pytest.raises(
        ValueError, match="'elsewhere:8786' is neither an address, such as tcp://HOST:8786, nor"
    ):
        list(executor.computed(str, [1]))
    monkeypatch.setenv("DPL_CLUSTER", f"tcp://127.0.0.1:{closed_port()}")
    monkeypatch.setattr(remote, "FIRST", 0.5)
    with pytest.raises(
        ValueError, match=r"no scheduler answers at DPL_CLUSTER = tcp.*: start one with `dask scheduler`"
    ):
        list(executor.computed(str, [1]))
    assert list(executor.computed(str, [])) == []  # nothing to do needs none


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


def test_rows_state_the_arithmetic_that_they_were_made_with(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of who computed them, also where the rest is computed later, by another."""
    monkeypatch.setenv("DPL_WORKERS", "1")
    sweep = Sweep(data, tmp_path)
    made = iter(["one machine"] * 20 + ["another"] * 40)
    monkeypatch.setattr(executor, "_environment", lambda *_: next(made))
    compute = sweeps.SweepTasks.compute

    def cut(self: sweeps.SweepTasks, group: Any) -> Any:
        if sweep.kept() == 20:
            raise KeyboardInterrupt
        return compute(self, group)

    with monkeypatch.context() as patch:
        patch.setattr(sweeps.SweepTasks, "compute", cut)
        with pytest.raises(KeyboardInterrupt):
            sweep.run()
    sweep.run()
    units = json.loads((tmp_path / "results/runs.units.json").read_bytes())
    said = [f"{executor.revision()}, {where}" for where in ["one machine"] * 20 + ["another"] * 40]
    assert [unit["made"] for unit in units] == said


def test_a_process_that_is_killed_ends_the_run_with_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPL_WORKERS", "2")
    with pytest.raises(
        ValueError, match=r"one of 2 processes was killed.*: what is finished is kept.*WORKERS=1"
    ):
        list(executor.computed(logged.killed, [1, 2, 3]))


def test_an_error_that_cannot_be_sent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(Exception):
        pass

    def fails(argument: int) -> None:
        raise Odd("why")

    (done,) = executor.computed(fails, [1])
    assert repr(done.error) == "RuntimeError('Odd: why')"


@pytest.mark.parametrize("name", ["synthetic", "abalone"])
def test_prepared_data_are_made_where_a_unit_is(
    name: str, address: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the manifest of who asks, in the worker's own folder, and checked; Abalone from what the worker downloads."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DPL_CLUSTER", address)
    file = manifest.file(config.load(), "dataset", name)
    (done,) = executor.computed(logged.described, [file])
    assert done.error is None
    assert done.value == (file.sha256, str(cluster.folder / f"data/processed/{name}.npz"))
    assert (cluster.folder / "data/raw/abalone/abalone.data").exists() == (name == "abalone")
    assert not (cluster.folder / "data/manifest").exists()


def test_compare_on_a_cluster_has_the_numbers_that_it_has_here(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers get the rows, which lie in no file of theirs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPL_WORKERS", "1")
    monkeypatch.setenv("DPL_CLUSTER", "")  # so that it is taken back after --cluster
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=60), "label": np.where(rng.random(60) < 0.5, "a", "b")})
    table.to_csv("mine.csv", index=False)
    words = (
        "compare mine.csv --target label --ranges-from-data --methods objpert,sgld --epsilon 1 --repeats 2 "
        "--seed 0"
    )
    found = {}
    for name, more in (("here", []), ("there", ["--cluster", address])):
        done = CliRunner().invoke(app, [*words.split(), "--out", name, *more])
        assert done.exit_code == 0, done.output
        found[name] = {
            path.name: path.read_bytes() for path in Path(name).glob("*.*s*") if path.stem != "config"
        }
    assert {"runs.csv", "scores.csv", "runs.units.json"} <= set(found["here"])
    assert found["there"] == found["here"]
    done = CliRunner().invoke(app, [*words.split(), "--out", "no", "--cluster", "head:8786"])
    assert done.exit_code == 2
    assert "'head:8786' is neither an address" in done.output


def test_a_file_that_is_here_is_its_content_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "rows.npz").write_bytes(b"rows")
    file = pickle.loads(pickle.dumps(File.at(tmp_path / "rows.npz")))
    (tmp_path / "rows.npz").unlink()
    copy = file.get()
    assert sha256(copy) == file.sha256
    del file
    assert not copy.parent.exists()


# What docs/cluster.md shows

PAGE = (ROOT / "docs/cluster.md").read_text()


def shown(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def settings(stated: dict[str, Any]) -> Any:
    """As Dask would read them from ~/.config/dask."""
    return dask.config.set(dask.config.merge(dask.config.config, stated))


def test_the_settings_for_tls_are_dasks_own() -> None:
    (stated,) = (each for each in map(yaml.safe_load, shown("yaml")) if "distributed" in each)
    with settings(stated):
        found: Any = Security()
    assert found.require_encryption
    assert found.tls_ca_file == "ca.pem"
    assert (found.tls_scheduler_cert, found.tls_worker_key) == ("scheduler.pem", "worker.key")
    assert (found.tls_client_cert, found.tls_client_key) == ("driver.pem", "driver.key")


def test_the_image_has_the_python_and_the_libraries_of_the_results() -> None:
    """There is no container engine here, so its text is read."""
    text = (ROOT / "Containerfile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    python = project["tool"]["mypy"]["python_version"]
    assert re.findall(r"^FROM python:([\d.]+)-slim$", text, re.MULTILINE) == [python]
    copied = [word for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE) for word in line.split()[:-1]]
    assert copied == ["requirements.lock", "pyproject.toml", "src"]
    assert all((ROOT / name).exists() for name in copied)
    installed = [line for line in text.splitlines() if "pip install" in line]
    assert "RUN pip install --no-cache-dir -r requirements.lock" in installed
    assert all("--no-deps" in line or "-r requirements.lock" in line for line in installed)
    locked = {line.partition("==")[0] for line in (ROOT / "requirements.lock").read_text().splitlines()}
    extra = project["project"]["optional-dependencies"]["cluster"]
    assert {name.partition("[")[0] for name in extra} <= locked


def test_workers_that_cannot_be_reached_are_left_out_and_the_last_of_them_ends_the_run() -> None:
    away, here = OSError("timed out"), remote.versions([])
    asked = remote.Cluster("tcp://localhost:1", executor.Resources(), [])
    some: Any = FakeClient({"tcp://a:1": {}, "tcp://b:1": {}}, {"tcp://a:1": away, "tcp://b:1": here})
    assert list(asked.accepted(some)) == ["tcp://b:1"]
    none: Any = FakeClient({"tcp://a:1": {}}, {"tcp://a:1": away})
    for _ in range(remote.REFUSALS):
        with pytest.raises(remote._Lost):
            asked.accepted(none)
    with pytest.raises(ValueError, match="reaches none of its workers"):
        asked.accepted(none)
