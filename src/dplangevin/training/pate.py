"""Private aggregation of teacher ensembles of networks (Papernot et al. 2018)."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor
from tqdm import tqdm

from dplangevin import noise
from dplangevin.cache import Checkpoint
from dplangevin.checks import require
from dplangevin.training import Task, Trained
from dplangevin.training.confident import Confident, Labels, Votes
from dplangevin.training.teachers import Descent, Examples, State, Teachers, stored

ASSUMPTIONS = (
    "each example's teacher is fixed beforehand",
    "public unlabelled rows: the even test rows; the odd ones are scored",
    "training and noise of the vote chosen on training rows, threshold as published, without accounting",
)


@dataclass(frozen=True)
class Pate:
    """Teachers on disjoint examples label public images by a noisy vote; a student learns from these labels alone.

    The public images are the even test rows without their labels, of which each seed asks about `vote.queries` in an
    order of its own; only the odd rows are scored, so none that a student has seen.  Budgets share teachers, queries
    and standard normals.
    Differs: Papernot et al. train the student semi-supervised, with virtual adversarial training, on all public images;
    here it is supervised, on those with a label.  They halve the test rows in their order, in which the second half of
    MNIST's is the harder one.
    """

    budgeted: ClassVar[bool] = True
    shares: ClassVar[bool] = True
    teachers: Teachers
    vote: Confident
    student: Descent

    def __post_init__(self) -> None:
        most, threshold = self.teachers.count, self.vote.threshold
        require(
            threshold <= most, f"threshold must be at most {most}, the number of teachers, not {threshold}"
        )

    def __call__(self, task: Task) -> Trained:
        """The students; `info` tells how many labels, what share of them and of the teachers' votes was right, and the
        data-dependent epsilon of this run (which is private itself, and by Renyi divergence, so that a tight price
        without a look at the votes can be below it) and its release."""
        seed = int(torch.randint(2**62, (), generator=task.rng))  # names all streams below
        queries, votes = self._votes(task, seed)
        labels, guarantee, std, spent, released = self.vote(votes, task.budget, ASSUMPTIONS)
        truth = task.problem.y_test
        answers = truth[queries]  # (S, Q)
        answered = labels.answered.sum(1)
        right = (labels.winner == answers[:, : labels.winner.shape[1]]) & labels.answered
        agreeing = votes.counts.gather(-1, answers[..., None])[..., 0].mean(1)
        info = {
            "answered": answered.tolist(),
            "label_accuracy": (right.sum(1) / answered.double()).tolist(),
            "teacher_accuracy": (agreeing / self.teachers.count).tolist(),
            "epsilon_data_dependent": spent.tolist(),
            "epsilon_released": released.tolist(),
            "answer_std": [std] * task.seeds,
        }
        predicted = {"single": self._student(task, seed, queries, labels)}
        return Trained(predicted, [], guarantee, {}, info, rows=torch.arange(1, len(truth), 2))

    def _votes(self, task: Task, seed: int) -> tuple[Tensor, Votes]:
        """The queries, test rows (S, Q), and the teachers' votes on them."""
        public = torch.arange(0, len(task.problem.y_test), 2)
        size = self.vote.queries
        require(size <= len(public), f"queries = {size} must be at most {len(public)}, half of the test rows")
        rngs = [noise.generator(seed, f"queries/{s}") for s in range(task.seeds)]
        queries = torch.stack([public[torch.randperm(len(public), generator=rng)[:size]] for rng in rngs])
        counts = self.teachers.votes(task, seed, queries).double()
        tests, answers, release = (
            torch.stack([torch.randn(shape, generator=rng, dtype=torch.float64) for rng in rngs])
            for shape in (queries.shape[1:], counts.shape[1:], ())
        )
        return queries, Votes(counts, tests, answers, release.numpy())

    def _student(self, task: Task, seed: int, queries: Tensor, labels: Labels) -> Tensor:
        """Probabilities of the students on all test rows, (S, m, K); one without a label stays as it began."""
        most = max(1, int(labels.answered.sum(1).max()))
        order = (~labels.answered).long().argsort(stable=True, dim=1)[:, :most]
        own = queries.gather(1, order).masked_fill(~labels.answered.gather(1, order), -1)
        problem = task.problem
        examples = Examples(problem.x_test.to(problem.device), own, labels.winner.gather(1, order))
        checkpoint = Checkpoint(task.folder / f"{task.key}.pt", task.key)
        theta = problem.network.init(noise.generator(seed, "student"), task.seeds)
        start = checkpoint.load() or stored(State(0, theta, torch.zeros_like(theta)))
        now = State(start["step"], start["theta"].to(problem.device), start["velocity"].to(problem.device))

        def keys(epoch: int) -> Tensor:
            return torch.rand(own.shape, generator=noise.generator(seed, f"student/epoch/{epoch}"))

        left = self.student.run(problem.network, now, examples, keys)
        bar = {"total": self.student.steps, "initial": now.step, "desc": "students", "mininterval": 1.0}
        for after in tqdm(left, **bar, disable=None):
            now = after
            checkpoint.save(partial(stored, now))
        return problem.predict(now.theta[:, None])[:, 0]
