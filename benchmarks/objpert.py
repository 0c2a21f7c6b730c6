"""Objective perturbation on Adult: the whole grid of solves at once against scipy's BFGS, one after the other."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import adult
import numpy as np
from hydra.utils import instantiate
from measure import Options, Row, medians, timed, verdict
from scipy.optimize import minimize
from tqdm import tqdm

from dplangevin import random
from dplangevin.methods import Plan, Release, released
from dplangevin.problems.glm import Glm

REQUIRED = 100  # times faster
STREAM = "bench/objpert"

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]


class Solve(NamedTuple):
    """gap: max |theta - ours|; excess: mean objective at scipy's answer minus that at ours; norm: of its gradient."""

    seconds: float
    gap: float
    excess: float
    norm: float


def rows(options: Options) -> list[Row]:
    cfg = adult.config(options.scale)
    problem, budgets = adult.problem(cfg), adult.budgets(cfg)
    method = instantiate(cfg.method.objpert)
    found: list[tuple[Release, list[Plan]]] = []

    def ours() -> None:
        found[:] = [released(method, problem, budgets, cfg.repeats, random.generator(cfg.seed, STREAM))]

    (our_seconds,) = medians(options.runs, ours)
    release, plans = found[0]
    repeats = range(cfg.repeats if options.full else 1)
    cells = [(r, e) for r in repeats for e in range(len(budgets))]
    solves = peer_solves(problem, release, plans, cells, cfg.seed, method.tolerance)
    total = cfg.repeats * len(budgets)
    peer_seconds = sum(solve.seconds for solve in solves) * total / len(cells)
    short = sum(solve.norm >= method.tolerance for solve in solves)
    ratio = peer_seconds / our_seconds
    measured = f"{len(cells)} of {total} solves timed" + ("" if options.full else ", extrapolated")
    return [
        Row(
            f"ObjPert, {total} solves, gradient norm/n < {method.tolerance:g}",
            f"{our_seconds:.2f} s",
            f"scipy BFGS {peer_seconds:.0f} s",
            f"{ratio:.0f} times",
            f">= {REQUIRED} times",
            verdict(ratio >= REQUIRED),
            str(options.threads),
            f"ours: median of {options.runs}; scipy: {measured}; {short} of these stopped short (worst norm/n "
            f"{max(s.norm for s in solves):.1e}); largest difference of theta {max(s.gap for s in solves):.1e}, "
            f"of the mean objective {max(abs(s.excess) for s in solves):.1e}",
        )
    ]


def peer_solves(
    problem: Glm,
    release: Release,
    plans: list[Plan],
    cells: list[tuple[int, int]],
    seed: int,
    tolerance: float,
) -> list[Solve]:
    """scipy on the (repeat, budget) cells of our release: the same ridges and noise vectors, in float64."""
    x, y = problem.x[0].double().numpy(), problem.y[0].double().numpy()
    normals = random.gaussian(
        random.generator(seed, STREAM), len(release.theta), problem.d, release.theta.dtype
    )
    settings = {"gtol": tolerance, "norm": 2, "maxiter": 100_000}
    solves = []
    for r, e in tqdm(cells, unit="solve", leave=False, disable=None):
        fit = plans[e].work
        objective = mean_objective(x, y, fit.ridge, fit.std * normals[r, 0].numpy())
        theta = release.theta[r, e, 0].numpy()
        start = np.zeros(problem.d)
        answer, took = timed(partial(minimize, objective, start, method="BFGS", jac=True, options=settings))
        gap = float(np.abs(answer.x - theta).max())
        excess = answer.fun - objective(theta)[0]
        solves.append(Solve(took, gap, excess, float(np.linalg.norm(answer.jac))))
    return solves


def mean_objective(x: np.ndarray, y: np.ndarray, ridge: float, linear: np.ndarray) -> Objective:
    """``(sum_i ln(1 + exp(-y_i x_i.theta)) + ridge/2 ||theta||^2 + <linear, theta>)/n`` and its gradient.

    One exponential per row and one pass over x each for the value and the gradient.
    """
    n = len(y)

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        margins = y * (x @ theta)
        small = np.exp(-np.abs(margins))
        value = (np.log1p(small) + np.maximum(-margins, 0)).sum() + theta @ (0.5 * ridge * theta + linear)
        slope = -y * np.where(margins > 0, small, 1) / (1 + small)
        return value / n, (slope @ x + ridge * theta + linear) / n

    return objective
