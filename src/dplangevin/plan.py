"""What an experiment asks for: the units of a sweep, their budgets, each method as it is to be run, columns of rows."""

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

SETTING = ["experiment", "dataset", "model", "method", "variant", "scaling"]
PRIVACY = [
    "epsilon",
    "delta",
    "epsilon_paper",
    "epsilon_tight",
    "accountant_tight",
    "adjacency",
    "adjacency_tight",
    "released",
    "sampling",
]
COLUMNS = [*SETTING, *PRIVACY, "repeat", "metric", "value", "violated", "assumptions"]


class Unit(NamedTuple):
    """What is computed in one go: `overrides` of the method's config, by name."""

    scaling: str
    overrides: dict[str, Any]
    epsilons: list[float]

    @property
    def variant(self) -> str:
        return ";".join(f"{name}={value}" for name, value in self.overrides.items())


def plan(spec: DictConfig, dataset: str, method: str, has_budget: bool) -> Iterator[Unit]:
    """The units of a sweep, in a fixed order.  spec: the experiment."""
    vary = plain(spec.vary, method)
    epsilons = asked(spec, dataset, method) if has_budget else [math.inf]
    size = spec.budgets_per_unit
    for scaling in spec.scalings:
        for values in itertools.product(*vary.values()):
            overrides = dict(zip(vary, values, strict=True))
            for start in range(0, len(epsilons), size):
                yield Unit(scaling, overrides, epsilons[start : start + size])


def asked(spec: DictConfig, dataset: str, method: str) -> list[float]:
    """The budgets: `epsilons.<dataset>` is a list, or lists by method with `default` for the others."""
    given = spec.epsilons[dataset]
    if OmegaConf.is_dict(given):
        name = method if method in given else "default"
        if name not in given:
            raise ValueError(
                f"epsilons.{dataset} has no list for {method!r}: add one, or one named `default`"
            )
        given = given[name]
    return [float(epsilon) for epsilon in given]


def settled(
    config: DictConfig, spec: DictConfig, method: str, overrides: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The config of a method with the experiment's `settings` for it, then with `overrides`."""
    base = OmegaConf.to_container(config, resolve=True)
    assert isinstance(base, dict)
    return merged(merged(base, plain(spec.get("settings", {}), method)), overrides or {})


def merged(base: Mapping[Any, Any], changes: Mapping[Any, Any]) -> dict[Any, Any]:
    """`base` with `changes`, key by key; an object (`_target_`) is replaced as a whole."""
    both = dict(base)
    for name, value in changes.items():
        old = both.get(name)
        if isinstance(value, Mapping) and isinstance(old, Mapping) and "_target_" not in value:
            value = merged(old, value)
        both[name] = value
    return both


def plain(group: DictConfig, name: str) -> dict[str, Any]:
    """An entry of a config group as a dict, empty where there is none."""
    found = OmegaConf.to_container(group[name], resolve=True) if name in group else {}
    assert isinstance(found, dict)
    return {str(key): value for key, value in found.items()}
