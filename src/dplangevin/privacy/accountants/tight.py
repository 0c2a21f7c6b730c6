"""The proven epsilon of an event: the smallest epsilon that we can prove, in closed form or numerically.

Three functions say what a kind of event needs, registered by its class: `as_step`, `alone` and `losses`.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from typing import NamedTuple

import attr
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from scipy.stats import binom

from dplangevin.privacy.accountants import allocation, composition, objective, profiles
from dplangevin.privacy.accountants.analytic_gaussian import (
    LARGEST,
    UNIT,
    AnalyticGaussian,
    epsilon_of,
    mu_of,
)
from dplangevin.privacy.accountants.last_iterate import Bok2024
from dplangevin.privacy.accountants.protocol import leaves, nearby, refuse, trivial
from dplangevin.privacy.events import (
    Adjacency,
    LangevinDpEvent,
    ObjectivePerturbationDpEvent,
    PosteriorSampleDpEvent,
    PureObjectivePerturbationDpEvent,
    RandomAllocationDpEvent,
    check_adjacency,
)
from dplangevin.privacy.gaussian_steps import coarsened, rate_and_multiplier
from dplangevin.privacy.selection import selected

Parts = tuple[tuple[DpEvent, int], ...]
Pair = profiles.DominatingPair | profiles.Atoms

PLD = "PLD"
PLD_BOTH = "PLD, larger of both directions"  # for a step without replacement, see `Tight`
ONE_STEP = "exact curve of one sampled step"
UNSAMPLED = "analytic Gaussian, as without sampling"
DRAWS = "analytic Gaussian, with a bound on how often a record is drawn"
BEST = "curve of one run"


class Price(NamedTuple):
    """The proven epsilon, and the name of the argument that gave it."""

    epsilon: float
    accountant: str


@dataclass(frozen=True)
class Tight:
    """Accountant that gives the smallest epsilon that we can prove (docs/privacy.md lists closed forms and PLD).

    DP-SGFS and PATE cost what their Gaussian steps cost. The last iterate of DP-Langevin costs the smaller of all
    iterates and `Bok2024`, in a composition all iterates. The best of a random number of runs (`selection.selected`)
    is priced alone.

    Sampling never costs more than no sampling. A sampled step has the laws (1 - q) R + q P and (1 - q) R + q Q. The
    hockey-stick divergence is jointly convex, so theirs is at most (1 - q) max(0, 1 - e^epsilon) + q delta(P, Q) <=
    delta(P, Q). Such a bound on each step's curve holds for adaptive compositions (Zhu, Dong, Wang 2022, Theorem 10).
    Where the grid of PLD costs more, this bound is the price.

    Objective perturbation is on the sum scale, with b ~ N(0, s^2 I). The losses depend on the margin and have a
    derivative of one sign, as the logistic loss has. Given theta, the neighbour's b differs by the records' gradients.

    - add_remove: b differs by a u, with a in [0, L] and ||u|| = 1. The log-ratio of b's densities is convex in a. So
      it is at most max(0, G), where G is the privacy loss of a Gaussian mechanism with mu = L/s. Kifer's
      log-determinant adds at most d = log(1 + beta/Lambda). So delta(epsilon) <= delta_mu(epsilon - d), epsilon >= d.
    - replace_one: b differs by a u + a' u'. The log-ratio is convex in (a, a'), so it is at most the largest of 0,
      G_u, G_u' and G_(u+u'). For u = u' (opposite labels) this is max(0, G) with mu = 2L/s, and the same formula
      follows. The tests check numerically that this angle is the worst. This is not proved.

    Other losses (two-sided, or of several margins): `objective`, which is proved for both neighbour relations. The
    noise that covers the solver's error costs extra: `objective.with_output`.
    """

    name: str = "tight"

    def epsilon(self, event: DpEvent, delta: float, adjacency: Adjacency = "replace_one") -> float:
        """Return the proven epsilon at delta; see `price`."""
        return self.price(event, delta, adjacency).epsilon

    def price(self, event: DpEvent, delta: float, adjacency: Adjacency = "replace_one") -> Price:
        """Return the proven epsilon at delta, and the argument that gave it; ValueError if there is none."""
        check_adjacency(adjacency, who=self.name)
        known = trivial(event, delta)
        if known is not None:
            return Price(known, "none needed")
        close = nearby(event, delta, lambda inner, spare: self.epsilon(inner, spare, adjacency))
        if close is not None:
            return Price(close, "total variation charged to delta")
        given = list(leaves(event))
        if len(given) == 1 and given[0][1] == 1:
            price = alone(given[0][0], delta, adjacency)
            if price is not None:
                return price
        parts: Counter[DpEvent] = Counter()
        for leaf, count in given:
            # the Gaussian steps that dominate a hidden or joint step
            shown = leaf.gaussian_steps(adjacency) if hasattr(leaf, "gaussian_steps") else leaf
            for step, times in leaves(shown, count):
                parts[as_step(step, adjacency)] += times
        if all(isinstance(leaf, GaussianDpEvent) for leaf in parts):
            every = ComposedDpEvent([SelfComposedDpEvent(leaf, count) for leaf, count in parts.items()])
            return Price(AnalyticGaussian().epsilon(every, delta, adjacency), "analytic Gaussian")
        if parts.total() == 1:
            (leaf,) = parts
            price = alone(leaf, delta, adjacency)
            if price is not None:
                return price
        return _composed(tuple(sorted(coarsened(parts).items(), key=repr)), delta, adjacency)


@singledispatch
def as_step(leaf: DpEvent, adjacency: Adjacency) -> DpEvent:
    """Return the leaf as it is composed, the Gaussian mechanism itself for sampling of all records, or refuse it."""
    raise refuse("tight", leaf)


@as_step.register(GaussianDpEvent)
@as_step.register(PosteriorSampleDpEvent)
@as_step.register(ObjectivePerturbationDpEvent)
@as_step.register(PureObjectivePerturbationDpEvent)
def _(leaf: DpEvent, adjacency: Adjacency) -> DpEvent:
    return leaf


@as_step.register
def _(leaf: PoissonSampledDpEvent, adjacency: Adjacency) -> DpEvent:
    gaussian = _gaussian_of(leaf)
    return gaussian if leaf.sampling_probability == 1 else leaf


@as_step.register
def _(leaf: SampledWithoutReplacementDpEvent, adjacency: Adjacency) -> DpEvent:
    gaussian = _gaussian_of(leaf)
    if adjacency != "replace_one":
        raise refuse("tight", leaf, f"sampling without replacement needs replace_one, not {adjacency}")
    return gaussian if leaf.sample_size == leaf.source_dataset_size else leaf


@as_step.register
def _(leaf: RandomAllocationDpEvent, adjacency: Adjacency) -> DpEvent:
    gaussian = _gaussian_of(leaf)
    return gaussian if leaf.steps == 1 else attr.evolve(leaf, whole=True)


def _gaussian_of(leaf: DpEvent) -> GaussianDpEvent:
    """Return the Gaussian mechanism that a sampled step applies to its batch, or refuse another one."""
    if not isinstance(leaf.event, GaussianDpEvent):
        raise refuse("tight", leaf, "sampling is priced for Gaussian steps only")
    return leaf.event


@singledispatch
def alone(leaf: DpEvent, delta: float, adjacency: Adjacency) -> Price | None:
    """Return the price of an event that is not composed with others, where it has one of its own."""
    return None


@alone.register
def _(leaf: RepeatAndSelectDpEvent, delta: float, adjacency: Adjacency) -> Price:
    return Price(selected(leaf, delta, lambda one, spare: Tight().epsilon(one, spare, adjacency)), BEST)


@alone.register
def _(leaf: LangevinDpEvent, delta: float, adjacency: Adjacency) -> Price | None:
    if leaf.steps == 1:  # all iterates are the last iterate
        return None
    epsilon, source = Bok2024().price(leaf, delta, adjacency)
    return Price(epsilon, PLD_BOTH if source == "all iterates" else f"{Bok2024().name}, {source}")


@alone.register
def _(leaf: PosteriorSampleDpEvent, delta: float, adjacency: Adjacency) -> Price:
    return Price(profiles.bounded_range_epsilon(_range(leaf, adjacency), delta), "bounded range")


@alone.register
def _(leaf: PoissonSampledDpEvent, delta: float, adjacency: Adjacency) -> Price | None:
    rate, mu = leaf.sampling_probability, mu_of(_gaussian_of(leaf).noise_multiplier, "add_remove")
    if rate in (0, 1):
        return None
    exact = profiles.replaced_epsilon if adjacency == "replace_one" else profiles.sampled_epsilon
    return Price(exact(rate, mu, delta), ONE_STEP)


@alone.register
def _(leaf: SampledWithoutReplacementDpEvent, delta: float, adjacency: Adjacency) -> Price | None:
    if as_step(leaf, adjacency) is not leaf:
        return None
    rate, multiplier = rate_and_multiplier(leaf)
    return Price(profiles.sampled_epsilon(rate, mu_of(multiplier, adjacency), delta), ONE_STEP)


@alone.register
def _(leaf: ObjectivePerturbationDpEvent, delta: float, adjacency: Adjacency) -> Price:
    if not leaf.one_sided or leaf.rank > 1:
        price = objective.with_output(leaf, delta, lambda spare: objective.epsilon(leaf, spare, adjacency))
        return Price(price, "objective perturbation, any convex loss")
    mu = mu_of(leaf.noise_std / leaf.lipschitz, adjacency)
    gaussian = objective.with_output(leaf, delta, lambda spare: epsilon_of(mu, spare))
    return Price(gaussian + leaf.log_determinant, "objective perturbation, hockey stick")


@alone.register
def _(leaf: PureObjectivePerturbationDpEvent, delta: float, adjacency: Adjacency) -> Price:
    shift = leaf.lipschitz * (2 if adjacency == "replace_one" else 1)
    price = leaf.rate * shift + leaf.log_determinant + leaf.output_epsilon
    return Price(price, "objective perturbation, pure")


class Losses(NamedTuple):
    """What a part adds to a composition, each time: its pairs, one or one for each direction, none if it costs nothing.

    A Gaussian step has the parameter mu where a record is drawn, with probability `rate`; another part is `pure`-DP.
    """

    pairs: Sequence[Pair]
    rate: float = 1.0
    mu: float = 0.0
    pure: float = 0.0


@singledispatch
def losses(leaf: DpEvent, delta: float, adjacency: Adjacency) -> Losses:
    """Return the losses of a part, delta being its share where pairs are cut off."""
    raise refuse("tight", leaf, "objective perturbation is priced alone, not in a composition")


@losses.register
def _(leaf: PosteriorSampleDpEvent, delta: float, adjacency: Adjacency) -> Losses:
    eta = _range(leaf, adjacency)
    return Losses([profiles.BoundedRange(eta)], pure=eta)


@losses.register
def _(leaf: RandomAllocationDpEvent, delta: float, adjacency: Adjacency) -> Losses:
    multiplier = leaf.event.noise_multiplier
    mu = mu_of(multiplier, adjacency)
    if delta == 0 or not allocation.SMALLEST <= mu_of(multiplier, "add_remove") <= allocation.LARGEST:
        return Losses([profiles.gaussian(mu)], mu=mu)
    return Losses(allocation.pairs(multiplier, leaf.steps, delta, adjacency), mu=mu)


@losses.register(GaussianDpEvent)
@losses.register(SampledWithoutReplacementDpEvent)
def _(leaf: DpEvent, delta: float, adjacency: Adjacency) -> Losses:
    rate, multiplier = rate_and_multiplier(leaf)
    mu = mu_of(multiplier, adjacency)
    return Losses([profiles.without_replacement(rate, mu)], rate, mu)


@losses.register
def _(leaf: PoissonSampledDpEvent, delta: float, adjacency: Adjacency) -> Losses:
    rate, multiplier = rate_and_multiplier(leaf)
    return Losses(profiles.poisson(rate, multiplier, adjacency), rate, mu_of(multiplier, adjacency))


def _range(event: PosteriorSampleDpEvent, adjacency: Adjacency) -> float:
    return event.range if adjacency == "replace_one" else event.range / 2


@lru_cache(maxsize=4096)
def _composed(parts: Parts, delta: float, adjacency: Adjacency) -> Price:
    share = delta / sum(count for _, count in parts)
    found = [(losses(leaf, share, adjacency), count) for leaf, count in parts]
    found = [(part, count) for part, count in found if part.rate > 0]
    steps = [(part.rate, part.mu, count) for part, count in found if part.mu > 0]
    if any(mu > LARGEST for _, mu, _ in steps):
        return Price(math.inf, PLD)
    pure = sum(count * part.pure for part, count in found)
    if delta == 0:
        return Price(math.inf if steps else pure, "basic composition")
    if not found:
        return Price(0.0, "none needed")
    unsampled = pure + _gaussian([(mu, count) for _, mu, count in steps], delta)
    bound = Price(unsampled, "basic composition" if pure else UNSAMPLED)
    if not all(composition.on_a_grid(pair) for part, _ in found for pair in part.pairs):
        return min(bound, Price(pure + _drawn(steps, delta), "basic composition" if pure else DRAWS))
    price = composition.Composed(0.0, 0.0)
    for direction in range(max(len(part.pairs) for part, _ in found)):
        one_way = [(part.pairs[min(direction, len(part.pairs) - 1)], count) for part, count in found]
        price = max(price, composition.compose(one_way, delta, price.epsilon))
    name = PLD_BOTH if any(part.pairs[0].symmetric for part, _ in found) else PLD
    return min(Price(price.epsilon, name), bound)


def _gaussian(steps: list[tuple[float, int]], delta: float) -> float:
    """Return epsilon of composed Gaussian mechanisms, each given as (mu, count)."""
    mu = math.hypot(*(math.sqrt(count) * mu for mu, count in steps))
    return epsilon_of(mu * (1 + 16 * UNIT), delta)


def _drawn(steps: list[tuple[float, float, int]], delta: float) -> float:
    """Return epsilon of sampled steps (rate, mu, count), given in which steps the record is drawn."""
    share = delta / 2 / len(steps)

    def most(rate: float, count: int) -> int:
        """Return the least number that draws exceed with probability `share` or less."""
        return bisect_left(range(count), -share, key=lambda hits: -float(binom.sf(hits, count, rate)))

    return _gaussian([(mu, most(rate, count)) for rate, mu, count in steps], delta / 2)
