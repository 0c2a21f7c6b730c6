"""Hydra plugin for DVC that makes `dvc exp run` take the lock of a run before it writes params.yaml.

`make repro` does the same. DVC loads the plugin because of `hydra.plugins_path` in .dvc/config. When
`dvc exp run` ends, git notices the new params.yaml, even if no stage started (`config.visible`).
"""

import atexit
import sys
from pathlib import Path

from dvc.exceptions import InvalidArgumentError
from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from dplangevin.pipeline import lock
from dplangevin.pipeline.config import visible


class Running(SearchPathPlugin):
    """Takes the lock before DVC composes the configuration; leaves the search path unchanged."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        if {"exp", "experiments"} & {*sys.argv[1:]}:
            if not Path(".dvc").is_dir():  # DVC would write params.yaml here
                raise InvalidArgumentError(
                    "`dvc exp run` works in the top folder of the repository only: cd there"
                )
            try:
                lock.HELD.enter_context(lock.run(" ".join(["dvc", *sys.argv[1:]])))
            except lock.LockError as error:
                raise InvalidArgumentError(str(error)) from error
            atexit.register(visible)
