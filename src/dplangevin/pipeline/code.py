"""The hash of the code that a task or a stage can reach, which is part of its key.

This code is the syntax trees, without docstrings, of the named modules and of all modules that these import.
So an edit of a comment changes no key, and an edit of a method changes the keys of all tasks that use it.
"""

import ast
import hashlib
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

PACKAGE = __name__.partition(".")[0]
SOURCES = Path(__file__).parents[2]
DOCUMENTED = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef  # may have a docstring
SILENT = "ctx", "kind", "type_comment"  # fields of nodes that change no meaning
# modules that read and check settings, store and start tasks, and determine no number: settings are a part of each key
KEEPERS = {
    __name__,
    f"{PACKAGE}.files",
    *(f"{PACKAGE}.pipeline.{name}" for name in ("cache", "config", "executor", "schema", "validate")),
}
# what plans and prices a run, and attacks it: it determines no score of a plan whose numbers are given
PRICING = (f"{PACKAGE}.privacy", f"{PACKAGE}.attacks", f"{PACKAGE}.methods.pricing")


def targets(*configs: Any) -> list[str]:
    """Return every `_target_` anywhere in configs of plain dicts and lists, sorted."""
    names: set[str] = set()
    for config in configs:
        if isinstance(config, Mapping):
            names |= {*filter(None, [config.get("_target_")]), *targets(*config.values())}
        elif isinstance(config, (list, tuple)):
            names.update(targets(*config))
    return sorted(names)


@cache
def code_hash(*names: str, without: tuple[str, ...] = ()) -> str:
    """Return the SHA-256 of the code that these modules, or the modules of these objects, can reach.

    It leaves out `KEEPERS`, the packages `without`, and all modules that only these import.
    """
    files = sorted(reachable(names, without).items())
    trees = "".join(f"{name} {_tree_hash(path)}\n" for name, path in files if name not in KEEPERS)
    return hashlib.sha256(trees.encode()).hexdigest()


def reachable(names: Iterable[str], without: tuple[str, ...] = ()) -> dict[str, Path]:
    """Return the source files, by module name, of the modules of `names` and of what these import; not of `without`.

    A module from outside this package also has its own top-level package, and the files next to it, followed; the
    imports of an installed library are not.
    """
    files: dict[str, Path] = {}
    todo = [module for name in names for module in _modules(name)]
    while todo:
        name, path = todo.pop()
        if name in files or any(f"{name}.".startswith(f"{each}.") for each in without):
            continue
        files[name] = path
        if name not in KEEPERS and not _installed(path):
            todo += [module for imported in _imports(name, path) for module in _modules(imported)]
    return files


@cache
def _modules(name: str) -> list[tuple[str, Path]]:
    """Return name and file of the module of an object, and of the packages around it; of a library, only the module.

    The top-level package of this project is left out, because it only names what users import.
    """
    words = name.split(".")
    prefixes = [".".join(words[: n + 1]) for n in range(words[0] == PACKAGE, len(words))]
    modules = [(prefix, path) for prefix in prefixes if (path := _file(prefix))]
    return modules[-1:] if modules and _installed(modules[-1][1]) else modules


def _file(name: str) -> Path | None:
    """Return the source file of a module, found without importing anything; None if it is Python's or nowhere."""
    top = name.partition(".")[0]
    folders = [SOURCES] if top == PACKAGE else map(Path, () if top in sys.stdlib_module_names else sys.path)
    ends = [name.replace(".", "/") + end for end in ("/__init__.py", ".py")]
    return next((path for at in folders for end in ends if (path := at / end).is_file()), None)


def _installed(path: Path | None) -> bool:
    """Return whether a file belongs to an installed library other than this package."""
    if path is None or path.is_relative_to(SOURCES / PACKAGE):
        return False
    return bool({"site-packages", "dist-packages"} & {*path.parts})


_parsed = cache(ast.parse)


@cache
def _imports(name: str, path: Path) -> list[str]:
    """Return the names that a module imports from its top package, this package, or files next to it."""
    names: set[str] = set()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(_parsed(path.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            names.update([base, *(f"{base}.{alias.name}" for alias in node.names)])
    followed = {name.partition(".")[0], PACKAGE}
    followed |= {top for each in names if not _installed(_file(top := each.partition(".")[0]))}
    return [each for each in names if each.partition(".")[0] in followed]


@cache
def _tree_hash(path: Path) -> str:
    """Return the SHA-256 of a file's syntax tree without docstrings, the same under every version of Python."""
    return hashlib.sha256(repr(_content(_parsed(path.read_bytes()))).encode()).hexdigest()


def _content(node: Any) -> Any:
    """Return a syntax tree as tuples, without docstrings and without what is empty."""
    if isinstance(node, list):
        return tuple(map(_content, node))
    if not isinstance(node, ast.AST):
        return node
    values = {name: getattr(node, name, None) for name in node._fields if name not in SILENT}
    if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
        values["body"] = node.body[1:]
    filled = ((name, _content(value)) for name, value in values.items() if value not in (None, []))
    return type(node).__name__, *filled
