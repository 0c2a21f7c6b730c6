"""Every private method on every kind of problem, attacked: no price may be refuted, and planted faults must be caught.

The mechanisms are those of `attacked`.  A lower bound on epsilon above the price refutes it.
"""

import math
from typing import Any, get_args

import attacked
import pytest
from attacked import CHAINS, CLIP, DELTA, NETWORKS, TABLE, Seen
from quick import sample
from torch import Tensor

from dplangevin import random
from dplangevin.attacks.audit import audit
from dplangevin.methods.registry import METHODS
from dplangevin.privacy import Adjacency
from dplangevin.problems import Sums
from dplangevin.problems.glm import Glm
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
# of the price; less where a part of what is priced does not differ (the covariance, a first stage), and of votes and
# posterior samples
STRENGTH = {"hybrid": 0.5, "hybrid_sgld": 0.5, "dp_sgfs": 0.5, "ops": 0.3, "pate": 0.4}


def strength(name: str, kind: str) -> float:
    return STRENGTH.get(name, 0.65) * (0.6 if kind in NETWORKS else 1.0)


def bound(seen: Seen) -> float:
    return audit(seen.first, seen.second, DELTA).epsilon


def half_the_noise(patch: Patch) -> None:
    """Half of what the events claim; for posterior samples twice the scale rho."""
    noise, ball, sample = random.noise, random.gamma_ball, Sampler.sample
    patch.setattr(random, "noise", lambda *shape, **more: noise(*shape, **more) / 2)
    patch.setattr(random, "gamma_ball", lambda *given, **more: ball(*given, **more) / 2)
    patch.setattr(Sampler, "sample", lambda self, of, rho, *rest: sample(self, of, 2 * rho, *rest))


def no_clip(patch: Patch) -> None:
    """Of the gradients of a linear model."""
    real: Any = Glm.clipped_sum

    def planted(
        self: Any, theta: Tensor, rows: Tensor, mask: Tensor | None, clip: Tensor, *more: Any, **named: Any
    ) -> Sums:
        return real(self, theta, rows, mask, clip * math.inf, *more, **named)

    patch.setattr(Glm, "clipped_sum", planted)
    patch.setattr(Glm, "descent", lambda self, chains: None)


def test_every_private_method_is_in_the_table() -> None:
    attacked = {name for name, _ in TABLE}
    missing = f"add a Spec to CHAINS, or a Fit to FITS, of tests/attacked.py for {PRIVATE - attacked}"
    assert attacked == PRIVATE, missing


@pytest.mark.parametrize(
    ("name", "kind", "adjacency"),
    sample(PRICED, lambda name, kind, _: kind == ("network" if name == "dp_sgd" else "logistic")),
)
def test_no_chain_is_refuted_and_the_attack_comes_near(name: str, kind: str, adjacency: Adjacency) -> None:
    """Or a fault would have to be large to be seen."""
    seen = attacked.attacked(name, kind, adjacency)
    assert strength(name, kind) * seen.price < bound(seen) <= seen.price
    assert seen.price <= seen.claimed * (1 + 1e-3)


@pytest.mark.parametrize(
    ("name", "kind"),
    sample(
        [
            (name, kind)
            for name, kind in CHAINED
            if kind == "logistic" or (name, kind) == ("dp_sgd", "network")
        ],
        lambda name, kind: name in ("dp_sgd", "dp_sghmc", "dp_sgfs", "dpvi", "hybrid"),
    ),
)
def test_half_the_noise_and_no_clip_are_caught(name: str, kind: str, monkeypatch: Patch) -> None:
    """By a fifth of the runs."""
    if CHAINS[name].clip == CLIP and kind == "logistic":
        with monkeypatch.context() as patch:
            no_clip(patch)
            seen = attacked.attacked(name, kind, share=5)
        assert bound(seen) > seen.price
    half_the_noise(monkeypatch)
    seen = attacked.attacked(name, kind, share=5)
    assert bound(seen) > seen.price


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
    assert strength(name, kind) * price < found <= price <= claimed * (1 + 1e-3)
    if kind != "logistic":
        return
    if name != "pate":
        clips = attacked.FITS[name].clips
        with monkeypatch.context() as patch:
            if clips:
                no_clip(patch)
            found, price, _ = attacked.fitted(name, kind, times=1.0 if clips else 3.0)
        assert found > price
    half_the_noise(monkeypatch)
    found, price, _ = attacked.fitted(name, kind)
    assert found > price
