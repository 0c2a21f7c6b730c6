"""Small experiments for tests of the sweep."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf

from dplangevin.data import Dataset
from dplangevin.pipeline.config import load

N, K = 120, 3  # of the features and of the images
LAYERS = [{"conv": 4, "kernel": 3, "stride": 2}, {"activation": "tanh"}, {"linear": K}]
NETWORK = {
    "_target_": "dplangevin.problems.architectures.build",
    "shape": [1, 8, 8],
    "classes": K,
    "layers": LAYERS,
}
ITS_PROBLEM = {"_target_": "dplangevin.problems.network.NetworkProblem.of_images", "_partial_": True}
SAMPLING = {"_target_": "dplangevin.problems.sampling.Sampling", "batch": 16, "epochs": 2}


@cache
def project() -> DictConfig:
    """The project's config, without most of what nobody asks for: each test copies it."""
    cfg = load()
    cfg.experiment = {"li2019_tab1": cfg.experiment.li2019_tab1}
    del cfg["pipeline"], cfg["analysis"]
    return cfg


def with_experiment(dataset: str, spec: dict[str, Any], **more: Any) -> DictConfig:
    """The project's config with an experiment `toy` on a data set."""
    found: dict[str, Any] = {"dataset": {dataset: {"assumptions": ["made up"]}}, "experiment": {"toy": spec}}
    merged = OmegaConf.merge(project(), {"delta": 1e-3, "repeats": 3}, found, more)
    assert isinstance(merged, DictConfig)
    return merged


def config(*methods: str) -> DictConfig:
    """Rows of a table: 2 scalings, 2 ridges of objpert, 3 budgets, 3 seeds."""
    spec = {
        "methods": list(methods),
        "problem": "logistic",
        "scalings": ["unit", "global"],
        "vary": {"objpert": {"ridge": [0.1, 5.0]}},
        "budgets_per_unit": 2,
        "epsilons": {"rows": [0.5, 1.0, 4.0]},
    }
    return with_experiment("rows", spec, delta=1e-5)


def on_features() -> DictConfig:
    """Softmax regression: chains on the same rows and noise, both kinds of samples, from 0 and at random."""
    langevin = {"method": "dp_sgld_ryffel2022", "epsilons": [1.0]}
    spec = {
        "datasets": ["features"],
        "problem": "features",
        "paired": True,
        "stream": "batches",
        "price_neighbours": "replace_one",
        "prices": ["neighbours", "ryffel2022", "last_iterate"],
        "attack": {"_target_": "dplangevin.attacks.softmax.OnRow", "single": 400, "chain": 100},
        "settings": {
            "sgd": {"unit": "mean_smoothness", "sampling": {**SAMPLING, "scheme": "subset"}},
            "dp_sgd": {
                "unit": "mean_smoothness",
                "clip": 3.0,
                "sampling": {**SAMPLING, "scheme": "poisson"},
                "accountant": "${accountant.tight}",
                "adjacency": "replace_one",
            },
            "dp_sgld_ryffel2022": {"sampling": {**SAMPLING, "scheme": "subset"}},
        },
        "runs": {
            "sgd": {"epsilons": None},
            "dp_sgd": {"epsilons": [1.0, 8.0]},
            "published": {**langevin, "settings": {"noise_std": 0.05}, "assumptions": ["as printed"]},
            "zero": {**langevin, "settings": {"clip": 3.0, "initial": "zero"}},
            "theorem": {**langevin, "settings": {"clip": 3.0}},
        },
    }
    problem = {
        "_target_": "dplangevin.problems.glm.Glm.of_features", "_partial_": True,
        "row_norm": "norm_q99", "row_bound": None, "smoothness": "private",
    }  # fmt: skip
    return with_experiment("features", spec, problem={"features": problem})


def of_networks() -> DictConfig:
    """Networks that are trained from scratch, with learning curves: without privacy, with it, stated noise, votes."""
    sampling = {"sampling": {"batch": 20, "epochs": 2}}
    spec = {
        "datasets": ["images"],
        "problem": "small",
        "one_budget_per_task": True,
        "price_neighbours": "add_remove",
        "prices": ["neighbours"],
        "formula": "${experiment.li2019_tab1.formula}",
        "observers": {"curve": {**project().experiment.li2019_tab1.observers.curve, "measured": 2}},
        "seeds": 2,
        "settings": {
            "sgd": {"step": 0.2, "unit": "absolute", "precision": 0.0, **sampling},
            "pate": "${experiment.li2019_tab1.settings.pate}",
            "dp_sgd": {"step": 0.2, "unit": "absolute", "accountant": "${accountant.tight}", **sampling},
            "dp_sgld_li2019": {
                "step": 0.3, "unit": "absolute", "clip": 5.0, "calibrated": None, "samples": 4,
                "accountant": "${accountant.tight}", **sampling,
            },
        },
        "runs": {
            "sgd": {"epsilons": None},
            "dp_sgd": {"epsilons": [2.0, 8.0]},
            "printed": {"method": "dp_sgld_li2019", "epsilons": [1.0]},
            "pate": {
                "epsilons": [8.0],
                "settings": {
                    "teachers": 12,
                    "teacher": {"steps": 20, "batch": 10, "chunk": 6},
                    "vote": {"queries": 20, "fewest": 4, "threshold": 8.0, "answer_std": 2.0},
                    "student": {"steps": 20, "batch": 8},
                },
            },
        },
    }  # fmt: skip
    return with_experiment("images", spec, problem={"small": {**ITS_PROBLEM, "network": NETWORK}})


def of(name: str, *methods: str) -> DictConfig:
    """The experiment on a data set: `rows`, with these methods, `features` or `images`."""
    return config(*methods) if name == "rows" else on_features() if name == "features" else of_networks()


def write(folder: Path, name: str = "rows", shape: tuple[int, ...] = (1, 8, 8), classes: int = K) -> Path:
    """Prepared data of a data set: `rows`, `features`, or else images."""
    rng, path = np.random.default_rng(0), folder / f"{name}.npz"
    if name == "rows":
        table = rng.normal(size=(1, 300, 4))
        y = np.where(table @ np.array([1.0, -1.0, 0.5, 0.0]) > 0, 1.0, -1.0)
        meta: dict[str, Any] = {"name": name, "row_norm_bound": 3.0}
        Dataset(table[:, :200], y[:, :200], table[:, 200:], y[:, 200:], meta).save(path)
        return path
    labels, meta = rng.integers(0, classes, N + 60), {"name": name, "classes": classes}
    if name == "features":
        x: np.ndarray = (rng.normal(size=(N + 60, 5)) + 3 * np.eye(K, 5)[labels]).astype(np.float32)
        public = {"norm_mean": 3.0, "norm_q99": 4.0, "norm_max": 5.0}
        meta["public"] = {"set": "others", "images": 9, **public}
    else:
        x = rng.integers(0, 100, (N + 60, *shape))
        x[np.arange(N + 60), :, :, 2 * labels] += 150  # a bright column says the class
        x = x.astype(np.uint8)
    Dataset.from_arrays(x[:N], labels[:N], x[N:], labels[N:], meta).save(path)
    return path
