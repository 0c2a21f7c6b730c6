"""Reader of YAML files that names file and line of what it cannot read."""

import math
import re
from pathlib import Path
from typing import Any, ClassVar

import yaml
from omegaconf._utils import get_yaml_loader

# OmegaConf's own loader (PyYAML alone takes `1e-5` for a text), on libyaml where PyYAML has it: ten times as fast
OMEGACONF = get_yaml_loader()
FAST: Any = type("Fast", (yaml.CSafeLoader, OMEGACONF), {}) if hasattr(yaml, "CSafeLoader") else OMEGACONF


class ConfigError(ValueError):
    """`conf/`, an override or `params.yaml` cannot be used; the message names the key, or the line, and the fix."""


class _Texts(FAST):
    """A loader that returns every value as the text in the file."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}


def values(path: str | Path, loader: Any = FAST) -> dict[str, Any]:
    """Return the mapping in a file; an empty file is an empty mapping."""
    try:
        text = Path(path).read_bytes().decode()
        content = yaml.load(text, Loader=loader) or {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: {error}") from error
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        line = mark.line if mark else text.count("\n", 0, getattr(error, "position", 0))
        why = getattr(error, "problem", None) or getattr(error, "reason", error)
        raise ConfigError(f"{path}, line {line + 1}: {why}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} is not a mapping: it needs lines of `name: value`")
    return content


def texts(path: str | Path) -> dict[str, Any]:
    """Return the mapping in a file with every value as the text that is written there."""
    return values(path, _Texts)


def inexact(text: str) -> str:
    """Return what is wrong with a number that would be infinite, or 0, and so no privacy or no noise; else ""."""
    try:
        value = float(text)
    except ValueError:
        return ""
    over = math.isinf(value) and "inf" not in text.lower()
    under = value == 0 and re.search("[1-9]", re.split("[eE]", text)[0])
    return f"{text} is too {'large' if over else 'small'} for a number" if over or under else ""
