"""The plan of an experiment: its runs, the tasks of each with their final configs, and the columns of results."""

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf

from dplangevin.pipeline.schema import RowSubset, RunConfig
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
RANGE = "a list, {from, to, step}, or {from, to, count, scale: linear or log}"
WORDS = tuple(RunConfig.model_fields)  # of an entry of `runs`


class Run(NamedTuple):
    """One entry of an experiment: a method with its settings, at some budgets.

    - `config`: the method's config with all settings merged in.
    - `epsilons`: the budgets; [inf] without privacy.
    - `block`: the part of a table that the run belongs to.
    - `stream`: name of the random stream; chains of one stream draw the same minibatches and noise.
    - `assumptions`: its own, those of its data set and those of the experiment.
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
    """The piece of a run that is cached as one, at one scaling, variant and block of the run's budgets.

    Results call it a unit: `runs.units.json` lists the tasks of `runs.csv`.

    - `method_changes`, `problem_changes`, `data_changes`: what the variant changes, by dotted name.
    - `problem`: the problem's config with its changes.
    - `data_subset`: the fields that select the rows to train on, see `data.splits.subset`.
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
        changes = {**self.method_changes}
        changes |= {f"problem.{name}": value for name, value in self.problem_changes.items()}
        changes |= {f"dataset.{name}": value for name, value in self.data_changes.items()}
        return ";".join(f"{name}={value_text(value)}" for name, value in changes.items())

    @property
    def loader_changes(self) -> dict[str, Any]:
        """The changes of the loader or of the feature extraction, for which the data are prepared anew."""
        return {name: value for name, value in self.data_changes.items() if name not in SUBSET}

    @property
    def config(self) -> dict[str, Any]:
        """The method's config with the changes of this variant."""
        return merged(self.run.config, nested(self.method_changes))

    @property
    def settings(self) -> str:
        """Every setting of the method, as canonical JSON; "class" names the class of an object."""
        return json.dumps(_in_json(self.config), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _in_json(value: Any) -> Any:
    """Return a config without module paths and infinite numbers, which JSON does not have."""
    if isinstance(value, Mapping):
        fields = {name: _in_json(field) for name, field in value.items() if name != "_target_"}
        return fields | ({"class": value["_target_"].rpartition(".")[2]} if "_target_" in value else {})
    if isinstance(value, list):
        return [_in_json(item) for item in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def named(spec: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the entries of an experiment's runs, by name of the run.

    A name in `methods` is a run of that method.  An entry in `runs` can state more.
    """
    entries = {str(name): {"method": str(name)} for name in spec.get("methods") or []}
    for name, entry in (spec.get("runs") or {}).items():
        if unknown := sorted(set(entry) - set(WORDS)):
            raise ValueError(f"run {name} has unknown words {unknown}: an entry has {', '.join(WORDS)}")
        entries[str(name)] = {"method": str(name), **plain(entry)}
    if reserved := sorted({"problem", "dataset"} & set(entries)):
        raise ValueError(f"no run can be called {' or '.join(reserved)}, which `vary` has a meaning for")
    return entries


def run_stages(*, _root_: DictConfig) -> DictConfig:
    """Return the runs of conf/pipeline whose data set is in `pipeline.datasets`, for stage run of dvc.yaml."""
    runs, prepared = _root_.pipeline.runs, {f"dataset/{name}" for name in _root_.pipeline.datasets}
    stages = {
        str(key): plain(run)
        for key, run in runs.items()
        if not run.needs.startswith("dataset/") or run.needs in prepared
    }
    return OmegaConf.create(stages)


def params_of(cfg: DictConfig, experiment: str, dataset: str) -> list[str]:
    """Return the names in params.yaml of what an experiment on a data set reads."""
    spec = cfg.experiment[experiment]
    entries = named(spec).values()
    kind = "dataset" if dataset in cfg.dataset else "features"
    words = [word for word in ("assumptions", *SUBSET) if word in cfg[kind][dataset]]
    return [
        *("seed", "delta", "repeats", f"experiment.{experiment}"),
        *sorted({f"method.{entry['method']}" for entry in entries}),
        *sorted({f"problem.{entry.get('problem') or spec.problem}" for entry in entries}),
        *(f"{kind}.{dataset}.{word}" for word in words),
    ]


OmegaConf.register_new_resolver("run_stages", run_stages, replace=True)


def _seeds(given: Any, dataset: str, otherwise: int) -> int:
    """Return the number of seeds for a data set; `given` is a number, or a mapping by data set."""
    return int(given.get(dataset, otherwise)) if isinstance(given, Mapping) else int(given)


def runs(cfg: DictConfig, experiment: str, dataset: str) -> list[Run]:
    """Return the runs of an experiment on a data set, in order.

    The config of a run's method is its entry in conf/method, changed by the experiment's `settings` for that method,
    then by the run's own `settings`.  An entry with `datasets` applies to those data sets only.
    """
    spec = cfg.experiment[experiment]
    shared = [*(data_entry(cfg, dataset).get("assumptions") or []), *(spec.get("assumptions") or [])]
    planned = []
    for name, entry in named(spec).items():
        if dataset not in (entry.get("datasets") or [dataset]):
            continue
        method = entry["method"]
        config = merged(method_config(cfg, spec, method), plain(entry.get("settings") or {}))
        tuned = [spec.get("tuned") or ""] if entry.get("tuned") else []
        if "" in tuned:
            raise ValueError(f"run {name} is tuned, but the experiment has no `tuned` that says how")
        stream = entry.get("stream") or spec.get("stream") or f"{dataset}/{method}"
        planned.append(
            Run(
                name,
                method,
                entry.get("problem") or spec.problem,
                config,
                budgets(spec, dataset, name, entry) if budgeted(config) else [math.inf],
                _seeds(entry.get("seeds") or spec.get("seeds") or cfg.repeats, dataset, cfg.repeats),
                entry.get("block") or spec.get("block") or "",
                stream,
                [*tuned, *(entry.get("assumptions") or []), *shared],
            )
        )
    return planned


def tasks(cfg: DictConfig, experiment: str, dataset: str) -> list[Task]:
    """Return the tasks of an experiment on a data set, in order."""
    return [
        task for run in runs(cfg, experiment, dataset) for task in tasks_of(cfg, experiment, run, dataset)
    ]


def tasks_of(cfg: DictConfig, experiment: str, run: Run, dataset: str) -> Iterator[Task]:
    """Yield the tasks of a run on a data set, in a fixed order.

    Every point of the grid of the experiment's `vary` is a variant.  Under the name of a run, `vary` lists fields of
    that run's method, under `problem` and `dataset` fields of the named problems and data sets.
    """
    spec, base, data = cfg.experiment[experiment], plain(cfg.problem[run.problem]), data_entry(cfg, dataset)
    vary = plain(spec.get("vary") or {})
    of_problem, of_data = (
        (vary.get(kind) or {}).get(name) for kind, name in (("problem", run.problem), ("dataset", dataset))
    )
    axes = [list(grid(fields or {})) for fields in (of_data, of_problem, vary.get(run.name))]
    size, names = spec.get("budgets_per_unit") or 1, set()
    for scaling in spec.get("scalings") or [""]:
        for data_changes, problem_changes, method_changes in itertools.product(*axes):
            problem = merged(base, nested(problem_changes))
            subset = {name: {**data, **data_changes}.get(name) for name in SUBSET}
            task = Task(run, scaling, [], method_changes, problem_changes, data_changes, problem, subset)
            if (scaling, task.variant) in names:
                raise ValueError(
                    f"vary has two points of run {run.name} that are called {task.variant}: name one of them"
                )
            names.add((scaling, task.variant))
            for start in range(0, len(run.epsilons), size):
                yield task._replace(epsilons=run.epsilons[start : start + size])


def data_entry(cfg: DictConfig, dataset: str) -> dict[str, Any]:
    """Return the entry of conf/dataset or conf/features."""
    return plain(cfg.dataset[dataset] if dataset in cfg.dataset else cfg.features[dataset])


def grid(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every combination of the values of some fields, by dotted name; the last name varies fastest.

    >>> list(grid({"clip": [1.0], "sampling": {"batch": {"from": 64, "to": 256, "count": 3, "scale": "log"}}}))
    [{'clip': 1.0, 'sampling.batch': 64}, {'clip': 1.0, 'sampling.batch': 128}, {'clip': 1.0, 'sampling.batch': 256}]
    """
    axes = dict(varied(fields))
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def varied(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Yield the dotted name and the values of every field that varies; null removes an inherited field."""
    for name, given in fields.items():
        key = f"{prefix}{name}"
        if given is None:  # removes an inherited field
            continue
        if isinstance(given, Mapping) and "from" not in given and not given.keys() & {"to", "step", "count"}:
            yield from varied(given, f"{key}.")
            continue
        values = spaced(key, given) if isinstance(given, Mapping) else given
        if not isinstance(values, Sequence) or isinstance(values, str) or not values:
            raise ValueError(f"{key} = {given!r} names no values: write {RANGE}")
        yield key, list(values)


def spaced(key: str, given: Mapping[str, Any]) -> list[float]:
    """Return the values of a range from `from`, spaced evenly, or by one factor with `scale: log`.

    `count` gives this number of values up to `to`.  `step` gives all values that do not exceed `to`.  If the
    numbers of the range are whole, so are the values.  Other values are rounded to six significant digits.

    >>> spaced("radius", {"from": 1.0, "to": 50.0, "count": 3, "scale": "log"})
    [1.0, 7.07107, 50.0]
    >>> spaced("k", {"from": 2, "to": 7, "step": 2})
    [2, 4, 6]
    """
    full: Any = {"scale": "linear", **given}
    scale, numbers = full.pop("scale"), full.values()
    low, high, step, count = (full.get(word) for word in ("from", "to", "step", "count"))
    sound = (
        set(full) in ({"from", "to", "step"}, {"from", "to", "count"})
        and all(isinstance(value, int | float) and not isinstance(value, bool) for value in numbers)
        and (isinstance(count, int) and count > 1 if step is None else step > 0 and scale == "linear")
        and scale in ("linear", "log")
        and (0 if scale == "log" else -math.inf) < low < high < math.inf
    )
    if not sound:
        raise ValueError(
            f"{key} = {dict(given)} is no range: write {RANGE}, from below to, and above 0 where scale is log"
        )
    if step is not None:
        points = low + step * np.arange(math.floor((high - low) / step * (1 + 1e-12)) + 1)
    else:
        points = (np.geomspace if scale == "log" else np.linspace)(low, high, count)
    if all(isinstance(value, int) for value in (low, high, step or 1)):
        values: list[float] = [round(value) for value in points.tolist()]
        if len(set(values)) < len(values):
            raise ValueError(
                f"{key} = {dict(given)} has whole numbers twice: write {float(low)} for fractions"
            )
        return values
    return [float(f"{value:.6g}") for value in points.tolist()]


def nested(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by dotted name as a tree.

    >>> nested({"clip": 1.0, "sampling.batch": 64})
    {'clip': 1.0, 'sampling': {'batch': 64}}
    """
    tree: dict[str, Any] = {}
    for name, value in fields.items():
        first, _, rest = name.partition(".")
        tree = merged(tree, {first: nested({rest: value}) if rest else value})
    return tree


def value_text(value: Any) -> str:
    """Return a value as text for the name of a variant; an object is named by its class."""
    if isinstance(value, Mapping) and "_target_" in value:
        return str(value["_target_"]).rpartition(".")[2]
    return str(value)


def unknown_names(spec: DictConfig, runs: Sequence[Run]) -> Iterator[str]:
    """Yield an error message for each wrong name in an experiment's `vary`; `runs` are all its runs."""
    vary = plain(spec.get("vary") or {})
    there = {
        "run": {run.name for run in runs},
        "problem": {run.problem for run in runs},
        "dataset": set(spec.datasets),
    }
    named = {"run": {name: vary[name] for name in vary.keys() - {"problem", "dataset"}}}
    named |= {kind: vary.get(kind) or {} for kind in ("problem", "dataset")}
    varied = {kind: {name for name, fields in each.items() if fields} for kind, each in named.items()}
    for kind, names in varied.items():
        for name in sorted(names - there[kind]):
            listed = f": it has {', '.join(sorted(there[kind]))}"
            yield f"vary: the experiment has no {kind} {name!r}{meant(name, there[kind]) or listed}"
    if spec.get("compared") and (varied["problem"] or varied["dataset"]):
        yield "vary: compared must be false, the exact posterior is of one problem and all rows"


def budgeted(config: Mapping[str, Any]) -> bool:
    """Return whether a method spends privacy."""
    name = config["_target_"]
    try:
        method: Any = get_class(name)
    except ImportError as error:
        why = error.__cause__ or error
        raise ValueError(
            f"{name} cannot be imported ({why}): a module outside the package must be in a folder on PYTHONPATH"
        ) from error
    return bool(method.budgeted)


def budgets(spec: DictConfig, dataset: str, run: str, entry: Mapping[str, Any]) -> list[float]:
    """Return the budgets of a run; [inf] if none are given.

    The entry's own `epsilons` come first, else those that the experiment gives for the data set: a list, or lists by
    run. `default` stands for the other data sets, and for the other runs.
    """
    if "epsilons" in entry:
        return [float(epsilon) for epsilon in entry["epsilons"] or [math.inf]]
    given = spec.get("epsilons")
    if given is None:
        return [math.inf]
    key = dataset if dataset in given else "default"
    if key not in given:
        raise ValueError(
            f"epsilons has no entry for the data set {dataset!r}: add one, or one named `default`"
        )
    given = given[key]
    if OmegaConf.is_dict(given):
        name = run if run in given else "default"
        if name not in given:
            raise ValueError(f"epsilons.{key} has no list for {run!r}: add one, or one named `default`")
        given = given[name]
    return [float(epsilon) for epsilon in given]


def delta(cfg: DictConfig, spec: Mapping[str, Any] | DictConfig, n: int) -> float:
    """Return the delta of an experiment for n training rows, see `schema.Experiment`."""
    given = spec.get("delta") or cfg.delta
    return min(float(cfg.delta), n**-2) if given == "1/n^2" else float(given)


def method_config(cfg: DictConfig, spec: DictConfig, method: str) -> dict[str, Any]:
    """Return the config of a method with the experiment's `settings` for it."""
    if method not in cfg.method:
        raise ValueError(f"no method {method!r}: conf/method has {', '.join(map(str, cfg.method))}")
    return merged(plain(cfg.method[method]), plain(spec.get("settings") or {}).get(method, {}))


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
    values = OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
    assert isinstance(values, dict)
    return {str(name): value for name, value in values.items()}
