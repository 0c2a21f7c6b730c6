"""Distance of the sampler from the posterior: exact draws pass, draws of another law are told apart."""

import math

import numpy as np
import pytest
import torch

from dplangevin.methods import released
from dplangevin.methods.ops import Ops
from dplangevin.papers.analyses.ops_distance import OpsDistance, distances
from dplangevin.privacy import Budget
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC
from dplangevin.samplers.posterior import Rejection, Sampler

POINTS = {"1": [[1.0], [0.5], [-0.8]], "2": [[1.0, 0.0], [0.6, 0.8], [-0.3, 0.4]]}
LABELS = [1.0, -1.0, 1.0]


def analysis(**method: float) -> OpsDistance:
    fields = {"bound": "gdp", "radius": 3.0, "precision": 1.0, "sampler": Rejection()} | method
    cells, lattice = {"1": 16, "2": 4}, {"1": 20_001, "2": 801}
    return OpsDistance(POINTS, LABELS, 5, {"one": Ops(**fields)}, [1.0], 1e-5, 4000, cells, lattice)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [1, 2])
def test_exact_draws_look_exact(dimension: int) -> None:
    (row,) = analysis().rows(f"one {dimension}", seed=3)
    assert row["p_value"] > 1e-3
    assert row["tv"] < 2 * row["tv_if_exact"] < row["tv_limit"] * 2
    assert row["ratio_low"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [1, 2])
def test_draws_at_another_temperature_do_not(dimension: int) -> None:
    found = analysis()
    method = found.methods["one"]
    x = torch.tensor(POINTS[str(dimension)]).repeat(5, 1)
    problem = Glm(x[None], torch.tensor(LABELS).repeat(5)[None], LOGISTIC)
    release, (plan,) = released(method, problem, [Budget(1.0, 1e-5)], 4000, torch.Generator().manual_seed(1))
    theta, rho = release.theta[:, 0, 0].double().numpy(), plan.work.rho
    row = distances(found.counts(method, problem, rho, 1.15 * theta, dimension))
    assert row["p_value"] < 1e-3


@pytest.mark.slow
def test_draws_by_hmc_on_a_ball_look_exact() -> None:
    sampler = Sampler(block=60, max_draws=60, warmup=60)
    (row,) = analysis(bound="range", precision=0.0, sampler=sampler).rows("one 2", seed=3)  # type: ignore[arg-type]
    assert row["p_value"] > 1e-3
    assert row["r_hat"] < 1.05


def test_limits_of_uniform_shares() -> None:
    row = distances(np.array([250, 250, 250, 250]))
    assert row["tv"] == 0
    assert row["tv_limit"] == pytest.approx(math.sqrt(math.log(20) / 2000))
    assert row["ratio"] == row["ratio_low"] == 0 < row["ratio_high"]
