"""Sufficient statistics: their price against numerical search and attack, their fits against scikit-learn."""

import itertools
import math
from dataclasses import replace
from typing import Any

import attr
import numpy as np
import pytest
import torch
from scenarios import linear, logistic, multinomial
from scipy.optimize import minimize
from sklearn.linear_model import Ridge

from dplangevin import random
from dplangevin.attacks.audit import audit, known_ratio
from dplangevin.methods import Execution, adassp
from dplangevin.methods.adassp import AdaSsp, QuadraticFit, slope_bound
from dplangevin.privacy import Adjacency, Budget, SufficientStatisticsDpEvent
from dplangevin.privacy.accountants.analytic_gaussian import mu_of
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.accountants.wang2018 import Wang2018
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC, SQUARED, huber, softmax

DELTA, MANY = 1e-5, 1e6
EVENTS = [
    SufficientStatisticsDpEvent(*stds)
    for stds in ((1.0, 1.0, 1.0), (1.0, 1.0, math.inf), (2.0, 0.5, 1.0), (0.5, 3.0, 0.7))
]
FREE = torch.diag(torch.tensor([0.0, MANY, MANY], dtype=torch.float64)).numpy()


def moved(event: SufficientStatisticsDpEvent, numbers: np.ndarray, adjacency: Adjacency) -> float:
    """mu of two data sets in three dimensions that differ in one record; all others leave a direction free."""
    records = []
    for x, u in ((numbers[:3], numbers[3]), (numbers[4:7], numbers[7])):
        records.append((x / max(1.0, np.linalg.norm(x)), np.clip(u, -1, 1)))
    if adjacency == "add_remove":
        records[1] = np.zeros(3), 0.0
    (x, u), (other, v) = records
    sides = [FREE + np.outer(row, row) for row in (x, other)]
    parts = (
        np.linalg.norm(sides[0] - sides[1]) / event.matrix,
        np.linalg.norm(u * x - v * other) / event.vector,
        (np.linalg.eigvalsh(sides[0])[0] - np.linalg.eigvalsh(sides[1])[0]) / event.eigenvalue,
    )
    return float(np.linalg.norm(parts))


def price(event: SufficientStatisticsDpEvent, adjacency: Adjacency) -> float:
    return mu_of(event.gaussian_steps(adjacency).noise_multiplier, adjacency)


def searched(event: SufficientStatisticsDpEvent, adjacency: Adjacency) -> float:
    rng, best = np.random.default_rng(0), 0.0
    for _ in range(12):
        start = rng.normal(size=8)
        found = minimize(
            lambda at: -moved(event, at, adjacency), start, method="Nelder-Mead", options={"maxiter": 3000}
        )
        best = max(best, -found.fun)
    return best


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("event", EVENTS)
def test_the_worst_pair_of_records_moves_the_release_as_far_as_is_priced(
    event: SufficientStatisticsDpEvent, adjacency: Adjacency
) -> None:
    """By search over pairs; a price without one of the parts is caught."""
    found, priced = searched(event, adjacency), price(event, adjacency)
    print(f"priced mu {priced:.4f}, searched {found:.4f}")
    assert 0.99 * priced < found <= priced * (1 + 1e-4)
    if event == EVENTS[0]:
        for part in ("matrix", "vector", "eigenvalue"):
            assert found > price(attr.evolve(event, **{part: 10.0}), adjacency)


def statistics(problem: Glm, plans: Any, seeds: int, patch: pytest.MonkeyPatch) -> tuple[torch.Tensor, ...]:
    """The statistics without their noise."""
    with patch.context() as quiet:
        no_noise(quiet)
        return adassp._noisy(problem, plans, Execution(seeds, random.generator(0, "x")))


def no_noise(patch: pytest.MonkeyPatch) -> None:
    zeros = torch.zeros
    patch.setattr(random, "noise", lambda rng, *shape, device=None: zeros(shape, dtype=torch.float64))
    patch.setattr(random, "on_grid", lambda numbers, std: numbers)


@pytest.mark.parametrize("method", [AdaSsp(Tight()), QuadraticFit()])
@pytest.mark.parametrize("halved", [False, True])
def test_the_statistics_that_a_release_uses_show_what_is_priced_and_half_the_noise_is_caught(
    method: Any, halved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worst pair in two dimensions; the attacker sees all noisy statistics, and knows their law."""
    plan = method.plan(logistic(n=3).facts._replace(d=2), Budget(1.5, 0.01))
    event, runs = plan.guarantee.event, 40_000
    half = math.acos(min(1.0, event.vector**-2 / (2 * event.matrix**-2 + event.eigenvalue**-2))) / 2
    # the free direction is at 45 degrees to the bisector of the two records: there D is longest
    others = torch.tensor([[1.0, 1.0]]).expand(2_000, 2) / math.sqrt(2)
    problems = []
    for angle, label in ((half, 1.0), (-half, -1.0)):
        x = torch.cat([torch.tensor([[math.cos(angle), math.sin(angle)]]), others])
        problems.append(Glm(x[None], torch.tensor([[label] + 2_000 * [1.0]]), LOGISTIC))
    exact = [statistics(problem, [plan], 1, monkeypatch) for problem in problems]
    if halved:
        noise = random.noise
        monkeypatch.setattr(random, "noise", lambda *shape, **more: noise(*shape, **more) / 2)
    ratios = []
    for side, problem in zip("ab", problems, strict=True):
        noisy = adassp._noisy(problem, [plan], Execution(runs, random.generator(0, side)))
        ratio = torch.zeros(runs, dtype=torch.float64)
        for part, one, other, std in zip(noisy, *exact, plan.work[:3], strict=True):
            if std > 0:
                ratio += ((part - (one + other) / 2) * (one - other)).flatten(1).sum(-1) / std**2
        ratios.append(ratio.numpy())
    first, second = ratios
    exactly = known_ratio(first, second, 0.01, random.generator(0, "bound"))
    found = audit(first, second, 0.01).epsilon if halved else exactly
    print(f"price 1.5, at least {found:.3f}")
    assert found > 1.5 if halved else 0.9 * 1.5 < found <= 1.5


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_noise_is_the_printed_one_and_its_theorem_holds_at_usual_budgets(epsilon: float) -> None:
    for adjacency in ("add_remove", "replace_one"):
        guarantee = AdaSsp(adjacency=adjacency).plan(linear(n=20).facts, Budget(epsilon, DELTA)).guarantee
        event: Any = guarantee.event
        if adjacency == "add_remove":
            printed = math.sqrt(math.log(6 / DELTA)) / (epsilon / 3)
            assert event.matrix == pytest.approx(printed, rel=1e-9)
            assert event.matrix == event.vector == event.eigenvalue
        assert 0.3 * epsilon < Tight().epsilon(event, DELTA, adjacency) < 0.8 * epsilon


def test_the_theorem_fails_at_large_budgets() -> None:
    """As the noise falls as 1/epsilon, and a Gaussian mechanism needs more from about there on."""
    plan = AdaSsp(adjacency="add_remove").plan(linear(n=20).facts, Budget(50.0, DELTA))
    assert Wang2018().epsilon(plan.guarantee.event, DELTA, "add_remove") == pytest.approx(50)
    assert Tight().epsilon(plan.guarantee.event, DELTA, "add_remove") > 60
    assert "the exact price is 6" in "".join(plan.violated)
    for epsilon, holds in ((39.0, True), (41.0, False)):  # replaced records
        assert (AdaSsp().plan(linear(n=20).facts, Budget(epsilon, DELTA)).violated == ()) == holds
    assert AdaSsp(accountant=Tight()).plan(linear(n=20).facts, Budget(50.0, DELTA)).violated == ()


def fit(method: Any, problem: Glm, epsilon: float) -> np.ndarray:
    plan = method.plan(problem.facts, Budget(epsilon, DELTA))
    return method.release(problem, [plan], Execution(1, random.generator(0, "x"))).theta[0, 0, 0].numpy()


def reference(problem: Glm, alpha: float) -> np.ndarray:
    """Ridge regression by scikit-learn, of the targets whose least squares is the quadratic at margin 0."""
    x, y, loss = problem.x[0].double().numpy(), problem.y[0].double().numpy(), problem.loss
    if loss.classes > 1:
        target = (np.eye(loss.classes)[y.astype(int)] - 1 / loss.classes) * loss.classes
    else:
        target = 2 * y if loss.name == "logistic" else y
    found = Ridge(alpha, fit_intercept=False, solver="svd" if alpha == 0 else "cholesky").fit(x, target)
    return np.asarray(found.coef_).reshape(-1)


PROBLEMS = {
    "squared": lambda: replace(linear(n=300), loss=SQUARED),
    "huber": lambda: replace(linear(n=300), loss=huber(10.0, 10.0)),
    "logistic": lambda: logistic(n=300),
    "softmax": lambda: multinomial(n=300, shared=True),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_fits_are_those_of_scikit_learn_without_privacy_and_without_noise(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without noise AdaSSP adds the ridge that lifts the least eigenvalue to what the noise would need."""
    problem = replace(PROBLEMS[name]())
    problem = replace(
        problem, x=problem.x[:1], y=problem.y[:1].clamp(-1, 1) if name == "squared" else problem.y[:1]
    )
    no_delta = AdaSsp().plan(problem.facts, Budget(math.inf, 0.0))
    theta = AdaSsp().release(problem, [no_delta], Execution(1, random.generator(0, "x"))).theta
    assert bool(theta.isfinite().all())
    for method in (AdaSsp(), QuadraticFit()):
        np.testing.assert_allclose(
            fit(method, problem, math.inf), reference(problem, 0.0), rtol=1e-5, atol=1e-7
        )
    no_noise(monkeypatch)
    for epsilon in (1.0, 1000.0):
        noise = AdaSsp().plan(problem.facts, Budget(epsilon, DELTA)).work
        x = problem.x[0].double().numpy()
        low = max(0.0, np.linalg.eigvalsh(x.T @ x)[0] - noise.eigenvalue * math.sqrt(math.log(6 / DELTA)))
        ridge = max(0.0, noise.least - low)
        found = fit(AdaSsp(), problem, epsilon)
        np.testing.assert_allclose(found, reference(problem, ridge), rtol=1e-5, atol=1e-7)
    far = fit(QuadraticFit(floor=1e6), problem, 1.0)  # all eigenvalues are raised: B over a number
    least = QuadraticFit(floor=1e6).plan(problem.facts, Budget(1.0, DELTA)).work.least
    np.testing.assert_allclose(far, reference(problem, least), rtol=1e-4)


@pytest.mark.parametrize(
    "loss", [LOGISTIC, SQUARED, huber(0.5, 2.0), huber(3.0, 2.0), softmax(2), softmax(5)]
)
def test_no_label_moves_the_vector_more_than_is_priced(loss: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = torch.arange(loss.classes) if loss.classes > 1 else torch.tensor([-1.0, 1.0]) * loss.label_bound
    longest = []
    for y in labels.float():
        problem = Glm(torch.tensor([[[0.6, 0.8]]]), y[None, None], loss)
        plan = QuadraticFit().plan(problem.facts, Budget(1.0, DELTA))
        assert plan.work.vector == pytest.approx(plan.guarantee.event.vector * slope_bound(loss))
        longest.append(float(statistics(problem, [plan], 1, monkeypatch)[1].norm()))
    assert max(longest) == pytest.approx(slope_bound(loss))


def test_a_label_beyond_its_bound_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Least squares has a bound on labels that nothing else enforces."""
    problem = Glm(torch.tensor([[[0.6, 0.8]]]), torch.tensor([[100.0]]), SQUARED)
    plan = QuadraticFit().plan(problem.facts, Budget(1.0, DELTA))
    assert float(statistics(problem, [plan], 1, monkeypatch)[1].norm()) == pytest.approx(1.0)


def test_released_statistics_are_on_a_grid_and_symmetric() -> None:
    problem = logistic(n=50)
    plans = [QuadraticFit().plan(problem.facts, Budget(epsilon, DELTA)) for epsilon in (0.1, 10.0)]
    matrix, products, _ = adassp._noisy(problem, plans, Execution(3, random.generator(0, "x")))
    assert torch.equal(matrix, matrix.mT)
    for e, (part, name) in itertools.product((0, 1), ((matrix, "matrix"), (products, "vector"))):
        grid = 2.0 ** math.floor(math.log2(getattr(plans[e].work, name) / 1024))
        cells = part[:, e] / grid
        assert torch.equal(cells, cells.round())


def test_the_noise_has_the_deviations_of_its_event() -> None:
    """On rows of 0 and of norm 2 at most, so that the event's multipliers have units."""
    problem = Glm(torch.zeros(1, 4, 3), torch.ones(1, 4), LOGISTIC, row_bound=2.0)
    plan = AdaSsp(Tight()).plan(problem.facts, Budget(1.0, DELTA))
    event: Any = plan.guarantee.event
    matrix, products, least = adassp._noisy(problem, [plan], Execution(20_000, random.generator(0, "x")))
    diagonal = matrix[:, 0].diagonal(dim1=-2, dim2=-1)
    for part, std in (
        (diagonal, 4 * event.matrix),
        (matrix[:, 0, 0, 1:], 4 * event.matrix / math.sqrt(2)),
        (matrix[:, 0, 1, 2], 4 * event.matrix / math.sqrt(2)),
        (products, event.vector),  # slopes of at most 1/2
        (least, 4 * event.eigenvalue),
    ):
        assert float(part.std()) == pytest.approx(std, rel=0.02)
