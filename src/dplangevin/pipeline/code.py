"""The hash of the code that a task or stage can reach: syntax trees, without docstrings, of modules and imports."""

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
    """Return the SHA-256 of what these modules, or the modules of these objects, can reach, but `KEEPERS`."""
    files = sorted(reachable(names, without).items())
    trees = "".join(f"{name} {_tree_hash(path)}\n" for name, path in files if name not in KEEPERS)
    return hashlib.sha256(trees.encode()).hexdigest()


@cache
def package_hash() -> str:
    """Return the SHA-256 of all files of this package; an edit after this call changes no hash in this process."""
    sources = map(_source, sorted((SOURCES / PACKAGE).rglob("*.py")))
    return hashlib.sha256(b"".join(sources)).hexdigest()


def reachable(names: Iterable[str], without: tuple[str, ...] = ()) -> dict[str, Path]:
    """Return the source files, by module name, of the modules of `names` and of what these import; not of `without`."""
    files: dict[str, Path] = {}
    todo = [module for name in names for module in _modules(name)]
    while todo:
        name, path = todo.pop()
        if name in files or any(f"{name}.".startswith(f"{each}.") for each in without):
            continue
        files[name] = path
        if name not in KEEPERS:
            todo += [module for imported in _imports(name, path) for module in _modules(imported)]
    return files


@cache
def _modules(name: str) -> list[tuple[str, Path]]:
    """Return name and file of an object's module and of the packages around it, not of `dplangevin` or a library."""
    words = name.split(".")
    if words[0] in sys.stdlib_module_names:
        return []
    prefixes = [".".join(words[: n + 1]) for n in range(words[0] == PACKAGE, len(words))]
    return [(prefix, path) for prefix in prefixes if (path := _file(prefix))]


def _file(name: str) -> Path | None:
    """Return the source file of a module, found without importing anything; None if an installed library has it."""
    own = name.partition(".")[0] == PACKAGE
    ends = [name.replace(".", "/") + end for end in ("/__init__.py", ".py")]
    paths = (at / end for at in ([SOURCES] if own else map(Path, sys.path)) for end in ends)
    path = next(filter(Path.is_file, paths), None)
    return None if path and not own and {"site-packages", "dist-packages"} & {*path.parts} else path


_source = cache(Path.read_bytes)
_parsed = cache(ast.parse)


@cache
def _imports(name: str, path: Path) -> list[str]:
    names: set[str] = set()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(_parsed(_source(path))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            names.update([base, *(f"{base}.{alias.name}" for alias in node.names)])
    return sorted(names)


@cache
def _tree_hash(path: Path) -> str:
    """Return the SHA-256 of a file's syntax tree without docstrings, the same under every version of Python."""
    return hashlib.sha256(repr(_content(_parsed(_source(path)))).encode()).hexdigest()


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
