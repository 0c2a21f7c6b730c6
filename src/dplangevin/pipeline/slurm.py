"""Array jobs that compute tasks without a driver; only this module needs submitit.

`submitted` writes all that the array tasks share into one file, submits an array job, and writes a record of
it: which array task computes which tasks.  An array task makes its calls one after the other and stores each
result in the `Store`, which lies on a shared file system.  If it is preempted or reaches its time limit, it is
queued again.  It then skips what is stored, and a chain continues from its checkpoint.  `collected` reads the
records in a later run.  An array task refuses to compute if the code or the libraries have changed meanwhile,
because its keys are those of the code at submission.
"""

import json
import math
import os
import pickle
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import cloudpickle
import psutil
import submitit
from submitit.core.core import Executor
from submitit.core.utils import DelayedSubmission, FailedJobError, JobPaths

from dplangevin.device import drawing, pick
from dplangevin.files import write
from dplangevin.pipeline.code import code_hash
from dplangevin.pipeline.environment import libraries, pinned
from dplangevin.pipeline.executor import CLUSTER, CallResults, Job, QueuedTask, Resources, attempted, workers

LARGEST = 1_000  # array tasks of a job: Slurm's default MaxArraySize is 1,001
MINUTES = 60  # time limit of an array task, which is queued again when it is reached
AGAIN = 20  # how often an array task may reach its time limit
LEAST = 2e9  # bytes of memory that are asked for at least
# states of Slurm in which an array task has ended
ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
    "TIMEOUT",
}  # fmt: skip
UNKNOWN = "no longer listed"


@dataclass(frozen=True)
class ArrayTask:
    """Some calls of a job: a callable for submitit.

    Parameters
    ----------
    job : Path of the pickled `Job`.
    code : mapping, what `versions` returned at submission.
    numbers : of the calls, in order.
    """

    job: Path
    code: Mapping[str, str]
    numbers: Sequence[int]

    def __call__(self) -> list[tuple[Sequence[str], Exception]]:
        """Make the calls and store their results; return keys and error of each call that failed."""
        os.environ.pop(CLUSTER, None)
        job: Job = cloudpickle.loads(self.job.read_bytes())
        here = versions(job.code)
        if wrong := [name for name, was in self.code.items() if here.get(name) != was]:
            changes = ", ".join(f"{name} {here.get(name)}, was {self.code[name]}" for name in wrong)
            raise ValueError(f"this is no longer what was submitted: {changes}")
        failed: list[tuple[Sequence[str], Exception]] = []
        with pinned():
            for number in self.numbers:
                if job.results.has(number):
                    continue
                done = attempted(job.function, number, job.arguments[number])
                if done.error is not None:
                    failed.append((job.results.keys[number], done.error))
                elif not job.results.has(number):  # no other process has stored it meanwhile
                    job.results.keep(done)
        return failed

    def checkpoint(self) -> DelayedSubmission:
        """Return what is to be done after this was interrupted: the same."""
        return DelayedSubmission(self)


def versions(code: Sequence[str]) -> dict[str, str]:
    """Return what rows depend on beside their parameters and data, as it is in this process.

    These are Python, libraries, the code that `code` reaches, and the kind of device that draws random numbers.
    """
    return {**libraries(), "code": code_hash(*code)[:12], "random numbers": drawing(pick()).type}


def submitted(site: str, job: Job, numbers: Sequence[int], resources: Resources) -> list[QueuedTask]:
    """Submit calls of a job as an array, and return its array tasks.

    Parameters
    ----------
    site : str, one of `executor.QUEUES`.
    numbers : of the calls.

    Raises
    ------
    ValueError : Slurm is not there, or it refuses the job.
    """
    if not numbers:
        return []
    folder = job.results.store.jobs.absolute()
    if site == "slurm" and shutil.which("sbatch") is None:
        raise ValueError(
            f"{CLUSTER} = 'slurm', but there is no sbatch on PATH: run this on a login node of the cluster"
        )
    most = workers() if site != "slurm" or os.environ.get("DPL_WORKERS") else LARGEST
    count = min(most, len(numbers))
    parts = [numbers[start::count] for start in range(count)]
    content = cloudpickle.dumps(job)
    path = folder / f"{uuid.uuid4().hex}.pickle"
    write(folder, {path.name: content})
    code = versions(job.code)
    try:
        made = executor(site, folder, resources, count).submit_array(
            [ArrayTask(path, code, each) for each in parts]
        )
    except FailedJobError as error:
        path.unlink()
        lines = [line.removeprefix("sbatch: error: ") for line in str(error).splitlines() if line]
        raise ValueError(f"Slurm refuses the job: {'; '.join(lines) or 'sbatch gives no reason'}") from error
    names = [each.job_id for each in made]
    keys = [list(chain.from_iterable(job.results.keys[number] for number in each)) for each in parts]
    record(folder / f"{names[0].partition('_')[0]}.json", site, path, dict(zip(names, keys, strict=True)))
    return [QueuedTask(name, "SUBMITTED", own) for name, own in zip(names, keys, strict=True)]


def executor(site: str, folder: Path, resources: Resources, count: int) -> Executor:
    """Return submitit's executor.

    Slurm's own variables, such as SBATCH_PARTITION and SBATCH_TIMELIMIT, override what this asks for.

    Parameters
    ----------
    site : str, one of `executor.QUEUES`.
    folder : Path, where submitit writes its files.
    resources : Resources of a call; only Slurm uses it.
    count : int, how many array tasks may run at the same time; only Slurm uses it.
    """
    if site != "slurm":
        local = submitit.LocalExecutor(folder, max_num_timeout=AGAIN)
        local.update_parameters(timeout_min=MINUTES)
        return local
    made = submitit.SlurmExecutor(folder, max_num_timeout=AGAIN)
    made.update_parameters(
        job_name="dplangevin",
        time=MINUTES,
        mem=f"{math.ceil(max(resources.memory, LEAST) / 1e6)}M",
        cpus_per_task=1,
        array_parallelism=count,
        additional_parameters={"requeue": True},
    )
    return made


def record(path: Path, site: str, job: Path, parts: Mapping[str, Sequence[str]]) -> None:
    """Write which array tasks of a job are not collected, with the keys of their tasks.

    Parameters
    ----------
    path : Path of the record.
    site : str, one of `executor.QUEUES`.
    job : Path of the pickled `Job`.
    parts : mapping of the name of each array task to the keys of its tasks.
    """
    content = {"site": site, "job": job.name, "parts": parts}
    write(path.parent, {path.name: json.dumps(content, indent=1).encode()})


def collected(results: CallResults) -> tuple[list[QueuedTask], dict[str, Exception]]:
    """Return the array tasks that have not ended, and errors by the keys of tasks that failed.

    An error is returned once: a record of an array task that has ended is deleted.

    Raises
    ------
    ValueError : Slurm does not answer, or is not on this machine.
    """
    waiting, failed = list[QueuedTask](), dict[str, Exception]()
    asked = set(chain.from_iterable(results.keys))
    for path in sorted(results.store.jobs.glob("*.json")):
        content, left = json.loads(path.read_bytes()), dict[str, Sequence[str]]()
        try:
            states = STATES[content["site"]](content["parts"])
        except FileNotFoundError as absent:
            raise ValueError(
                f"{os.path.relpath(path)} records a job of Slurm, but there is no squeue on PATH: run this on a "
                f"login node of the cluster, or delete {os.path.relpath(path.parent)} to compute its tasks here"
            ) from absent
        for name, keys in content["parts"].items():
            if (state := states.get(name, UNKNOWN)) not in (*ENDED, UNKNOWN):
                left[name] = keys
                if wanted := [each for each in keys if each in asked and not results.store.find(each)]:
                    waiting.append(QueuedTask(name, state, wanted))
                continue
            for own, error in errors(JobPaths(path.parent, name), keys, state):
                failed |= {each: error for each in own if not results.store.find(each)}
        if left and not asked & set(chain.from_iterable(left.values())):
            print(
                f"no stage needs the tasks of job {path.stem} any more; to cancel it: scancel {path.stem}",
                file=sys.stderr,
            )
        if left:
            record(path, content["site"], path.with_name(content["job"]), left)
        else:
            path.unlink()
            path.with_name(content["job"]).unlink(missing_ok=True)
    return waiting, failed


def errors(paths: JobPaths, keys: Sequence[str], state: str) -> Iterator[tuple[Sequence[str], Exception]]:
    """Yield keys and error of the calls of an array task that failed, from what submitit wrote.

    Parameters
    ----------
    paths : JobPaths, submitit's files of the array task.
    keys : keys of its tasks.
    state : str, its state, for the message.
    """
    try:
        outcome, found = pickle.loads(paths.result_pickle.read_bytes())
    except FileNotFoundError:
        outcome, found = "error", f"it ended without a result ({state})"
    except Exception as error:  # the file is damaged, or the class of an error in it has another name now
        outcome, found = "error", f"its result cannot be read ({type(error).__name__}: {error})"
    if outcome == "success":
        yield from found
    else:
        reason = str(found).strip().splitlines()[-1]
        log = f"; its log is {os.path.relpath(paths.stderr)}" if paths.stderr.exists() else ""
        yield keys, ValueError(f"array task {paths.job_id}: {reason}{log}")


def of_slurm(names: Mapping[str, Any]) -> dict[str, str]:
    """Return the states of all array tasks of this user that Slurm lists.

    Raises
    ------
    ValueError : Slurm does not answer.
    FileNotFoundError : There is no squeue.
    """
    # without settings of this user such as SQUEUE_PARTITION, which would hide array tasks that run
    env = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
    command = ["squeue", "--me", "--array", "--noheader", "--states=all", "--format=%i|%T"]
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise
    except (OSError, subprocess.CalledProcessError) as error:
        reason = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1]
        raise ValueError(f"squeue failed: {reason}") from error
    pairs = (line.partition("|") for line in done.stdout.split())
    return {name: state for name, _, state in pairs}


def of_processes(names: Mapping[str, Any]) -> dict[str, str]:
    """Return the states of those local jobs that run; their names are process numbers."""
    states = {}
    for name in names:
        try:
            process = psutil.Process(int(name))
            if "submitit.local._local" in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                states[name] = "RUNNING"
        except psutil.Error:
            continue
    return states


STATES = {"slurm": of_slurm, "local-submitit": of_processes}
