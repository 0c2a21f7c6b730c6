"""What noisy steps cost, for both neighbour relations and for persons with several rows."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent
from dp_accounting.pld.privacy_loss_distribution import from_mixture_gaussian_mechanism
from scipy.stats import binom

from dplangevin.checks import count, require
from dplangevin.privacy.accountants.protocol import leaves
from dplangevin.privacy.accountants.tight import Price, Tight
from dplangevin.privacy.events import Adjacency, RandomAllocationDpEvent, ShuffledEpochsDpEvent
from dplangevin.privacy.gaussian_steps import composed_steps
from dplangevin.receipt.minibatches import Sampler

MOST = 700.0  # of k e, so that its exponential is a number
GRID = 5e-3  # spacing of privacy losses for mixtures of Gaussians, whose dots dp-accounting connects
NO_PRICE = {
    "with_replacement": "no price is known here for draws with replacement",
    "weighted": "no price is known: the weights may depend on the rows",
    "in_order": "no price is known: the order may depend on the rows (shuffle it)",
    "": "the minibatches fit no sampler that has a price",
}
SAMPLES = "no price is known: a step adds up several independent draws"
GROUPED = "no price is known: rows are clipped in groups, and a sampled row moves the others of its group"
SIZES = "no price is known: the divisor or the noise depends on the realised size, which has no noise"
MOVES = "no price is known: an added row moves other rows to other minibatches"


class NoisySteps(NamedTuple):
    """Steps on noisy sums of clipped gradients, and how their minibatches are drawn.

    - `multipliers`: (steps,), noise standard deviation over the clip, of each step.
    - `rate`: of Poisson samples; `batch`: of subsets.
    - `samples`: independent samples whose clipped gradients one step adds up.
    - `size_dependent`: whether divisor or noise depend on the realised size of a minibatch, which is not noised.
    - `grouped`: whether rows are averaged before they are clipped; one row then turns the clipped mean of others.
    """

    sampler: Sampler
    records: int
    multipliers: np.ndarray
    rate: float
    batch: int
    samples: int = 1
    size_dependent: bool = False
    grouped: bool = False

    def event(self, rows: int = 1) -> DpEvent:
        """Return the event of steps in which a person has `rows` rows, all of them in one minibatch at worst.

        A person's rows move a sum by at most rows * clip. So a step without sampling, or an epoch whose orders are
        given, has the noise multiplier of one row divided by `rows`. Sampled steps are for rows = 1 only.
        """
        scheme, noise = self.sampler.scheme, self.multipliers / rows
        if scheme == "full":
            return composed_steps(1, 1, noise)
        if scheme in ("shuffled", "random_allocation"):
            kind = ShuffledEpochsDpEvent if scheme == "shuffled" else RandomAllocationDpEvent
            return kind.of(self.sampler.per_epoch, noise)
        if scheme == "subset" or self.size_dependent:
            return composed_steps(self.records, self.batch, noise)
        return composed_steps(1, self.rate, noise, poisson=True)  # type: ignore[arg-type]  # a rate, not a size


def price(steps: NoisySteps, delta: float, adjacency: Adjacency, rows: int = 1) -> Price:
    """Return the proven epsilon of steps at delta for neighbours that differ in one person of at most `rows` rows.

    It is nan with the reason where none is known.
    """
    count(1, rows=rows)
    scheme, added = steps.sampler.scheme, adjacency == "add_remove"
    fixed = scheme in ("full", "shuffled")  # given the orders, which minibatch has a row is fixed
    poisson_added = scheme == "poisson" and added
    if noiseless := int((steps.multipliers <= 0).sum()):
        return Price(math.inf, f"{noiseless:,} steps have no noise")
    faults = {
        NO_PRICE.get(scheme, ""): scheme in NO_PRICE,
        MOVES: added and scheme in ("shuffled", "subset"),
        SIZES: steps.size_dependent and (added or not (fixed or scheme == "poisson")),
        GROUPED: steps.grouped and (added or not fixed or rows > 1),
        SAMPLES: steps.samples > 1 and not poisson_added,
    }
    for why in (why for why, applies in faults.items() if applies):
        return Price(math.nan, why)
    if poisson_added and (steps.samples > 1 or rows > 1):
        return _mixture(steps, delta, rows)
    if rows > 1 and not fixed:
        return of_records(steps.event(), delta, adjacency, rows)
    return Tight().price(steps.event(rows), delta, adjacency)


def _mixture(steps: NoisySteps, delta: float, rows: int) -> Price:
    """Return the price of Poisson samples whose noise hides a binomial number of clipped gradients (add/remove).

    A person of `rows` rows, in a step of several independent samples, moves the sum by J clip at most, with J ~
    Binomial(rows samples, rate). Ganesh (2024), "Tight group-level DP guarantees for DP-SGD with sampling via mixture
    of Gaussians mechanisms".
    """
    most = rows * steps.samples
    shares = binom.pmf(np.arange(most + 1), most, steps.rate)
    shares, moved = (shares / shares.sum()).tolist(), np.arange(most + 1.0).tolist()
    levels, numbers = np.unique(steps.multipliers, return_counts=True)
    spent = None
    for noise, number in zip(levels.tolist(), numbers.tolist(), strict=True):
        step = from_mixture_gaussian_mechanism(noise, moved, shares, value_discretization_interval=GRID)
        part = step.self_compose(number)
        spent = part if spent is None else spent.compose(part)
    assert spent is not None
    return Price(float(spent.get_epsilon_for_delta(delta)), "PLD of a mixture of Gaussians (dp-accounting)")


def of_records(event: DpEvent, delta: float, adjacency: Adjacency, rows: int) -> Price:
    """Return the price of `rows` records together: exact for Gaussian mechanisms, where mu adds up; else by `group`."""
    parts = [*leaves(event)]
    if all(isinstance(leaf, GaussianDpEvent) for leaf, _ in parts):
        mu = math.sqrt(sum(times / leaf.noise_multiplier**2 for leaf, times in parts))
        return Tight().price(GaussianDpEvent(1 / (rows * mu)), delta, adjacency)
    return group(lambda d: Tight().epsilon(event, d, adjacency), delta, rows)


def grown(epsilon: float, rows: int) -> float:
    """Return (exp(k e) - 1)/(exp(e) - 1), by which the group lemma multiplies delta for k records; inf if too large."""
    if not 0 < epsilon < math.inf:
        return float(rows)
    return math.expm1(rows * epsilon) / math.expm1(epsilon) if rows * epsilon < MOST else math.inf


def group(one: Callable[[float], float], delta: float, rows: int) -> Price:
    """Return the price of `rows` records by the group lemma, which is loose.

    (e, d)-DP for one record is (k e, d `grown`)-DP for k. `one` gives e at d.
    """
    require(delta > 0, "the group lemma needs delta > 0")
    spare = delta / rows
    for attempt in range(200):
        epsilon = one(spare)
        if not rows * epsilon < MOST:  # a smaller spare makes it larger
            break
        times = grown(epsilon, rows)
        if spare * times <= delta:
            return Price(rows * epsilon, "group lemma, loose")
        spare = delta / times * 0.999 if attempt < 20 else spare / 2  # the first converges from above
    return Price(math.inf, "group lemma, loose")
