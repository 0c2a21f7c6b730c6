"""Objective perturbation on Adult: the whole grid of solves at once against solvers that do one after the other.

scipy's, a Newton loop in numpy as anyone would write it, and scikit-learn's where its objective is the same, without
noise.
"""

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import NamedTuple

import adult
import numpy as np
from hydra.utils import instantiate
from measure import Options, Row, medians, timed, verdict
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from torch import Tensor, stack, tensor
from tqdm import tqdm

from dplangevin import random
from dplangevin.methods import Plan, Release, released
from dplangevin.problems.glm import Glm
from dplangevin.samplers.minimise import minimise

STREAM = "bench/objpert"
TOLERANCE = 1e-8  # gradient norm/n at which a peer stops; ours goes on to what float64 reaches
REQUIRED = {
    "scipy BFGS": 100,
    "scipy L-BFGS-B": 10,
    "scipy trust-ncg": 10,
    "Newton in numpy": 10,
}  # times faster

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]


class Asked(NamedTuple):
    """One solve, of ``(sum_i ln(1 + exp(-y_i x_i.theta)) + ridge/2 ||theta||^2 + <linear, theta>)/n``, in float64."""

    x: np.ndarray
    y: np.ndarray
    ridge: float
    linear: np.ndarray
    tolerance: float


class Solve(NamedTuple):
    """gap: max |theta - ours|; excess: mean objective at the peer's answer less that at ours; norm: of its gradient."""

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
    total = cfg.repeats * len(budgets)
    measured = f"{len(cells)} of {total} solves timed" + ("" if options.full else ", extrapolated")
    out = []
    for name, solver in SOLVERS.items():
        again = [peer_solves(solver, problem, release, plans, cells, cfg.seed) for _ in range(options.runs)]
        solves = again[0]
        peer_seconds = median(sum(solve.seconds for solve in each) for each in again) * total / len(cells)
        short = sum(solve.norm >= TOLERANCE for solve in solves)
        ratio = peer_seconds / our_seconds
        out.append(
            Row(
                f"ObjPert, {total} solves, gradient norm/n < {TOLERANCE:g}",
                f"{our_seconds:.2f} s",
                f"{name} {peer_seconds:.1f} s",
                f"{ratio:.0f} times",
                f">= {REQUIRED[name]} times",
                verdict(ratio >= REQUIRED[name]),
                str(options.threads),
                f"medians of {options.runs}; peer: {measured}; {short} of these stopped short (worst norm/n "
                f"{max(s.norm for s in solves):.1e}); largest difference of theta {max(s.gap for s in solves):.1e}, "
                f"of the mean objective {max(abs(s.excess) for s in solves):.1e}",
            )
        )
    return [*out, ridge_row(options, problem)]


def ridge_row(options: Options, problem: Glm) -> Row:
    """Without noise, at 11 ridges, which scikit-learn can do too."""
    ridges = 10.0 ** np.linspace(-2, 3, 11)
    x, y = problem.x[0].double().numpy(), problem.y[0].numpy()
    thetas: dict[str, Tensor] = {}

    def ours() -> None:
        thetas["ours"] = minimise(
            problem, tensor(ridges), tensor(np.zeros((1, 11, problem.d))), TOLERANCE
        ).theta[0]

    def sklearn() -> None:
        found = []
        for ridge in ridges:
            model = LogisticRegression(
                C=1 / ridge, fit_intercept=False, solver="newton-cholesky", tol=TOLERANCE, max_iter=500
            )
            found.append(tensor(model.fit(x, y).coef_[0]))
        thetas["sklearn"] = stack(found)

    own, peer = medians(options.runs, ours, sklearn)
    gap = float((thetas["ours"] - thetas["sklearn"]).abs().max())
    return Row(
        f"11 fits without noise, ridges .01 to 1,000, gradient norm/n < {TOLERANCE:g}",
        f"{own:.2f} s",
        f"scikit-learn newton-cholesky {peer:.2f} s",
        f"{peer / own:.1f} times",
        ">= 1 times",
        verdict(peer >= own),
        str(options.threads),
        f"median of {options.runs} in turns; largest difference of theta {gap:.1e}",
    )


def peer_solves(
    solver: Callable[[Asked], np.ndarray],
    problem: Glm,
    release: Release,
    plans: list[Plan],
    cells: list[tuple[int, int]],
    seed: int,
) -> list[Solve]:
    """A peer on the (repeat, budget) cells of our release: the same ridges and noise vectors, in float64."""
    x, y = problem.x[0].double().numpy(), problem.y[0].double().numpy()
    normals = random.noise(random.generator(seed, STREAM), len(release.theta), len(plans), problem.d)
    solves = []
    for r, e in tqdm(cells, unit="solve", leave=False, disable=None):
        fit = plans[e].work
        asked = Asked(x, y, fit.ridge, fit.scale * normals[r, e].numpy(), TOLERANCE)
        theta = release.theta[r, e, 0].numpy()
        answer, took = timed(partial(solver, asked))
        value, gradient = mean_objective(asked)(answer)
        gap = float(np.abs(answer - theta).max())
        excess = value - mean_objective(asked)(theta)[0]
        solves.append(Solve(took, gap, excess, float(np.linalg.norm(gradient))))
    return solves


def bfgs(asked: Asked) -> np.ndarray:
    settings = {"gtol": asked.tolerance, "norm": 2, "maxiter": 100_000}
    start = np.zeros(asked.x.shape[1])
    return np.asarray(minimize(mean_objective(asked), start, method="BFGS", jac=True, options=settings).x)


def lbfgsb(asked: Asked) -> np.ndarray:
    most = asked.tolerance / np.sqrt(asked.x.shape[1])  # it stops by the largest coordinate
    settings = {"gtol": most, "ftol": 0.0, "maxiter": 100_000, "maxfun": 1_000_000, "maxcor": 20}
    start = np.zeros(asked.x.shape[1])
    return np.asarray(minimize(mean_objective(asked), start, method="L-BFGS-B", jac=True, options=settings).x)


def trust_ncg(asked: Asked) -> np.ndarray:
    settings = {"gtol": asked.tolerance, "maxiter": 100_000}
    start = np.zeros(asked.x.shape[1])
    found = minimize(
        mean_objective(asked),
        start,
        method="trust-ncg",
        jac=True,
        hess=partial(hessian, asked),
        options=settings,
    )
    return np.asarray(found.x)


def newton(asked: Asked) -> np.ndarray:
    """Newton's method, halving a step that does not lower the objective."""
    objective, theta = mean_objective(asked), np.zeros(asked.x.shape[1])
    value, gradient = objective(theta)
    while np.linalg.norm(gradient) >= asked.tolerance:
        step = np.linalg.solve(hessian(asked, theta), gradient)
        share = 1.0
        while share > 1e-8 and objective(theta - share * step)[0] > value + 1e-15 * abs(value):
            share /= 2
        theta = theta - share * step
        value, gradient = objective(theta)
    return theta


SOLVERS = {
    "scipy BFGS": bfgs,
    "scipy L-BFGS-B": lbfgsb,
    "scipy trust-ncg": trust_ncg,
    "Newton in numpy": newton,
}


def hessian(asked: Asked, theta: np.ndarray) -> np.ndarray:
    half = np.tanh(asked.x @ theta / 2)
    weight = (1 - half**2) / 4
    found = (asked.x * weight[:, None]).T @ asked.x
    found[np.diag_indices_from(found)] += asked.ridge
    return found / len(asked.y)


def mean_objective(asked: Asked) -> Objective:
    """Value and gradient, by one exponential per row and two passes over x."""
    x, y, ridge, linear, n = asked.x, asked.y, asked.ridge, asked.linear, len(asked.y)

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        margins = y * (x @ theta)
        small = np.exp(-np.abs(margins))
        value = (np.log1p(small) + np.maximum(-margins, 0)).sum() + theta @ (0.5 * ridge * theta + linear)
        slope = -y * np.where(margins > 0, small, 1) / (1 + small)
        return value / n, (slope @ x + ridge * theta + linear) / n

    return objective
