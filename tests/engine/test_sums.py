"""The engine's sums equal those of plain autograd over examples, for every layer and form."""

import logging
import math
import os
import subprocess
import sys

import pytest
import torch
from one_by_one import expected, gap, network_of, problem
from torch import nn

from dplangevin.engine import ghost
from dplangevin.engine.clipped import clipped_sum
from dplangevin.engine.convolution import Columns
from dplangevin.problems.architectures import Network

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
CONVOLUTIONS = {
    "plain": nn.Conv2d(2, 4, 3, padding="valid"),
    "stride": nn.Conv2d(2, 4, 3, stride=2),
    "stride that leaves a rest": nn.Conv2d(2, 4, 4, stride=3),
    "padding": nn.Conv2d(2, 4, 3, padding=1),
    "padding and stride": nn.Conv2d(2, 4, 4, stride=2, padding=2),
    "unequal": nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)),
    "dilation": nn.Conv2d(2, 4, 3, dilation=2, padding=2),
    "groups": nn.Conv2d(2, 4, 3, groups=2, padding=1),
    "groups and stride": nn.Conv2d(2, 6, 3, groups=2, stride=2),
    "depthwise": nn.Conv2d(2, 2, 3, groups=2),
    "one pixel, no bias": nn.Conv2d(2, 4, 1, bias=False),
    "strided pixels": nn.Conv2d(2, 4, 1, stride=2),
    "whole image": nn.Conv2d(2, 4, 9),
    "same": nn.Conv2d(2, 4, 3, padding="same"),
}
FREE = {
    "relu": nn.ReLU(),
    "relu in place": nn.ReLU(inplace=True),
    "tanh": nn.Tanh(),
    "gelu": nn.GELU(),
    "leaky": nn.LeakyReLU(0.1),
    "max pool": nn.MaxPool2d(2),
    "overlapping max pool": nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True),
    "dilated max pool": nn.MaxPool2d(2, stride=1, dilation=2),
    "relu, max pool": nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)),
    "average pool": nn.AvgPool2d(2, stride=1, padding=1),
    "nothing": nn.Sequential(),
}


def compare(
    network: Network, dtype: torch.dtype = torch.float64, clip: float = 0.7, seeds: int = 1, batch: int = 4
):
    theta, x, y, mask = problem(network, seeds, batch, dtype)
    found = clipped_sum(network, theta, x, y, mask, clip)
    wanted = expected(network, theta, x, y, mask, clip)
    tolerance = TOLERANCE[dtype]
    assert gap(found.gradient, wanted.gradient) < tolerance
    torch.testing.assert_close(found.loss, wanted.loss, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(found.norm, wanted.norm, rtol=tolerance, atol=tolerance, equal_nan=True)
    return found


@pytest.fixture(autouse=True)
def no_fallback(caplog):
    """Tests here are of the engine's own layers."""
    yield
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


@pytest.fixture(params=["written out", "gram"])
def form(request, monkeypatch):
    called = []
    real = ghost.gram_squared_norms

    def counted(a, g):
        called.append(len(a))
        return real(a, g)

    monkeypatch.setattr(ghost, "gram_squared_norms", counted)
    monkeypatch.setattr(ghost, "gram_is_cheaper", lambda *sizes: request.param == "gram")
    yield request.param
    assert bool(called) == (request.param == "gram")


@pytest.mark.parametrize("layer", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_convolutions_in_both_forms(layer, form):
    """As the first layer and as the second, whose input has a gradient."""
    compare(network_of(layer, nn.Tanh(), shape=(2, 9, 10)))
    compare(network_of(nn.Conv2d(1, 2, 2), nn.Tanh(), layer, shape=(1, 10, 11)), torch.float32)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(1, 3, 3, padding=1, dilation=(2, 1)),
        nn.Conv2d(1, 3, 4, stride=2, padding=2),
        nn.Conv2d(1, 3, (4, 3), stride=(2, 3), padding=(1, 0)),
        nn.Conv2d(1, 3, (3, 2), stride=(1, 2), dilation=(2, 1)),
    ],
)
def test_one_channel_takes_runs_of_pixels(layer, form):
    x = torch.zeros(1, 1, 15, 17)
    geometry = (layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.groups)
    assert Columns(x, *geometry, layer(x).shape[2:]).by_pixel
    compare(network_of(layer, nn.Tanh(), shape=(1, 15, 17)))


@pytest.mark.parametrize("layer", FREE.values(), ids=FREE)
def test_layers_without_parameters(layer):
    compare(network_of(nn.Conv2d(1, 3, 3), layer, nn.Conv2d(3, 2, 1), nn.Tanh(), shape=(1, 9, 9)))
    compare(network_of(layer, nn.Conv2d(1, 3, 3), shape=(1, 9, 9)))


@pytest.mark.parametrize("bias", [True, False])
def test_linear_layers_also_along_the_last_axis(bias, form):
    compare(network_of(nn.Flatten(), nn.Linear(12, 5, bias=bias), nn.Tanh(), shape=(1, 3, 4)))
    compare(network_of(nn.Linear(4, 5, bias=bias), nn.Tanh(), nn.Conv2d(2, 2, 2), shape=(2, 3, 4)), seeds=2)


@pytest.fixture
def network():
    return network_of(
        nn.Conv2d(1, 4, 3, stride=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 3, 2), shape=(1, 11, 11)
    )


@pytest.mark.parametrize("clip", [1e-6, 0.5, 1e6, math.inf])
@pytest.mark.parametrize(("seeds", "batch"), [(1, 5), (3, 1)])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_clips_batches_and_stacks(network, clip, seeds, batch, dtype):
    found = compare(network, dtype, clip, seeds, batch)
    assert bool(found.norm.isnan().all()) == (clip == math.inf)


def test_masked_examples_take_no_part(network):
    theta, x, y, mask = problem(network, seeds=2, batch=6)
    mask[0, 2] = mask[1, 4] = mask[1, 0] = False
    x[~mask], y[~mask] = math.nan, -1  # whatever a batch is filled up with
    found = clipped_sum(network, theta, x, y, mask, 0.5)
    wanted = expected(network, theta, x, y, mask, 0.5)
    assert gap(found.gradient, wanted.gradient) < 1e-10
    for name in ("loss", "norm"):
        torch.testing.assert_close(getattr(found, name), getattr(wanted, name))
    assert not (found.loss[~mask].any())
    assert not (found.norm[~mask].any())


@pytest.mark.parametrize("clip", [0.5, math.inf])
def test_no_examples_at_all(network, clip):
    theta, x, y, mask = problem(network, batch=3)
    assert not clipped_sum(network, theta, x, y, torch.zeros_like(mask), clip).gradient.any()
    empty = clipped_sum(network, theta, x[:, :0], y[:, :0], mask[:, :0], clip)
    assert not empty.gradient.any()
    assert empty.loss.shape == (1, 0)


def test_examples_shared_by_all_networks(network):
    theta, x, y, mask = problem(network, seeds=3)
    shared = clipped_sum(network, theta, x[:1], y[:1], mask, 0.5)
    assert gap(shared.gradient, expected(network, theta, x[:1], y[:1], mask, 0.5).gradient) < 1e-10


@pytest.mark.parametrize("clip", [0.5, math.inf])
@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_micro_batches_do_not_matter(network, size, clip):
    theta, x, y, mask = problem(network, seeds=3, batch=7)
    whole = clipped_sum(network, theta, x, y, mask, clip, micro_batch=21)
    parts = clipped_sum(network, theta, x, y, mask, clip, micro_batch=size)
    assert gap(parts.gradient, whole.gradient) < 1e-13
    torch.testing.assert_close(parts.norm, whole.norm, equal_nan=True)


def test_the_template_and_the_inputs_are_left_alone(network):
    theta, x, y, mask = problem(network)
    before = [t.clone() for t in (theta, x, y, mask, *network.module.parameters())]
    clipped_sum(network, theta, x, y, mask, 0.5)
    for old, new in zip(before, (theta, x, y, mask, *network.module.parameters()), strict=True):
        assert torch.equal(old, new)
    assert all(p.grad is None for p in network.module.parameters())


@pytest.mark.slow
def test_gradients_of_strided_pixels_stay_in_their_memory() -> None:
    """In a process of its own, which a damaged heap ends, and without AVX-512."""
    code = """
import torch
from torch import nn
from one_by_one import network_of, problem
from dplangevin.engine.clipped import clipped_sum

first, second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 8, 1, stride=2)
network = network_of(first, second, shape=(2, 8, 8))
for examples in range(1, 60):
    for clip in (0.7, float("inf")):
        clipped_sum(network, *problem(network, 1, examples, torch.float32), clip)
        others = [torch.zeros(size) for size in range(1, 400, 7)]
"""
    path = os.pathsep.join(sys.path)
    without = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    env = {**os.environ, "PYTHONPATH": path, **without}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
