"""Distance between the law of one released posterior sample (OPS) and the exact posterior, in one and two dimensions.

The parameter space is divided into K cells of equal posterior probability, by quadrature. The shares p_k of n draws of
the sampler that the experiments use, one from each chain, give

    tv     sum |p_k - 1/K|/2, a lower bound of the total variation distance up to sampling error, about sqrt(K/(2 pi n))
    limit  tv + sqrt(ln(20)/(2n)), above that distance on the cells with 95 % confidence (McDiarmid 1989)
    ratio  the largest |log(K p_k)|, with limits that hold for all cells at once with 95 % confidence

They do not bound the largest log-ratio of the two densities, on which a pure-DP promise rests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import chi2

from dplangevin import random
from dplangevin.attacks.audit import lower_rate, upper_rate
from dplangevin.methods import released
from dplangevin.methods.ops import Ops
from dplangevin.privacy import Budget
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC

CONFIDENCE = 0.95
GAUSSIAN_REACH = 7.0  # lattice of an unbounded space: this many prior standard deviations


@dataclass(frozen=True)
class OpsDistance:
    """Draws of several OPS methods on a small logistic regression whose posterior is known."""

    points: Mapping[str, Sequence[Sequence[float]]]  # dimension d, "1" or "2" -> rows (n, d), ||x|| <= 1
    labels: Sequence[float]  # (n,) in {-1, 1}
    copies: int  # how often each row occurs in the data set
    methods: Mapping[str, Ops]
    epsilons: Sequence[float]
    delta: float
    draws: int  # independent chains for each case
    cells: Mapping[str, int]  # dimension -> cells on each axis
    lattice: Mapping[str, int]  # dimension -> lattice points on each axis

    def units(self) -> list[str]:
        return [f"{name} {dimension}" for name in self.methods for dimension in self.points]

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        name, dimension = unit.rsplit(" ", 1)
        method, d = self.methods[name], int(dimension)
        x = torch.tensor(self.points[dimension], dtype=torch.float32).repeat(self.copies, 1)
        y = torch.tensor(self.labels, dtype=torch.float32).repeat(self.copies)
        problem = Glm(x[None], y[None], LOGISTIC)
        budgets = [Budget(epsilon, self.delta) for epsilon in self.epsilons]
        rng = random.generator(seed, f"ops_distance/{unit}")
        release, plans = released(method, problem, budgets, self.draws, rng)
        rows = []
        for e, budget in enumerate(budgets):
            rho = plans[e].work.rho
            counts = self.counts(method, problem, rho, release.theta[:, e, 0, :].double().numpy(), d)
            r_hat = float(release.not_private["r_hat"][0, e])
            case = {"sampler": name, "dimension": d, "epsilon": budget.epsilon, "rho": rho, "r_hat": r_hat}
            rows.append({**case, **distances(counts)})
        return rows

    def counts(self, method: Ops, problem: Glm, rho: float, theta: np.ndarray, d: int) -> np.ndarray:
        """Count the draws theta ``(n, d)`` in each cell of equal posterior probability, ``(cells^d,)``; rho tempers."""
        gdp = method.bound == "gdp"
        end = GAUSSIAN_REACH / math.sqrt(method.precision) if gdp else method.radius
        size, cells = self.lattice[str(d)], self.cells[str(d)]
        axis = (np.arange(size) + 0.5) / size * 2 * end - end
        grid = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), -1)
        x, y = problem.x[0].double().numpy(), problem.y[0].double().numpy()
        distinct, times = np.unique(np.column_stack([x, y]), axis=0, return_counts=True)
        value = sum(
            n * np.logaddexp(0.0, -row[-1] * (grid @ row[:-1]))
            for row, n in zip(distinct, times, strict=True)
        )
        ridge = method.precision * (1.0 if gdp else rho) / 2 * (grid**2).sum(-1)
        log_density = -rho * value - ridge
        inside = (grid**2).sum(-1) <= end**2 if not gdp else np.ones(log_density.shape, dtype=bool)
        mass = np.where(inside, np.exp(log_density - log_density[inside].max()), 0.0)
        first = mass.reshape(size, -1).sum(1)
        cell = (_distribution(axis, first, theta[:, 0], end) * cells).astype(int).clip(0, cells - 1)
        if d == 2:
            column = np.searchsorted(axis, theta[:, 0]).clip(1, size - 1)
            column -= (theta[:, 0] - axis[column - 1]) < (
                axis[column] - theta[:, 0]
            )  # the nearest lattice point
            second = np.empty(len(theta))
            for i in np.unique(column):
                near = column == i
                second[near] = _distribution(axis, mass[i], theta[near, 1], end)
            cell = cell * cells + (second * cells).astype(int).clip(0, cells - 1)
        return np.bincount(cell, minlength=cells**d)


def _distribution(axis: np.ndarray, mass: np.ndarray, at: np.ndarray, end: float) -> np.ndarray:
    """Return the distribution function of the lattice masses, in [0, 1], at points `at` of [-end, end]."""
    edges = np.append(axis - (axis[1] - axis[0]) / 2, end)
    below = np.concatenate([[0.0], np.cumsum(mass)])
    return np.asarray(np.interp(at, edges, below / below[-1]))


def distances(counts: np.ndarray) -> dict[str, float]:
    """Compute the distances of the module, and the p-value of a chi-square test of an exact sampler."""
    n, k = int(counts.sum()), len(counts)
    shares = counts / n
    error = (1 - CONFIDENCE) / (2 * k)
    low, high = lower_rate(counts, n, error), upper_rate(counts, n, error)
    with np.errstate(divide="ignore"):
        sides = np.log(k * np.stack([low, shares, high]))
    tv = float(np.abs(shares - 1 / k).sum() / 2)
    square = float(n * k * ((shares - 1 / k) ** 2).sum())
    return {
        "draws": n,
        "cells": k,
        "tv": tv,
        "tv_if_exact": math.sqrt(k / (2 * math.pi * n)),
        "tv_limit": tv + math.sqrt(-math.log(1 - CONFIDENCE) / (2 * n)),
        "ratio": float(np.abs(sides[1]).max()),
        "ratio_low": float(np.maximum(np.maximum(sides[0], -sides[2]), 0.0).max()),
        "ratio_high": float(np.maximum(-sides[0], sides[2]).max()),
        "p_value": float(chi2.sf(square, k - 1)),
    }
