"""What an experiment adds to the scores of a release: observers return further metrics and rows of further tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch
from torch import Tensor

from dplangevin.checks import count
from dplangevin.methods import Plan, Release
from dplangevin.methods.evaluate import all_scores, mixed, predictive, reliability
from dplangevin.methods.pricing import spent
from dplangevin.pipeline import reference
from dplangevin.pipeline.plan import TABLES, Task
from dplangevin.problems import Facts, Problem, Sums
from dplangevin.problems.chain import Chain

Metrics = Mapping[str, Tensor]
Tables = dict[str, pd.DataFrame]
# diagnostics of a release that are metrics, too, if the method reports them; they are not private
REPORTED = (
    "r_hat", "ess", "answered", "label_accuracy", "teacher_accuracy", "epsilon_data_dependent", "epsilon_released",
)  # fmt: skip


class Observer:
    """An observer that adds nothing. One with `__call__` sees each step, as `problems.chain.Observer`.

    - `tables`: names of the tables that `rows` returns; `repriced` gives stored ones today's prices.
    - `kept`: the plan with the iterates kept that the observer needs; `scored`: those that are scored.
    - `predictions`: in place of those of theta, as `Seen.predicted`; {} for those.
    - `metrics`: further ones ``(S, E)``, beside those so far.
    """

    tables: ClassVar[tuple[str, ...]] = ()

    def kept(self, plan: Plan) -> Plan:
        return plan

    def scored(self, theta: Tensor) -> Tensor:
        return theta

    def predictions(self, seen: "Seen") -> dict[str, Tensor]:
        return {}

    def metrics(self, seen: "Seen", metrics: Metrics) -> dict[str, Tensor]:
        return {}

    def rows(self, seen: "Seen") -> Tables:
        return {}

    @staticmethod
    def repriced(tables: Tables, plan: Plan, facts: Facts, delta: float) -> Tables:
        return tables


class Seen:
    """The release of a task, of S seeds and E budgets, with what is measured of it.

    - `which`: the test rows that are scored.
    - `theta`: (S, E, kept, d), the scored ones of `iterates`; 0 where they are not `finite`, (S, E).
    - `predicted`: (S, E, m, K), "single" by the last iterate or all kept ones, "average" by a network's samples.
    - `metrics`: by name, (S, E); those of a chain that diverged are nan.
    - `notes`: for each budget, what the run did not reach, and how many chains diverged.
    """

    def __init__(
        self, task: Task, problem: Problem, release: Release, part: slice, observers: Sequence[Observer]
    ) -> None:
        self.task, self.problem = task, problem
        self.which: Any = slice(None) if release.rows is None else release.rows
        theta = release.theta[:, part]
        self.finite = theta.isfinite().all(-1).all(-1).cpu()
        self.theta = self.iterates = theta.nan_to_num(0.0, 0.0, 0.0)
        predicted = {} if release.predicted is None else {"single": release.predicted[:, part]}
        for each in observers:
            self.theta = each.scored(self.theta)
            predicted = predicted or each.predictions(self)
        predicted = predicted or {"single": predictive(problem, self.theta)}
        alike = {
            name: p.where(self.finite[..., None, None], 1 / p.shape[-1]) for name, p in predicted.items()
        }
        self.predicted: Metrics = alike  # all classes, by a chain that diverged
        metrics = self.scores(alike.get("average", alike["single"]))
        for each in observers:
            metrics |= each.metrics(self, metrics)
        metrics = {name: value.where(self.finite, torch.nan) for name, value in metrics.items()}
        reports = release.not_private
        self.metrics = metrics | {name: reports[name][:, part] for name in REPORTED if name in reports}
        lost, chains = (~self.finite).sum(0).tolist(), len(theta)
        texts = (f"{count} of {chains} chains diverged" if count else "" for count in lost)
        both = zip(release.not_reached[part], texts, strict=True)
        self.notes = ["; ".join(filter(None, each)) for each in both]

    def scores(self, predicted: Tensor) -> dict[str, Tensor]:
        return all_scores(predicted[:, :, self.which], self.problem.y_test[:, self.which])


class BestEpoch(Observer):
    """The accuracy of the best epoch on the test rows, beside that of the last iterate."""

    def __init__(self, problem: Problem, *_: Any) -> None:
        self.n = problem.facts.n

    def kept(self, plan: Plan) -> Plan:
        return plan._replace(work=plan.work._replace(keep=plan.work.sampling.ends(self.n)))

    def scored(self, theta: Tensor) -> Tensor:
        return theta[:, :, -1:]

    def metrics(self, seen: Seen, metrics: Metrics) -> dict[str, Tensor]:
        epochs = seen.iterates.split(1, 2)
        each = [seen.scores(predictive(seen.problem, theta))["accuracy"] for theta in epochs]
        return {"accuracy_best_epoch": torch.stack(each).amax(0)}


class Mixing(Observer):
    """Diagnostics of chains of a linear model; nan for budgets with a diverged chain, if the seeds share the data."""

    def metrics(self, seen: Seen, metrics: Metrics) -> dict[str, Tensor]:
        shared = seen.problem.shared  # type: ignore[attr-defined]  # of a Glm
        clean = seen.finite.all(0) if shared else seen.finite
        return {name: value.where(clean, torch.nan) for name, value in mixed(seen.theta, shared).items()}


class Distance(Observer):
    """Distances from the exact posterior, a file of `reference.save`."""

    def __init__(self, posterior: Path, scaling: str) -> None:
        self.exact = reference.load(posterior, scaling)

    def metrics(self, seen: Seen, metrics: Metrics) -> dict[str, Tensor]:
        return reference.distances(seen.theta.cpu(), metrics["log_loss"], self.exact)


class LearningCurve(Observer):
    """An observer that measures one chain on the test rows; therefore it must not affect the chain.

    It takes the test accuracy, the mean loss of the minibatches since the last time, and the spent privacy, `measured`
    times. If the plan keeps several iterates, their predictions are averaged, and their theta are not stored.

    - `state`: "curve", rows without run and epsilon; "summed" (S, m, K), the sum of predictions; "losses" (2, S), sum
      and number of the losses of the minibatches' examples since the last measurement.
    """

    tables = "curve", "reliability"

    def __init__(
        self, problem: Problem, plan: Plan, seeds: int, delta: float, *_: Any, measured: int
    ) -> None:
        self.problem, self.plan, self.delta = problem, plan, delta
        count(1, measured=measured)
        self.at: set[int] = set()
        self.averaged_steps: tuple[int, ...] = ()
        if isinstance(chain := plan.work, Chain):
            steps = len(chain.step)
            self.at = {max(1, round(steps * k / measured)) for k in range(1, measured + 1)}
            self.averaged_steps = chain.keep if len(chain.keep) > 1 else ()
        shape = seeds, problem.y_test.shape[1], problem.facts.classes
        summed = torch.zeros(shape) if self.averaged_steps else None
        self.state: dict[str, Any] = {"curve": [], "summed": summed, "losses": torch.zeros(2, seeds)}

    def kept(self, plan: Plan) -> Plan:
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

    def predictions(self, seen: Seen) -> dict[str, Tensor]:
        single = {"single": seen.problem.predict(seen.theta[:, :, -1])}
        return single | ({} if self.average is None else {"average": self.average})

    def metrics(self, seen: Seen, metrics: Metrics) -> dict[str, Tensor]:
        return {f"{name}_single": value for name, value in seen.scores(seen.predicted["single"]).items()}

    def rows(self, seen: Seen) -> Tables:
        """Return the curve, and the bins of confidence of the seeds whose chain has not diverged."""
        names = {"run": seen.task.run.name, "epsilon": seen.task.epsilons[0]}
        y, bins = seen.problem.y_test[:, seen.which], []
        for predictor, value in seen.predicted.items():
            for seed in seen.finite[:, 0].nonzero()[:, 0].tolist():
                one = slice(seed, seed + 1)
                found = reliability(value[one, 0, seen.which], y[one] if len(y) > 1 else y)
                bins += [{**names, "predictor": predictor, **row, "seed": seed} for row in found]
        curve = [names | row for row in self.state["curve"]]
        tables = {"curve": curve, "reliability": bins}
        return {name: pd.DataFrame(rows, columns=TABLES[name]) for name, rows in tables.items()}

    @staticmethod
    def repriced(tables: Tables, plan: Plan, facts: Facts, delta: float) -> Tables:
        curve = tables["curve"]
        if curve.empty:
            return tables
        steps = (curve.epoch.astype(float) * facts.n / plan.work.sampling.size(facts.n)).round().astype(int)
        prices = {step: spent(plan, facts, step, delta) for step in steps.unique()}
        return {**tables, "curve": curve.assign(**pd.DataFrame([prices[step] for step in steps]))}
