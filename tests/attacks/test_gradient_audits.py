"""One private step of the learners of networks, run many times on the worst pair: no promise may be refuted.

Two engines with known mistakes must be caught: one that clips layer by layer, and one whose noise shrinks with the
micro-batch.
"""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from dplangevin import noise
from dplangevin.audit import Audit, audit
from dplangevin.chains.chain import Chain
from dplangevin.data.pixels import scaled
from dplangevin.engine.clipped import Sums, clipped_sum
from dplangevin.networks import Network, build
from dplangevin.privacy import Adjacency, Budget
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problems import network as network_problem
from dplangevin.training import Learner, Task
from dplangevin.training.attack import attack, chosen, pair
from dplangevin.training.dp_sgd import DpSgd
from dplangevin.training.dp_sgld import DpSgld
from dplangevin.training.loop import Steps

DELTA = 0.01
CLIP = 1e-3
RECORDS = 4
RUNS = 8_000
FEWER = 3_000  # are enough to see a mistake
BUDGET = Budget(2.0, DELTA)
LAYERS: list[dict[str, Any]] = [
    {"conv": 3, "kernel": 2},
    {"activation": "tanh"},
    {"linear": 4},
    {"activation": "tanh"},
    {"linear": 2},
]
NETWORK = build(LAYERS, (1, 3, 3), 2)
THREE = build([{"linear": 3}], (1, 3, 3), 3)
CASES: list[tuple[str, Adjacency, int]] = [  # learner, neighbours, expected batch of the four records
    ("dp_sgd", "add_remove", 4),
    ("dp_sgd", "add_remove", 2),
    ("dp_sgd", "replace_one", 4),
    ("dp_sgld", "add_remove", 2),
]


class Found(NamedTuple):
    audit: Audit
    claimed: float
    tight: float


def learner(name: str, adjacency: Adjacency, batch: int) -> Learner:
    """It makes one step."""
    shared: dict[str, Any] = {
        "clip": CLIP,
        "minibatches": Steps(batch, batch / RECORDS, measured=1),
        "accountant": Tight(),
        "adjacency": adjacency,
    }
    if name == "dp_sgd":
        return DpSgd(step=1.0, full_step_noise=100.0, schedule="fixed", momentum=0.0, precision=1.0, **shared)
    return DpSgld(step=None, schedule="fixed", precision=0.0, samples=1, burn_in=0.0, **shared)


def audited(
    name: str,
    adjacency: Adjacency,
    batch: int,
    engine: Callable[..., Sums] = clipped_sum,
    runs: int = RUNS,
) -> Found:
    with TemporaryDirectory() as folder:
        found = attack(
            learner(name, adjacency, batch),
            engine,
            NETWORK,
            clip=CLIP,
            records=RECORDS,
            runs=runs,
            budget=BUDGET,
            adjacency=adjacency,
            rng=noise.generator(0, "step"),
            folder=Path(folder),
        )
    promise = found.guarantee
    tight = Tight().epsilon(promise.event, promise.delta, adjacency)
    return Found(audit(found.first, found.second, promise.delta), promise.epsilon, tight)


def unstacked(network: Network, theta: Tensor) -> dict[str, Tensor]:
    named, start = {}, 0
    for name, p in network.module.named_parameters():
        named[name], start = theta[start : start + p.numel()].view(p.shape), start + p.numel()
    return named


def layer_by_layer(network: Network, theta: Tensor, x: Tensor, y: Tensor, mask: Tensor, clip: float) -> Sums:
    """The mistake: every layer's gradient has a clip of its own.  All networks are alike here, and all images."""

    def loss(parameters: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
        return cross_entropy(functional_call(network.module, parameters, (image[None],)), label[None])

    parameters = unstacked(network, theta[0])
    clipped: dict[int, Tensor] = {}
    for label in (0, 1):
        layers: dict[str, list[Tensor]] = {}
        for name, g in grad(loss)(parameters, x[0, 0], torch.tensor(label)).items():
            layers.setdefault(name.split(".")[0], []).append(g.flatten())
        each = [torch.cat(parts) for parts in layers.values()]
        clipped[label] = torch.cat([g * (clip / g.norm().clamp_min(clip)) for g in each])
    counts = [(mask & (y == label)).sum(1, keepdim=True) for label in (0, 1)]
    empty = torch.zeros_like(mask, dtype=theta.dtype)
    return Sums(counts[0] * clipped[0] + counts[1] * clipped[1], empty, empty, mask)


@pytest.mark.parametrize("case", CASES)
def test_no_promise_is_refuted_and_the_attack_comes_near(case: tuple[str, Adjacency, int]) -> None:
    found = audited(*case)
    assert 0.55 * found.tight < found.audit.epsilon <= found.tight
    assert found.tight <= found.claimed <= BUDGET.epsilon


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_micro_batches_add_no_noise_and_take_none_away(
    adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three examples at a time, of four a run."""
    runs = 500
    whole = audited("dp_sgd", adjacency, 4, runs=runs)
    engine = partial(clipped_sum, micro_batch=3)
    monkeypatch.setattr(network_problem, "clipped_sum", engine)
    found = audited("dp_sgd", adjacency, 4, engine, runs)
    assert found.audit == pytest.approx(whole.audit, rel=1e-3)


@pytest.mark.parametrize("case", CASES)
def test_a_clip_per_layer_is_caught(
    case: tuple[str, Adjacency, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_problem, "clipped_sum", layer_by_layer)
    found = audited(*case, layer_by_layer, FEWER)
    assert found.audit.epsilon > found.tight


@pytest.mark.parametrize("case", CASES)
def test_noise_scaled_by_the_micro_batch_is_caught(
    case: tuple[str, Adjacency, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise for micro-batches of one, as if a micro-batch were the whole."""
    run = Steps.run

    def scaled_down(self: Steps, task: Task, chain: Chain, *rest: Any) -> Any:
        return run(self, task, chain._replace(noise_std=chain.noise_std / self.batch), *rest)

    monkeypatch.setattr(Steps, "run", scaled_down)
    found = audited(*case, runs=FEWER)
    assert found.audit.epsilon > found.tight


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_pair_is_the_worst_by_autograd(adjacency: Adjacency) -> None:
    """The record moves the sum by the clip, or by twice the clip; layer by layer by sqrt(3) times that."""
    start = chosen(NETWORK, adjacency, noise.generator(0, "step"))
    images = pair(NETWORK, RECORDS)[0]
    x = scaled(torch.as_tensor(images.x_train[0]))

    def loss(theta: Tensor, label: Tensor) -> Tensor:
        logits = functional_call(NETWORK.module, unstacked(NETWORK, theta), (x[:1],))
        return cross_entropy(logits, label[None])

    silent, seen = vmap(grad(loss), (None, 0))(start.theta, torch.tensor([0, 1]))
    assert float(seen.norm()) > 100 * CLIP
    sides = 1 if adjacency == "add_remove" else 2
    if sides == 1:
        assert not silent.any()
    else:
        assert torch.allclose(silent / silent.norm(), -seen / seen.norm(), atol=1e-5)
    for engine, longer in ((clipped_sum, 1.0), (layer_by_layer, math.sqrt(3))):
        mask = torch.ones(1, 1, dtype=torch.bool)
        sums = [
            engine(NETWORK, start.theta[None], x[None, :1], torch.tensor([[y]]), mask, CLIP).gradient
            for y in (1, 0)
        ]
        assert float((sums[0] - sums[1]).norm()) == pytest.approx(sides * longer * CLIP, rel=1e-4)


def test_only_two_classes_with_a_linear_end_are_attacked() -> None:
    with pytest.raises(ValueError, match="two classes"):
        chosen(THREE, "add_remove", noise.generator(0, "step"))
