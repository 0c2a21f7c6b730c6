"""Faults that `make test` must find: each patch of this folder is one, and names the test that finds it."""

import re
import sys
from pathlib import Path

import pytest
from checkout import ROOT, run
from smoke import copy_tree

PATCHES = sorted(Path(__file__).parent.glob("*.patch"))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted") / "checkout"
    copy_tree(ROOT, folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_a_planted_fault_fails_the_test_that_it_names(patch: Path, copy: Path) -> None:
    """Which is one of `make test`, and passes without the fault."""
    (test,) = re.findall(r"^Caught by: (.+)$", patch.read_text(), re.MULTILINE)
    command = (sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", test)
    applied = run(copy, "git", "apply", str(patch))
    assert applied.returncode == 0, f"it does not apply any more: {applied.stderr}"
    try:
        done = run(copy, *command)
    finally:
        run(copy, "git", "apply", "--reverse", str(patch))
    assert re.search(r"^1 failed in ", done.stdout, re.MULTILINE), done.stdout + done.stderr
