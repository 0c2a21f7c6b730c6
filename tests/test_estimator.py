"""`PrivateClassifier` among scikit-learn's estimators, and what it says of its privacy."""

import io
import itertools
import math
import pickle
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from omegaconf import OmegaConf
from pandas import DataFrame, Series
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.utils.estimator_checks import parametrize_with_checks

from dplangevin import Budget, Glm, ObjPert, OutPert, PrivateClassifier, learn
from dplangevin.methods.ops import Ops
from dplangevin.samplers.posterior import Sampler


@parametrize_with_checks([PrivateClassifier()])
def test_scikit_learn(estimator: Any, check: Any) -> None:
    before = np.random.get_state()  # noqa: NPY002
    try:
        check(estimator)
    finally:
        np.random.set_state(before)  # noqa: NPY002  # scikit-learn's own draws


# three classes, 178 rows, columns scaled by round numbers
X, y = load_wine(return_X_y=True)
X, y = X / np.maximum(1, np.round(np.abs(X).mean(0))) / 10, np.array(["a", "b", "c"])[y]


def test_a_fit_is_the_answer_of_the_library_and_says_what_it_cost() -> None:
    model = PrivateClassifier("objpert", epsilon=2.0, row_bound=0.5, random_state=1).fit(X, y)
    assert list(model.classes_) == ["a", "b", "c"]
    assert model.n_features_in_ == 13
    problem = Glm.from_arrays(X, y, row_bound=0.5, bias=True, clip_rows=True)
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
    short = Sampler(warmup=1, block=6, max_draws=6)
    model = PrivateClassifier(Ops(sampler=short), row_bound=0.5, random_state=1).fit(X, y)
    secret = model.not_private_
    assert secret["r_hat"] > 1.05
    assert "R-hat" in secret["not_reached"]
    assert model.privacy_.violated == []
    texts = map(repr, (model.privacy_, model.answer_, model))
    for text in (*texts, pickle.dumps(model).decode("latin-1")):
        assert secret["not_reached"] not in text
        assert "r_hat" not in text
    kept = pickle.loads(pickle.dumps(model))
    assert not hasattr(kept, "not_private_")
    assert (model.random_state, kept.random_state, clone(model).random_state) == (1, None, 1)
    assert kept.answer_.not_private == {}
    assert np.array_equal(kept.predict_proba(X), model.predict_proba(X))


class WithoutAddresses(pickle.Pickler):
    """Tensors as lists: torch writes where in memory they are."""

    def reducer_override(self, value: Any) -> Any:
        return (list, (value.tolist(),)) if isinstance(value, torch.Tensor) else NotImplemented


@pytest.mark.filterwarnings("always:delta")
@pytest.mark.parametrize("method", ["dp_sgd", "dpvi", "dp_sgld_li2019", ObjPert(adjacency="add_remove")])
def test_a_record_more_shows_in_nothing_without_noise(method: Any, recwarn: pytest.WarningsRecorder) -> None:
    """Nor whether delta is below 1/n, as it is for the first n alone."""
    rows = np.column_stack([np.linspace(-0.6, 0.6, 3001), np.full(3001, 0.5)])
    seen = []
    for n in (3000, 3001):
        model = PrivateClassifier(method, 4.0, 1 / 3000.5, classes=[0, 1], random_state=0)
        model.fit(rows[:n], np.arange(n) % 2)
        quiet = replace(model.answer_, theta=torch.zeros_like(model.answer_.theta))
        assert "number of records public" in model.privacy_.assumptions
        WithoutAddresses(held := io.BytesIO()).dump([quiet, model.privacy_, model.classes_])
        seen.append((repr(model.privacy_), repr(quiet), repr(quiet.price()), held.getvalue()))
    assert seen[0] == seen[1]
    assert not recwarn.list
    with pytest.raises(ValueError, match="number of records"):
        quiet.price("replace_one")


def test_the_accuracies_in_the_documentation_are_those_of_the_leaderboard() -> None:
    """Of Spambase: its facts are public, and no setting was chosen on it."""
    results = Path(__file__).parents[1] / "results"
    frame = pd.read_csv(results / "exhibits/leaderboard/leaderboard.csv")
    (n,) = pd.read_csv(results / "runs/leaderboard/spambase/runs.csv").records.unique()
    own = frame[frame.dataset.eq("spambase")]
    asked = (str(PrivateClassifier().method), 1.0), ("nonprivate", 1.0)
    private, free = (own[own.method.eq(name) & own.epsilon.eq(e)].iloc[0] for name, e in asked)
    text = " ".join(str(PrivateClassifier.__doc__).split())
    labels = OmegaConf.load(results.parent / "conf/exhibit/leaderboard.yaml").draw.datasets
    assert not labels.spambase.endswith("*")  # held out
    assert f"a held-out table with {n:,} training rows" in text
    accuracies = [f"{row.accuracy:.2f}".removeprefix("0") for row in (private, free)]
    assert "at a proven epsilon of 1 is {}; it is {} without privacy.".format(*accuracies) in text


def test_classes_are_sorted_as_scikit_learn_has_them() -> None:
    """Its scores of probabilities rely on it."""
    two = X[y != "c"], y[y != "c"]
    given: Any = {"epsilon": 1e3, "row_bound": 0.5, "random_state": 0}
    orders = ["a", "b"], ["b", "a"]
    one, other = (PrivateClassifier("objpert", classes=each, **given).fit(*two) for each in orders)
    assert list(one.classes_) == list(other.classes_) == ["a", "b"]
    assert np.array_equal(one.predict_proba(two[0]), other.predict_proba(two[0]))
    assert one.score(*two) > 0.8


def test_no_warning_counts_the_labels() -> None:
    """scikit-learn warns where more than half of the labels are different ones."""
    X, y = np.eye(30, 3), np.arange(30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrivateClassifier(row_bound=1.0, epsilon=1.0, classes=range(40), random_state=0).fit(X, y)


def test_fits_of_one_seed_have_noise_of_their_own_unless_they_are_the_same() -> None:
    """What scikit-learn clones, one for each class or fold, has the seed of all: their noise must not cancel."""

    def fitted(X: Any, y: Any, method: Any = "outpert", epsilon: Any = 1.0) -> np.ndarray:
        given: Any = {"row_bound": 0.5, "classes": ["a", "b", "c"], "random_state": 0}
        model = PrivateClassifier(method, epsilon, **given).fit(X, y)
        return np.asarray(model.answer_.theta.flatten()[:3])

    same = [
        fitted(X, y),
        fitted(np.asfortranarray(X), y, epsilon=1),
        fitted(DataFrame(X).to_numpy(), Series(y), epsilon=np.float32(1.0)),
    ]
    assert all(np.allclose(each, same[0], rtol=1e-6) for each in same)  # of rows in another order of memory
    assert np.array_equal(fitted(X, y, OutPert()), fitted(X, y, OutPert()))

    class Local(OutPert):
        """A class that pickle cannot find."""

    assert np.array_equal(fitted(X, y, Local()), fitted(X, y, Local()))
    steep, local = OutPert(l2=0.0101), Local(l2=0.0101)
    noise = [
        same[0] - fitted(X, y, epsilon=math.inf),
        fitted(X, y[::-1]) - fitted(X, y[::-1], epsilon=math.inf),
        fitted(X[1:], y[1:]) - fitted(X[1:], y[1:], epsilon=math.inf),
        *(fitted(X, y, of) - fitted(X, y, of, epsilon=math.inf) for of in (steep, local, Local())),
    ]
    for one, another in itertools.combinations(noise, 2):
        assert np.abs(one - another).max() > 1e-1 * np.abs(one).max()


# Parameters


@pytest.mark.parametrize(
    "seed", [0.5, 1.0, "3", -1, 2**32, 2**70, np.bool_(True), np.array(3), [3], np.random.default_rng(0)]
)
def test_random_states_are_those_of_scikit_learn(seed: Any) -> None:
    with pytest.raises(ValueError, match=r"cannot be used to seed|Seed must be between 0 and 2\*\*32"):
        PrivateClassifier("objpert", random_state=seed).fit(X, y)


def test_numbers_and_random_states_are_taken() -> None:
    def fitted(seed: Any) -> np.ndarray:
        model = PrivateClassifier("outpert", row_bound=0.5, random_state=seed)
        return np.asarray(model.fit(X, y).answer_.theta)

    one = fitted(1)
    for seed in (True, np.int64(1), np.uint8(1)):  # as scikit-learn does
        assert np.array_equal(fitted(seed), one)
    largest = fitted(2**32 - 1)
    assert not np.array_equal(largest, one)
    state = np.random.RandomState(0)
    first, second = fitted(state), fitted(state)
    assert not np.array_equal(first, second)
    assert np.array_equal(fitted(np.random.RandomState(0)), first)
    assert not np.array_equal(fitted(None), fitted(None))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": "1"}, "epsilon = '1' must be a number, not str: give it as a float"),
        ({"delta": True}, "delta = True must be a number, not bool"),
        ({"delta": -1e-5}, r"delta = -1e-05 must be in \[0, 1\)"),
        ({"classes": ["a", 1]}, r"y has a label that is not among classes \['1', 'a'\]"),
        ({"classes": {"a"}}, "classes = {'a'} must be a list of labels of one type"),
        ({"classes": [None, "a"]}, r"classes = \[None, 'a'\] must be a list of labels of one type"),
        ({"method": "pate"}, "PATE needs public rows: give them to Glm.from_arrays"),
    ],
)
def test_odd_values_are_named_with_the_fix(change: dict[str, Any], message: str) -> None:
    model = PrivateClassifier(**{"method": "objpert", **change})
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
