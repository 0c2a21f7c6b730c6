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
from dplangevin.data.yaml_file import ConfigError, inexact, values
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
    files, todo = dict[str, Any](), {one_of(there, name, f"{kind} in {conf}/{kind}/")}
    while todo:
        files |= {each: values(there[each]) for each in todo}
        todo = {*re.findall(rf"\$\{{{kind}\.(\w+)", str(files))} & there.keys() - files.keys()
    named = {*re.findall(r"\$\{(\w+)", str(files))} & cfg.keys() - {kind}
    try:
        settings = plain(OmegaConf.create({group: cfg[group] for group in named} | {kind: files})[kind][name])
    except OmegaConfBaseException as error:
        raise ConfigError(f"{there[name]}: {error}") from error
    _refuse(validate.check(settings), str(there[name]))
    return settings


def stages(folder: Path, kind: str, *, _root_: DictConfig) -> Any:
    """Return what `${stages:kind}` stands for in conf/pipeline: the stages of a kind, found in the groups of conf/."""
    cfg = _root_
    if kind == "exhibits":
        made: Any = dict(_exhibits(folder, cfg))
    elif kind == "runs":
        made = dict(run for name, spec in cfg.experiment.items() for run in _runs(cfg, name, spec))
    elif kind == "analyses":
        folders = {name: of.get("content", "analysis") for name, of in cfg.analysis.items()}
        made = {name: f"{CONF}/{of}/{name}.yaml" for name, of in folders.items()}
    else:
        items = cfg.get("features", {}).items()
        names = [{"name": name, "dataset": of.dataset, "weights": of.backbone} for name, of in items]
        made = {stage("features", each["name"]).partition("@")[2]: each for each in names}
    return OmegaConf.create(made)


def _runs(cfg: DictConfig, name: str, spec: DictConfig) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the stages of an experiment; each `needs` the manifest which states all data that it reads."""
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
    for why in filter(None, (inexact(each.partition("=")[2]) for each in overrides)):
        raise ConfigError(f"cannot compose with {', '.join(overrides)}: {why}")
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
    faults = validate.check(plain(cfg), schema.Config)
    _refuse(faults or [*dict.fromkeys(_wrong_runs(cfg))], CONF)


def _wrong_runs(cfg: DictConfig) -> Iterator[str]:
    """Yield what is wrong with experiments: unknown names, and settings that a task will run with."""
    data = [*cfg.dataset, *cfg.get("features", {})]
    known = {"settings": [*cfg.method], "epsilons": [*data, "default"], "seeds": data}
    for name, spec in cfg.experiment.items():
        own = [*(spec.get("methods") or ()), *(spec.get("runs") or ())]
        of_runs = [(run or {}).get("problem") for run in (spec.get("runs") or {}).values()]
        varied = {"vary": [*own, "problem", "dataset"], "vary.dataset": [*spec.datasets]}
        varied |= {"vary.problem": [*filter(None, [spec.get("problem"), *of_runs])]}
        if spec.get("calibrated") == "proven" and not spec.get("price_neighbours"):
            yield f"experiment.{name}: calibrated: proven needs price_neighbours"
        try:
            for word, names in (known | varied).items():
                given = OmegaConf.select(spec, word)
                for each in given if OmegaConf.is_dict(given) else ():
                    if given[each] is not None:
                        one_of(names, each, f"key of {word}")
            for dataset in spec.datasets:
                for run in plan.runs(cfg, name, one_of(data, dataset, "data set")):
                    one_of(cfg.problem, run.problem, "problem")
                    where = f"experiment.{name}, run {run.name}:"
                    for task in plan.tasks_of(cfg, name, run, dataset):
                        yield from validate.check(task.config, key=f"{where} method.{run.method}")
                        yield from validate.check(task.problem, key=f"{where} problem.{run.problem}")
                        of_data = f"{where} dataset.{dataset}"
                        yield from validate.check(task.data_changes, schema.RowSubset, of_data)
                        if "backbone" in task.problem_changes:
                            yield f"{where} the backbone cannot be varied: an experiment has one"
        except (ValueError, OmegaConfBaseException) as error:
            yield f"experiment.{name}: {error}"


def _refuse(faults: Sequence[str], where: str) -> None:
    if faults:
        raise ConfigError("\n  ".join([f"{where} has values that cannot be used:", *faults]))


def main(words: Sequence[str]) -> int:
    """Write params.yaml with Hydra overrides, or only `--check` that it is in step; return the exit status."""
    check, command = [*words] == ["--check"], "python -m dplangevin.pipeline.config"
    try:
        if check and "DVC_EXP_NAME" in os.environ:
            return 0  # stage `code` checks the values of an experiment
        cfg = compose(shlex.split(os.environ.get(SET, "")) if check else words)
        if Path(PARAMS).exists() and Path(PARAMS).read_bytes() == OmegaConf.to_yaml(cfg).encode():
            return 0
        if check:
            print(f"{PARAMS} is out of step with {CONF}/: compose it anew with `{command}`", file=sys.stderr)
            return 1
        with lock.run(command):
            check_values(cfg)
            write(Path(), {PARAMS: OmegaConf.to_yaml(cfg).encode()})
            print(f"{PARAMS} written", flush=True)
    except (ConfigError, lock.LockError) as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
