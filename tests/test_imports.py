"""The modules of the package, and its folders, import one another without a circle."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "dplangevin"


def modules(root: Path) -> dict[str, Path]:
    """Every module of the package in `root` by its dotted name."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = [root.name, *path.relative_to(root).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def at_import(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements that run when a module is imported: not those in functions or under TYPE_CHECKING."""
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield statement
        elif isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            yield from at_import(statement.orelse)
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            for field in ("body", "orelse", "finalbody"):
                yield from at_import(getattr(statement, field, []))
            for handler in getattr(statement, "handlers", []):
                yield from at_import(handler.body)


def imported(module: str, path: Path, known: dict[str, Path]) -> set[str]:
    """The package's modules that `module` needs to be there when it is imported.

    To import a.b.c runs a and a.b too, except from within them, where they have begun.
    """
    found = set()
    for statement in at_import(ast.parse(path.read_text()).body):
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        else:
            assert statement.level == 0, f"{module} imports relatively: write the whole name"
            base = statement.module or ""
            each = [f"{base}.{alias.name}" for alias in statement.names]
            names = [name if name in known else base for name in each]
        for name in names:
            parts = name.split(".")
            parents = [".".join(parts[:i]) for i in range(1, len(parts))]
            needed = [name, *(p for p in parents if not f"{module}.".startswith(f"{p}."))]
            found |= {each for each in needed if each in known and each != module}
    return found


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules each of which needs all others: the strongly connected components of two or more."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        left = [start]
        while left:
            for each in graph[left.pop()] - seen:
                seen.add(each)
                left.append(each)
        return seen

    after = {name: reached(name) for name in graph}
    groups = {frozenset(b for b in after[a] if a in after[b]) for a in graph if a in after[a]}
    return sorted(sorted(group) for group in groups)


def graph_of(root: Path) -> dict[str, set[str]]:
    known = modules(root)
    return {name: imported(name, path, known) for name, path in known.items()}


def by_folder(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The same for what lies directly in the package: folders, each as one, and single modules."""
    whole: dict[str, set[str]] = {}
    for name, needed in graph.items():
        own = f"{name}.".split(".")[1]
        others = {f"{each}.".split(".")[1] for each in needed}
        whole.setdefault(own, set()).update(others - {own, ""})
    return whole


def test_no_module_is_needed_by_one_that_it_needs() -> None:
    assert circles(graph_of(SOURCE)) == []


def test_no_folder_is_needed_by_one_that_it_needs() -> None:
    assert circles(by_folder(graph_of(SOURCE))) == []


def test_the_engine_imports_nothing_else_of_the_package() -> None:
    for name, needed in graph_of(SOURCE).items():
        if name.startswith("dplangevin.engine"):
            assert all(each.startswith("dplangevin.engine") for each in needed), f"{name} imports {needed}"


def test_the_data_package_needs_files_on_disk_only() -> None:
    """So that fetching imports no torch: its modules need each other, `cache`, and what reads and checks a schema."""
    for name, needed in graph_of(SOURCE).items():
        if name.startswith("dplangevin.data") and name != "dplangevin.data.pixels":
            others = {each for each in needed if not each.startswith("dplangevin.data")}
            small = {"dplangevin", "dplangevin.cache", "dplangevin.typed", "dplangevin.yaml_file"}
            assert others <= small, f"{name} imports {others}"


@pytest.mark.parametrize("late", [True, False])
def test_circles_are_found_and_late_imports_are_none(tmp_path: Path, late: bool) -> None:
    root = tmp_path / "package"
    (root / "inner").mkdir(parents=True)
    back = "from package.inner import deep\n"
    files = {
        "__init__.py": "",
        "inner/__init__.py": "from package.one import name\n",
        "inner/deep.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import package.two\n",
        "one.py": "import package.two\n",
        "two.py": f"def use():\n    {back}" if late else f"try:\n    {back}except ImportError:\n    pass\n",
    }
    for name, text in files.items():
        (root / name).write_text(text)
    graph = graph_of(root)
    assert circles(graph) == ([] if late else [["package.inner", "package.one", "package.two"]])
    assert circles(by_folder(graph)) == ([] if late else [["inner", "one", "two"]])


def test_no_script_or_test_bears_a_name_of_the_standard_library() -> None:
    """Where their folder comes first on the path, it would be imported in its place, also by other libraries."""
    root = SOURCE.parents[1]
    first = [path for folder in ("pipelines", "tests", "benchmarks") for path in (root / folder).iterdir()]
    found = [*first, *(root / "pipelines").rglob("*.py"), *(root / "tests").rglob("*.py")]
    assert not sorted(str(path) for path in found if path.stem in sys.stdlib_module_names)
