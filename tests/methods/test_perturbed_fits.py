"""Output and objective perturbation and ridge fits, against other solvers and closed forms."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from scenarios import linear, logistic, multinomial
from scenarios import release as run

from dplangevin import random
from dplangevin.methods import Execution, outpert, perturbed_fits
from dplangevin.methods.objpert import ObjPert, ObjPertPure
from dplangevin.methods.outpert import OutPert, Ridge
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.analytic_gaussian import AnalyticGaussian, epsilon_of
from dplangevin.privacy.accountants.objective import Chaudhuri2011, Kifer2012
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problems.glm import Glm, linear_facts
from dplangevin.problems.losses import LOGISTIC, softmax
from dplangevin.samplers.minimise import estimated, minimise, private_minimum
from dplangevin.samplers.posterior import find_centre

MADE: dict[str, Callable[..., Glm]] = {"logistic": logistic, "softmax": multinomial, "huber": linear}


def left(problem: Glm, theta: torch.Tensor, ridge: torch.Tensor, linear: torch.Tensor) -> torch.Tensor:
    """Norms ``(S, E)`` of the gradient of the perturbed objective."""
    return (problem.to(torch.float64).grad(theta) + ridge[:, None] * theta + linear).norm(dim=-1)


def reached(problem: Glm, method: Any, *epsilons: float) -> bool:
    """Whether the solver reaches the bounds of its events, under perturbations of their scales."""
    works = [method.plan(problem.facts, Budget(epsilon, 1e-6)).work for epsilon in epsilons]
    ridge, scale, bound, _ = torch.tensor(works, dtype=torch.float64).T
    draw = random.gamma_ball if isinstance(method, ObjPertPure) else random.noise
    linear = draw(random.generator(0, "test"), 3, len(works), problem.d) * scale[:, None]
    theta = private_minimum(estimated(problem), ridge, linear, bound)
    return bool((left(problem, theta, ridge, linear) <= bound).all())


@pytest.mark.parametrize("loss", MADE)
@pytest.mark.parametrize("shared", [True, False])
def test_without_privacy_fits_are_the_minimum(loss: str, shared: bool) -> None:
    problem, ridge = MADE[loss](n=200, shared=shared), 0.3
    fit = minimise(problem, torch.tensor([ridge]), torch.zeros(3, 1, problem.d)).theta
    assert float((problem.to(torch.float64).grad(fit) + ridge * fit).norm(dim=-1).max()) < 1e-6 * problem.n
    for method in (
        Ridge(ridge),
        OutPert(ridge / problem.n, AnalyticGaussian()),
        ObjPert(Kifer2012(), ridge),
        ObjPert(Kifer2012(), 0.0, ridge / problem.n),
        ObjPertPure(ridge, Chaudhuri2011()),
    ):
        theta = run(method, problem, math.inf)[0].theta[:, :, 0]
        assert float((theta - fit).abs().max()) < 1e-5, method


@pytest.mark.parametrize("n", [3, 20_000])
@pytest.mark.parametrize("make", [ObjPert, ObjPertPure, OutPert])
def test_the_solver_reaches_the_gradient_that_its_event_names(
    make: Any, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise on the fit covers it; of a record's gradient it is a share that does not show."""
    made = []

    def seen(*given: Any) -> Any:
        made.append((given, private_minimum(*given)))
        return made[-1][1]

    where = outpert if make is OutPert else perturbed_fits
    monkeypatch.setattr(where, "private_minimum", seen)
    problem = logistic(n=n)
    _, plans = run(make(), problem, 0.01, 1.0, 100.0)
    ((of, ridge, linear, bound), theta) = made[0]
    assert bool((left(of, theta, ridge, linear) <= bound).all())
    for plan in plans:
        assert plan.work.gradient_bound < 1e-6 * problem.facts.lipschitz
        event: Any = plan.guarantee.event
        if make is ObjPert:
            covered = 2 * event.gradient_bound / (event.ridge * event.output_std)
            assert event.output_mu == pytest.approx(covered)
            assert epsilon_of(covered, 1e-7) == pytest.approx(0.01 * plan.guarantee.epsilon, rel=1e-6)
        elif make is ObjPertPure:
            assert event.output_epsilon == pytest.approx(0.01 * plan.guarantee.epsilon)


@pytest.mark.parametrize("data", ["faint", "common"])
@pytest.mark.parametrize("method", [ObjPert(), ObjPert(ridge=1e-3), ObjPertPure()])
def test_no_data_set_keeps_the_solver_from_its_bound_or_ends_it(data: str, method: Any) -> None:
    """Long theta on rows with a faint second direction; a Hessian that is singular in single precision."""
    n, rng = 20_000, torch.Generator().manual_seed(0)
    x = torch.ones(n, 30) + 0.01 * torch.randn(n, 30, generator=rng)
    if data == "faint":
        x = torch.tensor([[1.0, 1.0], [1e-3, -1e-3]]).repeat(n // 2, 1) / math.sqrt(2)
    x = x / x.norm(dim=1, keepdim=True).clamp_min(1.0)
    y = torch.where(torch.rand(n, generator=rng) < 0.5, 1.0, -1.0) if data == "common" else torch.ones(n)
    problem = Glm(x[None], y[None], LOGISTIC, row_bound=1.001)
    assert reached(problem, method, 1.0, 500.0)
    one = torch.ones(1, dtype=torch.float64)
    find_centre(problem.to(torch.float64), one, 0 * one, 10.0)


def test_rows_that_an_estimated_hessian_does_not_see_do_not_keep_the_solver_from_its_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The Hessian of a large problem is estimated from every second row; here these are all zero."""
    monkeypatch.setattr("dplangevin.samplers.minimise.LARGE", 0)
    monkeypatch.setattr("dplangevin.samplers.minimise.ROWS", 1000)
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(2000, 10, generator=rng)
    x = x / x.norm(dim=1, keepdim=True)
    x[::2] = 0.0
    problem = Glm(x[None], torch.ones(1, 2000), LOGISTIC)
    assert reached(problem, ObjPert(), 8.0)


@pytest.mark.parametrize(("adjacency", "share"), [("replace_one", 1.5), ("add_remove", 1.0)])
def test_objpert_minimises_the_perturbed_objective_that_its_event_names(adjacency: Any, share: float) -> None:
    problem, eps = logistic(seeds=1), 1 / share
    release, (plan,) = run(ObjPert(ridge=0.0, adjacency=adjacency), problem, 1.0, seeds=1)
    event: Any = plan.guarantee.event
    eps = 0.99 * eps  # the rest, and as much of delta, is for the noise on the fit
    assert event.ridge == pytest.approx(2 * 0.25 / eps)
    assert event.noise_std == pytest.approx(math.sqrt(8 * math.log(2e5 / 0.99) + 4 * eps) / eps)
    b = random.noise(random.generator(0, "test"), 5) * event.noise_std
    at, ridge = release.theta[:, :, 0].double(), torch.tensor([event.ridge])
    assert float(left(problem, at, ridge, b)) < 50 * event.output_std


@pytest.mark.parametrize("pure", [True, False])
def test_tight_and_pure_fits_are_stationary_at_the_ridge_and_noise_of_their_events(pure: bool) -> None:
    """The trace of a record's Hessian over its rank: 3/4 x^2 over 3, on rows of norm 1.5."""
    problem = multinomial(n=40, classes=4, shared=True)
    problem, beta = replace(problem, x=1.5 * problem.x, row_bound=1.5), 1.5**2 / 4
    method: Any = ObjPertPure(0.4, Chaudhuri2011()) if pure else ObjPert(Tight(), 0.0, 0.01, share=0.05)
    release, plans = run(method, problem, 0.5, 4.0, seeds=5)
    again, gradient = random.generator(0, "test"), problem.to(torch.float64).grad(release.theta[:, :, 0])
    b = (random.gamma_ball if pure else random.noise)(again, 5, 2, 16)
    for e, (plan, epsilon) in enumerate(zip(plans, (0.5, 4.0), strict=True)):
        event: Any = plan.guarantee.event
        exponent = 0.99 * epsilon / 4 / 3 if pure else 0.05 * 0.99 * epsilon / 3
        assert event.ridge == pytest.approx(max(0.4, beta / math.expm1(exponent)))
        assert (event.rank, event.lipschitz) == (3, pytest.approx(1.5 * math.sqrt(2)))
        scale = 1 / event.rate if pure else event.noise_std
        rest = gradient[:, e] + event.ridge * release.theta[:, e, 0] + scale * b[:, e]
        noise = 16 * event.ridge * event.output_scale if pure else event.ridge * event.output_std
        assert float(rest.norm(dim=-1).max()) < 1e-8 * problem.n + 50 * noise
        if pure:
            assert 2 * event.rate * event.lipschitz == pytest.approx(0.99 * epsilon / 2)
        assert 0.999 * epsilon < Tight().epsilon(event, 1e-5) <= epsilon or pure


@pytest.mark.parametrize(
    ("loss", "trace", "rank", "one_sided"),
    [("logistic", 1 / 4, 1, True), ("softmax", 2 / 3, 2, False), ("huber", 1.0, 1, False)],
)
def test_objective_perturbation_is_priced_for_what_its_loss_is(
    loss: str, trace: float, rank: int, one_sided: bool
) -> None:
    facts = MADE[loss](n=200).facts
    event: Any = ObjPert(ridge=0.0).plan(facts, Budget(0.5, 1e-5)).guarantee.event
    assert (event.rank, event.one_sided, event.lipschitz) == (rank, one_sided, facts.lipschitz)
    assert event.ridge == pytest.approx(2 * trace / (0.99 * 0.5 / 1.5))


@pytest.mark.parametrize(("of", "lipschitz"), [(LOGISTIC, 1.0), (softmax(3), math.sqrt(2))])
def test_outpert_noise_has_the_analytic_gaussian_scale(of: Any, lipschitz: float) -> None:
    """Also of three classes, whose price has room for half of it on any pair that an attack uses."""
    problem, method = Glm(torch.zeros(1, 200, 1), torch.ones(1, 200), of), OutPert(0.05, AnalyticGaussian())
    plan = method.plan(problem.facts, Budget(1.0, 1e-5))
    theta = method.release(problem, [plan], Execution(4000, random.generator(0, "scale"))).theta
    assert float(theta.std()) == pytest.approx(3.73063 * 2 * lipschitz / (200 * 0.05), rel=0.03)


def test_outpert_noise_covers_what_the_solver_leaves_for_every_neighbour() -> None:
    facts = linear_facts(LOGISTIC, 10_000_000, 20, 1.0)
    plan = OutPert(1e-9, AnalyticGaussian()).plan(facts, Budget(1.0, 1e-8))
    ridge, left, std = plan.work.ridge, plan.work.gradient_bound, plan.work.output_scale
    multiplier = plan.guarantee.event.noise_multiplier
    assert left > 1e-5 * facts.lipschitz
    assert (facts.lipschitz + 2 * left) / ridge <= std / multiplier * (1 + 1e-12)  # a record is removed
    assert 2 * (facts.lipschitz + left) / ridge <= 2 * std / multiplier  # replaced
