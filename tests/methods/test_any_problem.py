"""Every method on every convex loss: what it releases, what it promises, and its limit without privacy."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from scenarios import gaussian, linear, logistic, multinomial

from dplangevin import noise
from dplangevin.methods import Release
from dplangevin.minimise import minimise
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problem import Problem

CONF = Path(__file__).parents[2] / "conf"
CONFIG = OmegaConf.create(
    {
        group: {path.stem: OmegaConf.load(path) for path in sorted((CONF / group).glob("*.yaml"))}
        for group in ("accountant", "method")
    }
)
METHODS = [
    "nonprivate", "ops", "ops_gdp", "objpert", "objpert_pure", "outpert", "dp_sgld", "dp_sgnht", "hybrid",
    "hybrid_sgld", "dp_sgld_li2019", "sgld", "dp_sgd", "dp_sghmc", "dp_sgfs", "dpvi", "pate",
]  # fmt: skip
UNBUDGETED = ["nonprivate", "sgld"]
LIMITS_TO_FIT = ["nonprivate", "objpert", "objpert_pure", "outpert"]
PROBLEMS: dict[str, Callable[..., Problem]] = {"logistic": logistic, "softmax": multinomial, "huber": linear}
NO_CLASSES = "pate needs classes to vote for, which the huber loss has not"

SAMPLER = {"warmup": 20, "block": 20, "max_draws": 20}
POISSON = {"batch": 40, "passes": 2}
SMALL: dict[str, dict[str, Any]] = {  # what makes a method quick on 200 rows
    "ops": {"sampler": SAMPLER},
    "ops_gdp": {"sampler": SAMPLER},
    "hybrid": {"first": {"sampler": SAMPLER}, "second": {"minibatches": {"passes": 3}}},
    "hybrid_sgld": {"first": {"sampler": SAMPLER}, "second": {"minibatches": {"passes": 3}}},
    "dp_sgfs": {"minibatches": {"passes": 1}, "refresh": 3},
    "pate": {"teachers": 20, "queries": 30, "answers": 10, "threshold": 12.0},
    **{name: {"minibatches": {"passes": 3}} for name in ("dp_sgld", "dp_sgnht", "dp_sghmc")},
    **{name: {"minibatches": POISSON} for name in ("dp_sgld_li2019", "sgld", "dp_sgd", "dpvi")},
}
EVERY = [
    pytest.param(name, loss, id=f"{name}-{loss}")
    for name in METHODS
    for loss in PROBLEMS
    if (name, loss) != ("pate", "huber")
]


def build(loss: str, shared: bool) -> Problem:
    problem = PROBLEMS[loss](n=200, shared=shared)
    return replace(problem, public=problem.x[:, :60])


def make(name: str, **overrides: Any) -> Any:
    changed = OmegaConf.merge(CONFIG, {"method": {name: {**SMALL.get(name, {}), **overrides}}})
    return instantiate(changed.method[name])


def run(name: str, problem: Problem, epsilons: list[float], **overrides: Any) -> Release:
    budgets = [Budget(epsilon, 1e-5) for epsilon in epsilons]
    return make(name, **overrides)(problem, budgets, noise.generator(0, name))


@pytest.mark.parametrize(("name", "loss"), EVERY)
@pytest.mark.parametrize("shared", [True, False])
def test_releases_are_finite_and_their_guarantees_recompute(name: str, loss: str, shared: bool) -> None:
    problem = build(loss, shared)
    epsilons = [math.inf] if name in UNBUDGETED else [0.3, 5.0]
    release = run(name, problem, epsilons)
    repeats, budgets, _, d = release.theta.shape
    assert (repeats, budgets, d) == (3, len(epsilons), problem.classes * problem.features)
    assert bool(release.theta.isfinite().all())
    if name != "pate":  # its student may have been told nothing
        assert not torch.equal(release.theta[0], release.theta[1]) or (shared and name == "nonprivate")
    accountant = make(name).accountant
    for epsilon, guarantee in zip(epsilons, release.guarantee, strict=True):
        claimed = accountant.epsilon(guarantee.event, guarantee.delta, guarantee.adjacency)
        assert claimed == guarantee.epsilon
        assert claimed <= epsilon * (1 + 1e-6)
        assert guarantee.delta <= 1e-5
        assert Tight().epsilon(guarantee.event, 1e-5, guarantee.adjacency) <= epsilon * (1 + 1e-3)


@pytest.mark.parametrize("loss", PROBLEMS)
@pytest.mark.parametrize("shared", [True, False])
def test_without_privacy_fits_are_the_minimum(loss: str, shared: bool) -> None:
    problem = build(loss, shared)
    ridge = 0.3
    fit = minimise(problem, torch.tensor([ridge]), torch.zeros(3, 1, problem.d)).theta
    assert float((problem.to(torch.float64).grad(fit) + ridge * fit).norm(dim=-1).max()) < 1e-6 * problem.n
    for name in LIMITS_TO_FIT:
        asked = ridge / problem.n if name == "outpert" else ridge
        theta = run(name, problem, [math.inf], ridge=asked).theta[:, :, 0]
        assert float((theta - fit).abs().max()) < 1e-5, name


@pytest.mark.parametrize("loss", ["softmax", "huber"])
def test_ops_spends_its_budget_on_the_losses_own_range(loss: str) -> None:
    problem = build(loss, True)
    largest, spread = problem.on_ball(3.0)
    for bound, share in (("paper", 4 * largest), ("range", 2 * spread)):
        release = run("ops", problem, [1.0], bound=bound, radius=3.0)
        assert release.guarantee[0].event.rho == pytest.approx(1 / share)
        assert float(release.theta.norm(dim=-1).max()) <= 3.0 * (1 + 1e-4)


@pytest.mark.parametrize(
    ("loss", "rank", "one_sided"), [("logistic", 1, True), ("softmax", 2, False), ("huber", 1, False)]
)
def test_objective_perturbation_is_priced_for_what_its_loss_is(loss: str, rank: int, one_sided: bool) -> None:
    problem = build(loss, True)
    event = run("objpert", problem, [0.5], ridge=0.0).guarantee[0].event
    assert (event.rank, event.one_sided, event.lipschitz) == (rank, one_sided, problem.lipschitz)
    trace = {"logistic": 1 / 4, "softmax": 2 / 3, "huber": 1.0}[loss]
    assert event.ridge == pytest.approx(2 * trace / (0.5 / 1.5))
    assert run("objpert_pure", problem, [0.5]).guarantee[0].event.rank == rank


@pytest.mark.parametrize("name", ["outpert", "objpert", "objpert_pure", "ops_gdp"])
def test_longer_rows_are_paid_for(name: str) -> None:
    problem = build("softmax", True)
    longer = replace(problem, x=4 * problem.x, row_bound=4.0)
    one, four = (run(name, p, [1.0]).guarantee[0] for p in (problem, longer))
    assert "||x|| <= 4" in four.assumptions
    if name == "outpert":  # 2 L/(n ridge) times the multiplier, which only the budget decides
        assert four.event == one.event
        apart = [run(name, p, [1.0]).theta - run(name, p, [math.inf]).theta for p in (problem, longer)]
        assert torch.allclose(apart[1], 4 * apart[0], rtol=1e-6)
    elif name == "objpert":
        assert four.event.noise_std == pytest.approx(4 * one.event.noise_std)
        assert four.event.ridge == pytest.approx(16 * one.event.ridge)
    elif name == "objpert_pure":
        assert four.event.rate * four.event.lipschitz == pytest.approx(0.25)  # eps/2 is left for the noise
    else:
        assert four.event == one.event  # rho is a quarter


@pytest.mark.parametrize(
    "name", ["ops", "ops_gdp", "objpert", "objpert_pure", "outpert", "dp_sgld", "dp_sgnht", "dp_sghmc"]
)
def test_squared_errors_are_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match="squared is not"):
        run(name, gaussian()[0], [1.0])


def test_pate_refuses_linear_regression() -> None:
    with pytest.raises(ValueError, match=NO_CLASSES):
        run("pate", build("huber", True), [1.0])
