"""How a stage ends: 0; 69 where no source of its data can be reached and has them, which `make repro` excuses; 1 for
any other failure."""

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from summary import UNAVAILABLE

from dplangevin.cache import with_fix
from dplangevin.config import ConfigError
from dplangevin.data import DataError
from dplangevin.data.fetch import DataUnavailable

LOG = "DPL_LOG"  # environment: a folder for what `pipelines/summary.py` says of a run


def finish(work: Callable[[], object], name: str = "") -> int:
    """Do the work of a stage; its exit status."""
    try:
        work()
    except Exception as error:  # a method from anywhere can raise anything
        if isinstance(error, OSError):
            error = with_fix(error)
        elif not isinstance(error, (ConfigError, DataError, ValueError)):
            traceback.print_exception(error)
        print(f"{name}: {error}" if name else error, file=sys.stderr)
        if not isinstance(error, DataUnavailable):
            return 1
        if folder := os.environ.get(LOG):
            stage = os.environ.get("DVC_STAGE", "stage")
            Path(folder, f"{stage}.txt").write_text(f"{error}\n", encoding="utf-8")
        return UNAVAILABLE
    return 0
