"""What every method must promise, and what each one is."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import torch
from hydra.utils import instantiate
from scenarios import gaussian, logistic

from dplangevin import noise
from dplangevin.config import load
from dplangevin.methods import Release
from dplangevin.minimise import minimise
from dplangevin.privacy import Budget

PARAMS = load()
PRIVATE = [name for name in PARAMS.method if instantiate(PARAMS.method[name]).budgeted]
# with enough of a budget these spend less: rho stops at 1, the step size at the largest that is stable
CAPPED = ("ops", "ops_gdp", "hybrid", "hybrid_sgld", "dp_sgld_li2019")
LIMITS_TO_FIT = [
    "objpert",
    "objpert_pure",
    "outpert",
]  # at eps = inf; samplers have a posterior there, not a fit
COLD, WARM = {"temperature": "printed"}, {"temperature": "proper"}
LIMITS_TO_CHAIN = ["dp_sgld", "dp_sgnht"]


def make(name: str, **overrides: Any) -> Any:
    return instantiate(PARAMS.method[name], **overrides)


def run(name: str, epsilons: list[float], problem: Any = None, **overrides: Any) -> Release:
    problem = problem or logistic()
    if name == "pate":  # which asks its teachers about public rows, and has a teacher for each few rows
        problem = replace(problem, public=problem.x)
        overrides = {"teachers": 20, "threshold": 15.0, **overrides}
    budgets = [Budget(epsilon, 1e-5) for epsilon in epsilons]
    return make(name, **overrides)(problem, budgets, noise.generator(0, name))


@pytest.mark.parametrize("name", PARAMS.method)
@pytest.mark.parametrize("shared", [True, False])
def test_releases_have_the_promised_shape_and_repeat_to_the_byte(name: str, shared: bool) -> None:
    problem = logistic(shared=shared)
    epsilons = [0.5, 4.0] if name in PRIVATE else [math.inf]
    first, second = run(name, epsilons, problem), run(name, epsilons, problem)
    assert first.theta.shape[:2] == (3, len(epsilons))
    assert first.theta.shape[3] == problem.d
    assert first.theta.isfinite().all()
    assert first.theta.numpy().tobytes() == second.theta.numpy().tobytes()
    assert first.guarantee == second.guarantee
    assert len(first.info["violated"]) == len(epsilons)
    if name in PRIVATE:  # repeats draw their own noise
        assert not torch.equal(first.theta[0], first.theta[1])


@pytest.mark.parametrize("name", PRIVATE)
def test_guarantees_recompute_from_their_events_and_fit_the_budget(name: str) -> None:
    method = make(name)
    epsilons = [0.05, 1.0, 20.0]
    for epsilon, guarantee in zip(epsilons, run(name, epsilons).guarantee, strict=True):
        claimed = method.accountant.epsilon(guarantee.event, guarantee.delta, guarantee.adjacency)
        assert claimed == guarantee.epsilon
        assert guarantee.epsilon <= epsilon * (1 + 1e-6)
        assert guarantee.delta <= 1e-5
        if not (name in CAPPED and epsilon > 4):
            assert guarantee.epsilon > 0.999 * epsilon


@pytest.mark.parametrize("name", LIMITS_TO_FIT)
def test_at_infinite_epsilon_perturbation_is_the_plain_fit(name: str) -> None:
    problem = logistic()
    ridge = 0.3 if name != "outpert" else 0.3 / problem.n
    theta = run(name, [math.inf], problem, ridge=ridge).theta[:, :, 0]
    fit = minimise(problem, torch.tensor([0.3]), torch.zeros(3, 1, problem.d)).theta
    assert float((theta - fit).abs().max()) < 1e-5
    assert torch.allclose(
        run("nonprivate", [math.inf], problem, ridge=0.3).theta[:, :, 0].double(), fit, atol=1e-6
    )


@pytest.mark.parametrize("name", LIMITS_TO_CHAIN)
def test_at_infinite_epsilon_chains_add_no_privacy_noise(name: str) -> None:
    release = run(name, [math.inf, 1e12])
    assert release.guarantee[0].epsilon == math.inf
    # a budget that is never felt gives the same chain
    assert torch.allclose(release.theta[:, 0], release.theta[:, 1], atol=2e-3)


def test_objpert_minimises_the_perturbed_objective_that_its_event_names() -> None:
    problem = logistic(repeats=1)
    release = run("objpert", [1.0], problem, ridge=0.0)
    event = release.guarantee[0].event
    eps = 1 / 1.5
    assert event.ridge == pytest.approx(2 * 0.25 / eps)
    assert event.noise_std == pytest.approx(math.sqrt(8 * math.log(2e5) + 4 * eps) / eps)
    b = noise.gaussian(noise.generator(0, "objpert"), 1, 5, torch.float64)[0, 0].numpy() * event.noise_std
    x, y = problem.x[0].double().numpy(), problem.y[0].numpy()

    def objective(t: np.ndarray) -> float:
        return np.logaddexp(0, -y * (x @ t)).sum() + event.ridge / 2 * t @ t + b @ t

    other = scipy.optimize.minimize(objective, np.zeros(5), method="BFGS", options={"gtol": 1e-7})
    assert np.abs(release.theta[0, 0, 0].numpy() - other.x).max() < 1e-4
    assert run("objpert", [1.0], adjacency="add_remove").guarantee[0].event.ridge == pytest.approx(0.5)


def test_outpert_noise_has_the_analytic_gaussian_scale() -> None:
    problem = logistic(repeats=2000, shared=True, n=200)
    release = run("outpert", [1.0], problem, ridge=0.05)
    theta = release.theta[:, 0, 0]
    sensitivity = 2 / (200 * 0.05)
    assert float((theta - theta.mean(0)).std()) == pytest.approx(3.73063 * sensitivity, rel=0.03)


def test_ops_recovers_the_gaussian_posterior_of_its_linear_twin() -> None:
    problem, mean, covariance = gaussian(repeats=4000)
    release = run(
        "ops", [math.inf], problem, radius=40.0, sampler={"warmup": 60, "block": 40, "max_draws": 40}
    )
    theta = release.theta[:, 0, 0].double()  # 4,000 chains, the last draw of each
    deviation = covariance.diagonal().sqrt()
    assert float(((theta.mean(0) - mean) / deviation).abs().max()) < 4.5 / math.sqrt(4000)
    assert float(((torch.cov(theta.T) - covariance) / deviation.outer(deviation)).abs().max()) < 0.1


@pytest.mark.parametrize(
    ("bound", "expected"), [("paper", 1 / (4 * math.log1p(math.e**3))), ("range", 1 / 6)]
)
def test_ops_scales_the_likelihood_by_its_bound(bound: str, expected: float) -> None:
    event = run("ops", [1.0, 1000.0], bound=bound, radius=3.0).guarantee
    assert event[0].event.rho == pytest.approx(expected)
    assert event[1].event.rho == 1.0
    assert event[0].delta == 0


def test_gdp_ops_is_priced_as_a_gaussian_mechanism() -> None:
    """mu = 2 rho/sqrt(precision) has (1, 1e-5) at mu = 1/3.73063."""
    release = run("ops", [1.0], bound="gdp", precision=4.0)
    rho = math.sqrt(4.0) / 2 / 3.73063
    assert release.guarantee[0].event.noise_multiplier == pytest.approx(math.sqrt(4.0) / rho, rel=1e-5)
    assert release.guarantee[0].delta == 1e-5


def test_chains_that_have_not_mixed_say_so() -> None:
    sampler = {"warmup": 1, "block": 6, "max_draws": 6}
    violated = run("ops", [1.0], sampler=sampler).info["violated"]
    assert "R-hat" in violated[0]
    assert ">= 1.05" in violated[0]


@pytest.mark.parametrize("schedule", ["phase", "constant", "harmonic"])
def test_dp_sgld_never_adds_less_than_theorem_4_asks(schedule: str) -> None:
    problem = logistic()
    method = make("dp_sgld", schedule=schedule)
    batches = method.minibatches
    variance = torch.tensor([batches.gradient_variance(problem, Budget(2.0, 1e-5))], dtype=torch.float64)
    steps, batch = batches.steps(problem), batches.size(problem)
    passes = steps * batch / problem.n
    logs = math.log(2.5 * problem.n * passes / (batch * 1e-5)) * math.log(2 / 1e-5)
    assert float(variance) == pytest.approx(128 * problem.n * passes / (batch * 4) * logs, rel=1e-12)
    eta = method.step_sizes(problem, steps, variance)[:, 0]
    guarantee = run("dp_sgld", [2.0], problem, schedule=schedule).guarantee[0]
    assert guarantee.epsilon == pytest.approx(2.0, rel=1e-6)
    if schedule == "phase":  # plain SGLD after the share alpha of the steps
        assert bool((eta[method.alpha * steps < torch.arange(1, steps + 1)] * variance < 1).all())
        assert float(eta[0] * variance) == pytest.approx(method.alpha * steps)
    if schedule == "harmonic":
        assert eta[:3].tolist() == pytest.approx([1 / 2, 1 / 3, 1 / 4])


@pytest.mark.parametrize(("temperature", "share"), [("printed", 0.5), ("proper", 1.0)])
def test_dp_sgld_has_the_posteriors_covariance_only_if_proper(temperature: str, share: float) -> None:
    problem, _, covariance = gaussian(repeats=400, n=200)
    batches = {"batch": 200, "passes": 300}
    settings = {"temperature": temperature, "schedule": "constant", "minibatches": batches, "burn_in": 0.3}
    draws = run("dp_sgld", [math.inf], problem, step=0.3, **settings).theta[:, 0].double()
    ratio = torch.linalg.solve(covariance, torch.cov(draws.flatten(0, 1).T)).trace() / problem.d
    assert float(ratio) == pytest.approx(share, rel=0.08)


def test_dp_sgld_is_as_printed_unless_asked() -> None:
    default, printed, proper = (run("dp_sgld", [50.0], **kind) for kind in ({}, COLD, WARM))
    assert default.theta.numpy().tobytes() == printed.theta.numpy().tobytes()
    assert not torch.equal(printed.theta, proper.theta)
    assert proper.guarantee[0].epsilon <= printed.guarantee[0].epsilon


def test_hybrid_starts_its_second_stage_from_the_first() -> None:
    release = run("hybrid", [2.0])
    assert release.theta.shape[2] == 51  # the posterior sample, then the chain's
    first = run("ops", [1.0])  # half of the budget
    assert release.guarantee[0].event.events[0] == first.guarantee[0].event
    moved = (release.theta[:, 0, 1:] - release.theta[:, 0, :1]).norm(dim=-1).max()
    assert 0 < float(moved) < 1


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("ops", {"bound": "tight"}, 'bound must be "paper", "range" or "gdp", not'),
        ("ops", {"radius": -1.0}, "radius must be positive and finite, not -1.0"),
        ("ops", {"bound": "gdp"}, 'bound "gdp" needs precision > 0'),
        ("objpert", {"ridge": -0.1}, "ridge must be finite and >= 0, not -0.1"),
        ("outpert", {"ridge": 0.0}, "ridge must be positive and finite, not 0.0"),
        ("dp_sgld", {"schedule": "linear"}, "schedule must be one of"),
        ("dp_sgld", {"temperature": "hot"}, r"temperature must be one of \('printed', 'proper'\), not 'hot'"),
        ("dp_sgld", {"alpha": 1.0}, r"alpha must be in \(0, 1\), not 1.0"),
        ("dp_sgnht", {"friction": 2.0}, r"friction must be in \(0, 1\), not 2.0"),
        ("hybrid", {"share": 0.0}, r"share must be in \(0, 1\), not 0.0"),
    ],
)
def test_wrong_settings_are_named(name: str, overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        make(name, **overrides)


@pytest.mark.parametrize("name", ["objpert", "dp_sgld", "dp_sgnht"])
def test_budgets_out_of_reach_are_errors(name: str) -> None:
    with pytest.raises(ValueError, match="needs delta > 0, not 0"):
        make(name)(logistic(), [Budget(1.0, 0.0)], noise.generator(0, name))


def test_minibatches_larger_than_the_data_are_errors() -> None:
    with pytest.raises(ValueError, match="batch = 401 is larger than the data set"):
        run("dp_sgld", [1.0], minibatches={"batch": 401})
    with pytest.raises(ValueError, match="nonprivate keeps no budget"):
        run("nonprivate", [1.0])
