"""Every experiment of conf/, from its config to priced rows: at scale=smoke, with one seed, on small data."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import swept
import toy
from composed import ROOT, composed
from omegaconf import ListConfig, OmegaConf
from scenarios import drawn

from dplangevin.backbones import network
from dplangevin.data import Dataset
from dplangevin.pipeline.plan import runs
from dplangevin.pipeline.sweep import CLOSE

EXPERIMENTS = sorted(path.stem for path in (ROOT / "conf/experiment").glob("*.yaml"))
IMAGES = {"mnist": (1, 28, 28), "cifar10": (3, 32, 32), "svhn": (3, 32, 32)}


@pytest.fixture(scope="module")
def smoke() -> Any:
    """The configuration, with one seed, and one run of each method on each problem."""
    cfg: Any = OmegaConf.create(OmegaConf.to_container(composed("scale=smoke", "pipeline=svhn")))
    cfg.delta = 1e-4  # above 1/n^2
    for spec in cfg.experiment.values():
        spec.compared, spec.seeds = False, 1
        for key, budgets in list((spec.get("epsilons") or {}).items()):
            if isinstance(budgets, ListConfig):
                spec.epsilons[key] = budgets[:1]
        kinds = set()
        for key, run in list((spec.get("runs") or {}).items()):
            run.pop("seeds", None)
            kind = run.get("method", key), run.get("problem")
            if kind in kinds:
                del spec.runs[key]
            kinds.add(kind)
    return cfg


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toy, "N", 200)  # more than a minibatch
        kinds = {name: toy.write(folder, name) for name in ("rows", "features")}
        return kinds | {name: toy.write(folder, name, shape, 10) for name, shape in IMAGES.items()}


@pytest.mark.timeout(30)  # the first composes conf/, and trains eight methods
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_ends_in_priced_rows(
    name: str, smoke: Any, data: dict[str, Path], tmp_path: Path
) -> None:
    dataset = next(run.dataset for run in smoke.pipeline.runs.values() if run.experiment == name)
    planned, weights = runs(smoke, name, dataset), None
    for backbone in {smoke.problem[run.problem].get("backbone") for run in planned} - {None}:
        weights, state = tmp_path / "weights.npz", drawn(network(smoke.backbone[backbone])).state_dict()
        np.savez(weights, **{key: value.numpy() for key, value in state.items()})
    kind = dataset if dataset in IMAGES else "features" if dataset in smoke.features else "rows"
    found = swept.experiment(smoke, name, dataset, data[kind], tmp_path / "units", weights=weights)
    rows, scores = found["runs"], found["scores"]
    assert set(rows.run) == {run.name for run in planned}
    assert (rows.epsilon_proven > 0).all()  # infinite without privacy
    spec, private = smoke.experiment[name], rows[rows.epsilon.lt(np.inf)]
    if spec.get("calibrated") == "proven":  # the theorems are loose
        assert private.epsilon_proven.between((1 - 3 * CLOSE) * private.epsilon, private.epsilon).all()
        assert set(rows.delta) == {min(smoke.delta, Dataset.load(data[kind]).n ** -2)}
    assert scores[scores.metric.eq("accuracy")].value.between(0, 1).all()
