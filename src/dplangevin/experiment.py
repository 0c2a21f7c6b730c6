"""The sweep: one method on one data set over all budgets and repeats, to tidy rows priced twice.

Work is cut into units (a scaling, a variant of the method, a block of budgets).  A finished unit is kept on disk under
the hash of all that went into it, so an interrupted sweep goes on where it stopped and a changed one starts afresh.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
import torch.nn.functional as F
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from torch import Tensor
from tqdm import tqdm

from dplangevin import noise
from dplangevin.data import Dataset, sha256
from dplangevin.methods import Method, Release
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.units import code_hash, kept

SLACK = 1e-6  # relative; rounding when a claimed epsilon is recomputed from its event
SETTING = ["experiment", "dataset", "model", "method", "variant", "scaling"]
PRIVACY = [
    "epsilon",
    "delta",
    "epsilon_paper",
    "epsilon_tight",
    "accountant_tight",
    "adjacency",
    "released",
    "sampling",
]
COLUMNS = [*SETTING, *PRIVACY, "repeat", "metric", "value", "violated", "assumptions"]


class Unit(NamedTuple):
    """What is computed in one go: `overrides` of the method's config, by name."""

    scaling: str
    overrides: dict[str, Any]
    epsilons: list[float]

    @property
    def variant(self) -> str:
        return ";".join(f"{name}={value}" for name, value in self.overrides.items())


def sweep(
    cfg: DictConfig, experiment: str, dataset: str, method: str, data: Path, units: Path
) -> pd.DataFrame:
    """All rows of one method on one data set.  data: its prepared file; units: the folder of finished units."""
    spec = cfg.experiment[experiment]
    prepared = Dataset.load(data)
    base = {
        "code": code_hash(),
        "data": sha256(data),
        "seed": cfg.seed,
        "delta": cfg.delta,
        "repeats": cfg.repeats,
        "method": OmegaConf.to_container(cfg.method[method], resolve=True),
        "model": OmegaConf.to_container(cfg.model[spec.model], resolve=True),
    }
    frames = []
    for unit in tqdm(list(plan(spec, dataset, method, budgeted(cfg, method))), unit="unit", disable=None):
        names = [experiment, dataset, spec.model, method, unit.variant, unit.scaling]
        setting = dict(zip(SETTING, names, strict=True))
        done = kept(units, [base, unit], partial(run_unit, cfg, setting, unit, prepared))
        frames.append(pd.read_csv(done, keep_default_na=False))
    return pd.concat(frames, ignore_index=True)[COLUMNS]


def plan(spec: DictConfig, dataset: str, method: str, has_budget: bool) -> Iterator[Unit]:
    """The units of a sweep, in a fixed order."""
    vary = OmegaConf.to_container(spec.vary.get(method, OmegaConf.create({})), resolve=True)
    assert isinstance(vary, dict)
    epsilons = [float(e) for e in spec.epsilons[dataset]] if has_budget else [math.inf]
    size = spec.budgets_per_unit
    for scaling in spec.scalings:
        for values in itertools.product(*vary.values()):
            overrides = dict(zip(map(str, vary), values, strict=True))
            for start in range(0, len(epsilons), size):
                yield Unit(scaling, overrides, epsilons[start : start + size])


def budgeted(cfg: DictConfig, method: str) -> bool:
    return bool(instantiate(cfg.method[method]).budgeted)


def run_unit(cfg: DictConfig, setting: dict[str, str], unit: Unit, prepared: Dataset) -> pd.DataFrame:
    """Train, price and test one unit."""
    data = prepared.scaled(unit.scaling)
    problem = instantiate(cfg.model[setting["model"]])(data, cfg.repeats)
    method: Method = instantiate(OmegaConf.merge(cfg.method[setting["method"]], unit.overrides))
    budgets = [Budget(epsilon, cfg.delta) for epsilon in unit.epsilons]
    # the same stream for every unit: budgets, variants and scalings are compared on the same noise
    rng = noise.generator(cfg.seed, f"{setting['dataset']}/{setting['method']}")
    release = method(problem, budgets, rng)
    metrics = evaluate(release.theta, data)
    metrics |= {name: release.info[name] for name in ("r_hat", "ess") if name in release.info}
    if not method.budgeted:
        metrics["majority_accuracy"] = torch.as_tensor(data.majority_accuracy)[:, None].expand(cfg.repeats, 1)
    assumptions = list(cfg.dataset[setting["dataset"]].assumptions)
    return pd.DataFrame(rows(setting, method, budgets, release, metrics, assumptions), columns=COLUMNS)


def rows(
    setting: Mapping[str, str],
    method: Method,
    budgets: Sequence[Budget],
    release: Release,
    metrics: Mapping[str, Tensor],
    assumptions: Sequence[str],
) -> Iterator[dict[str, Any]]:
    """Long-form rows of a release.  Raises ValueError when the event costs more than its budget."""
    for e, (budget, guarantee) in enumerate(zip(budgets, release.guarantee, strict=True)):
        claimed = method.accountant.epsilon(guarantee.event, guarantee.delta, guarantee.adjacency)
        if not (claimed <= budget.epsilon * (1 + SLACK) and guarantee.delta <= budget.delta):
            raise ValueError(
                f"{setting['method']} on {setting['dataset']} refused: by {method.accountant.name} its event costs "
                f"({claimed:.6g}, {guarantee.delta:g}), more than the budget ({budget.epsilon:.6g}, {budget.delta:g})"
            )
        tight = Tight().price(guarantee.event, budget.delta, guarantee.adjacency)
        failed = [*theorem_conditions(method, guarantee.event, guarantee.delta), release.info["violated"][e]]
        common = {
            **setting,
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "epsilon_paper": claimed,
            "epsilon_tight": tight.epsilon,
            "accountant_tight": tight.accountant,
            "adjacency": guarantee.adjacency,
            "released": guarantee.released,
            "sampling": guarantee.sampling,
            "violated": "; ".join(text for text in failed if text),
            "assumptions": "; ".join([*guarantee.assumptions, *assumptions]),
        }
        for metric, values in metrics.items():
            for repeat, value in enumerate(values[:, e].tolist()):
                yield {**common, "repeat": repeat, "metric": metric, "value": value}


def theorem_conditions(method: Method, event: Any, delta: float) -> tuple[str, ...]:
    """Conditions of the paper's theorem that this event fails, as text."""
    check = getattr(method.accountant, "violated", None)
    return check(event, delta) if check else ()


def evaluate(theta: Tensor, data: Dataset) -> dict[str, Tensor]:
    """Accuracy and log loss (nats per row) on the test rows, each ``(R, E)``.

    Of the posterior predictive ``p(y | x) = mean_s sigmoid(y x.theta_s)``; theta: ``(R, E, samples, d)``.
    """
    repeats, budgets, samples, _ = theta.shape
    x = torch.as_tensor(data.x_test, dtype=torch.float32)  # (1 or R, m, d)
    y = torch.as_tensor(data.y_test, dtype=torch.float32)[:, None]
    yes = torch.full((repeats, budgets, x.shape[1]), -torch.inf)  # log of the summed probability of y
    no = yes.clone()
    for s in range(samples):
        margins = y * (theta[:, :, s].float() @ x.mT)  # (R, E, m)
        yes, no = torch.logaddexp(yes, F.logsigmoid(margins)), torch.logaddexp(no, F.logsigmoid(-margins))
    right = (yes > no).float() + 0.5 * (yes == no).float()
    return {"accuracy": right.double().mean(-1), "log_loss": (math.log(samples) - yes).double().mean(-1)}
