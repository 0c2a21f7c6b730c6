"""The hash of the code that a task or stage can reach: syntax trees, without docstrings, of modules and imports."""

import ast
import hashlib
import json
import re
import sys
from collections.abc import Iterable
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

PACKAGE = __name__.partition(".")[0]
SOURCES = Path(__file__).parents[2]
DOCUMENTED = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef  # may have a docstring
SILENT = "ctx", "kind", "type_comment"  # fields of nodes that change no meaning
# modules that read and check settings, store and start tasks, and determine no number: settings are a part of each key
KEEPERS = (
    f"{PACKAGE}.files",
    *(f"{PACKAGE}.pipeline.{name}" for name in ("cache", "code", "config", "executor", "schema", "validate")),
)
# what plans and prices a run, and attacks it: it determines no score of a plan whose numbers are given
PRICING = (f"{PACKAGE}.privacy", f"{PACKAGE}.attacks", f"{PACKAGE}.methods.pricing")


def targets(*configs: Any) -> list[str]:
    """Return every `_target_` anywhere in configs of plain dicts and lists, sorted."""
    return sorted({*re.findall(r'"_target_": "([^"]+)"', json.dumps(configs))})


@cache
def code_hash(*names: str, without: tuple[str, ...] = ()) -> str:
    """Return the SHA-256 of what these modules, or the modules of these objects, can reach."""
    trees = "".join(f"{name} {tree}\n" for name, tree in sorted(reachable(names, without).items()))
    return hashlib.sha256(trees.encode()).hexdigest()


@cache
def package_hash() -> str:
    """Return the SHA-256 of all files of this package; an edit after this call changes no hash in this process."""
    sources = map(_source, sorted((SOURCES / PACKAGE).rglob("*.py")))
    return hashlib.sha256(b"".join(sources)).hexdigest()


def reachable(names: Iterable[str], without: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the hashes, by name, of the modules of `names` and all that they import, but `KEEPERS` and `without`."""
    trees, todo, left_out = dict[str, str](), [*names], (*KEEPERS, *without)
    while todo:
        for name, path in _modules(todo.pop()):
            if name not in trees and not any(f"{name}.".startswith(f"{each}.") for each in left_out):
                trees[name], imports = _read(name, path)
                todo += imports
    return trees


@cache
def _modules(name: str) -> list[tuple[str, Path]]:
    """Return name and file of an object's module and the packages around it; not of `dplangevin` or a library."""
    words, found = name.split("."), []
    own = words[0] == PACKAGE
    for n in range(own, len(words)) if words[0] not in sys.stdlib_module_names else ():
        places = [at / "/".join(words[: n + 1]) for at in ([SOURCES] if own else map(Path, sys.path))]
        paths = (path for at in places for path in (at / "__init__.py", at.with_name(f"{at.name}.py")))
        path = next(filter(Path.is_file, paths), None)
        if path and (own or not {"site-packages", "dist-packages"} & {*path.parts}):
            found.append((".".join(words[: n + 1]), path))
    return found


_source = cache(Path.read_bytes)


@cache
def _read(name: str, path: Path) -> tuple[str, set[str]]:
    """Return the SHA-256 of a module's syntax tree, the same under every version of Python, and what it imports."""
    names, tree = set[str](), ast.parse(_source(path))
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            names.update([base, *(f"{base}.{alias.name}" for alias in node.names)])
    return hashlib.sha256(repr(_content(tree)).encode()).hexdigest(), names


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
