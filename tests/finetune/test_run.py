"""A run from the config to its rows; its loop against an explicit one; interrupted runs."""

import io
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import swept
import torch
from omegaconf import DictConfig, OmegaConf
from planted import watched_checkpoints

from dplangevin import noise
from dplangevin.backbones.resnet20 import ResNet20
from dplangevin.cache import Checkpoint
from dplangevin.chains.sampling import batches
from dplangevin.data import DataError, Dataset
from dplangevin.finetune.activations import activations
from dplangevin.privacy.accountants.rdp import Rdp
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.stepsize import steps_event
from dplangevin.problems.network import NetworkProblem

COLUMNS = [
    "run", "method", "trained", "seed", "epoch", "accuracy", "log_loss", "epsilon", "delta",
    "epsilon_paper", "epsilon_tight", "adjacency_tight", "epsilon_tight_add_remove", "step_size", "clip",
    "noise_multiplier", "batch", "epochs", "steps", "parameters", "violated", "assumptions",
]  # fmt: skip
CPU = torch.device("cpu")


def table(cfg: DictConfig, run: str, data: Path) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(swept.finetune(cfg, run, data, data.parent / "units")))


@pytest.mark.parametrize("run", ["block_none", "block_dp_sgd", "head_none", "head_dp_sgd"])
def test_rows(cfg: DictConfig, data: Path, run: str) -> None:
    found = table(cfg, run, data)
    part, method = run.split("_", 1)
    assert list(found.columns) == COLUMNS
    assert list(found.seed) == [0, 1]
    for column, value in {"run": run, "trained": part, "method": method, "epoch": 1.0, "steps": 5}.items():
        assert (found[column] == value).all(), column
    assert (found.parameters == {"block": 2 * 36_864 + 771, "head": 771}[part]).all()
    assert found.accuracy.between(0, 1).all()
    assert found.log_loss.nunique() == 2  # each seed has draws of its own
    assert found.violated.isna().all()
    if method == "none":
        assert (found[["epsilon", "epsilon_tight", "epsilon_tight_add_remove", "clip"]] == math.inf).all(
            axis=None
        )
        assert found.epsilon_paper.isna().all()
        assert (found.assumptions == "drawn at random; ours").all()
        return
    assert (found["clip"] == 2.5).all()
    event = steps_event(found.noise_multiplier[0], rate=0.2, steps=5, schedule="fixed")
    assert found.epsilon_paper[0] == pytest.approx(Rdp().epsilon(event, 1e-3, "add_remove"))
    assert 0.999 < found.epsilon_paper[0] <= 1.0 == found.epsilon[0]
    assert found.epsilon_tight[0] == pytest.approx(Tight().epsilon(event, 1e-3, "replace_one"))
    assert found.epsilon_tight_add_remove[0] == pytest.approx(Tight().epsilon(event, 1e-3, "add_remove"))
    assert found.assumptions[0].endswith("drawn at random; ours")


def test_it_learns(cfg: DictConfig, data: Path) -> None:
    cfg.finetune.head_none.learner.minibatches.epochs = 40
    assert (table(cfg, "head_none", data).accuracy > 0.8).all()  # of three classes


SCRIPT = """
import sys
sys.path[:0] = {path!r}
from pathlib import Path
from omegaconf import OmegaConf
from dplangevin.chains.sampling import batches
from dplangevin.cache import Checkpoint
import swept
Checkpoint.__init__.__defaults__ = (0.02,)
folder = Path(sys.argv[1])
swept.finetune(OmegaConf.load(folder / "cfg.yaml"), "head_dp_sgd", folder / "colours.npz", folder / "units")
"""


def test_killed_run_ends_in_the_same_bytes(cfg: DictConfig, data: Path) -> None:
    """SIGKILL at some moment after the first checkpoint; the whole run and the rest are computed here."""
    cfg.finetune.head_dp_sgd.learner.minibatches.epochs = 200
    OmegaConf.save(cfg, data.parent / "cfg.yaml")
    whole = swept.finetune(cfg, "head_dp_sgd", data, data.parent / "whole")
    units = data.parent / "units/head_dp_sgd"
    command = [sys.executable, "-c", SCRIPT.format(path=sys.path[:3]), str(data.parent)]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL)
    while not list(units.glob("*.pt")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not list(units.glob("*.csv"))
    (kept,) = units.glob("*.pt")
    state = Checkpoint(kept, kept.stem).load()
    assert state is not None
    assert 0 < state["step"] < 1000
    assert swept.finetune(cfg, "head_dp_sgd", data, units.parent) == whole


def test_finished_runs_are_kept_and_activations_shared(
    cfg: DictConfig, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = table(cfg, "head_none", data)
    with monkeypatch.context() as context:
        context.setattr("dplangevin.finetune.activations._computed", lambda *_: pytest.fail("computed again"))
        table(cfg, "head_dp_sgd", data)
        pd.testing.assert_frame_equal(table(cfg, "head_none", data), first)
    (old,) = (data.parent / "units").glob("trunk-*.npy")
    cfg.finetune.head_none.limit = 50
    assert not table(cfg, "head_none", data).equals(first)
    (new,) = (data.parent / "units").glob("trunk-*.npy")
    assert new != old


def test_activations(backbone: ResNet20, images: Dataset, tmp_path: Path) -> None:
    few = images.limited(3)
    found = activations(backbone, few, CPU, tmp_path, "few")
    pixels = torch.cat([torch.as_tensor(x[0, :3]) for x in (images.x_train, images.x_test)])
    with torch.no_grad():
        torch.testing.assert_close(found, backbone.trunk(backbone.inputs(pixels)))
    assert torch.equal(activations(backbone, few, CPU, tmp_path, "few"), found)
    (tmp_path / "trunk-few.npy").write_bytes(b"damaged")
    with pytest.raises(DataError, match=r"trunk-few\.npy.*Delete the file and run again"):
        activations(backbone, few, CPU, tmp_path, "few")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"limit": 0}, "limit = 0 must be at least 1, or null"),
        ({"learner": {"step": -1.0}}, "step must be positive and finite, not -1"),
        ({"learner": {"clip": math.inf}}, "clip must be positive and finite, not inf"),
        (
            {"learner": {"minibatches": {"batch": 101, "epochs": 2}}},
            "batch = 101 is larger than the data set",
        ),
        ({"epsilon": -1.0}, r"epsilon = -1\.0 must be in \(0, inf\]"),
        ({"learner": {"step": 1e38, "clip": 1e3}}, r"step \d+: .*lower its step size"),
    ],
)
def test_settings_out_of_their_domain(cfg: DictConfig, data: Path, change: dict, message: str) -> None:
    cfg.finetune.head_dp_sgd = OmegaConf.merge(cfg.finetune.head_dp_sgd, change)
    with pytest.raises(Exception, match=message):  # Hydra's own, of a constructor's
        table(cfg, "head_dp_sgd", data)


def test_noise_follows_from_the_budget(cfg: DictConfig, data: Path) -> None:
    found = []
    for epsilon in (0.5, 8.0):
        cfg.finetune.head_dp_sgd.epsilon = epsilon
        found.append(table(cfg, "head_dp_sgd", data))
    strict, loose = found
    assert strict.noise_multiplier[0] > 2 * loose.noise_multiplier[0]
    assert strict.epsilon_paper[0] <= 0.5 < loose.epsilon_paper[0] <= 8.0


@pytest.mark.parametrize("clip", [0.4, 2.5])
def test_noise_in_the_steps_is_what_is_priced(cfg: DictConfig, data: Path, clip: float) -> None:
    """Halved noise, noise that ignores the clip: each iterate less what its gradients alone would make of the last.

    The deviation of what is left, in units of eta clip/tau, is the multiplier that the guarantee is for.
    """
    cfg.finetune.head_dp_sgd.learner.clip, cfg.finetune.head_dp_sgd.seeds = clip, 20
    seen: list[NetworkProblem] = []
    made = NetworkProblem.__init__

    def remembered(self: NetworkProblem, *args: Any, **more: Any) -> None:
        made(self, *args, **more)
        seen.append(self)

    with pytest.MonkeyPatch.context() as patch, watched_checkpoints() as iterates:
        patch.setattr(NetworkProblem, "__init__", remembered)
        found = table(cfg, "head_dp_sgd", data)
    (problem,) = seen
    rng = noise.generator(3, "finetune/colours/small/head")
    theta, left = problem.init(20, rng), []
    for after in iterates:
        drawn = next(batches(rng, {"poisson"}, 20, 100, 20, problem.facts.d, 1, 1))
        assert drawn.sizes is not None
        mask = torch.arange(drawn.rows.shape[1]) < drawn.sizes[:, None]
        sums = problem.clipped_sum(theta[:, None], drawn.rows, mask[:, None], torch.tensor([clip]))
        left.append((theta - after) * 20 / found.step_size[0] - sums.gradient[:, 0])
        theta = after
    assert len(left) == 5
    event = steps_event(float(torch.stack(left).std()) / clip, rate=0.2, steps=5, schedule="fixed")
    price = Rdp().epsilon(event, 1e-3, "add_remove")
    assert price == pytest.approx(found.epsilon_paper[0], rel=0.1)


def test_a_run_that_costs_more_than_asked_says_so(
    cfg: DictConfig, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dplangevin.training.dp_sgd.smallest_multiplier", lambda *_, **__: 0.5)
    found = table(cfg, "head_dp_sgd", data)
    assert (found.epsilon_paper > 1).all()
    assert found.violated.str.fullmatch(r"costs [\d.]+, more than the 1 asked").all()
