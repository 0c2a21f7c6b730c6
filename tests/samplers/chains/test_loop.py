"""The loop against an explicit one: per-example gradients by autograd, one record at a time, on the same draws."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from one_by_one import row_loss, with_parameters
from quick import sample
from scenarios import linear, logistic, method, multinomial, network
from scipy.stats import norm
from stopping import Stop, Stopping
from torch import Tensor

from dplangevin import methods, random
from dplangevin.files import Checkpoint
from dplangevin.methods import Execution, Workspace
from dplangevin.pipeline.observers import LearningCurve
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problems import Facts
from dplangevin.problems.architectures import build
from dplangevin.problems.chain import Chain
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC
from dplangevin.problems.network import NetworkProblem
from dplangevin.problems.sampling import BY_EPOCH, RANDOM_SIZE, Sampling, Scheme
from dplangevin.samplers.chains.loop import run, thinned
from dplangevin.samplers.chains.steps import Steps

STEPS, N, TAU, SEEDS = 6, 30, 10, 2
NETWORK = build([{"conv": 2, "kernel": 3}, {"activation": "tanh"}, {"linear": 3}], [1, 4, 4], 3)
LINEAR: dict[str, Callable[..., Glm]] = {"logistic": logistic, "softmax": multinomial, "huber": linear}


def problem() -> NetworkProblem:
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(N + 5, 1, 4, 4, generator=rng), torch.randint(3, (N + 5,), generator=rng)
    return NetworkProblem(NETWORK, x[:N], y[:N], x[N:], y[None, N:])


def chain(scheme: Scheme, **more: Any) -> Chain:
    full = scheme == "full"
    sampling = Sampling(scheme, None if full else TAU, STEPS / (1 if full else N / TAU))
    step = torch.linspace(0.5, 0.2, STEPS, dtype=torch.float64)
    return Chain(step, torch.linspace(0.3, 0.6, STEPS), sampling, **more)


def gradient(of: Any, theta: Tensor, s: int, i: int) -> Tensor:
    """Of the record i of seed s."""
    if isinstance(of, Glm):
        at = theta.clone().requires_grad_()
        r = 0 if of.shared else s
        return torch.autograd.grad(row_loss(of, at, of.x[r, i], of.y[r, i]), at)[0]
    module = with_parameters(of.network.module, theta)
    loss = F.cross_entropy(module(of.x[i][None]), of.y[i][None])
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(module.parameters()))])


def explicit(of: Any, chains: list[Chain], schemes: set[str] | None = None) -> list[Tensor]:
    """theta ``(S, E, d)`` after each step."""
    rng, size, d = random.generator(5, "test"), chains[0].sampling.size(N), of.facts.d
    theta = of.init(SEEDS, rng)[:, None].repeat(1, len(chains), 1)
    if schemes is not None or any(c.start_std for c in chains):
        normals = random.noise(rng, SEEDS, 1, d).float()
        theta = theta + torch.tensor([[c.start_std] for c in chains]) * normals
    theta = torch.stack([cut(theta[:, e], c.radius) for e, c in enumerate(chains)], 1)
    velocity, out = torch.zeros_like(theta), []
    schemes = schemes or {c.sampling.scheme for c in chains}
    by_epoch: Any = None
    if schemes & BY_EPOCH:
        draw: Any = random.epochs if "shuffled" in schemes else random.allocations
        of_orders = random.stream_seed(rng, secret="random_allocation" in schemes)
        by_epoch = draw(of_orders, SEEDS, N, size, 0)
    for t, batch in enumerate(random.batches(rng, schemes, SEEDS, N, size, d, STEPS, 64, by_epoch)):
        for s in range(SEEDS):
            for e, c in enumerate(chains):
                count = size
                if c.sampling.scheme in RANDOM_SIZE:
                    assert batch.sizes is not None
                    count = int(batch.sizes[s])
                total = torch.zeros(d)
                for i in batch.rows[s, :count].tolist():
                    g = gradient(of, theta[s, e], s, i)
                    total = total + g * min(1.0, c.clip / float(g.norm()))
                total = cut(total, size * c.mean_clip) + (c.noise_std[t] * batch.normals[s, 0]).float()
                velocity[s, e] = c.momentum * velocity[s, e] + total / size + c.l2 * theta[s, e]
                theta[s, e] = cut(theta[s, e] - float(c.step[t]) * velocity[s, e], c.radius)
        out.append(theta.clone())
    return out


def cut(theta: Tensor, radius: float) -> Tensor:
    return theta if radius == math.inf else theta * (radius / theta.norm(dim=-1, keepdim=True)).clamp(max=1)


CHAINS = {
    "mean clipped": [chain("poisson", mean_clip=0.05), chain("subset", mean_clip=0.1, clip=0.4)],
    "poisson": [chain("poisson", clip=0.4, momentum=0.5, l2=0.1), chain("poisson")],
    "subset and poisson": [
        chain("subset", clip=0.4, radius=1.5, start_std=1.0),
        chain("poisson", clip=0.2, l2=0.3),
    ],
    "full": [chain("full", clip=0.4)],
    "shuffled": [chain("shuffled", clip=0.4, l2=0.1), chain("shuffled", start_std=1.0, momentum=0.5)],
    "random allocation": [chain("random_allocation", clip=0.4), chain("random_allocation", l2=0.1)],
}


@pytest.mark.parametrize("size", sample([None, 1, 3], lambda size: size is None))
@pytest.mark.parametrize("chains", CHAINS.values(), ids=CHAINS)
@pytest.mark.usefixtures("fine_grid")
def test_it_is_the_explicit_loop(
    chains: list[Chain], size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chains that share draws: each with its own clip, ridge, momentum, ball and sampling.

    size: of the micro-batches that a minibatch goes through the network in, which change neither sum nor noise.
    """
    if size is not None:
        monkeypatch.setattr("dplangevin.engine.memory.micro_batch", lambda *_: size)
    kept = [c._replace(keep=(2, STEPS)) for c in chains]
    found = run(problem(), kept, SEEDS, random.generator(5, "test"))
    wanted = explicit(problem(), chains)
    torch.testing.assert_close(found, torch.stack([wanted[1], wanted[-1]], 2), rtol=1e-4, atol=1e-5)


# without momentum, which the fused steps of a linear model leave to the plain ones
FUSED = {
    "all": [chain("poisson", clip=0.2), chain("subset", l2=0.3, radius=0.4), chain("poisson", start_std=1.0)],
    "subset": [chain("subset", clip=0.3), chain("subset")],
    "full": [chain("full", clip=0.4)],
    "shuffled": [chain("shuffled", clip=0.4, l2=0.1)],
    "random allocation": [chain("random_allocation", clip=0.4, l2=0.1)],
}


@pytest.mark.parametrize("chains", FUSED.values(), ids=FUSED)
@pytest.mark.parametrize(("shared", "cells"), [(True, 2**19), (False, 1)])
@pytest.mark.parametrize("loss", LINEAR)
@pytest.mark.usefixtures("fine_grid")
def test_fused_steps_of_linear_models_are_the_explicit_loop_and_the_plain_ones(
    loss: str, shared: bool, chains: list[Chain], cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Subsets and Poisson samples side by side, in any order, seeds in parts; each chain as it is alone, on draws for
    more schemes than its own; rows of the length of their own."""
    monkeypatch.setattr("dplangevin.problems.glm.CELLS", cells)
    of = LINEAR[loss](seeds=SEEDS, n=N, shared=shared)
    schemes = {c.sampling.scheme for c in chains} | ({"poisson"} if len(chains) == 2 else set())
    found = run(of, chains, SEEDS, random.generator(5, "test"), schemes=schemes)[:, :, 0]
    torch.testing.assert_close(found, explicit(of, chains, schemes)[-1], rtol=1e-4, atol=1e-5)
    with monkeypatch.context() as patch:
        patch.setattr(Glm, "descent", lambda *_: None)
        unfused = run(of, chains, SEEDS, random.generator(5, "test"), schemes=schemes)[:, :, 0]
    torch.testing.assert_close(found, unfused, rtol=1e-4, atol=1e-5)
    for e, c in enumerate(chains):
        alone = run(of, [c], SEEDS, random.generator(5, "test"), schemes=schemes)[:, 0, 0]
        torch.testing.assert_close(alone, found[:, e], rtol=1e-4, atol=1e-5)


def test_where_a_poisson_sample_is_empty_only_the_ridge_acts() -> None:
    one = Chain(torch.ones(1), torch.zeros(1), Sampling("poisson", 1, 1 / N), l2=0.1)
    (batch,) = random.batches(random.generator(0, "e"), {"poisson"}, 20, N, 1, 5, 1, 64)
    assert batch.sizes is not None
    empty = batch.sizes == 0
    assert 0 < int(empty.sum()) < 20
    of, start = logistic(seeds=20, n=N), torch.ones(20, 1, 5)
    for problem_of in (of, Unfused(of.x, of.y, of.loss)):
        theta = run(problem_of, [one], 20, random.generator(0, "e"), start=start.clone())[:, 0, 0]
        assert torch.allclose(theta[empty], torch.tensor(0.9))
        assert not torch.allclose(theta[~empty], torch.tensor(0.9))


class Unfused(Glm):
    """A linear model without fused steps."""

    def descent(self, chains: Any) -> None:
        return None


def test_noise_below_the_last_digit_of_theta_still_hides_the_sum() -> None:
    """Sum and noise are added before theta is rounded: its last digit, here 1/16, is as random as their sum."""
    of, start = torch.ones(1, 4, 1), torch.full((2000, 1, 1), 1e6)
    one = Chain(torch.tensor([0.037]), torch.tensor([0.01 / 0.037]), Sampling("subset", 1, 0.25), clip=1.0)
    lost = []
    for kind in (Glm, Unfused):
        problem = kind(of, -of[..., 0], LOGISTIC)
        theta = run(problem, [one], 2000, random.generator(0, "digit"), start=start.clone())
        lost.append(start.flatten() - theta.flatten())
    assert {*lost[0].tolist()} == {0.0, 1 / 16}
    assert float(lost[0].mean()) * 16 == pytest.approx(norm.sf((1 / 32 - 0.037) / 0.01), abs=0.05)
    assert (lost[0] == lost[1]).double().mean() > 0.99


# Checkpoints


def quick(name: str, **overrides: Any) -> Any:
    return method(name, sampling={"batch": 20, "epochs": 1}, **overrides)


STEP = {"unit": "absolute", "step": 0.05, "clip": 1.0}
KINDS: dict[str, tuple[Any, Any]] = {
    "fused steps": (quick("dp_sgd"), lambda: logistic(n=200)),
    "momentum": (quick("dp_sgd", momentum=0.5, samples=3), lambda: logistic(n=200)),
    "a network": (quick("dp_sgd", **STEP, samples=3), network),
    "velocities": (quick("dp_sghmc", samples=3), lambda: logistic(n=200)),
    "a thermostat": (quick("dp_sgnht", **STEP), network),
    "covariances": (quick("dp_sgfs", refresh=3, samples=3), lambda: logistic(n=200)),
    "mean and deviation": (quick("dpvi"), lambda: logistic(n=200)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_killed_runs_end_in_the_same_bytes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, make = KINDS[kind]
    of = make()
    plans = [method.plan(of.facts, Budget(epsilon, 1e-4)) for epsilon in (1.0, 8.0)]
    steps = len(plans[0].work.step)
    monkeypatch.setattr(methods, "Checkpoint", partial(Checkpoint, every=0.0))

    def go(key: str, rng: torch.Generator) -> Tensor:
        theta: Tensor = method.release(of, plans, Execution(3, rng, workspace=Workspace(tmp_path, key))).theta
        return theta

    whole, save = go("whole", random.generator(0, "test")), Checkpoint.save
    calls: list[int] = []
    stop = 0

    def counted(self: Checkpoint, make: Any, force: bool = False) -> None:
        save(self, make, force)
        calls.append(1)
        if len(calls) == stop:
            raise Stop

    monkeypatch.setattr(Checkpoint, "save", counted)
    for at in {1, steps // 2 + 1, steps}:
        calls, stop = [], at
        with pytest.raises(Stop):
            go(str(at), random.generator(0, "test"))
        calls, stop = [], 0
        assert torch.equal(go(str(at), random.generator(9, "another")), whole)
        assert len(calls) == steps - at + 1  # nothing is done twice; the last state is kept once more


# What is seen along a chain


def watched(of: Any) -> tuple[Any, LearningCurve]:
    """Six steps, the last two of which are kept."""
    method = quick("dp_sgd", **STEP, samples=2, burn_in=0.5)
    plan = replace(method, sampling=Sampling("poisson", 10, 1.0)).plan(of.facts, Budget(1.0, 1e-3))
    return plan, LearningCurve(of, plan, SEEDS, 1e-3, measured=3)


def test_a_learning_curve_has_losses_prices_and_the_average_over_kept_steps() -> None:
    of = network()
    plan, curve = watched(of)
    theta = run(of, [plan.work], SEEDS, random.generator(1, "c"))  # with kept steps
    last = run(of, [curve.kept(plan).work], SEEDS, random.generator(1, "c"), observe=curve)
    assert torch.equal(last[:, :, -1], theta[:, :, -1])  # what watches decides nothing
    assert plan.work.keep == (5, 6)
    assert curve.average is not None
    wanted = torch.stack([of.predict(theta[:, :, k]) for k in (0, 1)]).mean(0)
    torch.testing.assert_close(curve.average, wanted)
    rows = pd.DataFrame(curve.state["curve"])
    assert list(rows.seed) == [0, 1] * 3
    assert rows.epoch.tolist() == pytest.approx([k / 3 for k in (1, 1, 2, 2, 3, 3)])
    right = (of.predict(theta[:, :, -1])[:, 0].argmax(-1) == of.y_test).double().mean(-1)
    assert rows.accuracy.tolist()[-2:] == pytest.approx(right.tolist())
    assert rows.epsilon_add_remove.is_monotonic_increasing
    assert (rows.epsilon_replace_one > rows.epsilon_add_remove).all()
    for kind in ("add_remove", "replace_one"):
        price = Tight().epsilon(plan.guarantee.event, 1e-3, kind)
        assert rows[f"epsilon_{kind}"].iloc[-1] == price
    assert rows.loss.between(0.5, 3).all()


def test_a_killed_run_has_the_same_learning_curve(tmp_path: Path) -> None:
    of = network()

    def go(checkpoint: Checkpoint) -> tuple[Tensor, Any, pd.DataFrame]:
        plan, curve = watched(of)
        work, rng = curve.kept(plan).work, random.generator(1, "c")
        theta = run(of, [work], SEEDS, rng, observe=curve, checkpoint=checkpoint)
        return theta, curve.average, pd.DataFrame(curve.state["curve"])

    one, average, rows = go(Checkpoint(tmp_path / "whole.pt", "key"))
    with pytest.raises(Stop):
        go(Stopping(tmp_path / "c.pt", 4))
    other, same, again = go(Checkpoint(tmp_path / "c.pt", "key"))
    assert torch.equal(one, other)
    assert torch.equal(average, same)
    assert rows.equals(again)


# Refusals and sizes


def test_chains_that_cannot_share_batches_are_refused() -> None:
    one, rng = chain("poisson"), torch.Generator()
    larger, few = one._replace(sampling=Sampling("poisson", TAU + 1, 2.0)), one.step[:3]
    for other in (larger, one._replace(step=few), one._replace(keep=(1,))):
        with pytest.raises(ValueError, match="need equally many steps, one batch size and one `keep`"):
            run(problem(), [one, other], 1, rng)
    with pytest.raises(ValueError, match=r"clip \[0\.0\] must be positive"):
        run(problem(), [chain("poisson", clip=0.0)], 1, rng)
    for step, named in ((1e-44, "step size/minibatch 1.4e-45"), (1e32, "noise of a step")):
        fused = chain("subset")._replace(step=torch.full((STEPS,), step), noise_std=torch.ones(STEPS))
        with pytest.raises(ValueError, match=f"{named}.* out of the range of float32"):
            run(logistic(n=N), [fused], 1, rng)
    with pytest.raises(ValueError, match=r"epochs cannot share minibatches with others: \['poisson', "):
        run(problem(), [chain("shuffled"), one], 1, rng)
    with pytest.raises(ValueError, match="may overflow float32"):
        run(problem(), [chain("poisson", clip=1e38)], 1, rng)
    wild = one._replace(step=torch.full((STEPS,), 1e39, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"step \d+: .*lower its step size"):
        run(problem(), [wild], 1, rng)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"scheme": "bernoulli"}, "scheme must be one of poisson, subset, random_allocation, shuffled, full"),
        ({"scheme": "full", "batch": 3}, "scheme full takes all rows"),
        ({"scheme": "poisson", "batch": 0}, "batch must be a whole number"),
        ({"scheme": "subset", "batch": 2.5}, "batch must be a whole number"),
        ({"scheme": "poisson", "batch": 2, "epochs": math.inf}, "epochs must be positive and finite"),
        ({"scheme": "poisson", "batch": 2, "epochs": -1}, "epochs must be positive and finite"),
    ],
)
def test_sampling_out_of_its_domain(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Sampling(**given)


def test_one_rounding_of_steps() -> None:
    """Never more passes than are stated; None stands for sqrt(n)."""
    assert Sampling("poisson", 128, 30).steps(50_000) == 11_718
    assert Sampling("subset").size(32_561) == 180
    assert Sampling("subset").steps(10_000) == 10_000
    shuffled = Sampling("shuffled", 128, 30)  # 390 whole minibatches an epoch
    assert (shuffled.steps(50_000), shuffled.ends(50_000)) == (11_700, tuple(range(390, 11_701, 390)))
    assert Sampling("subset", 4, 2.5).ends(10) == (2, 5, 6)
    assert (Sampling("full", None, 2.5).size(7), Sampling("full", None, 2.5).steps(7)) == (7, 2)
    with pytest.raises(ValueError, match="make no step with batch = 40: raise epochs"):
        Sampling("poisson", 40, 0.01).steps(400)


def test_each_record_is_in_one_random_minibatch_of_an_epoch() -> None:
    steps, seeds = N // TAU, 2000
    drawn = random.allocations(7, seeds, N, TAU, 0)
    places = torch.zeros(2, seeds, N, dtype=torch.long)
    for place in places:
        seen = torch.zeros(seeds, N, dtype=torch.long)
        for t in range(steps):
            rows, sizes = next(drawn)
            inside = torch.arange(rows.shape[1]) < sizes[:, None]
            used = torch.zeros(seeds, N, dtype=torch.long).scatter_add_(1, rows, inside.long())
            seen += used
            place += t * used
            # independent of each other, so that sizes are binomial
            assert used.float().mean(0).sub(1 / steps).abs().max() < 5 * math.sqrt(1 / steps / seeds)
            assert float(sizes.float().var()) == pytest.approx(N / steps * (1 - 1 / steps), rel=0.2), t
        assert bool((seen == 1).all())
    # drawn anew for each epoch: the price of several epochs is that of independent places
    assert float((places[0] == places[1]).float().mean()) == pytest.approx(1 / steps, abs=0.02)
    resumed, _ = next(random.allocations(7, 3, N, TAU, steps + 1))
    full = list(zip(range(steps + 2), random.allocations(7, 3, N, TAU, 0), strict=False))
    assert bool((resumed == full[-1][1][0]).all())
    allocated = Sampling("random_allocation", 128, 30)
    assert (allocated.steps(50_000), allocated.ends(50_000)[0]) == (11_700, 390)


@pytest.mark.parametrize(("scheme", "bits"), [("random_allocation", 125), ("shuffled", 31)])
def test_only_secret_places_need_a_seed_that_nobody_can_try(
    scheme: Any, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    name = "allocations" if scheme == "random_allocation" else "epochs"

    def drawn(seed: int, *given: Any) -> Any:
        seen.append(seed)
        return getattr(random, name)(seed, *given)

    monkeypatch.setattr(f"dplangevin.samplers.chains.loop.{name}", drawn)
    for label in "abcdefgh":
        run(problem(), [chain(scheme)], SEEDS, random.generator(0, label))
    assert max(seed.bit_length() for seed in seen) in range(bits - 6, bits + 1)
    assert len({*seen}) == 8


def test_kept_steps_are_evenly_spaced_after_the_burn_in() -> None:
    assert thinned(10, 0.5, 3) == (7, 9, 10)
    assert thinned(10, 0.0, 1) == (10,)
    assert thinned(3, 0.0, 50) == (1, 2, 3)


def test_step_sizes() -> None:
    facts = Facts(10, 2, 2, smoothness=4.0, mean_smoothness=2.0, private={"mean_smoothness": "seen"})
    assert Steps(0.5).sizes(facts, 2).tolist() == [0.5, 0.5]
    assert Steps(0.5, "smoothness").sizes(facts, 1, 0.2).tolist() == [0.5 / 4]
    found = Steps(0.5, "mean_smoothness", "ryffel2022").sizes(facts, 5, 0.2)
    np.testing.assert_allclose(found, [1 / (2 * 2.2 + 0.1 * k) for k in range(5)])
    np.testing.assert_allclose(Steps(0.3, schedule="li2019").sizes(facts, 8)[[0, 7]], [0.3, 0.15])
    cosine = Steps(0.4, schedule="cosine").sizes(facts, 100, factor=0.5)
    assert (float(cosine[0]), float(cosine[50])) == pytest.approx((0.2, 0.1))
    assert 0 < float(cosine[-1]) < 1e-3
    units: Any = ("absolute", "smoothness", "mean_smoothness")
    assert [Steps(0.5, unit).read(facts) for unit in units] == [(), (), ("seen",)]
