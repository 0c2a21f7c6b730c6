"""`check_step` finds planted faults in a hand-written step, and passes a right one."""

import copy
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dplangevin import StepCheck, check_step

CLIP, NOISE, DIVISOR, ROWS = 0.7, 1.4, 16.0, 8
FEATURES = torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(3))
LABELS = torch.arange(ROWS) % 3


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        yield


def network(batch_norm: bool = False) -> nn.Module:
    torch.manual_seed(1)
    middle = nn.BatchNorm1d(6) if batch_norm else nn.Tanh()
    return nn.Sequential(nn.Linear(4, 6), middle, nn.Linear(6, 3))


def row_gradients(model: nn.Module, x: Tensor, y: Tensor) -> list[list[Tensor]]:
    loss = nn.functional.cross_entropy(model(x), y, reduction="none")
    every = torch.autograd.grad(loss, list(model.parameters()), torch.eye(len(x)), is_grads_batched=True)
    return [list(of) for of in zip(*every, strict=True)]


def clipped(gradient: list[Tensor]) -> list[Tensor]:
    norm = math.sqrt(sum(float((part**2).sum()) for part in gradient))
    return [part * min(1.0, CLIP / max(norm, 1e-12)) for part in gradient]


def summed(gradients: list[list[Tensor]]) -> list[Tensor]:
    return [torch.stack(parts).sum(0) for parts in zip(*gradients, strict=True)]


def step(batch: Any, model: nn.Module, fault: str = "") -> dict[str, Tensor]:
    """Return the noisy gradient of one step of DP-SGD by hand, with a fault."""
    x, y = batch
    names = [name for name, _ in model.named_parameters()]
    rows = row_gradients(model, x, y)
    if fault == "only large losses enter the sum":
        losses = nn.functional.cross_entropy(model(x), y, reduction="none")
        rows = [row for row, loss in zip(rows, losses, strict=True) if loss >= losses.mean() - 1e-6]
    groups = {"clip after the sum": [rows], "accumulation that clips once": [rows[::2], rows[1::2]]}
    sums = summed([clipped(summed(group)) for group in groups.get(fault, [[row] for row in rows])])
    if fault == "a step on the raw gradient":
        return {name: part / DIVISOR for name, part in zip(names, summed(rows), strict=True)}
    if fault == "seed reused":
        torch.manual_seed(0)
    noise = [NOISE * torch.randn_like(part) for part in sums]
    if fault == "noise on the mean":
        noise = [DIVISOR * part for part in noise]
    if fault == "noise in half of the steps" and torch.rand(()) < 0.5:
        noise = [0 * part for part in noise]
    if fault == "one noise for all columns":
        noise = [part[..., :1].expand_as(part) for part in noise]
    if fault == "uniform noise":
        noise = [NOISE * 3**0.5 * (2 * torch.rand_like(part) - 1) for part in sums]
    if fault == "bias without noise":
        noise = [part * (".bias" not in name) for part, name in zip(noise, names, strict=True)]
    divisor = {"divisor of the data's size": 16 * DIVISOR, "realised divisor": len(x)}.get(fault, DIVISOR)
    return {name: (part + z) / divisor for name, part, z in zip(names, sums, noise, strict=True)}


FAULTS = {
    "noise on the mean": "stands on the mean",
    "noise in half of the steps": "has noise of",
    "clip after the sum": "acts on sums",
    "accumulation that clips once": "acts on sums",
    "divisor of the data's size": "divisor",
    "realised divisor": "removing a row",
    "seed reused": "another seed",
    "bias without noise": "bias has no noise",
    "batch norm": "replacing a row",
    "uniform noise": "not Gaussian",
    "one noise for all columns": "not independent",
    "only large losses enter the sum": "removing a row",
    "a step on the raw gradient": "replacing a row",
}


def checked(fault: str = "", seed: int = 0, repeats: int = 60, in_place: bool = False) -> StepCheck:
    model = network(fault == "batch norm")
    before = copy.deepcopy(model.state_dict())

    def taken(batch: Any) -> dict[str, Tensor] | None:
        gradients = step(batch, model, fault)
        for name, gradient in gradients.items() if in_place else ():
            model.get_parameter(name).grad = gradient
        return None if in_place else gradients

    stated = {"clip": CLIP, "noise_std": NOISE, "divisor": DIVISOR}
    found = check_step(taken, (FEATURES, LABELS), **stated, model=model, repeats=repeats, seed=seed)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    return found


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    assert FAULTS[fault] in " ".join(checked(fault).faults)


@pytest.mark.slow
def test_a_right_step_passes_a_hundred_times() -> None:
    assert [checked(seed=seed, repeats=20).faults for seed in range(0, 100_000, 1000)] == [[]] * 100


def test_a_step_that_leaves_its_gradient_in_the_model() -> None:
    found = checked(repeats=40, in_place=True)
    assert not found.faults
    assert found.removed == pytest.approx(CLIP, rel=0.02)


def test_noise_of_another_generator_is_refused() -> None:
    own = torch.Generator()

    def other(batch: Any) -> dict[str, Tensor]:
        return {"w": batch[0].sum(0) + torch.randn(4, generator=own)}

    with pytest.raises(ValueError, match="global generator"):
        check_step(other, (FEATURES,), clip=1, noise_std=1, divisor=1)
