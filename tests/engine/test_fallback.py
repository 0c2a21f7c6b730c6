"""Modules that the engine does not know: differentiated by torch.func with a log line, or refused."""

import logging
import math
import re
from types import MethodType

import pytest
import torch
import torch.nn.functional as F
from one_by_one import expected, gap, network_of, problem, with_parameters
from torch import nn

from dplangevin.engine import recognise
from dplangevin.engine.clipped import clipped_sum
from dplangevin.problems.architectures import Network


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def hooked() -> nn.Module:
    layer = nn.Conv2d(1, 2, 3)
    layer.register_forward_hook(lambda module, inputs, output: output * 2)
    return layer


def patched() -> nn.Module:
    layer = nn.Conv2d(1, 2, 3, bias=False)
    layer.forward = MethodType(lambda self, x: F.conv2d(x, self.weight).square(), layer)  # type: ignore[method-assign]
    return layer


def tied() -> nn.Module:
    first, second = nn.Linear(6, 6), nn.Linear(6, 6)
    second.weight = first.weight
    return nn.Sequential(first, nn.Tanh(), second)


def twice() -> nn.Module:
    layer = nn.Conv2d(1, 1, 3, padding=1)
    return nn.Sequential(layer, nn.Tanh(), layer)


UNKNOWN = {
    "group norm": (lambda: nn.GroupNorm(1, 1), r"layer 0 \(GroupNorm\)"),
    "batch norm in evaluation mode": (lambda: nn.BatchNorm2d(1).eval(), r"layer 0 \(BatchNorm2d\)"),
    "instance norm": (lambda: nn.InstanceNorm2d(1), r"layer 0 \(InstanceNorm2d\)"),
    "activation with a parameter": (nn.PReLU, r"layer 0 \(PReLU\)"),
    "residual": (lambda: nn.Sequential(nn.Tanh(), Residual(nn.Conv2d(1, 1, 3, padding=1))), r"layer 0.1 \(Residual\)"),
    "subclass": (lambda: Doubled(6, 6), r"layer 0 \(Doubled\)"),
    "hook": (hooked, r"layer 0 \(Conv2d\) has hooks"),
    "forward of its own": (patched, r"layer 0 \(Conv2d\) has hooks or a forward"),
    "tied weights": (tied, "used twice"),
    "used twice": (twice, "used twice"),
    "parametrised": (lambda: nn.utils.parametrizations.weight_norm(nn.Conv2d(1, 2, 3)), "ParametrizedConv2d"),
    "circular padding": (lambda: nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), "other than zeros"),
    "unequal padding": (lambda: nn.Conv2d(1, 2, 2, padding="same"), "unequally"),
}  # fmt: skip


@pytest.mark.parametrize("clip", [0.4, math.inf])
@pytest.mark.parametrize(("make", "message"), UNKNOWN.values(), ids=UNKNOWN)
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_unknown_modules_go_through_torch_func(make, message, clip, caplog):
    network = network_of(make(), nn.Tanh(), shape=(1, 5, 6))
    theta, x, y, mask = problem(network, seeds=2)
    mask[1, 2] = False
    network.module.double()  # buffers
    recognise._log.cache_clear()
    with caplog.at_level(logging.WARNING):
        found = clipped_sum(network, theta, x, y, mask, clip)
        clipped_sum(network, theta, x, y, mask, clip)
    wanted = expected(network, theta, x, y, mask, clip)
    assert gap(found.gradient, wanted.gradient) < 1e-10
    for name in ("loss", "norm"):
        torch.testing.assert_close(getattr(found, name), getattr(wanted, name), equal_nan=True)
    (record,) = (each for each in caplog.records if each.name.startswith("dplangevin"))  # told once
    assert record.name == "dplangevin.engine.recognise"
    assert re.search(message, record.getMessage())
    parts = clipped_sum(network, theta, x, y, mask, clip, micro_batch=3)
    assert gap(parts.gradient, found.gradient) < 1e-13


@pytest.mark.parametrize("layer", [nn.Tanh(), nn.Dropout(0.5).eval()])
def test_one_layer_may_stand_in_two_places_and_dropout_in_evaluation_mode_is_nothing(layer, caplog):
    network = network_of(layer, nn.Conv2d(1, 2, 3), layer, shape=(1, 5, 6))
    given = problem(network)
    assert gap(clipped_sum(network, *given, 0.5).gradient, expected(network, *given, 0.5).gradient) < 1e-10
    assert not caplog.records or isinstance(layer, nn.Dropout)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (nn.BatchNorm2d(1), r"layer 0 \(BatchNorm2d\) mixes the examples of a batch.*GroupNorm.*\.eval"),
        (nn.BatchNorm2d(1, track_running_stats=False).eval(), "mixes the examples"),
        (nn.InstanceNorm2d(1, track_running_stats=True), "mixes the examples"),
        (Residual(nn.BatchNorm2d(1)), r"layer 0.inner \(BatchNorm2d\)"),
        (nn.Dropout(0.5), r"layer 0 \(Dropout\) is random: leave it out, or .*\.eval"),
        (nn.Dropout2d(0.5), "is random"),
        (nn.RReLU(), "is random"),
        (nn.FractionalMaxPool2d(2, output_size=2), "is random"),
        (nn.Conv2d(1, 1, 1).requires_grad_(False), "parameter 0.weight is frozen"),
    ],
)
def test_layers_without_a_gradient_of_one_example_are_refused(layer, message):
    network = Network(nn.Sequential(layer, nn.Flatten(), nn.Linear(30, 2)), (1, 5, 6), 2)
    theta, x, y, mask = problem(network)
    with pytest.raises(ValueError, match=message):
        clipped_sum(network, theta, x, y, mask, 1.0)


def test_inputs_that_are_not_finite_contribute_nothing_here_too():
    network = network_of(nn.GroupNorm(1, 1), shape=(1, 5, 6))
    theta, x, y, mask = problem(network)
    x[0, 3] = math.nan
    logits = [with_parameters(network.module, t)(rows) for t, rows in zip(theta, x, strict=True)]
    torch.testing.assert_close(network.logits(theta, x), torch.stack(logits).detach(), equal_nan=True)
    for clip in (0.5, math.inf):
        found = clipped_sum(network, theta, x, y, mask, clip).gradient
        others = mask & (torch.arange(mask.shape[1]) != 3)
        assert torch.equal(found, clipped_sum(network, theta, x, y, others, clip).gradient)
