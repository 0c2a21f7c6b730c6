"""li2019's formulas and their rules, against closed forms, mpmath and brute force."""

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from loading import analysis
from mpmath import mp, mpf, quad
from scipy.integrate import quad as integral
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from scipy.stats import norm

from dplangevin.papers.analyses.finite import finite_moment, transcripts
from dplangevin.papers.analyses.li2019_bounds import CHANNELS, power_sum, terms, two_steps
from dplangevin.papers.analyses.mixing import diffusion_time, relaxation_time
from dplangevin.papers.analyses.moments import moments_price, sampled_delta, sampled_moment, tail_bound
from dplangevin.privacy.accountants.moments_accountant import Moments
from dplangevin.privacy.events import Adjacency
from dplangevin.privacy.gaussian_steps import steps_event

SMALL: dict[str, Any] = {
    "multipliers": 2, "theorem_rates": [0.003], "theorem_steps": [1000], "deltas": [1e-5],
    "decreasing_rates": [], "epsilons": [0.5], "step_counts": [10000, 40000], "step_deltas": [1e-5],
    "lipschitz": [1.0, 7.0], "frictions": [0.2], "sizes": [2, 100], "figure_records": [2000], "figure_lipschitz": [1.0],
}  # fmt: skip


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    formulas = analysis("li2019_bounds", **SMALL)
    return pd.DataFrame([row for unit in formulas.units() for row in formulas.rows(unit, 0)])


@pytest.mark.parametrize(
    ("rate", "noise", "order"), [(0.0001, 1.0, 2.5), (0.06, 1.0, 2.7), (0.003, 8.0, 150.0)]
)
def test_moments_by_mpmath(rate: float, noise: float, order: float) -> None:
    """Thirty digits, integrated between the points around which the integrand lies."""
    q, s = mpf(rate), mpf(noise)

    def density(x: Any, centre: int) -> Any:
        normal = [mp.exp(-((x - c) ** 2) / (2 * s**2)) for c in (0, centre)]
        return ((1 - q) * normal[0] + q * normal[1]) / (s * mp.sqrt(2 * mp.pi))

    points = [mpf(k) * s for k in (-14, -6, -2, 0, 2, 6, 14)] + [order + 20 * s]
    adjacencies: list[tuple[Adjacency, int]] = [("add_remove", 0), ("replace_one", -1)]
    for adjacency, centre in adjacencies:
        with mp.workdps(30):
            exact = mp.log(
                quad(lambda x, c=centre: density(x, 1) * (density(x, 1) / density(x, c)) ** order, points)
            )
        found = sampled_moment(rate, noise, np.array([order]), adjacency)[0]
        assert found == pytest.approx(float(exact), rel=1e-6), adjacency


@pytest.mark.parametrize("schedule", ["fixed", "decreasing"])
def test_price_is_that_of_the_moments_accountant(schedule: Any) -> None:
    event = steps_event(3.0, rate=0.01, steps=400, schedule=schedule)
    exact = Moments(256).epsilon(event, 1e-5, "add_remove")
    assert moments_price(0.01, 3.0, 400, 1e-5, schedule) == pytest.approx(exact, rel=2e-2)


def test_sums_and_terms_by_brute_force() -> None:
    t = np.arange(1, 300_001, dtype=float)
    assert power_sum(len(t), -1 / 3) == pytest.approx((t ** (-1 / 3)).sum(), rel=1e-12)
    eta = 0.3 * t[:50] ** -0.4
    found = terms(0.3, -0.4, 50)
    assert found.noise == pytest.approx((eta**2).sum() / eta.sum() ** 2)
    assert found.bias == pytest.approx(1 / eta.sum())
    assert found.discretisation == pytest.approx(((eta**2).sum() / eta.sum()) ** 2)


@pytest.mark.parametrize("thermostat", [False, True])
def test_two_steps_by_simulation(thermostat: bool) -> None:
    """delta = E max(1 - exp(eps - loss), 0), the loss from the two conditional laws along simulated paths."""
    rng, a, s, shift, epsilon = np.random.default_rng(0), 0.2, 0.1, 0.07, 0.4
    theta, v0 = 0.2, 0.05
    mean = (1 - a) * v0 - 0.3 * theta
    v1 = mean + s * rng.standard_normal(400_000)
    rest = a + v1**2 - s**2 / (2 * a) if thermostat else a
    centre = (1 - rest) * v1 - 0.3 * (theta + v0)
    v2 = centre + s * rng.standard_normal(400_000)
    loss = sum(norm.logpdf(v, c, s) - norm.logpdf(v, c - shift, s) for v, c in ((v1, mean), (v2, centre)))
    draws = np.maximum(-np.expm1(epsilon - loss), 0)
    exact = two_steps(thermostat, a, s, shift, epsilon)
    assert abs(draws.mean() - exact) < 4 * draws.std() / math.sqrt(len(draws))


@pytest.mark.slow
def test_the_printed_conditions_admit_what_leaks(frame: pd.DataFrame) -> None:
    """All three conditions, rewritten in the step, and a lower bound on the price by one event of the last sum."""
    rows = frame[
        frame.panel.eq("printed") & frame.adjacency.eq("add_remove") & frame.x.eq(0.1) & frame.term.eq("6")
    ]
    assert len(rows) == 2
    row: Any
    for row in rows.itertuples():
        eta = 50_000.0  # N/L^2 with N = 50000, L = 1: condition 1 with equality
        power, last = (2 / 3, row.steps ** (-1 / 3)) if row.schedule == "decreasing" else (1.0, 1.0)
        assert eta * last > 50_000 / 256
        assert eta < row.epsilon**2 * 50_000 / (6 * row.steps**power * math.log(1 / row.delta))
        assert row.epsilon < row.x * row.steps**power
        # sum_t t^(-1/3) is at least its integral; of two normals mu apart, what lies beyond the mean of one
        total = 1.5 * (row.steps ** (2 / 3) - 1) if row.schedule == "decreasing" else row.steps
        assert row.epsilon < math.log(0.5 - row.delta) - norm.logcdf(-math.sqrt(total)) < row.value


@pytest.mark.slow
def test_cases_that_have_a_closed_form(frame: pd.DataFrame) -> None:
    """Lambert; best constants, from the derivatives 2 eta^3 T = 1 and 12 eta~^3 = T^(2/3); rounds; autoregression."""
    row: Any
    for row in frame[frame.case.eq("Lambert")].itertuples():
        log_omega = -row.value
        assert 5 * math.log(-log_omega) - 4 * log_omega == pytest.approx(row.x)  # T = ln(1/omega)^5/omega^4
        w = row.bound**5
        assert w + math.log(w) == pytest.approx(row.x + math.log(0.8))  # W e^W = 4 T/5
    for case, constant, power in (("best step", 0.5, -1.0), ("best budget", 1 / 12, 2 / 3)):
        rows = frame[frame.case.eq(case)]
        np.testing.assert_allclose(rows.value**3, constant * rows.x**power, rtol=1e-5)
    rows = frame[frame.case.eq("composability")]
    np.testing.assert_allclose(rows[rows.term.eq("one channel")].ratio, 1.0)
    assert rows[rows.term.eq("adaptive")].ratio.between(0.3, 0.999).all()
    u = np.geomspace(1e-4, 50, 200_000)  # the largest (1 - exp(-u)) exp(-lambda u) on a grid
    for row in frame[frame.case.eq("tail") & frame.term.eq("every mechanism")].itertuples():
        assert (-np.expm1(-u) * np.exp(-row.x * u)).max() == pytest.approx(row.value, rel=1e-6)
    rows = frame[frame.panel.eq("mixing") & frame.term.eq("curvature 1") & frame.x.eq(0.1)].set_index("case")
    correlation = 1 - rows.value.correlation
    # of an autoregression: 1 + 2 sum of the correlations of all lags
    assert 1 + 2 * (correlation ** np.arange(1, 2000)).sum() == pytest.approx(rows.value["sample"])
    assert correlation == pytest.approx(0.9)
    assert (frame[frame.case.eq("tail")].ratio < 1).all()
    assert (frame[frame.case.eq("equivalence")].ratio > 1).all()


def test_conditions_lack_the_square_of_q(frame: pd.DataFrame) -> None:
    rates = frame[frame.case.eq("rates")]
    first, second = (rates[rates.term.eq(f"condition {i}")] for i in (1, 2))
    np.testing.assert_allclose(first.ratio, 1 / first.rate**2, rtol=1e-3)
    np.testing.assert_allclose(second.ratio, (256 * second.rate) ** 2, rtol=1e-3)


def test_adaptive_rounds_by_enumeration() -> None:
    """Every output of three rounds, one product at a time; alpha(2) in both directions, delta at epsilon = .3."""
    chances: list[tuple[float, float]] = []
    for bits in itertools.product([0, 1], repeat=3):
        pair = [1.0, 1.0]
        for i, bit in enumerate(bits):
            for of in (0, 1):
                one = CHANNELS[sum(bits[:i]) % 4][of]
                pair[of] *= one if bit else 1 - one
        chances.append((pair[0], pair[1]))
    p, q = transcripts(CHANNELS, 3)
    assert sorted(zip(p, q, strict=True)) == [pytest.approx(pair) for pair in sorted(chances)]
    both = [math.log(sum(a**3 / b**2 for a, b in of)) for of in (chances, [(b, a) for a, b in chances])]
    assert finite_moment(p, q, 2.0) == pytest.approx(max(both))


def test_tail_bound_by_closed_form_and_by_integration() -> None:
    """Gaussian: exp(-(eps - mu^2/2)^2/(2 mu^2)), or 1 where eps < mu^2/2. Sampled: max(P - e^eps Q, 0) integrated."""
    for mu, epsilon in ((0.25, 0.5), (1.0, 1.7), (1.0, 0.3)):
        found = tail_bound(lambda order, mu=mu: order * (order + 1) * mu**2 / 2, epsilon)  # type: ignore[misc]
        expected = math.exp(-((epsilon - mu**2 / 2) ** 2) / (2 * mu**2)) if epsilon > mu**2 / 2 else 1.0
        assert found == pytest.approx(expected, rel=1e-6)
    q, s, epsilon = 0.1, 1.3, 0.4

    def gap(x: float) -> float:
        kept, moved = norm.pdf(x, 0, s), norm.pdf(x, 1, s)
        return max((1 - q) * kept + q * moved - math.exp(epsilon) * kept, 0.0)

    assert sampled_delta(q, s, epsilon) == pytest.approx(integral(gap, -20, 30, limit=500)[0], rel=1e-6)


def test_relaxation_between_modes() -> None:
    """The diffusion's by shooting: an odd eigenfunction that is flat far out; the chain's is near at small steps."""
    barrier = 2.0

    def slope_far_out(rate: float) -> float:
        def odd(x: float, f: np.ndarray) -> list[float]:
            return [f[1], 16 * barrier * (x * (x * x - 1) * f[1] / 2 - rate * f[0])]

        return float(solve_ivp(odd, (0, 1.6), [0.0, 1.0], rtol=1e-9, atol=1e-12).y[1, -1])

    assert diffusion_time(barrier) == pytest.approx(1 / brentq(slope_far_out, 1e-3, 1e-2), rel=1e-3)
    assert 0.001 * relaxation_time(0.001, barrier) == pytest.approx(diffusion_time(barrier), rel=1e-3)


def test_a_constant_that_depends_on_the_rest_leaves_no_step(frame: pd.DataFrame) -> None:
    """Conditions 2 and 3 in the step itself at T; with nine tenths of the constant a step meets both."""
    rows = frame[frame.case.eq("void")]
    assert set(rows.schedule) == {"fixed", "decreasing"}
    row: Any
    for row in rows.itertuples():
        power, last = (2 / 3, row.steps ** (-1 / 3)) if row.schedule == "decreasing" else (1.0, 1.0)
        assert row.epsilon < row.x * row.rate**2 * row.steps**power
        square = 256 * row.x * row.epsilon * last / math.log(1 / row.delta)
        above = row.rate**2 * 50_000 / 256
        below = row.epsilon**2 * 50_000 * last / (square * row.steps**power * math.log(1 / row.delta))
        assert (row.value, row.bound) == pytest.approx((above, below))
        assert above > below
    assert rows.ratio.min() * 0.9 < 1
