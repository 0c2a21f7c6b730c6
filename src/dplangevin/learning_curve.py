"""Test accuracy, loss and privacy spent along a chain, and the average of the predictions of its posterior samples."""

from typing import Any

import pandas as pd
import torch
from torch import Tensor

from dplangevin.chains.chain import Chain
from dplangevin.checks import positive, require
from dplangevin.methods import Plan
from dplangevin.plan import TABLES
from dplangevin.prices import spent
from dplangevin.problems import Problem, Sums


class LearningCurve:
    """What is seen of the steps of one chain, which it decides nothing of: it looks at the test rows.

    measured: how often, evenly spread, test accuracy, the mean loss of the minibatches and the privacy spent are taken.
    The predictions at the steps that the plan keeps, if they are several, are averaged, instead of their theta being
    kept.  A plan that is no chain has no curve.

    state: "curve", rows as in `plan.TABLES` without run and epsilon; "summed", ``(S, m, K)``; "losses", ``(2, S)``,
    since the last measurement the sum of the losses of the minibatches' examples and the number of these.
    """

    def __init__(self, problem: Problem, plan: Plan, seeds: int, delta: float, *, measured: int) -> None:
        positive(measured=measured)
        require(measured == int(measured), f"measured must be a whole number, not {measured}")
        self.problem, self.plan, self.delta, self.last = problem, plan, delta, ""
        self.at: set[int] = set()
        self.kept: tuple[int, ...] = ()
        if isinstance(chain := plan.work, Chain):
            steps = len(chain.step)
            self.at = {max(1, round(steps * k / measured)) for k in range(1, measured + 1)}
            self.kept = chain.keep if len(chain.keep) > 1 else ()
        facts = problem.facts
        summed = torch.zeros(seeds, problem.y_test.shape[1], facts.classes) if self.kept else None
        self.state: dict[str, Any] = {"curve": [], "summed": summed, "losses": torch.zeros(2, seeds)}

    def shortened(self, plan: Plan) -> Plan:
        """The plan, with its last iterate alone."""
        return plan._replace(work=plan.work._replace(keep=())) if isinstance(plan.work, Chain) else plan

    @property
    def average(self) -> Tensor | None:
        """Probabilities ``(S, 1, m, K)``, None where one iterate is kept."""
        return (self.state["summed"] / len(self.kept))[:, None] if self.kept else None

    def __call__(self, step: int, theta: Tensor, rows: Tensor, sums: Sums) -> None:
        if sums.loss is not None:
            seen = torch.stack([sums.loss[:, 0], rows[:, 0].float()]).cpu()
            self.state["losses"] = self.state["losses"] + seen
        if step in self.kept:
            self.state["summed"] += self.problem.predict(theta)[:, 0]
        if step in self.at:
            self.measure(step, theta)

    def measure(self, step: int, theta: Tensor) -> None:
        """Append to the curve."""
        total, seen = self.state["losses"]
        right = (self.problem.predict(theta)[:, 0].argmax(-1) == self.problem.y_test).double().mean(-1)
        right = right.where(theta.isfinite().flatten(1).all(1).to(right.device), torch.nan)  # diverged
        facts = self.problem.facts
        found = spent(self.plan, facts, step, self.delta)
        epoch = step * self.plan.work.sampling.size(facts.n) / facts.n
        for seed, loss in enumerate((total / seen.clamp(min=1)).tolist()):
            row = {"seed": seed, "epoch": epoch, "accuracy": float(right[seed]), "loss": loss, **found}
            self.state["curve"].append(row)
        self.state["losses"] = torch.zeros_like(self.state["losses"])
        self.last = f"accuracy {float(right.nanmean()):.4f}, epsilon {found['epsilon_add_remove']:.3g}"

    def shown(self) -> str:
        """The last measurement, for a progress bar."""
        return self.last

    def table(self, run: str, epsilon: float) -> pd.DataFrame:
        rows = [{"run": run, "epsilon": epsilon, **row} for row in self.state["curve"]]
        return pd.DataFrame(rows, columns=TABLES["curve"])
