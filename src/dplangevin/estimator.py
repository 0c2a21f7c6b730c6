"""A private classifier for scikit-learn, on top of `library`.

>>> from sklearn.datasets import load_breast_cancer
>>> from sklearn.preprocessing import FunctionTransformer
>>> X, y = load_breast_cancer(return_X_y=True)
>>> typical = [14, 19, 92, 655, 0.1, 0.1, 0.09, 0.05, 0.18, 0.06]  # public: what such numbers are like
>>> model = PrivateClassifier("objpert", epsilon=8.0, row_bound=2.0, classes=[0, 1], random_state=0)
>>> model = model.fit(X[:, :10] / typical - 1, y)
>>> round(model.score(X[:, :10] / typical - 1, y), 1)
0.9
>>> print(model.privacy_.adjacency, round(model.privacy_.epsilon, 2), round(model.privacy_.price["epsilon_tight"], 2))
replace_one 8.0 5.59
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import joblib
import numpy as np
from dp_accounting import DpEvent
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Generator

from dplangevin import random
from dplangevin.library import Answer, learn
from dplangevin.methods import Method
from dplangevin.methods.registry import named
from dplangevin.privacy import Adjacency, Budget
from dplangevin.problems.glm import Glm


class Privacy(NamedTuple):
    """What a fit cost and what that rests on.

    event: what was done to the data.  epsilon, delta, adjacency: promised by the method's own theorem, for neighbours
    of that kind.  price: the columns of `library.price`, epsilon_tight among them.  assumptions: that the guarantee
    needs and the code cannot enforce.  violated: what it needs and this fit did not have, by public facts and the
    released parameters alone; [] where it has all.
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

    method: a name of `dplangevin.METHODS`, or a method: of this package, or anything with its interface
    (`dplangevin.Method`).  epsilon in (0, inf], inf meaning no privacy; delta in [0, 1).
    row_bound: B > 0, public; longer rows are cut to it, ``x -> x min(1, B/||x||)``, which looks at each row alone.
    Scale X by public constants first: a scaler that is fitted on the rows is not accounted for.  bias: a constant
    feature within the bound.  classes: all that there can be, public; None: those that y has, of which the guarantee
    then says that they were read off.  public: rows ``(m, features)`` that need no privacy, for "pate".
    random_state: None takes the system's entropy, which is for what will be published.  A seed, or a RandomState, gives
    the same fit again, and other noise to a fit on other rows, labels or settings, as where scikit-learn clones one for
    each class or fold: it is one of 2^32, which can all be tried, and it is as secret as the rows.

    Fitted: `classes_` ``(K,)``, sorted, `n_features_in_`, `privacy_` (`Privacy`), `answer_` (`library.Answer`), and
    `not_private_`, diagnostics that were computed from the rows without noise, such as a sampler's R-hat.  A pickle has
    no row and not `not_private_`, so that of a classifier fitted with random_state=None may be published.
    """

    def __init__(
        self,
        method: str | Method = "dpvi",
        epsilon: float = 1.0,
        delta: float = 1e-5,
        row_bound: float = 1.0,
        *,
        bias: bool = True,
        classes: Sequence[Any] | None = None,
        public: Any = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.row_bound = row_bound
        self.bias = bias
        self.classes = classes
        self.public = public
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from private rows X ``(n, features)`` with labels y ``(n,)``.

        ValueError for a budget that is out of reach and for classes that the method is not defined for, naming the fix.
        """
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        problem = Glm.from_arrays(
            X,
            y,
            row_bound=self.row_bound,
            classes=None if self.classes is None else sorted(self.classes),
            public=self.public,
            bias=self.bias,
            clip_rows=True,
        )
        budget = Budget(float(self.epsilon), float(self.delta))
        (answer,) = learn(named(self.method), problem, budget, self._generator(problem))
        self.classes_ = np.asarray(problem.names)
        self.answer_: Answer = answer
        promise = answer.guarantee
        self.privacy_ = Privacy(
            promise.event,
            promise.epsilon,
            promise.delta,
            promise.adjacency,
            answer.price(),
            promise.assumptions,
            answer.violated,
        )
        self.not_private_ = answer.not_private
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Without what is not private."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "not_private_"}

    def _generator(self, problem: Glm) -> Generator | None:
        """Of a seed and what is fitted how: to another fit it gives other noise, so that the noise cannot cancel."""
        given = self.random_state
        if given is None:
            return None
        seed = check_random_state(given).randint(2**31 - 1) if hasattr(given, "randint") else given
        rows = [
            None if part is None else part.contiguous().numpy()
            for part in (problem.x, problem.y, problem.x_test)
        ]
        numbers = [float(number) for number in (self.epsilon, self.delta, self.row_bound)]
        method: Any = self.method
        if not isinstance(method, str):
            method = [type(method).__module__, type(method).__qualname__, getattr(method, "__dict__", {})]
        return random.generator(
            int(seed), f"fit {joblib.hash([rows, numbers, [*map(str, problem.names)], method])}"
        )

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities ``(m, K)`` in the order of `classes_`, averaged over what the method released."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        return self.answer_.predict(X).double().numpy()

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row, ``(m,)``."""
        best = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[best])
