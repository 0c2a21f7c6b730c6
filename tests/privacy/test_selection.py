"""The price of the best of a random number of runs, against the exact law of such releases and other people's code."""

import math

import numpy as np
import pytest
from checkout import ROOT
from dp_accounting import DpEvent, GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant
from dp_accounting.rdp.rdp_privacy_accountant import _gamma_truncated_negative_binomial
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from scipy.stats import logser, nbinom, poisson

from dplangevin.privacy import selection
from dplangevin.privacy.accountants.analytic_gaussian import delta_of
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.curve import Curve
from dplangevin.privacy.selection import gamma, selected, weight

LAWS = [(mean, shape) for mean in (3.0, 20.0) for shape in (0.0, 0.5, 1.0, math.inf)]


def chances(mean: float, shape: float, most: int = 4000) -> np.ndarray:
    """Return P(K = 0), P(K = 1), ... of the law."""
    k = np.arange(most)
    if shape == math.inf:
        return np.asarray(poisson.pmf(k, mean))
    least = gamma(mean, shape)
    if shape == 0:
        return np.asarray(logser.pmf(k, 1 - least))
    zero = least**shape
    return np.where(k > 0, nbinom.pmf(k, shape, least) / (1 - zero), 0.0)


@pytest.mark.parametrize(("mean", "shape"), LAWS)
def test_the_law_has_the_stated_mean_and_generating_function(mean: float, shape: float) -> None:
    chance = chances(mean, shape)
    k = np.arange(len(chance))
    assert chance.sum() == pytest.approx(1, abs=1e-9)
    assert chance @ k == pytest.approx(mean, rel=1e-9)
    if shape < math.inf:
        assert gamma(mean, shape) == pytest.approx(_gamma_truncated_negative_binomial(shape, mean), rel=1e-7)
    for p in (0.0, 0.01, 0.3, 1.0):
        slope = chance[1:] @ (k[1:] * (1 - p) ** (k[1:] - 1.0))
        assert weight(np.array([p]), mean, shape)[0] == pytest.approx(slope / mean, rel=1e-7)


def exact(mu: float, mean: float, shape: float, delta: float) -> float:
    """Return epsilon of the best of K draws of N(mu, 1) or N(0, 1), by quadrature, for both orders of the line."""
    x = np.linspace(-12, 12 + mu, 100_001)
    found = 0.0
    for sign in (1, -1):
        first, second = (
            mean
            * weight(ndtr(-sign * (x - m)), mean, shape)
            * np.exp(-((x - m) ** 2) / 2)
            / math.sqrt(2 * math.pi)
            for m in (mu, 0.0)
        )
        for p, q in ((first, second), (second, first)):

            def missing(e: float, p: np.ndarray = p, q: np.ndarray = q) -> float:
                return float(np.maximum(p - math.exp(e) * q, 0).sum() * (x[1] - x[0])) - delta

            if missing(0.0) > 0:
                found = max(found, float(brentq(missing, 0.0, 500.0)))
    return found


@pytest.mark.parametrize("mu", [0.1, 1.0])
@pytest.mark.parametrize(("mean", "shape"), LAWS)
def test_it_is_between_the_exact_law_of_an_order_and_the_papers_theorems(
    mu: float, mean: float, shape: float
) -> None:
    event = RepeatAndSelectDpEvent(GaussianDpEvent(1 / mu), mean, shape)
    price = Tight().epsilon(event, 1e-5, "add_remove")
    assert exact(mu, mean, shape, 1e-5) < price < RdpAccountant().compose(event).get_epsilon(1e-5)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("shape", [0.0, 1.0, 4.0])
def test_pure_runs_cost_their_closed_form_and_never_less(epsilon: float, shape: float) -> None:
    event = RepeatAndSelectDpEvent(GaussianDpEvent(1.0), 10.0, shape)
    least = gamma(10.0, shape)
    closed = epsilon + (1 + shape) * math.log((least + math.exp(epsilon)) / (1 + least * math.exp(epsilon)))
    found = selected(event, 0.0, lambda event, delta: epsilon)
    assert closed <= found < closed * (1 + 2e-3) + 2e-3
    assert found < (2 + shape) * epsilon  # Corollary 3
    # a run is best with chance p or p', as randomised response answers: the best bad answer
    p, q = 1 / (1 + math.exp(epsilon)), math.exp(epsilon) / (1 + math.exp(epsilon))
    chance = chances(10.0, shape)
    k = np.arange(len(chance))
    none = [float(chance @ (1 - each) ** k) for each in (p, q)]  # no run gives the good answer
    assert abs(math.log(none[0] / none[1])) <= found
    assert math.log((1 - none[1]) / (1 - none[0])) <= found


def steps() -> DpEvent:
    return SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0)), 300)


@pytest.mark.slow
def test_one_run_costs_one_run_and_more_runs_cost_more() -> None:
    one = Tight().epsilon(steps(), 1e-5)
    assert Tight().epsilon(RepeatAndSelectDpEvent(steps(), 1.0, 0.0), 1e-5) == one
    prices = [Tight().epsilon(RepeatAndSelectDpEvent(steps(), mean, 0.0), 1e-5) for mean in (2.0, 10.0, 50.0)]
    assert one < prices[0] < prices[1] < prices[2]


def test_a_law_that_does_not_exist_and_a_composition_are_refused() -> None:
    for mean, shape in ((0.5, 1.0), (math.inf, 1.0), (3.0, -0.5), (math.nan, 0.0)):
        with pytest.raises(ValueError, match=r"mean number of runs|shape"):
            Tight().epsilon(RepeatAndSelectDpEvent(steps(), mean, shape), 1e-5)
    with pytest.raises(ValueError, match="cannot price RepeatAndSelect"):
        Tight().epsilon(SelfComposedDpEvent(RepeatAndSelectDpEvent(steps(), 3.0, 0.0), 2), 1e-5)


@pytest.mark.parametrize("mu", [0.03, 0.5, 3.0])
def test_a_curve_is_never_below_that_of_a_gaussian_mechanism(mu: float) -> None:
    curve = Curve.of(lambda delta: Tight().epsilon(GaussianDpEvent(1 / mu), delta, "add_remove"))
    fpr = np.array([1e-9, 1e-4, 0.001, 0.01, 0.1, 0.5, 0.9, 0.999])
    ratio = curve.power(fpr) / ndtr(ndtri(fpr) + mu)
    assert np.all(ratio >= 1)
    assert np.all(ratio < 1.03)
    assert 1 <= curve.delta_at(0.0) / (2 * ndtr(mu / 2) - 1) < 1.01
    epsilons = mu * np.linspace(0, 6, 50)
    deltas = delta_of(mu, epsilons)
    seen = deltas > 1e-14
    ratio = curve.delta_at(epsilons)[seen] / deltas[seen]
    assert np.all(ratio >= 1)
    assert np.all(ratio < 1.2)
    back = 1 - np.exp(-epsilons) * (1 - deltas)
    assert np.all(curve.delta_at(-epsilons) >= back * (1 - 1e-12))


def test_a_curve_of_a_pure_and_of_no_guarantee() -> None:
    pure = Curve.of(lambda delta: 2.0)
    assert float(pure.delta_at(0.0)) == pytest.approx(math.tanh(1.0), rel=1e-6)
    assert pure.power(0.01) == pytest.approx(0.01 * math.exp(2), rel=1e-6)
    assert pure.delta_at(2.0) == pytest.approx(0, abs=1e-8)
    nothing = Curve.of(lambda delta: math.inf)
    assert nothing.power(0.0) == pytest.approx(1, abs=0.01)
    free = Curve.of(lambda delta: 0.0)
    assert free.delta_at(0.0) < 1e-8
    assert free.power(0.3) == pytest.approx(0.3, rel=1e-6)


def test_a_coarse_grid_is_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    event = RepeatAndSelectDpEvent(GaussianDpEvent(2.0), 10.0, 1.0)
    fine = Tight().epsilon(event, 1e-5)
    monkeypatch.setattr(selection, "LEVELS", 300)
    assert fine < Tight().epsilon(event, 1e-5) < 1.1 * fine


def test_the_table_of_the_privacy_page_is_what_we_compute() -> None:
    page = (ROOT / "docs" / "privacy.md").read_text()
    for name, shape in (("logarithmic (shape 0)", 0.0), ("geometric (shape 1)", 1.0), ("Poisson", math.inf)):
        event = RepeatAndSelectDpEvent(GaussianDpEvent(1.0), 10.0, shape)
        prices = [
            Tight().epsilon(event.event, 1e-5, "add_remove"),
            exact(1.0, 10.0, shape, 1e-5),
            Tight().epsilon(event, 1e-5, "add_remove"),
            RdpAccountant().compose(event).get_epsilon(1e-5),
        ]
        row = next(line for line in page.splitlines() if line.startswith(f"| {name} |"))
        assert [float(cell) for cell in row.split("|")[2:6]] == [float(f"{each:.3g}") for each in prices]
