"""Test accuracy, loss and spent privacy along a chain, and the average prediction of its samples."""

from typing import Any

import pandas as pd
import torch
from torch import Tensor

from dplangevin.checks import positive, require
from dplangevin.methods import Plan
from dplangevin.methods.prices import spent
from dplangevin.pipeline.plan import TABLES
from dplangevin.problems import Problem, Sums
from dplangevin.problems.chain import Chain


class LearningCurve:
    """An observer that measures one chain on the test rows; therefore it must not affect the chain.

    If the plan keeps several iterates, their predictions are averaged, and their theta are not stored.

    - `measured`: > 0, number of measurements, evenly spread over the steps. Each takes the test accuracy, the mean
      loss of the minibatches since the last measurement, and the spent privacy.
    - `state`: "curve", rows as in `plan.TABLES` without run and epsilon; "summed" (S, m, K), the sum of predictions;
      "losses" (2, S), sum and number of the losses of the minibatches' examples since the last measurement.
    """

    def __init__(self, problem: Problem, plan: Plan, seeds: int, delta: float, *, measured: int) -> None:
        positive(measured=measured)
        require(measured == int(measured), f"measured must be a whole number, not {measured}")
        self.problem, self.plan, self.delta, self.last = problem, plan, delta, ""
        self.at: set[int] = set()
        self.averaged_steps: tuple[int, ...] = ()
        if isinstance(chain := plan.work, Chain):
            steps = len(chain.step)
            self.at = {max(1, round(steps * k / measured)) for k in range(1, measured + 1)}
            self.averaged_steps = chain.keep if len(chain.keep) > 1 else ()
        facts = problem.facts
        summed = torch.zeros(seeds, problem.y_test.shape[1], facts.classes) if self.averaged_steps else None
        self.state: dict[str, Any] = {"curve": [], "summed": summed, "losses": torch.zeros(2, seeds)}

    def shortened(self, plan: Plan) -> Plan:
        """Return the plan with only its last iterate kept."""
        return plan._replace(work=plan.work._replace(keep=())) if isinstance(plan.work, Chain) else plan

    @property
    def average(self) -> Tensor | None:
        """Averaged probabilities ``(S, 1, m, K)``; None if one iterate is kept."""
        return (self.state["summed"] / len(self.averaged_steps))[:, None] if self.averaged_steps else None

    def __call__(self, step: int, theta: Tensor, rows: Tensor, sums: Sums) -> None:
        if sums.loss is not None:
            seen = torch.stack([sums.loss[:, 0], rows[:, 0].float()]).cpu()
            self.state["losses"] = self.state["losses"] + seen
        if step in self.averaged_steps:
            self.state["summed"] += self.problem.predict(theta)[:, 0]
        if step in self.at:
            self.measure(step, theta)

    def measure(self, step: int, theta: Tensor) -> None:
        """Append one row for each seed to the curve."""
        total, seen = self.state["losses"]
        right = (self.problem.predict(theta)[:, 0].argmax(-1) == self.problem.y_test).double().mean(-1)
        right = right.where(theta.isfinite().flatten(1).all(1).to(right.device), torch.nan)  # diverged
        facts = self.problem.facts
        prices = spent(self.plan, facts, step, self.delta)
        epoch = step * self.plan.work.sampling.size(facts.n) / facts.n
        for seed, loss in enumerate((total / seen.clamp(min=1)).tolist()):
            row = {"seed": seed, "epoch": epoch, "accuracy": float(right[seed]), "loss": loss, **prices}
            self.state["curve"].append(row)
        self.state["losses"] = torch.zeros_like(self.state["losses"])
        self.last = f"accuracy {float(right.nanmean()):.4f}, epsilon {prices['epsilon_add_remove']:.3g}"

    def shown(self) -> str:
        """Return the last measurement as text for a progress bar."""
        return self.last

    def table(self, run: str, epsilon: float) -> pd.DataFrame:
        """Return the curve as `plan.TABLES["curve"]`."""
        rows = [{"run": run, "epsilon": epsilon, **row} for row in self.state["curve"]]
        return pd.DataFrame(rows, columns=TABLES["curve"])
