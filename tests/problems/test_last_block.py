"""The trained parts against the network that they are cut from, and their gradients against autograd."""

import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loading import pictures
from one_by_one import expected, gap
from scenarios import backbone as made_up
from scenarios import drawn
from torch import Tensor, nn

from dplangevin.backbones import resnet18
from dplangevin.backbones.resnet18 import ResNet18
from dplangevin.backbones.resnet20 import ResNet20
from dplangevin.engine.clipped import clipped_sum
from dplangevin.files import File
from dplangevin.problems.architectures import Network
from dplangevin.problems.last_block import (
    Affine,
    Branch,
    Projection,
    activations,
    features,
    frozen,
    head,
    last_block,
    of_images,
)
from dplangevin.problems.network import NetworkProblem


@pytest.fixture
def backbone() -> ResNet20:
    return made_up()


@pytest.fixture
def larger() -> ResNet18:
    return drawn(resnet18.build(7, 4, 32, [0.5] * 3, [0.25] * 3))


def start(network: Network, seeds: int) -> Tensor:
    none = torch.empty(0)
    return NetworkProblem(network, none, none, none, none, pretrained=True).init(seeds, torch.Generator())


def problem(network: Network, dtype: torch.dtype, seeds: int = 2) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Parameters near the start, of which each network has its own; inputs, labels and a mask with a gap."""
    rng = torch.Generator().manual_seed(2)
    theta = start(network, seeds).to(dtype)
    theta = theta + torch.randn(theta.shape, generator=rng, dtype=dtype) / 50
    x = torch.randn(seeds, 5, *network.shape, generator=rng, dtype=dtype)
    y = torch.randint(0, network.classes, (seeds, 5), generator=rng)
    mask = torch.ones(seeds, 5, dtype=torch.bool)
    mask[1, 3] = False
    return theta, x, y, mask


@pytest.fixture(params=["block", "head", "fourth stage"])
def network(request: pytest.FixtureRequest, backbone: ResNet20, larger: ResNet18) -> Network:
    part = head if request.param == "head" else last_block
    return part(larger if request.param == "fourth stage" else backbone, 4)


def test_frozen_is_batch_norm_in_evaluation_mode() -> None:
    norm = nn.BatchNorm2d(5, eps=1e-2).eval()
    rng = torch.Generator().manual_seed(0)
    for value in (norm.weight.data, norm.bias.data, norm.running_mean):
        assert value is not None
        value.copy_(torch.randn(5, generator=rng))
    assert norm.running_var is not None
    norm.running_var.copy_(torch.rand(5, generator=rng))
    x = torch.randn(3, 5, 4, 2, generator=rng)
    made = frozen(norm)
    torch.testing.assert_close(made(x), norm(x).detach())
    assert not list(made.parameters())
    before = made(x)
    norm.weight.data.zero_()
    assert torch.equal(made(x), before)  # constants of its own


def test_block_and_fourth_stage_start_as_the_public_network(backbone: ResNet20, larger: ResNet18) -> None:
    """At the start they give the features of the backbone, and logits of 0.

    The matrices of the stage are its five convolutions, without what meets the padding alone, and the projection.
    """
    x = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(3))
    for of, shape, d, linear in (
        (backbone, (64, 8, 8), 2 * 64 * 64 * 9 + 2570, 1),
        (larger, (16, 2, 2), 32 * (16 * 4 + 3 * 32 + 16) + 330, 5),
    ):
        with torch.no_grad():
            part, trunk = last_block(of, 10), of.trunk(x)
            torch.testing.assert_close(part.module[:-1](trunk), of.features(x))  # type: ignore[index]
            torch.testing.assert_close(features(of, trunk).flatten(1), of.features(x))
        assert (part.shape, part.d) == (shape, d)
        assert sum(isinstance(layer, nn.Linear) for layer in part.module.children()) == linear
        assert not part.logits(start(part, 2), trunk[None]).any()


@pytest.mark.parametrize("clip", [0.3, math.inf])
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_gradients_are_those_of_single_examples(
    network: Network, clip: float, dtype: torch.dtype, close: float, caplog: pytest.LogCaptureFixture
) -> None:
    """By the engine's own layers, not by torch.func, which would say so in the log."""
    network.module.to(dtype)
    given = problem(network, dtype)
    with caplog.at_level(logging.WARNING):
        found = clipped_sum(network, *given, clip)
    assert not caplog.records
    wanted = expected(network, *given, clip)
    assert gap(found.gradient, wanted.gradient) < close
    torch.testing.assert_close(found.loss, wanted.loss)
    torch.testing.assert_close(found.norm, wanted.norm, equal_nan=True)
    parts = clipped_sum(network, *given, clip, micro_batch=2)
    assert gap(parts.gradient, found.gradient) < close


def test_the_branch_of_a_projection_stands_before_all_that_is_trained() -> None:
    """Behind a trained layer the gradient through the projection would be missing: refused, never wrong."""
    branch = Branch()
    with torch.random.fork_rng(devices=[]):  # of PyTorch's own start
        projection = Projection(
            branch, nn.Linear(2, 2, bias=False), Affine(torch.ones(2), torch.zeros(2), True)
        )
        layers = [nn.Conv2d(1, 2, 1), branch, nn.Flatten(), nn.Linear(8, 2), projection]
    network = Network(nn.Sequential(*layers), (1, 2, 2), 2)
    theta, x, y, mask = problem(network, torch.float32)
    with pytest.raises(ValueError, match="a Branch with a Projection must come before every layer"):
        clipped_sum(network, theta, x, y, mask, 1.0)


# From images


def test_activations_are_those_of_the_trunk_and_kept(backbone: ResNet20, tmp_path: Path) -> None:
    of, cpu = pictures(10, 5), torch.device("cpu")
    found = activations(backbone, of, cpu, tmp_path, "few")
    pixels = torch.cat([torch.as_tensor(x[0]) for x in (of.x_train, of.x_test)])
    with torch.no_grad():
        torch.testing.assert_close(found, backbone.trunk(backbone.inputs(pixels)))
        shifted = activations(backbone, of, cpu, tmp_path / "other", "few", 4, True)
    assert torch.equal(shifted[10:], found[10:])  # those of the test images
    assert not torch.isclose(shifted[:10], found[:10]).flatten(1).all(1).any()
    (tmp_path / "trunk-few.npz").write_bytes(b"damaged")
    assert torch.equal(activations(backbone, of, cpu, tmp_path, "few"), found)


def test_problems_of_images_share_their_activations(
    backbone: ResNet20, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Block and head, and others with the same images; of other images they are computed again, and kept instead."""
    np.savez(
        tmp_path / "weights.npz", **{name: value.numpy() for name, value in backbone.state_dict().items()}
    )
    pictures(10, 5).save(tmp_path / "data.npz")
    inputs = {name: File.at(tmp_path / f"{name}.npz") for name in ("data", "weights")}
    target, numbers = "dplangevin.backbones.resnet20.build", {"mean": [0.5] * 3, "std": [0.25] * 3}
    spec = {"_target_": target, "classes": 7, "size": 32, **numbers, "made_by": "weights@small"}

    def make(part: Any, limit: int | None = None) -> NetworkProblem:
        more = {"backbone": spec, "inputs": inputs, "folder": tmp_path / "units"}
        return of_images(pictures(10, 5), 2, part=part, limit=limit, **more)  # type: ignore[arg-type]

    block = make("block")
    assert (block.facts.n, block.facts.public, block.facts.classes) == (10, 5, 3)
    assert block.facts.d == 2 * 36_864 + 771
    assert (block.x.shape[1:], block.y_test.shape) == ((64, 8, 8), (1, 5))
    (old,) = (tmp_path / "units").glob("*.npz")
    with monkeypatch.context() as patch:
        patch.setattr("dplangevin.problems.last_block._computed", lambda *_: pytest.fail("computed again"))
        small = make("head")
    with torch.no_grad():
        torch.testing.assert_close(small.x.flatten(1), backbone.tail(backbone.last_block(block.x)))
    assert len(make("head", 6).x) == 6
    (new,) = (tmp_path / "units").glob("*.npz")
    assert new != old
    assert {path.stem for path in (tmp_path / "units").iterdir()} == {new.stem}
    with pytest.raises(ValueError, match="limit = 0 must be positive"):
        make("head", 0)
    with pytest.raises(ValueError, match="part must be one of block, head, not 'tail'"):
        make("tail")
