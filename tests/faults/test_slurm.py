"""Units that are submitted to a queue and collected later: by submitit's own processes, and by a real Slurm of one node
whose array tasks are killed and preempted.  Every unit is there at the end, with the bytes that it has here."""

import os
import re
import signal
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import one_node
import pytest
import torch
import toy
from sixty import Sweep
from waiting import until

from dplangevin.files import File
from dplangevin.pipeline import sweep as sweeps
from dplangevin.pipeline.cache import Store
from dplangevin.pipeline.executor import CallResults, Job, Waiting

pytest.importorskip("submitit")
from dplangevin.pipeline import slurm

ROOT = Path(__file__).parents[2]
SLURM = pytest.mark.trial("Slurm kills and preempts array tasks")
# a job of submitit's own outlives the process that starts it
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore:subprocess .* is still running:ResourceWarning",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.write(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def here(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The results of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPL_WORKERS", "1")
        return Sweep(data, tmp_path_factory.mktemp("here")).run()


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of array tasks, which begin in this folder."""
    monkeypatch.chdir(tmp_path)
    more = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [str(ROOT / "src"), str(ROOT / "tests"), *(str((ROOT / path).resolve()) for path in more if path)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("PYTHONWARNINGS", "")
    monkeypatch.setenv("DPL_DEVICE", "cpu")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[one_node.Slurm]:
    if reason := one_node.missing():
        pytest.skip(reason)
    made = one_node.Slurm(tmp_path_factory.mktemp("slurm"))
    yield made
    made.end()


@pytest.fixture(params=["local-submitit", pytest.param("slurm", marks=[SLURM, pytest.mark.slow])])
def site(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where tasks are submitted."""
    if request.param == "slurm":
        node = request.getfixturevalue("node")
        for name, value in node.env.items():
            monkeypatch.setenv(name, value)
        until(lambda: not {*node.states().values()} - slurm.ENDED)  # array tasks of an earlier test
    monkeypatch.setenv("DPL_CLUSTER", request.param)
    monkeypatch.setenv("DPL_WORKERS", "2")
    return str(request.param)


def collected(run: Callable[[], Any]) -> Any:
    """What a run returns once no task waits."""
    while True:
        try:
            return run()
        except Waiting:
            time.sleep(1)


def test_units_are_submitted_and_collected_later(
    site: str, data: Path, here: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits, also not who collects without a cluster; each is computed once."""
    sweep = Sweep(data, tmp_path, queue=True)
    (sweep.logs / "wait").touch()
    with pytest.raises(
        Waiting, match=r"^60 tasks are not finished; array tasks: .*; `make repro` collects them$"
    ):
        sweep.run()
    until(lambda: len(list(sweep.logs.glob("waits-*"))) == 2)
    monkeypatch.setenv("SQUEUE_PARTITION", "urgent")  # a setting of the user, which hides nothing from a run
    for where in ("", site):
        monkeypatch.setenv("DPL_CLUSTER", where)
        with pytest.raises(Waiting, match=r"60 tasks are not finished; array tasks: \d RUNNING in job \d+"):
            sweep.run()
    (sweep.logs / "wait").unlink()
    assert collected(sweep.run) == here
    assert sweep.counts() == {1: 60}
    assert os.getpid() not in {pid for _, pid in sweep.computed()}
    assert not any((tmp_path / "units").iterdir())


@pytest.mark.slow
@SLURM
def test_a_network_that_is_preempted_goes_on_from_its_checkpoint(site: str, tmp_path: Path) -> None:
    """To the same bytes, in another process."""
    data, cfg = toy.write(tmp_path, "images"), toy.of_networks()
    cfg.experiment.toy.settings = {"sgd": cfg.experiment.toy.settings.sgd}
    cfg.experiment.toy.runs = {"sgd": {"epsilons": None}}
    cfg.method.sgd._target_, cfg.method.sgd.folder = "logged.Resumed", str(tmp_path)

    def run(name: str, queue: bool) -> list[bytes]:
        paths = [Path(f"{name}/{table}.csv") for table in sweeps.tables(cfg.experiment.toy)]
        store = Store(paths, Path(name, "units"), queue=queue)
        store.write(sweeps.sweep(cfg, "toy", "images", sweeps.Inputs(File.at(data)), store))
        return [path.read_bytes() for path in paths]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPL_CLUSTER", "")
        patch.setenv("DPL_WORKERS", "1")
        here = run("here", False)
    (tmp_path / "log").unlink()
    (tmp_path / "stop").touch()
    assert collected(lambda: run("there", True)) == here
    (first, killed), (then, other) = (line.split(",") for line in (tmp_path / "log").read_text().splitlines())
    assert (first, then) == ("0", "10")
    assert killed != other


@SLURM
@pytest.mark.slow
@pytest.mark.parametrize("site", ["slurm"], indirect=True)
def test_array_tasks_that_are_killed_and_preempted_lose_nothing(
    site: str,
    node: one_node.Slurm,
    data: Path,
    here: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And the controller is restarted meanwhile.  Only what was in hand is computed twice."""
    monkeypatch.setenv("DPL_WORKERS", "4")
    monkeypatch.setenv("SBATCH_TIMELIMIT", "7")
    sweep = Sweep(data, tmp_path, queue=True)
    with pytest.raises(Waiting, match="array tasks: 4 SUBMITTED in job"):
        sweep.run()
    assert {*node.said("squeue", "--noheader", "--format=%l").split()} == {"7:00"}
    until(lambda: sweep.kept() > 4)
    (sweep.logs / "wait").touch()
    until(lambda: len(list(sweep.logs.glob("waits-*"))) == 2)
    in_hand = {int(path.name.removeprefix("waits-")) for path in sweep.logs.glob("waits-*")}
    node.said("sbatch", "--partition=urgent", "--output=/dev/null", "--wrap=sleep 2")
    until(lambda: len(in_hand - alive(in_hand)) == 1)
    (victim,) = alive(in_hand)
    node.stop("slurmctld")
    node.start("slurmctld", "-D")
    until(node.states)
    os.kill(victim, signal.SIGKILL)
    until(lambda: "FAILED" in node.states().values())
    (sweep.logs / "wait").unlink()
    until(lambda: (states := node.states()) and not {*states.values()} - slurm.ENDED)
    with pytest.raises(
        ValueError, match=r"array task \d+_\d: it ended without a result \(FAILED\); its log is units/"
    ):
        sweep.run()
    assert 45 <= sweep.kept() < 60  # all but what the killed array task had left
    monkeypatch.setenv("DPL_WORKERS", "2")
    assert collected(sweep.run) == here
    assert sweep.counts() == {1: 58, 2: 2}


def alive(pids: set[int]) -> set[int]:
    """Those of the processes that run."""
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("code_hash", r"code \w{12}, was another"),
        ("drawing", "random numbers cpu, was cuda"),
    ],
)
def test_array_tasks_refuse_what_keys_do_not_state(
    what: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other code than at submission, or numbers of another device."""
    results = CallResults(Store(tmp_path / "a.csv", tmp_path), [["key"]])
    (tmp_path / "job").write_bytes(cloudpickle.dumps(Job(str, [1], results, ["dplangevin.pipeline.sweep"])))
    before = slurm.versions(["dplangevin.pipeline.sweep"])
    assert slurm.ArrayTask(tmp_path / "job", before, [])() == []
    with monkeypatch.context() as patch:
        patch.setattr(slurm, what, lambda *_: torch.device("cuda") if what == "drawing" else "another")
        changed = slurm.versions(["dplangevin.pipeline.sweep"])
    with pytest.raises(ValueError, match=f"^this is no longer what was submitted: {said}$"):
        slurm.ArrayTask(tmp_path / "job", changed, [0])()


# What is refused, with one line


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


SBATCH = (
    "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified"
)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("no sbatch", "DPL_CLUSTER = 'slurm', but there is no sbatch on PATH"),
        ("a queue that refuses", f"Slurm refuses the job: {SBATCH[15:]}$"),
        ("a queue that is silent", "Slurm refuses the job: sbatch gives no reason$"),
        (
            "no controller",
            "squeue failed: slurm_load_jobs error: Unable to contact slurm controller$",
        ),
        (
            "no squeue",
            r"units/jobs/12\.json records a job of Slurm, but there is no squeue on PATH: .* or delete "
            "units/jobs to compute its tasks here$",
        ),
        ("another command", "DPL_CLUSTER = 'slurm' is for `make repro`, which collects the tasks later"),
    ],
)
def test_one_line_says_why_nothing_is_submitted(
    what: str, said: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin" + ":/bin" * (what != "no squeue"))
    monkeypatch.setenv("DPL_CLUSTER", "slurm" if what != "no squeue" else "")
    monkeypatch.setattr(slurm.shutil, "which", lambda name: None)
    sweep = Sweep(data, tmp_path, queue=what != "another command")
    if what in ("a queue that refuses", "a queue that is silent"):
        monkeypatch.setattr(slurm.shutil, "which", lambda name: name)
        program(tmp_path / "bin", "sbatch", f"echo '{SBATCH}' >&2; exit 1" if "refuses" in what else "exit 1")
    if what in ("no controller", "no squeue"):
        slurm.record(sweep.store.jobs / "12.json", "slurm", Path("job.pickle"), {"12_0": ["key"]})
    if what == "no controller":
        program(
            tmp_path / "bin",
            "squeue",
            "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1",
        )
    with pytest.raises(ValueError, match=said):
        sweep.run()
    assert sweep.computed() == []
    assert not list(sweep.store.jobs.glob("*.pickle"))


def test_an_array_task_that_slurm_ended_is_told_once(
    data: Path, here: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its state; the run after that computes its tasks."""
    monkeypatch.setenv("DPL_WORKERS", "1")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/bin")
    program(tmp_path / "bin", "squeue", "echo '12_0|OUT_OF_MEMORY'; echo '12_1|RUNNING'")
    sweep, keys = Sweep(data, tmp_path, queue=True), list[str]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeps, "computed", lambda *args: keys.__iadd__(key for (key,) in args[-1].keys)[:0])
        with pytest.raises(ValueError, match="is not finished"):
            sweep.run()
    record = sweep.store.jobs / "12.json"
    slurm.record(record, "slurm", sweep.store.jobs / "job.pickle", {"12_0": keys[:20], "12_1": keys[20:40]})
    with pytest.raises(ValueError, match=r"array task 12_0: it ended without a result \(OUT_OF_MEMORY\)$"):
        sweep.run()
    assert sweep.kept() == 20  # those that no array task has
    with pytest.raises(Waiting, match=r"^20 tasks are not finished; array tasks: 1 RUNNING in job 12; "):
        sweep.run()
    assert sweep.kept() == 40
    program(tmp_path / "bin", "squeue", "true")
    with pytest.raises(ValueError, match=r"array task 12_1: it ended without a result \(no longer listed\)$"):
        sweep.run()
    assert not record.exists()
    assert sweep.run() == here


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"cno_such_module\nGone\n.", "ModuleNotFoundError: No module named 'no_such_module'"),
        (b"", "EOFError: Ran out of input"),
    ],
    ids=["a class that is gone", "cut"],
)
def test_a_result_that_cannot_be_read_is_told_once(content: bytes, said: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "a.csv", tmp_path / "units")
    slurm.record(store.jobs / "12.json", "local-submitit", Path("job.pickle"), {"12": ["key"]})
    slurm.JobPaths(store.jobs, "12").result_pickle.write_bytes(content)
    waiting, errors = slurm.collected(CallResults(store, [["key"]]))
    assert (waiting, [*errors]) == ([], ["key"])
    assert str(errors["key"]) == f"array task 12: its result cannot be read ({said})"
    assert slurm.collected(CallResults(store, [["key"]])) == ([], {})


def test_a_job_that_nothing_needs_is_named_and_waits_for_nobody(
    data: Path,
    here: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("DPL_WORKERS", "1")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/bin")
    program(tmp_path / "bin", "squeue", "echo '12_0|RUNNING'")
    sweep = Sweep(data, tmp_path, queue=True)
    slurm.record(sweep.store.jobs / "12.json", "slurm", Path("job.pickle"), {"12_0": ["of other parameters"]})
    assert sweep.run() == here
    assert "no stage needs the tasks of job 12 any more; to cancel it: scancel 12" in capsys.readouterr().err


# What is in the repository


def test_the_image_has_the_python_and_the_libraries_of_the_results() -> None:
    """There is no container engine here, so its text is read."""
    text = (ROOT / "Containerfile").read_text()
    (version,) = re.findall(r"^FROM python:([\d.]+)-slim$", text, re.MULTILINE)
    assert (
        version
        == re.findall(r'^python_version = "([\d.]+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[
            0
        ]
    )
    copied = [word for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE) for word in line.split()[:-1]]
    assert copied == ["requirements.lock", "pyproject.toml", "src"]
    assert all((ROOT / name).exists() for name in copied)
    assert "RUN pip install --no-cache-dir -r requirements.lock\n" in text
    assert all(
        "--no-deps" in line or "-r requirements.lock" in line
        for line in text.splitlines()
        if "pip install" in line
    )
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    locked = {line.partition("==")[0] for line in (ROOT / "requirements.lock").read_text().splitlines()}
    assert set(extras["slurm"]) <= locked
