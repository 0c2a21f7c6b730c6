"""The plan of an experiment: its runs, the tasks of each with their final configs, and the columns of results."""

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf

from dplangevin.pipeline.schema import RowSubset
from dplangevin.text import meant

KEYS = ["run", "variant", "scaling", "epsilon"]  # they identify a row of runs.csv within its folder
RUN_COLUMNS = [
    "experiment", "dataset", "problem", "run", "method", "variant", "scaling", "block", "epsilon", "delta",
    "epsilon_promised", "accountant_promised", "epsilon_proven", "accountant_proven", "adjacency", "adjacency_proven",
    "epsilon_add_remove", "epsilon_replace_one", "epsilon_formula_epochs", "epsilon_formula_steps", "epsilon_last",
    "epsilon_attack", "attack_confidence", "attack_pair", "released", "sampling", "schedule", "calibration",
    "step_size", "noise_std", "noise_multiplier", "clip", "l2", "smoothness", "batch", "epochs", "steps", "records",
    "parameters", "classes", "row_bound", "violated", "assumptions", "settings",
]  # fmt: skip
TABLES = {
    "runs": RUN_COLUMNS,
    "scores": [*KEYS, "seed", "metric", "value"],
    "curve": ["run", "epsilon", "seed", "epoch", "accuracy", "loss", "epsilon_add_remove", "epsilon_replace_one"],
    "samples": [*KEYS, "image", "pixels"],
    "reliability": ["run", "epsilon", "seed", "predictor", "bin", "confidence", "accuracy", "count"],
}  # fmt: skip
SUBSET = tuple(RowSubset.model_fields)  # fields that select the rows to train on


class Run(NamedTuple):
    """One entry of an experiment: a method with its whole config, at some budgets; [inf] without privacy.

    Chains of one `stream` draw the same minibatches and noise.
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


class Task(NamedTuple):
    """A piece of a run: one scaling, one variant, some budgets. The cache stores its rows under one key.

    Changes by dotted name make the variant. `problem` has its own already; `data_subset` is for `data.splits.subset`.
    """

    run: Run
    scaling: str
    epsilons: list[float]
    method_changes: dict[str, Any]
    problem_changes: dict[str, Any]
    data_changes: dict[str, Any]
    problem: dict[str, Any]
    data_subset: dict[str, Any]

    @property
    def variant(self) -> str:
        """The changes as text, which names the variant; "" if there are none."""
        changes = self.method_changes | {f"problem.{name}": x for name, x in self.problem_changes.items()}
        changes |= {f"dataset.{name}": value for name, value in self.data_changes.items()}
        return ";".join(f"{name}={value_text(value)}" for name, value in changes.items())

    @property
    def config(self) -> dict[str, Any]:
        return changed(self.run.config, self.method_changes)

    @property
    def settings(self) -> str:
        """Every setting of the method, as canonical JSON; "class" names the class of an object."""
        return json.dumps(_in_json(self.config), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _in_json(value: Any) -> Any:
    """Return a config without module paths and infinite numbers, which JSON does not have."""
    if isinstance(value, Mapping):
        fields = {name: _in_json(field) for name, field in value.items() if name != "_target_"}
        return fields | ({"class": value_text(value)} if "_target_" in value else {})
    if isinstance(value, list):
        return [_in_json(item) for item in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def value_text(value: Any) -> str:
    """Return a value as text for the name of a variant; an object is named by its class."""
    if isinstance(value, Mapping) and "_target_" in value:
        return str(value["_target_"]).rpartition(".")[2]
    return str(value)


def runs(cfg: DictConfig, experiment: str, dataset: str) -> list[Run]:
    """Return the runs of an experiment on a data set, in order: of `methods`, then of `runs`, which can state more.

    A method's config is its entry in conf/method, changed by the experiment's `settings`, then by the run's own.
    """
    spec, data = cfg.experiment[experiment], cfg.dataset.get(dataset) or cfg.features[dataset]
    shared, planned = [*(data.get("assumptions") or []), *(spec.get("assumptions") or [])], []
    entries: dict[str, Any] = {str(name): {} for name in spec.get("methods") or []}
    entries |= {str(name): plain(entry or {}) for name, entry in (spec.get("runs") or {}).items()}
    for name, entry in entries.items():
        if dataset not in (entry.get("datasets") or [dataset]):
            continue
        method = entry.get("method", name)
        if method not in cfg.method:
            raise ValueError(f"no method {method!r}{meant(method, cfg.method)}: conf/method has no such file")
        config = plain(cfg.method[method])
        for settings in (plain(spec.get("settings") or {}).get(method), entry.get("settings")):
            config = merged(config, settings or {})
        seeds = entry.get("seeds") or spec.get("seeds") or cfg.repeats
        kind: Any = get_class(config["_target_"])
        planned.append(
            Run(
                name,
                method,
                entry.get("problem") or spec.problem,
                config,
                budgets(spec, dataset, name, entry) if kind.budgeted else [math.inf],
                int(seeds.get(dataset, cfg.repeats) if isinstance(seeds, Mapping) else seeds),
                entry.get("block") or spec.get("block") or "",
                entry.get("stream") or spec.get("stream") or f"{dataset}/{method}",
                [*(entry.get("assumptions") or []), *shared],
            )
        )
    return planned


def budgets(spec: DictConfig, dataset: str, run: str, entry: Mapping[str, Any]) -> list[float]:
    """Return `epsilons` of a run, or else of its experiment; mappings have them by data set, by run, or `default`."""
    given = spec.get("epsilons") if entry.get("epsilons") is None else entry["epsilons"]
    for name in (dataset, run):
        if isinstance(given, Mapping):
            given = given.get(name, given.get("default"))
    if not given:
        raise ValueError(f"epsilons has no budget for {run} on {dataset}: add a list; .inf is no privacy")
    return [float(epsilon) for epsilon in given]


def delta(cfg: DictConfig, spec: Mapping[str, Any] | DictConfig, n: int) -> float:
    """Return the delta of an experiment for n training rows, see `schema.Experiment`."""
    given = spec.get("delta") or cfg.delta
    return min(float(cfg.delta), n**-2) if given == "1/n^2" else float(given)


def tasks(cfg: DictConfig, experiment: str, dataset: str) -> list[Task]:
    """Return the tasks of an experiment on a data set, in order."""
    each = (tasks_of(cfg, experiment, run, dataset) for run in runs(cfg, experiment, dataset))
    return [*itertools.chain(*each)]


def tasks_of(cfg: DictConfig, experiment: str, run: Run, dataset: str) -> Iterator[Task]:
    """Yield the tasks of a run on a data set; every point of the grid of the experiment's `vary` is a variant."""
    spec, base = cfg.experiment[experiment], plain(cfg.problem[run.problem])
    data, vary = cfg.dataset.get(dataset) or cfg.features[dataset], plain(spec.get("vary") or {})
    of_data, of_problem = ((vary.get(kind) or {}) for kind in ("dataset", "problem"))
    given = of_data.get(dataset), of_problem.get(run.problem), vary.get(run.name)
    axes = [list(grid(fields or {})) for fields in given]
    size, names = spec.get("budgets_per_unit") or 1, set()
    for scaling in spec.get("scalings") or [""]:
        for data_changes, problem_changes, method_changes in itertools.product(*axes):
            problem = changed(base, problem_changes)
            subset = {name: {**data, **data_changes}.get(name) for name in SUBSET}
            task = Task(run, scaling, [], method_changes, problem_changes, data_changes, problem, subset)
            if (scaling, task.variant) in names:
                raise ValueError(f"vary has two points of run {run.name} that are called {task.variant}")
            names.add((scaling, task.variant))
            for start in range(0, len(run.epsilons), size):
                yield task._replace(epsilons=run.epsilons[start : start + size])


def grid(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every combination of the values of some fields, by dotted name; the last name varies fastest.

    >>> list(grid({"clip": [1.0], "sampling": {"batch": [64, 256]}}))
    [{'clip': 1.0, 'sampling.batch': 64}, {'clip': 1.0, 'sampling.batch': 256}]
    """
    axes = {name: values for name, values in flatten(fields).items() if values not in (None, {})}
    for name, values in axes.items():
        if not (values and isinstance(values, list)):
            raise ValueError(f"vary: {name} = {values!r} must be a list of values")
    for each in itertools.product(*axes.values()):
        yield dict(zip(axes, each, strict=True))


def flatten(node: Any, prefix: str = "") -> dict[str, Any]:
    """Return dotted key -> value, e.g. {"method.ops.radius": 10.0}; lists and empty mappings count as values."""
    if isinstance(node, DictConfig):
        node = OmegaConf.to_container(node)
    if not isinstance(node, Mapping) or not node:
        return {prefix: node}
    parts = (flatten(value, f"{prefix}.{key}" if prefix else str(key)) for key, value in node.items())
    return {key: value for part in parts for key, value in part.items()}


def changed(config: Mapping[Any, Any], changes: Mapping[str, Any]) -> dict[Any, Any]:
    """Return a config with values by dotted name."""
    for name, value in changes.items():
        for word in reversed(name.split(".")):
            value = {word: value}
        config = merged(config, value)
    return dict(config)


def merged(base: Mapping[Any, Any], changes: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return `base` with `changes`, key by key; an object (`_target_`) is replaced as a whole."""
    result = dict(base)
    for name, value in changes.items():
        old = result.get(name)
        if isinstance(value, Mapping) and isinstance(old, Mapping) and "_target_" not in value:
            value = merged(old, value)
        result[name] = value
    return result


def plain(node: Any) -> dict[str, Any]:
    """Return a mapping of the config as a dict with names as text."""
    values: Any = OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
    return {str(name): value for name, value in values.items()}
