"""Agreement with dp_accounting where both price the same thing."""

import math

import pytest
from dp_accounting import ComposedDpEvent, GaussianDpEvent, NeighboringRelation
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from sampled_steps import poisson
from scipy.integrate import quad
from scipy.stats import norm

from dplangevin.privacy.accountants.moments_accountant import Rdp, log_moment
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import Adjacency

DELTA = 1e-5


@pytest.mark.parametrize(("rate", "multiplier"), [(0.05, 1.0), (0.002, 0.7), (0.5, 0.5), (0.002, 20.0)])
@pytest.mark.parametrize("order", [0.1, 0.5, 1.7, 9.9])
def test_log_moments_of_broken_orders(rate: float, multiplier: float, order: float) -> None:
    # dp_accounting's series for these stops early: a quadrature instead
    peak = max(1.0, order + 1)

    def less_one(x: float) -> float:
        t = rate * math.expm1((2 * x - 1) / (2 * multiplier**2))
        return (math.expm1((order + 1) * math.log1p(t)) - (order + 1) * t) * norm.pdf(x, scale=multiplier)

    ends = -9 * multiplier, peak + 9 * multiplier
    found, _ = quad(less_one, *ends, points=[0, 0.5, peak], limit=400, epsabs=0, epsrel=1e-10)
    assert log_moment(rate, multiplier, [order])[0] == pytest.approx(math.log1p(found), rel=1e-7)


def test_rdp_takes_our_multiplier() -> None:
    event = ComposedDpEvent([poisson(1.3, 500, 0.004), GaussianDpEvent(9.0)])
    accountant = RdpAccountant()
    accountant.compose(event)
    assert Rdp().epsilon(event, DELTA, "add_remove") == pytest.approx(accountant.get_epsilon(DELTA), rel=1e-6)
    halved = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    halved.compose(GaussianDpEvent(3.0))
    assert Rdp().epsilon(GaussianDpEvent(6.0), DELTA) == pytest.approx(halved.get_epsilon(DELTA), rel=1e-6)


@pytest.mark.parametrize(
    ("rate", "multiplier", "count"),
    [
        (3e-3, 1.0, 2000),
        (0.1, 3.0, 100),
        (0.9, 2.0, 5),
        (2.1e-3, 3.18, 9375),
        (0.01, 1.5, 1000),
        (1.0, 2.0, 1),
    ],
)
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_tight_is_just_below_pld_on_a_fine_grid(
    rate: float, multiplier: float, count: int, adjacency: Adjacency
) -> None:
    # dp_accounting's connect-the-dots at one step: above the truth by what its grid adds
    event = ComposedDpEvent([poisson(multiplier, count, rate), GaussianDpEvent(9.0)])
    either = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
    accountant = PLDAccountant(either[adjacency == "replace_one"], 1e-4)
    accountant.compose(event)
    theirs, ours = accountant.get_epsilon(DELTA), Tight().price(event, DELTA, adjacency)
    assert ours.epsilon <= theirs * (1 + 1e-4)
    assert ours.epsilon == pytest.approx(theirs, rel=5e-3)
