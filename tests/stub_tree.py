"""A checkout whose stages are stubs of a few milliseconds, to try the driver, dvc.yaml and DVC together."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from omegaconf import OmegaConf
from smoke import RESULTS, copy_tree

ROOT = Path(__file__).parents[1]
STUBBED = (
    *("fetch", "prepare", "pretrain", "features", "reference"),
    *("run", "train", "heads", "finetune", "analyse", "render", "report"),
)


class Tree:
    """A checkout with stub stages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.env = {
            **os.environ,
            "PYTHONPATH": "src",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "DVC_SITE_CACHE_DIR": str(path.parent / "dvc-site"),
            "DVC_NO_ANALYTICS": "1",
        }
        for name in ("DVC_EXP_NAME", "DVC_ROOT", "DVC_STAGE", "GIT_DIR"):
            self.env.pop(name, None)

    def run(self, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=self.path, env={**self.env, **env}, capture_output=True, text=True)

    def repro(self, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
        """The driver; `ran` then holds what it ran."""
        (self.path / "data/ran.log").unlink(missing_ok=True)
        return self.run(sys.executable, "pipelines/repro.py", *options, **env)

    def start(self, *options: str, **env: str) -> subprocess.Popen[bytes]:
        """The driver in a process group of its own."""
        (self.path / "data/ran.log").unlink(missing_ok=True)
        return subprocess.Popen(
            [sys.executable, "pipelines/repro.py", *options],
            cwd=self.path,
            env={**self.env, **env},
            start_new_session=True,
            preexec_fn=lambda: signal.signal(
                signal.SIGINT, signal.SIG_DFL
            ),  # a job in the background ignores it
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wait_until_runs(self, stage: str) -> None:
        deadline = time.monotonic() + 60
        while stage not in self.ran:
            assert time.monotonic() < deadline, f"{stage} did not start"
            time.sleep(0.02)

    @property
    def ran(self) -> list[str]:
        log = self.path / "data/ran.log"
        return log.read_text().split() if log.exists() else []

    def results(self) -> dict[str, bytes]:
        files = (self.path / "results").rglob("*")
        return {str(path.relative_to(self.path)): path.read_bytes() for path in files if path.is_file()}

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.path / file
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))

    def change_ops(self) -> None:
        self.edit("conf/method/ops.yaml", "radius: 10.0", "radius: 3.0")

    def git(self, *command: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
        done = self.run("git", *identity, *command)
        assert done.returncode == 0, done.stderr


def build(path: Path) -> Tree:
    """A new repository at `path`: this one's files without its results, with stubs for stages."""
    path.mkdir()
    copy_tree(ROOT, path, RESULTS)
    prune(path / "conf")
    for name in STUBBED:
        shutil.copy(ROOT / "tests/stub_stage.py", path / f"pipelines/{name}.py")
    tree = Tree(path)
    tree.git("init", "--quiet")
    return tree


def prune(conf: Path) -> None:
    """Fewer stages and shorter parameters: enough to see what runs."""
    for name, kept in {
        "wang2015": {"methods": ["ops", "objpert"]},
        "wang2015_sensitivity": {"datasets": ["adult"], "methods": ["ops"]},
        "wang2015_family": {"methods": ["dp_sgld"], "composites": ["sgld"]},
        "li2019_fig3": {"methods": ["pate"], "composites": ["sgld"]},
        "li2019_sensitivity": {"methods": ["dp_sgd"]},
        "li2019_steps": {"methods": ["dp_sgd"], "composites": ["sgld"]},
        "compare": {"datasets": ["abalone"], "methods": ["pate"], "composites": ["sgld"]},
    }.items():
        path = conf / f"experiment/{name}.yaml"
        OmegaConf.save(OmegaConf.merge(OmegaConf.load(path), kept), path)
    for path in conf.glob("training/*.yaml"):
        training = OmegaConf.load(path)
        training.runs = dict(list(training.runs.items())[:2])
        OmegaConf.save(training, path)
    for path in conf.glob("claim/*.yaml"):
        OmegaConf.save({"paper": path.stem}, path)
    for path in conf.glob("analysis/*.yaml"):
        OmegaConf.save({"_target_": path.stem, "number": 1}, path)
    for path in conf.glob("dataset/*.yaml"):
        data = OmegaConf.load(path)
        data.loader = {}
        OmegaConf.save(data, path)
