"""The exact computations about wang2015 by other routes, and the rules that read them."""

import itertools
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest
from dp_accounting import GaussianDpEvent, SampledWithoutReplacementDpEvent, SelfComposedDpEvent
from hydra.utils import instantiate
from omegaconf import OmegaConf
from scipy.optimize import linprog
from scipy.special import expit, polygamma
from scipy.stats import beta

from dplangevin.analyses.wang2015_bounds import Bounds, largest, length, metropolis, worst_within
from dplangevin.claims import wang2015_bounds as rules
from dplangevin.claims.analyses import inside
from dplangevin.exhibits.wang2015_bounds import figure, page
from dplangevin.privacy.accountants.wang2015 import Wang2015

CONF = Path(__file__).parents[1] / "conf"


@pytest.fixture(scope="module")
def analysis() -> Bounds:
    return instantiate(OmegaConf.load(CONF / "analysis/wang2015_bounds.yaml"), _convert_="all")


def table(analysis: Bounds, unit: str) -> pd.DataFrame:
    return pd.DataFrame(analysis.rows(unit, 1))


def test_lipschitz_posteriors_against_all_pairs_of_data_sets(analysis: Bounds) -> None:
    """Laplace likelihoods as densities, posteriors as products, every ordered pair of neighbours of two records."""
    short = replace(analysis, small_records=[2], prior_masses=[0.001])
    found = table(short, "lipschitz").set_index("case").value
    parameters, prior = [-4.0, 0.0, 4.0], [0.001, 0.4995, 0.4995]
    points = [-1.0, -0.5, 0.0, 0.5, 1.0]

    def density(x: float, theta: float) -> float:
        scale = mpmath.quad(lambda t: mpmath.exp(-abs(t - theta)), [-1, min(max(theta, -1), 1), 1])
        return float(mpmath.exp(-abs(x - theta)) / scale)

    likelihood = {(x, theta): density(x, theta) for x in points for theta in parameters}

    def posterior(records: tuple[float, ...]) -> np.ndarray:
        joint = [
            p * math.prod(likelihood[x, theta] for x in records)
            for theta, p in zip(parameters, prior, strict=True)
        ]
        return np.array(joint) / sum(joint)

    worst = max(
        abs(np.log(posterior((a, b)) / posterior((a, c)))).max()
        for a, b, c in itertools.product(points, repeat=3)
    )
    assert found["Laplace, prior mass 0.001 on one parameter"] == pytest.approx(worst, rel=1e-6)


def test_bias_of_sgld_against_simulation_and_the_closed_form_variance(analysis: Bounds) -> None:
    short = replace(analysis, steps=[0.08])
    rows = table(short, "weak").set_index("case").value
    exact = 2 * float(polygamma(1, analysis.pairs))  # of the symmetric generalised logistic law
    rng = np.random.default_rng(0)
    for name, factor in (("noise N(0, η), as printed", 1.0), ("noise N(0, 2η)", 2.0)):
        theta, total = np.zeros(20_000), []
        for t in range(300):
            drawn = rng.random((len(theta), 8)).argsort(1)[
                :, :2
            ]  # two of eight records, the first four positive
            positive = (drawn < 4).sum(1)
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
    mu, epsilon = mpmath.mpf(2) / multiplier, mpmath.mpf(exact.value)
    delta = mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
    assert float(delta) == pytest.approx(setting.delta / (2 * setting.steps), rel=1e-5)
    assert exact.bound < exact.value


@pytest.mark.parametrize(("change", "moved"), [("replaced", 2), ("added or removed", 1)])
@pytest.mark.parametrize(("root", "factor"), [("as printed", 1), ("2 log(1/δ) under the root", 2)])
def test_lemma_5_costs_what_an_integral_of_the_densities_says(
    analysis: Bounds, change: str, moved: int, root: str, factor: int
) -> None:
    rows = table(analysis, "gaussian").set_index(["kind", "case", "x"]).value
    for delta, epsilon in ((1e-5, 0.1), (1e-5, 10.0), (1e-10, 1.0)):
        exact = mpmath.mpf(rows[f"lemma 5, {change}, {root}", f"δ = {delta:g}", epsilon])
        apart = moved * epsilon / (1 + mpmath.sqrt(factor * mpmath.log(1 / delta)))

        def above(t: mpmath.mpf, apart: mpmath.mpf = apart, exact: mpmath.mpf = exact) -> mpmath.mpf:
            return mpmath.npdf(t - apart) - mpmath.exp(exact) * mpmath.npdf(t)

        start = exact / apart + apart / 2  # from where the density there is more than e^epsilon of the other
        assert float(mpmath.quad(above, [start, start + 2, start + 12])) == pytest.approx(delta, rel=1e-5)


def test_alpha_phase_ends_where_a_loop_says(analysis: Bounds) -> None:
    setting = replace(analysis.algorithm, records=50, batch=5, passes=7, lipschitz=2.0)
    row = table(replace(analysis, algorithm=setting, alphas=[0.3], epsilons=[0.5]), "phase").iloc[0]
    logs = math.log(2.5 * 50 * 7 / (5 * 1e-5)) * math.log(2 / 1e-5)
    above = []
    for t in range(1, 71):
        eta = 0.3 * 0.25 / (128 * 4 * logs * t)
        above += [t] if 128 * 50 * 7 * 4 / (5 * 0.25) * logs * eta**2 > eta * (1 + 1e-9) else []
    assert row.value == above[-1] == 20  # at t = 21 both are equal
    assert row.bound == pytest.approx(21)


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


def test_lengths_of_normal_vectors() -> None:
    assert largest(1) == pytest.approx(math.sqrt(2 / math.pi)) == length(1)
    assert largest(2) == pytest.approx(2 / math.sqrt(math.pi))
    assert length(3) == pytest.approx(2 * math.sqrt(2 / math.pi))
    drawn = np.abs(np.random.default_rng(0).normal(size=(20_000, 100))).max(1)
    assert largest(100) == pytest.approx(drawn.mean(), abs=5 * drawn.std() / math.sqrt(20_000))


def test_wald_and_consistency_against_draws_of_truncated_beta_posteriors(analysis: Bounds) -> None:
    """With p = sigmoid(theta) the tempered posterior of theta is Beta(rho s, rho (n - s)) of p, cut to the interval."""
    n, draws, rng = 300, 40_000, np.random.default_rng(0)
    short = replace(analysis, wald_sizes=[n], wald_epsilons=[2.0], sizes=[n])
    rows = table(short, "wald").set_index("kind").value
    rho = 2.0 / (4 * math.log1p(math.exp(2.0)))
    truth = float(expit(0.5))
    power = expit(0.5 + 2 * math.sqrt((1 + 1 / rho) / (n * truth * (1 - truth))))
    for kind, chance in (("wald, type I", truth), ("wald, power", float(power))):
        heads = rng.binomial(n, chance, draws)
        law = beta(rho * heads, rho * (n - heads))
        low, high = law.cdf(expit(-2.0)), law.cdf(expit(2.0))
        p = law.ppf(low + (high - low) * rng.random(draws))
        theta = np.log(p / (1 - p))
        rejected = (n * p * (1 - p) * (theta - 0.5) ** 2 / (1 + 1 / rho) > 3.841459).mean()
        assert rows[kind] == pytest.approx(rejected, abs=5 * math.sqrt(0.25 / draws))
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


def test_thermostat_diverges_where_no_friction_balances_the_noise(analysis: Bounds) -> None:
    short = replace(analysis, thermostat_epsilons=[10.0, 1000.0], chains=40, chain_length=2500)
    rows = table(short, "thermostat").set_index(["kind", "x"]).value
    assert rows["thermostat, ηV", 10.0] > 1 > rows["thermostat, ηV", 1000.0]
    assert rows["thermostat, diverged", 10.0] == 1
    assert rows["thermostat, diverged", 1000.0] == 0
    assert rows["thermostat, temperature", 1000.0] == pytest.approx(0.95, abs=0.1)


def limits(*rows: tuple[str, float, float, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["case", "value", "low", "high"]).assign(axis=[1.0] * len(rows))


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((1.0, 0.95, 1.05), "reproduced"),
        ((1.0, 0.8, 1.2), "not reproduced"),
        ((0.7, 0.6, 0.8), "contradicted"),
    ],
)
def test_intervals_decide_not_points(interval: tuple[float, float, float], verdict: str) -> None:
    frame = limits(("a", *interval), ("b", 1.0, 1.0, 1.0))
    found = rules.covered(frame, where={"case": "a"}, bounds=[0.9, 1.1], what="")
    assert found["verdict"] == verdict
    assert found["measure"] == "interval"
    pair: dict[str, Any] = {"top": {"case": "a"}, "bottom": {"case": "b"}, "keys": ["axis"]}
    assert rules.covered_ratio(frame, bounds=[0.9, 1.1], what="", **pair)["verdict"] == verdict


def test_ratio_of_intervals_is_widest_crosswise() -> None:
    frame = limits(("a", 1.0, 0.9, 1.2), ("b", 2.0, 1.0, 4.0))
    pair: dict[str, Any] = {"top": {"case": "a"}, "bottom": {"case": "b"}, "keys": ["axis"]}
    found = rules.covered_ratio(frame, bounds=[0, 9], what="", **pair)
    assert (found["ours"], found["low"], found["high"]) == pytest.approx((0.5, 0.225, 1.2))


def test_nearer_to_one_needs_intervals_that_are_apart() -> None:
    near, far, wide = ("near", 1.05, 1.0, 1.1), ("far", 0.7, 0.6, 0.8), ("wide", 1.0, 0.7, 1.3)
    frame = limits(near, far, wide)

    def verdict(first: str, second: str) -> str:
        sides: dict[str, Any] = {"first": {"case": first}, "second": {"case": second}}
        return rules.nearer_to_one(frame, keys=["axis"], what="", **sides)["verdict"]

    assert verdict("near", "far") == "reproduced"
    assert verdict("far", "near") == "contradicted"
    assert verdict("wide", "far") == verdict("far", "wide") == "not reproduced"


def test_equivalence_and_exact_rows() -> None:
    cases = [("s", "a", 1.0, 0.001), ("p", "a", 1.0, 0.0), ("s", "b", 1.0, 0.5), ("p", "b", 1.0, 1.0)]
    frame = pd.DataFrame(cases, columns=["kind", "case", "x", "value"])
    asked: dict[str, Any] = {"first": "s", "second": "p", "small": 0.01, "large": 0.1}
    assert rules.together(frame, **asked)["verdict"] == "reproduced"
    assert rules.together(frame.assign(value=[0.001, 0.0, 0.5, 0.05]), **asked)["verdict"] == "not reproduced"
    assert rules.together(frame.assign(value=[0.001, 1.0, 0.5, 1.0]), **asked)["verdict"] == "contradicted"
    found = rules.exact(
        frame, what="", of=lambda rows: inside(rows, where={"case": "b"}, column="value", bounds=[0, 1])
    )
    assert (found["verdict"], found["measure"]) == ("reproduced", "exact")


@pytest.mark.parametrize(("strict", "verdict"), [(False, "not reproduced"), (True, "contradicted")])
def test_one_case_refutes_a_bound(strict: bool, verdict: str) -> None:
    frame = pd.DataFrame({"value": [0.5, 1.5]})
    asked = partial(inside, where={}, column="value", bounds=[0, 1])
    assert rules.exact(frame, of=asked, what="", strict=strict)["verdict"] == verdict


def test_exhibit_names_every_kind_and_draws(analysis: Bounds) -> None:
    short = replace(
        analysis, sizes=[10], points=301, wald_sizes=[100], chains=4, chain_length=50, steps=[0.16, 0.08]
    )
    frame = pd.concat([table(short, unit) for unit in short.units()], ignore_index=True)
    assert len(figure(frame, title="a").axes) == 4
    assert page(frame, title="a").count("\n| ") >= len(frame)
