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
import pkgutil
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dplangevin.data.yaml_file import ConfigError, inexact, values
from dplangevin.files import atomic_path
from dplangevin.pipeline import plan, schema, validate
from dplangevin.text import meant

PARAMS = "params.yaml"
CONF = "conf"
GROUPS = (  # folders of conf/ whose files are all composed
    "dataset", "weights", "backbone", "pretrain", "features", "problem", "accountant", "method", "experiment",
    "analysis",
)  # fmt: skip
SET = "DPL_SET"  # environment variable: the overrides behind params.yaml (make repro SET=...)
SHOWN = 20  # faults named in a message before "and n more"
# group -> key that its reader removes from an entry before it builds the object
TAKEN = {"backbone": "made_by", "problem": "backbone", "analysis": "content"}


def render_stages(*, _root_: DictConfig) -> DictConfig:
    """Return exhibit -> `READ` results, the last of which may be repeated, for stage render of dvc.yaml."""
    exhibits = plan.plain(_root_.pipeline.exhibits)
    lists = {name: paths if isinstance(paths, list) else [paths] for name, paths in exhibits.items()}
    return OmegaConf.create(
        {name: [*paths, *paths[-1:] * schema.READ][: schema.READ] for name, paths in lists.items()}
    )


OmegaConf.register_new_resolver("render_stages", render_stages, replace=True)


class OutOfStep(ConfigError):
    """`params.yaml` is not what `conf/` composes to."""


def load(path: str | Path = PARAMS) -> DictConfig:
    """Return the composed configuration from `params.yaml`."""
    if not Path(path).exists():
        raise ConfigError(f"{path} does not exist: write it with `python -m dplangevin.pipeline.config`")
    return OmegaConf.create(values(path))


def content(kind: str, name: str, cfg: DictConfig, conf: str | Path = CONF) -> dict[str, Any]:
    """Return `conf/<kind>/<name>.yaml` as plain values; its interpolations refer to `cfg` or to files beside it."""
    folder = Path(conf) / kind
    there = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    if name not in there:
        raise ConfigError(f"no {kind} {name!r}{meant(name, there)}; {folder}/ has {', '.join(there)}")
    files: dict[str, Any] = {}
    todo = {name}
    while todo:
        files |= {each: values(there[each]) for each in todo}
        todo = {*re.findall(rf"\$\{{{kind}\.(\w+)", str(files))} & there.keys() - files.keys()
    settings: dict[str, Any] = files[name]
    if "${" in str(files):
        named = {*re.findall(r"\$\{(\w+)", str(files))} & cfg.keys() - {kind}
        try:
            around = OmegaConf.create({group: cfg[group] for group in named} | {kind: files})
            settings = plan.plain(around[kind][name])
        except OmegaConfBaseException as error:
            raise ConfigError(f"{there[name]}: {error}") from error
    _refuse(validate.check(settings), f"{there[name]} has values that cannot be used")
    return settings


# Composition


def compose(overrides: Sequence[str] = (), conf: str | Path = CONF) -> DictConfig:
    """Return the configuration of `conf/config.yaml` with Hydra overrides, resolved."""
    folder = Path(conf).resolve()
    if not (folder / "config.yaml").exists():
        raise ConfigError(
            f"{Path(conf) / 'config.yaml'} does not exist: run from the repository's top folder"
        )
    for override in overrides:
        key = _parsed(override).key_or_group
        if not key:
            raise ConfigError(f"{override}: write KEY=VALUE, such as method.ops.radius=3")
        if key.startswith("hydra."):
            raise ConfigError(f"{override}: {conf}/ is all that is composed")
        if why := inexact(override.partition("=")[2]):
            raise ConfigError(f"{override}: {why}")
    register(Path(conf), overrides)
    cfg = _compose(overrides, folder)
    if missing := sorted(OmegaConf.missing_keys(cfg)):
        raise ConfigError(f"no value (???) for {_listed(missing)}: set it in {conf}/ or as an override")
    return cfg


def register(folder: Path, overrides: Iterable[str] = ()) -> None:
    """Give Hydra the config `all`: the files of `GROUPS` in this `conf/`, each under its group and name.

    The values stand in `all` itself, because Hydra takes .02 s for each file that a defaults list names. Its defaults
    are only the files that have defaults themselves, and those that an override replaces or deletes. It
    leaves out a file that the defaults of a file of `conf/pipeline` add: only that pipeline has it.
    """
    folders = (".", *GROUPS, "pipeline", "scale", "scale/pipeline")
    files = {path: values(path) for each in folders for path in sorted((folder / each).glob("[!.]*.yaml"))}
    added = str(
        [content.get("defaults") for path, content in files.items() if path.parent.name == "pipeline"]
    )
    named = {override.partition("=")[0] for override in overrides}
    defaults: list[Any] = ["_self_"]
    groups: dict[str, dict[str, Any]] = {}
    for path, content in files.items():
        group, name = path.parent.name, path.stem
        entry = f"{group}@{group}.{name}"
        if group not in GROUPS or f"'/{entry}'" in added:
            continue
        if "defaults" in content or {entry, f"~{entry}"} & named:
            defaults.append({entry: name})
            content = {}  # keeps its place in the order
        if f"~{entry}" not in named:
            groups.setdefault(group, {})[name] = content
    try:
        ConfigStore.instance().store(name="all", node={"defaults": defaults, **groups})
    except OmegaConfBaseException as error:
        raise ConfigError(f"cannot compose {folder.name}/: {_one_line(error)}") from error


def _parsed(override: str) -> Override:
    try:
        return OverridesParser.create().parse_override(override)
    except HydraException as error:
        raise ConfigError(
            f"{override}: write KEY=VALUE, such as method.ops.radius=3, and close every bracket, brace and quote "
            f"({_one_line(error)})"
        ) from error


def _compose(overrides: Sequence[str], folder: Path) -> DictConfig:
    try:
        with initialize_config_dir(str(folder), version_base=None):
            cfg = hydra_compose(config_name="config", overrides=list(overrides))
        OmegaConf.resolve(cfg)
    except (HydraException, OmegaConfBaseException, ValueError, TypeError) as error:
        raise ConfigError(_why(error, overrides, folder)) from error
    return cfg


def _why(error: Exception, overrides: Sequence[str], folder: Path) -> str:
    """Return in one line why the overrides cannot be composed."""
    if overrides:
        base = _compose([], folder)  # raises its own error if conf/ itself fails
        if said := next(filter(None, (_fault(_parsed(each), base) for each in overrides)), ""):
            return f"{folder.name}/ {said}"
    reason = _one_line(error) + (f" ({_one_line(error.__cause__)})" if error.__cause__ else "")
    return f"cannot compose {folder.name}/{' with ' if overrides else ''}{', '.join(overrides)}: {reason}"


def _fault(override: Override, base: DictConfig) -> str:
    """Return what is wrong with an override of this configuration, or "": an unknown key, or another kind of value."""
    key, node = override.key_or_group, base
    if override.package or "/" in key:  # selects a file of a group
        return ""
    for part in key.split("."):
        if not (OmegaConf.is_dict(node) and part in node):
            near = meant(part, map(str, node)) if OmegaConf.is_dict(node) else ""
            return "" if override.is_add() or override.is_force_add() else f"has no {key}{near}"
        node = node[part]
    if override.is_add():
        return f"has {key} already: leave out the + of {override.input_line}"
    now, then = _kind(node), "" if override.is_delete() else _kind(override.value())
    if not (now and then) or now == then:
        return ""
    words = [str(word) for word in node if not str(word).startswith("_")] if now == "a mapping" else []
    inside = f"set a key of it, such as {key}.{words[0]}, or " if words else ""
    return f"has {now} at {key}, not {then}: {inside}replace it by the two ~{key} and +{key}=..."


def _kind(value: Any) -> str:
    if isinstance(value, Mapping) or OmegaConf.is_dict(value):
        return "a mapping"
    return (
        ""
        if value is None
        else "a list"
        if isinstance(value, list) or OmegaConf.is_list(value)
        else "one value"
    )


def _one_line(error: BaseException) -> str:
    """Return the error message in one line, without Hydra's lists and links, but with the files of a group."""
    text = re.split(r"\nSee https?:|\nConfig search path:|, possible interpolation keys:", str(error))[0]
    text, _, options = text.partition("\nAvailable options in ")
    line = " ".join(text.split())
    if options:
        files = options.partition(":")[2].split()
        line += f"{meant(line.rpartition('/')[2], files)}; there are {', '.join(files)}"
    return line


def check_values(cfg: DictConfig) -> None:
    """Raise ConfigError, naming key, value and domain, for each value that its object or its group does not accept."""
    given, faults = plan.plain(cfg), []
    for group, word in TAKEN.items():
        for name, entry in (given.get(group) or {}).items():
            if isinstance(entry, dict) and word in entry:
                faults += validate.check(entry.pop(word), str | None, f"{group}.{name}.{word}")
                entry["_partial_"] = True  # its reader adds more arguments
    faults += validate.check(given, schema.Config)
    _refuse(faults or list(dict.fromkeys(_wrong_units(cfg))), "values that cannot be used")


def _wrong_units(cfg: DictConfig) -> Iterator[str]:
    """Yield what is wrong with the methods of experiments, with the settings that they will run with.

    Also yield runs whose data set no stage prepares, except in a smoke run.
    """
    for name, run in cfg.pipeline.runs.items() if cfg.scale != "smoke" else ():
        if name not in cfg.pipeline.run_stages and run.dataset in cfg.dataset:
            yield f"run@{name} needs {run.dataset!r}: add it to `datasets` of conf/pipeline/default.yaml"
    data = {*cfg.dataset, *cfg.get("features", {})}
    known = {"settings": {*cfg.method}, "epsilons": data | {"default"}, "seeds": data, "datasets": data}
    for name, spec in cfg.experiment.items():
        for word, names in known.items():
            given = spec.get(word)
            for unknown in sorted({*given} - names) if OmegaConf.is_config(given) else ():
                yield f"experiment.{name}.{word}: nothing is called {unknown!r}{meant(unknown, names)}"
        everything: list[plan.Run] = []
        for dataset in filter(data.__contains__, spec.datasets):
            try:
                runs = plan.runs(cfg, str(name), dataset)
                everything += runs
                yield from _wrong_on(cfg, str(name), str(dataset), runs)
            except (ValueError, OmegaConfBaseException) as error:
                yield f"experiment.{name}: {error}"
        yield from (f"experiment.{name}.{fault}" for fault in plan.unknown_names(spec, everything))


def _wrong_on(cfg: DictConfig, experiment: str, dataset: str, runs: Sequence[plan.Run]) -> Iterator[str]:
    """Yield what is wrong with the runs of an experiment on a data set and with the values that it varies."""
    for run in runs:
        where = f"experiment.{experiment}, run {run.name}"
        if run.problem not in cfg.problem:
            yield f"{where}: no problem {run.problem!r}{meant(run.problem, cfg.problem)}"
            continue
        for task in plan.tasks_of(cfg, experiment, run, dataset):
            yield from validate.check(task.config, key=f"{where}: method.{run.method}")
            if "backbone" in task.problem_changes:
                yield f"{where}: the backbone cannot be varied: an experiment has one"
            elif task.problem_changes:
                problem = {**task.problem, "_partial_": True}
                problem.pop("backbone", None)
                yield from validate.check(problem, key=f"{where}: problem.{run.problem}")
            if task.data_changes:
                yield from (f"{where}: {fault}" for fault in _wrong_data(cfg, dataset, task.data_changes))


def _wrong_data(cfg: DictConfig, name: str, changes: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the fields of a data set, of its loader or its extraction, that an experiment varies."""
    kind, entry = "dataset" if name in cfg.dataset else "features", plan.data_entry(cfg, name)
    own = {word: value for word, value in changes.items() if word in plan.SUBSET}
    settings = plan.nested({word: value for word, value in changes.items() if word not in plan.SUBSET})
    if kind == "dataset":
        taken = {*validate.annotations(pkgutil.resolve_name(entry["loader"]["_target_"]))}
        loader = {**plan.merged(entry["loader"], settings), "_partial_": True}
        faults = validate.check({**entry, **own, "loader": loader}, schema.Dataset, f"{kind}.{name}")
    else:
        taken = {*schema.Features.model_fields}
        faults = validate.check({**entry, **own, **settings}, schema.Features, f"{kind}.{name}")
    there = sorted({*taken, *plan.SUBSET} - {"folder", "return"})
    for word in settings.keys() - there:
        yield f"{kind}.{name} has no {word!r} to vary{meant(word, there) or ': it has ' + ', '.join(there)}"
        return
    yield from faults


def _refuse(faults: Sequence[str], what: str) -> None:
    if faults:
        more = [f"... and {len(faults) - SHOWN} more"] if len(faults) > SHOWN else []
        raise ConfigError("\n  ".join([f"{what}:", *faults[:SHOWN], *more]))


def flatten(node: Any, prefix: str = "") -> dict[str, Any]:
    """Return dotted key -> value, e.g. {"method.ops.radius": 10.0}; lists and empty mappings count as values."""
    if isinstance(node, DictConfig):
        node = OmegaConf.to_container(node)
    if not isinstance(node, dict) or not node:
        return {prefix: node}
    return dict(_branches(node, prefix))


def _branches(node: dict[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        yield from flatten(value, f"{prefix}.{key}" if prefix else str(key)).items()


def differences(old: DictConfig, new: DictConfig) -> list[str]:
    """Return one line, `key: old -> new`, for every key whose value differs, in the order of the keys."""
    a, b = flatten(old), flatten(new)
    absent = object()

    def show(value: Any) -> str:
        return "(absent)" if value is absent else repr(value)

    pairs = [(key, a.get(key, absent), b.get(key, absent)) for key in sorted(a.keys() | b.keys())]
    return [f"{key}: {show(x)} -> {show(y)}" for key, x, y in pairs if x != y]


def current(cfg: DictConfig, path: str | Path = PARAMS) -> bool:
    """Return whether the file has exactly the bytes that `cfg` is written as."""
    return Path(path).exists() and Path(path).read_bytes() == OmegaConf.to_yaml(cfg).encode()


def write(cfg: DictConfig, path: str | Path = PARAMS) -> bool:
    """Write `cfg` atomically unless the file is already `current`; return True if it was written."""
    if current(cfg, path):
        return False
    with atomic_path(path) as part:
        part.write_text(OmegaConf.to_yaml(cfg), encoding="utf-8")
    return True


def visible(path: str | Path = PARAMS) -> None:
    """Set the modification time of a file one second back, so that git compares its content.

    DVC writes the values of an experiment in the same second in which git has looked at the file. If the size
    is also the same, git takes the file for unchanged, and `git restore` does not restore it.
    """
    status = os.stat(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - 10**9))


def check(cfg: DictConfig, path: str | Path = PARAMS) -> None:
    """Raise OutOfStep, naming the keys, if the file is not what `cfg` is written as."""
    if current(cfg, path):
        return
    lines = differences(load(path), cfg) or ["(the same values, written differently)"]
    more = [f"... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    raise OutOfStep(
        "\n  ".join([f"{path} is out of step with {CONF}/:", *lines[:SHOWN], *more])
        + "\nCompose it anew with `python -m dplangevin.pipeline.config`, or run `make repro`, which does."
    )


def _listed(keys: Sequence[str], most: int = SHOWN) -> str:
    return ", ".join(map(str, keys[:most])) + (f" and {len(keys) - most} more" if len(keys) > most else "")


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
    except (OutOfStep, lock.LockError) as error:
        print(error, file=sys.stderr)
        return 1
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
