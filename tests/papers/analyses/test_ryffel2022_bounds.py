"""The exact cases for the bounds of ryffel2022 against closed forms, adaptive quadrature and simulation."""

import math
from typing import Any

import loading
import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar

from dplangevin.papers.analyses import langevin_dynamics as dynamics
from dplangevin.papers.analyses import langevin_risk as risk
from dplangevin.papers.analyses import ryffel2022_bounds as bounds
from dplangevin.papers.analyses.cases import table
from dplangevin.papers.claims import row_rules, verdicts
from dplangevin.privacy.accountants.last_iterate import Ryffel2022
from dplangevin.privacy.events import LangevinDpEvent

ONE = np.ones(2)
WIDE = risk.Losses(ONE, 2 * ONE, np.array([-0.3, 0.4]), -2.0, 2.0, 1.0, 2.0)
LINEAR = risk.Losses(ONE, ONE, np.array([-0.5, 0.5]), -9.0, 9.0, 1.0, 1.0)  # gradients of quadratic losses


@pytest.fixture(scope="module")
def analysis() -> bounds.Bounds:
    """The committed settings, smaller, without DP-SGD's budget."""
    small = {"cases": 1, "noises": [0.5], "steps": [1, 5], "nodes": 200}
    return loading.analysis(
        "ryffel2022_bounds", **small, budget=None, log_sobolev={"steps": [1, 8], "lengths": [1, 10, 100]}
    )


def test_losses_have_the_stated_derivatives() -> None:
    x = np.linspace(-2, 2, 201)
    numeric = np.gradient(WIDE.mean_loss(x), x, edge_order=2)
    assert numeric[1:-1] == pytest.approx(WIDE.gradients(x).mean(axis=0)[1:-1], abs=1e-3)
    second = np.diff(WIDE.gradients(x), axis=1) / np.diff(x)
    assert second.min() >= 1 - 1e-9
    assert second.max() <= 2 + 1e-9
    found = minimize_scalar(lambda t: WIDE.mean_loss(np.array([t]))[0], bounds=(-2, 2), method="bounded")
    assert WIDE.minimiser() == pytest.approx(found.x, abs=1e-5)
    assert WIDE.lipschitz() == pytest.approx(np.abs(WIDE.gradients(x)).max())


@pytest.mark.parametrize("batch", ["1", "full"])
@pytest.mark.parametrize("schedule", ["constant", "decreasing"])
def test_risk_of_quadratic_losses_is_the_moments(batch: str, schedule: str) -> None:
    """E theta^2 <- (1 - eta)^2 E theta^2 + eta^2 xi^2 + 2 eta sigma^2, far from the ends of C."""
    make = risk.constant_steps if schedule == "constant" else risk.decreasing_steps
    etas, noise = make(LINEAR, 12), 0.4
    square, wanted = 2 * noise**2, []
    for eta in etas:
        square = (1 - eta) ** 2 * square + 2 * eta * noise**2 + (eta * 0.5) ** 2 * (batch == "1")
        wanted.append(square / 2)
    found = risk.risks(LINEAR, etas, noise, batch, 300)
    assert found.start == pytest.approx(2 * noise**2, rel=1e-9)
    assert found.excess == pytest.approx(wanted, rel=1e-9)


def test_equation_7_fails_where_the_minimiser_is_on_the_boundary() -> None:
    """One step from theta_0 = -|N|: by adaptive quadrature, without the nodes of the analysis."""
    push, eta, noise = 4.0, 1 / 64, 0.05
    one = np.ones(1)
    losses = risk.Losses(one, one, 0 * one, -1.0, 0.0, 1.0, 1.0, tilt=1 + push)
    start, step = noise * math.sqrt(2), math.sqrt(2 * eta) * noise

    def excess(theta: float) -> float:
        return push * (theta + 1) + (theta + 1) ** 2 / 2

    def after(theta: float) -> float:
        mean = theta - eta * (theta + 1 + push)
        inside = quad(
            lambda y: excess(y) * stats.norm.pdf(y, mean, step), mean - 12 * step, min(0.0, mean + 12 * step)
        )
        return float(inside[0] + excess(0.0) * stats.norm.sf(0.0, mean, step))

    law = quad(lambda t: after(t) * stats.norm.pdf(t, 0, start), -8 * start, 0.0, epsabs=1e-9)[0]
    exact = law + after(0.0) / 2
    found = risk.risks(losses, np.array([eta]), noise, "full", 400)
    assert losses.minimiser() == -1.0
    assert found.excess[0] == pytest.approx(exact, rel=1e-6)
    # E(theta_0 + 1)^2, theta_0 = min(N, 0)
    square = 2 * noise**2 / 2 - 2 * start / math.sqrt(2 * math.pi) + 1
    bound = square / 2 * math.exp(-eta) + eta * push**2 / 2 + noise**2
    assert risk.equation_7(losses, found.start, eta, 1, noise, "full") == pytest.approx(bound, rel=1e-6)
    assert exact > 6 * bound


def test_gaussian_divergence_is_that_of_the_densities() -> None:
    """R_2 of theta_3 by integrating the two Gaussian densities, n = 10, sigma = .3, L = lambda = 1."""
    contractions, sigma, n = np.array([0.5, 0.4, 0.3]), 0.3, 10
    mean, variance = 0.0, 2 * sigma**2
    for eta in contractions:
        mean, variance = (1 - eta) * mean + eta / n, (1 - eta) ** 2 * variance + 2 * eta * sigma**2
    one, two = stats.norm(mean, math.sqrt(variance)), stats.norm(-mean, math.sqrt(variance))
    total = quad(lambda t: one.pdf(t) ** 2 / two.pdf(t), -8, 8, points=[0.0])[0]
    found = 2 * dynamics.gaussian_renyi(contractions) / (n * sigma) ** 2
    assert found == pytest.approx(math.log(total), rel=1e-6)


def test_formulas(analysis: bounds.Bounds) -> None:
    rows = pd.DataFrame(analysis.rows("formulas", 1))
    small = rows[rows.quantity.eq("small K") & rows.x.eq(1e-3) & rows.schedule.eq("constant")]
    with mpmath.workdps(30):
        wanted = 4 * (1 - mpmath.exp(mpmath.mpf("-0.001") / 4)) / mpmath.mpf("0.001")
    assert small.ratio.iloc[0] == pytest.approx(float(wanted), rel=1e-12)
    assert bounds.rounds(10, 99.0, "decreasing") == 990
    assert bounds.rounds(10, 1000.0, "decreasing") == 100_000
    assert bounds.rounds(10, math.e**2, "constant") == 40
    conditions = rows[rows.kind.eq("table4")].set_index(["case", "schedule"]).exact
    assert conditions["cifar10_alexnet", "constant"] == pytest.approx(5.18e4)
    assert conditions["cifar10_alexnet", "decreasing"] == pytest.approx(2.59e5)
    assert len(conditions) == 6


def test_sampled_batches_exceed_section_4_and_full_ones_do_not(analysis: bounds.Bounds) -> None:
    rows = pd.DataFrame(analysis.rows("privacy", 1))
    renyi = rows[rows.quantity.eq("Renyi")]
    assert (renyi.ratio[renyi.batch.eq("1")] > 1).all()
    full = renyi[renyi.batch.eq("full") & renyi.schedule.eq("constant")].iloc[0]
    contractions = np.full(18, 0.5)  # eta lambda = 1/2, K = 2 ln(100^2/2) rounded up; without projections
    unprojected = 2 * dynamics.gaussian_renyi(contractions) / (100**2 * 8e-4)
    assert full.steps == 18
    assert full.exact <= unprojected
    assert full.exact > 0.2 * unprojected  # the radius leaves the gradient .4925 of L


def test_no_constant_allows_more_than_the_limit() -> None:
    """The bound under c-LSI for many c, in high precision; at c = lambda/(2 sigma^2) it is that of Theorem 3.1."""
    sigma, n, order = 0.3, 10, 2.0
    event = LangevinDpEvent(n, 1, 4, 0.25, sigma, 1.5, 1.0, 1.0, decay=0.5)
    total = float(event.step_sizes().sum())

    def epsilon(c: float) -> float:
        rate = mpmath.mpf(c) * sigma**2
        return float(2 * order * 1.5**2 / (n**2 * sigma**2 * rate) * -mpmath.expm1(-rate * total))

    limit = dynamics.every_constant(event, order)
    allowed = [epsilon(10.0**power) for power in range(-12, 6)]
    assert max(allowed) <= limit
    assert allowed == sorted(allowed, reverse=True)
    assert allowed[0] == pytest.approx(limit, rel=1e-9)
    assert epsilon(1 / (2 * sigma**2)) == pytest.approx(Ryffel2022().renyi(event, order), rel=1e-12)


def test_gaussian_dynamics_from_the_start_of_theorem_3_1() -> None:
    for h, steps in ((0.5, 1), (0.1, 7)):
        exact, bound = dynamics.gaussian_dynamics(h, 2 / h, steps)
        assert exact == pytest.approx(dynamics.gaussian_renyi(np.full(steps, h)) / h, rel=1e-12)
        assert bound == pytest.approx(4 / h * (1 - math.exp(-h * steps / 2)), rel=1e-12)
    exact, bound = dynamics.gaussian_dynamics(0.0, 1.0, 3)  # linear losses: 2K apart, variance 1 + 2K
    assert exact == pytest.approx(36 / 14)
    assert bound == pytest.approx(14 * (1 - math.exp(-3 / 7)))
    exact, bound = dynamics.gaussian_dynamics(0.001, 0.0, 10_000)
    assert 0.99 < exact / bound < 1  # nothing smaller than the theorem's bound would do


def test_fokker_planck_in_high_precision() -> None:
    """Both sides by numeric differentiation of the density of three atoms, without complex steps."""
    starts, drifts, mass = np.array([-0.4, 0.1, 0.5]), np.array([-1.0, 0.3, 2.0]), np.array([0.2, 0.5, 0.3])
    diffusion, time, at = 0.25, 0.2, 0.15

    def each(t: Any, x: Any) -> list[Any]:
        scale = 1 / mpmath.sqrt(4 * mpmath.pi * diffusion * t)
        laws = zip(starts.tolist(), drifts.tolist(), mass.tolist(), strict=True)
        return [p * scale * mpmath.exp(-((x - s + t * d) ** 2) / (4 * diffusion * t)) for s, d, p in laws]

    with mpmath.workdps(30):
        left = mpmath.diff(lambda t: sum(each(t, at)), time)
        flow = mpmath.diff(lambda x: sum(d * p for d, p in zip(drifts, each(time, x), strict=True)), at)
        right = flow + diffusion * mpmath.diff(lambda x: sum(each(time, x)), at, 2)
    found = dynamics.fokker_planck(starts, drifts, mass, diffusion, time, np.array([at]))
    assert found[0][0] == pytest.approx(float(left), rel=1e-10)
    assert found[1][0] == pytest.approx(float(right), rel=1e-10)


@pytest.mark.parametrize("pull", [0.0, 1.0])
def test_dynamics_of_gaussian_laws(pull: float) -> None:
    """R = alpha D^2/(2 v), D' = 1 - pull D, v' = 2 - 2 pull v: dR/dt + ... = alpha (D/v - gamma D^2/v^2)."""
    order, time, gamma = 4.0, 0.7, 0.25
    lasted = (1 - math.exp(-pull * time)) / pull if pull else time
    variance = 1.0 if pull else 1 + 2 * time
    assert dynamics.shifted_renyi(order, time, math.inf, pull) == pytest.approx(
        order * lasted**2 / 2 / variance
    )
    found, allowed = dynamics.renyi_dynamics(order, time, math.inf, pull, gamma)
    slope = lasted / variance
    assert found == pytest.approx(order * (slope - gamma * slope**2), rel=1e-6)
    assert allowed == order / (4 * gamma)


def test_divergence_of_a_cut_law_is_that_of_its_convolution() -> None:
    radius, time, order, pull = 0.3, 0.5, 1.5, 1.0
    kept, noise = math.exp(-time), math.sqrt(1 - math.exp(-2 * time))
    apart = (1 - math.exp(-time)) / 2

    def density(theta: float) -> float:
        inner = quad(lambda x: stats.norm.pdf(x) * stats.norm.pdf(theta, kept * x, noise), -radius, radius)[0]
        ends = sum(stats.norm.pdf(theta, side * kept * radius, noise) for side in (-1, 1))
        return float(inner + stats.norm.sf(radius) * ends)

    theta = np.linspace(-5.5, 5.5, 81)
    one, two = (np.array([density(t + shift) for t in theta]) for shift in (-apart, apart))
    wanted = math.log((one**order * two ** (1 - order)).sum() * (theta[1] - theta[0])) / (order - 1)
    assert dynamics.shifted_renyi(order, time, radius, pull) == pytest.approx(wanted, rel=1e-6)


def test_conversion() -> None:
    """Coins by the definitions: delta(epsilon) over all events, and R_alpha."""
    order, delta, p, q = 1.5, 0.01, 0.3, 0.02
    exact, promised = bounds.coins(order, delta, np.array([p]), np.array([q]))
    events = [(a, b) for x, y in ((p, q), (q, p)) for a, b in ((x, y), (1 - x, 1 - y), (1.0, 1.0))]
    assert max(a - math.exp(exact[0]) * b for a, b in events) == pytest.approx(delta)
    ways = [
        x**order * y ** (1 - order) + (1 - x) ** order * (1 - y) ** (1 - order) for x, y in ((p, q), (q, p))
    ]
    divergence = math.log(max(ways)) / (order - 1)
    assert promised[0] == pytest.approx(divergence - math.log(delta) / (order - 1))
    assert bounds.coins(order, 0.5, np.array([p]), np.array([q]))[0][0] == 0.0
    chances = np.array([1e-5]), np.array([0.2])  # alpha in place of alpha - 1 would promise too little
    exact, promised = bounds.coins(order, delta, *chances)
    assert promised[0] + math.log(delta) / (order - 1) - math.log(delta) / order < exact[0] <= promised[0]


def test_norm_of_the_minimiser() -> None:
    norm, at_zero = bounds.minimiser(np.ones((1, 1)), 2.0, 0.1)
    wanted = brentq(lambda t: 0.1 * t - 1 / (1 + math.exp(t - 2)), 0, 20, xtol=1e-14)
    assert norm == pytest.approx(wanted, rel=1e-9)
    assert at_zero == pytest.approx(math.log(1 + math.e**2))


def test_batches_of_one_exceed_every_constant(analysis: bounds.Bounds) -> None:
    rows = pd.DataFrame(analysis.rows("log_sobolev", 1))
    sampled = rows[rows.quantity.eq("every c") & rows.schedule.eq("constant")]
    assert sampled.ratio.min() > 10
    assert rows[rows.quantity.eq("c of the law")].ratio.max() <= 1
    one = sampled[sampled.case.eq("opposite") & sampled.steps.eq(1)].iloc[0]
    shift = 2 * 0.5 * (1 - 0.5075) / (math.sqrt(1.5) * 0.03005)  # one of 100 batches, in standard deviations
    unprojected = math.log1p(math.expm1(shift**2) / 100**2)
    assert 0.8 * unprojected < one.exact <= unprojected


def test_rules() -> None:
    frame: Any = pd.DataFrame(
        table(bounds.COLUMNS, [bounds.case("k", "q", e, 2.0) for e in (1.0, 2.0)], value="exact")
    )
    where = {"kind": "k"}
    assert row_rules.holds(frame, where=where, what="w")["verdict"] == verdicts.HOLDS
    worse = row_rules.holds(frame.assign(exact=[1.0, 2.1]), where=where, what="w")
    assert (worse["verdict"], worse["measure"], worse["ours"]) == (verdicts.FAILS, "exact", 1.05)
    frame = frame.assign(batch="1", case="coins", condition=3.0, step=0.5, records=10.0, steps=7.0)
    named = row_rules.holds(frame, where=where, what="w")["reason"]
    assert "largest at batch 1, coins, β/λ 3, ηβ 0.5, n 10, K 7:" in named
    with pytest.raises(verdicts.NoRows):
        row_rules.holds(frame, where={"kind": "other"}, what="w")

    for proven, attack, verdict in (
        (0.9, 0.1, verdicts.HOLDS),
        (9.0, 0.1, verdicts.OPEN),
        (9.0, 1.1, verdicts.FAILS),
    ):
        listed = pd.DataFrame({"setting": "s", "quantity": ["c", "p", "a"], "epsilon": [1.0, proven, attack]})
        names = {"claimed": "c", "proven": "p", "attack": "a", "keys": ["setting"]}
        assert row_rules.bracketed(listed, where={}, **names)["verdict"] == verdict  # type: ignore[arg-type]
