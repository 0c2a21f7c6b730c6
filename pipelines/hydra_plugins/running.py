"""A Hydra plugin that DVC loads (`hydra.plugins_path` in .dvc/config): `dvc exp run` holds the lock of a run before it
writes params.yaml, as `make repro` does."""

import sys

from dvc.exceptions import InvalidArgumentError
from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from dplangevin import lock


class Running(SearchPathPlugin):
    """Called before DVC composes the configuration; leaves the search path as it is."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        if sys.argv[1:2] == ["exp"]:
            try:
                lock.hold(" ".join(["dvc", *sys.argv[1:]]))
            except lock.LockError as error:
                raise InvalidArgumentError(str(error)) from error
