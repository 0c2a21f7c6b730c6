"""The proven epsilon of an event: the smallest epsilon that we can prove, in closed form or numerically."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

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
from dplangevin.privacy.accountants.bok2024 import Bok2024
from dplangevin.privacy.accountants.protocol import leaves, nearby, refuse, trivial
from dplangevin.privacy.events import (
    Adjacency,
    FisherScoringDpEvent,
    LangevinDpEvent,
    ObjectivePerturbationDpEvent,
    PosteriorSampleDpEvent,
    PureObjectivePerturbationDpEvent,
    RandomAllocationDpEvent,
    ShuffledEpochsDpEvent,
    check_adjacency,
)
from dplangevin.privacy.selection import selected
from dplangevin.privacy.subsampled_gaussian import coarsened, is_subsampled, rate_and_multiplier

Parts = tuple[tuple[DpEvent, int], ...]


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
        alone: Any = given[0][0] if len(given) == 1 and given[0][1] == 1 else None
        if isinstance(alone, RepeatAndSelectDpEvent):
            return Price(selected(alone, delta, lambda one, d: self.epsilon(one, d, adjacency)), BEST)
        hidden = isinstance(alone, LangevinDpEvent) and (adjacency != "zero_out" or _whole(alone))
        if hidden and alone.steps > 1:  # with one step, all iterates are the last iterate
            epsilon, source = Bok2024().price(alone, delta, adjacency)
            return Price(epsilon, PLD_BOTH if source == "all iterates" else f"{Bok2024().name}, {source}")
        if adjacency == "zero_out":
            return self._zeroed(event, delta)
        event = _visible(event, adjacency)
        parts: Counter[DpEvent] = Counter()
        for leaf, count in leaves(event):
            _check(leaf, adjacency)
            if isinstance(leaf, RandomAllocationDpEvent):
                leaf = attr.evolve(leaf, whole=True)
            parts[leaf.event if _unsampled(leaf) else leaf] += count
        if all(isinstance(leaf, GaussianDpEvent) for leaf in parts):
            steps = AnalyticGaussian().epsilon(_of(parts.items()), delta, adjacency)
            return Price(steps, "analytic Gaussian")
        if parts.total() == 1:
            (leaf,) = parts
            single = _single(leaf, delta, adjacency)
            if single is not None:
                return single
        return _composed(tuple(sorted(coarsened(parts).items(), key=repr)), delta, adjacency)

    def _zeroed(self, event: DpEvent, delta: float) -> Price:
        """Return the price under zero_out, where one record is replaced by one that contributes nothing.

        Gaussian sums, Poisson samples, posterior samples, objective perturbation and votes have the pairs of laws of
        add_remove. In shuffled epochs no other record moves, so given the orders an epoch is one Gaussian mechanism of
        sensitivity 1. A batch of fixed size that misses the record has another one in its place: the smaller of the
        price of replace_one, of which this is a case, and of the steps on all records with sensitivity 1, by joint
        convexity over the batches.
        """
        parts = [(_without_order(leaf), count) for leaf, count in leaves(event)]
        if not any(isinstance(leaf, FIXED_SIZE) and not _whole(leaf) for leaf, _ in parts):
            return self.price(_of(parts), delta, "add_remove")
        replaced = self.price(event, delta, "replace_one")
        if any(isinstance(leaf, FisherScoringDpEvent) for leaf, _ in parts):
            return replaced
        every = [
            (step.event if isinstance(step, SampledWithoutReplacementDpEvent) else step, n * m)
            for leaf, n in parts
            for step, m in leaves(leaf.all_iterates() if isinstance(leaf, LangevinDpEvent) else leaf)
        ]
        return min(replaced, self.price(_of(every), delta, "add_remove"))


FIXED_SIZE = SampledWithoutReplacementDpEvent, LangevinDpEvent, FisherScoringDpEvent


def _without_order(leaf: DpEvent) -> DpEvent:
    """Return the event of shuffled epochs, and of batches of all records, that no order of records enters."""
    if isinstance(leaf, ShuffledEpochsDpEvent):
        return leaf.epochs
    return leaf.event if isinstance(leaf, SampledWithoutReplacementDpEvent) and _whole(leaf) else leaf


def _whole(leaf: DpEvent) -> bool:
    if isinstance(leaf, SampledWithoutReplacementDpEvent):
        return leaf.sample_size == leaf.source_dataset_size
    return isinstance(leaf, LangevinDpEvent) and leaf.batch == leaf.records


def _of(parts: Iterable[tuple[DpEvent, int]]) -> DpEvent:
    return ComposedDpEvent([SelfComposedDpEvent(leaf, count) for leaf, count in parts])


def _visible(event: DpEvent, adjacency: Adjacency) -> DpEvent:
    """Return the event with the Gaussian steps that dominate it in place of each hidden or joint step."""
    return _of(
        [
            (leaf.gaussian_steps(adjacency) if hasattr(leaf, "gaussian_steps") else leaf, count)
            for leaf, count in leaves(event)
        ]
    )


def _unsampled(leaf: DpEvent) -> bool:
    """Return whether each step uses every record, although it is written as a sampled one."""
    if isinstance(leaf, RandomAllocationDpEvent):
        return leaf.steps == 1
    return is_subsampled(leaf) and rate_and_multiplier(leaf)[0] == 1


def _check(leaf: DpEvent, adjacency: Adjacency) -> None:
    if is_subsampled(leaf) or isinstance(leaf, RandomAllocationDpEvent):
        if not isinstance(leaf.event, GaussianDpEvent):
            raise refuse("tight", leaf, "sampling is priced for Gaussian steps only")
        if isinstance(leaf, SampledWithoutReplacementDpEvent) and adjacency != "replace_one":
            raise refuse("tight", leaf, f"sampling without replacement needs replace_one, not {adjacency}")
    elif not isinstance(
        leaf,
        GaussianDpEvent
        | PosteriorSampleDpEvent
        | ObjectivePerturbationDpEvent
        | PureObjectivePerturbationDpEvent,
    ):
        raise refuse("tight", leaf)


def _range(event: PosteriorSampleDpEvent, adjacency: Adjacency) -> float:
    return event.range if adjacency == "replace_one" else event.range / 2


def _single(leaf: DpEvent, delta: float, adjacency: Adjacency) -> Price | None:
    if isinstance(leaf, PosteriorSampleDpEvent):
        return Price(profiles.bounded_range_epsilon(_range(leaf, adjacency), delta), "bounded range")
    if is_subsampled(leaf) and rate_and_multiplier(leaf)[0] > 0:
        rate, multiplier = rate_and_multiplier(leaf)
        if isinstance(leaf, PoissonSampledDpEvent) and adjacency == "replace_one":
            mu = mu_of(multiplier, "add_remove")
            return Price(profiles.replaced_epsilon(rate, mu, delta), ONE_STEP)
        return Price(profiles.sampled_epsilon(rate, mu_of(multiplier, adjacency), delta), ONE_STEP)
    if isinstance(leaf, ObjectivePerturbationDpEvent):
        if not leaf.one_sided or leaf.rank > 1:
            price = objective.with_output(
                leaf, delta, lambda spare: objective.epsilon(leaf, spare, adjacency)
            )
            return Price(price, "objective perturbation, any convex loss")
        mu = mu_of(leaf.noise_std / leaf.lipschitz, adjacency)
        gaussian = objective.with_output(leaf, delta, lambda spare: epsilon_of(mu, spare))
        return Price(gaussian + leaf.log_determinant, "objective perturbation, hockey stick")
    if isinstance(leaf, PureObjectivePerturbationDpEvent):
        shift = leaf.lipschitz * (2 if adjacency == "replace_one" else 1)
        price = leaf.rate * shift + leaf.log_determinant + leaf.output_epsilon
        return Price(price, "objective perturbation, pure")
    return None


@lru_cache(maxsize=4096)
def _composed(parts: Parts, delta: float, adjacency: Adjacency) -> Price:  # noqa: PLR0912
    pairs: list[
        tuple[list[profiles.DominatingPair | profiles.Atoms], int]
    ] = []  # a part has one pair, or one a direction
    steps: list[tuple[float, float, int]] = []  # rate, mu, count
    for leaf, count in parts:
        if isinstance(leaf, PosteriorSampleDpEvent):
            pairs.append(([profiles.BoundedRange(_range(leaf, adjacency))], count))
        elif isinstance(leaf, RandomAllocationDpEvent):
            multiplier = leaf.event.noise_multiplier
            steps.append((1.0, mu_of(multiplier, adjacency), count))
            if steps[-1][1] > LARGEST:
                return Price(math.inf, PLD)
            if delta == 0 or not allocation.SMALLEST <= 1 / multiplier <= allocation.LARGEST:
                pairs.append(([profiles.gaussian(steps[-1][1])], count))
            else:
                share = delta / sum(each for _, each in parts)
                pairs.append((list(allocation.pairs(multiplier, leaf.steps, share, adjacency)), count))
        elif isinstance(leaf, GaussianDpEvent | PoissonSampledDpEvent | SampledWithoutReplacementDpEvent):
            rate, multiplier = rate_and_multiplier(leaf)
            if rate == 0:
                continue
            steps.append((rate, mu_of(multiplier, adjacency), count))
            if steps[-1][1] > LARGEST:
                return Price(math.inf, PLD)
            if isinstance(leaf, PoissonSampledDpEvent) and rate < 1:
                pairs.append((list(profiles.poisson(rate, multiplier, adjacency)), count))
            else:
                pairs.append(([profiles.without_replacement(rate, mu_of(multiplier, adjacency))], count))
        else:
            raise refuse("tight", leaf, "objective perturbation is priced alone, not in a composition")
    pure = sum(
        count * _range(leaf, adjacency) for leaf, count in parts if isinstance(leaf, PosteriorSampleDpEvent)
    )
    if delta == 0:
        return Price(math.inf if steps else pure, "basic composition")
    if not pairs:
        return Price(0.0, "none needed")
    unsampled = pure + _gaussian([(mu, count) for _, mu, count in steps], delta)
    bound = Price(unsampled, "basic composition" if pure else UNSAMPLED)
    if not all(composition.on_a_grid(pair) for directions, _ in pairs for pair in directions):
        return min(bound, Price(pure + _drawn(steps, delta), "basic composition" if pure else DRAWS))
    price = composition.Composed(0.0, 0.0)
    for direction in range(max(len(directions) for directions, _ in pairs)):
        one_way = [(directions[min(direction, len(directions) - 1)], count) for directions, count in pairs]
        price = max(price, composition.compose(one_way, delta, price.epsilon))
    name = PLD_BOTH if any(directions[0].symmetric for directions, _ in pairs) else PLD
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
