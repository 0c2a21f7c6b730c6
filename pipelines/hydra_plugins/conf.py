"""Hydra plugin for DVC, which loads it because of `hydra.plugins_path` in .dvc/config.

It registers `all` of conf/config.yaml, and makes `dvc exp run` take the lock of a run before it writes params.yaml.
"""

import sys
from contextlib import ExitStack
from pathlib import Path

from dvc.exceptions import InvalidArgumentError
from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from dplangevin.pipeline import lock
from dplangevin.pipeline.config import ConfigError, register

HELD = ExitStack()  # the lock, until this process ends


class Conf(SearchPathPlugin):
    """Acts before DVC composes the configuration; leaves the search path unchanged."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        try:
            if {"exp", "experiments"} & {*sys.argv[1:]}:
                HELD.enter_context(lock.run(" ".join(["dvc", *sys.argv[1:]])))
            for entry in search_path.get_path():
                if entry.provider == "main":
                    register(Path(entry.path.removeprefix("file://")))
        except (ConfigError, lock.LockError) as error:
            raise InvalidArgumentError(str(error)) from error
