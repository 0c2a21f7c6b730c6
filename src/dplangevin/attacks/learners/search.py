"""The audit of a learner: a search for a pair of tables and an event that break its claim.

No run is in two of three parts:

1. Search. For each pair, some runs teach the statistics (`statistics.learned`), and others choose an event.
2. Judgement by new fits of the most promising pairs: Clopper-Pearson limits for all of them together (Bonferroni).
3. Confirmation. If a bound exceeds the claim, its pair and event are judged once more by new runs.

A claim is violated if both bounds exceed it. The smaller one is the attack epsilon.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dplangevin.attacks.audit import STRICTER, Event, check_confidence, chosen, lower_rate, upper_rate
from dplangevin.attacks.learners.observations import Observation, exact, seen
from dplangevin.attacks.learners.releases import SAID, Learner, Release, drawn_each
from dplangevin.attacks.learners.sandbox import TablePair
from dplangevin.attacks.learners.scores import Statistic, learned
from dplangevin.checks import count, require
from dplangevin.privacy import Budget

JUDGED = 3  # pairs that are fitted again
PART = 4  # one of so many runs teaches the statistics, and as many choose the event
FEWEST = 100  # runs for either
MOST = 10**9  # runs that `runs_needed` considers


class Witness(NamedTuple):
    """An event of one statistic that tells the fits on two tables apart, with a lower bound on epsilon.

    `rates` are the shares of the runs with the event, on the likelier table first.
    """

    pair: TablePair
    statistic: Statistic
    event: Event
    epsilon: float = 0.0
    rates: tuple[float, float] = (0.0, 0.0)

    @property
    def text(self) -> str:
        name, at = self.statistic.text, self.event.threshold
        if " == " in name or name.startswith(SAID) or " is " in name:
            return f"not: {name}" if self.event.below else name
        return f"{name} {'<' if self.event.below else '>='} {at:.6g}"

    @property
    def tables(self) -> TablePair:
        """Return the pair, with the table that makes the event likelier first."""
        name, first, second = self.pair
        return TablePair(name, second, first) if self.event.flipped else self.pair


class LearnerAudit(NamedTuple):
    """What an audit of a learner shows.

    Attributes
    ----------
    claims : Budget
    confidence : float in (0, 1).
    runs : int, fits on each table for one bound.
    fits : int, all fits.
    judged : list of Witness, the strongest first. Their bounds hold together.
    confirmed : Witness or None, the strongest one by new runs, if its bound exceeds the claim.
    refused : dict, pair -> why it was not tried: all fits on both tables fail with this error, or release nothing.
    observations : list of Observation
    """

    claims: Budget
    confidence: float
    runs: int
    fits: int
    judged: list[Witness]
    confirmed: Witness | None
    refused: dict[str, str]
    observations: list[Observation]

    @property
    def epsilon(self) -> float:
        """The attack epsilon at the claim's delta: a lower bound at `confidence`."""
        bounds = [each.epsilon for each in (*self.judged[:1], self.confirmed) if each]
        return min(bounds, default=0.0)

    @property
    def violated(self) -> bool:
        """Return whether two independent bounds exceed the claim."""
        return self.epsilon > self.claims.epsilon

    def needed(self, factor: float) -> int | None:
        """Return how many fits on each table would show an epsilon of `factor` times the claim, see `runs_needed`."""
        return runs_needed(self.claims, factor * self.claims.epsilon, self.confidence)


def audited(
    learner: Learner,
    pairs: Sequence[TablePair],
    claims: Budget,
    runs: int = 1000,
    confidence: float = 0.95,
    rng: int = 0,
    jobs: int | None = None,
) -> LearnerAudit:
    """Search for a pair and an event that break a learner's claim; the arguments are those of `library.audit`."""
    count(8, runs=runs)
    count(0, rng=rng)
    check_confidence(confidence)
    require(math.isfinite(claims.epsilon), "a claim of epsilon inf cannot be violated: give a finite one")
    error, fits = (1 - confidence) / 2, 0
    part = max(runs // PART, FEWEST)
    found: list[tuple[Witness, int]] = []
    refused: dict[str, str] = {}
    facts: dict[tuple[str, str], Observation] = {}

    def sides(stage: int, at: int, size: int) -> tuple[list[Release], list[Release]]:
        nonlocal fits
        fits += 2 * size
        tables = enumerate((pairs[at].first, pairs[at].second))
        asked = [(table, seed) for side, table in tables for seed in _seeds(size, rng, stage, at, side)]
        both = drawn_each(learner, asked, jobs)
        return both[:size], both[size:]

    for at, pair in enumerate(pairs):
        first, second = sides(0, at, FEWEST)
        names = {name for each in (*first, *second) for name in each}
        raises = all(name.startswith("raises ") for name in names)
        if not names or (raises and {} not in (*first, *second)):
            refused[pair.name] = min(names, default="releases nothing").removeprefix("raises ")
            continue
        more = sides(1, at, 2 * part - FEWEST)
        first, second = first + more[0], second + more[1]
        for each in exact(pair, first, second):
            facts.setdefault((each.check, each.text.partition("[")[0].partition(" (")[0]), each)
        if witness := _telling(pair, first, second, part, claims.delta, error / STRICTER):
            found.append((witness, at))
    require(
        len(refused) < len(pairs),
        f"no table could be fitted: {next(iter(refused.values()), 'there are no pairs')}",
    )
    found = sorted(found, key=_strongest)[:JUDGED]
    together = error / max(1, len(found))
    judged = [(_judged(each, *sides(2, at, runs), claims.delta, together), at) for each, at in found]
    judged.sort(key=_strongest)
    confirmed = None
    if judged and judged[0][0].epsilon > claims.epsilon:
        best, at = judged[0]
        confirmed = _judged(best, *sides(3, at, runs), claims.delta, error)
    fitting = [pair for pair in pairs if pair.name not in refused]
    facts.update({(each.check, ""): each for each in seen(learner, fitting, _seeds(FEWEST, rng, 4))})
    witnesses, observations = [witness for witness, _ in judged], [*facts.values()]
    return LearnerAudit(claims, confidence, runs, fits, witnesses, confirmed, refused, observations)


def _telling(
    pair: TablePair, first: list[Release], second: list[Release], part: int, delta: float, error: float
) -> Witness | None:
    """Return the event that tells the tables apart best; the first `part` of the fits teaches the statistics."""
    statistics = learned(first[:part], second[:part])
    if not statistics:
        return None
    x, y = (np.column_stack([f(side[part:]) for f in statistics]) for side in (first, second))
    event = chosen(x, y, delta, error)
    return Witness(pair, statistics[event.which], event._replace(which=0), event.epsilon(x, y, delta, error))


def _strongest(found: tuple[Witness, int]) -> float:
    return -found[0].epsilon


def _seeds(size: int, *key: int) -> list[int]:
    """Return seeds below 2^31, other ones for each key."""
    found: list[int] = (np.random.SeedSequence(key).generate_state(size) >> np.uint32(1)).tolist()
    return found


def _judged(
    witness: Witness, first: Sequence[Release], second: Sequence[Release], delta: float, error: float
) -> Witness:
    x, y = witness.statistic(first)[:, None], witness.statistic(second)[:, None]
    hits, misses = witness.event.counts(x, y)
    epsilon = witness.event.epsilon(x, y, delta, error)
    return witness._replace(epsilon=epsilon, rates=(float(hits / len(x)), float(misses / len(y))))


def runs_needed(claims: Budget, epsilon: float, confidence: float = 0.95) -> int | None:
    """Return the fewest runs that show an epsilon above a claim for randomised response; None: more than `MOST`.

    The counts are the expected ones. A learner can need many more.
    """
    runs = 8
    while not shows(claims, epsilon, runs, confidence):
        runs *= 2
        if runs > MOST:
            return None
    low = runs // 2
    while runs - low > max(1, runs // 100):
        middle = (low + runs) // 2
        low, runs = (low, middle) if shows(claims, epsilon, middle, confidence) else (middle, runs)
    return runs


def shows(claims: Budget, epsilon: float, runs: int, confidence: float) -> bool:
    """Return whether the expected counts of randomised response with `epsilon` show that a claim fails."""
    rate = 1 / (1 + math.exp(-min(epsilon, 700.0)))
    error = (1 - confidence) / 2 / JUDGED
    hits, misses = np.floor(rate * runs), np.ceil((1 - rate) * runs)
    low, high = lower_rate(hits, runs, error), upper_rate(misses, runs, error)
    return bool(low - claims.delta > math.exp(min(claims.epsilon, 700.0)) * high)
