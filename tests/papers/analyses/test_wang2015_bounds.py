"""The exact computations about wang2015 by other routes, and the rules that read them."""

import itertools
import math
from dataclasses import replace
from typing import Any

import loading
import mpmath
import numpy as np
import pandas as pd
import pytest
import torch
from dp_accounting import GaussianDpEvent, SampledWithoutReplacementDpEvent, SelfComposedDpEvent
from scipy.optimize import linprog
from scipy.special import expit, polygamma
from scipy.stats import beta, norm

from dplangevin.papers.analyses.finite import composed, metropolis, worst_within
from dplangevin.papers.analyses.temperature import Temperature
from dplangevin.papers.analyses.wang2015_bounds import Bounds, largest, length
from dplangevin.papers.claims import row_rules as rules
from dplangevin.privacy.accountants.wang2015 import Wang2015
from dplangevin.samplers.kernels.stochastic import sgfs


@pytest.fixture(scope="module")
def analysis() -> Bounds:
    return loading.analysis("wang2015_bounds")


def table(analysis: Bounds, unit: str) -> pd.DataFrame:
    return pd.DataFrame(analysis.rows(unit, 1))


def gaussian_delta(mu: float, epsilon: float) -> float:
    """delta(epsilon) of two normals mu standard deviations apart."""
    tails = [mpmath.ncdf(sign * mpmath.mpf(mu) / 2 - mpmath.mpf(epsilon) / mu) for sign in (1, -1)]
    return float(tails[0] - mpmath.exp(epsilon) * tails[1])


def worst_ratio(prior: np.ndarray, likelihoods: list[np.ndarray]) -> float:
    """The largest log-ratio of the posteriors of two records, one of which is replaced."""
    logs = {
        (i, j): np.log(joint / joint.sum())
        for (i, one), (j, other) in itertools.product(enumerate(likelihoods), repeat=2)
        for joint in [prior * one * other]
    }
    return max(float(abs(logs[a, b] - logs[a, c]).max()) for a, b in logs for c in range(len(likelihoods)))


def test_lipschitz_posteriors_against_all_pairs_of_data_sets(analysis: Bounds) -> None:
    """Laplace likelihoods as densities, posteriors as products, every ordered pair of neighbours of two records."""
    rows = table(analysis, "lipschitz")
    found = rows[rows.x.eq(2)].set_index("case").value
    parameters, prior = [-4.0, 0.0, 4.0], [0.001, 0.4995, 0.4995]
    points = [-1.0, -0.5, 0.0, 0.5, 1.0]

    def density(x: float, theta: float) -> float:
        scale = mpmath.quad(lambda t: mpmath.exp(-abs(t - theta)), [-1, min(max(theta, -1), 1), 1])
        return float(mpmath.exp(-abs(x - theta)) / scale)

    worst = worst_ratio(np.array(prior), [np.array([density(x, t) for t in parameters]) for x in points])
    assert found["Laplace, prior mass 0.001 on one parameter"] == pytest.approx(worst, rel=1e-6)


@pytest.mark.slow
def test_bias_of_sgld_against_simulation_and_the_closed_form_variance(analysis: Bounds) -> None:
    short = replace(analysis, steps=[0.08])
    rows = table(short, "weak").set_index("case").value
    exact = 2 * float(polygamma(1, 4))  # of the symmetric generalised logistic law
    rng = np.random.default_rng(0)
    for name, factor in (("noise N(0, η), as printed", 1.0), ("noise N(0, 2η)", 2.0)):
        theta, total = np.zeros(20_000), []
        for t in range(300):
            positive = rng.hypergeometric(4, 4, 2, len(theta))  # two of eight records, four of them positive
            gradient = 4 * ((2 - positive) * expit(theta) - positive * expit(-theta))
            theta = theta - 0.08 * gradient + rng.normal(0, math.sqrt(0.08 * factor), len(theta))
            total += [np.mean(theta**2)] if t >= 50 else []
        assert abs(np.mean(total) / exact - 1) == pytest.approx(rows[name], abs=0.01)


def test_noise_costs_by_theorem_4_what_it_is_for_and_one_step_by_the_gaussian_mechanism(
    analysis: Bounds,
) -> None:
    setting, rows = analysis.algorithm, table(analysis, "step")
    multiplier = math.sqrt(setting.noise(1.0)) * setting.batch / setting.records / setting.lipschitz
    one = SampledWithoutReplacementDpEvent(setting.records, setting.batch, GaussianDpEvent(multiplier))
    event = SelfComposedDpEvent(one, round(setting.steps))
    assert Wang2015().epsilon(event, setting.delta) == pytest.approx(1.0, rel=1e-6)
    exact = rows[rows.case.eq("exact") & rows.x.eq(1.0)].iloc[0]
    delta = gaussian_delta(2 / multiplier, exact.value)
    assert delta == pytest.approx(setting.delta / (2 * setting.steps), rel=1e-5)
    assert exact.bound < exact.value


def test_exact_epsilons_of_gaussian_mechanisms_have_the_delta_that_is_asked(analysis: Bounds) -> None:
    rows = pd.concat([table(analysis, "gaussian"), table(analysis, "mechanism")])
    assert rows.bound.equals(rows.x)
    assert rows[rows.kind.eq("theorem 2")].x.max() < 1
    exact = rows.set_index(["kind", "case", "x"]).value
    cases = [
        (kind, delta, epsilon, epsilon / math.sqrt(2 * math.log(1.25 / delta)))
        for kind, delta, epsilon in (("theorem 2", 1e-5, 0.5), ("theorem 2", 1e-15, 0.999))
    ]
    for (change, moved), (root, factor), (delta, epsilon) in itertools.product(
        (("replaced", 2), ("added or removed", 1)),
        (("as printed", 1), ("2 log(1/δ) under the root", 2)),
        ((1e-5, 0.1), (1e-5, 10.0), (1e-10, 1.0)),
    ):
        mu = moved * epsilon / (1 + math.sqrt(factor * math.log(1 / delta)))
        cases.append((f"lemma 5, {change}, {root}", delta, epsilon, mu))
    for kind, delta, epsilon, mu in cases:
        exceeded = gaussian_delta(mu, exact[kind, f"δ = {delta:g}", epsilon])
        assert exceeded / delta == pytest.approx(1, rel=1e-5), (kind, delta, epsilon)


@pytest.mark.slow
def test_covariances_of_random_data_sets_stay_below_the_bound_and_reach_four_over_n(analysis: Bounds) -> None:
    rows = table(analysis, "covariance").set_index(["case", "x"]).value
    rng = np.random.default_rng(0)
    for n in (5, 7):
        shared = np.full((n - 1, 1), -1.0)
        first, second = (np.vstack([shared, [[end]]]) for end in (1.0, -1.0))
        reached = abs(np.cov(first.T) - np.cov(second.T))
        assert rows["enumerated, d = 1", n] == pytest.approx(float(reached)) == 4 / n
    for _ in range(2000):
        records = rng.normal(size=(6, 3))
        records /= np.linalg.norm(records, axis=1, keepdims=True)
        gap = np.cov(records[:5].T) - np.cov(np.vstack([records[:4], records[5]]).T)
        assert np.linalg.norm(gap) <= rows["any data set", 5]


def test_worst_composition_by_enumeration_of_all_outcomes() -> None:
    """Each mechanism answers truly or falsely, and gives its record away with probability delta."""
    k, epsilon, delta, total = 3, 0.7, 0.01, 0.9
    true, false = ((1 - delta) * math.exp(sign) / (1 + math.exp(epsilon)) for sign in (epsilon, 0.0))
    first, second = [delta, true, false, 0.0], [0.0, false, true, delta]
    over = 0.0
    for outcomes in itertools.product(range(4), repeat=k):
        p, q = (math.prod(law[i] for i in outcomes) for law in (first, second))
        over += max(p - math.exp(total) * q, 0.0)
    assert composed(k, epsilon, delta, total) == pytest.approx(over, rel=1e-12)
    large = composed(10_000, 0.01, 0.0, 3.0)
    flips = mpmath.quad(  # the normal limit: privacy loss N(k eps^2/2, k eps^2)
        lambda z: (1 - mpmath.exp(3.0 - (0.5 + z))) * mpmath.npdf(z), [2.5, 6, 12]
    )
    assert large == pytest.approx(float(flips), rel=0.01)


def test_large_steps_of_sgfs_against_chains_of_the_kernel(analysis: Bounds) -> None:
    records, heads, batch, chains = 40, 6, 4, 4000
    rows = table(replace(analysis, scoring=[(records, heads, batch)]), "scoring").set_index("kind")
    kernel = sgfs(torch.eye(1, dtype=torch.float64), records, batch)
    mode = math.log(heads / (records - heads))
    fisher = torch.full((1, 1, 1, 1), heads * (1 - heads / records) / records, dtype=torch.float64)
    state = kernel.init(torch.full((chains, 1, 1), mode, dtype=torch.float64), fisher)
    rng, drawn, column = np.random.default_rng(0), [], torch.full((1, 1), 1e12, dtype=torch.float64)
    for t in range(160):
        positive = torch.tensor(rng.hypergeometric(heads, records - heads, batch, (chains, 1, 1)))
        gradient = records / batch * (batch * torch.sigmoid(state.theta) - positive)
        state = kernel.step(state, gradient, torch.zeros_like(gradient), column, fisher, 0 * column)
        drawn += [state.theta.numpy().ravel()] if t >= 60 else []
    steps = np.array(drawn)
    lagged = np.corrcoef(steps[:-1].ravel(), steps[1:].ravel())[0, 1]
    assert rows.value["sgfs, relaxation"] == pytest.approx(-batch / records / math.log(lagged), rel=0.03)
    grid = np.linspace(-12, 8, 20_001)
    log = heads * grid - records * np.logaddexp(0, grid)
    density = np.exp(log - log.max())
    density /= density.sum()
    mean = density @ grid
    for name, normal in {
        "mode": norm(mode, 1 / math.sqrt(heads * (1 - heads / records))),
        "moments": norm(mean, math.sqrt(density @ (grid - mean) ** 2)),
    }.items():
        below = np.searchsorted(np.sort(steps.ravel()), grid) / steps.size
        away, known = abs(below - normal.cdf(grid)).max(), abs(density.cumsum() - normal.cdf(grid)).max()
        row = rows.loc[f"sgfs, {name}"]
        assert row.value == pytest.approx(away, abs=0.01)
        assert row.bound == pytest.approx(known, abs=0.003)


def test_variance_of_private_sgfs_by_iteration(analysis: Bounds) -> None:
    setting = analysis.algorithm
    n, tau, passes = setting.records, setting.batch, setting.passes
    logs = math.log(2.5 * n * passes / (tau * 1e-5)) * math.log(2 / 1e-5)
    sigma2, variance = 32 * passes * logs / (n * tau), 0.0  # at epsilon = 1
    gain = 2 / ((tau + n) * n / tau / 4)
    for _ in range(5000):
        variance = (1 - gain * n / 4) ** 2 * variance + gain**2 * (n**2 / tau / 4 + n**2 * sigma2)
    rows = table(analysis, "scoring").set_index(["kind", "x"])
    assert rows.value["sgfs, private", 1.0] == pytest.approx(variance * n / 4, rel=1e-6)


def test_variances_of_a_step_and_relaxation_times_by_loops(analysis: Bounds) -> None:
    setting = replace(analysis.algorithm, records=20, batch=2, passes=4)
    short = replace(analysis, algorithm=setting, epsilons=[0.5, 10.0])
    gradients = np.random.default_rng(0).normal(size=20)
    gradients /= gradients.std(ddof=1)
    rows = table(short, "batches").set_index(["case", "x"]).value
    sums = [2 * gradients[list(of)].sum() for of in itertools.combinations(range(20), 10)]
    assert rows["minibatch", 10] == pytest.approx(np.var(sums))
    logs = math.log(2.5 * 20 * 4 / (10 * 1e-5)) * math.log(2 / 1e-5)
    assert rows["privacy", 10] == pytest.approx(128 * 20 * 4 / (10 * 0.25) * logs)
    logs = math.log(2.5 * 40 / 1e-5) * math.log(2 / 1e-5)
    # epsilon = 10, alpha N T/tau = 20
    moved = sum(0.5 * 100 / (128 * logs * t) * 20 / 4 for t in range(21, 41))
    found = table(short, "phase").set_index(["kind", "case", "x"]).value
    assert found["phase transition, relaxation times", "ε = 10", 0.5] == pytest.approx(moved)
    largest = 5**2 / (128 * 40 * logs)  # epsilon/2 = 5
    hybrid = table(short, "hybrid").set_index(["kind", "x"]).value
    assert hybrid["hybrid, relaxation times", 10.0] == pytest.approx(40 * largest * 20 / 4)


def test_start_of_the_hybrid_against_draws(analysis: Bounds) -> None:
    n, draws, rng = 1000, 40_000, np.random.default_rng(0)
    rows = table(replace(analysis, wald_sizes=[n], epsilons=[2.0]), "hybrid")
    rho = 1.0 / (4 * math.log1p(math.exp(2.0)))
    heads = rng.binomial(n, expit(0.5), draws)
    p = rng.beta(rho * heads, rho * (n - heads))
    p = np.where(abs(np.log(p / (1 - p))) < 2, p, np.nan)  # the cut, by rejection
    whole = beta(heads, n - heads)
    within = (whole.ppf(0.025) < p) & (p < whole.ppf(0.975))
    assert rows.value[0] == pytest.approx(within[~np.isnan(p)].mean(), abs=0.0125)


@pytest.fixture(scope="module")
def temperature() -> Temperature:
    return loading.analysis("temperature")


@pytest.mark.slow
def test_sghmc_with_noisy_gradients_by_hand_and_by_simulation(temperature: Temperature) -> None:
    eta, rng = 0.01, np.random.default_rng(0)
    steps = {**temperature.steps, "sghmc": [eta]}
    rows = pd.DataFrame(replace(temperature, steps=steps).rows("sghmc_noise", 0))
    found = rows[rows.problem.eq("1-d")].set_index("setting").value
    a, h = math.sqrt(eta), math.sqrt(eta)
    for setting, covariance, guess in (
        ("covariance B = 0.5, B̂ = 0.5", 0.5, 0.5),
        ("covariance B = 0.5, B̂ = 0.25", 0.5, 0.25),
        ("covariance 2B/h, B = 0.5, B̂ = 0", 1 / h, 0.0),
    ):
        over = 2 * (a - h * guess) + eta * covariance  # the variance of a step of v over eta
        exact = over * (2 - a + eta) / ((a - eta) * (4 - 2 * a + eta))
        assert found[setting] == pytest.approx(exact, rel=1e-9)
        theta, v, squares = np.zeros(20_000), np.zeros(20_000), []
        for t in range(400):
            gradient = theta + math.sqrt(covariance) * rng.normal(size=20_000)
            noise = math.sqrt(2 * (a - h * guess) * eta) * rng.normal(size=20_000)
            theta, v = theta + v, v - eta * gradient - a * v + noise
            squares += [np.mean(theta**2)] if t >= 150 else []
        assert np.mean(squares) == pytest.approx(exact, rel=0.02)


@pytest.mark.slow
def test_thermostat_with_noisy_gradients_in_one_direction_against_eq_43(temperature: Temperature) -> None:
    """Eq. 4.3 in p and xi, on a posterior whose principal axes are the coordinates."""
    eta, chains, rng = 0.0025, 2000, np.random.default_rng(0)
    short = replace(temperature, chains=400, steps={**temperature.steps, "sgnht": [eta]})
    rows = pd.DataFrame(short.rows("sgnht_noise", 0))
    found = rows[rows.setting.str.endswith("anisotropic")].set_index("problem").value
    assert len(found) == 2
    h, variances = math.sqrt(eta), np.array([0.4, 1.6])
    noise = np.sqrt([2 * 2 * 0.5 / h, 0.0])  # of mean 2 B/h, in the narrow direction
    theta, p, xi, squares = np.zeros((chains, 2)), np.zeros((chains, 2)), np.ones((chains, 1)), []
    for t in range(1500):
        gradient = theta / variances + noise * rng.normal(size=(chains, 2))
        pushed = p - h * xi * p - h * gradient + math.sqrt(2 * h) * rng.normal(size=(chains, 2))
        theta, p = theta + h * p, pushed
        xi = xi + h * ((p**2).mean(1, keepdims=True) - 1)
        squares += [(theta**2).mean(0) / variances] if t >= 300 else []
    narrow, wide = np.mean(squares, axis=0)
    assert (found["2-d, narrow axis"], found["2-d, wide axis"]) == pytest.approx((narrow, wide), rel=0.05)
    assert narrow > 1.15 > 0.85 > wide
    isotropic = rows[rows.setting.eq("covariance 2B/h, B = 0.5")]
    assert isotropic.value.to_numpy() == pytest.approx(1, abs=0.08)


def test_lengths_of_normal_vectors() -> None:
    assert largest(1) == pytest.approx(math.sqrt(2 / math.pi)) == length(1)
    assert largest(2) == pytest.approx(2 / math.sqrt(math.pi))
    assert length(3) == pytest.approx(2 * math.sqrt(2 / math.pi))
    drawn = np.abs(np.random.default_rng(0).normal(size=(20_000, 100))).max(1)
    assert largest(100) == pytest.approx(drawn.mean(), abs=5 * drawn.std() / math.sqrt(20_000))


def test_wald_and_consistency_against_draws_of_truncated_beta_posteriors(analysis: Bounds) -> None:
    """With p = sigmoid(theta) the tempered posterior of theta is Beta(rho s, rho (n - s)) of p, cut to the interval."""
    n, draws, rng = 300, 40_000, np.random.default_rng(0)
    short = replace(analysis, wald_sizes=[n], epsilons=[2.0], sizes=[n])
    rows = table(short, "wald").set_index("kind").value
    rho = 2.0 / (4 * math.log1p(math.exp(2.0)))
    truth = float(expit(0.5))
    power = expit(0.5 + 2 * math.sqrt((1 + 1 / rho) / (n * truth * (1 - truth))))
    for kind, chance in (("type I", truth), ("power", float(power))):
        heads = rng.binomial(n, chance, draws)
        law = beta(rho * heads, rho * (n - heads))
        low, high = law.cdf(expit(-2.0)), law.cdf(expit(2.0))
        p = law.ppf(low + (high - low) * rng.random(draws))
        theta = np.log(p / (1 - p))
        divergence = p * np.log(p / truth) + (1 - p) * np.log((1 - p) / (1 - truth))
        for test, statistic in (
            ("wald", p * (1 - p) * (theta - 0.5) ** 2),
            ("likelihood ratio", 2 * divergence),
        ):
            rejected = (n * statistic / (1 + 1 / rho) > 3.841459).mean()
            assert rows[f"{test}, {kind}"] == pytest.approx(rejected, abs=5 * math.sqrt(0.25 / draws))
    heads = rng.binomial(n, 0.4, draws)
    missed = (abs(rng.beta(heads + 1, n - heads + 1) - 0.4) > 0.05).mean()
    found = table(short, "consistency").set_index(["kind", "case"]).value
    assert found["proposition 1, sample", "uniform prior"] == pytest.approx(missed, abs=0.0125)


def test_worst_law_at_a_distance_against_a_linear_program() -> None:
    p, q, epsilon, distance = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6]), 0.3, 0.1
    best = 0.0
    for bits in itertools.product((0.0, 1.0), repeat=3):
        value = 0.0
        for law, sign in ((p, 1.0), (q, -math.exp(epsilon))):
            # variables: the moved law and its distances from `law`
            cost = np.concatenate([-sign * np.array(bits), np.zeros(3)])
            upper = np.block([[np.eye(3), -np.eye(3)], [-np.eye(3), -np.eye(3)]])
            upper = np.vstack([upper, np.concatenate([np.zeros(3), np.ones(3)])])
            limits = np.concatenate([law, -law, [distance]])
            equal = np.concatenate([np.ones(3), np.zeros(3)])[None]
            value -= linprog(cost, upper, limits, equal, [1.0], bounds=(0, None)).fun
        best = max(best, value)
    assert worst_within(p, q, epsilon, distance) == pytest.approx(best, abs=1e-9)
    np.testing.assert_allclose(metropolis(q, 2000), q, atol=1e-12)


def limits(*rows: tuple[str, float, float, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["case", "value", "low", "high"]).assign(axis=[1.0] * len(rows))


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [((1.0, 0.95, 1.05), "holds"), ((1.0, 0.8, 1.2), "open"), ((0.7, 0.6, 0.8), "fails")],
)
def test_intervals_decide_not_points(interval: tuple[float, float, float], verdict: str) -> None:
    frame = limits(("a", *interval), ("b", 1.0, 1.0, 1.0))
    several: tuple[dict[str, Any], ...] = ({}, {"over": {"case": "b"}, "keys": ["axis"]})
    for over in several:
        found = rules.covered(frame, where={"case": "a"}, bounds=[0.9, 1.1], what="", **over)
        assert (found["verdict"], found["measure"]) == (verdict, "interval")


def test_ratios_of_intervals_are_widest_crosswise_and_nearer_needs_intervals_that_are_apart() -> None:
    frame = limits(("a", 1.0, 0.9, 1.2), ("b", 2.0, 1.0, 4.0))
    pair: dict[str, Any] = {"where": {"case": "a"}, "over": {"case": "b"}, "keys": ["axis"]}
    found = rules.covered(frame, bounds=[0, 9], what="", **pair)
    assert (found["ours"], found["low"], found["high"]) == pytest.approx((0.5, 0.225, 1.2))
    near, far, wide = ("near", 1.05, 1.0, 1.1), ("far", 0.7, 0.6, 0.8), ("wide", 1.0, 0.7, 1.3)
    frame = limits(near, far, wide)

    def verdict(first: str, second: str) -> str:
        sides: dict[str, Any] = {"first": {"case": first}, "second": {"case": second}}
        return rules.nearer_to_one(frame, keys=["axis"], what="", **sides)["verdict"]

    assert verdict("near", "far") == "holds"
    assert verdict("far", "near") == "fails"
    assert verdict("wide", "far") == verdict("far", "wide") == "open"


def test_equivalence() -> None:
    cases = [("s", "a", 1.0, 0.001), ("p", "a", 1.0, 0.0), ("s", "b", 1.0, 0.5), ("p", "b", 1.0, 1.0)]
    frame = pd.DataFrame(cases, columns=["kind", "case", "x", "value"])
    asked: dict[str, Any] = {"first": "s", "second": "p", "small": 0.01, "large": 0.1}
    assert rules.together(frame, **asked)["verdict"] == "holds"
    assert rules.together(frame.assign(value=[0.001, 0.0, 0.5, 0.05]), **asked)["verdict"] == "open"
    assert rules.together(frame.assign(value=[0.001, 1.0, 0.5, 1.0]), **asked)["verdict"] == "fails"
