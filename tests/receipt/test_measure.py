"""`check_step` finds planted faults in a hand-written step, and passes a right one."""

import copy
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


def step(batch: Any, model: nn.Module, fault: str = "") -> dict[str, Tensor]:
    """Return the noisy gradient of one step of DP-SGD by hand, with a fault."""
    x, y = batch
    parameters = dict(model.named_parameters())
    losses = nn.functional.cross_entropy(model(x), y, reduction="none")
    every = torch.autograd.grad(losses, [*parameters.values()], torch.eye(len(x)), is_grads_batched=True)
    rows = torch.cat([of.flatten(1) for of in every], 1)
    if fault == "only large losses enter the sum":
        rows = rows[losses >= losses.mean() - 1e-6]
    groups = {"clip after the sum": [rows], "accumulation that clips once": [rows[::2], rows[1::2]]}
    sums = torch.stack([group.sum(0) for group in groups.get(fault, rows[:, None])])
    total = (sums * (CLIP / sums.norm(dim=1, keepdim=True).clamp(min=1e-12)).clamp(max=1)).sum(0)
    if fault == "seed reused":
        torch.manual_seed(0)
    noise = NOISE * torch.randn_like(total)
    if fault == "noise on the mean":
        noise = DIVISOR * noise
    if fault == "uniform noise":
        noise = NOISE * 3**0.5 * (2 * torch.rand_like(total) - 1)
    if fault == "noise in half of the steps" and torch.rand(()) < 0.5:
        noise = 0 * noise
    if fault == "a step on the raw gradient":
        total, noise = rows.sum(0), 0 * noise
    divisor = {"divisor of the data's size": 16 * DIVISOR, "realised divisor": len(x)}.get(fault, DIVISOR)
    sizes = [p.numel() for p in parameters.values()]
    found = {}
    for (name, p), part, z in zip(parameters.items(), total.split(sizes), noise.split(sizes), strict=True):
        z = z.view_as(p)
        if fault == "one noise for all columns":
            z = z[..., :1].expand_as(p)
        if fault == "bias without noise" and ".bias" in name:
            z = 0 * z
        found[name] = (part.view_as(p) + z) / divisor
    return found


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
