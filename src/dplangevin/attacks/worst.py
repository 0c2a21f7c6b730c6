"""The attack on the price of an event: the pair of data sets that it finds, and the epsilon that the pair shows.

A pair may use any loss that the hypotheses of the price admit. The epsilon is exact where the release is one number or
has a one-dimensional law. Else runs are drawn, and the statistic is their exact log-likelihood ratio.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from dp_accounting import ComposedDpEvent, DpEvent, SampledWithoutReplacementDpEvent, SelfComposedDpEvent

from dplangevin.attacks import laws
from dplangevin.attacks.audit import known_ratio
from dplangevin.attacks.dp_langevin import Others, unprojected_distributions
from dplangevin.attacks.laws import Distributions, drawn, epsilon_of
from dplangevin.attacks.sampled import all_iterates
from dplangevin.privacy.accountants.protocol import leaves, refuse
from dplangevin.privacy.events import (
    Adjacency,
    FisherScoringDpEvent,
    LangevinDpEvent,
    ObjectivePerturbationDpEvent,
    PateDpEvent,
    PosteriorSampleDpEvent,
    PureObjectivePerturbationDpEvent,
    RandomAllocationDpEvent,
    check_adjacency,
)
from dplangevin.privacy.gaussian_steps import composed_steps

WHO = "attacks.worst"
UNATTACKED = (
    "Epochs that end early, or whose steps differ in noise, are left out: the event states too little noise."
)
EXACT = "likelihood ratio, exact law"  # of a release whose law is known
ROUNDED = 1e-3  # relative; quadrature moves the epsilon of a pair by less


class Shown(NamedTuple):
    """What an attack shows: attack epsilon at delta (runs 0 and confidence 1: exact), the pair and the statistic.

    `gap` says why the price may be above, and which of the two is loose. `by_part`: each released part has a worst
    pair of its own, so no one pair may show this epsilon.
    """

    epsilon: float
    pair: str
    statistic: str
    runs: int
    confidence: float
    gap: str
    by_part: bool = False


class Kind(NamedTuple):
    """A release whose laws on every pair that is tried are known."""

    pair: str
    gap: str
    laws: Callable[[Any, Adjacency], list[Distributions]]


def shown(
    event: DpEvent,
    delta: float,
    adjacency: Adjacency,
    runs: int,
    rng: torch.Generator,
    confidence: float = 0.95,
) -> Shown:
    """Attack any composition of Gaussian steps, posterior samples, statistics and DP-SGFS, or a fit, vote or chain."""
    check_adjacency(adjacency, who=WHO)
    parts = list(leaves(event))
    for leaf, _ in parts:
        replaced = isinstance(leaf, (FisherScoringDpEvent, *KINDS)) and not isinstance(leaf, PateDpEvent)
        if replaced and adjacency != "replace_one":
            raise refuse(WHO, leaf, "the attack replaces a record")
    if len(parts) == 1 and parts[0][1] == 1 and (kind := KINDS.get(type(parts[0][0]))):
        exact = max(epsilon_of(law, delta) for law in kind.laws(parts[0][0], adjacency))
        return Shown(exact * (1 - ROUNDED), kind.pair, EXACT, 0, 1.0, kind.gap)
    total, steps = np.zeros((2, runs)), []
    pairs: dict[str, str] = {}  # with their gaps
    for leaf, count in parts:
        if isinstance(leaf, PosteriorSampleDpEvent):
            kind = KINDS[PosteriorSampleDpEvent]
            rare = delta ** (1 / count)  # what is rare in all samples together is less so in one
            law = max(kind.laws(leaf, adjacency), key=lambda each: epsilon_of(each, rare))
            pair, gap = kind.pair, kind.gap
            for _ in range(count):
                total += drawn(law, runs, rng)
        elif isinstance(leaf, FisherScoringDpEvent):
            multipliers = np.full(leaf.steps, leaf.noise_std * leaf.batch)
            steps.append(SelfComposedDpEvent(composed_steps(leaf.records, leaf.batch, multipliers), count))
            pair, gap = STEPS, "The attack is loose: it does not look at the covariance."
        else:
            steps.append(SelfComposedDpEvent(leaf, count))
            subsets = isinstance(leaf, SampledWithoutReplacementDpEvent)
            allocated = isinstance(leaf, RandomAllocationDpEvent)
            pair = ALLOCATED if allocated else ONCE if event == leaf else STEPS
            gap = f"{BOTH_WAYS} {FINITE}" if subsets else FINITE
        pairs[pair] = gap
    if by_part := len(pairs) > 1:
        pairs[EACH] = "The proof may be loose: it adds the largest costs of the parts."
    if steps:
        total += all_iterates(ComposedDpEvent(steps), runs, rng, adjacency)
    found = known_ratio(total[0], total[1], delta, rng, confidence)
    statistic, gaps = "likelihood ratio of all that is released", list(dict.fromkeys(pairs.values()))
    if any(isinstance(leaf, RandomAllocationDpEvent) and not leaf.whole for leaf, _ in parts):
        statistic += " but for the epochs that are left out"
        gaps.append(UNATTACKED)
    return Shown(found, "; ".join(pairs), statistic, runs, confidence, " ".join(gaps), by_part)


def _last_iterate(event: LangevinDpEvent, adjacency: Adjacency) -> list[Distributions]:
    """Return the laws for a chain that starts at one point, where only the part with the record is bounded."""
    return [unprojected_distributions(event, 0.0, others, np.inf) for others in get_args(Others)]


STEPS = (
    "one record's gradient is as long as the clip in every step, and opposite or absent in the other data set"
)
ONCE = "one record moves the noiseless release by its bound, and in the other data set the opposite way or not at all"
EACH = "every released part has the pair of records that moves it most; no one pair may move all of them so"
ALLOCATED = (
    "one record's gradient is as long as the clip in its step of each epoch, and opposite or absent in the other "
    "data set; other records have gradient 0"
)
FINITE = "The attack is loose: its runs are finitely many."
BOTH_WAYS = "The proof is loose: it takes the larger of both directions in every step."
KINDS: dict[type, Kind] = {
    LangevinDpEvent: Kind(
        "quadratic losses; the linear part of one record's is opposite",
        "For minibatches, the proof is loose: it counts all iterates, or bounds the hidden ones from above.",
        _last_iterate,
    ),
    PosteriorSampleDpEvent: Kind(
        "linear losses; one record's is opposite, all others push to one end of the ball",
        "The proof seems loose: it allows any law of this range, and posteriors of convex losses are log-concave.",
        lambda event, _: laws.linear_posteriors(event),
    ),
    ObjectivePerturbationDpEvent: Kind(
        "one record's loss bends where the fit is rare; in the other data set it is linear with opposite slope",
        "It is open which is loose: the proof adds the largest costs of slope and curvature, the attack has one shape.",
        laws.perturbed_fits,
    ),
    PureObjectivePerturbationDpEvent: Kind(
        "one record's loss bends next to the fit; in the other data set it is linear with opposite slope",
        "The attack is loose: it leaves out the noise on the fit, which costs 1 % of epsilon.",
        laws.perturbed_fits,
    ),
    PateDpEvent: Kind(
        "two classes with even votes; one teacher votes for the first, or for the second",
        "The proof is loose: it prices the noisy votes, and only labels are released.",
        laws.votes,
    ),
}
