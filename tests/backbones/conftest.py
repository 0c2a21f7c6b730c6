"""Backbones of the configuration with random weights, narrow where they are large."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf
from scenarios import drawn

from dplangevin.backbones import Backbone, network

CONF = Path(__file__).parents[2] / "conf"
NARROW: dict[str, dict[str, int]] = {
    "resnet20_cifar100": {},
    "resnet18_cifar100": {"width": 4},
    "alexnet_cifar100": {"width": 4},
}


@pytest.fixture
def entry() -> Callable[..., DictConfig]:
    """An entry of conf/backbone/ by its name, with some values replaced."""

    def made(name: str, changes: Mapping[str, Any] | None = None) -> DictConfig:
        cfg = OmegaConf.load(CONF / "backbone" / f"{name}.yaml")
        assert isinstance(cfg, DictConfig)
        return OmegaConf.merge(cfg, changes or {})  # type: ignore[return-value]

    return made


@pytest.fixture(params=list(NARROW))
def backbone(request: pytest.FixtureRequest, entry: Callable[..., DictConfig]) -> Backbone:
    """Each backbone with random weights and statistics, in evaluation mode."""
    made: Backbone = drawn(network(entry(request.param, NARROW[request.param])))
    return made
