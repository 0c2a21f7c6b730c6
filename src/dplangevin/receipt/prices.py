"""What recorded steps cost, for both neighbour relations and for persons with several rows."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from dp_accounting import DpEvent
from dp_accounting.pld.privacy_loss_distribution import (
    PrivacyLossDistribution,
    from_mixture_gaussian_mechanism,
)
from scipy.stats import binom

from dplangevin.checks import count, require
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import Adjacency, RandomAllocationDpEvent, ShuffledEpochsDpEvent
from dplangevin.privacy.gaussian_steps import composed_steps
from dplangevin.receipt.sampling import Sampler

GRID = 5e-3  # spacing of privacy losses for mixtures of Gaussians, whose dots dp-accounting connects
NO_PRICE = {
    "with_replacement": "no price is known here for draws with replacement",
    "weighted": "no price is known: the weights may depend on the rows",
    "in_order": "no price is known: the order may depend on the rows (shuffle it)",
    "": "the minibatches fit no sampler that has a price",
}
DRAWS = "no price is known: a step adds up several independent draws"
GROUPED = "no price is known: rows are clipped in groups, and a sampled row moves the others of its group"
SIZES = "no price is known: the divisor or the noise depends on the realised size, which has no noise"
MOVES = "no price is known: an added row moves other rows to other minibatches"


class Price(NamedTuple):
    """A proven epsilon with its argument, or nan with the reason why there is none."""

    epsilon: float
    argument: str


class Ran(NamedTuple):
    """What was done to the data.

    - `multipliers`: (steps,), noise standard deviation over the clip, of each step.
    - `rate`: of Poisson samples; `batch`: of subsets.
    - `draws`: independent draws whose clipped gradients one step adds up.
    - `realised`: whether divisor or noise depend on the realised size of a minibatch, which is not noised.
    - `grouped`: whether rows are averaged before they are clipped; one row then turns the clipped mean of others.
    """

    sampler: Sampler
    records: int
    multipliers: np.ndarray
    rate: float
    batch: int
    draws: int = 1
    realised: bool = False
    grouped: bool = False


def event(ran: Ran, rows: int = 1) -> DpEvent:
    """Return the event of steps in which a person has `rows` rows, all of them in one minibatch at worst.

    A person's rows move a sum by at most rows * clip. So a step without sampling, or an epoch whose orders are given,
    has the noise multiplier of one row divided by `rows`. Sampled steps are for rows = 1 only.
    """
    scheme, length, noise = ran.sampler.scheme, ran.sampler.per_epoch, ran.multipliers / rows
    if scheme == "full":
        return composed_steps(1, 1, noise)
    if scheme == "shuffled":
        return ShuffledEpochsDpEvent.of(length, noise)
    if scheme == "random_allocation":
        return RandomAllocationDpEvent.of(length, noise)
    if scheme == "subset" or ran.realised:
        return composed_steps(ran.records, ran.batch, noise)
    return composed_steps(1, ran.rate, noise, poisson=True)  # type: ignore[arg-type]  # a rate, not a size


def price(ran: Ran, delta: float, adjacency: Adjacency, rows: int = 1) -> Price:
    """Return the proven epsilon of a run at delta for neighbours that differ in one person of at most `rows` rows."""
    count(1, rows=rows)
    scheme = ran.sampler.scheme
    if scheme in NO_PRICE:
        return Price(math.nan, NO_PRICE[scheme])
    if not (ran.multipliers > 0).all():
        return Price(math.inf, f"{int((ran.multipliers <= 0).sum())} steps have no noise")
    if adjacency == "add_remove":
        if scheme in ("shuffled", "subset"):
            return Price(math.nan, MOVES)
        if ran.realised:
            return Price(math.nan, SIZES)
    fixed = scheme in ("full", "shuffled")  # given the orders, which minibatch has a row is fixed
    for fault, why in (
        (ran.grouped and not (fixed and adjacency == "replace_one" and rows == 1), GROUPED),
        (ran.realised and not fixed and scheme != "poisson", SIZES),
        (ran.draws > 1 and not (scheme == "poisson" and adjacency == "add_remove"), DRAWS),
    ):
        if fault:
            return Price(math.nan, why)
    if scheme == "poisson" and (ran.draws > 1 or rows > 1) and adjacency == "add_remove":
        return _mixture(ran, delta, rows)
    if rows > 1 and not fixed:
        return group(lambda d: Tight().epsilon(event(ran), d, adjacency), delta, rows)
    epsilon, by = Tight().price(event(ran, rows), delta, adjacency)
    return Price(epsilon, by)


def _mixture(ran: Ran, delta: float, rows: int) -> Price:
    """Return the price of Poisson samples whose noise hides a binomial number of clipped gradients (add/remove).

    A person of `rows` rows, in a step of `draws` independent samples, moves the sum by J clip at most, with J ~
    Binomial(rows draws, rate). Ganesh (2024), "Tight group-level DP guarantees for DP-SGD with sampling via mixture of
    Gaussians mechanisms".
    """
    total = rows * ran.draws
    shares = binom.pmf(np.arange(total + 1), total, ran.rate)
    shares = shares / shares.sum()
    spent: PrivacyLossDistribution | None = None
    for noise, number in zip(*np.unique(ran.multipliers, return_counts=True), strict=True):
        step = from_mixture_gaussian_mechanism(
            float(noise),
            [float(j) for j in range(total + 1)],
            shares.tolist(),
            value_discretization_interval=GRID,
        )
        part = step.self_compose(int(number))
        spent = part if spent is None else spent.compose(part)
    assert spent is not None
    return Price(float(spent.get_epsilon_for_delta(delta)), "PLD of a mixture of Gaussians (dp-accounting)")


def group(one: Callable[[float], float], delta: float, rows: int) -> Price:
    """Return the price of `rows` records by the group lemma, which is loose.

    (e, d)-DP for one record is (k e, d (exp(k e) - 1)/(exp(e) - 1))-DP for k. `one` gives e at d.
    """
    require(delta > 0, "the group lemma needs delta > 0")
    spare = delta / rows
    for _ in range(200):
        epsilon = one(spare)
        if not rows * epsilon <= 700:  # a smaller spare makes it larger
            break
        grown = math.expm1(rows * epsilon) / math.expm1(epsilon) if epsilon > 0 else rows
        if spare * grown <= delta:
            return Price(rows * epsilon, "group lemma, loose")
        spare = min(delta / grown * 0.999, spare / 2)
    return Price(math.inf, "group lemma, loose")
