"""Files that are damaged, cut short, full of something else, slow to come, or written by two at once."""

import csv
import gzip
import io
import itertools
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import loading
import numpy as np
import pytest
import torch
from checkout import ROOT, run
from omegaconf import OmegaConf
from PIL import Image
from waiting import until
from web import Quiet, served

from dplangevin import files
from dplangevin.data import DataError, fetch
from dplangevin.data.fetch import DataUnavailable
from dplangevin.data.loaders import cifar, svhn
from dplangevin.files import Checkpoint, made_file
from dplangevin.pipeline import manifest

Damage = Callable[[bytes], bytes]


def flipped(content: bytes, at: int, bit: int = 0) -> bytes:
    return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


def python(*words: str | Path) -> subprocess.Popen[str]:
    given = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, *words], env=given, stdout=pipe, stderr=pipe, text=True, cwd=ROOT
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, error = process.communicate()
    return process.returncode, out, error


units = pytest.mark.trial("a damaged unit")
checkpoints = pytest.mark.trial("a damaged checkpoint")


@units
def test_other_files_that_are_kept_are_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, calls = tmp_path / "votes.npz", []

    def make(path: Path) -> None:
        calls.append(path)
        np.savez(path, votes=np.arange(100))

    made_file(path, make)
    made_file(path, make)
    assert len(calls) == 1
    whole = path.read_bytes()
    for damaged in (flipped(whole, 300), whole[:-1], b""):
        path.write_bytes(damaged)
        made_file(path, make)
    path.with_suffix(".json").unlink()  # killed in between
    made_file(path, make)
    assert len(calls) == 5
    assert capsys.readouterr().err.count(f"{path} is damaged: computed again") == 3


TRAIN = """
import os, signal, sys
from pathlib import Path
import torch
from dplangevin.files import Checkpoint
from dplangevin.problems.chain import Chain
from dplangevin.samplers.chains.loop import run
from dplangevin.problems.sampling import Sampling
from scenarios import logistic
folder, last = Path(sys.argv[1]), int(sys.argv[2])
class Observer:
    state = {}
    def __call__(self, step, theta, rows, sums):
        if step == last:
            os.kill(os.getpid(), signal.SIGKILL)
problem, steps = logistic(), 40
chain = Chain(torch.full((steps,), 0.1), torch.ones(steps), Sampling("subset", 5, 5 * steps / problem.facts.n))
rng = torch.Generator().manual_seed(1)
theta = run(problem, [chain], 3, rng, observe=Observer(), checkpoint=Checkpoint(folder / "state.pt", "key", every=0))
(folder / "theta").write_bytes(theta.numpy().tobytes())
"""


def train(folder: Path) -> bytes:
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["", str(folder), "0"])
        exec(compile(TRAIN, "train", "exec"), {})
    return (folder / "theta").read_bytes()


@checkpoints
def test_a_run_that_is_killed_goes_on_and_one_with_a_damaged_checkpoint_starts_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, killed = train(tmp_path / "whole"), tmp_path / "killed"
    killed.mkdir()
    assert ended(python("-c", TRAIN, killed, "25"))[0] == -signal.SIGKILL
    damaged = shutil.copytree(killed, tmp_path / "damaged") / "state.pt"
    damaged.write_bytes(flipped(damaged.read_bytes(), damaged.stat().st_size // 2))
    assert train(killed) == whole
    assert capsys.readouterr().err == ""
    assert train(damaged.parent) == whole
    assert f"{damaged} is damaged: computed again" in capsys.readouterr().err


@checkpoints
def test_no_flipped_bit_of_a_checkpoint_is_loaded(
    tmp_path: Path, rng: np.random.Generator, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = Checkpoint(tmp_path / "state.pt", "key")
    checkpoint.save(lambda: {"theta": torch.arange(500.0)}, force=True)
    whole = checkpoint.path.read_bytes()
    places = [*range(0, 100, 7), *rng.integers(0, len(whole), 50).tolist()]
    for at in places:
        checkpoint.path.write_bytes(flipped(whole, at, int(at) % 8))
        assert checkpoint.load() is None
    for damaged in (b"", whole[:-1], whole[: whole.index(b"\n") + 1], whole + b"\n"):
        checkpoint.path.write_bytes(damaged)
        assert checkpoint.load() is None
    assert capsys.readouterr().err.count("is damaged: computed again\n") == len(places) + 4
    checkpoint.path.write_bytes(whole)
    assert checkpoint.load() is not None


@pytest.fixture
def stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Abalone, prepared in a folder of the test's: the config."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "data/bundled", "data/bundled")
    cfg: Any = OmegaConf.create({"dataset": {"abalone": loading.config("abalone")}, "seed": 1, "splits": 2})
    OmegaConf.resolve(cfg)
    assert manifest.state(cfg, "dataset", "abalone")
    return cfg


@units
def test_a_damaged_manifest_is_written_again(stated: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path, before = Path("data/manifest/dataset/abalone.json"), manifest.read("dataset", "abalone")
    whole = path.read_bytes()
    for at in range(0, len(whole), 97):
        path.write_bytes(flipped(whole, at, at % 7))
        with suppress(DataError):
            assert manifest.read("dataset", "abalone") == before  # white space
    for damaged in (b"", b"{}", b"[]", b"1", b"\xff", whole.replace(b'"train": 3341', b'"train": 3340')):
        path.write_bytes(damaged)
        with pytest.raises(
            DataError, match=rf"{path} is missing or damaged .*: restore it from git, or write it anew"
        ):
            manifest.ensure(stated, "dataset", "abalone")
        assert manifest.state(stated, "dataset", "abalone")
        assert "written again" in capsys.readouterr().err
        assert path.read_bytes() == whole


sources = pytest.mark.trial("a full disk or a wrong file")
twice = pytest.mark.trial("two processes fetch one file")
servers = pytest.mark.trial("a slow or endless mirror")
CONTENT = "".join(f"{k / 7:.6f},{-k / 3:.6f},{k % 3}\n" for k in range(8000)).encode()
FETCH = """
import json, sys
from pathlib import Path
from dplangevin.data.fetch import fetch
files, archive = json.loads(sys.argv[1])
fetch("toy", files, Path(sys.argv[2]), [sys.argv[3]], archive)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder for raw files, and a mirror that has one."""
    files.write(tmp_path / "mirror/toy", {"toy.csv": CONTENT})
    (tmp_path / "data/raw").mkdir(parents=True)
    return tmp_path


@sources
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content[:-100], "found sha256"),
        (lambda content: flipped(content, 5000), "found sha256"),
        (lambda content: content + b"\n", f"found more than {len(CONTENT)} bytes"),
        (lambda content: b"", "found sha256"),
    ],
    ids=["cut", "altered", "longer", "empty"],
)
def test_a_mirror_with_other_bytes_is_named(
    project: Path, change: Damage, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether it is a folder or a server, and whether or not the next source has the file."""
    (project / "mirror/toy/toy.csv").write_bytes(change(CONTENT))
    entry = loading.entry("toy.csv", CONTENT)
    with served(project / "mirror") as url:
        for mirror in (str(project / "mirror"), url):
            with pytest.raises(DataError, match=f"tried {mirror}/toy/toy.csv: {said}") as caught:
                fetch.fetch("toy", [entry], project / "data/raw/toy", [mirror, "no_such_folder"])
            assert not isinstance(caught.value, DataUnavailable)
    assert os.listdir(project / "data/raw/toy") == []
    files.write(project / "second/toy", {"toy.csv": CONTENT})
    mirrors = [str(project / name) for name in ("mirror", "second")]
    capsys.readouterr()
    fetch.fetch("toy", [entry], project / "data/raw/toy", mirrors)
    assert (project / "data/raw/toy/toy.csv").read_bytes() == CONTENT
    (line,) = capsys.readouterr().err.splitlines()
    assert f"tried {mirrors[0]}/toy/toy.csv: {said}" in line


@sources
def test_a_mirror_that_may_not_be_read_and_a_wrong_file_that_is_here_are_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, target = loading.entry("toy.csv", CONTENT), project / "data/raw/toy"
    real = os.stat

    def refused(path: Any, *given: Any, **more: Any) -> os.stat_result:
        if str(path).startswith(str(project / "mirror")):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", refused)
        with pytest.raises(DataError, match="PermissionError"):
            fetch.fetch("toy", [entry], target, [str(project / "mirror")])
    (target / "toy.csv").write_bytes(CONTENT[:100])
    with pytest.raises(DataError, match=r"expected sha256 .*, found sha256 .* \(100 bytes\)"):
        fetch.fetch("toy", [entry], target, ["no_such_folder"])
    assert (target / "toy.csv").read_bytes() == CONTENT[:100]
    fetch.fetch("toy", [entry], target, [str(project / "mirror")])
    assert (target / "toy.csv").read_bytes() == CONTENT


@sources
def test_a_full_disk_is_named(project: Path) -> None:
    """A file system of 64 kB in a mount namespace of the process's own."""
    mount = "mount -t tmpfs -o size=64k none data/raw"
    around = ["unshare", "--map-root-user", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh"]
    if run(project, *around[:3], "mount", "-t", "tmpfs", "none", "/mnt").returncode:
        pytest.skip("no mount namespace for this user")
    words = json.dumps([[loading.entry("toy.csv", CONTENT)], None]), "data/raw/toy", "mirror"
    done = run(project, *around, sys.executable, "-c", FETCH, *words, PYTHONPATH=str(ROOT / "src"))
    assert done.returncode == 1
    assert (
        "No space left on device: free some space there and run again: 'data/raw/toy/toy.csv'" in done.stderr
    )


LONG = """
class Long:
    def units(self):
        return ["one", "two"]

    def rows(self, unit, seed):
        return [{"row": row} for row in range(1000)]
"""


@pytest.mark.slow
@sources
def test_units_that_cannot_be_written_are_one_line(tmp_path: Path) -> None:
    """Of an analysis, in a process of a pool."""
    for name in ("src", "pipelines", "conf"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "long_rows.py").write_text(LONG)
    analysis = {"_target_": "long_rows.Long"}
    OmegaConf.save(OmegaConf.create({"seed": 1, "analysis": {"toy": analysis}}), tmp_path / "params.yaml")
    stage = ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", sys.executable, "pipelines/analyse.py", "toy"]
    done = run(tmp_path, *stage, PYTHONPATH=f"src:{tmp_path}")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "data/units/analysis/toy/" in done.stderr
    assert "File too large: allow larger files (ulimit -f) and run again" in done.stderr


def archive(content: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        info = tarfile.TarInfo("py/toy.csv")
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def packed(content: bytes) -> dict[str, Any]:
    """An archive as the configuration states it."""
    return {**loading.entry("toy.tar", archive(content)), "folder": "py"}


@twice
@pytest.mark.parametrize("kind", ["file", "archive"])
def test_two_processes_fetch_one_file_and_one_of_them_gets_other_bytes(tmp_path: Path, kind: str) -> None:
    """Their downloads overlap: half of it, until both have so much, then the rest."""
    entries = [loading.entry("toy.csv", CONTENT)], packed(CONTENT) if kind == "archive" else None
    name, make = ("toy.tar", archive) if kind == "archive" else ("toy.csv", lambda content: content)
    bodies = [make(CONTENT), make(CONTENT.replace(b"1", b"2"))]
    meet = threading.Barrier(2)

    class Together(Quiet):
        def do_GET(self) -> None:
            if not self.path.endswith(f"/toy/{name}"):
                self.send_error(404)
                return
            body = bodies.pop(0)
            self.begin(Content_Length=str(len(body)))
            for half in (body[: len(body) // 2], body[len(body) // 2 :]):
                self.wfile.write(half)
                self.wfile.flush()
                meet.wait()

    with served(tmp_path, Together) as url:
        words = ("-c", FETCH, json.dumps(entries), tmp_path / "raw", url)
        both = [python(*words), python(*words)]
        assert 0 in [ended(process)[0] for process in both]
    assert (tmp_path / "raw/toy.csv").read_bytes() == CONTENT
    assert os.listdir(tmp_path / "raw") == ["toy.csv"]


@pytest.mark.slow
@twice
def test_a_killed_download_leaves_what_the_next_removes_but_not_what_another_writes(tmp_path: Path) -> None:
    go = threading.Event()

    class Half(Quiet):
        def do_GET(self) -> None:
            self.begin(Content_Length=str(len(CONTENT)))
            self.wfile.write(CONTENT[:60_000])
            self.wfile.flush()
            go.wait()
            with suppress(OSError):
                self.wfile.write(CONTENT[60_000:])

    raw, entry = tmp_path / "raw", loading.entry("toy.csv", CONTENT)
    files.write(tmp_path / "mirror/toy", {"toy.csv": CONTENT})
    with served(tmp_path, Half) as url:
        words = ("-c", FETCH, json.dumps([[entry], None]), raw, url)
        killed, other = python(*words), python(*words)
        until(lambda: len(list(raw.glob(".*"))) == 2)
        killed.kill()
        assert ended(killed)[0] == -signal.SIGKILL
        fetch.fetch("toy", [entry], raw, [str(tmp_path / "mirror")])
        (part,) = raw.glob(".*")
        assert f"-{other.pid}-" in part.name
        go.set()
        assert ended(other)[0] == 0
    assert os.listdir(raw) == ["toy.csv"]
    assert (raw / "toy.csv").read_bytes() == CONTENT


# Servers


SLOW, SHORT = "TimeoutError: not done after 1 s", "ProtocolError"


class Drip(Quiet):
    """A byte now and then, for ever."""

    def do_GET(self) -> None:
        self.begin(Content_Length=str(len(CONTENT)))
        with suppress(OSError):
            for byte in itertools.cycle(CONTENT):
                self.wfile.write(bytes([byte]))
                time.sleep(0.1)


class Cut(Quiet):
    """The connection ends early."""

    def do_GET(self) -> None:
        self.begin(Content_Length=str(len(CONTENT)))
        self.wfile.write(CONTENT[:5000])


class Endless(Quiet):
    def do_GET(self) -> None:
        self.begin()
        with suppress(OSError):
            while True:
                self.wfile.write(CONTENT)


class Packed(Quiet):
    """3 GB of zeros in 3 MB, whatever the client asked for."""

    block = zlib.compressobj(9, zlib.DEFLATED, 31)
    member = block.compress(bytes(32 << 20)) + block.flush()

    def do_GET(self) -> None:
        self.begin(Content_Encoding="gzip")
        with suppress(OSError):
            for _ in range(96):
                self.wfile.write(self.member)


@servers
@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (Drip, SLOW),
        (Cut, SHORT),
        (Endless, f"found more than {len(CONTENT)} bytes"),
        (Packed, f"found more than {len(CONTENT)} bytes"),
    ],
)
def test_the_next_source_is_asked_in_bounded_time_and_memory(
    tmp_path: Path, handler: type[Quiet], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if said == SLOW:
        monkeypatch.setattr(fetch, "PATIENCE", 1)
    monkeypatch.setattr(fetch, "LEAST", 10**9)
    (tmp_path / "mirror/toy").mkdir(parents=True)
    entry, raw = loading.entry("toy.csv", CONTENT), tmp_path / "raw"
    with served(tmp_path, handler) as url:
        tracemalloc.start()
        with pytest.raises(DataError, match=f"tried {url}/toy/toy.csv: {said}") as caught:
            fetch.fetch("toy", [entry], raw, [url])
        assert tracemalloc.get_traced_memory()[1] < 100e6
        tracemalloc.stop()
        assert isinstance(caught.value, DataUnavailable) == (said in (SLOW, SHORT))
        assert os.listdir(raw) == []
        (tmp_path / "mirror/toy/toy.csv").write_bytes(CONTENT)
        fetch.fetch("toy", [entry], raw, [url, str(tmp_path / "mirror")])
    assert (raw / "toy.csv").read_bytes() == CONTENT
    assert os.listdir(raw) == ["toy.csv"]


@servers
def test_a_mirror_that_is_a_device_or_a_pipe_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "mirror/toy").mkdir(parents=True)
    entry = loading.entry("toy.csv", CONTENT)
    for make in (lambda path: os.symlink("/dev/zero", path), os.mkfifo):
        make(tmp_path / "mirror/toy/toy.csv")
        with pytest.raises(DataUnavailable, match=r"toy\.csv: FileNotFoundError"):
            fetch.fetch("toy", [entry], tmp_path / "raw", [str(tmp_path / "mirror")])
        (tmp_path / "mirror/toy/toy.csv").unlink()


# Decoders

decoders = pytest.mark.trial("bombs for decoders")


@decoders
def test_a_table_that_csv_cannot_read_is_named_with_its_line(tmp_path: Path) -> None:
    """By the command line, as users meet it."""
    path, limit = tmp_path / "my.csv", csv.field_size_limit()
    path.write_text(f'x,y,z\n1,2,a\n3,"{"4" * (limit + 1)},b\n')
    status, _, error = ended(python("-m", "dplangevin", "schema", path, "--target", "z"))
    assert (status, len(error.splitlines())) == (2, 1)
    assert f"{path}, line 3: field larger than field limit ({limit}): is a quote never closed" in error


@decoders
def test_no_decoder_sees_a_byte_before_the_sha256_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every data set and the weights, from a mirror whose files have other bytes than the configuration states."""
    groups = loading.entries("dataset", "weights", "backbone")
    cfg: Any = OmegaConf.create({"seed": 1, "splits": 2, **groups})
    OmegaConf.resolve(cfg)
    entries: dict[str, Any] = {
        **cfg.dataset,
        **{f"weights/{name}": entry for name, entry in cfg.weights.items()},
    }
    for key, entry in entries.items():
        archives = [entry.archive] if "archive" in entry else []
        for file in [*entry.files, *archives]:
            files.write(tmp_path / "mirror" / key.partition("/")[0], {file.name: CONTENT})
            file.urls = []
        entry.urls = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATA_MIRROR", "mirror")

    def never(*_: Any, **__: Any) -> None:
        pytest.fail("read before the check")

    for owner, name in (
        (gzip, "open"), (gzip, "decompress"), (np, "load"), (Image, "open"), (svhn, "loadmat"),
        (pickle, "load"), (torch, "load"), (cifar, "unpickled"), (tarfile, "open"), (zipfile, "ZipFile"),
        (csv, "reader"),
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, never)
    for kind, group in (("dataset", cfg.dataset), ("weights", cfg.weights)):
        for name, entry in group.items():
            if not entry.files:
                continue
            with pytest.raises(DataError, match="expected sha256") as caught:
                manifest.state(cfg, kind, str(name))
            assert not isinstance(caught.value, DataUnavailable)
