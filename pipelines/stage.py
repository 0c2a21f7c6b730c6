"""How a stage ends: 0; 69 where no source has its data, which `make repro` excuses; 1 for any other failure."""

import os
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from summary import UNAVAILABLE

from dplangevin.config import ConfigError
from dplangevin.data import DataError
from dplangevin.data.fetch import DataUnavailable

LOG = "DPL_LOG"  # environment: a folder for what `pipelines/summary.py` says of a run


def finish(work: Callable[[], object], name: str = "") -> int:
    """Do the work of a stage; its exit status."""
    return finish_each([name], lambda _: work())


def finish_each(names: Iterable[str], work: Callable[[str], object]) -> int:
    """Do the work of a stage for each name; where one fails, the others are done all the same."""
    failed: list[Exception] = []
    for name in names:
        try:
            work(name)
        except Exception as error:  # a method from anywhere can raise anything
            if not isinstance(error, (ConfigError, DataError, FileNotFoundError, ValueError)):
                traceback.print_exception(error)
            print(f"{name}: {error}" if name else error, file=sys.stderr)
            failed.append(error)
    if not failed:
        return 0
    if not all(isinstance(error, DataUnavailable) for error in failed):
        return 1
    if folder := os.environ.get(LOG):
        reason = "\n".join(dict.fromkeys(map(str, failed)))
        Path(folder, f"{os.environ.get('DVC_STAGE', 'stage')}.txt").write_text(
            f"{reason}\n", encoding="utf-8"
        )
    return UNAVAILABLE
