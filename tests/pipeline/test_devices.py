"""Sweeps, the library and the attack on another device: the same numbers, and devices never meet."""

from pathlib import Path
from typing import Any

import emulated
import numpy as np
import pandas as pd
import pytest
import swept
import torch
import toy
from scenarios import logistic, rows
from stopping import Stop, Stopping

from dplangevin import PrivateClassifier, random
from dplangevin.files import Checkpoint
from dplangevin.library import attack, facts, learn
from dplangevin.pipeline import reference
from dplangevin.privacy import Budget
from dplangevin.problems.chain import Chain
from dplangevin.problems.glm import Glm
from dplangevin.problems.sampling import Sampling
from dplangevin.samplers.chains.loop import run
from dplangevin.samplers.posterior import Sampler

devices = pytest.mark.parametrize("name", emulated.EVERY)


@pytest.mark.slow
@devices
@pytest.mark.parametrize("of", ["rows", "features", "images"])
def test_a_sweep_gives_the_same_tables(
    name: str, of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cfg, data = toy.of(of, "objpert", "nonprivate"), toy.write(tmp_path, of)
    wanted = swept.experiment(cfg, "toy", of, data, tmp_path / "cpu")
    with emulated.on(name) as device:
        monkeypatch.setattr("dplangevin.methods.pick", lambda *given: device)
        found = swept.experiment(cfg, "toy", of, data, tmp_path / "device")
    for table in wanted:
        pd.testing.assert_frame_equal(found[table], wanted[table], rtol=1e-3, atol=1e-3)


@pytest.mark.slow
@devices
def test_the_library_learns_predicts_and_attacks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = rows(1, 80, 3)[0]
    y = (x @ [2.0, -1.0, 0.5] > 0).astype(int)
    problem, known = Glm.from_arrays(x, y, row_bound=1.0), facts(20, 2)
    given: dict[str, Any] = {"epsilon": 2.0, "classes": [0, 1], "random_state": 0}
    with emulated.on(name) as device:
        for method in ("dpvi", "objpert"):
            (here,), (there,) = (
                learn(method, problem, Budget(1.0, 1e-5), 0, device=at) for at in ("cpu", device)
            )
            assert here.theta.device.type == there.theta.device.type == "cpu"
            torch.testing.assert_close(there.theta, here.theta, rtol=1e-3, atol=1e-4)
            torch.testing.assert_close(there.predict(x), here.predict(x), rtol=1e-3, atol=1e-4)
        fits = [PrivateClassifier("outpert", **given, device=at).fit(x, y) for at in ("cpu", device)]
        np.testing.assert_allclose(fits[1].predict_proba(x), fits[0].predict_proba(x), atol=1e-4)
        bounds = []
        for at in ("cpu", name):
            monkeypatch.setenv("DPL_DEVICE", at)
            bounds.append(attack("outpert", known, Budget(1.0, 1e-5), 0, runs=200).epsilon)
        assert bounds[1] == pytest.approx(bounds[0], abs=0.05)


@devices
def test_a_checkpoint_of_one_device_goes_on_on_another(name: str, tmp_path: Path) -> None:
    step = torch.full((20,), 0.01)
    chain = Chain(step, torch.full((20,), 0.5), Sampling("poisson", 20, 1.0), 0.5)
    of = logistic(2, 200)

    def ran(problem: Glm, checkpoint: Checkpoint) -> torch.Tensor:
        return run(problem, [chain], 2, random.generator(0, "test"), checkpoint=checkpoint).cpu()

    wanted = ran(of, Checkpoint(tmp_path / "whole.pt", "key"))
    with emulated.on(name) as device:
        for at, (first, second) in enumerate(((of, of.to(device)), (of.to(device), of))):
            path = tmp_path / f"{at}.pt"
            with pytest.raises(Stop):
                ran(first, Stopping(path, 10))
            torch.testing.assert_close(ran(second, Checkpoint(path, "key")), wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@devices
def test_the_reference_posterior(name: str) -> None:
    of = logistic(2, 100, 3)
    of = Glm(of.x, of.y, of.loss, x_test=of.x[:, :20], y_test=of.y[:, :20].clamp_min(0).long())
    sampler = Sampler(warmup=60, block=200, max_draws=400, chains=2)
    wanted = reference.sample_reference(of, 1.0, sampler, 50, 2, random.generator(0, "test"))
    with emulated.on(name) as device:
        found = reference.sample_reference(of.to(device), 1.0, sampler, 50, 2, random.generator(0, "test"))
    torch.testing.assert_close(found.mean, wanted.mean, rtol=0.05, atol=0.05)
