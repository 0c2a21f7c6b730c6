"""PATE: its noise, caps and students against Algorithm 1 done by hand."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from dp_accounting import NonPrivateDpEvent
from hydra.utils import instantiate
from omegaconf import OmegaConf
from scenarios import gaussian, logistic, rows
from sklearn.linear_model import LogisticRegression

from dplangevin import noise
from dplangevin.ensemble import Labels, students
from dplangevin.losses import softmax
from dplangevin.methods import Release
from dplangevin.methods.pate import Pate
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.papernot2018 import Papernot2018
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.pate_event import PateDpEvent
from dplangevin.problem import Problem

DELTA = 1e-4


def method(**settings: Any) -> Pate:
    values = {
        "teachers": 20,
        "queries": 60,
        "answers": 15,
        "threshold": 14.0,
        "ratio": 2.0,
        "ridge": 0.5,
        "student_ridge": 0.5,
        "accountant": Papernot2018(),
    }
    return Pate(**{**values, **settings})


def problem(shared: bool = False, repeats: int = 3, public: int = 80) -> Problem:
    made = logistic(repeats=repeats, n=410, shared=shared, answers=repeats)
    extra = torch.tensor(rows(len(made.x), public, made.features, seed=5), dtype=torch.float32)
    return Problem(made.x, made.y, made.loss, repeats, public=extra)


def run(found: Pate, data: Problem, *epsilons: float, seed: int = 0) -> Release:
    return found(data, [Budget(e, DELTA) for e in epsilons], noise.generator(seed, "pate"))


@pytest.mark.parametrize("shared", [True, False])
def test_without_noise_it_is_algorithm_1_by_hand(shared: bool) -> None:
    """Teachers and student by scikit-learn; the answered rows are the first with enough votes."""
    data, found = problem(shared), method()
    release = run(found, data, math.inf)
    draws = found._draws(data, noise.generator(0, "pate"))
    for r in range(data.repeats):
        x, y, public = (t[r % len(t)].double().numpy() for t in (data.x, data.y, draws.rows))
        votes = np.zeros((60, 2))
        for k in range(20):
            fit = LogisticRegression(C=2.0, fit_intercept=False, solver="newton-cholesky")
            fit.fit(x[k::20], y[k::20])
            votes[np.arange(60), (fit.decision_function(public) > 0).astype(int)] += 1
        assert np.array_equal(draws.counts[r].numpy(), votes)
        answered = np.flatnonzero(votes.max(1) >= 14)[:15]
        assert 0 < len(answered) == int(release.info["answered"][r, 0])
        student = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10, solver="newton-cholesky")
        student.fit(public[answered], 2 * votes[answered].argmax(1) - 1)
        assert np.allclose(release.theta[r, 0, 0].numpy(), student.coef_[0], atol=1e-3)
    assert isinstance(release.guarantee[0].event, NonPrivateDpEvent)


def test_every_budget_is_spent_and_answered() -> None:
    epsilons = [0.01, 0.1, 2.0]
    release = run(method(), problem(), *epsilons, math.inf)
    assert release.theta.shape == (3, 4, 1, 5)
    assert release.theta.isfinite().all()
    for promise, epsilon in zip(release.guarantee, epsilons, strict=False):
        assert isinstance(promise.event, PateDpEvent)
        assert (promise.event.queries, promise.event.answers) == (60, 15)
        assert promise.event.threshold_std == pytest.approx(2 * promise.event.answer_std)
        assert epsilon * (1 - 1e-6) < promise.epsilon <= epsilon * (1 + 1e-9)
        assert Tight().epsilon(promise.event, DELTA, promise.adjacency) < promise.epsilon
    assert (release.info["answered"] <= 15).all()


def test_data_dependent_epsilon_is_never_above_the_claim_and_its_release_is_above_it_on_average() -> None:
    data = problem(repeats=40, shared=True)
    epsilons = [0.05, 1.0, 10.0, 40.0]
    release = run(method(threshold=12.0), data, *epsilons)
    spent, released = release.info["epsilon_data_dependent"], release.info["epsilon_released"]
    assert (spent <= torch.tensor([g.epsilon for g in release.guarantee]) * (1 + 1e-6)).all()
    assert (released.mean(0) > spent.mean(0)).all()


def test_noise_chosen_from_the_votes_is_less_and_says_so() -> None:
    data = problem(public=60)
    epsilons = [0.05, 40.0]
    careful = run(method(), data, *epsilons)
    from_votes = run(method(bound="data_dependent", threshold=10.0, teachers=80), data, *epsilons)
    plain = run(method(threshold=10.0, teachers=80), data, *epsilons)
    for promise, epsilon in zip(from_votes.guarantee, epsilons, strict=True):
        assert promise.epsilon <= epsilon * (1 + 1e-9)
    less, more = from_votes.guarantee[1], plain.guarantee[1]
    assert less.event.answer_std < more.event.answer_std
    assert less.event.order > 1
    assert less.epsilon == pytest.approx(
        less.event.released_rdp + math.log(1 / DELTA) / (less.event.order - 1)
    )
    assert any("noise chosen from the votes" in text for text in less.assumptions)
    assert not any(
        "noise chosen from the votes" in g_text for g in careful.guarantee for g_text in g.assumptions
    )
    assert Tight().epsilon(less.event, DELTA) > less.epsilon  # what it would cost without a look at the votes


def test_no_answer_is_a_student_of_zeros() -> None:
    data = problem()
    assert data.public is not None
    rows_asked = data.public[:, :60]
    none = torch.zeros(3, 2, 60, dtype=torch.bool)
    labels = Labels(~none, none, torch.ones(3, 2, 60, dtype=torch.long))
    theta = students(data, rows_asked, labels, 15, 0.5, 1e-6)
    assert theta.shape == (3, 2, 5)
    assert not theta.any()


def test_one_record_moves_one_vote() -> None:
    data, found = problem(shared=True, repeats=1), method()
    y = data.y.clone()
    y[0, 7] *= -1
    other = Problem(data.x, y, data.loss, 1, public=data.public)
    first, second = (found._draws(d, noise.generator(0, "pate")).counts for d in (data, other))
    change = (first - second).abs()
    assert float(change.sum()) > 0
    assert float(change.amax()) <= 1


def test_softmax_students_vote_among_all_classes() -> None:
    x = torch.tensor(rows(2, 600, 4), dtype=torch.float32)
    public = torch.tensor(rows(1, 60, 4, seed=9), dtype=torch.float32)
    data = Problem(x, x[..., :3].argmax(-1).float(), softmax(3), 2, public=public)
    release = run(method(threshold=10.0, answers=60, ridge=0.01, student_ridge=0.01), data, 0.05, math.inf)
    assert release.theta.shape == (2, 2, 1, 12)
    truth = public[0, :, :3].argmax(-1)
    guess = (release.theta[:, 1, 0].view(2, 3, 4) @ public[0].T).argmax(1)
    assert float((guess == truth).float().mean()) > 0.8


def test_same_generator_same_student() -> None:
    first, second = (run(method(), problem(), 1.0).theta for _ in range(2))
    assert torch.equal(first, second)


def test_it_refuses_what_it_cannot_do() -> None:
    linear, _, _ = gaussian()
    with pytest.raises(ValueError, match="classes to vote for"):
        run(method(), linear, 1.0)
    with pytest.raises(ValueError, match="public"):
        run(method(), logistic(), 1.0)
    with pytest.raises(ValueError, match="teachers = 500"):
        run(method(teachers=500), problem(), 1.0)
    with pytest.raises(ValueError, match="delta > 0"):
        method()(problem(), [Budget(1.0, 0.0)], noise.generator(0, "pate"))
    with pytest.raises(ValueError, match="bound"):
        method(bound="both")
    with pytest.raises(ValueError, match="threshold"):
        method(threshold=21.0)
    with pytest.raises(ValueError, match="decay"):
        method(decay=0.5)


def test_the_configured_method_is_this_one() -> None:
    cfg = OmegaConf.create(
        {
            "accountant": {"papernot2018": OmegaConf.load("conf/accountant/papernot2018.yaml")},
            "method": OmegaConf.load("conf/method/pate.yaml"),
        }
    )
    assert isinstance(instantiate(cfg.method), Pate)
