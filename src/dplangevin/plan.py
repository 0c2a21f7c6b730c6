"""What an experiment asks for: runs, each with its method as it is to be run, units of work; columns of results."""

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf

KEYS = ["run", "variant", "scaling", "epsilon"]  # of a row of runs.csv, in its folder
RUN_COLUMNS = [
    "experiment", "dataset", "problem", "run", "method", "variant", "scaling", "block", "epsilon", "delta",
    "epsilon_paper", "accountant_paper", "epsilon_tight", "accountant_tight", "adjacency", "adjacency_tight",
    "epsilon_add_remove", "epsilon_replace_one", "epsilon_formula_epochs", "epsilon_formula_steps", "epsilon_last",
    "epsilon_audit", "audit_confidence", "audit_pair", "released", "sampling", "schedule", "calibration", "step_size",
    "noise_std", "noise_multiplier", "clip", "l2", "smoothness", "batch", "epochs", "steps", "records", "parameters",
    "classes", "row_bound", "violated", "assumptions",
]  # fmt: skip
TABLES = {
    "runs": RUN_COLUMNS,
    "scores": [*KEYS, "seed", "metric", "value"],
    "curve": ["run", "epsilon", "seed", "epoch", "accuracy", "loss", "epsilon_add_remove", "epsilon_replace_one"],
    "reliability": ["run", "epsilon", "seed", "predictor", "bin", "confidence", "accuracy", "count"],
}  # fmt: skip
FIELDS = (
    "method", "problem", "block", "seeds", "epsilons", "settings", "assumptions", "stream", "datasets", "tuned",
)  # fmt: skip


class Run(NamedTuple):
    """One line of an experiment: a method with its settings, at some budgets.

    name: of the run; method, problem: of conf/method and conf/problem; config: of the method, as it is to be run.
    block: the part of a table that it belongs to.  stream: name of its random stream; runs of one stream draw the same
    minibatches and noise.
    """

    name: str
    method: str
    problem: str
    config: dict[str, Any]
    epsilons: list[float]
    seeds: int
    block: str
    stream: str
    assumptions: list[str]


class Unit(NamedTuple):
    """What is kept as one piece: `overrides` of the run's method, by name, at one scaling and some of its budgets."""

    run: Run
    scaling: str
    overrides: dict[str, Any]
    epsilons: list[float]

    @property
    def variant(self) -> str:
        return ";".join(f"{name}={value}" for name, value in self.overrides.items())

    @property
    def config(self) -> dict[str, Any]:
        return merged(self.run.config, self.overrides)


def named(spec: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The entries of an experiment's runs: a name in `methods` is a run of that method, `runs` says more.

    ValueError for a word that no entry has.
    """
    entries = {str(name): {"method": str(name)} for name in spec.get("methods") or []}
    for name, entry in (spec.get("runs") or {}).items():
        if unknown := sorted(set(entry) - set(FIELDS)):
            raise ValueError(f"run {name} has unknown words {unknown}: an entry has {', '.join(FIELDS)}")
        entries[str(name)] = {"method": str(name), **plain(entry)}
    return entries


def runs(cfg: DictConfig, experiment: str, dataset: str) -> list[Run]:
    """The runs of an experiment on a data set, in order.

    A run's method has the settings of conf/method, changed by the experiment's for that method, then by its own.  An
    entry with `datasets` is of those alone; of one with `tuned`, the experiment's text of that name is an assumption.
    """
    spec = cfg.experiment[experiment]
    found = []
    for name, entry in named(spec).items():
        if dataset not in (entry.get("datasets") or [dataset]):
            continue
        method = entry["method"]
        config = settled(cfg, spec, method)
        config = merged(config, plain(entry.get("settings") or {}))
        tuned = [spec.get("tuned") or ""] if entry.get("tuned") else []
        if "" in tuned:
            raise ValueError(f"run {name} is tuned, but the experiment has no `tuned` that says how")
        stream = entry.get("stream") or spec.get("stream") or f"{dataset}/{method}"
        found.append(
            Run(
                name,
                method,
                entry.get("problem") or spec.problem,
                config,
                asked(spec, dataset, name, entry) if budgeted(config) else [math.inf],
                int(entry.get("seeds") or spec.get("seeds") or cfg.repeats),
                entry.get("block") or "",
                stream,
                [*tuned, *(entry.get("assumptions") or [])],
            )
        )
    return found


def units(spec: DictConfig, run: Run) -> Iterator[Unit]:
    """The units of a run, in a fixed order."""
    vary = plain(spec.get("vary") or {}).get(run.name, {})
    size = spec.get("budgets_per_unit") or 1
    for scaling in spec.get("scalings") or [""]:
        for values in itertools.product(*vary.values()):
            overrides = dict(zip(vary, values, strict=True))
            for start in range(0, len(run.epsilons), size):
                yield Unit(run, scaling, overrides, run.epsilons[start : start + size])


def budgeted(config: Mapping[str, Any]) -> bool:
    """Whether a method has privacy to spend. ValueError, naming the fix, where its class cannot be imported."""
    name = config["_target_"]
    try:
        method: Any = get_class(name)
    except ImportError as error:
        why = error.__cause__ or error
        raise ValueError(
            f"{name} cannot be imported ({why}): a module outside the package must be in a folder on PYTHONPATH"
        ) from error
    return bool(method.budgeted)


def asked(spec: DictConfig, dataset: str, run: str, entry: Mapping[str, Any]) -> list[float]:
    """The budgets of a run: its own `epsilons`; else the experiment's for the data set, a list, or lists by run; [inf]
    where there are none.  `default` is for the other data sets, and for the other runs."""
    if "epsilons" in entry:
        return [float(epsilon) for epsilon in entry["epsilons"] or [math.inf]]
    given = spec.get("epsilons")
    if given is None:
        return [math.inf]
    place = dataset if dataset in given else "default"
    if place not in given:
        raise ValueError(
            f"epsilons has no entry for the data set {dataset!r}: add one, or one named `default`"
        )
    given = given[place]
    if OmegaConf.is_dict(given):
        name = run if run in given else "default"
        if name not in given:
            raise ValueError(f"epsilons.{place} has no list for {run!r}: add one, or one named `default`")
        given = given[name]
    return [float(epsilon) for epsilon in given]


def settled(cfg: DictConfig, spec: DictConfig, method: str) -> dict[str, Any]:
    """The config of a method with the experiment's `settings` for it."""
    if method not in cfg.method:
        raise ValueError(f"no method {method!r}: conf/method has {', '.join(map(str, cfg.method))}")
    return merged(plain(cfg.method[method]), plain(spec.get("settings") or {}).get(method, {}))


def merged(base: Mapping[Any, Any], changes: Mapping[Any, Any]) -> dict[Any, Any]:
    """`base` with `changes`, key by key; an object (`_target_`) is replaced as a whole."""
    both = dict(base)
    for name, value in changes.items():
        old = both.get(name)
        if isinstance(value, Mapping) and isinstance(old, Mapping) and "_target_" not in value:
            value = merged(old, value)
        both[name] = value
    return both


def plain(node: Any) -> dict[str, Any]:
    """A mapping of the config as a dict."""
    found = OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
    assert isinstance(found, dict)
    return {str(name): value for name, value in found.items()}
