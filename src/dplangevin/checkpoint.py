"""The state of an unfinished computation on disk, so that a kill at any moment loses little of it."""

import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from dplangevin.data import atomic_path


class Checkpoint:
    """A file that holds the latest state of one computation, written whole or not at all.

    key: a hash of all that decides the computation; the state of another is never picked up.  every: seconds between
    two writes, which a kill costs at most.  A state is a dict of tensors, numbers, texts and lists of those; it must
    determine all that follows, the generator's state included, so that a resumed run ends in the same bytes.
    """

    def __init__(self, path: Path, key: str, every: float = 30.0) -> None:
        self.path, self.key, self.every = path, key, every
        self.written = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """The latest state; None if there is none, if it belongs to another computation, or if it is damaged."""
        try:
            found = torch.load(self.path, map_location="cpu", weights_only=True)
        except (OSError, EOFError, RuntimeError, pickle.UnpicklingError):
            return None
        return found["state"] if isinstance(found, dict) and found.get("key") == self.key else None

    def save(self, make: Callable[[], dict[str, Any]], force: bool = False) -> None:
        """Write what `make` returns if `every` seconds have passed since the last write, or if forced."""
        if force or time.monotonic() - self.written >= self.every:
            with atomic_path(self.path) as part:
                torch.save({"key": self.key, "state": make()}, part)
            self.written = time.monotonic()

    def remove(self) -> None:
        """Delete the file, once the computation is finished and its result kept."""
        self.path.unlink(missing_ok=True)
