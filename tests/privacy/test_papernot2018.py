"""PATE's prices against direct computation: Renyi divergences by quadrature, sensitivities by enumeration."""

import itertools
import math

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, GaussianDpEvent
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import integrate
from scipy.stats import norm

from dplangevin.privacy import Budget
from dplangevin.privacy.accountants import papernot2018 as votes
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of
from dplangevin.privacy.accountants.papernot2018 import Papernot2018, Run, Settings
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import PateDpEvent

VOTES: list[tuple[tuple[int, ...], float]] = [((20, 0), 4.0), ((40, 0), 6.0), ((10, 10), 3.0)]
VOTES += [((12, 5, 3), 3.0), ((20, 1, 1), 5.0), ((40, 5, 0), 8.0)]
ORDERS = [1.5, 2.0, 4.0, 8.0, 16.0]


def law(counts: tuple[int, ...], noise_std: float) -> np.ndarray:
    """Probabilities of the noisy winner, by quadrature."""
    x = np.linspace(min(counts) - 12 * noise_std, max(counts) + 12 * noise_std, 20_001)
    found = []
    for j, own in enumerate(counts):
        below = np.prod([norm.cdf(x, n, noise_std) for i, n in enumerate(counts) if i != j], axis=0)
        found.append(integrate.simpson(norm.pdf(x, own, noise_std) * below, x=x))
    return np.array(found)


def neighbours(counts: tuple[int, ...]) -> list[tuple[int, ...]]:
    found = []
    for a, b in itertools.permutations(range(len(counts)), 2):
        if counts[a] > 0:
            moved = list(counts)
            moved[a] -= 1
            moved[b] += 1
            found.append(tuple(moved))
    return found


def divergence(p: np.ndarray, q: np.ndarray, order: float) -> float:
    return math.log(float((p**order * q ** (1 - order)).sum())) / (order - 1)


def priced(counts: tuple[int, ...], noise_std: float, order: float) -> float:
    return float(votes.renyi(votes.log_error(np.array(counts), noise_std), noise_std, order))


@pytest.mark.parametrize(("counts", "noise_std"), VOTES)
@pytest.mark.parametrize("order", ORDERS)
def test_the_bounds_hold_for_the_direct_divergence(
    counts: tuple[int, ...], noise_std: float, order: float
) -> None:
    own = law(counts, noise_std)
    others = [law(other, noise_std) for other in neighbours(counts)]
    flat = order / noise_std**2
    assert max(divergence(own, other, order) for other in others) <= priced(counts, noise_std, order) <= flat
    assert max(divergence(other, own, order) for other in others) <= flat


@pytest.mark.parametrize(("counts", "noise_std"), VOTES)
def test_log_error_is_the_probability_of_another_winner(counts: tuple[int, ...], noise_std: float) -> None:
    """Exact for two classes, above for more."""
    direct = 1 - law(counts, noise_std).max()
    bound = math.exp(float(votes.log_error(np.array(counts), noise_std)))
    assert bound == pytest.approx(direct, rel=1e-6) if len(counts) == 2 else bound >= direct


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("counts", [(50, 50), (34, 33, 33), (10,) * 10])
def test_a_flat_vote_costs_the_data_independent_bound(counts: tuple[int, ...], order: float) -> None:
    assert priced(counts, 5.0, order) == order / 25.0


@given(st.floats(0.5, 100), st.floats(1.01, 300))
def test_more_agreement_costs_less(noise_std: float, order: float) -> None:
    prices = votes.renyi(-np.geomspace(0.05, 5000, 400), noise_std, order)
    assert (np.diff(prices) <= 1e-9 * prices[:-1] + 1e-15).all()


@pytest.mark.parametrize("log_q", [-12.0, -40.0, -800.0])
@pytest.mark.parametrize("order", [1.5, 3.0, 10.0])
def test_theorem_6_in_high_precision(log_q: float, order: float) -> None:
    noise_std = 10.0
    with mp.workdps(2000):
        q, lam, variance = mp.e ** mpf(log_q), mpf(order), mpf(noise_std) ** 2
        second = noise_std * mp.sqrt(-mpf(log_q))
        first = second + 1
        most = (
            mp.e ** ((second - 1) * second / variance)
            / (first / (first - 1) * second / (second - 1)) ** second
        )
        assert q <= most
        assert lam <= first
        a = (1 - q) / (1 - (q * mp.e ** (second / variance)) ** ((second - 1) / second))
        b = mp.e ** (first / variance) / q ** (1 / (first - 1))
        wanted = mp.log((1 - q) * a ** (lam - 1) + q * b ** (lam - 1)) / (lam - 1)
        assert wanted < lam / variance
    assert float(votes.renyi(np.array(log_q), noise_std, order)) == pytest.approx(
        float(wanted), rel=1e-9, abs=1e-15
    )


def smooth_by_enumeration(counts: tuple[int, ...], noise_std: float, order: float, decay: float) -> float:
    """max over histograms n of e^(-decay distance) max over its neighbours |f - f(n)|."""
    teachers = sum(counts)
    best = 0.0
    for other in itertools.product(range(teachers + 1), repeat=len(counts)):
        if sum(other) == teachers:
            own = priced(other, noise_std, order)
            local = max(abs(priced(near, noise_std, order) - own) for near in neighbours(other))
            distance = sum(abs(a - b) for a, b in zip(counts, other, strict=True)) // 2
            best = max(best, math.exp(-decay * distance) * local)
    return best


def smooth(counts: tuple[int, ...], noise_std: float, order: float, decay: float) -> float:
    teachers, classes = sum(counts), len(counts)
    costs = votes.cell_costs(votes.CELLS * teachers, noise_std, classes, order)
    where = votes.cell(votes.log_error(np.array([counts]), noise_std), noise_std, classes)
    tally = np.bincount(where, minlength=len(costs))[None]
    return float(votes.smooth_sensitivity([(costs, tally)], decay, teachers)[0])


@pytest.mark.parametrize("counts", [(16, 0), (13, 3), (9, 7), (8, 8), (12, 0, 0), (8, 3, 1), (4, 4, 4)])
@pytest.mark.parametrize(
    ("noise_std", "order", "decay"), [(2.0, 3.0, 0.1), (3.0, 2.0, 0.3), (2.0, 4.0, 0.02)]
)
def test_smooth_sensitivity_against_every_vote(
    counts: tuple[int, ...], noise_std: float, order: float, decay: float
) -> None:
    """Never below the smooth sensitivity by definition; near it, for two classes."""
    direct, found = (f(counts, noise_std, order, decay) for f in (smooth_by_enumeration, smooth))
    assert direct > 0
    assert found >= direct * (1 - 1e-12)
    assert found <= direct * (1.1 if len(counts) == 2 else 3)


@pytest.mark.parametrize("counts", [(16, 0), (10, 6), (9, 2, 1)])
def test_it_is_smooth(counts: tuple[int, ...]) -> None:
    decay = 0.1
    own = smooth(counts, 2.0, 3.0, decay)
    for other in neighbours(counts):
        ratio = smooth(other, 2.0, 3.0, decay) / own
        assert math.exp(-decay) * (1 - 1e-12) <= ratio <= math.exp(decay) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("order", "decay", "multiplier"), [(4.0, 0.05, 3.0), (10.0, 0.02, 8.0), (2.0, 0.1, 1.0)]
)
def test_cost_of_a_release_against_quadrature(order: float, decay: float, multiplier: float) -> None:
    """The largest divergence over r and shift is the price, and is below the paper's GNSS."""
    worst = 0.0
    for r in np.exp(np.linspace(-decay, decay, 9)):
        for sign in (0.0, 1.0):
            shift, other = sign * min(1.0, r), multiplier * r

            def density(x: float, shift: float = shift, other: float = other) -> float:
                p, q = norm.logpdf(x, 0, multiplier), norm.logpdf(x, shift, other)
                return math.exp(order * p + (1 - order) * q)

            reach = 40 * multiplier
            found = integrate.quad(density, -reach, reach, epsabs=0, epsrel=1e-10, limit=500, points=[0])[0]
            worst = max(worst, math.log(found) / (order - 1))
    price = votes.release_cost(order, decay, multiplier)
    published = order * math.exp(2 * decay) / multiplier**2 + (
        decay * order - math.log(1 - 2 * order * decay) / 2
    ) / (order - 1)
    assert worst <= price * (1 + 1e-9)
    assert worst > 0.6 * price
    assert price <= published
    assert votes.release_cost(1 / (1 - math.exp(-2 * decay)) + 1, decay, multiplier) == math.inf


EVENT = PateDpEvent(200, 50, 40.0, 20.0)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_prices_do_not_depend_on_adjacency(adjacency: str) -> None:
    """Papernot: the best order by search. Tight: one Gaussian mechanism whose mu^2 adds up over tests and answers."""
    delta = 1e-4
    orders = 1 + np.geomspace(1e-2, 1e4, 200_001)
    rdp = 200 * orders / (2 * 40.0**2) + 50 * orders / 20.0**2
    searched = (rdp + math.log(1 / delta) / (orders - 1)).min()
    assert Papernot2018().epsilon(EVENT, delta, adjacency) == pytest.approx(searched, rel=1e-8)  # type: ignore[arg-type]
    mu = math.sqrt(200 / 40.0**2 + 2 * 50 / 20.0**2)
    assert Tight().epsilon(EVENT, delta, adjacency) == pytest.approx(epsilon_of(mu, delta), rel=1e-9)  # type: ignore[arg-type]
    assert epsilon_of(mu, delta) < searched


def test_pate_in_a_composition_keeps_the_adjacency_of_the_others() -> None:
    both = ComposedDpEvent([EVENT, GaussianDpEvent(2.0)])
    mu = math.sqrt(200 / 40.0**2 + 2 * 50 / 20.0**2 + 0.25)
    assert Tight().epsilon(both, 1e-4, "add_remove") == pytest.approx(epsilon_of(mu, 1e-4), rel=1e-9)


def test_a_published_value_counts_where_it_is_less() -> None:
    plain = Papernot2018().epsilon(EVENT, 1e-4)
    cheap = PateDpEvent(200, 50, 40.0, 20.0, order=20.0, released_rdp=0.01)
    assert Papernot2018().epsilon(cheap, 1e-4) == pytest.approx(0.01 + math.log(1e4) / 19)
    dear = PateDpEvent(200, 50, 40.0, 20.0, order=20.0, released_rdp=50.0)
    assert Papernot2018().epsilon(dear, 1e-4) == plain
    assert Tight().epsilon(cheap, 1e-4) == Tight().epsilon(EVENT, 1e-4)


def some_run(answer_std: float, seed: int = 0) -> Run:
    rng = np.random.default_rng(seed)
    wins = rng.integers(60, 101, size=(3, 40))
    counts = np.stack([wins, 100 - wins], -1).astype(float)
    answered = (wins > 80) & (rng.random(wins.shape) < 0.9)
    return Run(Settings(100, 80.0, 3 * answer_std, answer_std), counts, np.ones_like(answered), answered)


@pytest.mark.parametrize("order", [1.5, 3.0, 12.0])
def test_a_run_costs_the_sum_of_its_votes(order: float) -> None:
    """Two classes and whole thresholds fall on the ends of cells, so that the sum is exact."""
    run, std = some_run(6.0), 6.0
    wanted = np.zeros(3)
    for r in range(3):
        for counts, given_ in zip(run.counts[r], run.answered[r], strict=True):
            away = abs(counts.max() - 80.0)
            test = np.array(norm.logsf(away / (3 * std)))
            wanted[r] += float(votes.renyi(test, math.sqrt(2) * 3 * std, order))
            wanted[r] += priced(tuple(counts), std, order) if given_ else 0.0
    assert run.divergence(order) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("answer_std", [2.0, 6.0, 30.0, 300.0])
def test_a_run_never_costs_more_than_its_event(answer_std: float) -> None:
    run = some_run(answer_std)
    event = PateDpEvent(40, int(run.answered.sum(1).max()), 3 * answer_std, answer_std)
    assert (run.epsilon(1e-4) <= Papernot2018().epsilon(event, 1e-4) * (1 + 1e-9)).all()


def test_the_release_is_unbiased_and_as_noisy_as_it_says() -> None:
    run, budget, share, decay = some_run(6.0), Budget(1.0, 1e-4), 0.05, 0.2
    middle = run.release(budget, np.zeros(3), decay, share)
    above = run.release(budget, np.ones(3), decay, share)
    below = run.release(budget, -np.ones(3), decay, share)
    assert (above.rdp > middle.rdp).all()
    assert above.rdp + below.rdp == pytest.approx(2 * middle.rdp)
    multiplier = math.sqrt(middle.order / (2 * share))
    cost = votes.release_cost(middle.order, decay / middle.order, multiplier)
    assert middle.rdp - cost == pytest.approx(run.divergence(middle.order))
    assert share < cost < 2 * share
    assert (middle.epsilon > run.epsilon(1e-4)).all()
