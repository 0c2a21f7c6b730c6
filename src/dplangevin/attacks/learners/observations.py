"""Checks of a learner without statistics: facts about some fits, without a confidence level."""

import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import NamedTuple

import numpy as np

from dplangevin.attacks.learners.releases import (
    CHANNELS,
    METHODS,
    SAID,
    Fitted,
    Learner,
    Release,
    drawn_each,
    drawn_from,
    parameters,
    set_parameter,
)
from dplangevin.attacks.learners.sandbox import Table, TablePair
from dplangevin.attacks.learners.statistics import matrix, varying

SEEDS = 3  # fits with the same seed on both tables
SPREAD = 40  # fits from which the size of the noise is estimated
LESS = 100.0  # epsilon is divided by this
GROWS = 2.0  # the noise must then grow by this factor
LEFT_OUT = (*METHODS, *CHANNELS)  # beginnings of names: answers follow from attributes
NEARBY = 1e-9  # relative difference of two numbers that are the same except for rounding


class Observation(NamedTuple):
    """What a check saw, in one sentence."""

    check: str
    text: str


def seen(learner: Learner, pairs: Sequence[TablePair], seeds: Sequence[int]) -> Iterator[Observation]:
    """Yield what the checks that fit the learner see; at most `SPREAD` of the seeds are used."""
    table = pairs[0].first
    if drew := drawn_from(learner, table, seeds[0]):
        yield Observation(
            "global generators", f"a fit draws from the global generator of {' and '.join(drew)}"
        )
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
        names = [name for name in varying(first, first) if not name.startswith(LEFT_OUT)]
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
    """Yield whether the noise does not grow as epsilon falls, and does not vanish at epsilon infinity."""
    given = parameters(learner.estimator)["epsilon"]
    if not isinstance(given, int | float) or not math.isfinite(given):
        return
    usual, noisy = (
        drawn_each(_with_epsilon(learner, epsilon), [(table, seed) for seed in seeds[:SPREAD]])
        for epsilon in (given, given / LESS)
    )
    vary = sorted(
        {*varying(usual, usual), *varying(noisy, noisy)}
    )  # not epsilon itself, which is released, too
    names = [name for name in vary if not name.startswith(LEFT_OUT)]
    if names:
        spread, larger = matrix(usual, names).std(0), matrix(noisy, names).std(0)
        if (larger <= GROWS * spread).all():
            yield Observation(
                "noise and epsilon",
                f"the spread of the fits does not grow when epsilon is divided by {LESS:g}",
            )
    free = drawn_each(_with_epsilon(learner, math.inf), [(table, seed) for seed in seeds[:2]])
    if _fails(free):
        yield Observation("epsilon infinity", f"at epsilon infinity a fit {next(iter(free[0]))}")
    elif names := [name for name in varying(free, free) if not name.startswith(LEFT_OUT)]:
        x = matrix(free, names)
        if (np.ptp(x, axis=0) > 1e-6 * np.abs(x).max(0)).any():
            yield Observation(
                "epsilon infinity", f"{names[0]} still varies with the seed at epsilon infinity"
            )


def _with_epsilon(learner: Fitted, epsilon: float) -> Fitted:
    model = deepcopy(learner.estimator)
    set_parameter(model, "epsilon", epsilon)
    return Fitted(model, learner.probes, learner.ignore)


def _fails(releases: Sequence[Release]) -> bool:
    return all(name.startswith("raises ") for each in releases for name in each)


class OfN(NamedTuple):
    """What only the number of records decides, as so many `fits` show.

    `values` are names of numbers that are the same in all fits on tables of one size. `sizes` maps a name to the sizes
    at which it is always released; at others it never is.
    """

    values: set[str]
    sizes: dict[str, set[int]]
    fits: int

    def left_out(self, pair: TablePair) -> set[str]:
        """Return the names that tell the tables of a pair apart by their sizes only."""
        one, other = (len(table.y) for table in pair[1:])
        return self.values | {name for name, at in self.sizes.items() if (one in at) != (other in at)}


def of_n_alone(learner: Learner, pairs: Sequence[TablePair], seeds: list[int], jobs: int | None) -> OfN:
    """Fit each table with both seeds, and twice with other rows and another label, so that each size has several.

    One of the other tables has no negative features, which some learners refuse. Fits that raise do not count if only
    some of a size do: then the rows decide the error.
    """
    fits: list[tuple[Table, int]] = []
    for table in (each for pair in pairs for each in pair[1:]):
        others = table.y[table.y != table.y[0]]
        y = np.concatenate([others[:1] if len(others) else table.y[:1], table.y[1:]])
        changed = Table(-table.X / 2, y), Table(np.abs(table.X) / 2, y)
        fits += zip((table, table, *changed), 2 * seeds, strict=True)
    by_size: dict[int, list[Release]] = {}
    for (table, _), each in zip(fits, drawn_each(learner, fits, jobs), strict=True):
        by_size.setdefault(len(table.y), []).append(each)
    of_rows = set[str]()
    for size, found in by_size.items():
        errors = {name for each in found for name in each if name.startswith("raises ")}
        if fitted := [each for each in found if not errors & each.keys()]:
            of_rows |= errors
        by_size[size] = fitted or found[::4] + found[1::4]  # which are the tables as they are
    names = {name for found in by_size.values() for each in found for name in each} - of_rows
    values, sizes = set[str](), dict[str, set[int]]()
    for name in names:
        of = {size: {each.get(name) for each in found} for size, found in by_size.items()}
        if all(len(x) == 1 for x in of.values()) and len(set.union(*of.values()) - {None}) > 1:
            values.add(name)
        if all(None not in x or len(x) == 1 for x in of.values()):
            sizes[name] = {size for size, x in of.items() if None not in x}
    return OfN(values, {name: at for name, at in sizes.items() if len(at) < len(by_size)}, len(fits))


def exact(pair: TablePair, first: Sequence[Release], second: Sequence[Release]) -> Iterator[Observation]:
    """Yield the numbers and statements that are the same in all fits of a table, and tell the two apart."""
    names = [name for name in varying(first, second) if not name.startswith(LEFT_OUT)]
    x, y = matrix(first, names), matrix(second, names)
    told = set[str]()
    for name, fixed, a, b in zip(names, (x == x[0]).all(0) & (y == y[0]).all(0), x[0], y[0], strict=True):
        root = name.partition("[")[0].partition(" ")[0].partition(".")[0]
        if not fixed or root in told:
            continue
        told.add(root)
        check, text = _described(name, a, b, pair)
        yield Observation(check, f"{text} ({pair.name}; all {len(x) + len(y)} fits)")


def _described(name: str, a: float, b: float, pair: TablePair) -> tuple[str, str]:
    if name.startswith(SAID):
        check = "exceptions" if name.startswith("raises ") else "warnings"
        return check, f"one record decides whether a fit {name}"
    if name.startswith("classes") or "==" in name or name.startswith("len("):
        return (
            "classes or shapes",
            f"one record decides whether {name}" if "==" in name else f"{name}: {a:g} or {b:g}",
        )
    for what, of in (("exact count", _counts), ("range read off rows", _ranges)):
        if a in of(pair.first) and b in of(pair.second):
            return what, f"{name} is {a:.6g} or {b:.6g}, as the rows have it"
    return "no noise", f"{name} has no noise: {a:.6g} or {b:.6g}"


def _counts(table: Table) -> set[float]:
    return {float(len(table.y)), *np.unique(table.y, return_counts=True)[1].astype(float).tolist()}


def _ranges(table: Table) -> set[float]:
    numbers = [table.X] if table.y.dtype.kind in "USO" else [table.X, table.y.astype(float)[:, None]]
    return {float(of(x, 0)[i]) for x in numbers for of in (np.min, np.max, np.ptp) for i in range(x.shape[1])}
