"""Compose `conf/` into `params.yaml`, once; every stage then reads `params.yaml` and nothing else.

Git tracks `params.yaml`, like a lock file for parameters. `dvc exp run -S` writes the same bytes as this module: both
use Hydra's compose, with interpolations resolved, and `OmegaConf.to_yaml`.

    python -m dplangevin.pipeline.config                compose, write params.yaml if it changed
    python -m dplangevin.pipeline.config scale=smoke    the same with Hydra overrides
    python -m dplangevin.pipeline.config --check        exit 1, naming the keys, if params.yaml differs from conf/
    python -m dplangevin.pipeline.config --try seed=3   exit 2, saying why, if an experiment cannot set that

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
from textwrap import shorten
from typing import Annotated, Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf._utils import get_yaml_loader
from omegaconf.errors import OmegaConfBaseException
from pydantic import Field

from dplangevin.data.yaml_file import ConfigError, error_message, inexact, sound
from dplangevin.files import atomic_path
from dplangevin.pipeline import plan, schema, validate
from dplangevin.pipeline.schema import Config
from dplangevin.text import meant

PARAMS = "params.yaml"
CONF = "conf"
GROUPS = (  # folders of conf/ whose files are all composed
    "dataset", "weights", "backbone", "pretrain", "features", "problem", "accountant", "method", "experiment",
    "analysis",
)  # fmt: skip
SET = "DPL_SET"  # environment variable: the overrides behind params.yaml (make repro SET=...)
READ = 6  # most results that an exhibit reads: stage render of dvc.yaml has as many dependencies on them
READS = Mapping[str, str | Annotated[Sequence[str], Field(min_length=1, max_length=READ)]]
SHOWN = 20  # keys named in a message before "and n more"
# group -> key that its reader removes from an entry before it builds the object
TAKEN = {"backbone": "made_by", "problem": "backbone", "analysis": "content"}

# OmegaConf's own loader, on libyaml where PyYAML has it: ten times as fast
LOADER = get_yaml_loader()
if hasattr(yaml, "CSafeLoader"):
    LOADER = type("Loader", (yaml.CSafeLoader, LOADER), {})


def render_stages(*, _root_: DictConfig) -> DictConfig:
    """Return exhibit -> `READ` results, the last of which may be repeated, for stage render of dvc.yaml."""
    exhibits = plan.plain(_root_.pipeline.exhibits)
    lists = {name: paths if isinstance(paths, list) else [paths] for name, paths in exhibits.items()}
    return OmegaConf.create({name: [*paths, *paths[-1:] * READ][:READ] for name, paths in lists.items()})


OmegaConf.register_new_resolver("render_stages", render_stages, replace=True)


class OutOfStep(ConfigError):
    """`params.yaml` is not what `conf/` composes to."""


def load(path: str | Path = PARAMS) -> DictConfig:
    """Return the composed configuration from `params.yaml`."""
    if not Path(path).exists():
        raise ConfigError(f"{path} does not exist: write it with `python -m dplangevin.pipeline.config`")
    return read(path)


def read(path: str | Path) -> DictConfig:
    """Return the mapping in a file as an OmegaConf config."""
    content = values(path)
    try:
        return OmegaConf.create(content)
    except OmegaConfBaseException as error:
        raise ConfigError(f"{path}: {error}") from error


def values(path: str | Path) -> dict[str, Any]:
    """Return the mapping in a file as plain values, as OmegaConf reads them."""
    text = sound(path)
    try:
        content = yaml.load(text, Loader=LOADER)
    except yaml.YAMLError as error:
        raise ConfigError(error_message(error, path, text)) from error
    if not isinstance(content, dict | None):
        raise ConfigError(f"{path} is not a mapping: it needs lines of `name: value`")
    return content or {}


def content(kind: str, name: str, cfg: DictConfig, conf: str | Path = CONF) -> dict[str, Any]:
    """Return `conf/<kind>/<name>.yaml` as plain values; its interpolations refer to `cfg` or to files beside it."""
    folder = Path(conf) / kind
    there = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in there:
        raise ConfigError(f"no {kind} {name!r}{meant(name, there)}; {folder}/ has {', '.join(there)}")
    texts = {name: sound(folder / f"{name}.yaml")}
    todo = [name]
    while todo:
        for other in re.findall(rf"\$\{{{kind}\.(\w+)", texts[todo.pop()]):
            if other in there and other not in texts:
                texts[other] = sound(folder / f"{other}.yaml")
                todo.append(other)
    if "${" in texts[name]:
        groups = set(re.findall(r"\$\{(\w+)", "".join(texts.values()))) - {kind}
        try:
            around = OmegaConf.create({group: cfg[group] for group in groups if group in cfg})
            around[kind] = {key: read(folder / f"{key}.yaml") for key in texts}
            settings: dict[str, Any] = plan.plain(around[kind][name])
        except OmegaConfBaseException as error:
            raise ConfigError(f"{folder / f'{name}.yaml'}: {error}") from error
    else:
        settings = values(folder / f"{name}.yaml")
    faults = [
        f"a key is {key}: YAML reads on, yes, off and no so, write it in quotes"
        for key in _no_texts(settings)
    ]
    _refuse(faults or validate.check(settings), f"{folder / f'{name}.yaml'} has values that cannot be used")
    return settings


def _no_texts(node: Any) -> Iterator[bool]:
    """Yield the keys of mappings that YAML reads as true or false."""
    if isinstance(node, Mapping):
        yield from (key for key in node if isinstance(key, bool))
    for each in node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ():
        yield from _no_texts(each)


# Composition


def compose(overrides: Sequence[str] = (), conf: str | Path = CONF) -> DictConfig:
    """Return the configuration of `conf/config.yaml` with Hydra overrides, resolved."""
    cfg = _compose(overrides, _checked(overrides, conf))
    if missing := sorted(OmegaConf.missing_keys(cfg)):
        raise ConfigError(f"no value (???) for {_listed(missing)}: set it in {conf}/ or as an override")
    return cfg


def check_experiment(overrides: Sequence[str], conf: str | Path = CONF) -> None:
    """Raise ConfigError for overrides that `dvc exp run -S` cannot use; write nothing."""
    folder = _checked(overrides, conf)
    cfg = _compose(overrides, folder)
    if any(override.startswith("+") for override in overrides):  # a new key that nothing may read
        check_keys(_compose([], folder), cfg)
    check_values(cfg)


def _checked(overrides: Sequence[str], conf: str | Path) -> Path:
    """Return the folder `conf/` after checking that Hydra can read its files and the overrides, and `register`."""
    folder = Path(conf).resolve()
    if not (folder / "config.yaml").exists():
        raise ConfigError(
            f"{Path(conf) / 'config.yaml'} does not exist: run from the repository's top folder"
        )
    for path in sorted(Path(conf).rglob("[!.]*.yaml")):
        sound(path)
    for override in overrides:
        name, equals, value = override.partition("=")
        if not name.lstrip("+~") or not (equals or name.startswith("~")):
            raise ConfigError(f"{override}: write KEY=VALUE, such as method.ops.radius=3")
        if name.lstrip("+~").startswith("hydra."):
            raise ConfigError(f"{override}: {conf}/ is all that is composed")
        if why := inexact(value):
            raise ConfigError(f"{override}: {why}")
        try:
            _parsed(override)
        except HydraException as error:
            raise ConfigError(
                f"{override}: this is no value ({_one_line(error)}): close every bracket, brace and quote"
            ) from error
    register(folder, overrides)
    return folder


def register(folder: Path, overrides: Iterable[str] = ()) -> None:
    """Give Hydra the config `all`: the files of `GROUPS` in this `conf/`, each under its group and name.

    The values stand in `all` itself, because Hydra takes .02 s for each file that a defaults list names. Its defaults
    are only the files that have defaults themselves, and those that an override replaces or deletes. It
    leaves out a file that the defaults of a file of `conf/pipeline` add: only that pipeline has it.
    """
    added = "".join(path.read_text(encoding="utf-8") for path in folder.glob("pipeline/*.yaml"))
    named = {override.partition("=")[0] for override in overrides}
    defaults: list[Any] = ["_self_"]
    groups: dict[str, dict[str, Any]] = {}
    for path in (path for group in GROUPS for path in sorted(folder.glob(f"{group}/*.yaml"))):
        group, name = path.parent.name, path.stem
        entry, content = f"{group}@{group}.{name}", values(path)
        if f"- /{entry}:" in added:
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
    return OverridesParser.create().parse_override(override)


def _compose(overrides: Sequence[str], folder: Path) -> DictConfig:
    try:
        with initialize_config_dir(str(folder), version_base=None):
            cfg = hydra_compose(config_name="config", overrides=list(overrides))
        OmegaConf.resolve(cfg)
    except (HydraException, OmegaConfBaseException, ValueError, TypeError) as error:
        raise ConfigError(_why(error, overrides, folder)) from error
    except yaml.YAMLError as error:
        raise ConfigError(error_message(error)) from error
    return cfg


def _why(error: Exception, overrides: Sequence[str], folder: Path) -> str:
    """Return one line: the overrides, the current values of their keys, and why they cannot be composed."""
    reason = _one_line(error) + (f" ({_one_line(error.__cause__)})" if error.__cause__ else "")
    if not overrides:
        return f"cannot compose {folder.name}/: {reason}"
    base = _compose([], folder)  # raises its own error if conf/ itself fails
    known, said, clashes = keys_of(base), [], []
    for each in map(_parsed, overrides):
        key, adds = each.key_or_group, each.is_add() or each.is_force_add()
        if not (adds or each.package or key in known or "/" in key):
            return f"{folder.name}/ has no {key}{meant(key, known)}"
        if each.is_add() and key in known:
            return f"{each.input_line}: {folder.name}/ has {key} already: leave out the +"
        selects = each.package or key not in known  # a file of a group
        before = None if selects else _value(OmegaConf.select(base, key))
        said.append(f"{each.input_line}{_now(before)}")
        clashes.append(_clash(key, before, None if each.is_delete() else each.value()))
    if not isinstance(error, MissingConfigException):
        reason = next(filter(None, clashes), reason)
    return f"cannot compose {folder.name}/ with {', '.join(said)}: {reason}"


def _one_line(error: BaseException) -> str:
    """Return the error message in one line, without Hydra's lists and links, but with the files of a group."""
    text = re.split(r"\nSee https?:|\nConfig search path:|, possible interpolation keys:", str(error))[0]
    text, _, options = text.partition("\nAvailable options in ")
    line = " ".join(text.split())
    if options:
        files = options.partition(":")[2].split()
        line += f"{meant(line.rpartition('/')[2], files)}; there are {', '.join(files)}"
    return line


def _value(node: Any) -> Any:
    return OmegaConf.to_container(node) if OmegaConf.is_config(node) else node


def _kind(value: Any) -> str:
    return "a mapping" if isinstance(value, Mapping) else "a list" if isinstance(value, list) else "one value"


def _now(before: Any) -> str:
    if before is None:
        return ""
    if isinstance(before, Mapping):
        return f" (now a mapping of {_listed(list(before), 6)})"
    return f" (now {shorten(repr(before), 60)})"


def _clash(key: str, before: Any, after: Any) -> str:
    """Return an error message if a list, a mapping or a single value is to replace another kind, else ""."""
    if before is None or after is None or _kind(before) == _kind(after):
        return ""
    names = [name for name in before if not str(name).startswith("_")] if isinstance(before, Mapping) else []
    inside = f"set a key of it, such as {key}.{names[0]}, or " if names else ""
    return f"it is {_kind(before)}, not {_kind(after)}: {inside}replace it by the two ~{key} and +{key}=..."


def check_values(cfg: DictConfig) -> None:
    """Raise ConfigError, naming key, value and domain, for each value that its object or its group does not accept."""
    given = plan.plain(cfg)
    stages = given["pipeline"]
    faults = validate.check(stages["exhibits"], READS, "pipeline.exhibits")
    stages["exhibits"] = {}
    stages.pop("render_stages", None)
    for group, word in TAKEN.items():
        for name, entry in (given.get(group) or {}).items():
            if isinstance(entry, dict) and word in entry:
                faults += validate.check(entry.pop(word), str | None, f"{group}.{name}.{word}")
                entry["_partial_"] = True  # its reader adds more arguments
    for group in ("accountant", "analysis", "backbone", "method", "problem"):
        for name, entry in (given.get(group) or {}).items():
            if not (isinstance(entry, dict) and "_target_" in entry):
                faults.append(f"{group}.{name}: nothing reads it, because it has no _target_")
    faults += validate.check(given, Config)
    _refuse(faults or list(dict.fromkeys(_wrong_units(cfg))), "values that cannot be used")


def _wrong_units(cfg: DictConfig) -> Iterator[str]:
    """Yield what is wrong with the methods of experiments, with the settings that they will run with.

    Also yield runs whose data set no stage prepares, except in a smoke run.
    """
    for name, run in cfg.pipeline.runs.items() if cfg.scale != "smoke" else ():
        if name not in cfg.pipeline.run_stages and run.dataset in cfg.dataset:
            yield f"run@{name} needs {run.dataset!r}: add it to `datasets` of conf/pipeline/default.yaml"
    for name, spec in cfg.experiment.items():
        everything: list[plan.Run] = []
        for dataset in spec.datasets:
            if dataset not in {**cfg.dataset, **cfg.get("features", {})}:
                yield f"experiment.{name}.datasets: no data set {dataset!r}{meant(dataset, cfg.dataset)}"
                continue
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
    kind = "dataset" if name in cfg.dataset else "features"
    entry, key = plan.plain(cfg[kind][name]), f"{kind}.{name}"
    own = {word: value for word, value in changes.items() if word in plan.SUBSET}
    settings = plan.nested({word: value for word, value in changes.items() if word not in plan.SUBSET})
    if kind == "dataset":
        yield from validate.check({**entry, **own}, schema.Dataset, key)
        taken = validate.annotations(pkgutil.resolve_name(entry["loader"]["_target_"]))
        loader = {**plan.merged(entry["loader"], settings), "_partial_": True}
        faults = validate.check(loader, key=key)
    else:
        taken = validate.annotations(schema.Features)
        faults = validate.check({**entry, **own, **settings}, schema.Features, key)
    for word in settings:
        if word not in taken or word in ("folder", "return"):
            there = sorted({*taken, *plan.SUBSET} - {"folder", "return"})
            yield f"{key} has no {word!r} to vary{meant(word, there) or ': it has ' + ', '.join(there)}"
            return
    yield from faults


def _refuse(faults: Sequence[str], what: str) -> None:
    if faults:
        more = [f"... and {len(faults) - SHOWN} more"] if len(faults) > SHOWN else []
        raise ConfigError("\n  ".join([f"{what}:", *faults[:SHOWN], *more]))


def keys_of(cfg: DictConfig) -> set[str]:
    """Return every dotted key: those of values and those of the mappings that contain them."""
    keys: set[str] = set()
    for leaf in flatten(cfg):
        parts = leaf.split(".")
        keys.update(".".join(parts[:n]) for n in range(1, len(parts) + 1))
    return keys


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


def check_keys(cfg: DictConfig, given: DictConfig) -> None:
    """Raise ConfigError if an experiment has added keys with `+` that nothing reads."""
    named = {str(group) for group in cfg if isinstance(cfg[group], DictConfig)}
    known = keys_of(cfg)
    unknown = [key for key in flatten(given) if key not in known and _stray(key, known, named)]
    if unknown:
        lines = [f"{key}{meant(key, known)}" for key in unknown[:SHOWN]]
        raise ConfigError("\n  ".join(["keys that nothing reads:", *lines]))


def _stray(key: str, known: set[str], named: set[str]) -> bool:
    """Return whether nothing reads this new key.

    Four kinds are read: a new entry of a group, such as `method.mine`; a key below `vary`; a field that chooses rows
    of a data set (`plan.SUBSET`); and a word of `experiment.sweep`, because any experiment file can take its place.
    """
    group, *rest = key.split(".")
    word = rest[1] if len(rest) > 1 else ""
    if group == "experiment" and (
        word == "vary" or (rest[0] == "sweep" and word in _words(schema.Experiment))
    ):
        return False
    if group in ("dataset", "features") and len(rest) == 2 and word in plan.SUBSET:
        return False
    return group not in named or ".".join([group, *rest[:1]]) in known


def _words(kind: type[validate.Group]) -> set[str]:
    return set(validate.annotations(kind))


def _listed(keys: Sequence[str], most: int = SHOWN) -> str:
    return ", ".join(map(str, keys[:most])) + (f" and {len(keys) - most} more" if len(keys) > most else "")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    from dplangevin.pipeline import lock

    parser = argparse.ArgumentParser(
        prog="python -m dplangevin.pipeline.config", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="only compare params.yaml with conf/")
    parser.add_argument(
        "--try", nargs="*", action="append", dest="tries", default=[], metavar="OVERRIDE",
        help="only say what cannot be used of these",
    )  # fmt: skip
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, e.g. scale=smoke method.ops.radius=3")
    args = parser.parse_args(argv)
    try:
        for overrides in args.tries:
            check_experiment(overrides)
        if args.tries or (args.check and os.environ.get("DVC_EXP_NAME")):
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
