"""The sweep: one method on one data set over all budgets and repeats, to tidy rows priced twice.

Work is cut into units (a scaling, a variant of the method, a block of budgets), which `cache.Store` keeps: an
interrupted sweep goes on where it stopped, and only the units are computed whose parameters, data or code have
changed.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import Tensor
from tqdm import tqdm

from dplangevin import noise, reference
from dplangevin.cache import File, Store, code_hash, key, targets
from dplangevin.data import Dataset
from dplangevin.evaluation import REPORTED, evaluate, mixed
from dplangevin.methods import Method, Release
from dplangevin.plan import COLUMNS, SETTING, Unit, plain, plan, settled
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import Adjacency

SLACK = 1e-6  # relative; rounding when a claimed epsilon is recomputed from its event


def sweep(
    cfg: DictConfig,
    experiment: str,
    dataset: str,
    method: str,
    data: File,
    store: Store,
    posterior: File | None = None,
) -> list[str]:
    """Finish all units of one method on one data set; their keys, in order.

    data: its prepared file; posterior: the file of `reference.save` that the releases are compared with, for an
    experiment that has a `reference`.
    """
    spec = cfg.experiment[experiment]
    asked = units(cfg, experiment, dataset, method)
    keys = unit_keys(cfg, experiment, dataset, method, data, posterior, asked)
    prepared: Dataset | None = None
    for unit, name in zip(tqdm(asked, unit="unit", disable=None), keys, strict=True):
        if store.find(name):
            continue
        if prepared is None:
            prepared = Dataset.load(data.get())
        names = [experiment, dataset, spec.model, method, unit.variant, unit.scaling]
        setting = dict(zip(SETTING, names, strict=True))
        store.keep(name, run_unit(cfg, setting, unit, prepared, posterior and posterior.get()))
    return keys


def units(cfg: DictConfig, experiment: str, dataset: str, method: str) -> list[Unit]:
    """The units of one method on one data set, in order."""
    spec = cfg.experiment[experiment]
    has_budget = bool(instantiate(settled(cfg.method[method], spec, method)).budgeted)
    return list(plan(spec, dataset, method, has_budget))


def unit_keys(
    cfg: DictConfig,
    experiment: str,
    dataset: str,
    method: str,
    data: File,
    posterior: File | None,
    asked: Sequence[Unit],
) -> list[str]:
    """The keys of units: all that decides their rows."""
    spec = cfg.experiment[experiment]
    model = plain(cfg.model, spec.model)
    base = {
        "names": [experiment, dataset, spec.model, method],
        "data": data.sha256,
        "posterior": posterior and posterior.sha256,
        "compared": spec.get("compared", False),
        "seed": cfg.seed,
        "delta": spec.get("delta", cfg.delta),
        "audit": spec.get("audit"),
        "repeats": cfg.repeats,
        "model": model,
        "assumptions": list(cfg.dataset[dataset].assumptions),
    }
    found = []
    for unit in asked:
        config = settled(cfg.method[method], spec, method, unit.overrides)
        code = code_hash(__name__, *targets(config, model))
        found.append(key([base, code, config, unit]))
    return found


def run_unit(
    cfg: DictConfig, setting: dict[str, str], unit: Unit, prepared: Dataset, posterior: Path | None
) -> pd.DataFrame:
    """Train, price and test one unit."""
    spec = cfg.experiment[setting["experiment"]]
    data = prepared.scaled(unit.scaling)
    problem = instantiate(cfg.model[setting["model"]])(data, cfg.repeats)
    config = settled(cfg.method[setting["method"]], spec, setting["method"], unit.overrides)
    method: Method = instantiate(config)
    budgets = [Budget(epsilon, spec.get("delta", cfg.delta)) for epsilon in unit.epsilons]
    # the same stream for every unit: budgets, variants and scalings are compared on the same noise
    rng = noise.generator(cfg.seed, f"{setting['dataset']}/{setting['method']}")
    release = method(problem, budgets, rng)
    if spec.get("compared") and posterior is None:
        raise ValueError(
            f"experiment {setting['experiment']!r} is compared with the exact posterior: name its file"
        )
    exact = None if posterior is None else reference.load(posterior, unit.scaling)
    release, metrics = measured(release, problem.shared, data, exact)
    if not method.budgeted:
        metrics["majority_accuracy"] = torch.as_tensor(data.majority_accuracy)[:, None].expand(cfg.repeats, 1)
    assumptions = list(cfg.dataset[setting["dataset"]].assumptions)
    found = rows(setting, method, budgets, release, metrics, assumptions, spec.get("audit"))
    return pd.DataFrame(found, columns=COLUMNS)


def measured(
    release: Release, shared: bool, data: Dataset, exact: reference.Reference | None
) -> tuple[Release, dict[str, Tensor]]:
    """Metrics by name, ``(R, E)``, and the release.

    A chain that has diverged has nan for every metric and is named in `violated`; so has the mixing of a budget that
    has such a chain.
    """
    finite = release.theta.isfinite().all(-1).all(-1)  # (R, E)
    theta = release.theta.nan_to_num(0.0, 0.0, 0.0)
    metrics = evaluate(theta, data)
    if exact is not None:
        metrics |= reference.distances(theta, metrics["log_loss"], exact)
    metrics = {name: value.where(finite, torch.nan) for name, value in metrics.items()}
    clean = finite.all(0) if shared else finite
    metrics |= {name: value.where(clean, torch.nan) for name, value in mixed(theta, shared).items()}
    metrics |= {name: release.info[name] for name in REPORTED if name in release.info}
    notes = [
        "; ".join(filter(None, [note, f"{lost} of {len(finite)} chains diverged" if lost else ""]))
        for note, lost in zip(release.info["violated"], (~finite).sum(0).tolist(), strict=True)
    ]
    return release._replace(info={**release.info, "violated": notes}), metrics


def rows(
    setting: Mapping[str, str],
    method: Method,
    budgets: Sequence[Budget],
    release: Release,
    metrics: Mapping[str, Tensor],
    assumptions: Sequence[str],
    audit: Adjacency | None = None,
) -> Iterator[dict[str, Any]]:
    """Long-form rows of a release.  Raises ValueError when the event costs more than its budget.

    audit: the adjacency that epsilon_tight is priced under, by default the guarantee's own.
    """
    for e, (budget, guarantee) in enumerate(zip(budgets, release.guarantee, strict=True)):
        claimed = method.accountant.epsilon(guarantee.event, guarantee.delta, guarantee.adjacency)
        if not (claimed <= budget.epsilon * (1 + SLACK) and guarantee.delta <= budget.delta):
            raise ValueError(
                f"{setting['method']} on {setting['dataset']} refused: by {method.accountant.name} its event costs "
                f"({claimed:.6g}, {guarantee.delta:g}), more than the budget ({budget.epsilon:.6g}, {budget.delta:g})"
            )
        audited = audit or guarantee.adjacency
        tight = Tight().price(guarantee.event, budget.delta, audited)
        failed = [*theorem_conditions(method, guarantee.event, guarantee.delta), release.info["violated"][e]]
        common = {
            **setting,
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "epsilon_paper": claimed,
            "epsilon_tight": tight.epsilon,
            "accountant_tight": tight.accountant,
            "adjacency": guarantee.adjacency,
            "adjacency_tight": audited,
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
