"""Learners of other packages, for a comparison with those of this one.

``dplangevin compare my.csv ... --method dplangevin.peers.DiffprivlibLogistic`` runs one, if its package is
installed.  No package is a requirement.  The price of a fit is the package's own claim.  Nothing is proven
here, so a row has no proven epsilon.  `dplangevin audit` attacks the same learners.

The noise of a fit comes from a seed of 31 bits, so that a comparison can be computed again.  Use the package
itself, without a seed, for a fit that you publish.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

import numpy as np
import torch
from dp_accounting import DpEvent, UnsupportedDpEvent
from torch import Tensor

from dplangevin import random
from dplangevin.checks import positive, require
from dplangevin.methods import Execution, Plan, Release
from dplangevin.privacy import Adjacency, Budget, Guarantee
from dplangevin.privacy.accountants.protocol import refuse
from dplangevin.problems import Facts, Problem
from dplangevin.problems.glm import Glm

SEEDS = 2**31 - 1


@dataclass(frozen=True)
class OwnClaim:
    """The claim of a package.  It prices no event."""

    name: str

    def epsilon(self, event: DpEvent, delta: float, adjacency: Adjacency = "replace_one") -> float:
        """Raise ValueError."""
        raise refuse(self.name, event, "it is the claim of a package")


@dataclass(frozen=True)
class DiffprivlibLogistic:
    """Logistic regression of diffprivlib: objective perturbation by a Laplace-like vector (pure epsilon).

    More than two classes are fitted one against the rest, with a share of epsilon each.  The problem's rows
    have a bias, so the package adds none.

    An audit shows that the claim fails where one record decides whether a class occurs
    (``docs/audits/logistic_regression.py``).  The guarantee names this condition.

    Attributes
    ----------
    C : float, > 0.  Inverse of the ridge, as in scikit-learn; the default is that of the package.
    max_iter : int, >= 1.  Limit on the solver's steps.

    References
    ----------
    chaudhuri2011; holohan2019.
    """

    budgeted: ClassVar[bool] = True
    package: ClassVar[str] = "diffprivlib"
    C: float = 1.0
    max_iter: int = 1000

    def __post_init__(self) -> None:
        positive(C=self.C, max_iter=self.max_iter)

    @property
    def accountant(self) -> OwnClaim:
        return OwnClaim(f"claim of {self.package}")

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        require(facts.classes > 1, f"{self.package}: its logistic regression has classes, no numeric target")
        return _claimed(self.package, facts, Budget(budget.epsilon, 0.0), Budget(budget.epsilon, 0.0))

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        learner = _imported("diffprivlib.models", "LogisticRegression", self.package)
        assert isinstance(problem, Glm)

        def fitted(x: np.ndarray, y: np.ndarray, budget: Budget, seed: int) -> Any:
            return learner(
                epsilon=budget.epsilon,
                data_norm=problem.row_bound,
                C=self.C,
                fit_intercept=False,
                max_iter=self.max_iter,
                random_state=seed,
            ).fit(x, y)

        fits = _fits(problem, plans, how, fitted)
        theta = [[torch.as_tensor(fit.coef_).reshape(1, -1) for fit in row] for row in fits]
        return Release(torch.stack([torch.stack(row) for row in theta]).float(), _predicted(problem, fits))


@dataclass(frozen=True)
class InterpretEbm:
    """Explainable boosting machine of interpret: a sum of histograms, boosted with Gaussian noise.

    It is for two classes.  It is no linear model, so theta is 0 and only its predictions of the test rows are
    released.  The package's claim is read as one for adding or removing a record.  So the fit gets
    ``(epsilon/2, delta/(1 + e^(epsilon/2)))``, which is (epsilon, delta) for replacing a record.

    An audit shows that the claim fails for the attribute ``bag_weights_``, the exact number of records
    (``docs/audits/ebm.py``).  It is not released here, and replacing a record leaves it as it is.

    Differs: here each encoded column has the public range [-B, B], with B the bound on the rows.  A user of the
    package would state a narrower range for each column, which makes better histograms.

    Attributes
    ----------
    max_rounds : int, >= 1.  Rounds of boosting; the default is that of the package.
    max_bins : int, >= 2.  Bins of a column.

    References
    ----------
    nori2021.
    """

    budgeted: ClassVar[bool] = True
    package: ClassVar[str] = "interpret-core"
    max_rounds: int = 300
    max_bins: int = 32

    def __post_init__(self) -> None:
        positive(max_rounds=self.max_rounds, max_bins=self.max_bins)

    @property
    def accountant(self) -> OwnClaim:
        return OwnClaim(f"claim of {self.package}")

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        require(facts.classes == 2, f"{self.package}: DP-EBM has two classes, not {facts.classes}")
        half = Budget(budget.epsilon / 2, budget.delta / (1 + math.exp(min(budget.epsilon / 2, 700.0))))
        return _claimed(self.package, facts, budget, half)

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        learner = _imported("interpret.privacy", "DPExplainableBoostingClassifier", self.package)
        assert isinstance(problem, Glm)
        if not problem.y_test.numel():
            raise ValueError("DP-EBM has no coefficients: it takes part in `compare` only")
        features, bound = problem.x.shape[-1], problem.row_bound

        def fitted(x: np.ndarray, y: np.ndarray, budget: Budget, seed: int) -> Any:
            return learner(
                feature_types=["continuous"] * features,
                privacy_bounds=np.tile([-bound, bound], (features, 1)),
                epsilon=budget.epsilon,
                delta=budget.delta,
                max_rounds=self.max_rounds,
                max_bins=self.max_bins,
                random_state=seed,
                n_jobs=1,
            ).fit(x, y)

        fits = _fits(problem, plans, how, fitted)
        return Release(torch.zeros(how.seeds, len(plans), 1, problem.d), _predicted(problem, fits))


def _imported(module: str, name: str, package: str) -> Any:
    """Return a class of an optional package."""
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        raise ImportError(f"{package} cannot be imported ({error}): pip install {package}") from error


def _claimed(package: str, facts: Facts, promised: Budget, given: Budget) -> Plan:
    """Return the plan of a fit that gets the budget `given` and claims `promised` for replacing a record."""
    if not math.isfinite(given.epsilon):
        raise ValueError(f"{package} needs a finite epsilon")
    try:
        name = f"{package} {version(package)}"
    except PackageNotFoundError:
        raise ImportError(f"{package} is not installed: pip install {package}") from None
    assumptions = (
        f"price: the package's own claim, {name}",
        "every class occurs in the rows, since the package fails without",
        *facts.rows,
    )
    event = UnsupportedDpEvent()
    return Plan(
        Guarantee(promised.epsilon, promised.delta, event, "replace_one", "final", "full", assumptions), given
    )


def _fits(
    problem: Glm,
    plans: Sequence[Plan],
    how: Execution,
    fitted: Callable[[np.ndarray, np.ndarray, Budget, int], Any],
) -> list[list[Any]]:
    """Return a fitted learner for each seed and plan."""
    seeds = random.integers(how.rng, SEEDS, how.seeds, len(plans)).tolist()
    x, y = problem.x.double().cpu().numpy(), problem.y.cpu().numpy()
    return [
        [
            fitted(x[s % len(x)], y[s % len(y)].astype(int), plan.work, seeds[s][e])
            for e, plan in enumerate(plans)
        ]
        for s in range(how.seeds)
    ]


def _predicted(problem: Glm, fits: Sequence[Sequence[Any]]) -> Tensor | None:
    """Return the probabilities of the test rows, ``(S, E, m, K)``."""
    if problem.x_test is None:
        return None
    x = problem.x_test.double().cpu().numpy()
    rows = [[fit.predict_proba(x[s % len(x)]) for fit in row] for s, row in enumerate(fits)]
    return torch.as_tensor(np.array(rows))
