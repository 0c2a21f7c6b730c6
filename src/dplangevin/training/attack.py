"""The worst pair of image sets for one private step of a network, run through the learners' own code.

All images are white and have label 0, but for the record: label 1 under D, 0 under D'.  The adversary knows all else
and chooses the parameters before the step.

- "add_remove": the last layer's bias makes class 0 certain, so that an image with label 0 has gradient 0: under D' it
  is as if the record had been taken away while N stays, and nothing but the noise hides it under D.
- "replace_one": of two classes, gradients with labels 0 and 1 have opposite directions whatever the parameters, and
  both are longer than the clip, so D and D' are twice the clip apart.

The clip is to be far below the norms of the gradients of every layer.  Then a sum clipped layer by layer would move by
up to sqrt(layers) clips, not by one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dplangevin.cache import Checkpoint
from dplangevin.data import Dataset
from dplangevin.data.pixels import scaled
from dplangevin.engine.clipped import Sums
from dplangevin.networks import Network
from dplangevin.privacy import Adjacency, Budget, Guarantee
from dplangevin.problems.network import NetworkProblem
from dplangevin.training import Learner, Task

CERTAIN = 200.0  # logits: e^-200 is 0 in float32


@dataclass(frozen=True)
class Chosen(Network):
    """A network whose every run starts from parameters (d,) of the adversary's choice."""

    theta: Tensor

    def init(self, rng: torch.Generator, seeds: int) -> Tensor:
        return self.theta.expand(seeds, -1).clone()


class Attack(NamedTuple):
    """A statistic of the released parameters, ``(runs,)`` under D and under D', and what the learner promised."""

    first: np.ndarray
    second: np.ndarray
    guarantee: Guarantee


def chosen(network: Network, adjacency: Adjacency, rng: torch.Generator) -> Chosen:
    """The network at the adversary's parameters: drawn as any, and class 0 certain for "add_remove".

    ValueError unless it has two classes, in a last layer Linear with a bias.
    """
    last = list(network.module.modules())[-1]
    if network.classes != 2 or not isinstance(last, nn.Linear) or last.bias is None:
        raise ValueError(
            f"the attack needs two classes and a linear last layer with a bias, not {network.classes}, {last}"
        )
    theta = network.init(rng, 1)[0]
    if adjacency == "add_remove":
        theta[-2] += CERTAIN
    return Chosen(network.module, network.shape, network.classes, theta)


def pair(network: Network, records: int) -> tuple[Dataset, Dataset]:
    """D and D', of which record 0 differs."""
    x, meta = np.full((records, *network.shape), 255, np.uint8), {"name": "pair", "classes": 2}
    sets = []
    for label in (1, 0):
        y = np.zeros(records, np.int64)
        y[0] = label
        sets.append(Dataset.from_arrays(x, y, x[:1], y[:1], meta))
    return sets[0], sets[1]


def attack(
    learner: Learner,
    engine: Callable[..., Sums],
    network: Network,
    *,
    clip: float,
    records: int,
    runs: int,
    budget: Budget,
    adjacency: Adjacency,
    rng: torch.Generator,
    folder: Path,
) -> Attack:
    """Run a learner of one step from the same parameters, all runs as one stack, on either set of the pair.

    The statistic is the move of the parameters along the difference that the record makes to the sum of the clipped
    gradients, by `engine`, the learner's own `clipped_sum`: of the two mixtures of Gaussians that a step releases, the
    likelihood ratio is a function of it that does not decrease.
    folder: where the learner leaves its last iterate.
    """
    start = chosen(network, adjacency, rng)
    sets = pair(network, records)
    sums = [_sum(engine, start, images, clip) for images in sets]
    along = sums[1] - sums[0]  # steps go down the gradient
    found, guarantees = [], []
    for name, images in zip(("first", "second"), sets, strict=True):
        problem = NetworkProblem.of_images(start, images, torch.device("cpu"))
        task = Task(problem, budget, runs, rng, folder, name)
        guarantees.append(learner(task).guarantee)
        state = Checkpoint(folder / f"{name}.pt", name).load()
        assert state is not None, "the learner left no last iterate"
        found.append(
            ((state["theta"][:, 0] - start.theta).double() @ (along / along.norm()).double()).numpy()
        )
    return Attack(found[0], found[1], guarantees[0])


def _sum(engine: Callable[..., Sums], network: Chosen, images: Dataset, clip: float) -> Tensor:
    """The sum of all clipped gradients, (d,)."""
    x, y = scaled(torch.as_tensor(images.x_train)), torch.as_tensor(images.y_train)
    mask = torch.ones(1, images.n, dtype=torch.bool)
    return engine(network, network.theta[None], x, y, mask, clip).gradient[0]
