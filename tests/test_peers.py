"""Learners of other packages in a comparison: stand-ins for the packages, and the packages where they are installed."""

import math
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from typer.testing import CliRunner

from dplangevin import Budget, Problem, facts, learn, peers, price
from dplangevin.cli import app
from dplangevin.papers.exhibits import read
from dplangevin.peers import DiffprivlibLogistic, InterpretEbm


class Fake:
    """A learner that remembers how it was made."""

    made: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, **given: Any) -> None:
        self.given = given
        Fake.made.append(given)

    def fit(self, x: np.ndarray, y: np.ndarray) -> Self:
        self.classes_ = np.unique(y)
        count = len(self.classes_) if len(self.classes_) > 2 else 1
        self.coef_ = np.arange(count * x.shape[1], dtype=float).reshape(count, -1) + self.given["epsilon"]
        return self

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return np.tile(np.eye(max(2, len(self.classes_)))[0], (len(x), 1))


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    Fake.made.clear()
    for module, name in (
        ("diffprivlib.models", "LogisticRegression"),
        ("interpret.privacy", "DPExplainableBoostingClassifier"),
    ):
        made = ModuleType(module)
        setattr(made, name, Fake)
        monkeypatch.setitem(sys.modules, module.split(".")[0], ModuleType(module.split(".")[0]))
        monkeypatch.setitem(sys.modules, module, made)
    monkeypatch.setattr(peers, "version", lambda package: "9.8.7")


def problem(classes: int = 2) -> Problem:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (60, 3)) / 3**0.5
    names = "abc"[:classes]
    return Problem.from_arrays(x, [names[i % classes] for i in range(60)], row_bound=1.0, classes=[*names])


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize(("classes", "d"), [(2, 3), (3, 9)])
def test_a_fit_is_that_of_the_package_and_its_price_is_the_claim_of_the_package(classes: int, d: int) -> None:
    (answer,) = learn(DiffprivlibLogistic(C=2.0), problem(classes), Budget(1.5, 1e-5), 0)
    assert answer.theta.tolist() == [[i + 1.5 for i in range(d)]]
    (given,) = Fake.made
    assert 0 <= given.pop("random_state") < peers.SEEDS
    assert given == {"epsilon": 1.5, "data_norm": 1.0, "C": 2.0, "fit_intercept": False, "max_iter": 1000}
    promise = answer.guarantee
    assert (promise.epsilon, promise.delta, promise.adjacency) == (1.5, 0.0, "replace_one")
    assert "price: the package's own claim, diffprivlib 9.8.7" in promise.assumptions
    row = answer.price()
    assert row["accountant_promised"] == "claim of diffprivlib"
    assert all(
        math.isnan(row[name]) for name in ("epsilon_proven", "epsilon_add_remove", "epsilon_replace_one")
    )


@pytest.mark.usefixtures("packages")
def test_a_claim_for_added_records_is_halved_for_replaced_ones() -> None:
    """A replaced record is one removed and one added, at (2 epsilon, (1 + e^epsilon) delta)."""
    plan = InterpretEbm().plan(facts(100, 3), Budget(2.0, 1e-5))
    assert plan.work.epsilon == 1.0
    assert (1 + math.exp(1.0)) * plan.work.delta == pytest.approx(1e-5)
    assert (plan.guarantee.epsilon, plan.guarantee.delta) == (2.0, 1e-5)
    assert math.isnan(price(InterpretEbm(), facts(100, 3), Budget(2.0, 1e-5))["epsilon_proven"])


@pytest.mark.usefixtures("packages")
def test_what_a_package_cannot_do_is_refused() -> None:
    with pytest.raises(ValueError, match="DP-EBM has two classes, not 3"):
        learn(InterpretEbm(), problem(3), Budget(1.0, 1e-5), 0)
    with pytest.raises(ValueError, match="DP-EBM has no coefficients"):
        learn(InterpretEbm(), problem(), Budget(1.0, 1e-5), 0)
    with pytest.raises(ValueError, match="diffprivlib needs a finite epsilon"):
        learn(DiffprivlibLogistic(), problem(), Budget(math.inf, 1e-5), 0)


def test_without_the_package_a_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(peers, "version", absent)
    with pytest.raises(ImportError, match="interpret-core is not installed: pip install interpret-core"):
        InterpretEbm().plan(facts(100, 3), Budget(1.0, 1e-5))


def compared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What `compare` prints with both packages, on a small table in the folder."""
    monkeypatch.chdir(folder)
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (80, 2))
    rows = [f"{a:.3f},{b:.3f},{'yes' if a > 0.5 else 'no'}" for a, b in x]
    Path("my.csv").write_text("\n".join(["a,b,label", *rows]))
    own = [f"--method=dplangevin.peers.{name}" for name in ("DiffprivlibLogistic", "InterpretEbm")]
    words = ["--target", "label", "--ranges-from-data", "--methods", "dp_gd", "--epsilon", "1"]
    done = CliRunner().invoke(app, ["compare", "my.csv", *words, *own, "--repeats", "2", "--out", "out"])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


@pytest.mark.usefixtures("packages")
def test_in_a_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = compared(tmp_path, monkeypatch)
    runs = read.read_runs(["out"], root=tmp_path)
    theirs = runs[runs.method.ne("dp_gd")]
    assert set(theirs.method) == {"DiffprivlibLogistic", "InterpretEbm"}
    assert theirs.epsilon_proven.isna().all()
    assert theirs.epsilon_promised.eq(1.0).all()
    assert theirs.assumptions.str.contains("price: the package's own claim, .* 9.8.7").all()
    assert "InterpretEbm no proven ε" in printed


@pytest.mark.filterwarnings("ignore")  # of the packages
def test_the_packages_where_they_are_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("diffprivlib", exc_type=ImportError)
    pytest.importorskip("interpret.privacy", exc_type=ImportError)
    compared(tmp_path, monkeypatch)
    runs = read.read_runs(["out"], root=tmp_path)
    assert set(runs.method) == {"dp_gd", "DiffprivlibLogistic", "InterpretEbm"}
    (answer,) = learn(DiffprivlibLogistic(C=10.0), problem(3), Budget(1e4, 1e-5), 0)
    assert answer.predict(problem(3).x[0]).shape == (60, 3)
