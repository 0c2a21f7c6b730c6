"""What a start loads.  The import rule is a contract of import-linter in pyproject.toml."""

import os
import subprocess
import sys

from checkout import ROOT

LIGHT = """
import sys
from typer.testing import CliRunner
from dplangevin.cli import app
for words in (["--help"], ["price", "--help"]):
    assert CliRunner().invoke(app, words).exit_code == 0
print(sorted({"torch", "numpy", "pandas", "scipy", "hydra", "dp_accounting"} & {*sys.modules}))
import fingerprint, repro, stage
import dplangevin.pipeline.executor
print(sorted({"torch", "scipy", "dp_accounting", "arviz"} & {*sys.modules}))
"""


def test_help_loads_no_library_of_numbers_and_a_stage_that_computes_nothing_no_torch() -> None:
    path = os.pathsep.join(str(ROOT / name) for name in ("src", "pipelines"))
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, env=env, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"], done.stdout
