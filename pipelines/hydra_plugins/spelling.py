"""Hydra plugin for DVC: it checks the overrides of `dvc exp run`, and registers `all` of conf/config.yaml.

DVC loads it because of `hydra.plugins_path` in .dvc/config. The check runs before DVC writes params.yaml or queues an
experiment, so a misspelt key, an unusable value, or an invalid YAML file in conf/ changes nothing. If Hydra cannot
parse a value, such as `[1,`, DVC itself reports it: it parses `-S` before it loads a plugin.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from dvc.exceptions import InvalidArgumentError
from dvc.utils.hydra import get_hydra_sweeps, to_hydra_overrides
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.plugins.search_path_plugin import SearchPathPlugin

from dplangevin.pipeline.config import PARAMS, ConfigError, register

TRY = ("sh", "pipelines/python.sh", "-m", "dplangevin.pipeline.config")


def overridden(argv: Sequence[str]) -> Iterator[str]:
    """Yield the KEY=VALUE pairs that `-S` or `--set-param` of a command line set in params.yaml."""
    for flag, following in zip(argv, [*argv[1:], ""], strict=True):
        name, has_value, value = flag.partition("=")
        if flag in ("-S", "--set-param"):
            value = following
        elif flag.startswith("-S"):
            value = flag[2:]
        elif not (name == "--set-param" and has_value):
            continue
        text = value.removeprefix(f"{PARAMS}:")
        if ":" not in text.partition("=")[0]:  # skip values of other files
            yield text


class Spelling(SearchPathPlugin):
    """Acts before DVC composes the configuration, for each point of a queue; leaves the search path unchanged."""

    checked = False

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        if {"exp", "experiments"} & {*sys.argv[1:]} and not Spelling.checked:
            Spelling.checked = True
            check(list(overridden(sys.argv)))
        for entry in search_path.get_path():
            if entry.provider == "main" and "all.yaml" not in ConfigStore.instance().repo:
                try:
                    register(Path(entry.path.removeprefix("file://")))
                except ConfigError as error:
                    raise InvalidArgumentError(str(error)) from error


def check(given: list[str]) -> None:
    """Raise InvalidArgumentError for overrides, or choices of a queue, that an experiment cannot use."""
    points, overrides = [given], to_hydra_overrides(given)
    if any(each.is_sweep_override() for each in overrides):
        keys = [each.key_or_group for each in overrides]
        if twice := sorted({key for key in keys if keys.count(key) > 1}):  # issue 3106 of Hydra
            raise InvalidArgumentError(
                f"{', '.join(twice)} is set twice, and a queue would only use the last: give all choices in one -S"
            )
        points = [point[PARAMS] for point in get_hydra_sweeps({PARAMS: given})]
    words = [word for point in points for word in ("--try", *point)]
    done = subprocess.run([*TRY, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise InvalidArgumentError(done.stderr.strip())
