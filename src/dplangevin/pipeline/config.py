"""Compose `conf/` into `params.yaml`, once; every stage then reads `params.yaml` and nothing else.

Git tracks `params.yaml`, like a lock file for parameters. `dvc exp run -S` writes the same bytes as this module: both
use Hydra's compose, with interpolations resolved, and `OmegaConf.to_yaml`.

    python -m dplangevin.pipeline.config                compose, write params.yaml if it changed
    python -m dplangevin.pipeline.config scale=smoke    the same with Hydra overrides
    python -m dplangevin.pipeline.config --check        exit 1, naming the keys, if params.yaml differs from conf/

The module checks everything before it writes anything. Exit status 2 means that a file is not valid YAML, or that a
value has the wrong type or is outside its domain.

`conf/` is code, because a `_target_` in it names the object that is called. So this module reads no configuration
from a folder of data.
"""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dplangevin.data.archives import stage
from dplangevin.data.yaml_file import ConfigError, inexact, values
from dplangevin.files import atomic_path
from dplangevin.pipeline import plan, schema, validate
from dplangevin.pipeline.plan import plain
from dplangevin.text import meant

PARAMS = "params.yaml"
CONF = "conf"
GROUPS = (  # folders of conf/ whose files are all composed
    "dataset", "weights", "backbone", "pretrain", "features", "problem", "accountant", "method", "experiment",
    "analysis",
)  # fmt: skip
SET = "DPL_SET"  # environment variable: the overrides behind params.yaml (make repro SET=...)
SHOWN = 20  # faults named in a message before "and n more"
READ = 6  # most results that an exhibit reads: stage render of dvc.yaml has as many dependencies on them
HELP = "write KEY=VALUE, such as method.ops.radius=3; the two ~KEY and +KEY=VALUE replace a mapping or a list"
# group -> key that its reader removes from an entry before it builds the object
TAKEN = {"backbone": "made_by", "problem": "backbone", "analysis": "content"}


class OutOfStep(ConfigError):
    """`params.yaml` is not what `conf/` composes to."""


def load(path: str | Path = PARAMS) -> DictConfig:
    """Return the composed configuration from `params.yaml`."""
    if not Path(path).exists():
        raise ConfigError(f"{path} does not exist: write it with `python -m dplangevin.pipeline.config`")
    return OmegaConf.create(values(path))


def one_of(names: Iterable[Any], name: str, what: str) -> str:
    """Return a name; raise ConfigError if it is not among the names of `what`."""
    if name not in (known := [*map(str, names)]):
        raise ConfigError(f"no {what} is named {name!r}{meant(name, known)}; there are {', '.join(known)}")
    return name


def content(kind: str, name: str, cfg: DictConfig, conf: str | Path = CONF) -> dict[str, Any]:
    """Return `conf/<kind>/<name>.yaml` as plain values; its interpolations refer to `cfg` or to files beside it."""
    folder = Path(conf) / kind
    there = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    one_of(there, name, f"{kind} in {folder}/")
    files, todo = dict[str, Any](), {name}
    while todo:
        files |= {each: values(there[each]) for each in todo}
        todo = {*re.findall(rf"\$\{{{kind}\.(\w+)", str(files))} & there.keys() - files.keys()
    named = {*re.findall(r"\$\{(\w+)", str(files))} & cfg.keys() - {kind}
    try:
        around = OmegaConf.create({group: cfg[group] for group in named} | {kind: files})
        settings = plain(around[kind][name])
    except OmegaConfBaseException as error:
        raise ConfigError(f"{there[name]}: {error}") from error
    _refuse(validate.check(settings), f"{there[name]} has values that cannot be used")
    return settings


# The stages of dvc.yaml, which are found in the groups of conf/


def stages_of_runs(cfg: DictConfig) -> dict[str, Any]:
    """Return run -> experiment, data set and the manifest which states all data that it reads."""
    stages = {}
    for name, spec in cfg.experiment.items():
        runs = [spec, *(run for run in (spec.get("runs") or {}).values() if run)]
        networks = {(cfg.problem.get(str(run.get("problem"))) or {}).get("backbone") for run in runs}
        for dataset in spec.datasets:
            needs = f"dataset/{dataset}" if dataset in cfg.dataset else f"features/{dataset}"
            for features, entry in cfg.get("features", {}).items():
                if entry.dataset == dataset and entry.backbone in networks:  # features need data and weights
                    needs = f"features/{features}"
            if spec.get("compared"):
                needs = f"reference/{dataset}"
            swept = name == "sweep" and dataset == spec.datasets[0]  # so that its stage always has one name
            stage_name = name if swept else f"{name}-{dataset}"
            stages[stage_name] = {"experiment": name, "dataset": dataset, "needs": needs}
    return stages


def prepared_runs(cfg: DictConfig) -> dict[str, Any]:
    """Return the runs of conf/pipeline whose data set is in `pipeline.datasets`, for stage run of dvc.yaml."""
    absent = {f"dataset/{name}" for name in cfg.dataset if name not in cfg.pipeline.datasets}
    return {name: run for name, run in plain(cfg.pipeline.runs).items() if run["needs"] not in absent}


def stages_of_exhibits(conf: Path, cfg: DictConfig) -> dict[str, Any]:
    """Return exhibit -> `READ` results, the last of which may be repeated; no exhibit of an experiment not composed."""
    stages = {}
    for path in sorted((conf / "exhibit").glob("*.yaml")):
        spec = values(path)
        inside = sorted(spec.get("folders") or [f"{name}.json" for name in spec.get("weights", ())])
        read = [f"{spec.get('source')}/{name}" for name in inside] or [str(spec.get("source"))]
        if len(read) > READ:
            raise ConfigError(f"{path} reads {len(read)} results: stage render of dvc.yaml has {READ}")
        if {*re.findall(r"results/runs/(\w+)", str(read))} <= cfg.experiment.keys():
            stages[path.stem] = [*read, *read[-1:] * READ][:READ]
    return stages


def stages_of_features(cfg: DictConfig) -> dict[str, Any]:
    """Return the names of features, data set and weights, by the name of the stage."""
    entries = cfg.get("features", {}).items()
    names = [{"name": name, "dataset": of.dataset, "weights": of.backbone} for name, of in entries]
    return {stage("features", each["name"]).partition("@")[2]: each for each in names}


def stages_of_analyses(cfg: DictConfig) -> dict[str, str]:
    """Return analysis -> the file with its settings."""
    folders = {name: spec.get("content") or "analysis" for name, spec in cfg.analysis.items()}
    return {name: f"{CONF}/{folder}/{name}.yaml" for name, folder in folders.items()}


# Composition


def register(folder: Path) -> None:
    """Give Hydra the config `all`: the files of `GROUPS` in this `conf/`, each under its group and name.

    The values stand in `all` itself, because Hydra takes .02 s for each file that a defaults list names. Its defaults
    are only the files that have defaults themselves. It leaves out a file that the defaults of a file of
    `conf/pipeline` add: only that pipeline has it.
    """
    lists: dict[str, Callable[..., Any]] = {
        "names": lambda cfg, group: list(cfg.get(group, {})),
        "features": stages_of_features,
        "runs": stages_of_runs,
        "run_stages": prepared_runs,
        "analyses": stages_of_analyses,
        "exhibits": partial(stages_of_exhibits, folder),
    }
    for name, make in lists.items():
        OmegaConf.register_new_resolver(name, partial(_resolver, make), replace=True)
    folders = (".", *GROUPS, "pipeline", "scale", "scale/pipeline")
    files = {path: values(path) for each in folders for path in sorted((folder / each).glob("[!.]*.yaml"))}
    added = str([entry.get("defaults") for path, entry in files.items() if path.parent.name == "pipeline"])
    defaults, groups = list[Any](["_self_"]), dict[str, dict[str, Any]]()
    for path, entry in files.items():
        group, name = path.parent.name, path.stem
        chosen = f"{group}@{group}.{name}"
        if group in GROUPS and f"'/{chosen}'" not in added:
            groups.setdefault(group, {})[name] = {} if "defaults" in entry else entry
            defaults += [{chosen: name}] * ("defaults" in entry)
    try:
        ConfigStore.instance().store(name="all", node={"defaults": defaults, **groups})
    except OmegaConfBaseException as error:
        raise ConfigError(f"cannot compose {folder.name}/: {_why(error)}") from error


def _resolver(make: Callable[..., Any], *given: str, _root_: DictConfig) -> Any:
    return OmegaConf.create(make(_root_, *given))


def compose(overrides: Sequence[str] = (), conf: str | Path = CONF) -> DictConfig:
    """Return the configuration of `conf/config.yaml` with Hydra overrides, resolved."""
    if not (config := Path(conf) / "config.yaml").exists():
        raise ConfigError(f"{config} does not exist: run from the repository's top folder")
    for override in overrides:
        if override.lstrip("+~").startswith("hydra."):
            raise ConfigError(f"{override}: {conf}/ is all that is composed")
        if why := inexact(override.partition("=")[2]):
            raise ConfigError(f"{override}: {why}")
    register(Path(conf))
    try:
        with initialize_config_dir(str(Path(conf).resolve()), version_base=None):
            cfg = hydra_compose(config_name="config", overrides=list(overrides))
        OmegaConf.resolve(cfg)
    except (HydraException, OmegaConfBaseException, ValueError, TypeError) as error:
        given, fix = (f" with {', '.join(overrides)}", f"; {HELP}") if overrides else ("", "")
        raise ConfigError(f"cannot compose {config.parent.name}/{given}: {_why(error)}{fix}") from error
    if missing := sorted(OmegaConf.missing_keys(cfg)):
        raise ConfigError(f"no value (???) for {', '.join(missing)}: set it in {conf}/ or as an override")
    return cfg


def _why(error: BaseException) -> str:
    """Return the error message and its cause in one line, without Hydra's lists and links."""
    text = re.split(r"\nSee https?:|\nConfig search path:|, possible interpolation keys:", str(error))[0]
    cause, near = error.__cause__, ""
    if isinstance(error, OmegaConfBaseException) and isinstance(error.parent_node, DictConfig):
        near = meant(str(error.key), map(str, error.parent_node))
    return " ".join(text.split()) + near + (f" ({_why(cause)})" if cause else "")


# Values


def check_values(cfg: DictConfig) -> None:
    """Raise ConfigError, naming key, value and domain, for each value that its object or its group does not accept."""
    given, faults = plain(cfg), []
    for group, word in TAKEN.items():
        for name, entry in (given.get(group) or {}).items():
            if isinstance(entry, dict) and word in entry:
                faults += validate.check(entry.pop(word), str | None, f"{group}.{name}.{word}")
                entry["_partial_"] = True  # its reader adds more arguments
    faults += validate.check(given, schema.Config)
    _refuse(faults or list(dict.fromkeys(_wrong_runs(cfg))), "values that cannot be used")


def _wrong_runs(cfg: DictConfig) -> Iterator[str]:
    """Yield what is wrong with experiments: unknown names, and settings that a task will run with."""
    data = {*cfg.dataset, *cfg.get("features", {})}
    known = {"settings": {*cfg.method}, "epsilons": data | {"default"}, "seeds": data, "datasets": data}
    for name, spec in cfg.experiment.items():
        where, runs = f"experiment.{name}", list[plan.Run]()
        for word, names in known.items():
            given = spec.get(word)
            for unknown in sorted({*given} - names) if OmegaConf.is_config(given) else ():
                yield f"{where}.{word}: nothing is called {unknown!r}{meant(unknown, names)}"
        for dataset in filter(data.__contains__, spec.datasets):
            try:
                runs += (of_data := plan.runs(cfg, str(name), dataset))
                for run in of_data:
                    faults = _wrong_run(cfg, str(name), run, dataset)
                    yield from (f"{where}, run {run.name}: {fault}" for fault in faults)
            except (ValueError, OmegaConfBaseException) as error:
                yield f"{where}: {error}"
        yield from (f"{where}.{fault}" for fault in plan.unknown_names(spec, runs))


def _wrong_run(cfg: DictConfig, experiment: str, run: plan.Run, dataset: str) -> Iterator[str]:
    """Yield what is wrong with the settings of a run on a data set, and with the values that are varied."""
    if run.problem not in cfg.problem:
        yield f"no problem {run.problem!r}{meant(run.problem, cfg.problem)}"
        return
    for task in plan.tasks_of(cfg, experiment, run, dataset):
        yield from validate.check(task.config, key=f"method.{run.method}")
        if "backbone" in task.problem_changes:
            yield "the backbone cannot be varied: an experiment has one"
        elif task.problem_changes:
            problem = {name: value for name, value in task.problem.items() if name != "backbone"}
            yield from validate.check({**problem, "_partial_": True}, key=f"problem.{run.problem}")
        yield from validate.check(task.data_changes, schema.RowSubset, f"dataset.{dataset}")


def _refuse(faults: Sequence[str], what: str) -> None:
    if faults:
        raise ConfigError(_listed(what, faults))


def _listed(what: str, lines: Sequence[str]) -> str:
    more = [f"... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return "\n  ".join([f"{what}:", *lines[:SHOWN], *more])


# params.yaml


def flatten(node: Any, prefix: str = "") -> dict[str, Any]:
    """Return dotted key -> value, e.g. {"method.ops.radius": 10.0}; lists and empty mappings count as values."""
    if isinstance(node, DictConfig):
        node = OmegaConf.to_container(node)
    if not isinstance(node, Mapping) or not node:
        return {prefix: node}
    parts = (flatten(value, f"{prefix}.{key}" if prefix else str(key)) for key, value in node.items())
    return {key: value for part in parts for key, value in part.items()}


def current(cfg: DictConfig, path: str | Path = PARAMS) -> bool:
    """Return whether the file has exactly the bytes that `cfg` is written as."""
    return Path(path).exists() and Path(path).read_bytes() == OmegaConf.to_yaml(cfg).encode()


def write(cfg: DictConfig, path: str | Path = PARAMS) -> None:
    """Write `cfg` atomically."""
    with atomic_path(path) as part:
        part.write_text(OmegaConf.to_yaml(cfg), encoding="utf-8")


def check(cfg: DictConfig, path: str | Path = PARAMS) -> None:
    """Raise OutOfStep, naming the keys, if the file is not what `cfg` is written as."""
    if current(cfg, path):
        return
    old, new = ({key: repr(value) for key, value in flatten(each).items()} for each in (load(path), cfg))
    pairs = {key: (old.get(key, "(absent)"), new.get(key, "(absent)")) for key in sorted({*old, *new})}
    fix = "Compose it anew with `python -m dplangevin.pipeline.config`, or run `make repro`, which does."
    wrong = [f"{key}: {x} -> {y}" for key, (x, y) in pairs.items() if x != y]
    wrong = wrong or ["the values are the same, and the file is written differently"]
    raise OutOfStep(f"{_listed(f'{path} is out of step with {CONF}/', wrong)}\n{fix}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    from dplangevin.pipeline import lock

    parser = argparse.ArgumentParser(
        prog="python -m dplangevin.pipeline.config", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="only compare params.yaml with conf/")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, e.g. scale=smoke method.ops.radius=3")
    args = parser.parse_args(argv)
    try:
        if args.check and os.environ.get("DVC_EXP_NAME"):
            return 0  # stage `code` checks the values of an experiment
        cfg = compose(args.overrides or (shlex.split(os.environ.get(SET, "")) if args.check else []))
        if args.check:
            check(cfg)
            return 0
        with lock.run("python -m dplangevin.pipeline.config"):
            if not current(cfg):
                check_values(cfg)
                write(cfg)
                print(f"{PARAMS} written", flush=True)
    except (ConfigError, lock.LockError) as error:
        print(error, file=sys.stderr)
        return 1 if isinstance(error, OutOfStep | lock.LockError) else 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
