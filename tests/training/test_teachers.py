"""Teachers against torch.optim one at a time; votes, their sensitivity, and what a kill leaves behind."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from dplangevin import noise
from dplangevin.cache import Checkpoint
from dplangevin.data import Dataset
from dplangevin.data.pixels import scaled
from dplangevin.networks import Network, build
from dplangevin.privacy import Budget
from dplangevin.problems.network import NetworkProblem
from dplangevin.training import Task, teachers
from dplangevin.training.sgd import cosine
from dplangevin.training.teachers import Descent, Examples, State, Teachers

LAYERS: list[dict[str, Any]] = [
    {"conv": 3, "kernel": 3, "stride": 2},
    {"activation": "tanh"},
    {"flatten": True},
    {"linear": 10},
]
QUERIES = torch.arange(40).view(2, 20)


@pytest.fixture(autouse=True)
def _one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources may be edited while tests run."""
    monkeypatch.setattr(teachers, "code_hash", lambda *names: "code")


@pytest.fixture(scope="module")
def network() -> Network:
    return build(LAYERS, (1, 8, 8), 10)


@pytest.fixture(scope="module")
def images() -> Dataset:
    x, y = load_digits(return_X_y=True)
    x = (x * 15).astype(np.uint8).reshape(-1, 1, 8, 8)
    return Dataset.from_arrays(x[:122], y[:122], x[122:182], y[122:182], {"name": "digits", "classes": 10})


def task(network: Network, images: Dataset, folder: Path, seeds: int = 2) -> Task:
    rng = noise.generator(0, "teachers")
    problem = NetworkProblem.of_images(network, images, torch.device("cpu"))
    return Task(problem, Budget(1.0, 1e-5), seeds, rng, folder, "key")


def group(**settings: Any) -> Teachers:
    return Teachers(**{"count": 6, "chunk": 4, "descent": Descent(0.1, 0.9, 0.01, 8, 7), **settings})


def test_every_example_has_one_teacher() -> None:
    parts = group().parts(20)
    assert parts.shape == (6, 4)
    for k, rows in enumerate(parts.tolist()):
        assert [i for i in rows if i >= 0] == [i for i in range(20) if i % 6 == k]
    with pytest.raises(ValueError, match="share 5"):
        group().parts(5)


def by_optimiser(
    network: Network, theta: torch.Tensor, batches: list[tuple], descent: Descent
) -> torch.Tensor:
    """torch.optim.SGD on one network, whose batches are (pixels, labels)."""
    parameters, start = {}, 0
    for name, p in network.module.named_parameters():
        part = theta[start : start + p.numel()].view(p.shape).clone()
        parameters[name], start = part.requires_grad_(), start + p.numel()
    optimiser = torch.optim.SGD(
        parameters.values(), lr=1.0, momentum=descent.momentum, weight_decay=descent.decay
    )
    for t, (x, y) in enumerate(batches):
        optimiser.param_groups[0]["lr"] = descent.step * (1 + np.cos(np.pi * t / descent.steps)) / 2
        optimiser.zero_grad()
        cross_entropy(functional_call(network.module, parameters, scaled(x)), y).backward()
        optimiser.step()
    return torch.cat([p.detach().flatten() for p in parameters.values()])


def test_each_network_of_a_stack_descends_as_it_would_alone(network: Network, images: Dataset) -> None:
    """Two networks with 11 and 9 examples, in batches of 4, so that the last batches of an epoch differ."""
    x, y = torch.as_tensor(images.x_train[0]), torch.as_tensor(images.y_train[0])
    own = torch.stack([torch.arange(11), torch.cat([torch.arange(20, 29), torch.tensor([-1, -1])])])
    descent = Descent(step=0.2, momentum=0.8, decay=0.05, batch=4, steps=8)
    theta = network.init(torch.Generator().manual_seed(1), 2)
    orders = [torch.randperm(11, generator=torch.Generator().manual_seed(e)) for e in range(3)]

    def keys(epoch: int) -> torch.Tensor:
        return (orders[epoch].argsort() / 11).expand(2, 11)

    *_, last = descent.run(
        network, State(0, theta, torch.zeros_like(theta)), Examples(x, own, y[own.clamp_min(0)]), keys
    )
    assert last.step == 8
    for s in range(2):
        batches = []
        for order in orders:
            mine = [int(own[s, i]) for i in order if own[s, i] >= 0]
            batches += [(x[mine[b : b + 4]], y[mine[b : b + 4]]) for b in (0, 4, 8)]
        expected = by_optimiser(network, theta[s], batches[:8], descent)
        assert torch.allclose(last.theta[s], expected, atol=1e-5)


def test_the_step_falls_along_a_cosine() -> None:
    assert cosine(0.4, 4).tolist() == pytest.approx([0.4, 0.2 * (1 + 0.5**0.5), 0.2, 0.2 * (1 - 0.5**0.5)])


def test_votes_are_those_of_teachers_trained_alone(network: Network, images: Dataset, tmp_path: Path) -> None:
    found = group()
    votes = found.votes(task(network, images, tmp_path), 5, QUERIES)
    parts, y = found.parts(122), torch.as_tensor(images.y_train[0])
    expected = torch.zeros(2, 20, 10, dtype=torch.int64)
    for s in range(2):
        theta = network.init(noise.generator(5, f"teachers/{s}"), 6)
        keys = [
            torch.rand(parts.shape, generator=noise.generator(5, f"teachers/{s}/epoch/{e}")) for e in range(3)
        ]
        for k in range(6):
            rows = parts[k][parts[k] >= 0]  # 21 examples for the first two, 20 for the others
            batches = []
            for key in keys:
                order = rows[key[k, : len(rows)].argsort()]
                batches += [(torch.as_tensor(images.x_train[0])[b], y[b]) for b in order.split(8)]
            one = by_optimiser(network, theta[k], batches[:7], found.descent)[None]
            pixels = scaled(torch.as_tensor(images.x_test[0])[QUERIES[s]])[None]
            choice = network.logits(one, pixels)[0].argmax(-1)
            expected[s, torch.arange(20), choice] += 1
    assert torch.equal(votes, expected)
    assert len(votes.flatten(0, 1).unique(dim=0)) > 5  # not all alike


def test_one_example_moves_one_vote(network: Network, images: Dataset, tmp_path: Path) -> None:
    found = group(descent=Descent(0.5, 0.9, 0.0, 8, 9))
    x, y = images.x_train.copy(), images.y_train.copy()
    x[0, 13], y[0, 13] = 255 - x[0, 13], (y[0, 13] + 5) % 10
    other = replace(images, x_train=x, y_train=y)
    first, second = (found.votes(task(network, i, tmp_path), 5, QUERIES) for i in (images, other))
    change = first - second
    assert change.any()
    assert int(change.abs().sum(-1).max()) <= 2
    assert int(change.abs().max()) == 1


def test_votes_are_kept_for_other_budgets_and_made_anew_for_another_seed(
    network: Network, images: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = group().votes(task(network, images, tmp_path), 5, QUERIES)
    fewer = group().votes(task(network, images, tmp_path, seeds=1), 5, QUERIES[:1])
    assert torch.equal(fewer[0], first[0])  # whatever the number of ensembles
    assert not list(tmp_path.glob("*.pt"))

    def refused(*args: Any) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(teachers, "clipped_sum", refused)
    other = task(network, images, tmp_path)._replace(budget=Budget(2.0, 1e-5), key="another")
    assert torch.equal(group().votes(other, 5, QUERIES), first)
    with pytest.raises(AssertionError, match="trained again"):
        group().votes(other, 6, QUERIES)


class Killed(BaseException):
    """Nothing catches it."""


def killed_after(calls: int, function: Any) -> Any:
    """`function`, which a kill interrupts at one call."""
    left: Iterator[int] = iter(range(calls))

    def run(*args: Any, **settings: Any) -> Any:
        if next(left, None) is None:
            raise Killed
        return function(*args, **settings)

    return run


@pytest.mark.parametrize(("where", "calls"), [("clipped_sum", 3), ("clipped_sum", 17), ("one_hot", 5)])
def test_a_killed_run_ends_in_the_same_bytes(
    network: Network,
    images: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    calls: int,
) -> None:
    """Killed in the first stack, in a later one, and between two pieces of the queries."""
    monkeypatch.setattr(teachers, "Checkpoint", partial(Checkpoint, every=0.0))
    monkeypatch.setattr(teachers, "AT_ONCE", 7)
    found = group()
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    found.votes(task(network, images, tmp_path / "whole"), 5, QUERIES)
    real = getattr(teachers, where)
    monkeypatch.setattr(teachers, where, killed_after(calls, real))
    with pytest.raises(Killed):
        found.votes(task(network, images, tmp_path / "killed"), 5, QUERIES)
    left = {"clipped_sum": 4 * 7, "one_hot": 4 * 3}[
        where
    ] - calls  # in four stacks: seven steps, three pieces
    monkeypatch.setattr(teachers, where, killed_after(left, real))  # nothing is done twice
    found.votes(task(network, images, tmp_path / "killed"), 5, QUERIES)
    (whole,), (resumed,) = (list((tmp_path / name).iterdir()) for name in ("whole", "killed"))
    assert whole.name == resumed.name
    assert whole.read_bytes() == resumed.read_bytes()


def test_what_makes_no_sense_is_refused(network: Network, images: Dataset, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="momentum"):
        Descent(0.1, 1.0, 0.0, 8, 8)
    with pytest.raises(ValueError, match="step must be positive"):
        Descent(0.0, 0.9, 0.0, 8, 8)
    with pytest.raises(ValueError, match="count"):
        group(count=0)
    wild = group(descent=Descent(1e39, 0.9, 0.0, 8, 8))
    with pytest.raises(ValueError, match=r"step 2 of 8.*lower the step size"):
        wild.votes(task(network, images, tmp_path), 5, QUERIES)
