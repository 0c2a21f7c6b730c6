"""Waiting for what other processes do."""

import time
from collections.abc import Callable


def until(true: Callable[[], object]) -> None:
    """Wait for an event, however slow the machine is; what never happens is ended by the time limit of the test."""
    while not true():
        time.sleep(0.05)
