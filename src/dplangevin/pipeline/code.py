"""The hash of the code that a task or a stage can reach, which is part of its key.

This code is the syntax trees, without docstrings, of the named modules and of all modules that these import.
So an edit of a comment changes no key, and an edit of a method changes the keys of all tasks that use it.
"""

import ast
import hashlib
import importlib.machinery
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

PACKAGE = __name__.partition(".")[0]
SOURCES = Path(__file__).parents[2]
LIBRARIES = {Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")}
LIBRARIES |= {folder.resolve() for folder in LIBRARIES}  # links may lead to them, or from them
LIBRARY_FOLDERS = {"site-packages", "dist-packages"}  # names of folders of libraries, wherever they lie
# modules that read and check settings, store and start tasks, and determine no number: settings are a part of each key
KEEPERS = {
    __name__,
    f"{PACKAGE}.files",
    *(f"{PACKAGE}.pipeline.{name}" for name in ("cache", "config", "executor", "schema", "validate")),
}
# what plans and prices a run, and attacks it: it determines no score of a plan whose numbers are given
PRICING = (f"{PACKAGE}.privacy", f"{PACKAGE}.attacks", f"{PACKAGE}.methods.prices")


def targets(*configs: Any) -> list[str]:
    """Return every `_target_` anywhere in configs of plain dicts and lists, sorted."""
    names: set[str] = set()
    for config in configs:
        if isinstance(config, Mapping):
            if isinstance(name := config.get("_target_"), str):
                names.add(name)
            names.update(targets(*config.values()))
        elif isinstance(config, (list, tuple)):
            names.update(targets(*config))
    return sorted(names)


def code_hash(*names: str, without: tuple[str, ...] = ()) -> str:
    """Return the SHA-256 of the code that these modules, or the modules of these objects, can reach.

    It leaves out the modules `KEEPERS`, which determine no number, the packages `without`, and all modules that only
    these import.
    """
    files = reachable(names, without)
    return _hash({name: path for name, path in files.items() if name not in KEEPERS})


def package_hash(*names: str) -> str:
    """Return the SHA-256 of all modules of this package and of the code that `names` can reach."""
    here = SOURCES / PACKAGE
    own = {str(path.relative_to(SOURCES)): path for path in here.rglob("*.py")}
    return _hash(own | {name: path for name, path in reachable(names).items() if path not in own.values()})


def _hash(files: Mapping[str, Path]) -> str:
    """Return the SHA-256 of module names with the syntax trees of their files."""
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        digest.update(f"{name} {_tree_hash(path)}\n".encode())
    return digest.hexdigest()


def reachable(names: Iterable[str], without: tuple[str, ...] = ()) -> dict[str, Path]:
    """Return the source files, by module name, of the modules of `names` and of what these import; not of `without`.

    Imports inside this package are followed, also those in functions.  In a module from outside this package, imports
    are followed inside its own top-level package or folder.  Imports of an installed library's module are not
    followed.
    """
    return dict(_reachable(frozenset(names), without))


@lru_cache
def _reachable(names: frozenset[str], without: tuple[str, ...]) -> tuple[tuple[str, Path], ...]:
    files: dict[str, Path] = {}
    todo = [module for name in names for module in _modules(name)]
    while todo:
        name = todo.pop()
        left_out = any(name == each or name.startswith(f"{each}.") for each in without)
        if name in files or left_out or (path := _file(name)) is None:
            continue
        files[name] = path
        if name not in KEEPERS and not _installed(path):
            todo += [module for imported in _imports(name, path) for module in _modules(imported)]
    return tuple(files.items())


def _modules(name: str) -> list[str]:
    """Return the module that `name` is or lies in, and the packages around it; of a library, only the module.

    The top-level package of this project is left out, because it only names what users import.
    """
    words = name.split(".")
    first = 2 if words[0] == PACKAGE else 1
    prefixes = [".".join(words[:n]) for n in range(first, len(words) + 1)]
    modules = [prefix for prefix in prefixes if _file(prefix)]
    return modules[-1:] if modules and _installed(_file(modules[-1])) else modules


@cache
def _file(name: str) -> Path | None:
    """Return the source file of a module, found without importing anything; None if there is none."""
    above, _, last = name.rpartition(".")
    if name.partition(".")[0] == PACKAGE:
        stem = SOURCES / Path(*name.split("."))
        files = (stem.with_suffix(".py"), stem / "__init__.py")
        return next((file for file in files if file.is_file()), None)
    if last == "" or (above and (parent := _file(above)) is None):
        return None
    path = [str(parent.parent)] if above and parent and parent.name == "__init__.py" else None
    if above and path is None:
        return None
    spec = importlib.machinery.PathFinder.find_spec(last, path)
    origin = spec.origin if spec else None
    return Path(origin) if origin and origin.endswith(".py") else None


def _installed(path: Path | None) -> bool:
    """Return whether a file belongs to Python or to an installed library other than this package."""
    if path is None or path.is_relative_to(SOURCES / PACKAGE):
        return False
    if not LIBRARY_FOLDERS.isdisjoint(path.parts):
        return True
    return any(each.is_relative_to(folder) for each in (path, path.resolve()) for folder in LIBRARIES)


@cache
def _parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_bytes(), filename=str(path))


@cache
def _imports(name: str, path: Path) -> tuple[str, ...]:
    """Return the names that a module imports from its top package, this package, or files next to it."""
    names: list[str] = []
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(_parsed(path)):
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [base])])
            imported = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        for module in imported:
            top = module.partition(".")[0]
            if top in (PACKAGE, name.partition(".")[0]) or not _installed(_file(top)):
                names.append(module)
    return tuple(names)


@cache
def _tree_hash(path: Path) -> str:
    """Return the SHA-256 of a file's syntax tree without docstrings, the same under every version of Python."""
    digest = hashlib.sha256()
    _feed(_parsed(path), digest.update)
    return digest.hexdigest()


def _feed(node: Any, take: Callable[[bytes], Any]) -> None:
    """Give a syntax tree, without docstrings, to `take` piece by piece."""
    if isinstance(node, ast.AST):
        take(f"{type(node).__name__}(".encode())
        for field in node._fields:
            value: Any = getattr(node, field, None)
            if field == "body" and _documented(node):
                value = value[1:]
            if value is None or value == [] or field in ("ctx", "kind", "type_comment"):
                continue
            take(f"{field}=".encode())
            _feed(value, take)
        take(b")")
    elif isinstance(node, list):
        take(b"[")
        for item in node:
            _feed(item, take)
            take(b",")
        take(b"]")
    else:
        take(repr(node).encode())


def _documented(node: ast.AST) -> bool:
    """Return whether a node of a syntax tree has a docstring."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None
