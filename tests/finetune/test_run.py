"""A run from the config to its rows; its loop against an explicit one; interrupted runs."""

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from one_by_one import with_parameters
from planted import watched_checkpoints

from dplangevin import noise
from dplangevin.backbones.resnet20 import ResNet20
from dplangevin.checkpoint import Checkpoint
from dplangevin.data import DataError
from dplangevin.finetune.activations import Inputs, activations, limited
from dplangevin.finetune.loop import Descent, Task, descend
from dplangevin.finetune.parts import Head, LastBlock, start
from dplangevin.finetune.run import rows
from dplangevin.gradients import clipped_sum
from dplangevin.images import ImageSet
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.rdp import Rdp
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.stepsize import steps_event
from dplangevin.training.loop import Steps
from dplangevin.training.prices import Prices

COLUMNS = [
    "run", "method", "trained", "seed", "epoch", "accuracy", "log_loss", "epsilon", "delta",
    "epsilon_paper", "epsilon_tight", "adjacency_tight", "epsilon_tight_add_remove", "step_size", "clip",
    "noise_multiplier", "batch", "epochs", "steps", "parameters", "violated", "assumptions",
]  # fmt: skip
STEPS = Steps(batch=20, epochs=1, measured=2)
CPU = torch.device("cpu")


def table(cfg: DictConfig, run: str, data: Path) -> pd.DataFrame:
    return pd.read_csv(rows(cfg, run, data, data.parent / "units", data.parent))


@pytest.fixture
def inputs(backbone: ResNet20, images: ImageSet, tmp_path: Path) -> Inputs:
    found = activations(backbone, images, CPU, tmp_path, "key")
    return Inputs(found[:100], torch.as_tensor(images.y_train), found[100:], torch.as_tensor(images.y_test))


def task(backbone: ResNet20, inputs: Inputs, folder: Path) -> Task:
    network = LastBlock().network(backbone, 3)
    return Task(network, inputs, Budget(1.0, 1e-3), 2, noise.generator(1, "test"), CPU, folder, "key")


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


def test_loop_is_an_explicit_one(backbone: ResNet20, inputs: Inputs, tmp_path: Path) -> None:
    """Clipped gradients by autograd, one example at a time, on the same draws; division by the expected size."""
    eta, clip, std = 0.5, 0.4, 0.05
    given = task(backbone, inputs, tmp_path)
    found = descend(given, STEPS, Descent(eta, clip, std), Prices(1.0, 0.2, 1e-3))
    rng, network = noise.generator(1, "test"), given.network
    theta = start(network, 2)
    for _ in range(5):
        drawn, mask, normals = next(noise.poisson_stream(rng, 2, 100, 0.2, network.d, 1, 1))
        for s in range(2):
            module, total = with_parameters(network.module, theta[s]), std * normals[s, 0]
            for i in drawn[s][mask[s]]:
                loss = F.cross_entropy(module(inputs.x_train[i][None]), inputs.y_train[i][None])
                g = torch.cat(
                    [part.flatten() for part in torch.autograd.grad(loss, list(module.parameters()))]
                )
                total = total + g * min(1.0, clip / float(g.norm()))
            theta[s] -= eta / 20 * total
    with torch.no_grad():
        wanted = [with_parameters(network.module, t)(inputs.x_test).softmax(-1) for t in theta]
    torch.testing.assert_close(found, torch.stack(wanted), rtol=1e-4, atol=1e-5)


def test_interrupted_run_ends_in_the_same_bytes(
    backbone: ResNet20, inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = (STEPS, Descent(0.1, 2.5, 0.5), Prices(1.0, 0.2, 1e-3))
    whole = descend(task(backbone, inputs, tmp_path / "whole"), *arguments)
    monkeypatch.setattr(Checkpoint.__init__, "__defaults__", (0.0,))  # write after every step
    calls = 0

    def stopping(*given: object, **more: object) -> object:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise KeyboardInterrupt
        return clipped_sum(*given, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as context:
        context.setattr("dplangevin.training.loop.clipped_sum", stopping)
        with pytest.raises(KeyboardInterrupt):
            descend(task(backbone, inputs, tmp_path / "cut"), *arguments)
    again = descend(task(backbone, inputs, tmp_path / "cut")._replace(rng=torch.Generator()), *arguments)
    assert torch.equal(again, whole)


SCRIPT = """
import sys
sys.path[:0] = {path!r}
from pathlib import Path
from omegaconf import OmegaConf
from dplangevin.checkpoint import Checkpoint
from dplangevin.finetune.run import rows
Checkpoint.__init__.__defaults__ = (0.02,)
folder = Path(sys.argv[1])
rows(OmegaConf.load(folder / "cfg.yaml"), "head_dp_sgd", folder / "colours.npz", folder / "units", folder)
"""


def test_killed_run_ends_in_the_same_bytes(cfg: DictConfig, data: Path) -> None:
    """SIGKILL at some moment after the first checkpoint; the whole run and the rest are computed here."""
    cfg.finetune.head_dp_sgd.learner.minibatches.epochs = 200
    OmegaConf.save(cfg, data.parent / "cfg.yaml")
    whole = rows(cfg, "head_dp_sgd", data, data.parent / "whole", data.parent).read_bytes()
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
    assert rows(cfg, "head_dp_sgd", data, units.parent, data.parent).read_bytes() == whole


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


def test_activations(backbone: ResNet20, images: ImageSet, tmp_path: Path) -> None:
    few = limited(images, 3)
    found = activations(backbone, few, CPU, tmp_path, "few")
    pixels = torch.cat([torch.as_tensor(x[:3]) for x in (images.x_train, images.x_test)])
    with torch.no_grad():
        torch.testing.assert_close(found, backbone.trunk(backbone.inputs(pixels)))
    assert torch.equal(activations(backbone, few, CPU, tmp_path, "few"), found)
    assert limited(images, None) is images
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
        ({"learner": {"step": 1e38, "clip": 1e3}}, r"step \d+: .*lower its step size 1e\+38"),
    ],
)
def test_settings_out_of_their_domain(cfg: DictConfig, data: Path, change: dict, message: str) -> None:
    cfg.finetune.head_dp_sgd = OmegaConf.merge(cfg.finetune.head_dp_sgd, change)
    with pytest.raises(Exception, match=message):  # Hydra's own, of a constructor's
        table(cfg, "head_dp_sgd", data)


def test_noise_follows_from_the_budget(
    cfg: DictConfig, backbone: ResNet20, inputs: Inputs, tmp_path: Path
) -> None:
    entering = [Head().inputs(backbone, x) for x in (inputs.x_train, inputs.x_test)]
    given = task(backbone, inputs, tmp_path)._replace(
        network=Head().network(backbone, 3),
        inputs=Inputs(entering[0], inputs.y_train, entering[1], inputs.y_test),
    )
    learner = instantiate(cfg.finetune.head_dp_sgd.learner)
    strict, loose = (
        learner(given._replace(budget=Budget(epsilon, 1e-3), folder=tmp_path / str(epsilon)))
        for epsilon in (0.5, 8.0)
    )
    assert strict.noise_multiplier > 2 * loose.noise_multiplier
    assert strict.guarantee.epsilon <= 0.5 < loose.guarantee.epsilon <= 8.0
    assert strict.guarantee.sampling == "poisson"


@pytest.mark.parametrize("clip", [0.4, 2.5])
def test_noise_in_the_steps_is_what_is_priced(
    cfg: DictConfig, backbone: ResNet20, inputs: Inputs, tmp_path: Path, clip: float
) -> None:
    """Halved noise, noise that ignores the clip: each iterate less what its gradients alone would make of the last.

    The deviation of what is left, in units of eta clip/tau, is the multiplier that the guarantee is for.
    """
    cfg.finetune.head_dp_sgd.learner.clip = clip
    entering = [Head().inputs(backbone, x) for x in (inputs.x_train, inputs.x_test)]
    given = task(backbone, inputs, tmp_path)._replace(
        network=Head().network(backbone, 3),
        inputs=Inputs(entering[0], inputs.y_train, entering[1], inputs.y_test),
        seeds=20,
    )
    with watched_checkpoints() as seen:
        tuned = instantiate(cfg.finetune.head_dp_sgd.learner)(given)
    rng, theta, left = noise.generator(1, "test"), start(given.network, 20), []
    for after in seen:
        rows, mask, _ = next(noise.poisson_stream(rng, 20, 100, 0.2, given.network.d, 1, 1))
        batch = entering[0][rows], inputs.y_train[rows], mask
        total = clipped_sum(given.network, theta, *batch, clip).gradient
        left.append((theta - after) * 20 / tuned.step_size - total)
        theta = after
    assert len(left) == 5
    event = steps_event(float(torch.stack(left).std()) / clip, rate=0.2, steps=5, schedule="fixed")
    found = Rdp().epsilon(event, 1e-3, "add_remove")
    assert found == pytest.approx(tuned.guarantee.epsilon, rel=0.03)


def test_a_run_that_costs_more_than_asked_says_so(
    cfg: DictConfig, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dplangevin.finetune.dp_sgd.smallest_multiplier", lambda *_, **__: 0.5)
    found = table(cfg, "head_dp_sgd", data)
    assert (found.epsilon_paper > 1).all()
    assert found.violated.str.fullmatch(r"costs [\d.]+, more than the 1 asked").all()
