"""A run of a training experiment, from the config to its tables."""

import math
from pathlib import Path

import pandas as pd
import pytest
import swept
from omegaconf import DictConfig, OmegaConf

from dplangevin.data import Dataset
from dplangevin.privacy.accountants.li2019 import Li2019
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.stepsize import steps_event

LOOP = "dplangevin.training.loop.Steps"
CONFIG = {
    "seed": 3,
    "dataset": {"rows": {"assumptions": ["rows drawn at random"]}},
    "network": {
        "small": {
            "_target_": "dplangevin.networks.build",
            "shape": [1, 8, 8],
            "classes": 3,
            "layers": [{"conv": 4, "kernel": 3, "stride": 2}, {"activation": "tanh"}, {"linear": 3}],
        }
    },
    "learner": {
        "sgd": {
            "_target_": "dplangevin.training.sgd.Sgd",
            "step": 0.2,
            "momentum": 0.9,
            "precision": 0.0,
            "minibatches": {"_target_": LOOP, "batch": 40, "epochs": 1, "measured": 1},
        },
        "dp_sgld": {
            "_target_": "dplangevin.training.dp_sgld.DpSgld",
            "accountant": {"_target_": "dplangevin.privacy.accountants.tight.Tight"},
            "step": 0.2,
            "clip": None,
            "schedule": "fixed",
            "precision": 1.0,
            "samples": 3,
            "burn_in": 0.5,
            "minibatches": {"_target_": LOOP, "batch": 40, "epochs": 1, "measured": 2},
        },
    },
    "training": {
        "tried": {
            "dataset": "rows",
            "delta": 1e-3,
            "formula": {"_target_": "dplangevin.privacy.accountants.li2019.Li2019", "max_order": 64},
            "runs": {
                "free": {
                    "block": "nonprivate", "network": "small", "learner": "sgd", "seeds": 2, "epsilons": None,
                    "settings": {}, "assumptions": [],
                },
                "private": {
                    "block": "equal", "network": "small", "learner": "dp_sgld", "seeds": 2,
                    "epsilons": [0.5, 2.0], "settings": {}, "assumptions": ["as asked"],
                },
                "dear": {
                    "block": "printed", "network": "small", "learner": "dp_sgld", "seeds": 2, "epsilons": [0.1],
                    "settings": {"clip": 3.0}, "assumptions": [],
                },
            },
        }
    },
}  # fmt: skip


@pytest.fixture
def cfg() -> DictConfig:
    return OmegaConf.create(CONFIG)


@pytest.fixture
def data(images: Dataset, tmp_path: Path) -> Path:
    images.save(tmp_path / "rows.npz")
    return tmp_path / "rows.npz"


def test_tables(cfg: DictConfig, data: Path, tmp_path: Path) -> None:
    found = swept.training(cfg, "tried", "private", data, tmp_path / "units")
    final, curve, bins = found["final"], found["curve"], found["reliability"]
    assert list(zip(final.epsilon, final.seed, strict=True)) == [(0.5, 0), (0.5, 1), (2.0, 0), (2.0, 1)]
    for row in final.to_dict("records"):
        event = steps_event(row["noise_multiplier"], rate=0.1, steps=10, schedule="fixed")
        assert row["epsilon_formula"] == pytest.approx(Li2019(64).epsilon(event, 1e-3, "add_remove"))
        assert row["epsilon_replace_one"] == pytest.approx(Tight().epsilon(event, 1e-3, "replace_one"))
        assert 0.98 * row["epsilon"] < row["epsilon_add_remove"] <= row["epsilon"]
        assert row["assumptions"].endswith("rows drawn at random; as asked")
    assert final.accuracy.between(0, 1).all()
    assert (final.log_loss != final.log_loss_single).all()
    assert set(curve.epoch) == {0.5, 1.0}
    assert set(bins.predictor) == {"single", "average"}
    assert (bins.groupby(["epsilon", "seed", "predictor"])["count"].sum() == 90).all()


def test_without_privacy_and_with_too_little(cfg: DictConfig, data: Path, tmp_path: Path) -> None:
    free = swept.training(cfg, "tried", "free", data, tmp_path / "units")["final"]
    assert (free.epsilon == math.inf).all()
    assert (free.epsilon_add_remove == math.inf).all()
    assert (free.accuracy == free.accuracy_single).all()
    assert free.violated.isna().all()
    dear = swept.training(cfg, "tried", "dear", data, tmp_path / "units")["final"]
    assert dear.violated.str.fullmatch(r"costs [\d.]+, more than the 0.1 asked").all()


def test_finished_budgets_are_kept_and_workers_decide_nothing(
    cfg: DictConfig, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    tables = []
    for workers in ("1", "2"):
        monkeypatch.setenv("DPL_WORKERS", workers)
        tables.append(swept.training(cfg, "tried", "private", data, tmp_path / workers))
    for name in tables[0]:
        pd.testing.assert_frame_equal(tables[0][name], tables[1][name])
    monkeypatch.setattr(
        "dplangevin.training.dp_sgld.DpSgld.__call__", lambda *_: pytest.fail("computed again")
    )
    swept.training(cfg, "tried", "private", data, tmp_path / "1")
    cfg.seed = 4
    monkeypatch.setenv("DPL_WORKERS", "1")
    with pytest.raises(pytest.fail.Exception):
        swept.training(cfg, "tried", "private", data, tmp_path / "1")
