"""DP-SGLD as three papers have it, DP-SGD and DP-SGHMC: their equations, and what a budget makes of them."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scenarios import gaussian, logistic, multinomial, network, release
from scenarios import method as make

from dplangevin import random
from dplangevin.methods import Plan, Release
from dplangevin.methods.dp_sgld_ryffel2022 import DpSgldRyffel2022
from dplangevin.methods.pricing import priced
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.last_iterate import Bok2024, Ryffel2022
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.gaussian_steps import steps_event
from dplangevin.problems import Facts
from dplangevin.problems.losses import softmax
from dplangevin.problems.sampling import Sampling
from dplangevin.samplers.chains.loop import thinned
from dplangevin.samplers.kernels.stochastic import SghmcState, SgldState, SgnhtState, sghmc, sgld, sgnht

INF = math.inf
TIGHT = {"_target_": "dplangevin.privacy.accountants.tight.Tight"}


def run(
    name: str, epsilons: list[float], problem: Any = None, seeds: int = 3, **overrides: Any
) -> tuple[Release, list[Plan]]:
    return release(make(name, **overrides), problem or logistic(), *epsilons, seeds=seeds)


# wang2015


@pytest.mark.parametrize("name", ["dp_sgld", "dp_sghmc", "dp_sgnht", "dp_sghmc_li2019", "sghmc"])
@pytest.mark.usefixtures("fine_grid")
def test_chains_without_a_budget_are_their_kernels(name: str) -> None:
    """The noise that the loop adds to the gradient is that of the update, with the other sign."""
    problem, a, share, n, tau = logistic(), 0.3, 0.2, 400, 20
    settings: dict[str, Any] = {"step": share, "samples": 7, "precision": 0.7}
    settings |= {"schedule": "constant"} if name == "dp_sgld" else {"friction": a}
    found, _ = run(name, [INF], problem, sampling={"batch": tau, "epochs": 2}, **settings)
    eta, rng = torch.tensor([[share / (0.25 * n)]]), random.generator(0, "test")
    theta = torch.zeros(3, 1, 5)
    velocity = torch.zeros(0) if name == "dp_sgld" else eta.sqrt() * torch.randn(3, 1, 5, generator=rng)
    hamiltonian = sghmc(a), SghmcState(theta, velocity), (2 * a * eta).sqrt()
    kernels: dict[str, Any] = {
        "dp_sgld": (sgld(), SgldState(theta), eta.sqrt()),
        "dp_sgnht": (sgnht(), SgnhtState(theta, velocity, torch.full((3, 1, 1), a)), (2 * a * eta).sqrt()),
    }
    kernel, state, std = kernels.get(name, hamiltonian)
    kept, poisson = [], name in ("dp_sghmc_li2019", "sghmc")
    for batch in random.batches(
        rng, {"poisson" if poisson else "subset"}, 3, n, tau, 5, 40, 64 if poisson else 256
    ):
        each = problem.example_grads(state.theta, batch.rows)
        if batch.sizes is not None:
            each = each * (torch.arange(batch.rows.shape[1]) < batch.sizes[:, None])[:, None, :, None]
        gradient = each.sum(2) * (n / tau) + 0.7 * state.theta
        state = kernel.step(state, gradient, -std * batch.normals.float(), eta)
        kept.append(state.theta)
    expected = torch.stack([kept[t - 1] for t in thinned(40, 0.5, 7)], 2)
    torch.testing.assert_close(found.theta, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("schedule", ["phase", "constant", "harmonic"])
def test_dp_sgld_has_the_noise_and_the_steps_of_theorem_4(schedule: str) -> None:
    n, tau, alpha = 400, 20, 0.5
    (plan,) = run("dp_sgld", [2.0], schedule=schedule)[1]
    chain, steps = plan.work, 400
    logs = math.log(2.5 * steps / 1e-5) * math.log(2 / 1e-5)
    variance, most = 128 * steps / 4 * logs, 0.5 / (0.25 * n)
    eta, t = (chain.step / n).numpy(), np.arange(1, steps + 1)
    expected = {
        "phase": np.minimum(alpha * steps / (variance * t), most),
        "constant": np.full(steps, min(1 / variance, most)),
        "harmonic": np.maximum(1 / (t + 1), min(1 / variance, most)),
    }[schedule]
    np.testing.assert_allclose(eta, expected)
    moved = eta * n / tau * chain.noise_std.numpy()  # of theta
    np.testing.assert_allclose(moved**2, np.maximum(variance * eta**2, eta))
    assert plan.guarantee.epsilon == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("name", ["dp_sgld", "sgld"])
@pytest.mark.parametrize(("temperature", "share"), [("printed", 0.5), ("proper", 1.0)])
def test_draws_have_the_posteriors_covariance_only_if_proper(
    name: str, temperature: str, share: float
) -> None:
    problem, _, covariance = gaussian(n=200)
    settings = {"temperature": temperature, "burn_in": 0.3, "precision": 0.0, "step": 0.3}
    settings |= {"schedule": "constant"} if name == "dp_sgld" else {}
    sampling = {"batch": 200, "epochs": 300}  # at rate 1 either sample is the data set
    draws = run(name, [INF], problem, 150, sampling=sampling, **settings)[0].theta[:, 0].double()
    ratio = torch.linalg.solve(covariance, torch.cov(draws.flatten(0, 1).T)).trace() / problem.d
    assert float(ratio) == pytest.approx(share, rel=0.08)


# li2019


@pytest.mark.parametrize("given", [{"clip": 0.7, "step": None}, {"clip": None, "step": 0.01}])
@pytest.mark.parametrize(
    ("name", "more", "heat"),
    [
        ("dp_sgld_li2019", {}, 1),
        ("dp_sgld_li2019", {"schedule": "decreasing", "temperature": "proper"}, 2),
        ("dp_sgld_li2019", {"clipped": "minibatch"}, 1),
        ("dp_sghmc_li2019", {"friction": 0.3}, 0.6),
    ],
)
def test_noise_is_tied_to_the_step(
    name: str, more: dict[str, Any], heat: float, given: dict[str, Any]
) -> None:
    """sigma = tau/(moved sqrt(eta n/heat)), whichever of step and clip follows from the budget.

    Theta, or the velocity, moves by N(0, heat eta_t/n); one record moves the sum of a minibatch by `moved`.
    """
    calibrated = next(key for key, value in given.items() if value is None)
    settings = {**given, **more, "calibrated": calibrated, "unit": "absolute"}
    plan = make(name, **settings, sampling={"batch": 40, "epochs": 3}).plan(
        logistic().facts, Budget(2.0, 1e-3)
    )
    chain, sigma, eta = plan.work, plan.settings["noise_multiplier"], float(plan.work.step[0])
    moved = min(chain.clip, 2 * 40 * chain.mean_clip)
    assert sigma == pytest.approx(40 / (moved * math.sqrt(eta * 400 / heat)), rel=1e-9)
    assert 1.99 < plan.guarantee.epsilon <= 2.0
    schedule: Any = more.get("schedule", "fixed")
    assert plan.guarantee.event == steps_event(sigma, rate=0.1, steps=30, schedule=schedule)
    t = torch.arange(1, 31).double()
    torch.testing.assert_close(chain.step, eta * (t ** (-1 / 3) if schedule == "decreasing" else t**0))
    torch.testing.assert_close((chain.step * chain.noise_std / 40).square(), heat * chain.step / 400)


def test_stated_settings_cost_what_they_cost() -> None:
    """No calibration, and a price above the budget is not hidden."""
    facts = network().facts
    printed = {"step": 0.3, "unit": "absolute", "clip": 5.0, "calibrated": None, "accountant": TIGHT}
    sampling = {"batch": 20, "epochs": 2}
    plan = make("dp_sgld_li2019", **printed, sampling=sampling).plan(facts, Budget(0.1, 1e-3))
    assert plan.noise_given
    assert plan.settings["noise_multiplier"] == pytest.approx(20 / (5 * math.sqrt(0.3 * 60)))
    assert plan.guarantee.epsilon > 4
    given = {"unit": "absolute", "noise_multiplier": 0.9, "accountant": TIGHT}
    other = make("dp_sgd", **given, sampling=sampling).plan(facts, Budget(0.1, 1e-3))
    assert other.noise_given
    event = steps_event(0.9, rate=1 / 3, steps=6, schedule="fixed")
    assert other.guarantee.epsilon == Tight().epsilon(event, 1e-3, "add_remove") > 4


def test_dp_sgd_shortens_its_steps_where_noise_is_large() -> None:
    facts, plain = logistic().facts, {"step": 0.5, "unit": "absolute"}
    sigma = make("dp_sgd", **plain).plan(facts, Budget(1.0, 1e-5)).settings["noise_multiplier"]
    for noise, share in ((sigma / 2, 0.5), (sigma * 2, 1.0)):
        plan = make("dp_sgd", **plain, full_step_noise=noise).plan(facts, Budget(1.0, 1e-5))
        assert float(plan.work.step[0]) == pytest.approx(0.5 * share)
        assert plan.settings["noise_multiplier"] == sigma


# ryffel2022

SMALL = replace(multinomial(shared=True, n=200), row_bound=2.0, mean_smoothness=0.75).facts
# of the authors' ResNet-18: beta = 55
AUTHORS = Facts(50_000, 5120, 10, 15.0, 15.0**2 / 4, 55 - 0.001, 15 / math.sqrt(2), loss=softmax(10))


def langevin(**settings: Any) -> DpSgldRyffel2022:
    values = {"sampling": Sampling("subset", 20, 3.0), "l2": 0.1, "accountant": Tight()}
    return DpSgldRyffel2022(**{**values, **settings})


def row(method: DpSgldRyffel2022, facts: Facts, epsilon: float, delta: float) -> dict[str, Any]:
    plan, names = method.plan(facts, Budget(epsilon, delta)), ["neighbours", "ryffel2022", "last_iterate"]
    return priced(method, plan, facts, delta, "replace_one", names)


@pytest.mark.parametrize("schedule", ["constant", "ryffel2022"])
def test_calibrations_spend_the_budget(schedule: Any) -> None:
    more: dict[str, Any] = {"schedule": schedule, "sampling": Sampling("subset", 20, 0.5)}
    formula = langevin(accountant=Ryffel2022(), **more).plan(SMALL, Budget(2.0, 1e-3))
    assert formula.paper is not None
    assert 1.998 < Ryffel2022().epsilon(formula.paper, 1e-3) == formula.guarantee.epsilon <= 2.0
    clipped = row(langevin(**more, clip=0.5, initial="zero"), SMALL, 2.0, 1e-3)
    assert 1.998 < clipped["epsilon_proven"] <= 2.0
    assert "epsilon_last" not in clipped
    assert "theta_0 = 0" in clipped["violated"]
    assert "are clipped at 0.5" in clipped["violated"]
    free = row(langevin(**more), SMALL, 2.0, 1e-3)
    assert 1.998 < min(free["epsilon_proven"], free["epsilon_last"]) <= 2.0
    assert free["epsilon_add_remove"] != free["epsilon_add_remove"]  # subsets keep n


def test_its_noise_start_and_steps() -> None:
    """sqrt(2 eta_k) sigma on theta, theta_0 ~ N(0, 2 sigma^2/l2)."""
    beta = 0.75 + 0.1
    for schedule, times in (("constant", 0.0), ("ryffel2022", 0.05)):
        plan = langevin(noise_std=0.7, schedule=schedule).plan(SMALL, Budget(1.0, 1e-3))
        chain, eta = plan.work, 1 / (2 * beta + times * np.arange(30))
        np.testing.assert_allclose(chain.step, eta)
        np.testing.assert_allclose(chain.step * chain.noise_std / 20, np.sqrt(2 * eta) * 0.7)
        assert chain.start_std == pytest.approx(0.7 * math.sqrt(20))
        assert (chain.clip, plan.noise_given) == (INF, True)
    assert langevin(initial="zero", noise_std=0.7).plan(SMALL, Budget(1.0, 1e-3)).work.start_std == 0


def test_the_last_iterate_can_be_cheaper() -> None:
    """Of long chains on bounded rows."""
    long = langevin(noise_std=1.0, l2=1.0, sampling=Sampling("subset", 200, 100.0))
    found, event = row(long, SMALL, 1.0, 1e-3), long.provable(SMALL, 1.0)
    assert event.smoothness == 2.0**2 / 2 + 1.0
    assert found["epsilon_last"] == Bok2024().epsilon(event, 1e-3) < 0.5 * found["epsilon_proven"]


def test_all_iterates_are_priced_where_gradients_are_clipped() -> None:
    clipped = langevin(clip=0.5, noise_std=0.5, radius=0.02, sampling=Sampling("subset", 200, 3000.0))
    assert clipped.provable(SMALL, 0.5) == clipped.event(SMALL, 0.5).all_iterates()


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("dp_sgld", {"temperature": "hot"}, "temperature must be one of printed, proper, not 'hot'"),
        ("dp_sgld", {"alpha": 1.0}, r"alpha must be in \(0, 1\), not 1.0"),
        ("dp_sgld_li2019", {"step": None, "clip": None}, "clip is null"),
        ("dp_sgd", {"clip": INF}, "clip must be positive and finite"),
        ("dp_sgld_li2019", {"calibrated": "noise"}, "calibrated must be one of step, clip, not 'noise'"),
        ("dp_sgld", {"step": "half"}, "step must be positive and finite, not 'half'"),
        ("dp_sgd", {"momentum": 1.0}, r"momentum must be in \[0, 1\), not 1.0"),
        ("dp_sghmc", {"step": 0.1}, r"step must be in \(0, friction\) = \(0, 0.1\), not 0.1"),
        ("ops", {"bound": "gdp"}, 'bound "gdp" needs precision > 0'),
        ("objpert", {"share": 0.1}, "share belongs to the tight accountant"),
        ("hybrid", {"share": 0.0}, r"share must be in \(0, 1\), not 0.0"),
        ("hybrid", {"first": {"bound": "gdp", "precision": 1.0}}, "hybrid needs a pure first stage"),
    ],
)
def test_wrong_settings_are_named(name: str, overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        make(name, **overrides)
