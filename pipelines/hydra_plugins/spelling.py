"""A Hydra plugin that DVC loads (`hydra.plugins_path` in .dvc/config): before `dvc exp run` writes params.yaml or
queues anything, `python -m dplangevin.config --try` composes and checks what it would set.

So a misspelt key, a value that cannot be used, and a file of conf/ that is no sound YAML change nothing here.  Where
Hydra cannot read a value, such as `[1,`, DVC answers itself: it parses `-S` before it loads a plugin.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence

from dvc.exceptions import InvalidArgumentError
from dvc.utils.hydra import get_hydra_sweeps, to_hydra_overrides
from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from dplangevin.config import PARAMS

TRY = ("sh", "pipelines/python.sh", "-m", "dplangevin.config")


def overridden(argv: Sequence[str]) -> Iterator[str]:
    """What `-S` or `--set-param` of a command line sets in params.yaml, as KEY=VALUE."""
    for flag, following in zip(argv, [*argv[1:], ""], strict=True):
        name, has_value, value = flag.partition("=")
        if flag in ("-S", "--set-param"):
            value = following
        elif flag.startswith("-S"):
            value = flag[2:]
        elif not (name == "--set-param" and has_value):
            continue
        text = value.removeprefix(f"{PARAMS}:")
        if ":" not in text.partition("=")[0]:  # of another file
            yield text


class Spelling(SearchPathPlugin):
    """Called before DVC composes the configuration, once for each point of a queue; leaves the search path as it is."""

    checked = False

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        if Spelling.checked or not {"exp", "experiments"} & {*sys.argv[1:]}:
            return
        Spelling.checked = True
        given = list(overridden(sys.argv))
        if any(each.is_sweep_override() for each in to_hydra_overrides(given)):
            points = [point[PARAMS] for point in get_hydra_sweeps({PARAMS: given})]
        else:
            points = [given]
        words = [word for point in points for word in ("--try", *point)]
        done = subprocess.run([*TRY, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise InvalidArgumentError(done.stderr.strip())
