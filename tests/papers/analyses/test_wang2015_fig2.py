"""The trajectories: the exact posterior, the guarantee of the gradients, and what is measured on chains."""

import math

import loading
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import Ridge

from dplangevin.papers.analyses.wang2015_fig2 import Trajectories
from dplangevin.papers.exhibits import samplers
from dplangevin.problems.glm import Glm


def short(**other: object) -> Trajectories:
    tiny = {"records": 400, "threshold": 2.0, "chains": 4, "samples": 50, "shown": 20}
    return loading.analysis("wang2015_fig2", **{**tiny, **other})


def test_posterior_is_ridge_regression() -> None:
    analysis = short()
    x, y = analysis.data(1)
    mean, covariance = analysis.posterior(x, y)
    ridge = Ridge(alpha=analysis.precision, fit_intercept=False).fit(x, y)
    np.testing.assert_allclose(mean, ridge.coef_, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.inv(covariance), x.T @ x + np.eye(2), rtol=1e-9)


def test_clipping_changes_nothing_near_the_posterior_and_bounds_every_gradient() -> None:
    """The guarantee holds for any theta; the gradients are those of least squares where the chains settle."""
    analysis = short()
    x, y = analysis.data(1)
    mean, covariance = analysis.posterior(x, y)
    shape = torch.tensor(x)[None], torch.tensor(y)[None]
    problem = Glm(*shape, analysis.loss)
    far = np.random.default_rng(0).normal(0, 30, (1, 200, 2))
    each = problem.example_grads(torch.tensor(far), torch.arange(400)[None])
    assert float(each.norm(dim=-1).max()) <= problem.lipschitz == 2.0
    around = mean + np.random.default_rng(1).uniform(-5, 5, (1, 50, 2)) @ np.linalg.cholesky(covariance).T
    expected = (around @ x.T - y) @ x
    np.testing.assert_allclose(problem.grad(torch.tensor(around)), expected, atol=1e-9)


def test_what_is_measured() -> None:
    """Chains that are draws of a normal law twice as wide on one axis and shifted along the other."""
    analysis = short()
    variances, axes = np.array([1.0, 4.0]), np.eye(2)
    covariance, mean = axes @ np.diag(variances) @ axes.T, np.array([1.0, -1.0])
    normals = np.random.default_rng(1).normal(size=(40, 2000, 2))
    theta = mean + normals * np.array([2.0, 2.0]) + np.array([0.0, 1.0])
    frame = pd.DataFrame(analysis.compare({"variant": "a"}, theta, mean, covariance))
    by = frame.set_index(["kind", "axis"])
    assert by.loc[("ratio", 1.0), "value"] == pytest.approx(2, abs=0.03)
    assert by.loc[("ratio", 2.0), "value"] == pytest.approx(1, abs=0.03)
    assert by.loc[("shift", 2.0), "value"] == pytest.approx(0.5, abs=0.03)
    assert frame[frame.kind.eq("distance")].value.iloc[0] == pytest.approx(0.5, abs=0.04)
    apart = theta + np.random.default_rng(2).normal(size=(40, 1, 2)) * 10
    far = pd.DataFrame(analysis.compare({}, apart, mean, covariance)).set_index(["kind", "axis"]).value
    assert far[("within", 1.0)] == pytest.approx(2, abs=0.03)  # a chain's own spread does not see the others
    assert far[("ratio", 1.0)] > 5


def test_an_ellipse_is_where_the_normal_law_is_that_far() -> None:
    mean, covariance = np.array([1.0, -2.0]), np.array([[2.0, 0.6], [0.6, 0.5]])
    away = samplers.ellipse(mean, covariance, 2.0)[samplers.AT].to_numpy() - mean
    assert np.einsum("ni,ij,nj->n", away, np.linalg.inv(covariance), away) == pytest.approx(4.0)


def test_rows_of_a_run() -> None:
    analysis = short()
    frame = pd.DataFrame([row for unit in ("sgld", "sgnht") for row in analysis.rows(unit, 1)])
    assert set(frame.variant) == {"exact", "sgld", "sgnht"}
    private = frame[np.isfinite(frame.epsilon)]
    assert private.epsilon_proven.between(0, 10, inclusive="neither").all()
    assert frame[frame.variant.eq("exact")].kind.tolist() == ["mean", "covariance", "covariance"]
    assert set(frame.epsilon) == {10.0, math.inf}


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"> threshold 0.5: raise it"):
        short(threshold=0.5).rows("sgld", 1)
    with pytest.raises(ValueError, match="allow rows of norm"):
        short(widths=[1.0, 0.5]).data(1)
