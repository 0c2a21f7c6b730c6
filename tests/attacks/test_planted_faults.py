"""Six faults planted in the code that trains, in every family whose steps add noise, and each of them caught.

Each scenario of `planted` runs a production learner (planned, calibrated, priced and trained by its own code) many
times on a worst-case pair.  A lower bound on epsilon above the learner's own price refutes it.  Sound learners pass
with both statistics and both plans; a learner with a fault must not.  The clip is 3, not 1.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import attr
import numpy as np
import pytest
import torch
from planted import (
    BUDGET,
    CLIP,
    LONG,
    RARE,
    RARE_SUBSETS,
    SCENARIOS,
    SUBSETS,
    WHOLE,
    Moves,
    Plan,
    certain,
    finetune_task,
    network_learner,
    rng,
    training_task,
    watched_checkpoints,
)
from torch import Tensor

from dplangevin import noise
from dplangevin.audit import audit
from dplangevin.cache import Checkpoint
from dplangevin.chains import chain as chain_module
from dplangevin.chains import linear as chains
from dplangevin.chains.chain import Chain
from dplangevin.chains.sampling import Batch
from dplangevin.engine.clipped import Sums, clipped_sum
from dplangevin.heads import dp_langevin as head_langevin
from dplangevin.heads import dp_sgd as head_dp_sgd
from dplangevin.methods import dp_sgd as convex_dp_sgd
from dplangevin.methods import dp_sgld_li2019 as li2019
from dplangevin.methods import dpvi
from dplangevin.poisson import Poisson
from dplangevin.privacy import Adjacency
from dplangevin.problem import Problem
from dplangevin.problems import network as network_problem
from dplangevin.sgmcmc import Minibatches
from dplangevin.training import dp_sgd, dp_sgld, loop, promises

Patch = pytest.MonkeyPatch
Statistic = Callable[[np.ndarray], np.ndarray]


def total(moves: np.ndarray) -> np.ndarray:
    return moves.sum(1)


def lean(moves: np.ndarray) -> np.ndarray:
    """max + min - 2 median: noise that is the same at all steps drops out, a step that saw the record stands out."""
    found: np.ndarray = moves.max(1) + moves.min(1) - 2 * np.median(moves, 1)
    return found


# how much noise


def scaled_noise(factor: float, name: str, patch: Patch) -> None:
    """What the learner hands to its loop as the deviation of the noise, times factor."""
    match name:
        case "methods.dp_sgd" | "methods.dp_sgld_li2019":
            run = Poisson.run

            def convex(self: Any, problem: Any, eta: Tensor, std: Tensor, *rest: Any) -> Tensor:
                return run(self, problem, eta, factor * std, *rest)

            patch.setattr(Poisson, "run", convex)
        case "methods.dpvi":
            fit = dpvi.Dpvi._fit
            patch.setattr(dpvi.Dpvi, "_fit", lambda self, p, std, g: fit(self, p, factor * std, g))
        case "methods.dp_sgld":
            run_all = Minibatches.run

            def langevin(
                self: Any, problem: Any, kernel: Any, state: Any, eta: Any, std: Any, *rest: Any
            ) -> Tensor:
                return run_all(self, problem, kernel, state, eta, lambda t: factor * std(t), *rest)

            patch.setattr(Minibatches, "run", langevin)
        case "training.dp_sgd" | "training.dp_sgld" | "finetune.dp_sgd":
            steps = loop.Steps.run

            def networks(self: Any, task: Any, chain: Chain, *rest: Any) -> Any:
                return steps(self, task, chain._replace(noise_std=factor * chain.noise_std), *rest)

            patch.setattr(loop.Steps, "run", networks)
        case _:
            method: Any = {
                "heads.dp_sgd": head_dp_sgd.DpSgd,
                "heads.dp_langevin": head_langevin.DpLangevin,
            }[name]
            chain = method.chain

            def quieter(self: Any, setting: Any, noise: float) -> chains.Chain:
                made = chain(self, setting, noise)
                return replace(made, noise_std=factor * made.noise_std)

            patch.setattr(method, "chain", quieter)


def half_the_noise(name: str, patch: Patch) -> None:
    scaled_noise(0.5, name, patch)


def noise_without_the_clip(name: str, patch: Patch) -> None:
    """The noise multiplier as the deviation of the noise; of chains whose noise follows from the step size, a step
    size, or an event, that takes gradients to be at most 1."""
    match name:
        case "training.dp_sgld" | "methods.dp_sgld_li2019":
            module, step_of = dp_sgld if name.startswith("training") else li2019, dp_sgld.step_of
            patch.setattr(
                module, "step_of", lambda sigma, **given: step_of(sigma, **{**given, "lipschitz": 1.0})
            )
        case "heads.dp_langevin":
            event = head_langevin.DpLangevin.event
            patch.setattr(
                head_langevin.DpLangevin,
                "event",
                lambda self, setting, noise: attr.evolve(event(self, setting, noise), lipschitz=1.0),
            )
        case _:
            scaled_noise(1 / CLIP, name, patch)


# clips per micro-batch


def cut(gradient: Tensor, clip: float) -> Tensor:
    return gradient * (clip / gradient.norm(dim=-1, keepdim=True).clamp(min=clip))


def of_the_sum(gradient: Tensor, size: Any, clip: float) -> Tensor:
    """The clipped sum of a block: a record can turn it round, which is worth two clips."""
    return cut(gradient, clip)


def of_the_mean(gradient: Tensor, size: Any, clip: float) -> Tensor:
    """The clipped mean of a block, times its size."""
    return size * cut(gradient / size, clip)


def clip_per_block(rule: Callable[[Tensor, Any, float], Tensor], name: str, patch: Patch) -> None:
    """One block: all examples of the step."""
    family = name.split(".")[0]
    if family == "methods":
        clipped_grad = Problem.clipped_grad

        def convex(self: Problem, theta: Tensor, rows: Tensor, mask: Tensor, clip: float, *_: Any) -> Tensor:
            raw = clipped_grad(self, theta, rows, mask, float("inf"))
            return rule(raw, mask.sum(1).clamp(min=1)[:, None, None], clip)

        patch.setattr(Problem, "clipped_grad", convex)
    elif family == "heads":
        descent = chains.descent

        def softmax(problem: Problem, of: Any, batch: int) -> chains.Descent:
            free = descent(problem, [replace(chain, clip=float("inf")) for chain in of], batch)

            def descend(theta: Tensor, rows: Tensor, sizes: Tensor, eta: Tensor, keep: Tensor) -> None:
                before = keep * theta
                free(theta, rows, sizes, eta, keep)
                theta.copy_(before - eta / batch * rule((before - theta) * batch / eta, batch, of[0].clip))

            return descend

        patch.setattr(chains, "descent", softmax)
    else:

        def network(net: Any, theta: Tensor, x: Tensor, y: Tensor, mask: Tensor, clip: float) -> Sums:
            sums = clipped_sum(net, theta, x, y, mask, float("inf"))
            return sums._replace(gradient=rule(sums.gradient, mask.sum(1).clamp(min=1)[:, None], clip))

        patch.setattr(network_problem, "clipped_sum", network)


def clip_of_the_sum(name: str, patch: Patch) -> None:
    clip_per_block(of_the_sum, name, patch)


def clip_of_the_mean(name: str, patch: Patch) -> None:
    clip_per_block(of_the_mean, name, patch)


# what is drawn


def drawn_again(again: Callable[[tuple, tuple], tuple], name: str, patch: Patch) -> None:
    """again: from the first draw of a generator and this one to what is used; noise is the last of a draw."""
    family = name.split(".")[0]
    place: Any = noise
    drawer = "minibatch_stream" if name == "methods.dp_sgld" else "poisson_stream"
    if family != "methods":
        place, drawer = chains if family == "heads" else chain_module, "batches"
    stream = getattr(place, drawer)
    firsts: dict[torch.Generator, tuple] = {}

    def planted(generator: torch.Generator, *args: Any, **more: Any) -> Iterator[tuple]:
        for drawn in stream(generator, *args, **more):
            used = again(firsts.setdefault(generator, drawn), drawn)
            yield Batch(*used) if isinstance(drawn, Batch) else used

    patch.setattr(place, drawer, planted)


def one_fixed_batch(name: str, patch: Patch) -> None:
    drawn_again(lambda first, drawn: (*first[:-1], drawn[-1]), name, patch)


def the_same_noise(name: str, patch: Patch) -> None:
    drawn_again(lambda first, drawn: (*drawn[:-1], first[-1]), name, patch)


# what is priced


def one_step_fewer(name: str, patch: Patch) -> None:
    """In the calibration and in the guarantee."""
    if name == "methods.dp_sgld":
        event = Minibatches.event
        patch.setattr(
            Minibatches, "event", lambda self, problem, budget, std: event(self, problem, budget, std[:-1])
        )
        return
    if name == "heads.dp_langevin":
        whole = head_langevin.DpLangevin.event

        def shorter(self: Any, setting: Any, noise: float) -> Any:
            found = whole(self, setting, noise)
            return attr.evolve(found, steps=found.steps - 1)

        patch.setattr(head_langevin.DpLangevin, "event", shorter)
        return
    calibrated, priced = {
        "methods.dp_sgd": (convex_dp_sgd, convex_dp_sgd),
        "methods.dp_sgld_li2019": (li2019, li2019),
        "methods.dpvi": (dpvi, dpvi),
        "training.dp_sgd": (dp_sgd, promises),
        "training.dp_sgld": (dp_sgld, promises),
        "finetune.dp_sgd": (dp_sgd, promises),
        "heads.dp_sgd": (head_dp_sgd, head_dp_sgd),
    }[name]
    for module, function in ((calibrated, "smallest_multiplier"), (priced, "steps_event")):
        real = getattr(module, function)

        def fewer(*args: Any, steps: int, real: Any = real, **more: Any) -> Any:
            return real(*args, steps=steps - 1, **more)

        patch.setattr(module, function, fewer)


@dataclass(frozen=True)
class Fault:
    """Where it shows, by which statistic; adjacency: the kind of neighbours if not the scenario's own."""

    plant: Callable[[str, Patch], None]
    plan: Plan
    statistic: Statistic = total
    adjacency: Adjacency | None = None


FAULTS = {
    "half the noise": Fault(half_the_noise, WHOLE),
    "noise without the clip": Fault(noise_without_the_clip, WHOLE),
    # a block's clipped sum moves by two clips at most, which is what replacing a record may do
    "clip of a block's sum": Fault(clip_of_the_sum, WHOLE, adjacency="add_remove"),
    "clip of a block's mean": Fault(clip_of_the_mean, WHOLE),
    "one fixed batch": Fault(one_fixed_batch, RARE),
    "the same noise": Fault(the_same_noise, RARE, lean),
    "one step fewer": Fault(one_step_fewer, WHOLE),
}
# methods.dp_sgld does not clip; heads.dp_langevin has a price for replaced records alone
NONE = {
    ("methods.dp_sgld", "noise without the clip"),
    ("methods.dp_sgld", "clip of a block's sum"),
    ("methods.dp_sgld", "clip of a block's mean"),
    ("heads.dp_langevin", "clip of a block's sum"),
}
PLANTED = [(name, fault) for name in SCENARIOS for fault in FAULTS if (name, fault) not in NONE]


def pair_of(name: str, fault: Fault) -> tuple[Plan, Adjacency]:
    plan = RARE_SUBSETS if fault.plan == RARE and name in SUBSETS else fault.plan
    return plan, fault.adjacency or SCENARIOS[name][1]


@lru_cache
def sound(name: str, plan: Plan, adjacency: Adjacency) -> Moves:
    return SCENARIOS[name][0](plan, adjacency)


def bound(moves: Moves, statistic: Statistic) -> float:
    return audit(statistic(moves.first), statistic(moves.second), BUDGET.delta).epsilon


def refuted(moves: Moves, statistic: Statistic) -> bool:
    print(f"price {moves.price:.3f}, at least {bound(moves, statistic):.3f}")
    return bound(moves, statistic) > moves.price


@pytest.mark.parametrize(("name", "fault"), PLANTED)
def test_a_planted_fault_is_caught_and_a_sound_learner_is_not(
    name: str, fault: str, monkeypatch: Patch
) -> None:
    """The fault is what the id says; the same check on the same pair passes what is sound."""
    planted = FAULTS[fault]
    pair = pair_of(name, planted)
    assert not refuted(sound(name, *pair), planted.statistic)
    planted.plant(name, monkeypatch)
    assert refuted(SCENARIOS[name][0](*pair), planted.statistic)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_attack_on_a_sound_learner_comes_near_its_price(name: str) -> None:
    """Or a fault would have to be large to be seen."""
    moves = sound(name, WHOLE, SCENARIOS[name][1])
    assert bound(moves, total) > 0.65 * moves.price


# noise after a resume


LEARNERS = {"training.dp_sgd": "dp_sgd", "training.dp_sgld": "dp_sgld", "finetune.dp_sgd": "finetune"}
SEEDS = 3


def iterates(name: str, folder: Path) -> list[Tensor]:
    """theta ``(S, d)`` after each step of this call, which goes on from a checkpoint if there is one.

    All gradients are 0: the steps are noise and nothing else.
    """
    make: Callable[..., Any] = finetune_task if name == "finetune.dp_sgd" else training_task
    with watched_checkpoints() as seen:
        try:
            network_learner(LEARNERS[name], LONG)(make(LONG, 0, SEEDS, folder, rng("resume")))
        except KeyboardInterrupt:
            return seen
    return seen


def interrupted(name: str, folder: Path, patch: Patch) -> list[Tensor]:
    """The same with an interrupt in the third step and a new call after it."""
    calls, engine = 0, network_problem.clipped_sum

    def stopping(*given: Any) -> Sums:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return engine(*given)

    patch.setattr(Checkpoint.__init__, "__defaults__", (0.0,))  # write after every step
    patch.setattr(network_problem, "clipped_sum", stopping)
    before = iterates(name, folder)
    assert len(before) == 2
    after = iterates(name, folder)
    assert len(after) == LONG.steps - 2
    return [*before, *after]


def repeated(path: list[Tensor]) -> bool:
    """Whether two steps of a path of pure noise are the same, up to rounding."""
    moves = [late - early for early, late in pairwise([certain(path[0]), *path])]
    same = [
        torch.allclose(one, other, rtol=0, atol=1e-3 * float(one.std()))
        for one, other in combinations(moves, 2)
    ]
    return any(same)


@pytest.mark.parametrize("name", LEARNERS)
def test_noise_after_a_resume_is_new(name: str, tmp_path: Path, monkeypatch: Patch) -> None:
    """A sound run passes the check that the next test's runs fail, and ends where the unbroken one does."""
    whole = iterates(name, tmp_path / "whole")
    path = interrupted(name, tmp_path / "cut", monkeypatch)
    assert not repeated(whole)
    assert not repeated(path)
    assert torch.equal(torch.stack(path), torch.stack(whole))


@pytest.mark.parametrize("name", LEARNERS)
def test_noise_that_a_resume_draws_again_is_caught(name: str, tmp_path: Path, monkeypatch: Patch) -> None:
    """The generator starts again from its seed instead of going on from the state in the checkpoint."""
    whole, load = iterates(name, tmp_path / "whole"), Checkpoint.load

    def forgetful(self: Checkpoint) -> dict[str, Any] | None:
        state = load(self)
        return state and {**state, "rng": rng("resume").get_state()}

    monkeypatch.setattr(Checkpoint, "load", forgetful)
    path = interrupted(name, tmp_path / "cut", monkeypatch)
    assert repeated(path)
    assert not torch.equal(path[-1], whole[-1])


@pytest.mark.parametrize("name", LEARNERS)
def test_noise_that_every_step_repeats_is_caught_by_the_same_check(
    name: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    """`the_same_noise`, before and after a resume."""
    the_same_noise(name, monkeypatch)
    assert repeated(iterates(name, tmp_path / "whole"))
    assert repeated(interrupted(name, tmp_path / "cut", monkeypatch))
