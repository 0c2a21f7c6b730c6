"""Committed intervals recomputed from the files that their rows name as evidence, with csv, numpy and scipy only: none
of this project's code, which made the table, is used here."""

import csv
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

ROOT = Path(__file__).parents[3]
Numbers = tuple[float, float, float]  # ours, low, high
Table = dict[float, np.ndarray]  # accuracies by seed at each epsilon


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


CLAIMS = {row["id"]: row for row in rows_of(ROOT / "results" / "claims.csv")}


def folder(claim: str, run: str = "") -> Path:
    """The first folder of results that a row names; where it names an experiment, that of the first data set with the
    run."""
    path = ROOT / CLAIMS[claim]["evidence"].split("; ")[0]
    if (path / "runs.csv").is_file():
        return path
    children = [child for child in sorted(path.iterdir()) if child.is_dir()]
    return next(c for c in children if not run or any(row["run"] == run for row in rows_of(c / "runs.csv")))


def accuracies(at: Path, run: str, metric: str = "accuracy") -> Table:
    """Of one run, in order of seeds."""
    found: dict[float, dict[int, float]] = {}
    for row in rows_of(at / "scores.csv"):
        if row["run"] == run and row["metric"] == metric:
            found.setdefault(float(row["epsilon"]), {})[int(row["seed"])] = float(row["value"])
    return {epsilon: np.array([by[seed] for seed in sorted(by)]) for epsilon, by in sorted(found.items())}


def tight(at: Path, run: str) -> dict[float, float]:
    """Asked epsilon -> what the tight accountant finds."""
    return {
        float(row["epsilon"]): float(row["epsilon_proven"])
        for row in rows_of(at / "runs.csv")
        if row["run"] == run
    }


def student(values: np.ndarray) -> Numbers:
    low, high = stats.t.interval(0.95, len(values) - 1, values.mean(), stats.sem(values))
    return float(values.mean()), float(low), float(high)


def line(points: Mapping[float, np.ndarray], epsilons: list[float]) -> np.ndarray:
    """Accuracies (epsilons x seeds) interpolated linearly in ln epsilon."""
    x, y = np.log(list(points)), np.array(list(points.values()))
    return np.array([[np.interp(math.log(e), x, y[:, s]) for s in range(y.shape[1])] for e in epsilons])


def paired(claim: str, first: str, second: str, factor: float = 1.0) -> Numbers:
    """Mean over the asked budgets of the paired difference, the second method at `factor` times the budget where it has
    one in reach."""
    one, two = (accuracies(folder(claim), run) for run in (first, second))
    one = {epsilon: values for epsilon, values in one.items() if math.isfinite(epsilon)}
    if list(two) == [math.inf]:
        return student(np.mean([values - two[math.inf] for values in one.values()], axis=0))
    kept = [e for e in one if min(two) * (1 - 1e-9) <= factor * e <= max(two) * (1 + 1e-9)]
    gaps = np.array([one[e] for e in kept]) - line(two, [factor * e for e in kept])
    return student(gaps.mean(axis=0))


def proven(claim: str, first: str, second: str) -> Numbers:
    """The same at every tight epsilon of either method in the range that they share."""
    lines = []
    for run in (first, second):
        scores, prices = accuracies(folder(claim), run), tight(folder(claim), run)
        lines.append({prices[e]: values for e, values in scores.items() if 0 < prices[e] < math.inf})
    low, high = max(min(one) for one in lines), min(max(one) for one in lines)
    points = sorted({e for one in lines for e in one if low <= e <= high})
    return student((line(lines[0], points) - line(lines[1], points)).mean(axis=0))


def welch(parts: list[tuple[float, np.ndarray]]) -> Numbers:
    """Sum of weight times mean with Satterthwaite's degrees of freedom."""
    mean = sum(weight * values.mean() for weight, values in parts)
    squares = [weight**2 * stats.sem(values) ** 2 for weight, values in parts]
    freedom = sum(squares) ** 2 / sum(s**2 / (len(v) - 1) for s, (_, v) in zip(squares, parts, strict=True))
    low, high = stats.t.interval(0.95, freedom, mean, math.sqrt(sum(squares)))
    return float(mean), float(low), float(high)


def means(
    claim: str, weights: Mapping[str, float], metric: str = "accuracy"
) -> list[tuple[float, np.ndarray]]:
    """Weight and accuracies by seed of each run, averaged over its budgets."""
    tables = {run: accuracies(folder(claim, run), run, metric) for run in weights}
    return [(weight, np.mean([*tables[run].values()], axis=0)) for run, weight in weights.items()]


def within_seeds(claim: str, weights: Mapping[str, float], metric: str = "accuracy") -> Numbers:
    """Weighted sum, of runs that may share the noise of a seed."""
    return student(np.sum([weight * values for weight, values in means(claim, weights, metric)], axis=0))


def exponent(claim: str, x: str, at_least: float, **where: str) -> Numbers:
    """Slope of ln value in ln x, weighted by the 95 % limits of the values, by the normal equations."""
    rows = [
        row
        for row in rows_of(ROOT / CLAIMS[claim]["evidence"])
        if all(row[key] == value for key, value in where.items()) and float(row[x]) >= at_least
    ]
    value, low, high = (np.array([float(row[key]) for row in rows]) for key in ("value", "low", "high"))
    error = (high - low) / (2 * stats.norm.ppf(0.975)) / value
    design = np.column_stack([np.ones(len(rows)), np.log([float(row[x]) for row in rows])]) / error[:, None]
    fitted = np.linalg.lstsq(design, np.log(value) / error, rcond=None)[0][1]
    half = stats.norm.ppf(0.975) * math.sqrt(np.linalg.inv(design.T @ design)[1, 1])
    return float(fitted), float(fitted - half), float(fitted + half)


BIAS = {"panel": "budget", "schedule": "private_decreasing", "function": "theta", "kind": "simulated"}
RECOMPUTED: dict[str, Callable[[str], Numbers]] = {
    "wang2015_ops_beats_objpert_abalone": lambda claim: paired(claim, "ops", "objpert"),
    "wang2015_hybrid_second_stage_adult": lambda claim: paired(claim, "hybrid", "ops", 0.5),
    "wang2015_ops_beats_objpert_abalone_proven": lambda claim: proven(claim, "ops", "objpert"),
    "li2019_tab1_above_dp_sgd_proven": lambda claim: welch(
        means(claim, {"tanh_dp_sgld": 1, "tanh_dp_sgd": -1})
    ),
    "ryffel2022_outperforms_resnet18_constant": lambda claim: within_seeds(
        claim, {"resnet18_dp_langevin_constant": 1, "resnet18_dp_sgd_constant": -1}, "accuracy_best_epoch"
    ),
    "ryffel2022_reduces_the_gap_pneumonia_constant": lambda claim: within_seeds(
        claim, {"dp_langevin_constant_published": 1, "dp_sgd_constant_published": -0.5, "none_constant": -0.5}
    ),
    "li2019_mse_private_bias_size": lambda claim: exponent(claim, "eta", 0.1, temperature="proper", **BIAS),
}


@pytest.mark.parametrize("claim", RECOMPUTED)
def test_interval_is_that_of_the_evidence(claim: str) -> None:
    row = CLAIMS[claim]
    assert row["measure"].startswith("interval")
    assert RECOMPUTED[claim](claim) == pytest.approx(
        [float(row[name]) for name in ("ours", "low", "high")], abs=1e-6
    )
