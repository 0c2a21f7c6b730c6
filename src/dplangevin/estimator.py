"""A private classifier for scikit-learn, on top of `library`."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import joblib
import numpy as np
import torch
from dp_accounting import DpEvent
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dplangevin import random
from dplangevin.checks import real, require
from dplangevin.library import learn
from dplangevin.methods import Method
from dplangevin.methods.pate import Pate
from dplangevin.methods.registry import named
from dplangevin.privacy import Adjacency, Budget
from dplangevin.problems.glm import Glm


class Privacy(NamedTuple):
    """The privacy cost of a fit, and its conditions.

    Attributes
    ----------
    event : DpEvent, what was done to the data.
    epsilon, delta, adjacency : the promise of the method's own theorem.
    price : dict, of `library.Answer.price`.
    assumptions : tuple of str, what the guarantee needs and the code cannot enforce.
    violated : list of str, see `library.Answer`.
    """

    event: DpEvent
    epsilon: float
    delta: float
    adjacency: Adjacency
    price: dict[str, Any]
    assumptions: tuple[str, ...]
    violated: list[str]


class PrivateClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that is (epsilon, delta)-differentially private in the rows that it is fitted on.

    The default learner is DP-GD, with the same settings for all tables.  On Spambase, a held-out table with 3,677
    training rows, its test accuracy at a proven epsilon of 1 is .83; it is .93 without privacy.

    Parameters
    ----------
    method : str or Method
        A name in `dplangevin.METHODS`, or any object with the interface `dplangevin.Method`; not PATE.
    epsilon, delta : float, as in `Budget`.
    row_bound : float
        B in [1e-18, 1e18], public. Longer rows are cut to it, ``x -> x min(1, B/||x||)``. Scale X by public constants
        first: no guarantee covers a scaler that is fitted on the rows.
    bias : bool, whether to add a constant feature within the bound.
    classes : list of labels, optional
        All possible labels, public. None: the labels in y; the guarantee then says so.
    random_state : int in [0, 2^32), RandomState or None
        None takes the system's entropy, which is for a fit that will be published. A seed gives the same fit again.
        Other rows, labels or settings get other noise. Whoever knows the seed can subtract the noise: keep it as secret
        as the rows. A pickle of a fitted classifier has None in its place; one of an unfitted classifier has the seed.
    device : str or torch.device, optional, as in `library.learn`.

    Attributes
    ----------
    classes_ : ndarray (K,), sorted.
    n_features_in_ : int
    privacy_ : Privacy
    answer_ : library.Answer
    not_private_ : dict
        Diagnostics from the rows without noise, such as a sampler's R-hat. A pickle has neither them nor rows.
    """

    def __init__(
        self,
        method: str | Method = "dp_gd",
        epsilon: float = 1.0,
        delta: float = 1e-5,
        row_bound: float = 1.0,
        *,
        bias: bool = True,
        classes: Sequence[Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.row_bound = row_bound
        self.bias = bias
        self.classes = classes
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from private rows X (n, features) and labels y (n,)."""
        budget = Budget(real(epsilon=self.epsilon), real(delta=self.delta))
        given, method = self.random_state, self.method
        seed = None if given is None else int(check_random_state(given).randint(2**31 - 1))
        alone = not isinstance(named(method), Pate)
        require(alone, "PATE needs public rows: give them to Glm.from_arrays, and the problem to `learn`")
        try:
            classes = None if self.classes is None else np.unique(np.asarray(self.classes)[:]).tolist()
        except (TypeError, IndexError) as error:  # numpy makes no axis of a set
            raise ValueError(f"classes = {self.classes!r} must be a list of labels of one type") from error
        X, y = validate_data(self, X, y)
        with warnings.catch_warnings():  # one depends on the number of different labels
            warnings.simplefilter("ignore")
            check_classification_targets(y)
        problem = Glm.from_arrays(
            X, y, row_bound=self.row_bound, classes=classes, bias=self.bias, clip_rows=True
        )
        rng = None
        if seed is not None:  # a stream for these rows and settings: the noise of two fits never cancels
            rows = [part.contiguous().numpy() for part in (problem.x, problem.y)]
            numbers = [budget.epsilon, budget.delta, float(self.row_bound)]
            own: Any = method
            if not isinstance(method, str):  # by names: pickle finds no class that a function defines
                fields = [*method] if isinstance(method, tuple) else method.__getstate__()
                own = [type(method).__module__, type(method).__qualname__, fields]
            inputs = joblib.hash([rows, numbers, [*map(str, problem.names)], own])
            rng = random.generator(seed, f"fit {inputs}")
        (self.answer_,) = learn(method, problem, budget, rng, device=self.device)
        self.classes_ = np.asarray(problem.names)
        of, price = self.answer_.guarantee, self.answer_.price()
        self.privacy_ = Privacy(
            of.event, of.epsilon, of.delta, of.adjacency, price, of.assumptions, self.answer_.violated
        )
        self.not_private_ = self.answer_.not_private
        return self

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        secret = {"random_state": None} if "answer_" in state else {}
        return {name: value for name, value in (state | secret).items() if name != "not_private_"}

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return probabilities ``(m, K)`` in the order of `classes_`, averaged over the released samples."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        return self.answer_.predict(X).double().numpy()

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row, ``(m,)``."""
        best = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[best])
