"""Learners of networks, one per file: hyperparameters in the constructor; data, budget and randomness in the call."""

from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from dplangevin.privacy import Budget, Guarantee
from dplangevin.problems.network import NetworkProblem


class Task(NamedTuple):
    """What is to be learned, and on what.

    seeds: independent runs, the leading axis S of every tensor.  key: names all that decides the result (a hash).
    folder: for pieces of unfinished work, each under a name with `key` in it or one of its own.
    """

    problem: NetworkProblem
    budget: Budget
    seeds: int
    rng: torch.Generator
    folder: Path
    key: str


class Trained(NamedTuple):
    """What a learner gives out, and what is known of it.

    predicted: probabilities of the test rows ``(S, m, K)`` on the CPU, by predictor: "single", the last iterate, and
    for a sampler "average", of its posterior samples.  curve: rows with seed, epoch, accuracy, loss, epsilon_add_remove
    and epsilon_replace_one.  guarantee: what was promised and done.  settings: columns that are the same for all seeds
    (step, noise_multiplier ...).  info: columns with a value per seed, NOT private and never a result.  violated: what
    the guarantee needs and this run did not reach, "" if nothing.  rows: the test rows that count, None for all.
    """

    predicted: dict[str, Tensor]
    curve: list[dict[str, float]]
    guarantee: Guarantee
    settings: dict[str, float]
    info: dict[str, list[float]]
    violated: str = ""
    rows: Tensor | None = None


class Learner(Protocol):
    """budgeted: False for one that has no privacy to spend.  shares: budgets share work, so one follows the other."""

    budgeted: ClassVar[bool]
    shares: ClassVar[bool]

    def __call__(self, task: Task) -> Trained:
        """Train `task.seeds` networks; ValueError where the budget is out of reach."""
        ...
