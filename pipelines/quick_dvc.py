"""Two files that DVC reads again for every stage, read once: with a hundred stages that took most of the driver's time.

params.yaml is parsed once, and a key is looked up along its path, where DVC walks the whole file. dvc.lock is kept in
memory between writes; DVC's own writer makes its bytes, and it is replaced as a whole. Nobody else writes either file
meanwhile, since DVC's lock on the repository is held.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from dvc import dvcfile
from dvc.dependency import param
from dvc.fs import FileSystem
from dvc.utils.serialize import _yaml, load_yaml

from dplangevin.data import atomic_path

_ABSENT = object()


def install() -> None:
    """Replace DVC's reader of parameters and its way to change a YAML file, in this process."""
    param.read_param_file = _reader(param.read_param_file)
    dvcfile.modify_yaml = _modifier()


def _reader(original: Any) -> Any:
    whole = cache(param.load_path)

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

    return read


def _at(tree: Any, key: str) -> Any:
    """The value at a dotted key, or _ABSENT."""
    for name in key.split("."):
        if not isinstance(tree, dict) or name not in tree:
            return _ABSENT
        tree = tree[name]
    return tree


def _modifier() -> Any:
    known: dict[str, Any] = {}

    @contextmanager
    def modify(path: str, fs: FileSystem) -> Iterator[Any]:
        if path not in known:
            known[path] = load_yaml(path, fs=fs) if fs.exists(path) else {}
        yield known[path]
        with atomic_path(path) as part:  # DVC writes in place: an interrupt would leave half a file
            part.write_text(_yaml.dumps_yaml(known[path]), encoding="utf-8")

    return modify
