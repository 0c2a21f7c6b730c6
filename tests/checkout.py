"""Copies of this checkout as git has it, and commands run in them."""

import os
import subprocess
import sys
from pathlib import Path

from smoke import copy_tree

ROOT = Path(__file__).parents[1]


def environment(folder: Path, **env: str) -> dict[str, str]:
    """That of a command in a folder: this interpreter for the stages, and nothing of an outer DVC or git."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("DVC_", "GIT_"))},
        "DPL_PYTHON": sys.executable,
        "DVC_NO_ANALYTICS": "1",
        "DVC_SITE_CACHE_DIR": str(folder.parent / "dvc-site"),
        **env,
    }


def run(folder: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A command in a folder."""
    own = environment(folder, **env)
    return subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False)


def dvc(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run(folder, sys.executable, "-m", "dvc", *words, **env)


def fresh_clone(folder: Path) -> Path:
    """What git has of this checkout, as it is now, committed in folder/clone: no data, no environment."""
    clone = folder / "clone"
    copy_tree(ROOT, clone)
    run(clone, "git", "init", "--quiet")
    commit(clone)
    return clone


def with_python(folder: Path) -> None:
    """Give a folder a .venv that `make` takes for complete; its interpreter is this one."""
    python = folder / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (folder / ".venv/installed").touch()


def commit(folder: Path) -> None:
    """Commit every file of a repository."""
    run(folder, "git", "add", "--all")
    run(folder, "git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "all")
