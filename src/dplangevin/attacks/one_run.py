"""A lower bound on epsilon from one run with many canaries (Steinke, Nasr and Jagielski 2023).

A canary is a record that is in the data with probability 1/2, independently of all others.  The attacker gives
every canary a score.  He guesses that those with the highest scores are in the data and that those with the
lowest scores are not.  He abstains on the rest.

If the run is (epsilon, 0)-DP under adding or removing a record, the number of right guesses of r is at most
Binomial(r, e^epsilon/(1 + e^epsilon)), in the sense of upper tails.  delta adds to the tail what `tail` says.
The bound needs no second run.  It is loose where single runs show much: it cannot exceed about log(r/3), and
abstaining on many canaries costs guesses.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

from dplangevin.attacks.audit import check_confidence
from dplangevin.checks import count, require
from dplangevin.privacy.events import check_delta

LARGEST = 50.0  # epsilon; no number of canaries that fits in memory shows more


class OneRun(NamedTuple):
    """What one run shows.

    - `epsilon`: >= 0, attack epsilon at delta, for adding or removing a record.
    """

    epsilon: float
    delta: float
    confidence: float
    canaries: int
    guesses: int
    correct: int


def one_run(
    scores: np.ndarray, included: np.ndarray, delta: float, guesses: int, confidence: float = 0.95
) -> OneRun:
    """Compute the lower bound of one run.

    - `scores`: (m,), higher for canaries that seem to be in the data.
    - `included`: bool array (m,), drawn by fair coins before the run.
    - `delta`: in [0, 1).
    - `guesses`: even, 2 to m. Half of them say "in", half "out". It must not depend on `included`.
    - `confidence`: in (0, 1).
    """
    scores, included = np.asarray(scores), np.asarray(included, dtype=bool)
    require(
        scores.ndim == 1 and scores.shape == included.shape,
        f"scores {scores.shape} and included {included.shape} must be one number for each canary",
    )
    require(not np.isnan(scores).any(), "scores hold nan: give every canary a score")
    require(
        guesses % 2 == 0 and 2 <= guesses <= len(scores),
        f"guesses = {guesses} must be even, from 2 to the {len(scores)} canaries",
    )
    order, half = np.argsort(scores, kind="stable"), guesses // 2
    correct = int(included[order[-half:]].sum() + (~included[order[:half]]).sum())
    epsilon = lower_bound(correct, guesses, len(scores), delta, confidence)
    return OneRun(epsilon, delta, confidence, len(scores), guesses, correct)


def lower_bound(correct: int, guesses: int, canaries: int, delta: float, confidence: float = 0.95) -> float:
    """Return the epsilon >= 0 below which so many right guesses are too unlikely.

    - `correct`, `guesses`, `canaries`: 0 <= correct <= guesses <= canaries.
    """
    check_delta(delta)
    check_confidence(confidence)
    count(1, guesses=guesses)
    require(
        0 <= correct <= guesses <= canaries,
        f"correct = {correct}, guesses = {guesses}, canaries = {canaries} must increase from 0",
    )

    def above(epsilon: float) -> float:
        return tail(correct, guesses, canaries, epsilon, delta) - (1 - confidence)

    if above(0.0) >= 0:
        return 0.0
    return float(brentq(above, 0.0, LARGEST, xtol=1e-9))


def tail(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """Return a bound on the probability of `correct` or more right guesses under (epsilon, delta)-DP.

    With ``f(v) = P(Binomial(r, e^epsilon/(1 + e^epsilon)) >= v)`` and m canaries it is::

        f(v) + 2 m delta max over i = 1, ..., m of (f(v - i) - f(v))/i

    f(v - i) stays 1 for i > v, so larger i need no look.

    - `correct`, `guesses`, `canaries`: v, r and m; 0 <= v <= r <= m.
    - `epsilon`: >= 0.
    - `delta`: in [0, 1).

    Source: steinke2023, Theorem 5.2.
    """
    right = 1 / (1 + np.exp(-epsilon))
    fewer = np.arange(correct + 1)
    at_least = binom.sf(correct - 1 - fewer, guesses, right)
    gain = float(((at_least[1:] - at_least[0]) / fewer[1:]).max(initial=0.0))
    return min(1.0, float(at_least[0]) + 2 * canaries * delta * gain)
