"""A checkpoint that ends the run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dplangevin.files import Checkpoint


class Stop(BaseException):
    """In place of a signal: nothing catches it."""


class Stopping(Checkpoint):
    """Writes its state at the save of this number and stops there, as a kill right after a write does."""

    def __init__(self, path: Path, at: int) -> None:
        super().__init__(path, "key")
        self.left = at

    def save(self, make: Callable[[], dict[str, Any]], force: bool = False) -> None:
        self.left -= 1
        if not self.left:
            super().save(make, force=True)
            raise Stop
