"""params.yaml parsed once: DVC reads it anew for every stage, and walks all of it for every key.

Half of the seconds of a run with nothing to do went there. Within one run of the driver the file does not change.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from dvc.dependency import param
from dvc.fs import FileSystem


def install() -> None:
    """Replace DVC's reader of parameters for this process."""
    whole = cache(param.load_path)
    original = param.read_param_file

    def read(
        fs: FileSystem,
        path: str,
        key_paths: Sequence[str] | None = None,
        flatten: bool = False,
        **kwargs: Any,
    ) -> Any:
        if not (key_paths and flatten) or kwargs:
            return original(fs, path, key_paths, flatten, **kwargs)
        found = {key: _at(whole(path, fs), key) for key in key_paths}
        return {key: value for key, value in found.items() if value is not _ABSENT}

    param.read_param_file = read


_ABSENT = object()


def _at(tree: Any, key: str) -> Any:
    """The value at a dotted key, or _ABSENT."""
    for name in key.split("."):
        if not isinstance(tree, dict) or name not in tree:
            return _ABSENT
        tree = tree[name]
    return tree
