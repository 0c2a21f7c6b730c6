"""Compose `conf/` into `params.yaml`, once; every stage then reads `params.yaml` and nothing else.

Git tracks `params.yaml`, like a lock file for parameters. `dvc exp run -S` writes the same bytes as this module: both
use Hydra's compose, interpolations resolved, and `OmegaConf.to_yaml`. `conf/` is code: a `_target_` names a call.
"""

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dplangevin.data.archives import stage
from dplangevin.data.yaml_file import ConfigError, values
from dplangevin.files import write
from dplangevin.pipeline import lock, plan, schema, validate
from dplangevin.pipeline.plan import plain
from dplangevin.text import meant

PARAMS = "params.yaml"
CONF = "conf"
# folders of conf/ whose files are all composed
GROUPS = ["dataset", "weights", "backbone", "pretrain", "features", "problem", "accountant", "method", "experiment",
          "analysis"]  # fmt: skip
SET = "DPL_SET"  # environment variable: the overrides behind params.yaml (make repro SET=...)
READ = 6  # most results that an exhibit reads: stage render of dvc.yaml has as many dependencies on them


def load(path: str | Path = PARAMS) -> DictConfig:
    """Return the composed configuration from `params.yaml`."""
    return OmegaConf.create(values(path))


def one_of(names: Iterable[Any], name: str, what: str) -> str:
    """Return a name; raise ConfigError if it is not among the names of `what`."""
    if name not in (known := [*map(str, names)]):
        raise ConfigError(f"no {what} is named {name!r}{meant(name, known)}; there are {', '.join(known)}")
    return name


def content(kind: str, name: str, cfg: DictConfig, conf: str | Path = CONF) -> dict[str, Any]:
    """Return `conf/<kind>/<name>.yaml` as plain values; its interpolations refer to `cfg` or to files beside it."""
    there = {path.stem: path for path in sorted(Path(conf, kind).glob("*.yaml"))}
    files = {one_of(there, name, f"{kind} in {conf}/{kind}/"): values(there[name])}
    while more := {*re.findall(rf"\$\{{{kind}\.(\w+)", str(files))} & there.keys() - files.keys():
        files |= {each: values(there[each]) for each in more}
    named = {*re.findall(r"\$\{(\w+)", str(files))} & cfg.keys() - {kind}
    try:
        settings = plain(OmegaConf.create({group: cfg[group] for group in named} | {kind: files})[kind][name])
    except OmegaConfBaseException as error:
        raise ConfigError(f"{there[name]}: {error}") from error
    _refuse(validate.check(settings), there[name])
    return settings


def stages(folder: Path, kind: str, *, _root_: DictConfig) -> DictConfig:
    """Return what `${stages:kind}` stands for in conf/pipeline: the stages of a kind, found in the groups of conf/."""
    made, cfg = dict[str, Any](), _root_
    if kind == "exhibits":
        made |= _exhibits(folder, cfg)
    elif kind == "runs":
        made |= (run for name, spec in cfg.experiment.items() for run in _runs(cfg, name, spec))
    elif kind == "analyses":
        for name, entry in cfg.analysis.items():
            made[name] = f"{CONF}/{entry.get('content', 'analysis')}/{name}.yaml"
    for name, entry in cfg.get(kind, {}).items() if kind == "features" else ():
        names = {"name": name, "dataset": entry.dataset, "weights": entry.backbone}
        made[stage(kind, name).partition("@")[2]] = names
    return OmegaConf.create(made)


def _runs(cfg: DictConfig, name: str, spec: DictConfig) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the stages of an experiment; each `needs` the manifest which states all data that it reads."""
    problems = {run.get("problem") for run in (spec, *(spec.get("runs") or {}).values()) if run}
    networks = {cfg.problem[problem].get("backbone") for problem in problems & cfg.problem.keys()}
    for dataset in spec.datasets:
        needs = f"dataset/{dataset}" if dataset in cfg.dataset else f"features/{dataset}"
        for features, entry in cfg.get("features", {}).items():
            if entry.dataset == dataset and entry.backbone in networks:  # features need data and weights
                needs = f"features/{features}"
        if spec.get("compared"):
            needs = f"reference/{dataset}"
        swept = name == "sweep" and dataset == spec.datasets[0]  # so that its stage always has one name
        yield name if swept else f"{name}-{dataset}", {"experiment": name, "dataset": dataset, "needs": needs}


def _exhibits(conf: Path, cfg: DictConfig) -> Iterator[tuple[str, list[str]]]:
    """Yield exhibit and `READ` results, the last repeated; no exhibit of an experiment that is not composed."""
    for path in sorted((conf / "exhibit").glob("*.yaml")):
        spec = values(path)
        inside = sorted(spec.get("folders") or [f"{name}.json" for name in spec.get("weights", ())])
        read = [f"{spec.get('source')}/{name}" for name in inside] or [str(spec.get("source"))]
        if len(read) > READ:
            raise ConfigError(f"{path} reads {len(read)} results: stage render of dvc.yaml has {READ}")
        if {*re.findall(r"results/runs/(\w+)", str(read))} <= cfg.experiment.keys():
            yield path.stem, [*read, *read[-1:] * READ][:READ]


def register(folder: Path) -> None:
    """Give Hydra the config `all`: each file of `GROUPS` under its group and name, but not what only a pipeline adds.

    The values stand in `all` itself, because Hydra takes .02 s for each file of a defaults list.
    """
    OmegaConf.register_new_resolver("stages", partial(stages, folder), replace=True)
    every = (".", *GROUPS, "pipeline", "scale", "scale/pipeline")
    files = {path: values(path) for each in every for path in sorted((folder / each).glob("[!.]*.yaml"))}
    added = str([entry.get("defaults") for path, entry in files.items() if path.parent.name == "pipeline"])
    defaults, groups = list[Any](["_self_"]), dict[str, dict[str, Any]]()
    for path, entry in files.items():
        group, name = path.parent.name, path.stem
        chosen = f"{group}@{group}.{name}"
        if group in GROUPS and f"'/{chosen}'" not in added:
            groups.setdefault(group, {})[name] = {} if "defaults" in entry else entry
            defaults += [{chosen: name}] * ("defaults" in entry)
    ConfigStore.instance().store(name="all", node={"defaults": defaults, **groups})


def compose(overrides: Sequence[str] = (), conf: str | Path = CONF) -> DictConfig:
    """Return the configuration of `conf/config.yaml` with Hydra overrides, resolved."""
    try:
        register(Path(conf))
        with hydra.initialize_config_dir(str(Path(conf).resolve()), version_base=None):
            cfg = hydra.compose(config_name="config", overrides=list(overrides))
        OmegaConf.resolve(cfg)
    except (HydraException, OmegaConfBaseException) as error:
        why = " ".join(f"{error} {error.__cause__ or ''}".split())
        given = f" with {' '.join(overrides)}" if overrides else ""
        raise ConfigError(f"cannot compose {conf}/{given}: {why}") from error
    return cfg


def check_values(cfg: DictConfig) -> None:
    """Raise ConfigError, naming key, value and domain, for each value that its object or its group does not accept."""
    _refuse(validate.check(plain(cfg), schema.Config) or dict.fromkeys(_wrong_runs(cfg)), CONF)


def _refuse(faults: Iterable[str], where: str | Path) -> None:
    if lines := [*faults]:
        raise ConfigError("\n  ".join([f"{where} has values that cannot be used:", *lines]))


def _wrong_runs(cfg: DictConfig) -> Iterator[str]:
    """Yield what is wrong with experiments: unknown names, and settings that a task will run with."""
    data = [*cfg.dataset, *cfg.get("features", {})]
    for name, spec in cfg.experiment.items():
        runs = spec.get("runs") or {}
        problems = [run.problem for run in (spec, *runs.values()) if run and run.get("problem")]
        own = [*(spec.get("methods") or ()), *runs, "problem", "dataset"]
        known = {"settings": [*cfg.method], "epsilons": [*data, "default"], "seeds": data}
        known |= {"vary": own, "vary.dataset": spec.datasets, "vary.problem": problems}
        if spec.get("calibrated") == "proven" and not spec.get("price_neighbours"):
            yield f"experiment.{name}: calibrated: proven needs price_neighbours"
        try:
            for word, names in known.items():
                given = OmegaConf.select(spec, word)
                for each in given if OmegaConf.is_dict(given) else ():
                    if given[each] is not None:
                        one_of(names, each, f"key of {word}")
            for dataset in spec.datasets:
                for run in plan.runs(cfg, name, one_of(data, dataset, "data set")):
                    one_of(cfg.problem, run.problem, "problem")
                    where = f"experiment.{name}, run {run.name}: "
                    for task in plan.tasks_of(cfg, name, run, dataset):
                        settings = {"method": task.config, "problem": task.problem}
                        yield from validate.check(settings, key=where)
                        yield from validate.check(task.data_changes, schema.RowSubset, f"{where}dataset.")
                        if "backbone" in task.problem_changes:
                            yield f"{where}the backbone cannot be varied: an experiment has one"
        except (ValueError, OmegaConfBaseException) as error:
            yield f"experiment.{name}: {error}"


def main(words: Sequence[str]) -> int:
    """Write params.yaml with Hydra overrides, or only `--check` that it is in step; return the exit status."""
    check, command = [*words] == ["--check"], "python -m dplangevin.pipeline.config"
    if check and "DVC_EXP_NAME" in os.environ:
        return 0  # stage `code` checks the values of an experiment
    try:
        cfg = compose(shlex.split(os.environ.get(SET, "")) if check else words)
        params = OmegaConf.to_yaml(cfg).encode()
        if Path(PARAMS).exists() and Path(PARAMS).read_bytes() == params:
            return 0
        if check:
            raise ConfigError(f"{PARAMS} is out of step with {CONF}/: compose it anew with `{command}`")
        with lock.run(command):
            check_values(cfg)
            write(Path(), {PARAMS: params})
            print(f"{PARAMS} written", flush=True)
    except (ConfigError, lock.LockError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
