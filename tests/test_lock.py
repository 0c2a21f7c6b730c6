"""requirements.lock: it has what pyproject.toml needs, and nothing else."""

import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
FASTER = {"ruamel-yaml-clib"}  # nothing requires it; the head of the file says what it is for


def locked() -> set[str]:
    """Return the names in requirements.lock."""
    lines = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    return {canonicalize_name(line.partition("==")[0]) for line in lines if line and line[0] != "#"}


def needed() -> set[str]:
    """Return the names that pyproject.toml requires with all extras, directly or indirectly."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    todo = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        todo += extra
    seen = set()
    while todo:
        each = Requirement(todo.pop())
        if (entry := (canonicalize_name(each.name), *sorted(each.extras))) in seen:
            continue
        seen.add(entry)
        try:
            texts = requires(each.name) or []
        except PackageNotFoundError:  # for another system
            continue
        for text in texts:
            marker = Requirement(text).marker
            if "extra" not in str(marker) or any(marker.evaluate({"extra": extra}) for extra in each.extras):  # type: ignore[union-attr]
                todo.append(text.partition(";")[0])
    return {name for name, *_ in seen}


def test_every_locked_package_is_needed() -> None:
    assert locked() - needed() == FASTER
