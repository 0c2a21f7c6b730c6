"""Figure 2 of wang2015's supplement: SGLD and SGNHT, with and without privacy, on a linear regression.

The model is ``y | x ~ N(<x, theta>, 1)`` with prior ``N(0, I/precision)``, so the posterior is normal.

Differs: Theorem 4 needs a bounded gradient, so residuals are clipped to [-h, h] (`problems.losses.huber`). No residual
of these data is clipped within `MARGIN` standard deviations of the posterior mean, nor at the start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch

from dplangevin import random
from dplangevin.methods import Method, released
from dplangevin.methods.dp_sghmc import DpSgnht
from dplangevin.methods.dp_sgld import DpSgldWang2015
from dplangevin.papers.statistics import Interval, t_interval
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.accountants.wang2015 import Wang2015
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import Loss, huber

MARGIN = 8.0


@dataclass(frozen=True)
class Variant:
    """One sampler, which runs with and without privacy."""

    sampler: Literal["sgld", "sgnht"]
    temperature: Literal["printed", "proper"]  # as printed, or with the posterior as its target
    step: float  # without privacy, in units of 1/N


@dataclass(frozen=True)
class Trajectories:
    """Chains on one data set, with and without privacy, that use the same minibatches and normals.

    Rows are uniform on [-`width_i`, `width_i`], rotated by 30 degrees, and labels have uniform noise. Batch size and
    number of passes are both sqrt(N).
    """

    variants: Mapping[str, Variant]
    records: int  # N
    widths: Sequence[float]  # width_1 and width_2, of norm at most 1
    theta_true: Sequence[float]
    label_noise: float
    threshold: float  # h
    precision: float
    epsilon: float
    delta: float
    friction: float
    chains: int  # number of chains; each starts at 0
    samples: int  # number of points stored of each chain, evenly spaced
    settle: float  # first share of the run that is not compared with the posterior
    shown: int  # number of points of the first chain in the rows; a fifth is added at its start

    def units(self) -> list[str]:
        return list(self.variants)

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        """Return the rows of one variant; those of the first begin with the exact moments.

        Along the axes of the posterior, with 95 % Student limits over chains: ratio, the standard deviation over the
        exact one; within, the same about each chain's own mean; shift, the mean minus the exact mean, in exact standard
        deviations. distance: length of the shifts; path: points of the first chain.
        """
        x, y = self.data(seed)
        mean, covariance = self.posterior(x, y)
        inputs, labels = (torch.as_tensor(each, dtype=torch.float32)[None] for each in (x, y))
        problem = Glm(inputs, labels, self.loss)
        budgets = [Budget(self.epsilon, self.delta), Budget(math.inf, self.delta)]
        rng = random.generator(seed, "wang2015_fig2")
        release, plans = released(self.method(self.variants[unit]), problem, budgets, self.chains, rng)
        variant = self.variants[unit]
        base = {"variant": unit, "sampler": variant.sampler, "temperature": variant.temperature}
        rows = moments({"variant": "exact", "epsilon": math.inf}, mean, covariance)
        rows = rows if unit == self.units()[0] else []
        for e, budget in enumerate(budgets):
            event = plans[e].guarantee.event
            private = budget.epsilon < math.inf
            proven = Tight().epsilon(event, self.delta, "replace_one") if private else math.inf
            common = {**base, "epsilon": budget.epsilon, "epsilon_proven": proven}
            rows += self.compare(common, release.theta[:, e].double().numpy(), mean, covariance)
        return rows

    @cached_property
    def loss(self) -> Loss:
        largest = float(np.linalg.norm(self.theta_true)) + self.label_noise
        return huber(self.threshold, largest)

    def method(self, variant: Variant) -> Method:
        args: dict[str, Any] = {"step": variant.step, "precision": self.precision, "samples": self.samples}
        args |= {"burn_in": 0.0, "accountant": Wang2015(), "unit": "smoothness"}
        if variant.sampler == "sgnht":
            return DpSgnht(friction=self.friction, **args)
        return DpSgldWang2015(schedule="phase", temperature=variant.temperature, **args)

    def data(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw x ``(n, 2)``, with rows of norm at most 1, and y ``(n,)``."""
        rng = np.random.default_rng([seed, self.records])
        turn = np.array([[math.sqrt(3), -1], [1, math.sqrt(3)]]) / 2
        x = rng.uniform(-1, 1, (self.records, 2)) * np.asarray(self.widths) @ turn.T
        if (longest := float(np.linalg.norm(self.widths))) > 1:
            raise ValueError(f"widths {list(self.widths)} allow rows of norm {longest:.4g} > 1: lower them")
        spread = rng.uniform(-self.label_noise, self.label_noise, self.records)
        return x, x @ np.asarray(self.theta_true) + spread

    def posterior(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the exact posterior mean ``(2,)`` and covariance ``(2, 2)``."""
        covariance = np.linalg.inv(x.T @ x + self.precision * np.eye(2))
        mean = covariance @ x.T @ y
        reach = MARGIN * np.sqrt(np.einsum("ni,ij,nj->n", x, covariance, x))
        largest = max(float((np.abs(y - x @ mean) + reach).max()), float(np.abs(y).max()))
        if largest > self.threshold:
            raise ValueError(f"residuals reach {largest:.4g} > threshold {self.threshold:g}: raise it")
        return mean, covariance

    def compare(
        self, base: dict[str, Any], theta: np.ndarray, mean: np.ndarray, covariance: np.ndarray
    ) -> list[dict[str, Any]]:
        """Return the rows that compare samples theta ``(R, samples, 2)`` with the exact mean and covariance."""
        steps = np.linspace(0, 1, theta.shape[1] + 1)[1:]  # share of the run
        even = np.linspace(0, theta.shape[1] - 1, self.shown).round().astype(int)
        picked = np.union1d(even, np.arange(min(self.shown // 5, theta.shape[1])))  # more points at the start
        rows = [
            {**base, "kind": "path", "step": steps[i], "theta_1": theta[0, i, 0], "theta_2": theta[0, i, 1]}
            for i in picked
        ]
        late = theta[:, steps > self.settle]
        pooled = late.reshape(-1, 2)
        rows += moments(base, pooled.mean(0), np.cov(pooled.T))
        variances, axes = np.linalg.eigh(covariance)
        scaled = (late - mean) @ axes / np.sqrt(variances)  # (R, kept, 2)
        shifts = scaled.mean((0, 1))
        for i in range(2):
            shift = t_interval(scaled[..., i].mean(1))
            square = t_interval(((scaled[..., i] - shifts[i]) ** 2).mean(1))
            sd = [math.sqrt(max(value, 0.0)) for value in square]
            own = [math.sqrt(max(value, 0.0)) for value in t_interval(scaled[..., i].var(1))]
            for kind, interval in (("ratio", sd), ("within", own), ("shift", shift)):
                rows.append({**base, "kind": kind, "axis": i + 1, **Interval(*interval).columns()})
        rows.append({**base, "kind": "distance", "value": float(np.hypot(*shifts))})
        return rows


def moments(base: dict[str, Any], mean: np.ndarray, covariance: np.ndarray) -> list[dict[str, Any]]:
    """Return one row for the mean ``(2,)`` and one for each row of the covariance ``(2, 2)``."""
    rows: list[dict[str, Any]] = [{**base, "kind": "mean", "theta_1": mean[0], "theta_2": mean[1]}]
    for i, line in enumerate(covariance):
        rows.append({**base, "kind": "covariance", "axis": i + 1, "theta_1": line[0], "theta_2": line[1]})
    return rows
