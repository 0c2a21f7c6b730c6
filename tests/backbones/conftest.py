"""Backbones of the configuration with random weights, narrow where they are large."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import DictConfig, OmegaConf

from dplangevin import random
from dplangevin.backbones import Backbone, network
from dplangevin.backbones.pretrain import initialise

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
    module = network(entry(request.param, NARROW[request.param]))
    rng = random.generator(3, request.param)
    initialise(module, rng)
    for layer in module.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            for value, low in ((layer.running_mean, -0.5), (layer.running_var, 0.5), (layer.weight, 0.5)):
                assert value is not None
                value.data.uniform_(low, low + 1, generator=rng)
            layer.bias.data.uniform_(-0.5, 0.5, generator=rng)
    return module.eval()
