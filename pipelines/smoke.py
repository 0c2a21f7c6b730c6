"""Run every stage at scale=smoke in a temporary copy of the working tree, from no results and no data."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from shutil import copy2

from omegaconf import OmegaConf

RESULTS = ("results/", "data/manifest/", "dvc.lock", "params.yaml")


def copy_tree(source: Path, target: Path, leave_out: tuple[str, ...] = ()) -> None:
    """Copy what git tracks or does not ignore, except names that begin with one of `leave_out`."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=source, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if not name.startswith(leave_out) and (source / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            copy2(source / name, target / name)


def set_scale(path: Path, scale: str) -> None:
    """Choose a file of conf/scale/ in the defaults list of conf/config.yaml."""
    cfg = OmegaConf.load(path)
    for entry in cfg.defaults:
        if "scale" in entry:
            entry.scale = scale
    OmegaConf.save(cfg, path)


def main() -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="smoke-") as name:
        tree = Path(name)
        copy_tree(Path.cwd(), tree, RESULTS)
        set_scale(tree / "conf/config.yaml", "smoke")
        (tree / "log").mkdir()
        # a second worker would take longer to start than to do its work
        env = {"DPL_WORKERS": "1", **os.environ, "DPL_PYTHON": sys.executable, "DPL_LOG": str(tree / "log")}
        env = {**env, "PYTHONPATH": "src"}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # else each stage would compile the package again

        def run(*command: str) -> int:
            return subprocess.run([sys.executable, *command], cwd=tree, env=env).returncode

        (tree / ".dvc").mkdir(exist_ok=True)
        run("-m", "dvc", "config", "core.no_scm", "true")
        code = run("-m", "dplangevin.config") or run("-m", "dvc", "repro", "--keep-going")
        code = run("pipelines/summary.py", "--log", "log", "--status", str(code), "--strict")
    print(f"Smoke run {'failed' if code else 'finished'} after {time.monotonic() - started:.0f} s.")
    return code


if __name__ == "__main__":
    sys.exit(main())
