"""Networks from configuration: their sizes, first values and logits."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from composed import ROOT
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch import nn

from dplangevin.engine.recognise import layers_of
from dplangevin.problems.architectures import Network, adversaries, build, generator


def of(name: str) -> Network:
    spec = OmegaConf.load(ROOT / f"conf/problem/{name}.yaml")
    made: Network = instantiate(spec.network, _convert_="all")
    return made


SIZES = {
    "tanh": (16 * 65 + 32 * (16 * 16 + 1) + 32 * 513 + 10 * 33, (1, 28, 28)),  # 26,010, as usual
    "li2019": (32 * 26 + 64 * (32 * 25 + 1) + 200 * 1025 + 10 * 201, (1, 28, 28)),
    "li2019_svhn": (
        32 * 76 + 32 * (32 * 25 + 1) + 64 * (32 * 25 + 1) + 64 * (64 * 25 + 1) + 200 * 257 + 10 * 201,
        (3, 32, 32),
    ),
}


@pytest.mark.parametrize("name", SIZES)
def test_committed_networks(name):
    network, (d, shape) = of(name), SIZES[name]
    assert (network.d, network.shape, network.classes) == (d, shape, 10)
    assert network.module(torch.zeros(2, *shape)).shape == (2, 10)
    assert len(layers_of(network.module)) == len(list(network.module.children()))  # all known to the engine


def test_entries_become_layers():
    made = build(
        [
            {"conv": 4, "kernel": [3, 2], "stride": 2, "padding": 1, "groups": 2, "bias": False},
            {"activation": "relu"},
            {"max_pool": 2},
            {"avg_pool": 2, "stride": 1},
            {"flatten": True},
            {"linear": 5, "bias": False},
            {"activation": "tanh"},
            {"linear": 3},
        ],
        shape=[2, 11, 12],
        classes=3,
    )
    kinds = [type(layer).__name__ for layer in made.module.children()]
    assert kinds == ["Conv2d", "ReLU", "MaxPool2d", "AvgPool2d", "Flatten", "Linear", "Tanh", "Linear"]
    conv = next(made.module.children())
    assert isinstance(conv, nn.Conv2d)
    assert (conv.in_channels, conv.out_channels, conv.kernel_size) == (2, 4, (3, 2))
    assert (conv.stride, conv.padding, conv.groups, conv.bias) == ((2, 2), (1, 1), 2, None)


def test_first_values_follow_pytorch_s_law():
    """Uniform in +-1/sqrt(inputs), weights and biases alike, and other seeds draw other values."""
    network, start = of("tanh"), 0
    theta, same, other = (network.init(torch.Generator().manual_seed(seed), 40) for seed in (3, 3, 4))
    assert torch.equal(theta, same)
    assert not torch.equal(theta, other)
    assert not torch.equal(theta[0], theta[1])
    assert (theta.shape, theta.dtype) == ((40, network.d), torch.float32)
    for layer in network.module.children():
        for parameter in layer.parameters():
            bound, end = next(layer.parameters())[0].numel() ** -0.5, start + parameter.numel()
            ours, start = theta[:, start:end], end
            assert 0.95 * bound < float(ours.abs().max()) <= bound
            assert float(ours.std()) == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_other_layers_start_at_the_template_s_values():
    with torch.random.fork_rng(devices=[]):
        module = nn.Sequential(nn.GroupNorm(1, 2), nn.Flatten(), nn.Linear(8, 3))
    theta = Network(module, (2, 2, 2), 3).init(torch.Generator().manual_seed(0), 2)
    assert theta[:, :4].tolist() == [[1, 1, 0, 0]] * 2


def test_adversaries_mirror_each_other() -> None:
    discriminator, made = adversaries((1, 28, 28), 11, [8, 16], 5)
    rng = torch.Generator().manual_seed(1)
    theta, other = discriminator.init(rng, 2), made.init(rng, 2)
    images = made.images(other[0], torch.randn(3, 5, generator=rng))
    assert images.shape == (3, 1, 28, 28)
    assert float(images.abs().max()) <= 1
    assert discriminator.logits(theta, images[None]).shape == (2, 3, 11)
    assert discriminator.d == 8 * 17 + 16 * (8 * 16 + 1) + 11 * (16 * 49 + 1)
    assert made.d == 16 * 49 * 6 + 8 * 16 * 16 + 8 + 8 * 16 + 1
    first = other[:, : 16 * 49 * 6]  # of the linear layer, 5 inputs
    assert 0.95 / math.sqrt(5) < float(first.abs().max()) <= 1 / math.sqrt(5)
    last = other[:, -(8 * 16 + 1) :]  # of a transposed convolution: 16 weights of each input
    assert 0.9 / 4 < float(last.abs().max()) <= 1 / 4
    assert not torch.equal(theta[0], theta[1])


def small(*layers: dict[str, Any]) -> Callable[[], object]:
    return lambda: build(layers, [1, 4, 4], 3)


def images(*layers: dict[str, Any]) -> Callable[[], object]:
    return lambda: generator(layers, 3, (1, 4, 4))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (small({"dense": 3}), "unknown layer {'dense': 3}: its first word must be one of conv, linear"),
        (small({}), "unknown layer {}"),
        (small({"max_pool": 2, "return_indices": True}), r"unknown words \['return_indices'\] in layer max"),
        (small({"linear": 3, "stride": 2}), "'stride': 2} cannot be made"),
        (small({"conv": 3}), r"cannot be made.*kernel_size"),
        (small({"conv": 3, "kernel": 9}), r"cannot be made, or not for \[1, 4, 4\]"),
        (small({"activation": "swish"}), "unknown activation swish: it must be one of relu, tanh"),
        (small({"linear": 4}), r"gives \[4\], not the 3 logits"),
        (small({"conv": 3, "kernel": 1}), r"gives \[3, 4, 4\], not the 3 logits"),
        (images({"linear": 7}), r"gives \[7\], not images of \[1, 4, 4\]"),
        (images({"linear": 5}, {"unflatten": [2, 2, 2]}), "cannot be made, or not for"),
        (lambda: adversaries((1, 28, 28), 11, [8, 16, 32], 5), "28 and 28 cannot be halved 3 times"),
        (lambda: build([{"linear": 3}], [4, 4], 3), "channels, height, width"),
    ],
)
def test_networks_that_cannot_be_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
