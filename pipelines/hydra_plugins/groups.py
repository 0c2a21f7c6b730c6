"""Hydra plugin for DVC that lets `all` in conf/config.yaml stand for the files of its folders, as `make repro` does.

DVC loads it because of `hydra.plugins_path` in .dvc/config. Hydra also loads it where pipelines/ is on the path.
There `config.compose` has registered the files itself.
"""

import sys
from pathlib import Path

from dvc.exceptions import InvalidArgumentError
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra_plugins.spelling import overridden

from dplangevin.pipeline.config import ConfigError, register


class Groups(SearchPathPlugin):
    """Registers the files of the folder that DVC composes; leaves the search path unchanged."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for entry in search_path.get_path():
            if entry.provider == "main" and "all.yaml" not in ConfigStore.instance().repo:
                try:
                    register(Path(entry.path.removeprefix("file://")), overridden(sys.argv))
                except ConfigError as error:
                    raise InvalidArgumentError(str(error)) from error
