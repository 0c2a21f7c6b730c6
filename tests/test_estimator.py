"""`PrivateClassifier` among scikit-learn's estimators, and what it says of its privacy."""

import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
from pandas import DataFrame, Series
from sklearn.datasets import load_wine
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from dplangevin import Budget, ObjPert, OutPert, PrivateClassifier, Problem, learn
from dplangevin.methods.ops import Ops
from dplangevin.posterior import Sampler

# checks that may fail
ROUNDED = "the last bit of a sum in float32 depends on the place of a row; equality is asked for to 1e-9"
FAILS = dict.fromkeys(["check_methods_sample_order_invariance", "check_methods_subset_invariance"], ROUNDED)


@parametrize_with_checks(
    [
        PrivateClassifier("objpert", epsilon=math.inf),
        PrivateClassifier("objpert", epsilon=100.0, row_bound=10.0),
    ],
    expected_failed_checks=lambda estimator: FAILS,
)
def test_scikit_learn(estimator: Any, check: Any) -> None:
    before = np.random.get_state()  # noqa: NPY002
    try:
        check(estimator)
    finally:
        np.random.set_state(before)  # noqa: NPY002  # scikit-learn's own draws


def wine() -> tuple[np.ndarray, np.ndarray]:
    """Three classes, 178 rows, columns scaled by round numbers."""
    X, y = load_wine(return_X_y=True)
    return X / np.maximum(1, np.round(np.abs(X).mean(0))) / 10, np.array(["a", "b", "c"])[y]


def test_a_fit_is_the_answer_of_the_library_and_says_what_it_cost() -> None:
    X, y = wine()
    model = PrivateClassifier("objpert", epsilon=2.0, row_bound=0.5, random_state=1).fit(X, y)
    assert list(model.classes_) == ["a", "b", "c"]
    assert model.n_features_in_ == 13
    problem = Problem.from_arrays(X, y, row_bound=0.5, bias=True, clip_rows=True)
    (answer,) = learn(ObjPert(), problem, Budget(2.0, 1e-5), 0)
    privacy = model.privacy_
    assert (privacy.event, privacy.delta) == (answer.guarantee.event, 1e-5)
    assert privacy.epsilon == pytest.approx(2.0)
    assert privacy.adjacency == "replace_one"
    assert privacy.price == answer.price()
    assert privacy.assumptions == answer.guarantee.assumptions
    assert {"classes read off the labels", "rows longer than the bound are cut"} <= set(privacy.assumptions)
    assert privacy.violated == []
    model.set_params(classes=["a", "b", "c"])
    assert "classes read off the labels" not in model.fit(X, y).privacy_.assumptions


def test_what_was_computed_from_the_rows_without_noise_is_not_released() -> None:
    """Not in a text, nor in a pickle: it says so by its name."""
    X, y = wine()
    short = Sampler(warmup=1, block=6, max_draws=6)
    model = PrivateClassifier(Ops(sampler=short), row_bound=0.5, random_state=1).fit(X, y)
    secret = model.not_private_
    assert secret["r_hat"] > 1.05
    assert "R-hat" in secret["not_reached"]
    assert model.privacy_.violated == []
    for text in (
        repr(model.privacy_),
        repr(model.answer_),
        repr(model),
        pickle.dumps(model).decode("latin-1"),
    ):
        assert secret["not_reached"] not in text
        assert "r_hat" not in text
    kept = pickle.loads(pickle.dumps(model))
    assert not hasattr(kept, "not_private_")
    assert kept.answer_.not_private == {}
    assert np.array_equal(kept.predict_proba(X), model.predict_proba(X))


def test_seeds_repeat_and_others_differ() -> None:
    X, y = wine()
    first, again, other = (
        PrivateClassifier("objpert", row_bound=0.5, random_state=seed).fit(X, y).predict_proba(X)
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    fresh = [PrivateClassifier("objpert", row_bound=0.5).fit(X, y).predict_proba(X) for _ in range(2)]
    assert not np.array_equal(fresh[0], fresh[1])


def test_classes_are_sorted_as_scikit_learn_has_them() -> None:
    """Its scores of probabilities rely on it."""
    X, y = wine()
    two = y != "c"
    scores = [
        cross_val_score(
            PrivateClassifier("objpert", epsilon=1e3, row_bound=0.5, classes=classes, random_state=0),
            X[two],
            y[two],
            scoring="roc_auc",
        )
        for classes in (["a", "b"], ["b", "a"])
    ]
    assert np.array_equal(scores[0], scores[1])
    assert scores[0].min() > 0.8


def test_other_methods_and_methods_of_ones_own() -> None:
    X, y = wine()

    class Mine(ObjPert):
        pass

    mine = PrivateClassifier(Mine(), epsilon=1000.0, row_bound=0.5, random_state=0)
    assert cross_val_score(mine, X, y, cv=3).mean() > 0.8
    two = y != "c"
    scaled = make_pipeline(FunctionTransformer(np.tanh), PrivateClassifier(epsilon=20.0, random_state=0))
    assert scaled.fit(X[two], y[two]).predict_proba(X).shape == (178, 2)  # dpvi
    with pytest.raises(ValueError, match=r"dpvi .* not for 3 classes: use dp_sgd"):
        PrivateClassifier(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="method 'objprt' is unknown; did you mean objpert"):
        PrivateClassifier("objprt").fit(X, y)
    with pytest.raises(ValueError, match="give rows of two or more"):
        PrivateClassifier("objpert").fit(X[y == "a"], y[y == "a"])
    with pytest.raises(ValueError, match=r"epsilon = -1\.0 must be in \(0, inf\]"):
        PrivateClassifier("objpert", epsilon=-1).fit(X, y)


def test_fits_of_one_seed_have_noise_of_their_own_unless_they_are_the_same() -> None:
    """What scikit-learn clones, one for each class or fold, has the seed of all: their noise must not cancel."""
    X, y = wine()

    def fitted(
        X: Any, y: Any, method: Any = "outpert", epsilon: float = 1.0, public: Any = None
    ) -> np.ndarray:
        given: Any = {"row_bound": 0.5, "classes": ["a", "b", "c"], "random_state": 0, "public": public}
        model = PrivateClassifier(method, epsilon, **given).fit(X, y)
        return np.asarray(model.answer_.theta.flatten()[:3])

    public = np.tile(X, (20, 1))
    other = public.copy()
    other[1000] += 1
    same = [
        fitted(X, y),
        fitted(np.asfortranarray(X), y, epsilon=1),
        fitted(DataFrame(X).to_numpy(), Series(y), epsilon=np.float64(1.0)),
    ]
    assert all(np.allclose(each, same[0], rtol=1e-6) for each in same)  # of rows in another order of memory
    assert np.array_equal(fitted(X, y, OutPert()), fitted(X, y, OutPert()))
    steep = OutPert(l2=0.011)
    noise = [
        same[0] - fitted(X, y, epsilon=math.inf),
        fitted(X, y[::-1]) - fitted(X, y[::-1], epsilon=math.inf),
        fitted(X[1:], y[1:]) - fitted(X[1:], y[1:], epsilon=math.inf),
        fitted(X, y, steep) - fitted(X, y, steep, epsilon=math.inf),
        fitted(X, y, public=public) - fitted(X, y, epsilon=math.inf),
        fitted(X, y, public=other) - fitted(X, y, epsilon=math.inf),
    ]
    for one, another in itertools.combinations(noise, 2):
        assert np.abs(one - another).max() > 1e-1 * np.abs(one).max()
