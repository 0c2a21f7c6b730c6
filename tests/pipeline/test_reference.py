import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scenarios import gaussian, logistic

from dplangevin.data import DataError
from dplangevin.pipeline.reference import Reference, covariances, distances, load, sample_reference, save
from dplangevin.problems.glm import Glm
from dplangevin.samplers.posterior import Sampler

SAMPLER = Sampler(warmup=60, block=400, max_draws=400)


def with_test_rows(problem: Glm) -> Glm:
    """With test rows."""
    rng, shape = torch.Generator().manual_seed(8), (len(problem.x), 50)
    x = torch.randn(*shape, problem.features, generator=rng)
    return replace(problem, x_test=x, y_test=torch.randint(2, shape, generator=rng))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_posterior_of_a_gaussian_model_is_its_closed_form() -> None:
    problem, mean, covariance = gaussian()
    shrunk = torch.linalg.inv(torch.linalg.inv(covariance) + 5.0 * torch.eye(len(mean)))
    centre = shrunk @ torch.linalg.inv(covariance) @ mean
    found = sample_reference(with_test_rows(problem), 5.0, SAMPLER, 500, 8, generator())
    assert [len(part) for part in found] == [1] * 5  # shared data, one posterior
    std = shrunk.diagonal().sqrt()
    assert ((found.mean[0] - centre) / std).abs().max() < 4 / math.sqrt(float(found.ess))
    assert float((found.covariance[0] - shrunk).norm() / shrunk.norm()) < 0.1
    assert float(found.r_hat) < 1.05
    assert found.log_loss.isfinite().all()


@pytest.mark.slow
def test_repeats_with_data_of_their_own_have_posteriors_of_their_own() -> None:
    problem = logistic(seeds=3)
    found = sample_reference(with_test_rows(problem), 1.0, SAMPLER, 100, 3, generator())
    assert found.mean.shape == (3, 5)
    assert found.covariance.shape == (3, 5, 5)
    assert found.log_loss.shape == found.r_hat.shape == (3,)
    assert (found.mean[0] - found.mean[1]).abs().max() > 0.05
    alone = Glm(problem.x[1:2], problem.y[1:2], problem.loss)
    again = sample_reference(with_test_rows(alone), 1.0, SAMPLER, 100, 1, generator(1))
    error = (again.mean[0] - found.mean[1]) / found.covariance[1].diagonal().sqrt()
    assert error.abs().max() < 4 * math.sqrt(1 / float(again.ess) + 1 / float(found.ess[1]))


def test_chains_that_have_not_mixed_are_refused() -> None:
    short = Sampler(warmup=1, block=4, max_draws=4, leapfrogs=1)
    with pytest.raises(
        ValueError, match=r"split R-hat .* >= 1.05 after 4 draws of 12 chains; raise max_draws"
    ):
        sample_reference(with_test_rows(logistic()), 1.0, short, 100, 3, generator())


def known(d: int = 3, repeats: int = 1) -> Reference:
    """A Gaussian reference with correlated coordinates of unequal width."""
    root = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.3, 0.0], [-2.0, 1.0, 4.0]], dtype=torch.float64)[:d, :d]
    one = torch.ones(repeats, dtype=torch.float64)
    mean = torch.arange(d, dtype=torch.float64).expand(repeats, d)
    return Reference(mean, (root @ root.T).expand(repeats, d, d), 0.3 * one, one, one)


def test_distances_coordinate_by_coordinate() -> None:
    exact = known(repeats=3)  # of which two are asked about
    theta = torch.randn(2, 2, 7, 3, generator=generator(4))
    found = distances(theta, torch.full((2, 2), 0.7), exact)
    assert found["predictive_gap"].tolist() == [pytest.approx([0.4] * 2)] * 2
    for r in range(2):
        for e in range(2):
            draws = theta[r, e].double().numpy()
            mean, covariance = exact.mean[r].numpy(), exact.covariance[r].numpy()
            squares = [(draws[:, j].mean() - mean[j]) ** 2 / covariance[j, j] for j in range(3)]
            assert float(found["mean_distance"][r, e]) == pytest.approx(np.sqrt(np.mean(squares)))
            gap = np.linalg.norm(np.cov(draws.T) - covariance) / np.linalg.norm(covariance)
            assert float(found["covariance_distance"][r, e]) == pytest.approx(gap)
            assert covariances(theta)[r, e].numpy() == pytest.approx(np.cov(draws.T))
    assert "covariance_distance" not in distances(theta[:, :, :1], torch.zeros(2, 2), exact)


def test_files_depend_on_the_values_only_and_come_back(tmp_path: Path) -> None:
    references = {"unit": known(), "global": known(2)}
    for name in ("a.npz", "b.npz"):
        save(tmp_path / name, references)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    for scaling, reference in references.items():
        for wanted, found in zip(reference, load(tmp_path / "a.npz", scaling), strict=True):
            assert torch.equal(wanted, found)


def test_a_missing_reference_names_the_stage(tmp_path: Path) -> None:
    path = tmp_path / "reference/adult.npz"
    with pytest.raises(DataError, match=r"dvc repro reference@adult"):
        load(path, "unit")
    save(path, {"unit": known()})
    with pytest.raises(DataError, match=r"scaling 'raw' in .*dvc repro reference@adult"):
        load(path, "raw")
