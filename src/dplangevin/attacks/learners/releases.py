"""What one fit of a learner releases, as named numbers.

``coef_[0, 1]`` is a number of an array. ``classes_ == [0, 1]``, ``coef_.shape``, a warning and an exception are
statements, with value 1. Private attributes (``_name``) and the seed are left out.
"""

import math
import random
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from joblib import Parallel, delayed

from dplangevin.attacks.learners.sandbox import Table

Release = dict[str, float]
SEEDS = ("random_state", "seed", "rng")  # parameters that take a seed
SAID = ("raises ", "warns ")  # how the statement about an exception or a warning begins
METHODS = ("predict", "predict_proba", "decision_function", "transform")  # asked about probes
LOWEST = "lowest bit of "  # how the name of a side channel begins
MOST = 2000  # numbers of one array that are compared
DEPTH = 3  # of nested lists and dicts


@dataclass(frozen=True)
class Fitted:
    """A learner with `fit(X, y)`, copied for every fit, and public rows, (m, features), on which fits are compared.

    `ignore`: attributes and methods that are not released. `floats`: whether the lowest bits are.
    """

    estimator: Any
    probes: np.ndarray = field(repr=False)
    ignore: tuple[str, ...] = ()
    floats: bool = False

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
    """A function `(Table, seed) -> parameters`, an array or arrays by name.  `floats` is that of `Fitted`."""

    function: Callable[[Table, int], Any]
    floats: bool = False
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
    return getattr(estimator, "__dict__", {})


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
    elif isinstance(value, list | tuple) and not all(
        isinstance(v, int | float | str | np.number) for v in value
    ):
        parts = {f"{name}[{i}]": each for i, each in enumerate(value)}
    else:
        array = np.asarray(value)
        if array.dtype.kind in "US" or (
            array.dtype.kind == "O" and all(isinstance(v, str) for v in array.flat)
        ):
            return {f"{name} == {array.tolist()!r}": 1.0}
        return _numbers(name, array) if array.dtype.kind in "biuf" else {}
    found: Release = {}
    for key, each in parts.items():
        found.update(flat(key, each, depth - 1) if depth else {})
    return found | {f"len({name})": float(len(value))}


def _numbers(name: str, array: np.ndarray) -> Release:
    found = {f"{name}.shape == {array.shape}": 1.0} if array.ndim else {}
    found[f"{name}.dtype == {array.dtype}"] = 1.0
    values = array.astype(float).ravel()[:MOST].tolist()
    for at, number in zip(np.ndindex(array.shape), values, strict=False):
        key = f"{name}[{', '.join(map(str, at))}]" if at else name
        found |= {key: number} if math.isfinite(number) else {f"{key} is {number}": 1.0}
    return found


def release(learner: Learner, table: Table, seed: int) -> Release:
    """Fit and return what is released; a warning is a statement, and an exception is the only one."""
    usual = np.errstate(divide="warn", over="warn", invalid="warn")
    try:
        with warnings.catch_warnings(record=True) as said, usual:
            warnings.simplefilter("always")
            model = learner.fitted(Table(table.X.copy(), table.y.copy()), seed)
        found = learner.released(model)
    except Exception as error:
        return {f"raises {_text(type(error), error)}": 1.0}
    if learner.floats:
        numbers = [name for name in found if not re.search(r"^len\(| == | is ", name)]
        found |= {f"{LOWEST}{name}": lowest_bit(found[name]) for name in numbers}
    return found | {f"warns {_text(each.category, each.message)}": 1.0 for each in said}


def _text(kind: type, said: object) -> str:
    return f"{kind.__name__}: {' '.join(str(said).split())[:120]}"


def lowest_bit(x: float) -> float:
    """Return the largest e such that x is a multiple of 2^e, -1 for 0: of small noisy sums it shows the answer's size.

    Source: mironov2012, on the porous outputs of naive Laplace noise.
    """
    numerator, denominator = x.as_integer_ratio()
    return float((numerator & -numerator).bit_length() - denominator.bit_length())


def drawn_each(learner: Learner, fits: Sequence[tuple[Table, int]], jobs: int | None = 1) -> list[Release]:
    """Return the releases of fits on these tables with these seeds, in order, in processes of joblib."""
    found: list[Release] = Parallel(n_jobs=jobs)(delayed(_drawn)(learner, *fit) for fit in fits)
    return found


def _drawn(learner: Learner, table: Table, seed: int) -> Release:
    with kept(), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        np.random.seed(seed)  # noqa: NPY002 - for learners that draw from the global generators
        random.seed(seed)
        torch.default_generator.manual_seed(seed)  # `torch.manual_seed` takes a millisecond
        return release(learner, table, seed)


@contextmanager
def kept() -> Iterator[None]:
    """Restore the states of the global generators of NumPy, Python and torch afterwards."""
    states = np.random.get_state(), random.getstate(), torch.get_rng_state()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(states[0])  # noqa: NPY002
        random.setstate(states[1])
        torch.set_rng_state(states[2])
