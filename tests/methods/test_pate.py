"""PATE: Algorithm 1 by hand, what a budget affords, teachers and students against others' fits, resumed runs."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dp_accounting import NonPrivateDpEvent
from scenarios import linear, logistic, rows
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from stopping import Stop
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from dplangevin import methods, random
from dplangevin.data import Dataset
from dplangevin.data.pixels import scaled
from dplangevin.files import Checkpoint
from dplangevin.methods import Execution, Plan, Release, Workspace, released, teachers
from dplangevin.methods.pate import Caps, Confident, Pate, Votes
from dplangevin.methods.teachers import Descent, Labels, RidgeLearner
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.papernot2018 import Papernot2018
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import PateDpEvent
from dplangevin.problems.architectures import build
from dplangevin.problems.network import NetworkProblem

DELTA = 1e-5
LAYERS: list[dict[str, Any]] = [{"conv": 3, "kernel": 3, "stride": 2}, {"activation": "tanh"}, {"linear": 10}]
NETWORK = build(LAYERS, (1, 8, 8), 10)
QUERIES = torch.arange(40).view(2, 20)


def vote(**settings: Any) -> Confident:
    values = {"queries": 200, "fewest": 10, "asked": 2.0, "threshold": 18.0, "answer_std": 4.0, "ratio": 3.0}
    return Confident(**{"accountant": Tight(), "adjacency": "add_remove", **values, **settings})


def ballot(queries: int = 60, count: int = 30, seeds: int = 3, unsure: float = 0.1) -> Votes:
    """Votes for one of ten classes, more or less agreed on."""
    rng = np.random.default_rng(4)
    share = rng.dirichlet(np.full(10, unsure), size=(seeds, queries))
    counts = torch.tensor(rng.multinomial(count, share)).double()
    shapes = (seeds, queries), counts.shape, (seeds, 1)
    return Votes(counts, *(torch.tensor(rng.normal(size=shape)) for shape in shapes))


# The vote


@pytest.mark.parametrize("std", [0.0, 3.0])
def test_labels_are_those_of_algorithm_1_one_query_at_a_time(std: float) -> None:
    votes, budget = ballot(), Budget(1.0, DELTA)
    caps = [Caps(50, 12, std, budget), Caps(5, 5, 1.0, budget)]
    found = vote(threshold=20.0).label(votes, caps)
    assert found.asked.shape == (3, 2, 60)
    for s, (e, cap) in ((s, pair) for s in range(3) for pair in enumerate(caps)):
        labels: dict[int, int] = {}
        tested = 0
        for q in range(cap.queries):
            if len(labels) == cap.answers:
                break
            tested += 1
            n = votes.counts[s, q].numpy()
            if n.max() + 3.0 * cap.answer_std * float(votes.tests[s, q]) >= 20:
                labels[q] = int(np.argmax(n + cap.answer_std * votes.answers[s, q].numpy()))
        assert tested == int(found.asked[s, e].sum())
        where = found.answered[s, e].nonzero()[:, 0].tolist()
        assert {q: int(found.winner[s, e, q]) for q in where} == labels
    assert (found.answered[:, 0].sum(-1) > 0).all()


@pytest.mark.parametrize("accountant", [Tight(), Papernot2018()])
def test_every_budget_is_spent_whole_under_either_adjacency(accountant: Any) -> None:
    made = vote(accountant=accountant)
    events = [made.event(Budget(e, DELTA)) for e in (0.22, 1.97, 8.0, 50.0)]
    for event, epsilon in zip(events, (0.22, 1.97, 8.0, 50.0), strict=True):
        for adjacency in ("add_remove", "replace_one"):
            assert epsilon * (1 - 1e-4) < accountant.epsilon(event, DELTA, adjacency) <= epsilon
            assert Tight().epsilon(event, DELTA, adjacency) <= epsilon
        assert event.queries == 2 * event.answers <= 200
        assert event.threshold_std == pytest.approx(3 * event.answer_std)
    assert events[0].answers == 10  # the fewest, at more noise than was asked for
    assert events[0].answer_std > 4
    answers = events[2].answers
    assert 10 < answers < 100 == events[3].answers  # the last: the most, at less noise
    assert 4 * math.sqrt(answers / (answers + 1)) < events[2].answer_std <= 4
    assert events[3].answer_std < 4
    more = PateDpEvent(2 * (answers + 1), answers + 1, 12.0, 4.0)
    assert accountant.epsilon(more, DELTA, "add_remove") > 8.0  # one answer more would not fit


def test_fewer_rows_lower_the_caps() -> None:
    made = vote(fewest=90)
    few = made.among(75)
    assert (few.queries, few.fewest, few.most) == (75, 37, 37)
    assert made.among(300) == made
    event = vote(queries=11, fewest=10, asked=1.1).event(Budget(1.0, DELTA))  # in floats 10 x 1.1 > 11
    assert (event.queries, event.answers) == (11, 10)


# Linear models


def problem(shared: bool = False, seeds: int = 3, public: int = 80, labels: bool = False) -> Any:
    made = logistic(seeds, n=410, shared=shared)
    extra = torch.tensor(rows(len(made.x), public, made.features, seed=5), dtype=torch.float32)
    y_test = (extra @ torch.linspace(-2, 3, 5) > 0).long() if labels else made.y_test
    return replace(made, x_test=extra, y_test=y_test)


def ridge(count: int = 20, weight: float = 0.5, **settings: Any) -> Pate:
    """At most 15 of 60 queries are answered under a budget."""
    values = {"queries": 60, "fewest": 15, "asked": 4.0, "threshold": 14.0, "ratio": 2.0}
    made = vote(**{**values, "accountant": Papernot2018(), "adjacency": "replace_one", **settings})
    return Pate(count, RidgeLearner(weight), made, RidgeLearner(weight), "all")


def run(found: Pate, data: Any, *epsilons: float, seeds: int = 3) -> tuple[Release, list[Plan]]:
    budgets = [Budget(e, DELTA) for e in epsilons]
    return released(found, data, budgets, seeds, random.generator(0, "pate"))


@pytest.mark.parametrize("shared", [True, False])
def test_without_noise_it_is_algorithm_1_by_hand(shared: bool) -> None:
    """Teachers and student by scikit-learn; every row with enough votes is answered."""
    data, found = problem(shared, labels=True), ridge()
    release, (plan,) = run(found, data, math.inf)
    _, queries, _ = found._draws(data, 3, random.generator(0, "pate"), 60)
    assert data.x_test is not None
    for r in range(3):
        tensors = data.x, data.y, data.x_test, data.y_test
        x, y, tests, truth = (t[r % len(t)].double().numpy() for t in tensors)
        public, truth = tests[queries[r]], truth[queries[r]]
        votes = np.zeros((60, 2))
        for k in range(20):
            fit = LogisticRegression(C=2.0, fit_intercept=False, solver="newton-cholesky")
            fit.fit(x[k::20], y[k::20])
            votes[np.arange(60), (fit.decision_function(public) > 0).astype(int)] += 1
        answered = np.flatnonzero(votes.max(1) >= 14)
        assert 0 < len(answered) == int(release.not_private["answered"][r, 0]) < 60
        label = votes[answered].argmax(1)
        student = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10, solver="newton-cholesky")
        student.fit(public[answered], 2 * label - 1)
        assert np.allclose(release.theta[r, 0, 0].numpy(), student.coef_[0], atol=1e-3)
        assert float(release.not_private["label_accuracy"][r, 0]) == pytest.approx(
            (label == truth[answered]).mean()
        )
        agreeing = votes[np.arange(60), truth.astype(int)].mean() / 20
        assert float(release.not_private["teacher_accuracy"][r, 0]) == pytest.approx(agreeing)
    assert isinstance(plan.guarantee.event, NonPrivateDpEvent)
    assert (release.rows, release.predicted) == (None, None)


def test_data_dependent_epsilon_is_never_above_the_claim_and_its_release_is_above_it_on_average() -> None:
    data = problem(shared=True)
    release, plans = run(ridge(threshold=12.0), data, 0.05, 1.0, 10.0, 40.0, seeds=40)
    spent, published = release.not_private["epsilon_data_dependent"], release.not_private["epsilon_released"]
    assert (spent <= torch.tensor([plan.guarantee.epsilon for plan in plans]) * (1 + 1e-6)).all()
    assert (published.mean(0) > spent.mean(0)).all()
    assert (release.not_private["answered"] <= 15).all()
    assert release.theta.shape == (40, 4, 1, 5)
    assert [plan.settings["noise_std"] for plan in plans] == [p.guarantee.event.answer_std for p in plans]


# Networks


@pytest.fixture(scope="module")
def data() -> Any:
    x, y = load_digits(return_X_y=True)
    x = (x * 15).astype(np.uint8).reshape(-1, 1, 8, 8)
    found = Dataset.from_arrays(x[:122], y[:122], x[122:302], y[122:302], {"name": "digits", "classes": 10})
    return NetworkProblem.of_images(found, 1, NETWORK)


def group(**settings: Any) -> Descent:
    values = {"step": 0.1, "momentum": 0.9, "decay": 0.01, "batch": 8, "steps": 7, "chunk": 4}
    return Descent(**{**values, **settings})


def learner(**settings: Any) -> Pate:
    made = vote(queries=60, fewest=5, threshold=4.0, **settings)
    return Pate(6, group(steps=30), made, Descent(0.05, 0.9, 0.0, 10, 40), "odd")


def by_optimiser(theta: torch.Tensor, batches: list[tuple], descent: Descent) -> torch.Tensor:
    """torch.optim.SGD on one network, whose batches are (pixels, labels)."""
    parameters, start = {}, 0
    for name, p in NETWORK.module.named_parameters():
        part = theta[start : start + p.numel()].view(p.shape).clone()
        parameters[name], start = part.requires_grad_(), start + p.numel()
    more: dict[str, Any] = {"momentum": descent.momentum, "weight_decay": descent.decay}
    optimiser = torch.optim.SGD(parameters.values(), lr=1.0, **more)
    for t, (x, y) in enumerate(batches):
        optimiser.param_groups[0]["lr"] = descent.step * (1 + np.cos(np.pi * t / descent.steps)) / 2
        optimiser.zero_grad()
        cross_entropy(functional_call(NETWORK.module, parameters, scaled(x)), y).backward()
        optimiser.step()
    return torch.cat([p.detach().flatten() for p in parameters.values()])


def test_votes_are_those_of_teachers_trained_alone_on_every_sixth_example(data: Any, tmp_path: Path) -> None:
    found = group()
    votes = found.votes(data, 6, QUERIES, 5, Workspace(tmp_path, ""))
    expected = torch.zeros(2, 20, 10, dtype=torch.int64)
    for s in range(2):
        theta = NETWORK.init(random.generator(5, f"teachers/{s}"), 6)
        keys = [torch.rand(6, 21, generator=random.generator(5, f"teachers/{s}/epoch/{e}")) for e in range(3)]
        for k in range(6):
            mine = torch.arange(k, 122, 6)  # 21 examples for the first two, 20 for the others
            order = [row for key in keys for row in mine[key[k, : len(mine)].argsort()].split(8)]
            batches = [(data.x[batch], data.y[batch]) for batch in order]
            one = by_optimiser(theta[k], batches[:7], found)[None]
            choice = NETWORK.logits(one, scaled(data.x_test[QUERIES[s]])[None])[0].argmax(-1)
            expected[s, torch.arange(20), choice] += 1
    assert torch.equal(votes, expected)
    assert len(votes.flatten(0, 1).unique(dim=0)) > 5  # not all alike


def killed_after(calls: int, function: Any) -> Any:
    """`function`, which a kill interrupts at one call."""
    left: Iterator[int] = iter(range(calls))

    def run(*args: Any, **settings: Any) -> Any:
        if next(left, None) is None:
            raise Stop
        return function(*args, **settings)

    return run


def test_votes_are_kept_for_other_budgets_and_made_anew_for_another_seed(
    data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = group().votes(data, 6, QUERIES, 5, Workspace(tmp_path, "one"))
    fewer = group().votes(data, 6, QUERIES[:1], 5, Workspace(tmp_path, "one"))
    assert torch.equal(fewer[0], first[0])  # whatever the number of ensembles
    assert not list(tmp_path.glob("*.pt"))
    monkeypatch.setattr(NetworkProblem, "clipped_sum", killed_after(0, None))
    assert torch.equal(group().votes(data, 6, QUERIES, 5, Workspace(tmp_path, "another")), first)
    for count, seed in ((6, 6), (7, 5)):
        with pytest.raises(Stop):
            group().votes(data, count, QUERIES, seed, Workspace(tmp_path, "one"))


@pytest.mark.parametrize(("where", "calls", "left"), [("clipped_sum", 17, 4 * 7 - 17), ("one_hot", 5, 3 * 3)])
def test_killed_teachers_end_in_the_same_bytes(
    data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, calls: int, left: int
) -> None:
    """Stop in a later of four stacks: none of its seven steps is done twice, only the votes of a stack."""
    monkeypatch.setattr(teachers, "Checkpoint", partial(Checkpoint, every=0.0))
    monkeypatch.setattr(teachers, "AT_ONCE", 7)
    owner: Any = NetworkProblem if where == "clipped_sum" else teachers.F
    real = getattr(owner, where)
    whole, killed = (tmp_path / name for name in ("whole", "killed"))
    group().votes(data, 6, QUERIES, 5, Workspace(whole, ""))
    monkeypatch.setattr(owner, where, killed_after(calls, real))
    with pytest.raises(Stop):
        group().votes(data, 6, QUERIES, 5, Workspace(killed, ""))
    monkeypatch.setattr(owner, where, killed_after(left, real))
    group().votes(data, 6, QUERIES, 5, Workspace(killed, ""))
    one, other = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in (whole, killed))
    assert one == other


def test_budgets_run_together_are_those_run_alone_and_a_killed_student_ends_in_the_same_bytes(
    data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, epsilons = learner(), (0.05, 20.0, math.inf)
    plans = [found.plan(data.facts, Budget(e, DELTA)) for e in epsilons]

    def go(some: list[Plan], key: str) -> Release:
        rng, workspace = random.generator(0, "pate"), Workspace(tmp_path, key)
        return found.release(data, some, Execution(2, rng, workspace=workspace))

    whole = go(plans, "whole")
    assert whole.predicted is not None
    assert whole.rows is not None
    assert whole.predicted.shape == (2, 3, 180, 10)
    assert torch.equal(whole.predicted, data.predict(whole.theta[:, :, 0]))
    assert whole.rows.tolist() == list(range(1, 180, 2))
    assert len(list(tmp_path.glob("votes_*.npz"))) == 1
    for e, plan in enumerate(plans):
        alone = go([plan], f"alone{e}")
        assert torch.equal(alone.theta[:, 0], whole.theta[:, e])
        assert all(
            torch.equal(alone.not_private[name][:, 0], whole.not_private[name][:, e])
            for name in whole.not_private
        )
    accuracy = whole.not_private["label_accuracy"].mean(0)
    assert accuracy[0] < accuracy[1] <= accuracy[2]
    monkeypatch.setattr(methods, "Checkpoint", partial(Checkpoint, every=0.0))
    real = NetworkProblem.clipped_sum
    monkeypatch.setattr(NetworkProblem, "clipped_sum", killed_after(55, real))
    with pytest.raises(Stop):
        go(plans, "killed")
    left = killed_after(3 * 40 - 55, real)  # nothing is done twice
    monkeypatch.setattr(NetworkProblem, "clipped_sum", left)
    assert torch.equal(go(plans, "killed").theta, whole.theta)


def test_no_label_of_a_test_row_is_seen_no_scored_row_is_asked_about_and_noise_is_that_of_random(
    data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = random.noise
    x = data.x_test.clone()
    x[1::2] = 0
    blind = replace(data, x_test=x, y_test=data.y_test.roll(1, 1))
    first, second = (run(learner(), each, 20.0, seeds=2)[0] for each in (data, blind))
    assert torch.equal(first.theta, second.theta)
    assert float(first.not_private["answered"].min()) > 0
    _, _, whole = learner()._draws(data, 2, random.generator(0, "pate"), 60)
    monkeypatch.setattr(random, "noise", lambda *args, **more: real(*args, **more) / 2)
    _, _, half = learner()._draws(data, 2, random.generator(0, "pate"), 60)
    assert all(torch.equal(a, 2 * b) for a, b in zip(whole, half, strict=True))


@pytest.mark.parametrize("kind", ["network", "linear"])
def test_a_student_without_labels_stays_as_it_began(kind: str, data: Any, tmp_path: Path) -> None:
    data = data if kind == "network" else problem()
    fit: Any = group() if kind == "network" else RidgeLearner(0.5)
    none = torch.zeros(3, 1, 20, dtype=torch.bool)
    labels = Labels(~none, none, torch.ones(3, 1, 20, dtype=torch.long))
    theta = fit.students(data, torch.arange(20).expand(3, 20), labels, 7, Workspace(tmp_path, "none"))[:, 0]
    start = data.init(3, random.generator(7, "student"))
    shrunk = (theta / start).nan_to_num(1.0)  # by the penalty on their length
    assert torch.allclose(shrunk, shrunk[0, 0].expand(theta.shape))


REFUSED: dict[str, Any] = {
    "needs a linear model with a convex loss, not a network": lambda data: ridge().plan(
        data.facts, Budget(1.0, DELTA)
    ),
    "Descent trains networks": lambda _: run(learner(), problem(), 1.0),
    "classes to vote for": lambda _: run(ridge(), linear(), 1.0),
    "public rows for its queries": lambda _: run(ridge(), logistic(), 1.0),
    "3 public rows and asks 4": lambda _: run(ridge(), problem(public=3), 1.0),
    "teachers = 500": lambda _: run(ridge(500), problem(), 1.0),
    "out of reach": lambda _: ridge().plan(problem().facts, Budget(1.0, 0.0)),
    "threshold must be at most 20": lambda _: ridge(threshold=21.0),
    "scored": lambda _: replace(ridge(), scored="even"),  # type: ignore[arg-type]
    "fewest": lambda _: vote(fewest=101),
}


def test_a_teacher_that_diverges_changes_no_other(
    data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = NetworkProblem.clipped_sum
    whole = group().votes(data, 6, QUERIES, 5, Workspace(tmp_path, "whole"))

    def diverging(self: NetworkProblem, *given: Any) -> Any:
        found = real(self, *given)
        found.gradient[0] = math.nan
        return found

    monkeypatch.setattr(NetworkProblem, "clipped_sum", diverging)
    moved = (group().votes(data, 6, QUERIES, 5, Workspace(tmp_path / "one", "")) - whole).abs()
    assert 0 < int(moved.sum(-1).max()) <= 4  # of two teachers, the first of each stack


@pytest.mark.parametrize("match", REFUSED)
def test_it_refuses_what_it_cannot_do(match: str, data: Any) -> None:
    with pytest.raises(ValueError, match=match):
        REFUSED[match](data)
