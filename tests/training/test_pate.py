"""PATE of networks: Algorithm 1 by hand, what the budget affords, and what the students may see."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dp_accounting import NonPrivateDpEvent
from hydra.utils import instantiate
from omegaconf import OmegaConf
from sklearn.datasets import load_digits

from dplangevin import noise
from dplangevin.audit import audit
from dplangevin.cache import Checkpoint
from dplangevin.data import Dataset
from dplangevin.networks import build
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.papernot2018 import Papernot2018
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.pate_event import PateDpEvent
from dplangevin.problems.network import NetworkProblem
from dplangevin.scores import scores
from dplangevin.training import Task, Trained, pate, teachers
from dplangevin.training.confident import Confident, Labels, Votes
from dplangevin.training.pate import Pate
from dplangevin.training.teachers import Descent, Teachers

DELTA = 1e-5
LAYERS: list[dict[str, Any]] = [{"conv": 8, "kernel": 4, "stride": 2}, {"activation": "tanh"}, {"linear": 10}]
NETWORK = build(LAYERS, (1, 8, 8), 10)


@pytest.fixture(autouse=True)
def _one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources may be edited while tests run."""
    monkeypatch.setattr(teachers, "code_hash", lambda *names: "code")


@pytest.fixture(scope="module")
def images() -> Dataset:
    x, y = load_digits(return_X_y=True)
    x = (x * 15).astype(np.uint8).reshape(-1, 1, 8, 8)
    return Dataset.from_arrays(x[:1200], y[:1200], x[1200:], y[1200:], {"name": "digits", "classes": 10})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the teachers of `learner()` are shared by the tests."""
    return tmp_path_factory.mktemp("units")


def vote(**settings: Any) -> Confident:
    values: dict[str, Any] = {
        "queries": 200,
        "fewest": 10,
        "asked": 2.0,
        "threshold": 18.0,
        "answer_std": 4.0,
        "ratio": 3.0,
        "accountant": Tight(),
    }
    return Confident(**{**values, **settings})


def learner(**settings: Any) -> Pate:
    values: dict[str, Any] = {
        "teachers": Teachers(30, 30, Descent(0.05, 0.9, 0.0, 10, 80)),
        "vote": vote(),
        "student": Descent(0.05, 0.9, 0.0, 10, 100),
    }
    return Pate(**{**values, **settings})


def problem(images: Dataset) -> NetworkProblem:
    return NetworkProblem.of_images(NETWORK, images, torch.device("cpu"))


def run(images: Dataset, folder: Path, epsilon: float, found: Pate | None = None) -> Trained:
    rng, key = noise.generator(0, "pate"), f"{epsilon}-{found}".replace("/", "")[:60]
    task = Task(problem(images), Budget(epsilon, DELTA), 2, rng, folder, key)
    trained = (found or learner())(task)
    (folder / f"{key}.pt").unlink(missing_ok=True)
    return trained


def ballot(queries: int = 60, teachers: int = 30, seeds: int = 3, unsure: float = 0.1) -> Votes:
    """Votes for one of ten classes, more or less agreed on."""
    rng = np.random.default_rng(4)
    share = rng.dirichlet(np.full(10, unsure), size=(seeds, queries))
    counts = torch.tensor(rng.multinomial(teachers, share)).double()
    tests, answers = (
        torch.tensor(rng.normal(size=(seeds, queries))),
        torch.tensor(rng.normal(size=counts.shape)),
    )
    return Votes(counts, tests, answers, rng.normal(size=seeds))


@pytest.mark.parametrize("std", [0.0, 3.0])
def test_labels_are_those_of_algorithm_1_one_query_at_a_time(std: float) -> None:
    votes = ballot()
    found = vote(threshold=20.0).label(votes, queries=50, answers=12, std=std)
    for s in range(3):
        labels: dict[int, int] = {}
        tested = 0
        for q in range(50):
            if len(labels) == 12:
                break
            tested += 1
            n = votes.counts[s, q].numpy()
            if n.max() + 3.0 * std * float(votes.tests[s, q]) >= 20:
                labels[q] = int(np.argmax(n + std * votes.answers[s, q].numpy()))
        assert 0 < len(labels) <= tested == int(found.asked[s].sum())
        where = found.answered[s].nonzero()[:, 0].tolist()
        assert {q: int(found.winner[s, q]) for q in where} == labels
    assert found.asked.shape == (3, 50)


@pytest.mark.parametrize("accountant", [Tight(), Papernot2018()])
def test_every_budget_is_spent_whole_under_either_adjacency(accountant: Any) -> None:
    made = vote(accountant=accountant)
    events = [made.event(Budget(e, DELTA)) for e in (0.22, 1.97, 8.0, 50.0)]
    for event, epsilon in zip(events, (0.22, 1.97, 8.0, 50.0), strict=True):
        for adjacency in ("add_remove", "replace_one"):
            price = accountant.epsilon(event, DELTA, adjacency)
            assert epsilon * (1 - 1e-4) < price <= epsilon
            assert Tight().epsilon(event, DELTA, adjacency) <= epsilon
        assert event.queries == 2 * event.answers <= 200
        assert event.threshold_std == pytest.approx(3 * event.answer_std)
    assert events[0].answers == 10  # the fewest, at more noise than was asked for
    assert events[0].answer_std > 4
    answers = events[2].answers
    assert 10 < answers < 100 == events[3].answers  # the last: the most, at less noise
    assert 4 * math.sqrt(answers / (answers + 1)) < events[2].answer_std <= 4
    assert events[3].answer_std < 4


def test_one_answer_more_would_not_fit() -> None:
    made, budget = vote(), Budget(8.0, DELTA)
    answers = made.event(budget).answers
    for number, fits in ((answers, True), (answers + 1, False)):
        event = PateDpEvent(2 * number, number, 12.0, 4.0)
        assert (Tight().epsilon(event, DELTA, "add_remove") <= 8.0) == fits


def test_the_configured_settings_afford_what_their_table_says() -> None:
    accountants = {name: OmegaConf.load(f"conf/accountant/{name}.yaml") for name in ("tight", "papernot2018")}
    cfg = OmegaConf.create({"accountant": accountants, "learner": OmegaConf.load("conf/learner/pate.yaml")})
    found = instantiate(cfg.learner)
    assert isinstance(found, Pate)
    lines = [line.split() for line in (Confident.__doc__ or "").splitlines()]
    table = {
        words[0]: [float(w) for w in words[1:]] for words in lines if words and words[0] in ("epsilon", "A")
    }
    table["std"] = next([float(w) for w in words[1:]] for words in lines if words[:1] == ["sigma_2"])
    assert len(table["epsilon"]) == 5
    for epsilon, answers, std in zip(table["epsilon"], table["A"], table["std"], strict=True):
        event = found.vote.event(Budget(epsilon, DELTA))
        assert event.answers == answers
        assert event.answer_std == pytest.approx(std, abs=0.05)


@pytest.mark.parametrize(("less", "refuted"), [(1.0, False), (2.0, True)])
def test_one_vote_is_as_private_as_promised_and_half_of_the_noise_is_caught(
    less: float, refuted: bool
) -> None:
    """One teacher, whose vote for one of two classes a record decides; the statistic counts the labels."""
    runs, queries, budget = 10_000, 60, Budget(3.0, 0.01)
    made = vote(queries=queries, fewest=30, threshold=0.5, ratio=20.0, answer_std=1e-3)
    rng, counted = torch.Generator().manual_seed(3), []
    for choice in (0, 1):
        counts = torch.zeros(runs, queries, 2, dtype=torch.float64)
        counts[..., choice] = 1
        normals = torch.randn(2, runs, queries, 2, generator=rng, dtype=torch.float64) / less
        votes = Votes(counts, normals[0, ..., 0], normals[1], np.zeros(runs))
        labels, promise, *_ = made(votes, budget, ())
        counted.append(((2 * labels.winner - 1) * labels.answered).sum(1).double().numpy())
    first, second = counted
    found = audit(first, second, budget.delta).epsilon
    tight = Tight().epsilon(promise.event, budget.delta, "add_remove")
    assert (found > tight) == refuted
    assert found > 0.4 * tight


def test_answers_chosen_from_the_votes_are_more_and_say_so() -> None:
    votes, budget = ballot(200, teachers=400, unsure=0.01), Budget(1.0, DELTA)
    shared: dict[str, Any] = {"threshold": 250.0, "answer_std": 30.0, "accountant": Papernot2018()}
    careful = vote(**shared)(votes, budget, ("given",))
    eager = vote(**shared, bound="data_dependent")(votes, budget, ("given",))
    assert careful.guarantee.assumptions == ("given",)
    assert any("chosen from the votes" in text for text in eager.guarantee.assumptions)
    assert eager.guarantee.event.answers > careful.guarantee.event.answers
    assert eager.std == 30.0
    assert eager.guarantee.epsilon == pytest.approx(eager.released.max())
    assert eager.guarantee.epsilon <= 1.0
    assert (careful.spent <= careful.guarantee.epsilon * (1 + 1e-6)).all()
    assert Tight().epsilon(eager.guarantee.event, DELTA) > 1.0  # the price without a look at the votes
    with pytest.raises(ValueError, match="papernot2018"):
        vote(**{**shared, "accountant": Tight()}, bound="data_dependent")(votes, budget, ())


def test_students_learn_from_the_labels_and_more_budget_helps(images: Dataset, folder: Path) -> None:
    found = {epsilon: run(images, folder, epsilon) for epsilon in (0.05, 20.0, math.inf)}
    accuracy = {}
    for epsilon, trained in found.items():
        rows = trained.rows
        assert rows is not None
        predicted = trained.predicted["single"]
        assert predicted.shape == (2, 597, 10)
        accuracy[epsilon] = scores(predicted[:, rows], torch.as_tensor(images.y_test[0])[rows])["accuracy"]
    assert (accuracy[math.inf] > 0.75).all()
    assert (accuracy[20.0] > accuracy[0.05] + 0.2).all()
    assert isinstance(found[math.inf].guarantee.event, NonPrivateDpEvent)
    promise = found[20.0].guarantee
    assert Tight().epsilon(promise.event, DELTA, "add_remove") == pytest.approx(20.0, rel=1e-4)
    assert (promise.released, promise.sampling) == ("final", "full")
    assert found[20.0].info["teacher_accuracy"] == found[0.05].info["teacher_accuracy"]  # shared
    assert 0.6 < found[20.0].info["teacher_accuracy"][0] < 1
    assert min(found[20.0].info["label_accuracy"]) > max(found[0.05].info["label_accuracy"])
    assert all(isinstance(v, float | int) for values in found[20.0].info.values() for v in values)
    assert found[20.0].info["answered"][0] <= promise.event.answers


def test_no_label_of_a_test_row_is_seen_and_no_scored_row_is_asked_about(
    images: Dataset, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(images, folder, 20.0)
    seen: list[torch.Tensor] = []
    real = Descent.run

    def watched(self: Descent, network: Any, state: Any, examples: Any, keys: Any) -> Any:
        seen.append(examples.own)
        return real(self, network, state, examples, keys)

    monkeypatch.setattr(Descent, "run", watched)
    blind = replace(images, y_test=np.roll(images.y_test, 1, axis=1))
    second = run(blind, folder, 20.0)
    assert torch.equal(first.predicted["single"], second.predicted["single"])
    (own,) = seen  # of the students: the teachers are kept
    assert second.rows is not None
    assert not set(own.flatten().tolist()) & set(second.rows.tolist())
    assert own.max() >= 0


def test_a_killed_student_ends_in_the_same_bytes(
    images: Dataset, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(images, folder, 20.0).predicted["single"]
    monkeypatch.setattr(pate, "Checkpoint", partial(Checkpoint, every=0.0))
    real, calls = teachers.clipped_sum, iter(range(25))

    def killed(*args: Any) -> Any:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(teachers, "clipped_sum", killed)
    with pytest.raises(KeyboardInterrupt):
        run(images, folder, 20.0)
    calls = iter(range(100 - 25))  # nothing is done twice
    assert torch.equal(run(images, folder, 20.0).predicted["single"], whole)


def test_a_student_without_labels_stays_as_it_began(images: Dataset, folder: Path) -> None:
    none = torch.zeros(2, 30, dtype=torch.bool)
    labels = Labels(~none, none, torch.ones(2, 30, dtype=torch.long))
    task = Task(problem(images), Budget(1.0, DELTA), 2, torch.Generator(), folder, "none")
    found = learner()._student(task, 7, torch.arange(0, 60, 2).expand(2, 30), labels)
    begun = NETWORK.init(noise.generator(7, "student"), 2)
    assert torch.equal(found, problem(images).predict(begun[:, None])[:, 0])


def test_it_refuses_what_it_cannot_do(images: Dataset, folder: Path) -> None:
    with pytest.raises(ValueError, match="threshold must be at most 30"):
        learner(vote=vote(threshold=31.0))
    with pytest.raises(ValueError, match=r"queries = 400 must be at most 299"):
        run(images, folder, 1.0, learner(vote=vote(queries=400)))
    with pytest.raises(ValueError, match="fewest"):
        vote(fewest=101)
    with pytest.raises(ValueError, match="asked"):
        vote(asked=0.5)
    with pytest.raises(ValueError, match="bound"):
        vote(bound="both")
    with pytest.raises(ValueError, match="decay"):
        vote(decay=0.5)
    with pytest.raises(ValueError, match="out of reach"):
        vote().event(Budget(1.0, 0.0))
