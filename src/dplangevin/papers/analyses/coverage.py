"""How often intervals of a released posterior contain the parameter, for data that are drawn from the prior.

The model is logistic regression with ``theta ~ N(0, I/precision)`` and rows on the unit sphere. Three intervals of the
first coordinate are compared, each of them post-processing:

- "released": the centre of the release, with its own width; for OPS, that of Laplace's approximation at the draw;
- "noise added": the same centre, with the variance between two releases on the same data added;
- "simulated": least squares of theta on the centre, over other data sets from the model, which is public.

Differs: the noise-aware DPVI of the reference infers from all noisy gradients, and needs no simulation.
Source: alrawajfeh2025; wang2015, Algorithm 1; jalko2017.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor

from dplangevin import random
from dplangevin.attacks.audit import lower_rate, upper_rate
from dplangevin.checks import count
from dplangevin.methods import Method, Plan, released
from dplangevin.methods.dpvi import Dpvi
from dplangevin.methods.ops import Ops
from dplangevin.privacy import Budget
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC

ERROR = 0.05  # of the Clopper-Pearson limits


@dataclass(frozen=True)
class Coverage:
    """Nominal and actual coverage of intervals from private posteriors, on data from the model."""

    methods: Mapping[str, Ops | Dpvi]  # name -> `Ops` with bound "gdp", or `Dpvi`
    records: int
    features: int
    precision: float  # of the prior, in the model and in the methods
    repeats: int  # data sets for the coverage, and as many for the simulated interval
    epsilons: Sequence[float]  # no privacy is added to them
    delta: float
    levels: Sequence[float]  # nominal coverages, in (0, 1)

    def __post_init__(self) -> None:
        if wrong := [name for name, method in self.methods.items() if method.precision != self.precision]:
            raise ValueError(f"{wrong[0]}: its prior must be the model's, of precision {self.precision:g}")
        count(2, features=self.features)

    def units(self) -> list[str]:
        return [*self.methods]

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        """Return one row for each epsilon, interval and level."""
        rng, method = random.generator(seed, f"coverage/{unit}"), self.methods[unit]
        problem, truth = self.data(rng)
        budgets = [Budget(epsilon, self.delta) for epsilon in (*self.epsilons, math.inf)]
        # two releases on the same data
        (release, plans), (again, _) = (
            released(method, problem, budgets, 2 * self.repeats, rng) for _ in range(2)
        )
        centre, other = (each.theta.double().mean(2)[..., 0].numpy() for each in (release, again))
        without = float(np.square(centre[:, -1] - truth)[: self.repeats].mean())
        rows = []
        for e, (budget, plan) in enumerate(zip(budgets, plans, strict=True)):
            case = {"method": unit, "epsilon": budget.epsilon}
            spread = self.spread(method, plan, release.theta[:, e].double())
            rows += self._compared(case, truth, np.stack([centre[:, e], other[:, e]], 1), spread, without)
        return rows

    def data(self, rng: torch.Generator) -> tuple[Glm, np.ndarray]:
        """Return data sets with parameters from the prior, and the first coordinates of these parameters."""
        sets, n, d = 2 * self.repeats, self.records, self.features
        theta = random.noise(rng, sets, 1, d).double() / math.sqrt(self.precision)
        x = random.noise(rng, sets, n, d).double()
        x = x / x.norm(dim=-1, keepdim=True)
        p = torch.sigmoid((x * theta).sum(-1))
        y = torch.where(random.uniform(rng, sets * n).view(sets, n) < p, 1.0, -1.0)
        return Glm(x.float(), y.float(), LOGISTIC), theta[:, 0, 0].numpy()

    def spread(self, method: Method, plan: Plan, theta: Tensor) -> np.ndarray:
        """Return the variance of the first coordinate ``(S,)`` under each release, theta ``(S, kept, d)``."""
        if isinstance(method, Ops):
            return self._laplace(plan.work.rho, theta[:, 0]).numpy()
        return theta[..., 0].var(1).numpy()

    def _laplace(self, rho: float, theta: Tensor) -> Tensor:
        """Return the variance (S,) of the first coordinate by the Hessian at theta (S, d), expected over the sphere."""
        d, length = self.features, theta.norm(dim=-1, keepdim=True)
        # cos of the angle between a row and theta has the density (1 - c^2)^((d - 3)/2)
        angle = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000 * math.pi
        weight = angle.sin() ** (d - 2)
        p = torch.sigmoid(length * angle.cos())
        curvature = p * (1 - p) * weight / weight.sum()
        along = (curvature * angle.cos() ** 2).sum(-1)
        across = (curvature * angle.sin() ** 2).sum(-1) / max(d - 1, 1)
        share = (theta[:, 0] / length[:, 0]) ** 2
        variances = [1 / (rho * self.records * each + self.precision) for each in (along, across)]
        return share * variances[0] + (1 - share) * variances[1]

    def _compared(
        self,
        case: Mapping[str, Any],
        truth: np.ndarray,
        centre: np.ndarray,
        spread: np.ndarray,
        error_without: float,
    ) -> list[dict[str, Any]]:
        """Return the rows of one epsilon; the second half of the data sets is for the simulated interval.

        truth, spread: (2 repeats,); centre: (2 repeats, 2), of two releases on the same data.
        """
        first, other = slice(self.repeats), slice(self.repeats, None)
        noise = float(np.square(centre[other, 0] - centre[other, 1]).mean() / 2)
        slope, shift = np.polyfit(centre[other, 0], truth[other], 1)
        rest = float(np.square(truth[other] - slope * centre[other, 0] - shift).sum() / (self.repeats - 2))
        mine = centre[first, 0]
        error = float(np.square(mine - truth[first]).mean())
        intervals = {
            "released": (mine, spread[first]),
            "noise added": (mine, spread[first] + noise),
            "simulated": (slope * mine + shift, np.full(self.repeats, rest)),
        }
        rows = []
        for kind, (middle, variance) in intervals.items():
            away = np.abs(truth[first] - middle) / np.sqrt(variance)
            for level in self.levels:
                inside = np.asarray((away <= ndtri((1 + level) / 2)).sum())
                row = {**case, "interval": kind, "level": level, "coverage": float(inside / self.repeats)}
                row["low"] = float(lower_rate(inside, self.repeats, ERROR / 2))
                row["high"] = float(upper_rate(inside, self.repeats, ERROR / 2))
                row |= {"width": float(np.sqrt(variance).mean()), "noise": math.sqrt(noise)}
                row |= {"privacy_share": max(0.0, 1 - error_without / error), "repeats": self.repeats}
                rows.append(row)
        return rows
