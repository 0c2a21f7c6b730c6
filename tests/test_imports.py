"""Names of scripts and tests.  The import rule is a contract of import-linter in pyproject.toml."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_no_script_or_test_bears_a_name_of_the_standard_library() -> None:
    """Where their folder comes first on the path, it would be imported in its place, also by other libraries."""
    first = [path for folder in ("pipelines", "tests", "benchmarks") for path in (ROOT / folder).iterdir()]
    found = [*first, *(ROOT / "pipelines").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    assert not sorted(str(path) for path in found if path.stem in sys.stdlib_module_names)


LIGHT = """
import sys
from typer.testing import CliRunner
from dplangevin.cli import app
assert CliRunner().invoke(app, ["--help"]).exit_code == 0
heavy = {"torch", "numpy", "pandas", "scipy", "hydra", "dp_accounting"}
print(sorted(heavy & {*sys.modules}))
import fingerprint, repro, stage, summary
import dplangevin.pipeline.executor
print(sorted({"torch", "scipy", "dp_accounting", "arviz"} & {*sys.modules}))
"""


def test_help_loads_no_library_of_numbers_and_a_stage_that_computes_nothing_no_torch() -> None:
    path = os.pathsep.join(str(ROOT / name) for name in ("src", "pipelines"))
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, env=env, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"], done.stdout
