"""Reader of YAML files that names file and line of what it cannot read."""

import io
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ConfigError(ValueError):
    """`conf/`, an override or `params.yaml` cannot be used; the message names the key, or the line, and the fix."""


class _TextLoader(yaml.BaseLoader):
    """A loader that returns every value as text and refuses a key that occurs twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[Any] = set()
        for key, _ in node.value:
            if key.value in keys:
                raise yaml.MarkedYAMLError(
                    problem=f"found duplicate key {key.value}", problem_mark=key.start_mark
                )
            keys.add(key.value if isinstance(key, yaml.ScalarNode) else key)
        return super().construct_mapping(node, deep)


def read(path: str | Path) -> Any:
    """Return the mapping in a file as an OmegaConf config; PyYAML alone takes `1e-5` for a string."""
    return _mapping(path, _loaded(path, lambda text: OmegaConf.load(io.StringIO(text))))


def texts(path: str | Path) -> Any:
    """Return the mapping in a file with every value as the text that is written there."""
    return _mapping(path, _loaded(path, lambda text: yaml.load(text, Loader=_TextLoader)))


def sound(path: str | Path) -> str:
    """Return the text of a file that is YAML; build no values."""
    _loaded(path, lambda text: all(yaml.parse(text, Loader=LOADER)))
    return _text(path)


def _mapping(path: str | Path, content: Any) -> Any:
    if not isinstance(content, dict | DictConfig):
        raise ConfigError(f"{path} is not a mapping: it needs lines of `name: value`")
    return content


def _loaded(path: str | Path, load: Callable[[str], Any]) -> Any:
    text = _text(path)
    try:
        return load(text)
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(error_message(error, path, text)) from error


def _text(path: str | Path) -> str:
    try:
        content = Path(path).read_bytes()
        return content.decode()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path}, line {line}: byte {content[error.start]:#x} is not UTF-8: save the file as UTF-8"
        ) from error


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


def error_message(error: Exception, path: str | Path | None = None, text: str = "") -> str:
    """Return file, line and problem of an error of PyYAML or OmegaConf; `text` is what the file contains."""
    if isinstance(error, yaml.reader.ReaderError):
        line = f", line {text.count(chr(10), 0, error.position) + 1}" if text else ""
        return f"{path or error.name}{line}: {error.reason}"
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"{path}: {error}"
    mark, began = error.problem_mark, error.context_mark
    around = f" ({error.context} from line {began.line + 1} on)" if error.context and began else ""
    return f"{path or mark.name}, line {mark.line + 1}: {error.problem}{around}"
