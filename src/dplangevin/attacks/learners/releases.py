"""What one fit of a learner releases, as named numbers.

``coef_[0, 1]`` is a number of an array. ``classes_ == [0, 1]``, ``coef_.shape``, a warning and an exception are
statements, with value 1. Private attributes (``_name``) and the seed are left out. The lowest bit of each number and
the time of the fit are side channels, which a learner may ask for.
"""

import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from time import process_time
from typing import Any, ClassVar

import numpy as np
import torch
from joblib import Parallel, delayed

from dplangevin.attacks.learners.sandbox import Table

Release = dict[str, float]
SEEDS = ("random_state", "seed", "rng")  # parameters that take a seed
SAID = ("raises ", "warns ")  # how the statement about an exception or a warning begins
METHODS = ("predict", "predict_proba", "decision_function", "transform")  # asked about probes
LOWEST, SECONDS = "lowest bit of ", "seconds of the fit"
CHANNELS = (LOWEST, SECONDS)  # beginnings of the names of side channels
MOST = 2000  # numbers of one array that are compared
CHUNKS = 4  # calls for each process
DEPTH = 3  # of nested lists and dicts


@dataclass(frozen=True)
class Fitted:
    """A learner with `fit(X, y)`, copied for every fit, and public rows, (m, features), on which fits are compared.

    `ignore`: attributes and methods that are not released. `floats`, `time`: whether the side channels are released.
    """

    estimator: Any
    probes: np.ndarray = field(repr=False)
    ignore: tuple[str, ...] = ()
    floats: bool = False
    time: bool = False

    @property
    def seed(self) -> str:
        """Return the name of the parameter that takes the seed; "" if there is none."""
        return next((name for name in SEEDS if name in parameters(self.estimator)), "")

    def fitted(self, table: Table, seed: int) -> Any:
        model = deepcopy(self.estimator)
        if self.seed:
            set_parameter(model, self.seed, seed)
        fitted = model.fit(table.X, table.y)
        return model if fitted is None else fitted

    def released(self, model: Any) -> Release:
        """Return what a fitted model shows: attributes, properties, its length, and answers about the probes."""
        hidden = {self.seed, *self.ignore}
        found: Release = {}
        for name in dir(model):
            if not name.startswith("_") and name not in hidden:
                with suppress(Exception):  # of a property that this model lacks
                    found.update(flat(name, getattr(model, name)))
        if hasattr(model, "__len__"):
            found["len(model)"] = float(len(model))
        for name in METHODS:
            if name not in hidden and callable(answer := getattr(model, name, None)):
                found.update(flat(f"{name}(probes)", answer(self.probes)))
        return found


@dataclass(frozen=True)
class Trained:
    """A function `(Table, seed) -> parameters`, an array or arrays by name.  `floats`, `time` are those of `Fitted`."""

    function: Callable[[Table, int], Any]
    floats: bool = False
    time: bool = False
    seed: ClassVar[str] = "seed"

    def fitted(self, table: Table, seed: int) -> Any:
        return self.function(table, seed)

    def released(self, model: Any) -> Release:
        return flat("parameters", model)


Learner = Fitted | Trained


def parameters(estimator: Any) -> Mapping[str, Any]:
    """Return the parameters of an estimator by `get_params`, or its attributes before the fit."""
    if hasattr(estimator, "get_params"):
        found: Mapping[str, Any] = estimator.get_params(deep=False)
        return found
    slots = (name for kind in type(estimator).__mro__ for name in getattr(kind, "__slots__", ()))
    names = (*getattr(estimator, "__dict__", ()), *slots)
    return {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}


def watched(fit: Callable[[], Any]) -> tuple[Any, Release]:
    """Return the result of a fit, and a statement for each of its warnings."""
    usual = np.errstate(divide="warn", over="warn", invalid="warn")
    with warnings.catch_warnings(record=True) as found, usual:
        warnings.simplefilter("always")
        result = fit()
    return result, {f"warns {_text(each.category, each.message)}": 1.0 for each in found}


def set_parameter(estimator: Any, name: str, value: Any) -> None:
    """Set a parameter in place."""
    if hasattr(estimator, "set_params"):
        estimator.set_params(**{name: value})
    else:
        setattr(estimator, name, value)


def flat(name: str, value: Any, depth: int = DEPTH) -> Release:
    """Return a value as named numbers and statements.  Return {} for an object of another kind."""
    if isinstance(value, Mapping):
        parts = {f"{name}[{key!r}]": each for key, each in value.items()}
    elif isinstance(value, torch.Tensor):
        return flat(name, value.detach().cpu().numpy())
    elif isinstance(value, list | tuple) and not _regular(value):
        parts = {f"{name}[{i}]": each for i, each in enumerate(value)}
    else:
        array = np.asarray(value)
        if array.dtype.kind in "US" or (array.dtype.kind == "O" and _words(array)):
            return {f"{name} == {array.tolist()!r}": 1.0}
        return _numbers(name, array) if array.dtype.kind in "biuf" else {}
    found: Release = {}
    for key, each in parts.items():
        found.update(flat(key, each, depth - 1) if depth else {})
    return found | {f"len({name})": float(len(value))}


def _regular(value: Sequence[Any]) -> bool:
    """Return whether a list is an array: of numbers or words alone."""
    return all(isinstance(each, int | float | str | np.number) for each in value)


def _words(array: np.ndarray) -> bool:
    return all(isinstance(each, str) for each in array.ravel())


def _numbers(name: str, array: np.ndarray) -> Release:
    found = {f"{name}.shape == {array.shape}": 1.0} if array.ndim else {}
    found[f"{name}.dtype == {array.dtype}"] = 1.0
    values = array.astype(float).ravel()[:MOST]
    keys = _keys(name, array.shape)
    for key, number in zip(keys, values.tolist(), strict=False):
        if number - number == 0:
            found[key] = number
        else:
            found[f"{key} is {number}"] = 1.0
    return found


def _keys(name: str, shape: tuple[int, ...]) -> Iterator[str]:
    if not shape:
        yield name
    for at in np.ndindex(shape):
        if at:
            yield f"{name}[{', '.join(map(str, at))}]"


def release(learner: Learner, table: Table, seed: int) -> Release:
    """Fit and return what is released, with the side channels that the learner asks for."""
    began = process_time()
    model, said = watched(lambda: learner.fitted(table, seed))
    seconds = process_time() - began
    found = learner.released(model)
    if learner.floats:
        found |= {f"{LOWEST}{name}": lowest_bit(found[name]) for name in found if _is_number(name)}
    found |= said
    return found | {SECONDS: seconds} if learner.time else found


def lowest_bit(x: float) -> float:
    """Return the largest e such that x is a multiple of 2^e, -1 for 0: of small noisy sums it shows the answer's size.

    Source: mironov2012, on the porous outputs of naive Laplace noise.
    """
    numerator, denominator = x.as_integer_ratio()
    return float((numerator & -numerator).bit_length() - denominator.bit_length())


def _is_number(name: str) -> bool:
    return " == " not in name and " is " not in name and not name.startswith("len(")


def alternating(
    learner: Learner, tables: Sequence[Table], seeds: Sequence[Sequence[int]], jobs: int | None
) -> list[list[Release]]:
    """Return the releases on two tables, fitted in turns, so that a machine that becomes slower slows both."""
    size = len(seeds[0])
    turns = [(i, side if i % 2 == 0 else 1 - side) for i in range(size) for side in (0, 1)]
    found = drawn_each(learner, [(tables[side], seeds[side][i]) for i, side in turns], jobs)
    by_turn = dict(zip(turns, found, strict=True))
    return [[by_turn[i, side] for i in range(size)] for side in (0, 1)]


def drawn_each(learner: Learner, fits: Sequence[tuple[Table, int]], jobs: int | None = 1) -> list[Release]:
    """Return the releases of fits on these tables with these seeds, in order, in processes of joblib."""
    parallel = Parallel(n_jobs=jobs)
    if parallel.n_jobs in (None, 1) or len(fits) < 2 * CHUNKS:
        return _several(learner, fits)
    size = -(-len(fits) // (CHUNKS * max(int(parallel.n_jobs), 1)))
    parts = [fits[at : at + size] for at in range(0, len(fits), size)]
    return [each for part in parallel(delayed(_several)(learner, part) for part in parts) for each in part]


def _several(learner: Learner, fits: Sequence[tuple[Table, int]]) -> list[Release]:
    found = []
    for table, seed in fits:
        with seeded(seed), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found.append(attempted(learner, table, seed))
    return found


def attempted(learner: Learner, table: Table, seed: int) -> Release:
    """Return the release of one fit; an exception is a statement."""
    try:
        return release(learner, Table(table.X.copy(), table.y.copy()), seed)
    except Exception as error:
        return {failure(error): 1.0}


def failure(error: Exception) -> str:
    """Return the statement that a fit raised this error, without its data."""
    return f"raises {_text(type(error), error)}"


def _text(kind: type, said: object) -> str:
    return f"{kind.__name__}: {' '.join(str(said).split())[:120]}"


@contextmanager
def kept() -> Iterator[tuple[Any, Any, torch.Tensor]]:
    """Yield the states of the global generators of NumPy, Python and torch.  Restore them afterwards."""
    states = _states()
    try:
        yield states
    finally:
        np.random.set_state(states[0])  # noqa: NPY002
        random.setstate(states[1])
        torch.set_rng_state(states[2])


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators for one fit, and put their states back afterwards."""
    with kept():
        np.random.seed(seed)  # noqa: NPY002 - for learners that draw from it
        random.seed(seed)
        torch.default_generator.manual_seed(seed)  # `torch.manual_seed` takes a millisecond
        yield


def drawn_from(learner: Learner, table: Table, seed: int) -> list[str]:
    """Return the names of the global generators that a fit draws from."""
    with kept() as before:
        attempted(learner, table, seed)
        now = _states()
    same = (
        np.array_equal(before[0][1], now[0][1]) and before[0][2:] == now[0][2:],
        before[1] == now[1],
        torch.equal(before[2], now[2]),
    )
    return [name for name, held in zip(("NumPy", "Python", "torch"), same, strict=True) if not held]


def _states() -> tuple[Any, Any, torch.Tensor]:
    return np.random.get_state(), random.getstate(), torch.get_rng_state()  # noqa: NPY002
