"""Canaries: attack epsilon from one training of a network on its own data, beside the proven epsilon.

The network, the data and the settings are those of an experiment.  The noise is that at which the proven epsilon
is the asked one.  A row is one method at one such epsilon, with the columns of `papers.analyses.brackets`.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dplangevin import random
from dplangevin.attacks.canaries import Attacker, OfImages, Planted, with_canaries
from dplangevin.attacks.one_run import one_run
from dplangevin.data import Dataset
from dplangevin.data.fetch import fetch, mirrors, raw_files
from dplangevin.methods import Execution, Method, planned
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.tight import Tight

RAW = Path("data/raw")
NOISE = torch.float32  # precision of the noise, as in conf/experiment/li2019_tab1.yaml
PAIR = (
    "{count:,} random binary images with random labels in place of training images, each in the data with "
    "probability 1/2"
)
STATISTIC = "log-likelihood ratio of all noisy sums, without the minibatches"
GAP = (
    "The attack is loose: it has one run, the bound of many canaries is not tight for sampled Gaussian steps, and the "
    "gradients of other records hide a part of each canary's gradient."
)


@dataclass(frozen=True)
class Canaries:
    """Methods, budgets, data and attack.

    - `methods`: name -> private method whose accountant is `Tight`.
    - `epsilons`: the proven epsilons.
    - `delta`: of proof and attack.
    - `dataset`: name of the data set, for its folder.
    - `files`: raw files of the data set, an entry of conf/dataset.
    - `loader`: function of `folder` that returns the images.
    - `problem`: function of images and the number of seeds that returns the problem.
    - `canaries`, `guesses`: of the attack.
    - `confidence`: of the attack epsilon.
    """

    methods: Mapping[str, Method]
    epsilons: Sequence[float]
    delta: float
    dataset: str
    files: Mapping[str, Any]
    loader: Callable[..., Dataset]
    problem: Callable[..., OfImages]
    canaries: int
    guesses: int
    records: int = 192
    own: int = 64
    every: int = 10
    confidence: float = 0.95

    def units(self) -> list[str]:
        return [f"{name} {epsilon:g}" for name in self.methods for epsilon in self.epsilons]

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        name, epsilon = unit.rsplit(" ", 1)
        rng = random.generator(seed, f"canaries/{unit}/coins and training")
        attacking = random.generator(seed, f"canaries/{unit}/attacker")  # knows nothing of the other stream
        method, problem = self.methods[name], with_canaries(self.images(), self.canaries, attacking)
        (plan,) = planned(method, problem.facts, [Budget(float(epsilon), self.delta)], name)
        promise = plan.guarantee
        proven = Tight().epsilon(promise.event, self.delta, promise.adjacency)
        included = torch.rand(self.canaries, generator=rng) < 0.5
        attacker = Attacker(
            problem, self.canaries, plan.work, attacking, records=self.records, own=self.own, every=self.every
        )
        method.release(Planted(problem, included, attacker), [plan], Execution(1, rng, drawn_in=NOISE))
        found = one_run(attacker.scores.numpy(), included.numpy(), self.delta, self.guesses, self.confidence)
        return [
            {
                "method": name,
                "epsilon_asked": float(epsilon),
                "epsilon_promised": promise.epsilon,
                "epsilon_proven": proven,
                "epsilon_attack": found.epsilon,
                "ratio": found.epsilon / proven,
                "neighbours": promise.adjacency,
                "delta": self.delta,
                "pair": PAIR.format(count=self.canaries),
                "statistic": f"{STATISTIC}; {found.correct} of {found.guesses} guesses are right",
                "runs": 1,
                "confidence": self.confidence,
                "attacked": "problem",
                "one_dimensional": 0,
                "gap": GAP,
            }
        ]

    def images(self) -> OfImages:
        """Return the problem on the images, which are fetched if they are not there."""
        folder = RAW / self.dataset
        fetch(self.dataset, raw_files(self.files), folder, mirrors(os.environ.get("DATA_MIRROR", "")))
        return self.problem(self.loader(folder=folder), 1)
