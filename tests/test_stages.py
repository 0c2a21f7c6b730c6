"""dvc.yaml lists what its stages read."""

import ast
from pathlib import Path

from dvc.repo import Repo
from omegaconf import DictConfig, OmegaConf
from test_conf import targets

from dplangevin import config

ROOT = Path(__file__).parents[1]


def imports(path: Path) -> set[Path]:
    """The files of the package that a file imports, directly or not, itself included."""
    seen: set[Path] = set()
    todo = [path]
    while todo:
        here = todo.pop()
        if here in seen:
            continue
        seen.add(here)
        for node in ast.walk(ast.parse(here.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dplangevin"):
                names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names if alias.name.startswith("dplangevin")]
            else:
                continue
            todo += [file for name in names for file in module_files(name)]
    return seen


def module_files(name: str) -> list[Path]:
    """The file of a module and of the packages around it; the top package's docstring is nobody's input."""
    parts = name.split(".")
    places = [ROOT / "src" / Path(*parts[:n]) for n in range(2, len(parts) + 1)]
    files = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
    return [file for file in files if file.exists()]


def test_stages_depend_on_all_they_import() -> None:
    """Also on what the objects (`_target_`) of their parameters import."""
    params = config.load(ROOT / "params.yaml")
    missing = {}
    with Repo(str(ROOT), config={"core": {"no_scm": True}}) as repo:
        for stage in repo.index.stages:
            deps = [Path(dep.fs_path) for dep in stage.deps]
            keys = [key for dep in stage.params for key in dep.params]
            slices = [OmegaConf.select(params, key) for key in keys]
            objects = targets([OmegaConf.to_container(s) for s in slices if isinstance(s, DictConfig)])
            files = [dep for dep in deps if dep.parent.name == "pipelines"]
            files += [file for name in objects for file in module_files(name.rpartition(".")[0])]
            used = set().union(*(imports(file) for file in files))
            if lost := [file for file in used if not any(file.is_relative_to(dep) for dep in deps)]:
                missing[stage.addressing] = sorted(str(file.relative_to(ROOT)) for file in lost)
    assert missing == {}


def test_tables_depend_on_the_features_that_they_read() -> None:
    stages = OmegaConf.load(ROOT / "dvc.yaml").stages
    heads = config.load(ROOT / "params.yaml").heads
    assert dict(stages.heads.foreach) == {key: entry.features for key, entry in heads.items()}
