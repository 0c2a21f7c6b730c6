"""Hydra plugin for DVC, which loads it because of `hydra.plugins_path` in .dvc/config."""

import sys
from contextlib import ExitStack
from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from dplangevin.pipeline import lock
from dplangevin.pipeline.config import register

HELD = ExitStack()  # the lock, until this process ends


class Conf(SearchPathPlugin):
    """Registers `all` of conf/config.yaml, and locks before `dvc exp run` writes params.yaml under another run."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        if {"exp", "experiments"} & {*sys.argv[1:]}:
            HELD.enter_context(lock.run(" ".join(["dvc", *sys.argv[1:]])))
        for entry in search_path.get_path() if "dvc" in sys.modules else ():  # `compose` has registered it
            if entry.provider == "main":
                register(Path(entry.path.removeprefix("file://")))
