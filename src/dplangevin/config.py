"""Compose `conf/` into `params.yaml`, once; every stage then reads `params.yaml` and nothing else.

`conf/` is source, `params.yaml` its generated and tracked image (a lock file for parameters). The composition
is the one of `dvc exp run -S`, to the byte: Hydra's compose, interpolations resolved, `OmegaConf.to_yaml`.

    python -m dplangevin.config                  compose, write params.yaml if it changed
    python -m dplangevin.config scale=smoke      the same with Hydra overrides
    python -m dplangevin.config --check          exit 1, naming the keys, if params.yaml is not that
    python -m dplangevin.config --try seed=3     exit 2, saying why, if an experiment cannot set that; writes nothing

Files that are no sound YAML (`yaml_file`), and values that are not of the type or in the domain of what is made of them
(`check_values`), are refused before anything is written, with exit status 2.  conf/ is code: a `_target_` there names
what is called.  So no configuration is read from a folder of data.

What exhibits show and what papers claim is content, not parameters: the stage that uses it reads it from its file, see
`content`.
"""

import argparse
import os
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dplangevin import groups, plan, typed
from dplangevin.cache import atomic_path
from dplangevin.groups import Config
from dplangevin.text import meant
from dplangevin.yaml_file import ConfigError, inexact, read, said, sound

PARAMS = "params.yaml"
CONF = "conf"
OF_PIPELINE = (
    "scale/pipeline@_global_"  # a scale's part for what only one pipeline has, in the list of config.yaml
)
SET = "DPL_SET"  # environment: the overrides that params.yaml was composed with (make repro SET=...)
SHOWN = 20  # keys named in a message before "and n more"
# words of a group's entries that their reader takes off, before the rest is made
TAKEN = {"backbone": "made_by", "problem": "backbone", "analysis": "content"}


class OutOfStep(ConfigError):
    """`params.yaml` is not the image of `conf/`."""


def load(path: str | Path = PARAMS) -> DictConfig:
    """The composed configuration."""
    if not Path(path).exists():
        raise ConfigError(f"{path} does not exist: write it with `python -m dplangevin.config`")
    return read(path)


def content(kind: str, name: str, cfg: DictConfig, conf: str | Path = CONF) -> dict[str, Any]:
    """`conf/<kind>/<name>.yaml` as plain values, interpolations resolved in `cfg` and in the files beside it.

    Raises ConfigError for a file that is not there, naming those that are, for an interpolation that leads nowhere, and
    for values that are not what its objects take.
    """
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
    groups = set(re.findall(r"\$\{(\w+)", "".join(texts.values()))) - {kind}
    try:
        around = OmegaConf.create({group: cfg[group] for group in groups if group in cfg})
        around[kind] = {key: read(folder / f"{key}.yaml") for key in texts}
        found = plan.plain(around[kind][name])
    except OmegaConfBaseException as error:
        raise ConfigError(f"{folder / f'{name}.yaml'}: {error}") from error
    _refuse(typed.check(found), f"{folder / f'{name}.yaml'} has values that cannot be used")
    return found


# Composition


def compose(overrides: Sequence[str] = (), conf: str | Path = CONF) -> DictConfig:
    """The configuration of `conf/config.yaml` under Hydra overrides, resolved.

    Raises ConfigError for a file that is no sound YAML (`yaml_file`), an override that does not parse or names no key,
    a file or an interpolation that does not exist, a mandatory value (`???`) left open, and a key of `conf/scale/` that
    nothing else in `conf/` has.
    """
    folder = _checked(overrides, conf)
    cfg = _compose(overrides, folder)
    if missing := sorted(OmegaConf.missing_keys(cfg)):
        raise ConfigError(f"no value (???) for {_listed(missing)}: set it in {conf}/ or as an override")
    left_out = [
        "~scale",
        *([f"{OF_PIPELINE}=none"] if OF_PIPELINE in (folder / "config.yaml").read_text() else []),
    ]
    unscaled = _compose([*left_out, *(o for o in overrides if not o.startswith("scale="))], folder)
    if unknown := sorted(flatten(cfg).keys() - flatten(unscaled).keys()):
        raise ConfigError(f"{conf}/scale/{cfg.scale}.yaml sets keys that nothing reads: {_listed(unknown)}")
    return cfg


def check_experiment(overrides: Sequence[str], conf: str | Path = CONF) -> None:
    """ConfigError for overrides that `dvc exp run -S` cannot use.  Writes nothing."""
    folder = _checked(overrides, conf)
    cfg = _compose(overrides, folder)
    if any(override.startswith("+") for override in overrides):  # nothing might read it
        check_keys(_compose([], folder), cfg)
    check_values(cfg)


def sound_files(conf: str | Path = CONF) -> None:
    """ConfigError for the first file of `conf/` that is no sound YAML."""
    for path in sorted(Path(conf).rglob("[!.]*.yaml")):
        sound(path)


def _checked(overrides: Sequence[str], conf: str | Path) -> Path:
    """The folder, of sound files. ConfigError for an override that Hydra cannot read."""
    folder = Path(conf).resolve()
    if not (folder / "config.yaml").exists():
        raise ConfigError(
            f"{Path(conf) / 'config.yaml'} does not exist: run from the repository's top folder"
        )
    sound_files(conf)
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
    return folder


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
        raise ConfigError(said(error)) from error
    return cfg


def _why(error: Exception, overrides: Sequence[str], folder: Path) -> str:
    """One line: the overrides, what their keys are now, and why they cannot be composed."""
    cause = f" ({_one_line(error.__cause__)})" if error.__cause__ else ""
    if not overrides:
        return f"cannot compose {folder.name}/: {_one_line(error)}{cause}"
    try:
        base = _compose([], folder)
    except ConfigError as own:  # whatever is asked
        return str(own)
    known, given = keys_of(base), [_parsed(override) for override in overrides]
    for each in given:
        key = each.key_or_group
        if not (each.is_add() or each.is_force_add() or each.package or key in known or "/" in key):
            return f"{folder.name}/ has no {key}{meant(key, known)}"
        if each.is_add() and key in known:
            return f"{each.input_line}: {folder.name}/ has {key} already: leave out the +"
    asked = [f"{each.input_line}{_now(base, each)}" for each in given]
    clashes = [] if isinstance(error, MissingConfigException) else [_clash(base, each) for each in given]
    clash = next(filter(None, clashes), "")
    return f"cannot compose {folder.name}/ with {', '.join(asked)}: {clash or _one_line(error) + cause}"


def _one_line(error: BaseException) -> str:
    """The message without Hydra's lists and links; the files of a group in one line, with the near ones."""
    text = re.split(r"\nSee https?:|\nConfig search path:|, possible interpolation keys:", str(error))[0]
    text, _, options = text.partition("\nAvailable options in ")
    line = " ".join(text.split())
    if options:
        files = options.partition(":")[2].split()
        line += f"{meant(line.rpartition('/')[2], files)}; there are {', '.join(files)}"
    return line


def _kind(value: Any) -> str:
    return "a mapping" if isinstance(value, Mapping) else "a list" if isinstance(value, list) else "one value"


def _before(base: DictConfig, override: Override) -> Any:
    """What a key is in `base`; None where there is no such key, or where a file is chosen."""
    if override.package or override.key_or_group not in keys_of(base):
        return None
    before = OmegaConf.select(base, override.key_or_group)
    return OmegaConf.to_container(before) if OmegaConf.is_config(before) else before


def _now(base: DictConfig, override: Override) -> str:
    before = _before(base, override)
    if before is None:
        return ""
    if isinstance(before, Mapping):
        return f" (now a mapping of {_listed(list(before), 6)})"
    return f" (now {shorten(repr(before), 60)})"


def _clash(base: DictConfig, override: Override) -> str:
    """What is wrong where one of a list, a mapping and one value would take the place of another; "" elsewhere."""
    before, key = _before(base, override), override.key_or_group
    after = None if override.is_delete() else override.value()
    if before is None or after is None or _kind(before) == _kind(after):
        return ""
    names = [name for name in before if not str(name).startswith("_")] if isinstance(before, Mapping) else []
    inside = f"set a key of it, such as {key}.{names[0]}, or " if names else ""
    return f"it is {_kind(before)}, not {_kind(after)}: {inside}replace it by the two ~{key} and +{key}=..."


def check_values(cfg: DictConfig) -> None:
    """ConfigError, naming key, value and domain, for values that are not what is made of them takes.

    Types are the annotations of the groups (`groups`) and of what a `_target_` names; domains are what these refuse.
    """
    given = plan.plain(cfg)
    faults: list[str] = []
    for group, word in TAKEN.items():
        for name, entry in (given.get(group) or {}).items():
            if isinstance(entry, dict) and word in entry:
                faults += typed.check(entry.pop(word), str | None, f"{group}.{name}.{word}")
                entry["_partial_"] = True  # its reader has more to give
    faults += typed.check(given, Config)
    _refuse(faults or list(dict.fromkeys(_wrong_units(cfg))), "values that cannot be used")


def _wrong_units(cfg: DictConfig) -> Iterator[str]:
    """What is wrong with the methods of experiments, as they are to be run."""
    for name, spec in cfg.experiment.items():
        everything: list[plan.Run] = []
        for dataset in spec.datasets:
            if dataset not in {**cfg.dataset, **cfg.get("features", {})}:
                yield f"experiment.{name}.datasets: no data set {dataset!r}{meant(dataset, cfg.dataset)}"
                continue
            try:
                found = plan.runs(cfg, str(name), dataset)
                everything += found
                yield from _wrong_on(cfg, spec, f"experiment.{name}", str(dataset), found)
            except (ValueError, OmegaConfBaseException) as error:
                yield f"experiment.{name}: {error}"
        yield from (f"experiment.{name}.{fault}" for fault in plan.unnamed(spec, everything))


def _wrong_on(
    cfg: DictConfig, spec: DictConfig, key: str, dataset: str, found: Sequence[plan.Run]
) -> Iterator[str]:
    """What is wrong with the runs of an experiment on a data set, and with what is varied."""
    for run in found:
        where = f"{key}, run {run.name}"
        if run.problem not in cfg.problem:
            yield f"{where}: no problem {run.problem!r}{meant(run.problem, cfg.problem)}"
            continue
        for unit in plan.units(spec, run, dataset):
            yield from typed.check(unit.config, key=f"{where}: method.{run.method}")
            if "backbone" in unit.problem:
                yield f"{where}: the backbone cannot be varied: an experiment has one"
            elif unit.problem:
                problem = plan.merged(plan.plain(cfg.problem[run.problem]), plan.nested(unit.problem))
                problem = {**problem, "_partial_": True}
                problem.pop("backbone", None)
                yield from typed.check(problem, key=f"{where}: problem.{run.problem}")
            if unit.data:
                yield from (f"{where}: {fault}" for fault in _wrong_data(cfg, dataset, unit.data))


def _wrong_data(cfg: DictConfig, name: str, changes: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with varied fields of a data set: the part that is learned from, and what its loader, or the
    extraction of its features, takes."""
    kind = "dataset" if name in cfg.dataset else "features"
    entry, key = plan.plain(cfg[kind][name]), f"{kind}.{name}"
    own = {word: value for word, value in changes.items() if word in plan.PART}
    settings = plan.nested({word: value for word, value in changes.items() if word not in plan.PART})
    if kind == "dataset":
        yield from typed.check({**entry, **own}, groups.Dataset, key)
        taken = typed.annotations(pkgutil.resolve_name(entry["loader"]["_target_"]))
        loader = {**plan.merged(entry["loader"], settings), "_partial_": True}
        faults = typed.check(loader, key=key)
    else:
        taken = typed.annotations(groups.Features)
        faults = typed.check({**entry, **own, **settings}, groups.Features, key)
    for word in settings:
        if word not in taken or word in ("folder", "return"):
            there = sorted({*taken, *plan.PART} - {"folder", "return"})
            yield f"{key} has no {word!r} to vary{meant(word, there) or ': it has ' + ', '.join(there)}"
            return
    yield from faults


def _refuse(faults: Sequence[str], what: str) -> None:
    if faults:
        more = [f"... and {len(faults) - SHOWN} more"] if len(faults) > SHOWN else []
        raise ConfigError("\n  ".join([f"{what}:", *faults[:SHOWN], *more]))


def keys_of(cfg: DictConfig) -> set[str]:
    """Every dotted key, of values and of the mappings around them."""
    found: set[str] = set()
    for leaf in flatten(cfg):
        parts = leaf.split(".")
        found.update(".".join(parts[:n]) for n in range(1, len(parts) + 1))
    return found


def flatten(node: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted key -> value, e.g. {"method.ops.radius": 10.0}; lists and empty mappings are values."""
    if isinstance(node, DictConfig):
        node = OmegaConf.to_container(node)
    if not isinstance(node, dict) or not node:
        return {prefix: node}
    return dict(_branches(node, prefix))


def _branches(node: dict[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        yield from flatten(value, f"{prefix}.{key}" if prefix else str(key)).items()


def differences(old: DictConfig, new: DictConfig) -> list[str]:
    """One line for every key whose value differs, `key: old -> new`, in the order of the keys."""
    a, b = flatten(old), flatten(new)
    absent = object()

    def show(value: Any) -> str:
        return "(absent)" if value is absent else repr(value)

    pairs = [(key, a.get(key, absent), b.get(key, absent)) for key in sorted(a.keys() | b.keys())]
    return [f"{key}: {show(x)} -> {show(y)}" for key, x, y in pairs if x != y]


def current(cfg: DictConfig, path: str | Path = PARAMS) -> bool:
    """Whether the file is the image of `cfg`, to the byte."""
    return Path(path).exists() and Path(path).read_bytes() == OmegaConf.to_yaml(cfg).encode()


def write(cfg: DictConfig, path: str | Path = PARAMS) -> bool:
    """Write `cfg` atomically unless the file is its image already; True if it was written."""
    if current(cfg, path):
        return False
    with atomic_path(path) as part:
        part.write_text(OmegaConf.to_yaml(cfg), encoding="utf-8")
    return True


def visible(path: str | Path = PARAMS) -> None:
    """Set a file a second back, so that git compares what it holds with what it has.

    DVC writes what an experiment sets in the second in which git has looked at the file.  Where its size is the same,
    git would take it for unchanged, and `git restore .` would leave it.
    """
    found = os.stat(path)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns - 10**9))


def check(cfg: DictConfig, path: str | Path = PARAMS) -> None:
    """Raise OutOfStep, naming the keys, if the file is not the image of `cfg`."""
    if current(cfg, path):
        return
    lines = differences(load(path), cfg) or ["(the same values, written differently)"]
    more = [f"... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    raise OutOfStep(
        "\n  ".join([f"{path} is out of step with {CONF}/:", *lines[:SHOWN], *more])
        + "\nCompose it anew with `python -m dplangevin.config`, or run `make repro`, which does."
    )


def check_keys(cfg: DictConfig, given: DictConfig) -> None:
    """ConfigError if `given` has keys that `cfg` has not: what an experiment adds by `+` is read by nothing."""
    named = {str(group) for group in cfg if isinstance(cfg[group], DictConfig)}
    known = keys_of(cfg)
    unknown = [key for key in flatten(given) if key not in known and _stray(key, known, named)]
    if unknown:
        lines = [f"{key}{meant(key, known)}" for key in unknown[:SHOWN]]
        raise ConfigError("\n  ".join(["keys that nothing reads:", *lines]))


def _stray(key: str, known: set[str], named: set[str]) -> bool:
    """Whether nothing reads a key: it is no new entry of a group, such as `method.mine`, nothing to vary, which is
    checked as what it varies, no part of a data set, and no word of experiment.sweep, which any file can be."""
    group, *rest = key.split(".")
    word = rest[1] if len(rest) > 1 else ""
    if group == "experiment" and (
        word == "vary" or (rest[0] == "sweep" and word in _words(groups.Experiment))
    ):
        return False
    if group in ("dataset", "features") and len(rest) == 2 and word in plan.PART:
        return False
    return group not in named or ".".join([group, *rest[:1]]) in known


def _words(kind: type[typed.Group]) -> set[str]:
    return set(typed.annotations(kind))


def _listed(keys: Sequence[str], most: int = SHOWN) -> str:
    return ", ".join(map(str, keys[:most])) + (f" and {len(keys) - most} more" if len(keys) > most else "")


def main(argv: Sequence[str] | None = None) -> int:
    from dplangevin import lock

    parser = argparse.ArgumentParser(
        prog="python -m dplangevin.config", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--check", action="store_true", help="only say whether params.yaml is in step with conf/"
    )
    parser.add_argument(
        "--try",
        nargs="*",
        action="append",
        dest="tries",
        metavar="OVERRIDE",
        help="say what cannot be used of these",
    )
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, e.g. scale=smoke method.ops.radius=3")
    args = parser.parse_args(argv)
    experiment = bool(os.environ.get("DVC_EXP_NAME"))
    try:
        if args.tries is not None:
            for overrides in args.tries:
                check_experiment(overrides)
            return 0
        cfg = compose(args.overrides or (os.environ.get(SET, "").split() if args.check else []))
        if args.check and experiment:
            given = load()  # conf/ and its own -S values
            check_keys(cfg, given)
            check_values(given)
        elif args.check:
            check(cfg)
            check_values(cfg)
        else:
            with lock.run("python -m dplangevin.config"):
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
