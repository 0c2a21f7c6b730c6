"""A table of one's own: time and memory of reading it, beside pandas, and of `dplangevin compare` on all its rows."""

import os
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from measure import ROOT, Options, Row, medians, timed, verdict

from dplangevin.data import columns

ROWS, NUMBERS, SMALL = 300_000, 15, 600
MEMORY = 1.0  # GB of the largest process, at most


def rows(options: Options) -> list[Row]:
    with TemporaryDirectory() as folder:
        path = made(Path(folder) / "large.csv", ROWS)
        found = [reading(options, path), compared(options, path, ROWS, "--quick")]
        found.append(compared(options, made(Path(folder) / "small.csv", SMALL), SMALL))
        return [*found, compared(options, path, ROWS)] if options.full else found


def made(path: Path, count: int) -> Path:
    """A table of numbers, a category and two classes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, NUMBERS)).round(3)
    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(NUMBERS)])
    frame["ward"] = rng.choice(list("ABC"), count)
    frame["y"] = np.where(x[:, 0] - x[:, 1] + rng.logistic(size=count) > 0, "ill", "well")
    frame.to_csv(path, index=False)
    return path


def reading(options: Options, path: Path) -> Row:
    ours, pandas = medians(options.runs, lambda: columns.read(path), lambda: pd.read_csv(path, dtype=str))
    return Row(
        f"every column of {ROWS:,} rows: kind, range, missing values",
        f"{ours:.1f} s",
        f"pandas {pandas:.1f} s",
        f"{ours / pandas:.1f} times as long",
        "-",
        "-",
        "1",
        f"{NUMBERS + 2} columns, median of {options.runs} runs in turns; pandas: read_csv as texts, nothing checked",
    )


def compared(options: Options, path: Path, count: int, *words: str) -> Row:
    """One run of the command line, in a process of its own."""
    asked = ["compare", str(path), "--target", "y", "--ranges-from-data", "--seed", "0", *words]
    command = [
        sys.executable,
        "-m",
        "dplangevin.cli",
        *asked,
        "--out",
        str(path.parent / f"out{len(words)}{count}"),
    ]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    _, seconds = timed(lambda: subprocess.run(command, env=env, check=True, capture_output=True))
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20  # of the largest process so far
    return Row(
        f"compare, {count:,} rows, {'the quick methods' if words else 'all methods'}",
        f"{seconds:.0f} s",
        "-",
        f"{memory:.2f} GB in the largest process",
        f"< {MEMORY:g} GB",
        verdict(memory < MEMORY),
        "1",
        f"three ε, {3 if words else 10} repeats, {os.cpu_count()} processes; no peer compares at equal privacy",
    )
