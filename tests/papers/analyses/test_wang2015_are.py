"""The posterior on a lattice against weighted points of the ball, and the limits of the error."""

from dataclasses import replace

import loading
import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F

from dplangevin.papers.analyses.wang2015_are import Efficiency


def short() -> Efficiency:
    sampler = {"warmup": 20, "block": 20, "max_draws": 20}
    tiny = {"sizes": [50, 100000], "repeats": 30, "hmc_size": 50, "hmc_repeats": 10}
    return loading.analysis("wang2015_are", sampler=sampler, **tiny)


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.02, 1.0])
def test_lattice_against_weighted_points(rho: float) -> None:
    """Moments of exp(-rho U) on the ball by uniform points of it, weighted by the logistic loss of every record."""
    analysis, n = short(), 60
    counts = analysis.counts(n, 1, 3)
    draws = np.repeat(counts, 4000, axis=1)
    mean, spread, sample = analysis.posterior(draws, n, rho, np.random.default_rng(1))
    rng = np.random.default_rng(2)
    points = rng.uniform(-analysis.radius, analysis.radius, (300_000, 2))
    points = points[(points**2).sum(1) <= analysis.radius**2]
    margins = torch.tensor(points @ analysis.x.T)
    yes, no = (torch.tensor(part[0], dtype=torch.float64) for part in counts)
    weight = np.exp(-rho * (F.softplus(-margins) @ yes + F.softplus(margins) @ no).numpy())
    weight /= weight.sum()
    centre = weight @ points
    cov = (points - centre).T @ ((points - centre) * weight[:, None])
    np.testing.assert_allclose(mean[0], centre, atol=0.01)
    np.testing.assert_allclose(spread[0], cov, atol=0.01)
    np.testing.assert_allclose(sample.mean(0), centre, atol=5 * np.sqrt(np.diag(cov).max() / 4000))
    np.testing.assert_allclose(np.cov(sample.T), cov, atol=0.1 * cov.max())


def test_parts_add_up_and_many_records_reach_the_formula() -> None:
    analysis = short()
    frame = pd.DataFrame([row for unit in analysis.units() for row in analysis.rows(unit, 1)])
    table = frame.pivot_table(index=["records", "epsilon", "factor"], columns="kind", values="value")
    table = table.reset_index()
    parts = (table["mean"] + table.spread * (table.factor - 1)) / table.factor
    np.testing.assert_allclose(parts, table.exact, rtol=1e-9)
    many = frame[frame.records.eq(100000) & frame.kind.eq("spread")]
    assert many.value.between(0.99, 1.01).all()
    few = frame[frame.records.eq(50) & frame.epsilon.eq(0.1)].set_index("kind").value
    assert few.exact < 0.2  # the ball is smaller than the formula
    assert few.hmc < 0.3


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="must lie inside the ball"):
        replace(short(), theta0=[2.0, 0.5])
    with pytest.raises(ValueError, match=r"norm 1\.414 > 1"):
        replace(short(), points=[[1.0, 1.0]])
