"""The networks: shapes, weights by name, fused batch normalisation, and the accuracy that is published."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import DictConfig
from torch import nn

from dplangevin import random
from dplangevin.backbones import Backbone, alexnet, load, network, resnet18, resnet20, set_weights
from dplangevin.backbones.features import fused
from dplangevin.backbones.inputs import Inputs
from dplangevin.backbones.pretrain import initialise
from dplangevin.data import DataError, save_arrays
from dplangevin.files import sha256

Entry = Callable[..., DictConfig]


def pixels(rng: np.random.Generator, count: int = 6, channels: int = 3, side: int = 32) -> torch.Tensor:
    return torch.from_numpy(rng.integers(0, 256, (count, channels, side, side), dtype=np.uint8))


def standardised(image: torch.Tensor, mean: list[float], std: list[float]) -> torch.Tensor:
    return (image / 255 - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)


def convolution(
    w: dict[str, torch.Tensor], x: torch.Tensor, name: str, norm: str, stride: int = 1
) -> torch.Tensor:
    """With batch normalisation, of the weights by name."""
    kernel = w[f"{name}.weight"]
    x = nn.functional.conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2)
    statistics = [w[f"{norm}.{value}"] for value in ("running_mean", "running_var", "weight", "bias")]
    mean, var, scale, shift = (value.view(-1, 1, 1) for value in statistics)
    return (x - mean) / (var + 1e-5).sqrt() * scale + shift


def weights(module: nn.Module, rng: np.random.Generator) -> dict[str, torch.Tensor]:
    """Random values of the shapes of a network's parameters and statistics, by name."""
    return {
        name: torch.from_numpy(rng.uniform(0.1 if "var" in name else -0.1, 0.2, tuple(value.shape))).float()
        for name, value in module.state_dict().items()
    }


MEAN, STD = [0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]  # of CIFAR, in the code of ryffel2022


@torch.no_grad()
def test_fused_equals_unfused(backbone: Backbone, rng: np.random.Generator) -> None:
    x = backbone.inputs(pixels(rng))
    before = {name: value.clone() for name, value in backbone.state_dict().items()}
    network = fused(backbone)
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in network.modules())
    expected = backbone.features(x)
    assert torch.allclose(network.features(x), expected, rtol=1e-4, atol=1e-4 * float(expected.max()))
    assert all(torch.equal(value, before[name]) for name, value in backbone.state_dict().items())


def test_fusing_refuses_what_it_cannot_do(backbone: Backbone) -> None:
    with pytest.raises(ValueError, match=r"call \.eval\(\)"):
        fused(backbone.train())
    backbone.eval().add_module("late", nn.BatchNorm2d(5))
    with pytest.raises(ValueError, match="late: register it right after its convolution"):
        fused(backbone)


def test_resnet20_by_formula(entry: Entry, rng: np.random.Generator) -> None:
    """The network written out from the description of its weights, with functions only."""
    module = network(entry("resnet20_cifar100"))
    w, f = weights(module, rng), nn.functional
    set_weights(module, {name: value.numpy() for name, value in w.items()})
    conv = partial(convolution, w)
    image = pixels(rng, 2)
    x = standardised(image, [0.507, 0.487, 0.441], [0.267, 0.256, 0.276])
    x = conv(x, "conv1", "bn1").relu()
    for stage in (1, 2, 3):
        for block in (0, 1, 2):
            at, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            inner = conv(conv(x, f"{at}.conv1", f"{at}.bn1", stride).relu(), f"{at}.conv2", f"{at}.bn2")
            x = inner + (conv(x, f"{at}.shortcut.0", f"{at}.shortcut.1", stride) if block == 0 else x)
        x = x.relu()
    expected = f.avg_pool2d(x, 4).flatten(1) @ w["linear.weight"].T + w["linear.bias"]
    with torch.no_grad():
        found = module.eval()(module.inputs(image))
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_the_layout_of_alexnet(entry: Entry) -> None:
    """Parameters counted by hand from the table of ryffel2022's code, and the network by formula."""
    module = network(entry("alexnet_cifar100"))
    assert sum(p.numel() for p in module.parameters()) == 2_495_396
    initialise(module.eval(), random.generator(2, "layout"))
    f, w = nn.functional, dict(module.named_parameters())
    image = pixels(np.random.default_rng(1), 2)
    x = standardised(image, MEAN, STD)
    with torch.no_grad():
        given = module.features(module.inputs(image))
        layers = (0, 4, 5, 1), (3, 1, 2, 1), (6, 1, 1, 0), (8, 1, 1, 0), (10, 1, 1, 1)
        for at, stride, padding, pooled in layers:
            weight, bias = w[f"convolutions.{at}.weight"], w[f"convolutions.{at}.bias"]
            x = f.conv2d(x, weight, bias, stride, padding).relu()
            x = f.max_pool2d(x, 2, 2) if pooled else x
    assert torch.allclose(given, x.flatten(1), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="size = 48: this network takes images of multiples of 32"):
        alexnet.build(10, 4, 48, [0.5] * 3, [0.2] * 3)


def test_resnet18_by_formula_with_weights_of_torchvision(
    entry: Entry, rng: np.random.Generator, tmp_path: Path
) -> None:
    """The network written out under torchvision's names, its stem in the order of the authors of ryffel2022: pooling
    before the ReLU, which is the same function."""
    module, f = network(entry("resnet18_cifar100", {"width": 4})), nn.functional
    w = {  # as written before 2018: parameters, and no counts of batches
        name.replace("shortcut", "downsample").replace("linear", "fc"): value
        for name, value in weights(module, rng).items()
        if "batches" not in name
    }
    torch.save({name: nn.Parameter(value) for name, value in w.items()}, tmp_path / "w.pth")
    set_weights(module, resnet18.from_torchvision(tmp_path, "w.pth"))
    conv = partial(convolution, w)
    image = pixels(rng, 2)
    x = standardised(image, MEAN, STD)
    x = f.max_pool2d(conv(x, "conv1", "bn1", 2), 3, 2, padding=1).relu()
    for stage in (1, 2, 3, 4):
        for block in (0, 1):
            at, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            inner = conv(conv(x, f"{at}.conv1", f"{at}.bn1", stride).relu(), f"{at}.conv2", f"{at}.bn2")
            down = f"{at}.downsample"
            x = (inner + (conv(x, f"{down}.0", f"{down}.1", stride) if stride > 1 else x)).relu()
    assert sum("downsample" in name for name in w) == 3 * 5  # no other has one
    expected = x.mean((2, 3)) @ w["fc.weight"].T + w["fc.bias"]
    with torch.no_grad():
        found = module.eval()(module.inputs(image))
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4)


class Malicious:
    """Unpickling this writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path, bytes]]:
        return Path.write_bytes, (self.path, b"ran")


def test_only_tensors_are_unpickled(tmp_path: Path) -> None:
    torch.save({"conv1.weight": Malicious(tmp_path / "ran")}, tmp_path / "w.pth")
    with pytest.raises(DataError, match=r"w\.pth is no state_dict of tensors"):
        resnet18.from_torchvision(tmp_path, "w.pth")
    assert not (tmp_path / "ran").exists()
    for content in ([1, 2], {"epoch": 3}):
        torch.save(content, tmp_path / "w.pth")
        with pytest.raises(DataError, match="is no state_dict of tensors"):
            resnet18.from_torchvision(tmp_path, "w.pth")


def test_load(entry: Entry, tmp_path: Path) -> None:
    cfg = entry("resnet20_cifar100")
    drawn = network(cfg)
    initialise(drawn, random.generator(4, "load"))
    arrays = {name: value.numpy() for name, value in drawn.state_dict().items()}
    save_arrays(tmp_path / "w.npz", arrays)
    module, digest = load(cfg, tmp_path / "w.npz")
    assert digest == sha256(tmp_path / "w.npz")
    assert not module.training
    assert all(np.array_equal(value, arrays[name]) for name, value in module.state_dict().items())
    save_arrays(tmp_path / "w.npz", {**arrays, "meta": np.frombuffer(b"{}", np.uint8)})  # as pretraining does
    load(cfg, tmp_path / "w.npz")
    halves = {n: v.astype(np.float16) if v.dtype == np.float32 else v for n, v in arrays.items()}
    save_arrays(tmp_path / "w.npz", halves)
    module, _ = load(cfg, tmp_path / "w.npz")
    for name, value in module.state_dict().items():  # float32 again
        assert (value.numpy() == halves[name]).all()
        assert value.dtype == drawn.state_dict()[name].dtype
    (tmp_path / "w.npz").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"w\.npz: .*dvc repro -f weights@resnet20_cifar100"):
        load(cfg, tmp_path / "w.npz")
    (tmp_path / "w.npz").unlink()
    with pytest.raises(DataError, match=r"No such file.*dvc repro -f weights@resnet20_cifar100"):
        load(cfg, tmp_path / "w.npz")


def test_weights_of_another_network_are_named(entry: Entry) -> None:
    module = network(entry("resnet20_cifar100"))
    arrays = {name: value.numpy() for name, value in module.state_dict().items()}
    with pytest.raises(DataError, match=r"mismatch for conv1\.weight: .*\[3\]"):
        set_weights(module, {**arrays, "conv1.weight": np.zeros(3, np.float32)})
    with pytest.raises(DataError, match=r"do not fit: .*more"):
        set_weights(module, {**arrays, "more": np.zeros(3)})
    with pytest.raises(DataError, match=r"do not fit: .*bn1\.bias"):
        set_weights(module, {name: value for name, value in arrays.items() if name != "bn1.bias"})
    with pytest.raises(DataError, match=r"linear\.bias has values that are not finite"):
        set_weights(module, {**arrays, "linear.bias": np.full(100, np.nan, np.float32)})


def test_inputs_of_grey_images(rng: np.random.Generator) -> None:
    grey = pixels(rng, 2, 1)
    found = Inputs(32, [0.5, 0.4, 0.3], [0.2, 0.3, 0.4])(grey)
    assert torch.allclose(found, standardised(grey.expand(2, 3, 32, 32), [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]))
    flat = torch.full((1, 1, 112, 112), 102, dtype=torch.uint8)
    assert torch.allclose(Inputs(32, [0] * 3, [1] * 3)(flat, "antialias"), torch.tensor(0.4))
    thin = torch.zeros(1, 1, 112, 112, dtype=torch.uint8)
    thin[..., 50] = 255  # a line that sampling without a filter could miss
    reduced = Inputs(32, [0] * 3, [1] * 3)(thin, "antialias")[0, 0, 5]
    assert float(reduced.sum()) == pytest.approx(32 / 112, rel=0.05)


def test_inputs_refuse_what_does_not_fit(rng: np.random.Generator) -> None:
    made = Inputs(32, [0.5] * 3, [0.2] * 3)
    with pytest.raises(ValueError, match=r"images are .* 112, 112.*, the backbone takes 32x32: set resize"):
        made(pixels(rng, 1, 1, 112))
    with pytest.raises(ValueError, match=r"give uint8 .B, 1 or 3, H, W."):
        made(pixels(rng, 1, 2))
    with pytest.raises(ValueError, match=r"torch\.float32 \(1, 3, 32, 32\): give uint8"):
        made(torch.zeros(1, 3, 32, 32))
    with pytest.raises(ValueError, match="'nearest' must be one of none, antialias"):
        made(pixels(rng), "nearest")
    with pytest.raises(ValueError, match="three numbers each"):
        Inputs(32, [0.5], [0.2])
    with pytest.raises(ValueError, match="size = 64"):
        resnet20.build(10, 64, [0.5] * 3, [0.2] * 3)
