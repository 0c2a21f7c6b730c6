"""Data of one's own: from arrays to answers, prices and attacks, without a configuration."""

import ast
import doctest
import importlib
import math
import pickle
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pandas import DataFrame

import dplangevin
from dplangevin import (
    Budget,
    DpSgd,
    DpSgldRyffel2022,
    Facts,
    Glm,
    ObjPert,
    OutPert,
    Sampling,
    Sgd,
    attack,
    budget_for,
    facts,
    learn,
    price,
    random,
)
from dplangevin.attacks.release import zeros
from dplangevin.attacks.sampled import all_iterates
from dplangevin.methods.registry import METHODS
from dplangevin.privacy.survey import survey
from dplangevin.problems.losses import huber

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/dplangevin"
DELTA = 1e-5
HALF = Budget(0.5, DELTA)


def rows(n: int = 60, classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm at most 1 with labels 0, ..., K - 1 that their direction decides."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * 1.001
    y = X[:, :classes].argmax(1) if classes > 2 else (X[:, 0] > 0).astype(int)
    return X, y


def made(n: int = 60, kinds: int = 2, **more: Any) -> Glm:
    X, y = rows(n, kinds)
    return Glm.from_arrays(X, y, **{"row_bound": 1.0, **more})


# The package


@pytest.mark.parametrize(
    "name",
    sorted(
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in PACKAGE.rglob("*.py")
        if ">>>" in path.read_text()
    ),
)
def test_examples_in_docstrings_are_true(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


def test_what_is_exported_is_there_and_what_type_checkers_see() -> None:
    seen: dict[str, tuple[str, str]] = {}
    for node in ast.walk(ast.parse((PACKAGE / "__init__.py").read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dplangevin"):
            seen |= {alias.asname or alias.name: (str(node.module), alias.name) for alias in node.names}
    assert sorted(seen) == sorted(dplangevin.__all__) == sorted(dplangevin._HOMES)
    for name, (module, there) in seen.items():
        assert getattr(dplangevin, name) is getattr(importlib.import_module(module), there)
    with pytest.raises(AttributeError, match="has no attribute 'glm'"):
        _ = dplangevin.glm


# Rows


@pytest.mark.parametrize("kind", [np.float32, np.float64, torch.FloatTensor, np.ndarray.tolist])
def test_rows_of_any_kind_are_one_problem_within_the_bound(kind: Any) -> None:
    X, y = rows()
    X = X.astype(np.float32).astype(float)
    found, wanted = Glm.from_arrays(kind(X), y, row_bound=1.0), made()
    assert torch.allclose(found.x, wanted.x, atol=1e-6)
    assert torch.equal(found.y, 2 * torch.tensor(y[None], dtype=torch.float32) - 1)
    assert found.x.dtype == torch.float32
    assert float(found.x.double().norm(dim=-1).max()) <= 1.0


def test_rows_that_are_too_long_are_an_error_or_cut() -> None:
    X, y = rows()
    X[7] *= 40
    with pytest.raises(ValueError, match=r"X has a row of norm 39\.\d+ > row_bound = 1: .* clip_rows=True"):
        Glm.from_arrays(X, y, row_bound=1.0)
    found = Glm.from_arrays(X, y, row_bound=1.0, clip_rows=True)
    assert torch.allclose(found.x[0, 7].double(), torch.tensor(X[7] / np.linalg.norm(X[7])), atol=1e-6)
    assert float(found.x.double().norm(dim=-1).max()) <= 1.0
    (answer,) = learn("objpert", found, HALF, 0)
    assert "rows longer than the bound are cut" in answer.guarantee.assumptions
    for long in (X[7:8] * 9, X[7:8] * 1e200):  # cut alike where they are predicted
        torch.testing.assert_close(answer.predict(X[7:8]), answer.predict(long), rtol=1e-6, atol=0)
    X[7] = [1e308, -1e308, 0.0]
    cut = Glm.from_arrays(X, y, row_bound=1.0, clip_rows=True).x[0, 7]
    torch.testing.assert_close(cut, torch.tensor([0.5**0.5, -(0.5**0.5), 0]))
    (uncut,) = learn("objpert", made(), HALF, 0)
    with pytest.raises(ValueError, match=r"X has a value above 3\.4e38: scale X, or set clip_rows=True"):
        uncut.predict([[1.0, 0, 0], [1e39, 0, 0]])


@pytest.mark.parametrize("bound", [1.0, 5.0])
def test_a_bias_is_a_constant_feature_within_the_bound(bound: float) -> None:
    X, y = rows()
    found = Glm.from_arrays(bound * X, y, row_bound=bound, bias=True)
    assert torch.allclose(found.x[0, :, 3], torch.tensor(bound / math.sqrt(2)))
    assert torch.allclose(found.x[0, :, :3].double(), torch.tensor(bound * X) / math.sqrt(2), atol=1e-5)
    assert float(found.x.double().norm(dim=-1).max()) <= bound == found.facts.row_bound


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"X": [[0.1, math.nan, 0.0]] * 60}, "X has a value that is nan"),
        ({"X": [0.1] * 60}, r"X has shape \(60,\): give \(n, features\)"),
        ({"y": [0, 1]}, r"y has shape \(2,\): give one label per row, \(60,\)"),
        ({"y": ["yes"] * 60}, "y has only one class: give all that there can be as classes"),
        ({"y": [math.nan] + [1.0] * 59}, "y has nan, infinity or None: every row needs a label"),
        ({"y": [math.inf] + [1.0] * 59}, "y has nan, infinity or None: every row needs a label"),
        ({"y": ["1", 1] * 30}, "y has labels of several types"),
        ({"classes": [1, 2]}, r"y has a label that is not among classes \[1, 2\]: give all"),
        ({"classes": [0, 0, 1]}, r"classes = \[0, 0, 1\] must be distinct, two or more"),
        ({"classes": [0, "1"]}, "classes has labels of several types"),
        ({"classes": [[0], [1, 2]]}, "classes has labels of several types"),
        ({"classes": {0, 1}}, "classes has labels of several types, or is no list"),
        ({"classes": [0, 1, 2], "loss": "logistic"}, "the logistic loss has 2 classes, not 3: use softmax"),
        ({"loss": "hinge"}, "loss 'hinge' is unknown"),
        ({"loss": "huber"}, "huber needs label_bound, a public Y"),
        ({"loss": "huber", "label_bound": 0.5}, "a label has absolute value 1 > label_bound 0.5"),
        ({"public": [[0.0, 0.1]]}, "public has 2 features, but 3 are expected"),
        ({"X": [[1e200, 0.0, 0.0]] * 60}, r"X has a row of norm inf > row_bound = 1"),
        ({"X": [["0.1", "0.2", "0.3"]] * 60}, r"X is no array of real numbers .*<U3\): give \(n, features\)"),
        ({"X": [[0.1, 0.2], [0.1]] * 30}, "X is no array of real numbers .*inhomogeneous"),
        ({"row_bound": 1e39}, r"row_bound = 1e\+39 must be in \[1e-18, 1e18\]"),
        ({"classes": "ab"}, "classes has labels of several types, or is no list: give a list of labels of one"),
        ({"y": [None, 1] * 30}, "y has labels of several types, None or lists: give a list of labels of one type"),
        ({"y": np.array([0, 1, math.nan] * 20, dtype=object)}, "y has nan, infinity or None"),
        ({"X": np.array([["0.1", 0.2, 0.3]] * 60, dtype=object)}, "X is no array of real numbers .it has a str"),
        ({"loss": 3}, "loss = 3 must be a name or a Loss"),
        ({"label_bound": 3.0}, r"label_bound = 3\.0 is for loss='huber': leave it out"),
        ({"threshold": 1.0, "loss": huber(1.0, 1.0)}, r"threshold = 1\.0 is for loss='huber': leave it out"),
        ({"loss": "huber", "label_bound": 1.0, "y": ["1"] * 60}, r"y is no array .*<U1\): leave out loss"),
        ({"loss": "huber", "label_bound": 1.0, "classes": [0, 1]}, r"classes = \[0, 1\] is for labels that are"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_the_fix(change: dict[str, Any], why: str) -> None:
    X, y = rows()
    with pytest.raises(ValueError, match=why):
        Glm.from_arrays(**{"X": X, "y": y, "row_bound": 1.0, **change})


@pytest.mark.parametrize("classes", [None, ["no", "yes"]])
@pytest.mark.parametrize("secret", ["hiv", 41234.0, math.inf, None, b"hiv", ("hiv",), 4 + 4j])
@pytest.mark.parametrize("kind", [list, lambda y: np.array(y, dtype=object)], ids=["list", "objects"])
def test_no_message_shows_a_private_label(classes: Any, secret: Any, kind: Any) -> None:
    """Messages end in logs."""
    shown, three = "", classes is None and secret == "hiv"
    try:
        Glm.from_arrays(rows()[0], kind(["no", "yes"] * 29 + [secret] * 2), row_bound=1.0, classes=classes)
    except ValueError as error:
        shown = f"{error} {error.__cause__}"
    assert three != bool(shown)
    assert "hiv" not in shown
    assert "4" not in shown


def test_public_frames_have_the_columns_of_x() -> None:
    X, y = rows()
    frame = DataFrame(X, columns=["a", "b", "c"])
    assert Glm.from_arrays(frame, y, row_bound=1.0, public=frame[:9]).facts.public == 9
    assert Glm.from_arrays(frame, y, row_bound=1.0, public=X[:9]).facts.public == 9
    with pytest.raises(ValueError, match=r"public has columns .*: give public the columns of X"):
        Glm.from_arrays(frame, y, row_bound=1.0, public=frame[["c", "a", "b"]])


# Learning


@pytest.mark.parametrize("labels", [["no", "yes"], [-1, 1], [1.0, 0.0], [True, False], [10, 3]])
def test_probabilities_are_those_of_the_named_classes(labels: list[Any]) -> None:
    X, y = rows(400)
    named_y = np.asarray(labels)[y]
    problem = Glm.from_arrays(X, named_y, row_bound=1.0)
    assert list(problem.names) == sorted(labels)
    (answer,) = learn("nonprivate", problem, Budget(math.inf, 0.0), 0)
    found = np.asarray(problem.names)[answer.predict(X).argmax(1)]
    assert (found == named_y).mean() > 0.97


def test_three_classes_and_numbers_are_learned() -> None:
    X, y = rows(400, classes=3)
    problem = Glm.from_arrays(X, y, row_bound=1.0, bias=True)
    (answer,) = learn("nonprivate", problem, Budget(math.inf, 0.0), 0)
    assert answer.theta.shape == (1, 12)
    assert (answer.predict(X).argmax(1).numpy() == y).mean() > 0.95
    target = X @ [0.5, -0.3, 0.2] + 0.1
    numbers = Glm.from_arrays(X, target, row_bound=1.0, loss="huber", label_bound=1.0, bias=True)
    (answer,) = learn("nonprivate", numbers, Budget(math.inf, 0.0), 0)
    assert answer.predict(X[:5]).shape == (5,)
    np.testing.assert_allclose(answer.predict(X), target, atol=1e-3)


def test_two_answers_of_one_call_do_not_give_the_fit_without_noise() -> None:
    """On common noise two answers are two equations for it: (s b - t a)/(s - t) would be the ridge fit itself."""
    problem = made()
    low, high = learn("outpert", problem, [HALF, Budget(1.0, DELTA)], 0)
    s, t = (float(answer.plan.settings["noise_std"]) for answer in (low, high))
    (plain,) = learn("outpert", problem, Budget(math.inf, DELTA), 0)
    solved = (s * high.theta - t * low.theta) / (s - t)
    assert float((solved - plain.theta).norm()) > 0.1 * t


def test_shuffled_epochs_have_no_price_for_added_records() -> None:
    """100 of 101 rows, noise 1, all others its opposite: the sum moves by 2, and epsilon is near 10, not 4."""
    shuffled = Sampling("shuffled", batch=100, epochs=1)
    learner, known = DpSgd(sampling=shuffled, noise_multiplier=1.0), facts(101, 5)
    assert price(learner, known, Budget(1.0, DELTA), "replace_one")["epsilon_proven"] == pytest.approx(
        9.99, abs=0.02
    )
    with pytest.raises(ValueError, match=r"shuffled epochs.*replace_one"):
        price(learner, known, Budget(1.0, DELTA), "add_remove")
    langevin = DpSgldRyffel2022(sampling=shuffled, l2=0.01)
    with pytest.raises(ValueError, match=r"shuffled epochs.*replace_one"):
        budget_for(langevin, known, Budget(1.0, DELTA), "add_remove")
    event = learner.plan(known, Budget(1.0, DELTA)).guarantee.event
    assert {row.adjacency for row in survey(event, DELTA)} == {"replace_one"}
    with pytest.raises(ValueError, match="Gaussian steps, sampled or not"):
        all_iterates(event, 10, random.generator(0, "shuffled"))


def test_the_price_of_the_last_iterate_is_for_replaced_records() -> None:
    """For added ones all iterates are cheaper here, which bounds nothing of replaced ones."""
    full, known = Sampling("subset", batch=1000, epochs=1), facts(1000, 5)
    learner = DpSgldRyffel2022(sampling=full, noise_std=0.002, l2=0.01)
    added, replaced = (price(learner, known, HALF, kind) for kind in ("add_remove", "replace_one"))
    assert added["epsilon_proven"] < added["epsilon_last"] == replaced["epsilon_last"]
    assert replaced["epsilon_last"] <= replaced["epsilon_proven"]


def test_methods_that_are_named_for_more_classes_have_them() -> None:
    known = facts(100, 3, classes=3)
    with pytest.raises(ValueError, match=r"one margin, .* not for 3 classes: use dp_sgd, .*") as error:
        price("dpvi", known, HALF)
    for name in re.split(r", | or ", str(error.value).partition(": use ")[2]):
        assert price(name, known, HALF)["epsilon_promised"] <= 0.5


def test_answers_hold_no_rows_and_can_be_kept() -> None:
    X, _ = rows()
    answers = learn("dpvi", made(), HALF, 0) + learn("objpert", made(kinds=3), HALF, 0)
    each = [replace(answers[0], theta=theta[None]).predict(X) for theta in answers[0].theta]
    torch.testing.assert_close(answers[0].predict(X), torch.stack(each).mean(0))
    for answer in answers + learn("ops", made(), HALF, 0):
        kept = pickle.loads(pickle.dumps(answer))
        # one draw, not the sampler's others
        assert kept.theta.untyped_storage().nbytes() == answer.theta.nbytes
        assert torch.equal(kept.predict(X), answer.predict(X))
        assert kept.price() == answer.price()
        held = [value for value in vars(answer.model).values() if isinstance(value, torch.Tensor)]
        assert sum(value.numel() for value in held) == 0


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match=r"out of reach: Li et al\. .*cannot report an epsilon below"):
        learn("dp_sgd", made(), Budget(1e-3, DELTA), 0)
    with pytest.raises(ValueError, match="teachers = 250 must be at most the 60 records"):
        learn("pate", made(public=rows(50)[0]), HALF, 0)
    with pytest.raises(ValueError, match="budgets is empty"):
        learn("objpert", made(), [], 0)

    class Greedy(ObjPert):
        def plan(self, facts: Facts, budget: Budget) -> Any:
            return super().plan(facts, Budget(2 * budget.epsilon, budget.delta))

    with pytest.raises(
        ValueError, match=r"Greedy refused: its event costs \(1, 1e-05\), more than the budget \(0\.5"
    ):
        learn(Greedy(), made(), HALF, 0)
    with pytest.raises(ValueError, match="Greedy refused"):
        price(Greedy(), made(), HALF)


def test_a_chain_that_diverges_is_named() -> None:
    steep = Sgd(step=1e30, unit="absolute", sampling=Sampling("full", epochs=40))
    (answer,) = learn(steep, made(loss="huber", label_bound=1.0), Budget(math.inf, 0.0), 0)
    assert answer.violated == ["the chain diverged: lower the step size"]


# Prices


def test_prices_need_no_data_and_are_those_of_the_answer() -> None:
    problem = made()
    for name in ("dp_sgd", "ops_gdp", "dp_sgld_ryffel2022"):
        (answer,) = learn(name, problem, HALF, 0)
        assert answer.model.n == 0
        known = facts(problem.n, problem.features)
        if answer.guarantee.adjacency != "add_remove":
            assert price(name, known, HALF) == answer.price()
        assert price(name, known, HALF)["epsilon_promised"] == pytest.approx(
            answer.guarantee.epsilon, rel=1e-5
        )


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method().budgeted])
def test_calibrated_methods_have_the_price_that_is_asked(name: str) -> None:
    known, target = facts(1000, 3, public=1000), Budget(2.0, DELTA)
    budget = budget_for(name, known, target)
    found = price(name, known, budget, "replace_one")
    assert 1.99 < found["epsilon_proven"] <= 2.0


def test_a_chain_is_calibrated_with_all_its_iterates_visible_unless_asked_otherwise() -> None:
    known, target = facts(1000, 5), Budget(1.0, DELTA)
    full = DpSgldRyffel2022(sampling=Sampling("subset", 1000, 100), l2=0.1)
    found = price(full, known, budget_for(full, known, target), "replace_one")
    assert 0.99 < found["epsilon_proven"] <= 1.0
    assert found["epsilon_last"] < 0.5
    hidden = budget_for(full, known, target, event=lambda plan: plan.guarantee.event)
    assert 0.99 < price(full, known, hidden, "replace_one")["epsilon_last"] <= 1.0


def test_a_target_without_a_limit_and_one_out_of_reach() -> None:
    assert budget_for("objpert", facts(100, 2), Budget(math.inf, 0.0)).epsilon == math.inf
    with pytest.raises(ValueError, match="out of reach"):
        budget_for("dp_sgd", facts(100, 2), Budget(0.01, DELTA))


# Attacks


NEAR_ZERO = OutPert(l2=5.0)  # where gradients are half as long as the bound allows


@pytest.mark.parametrize(
    ("method", "classes", "least"),
    [(NEAR_ZERO, 2, 0.15), (NEAR_ZERO, 3, 0.15), ("objpert", 2, 0.0), ("dp_sgd", 2, 0.0)],
)
def test_attacks_stay_below_the_price(method: Any, classes: int, least: float) -> None:
    known, budget = facts(4, 2, classes=classes), Budget(3.0, 0.05)
    found, cost = attack(method, known, budget, 0, runs=4000), price(method, known, budget)
    assert least * cost["epsilon_proven"] <= found.epsilon <= cost["epsilon_proven"]


def test_attacks_need_a_bound() -> None:
    free = facts(4, 2, row_bound=math.inf)
    with pytest.raises(ValueError, match="needs a bound on the gradient"):
        attack("outpert", free, HALF, 0)
    with pytest.raises(ValueError, match="an attack needs rows with a bound"):
        attack(DpSgd(unit="absolute"), free, HALF, 0)


# What an installation has


@pytest.mark.slow
def test_the_library_declares_what_it_imports() -> None:
    """Of the base dependencies alone, each module that the library loads; what else there is belongs to an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=\[]", entry)[0].lower() for entry in project["dependencies"]}
    modules = {"scikit-learn": "sklearn", "attrs": "attr", "hydra-core": "hydra"}
    declared = {modules.get(name, name.replace("-", "_")) for name in names}
    code = "import sys, dplangevin.library, dplangevin.estimator; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT / "src", check=True)
    used, loaded = set[str](), {*found.stdout.split()}
    for name in (each for each in loaded if each.startswith("dplangevin.")):
        for node in ast.walk(ast.parse(Path(str(importlib.import_module(name).__file__)).read_text())):
            names = {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
            names |= {node.module or ""} if isinstance(node, ast.ImportFrom) else set()
            used |= {each.partition(".")[0] for each in names}
    assert used - set(sys.stdlib_module_names) - {"dplangevin"} <= declared
    others = {"dvc", "pytest", "jinja2", "dask", "playwright"}
    assert not loaded & {*others, "hydra", "omegaconf"}
    assert not declared & others
    assert set(project["optional-dependencies"]) == {"pipeline", "report", "cluster", "opacus", "dev"}


def test_a_delta_of_one_in_n_is_warned_of() -> None:
    problem = Glm.from_arrays(np.eye(4) / 2, [0, 1, 0, 1], row_bound=1.0, classes=[0, 1])
    with pytest.warns(UserWarning, match="delta 0.25 is not below 1/4"):
        learn("outpert", problem, Budget(1.0, 0.25))


def test_an_attack_takes_the_labels_that_the_loss_admits() -> None:
    for bound in (0.5, 2.0):
        first, second, _ = zeros(facts(20, 1, loss=huber(1.0, bound)))
        assert (first.y[0, 0], second.y[0, 0]) == (-bound, bound)


@pytest.mark.parametrize("rng", [0.5, -1, "1", True, np.array([1]), np.random.RandomState(0)], ids=range(6))
def test_odd_seeds_are_refused_in_one_line(rng: Any) -> None:
    problem = Glm.from_arrays([[0.1], [0.2]], [0, 1], row_bound=1.0)
    for call in (learn, attack):
        with pytest.raises(ValueError, match=r"^rng = .* must be None, a whole number of at least 0"):
            call("outpert", problem, Budget(1.0, 1e-5), rng)
