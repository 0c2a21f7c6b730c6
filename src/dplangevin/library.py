"""Private learning on data of your own, in ten lines.

>>> import numpy as np
>>> from dplangevin import Budget, Dpvi, Problem, learn
>>> rng = np.random.default_rng(0)
>>> X = rng.uniform(-1, 1, (1000, 2)) / 2**0.5
>>> y = np.where(X @ [4, -2] + rng.logistic(size=1000) > 0, "ill", "well")
>>> problem = Problem.from_arrays(X, y, row_bound=1.0, classes=["well", "ill"], bias=True)
>>> low, high = learn(Dpvi(), problem, [Budget(0.5, 1e-5), Budget(8.0, 1e-5)], rng=0)
>>> low.theta.shape, low.predict(X[:5]).shape, round(low.guarantee.epsilon, 3)
(torch.Size([50, 3]), torch.Size([5, 2]), 0.5)
>>> print(high.guarantee.adjacency, round(high.price()["epsilon_tight"], 1), high.violated)
add_remove 6.0 []
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import torch
from dp_accounting import DpEvent
from torch import Tensor

from dplangevin import random
from dplangevin.attacks.release import statistics
from dplangevin.audit import Audit, audit
from dplangevin.checks import require
from dplangevin.evaluate import predictive
from dplangevin.losses import LOGISTIC, Loss, softmax
from dplangevin.methods import Method, Plan, planned, released
from dplangevin.methods.registry import named
from dplangevin.prices import priced, violated, whole
from dplangevin.privacy import Adjacency, Budget, Guarantee
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.calibrate import calibrate as smallest_noise
from dplangevin.problems import Facts
from dplangevin.problems.glm import Glm, linear_facts
from dplangevin.text import weak_delta

TIGHT = Tight()
PRICES = "neighbours", "last_iterate"  # of `prices.priced`
WIDER, NARROWER = 1e3, 16.0  # `calibrate` asks for at most WIDER times what is wanted, at least 1/NARROWER


def visible(plan: Plan) -> DpEvent:
    """What a plan does, with every iterate visible, as epsilon_tight prices it."""
    return whole(plan.guarantee.event)


@dataclass(frozen=True)
class Answer:
    """What a method gives out for a budget, without the rows that it learned from: it can be kept and pickled.

    theta: ``(samples, d)``, one row where a single fit is released; of K margins d is ``K features``, class after
    class.  plan: what was done, with the guarantee and the settings (noise_multiplier, l2 ...).  violated: what the
    guarantee needs and the plan does not have, [] where it has all; it depends on public facts and theta alone.
    facts: of the problem; model: it, without its rows.

    not_private: diagnostics that were computed from the rows without noise (r_hat, ess, and as "not_reached" what the
    sampler did not reach).  Look at them, and do not publish them: they are in no text and no pickle of an answer.
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
        """What the method's own theorem promises, with the problem's notes among the assumptions."""
        given = self.plan.guarantee
        texts = dict.fromkeys([*given.assumptions, *filter(None, self.model.notes)])
        return given._replace(assumptions=tuple(texts))

    def price(self, adjacency: Adjacency | None = None) -> dict[str, Any]:
        """What the release costs, as `price`."""
        return _price(self.method, self.facts, self.plan, self.budget, adjacency)

    def predict(self, X: Any) -> Tensor:
        """Probabilities of rows X ``(m, features)``, ``(m, K)`` in the order of `model.names`, averaged over the
        samples; of a regression the predicted numbers ``(m,)``."""
        asked, theta = self.model.asking(X), self.theta[None, None]
        if not asked.loss.classifies:
            return asked.predict_margins(theta.mean(2))[0, 0, :, 0]
        return predictive(asked, theta)[0, 0]


def learn(
    method: str | Method,
    problem: Glm,
    budgets: Budget | Sequence[Budget],
    rng: int | torch.Generator | None = None,
) -> list[Answer]:
    """One answer per budget, each on noise of its own.

    method: or its name, with the settings of its class.  problem: of `Problem.from_arrays`, a single data set.
    budgets: each for itself; who publishes several answers pays for all of them together.  rng: None takes the
    system's entropy, which is for what will be published; a seed >= 0 gives the same answers again, and names one of
    2^32 streams, which can all be tried: that is for experiments; or a generator.  All are for research (Mersenne
    Twister).  Two calls with one seed draw the same noise: from two answers of different settings it can be solved for.
    Warns of a delta of 1/n or more.
    ValueError for a budget that is out of reach, a plan that would cost more than its budget, and a problem that
    the method is not defined for.
    """
    method, wanted = named(method), [budgets] if isinstance(budgets, Budget) else list(budgets)
    if not problem.shared:
        raise ValueError(f"the problem has {len(problem.x)} data sets: give one, as Problem.from_arrays does")
    if not wanted:
        raise ValueError("budgets is empty: give at least one Budget(epsilon, delta)")
    if weak := weak_delta(max(budget.delta for budget in wanted), problem.facts.n):
        warnings.warn(weak, stacklevel=2)
    planned(method, problem.facts, wanted)  # all of them, before the first is carried out
    drawn, known, model, answers = _generator(rng, "learn"), problem.facts, problem.without_rows(), []
    for budget in wanted:
        release, (plan,) = released(method, problem, [budget], 1, drawn)
        theta = release.theta[0, 0]
        notes = violated(method, plan)
        if not bool(theta.isfinite().all()):
            notes.append("the chain diverged: lower the step size")
        diagnostics: dict[str, Any] = {name: float(of[0, 0]) for name, of in release.not_private.items()}
        diagnostics["not_reached"] = release.not_reached[0]
        answers.append(Answer(theta, plan, notes, method, budget, known, model, diagnostics))
    return answers


def price(
    method: str | Method, problem: Glm | Facts, budget: Budget, adjacency: Adjacency | None = None
) -> dict[str, Any]:
    """What a method would cost for a budget, without data: the columns of a row of the sweep (`prices.priced`).

    problem: its facts are all that is used; see `facts`.  adjacency: that epsilon_tight is priced under, by default the
    guarantee's.  Among the columns: epsilon_paper, accountant_paper, adjacency; epsilon_tight, accountant_tight,
    adjacency_tight; epsilon_add_remove, epsilon_replace_one (nan where there is no such price); epsilon_last where the
    last iterate alone is released; released, sampling, noise_multiplier, batch, steps, violated.

    >>> row = price("dp_sgd", facts(1000, 5), Budget(1.0, 1e-5))
    >>> round(row["epsilon_paper"], 3), round(row["epsilon_tight"], 2), row["steps"]
    (1.0, 0.73, 312)
    """
    method, known = named(method), _facts(problem)
    (plan,) = planned(method, known, [budget])
    return _price(method, known, plan, budget, adjacency)


def calibrate(
    method: str | Method,
    problem: Glm | Facts,
    target: Budget,
    adjacency: Adjacency = "replace_one",
    *,
    rtol: float = 1e-3,
    accountant: Accountant = TIGHT,
    event: Callable[[Plan], DpEvent] = visible,
) -> Budget:
    """The budget to ask a method for, so that what it does has the price `target` under `adjacency`.

    Methods that calibrate themselves by loose theorems are compared at equal privacy by it.  The price is at most
    target.epsilon, and within rtol of it unless the method cannot spend more (rho stops at 1, steps where they are
    stable), or `WIDER` times the target does not get there.  accountant, event: who prices what of a plan; by default
    `price`'s epsilon_tight, with all iterates visible; that of the last alone is priced by `guarantee.event`.
    ValueError where even target.epsilon/16 costs more, or cannot be planned.

    >>> asked = calibrate("objpert", facts(1000, 5), Budget(1.0, 1e-5))
    >>> round(asked.epsilon, 2), round(price("objpert", facts(1000, 5), asked)["epsilon_tight"], 2)
    (1.33, 1.0)
    """
    method, known = named(method), _facts(problem)
    if target.epsilon == math.inf:
        return target

    def asked(noise: float) -> Budget:
        return Budget(target.epsilon / noise, target.delta)

    def made(noise: float) -> DpEvent:
        return event(method.plan(known, asked(noise)))

    cost = accountant.epsilon(made(1.0), target.delta, adjacency)
    if (1 - rtol) * target.epsilon < cost <= target.epsilon:
        return target
    high = NARROWER if cost > target.epsilon else 1.0
    noise = smallest_noise(accountant, made, target, low=1 / WIDER, high=high, adjacency=adjacency, rtol=rtol)
    return asked(noise)


def attack(
    method: str | Method,
    problem: Glm | Facts,
    budget: Budget,
    rng: int | torch.Generator | None = None,
    runs: int = 2000,
    confidence: float = 0.95,
) -> Audit:
    """A lower bound on the epsilon of a release at budget.delta, by the attack of `attacks.release`.

    The method runs `runs` times on each of two data sets that the problem's facts admit, not on its rows; one record is
    replaced.  A bound above `price`'s epsilon_replace_one would refute that price; one below says nothing.  ValueError
    as `learn`, and for runs < 8.
    """
    require(isinstance(runs, Integral) and runs >= 8, f"runs = {runs!r} must be a whole number of at least 8")
    method, known = named(method), _facts(problem)
    (plan,) = planned(method, known, [budget])
    first, second = statistics(method, known, plan, runs, _generator(rng, "attack"))
    return audit(first, second, budget.delta, confidence)


def facts(
    records: int,
    features: int,
    *,
    classes: int = 2,
    row_bound: float = 1.0,
    loss: Loss | None = None,
    public: int = 0,
) -> Facts:
    """What is public of a linear model on `records` rows of norm at most row_bound: all that a price depends on.

    features: with a bias among them.  loss: None for logistic regression, softmax for more than two classes.  public:
    unlabelled rows, which PATE asks about.

    >>> facts(1000, 5, classes=3).d
    15
    """
    used = loss or (LOGISTIC if classes == 2 else softmax(classes))
    return linear_facts(used, records, features, row_bound, public)._replace(tested=False)


def _facts(problem: Glm | Facts) -> Facts:
    return problem if isinstance(problem, Facts) else problem.facts


def _price(
    method: Method, known: Facts, plan: Plan, budget: Budget, adjacency: Adjacency | None
) -> dict[str, Any]:
    return priced(method, plan, known, budget.delta, adjacency or plan.guarantee.adjacency, PRICES)


def _generator(rng: int | torch.Generator | None, label: str) -> torch.Generator:
    """The generator of `learn` and `attack`.  ValueError for what is neither None, a seed nor a generator."""
    if rng is None:
        return random.unpredictable()
    if isinstance(rng, torch.Generator):
        return rng
    seed = isinstance(rng, Integral) and not isinstance(rng, bool) and rng >= 0
    require(
        seed,
        f"rng = {rng!r} must be None, a whole number of at least 0 or a torch.Generator: give one of them",
    )
    return random.generator(int(rng), label)
