"""Every private method on every kind of problem, attacked: no price may be refuted, and planted faults must be caught.

The mechanisms are those of `attacked`.  A lower bound on epsilon above the price refutes it.  Sound methods pass with
every statistic and on every pair that is used here; one with a fault must not.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import attacked
import network_pairs as network
import numpy as np
import pytest
import torch
from attacked import ALLOCATED, CHAINS, CLIP, DELTA, KINDS, NETWORKS, RARE, TABLE, WHOLE, Seen
from quick import sample
from scipy.special import logsumexp
from torch import Tensor

from dplangevin import random
from dplangevin.attacks.audit import audit
from dplangevin.methods.registry import METHODS
from dplangevin.privacy import Adjacency
from dplangevin.problems import Sums
from dplangevin.problems.glm import Glm
from dplangevin.problems.network import NetworkProblem
from dplangevin.problems.sampling import Sampling
from dplangevin.random import Batch
from dplangevin.samplers.chains import loop
from dplangevin.samplers.posterior import Sampler

Patch = pytest.MonkeyPatch
PRIVATE = {name for name, method in METHODS.items() if method().budgeted}
CHAINED = [(name, kind) for name, kind in TABLE if name in CHAINS]
PRICED = [  # subsets, unlike Poisson samples, have a price for replaced records alone
    (*pair, adjacency)
    for pair in CHAINED
    for adjacency in get_args(Adjacency)
    if adjacency == "replace_one" or CHAINS[pair[0]].poisson
]
FITTED = [(name, kind) for name, kind in TABLE if name not in CHAINS]
# of the price, in `WHOLE`; less where a part of what is priced does not differ (the covariance, a first stage), and of
# votes and posterior samples
STRENGTH = {"hybrid": 0.5, "hybrid_sgld": 0.5, "dp_sgfs": 0.5, "ops": 0.3, "pate": 0.4}


def strength(name: str, kind: str) -> float:
    return STRENGTH.get(name, 0.65) * (0.6 if kind in NETWORKS else 1.0)


# statistics


def total(seen: Seen, side: int) -> np.ndarray:
    found: np.ndarray = seen.before[side] + seen.steps[side].sum(1)
    return found


def allotted(seen: Seen, side: int) -> np.ndarray:
    """The log-likelihood ratio where the record is in one random step of every epoch."""
    shape = attacked.shape_of(ALLOCATED, RARE)
    epochs = seen.steps[side].reshape(len(seen.steps[side]), -1, shape.records // shape.batch)
    found: np.ndarray = logsumexp(epochs, -1).sum(-1)
    return found


def lean(seen: Seen, side: int) -> np.ndarray:
    """max + min - 2 median: noise that is the same at all steps drops out, a step that saw the record stands out."""
    moves = seen.held[side]
    found: np.ndarray = moves.max(1) + moves.min(1) - 2 * np.median(moves, 1)
    return found


def bound(seen: Seen, statistic: Callable[[Seen, int], np.ndarray]) -> float:
    found = audit(statistic(seen, 0), statistic(seen, 1), DELTA).epsilon
    print(f"price {seen.price:.3f}, at least {found:.3f}")
    return found


# faults


def half_the_noise(patch: Patch) -> None:
    """Half of what the events claim; for posterior samples twice the scale rho."""
    noise, ball, sample = random.noise, random.gamma_ball, Sampler.sample
    patch.setattr(random, "noise", lambda *shape, **more: noise(*shape, **more) / 2)
    patch.setattr(random, "gamma_ball", lambda *given, **more: ball(*given, **more) / 2)
    patch.setattr(Sampler, "sample", lambda self, of, rho, *rest: sample(self, of, 2 * rho, *rest))


def clip_per_block(rule: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[[Patch], None]:
    """One micro-batch: all rows of the step.  rule: of their sum, their number, and the clip."""

    def plant(patch: Patch) -> None:
        for problem in (Glm, NetworkProblem):
            real: Any = problem.clipped_sum

            def planted(
                self: Any,
                theta: Tensor,
                rows: Tensor,
                mask: Tensor | None,
                clip: Tensor,
                *more: Any,
                real: Any = real,
            ) -> Sums:
                free = real(self, theta, rows, mask, None, *more)
                size = everyone(mask, theta, rows).sum(-1, keepdim=True).clamp(min=1)
                return Sums(rule(free.gradient, size, clip[:, None]), free.loss)

            patch.setattr(problem, "clipped_sum", planted)
        patch.setattr(Glm, "descent", lambda self, chains: None)

    return plant


def everyone(mask: Tensor | None, theta: Tensor, rows: Tensor) -> Tensor:
    """The mask ``(S, E, B)``, where None says that all rows take part."""
    return torch.ones(*theta.shape[:2], rows.shape[-1], dtype=torch.bool) if mask is None else mask


def cut(gradient: Tensor, clip: Tensor) -> Tensor:
    return gradient * (clip / gradient.norm(dim=-1, keepdim=True)).clamp(max=1.0)


def no_clip(patch: Patch) -> None:
    """Of the gradients of a linear model."""
    real: Any = Glm.clipped_sum

    def planted(
        self: Any, theta: Tensor, rows: Tensor, mask: Tensor | None, clip: Tensor, *more: Any, **named: Any
    ) -> Sums:
        return real(self, theta, rows, mask, None, *more, **named)

    patch.setattr(Glm, "clipped_sum", planted)


def clip_per_layer(patch: Patch) -> None:
    """Every layer's part of a record's gradient has a clip of its own."""
    real, first = NetworkProblem.clipped_sum, network.HIDDEN * network.PIXELS

    def planted(self: Any, theta: Tensor, rows: Tensor, mask: Tensor | None, clip: Tensor) -> Sums:
        found = torch.zeros_like(theta)
        for row, there in zip(rows.split(1, -1), everyone(mask, theta, rows).split(1, -1), strict=True):
            free = real(self, theta, row, there, None).gradient
            parts = free[..., :first], free[..., first:]
            found += torch.cat([cut(part, clip[:, None]) for part in parts], -1)
        return Sums(found)

    patch.setattr(NetworkProblem, "clipped_sum", planted)


def drawn_again(again: Callable[[Batch, Batch], Batch]) -> Callable[[Patch], None]:
    """again: from the first batch of a run and this one to what is used."""

    def plant(patch: Patch) -> None:
        stream = loop.batches

        def planted(*given: Any) -> Iterator[Batch]:
            first = None
            for drawn in stream(*given):
                first = first or drawn
                yield again(first, drawn)

        patch.setattr(loop, "batches", planted)

    return plant


the_same_noise = drawn_again(lambda first, drawn: drawn._replace(normals=first.normals))


@dataclass(frozen=True)
class Fault:
    """A change of the code, or of the chain (`attacked.attacked` takes it); its pairs of the table; where it shows."""

    where: Callable[[str, str], bool]
    plant: Callable[[Patch], None] = lambda patch: None
    change: dict[str, Any] = field(default_factory=dict)
    which: str = WHOLE
    statistic: Callable[[Seen, int], np.ndarray] = total


def everywhere(name: str, kind: str) -> bool:
    return True


def allocates(name: str, kind: str) -> bool:
    return name == ALLOCATED


def clips(name: str, kind: str) -> bool:
    return CHAINS[name].clip == CLIP


def sampled(other: Callable[[Sampling], Sampling]) -> dict[str, Any]:
    return {"spoil": lambda chain: chain._replace(sampling=other(chain.sampling))}


LARGE = {"share": 5}  # a fault that a fifth of the runs shows
FAULTS = {
    "half the noise": Fault(everywhere, half_the_noise, LARGE),
    "no clip": Fault(clips, change={"spoil": lambda chain: chain._replace(clip=math.inf), **LARGE}),
    # where nothing is clipped the rows are bounded
    "a row beyond its bound": Fault(lambda name, kind: not clips(name, kind), change={"times": 3.0, **LARGE}),
    "clip per layer": Fault(lambda name, kind: kind in NETWORKS, clip_per_layer),
    # a block's clipped sum moves by two clips at most, which is what replacing a record may do
    "clip of a block's sum": Fault(
        lambda name, kind: attacked.adjacency_of(name) == "add_remove",
        clip_per_block(lambda gradient, size, clip: cut(gradient, clip)),
        {"share": 2},
    ),
    "clip of a block's mean": Fault(
        clips, clip_per_block(lambda gradient, size, clip: size * cut(gradient / size, clip)), LARGE
    ),
    "one fixed batch": Fault(
        everywhere, drawn_again(lambda first, drawn: first._replace(normals=drawn.normals)), which=RARE
    ),
    "the same noise": Fault(everywhere, the_same_noise, which=RARE, statistic=lean),
    "one step fewer": Fault(everywhere, change={"fewer": 1}),
    "half the noise of allocated steps": Fault(allocates, half_the_noise, which=RARE, statistic=allotted),
    "the price of allocated steps for all rows in every step": Fault(
        allocates,
        change=sampled(lambda own: Sampling("full", epochs=own.epochs)),
        which=RARE,
    ),
    "the price of allocated steps for Poisson samples of twice the size": Fault(
        allocates,
        change=sampled(lambda own: replace(own, scheme="poisson", batch=2)),
        which=RARE,
    ),
}
# Every method on a linear model, and one on networks: their sums of clipped gradients are the same for all methods.
PLANTED = [
    (name, kind, fault)
    for name, kind in CHAINED
    for fault in FAULTS
    if FAULTS[fault].where(name, kind) and (kind == "logistic" or (name, kind) == ("dp_sgd", "network"))
]


def one_of_each_path(name: str, kind: str, fault: str) -> bool:
    """Every fault in one chain, half the noise in each kernel, and the faults of networks and of allocated steps."""
    if kind in NETWORKS:
        return fault in ("half the noise", "no clip", "clip per layer")
    if name == ALLOCATED:
        return FAULTS[fault].where is allocates
    return name == "dp_sgd" or (
        fault == "half the noise" and name in ("dp_sghmc", "dp_sgfs", "dpvi", "hybrid")
    )


# the table


def test_every_private_method_is_in_the_table() -> None:
    attacked = {name.split()[0] for name, _ in TABLE}
    missing = f"add a Spec to CHAINS, or a Fit to FITS, of tests/attacked.py for {PRIVATE - attacked}"
    assert attacked == PRIVATE, missing


@pytest.mark.parametrize("name", sorted(PRIVATE))
def test_a_method_refuses_the_kinds_of_problems_that_are_not_in_the_table(name: str) -> None:
    others = [kind for kind in KINDS if (name, kind) not in TABLE]
    for kind in others:
        with pytest.raises(ValueError, match=r"linear model|a network has none|one margin"):
            attacked.planned(name, kind)


# chains


@pytest.mark.parametrize(
    ("name", "kind", "adjacency"),
    sample(
        PRICED,
        lambda name, kind, _: kind == ("network" if name == "dp_sgd" else "logistic") and name != ALLOCATED,
    ),
)
def test_no_chain_is_refuted_and_the_attack_comes_near(name: str, kind: str, adjacency: Adjacency) -> None:
    """Or a fault would have to be large to be seen."""
    seen = attacked.sound(name, kind, WHOLE, adjacency)
    assert strength(name, kind) * seen.price < bound(seen, total) <= seen.price
    assert seen.price <= seen.claimed * (1 + 1e-3)


@pytest.mark.slow
def test_an_attack_on_allocated_steps_comes_near_their_price() -> None:
    seen = attacked.sound(ALLOCATED, "logistic", RARE)
    assert 0.65 * seen.price < bound(seen, allotted) <= seen.price


@pytest.mark.parametrize(("name", "kind", "fault"), sample(PLANTED, one_of_each_path))
def test_a_planted_fault_is_caught_and_a_sound_chain_is_not(
    name: str, kind: str, fault: str, monkeypatch: Patch
) -> None:
    """The fault is what the id says; the same check on the same pair passes what is sound."""
    planted = FAULTS[fault]
    sound = attacked.sound(name, kind, planted.which)
    assert bound(sound, planted.statistic) <= sound.price
    planted.plant(monkeypatch)
    seen = attacked.attacked(name, kind, planted.which, **planted.change)
    assert bound(seen, planted.statistic) > seen.price


# fits, posterior samples and votes


@pytest.mark.parametrize(
    ("name", "kind"),
    sample(
        FITTED,
        lambda name, kind: kind == "logistic" and name in ("outpert", "objpert", "ops", "dp_gd", "pate"),
    ),
)
def test_half_the_noise_and_a_row_beyond_its_bound_are_caught_and_a_sound_fit_is_not(
    name: str, kind: str, monkeypatch: Patch
) -> None:
    """A vote has no bound on rows.  Where gradients are clipped, the fault is no clip.  One kind has all faults."""
    found, price, claimed = attacked.fitted(name, kind)
    print(f"price {price:.3f}, at least {found:.3f}")
    assert strength(name, kind) * price < found <= price <= claimed * (1 + 1e-3)
    if kind != "logistic":
        return
    if name != "pate":
        clips = attacked.FITS[name].clips
        with monkeypatch.context() as patch:
            if clips:
                no_clip(patch)
            found, price, _ = attacked.fitted(name, kind, times=1.0 if clips else 3.0)
        print(f"price {price:.3f}, at least {found:.3f}")
        assert found > price
    half_the_noise(monkeypatch)
    found, price, _ = attacked.fitted(name, kind)
    print(f"price {price:.3f}, at least {found:.3f}")
    assert found > price
