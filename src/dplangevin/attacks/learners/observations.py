"""Checks of a learner without statistics: facts about some fits, without a confidence level."""

import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dplangevin.attacks.learners.releases import (
    LOWEST,
    METHODS,
    SAID,
    Fitted,
    Learner,
    Release,
    drawn_each,
    parameters,
    set_parameter,
)
from dplangevin.attacks.learners.sandbox import Table, TablePair
from dplangevin.attacks.learners.scores import matrix, varying

SEEDS = 3  # fits with the same seed on both tables
SPREAD = 40  # fits from which the size of the noise is estimated
LESS = 100.0  # epsilon is divided by this
GROWS = 2.0  # the noise must then grow by this factor
LEFT_OUT = (*METHODS, LOWEST)  # beginnings of names: answers follow from attributes
NEARBY = 1e-9  # relative difference of two numbers that are the same except for rounding


class Observation(NamedTuple):
    """What a check saw, in one sentence."""

    check: str
    text: str


def seen(learner: Learner, pairs: Sequence[TablePair], seeds: Sequence[int]) -> Iterator[Observation]:
    """Yield what the checks that fit the learner see; at most `SPREAD` of the seeds are used."""
    table = pairs[0].first
    if learner.seed:
        yield from _cancels(learner, pairs, seeds[:SEEDS])
    if isinstance(learner, Fitted) and "epsilon" in parameters(learner.estimator):
        yield from _follows_epsilon(learner, table, seeds)


def _cancels(learner: Learner, pairs: Sequence[TablePair], seeds: Sequence[int]) -> Iterator[Observation]:
    """Yield whether the difference of two fits with one seed has no noise."""
    for pair in pairs:
        first, second = (
            drawn_each(learner, [(table, seed) for seed in seeds]) for table in (pair.first, pair.second)
        )
        names = _varying(first, first)
        x, y = matrix(first, names), matrix(second, names)
        steady = np.ptp(x - y, axis=0) <= NEARBY * np.abs(x).max(0)
        for name, still, gap in zip(names, steady, np.abs(x - y).max(0), strict=True):
            if still and gap > 0:
                yield Observation(
                    "same seed, same noise",
                    f"{name}: two fits with the same {learner.seed} have the same noise, and their difference shows "
                    f"the record ({pair.name})",
                )
                return


def _follows_epsilon(learner: Fitted, table: Table, seeds: Sequence[int]) -> Iterator[Observation]:
    """Yield whether the noise does not grow as epsilon falls."""
    given = parameters(learner.estimator)["epsilon"]
    if not isinstance(given, int | float) or not math.isfinite(given):
        return
    less = replace(learner, estimator=deepcopy(learner.estimator), floats=False)
    set_parameter(less.estimator, "epsilon", given / LESS)
    fits = [(table, seed) for seed in seeds[:SPREAD]]
    usual, noisy = (drawn_each(each, fits) for each in (replace(learner, floats=False), less))
    # not epsilon itself, which is released, too
    if names := sorted({*_varying(usual, usual), *_varying(noisy, noisy)}):
        spread, larger = matrix(usual, names).std(0), matrix(noisy, names).std(0)
        if (larger <= GROWS * spread).all():
            yield Observation(
                "noise and epsilon",
                f"the spread of the fits does not grow when epsilon is divided by {LESS:g}",
            )


def _varying(first: Sequence[Release], second: Sequence[Release]) -> list[str]:
    return [name for name in varying(first, second) if not name.startswith(LEFT_OUT)]


def exact(pair: TablePair, first: Sequence[Release], second: Sequence[Release]) -> Iterator[Observation]:
    """Yield the numbers and statements that are the same in all fits of a table, and tell the two apart."""
    names = _varying(first, second)
    x, y = matrix(first, names), matrix(second, names)
    told = set[str]()
    for name, fixed, a, b in zip(names, (x == x[0]).all(0) & (y == y[0]).all(0), x[0], y[0], strict=True):
        root = name.partition("[")[0].partition(" ")[0].partition(".")[0]
        if not fixed or root in told:
            continue
        told.add(root)
        check, text = _described(name, a, b)
        yield Observation(check, f"{text} ({pair.name}; all {len(x) + len(y)} fits)")


def _described(name: str, a: float, b: float) -> tuple[str, str]:
    if name.startswith(SAID):
        check = "exceptions" if name.startswith("raises ") else "warnings"
        return check, f"one record decides whether a fit {name}"
    statement = "==" in name or " is " in name
    return "no noise", f"one record decides whether {name}" if statement else f"{name} is {a:.6g} or {b:.6g}"
