"""How teachers and students learn: ridge fits of linear models, or networks trained side by side."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

from dplangevin import files, random
from dplangevin.checks import not_negative, positive, require, settings
from dplangevin.data import save_arrays
from dplangevin.files import Checkpoint
from dplangevin.methods import Workspace
from dplangevin.problems import Facts, Problem
from dplangevin.problems.glm import Glm
from dplangevin.problems.network import NetworkProblem, as_inputs
from dplangevin.samplers.chains.steps import Steps
from dplangevin.samplers.minimise import private_minimum, reachable

AT_ONCE = 200  # number of queries that a stack of networks classifies together


class Labels(NamedTuple):
    """The votes on Q queries: tested, answered, and the class that won the noisy vote, each ``(S, E, Q)``."""

    asked: Tensor
    answered: Tensor
    winner: Tensor


@dataclass(frozen=True)
class RidgeLearner:
    """Ridge fits of a linear model: ``argmin sum_i phi(theta x_i, y_i) + ridge/2 ||theta||^2``, 0 without records.

    A fit depends only on its own rows, bit for bit, whatever is fitted beside it: see `private_minimum`.
    """

    ridge: float = 0.1

    def __post_init__(self) -> None:
        positive(ridge=self.ridge)

    def check(self, facts: Facts) -> None:
        fault = f"pate needs classes to vote for, which the {facts.linear.name} loss has not: use a classification loss"
        require(facts.linear.classifies, fault)

    def votes(self, problem: Problem, count: int, queries: Tensor, seed: int, workspace: Workspace) -> Tensor:
        """Return how many of `count` teachers vote for each class, ``(S, Q, K)``, on test rows `queries` ``(S, Q)``."""
        assert isinstance(problem, Glm)
        size = math.ceil(problem.n / count)
        pad = size * count - problem.n  # rows of zeros, which do not change a fit
        x = F.pad(problem.x, (0, 0, 0, pad)).unflatten(1, (size, count)).transpose(1, 2)
        y = F.pad(problem.y, (0, pad)).unflatten(1, (size, count)).transpose(1, 2)
        found = self._fit(problem, x.flatten(0, 1).contiguous(), y.flatten(0, 1).contiguous())
        fits = found.reshape(len(problem.x), -1, problem.features)
        margins = (_public_features(problem, queries.to(fits.device)) @ fits.mT).unflatten(
            -1, (count, problem.classes)
        )
        choice = margins.argmax(-1) if problem.classes > 1 else (margins[..., 0] > 0).long()
        return torch.stack([(choice == k).sum(-1) for k in range(problem.facts.classes)], -1).cpu()

    def students(
        self, problem: Problem, queries: Tensor, labels: Labels, seed: int, workspace: Workspace
    ) -> Tensor:
        """Return fits ``(S, E, d)`` to the answered queries, which are test rows. Without an answer theta is 0."""
        assert isinstance(problem, Glm)
        answered, winner = labels.answered.to(problem.device), labels.winner.to(problem.device)
        here = answered[..., None]  # (S, E, Q, 1): unanswered rows become 0, which changes no fit
        x = _public_features(problem, queries.to(problem.device))[:, None] * here
        y = (2 * winner - 1 if problem.classes == 1 else winner) * answered
        return self._fit(problem, x.flatten(0, 1), y.flatten(0, 1).to(x.dtype)).view(*here.shape[:2], -1)

    def _fit(self, problem: Glm, x: Tensor, y: Tensor) -> Tensor:
        each = Glm(x, y, problem.loss, row_bound=problem.row_bound)
        exact: Any = {"dtype": torch.float64, "device": x.device}
        ridge = torch.tensor([self.ridge], **exact)
        bound = torch.tensor([reachable(each.facts, self.ridge, 0.0)], **exact)
        linear = torch.zeros(len(x), 1, problem.d, device=x.device)
        return private_minimum(each, ridge, linear, bound)[:, 0].float()


def _public_features(problem: Glm, queries: Tensor) -> Tensor:
    """Return the public rows that are queries, ``(S, Q, features)``."""
    assert problem.x_test is not None
    rows = problem.x_test.expand(len(queries), -1, -1)
    return rows.gather(1, queries[..., None].expand(-1, -1, problem.features))


@dataclass(frozen=True)
class Descent:
    """SGD with momentum, for a stack of networks.

    One step is ``v <- momentum v + mean of the minibatch's gradients + decay theta``, then ``theta -= eta_t v``, where
    eta_t falls from `step` to 0 along a cosine.  Every network of the stack makes `steps` steps on its own examples, in
    an order that is shuffled anew in each epoch.  A minibatch is empty where other networks have more examples.
    `chunk` teachers are trained together, which affects only rounding.
    """

    step: float
    momentum: float
    decay: float
    batch: int
    steps: int
    chunk: int = 50

    def __post_init__(self) -> None:
        settings(self)
        positive(batch=self.batch, chunk=self.chunk)
        not_negative(decay=self.decay)

    def check(self, facts: Facts) -> None:
        require(facts.loss is None, "Descent trains networks, not linear models: use RidgeLearner")

    def train(
        self,
        problem: NetworkProblem,
        state: dict[str, Any],
        own: Tensor,
        keys: Callable[[int], Tensor],
        checkpoint: Checkpoint,
        bar: tqdm,
    ) -> Tensor:
        """Return theta ``(S, d)`` after the steps that `state` leaves; the state is saved as it goes.

        Where a step is not finite, a network stays, with velocity 0: an error would stop all for the records of one.

        - `state`: "theta" and "velocity" ``(S, d)`` after "step" steps, and what else is saved with them.
        - `own`: (S, size). Indices of each network's examples; -1 for none.
        - `keys`: Returns numbers in [0, 1), ``(S, size)``, whose order is the order of the examples in an epoch.
        """
        theta, velocity = state["theta"].to(problem.device), state["velocity"].to(problem.device)
        rates = Steps(self.step, schedule="cosine").sizes(problem.facts, self.steps)
        per_epoch = -(-own.shape[1] // self.batch)
        order = torch.empty(0)

        def saved() -> dict[str, Any]:
            return {**state, "step": t + 1, "theta": theta.cpu(), "velocity": velocity.cpu()}

        for t in range(state["step"], self.steps):
            epoch, at = divmod(t, per_epoch)
            if at == 0 or t == state["step"]:
                order = keys(epoch).masked_fill(own < 0, 2.0).argsort(stable=True, dim=-1)
            rows = own.gather(1, order[:, at * self.batch : (at + 1) * self.batch]).to(theta.device)
            mask = rows >= 0
            sums = problem.clipped_sum(theta[:, None], rows.clamp_min(0), mask[:, None], None)
            mean = sums.gradient[:, 0].to(theta.dtype) / mask.sum(1, keepdim=True).clamp_min(1)
            velocity = self.momentum * velocity + mean + self.decay * theta
            after = theta - float(rates[t]) * velocity
            sound = after.isfinite().all(-1, keepdim=True)
            theta, velocity = torch.where(sound, after, theta), torch.where(sound, velocity, 0.0)
            bar.update()
            checkpoint.save(saved, force=t + 1 == self.steps)
        return theta

    def votes(self, problem: Problem, count: int, queries: Tensor, seed: int, workspace: Workspace) -> Tensor:
        """Return the votes ``(S, Q, K)``: a file of the workspace if it has the same inputs, else by training."""
        assert isinstance(problem, NetworkProblem)
        key = self._key(problem, count, queries, seed, workspace.code)

        def make(path: Path) -> None:
            checkpoint = Checkpoint(path.with_suffix(".pt"), key)
            save_arrays(path, {"votes": self._count(problem, count, queries, seed, checkpoint).numpy()})
            checkpoint.remove()

        stored = files.made_file(workspace.folder / f"votes_{key}.npz", make)
        with np.load(stored, allow_pickle=False) as archive:
            return torch.as_tensor(archive["votes"])

    def students(
        self, problem: Problem, queries: Tensor, labels: Labels, seed: int, workspace: Workspace
    ) -> Tensor:
        assert isinstance(problem, NetworkProblem)
        found = []
        for e in range(labels.answered.shape[1]):
            answered, winner = labels.answered[:, e], labels.winner[:, e]
            most = max(1, int(answered.sum(-1).max()))
            # the answered queries come first
            order = (~answered).long().argsort(dim=-1, stable=True)[:, :most]
            own = torch.arange(order.numel()).view(order.shape).masked_fill(~answered.gather(1, order), -1)
            x, y = problem.x_test[queries.gather(1, order).flatten()], winner.gather(1, order).flatten()
            taught = replace(problem, x=x.to(problem.device), y=y.to(problem.device))

            def keys(epoch: int, own: Tensor = own) -> Tensor:
                return torch.rand(own.shape, generator=random.generator(seed, f"student/epoch/{epoch}"))

            checkpoint = workspace.checkpoint(f"student{e}")
            theta = problem.init(len(queries), random.generator(seed, "student"))
            state = checkpoint.load() or {"step": 0, "theta": theta, "velocity": torch.zeros_like(theta)}
            with _bar("students", self.steps, state["step"]) as bar:
                found.append(self.train(taught, state, own, keys, checkpoint, bar))
        return torch.stack(found, 1)

    def _count(
        self, problem: NetworkProblem, count: int, queries: Tensor, seed: int, checkpoint: Checkpoint
    ) -> Tensor:
        network, n = problem.network, len(problem.x)
        parts = torch.arange(-(-n // count) * count).view(-1, count).T  # (count, size)
        parts = parts.masked_fill(parts >= n, -1)
        starts = [(s, k) for s in range(len(queries)) for k in range(0, count, self.chunk)]
        votes = torch.zeros(*queries.shape, network.classes, dtype=torch.int64)
        state: dict[str, Any] = checkpoint.load() or {"at": 0, "votes": votes}
        first, votes = state["at"], state["votes"]
        done = first * self.steps + state.get("step", 0)
        with _bar("teachers", len(starts) * self.steps, done) as bar:
            for at, (s, k) in enumerate(starts[first:], first):
                part = slice(k, k + self.chunk)
                if "theta" not in state:
                    theta = problem.init(count, random.generator(seed, f"teachers/{s}"))[part].clone()
                    state = {"at": at, "votes": votes, "step": 0, "theta": theta}
                    state["velocity"] = torch.zeros_like(theta)

                def keys(epoch: int, s: int = s, part: slice = part) -> Tensor:
                    rng = random.generator(seed, f"teachers/{s}/epoch/{epoch}")
                    return torch.rand(parts.shape, generator=rng)[part]

                theta, state = self.train(problem, state, parts[part], keys, checkpoint, bar), {}
                for some in torch.arange(queries.shape[1]).split(AT_ONCE):
                    x = as_inputs(problem.x_test[queries[s, some]].to(problem.device))[None]
                    choice = network.logits(theta, x).argmax(-1).cpu()  # (chunk, rows)
                    votes[s, some] += F.one_hot(choice, network.classes).sum(0)
        return votes

    def _key(self, problem: NetworkProblem, count: int, queries: Tensor, seed: int, code: str) -> str:
        module = problem.network.module
        template = nn.utils.parameters_to_vector(module.parameters()).detach()
        digest = hashlib.sha256()
        for array in (queries, problem.x, problem.y, problem.x_test, template):
            digest.update(array.cpu().numpy().tobytes())
        inputs = [code, digest.hexdigest(), count, list(queries.shape), seed, asdict(self)]
        inputs += [problem.pretrained, problem.device.type, str(module)]
        return files.key([*inputs, problem.network.shape, problem.network.classes])


def _bar(name: str, total: int, done: int) -> tqdm:
    return tqdm(total=total, initial=done, desc=name, mininterval=1.0, disable=None)


Learner = RidgeLearner | Descent
