"""The samplers of li2019 and wang2015 and DP-SGD: what each one is, and what all of them promise."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from dp_accounting import PoissonSampledDpEvent
from hydra.utils import instantiate
from sampling import config
from scenarios import gaussian, logistic
from torch import Tensor

from dplangevin import noise
from dplangevin.kernels.sghmc import SghmcState, sghmc
from dplangevin.kernels.sgld import SgldState, sgld
from dplangevin.kernels.sgnht import SgnhtState, sgnht
from dplangevin.losses import softmax
from dplangevin.methods import Release
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.li2019 import Li2019
from dplangevin.privacy.accountants.protocol import leaves
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.stepsize import multiplier_of
from dplangevin.problem import Problem
from dplangevin.sgmcmc import thinned

SAMPLED = ["dp_sgld_li2019", "dp_sgd"]  # Poisson
PRIVATE = [*SAMPLED, "dp_sghmc", "dp_sgfs", "hybrid_sgld", "ops_gdp"]
INF = math.inf


def make(name: str, **overrides: Any) -> Any:
    return instantiate(config().method[name], **overrides)


def run(name: str, epsilons: list[float], problem: Any = None, **overrides: Any) -> Release:
    return drawn(make(name, **overrides), epsilons, problem or logistic(), name)


def drawn(method: Any, epsilons: list[float], problem: Problem, label: str = "") -> Release:
    return method(problem, [Budget(epsilon, 1e-5) for epsilon in epsilons], noise.generator(0, label))


def three_classes() -> Problem:
    problem = logistic()
    y = (problem.x[..., 0] > 0).float() + (problem.x[..., 1] > 0).float()
    return replace(problem, y=y, loss=softmax(3))


@pytest.mark.parametrize("name", [*PRIVATE, "sgld"])
@pytest.mark.parametrize("shared", [True, False])
def test_releases_have_the_promised_shape_and_repeat_to_the_byte(name: str, shared: bool) -> None:
    problem = logistic(shared=shared)
    epsilons = [0.5, 4.0] if name != "sgld" else [INF]
    first, second = run(name, epsilons, problem), run(name, epsilons, problem)
    assert first.theta.shape[:2] == (3, len(epsilons))
    assert first.theta.shape[3] == problem.d
    assert first.theta.isfinite().all()
    assert first.theta.numpy().tobytes() == second.theta.numpy().tobytes()
    assert first.guarantee == second.guarantee
    assert len(first.info["violated"]) == len(epsilons)
    assert not torch.equal(first.theta[0], first.theta[1])


@pytest.mark.parametrize("name", PRIVATE)
def test_guarantees_recompute_from_their_events_and_fit_the_budget(name: str) -> None:
    method, epsilons = make(name), [0.05, 1.0, 20.0]
    for epsilon, guarantee in zip(epsilons, run(name, epsilons).guarantee, strict=True):
        claimed = method.accountant.epsilon(guarantee.event, guarantee.delta, guarantee.adjacency)
        assert claimed == guarantee.epsilon
        assert guarantee.epsilon <= epsilon * (1 + 1e-6)
        assert guarantee.delta <= 1e-5
        capped = epsilon > 4 and name in ("dp_sgld_li2019", "hybrid_sgld", "ops_gdp")
        assert guarantee.epsilon > 0.999 * epsilon or capped
    assert run(name, [INF]).guarantee[0].epsilon == INF


@pytest.mark.parametrize("name", ["sgld", *SAMPLED, "dp_sghmc", "dp_sgfs"])
def test_budgets_and_repeats_at_once_are_as_one_at_a_time(name: str) -> None:
    """A budget's chain does not depend on the budgets beside it, a repeat's not on the data of other repeats."""
    problem, epsilons = logistic(), [0.5, 4.0] if name != "sgld" else [INF, INF]
    both = run(name, epsilons, problem).theta
    for e, epsilon in enumerate(epsilons):
        alone = run(name, [epsilon], problem).theta
        assert torch.allclose(both[:, e], alone[:, 0], rtol=1e-4, atol=1e-4 * float(alone.abs().max()))
    others = replace(problem, y=torch.cat([problem.y[:1], -problem.y[1:]]))
    changed = run(name, epsilons, others).theta
    assert torch.allclose(both[0], changed[0], rtol=1e-4, atol=1e-4 * float(both[0].abs().max()))
    assert not torch.allclose(both[1], changed[1], rtol=1e-2)


@pytest.mark.parametrize("name", ["sgld", *SAMPLED, "dp_sghmc", "dp_sgfs"])
def test_any_convex_problem_will_do(name: str) -> None:
    problem = three_classes()
    theta = run(name, [INF], problem).theta
    assert theta.shape[3] == problem.d == 15
    start, end = torch.zeros(3, 1, problem.d), theta.mean(2)
    assert bool((problem.value_and_grad(end)[0] < problem.value_and_grad(start)[0]).all())


def test_dp_sgld_is_dp_sgd_at_the_step_size_it_is_tied_to() -> None:
    """Same generator, same noise multiplier: the same theta, bit for bit."""
    problem = logistic()
    for epsilon in (0.1, 1.0, 3.0):
        tied = make("dp_sgld_li2019", step=100.0)
        eta, multiplier = tied.calibrate(problem, Budget(epsilon, 1e-5))
        setting: dict[str, Any] = {"records": problem.n, "batch": 256, "lipschitz": 1.0}
        assert multiplier == pytest.approx(multiplier_of(eta, **setting), rel=1e-12)
        free = make("dp_sgd", step=eta * problem.smoothness, samples=tied.samples, burn_in=tied.burn_in)
        one, other = (drawn(method, [epsilon], problem) for method in (tied, free))
        assert one.guarantee == other.guarantee
        assert torch.equal(one.theta, other.theta)
        doubled = drawn(replace(free, step=2 * free.step), [epsilon], problem)
        assert not torch.equal(one.theta, doubled.theta)


@pytest.mark.parametrize("temperature", ["printed", "proper"])
@pytest.mark.parametrize("schedule", ["fixed", "decreasing"])
def test_dp_sgld_accounts_for_the_noise_that_it_adds(schedule: str, temperature: str) -> None:
    """With clip L and steps whose gradients vanish, the variance of theta is that of the noise in the event."""
    problem = logistic(repeats=2000, shared=True, n=300, d=2)
    still = replace(problem, x=torch.zeros_like(problem.x))  # no gradients
    batches = {"batch": 20, "passes": 2}
    settings: dict[str, Any] = {"clip": 0.5, "precision": 0.0, "samples": 1, "minibatches": batches}
    kind = {"schedule": schedule, "temperature": temperature}
    settings |= {"accountant": {"max_order": 32}, "step": 1e6, **kind}
    release = run("dp_sgld_li2019", [1.0], still, **settings)
    (promise,) = release.guarantee
    first = next(leaves(promise.event))[0]
    assert isinstance(first, PoissonSampledDpEvent)
    assert first.sampling_probability == 20 / 300
    heat = 1 if temperature == "printed" else 2
    eta = heat * 20**2 / (300 * (0.5 * first.event.noise_multiplier) ** 2)
    times = np.arange(1, 31) ** (-1 / 3 if schedule == "decreasing" else 0.0)
    expected = heat * eta / 300 * times.sum()
    assert float(release.theta.double().var()) == pytest.approx(expected, rel=0.08)


def test_proper_temperature_doubles_the_step_size() -> None:
    problem, budget = logistic(), Budget(0.1, 1e-5)
    (cold, one), (warm, other) = (
        make("dp_sgld_li2019", temperature=kind).calibrate(problem, budget) for kind in ("printed", "proper")
    )
    assert one == other  # the multiplier that the budget needs
    assert warm == pytest.approx(2 * cold, rel=1e-12)


@pytest.mark.parametrize(("temperature", "share"), [("printed", 0.5), ("proper", 1.0)])
def test_sgld_has_the_posteriors_covariance_only_if_proper(temperature: str, share: float) -> None:
    problem, _, covariance = gaussian(repeats=400, n=200)
    batches = {"batch": 200, "passes": 300}  # at rate 1 a Poisson sample is the data set
    settings = {"temperature": temperature, "minibatches": batches, "burn_in": 0.3, "precision": 0.0}
    draws = run("sgld", [INF], problem, step=0.3, **settings).theta[:, 0].double()
    ratio = torch.linalg.solve(covariance, torch.cov(draws.flatten(0, 1).T)).trace() / problem.d
    assert float(ratio) == pytest.approx(share, rel=0.08)


def test_dp_sgld_at_infinite_epsilon_is_sgld() -> None:
    """The clip is the Lipschitz constant, which cuts nothing."""
    for schedule in ("fixed", "decreasing"):
        private = drawn(make("dp_sgld_li2019", schedule=schedule), [INF, 50.0], logistic())
        plain = drawn(make("sgld", schedule=schedule), [INF, INF], logistic())
        # 50 is more than the public step costs: the chain is the same, and cheaper than its budget
        assert torch.equal(private.theta, plain.theta)
        assert private.guarantee[1].epsilon < 49


def test_the_clip_bounds_every_row() -> None:
    """One step of one row moves theta by at most eta clip/tau, however long the row."""
    problem = logistic(n=4)
    settings = {
        "minibatches": {"batch": 4, "passes": 1},
        "precision": 0.0,
        "clip": 0.1,
        "samples": 1,
        "step": 0.05,
    }
    scaled = replace(problem, x=torch.cat([50 * problem.x[:, :1], 0 * problem.x[:, 1:]], 1))
    moved = drawn(make("dp_sgd", **settings), [INF], scaled).theta
    assert moved.norm(dim=-1).flatten().tolist() == pytest.approx(3 * [0.05 / 0.25 * 0.1 / 4], rel=1e-5)


@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_either_adjacency_with_an_accountant_that_has_it(name: str, adjacency: str) -> None:
    method = replace(make(name), adjacency=adjacency, accountant=Tight())
    (promise,) = drawn(method, [0.5], logistic()).guarantee
    assert (promise.adjacency, promise.sampling) == (adjacency, "poisson")
    assert Tight().epsilon(promise.event, 1e-5, promise.adjacency) == promise.epsilon
    assert 0.999 * 0.5 < promise.epsilon <= 0.5
    if adjacency == "add_remove":  # the other relation costs more
        assert Tight().epsilon(promise.event, 1e-5, "replace_one") > 0.6


def test_the_paper_s_accountant_has_one_adjacency_and_32_orders() -> None:
    with pytest.raises(ValueError, match="cannot price adjacency 'replace_one'"):
        run("dp_sgld_li2019", [1.0], adjacency="replace_one")
    with pytest.raises(ValueError, match=r"cannot report an epsilon below ln\(1/delta\)/max_order = 0.3598"):
        run("dp_sgld_li2019", [0.05], accountant={"max_order": 32})
    assert make("dp_sgld_li2019").accountant == Li2019(2048)


def minibatch_steps(problem: Problem, steps: int, label: str) -> Iterator[tuple[Tensor, Tensor]]:
    """What a method's loop draws after its velocities, if it has any."""
    rng = noise.generator(0, label)
    if label in ("dp_sghmc", "dp_sgnht"):
        torch.randn(problem.repeats, 1, problem.d, generator=rng)
    return noise.minibatch_stream(rng, problem.repeats, problem.n, 20, problem.d, steps)


def eta_of(problem: Problem, share: float) -> Tensor:
    return torch.tensor([[share / (0.25 * problem.n)]])


@pytest.mark.parametrize("name", ["dp_sgld", "dp_sghmc", "dp_sgnht"])
def test_private_chains_at_infinite_epsilon_are_their_kernels_bit_for_bit(name: str) -> None:
    problem, a, share = logistic(), 0.3, 0.2
    settings = {"step": share, "samples": 7, "minibatches": {"batch": 20, "passes": 2}, "precision": 0.7}
    settings |= {"schedule": "constant"} if name == "dp_sgld" else {"friction": a}
    released = run(name, [INF], problem, **settings).theta
    steps, eta = 40, eta_of(problem, share)
    theta = torch.zeros(3, 1, 5)
    velocity = eta.sqrt() * torch.randn(3, 1, 5, generator=noise.generator(0, name))
    kernels: dict[str, Any] = {
        "dp_sgld": (sgld(), SgldState(theta), eta.sqrt()),
        "dp_sghmc": (sghmc(a), SghmcState(theta, velocity), (2 * a * eta).sqrt()),
        "dp_sgnht": (sgnht(), SgnhtState(theta, velocity, torch.full((3, 1, 1), a)), (2 * a * eta).sqrt()),
    }
    kernel, state, std = kernels[name]
    kept = []
    for rows, normals in minibatch_steps(problem, steps, name):
        gradient = problem.batch_grad(state.theta, rows) * (problem.n / 20) + 0.7 * state.theta
        state = kernel.step(state, gradient, std * normals, eta)
        kept.append(state.theta)
    expected = torch.stack([kept[t - 1] for t in thinned(steps, 0.5, 7)], 2)
    assert torch.equal(released, expected)


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("dp_sgld_li2019", {"clip": 0.0}, "clip must be positive and finite, not 0.0"),
        ("dp_sgld_li2019", {"schedule": "constant"}, r"schedule must be one of \('fixed', 'decreasing'\)"),
        ("dp_sgld_li2019", {"temperature": "hot"}, r"temperature must be one of \('printed', 'proper'\)"),
        ("dp_sgld_li2019", {"minibatches": {"batch": 0}}, "batch must be a whole number >= 1, not 0"),
        ("sgld", {"burn_in": 1.0}, r"burn_in must be in \[0, 1\), not 1.0"),
        ("dp_sgd", {"step": -1.0}, "step must be positive and finite, not -1.0"),
        ("dp_sghmc", {"step": 0.1}, r"step must be in \(0, friction\) = \(0, 0.1\), not 0.1"),
        ("dp_sgfs", {"refresh": 0}, "refresh must be positive and finite, not 0"),
    ],
)
def test_wrong_settings_are_named(name: str, overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        make(name, **overrides)


def test_what_cannot_be_run_is_named() -> None:
    with pytest.raises(ValueError, match="batch = 500 is larger than the data set"):
        run("dp_sgd", [1.0], minibatches={"batch": 500})
    with pytest.raises(ValueError, match=r"sgld keeps no budget: epsilon must be inf, not 1\.0"):
        run("sgld", [1.0])
