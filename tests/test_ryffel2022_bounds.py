"""The exact cases for the bounds of ryffel2022 against closed forms, adaptive quadrature and simulation."""

import math
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from dplangevin.analyses import ryffel2022_bounds as bounds
from dplangevin.claims import ryffel2022 as rules
from dplangevin.claims import verdicts

ONE = np.ones(2)
WIDE = bounds.Losses(ONE, 2 * ONE, np.array([-0.3, 0.4]), -2.0, 2.0, 1.0, 2.0)
LINEAR = bounds.Losses(ONE, ONE, np.array([-0.5, 0.5]), -9.0, 9.0, 1.0, 1.0)  # gradients of quadratic losses


@pytest.fixture(scope="module")
def analysis() -> bounds.Bounds:
    """The committed settings, smaller, without DP-SGD's budget."""
    spec: Any = OmegaConf.load(Path(__file__).parents[1] / "conf/analysis/ryffel2022_bounds.yaml")
    small = {"delta": 1e-5, "budget": {}, "cases": 1, "noises": [0.5], "steps": [1, 5], "nodes": 200}
    for key, value in small.items():
        spec[key] = value
    found = instantiate(spec, _convert_="all")
    assert isinstance(found, bounds.Bounds)
    return found


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
    make = bounds.constant_steps if schedule == "constant" else bounds.decreasing_steps
    etas, noise = make(LINEAR, 12), 0.4
    square, wanted = 2 * noise**2, []
    for eta in etas:
        square = (1 - eta) ** 2 * square + 2 * eta * noise**2 + (eta * 0.5) ** 2 * (batch == "1")
        wanted.append(square / 2)
    found = bounds.risks(LINEAR, etas, noise, batch, 300)
    assert found.start == pytest.approx(2 * noise**2, rel=1e-9)
    assert found.excess == pytest.approx(wanted, rel=1e-9)


def test_risk_of_bent_losses_on_a_narrow_interval_is_that_of_a_simulation() -> None:
    losses = bounds.Losses(ONE, 2 * ONE, np.array([-0.3, 0.4]), -0.6, 0.5, 1.0, 2.0)
    etas, noise = bounds.constant_steps(losses, 3), 0.4
    rng = np.random.default_rng(1)
    theta = np.clip(rng.normal(0, noise * math.sqrt(2), 400_000), losses.low, losses.high)
    for eta in etas:
        gradient = losses.gradients(theta)[rng.integers(0, 2, theta.size), np.arange(theta.size)]
        step = theta - eta * gradient + math.sqrt(2 * eta) * noise * rng.normal(size=theta.size)
        theta = np.clip(step, losses.low, losses.high)
    excess = losses.mean_loss(theta) - losses.mean_loss(np.array([losses.minimiser()]))[0]
    error = excess.std() / math.sqrt(theta.size)
    found = bounds.risks(losses, etas, noise, "1", 300).excess[-1]
    assert abs(found - excess.mean()) < 4 * error


def test_equation_7_fails_where_the_minimiser_is_on_the_boundary() -> None:
    """One step from theta_0 = -|N|: by adaptive quadrature, without the nodes of the analysis."""
    push, eta, noise = 4.0, 1 / 64, 0.05
    one = np.ones(1)
    losses = bounds.Losses(one, one, 0 * one, -1.0, 0.0, 1.0, 1.0, tilt=1 + push)
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
    found = bounds.risks(losses, np.array([eta]), noise, "full", 400)
    assert losses.minimiser() == -1.0
    assert found.excess[0] == pytest.approx(exact, rel=1e-6)
    square = (
        2 * noise**2 / 2 - 2 * start / math.sqrt(2 * math.pi) + 1
    )  # E(theta_0 + 1)^2, theta_0 = min(N, 0)
    bound = square / 2 * math.exp(-eta) + eta * push**2 / 2 + noise**2
    assert bounds.equation_7(losses, found.start, eta, 1, noise, "full") == pytest.approx(bound, rel=1e-6)
    assert exact > 6 * bound


def test_equation_11_in_high_precision() -> None:
    xi2 = float((WIDE.gradients(np.array([WIDE.minimiser()])) ** 2).mean())
    steps, start, noise = 7, 0.3, 0.2
    integral = mpmath.quad(lambda t: 1 / (4 + t / 2), [0, steps])  # of 1/(2 beta + lambda t/2)
    wanted = 4 / steps * start + 2 * noise**2 + 2 * xi2 / steps * integral
    assert bounds.equation_11(WIDE, start, steps, noise, "1") == pytest.approx(float(wanted), rel=1e-12)


def test_gaussian_divergence_is_that_of_the_densities() -> None:
    """R_2 of theta_3 by integrating the two Gaussian densities, n = 10, sigma = .3, L = lambda = 1."""
    contractions, sigma, n = np.array([0.5, 0.4, 0.3]), 0.3, 10
    mean, variance = 0.0, 2 * sigma**2
    for eta in contractions:
        mean, variance = (1 - eta) * mean + eta / n, (1 - eta) ** 2 * variance + 2 * eta * sigma**2
    one, two = stats.norm(mean, math.sqrt(variance)), stats.norm(-mean, math.sqrt(variance))
    total = quad(lambda t: one.pdf(t) ** 2 / two.pdf(t), -8, 8, points=[0.0])[0]
    found = 2 * bounds.gaussian_renyi(contractions) / (n * sigma) ** 2
    assert found == pytest.approx(math.log(total), rel=1e-6)


def test_variance_of_a_mixture_over_batches(analysis: bounds.Bounds) -> None:
    """One step: two Gaussians half a step apart, far from the ends of C; on [-1, 1], as the analysis has it, less."""
    sigma, eta = 0.5, 0.5
    spread = 2 * sigma**2 * (1 - eta) ** 2 + 2 * eta * sigma**2
    chain = bounds.Chain(LINEAR, sigma, "1", 400)
    mass = chain.step(eta)
    assert mass.sum() == pytest.approx(1)
    assert mass @ chain.points**2 == pytest.approx(spread + (eta / 2) ** 2, rel=1e-9)
    rows = pd.DataFrame(analysis.rows("sobolev", 1))
    assert set(rows.bound) == {2 * sigma**2}
    sampled, full = (rows[rows.batch.eq(batch)].exact.to_numpy() for batch in ("1", "full"))
    assert (full < sampled).all()
    assert sampled[0] < spread + (eta / 2) ** 2


def test_formulas(analysis: bounds.Bounds) -> None:
    rows = pd.DataFrame(analysis.rows("formulas", 1))
    small = rows[rows.quantity.eq("small K") & rows.x.eq(1e-3) & rows.schedule.eq("constant")]
    with mpmath.workdps(30):
        wanted = 4 * (1 - mpmath.exp(mpmath.mpf("-0.001") / 4)) / mpmath.mpf("0.001")
    assert small.ratio.iloc[0] == pytest.approx(float(wanted), rel=1e-12)
    floor = rows[rows.quantity.eq("floor")]
    square = 0.0  # of (h/2) theta^2 with h = beta = 1, eta = 1/2, sigma = 1, to its limit
    for _ in range(100):
        square = (1 - 0.5) ** 2 * square + 2 * 0.5
    assert floor.exact.to_numpy() == pytest.approx(square / 2, rel=1e-9)
    assert bounds.rounds(10, 99.0, "decreasing") == 990
    assert bounds.rounds(10, 1000.0, "decreasing") == 100_000
    assert bounds.rounds(10, math.e**2, "constant") == 40


def test_sampled_batches_exceed_section_4_and_full_ones_do_not(analysis: bounds.Bounds) -> None:
    rows = pd.DataFrame(analysis.rows("privacy", 1))
    renyi = rows[rows.quantity.eq("Renyi")]
    assert (renyi.ratio[renyi.batch.eq("1")] > 1).all()
    full = renyi[renyi.batch.eq("full") & renyi.schedule.eq("constant")].iloc[0]
    contractions = np.full(18, 0.5)  # eta lambda = 1/2, K = 2 ln(100^2/2) rounded up; without projections
    unprojected = 2 * bounds.gaussian_renyi(contractions) / (100**2 * 8e-4)
    assert full.steps == 18
    assert full.exact <= unprojected
    assert full.exact > 0.2 * unprojected  # the radius leaves the gradient .4925 of L


def test_rules() -> None:
    frame: Any = pd.DataFrame(
        [dict(bounds._row(kind="k", quantity="q", exact=e, bound=2.0)) for e in (1.0, 2.0)]
    )
    where = {"kind": "k"}
    assert rules.holds(frame, where=where, what="w")["verdict"] == verdicts.REPRODUCED
    worse = rules.holds(frame.assign(exact=[1.0, 2.1]), where=where, what="w")
    assert (worse["verdict"], worse["measure"], worse["ours"]) == (verdicts.CONTRADICTED, "exact", 1.05)
    with pytest.raises(verdicts.NoRows):
        rules.holds(frame, where={"kind": "other"}, what="w")

    for proven, attack, verdict in (
        (0.9, 0.1, verdicts.REPRODUCED),
        (9.0, 0.1, verdicts.NOT_REPRODUCED),
        (9.0, 1.1, verdicts.CONTRADICTED),
    ):
        listed = pd.DataFrame({"setting": "s", "quantity": ["c", "p", "a"], "epsilon": [1.0, proven, attack]})
        names = {"claimed": "c", "proven": "p", "attack": "a", "keys": ["setting"]}
        assert rules.bracketed(listed, where={}, **names)["verdict"] == verdict  # type: ignore[arg-type]

    counts = {"a": 50, "b": 50}
    assert (
        rules.shares(frame, counts=counts, published={"a": 0.5, "b": 0.5})["verdict"] == verdicts.REPRODUCED
    )
    assert (
        rules.shares(frame, counts=counts, published={"a": 0.4, "b": 0.6})["verdict"] == verdicts.CONTRADICTED
    )
    steps = [rules.step_of_command(frame, step=step, smoothness=50)["verdict"] for step in (0.01, 0.02)]
    assert steps == [verdicts.REPRODUCED, verdicts.NOT_REPRODUCED]
    pairs = [[2.0, 1.0], [1.0, 1.0]], [[1.0, 2.0], [0.0, 1.0]], [[2.0, 1.0]]
    found = [rules.all_above(frame, pairs=each)["verdict"] for each in pairs]
    assert found == [verdicts.NOT_REPRODUCED, verdicts.CONTRADICTED, verdicts.REPRODUCED]
