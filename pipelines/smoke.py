"""Smoke test: every stage at scale=smoke in temporary copies of the working tree, without results and data.

DVC runs one stage at a time. So two copies share the runs and analyses, then the exhibits. Each copy then
takes the files that the other made, and `dvc repro` of everything makes the rest.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from shutil import copy2

import yaml
from omegaconf import DictConfig, OmegaConf

from dplangevin.pipeline.config import load

RESULTS = ("results/", "data/manifest/", "dvc.lock", "params.yaml")


def copy_tree(source: Path, target: Path, leave_out: tuple[str, ...] = ()) -> None:
    """Copy the files that git tracks or does not ignore, except names that begin with one of `leave_out`."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        names = subprocess.run(listing, cwd=source, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        sys.exit("git is not installed: it lists what is to be copied")
    except subprocess.CalledProcessError as error:
        sys.exit(f"git does not list what is to be copied from {source}: {error.stderr.strip()}")
    for name in filter(None, names.split("\0")):
        if not name.startswith(leave_out) and (source / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            copy2(source / name, target / name)


def set_scale(path: Path, scale: str) -> None:
    """Select a file of conf/scale/ in the defaults list of conf/config.yaml."""
    cfg = OmegaConf.load(path)
    for entry in cfg.defaults:
        if "scale" in entry:
            entry.scale = scale
    OmegaConf.save(cfg, path)


def halves(cfg: DictConfig) -> tuple[list[str], list[str]]:
    """Return the runs and analyses in two parts.

    Runs on one data set stay in one part, because they need the same files.
    """
    groups = defaultdict(list)
    for name, run in cfg.pipeline.run_stages.items():
        groups[run.dataset].append(f"run@{name}")
    parts: tuple[list[str], list[str]] = [], []
    for group in [
        *sorted(groups.values(), key=len, reverse=True),
        *([f"analysis@{n}"] for n in cfg.pipeline.analyses),
    ]:
        min(parts, key=len).extend(group)
    return parts


def take_over(source: Path, target: Path) -> None:
    """Copy files, and their entries of dvc.lock, that stages made in one tree and not in the other."""
    for path in (path for folder in ("results", "data") for path in (source / folder).rglob("*")):
        copy = target / path.relative_to(source)
        if path.is_file() and not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy2(path, copy)
    theirs, ours = (yaml.safe_load((tree / "dvc.lock").read_text()) for tree in (source, target))
    ours["stages"] = theirs["stages"] | ours["stages"]
    (target / "dvc.lock").write_text(yaml.safe_dump(ours, sort_keys=False))


def side_by_side(trees: Sequence[Path], targets: Sequence[Sequence[str]], env: dict[str, str]) -> None:
    """Run `dvc repro` of some targets in each of two trees; then give each tree the files of both."""
    command = [sys.executable, "-m", "dvc", "repro", "--keep-going"]
    pairs = zip(trees, targets, strict=True)
    for job in [subprocess.Popen([*command, *part], cwd=tree, env=env) for tree, part in pairs]:
        job.wait()
    first, second = trees
    take_over(first, second)
    take_over(second, first)


def main() -> int:
    """Run the smoke test; return the exit status."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="smoke-") as name:
        trees = [Path(name, "first"), Path(name, "second")]
        # a second worker would take longer to start than to do its work
        env = {"DPL_WORKERS": "1", "OMP_NUM_THREADS": "1", **os.environ, "DPL_PYTHON": sys.executable}
        env = {**env, "PYTHONPATH": "src", "DPL_LOG": str(Path(name, "log"))}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # otherwise each stage would compile the package again

        Path(name, "log").mkdir()

        def run(tree: Path, *command: str) -> int:
            return subprocess.run([sys.executable, *command], cwd=tree, env=env).returncode

        for tree in trees:
            copy_tree(Path.cwd(), tree, RESULTS)
            set_scale(tree / "conf/config.yaml", "smoke")
            (tree / ".dvc").mkdir(exist_ok=True)
            run(tree, "-m", "dvc", "config", "core.no_scm", "true")
            if code := run(tree, "-m", "dplangevin.pipeline.config"):
                return code
        cfg = load(trees[0] / "params.yaml")
        exhibits = [f"render@{name}" for name in cfg.pipeline.exhibits]
        side_by_side(trees, halves(cfg), env)
        side_by_side(trees, (exhibits[::2], exhibits[1::2]), env)
        code = run(trees[0], "-m", "dvc", "repro", "--keep-going")
        summary = ("pipelines/summary.py", "--log", env["DPL_LOG"], "--status", str(code), "--strict")
        code = run(trees[0], *summary)
    print(f"Smoke run {'failed' if code else 'finished'} after {time.monotonic() - started:.0f} s.")
    return code


if __name__ == "__main__":
    sys.exit(main())
