"""The audit of other people's learners: known faults are found, and right learners are not accused."""

import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attacks import faulty_learners
from quick import sample
from scipy.optimize import brentq
from sklearn.base import BaseEstimator
from sklearn.linear_model import Ridge

from dplangevin import Budget, audit
from dplangevin.attacks.learners import sandbox, script, search
from dplangevin.attacks.learners.releases import Fitted, Release, Trained, flat, lowest_bit, release
from dplangevin.attacks.learners.search import audited, runs_needed
from dplangevin.library import sandboxed
from dplangevin.privacy.accountants.analytic_gaussian import epsilon_of

MINUTES = pytest.mark.slow, pytest.mark.trial("200 audits of a right learner")

TESTS = Path(__file__).parents[1]
BUILT = sandbox.built([0, 1], 1.0)
PURE = Budget(1.0, 0.0)


# learner -> the bound on rows, what the event names, what a check sees
FAULTS: dict[str, tuple[Any, ...]] = {
    "NoiseWithoutClip": (faulty_learners.CLIP, "coef_"),
    "ClassesOffLabels": (1.0, "classes_.shape", "no noise"),
    "SameNoise": (1.0, "a score of"),
    "SeedFixed": (1.0, "coef_", "no noise"),
    "AverageOfFits": (1.0, "coef_"),
    "WarnsOfRows": (1.0, "warns UserWarning: label 1 is absent", "warnings"),
}  # fmt: skip


def made(name: str) -> Any:
    return getattr(faulty_learners, name)()


@pytest.mark.parametrize(
    "name", sample(FAULTS, lambda name: name in ("NoiseWithoutClip", "ClassesOffLabels"))
)
def test_a_known_fault_is_found_and_a_program_shows_it(name: str, tmp_path: Path) -> None:
    bound, told, *checks = FAULTS[name]
    learner, pairs = sandboxed(made(name), None, "replace_one", bound, False, ())
    found = audited(learner, pairs, PURE, runs=400)
    assert found.violated
    assert found.confirmed
    assert re.search(told, found.confirmed.text)
    assert {*checks} <= {each.check for each in found.observations}
    text = script.program(found, learner)
    assert "dplangevin" not in text
    assert len(text.splitlines()) <= 28
    shows(found, learner, tmp_path)


# Textbook mechanisms that keep what they claim for a replaced record, of rows of norm at most 1: releases (runs, k).
# No less epsilon would do for the worst pair.
Mechanism = Callable[[np.ndarray, np.ndarray, int, np.random.Generator], np.ndarray]
MU = brentq(lambda mu: epsilon_of(mu, 1e-5) - 1, 0.01, 1)


def laplace_sum(X: np.ndarray, y: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    total = X[:, :1].clip(-1, 1).sum(0)
    return total + rng.laplace(0, 2, (runs, 1))


def randomised_labels(X: np.ndarray, y: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random((runs, len(y))) < 1 / (1 + np.exp(1)), 1 - y, y)


def gaussian_sum(X: np.ndarray, y: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    return X.sum(0) + 2 / MU * rng.normal(size=(runs, 2))


RIGHT: dict[str, tuple[Mechanism, Budget]] = {
    "laplace_sum": (laplace_sum, PURE),
    "randomised_labels": (randomised_labels, PURE),
    "gaussian_sum": (gaussian_sum, Budget(1.0, 1e-5)),
}


def releases(name: str) -> Any:
    """A replacement of `drawn_each` that makes all releases of a right learner on a table at once."""
    mechanism, _ = RIGHT[name]

    def drawn(learner: Any, fits: list[tuple[sandbox.Table, int]], jobs: Any) -> list[Release]:
        half, found = len(fits) // 2, []
        for (table, seed), *_ in (fits[:half], fits[half:]):
            values = mechanism(table.X, table.y, half, np.random.default_rng(seed))
            found += [dict(zip("abcdefgh", row, strict=False)) for row in values.tolist()]
        return found

    return drawn


@pytest.mark.parametrize(
    ("name", "many"), [("laplace_sum", 40), *(pytest.param(name, 200, marks=MINUTES) for name in RIGHT)]
)
def test_a_right_learner_is_not_accused(name: str, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "drawn_each", releases(name))
    monkeypatch.setattr(search, "seen", lambda *_: [])
    pairs = sandbox.pairs(BUILT, 1.0, "replace_one")[:2] + sandbox.long_pairs([0, 1], 1.0, "replace_one")
    found = [audited(Trained(shifted), pairs, RIGHT[name][1], 1000, rng=seed) for seed in range(many)]
    assert sum(each.violated for each in found) <= many / 20
    assert sum(each.judged[0].epsilon > RIGHT[name][1].epsilon for each in found if each.judged) <= many / 20


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize(
    "table",
    [
        BUILT,
        sandbox.built(["a", "b", "c"], 2.0),
        sandbox.built(None, 1.0),
        sandbox.Table(np.eye(61), np.arange(61)),
    ],
)
def test_pairs_are_neighbours_within_the_bound(table: sandbox.Table, adjacency: Any) -> None:
    regression, bound = table.y.dtype.kind == "f", 2.0 if table.y.dtype.kind == "U" else 1.0
    for any_row in (False, True):
        classes = None if regression else np.unique(table.y).tolist()
        pairs = sandbox.pairs(table, bound, adjacency, regression, any_row)
        pairs += sandbox.long_pairs(classes, bound, adjacency)
        assert len({pair.name for pair in pairs}) == len(pairs) >= 5
        for name, first, second in pairs:
            rest = (first.without(), second if adjacency == "add_remove" else second.without())
            assert np.array_equal(rest[0].X, rest[1].X), name
            assert np.array_equal(rest[0].y, rest[1].y), name
            if adjacency == "replace_one":
                assert not np.array_equal(first.X[0], second.X[0]) or first.y[0] != second.y[0], name
            if not any_row:
                longest = max(np.linalg.norm(each.X, axis=1).max() for each in (first, second))
                assert longest <= bound * (1 + 1e-9), name
                assert {*first.y.tolist(), *second.y.tolist()} <= {*table.y.tolist()}


def shows(found: search.LearnerAudit, learner: Any, folder: Path) -> None:
    """That the program prints a rate above what the claim allows."""
    for file, table in zip(script.FILES, found.judged[0].tables[1:], strict=True):
        (folder / file).write_text(script.csv(table))  # as `--out` does
    (folder / "show.py").write_text(script.program(found, learner))
    done = subprocess.run(
        [sys.executable, folder / "show.py"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{TESTS}:{TESTS.parent}:{TESTS.parent / 'src'}"},
    )
    assert done.returncode == 0, done.stderr
    rate, _, allowed = map(float, re.findall(r"\d+\.\d{4}", done.stdout))
    assert rate > allowed


class Refuses(BaseEstimator):
    """Fails where no record has the second class, and draws from a global generator."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Refuses":
        if y.max() < 1:
            raise RuntimeError("one class:\n only 0")
        self.coef_ = np.random.normal(size=2)  # noqa: NPY002 - the fault
        return self


@pytest.mark.slow
def test_an_exception_that_one_record_decides_is_a_release(tmp_path: Path) -> None:
    learner, pairs = sandboxed(Refuses(), None, "replace_one", 1.0, False, ())
    found = audited(learner, pairs, PURE, runs=100)
    assert found.violated
    assert found.confirmed
    assert "raises RuntimeError: one class: only 0" in found.confirmed.text
    assert "exceptions" in {each.check for each in found.observations}
    shows(found, learner, tmp_path)


class Counts(BaseEstimator):
    """The numbers of records of each class, without noise."""

    def __init__(self, classes: Any = (), most: float = 0.0, scales: Any = (0,)) -> None:
        self.classes, self.most, self.scales = classes, most, scales

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Counts":
        counts = [min(self.most, (y == label).sum()) for label in self.classes]
        self.counts_ = self.scales[0] * counts
        return self


def test_a_program_has_labels_that_look_like_numbers_arrays_and_infinity(tmp_path: Path) -> None:
    """Regression: it read the labels '0' and '1' as integers, and had the defaults for these parameters."""
    counts = Counts(np.array(["0", "1"]), np.inf, [np.array([1.0, np.inf])])
    learner, pairs = sandboxed(counts, None, "replace_one", 1.0, False, ())
    found = audited(learner, pairs, PURE, runs=100)
    assert found.violated
    shows(found, learner, tmp_path)


def shifted(table: sandbox.Table, seed: int) -> dict[str, Any]:
    noise = np.random.default_rng(seed).normal(size=2)
    return {"weights": table.X.sum(0) + noise, "notes": ["a", None], "count": len(table.y)}


@pytest.mark.slow
def test_a_function_of_a_table_and_a_seed_is_audited(tmp_path: Path) -> None:
    found = audit(shifted, PURE, neighbours="add_remove", runs=100)
    assert found.violated
    assert found.confirmed
    assert "['count']" in found.confirmed.text
    assert ("no noise", True) in {(each.check, "['count']" in each.text) for each in found.observations}
    learner, pairs = sandboxed(shifted, None, "add_remove", 1.0, False, ())
    shows(audited(learner, pairs, PURE, runs=100), learner, tmp_path)


def test_rows_of_the_user_are_shared_and_read_from_files(tmp_path: Path, rng: np.random.Generator) -> None:
    X = rng.uniform(-0.5, 0.5, (20, 3))
    y = np.where(X[:, 0] > 0, "ill", "well")
    learner, pairs = sandboxed(
        lambda table, seed: {"X": table.X.max()}, (X, y), "replace_one", 1.0, False, ()
    )
    assert all(np.array_equal(pair.first.X[1:], X[1:]) for pair in pairs if "alone" not in pair.name)
    found = audited(learner, pairs, PURE, runs=100)
    assert found.violated
    assert "read('first.csv', '<U4')" in script.program(found, learner)
    table = found.judged[0].tables.first
    assert script.csv(table).splitlines()[0] == "x0,x1,x2,y"
    assert len(script.csv(table).splitlines()) == 21


@pytest.mark.slow
def test_one_seed_gives_the_same_audit_in_any_number_of_processes() -> None:
    texts = [
        [each.text for each in audit(made("AverageOfFits"), PURE, runs=100, rng=3, jobs=jobs).judged]
        for jobs in (None, 1, 2)
    ]
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.slow
def test_a_learner_whose_epsilon_does_nothing() -> None:
    class Idle(faulty_learners.Learner):
        def fit(self, X: np.ndarray, y: np.ndarray) -> None:
            self.coef_ = np.random.default_rng(self.random_state).normal(size=2)

    checks = {each.check for each in audit(Idle(), PURE, runs=100).observations}
    assert "noise and epsilon" in checks
    checks = {each.check for each in audit(made("AverageOfFits"), PURE, runs=100).observations}
    assert "noise and epsilon" not in checks
    assert "same seed, same noise" in checks


def laplace(table: sandbox.Table, seed: int) -> np.ndarray:
    """Return a sum with naive Laplace noise, which has no fault in real numbers."""
    return np.abs(table.X[:, :1]).sum(0) + np.random.default_rng(seed).laplace(0, 1, 1)


def on_a_grid(table: sandbox.Table, seed: int) -> np.ndarray:
    """Return the same sum where answer and noise are multiples of 1/1024."""
    p, rng = 1 - np.exp(-1 / 1024), np.random.default_rng(seed)
    answer = np.round(np.abs(table.X[:, :1]) * 1024).sum(0)
    return (answer + rng.geometric(p, 1) - rng.geometric(p, 1)) / 1024


@pytest.mark.slow
def test_lowest_bits_show_naive_noise_and_accuse_no_noise_on_a_grid(tmp_path: Path) -> None:
    rows = np.array([[1.0], [0.0], [0.0], [0.0]]), np.array([0, 1, 0, 1])
    more: dict[str, Any] = {"skip": ("other side", "duplicate", "flipped", "absent")}
    for floats in (False, True):
        found = audit(laplace, PURE, rows, floats=floats, **more)
        assert found.violated == floats
    assert found.confirmed
    assert found.confirmed.text.startswith("lowest bit of parameters[0] < -5")
    shows(found, Trained(laplace), tmp_path)
    for seed in range(3):
        assert not audit(on_a_grid, PURE, rows, floats=True, rng=seed, **more).violated


@pytest.mark.parametrize(("x", "bit"), [(1.0, 0), (6.0, 1), (0.75, -2), (-(2.0**-60), -60), (5e-324, -1074)])
def test_the_lowest_bit_of_a_number(x: float, bit: int) -> None:
    assert lowest_bit(x) == bit


@pytest.mark.slow
def test_a_pair_that_the_claim_is_not_for_is_skipped() -> None:
    assert not audit(made("ClassesOffLabels"), PURE, skip=["absent class"], runs=100).violated
    with pytest.raises(ValueError, match="no pair has 'x' in its name: flipped label"):
        audit(shifted, PURE, skip=["x"])
    with pytest.raises(ValueError, match="skip leaves no pair"):
        audit(shifted, PURE, skip=["a"])


def test_the_needed_runs_show_the_violation() -> None:
    assert runs_needed(PURE, 1.0) is None
    assert runs_needed(PURE, 1 + 1e-9) is None
    counts = [runs_needed(PURE, epsilon) or 0 for epsilon in (1.1, 1.5, 2.0, 4.0)]
    assert counts == sorted(counts, reverse=True)


def test_releases_are_named_numbers_and_statements() -> None:
    found = flat("a_", {"x": np.array([1.0, np.nan]), "names": ["u", "v"], "other": object(), "n": 3})
    assert found["a_['x'][0]"] == 1.0
    assert found["a_['x'][1] is nan"] == 1.0
    assert found["a_['names'] == ['u', 'v']"] == 1.0
    assert found["a_['n']"] == 3.0
    assert not [name for name in found if "other" in name]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"estimator": Ridge}, "is a class: give an instance"),
        ({"estimator": 3}, "int has no fit"),
        ({"claims": Budget(np.inf, 0.0)}, "epsilon inf cannot be violated"),
        ({"data": (np.ones((5, 2)), np.arange(5))}, "longest row has norm 1.414: scale X by public numbers"),
        ({"data": (np.ones((5, 2)) / 2, np.ones(5, int))}, "y has one class"),
        ({"data": (np.ones(5), np.ones(5))}, "must be"),
        ({"data": (np.full((5, 2), np.nan), np.arange(5))}, "X must be finite"),
        ({"row_bound": 0.0}, "row_bound must be positive"),
        ({"runs": 7}, "runs = 7 must be a whole number of at least 8"),
        ({"confidence": 1.0}, "confidence = 1.0 must be in"),
        ({"estimator": lambda: 0}, "no table could be fitted: TypeError"),
    ],
)
def test_what_cannot_be_audited_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    given = {"estimator": shifted, "claims": PURE, **changes}
    with pytest.raises(ValueError, match=message):
        audit(given.pop("estimator"), given.pop("claims"), given.pop("data", None), **given)


class Plain:
    """No estimator of scikit-learn; one fitted attribute is a property."""

    def __init__(self) -> None:
        self.noise, self.seed = 1.0, 0

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        self._sum, self.mean_, self.not_private_ = X.sum(0), X.mean(0), X

    @property
    def sum_(self) -> np.ndarray:
        return self._sum

    @property
    def unfitted_(self) -> float:
        raise AttributeError("never fitted")


def test_attributes_and_properties_are_released() -> None:
    learner = Fitted(Plain(), BUILT.X[:2], ("not_private_",))
    assert learner.seed == "seed"
    found = release(learner, BUILT, 3)
    assert found["mean_[1]"] == BUILT.X[:, 1].mean()
    assert found["sum_[0]"] == BUILT.X[:, 0].sum()
    assert found["noise"] == 1.0
    assert not [name for name in found if name.startswith(("seed", "unfitted_", "fit", "not_private_", "_"))]


def test_warnings_of_a_fit_are_statements_and_those_of_numpy_too() -> None:
    def train(table: sandbox.Table, seed: int) -> np.ndarray:
        warnings.warn(f"{len(table.y)}\nrows", RuntimeWarning, stacklevel=2)
        return np.zeros(1) / np.zeros(1)

    found = release(Trained(train), BUILT, 0)
    said = {name for name in found if name.startswith("warns ")}
    assert {
        "warns RuntimeWarning: 6 rows",
        "warns RuntimeWarning: invalid value encountered in divide",
    } == said
