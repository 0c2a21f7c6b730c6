"""Networks trained side by side without privacy: teachers on disjoint examples, whose votes are kept, and students."""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot
from tqdm import tqdm

from dplangevin import noise
from dplangevin.cache import Checkpoint, code_hash
from dplangevin.checks import not_negative, positive, require
from dplangevin.data import save_arrays
from dplangevin.data.pixels import scaled
from dplangevin.engine.clipped import clipped_sum
from dplangevin.networks import Network
from dplangevin.training import Task
from dplangevin.training.sgd import cosine

AT_ONCE = 200  # images that a stack classifies at once


class Examples(NamedTuple):
    """own: the images of each network, ``(S, size)``, indices into `images`, -1 for none; labels: ``(S, size)``."""

    images: Tensor  # (n, C, H, W) uint8
    own: Tensor
    labels: Tensor


class State(NamedTuple):
    """After `step` steps: parameters and velocities, ``(S, d)``."""

    step: int
    theta: Tensor
    velocity: Tensor


@dataclass(frozen=True)
class Descent:
    """SGD with momentum: ``v <- momentum v + mean of the minibatch's gradients + decay theta``, ``theta -= eta_t v``.

    eta_t falls from `step` to 0 along a cosine.  Every network of a stack makes `steps` steps on its own examples, in
    minibatches of `batch` of them, shuffled anew each epoch; the last one of an epoch may be smaller, or empty where
    others have more examples.  momentum in [0, 1); decay >= 0, the weight of an L2 penalty.
    """

    step: float
    momentum: float
    decay: float
    batch: int
    steps: int

    def __post_init__(self) -> None:
        positive(step=self.step, batch=self.batch, steps=self.steps)
        not_negative(decay=self.decay)
        require(0 <= self.momentum < 1, f"momentum must be in [0, 1), not {self.momentum}")

    def run(
        self, network: Network, state: State, examples: Examples, keys: Callable[[int], Tensor]
    ) -> Iterator[State]:
        """The states after each step that is left.  keys: numbers in [0, 1), ``(S, size)``, that order an epoch.

        Raises ValueError when a network diverges.
        """
        images, own, labels = examples
        theta, velocity, device = state.theta, state.velocity, state.theta.device
        rates = cosine(self.step, self.steps)
        per_epoch = -(-own.shape[1] // self.batch)
        order = torch.empty(0)
        for t in range(state.step, self.steps):
            epoch, at = divmod(t, per_epoch)
            if at == 0 or t == state.step:
                order = keys(epoch).masked_fill(own < 0, 2.0).argsort(stable=True, dim=-1)
            which = order[:, at * self.batch : (at + 1) * self.batch]
            rows, y = (part.gather(1, which).to(device) for part in (own, labels))
            mask = rows >= 0
            x = scaled(images[rows.clamp_min(0)])
            try:
                sums = clipped_sum(network, theta, x, y, mask, float("inf"))
            except ValueError as error:
                raise ValueError(
                    f"step {t + 1} of {self.steps}: {error} (diverged? lower the step size)"
                ) from error
            mean = sums.gradient / mask.sum(1, keepdim=True).clamp_min(1)
            velocity = self.momentum * velocity + mean + self.decay * theta
            theta = theta - float(rates[t]) * velocity
            yield State(t + 1, theta, velocity)


@dataclass(frozen=True)
class Teachers:
    """`count` teachers, K: training example i belongs to teacher i mod K, fixed beforehand, as the guarantee needs.

    chunk: teachers trained at once, as one stack; no more than a rounding of the result depends on it.
    """

    count: int
    chunk: int
    descent: Descent

    def __post_init__(self) -> None:
        positive(count=self.count, chunk=self.chunk)

    def parts(self, n: int) -> Tensor:
        """The examples of each teacher, ``(K, ceil(n/K))``, -1 for none."""
        require(self.count <= n, f"{self.count} teachers cannot share {n} examples: use {n} or fewer")
        rows = torch.arange(-(-n // self.count) * self.count).view(-1, self.count).T
        return rows.masked_fill(rows >= n, -1).contiguous()

    def votes(self, task: Task, seed: int, queries: Tensor) -> Tensor:
        """How many teachers of each ensemble name each class, ``(S, Q, classes)`` int64, for test rows (S, Q).

        seed: names the random streams; the first ensembles do not depend on how many follow.  The votes are kept in
        `task.folder` under a hash of all that decides them, so that one set of teachers serves every budget; what is
        unfinished has a checkpoint there, and a resumed run ends in the same bytes.
        """
        key = self._key(task, seed, queries)
        kept = task.folder / f"votes_{key}.npz"
        if not kept.exists():
            checkpoint = Checkpoint(task.folder / f"votes_{key}.pt", key)
            save_arrays(kept, {"votes": self._count(task, seed, queries, checkpoint).numpy()})
            checkpoint.remove()
        with np.load(kept, allow_pickle=False) as archive:
            return torch.as_tensor(archive["votes"])

    def _count(self, task: Task, seed: int, queries: Tensor, checkpoint: Checkpoint) -> Tensor:
        problem, network, device = task.problem, task.problem.network, task.problem.device
        images, tests = problem.x, problem.x_test.to(device)
        parts = self.parts(len(images))
        labels = problem.y.cpu()[parts.clamp_min(0)]
        starts = [(s, k) for s in range(task.seeds) for k in range(0, self.count, self.chunk)]
        votes = torch.zeros(*queries.shape, network.classes, dtype=torch.int64)
        fresh = {"at": 0, "step": 0, "voted": 0, "votes": votes}
        state: dict[str, Any] = checkpoint.load() or fresh
        votes = state["votes"]
        steps = self.descent.steps
        done = state["at"] * steps + state["step"]
        with tqdm(
            total=len(starts) * steps, initial=done, desc="teachers", mininterval=1.0, disable=None
        ) as bar:
            for at in range(state["at"], len(starts)):
                s, first = starts[at]
                part = slice(first, first + self.chunk)
                if state["step"] == 0:
                    theta = network.init(noise.generator(seed, f"teachers/{s}"), self.count)[part].clone()
                    state |= {"theta": theta, "velocity": torch.zeros_like(theta)}
                now = State(state["step"], state["theta"].to(device), state["velocity"].to(device))
                examples = Examples(images, parts[part], labels[part])

                def keys(epoch: int, s: int = s, part: slice = part) -> Tensor:
                    rng = noise.generator(seed, f"teachers/{s}/epoch/{epoch}")
                    return torch.rand(parts.shape, generator=rng)[part]

                for after in self.descent.run(network, now, examples, keys):
                    now = after
                    bar.update()
                    checkpoint.save(partial(stored, now, at=at, voted=0, votes=votes))
                for voted in range(state["voted"], queries.shape[1], AT_ONCE):
                    some = slice(voted, voted + AT_ONCE)
                    x = scaled(tests[queries[s, some].to(device)])[None]
                    choice = network.logits(now.theta, x).argmax(-1).cpu()  # (chunk, rows)
                    votes[s, some] += one_hot(choice, network.classes).sum(0)
                    checkpoint.save(partial(stored, now, at=at, voted=voted + AT_ONCE, votes=votes))
                state = {"step": 0, "voted": 0}
        return votes

    def _key(self, task: Task, seed: int, queries: Tensor) -> str:
        problem, network = task.problem, task.problem.network
        digest = hashlib.sha256(queries.numpy().tobytes())
        for array in (problem.x, problem.y, problem.x_test):
            digest.update(array.cpu().numpy().tobytes())
        inputs = [
            code_hash(__name__),
            digest.hexdigest(),
            seed,
            task.seeds,
            problem.device.type,
            asdict(self),
        ]
        inputs += [str(network.module), network.shape, network.classes]
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:32]


def stored(state: State, **more: Any) -> dict[str, Any]:
    """A state, and what else there is to keep, as a checkpoint takes it."""
    return {"step": state.step, "theta": state.theta.cpu(), "velocity": state.velocity.cpu(), **more}
