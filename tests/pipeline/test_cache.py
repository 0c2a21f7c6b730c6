"""What the cache takes and what it computes again: exact to the syntax tree, the parameter and the byte."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from run import inputs

from dplangevin.pipeline import cache as cached
from dplangevin.pipeline import code, config, executor, sweep
from dplangevin.pipeline.cache import Rows, Store, beside, listed
from dplangevin.pipeline.code import reachable

ROOT = Path(__file__).parents[2]
damaged = pytest.mark.trial("a damaged unit")
METHODS = ("ops", "ops_gdp", "hybrid", "hybrid_sgld", "objpert", "dp_sgld", "pate")


def frame(*values: float) -> pd.DataFrame:
    return pd.DataFrame({"x": values, "text": ["a, b"] * len(values)})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two units, written."""
    made = Store(tmp_path / "r/ops.csv", tmp_path / "units", digits=8)
    for name, values in (("one", (1 / 3, 2.0)), ("two", (np.inf,))):
        made.keep(name, frame(*values))
    made.write(["one", "two"])
    return made


def again(store: Store) -> Store:
    return Store(store.paths, store.folder, store.digits)


def test_a_result_is_its_own_cache(store: Store) -> None:
    assert store.paths[0].read_text() == 'x,text\n0.33333333,"a, b"\n2,"a, b"\ninf,"a, b"\n'
    assert not list(store.folder.iterdir())  # the result holds them now
    before = store.paths[0].read_bytes()
    fresh = again(store)
    assert fresh.find("two") is not None
    fresh.keep("three", frame(0.1))
    (store.folder / ".ipynb_checkpoints").mkdir()
    fresh.write(["two", "three", "one"])  # text, never parsed: a number that was rounded once stays
    assert store.paths[0].read_text() == 'x,text\ninf,"a, b"\n0.1,"a, b"\n0.33333333,"a, b"\n2,"a, b"\n'
    assert not list(store.folder.iterdir())
    again(store).write(["one", "two"])
    assert store.paths[0].read_bytes() == before


def test_units_with_other_columns(tmp_path: Path) -> None:
    store = Store(tmp_path / "a.csv", tmp_path / "units")
    store.keep("one", pd.DataFrame({"x": [1], "note": ["a, b"]}))
    store.keep("two", pd.DataFrame({"x": [2], "more": [0.5]}))
    store.write(["one", "two"])
    assert (tmp_path / "a.csv").read_text() == 'x,note,more\n1,"a, b",\n2,,0.5\n'
    assert set(listed(tmp_path / "a.csv")) == {"one", "two"}


@damaged
@pytest.mark.parametrize(
    ("change", "lost"),
    [
        (lambda text: text.replace("\n2,", "\n3,"), {"one"}),
        (lambda text: text.replace("2,", "2\n2,"), {"one", "two"}),
        (lambda text: text[: text.rindex("inf")], {"two"}),
        (lambda text: text.replace("text", "tekt"), {"one", "two"}),
        (lambda text: "", {"one", "two"}),
    ],
    ids=["a number", "a line more", "a line less", "a name", "empty"],
)
def test_damaged_rows_are_not_used(
    store: Store, change: Callable[[str], str], lost: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = store.paths[0]
    path.write_text(change(path.read_text()))
    assert {name for name in ("one", "two") if again(store).find(name) is None} == lost
    assert "computed again" in capsys.readouterr().err


@damaged
@pytest.mark.parametrize("content", [b"", b"7", b'[{"key": "one"}]', b'["one"]', b"\xff"])
def test_a_damaged_list_of_tasks_is_not_used(
    store: Store, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    beside(store.paths[0]).write_bytes(content)
    assert again(store).find("one") is None
    assert "ops.units.json is damaged" in capsys.readouterr().err


@damaged
@pytest.mark.parametrize("content", [b"", b"x,text\n1,a\n", None])
def test_a_damaged_task_is_computed_again(
    tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "ops.csv", tmp_path)
    store.keep("u", frame(0.5))
    assert store.find("u") == [Rows("x,text", '0.5,"a, b"\n')]
    if content is None:
        (tmp_path / "u.ops.units.json").unlink()  # killed before it was finished
    else:
        (tmp_path / "u.ops.csv").write_bytes(content)
    assert store.find("u") is None
    assert ("u.ops.csv or u.ops.units.json is damaged" in capsys.readouterr().err) == (content is not None)


def test_recompute_takes_nothing_from_results(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cached.RECOMPUTE, "1")
    assert again(store).find("one") is None


def test_tables_have_their_tasks_in_common_and_only_trainings_with_a_key_are_taken(tmp_path: Path) -> None:
    paths = [tmp_path / "final.csv", tmp_path / "curve.csv"]
    store = Store(paths, tmp_path / "units")
    store.keep("one", frame(1.0), frame())
    store.write(["one"])
    assert paths[1].read_text() == "x,text\n"
    assert again(store).find("one") is not None
    assert again(store).trained("") is None  # as of a vote of PATE, or a method from outside the package
    paths[0].write_text("x,text\n2,a\n")
    assert again(store).find("one") is None


@damaged
def test_no_kill_while_results_are_written_loses_a_task(tmp_path: Path) -> None:
    """A run is killed at each rename. The next run keeps what was finished."""
    rename, first, second = os.replace, ["one", "two"], ["new", "two", "one"]

    def kept(folder: Path, keys: list[str]) -> Store:
        store = Store([folder / "runs.csv", folder / "scores.csv"], folder / "units")
        for name in keys:
            if store.find(name) is None:
                store.keep(name, pd.DataFrame({"x": [name, name]}), pd.DataFrame({"y": [name]}))
        return store

    for n in range(12):
        folder, done = tmp_path / f"{n}", list[Path]()
        kept(folder, first).write(first)
        store = kept(folder, second)

        def replace(old: Path, new: Path, done: list[Path] = done, n: int = n) -> None:
            if len(done) == n:
                raise KeyboardInterrupt
            done.append(new)
            rename(old, new)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "replace", replace)
            with pytest.raises(KeyboardInterrupt):
                store.write(second)
        fresh = Store(store.paths, store.folder)
        assert all(fresh.find(name) for name in second)
        fresh.write(second)
        assert (folder / "runs.csv").read_text() == "x\n" + "".join(2 * f"{name}\n" for name in second)
        assert [*listed(folder / "scores.csv")] == second
        assert not list((folder / "units").iterdir())


# Code


HASHES = """
import json, sys
from dplangevin.pipeline.code import PRICING, code_hash, targets
from dplangevin.pipeline.config import load
from omegaconf import OmegaConf
methods = OmegaConf.to_container(load().method, resolve=True)
rows = {name: ("dplangevin.pipeline.sweep", *targets(methods[name])) for name in sys.argv[1:]}
print(json.dumps([{name: code_hash(*each, without=out) for name, each in rows.items()} for out in ((), PRICING)]))
"""


def hashes(sources: Path) -> list[dict[str, str]]:
    """Of the code of rows, and of that of scores, by method."""
    command = [sys.executable, "-c", HASHES, *METHODS]
    env = {"PYTHONPATH": str(sources.parent), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True)
    found: list[dict[str, str]] = json.loads(done.stdout)
    return found


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.slow
def test_an_edit_reaches_what_is_made_of_it_and_nothing_else(tmp_path: Path) -> None:
    sources = tmp_path / "src/dplangevin"
    shutil.copytree(ROOT / "src/dplangevin", sources, ignore=shutil.ignore_patterns("*.pyc"))
    before = hashes(sources)
    assert len(set(before[0].values())) > 4
    ops = sources / "methods/ops.py"
    ops.write_text('"""Another docstring."""\n# a comment\n' + ops.read_text().partition('"""\n')[2])
    edit(sources / "samplers/posterior.py", "\ndef ", "\n# a comment\ndef ")
    edit(sources / "files.py", "HASH = 32", "HASH = 31")  # how results are kept decides no number
    assert hashes(sources) == before
    edit(ops, "    def ", "    unused = 1\n\n    def ")
    for found, old in zip(after := hashes(sources), before, strict=True):
        changed = {name for name in old if found[name] != old[name]}
        assert changed == {"ops", "ops_gdp", "hybrid", "hybrid_sgld"}
    edit(sources / "privacy/accountants/tight.py", "\nclass ", "\nUNUSED = 1\n\n\nclass ")
    edit(sources / "pipeline/schema.py", "\nfrom ", "\nUNUSED = 1\nfrom ")
    priced, trained = hashes(sources)
    assert all(priced[name] != old for name, old in after[0].items())
    assert trained == after[1]  # an accountant trains nothing


def test_a_method_from_elsewhere_and_what_lies_next_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere_too.py").write_text("import math\nfrom dplangevin.methods import ops\n")
    (tmp_path / "elsewhere.py").write_text("def f():\n    import elsewhere_too\n\nclass Method: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = {*reachable(["elsewhere.Method"])}
    assert {"elsewhere", "elsewhere_too", "dplangevin.methods.ops", "dplangevin.samplers.posterior"} <= found
    assert not {"math", "torch"} & found
    assert reachable(["torch.nn.Sequential", "no.such.Thing"]) == {}


def test_an_edit_during_a_task_changes_no_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edited, left = (tmp_path / f"dplangevin/{name}.py" for name in ("edited", "left"))
    edited.parent.mkdir()
    for path in (edited, left):
        path.write_text("X = 1\n")
    monkeypatch.setattr(code, "SOURCES", tmp_path)
    code.package_hash.cache_clear()
    executor.attempted(edited.write_text, 0, "X = 2\n")
    code.package_hash.cache_clear()
    assert code._read("dplangevin.edited", edited) == code._read("dplangevin.left", left)


RUN = """
import sys
from pathlib import Path
import toy
from dplangevin.files import File
from dplangevin.pipeline import sweep
from dplangevin.pipeline.cache import Store
from dplangevin.pipeline.code import reachable, targets
from dplangevin.pipeline.plan import plain, runs
folder, data = Path(sys.argv[1]), sys.argv[2]
cfg = toy.of(data, "objpert", "dp_sgld")
spec = plain(cfg.experiment.toy)
configs = [plain(cfg.problem[run.problem]) | run.config for run in runs(cfg, "toy", data)]
static = set(reachable(["dplangevin.pipeline.sweep", *targets(spec, *configs, *map(plain, cfg.problem.values()))]))
loaded = lambda: {name for name in sys.modules if name.split(".")[0] == "dplangevin"}
paths = [folder / f"a/{table}.csv" for table in sweep.tables(cfg.experiment.toy)]
inputs = sweep.Inputs(File.at(toy.write(folder, data)))
store = Store(paths, folder / "units")
store.write(sweep.sweep(sweep.SweepTasks(cfg, "toy", data, inputs, store.folder), store))
names = "pipeline.environment", "pipeline.config", "pipeline.schema", "pipeline.lock", "pipeline.validate"
names += "pipeline.cache", "pipeline.code", "pipeline.executor", "files", "pipeline", "text", "data.yaml_file"
composing = {"dplangevin", *(f"dplangevin.{name}" for name in names)}
print(sorted(loaded() - static - composing))
"""


@pytest.mark.slow
@pytest.mark.parametrize("data", ["rows", "features", "images"])
def test_what_is_imported_at_run_time_was_reached(data: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests/toy.py", tmp_path)
    env = {"PYTHONPATH": f"{ROOT / 'src'}:{tmp_path}", "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", RUN, str(tmp_path), data]
    done = subprocess.run(command, cwd=ROOT, env={**env, "DPL_WORKERS": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"


# Committed results


def test_every_committed_result_lists_its_units() -> None:
    tables = [path for group in ("runs", "analyses") for path in (ROOT / "results" / group).rglob("*.csv")]
    assert len(tables) > 40
    for path in tables:
        units = json.loads(cached.beside(path).read_bytes())
        assert [unit["key"] for unit in units] == [*listed(path)] != [], path
        assert sum(unit["rows"] for unit in units) == path.read_text().count("\n") - 1, path


def test_committed_results_are_those_of_the_code_and_the_parameters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of every experiment: nothing would be computed, and no data are needed."""
    monkeypatch.chdir(ROOT)
    cfg = config.load()
    for name, spec in cfg.experiment.items():
        for dataset in spec.datasets:
            folder = ROOT / f"results/runs/{name}/{dataset}"
            if not folder.exists():  # SVHN
                continue
            store = Store([folder / f"{table}.csv" for table in sweep.tables(spec)], tmp_path)
            work = sweep.SweepTasks(cfg, str(name), dataset, inputs(cfg, str(name), dataset), tmp_path)
            tasks = zip(work.tasks, work.keys, strict=True)
            lost = {task.run.name for task, own in tasks if not store.find(own)}
            assert not lost, f"{name} on {dataset}"
