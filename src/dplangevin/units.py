"""Finished pieces of work on disk, so that an interrupted run goes on where it stopped.

A piece is kept under the hash of all that went into it, the package's sources included, so a run with other
parameters, data or code never picks up old numbers.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from dplangevin.data import atomic_path


def kept(folder: Path, inputs: Any, compute: Callable[[], pd.DataFrame]) -> Path:
    """The CSV file of a piece of work in `folder`, computed unless it is there. inputs: JSON-like, what decides it."""
    key = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:32]
    done = folder / f"{key}.csv"
    if not done.exists():
        rows = compute()
        with atomic_path(done) as part:
            rows.to_csv(part, index=False)
    return done


def code_hash() -> str:
    """SHA-256 of the package's sources."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.relative_to(Path(__file__).parent).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
