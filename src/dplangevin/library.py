"""Private learning on your own data; docs/library.md begins with an example."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
import torch
from dp_accounting import DpEvent, NonPrivateDpEvent, UnsupportedDpEvent
from sklearn.base import is_regressor
from torch import Tensor

from dplangevin import random
from dplangevin.attacks.audit import Audit
from dplangevin.attacks.audit import audit as bounds
from dplangevin.attacks.learners import sandbox
from dplangevin.attacks.learners.releases import Fitted, Learner, Trained, parameters
from dplangevin.attacks.learners.search import LearnerAudit, audited
from dplangevin.attacks.release import statistics, zeros
from dplangevin.checks import count, require
from dplangevin.methods import Method, Plan, placed, planned, released
from dplangevin.methods.evaluate import predictive
from dplangevin.methods.pricing import TIGHT, equal_budget, priced, violated, visible
from dplangevin.methods.registry import named
from dplangevin.privacy import Adjacency, Budget, Guarantee
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.events import PUBLIC_RECORDS
from dplangevin.problems import Facts
from dplangevin.problems.glm import Glm, linear_facts
from dplangevin.problems.losses import Loss, classifier
from dplangevin.text import weak_delta

PRICES = "neighbours", "last_iterate"  # names for `methods.pricing.priced`
OF_RECORDS = "the theorem has conditions on the number of records: `price` says which of them fail"


@dataclass(frozen=True)
class Answer:
    """The release of a method for one budget, without the rows that the method learned from.

    For add/remove neighbours plan and facts omit n, the number of records, and the promise is the budget. theta, its
    number of rows and the error messages of planning still depend on n: the guarantee takes n as public.

    Attributes
    ----------
    theta : Tensor (samples, d), one row if a single fit is released. With K margins, class after class.
    plan : Plan, what was done, with the guarantee and the settings.
    violated : list of str, what the guarantee needs and the plan lacks; conditions on a hidden n in one text.
    method, budget, facts : what was asked of which problem.
    model : Glm, the problem without its rows.
    not_private : dict, diagnostics from the rows without noise, in no text and no pickle: do not publish them.
    """

    theta: Tensor
    plan: Plan
    violated: list[str]
    method: Method
    budget: Budget
    facts: Facts
    model: Glm
    not_private: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "not_private": {}}

    @property
    def guarantee(self) -> Guarantee:
        """The promise of the method's own theorem, with the problem's notes as assumptions."""
        given = self.plan.guarantee
        known = [PUBLIC_RECORDS] if given.adjacency == "add_remove" else []
        texts = dict.fromkeys([*given.assumptions, *known, *filter(None, self.model.notes)])
        return given._replace(assumptions=tuple(texts))

    def price(self, adjacency: Adjacency | None = None) -> dict[str, Any]:
        """Return the privacy cost as `price` does; under add_remove the promise alone, as all else depends on n."""
        promise = self.guarantee
        if promise.adjacency == "add_remove" and adjacency not in (None, "add_remove"):
            raise ValueError(
                f"adjacency = {adjacency!r} needs the number of records: price(method, facts, budget, {adjacency!r})"
            )
        if promise.adjacency != "add_remove":
            return _price(self.method, self.facts, self.plan, self.budget, adjacency)
        return {
            "epsilon_promised": promise.epsilon,
            "accountant_promised": self.method.accountant.name,
            "epsilon_proven": math.nan,
            "accountant_proven": "none without the number of records",
            "adjacency": promise.adjacency,
            "released": promise.released,
            "sampling": promise.sampling,
        }

    def predict(self, X: Any) -> Tensor:
        """Return probabilities (m, K) of rows X (m, features), averaged over the samples, or (m,) predicted numbers."""
        problem, theta = self.model.with_test_rows(X), self.theta[None, None]
        if not problem.loss.classifies:
            return problem.predict_margins(theta.mean(2))[0, 0, :, 0]
        return predictive(problem, theta)[0, 0]


def learn(
    method: str | Method,
    problem: Glm,
    budgets: Budget | Sequence[Budget],
    rng: int | torch.Generator | None = None,
    *,
    device: str | torch.device | None = None,
) -> list[Answer]:
    """Return one answer for each budget, each with noise of its own.

    Parameters
    ----------
    method : Method, or its name for the default settings.
    problem : Glm, one data set, as `Glm.from_arrays` makes it.
    budgets : Budget or sequence of Budget, each for one answer by itself.
    rng : None, int >= 0 or generator. None takes the system's entropy, which is for answers that will be published.
        A seed is for experiments: it names one of 2^32 streams, and two calls with one seed draw the same noise.
    device : "auto", "cpu", "cuda" or a torch.device, where the method runs. None takes DPL_DEVICE.
    """
    method, wanted = named(method), [budgets] if isinstance(budgets, Budget) else list(budgets)
    if not problem.shared:
        raise ValueError(f"the problem has {len(problem.x)} data sets: give one, as Glm.from_arrays does")
    if not wanted:
        raise ValueError("budgets is empty: give at least one Budget(epsilon, delta)")
    plans = planned(method, problem.facts, wanted)  # all of them before the first is carried out
    counted = any(plan.guarantee.adjacency != "add_remove" for plan in plans)
    if counted and (weak := weak_delta(max(budget.delta for budget in wanted), problem.facts.n)):
        warnings.warn(weak, stacklevel=2)
    known, model, answers = problem.facts, problem.without_rows(), []
    problem = placed(problem, plans[:1], 1, device)  # type: ignore[assignment]
    drawn = _generator(rng, "learn")
    for budget in wanted:
        release, (plan,) = released(method, problem, [budget], 1, drawn)
        theta = release.theta[0, 0].cpu().clone()  # a pickle of a view holds the whole tensor
        notes, shown = violated(method, plan), known
        if plan.guarantee.adjacency == "add_remove":
            notes = [*plan.violated, *[OF_RECORDS] * (getattr(method.accountant, "bound", "") == "printed")]
            plan, shown = _without_records(plan, budget), known._replace(n=0)
        if not bool(theta.isfinite().all()):
            notes.append("the chain diverged: lower the step size")
        diagnostics: dict[str, Any] = {name: float(of[0, 0]) for name, of in release.not_private.items()}
        diagnostics["not_reached"] = release.not_reached[0]
        answers.append(Answer(theta, plan, notes, method, budget, shown, model, diagnostics))
    return answers


def _without_records(plan: Plan, budget: Budget) -> Plan:
    """Return what a plan promises, without the last digits of its calibration, which show the number of records."""
    event = UnsupportedDpEvent() if budget.epsilon < math.inf else NonPrivateDpEvent()
    epsilon = (
        math.nan if plan.noise_given else budget.epsilon
    )  # what given noise costs depends on the records
    promise = plan.guarantee._replace(epsilon=epsilon, delta=budget.delta, event=event)
    return Plan(promise, None, noise_given=plan.noise_given)


def price(
    method: str | Method, problem: Glm | Facts, budget: Budget, adjacency: Adjacency | None = None
) -> dict[str, Any]:
    """Return the privacy cost of a method for a budget, without data.

    The columns are those of a row of the sweep (`methods.pricing.priced`), such as epsilon_promised, epsilon_proven,
    epsilon_add_remove, epsilon_replace_one (nan if there is none), epsilon_last and violated.

    Parameters
    ----------
    method : Method, or its name for the default settings.
    problem : Glm or Facts; only the facts are used, see `facts`.
    budget : Budget
    adjacency : neighbour relation of epsilon_proven; by default that of the guarantee.
    """
    method, known = named(method), _facts(problem)
    (plan,) = planned(method, known, [budget])
    return _price(method, known, plan, budget, adjacency)


def budget_for(
    method: str | Method,
    problem: Glm | Facts,
    target: Budget,
    adjacency: Adjacency = "replace_one",
    *,
    rtol: float = 1e-3,
    accountant: Accountant = TIGHT,
    event: Callable[[Plan], DpEvent] = visible,
) -> Budget:
    """Return the budget to give to a method so that its proven epsilon for the neighbours `adjacency` is `target`.

    The proven epsilon is at most target.epsilon, and within rtol of it unless the method cannot spend more.

    Parameters
    ----------
    method, problem, target, adjacency : as in `price`, where `budget` is the target; adjacency: the neighbours.
    rtol : float, relative tolerance.
    accountant : Accountant, by default that of epsilon_proven in `price`.
    event : function plan -> priced event, by default with all iterates visible; `plan.guarantee.event`: the last one.
    """
    return equal_budget(
        named(method), _facts(problem), target, adjacency, rtol=rtol, accountant=accountant, event=event
    )


def attack(
    method: str | Method,
    problem: Glm | Facts,
    budget: Budget,
    rng: int | torch.Generator | None = None,
    runs: int = 2000,
    confidence: float = 0.95,
) -> Audit:
    """Compute the attack epsilon (lower bound) of a release at budget.delta, by the attack of `attacks.release`.

    The method runs `runs` times on each of two data sets that the problem's facts admit. They hold none of its rows,
    and differ in one replaced record. A bound above epsilon_replace_one of `price` refutes it; one below shows nothing.

    Parameters
    ----------
    method, problem, budget : as in `price`.
    rng : as in `learn`.
    runs : int >= 8
    confidence : float in (0, 1).
    """
    count(8, runs=runs)
    method, known = named(method), _facts(problem)
    (plan,) = planned(method, known, [budget])
    first, second = statistics(method, zeros(known), plan, runs, _generator(rng, "attack"))
    return bounds(first, second, budget.delta, confidence)


def audit(
    estimator: Any,
    claims: Budget,
    data: tuple[Any, Any] | None = None,
    *,
    neighbours: Adjacency = "replace_one",
    row_bound: float = 1.0,
    any_row: bool = False,
    ignore: Sequence[str] = ("not_private_",),
    skip: Sequence[str] = (),
    floats: bool = False,
    runs: int = 1000,
    confidence: float = 0.95,
    rng: int = 0,
    jobs: int | None = None,
) -> LearnerAudit:
    """Search for neighbouring tables on which a private learner of any package breaks its claim.

    A number below the claim proves nothing.

    Parameters
    ----------
    estimator : object with `fit(X, y)`, or function ``(table, seed) -> parameters``, where table has X and y.
    claims : Budget, the finite (epsilon, delta) that the learner claims for one fit.
    data : (X, y), rows and labels that the neighbours share; None for built tables of 6 and of 60 rows.
    neighbours : "replace_one" or "add_remove", the neighbour relation of the claim.
    row_bound : float > 0, bound on the norm of the rows that the claim is for.
    any_row : bool, whether the claim is for rows beyond the bound and for labels never seen, too.
    ignore : names of attributes and methods that the learner does not release.
    skip : words in the names of pairs that the claim is not for, such as "absent class".
    floats : bool, whether the lowest bits of released numbers count.
    runs, confidence : int >= 8, fits on each table for one bound; float in (0, 1), confidence of the bound.
    rng : int >= 0, seed of the seeds of all fits.
    jobs : int or None, processes of joblib; None for this process, or for `joblib.parallel_config`.

    Examples
    --------
    >>> def largest(table, seed):
    ...     return table.X.max(0)
    >>> found = audit(largest, Budget(1.0, 0.0), runs=100)
    >>> found.violated, found.confirmed.text, round(found.epsilon, 1)
    (True, 'parameters[0] >= 1', 3.0)
    """
    learner, pairs = sandboxed(estimator, data, neighbours, row_bound, any_row, ignore, skip, floats=floats)
    return audited(learner, pairs, claims, runs, confidence, rng, jobs)


def sandboxed(
    estimator: Any,
    data: tuple[Any, Any] | None,
    neighbours: Adjacency,
    row_bound: float,
    any_row: bool,
    ignore: Sequence[str],
    skip: Sequence[str] = (),
    floats: bool = False,
) -> tuple[Learner, list[sandbox.TablePair]]:
    """Return the learner and the pairs of an `audit`, with its arguments."""
    require(not isinstance(estimator, type), f"{estimator!r} is a class: give an instance")
    fits = callable(getattr(estimator, "fit", None))
    require(fits or callable(estimator), f"{type(estimator).__name__} has no fit: give an object that has")
    regression = fits and hasattr(estimator, "__sklearn_tags__") and is_regressor(estimator)
    classes = parameters(estimator).get("classes") if fits else None
    if data is None:
        classes = None if regression else [0, 1] if classes is None else classes
        table = sandbox.built(classes, row_bound)
    else:
        table = sandbox.Table(*data)
        regression = regression or np.asarray(table.y).dtype.kind == "f"
    table = sandbox.checked(table, row_bound)
    pairs = sandbox.pairs(table, row_bound, neighbours, regression, any_row)
    pairs += sandbox.long_pairs(classes, row_bound, neighbours) if data is None else []
    names = [pair.name for pair in pairs]
    for word in skip:
        require(any(word in name for name in names), f"no pair has {word!r} in its name: {', '.join(names)}")
    pairs = [pair for pair in pairs if not any(word in pair.name for word in skip)]
    require(bool(pairs), "skip leaves no pair")
    if not fits:
        return Trained(estimator, floats), pairs
    return Fitted(estimator, table.X[1:3], (*ignore,), floats), pairs


def facts(
    records: int,
    features: int,
    *,
    classes: int = 2,
    row_bound: float = 1.0,
    loss: Loss | None = None,
    public: int = 0,
) -> Facts:
    """Return the public facts of a linear model, on which alone its privacy cost depends.

    Parameters
    ----------
    records, features, classes : int; a bias is a feature, too.
    row_bound : float, bound on the norm of the rows.
    loss : Loss; None for logistic regression, or for softmax if there are more than two classes.
    public : int, number of unlabelled public rows, for PATE.
    """
    used = loss or classifier(classes)
    return linear_facts(used, records, features, row_bound, public)._replace(tested=False)


def _facts(problem: Glm | Facts) -> Facts:
    return problem if isinstance(problem, Facts) else problem.facts


def _price(
    method: Method, known: Facts, plan: Plan, budget: Budget, adjacency: Adjacency | None
) -> dict[str, Any]:
    return priced(method, plan, known, budget.delta, adjacency or plan.guarantee.adjacency, PRICES)


def _generator(rng: int | torch.Generator | None, label: str) -> torch.Generator:
    """Return the generator of `learn` and `attack`."""
    if rng is None:
        return random.unpredictable()
    if isinstance(rng, torch.Generator):
        require(rng.device.type == "cpu", f"rng is on {rng.device}: give one on the CPU, where we draw")
        return rng
    seed = isinstance(rng, Integral) and not isinstance(rng, bool) and rng >= 0
    require(
        seed,
        f"rng = {rng!r} must be None, a whole number of at least 0 or a torch.Generator: give one of them",
    )
    return random.generator(int(rng), label)
