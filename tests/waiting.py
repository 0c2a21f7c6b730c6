"""Waiting for what other processes do."""

import time
from collections.abc import Callable

SOON = 120.0  # seconds that something may take on a loaded machine


def until(true: Callable[[], object], seconds: float = SOON) -> None:
    last = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < last, "it did not happen"
        time.sleep(0.05)
