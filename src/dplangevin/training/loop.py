"""Poisson-sampled chains of networks with their learning curves: what the learners of networks share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dplangevin.cache import Checkpoint
from dplangevin.chains.chain import Chain, run
from dplangevin.chains.sampling import Sampling
from dplangevin.checks import positive, require
from dplangevin.problems import Sums
from dplangevin.problems.network import NetworkProblem
from dplangevin.training import Task
from dplangevin.training.prices import Prices


@dataclass(frozen=True)
class Steps:
    """Poisson samples of expected size `batch` for `epochs` over the data, see `chains.sampling.Sampling`.

    measured: how often, evenly spread, the test accuracy and the privacy spent are taken; that looks at the test rows
    and decides nothing.
    """

    batch: int
    epochs: float
    measured: int = 20

    def __post_init__(self) -> None:
        positive(measured=self.measured)
        require(self.measured == int(self.measured), f"measured must be a whole number, not {self.measured}")
        _ = self.sampling

    @property
    def sampling(self) -> Sampling:
        return Sampling("poisson", self.batch, self.epochs)

    def rate(self, n: int) -> float:
        return self.sampling.rate(n)

    def count(self, n: int) -> int:
        return self.sampling.steps(n)

    def measurements(self, n: int) -> set[int]:
        """Steps (1-based) after which the networks are measured, the last one among them."""
        steps = self.count(n)
        return {max(1, round(steps * k / self.measured)) for k in range(1, self.measured + 1)}

    def run(
        self, task: Task, chain: Chain, prices: Prices, average: Sequence[int] = ()
    ) -> tuple[dict[str, Tensor], list[dict[str, float]]]:
        """Probabilities on the test rows by predictor, and the learning curve; see `Trained`.

        average: steps (1-based) whose probabilities "average" is the mean of; none, no average.  The state is kept on
        disk now and then, and a run that finds one goes on from it to the same bytes.  ValueError when a chain
        diverges.
        """
        problem = task.problem
        curve = LearningCurve(
            problem, self.batch, self.measurements(problem.facts.n), prices, set(average), task.seeds
        )
        checkpoint = Checkpoint(task.folder / f"{task.key}.pt", task.key)
        theta = run(
            problem, [chain], task.seeds, task.rng,
            observe=curve, checkpoint=checkpoint, progress=lambda: curve.shown,
        )  # fmt: skip
        predicted = {"single": problem.predict(theta[:, :, -1])[:, 0]}
        if average:
            predicted["average"] = curve.state["summed"] / len(set(average))
        return predicted, curve.state["curve"]


class LearningCurve:
    """Test accuracy, mean loss of the minibatches and privacy spent, at some steps; sums of predictions at others.

    state: "curve", rows as in `Trained`; "summed", ``(S, m, K)``; "losses", ``(2, S)``, since the last measurement the
    sum of the losses of the minibatches' examples and the number of these.
    """

    def __init__(
        self,
        problem: NetworkProblem,
        batch: int,
        measured: set[int],
        prices: Prices,
        average: set[int],
        seeds: int,
    ) -> None:
        self.problem, self.batch, self.measured = problem, batch, measured
        self.prices, self.average, self.shown = prices, average, ""
        summed = torch.zeros(seeds, len(problem.x_test), problem.facts.classes) if average else None
        self.state: dict[str, Any] = {"curve": [], "summed": summed, "losses": torch.zeros(2, seeds)}

    def __call__(self, step: int, theta: Tensor, mask: Tensor, sums: Sums) -> None:
        assert sums.loss is not None
        seen = torch.stack([sums.loss[:, 0], mask[:, 0].sum(-1).float()]).cpu()
        self.state["losses"] = self.state["losses"] + seen
        if step in self.average:
            self.state["summed"] += self.problem.predict(theta)[:, 0]
        if step in self.measured:
            self.measure(step, theta)

    def measure(self, step: int, theta: Tensor) -> None:
        """Append to the learning curve."""
        total, seen = self.state["losses"]
        right = (self.problem.predict(theta)[:, 0].argmax(-1) == self.problem.y_test).double().mean(-1)
        spent = self.prices.after(step)
        epoch = step * self.batch / self.problem.facts.n
        for seed, loss in enumerate((total / seen.clamp(min=1)).tolist()):
            row = {"seed": seed, "epoch": epoch, "accuracy": float(right[seed]), "loss": loss, **spent}
            self.state["curve"].append(row)
        self.state["losses"] = torch.zeros_like(self.state["losses"])
        self.shown = f"accuracy {float(right.mean()):.4f}, epsilon {spent['epsilon_add_remove']:.3g}"
