"""The plan of an experiment: its runs, the tasks of each with their final configs, and the columns of results."""

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
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
RANGE = "a list, or {from, to, count, scale: linear or log}"


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
    """Return the entries of an experiment's runs by name: of `methods`, then of `runs`, which can state more."""
    entries = {str(name): {"method": str(name)} for name in spec.get("methods") or []}
    entries |= {
        str(name): {"method": str(name), **plain(entry)} for name, entry in (spec.get("runs") or {}).items()
    }
    if reserved := sorted({"problem", "dataset"} & set(entries)):
        raise ValueError(f"no run can be called {' or '.join(reserved)}, which `vary` has a meaning for")
    return entries


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
        if entry.get("tuned") and not spec.get("tuned"):
            raise ValueError(f"run {name} is tuned, but the experiment has no `tuned` that says how")
        seeds = entry.get("seeds") or spec.get("seeds") or cfg.repeats
        planned.append(
            Run(
                name,
                method,
                entry.get("problem") or spec.problem,
                config,
                budgets(spec, dataset, name, entry) if budgeted(config) else [math.inf],
                int(seeds.get(dataset, cfg.repeats) if isinstance(seeds, Mapping) else seeds),
                entry.get("block") or spec.get("block") or "",
                entry.get("stream") or spec.get("stream") or f"{dataset}/{method}",
                [*[spec.get("tuned")] * bool(entry.get("tuned")), *(entry.get("assumptions") or []), *shared],
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
        if isinstance(given, Mapping) and not given.keys() & {"from", "to", "count"}:
            yield from varied(given, f"{key}.")
        elif isinstance(given, Mapping):
            yield key, spaced(key, given)
        elif isinstance(given, list) and given:
            yield key, list(given)
        elif given is not None:
            raise ValueError(f"{key} = {given!r} names no values: write {RANGE}")


def spaced(key: str, given: Mapping[str, Any]) -> list[float]:
    """Return `count` values from `from` to `to`, spaced evenly, or by one factor with `scale: log`.

    If both ends are whole, so are the values.  Other values are rounded to six significant digits.

    >>> spaced("radius", {"from": 1.0, "to": 50.0, "count": 3, "scale": "log"})
    [1.0, 7.07107, 50.0]
    """
    lines: dict[str, Any] = {"log": np.geomspace, "linear": np.linspace}
    try:
        low, high, count = (given[word] for word in ("from", "to", "count"))
        scale = given.get("scale", "linear")
        line = lines[scale]
        sound = len(given) == 3 + ("scale" in given) and (0 if scale == "log" else -math.inf) < low < high
        points = line(low, high, count).tolist() if sound and count > 1 and high < math.inf else []
    except (KeyError, TypeError):
        points = []
    if not points:
        raise ValueError(
            f"{key} = {dict(given)} is no range: write {RANGE}, from below to, and above 0 where scale is log"
        )
    if not (isinstance(low, int) and isinstance(high, int)):
        return [float(f"{value:.6g}") for value in points]
    values: list[float] = [round(value) for value in points]
    if len(set(values)) < len(values):
        raise ValueError(f"{key} = {dict(given)} has whole numbers twice: write {float(low)} for fractions")
    return values


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
    of_kind = {kind: vary.pop(kind, None) or {} for kind in ("problem", "dataset")}
    known = {
        "run": (vary, {run.name for run in runs}),
        "problem": (of_kind["problem"], {run.problem for run in runs}),
        "dataset": (of_kind["dataset"], set(spec.datasets)),
    }
    for kind, (given, names) in known.items():
        for name in sorted({name for name, fields in given.items() if fields} - names):
            listed = f": it has {', '.join(sorted(names))}"
            yield f"vary: the experiment has no {kind} {name!r}{meant(name, names) or listed}"
    if spec.get("compared") and any(fields for each in of_kind.values() for fields in each.values()):
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
    given, where = spec.get("epsilons"), "epsilons"
    for name in (dataset, run):
        if OmegaConf.is_dict(given) and "epsilons" not in entry:
            key = name if name in given else "default"
            if key not in given:
                raise ValueError(f"{where} has no list for {name!r}: add one, or one named `default`")
            given, where = given[key], f"{where}.{key}"
    return [float(epsilon) for epsilon in entry.get("epsilons", given) or [math.inf]]


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
