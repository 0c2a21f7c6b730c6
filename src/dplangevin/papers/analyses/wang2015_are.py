"""Propositions 2 and 4 of wang2015: the error of one posterior sample against its asymptotic formula, as n grows.

The model is logistic regression in two dimensions, with rows from a few points, so a data set is a table of counts. OPS
draws from ``exp(-rho U)`` on ``||theta|| <= D``, ``rho = min(1, eps/4B)`` and ``B = ln(1 + e^D)``. It should obey::

    sqrt(n) (theta - theta_0) -> N(0, (1 + 1/rho) I^-1)

with the Fisher information I of one record at theta_0: I^-1 from the posterior mean, I^-1/rho from the spread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from dplangevin import random
from dplangevin.checks import require
from dplangevin.methods import released
from dplangevin.methods.ops import Ops
from dplangevin.papers.analyses.mechanisms import posterior_weight
from dplangevin.papers.statistics import t_interval
from dplangevin.privacy import Budget
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC
from dplangevin.samplers.posterior import Sampler

WIDTH = 6.0  # half-width of the grid in standard deviations of the posterior
CHUNK = 100  # data sets whose grids are in memory together


@dataclass(frozen=True)
class Efficiency:
    """Mean squared errors of OPS over many data sets, divided by the formula, with 95 % limits.

    Kinds: "mean" and "spread", the two parts of the error; "exact", from both; "sample", of one draw of each posterior
    on a lattice; "hmc", of draws by `methods.ops` itself. Errors are means over ``I^(1/2) (theta - theta_0)``.
    """

    points: Sequence[Sequence[float]]  # rows x (K, 2), ||x|| <= 1, drawn with equal probability
    theta0: Sequence[float]  # inside the ball
    radius: float  # D
    epsilons: Sequence[float]
    sizes: Sequence[int]  # the values of n
    repeats: int  # number of data sets at each n
    grid: int  # lattice points on each axis
    hmc_size: int  # n of the kind "hmc"
    hmc_repeats: int  # the first data sets, for the kind "hmc"
    sampler: Sampler  # of the kind "hmc"

    def __post_init__(self) -> None:
        inside = float(np.linalg.norm(self.theta0)) < self.radius
        longest = float(np.linalg.norm(self.points, axis=1).max())
        require(inside, f"theta0 = {list(self.theta0)} must lie inside the ball of radius {self.radius}")
        require(longest <= 1 + 1e-9, f"a point has norm {longest:.4g} > 1: scale the points")

    @cached_property
    def x(self) -> np.ndarray:
        return np.asarray(self.points, dtype=float)

    @cached_property
    def fisher(self) -> np.ndarray:
        """The exact Fisher information I of one record at theta_0, ``(2, 2)``: a mean over the points."""
        chance = 1 / (1 + np.exp(-self.x @ np.asarray(self.theta0)))
        return (self.x * (chance * (1 - chance))[:, None]).T @ self.x / len(self.x)

    def units(self) -> list[str]:
        return [*(f"n {n}" for n in self.sizes), "hmc"]

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        if unit == "hmc":
            return self.hmc(seed)
        n = int(unit.removeprefix("n "))
        counts = self.counts(n, self.repeats, seed)
        rng = np.random.default_rng([seed, n])
        rows = []
        for epsilon in self.epsilons:
            rho = posterior_weight(epsilon, self.radius)
            parts = [
                self.posterior(counts[:, at : at + CHUNK], n, rho, rng)
                for at in range(0, self.repeats, CHUNK)
            ]
            mean, spread, sample = (np.concatenate(part) for part in zip(*parts, strict=True))
            centre, wide = self.squares(mean), np.einsum("rij,ij->r", spread, self.fisher) / 2
            found = {
                "sample": self.squares(sample) / (1 + 1 / rho),
                "exact": (centre + wide) / (1 + 1 / rho),
                "mean": centre,
                "spread": wide * rho,
            }
            rows += [self.row(n, epsilon, kind, n * values) for kind, values in found.items()]
        return rows

    def row(self, n: int, epsilon: float, kind: str, values: np.ndarray) -> dict[str, Any]:
        rho = posterior_weight(epsilon, self.radius)
        base = {"kind": kind, "records": n, "epsilon": epsilon, "rho": rho, "tempered": n * rho}
        return {**base, "factor": 1 + 1 / rho, "repeats": len(values), **t_interval(values).columns()}

    def squares(self, theta: np.ndarray) -> np.ndarray:
        """Return ``||I^(1/2) (theta - theta_0)||^2/2`` for each row of theta, ``(R,)``."""
        error = theta - np.asarray(self.theta0)
        return np.einsum("ri,ij,rj->r", error, self.fisher, error) / 2

    def counts(self, n: int, repeats: int, seed: int) -> np.ndarray:
        """Draw the numbers of records at each point with label 1 and with -1, ``(2, R, K)``, of R data sets."""
        rng = np.random.default_rng([seed, n, 1])
        drawn = rng.multinomial(n, np.full(len(self.x), 1 / len(self.x)), size=repeats)
        yes = rng.binomial(drawn, 1 / (1 + np.exp(-self.x @ np.asarray(self.theta0))))
        return np.stack([yes, drawn - yes])

    def posterior(
        self, counts: np.ndarray, n: int, rho: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute mean ``(R, 2)``, covariance ``(R, 2, 2)`` and one draw ``(R, 2)`` of each posterior."""
        information = n * self.fisher
        yes, no = counts
        centre = self.estimates(yes, no, np.linalg.inv(information))
        half = WIDTH * np.sqrt(np.diag(np.linalg.inv(rho * information)))
        low = np.clip(centre - half, -self.radius, self.radius)  # (R, 2)
        width = (np.clip(centre + half, -self.radius, self.radius) - low) / self.grid
        cells = (np.arange(self.grid) + 0.5)[None]
        first, second = (low[:, i, None] + width[:, i, None] * cells for i in range(2))  # (R, G)
        weight = self.weights(yes, no, first, second, rho)
        cumulative = weight.reshape(len(weight), -1).cumsum(1)
        cell = (cumulative < rng.random((len(weight), 1))).sum(1).clip(max=self.grid**2 - 1)
        at = np.stack(np.divmod(cell, self.grid), 1) + rng.random((len(weight), 2))
        return *lattice_moments(weight, first, second), low + width * at

    def estimates(self, yes: np.ndarray, no: np.ndarray, inverse: np.ndarray) -> np.ndarray:
        """Return the estimates ``(R, 2)`` after 25 scoring steps that start at theta_0 and stay in the ball."""
        theta = np.tile(np.asarray(self.theta0, dtype=float), (len(yes), 1))
        for _ in range(25):
            chance = 1 / (1 + np.exp(-theta @ self.x.T))
            theta = theta + (yes - (yes + no) * chance) @ self.x @ inverse
            norm = np.linalg.norm(theta, axis=1, keepdims=True)
            theta *= np.minimum(1, self.radius / np.maximum(norm, 1e-300))
        return theta

    def weights(
        self, yes: np.ndarray, no: np.ndarray, first: np.ndarray, second: np.ndarray, rho: float
    ) -> np.ndarray:
        """Return the posterior ``(R, G, G)`` on the lattice of two axes ``(R, G)``, as weights that sum to one."""
        log = np.zeros((*first.shape, self.grid))
        for k, (a, b) in enumerate(self.x):
            margin = a * first[:, :, None] + b * second[:, None]
            softplus = np.log1p(np.exp(margin))  # |margin| <= sqrt(2) radius
            log += yes[:, k, None, None] * margin - (yes + no)[:, k, None, None] * softplus
        log *= rho
        log[first[:, :, None] ** 2 + second[:, None] ** 2 > self.radius**2] = -math.inf
        weight = np.exp(log - log.max((1, 2), keepdims=True)).reshape(len(log), -1)
        weight /= weight.sum(1, keepdims=True)
        return weight.reshape(log.shape)

    def hmc(self, seed: int) -> list[dict[str, Any]]:
        """Return the rows of the kind "hmc", with draws of `methods.ops` at one n."""
        n, repeats = self.hmc_size, self.hmc_repeats
        counts = self.counts(n, self.repeats, seed)[:, :repeats]
        labelled = np.concatenate([self.x, self.x]), np.repeat([1.0, -1.0], len(self.x))
        rows = np.stack([np.repeat(np.arange(len(labelled[0])), c) for c in np.concatenate([*counts], 1)])
        x, y = (torch.as_tensor(part[rows], dtype=torch.float32) for part in labelled)
        method = Ops(bound="paper", radius=self.radius, precision=0.0, sampler=self.sampler)
        budgets = [Budget(epsilon, 1e-5) for epsilon in self.epsilons]
        rng = random.generator(seed, f"wang2015_are {n}")
        release, _ = released(method, Glm(x, y, LOGISTIC), budgets, repeats, rng)
        out = []
        for e, epsilon in enumerate(self.epsilons):
            values = self.squares(release.theta[:, e, 0].double().numpy()) / (
                1 + 1 / posterior_weight(epsilon, self.radius)
            )
            out.append(self.row(n, epsilon, "hmc", n * values))
        return out


def lattice_moments(
    weight: np.ndarray, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the means ``(R, 2)`` and covariances ``(R, 2, 2)`` of weights ``(R, G, G)`` on two axes ``(R, G)``."""
    along = weight.sum(2), weight.sum(1)
    mean = np.stack([(p * t).sum(1) for p, t in zip(along, (first, second), strict=True)], 1)
    u, v = first - mean[:, :1], second - mean[:, 1:]
    cross = np.einsum("rij,ri,rj->r", weight, u, v)
    inner = [(p * t**2).sum(1) for p, t in zip(along, (u, v), strict=True)]
    return mean, np.stack([inner[0], cross, cross, inner[1]], 1).reshape(-1, 2, 2)
