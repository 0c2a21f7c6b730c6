"""Tuning on the private rows: what is charged is what happens, and faults of it are refuted by an attack."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from dp_accounting import ComposedDpEvent, GaussianDpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from hydra.utils import instantiate
from pairs import LINEAR
from scipy.stats import norm
from torch import Tensor

from dplangevin import (
    METHODS,
    Budget,
    DpGd,
    DpSgd,
    OutPert,
    Pate,
    Problem,
    Tight,
    Tuned,
    facts,
    learn,
    random,
)
from dplangevin.attacks.audit import audit
from dplangevin.cli import comparison
from dplangevin.methods import Execution, tuned
from dplangevin.methods.prices import whole
from dplangevin.privacy import OneOfDpEvent, selection
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC, huber, softmax

Patch = pytest.MonkeyPatch
LAWS = [(10.0, 0.0), (10.0, 1.0), (3.0, 0.5), (4.0, math.inf), (1.0, 1.0)]
DELTA = 0.02  # large, so that few runs show much
N, RUNS = 40, 30_000
CHEAP = OutPert(l2=1.0)
TUNABLE = comparison.tuned({name: {} for name in METHODS}, 10.0, {})
TUNABLE["dp_sgld_tuned"]["method"]["schedule"] = "constant"  # steps that all differ take a minute to price


# the law of the number of runs


@pytest.mark.parametrize(("mean", "shape"), LAWS)
def test_the_law_that_is_drawn_is_the_law_that_is_priced(mean: float, shape: float) -> None:
    """The price looks at f'(1 - p)/f'(1) alone, where f is the generating function."""
    first, mass = selection.probabilities(mean, shape)
    k, p = first + np.arange(len(mass)), np.array([0.0, 0.01, 0.3, 0.9])
    slope = (k * mass * (1 - p[:, None]) ** np.maximum(k - 1, 0)).sum(1)
    assert slope == pytest.approx(mean * selection.weight(p, mean, shape), rel=1e-9)
    drawn = tuned.drawn_runs(random.generator(0, "runs"), mean, shape, 100, 1000).flatten()
    seen = np.bincount(drawn.numpy() - first, minlength=len(mass))[: len(mass)] / drawn.numel()
    assert np.abs(seen - mass).max() < 0.006
    assert float(drawn.double().mean()) == pytest.approx(mean, rel=0.03)


# the price


@pytest.mark.slow
@pytest.mark.parametrize("name", TUNABLE)
def test_every_method_that_has_a_grid_spends_the_budget_on_all_runs_and_says_so(name: str) -> None:
    known = facts(100, 4)
    config = comparison.sized(TUNABLE[name], known)
    method, budget = instantiate(config), Budget(1.0, 1e-3)
    plan = method.plan(known, budget)
    of_models, of_scores = plan.guarantee.event.events
    for best in (of_models, of_scores):
        assert isinstance(best, RepeatAndSelectDpEvent)
        assert (best.mean, best.shape) == (method.runs, method.shape)
        price = Tight().epsilon(best, budget.delta, "replace_one")
        assert 0.99 * budget.epsilon < price <= budget.epsilon
        assert Tight().epsilon(whole(best.event), budget.delta, "replace_one") < 0.8 * budget.epsilon
    assert plan.guarantee.epsilon <= budget.epsilon
    (field,) = method.choices
    word = tuned.WORDS.get(field, field)
    assert not any(word in text for text in plan.guarantee.assumptions if text.endswith(tuned.UNACCOUNTED))
    assert any(f"choices of {field}" in text for text in plan.guarantee.assumptions)
    with pytest.raises(ValueError, match="number"):
        Tight().epsilon(plan.guarantee.event, budget.delta, "add_remove")


@pytest.mark.slow
def test_a_held_back_record_that_contributes_nothing_moves_the_scores_as_far_as_another_one() -> None:
    method = Tuned(CHEAP, {"l2": [0.5, 1.0]}, 5.0)
    (_, scores) = method.plan(facts(1000, 5), Budget(1.0, 1e-5)).guarantee.event.events
    removed, replaced = (Tight().epsilon(scores, 1e-5, kind) for kind in ("zero_out", "replace_one"))
    assert removed == pytest.approx(replaced, rel=1e-6)


def test_without_a_budget_there_is_no_noise_and_no_promise() -> None:
    plan = Tuned(CHEAP, {"l2": [0.1, 1.0]}).plan(facts(50, 2), Budget(math.inf, 0.0))
    assert plan.guarantee.epsilon == math.inf
    assert plan.work.score_std == 0


def test_one_of_several_mechanisms_costs_what_the_dearest_costs() -> None:
    cheap, dear = GaussianDpEvent(5.0), GaussianDpEvent(2.0)
    either = OneOfDpEvent((cheap, dear))
    assert Tight().epsilon(either, 1e-5) == Tight().epsilon(dear, 1e-5)
    best = [Tight().epsilon(RepeatAndSelectDpEvent(one, 5.0, 1.0), 1e-5) for one in (either, dear)]
    assert best[0] == best[1]
    with pytest.raises(ValueError, match="cannot price"):
        Tight().epsilon(ComposedDpEvent([either, dear]), 1e-5)
    with pytest.raises(ValueError, match="events is empty"):
        OneOfDpEvent(())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tuned(METHODS["sgd"](), {"step": [0.1]}), "keeps no budget"),
        (lambda: Tuned(CHEAP, {}), "choices is empty"),
        (lambda: Tuned(CHEAP, {"clip": [1.0]}), "OutPert has no setting 'clip'"),
        (lambda: Tuned(CHEAP, {"l2": []}), "choices of l2 is empty"),
        (lambda: Tuned(DpGd(noise_multiplier=1.0), {"step": [1.0]}), "noise_multiplier of DpGd is given"),
        (lambda: Tuned(DpGd(), {"noise_multiplier": [1.0]}), "noise_multiplier of DpGd is given"),
        (lambda: Tuned(DpGd(), {"steps": [1.5]}), "steps must be whole numbers, not 1.5"),
        (lambda: Tuned(CHEAP, {"l2": [-1.0]}), "l2"),
        (lambda: Tuned(CHEAP, {"l2": [1.0]}, held_back=1.0), "held_back must be"),
        (lambda: Tuned(CHEAP, {"l2": [1.0]}, runs=0.5), "mean number of runs"),
        (lambda: Tuned(CHEAP, {"l2": [1.0]}).plan(facts(1, 2), Budget(1.0, 0.1)), "not 1 in all"),
        (
            lambda: Tuned(DpSgd(noise_multiplier=1.0), {"step": [1.0]}).plan(facts(50, 2), Budget(1.0, 0.1)),
            "noise",
        ),
        (lambda: Tuned(Pate(), {"l2": [2.0]}), "Pate has no setting"),
    ],
)
def test_what_cannot_be_tuned_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("step size, clip, batch, epochs and prior chosen without accounting", "step size, batch and epochs"),
        ("clip and prior chosen without accounting", ""),
        ("ridge and scaling chosen without accounting", "ridge and scaling"),
        ("number of records public", "number of records public"),
    ],
)
def test_only_what_was_not_paid_for_is_chosen_without_accounting(text: str, left: str) -> None:
    found = tuned.charged(text, {"clip": (), "precision": ()})
    assert found.removesuffix(tuned.UNACCOUNTED) == left


# the release


def data(n: int = 400, seeds: int = 1, loss: Any = LOGISTIC) -> Glm:
    rng = torch.Generator().manual_seed(1)
    x = torch.randn(seeds, n, 20, generator=rng).clamp(-1, 1) / 20**0.5
    y = x[..., 0] + 0.3 * x[..., 1]
    if loss.classifies:
        y = (y > 0).float() * 2 - 1 if loss.classes == 1 else (y > 0).float() + (y > 0.3)
    return Glm(x, loss.labels(y), loss, x_test=x, y_test=(y > 0).long())


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [1, 4])
@pytest.mark.parametrize("loss", [LOGISTIC, softmax(3), huber(1.0, 1.0)], ids=lambda loss: loss.name)
def test_tuning_finds_the_setting_that_predicts(seeds: int, loss: Any) -> None:
    """A penalty so small that the noise decides is not chosen where another was tried."""
    problem, budgets = data(seeds=seeds, loss=loss), [Budget(epsilon, 1e-3) for epsilon in (20.0, 50.0)]
    method = Tuned(OutPert(), {"l2": [1e-6, 0.1]}, runs=20.0)
    plans = [method.plan(problem.facts, budget) for budget in budgets]
    release = method.release(problem, plans, Execution(4, random.generator(0, "best")))
    assert release.theta.shape == (4, 2, 1, problem.d)
    assert set(release.not_private) == {"chosen", "runs", "score"}
    tried = release.not_private["runs"] > 8
    assert tried.any()
    assert (release.not_private["chosen"][tried] == 1).all()
    assert (release.theta[tried].norm(dim=-1) < 100).all()


HELD = [  # a row that is held back, and one with another of every kind
    ([0.6, 0.8], 1.0),
    ([0.6, -0.8], -1.0),
    ([0.0, 0.0], 1.0),
    ([1e18, -1e18], 1.0),
    ([math.inf, -1.0], 1.0),
    ([math.nan, 0.1], -1.0),
    ([0.6, 0.8], math.nan),
]


@pytest.mark.parametrize("loss", [LOGISTIC, softmax(3), huber(1.0, 1.0)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("far", [1.0, 1e16, 3e38, math.inf, math.nan])
def test_one_row_moves_a_score_by_at_most_one_whatever_the_row_and_the_model(far: float, loss: Any) -> None:
    """A nan would lose to every score, and an error would stop the release: both would show the row."""
    theta = torch.full((1, 2, 3, loss.classes * 2), far)
    theta[..., 1::2] *= -1
    rows, found = torch.tensor([[0.6, 0.8], [0.8, -0.6], [0.1, 0.2]]), []
    for x, y in HELD:
        held = torch.cat([torch.tensor([x]), rows])[None]
        labels = torch.tensor([[y, 1.0, -1.0, 1.0]])
        problem = Glm(held, labels if loss.classes == 1 else labels.clamp(min=0), loss)
        tested = replace(problem, x_test=held, y_test=tuned.asked(problem.y, loss))
        found.append(tuned.scored(tested, theta))
    scores = torch.stack(found)
    assert scores.isfinite().all()
    assert scores.min() >= 0
    assert scores.max() <= 4
    assert (scores - scores[0]).abs().max() <= 1 + 1e-12


@pytest.mark.slow
def test_whole_numbers_stay_whole() -> None:
    grid = Tuned(DpGd(), {"steps": [5, 10.0], "step": [1]}).candidates
    assert [(each.steps, type(each.steps), type(each.step)) for each in grid] == [
        (5, int, float),
        (10, int, float),
    ]
    plan = Tuned(DpGd(), {"steps": [5, 10]}).plan(facts(50, 2), Budget(1.0, 1e-3))
    assert [len(each.work.step) for each in plan.work.plans] == [5, 10]


@pytest.mark.slow
def test_no_run_at_all_releases_a_constant() -> None:
    problem, method = data(), Tuned(CHEAP, {"l2": [1.0]}, runs=1.0, shape=math.inf)
    plan = method.plan(problem.facts, Budget(1.0, 1e-3))
    release = method.release(problem, [plan], Execution(50, random.generator(0, "none")))
    none = release.not_private["runs"] == 0
    assert 0 < int(none.sum()) < 50
    assert torch.equal(none, (release.theta == 0).all(-1).all(-1))


def test_the_parts_do_not_overlap_and_depend_on_the_number_of_rows_alone() -> None:
    first, second = data(), replace(data(), x=data().x.flip(1))
    for problem in (first, second):
        train, held = tuned.parts(problem, 0.2)
        assert held.x_test is not None
        assert train.x_test is None
        rows = torch.cat([train.x, held.x_test], 1)[0]
        assert torch.equal(rows.sort(0).values, problem.x[0].sort(0).values)
    learned, held_back = places()
    assert len(learned) + len(held_back) == N
    assert not set(learned) & set(held_back)


@pytest.mark.slow
def test_an_answer_keeps_what_is_not_private_apart() -> None:
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (200, 2))
    problem = Problem.from_arrays(X, X[:, 0] > 0, row_bound=1.0, classes=[False, True])
    (answer,) = learn(Tuned(CHEAP, {"l2": [0.1, 1.0]}, runs=3.0), problem, Budget(1.0, 1e-4), rng=0)
    assert {"runs", "chosen", "score"} <= set(answer.not_private)
    assert not any(word in repr(answer) for word in ("not_private", "chosen="))
    assert answer.price()["epsilon_proven"] == pytest.approx(1.0, rel=1e-2)
    assert math.isnan(answer.price()["epsilon_add_remove"])


# attacks


def places() -> tuple[list[int], list[int]]:
    """The rows of both parts of a data set with N rows."""
    x = torch.arange(float(N))[None, :, None]
    train, held = tuned.parts(Glm(x, torch.ones(1, N), LOGISTIC, row_bound=float(N)), 0.5)
    assert held.x_test is not None
    return train.x[0, :, 0].int().tolist(), held.x_test[0, :, 0].int().tolist()


def neighbours(where: str) -> tuple[Glm, Glm]:
    """The record moves the fit up or down, and all rows that are held back ask for an upward one; or it asks itself."""
    learned, held = places()
    x, y = torch.zeros(1, N, 1), torch.ones(1, N)
    x[0, held if where == "learned" else held[:1]] = 1.0
    record = learned[0] if where == "learned" else held[0]
    x[0, record] = 1.0
    other = y.clone()
    other[0, record] = -1.0
    return Glm(x, y, LINEAR), Glm(x, other, LINEAR)


def attacked(where: str, epsilon: float, shape: float) -> tuple[float, float]:
    """What an attack shows of the release, and its price."""
    method = Tuned(CHEAP, {"l2": [1.0]}, runs=6.0, shape=shape, held_back=0.5)
    problems = neighbours(where)
    plan = method.plan(problems[0].facts, Budget(epsilon, DELTA))
    seen: list[np.ndarray] = []
    for side, problem in zip("ab", problems, strict=True):
        release = method.release(problem, [plan], Execution(RUNS, random.generator(0, f"{where} {side}")))
        theta = release.theta[:, 0, 0, 0].double()
        if where == "held back":
            theta = theta.sign()
        seen.append(theta.numpy())
    found = audit(seen[0], seen[1], DELTA).epsilon
    print(f"price {plan.guarantee.epsilon:.3f}, at least {found:.3f}")
    return found, plan.guarantee.epsilon


def one_run_is_charged(patch: Patch) -> None:
    patch.setattr(Tuned, "best_of", lambda self, event: event)


def scores_have_no_noise(patch: Patch) -> None:
    patch.setattr(tuned, "Tries", lambda plans, std: REAL(plans, 0.0))


def models_have_half_the_noise(patch: Patch) -> None:
    real: Any = OutPert.release

    def planted(self: Any, problem: Any, plans: Any, how: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            noise: Callable[..., Tensor] = random.noise
            inner.setattr(random, "noise", lambda *shape, **more: noise(*shape, **more) / 2)
            return real(self, problem, plans, how)

    patch.setattr(OutPert, "release", planted)


REAL = tuned.Tries
LONG = [pytest.mark.slow, pytest.mark.trial("an unpriced path")]
# the last column: the share of the price that the attack shows; a score hides behind models that do not depend on it
SOUND = [
    ("learned", 4.0, math.inf, 0.4),
    pytest.param("learned", 4.0, 1.0, 0.4, marks=LONG),
    ("held back", 4.0, 1.0, 0.1),
    pytest.param("held back", 4.0, math.inf, 0.1, marks=LONG),
]


@pytest.mark.slow
@pytest.mark.parametrize(("where", "epsilon", "shape", "share"), SOUND)
def test_an_attack_does_not_refute_the_price(where: str, epsilon: float, shape: float, share: float) -> None:
    found, price = attacked(where, epsilon, shape)
    assert share * price < found <= price


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "where", "epsilon", "shape"),
    [
        (one_run_is_charged, "learned", 4.0, math.inf),
        (scores_have_no_noise, "held back", 0.5, 1.0),
        (models_have_half_the_noise, "learned", 2.0, 0.0),
    ],
)
def test_a_planted_fault_is_caught(
    plant: Callable[[Patch], None], where: str, epsilon: float, shape: float, monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    found, price = attacked(where, epsilon, shape)
    assert found > price


@pytest.mark.parametrize("known", [True, False])
def test_the_number_of_runs_has_to_stay_secret(known: bool) -> None:
    """Exactly, for an order that prefers positive results: that none of many runs was positive refutes the price."""
    mean, mu, delta = 10.0, 1.0, 1e-5
    first, mass = selection.probabilities(mean, math.inf)
    k, low = first + np.arange(len(mass)), norm.cdf(mu / 2)
    sides = [mass * chance**k for chance in (low, 1 - low)]  # no result is positive, by number of runs
    tails = [side[::-1].cumsum()[::-1] if known else side.sum() - mass[:1] for side in sides]
    shown = float(np.log(np.maximum(tails[0] - delta, 1e-300) / tails[1]).max())
    price = Tight().epsilon(RepeatAndSelectDpEvent(GaussianDpEvent(2 / mu), mean, math.inf), delta)
    print(f"price {price:.3f}, at least {shown:.3f}")
    assert (shown > price) is known
