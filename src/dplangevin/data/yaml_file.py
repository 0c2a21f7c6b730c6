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


class _Values(FAST):
    """A loader that refuses a key that YAML reads as true or false."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:bool":
                problem = f"YAML reads the key {key.value} as true or false: write it in quotes"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
        content: dict[Any, Any] = super().construct_mapping(node, deep)
        return content


class _Texts(_Values):
    """A loader that returns every value as the text in the file, and knows no other type."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}
    yaml_constructors: ClassVar = {
        tag: each
        for tag, each in FAST.yaml_constructors.items()
        if tag is None or tag.endswith((":str", ":seq", ":map"))
    }


def values(path: str | Path, loader: Any = _Values) -> dict[str, Any]:
    """Return the mapping in a file; an empty file is an empty mapping."""
    try:
        text = Path(path).read_bytes().decode()
        content = yaml.load(text, Loader=loader)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = error.object[error.start]
        raise ConfigError(
            f"{path}, line {line}: byte {byte:#x} is not UTF-8: save the file as UTF-8"
        ) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(f"{path}, line {line}: {error.reason}") from error
    except yaml.MarkedYAMLError as error:
        mark, began = error.problem_mark, error.context_mark
        around = f" ({error.context} from line {began.line + 1} on)" if error.context and began else ""
        raise ConfigError(f"{path}, line {mark.line + 1}: {error.problem}{around}") from error
    if not isinstance(content, dict | None):
        raise ConfigError(f"{path} is not a mapping: it needs lines of `name: value`")
    return content or {}


def texts(path: str | Path) -> dict[str, Any]:
    """Return the mapping in a file with every value as the text that is written there."""
    return values(path, _Texts)


def inexact(text: str) -> str:
    """Return what is wrong with a number that overflows or underflows as a float; "" for any other text."""
    try:
        value = float(text)
    except ValueError:
        return ""
    if math.isinf(value) and "inf" not in text.lower():
        return f"{text} is too large for a number: it would be infinite"
    if value == 0 and re.search("[1-9]", re.split("[eE]", text)[0]):
        return f"{text} is too small for a number: it would be 0"
    return ""
