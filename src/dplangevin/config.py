"""Compose `conf/` into `params.yaml`, once; every stage then reads `params.yaml` and nothing else.

`conf/` is source, `params.yaml` its generated and tracked image (a lock file for parameters). The composition
is the one of `dvc exp run -S`, to the byte: Hydra's compose, interpolations resolved, `OmegaConf.to_yaml`.

    python -m dplangevin.config                  compose, write params.yaml if it changed
    python -m dplangevin.config scale=smoke      the same with Hydra overrides
    python -m dplangevin.config --check          exit 1, naming the keys, if params.yaml is not that

What exhibits show and what papers claim is content, not parameters: the stage that uses it reads it from its file, see
`content`.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dplangevin.cache import atomic_path
from dplangevin.text import meant

PARAMS = "params.yaml"
CONF = "conf"
SET = "DPL_SET"  # environment: the overrides that params.yaml was composed with (make repro SET=...)
SHOWN = 20  # keys named in a message before "and n more"


class ConfigError(ValueError):
    """`conf/`, an override or `params.yaml` cannot be used; the message names the key and the fix."""


def load(path: str | Path = PARAMS) -> DictConfig:
    """The composed configuration. The one reader: PyYAML would take `1e-5` for a string."""
    if not Path(path).exists():
        raise ConfigError(f"{path} does not exist: write it with `python -m dplangevin.config`")
    cfg = OmegaConf.load(path)
    if not isinstance(cfg, DictConfig):
        raise ConfigError(f"{path} is not a mapping: write it anew with `python -m dplangevin.config`")
    return cfg


def content(kind: str, name: str, cfg: DictConfig, conf: str | Path = CONF) -> dict[str, Any]:
    """`conf/<kind>/<name>.yaml` as plain values, interpolations resolved in `cfg` and in the files beside it.

    Raises ConfigError for a file that is not there, naming those that are, and for an interpolation that leads nowhere.
    """
    folder = Path(conf) / kind
    there = sorted(path.stem for path in folder.glob("*.yaml"))
    if name not in there:
        raise ConfigError(f"no {kind} {name!r}{meant(name, there)}; {folder}/ has {', '.join(there)}")
    texts = {name: (folder / f"{name}.yaml").read_text(encoding="utf-8")}
    todo = [name]
    while todo:
        for other in re.findall(rf"\$\{{{kind}\.(\w+)", texts[todo.pop()]):
            if other in there and other not in texts:
                texts[other] = (folder / f"{other}.yaml").read_text(encoding="utf-8")
                todo.append(other)
    groups = set(re.findall(r"\$\{(\w+)", "".join(texts.values()))) - {kind}
    try:
        around = OmegaConf.create({group: cfg[group] for group in groups if group in cfg})
        around[kind] = {key: OmegaConf.load(folder / f"{key}.yaml") for key in texts}
        found = OmegaConf.to_container(around[kind][name], resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigError(f"{folder / f'{name}.yaml'}: {error}") from error
    assert isinstance(found, dict)
    return {str(key): value for key, value in found.items()}


def compose(overrides: Sequence[str] = (), conf: str | Path = CONF) -> DictConfig:
    """The configuration of `conf/config.yaml` under Hydra overrides, resolved.

    Raises ConfigError for an override that does not parse or names no key, a file or an interpolation that
    does not exist, a mandatory value (`???`) left open, and a key of `conf/scale/` that nothing else in
    `conf/` has.
    """
    folder = Path(conf).resolve()
    if not (folder / "config.yaml").exists():
        raise ConfigError(
            f"{Path(conf) / 'config.yaml'} does not exist: run from the repository's top folder"
        )
    cfg = _compose(overrides, folder)
    if missing := sorted(OmegaConf.missing_keys(cfg)):
        raise ConfigError(f"no value (???) for {_listed(missing)}: set it in {conf}/ or as an override")
    unscaled = _compose(["~scale", *(o for o in overrides if not o.startswith("scale="))], folder)
    if unknown := sorted(flatten(cfg).keys() - flatten(unscaled).keys()):
        raise ConfigError(f"{conf}/scale/{cfg.scale}.yaml sets keys that nothing reads: {_listed(unknown)}")
    return cfg


def _compose(overrides: Sequence[str], folder: Path) -> DictConfig:
    try:
        with initialize_config_dir(str(folder), version_base=None):
            cfg = hydra_compose(config_name="config", overrides=list(overrides))
        OmegaConf.resolve(cfg)
    except (HydraException, OmegaConfBaseException) as error:
        given = f" with {' '.join(overrides)}" if overrides else ""
        why = f" ({str(error.__cause__).splitlines()[0]})" if error.__cause__ else ""
        hint = _hint(overrides, folder)
        raise ConfigError(f"cannot compose {folder.name}/{given}: {error}{why}{hint}") from error
    return cfg


def _hint(overrides: Sequence[str], folder: Path) -> str:
    """Near names for overrides of keys that do not exist; "" where there is nothing to say."""
    names = [override.lstrip("+~").partition("=")[0] for override in overrides]
    if not names:
        return ""
    try:
        known = keys_of(_compose([], folder))
    except ConfigError:
        return ""
    return "".join(meant(name, known) for name in names if name not in known)


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


def write(cfg: DictConfig, path: str | Path = PARAMS) -> bool:
    """Write `cfg` atomically unless the file already holds the same bytes; True if it was written."""
    target, text = Path(path), OmegaConf.to_yaml(cfg)
    if target.exists() and target.read_text(encoding="utf-8") == text:
        return False
    with atomic_path(target) as part:
        part.write_text(text, encoding="utf-8")
    return True


def check(cfg: DictConfig, path: str | Path = PARAMS) -> None:
    """Raise ConfigError, naming the keys, if the file is not the image of `cfg`."""
    old = load(path)
    if Path(path).read_text(encoding="utf-8") == OmegaConf.to_yaml(cfg):
        return
    lines = differences(old, cfg) or ["(the same values, written differently)"]
    more = [f"... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    raise ConfigError(
        "\n  ".join([f"{path} is out of step with {CONF}/:", *lines[:SHOWN], *more])
        + "\nCompose it anew with `python -m dplangevin.config`, or run `make repro`, which does."
    )


def check_keys(cfg: DictConfig, path: str | Path = PARAMS) -> None:
    """Raise ConfigError if the file has keys that `cfg` has not: what an experiment adds by `+` is read by nothing."""
    groups = {str(group) for group in cfg if isinstance(cfg[group], DictConfig)}
    known = keys_of(cfg)
    unknown = [key for key in flatten(load(path)) if key not in known and _stray(key, known, groups)]
    if unknown:
        lines = [f"{key}{meant(key, known)}" for key in unknown[:SHOWN]]
        raise ConfigError("\n  ".join([f"{path} sets keys that nothing reads:", *lines]))


def _stray(key: str, known: set[str], groups: set[str]) -> bool:
    """Whether a key of an experiment is no new entry of a group, such as `method.mine`."""
    parts = key.split(".")
    return parts[0] not in groups or ".".join(parts[:2]) in known


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(keys[:SHOWN]) + (f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else "")


def main(argv: Sequence[str] | None = None) -> int:
    from dplangevin import lock

    parser = argparse.ArgumentParser(
        prog="python -m dplangevin.config", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--check", action="store_true", help="only say whether params.yaml is in step with conf/"
    )
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, e.g. scale=smoke method.ops.radius=3")
    args = parser.parse_args(argv)
    experiment = bool(os.environ.get("DVC_EXP_NAME"))
    try:
        cfg = compose(args.overrides or (os.environ.get(SET, "").split() if args.check else []))
        if args.check and experiment:
            check_keys(cfg)  # its params.yaml is conf/ and its own -S values
        elif args.check:
            check(cfg)
        else:
            with lock.run("python -m dplangevin.config"):
                if write(cfg):
                    print(f"{PARAMS} written", flush=True)
    except (ConfigError, lock.LockError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
