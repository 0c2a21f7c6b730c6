"""A Hydra plugin that DVC loads (`hydra.plugins_path` in .dvc/config): before `dvc exp run -S` composes it names a file
of conf/ that is no sound YAML, with the line; a key that does not exist, with the near ones; and a number that would
become 0 or infinite."""

import sys
from collections.abc import Iterator, Sequence

from dvc.exceptions import InvalidArgumentError
from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from dplangevin.config import PARAMS, keys_of, load, sound_files
from dplangevin.text import meant
from dplangevin.yaml_file import ConfigError, inexact


def overridden(argv: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Key and value of what `-S` or `--set-param` of a command line sets in params.yaml."""
    for flag, following in zip(argv, [*argv[1:], ""], strict=True):
        name, has_value, value = flag.partition("=")
        if flag in ("-S", "--set-param"):
            value = following
        elif flag.startswith("-S"):
            value = flag[2:]
        elif not (name == "--set-param" and has_value):
            continue
        key, _, value = value.removeprefix(f"{PARAMS}:").partition("=")
        if key and ":" not in key:
            yield key, value


class Spelling(SearchPathPlugin):
    """Called before DVC composes the configuration; leaves the search path as it is."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        given = list(overridden(sys.argv)) if sys.argv[1:2] == ["exp"] else []
        try:
            sound_files()
            known = keys_of(load()) if given else set()
        except ConfigError as error:
            raise InvalidArgumentError(str(error)) from error
        for key, value in given:
            group = "@" in key  # which file: experiment@experiment.sweep
            if key[0] not in "+~" and not group and key not in known:
                raise InvalidArgumentError(f"conf/ has no {key}{meant(key, known)}")
            if why := inexact(value):
                raise InvalidArgumentError(f"{key}: {why}")
