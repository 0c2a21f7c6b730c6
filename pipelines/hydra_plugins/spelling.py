"""A Hydra plugin that DVC loads (`hydra.plugins_path` in .dvc/config): `dvc exp run -S` of a key that does not exist
names the near ones, where Hydra would only say how to append it."""

import sys
from collections.abc import Iterator, Sequence

from dvc.exceptions import InvalidArgumentError
from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from dplangevin.config import PARAMS, keys_of, load
from dplangevin.text import meant


def overridden(argv: Sequence[str]) -> Iterator[str]:
    """The keys that `-S` or `--set-param` of a command line sets in params.yaml; those with `+` or `~` are not meant to
    be there."""
    for flag, following in zip(argv, [*argv[1:], ""], strict=True):
        name, has_value, value = flag.partition("=")
        if flag in ("-S", "--set-param"):
            value = following
        elif flag.startswith("-S"):
            value = flag[2:]
        elif not (name == "--set-param" and has_value):
            continue
        key = value.removeprefix(f"{PARAMS}:").partition("=")[0]
        if key and ":" not in key and key[0] not in "+~":
            yield key


class Spelling(SearchPathPlugin):
    """Called before DVC composes the configuration; leaves the search path as it is."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        keys = list(overridden(sys.argv)) if sys.argv[1:2] == ["exp"] else []
        known = keys_of(load()) if keys else set()
        for key in keys:
            if key not in known:
                raise InvalidArgumentError(f"conf/ has no {key}{meant(key, known)}")
