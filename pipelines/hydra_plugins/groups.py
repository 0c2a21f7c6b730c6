"""Hydra plugin for DVC that lets `all` in conf/config.yaml stand for the files of its folders, as `make repro` does.

DVC loads it because of `hydra.plugins_path` in .dvc/config.
"""

from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from dplangevin.pipeline.config import register


class Groups(SearchPathPlugin):
    """Registers the files of the folder that DVC composes; leaves the search path unchanged."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for entry in search_path.get_path():
            if entry.provider == "main":
                register(Path(entry.path.removeprefix("file://")))
