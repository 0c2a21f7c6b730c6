"""The exact posterior that releases are compared with: HMC, its moments on disk, and the distances to them."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dplangevin import evaluate
from dplangevin.data import DataError, save_arrays
from dplangevin.posterior import R_HAT, Sampler
from dplangevin.problems.glm import Glm


class Reference(NamedTuple):
    """Moments of the posterior ``exp(-U(theta) - precision/2 ||theta||^2)`` and what its predictive is worth.

    mean ``(R', d)``, covariance ``(R', d, d)``, log_loss, r_hat and ess ``(R',)``, float64; R' = 1 where all repeats
    share their data, else R.  log_loss: of the posterior predictive on the test rows, in nats per row.
    """

    mean: Tensor
    covariance: Tensor
    log_loss: Tensor
    r_hat: Tensor
    ess: Tensor


def sample_reference(
    problem: Glm, precision: float, sampler: Sampler, predictive: int, seeds: int, rng: torch.Generator
) -> Reference:
    """HMC on the full data.  predictive: draws that log_loss averages over, about.

    Raises ValueError when the worst split R-hat is 1.05 or more.
    """
    found = sampler.sample(problem, torch.ones(1), torch.tensor([precision]), float("inf"), seeds, rng)
    worst = float(found.mixing.r_hat.max())
    if not worst < R_HAT:
        raise ValueError(
            f"reference posterior refused: split R-hat {worst:.3f} >= {R_HAT} after {len(found.draws)} draws of "
            f"{found.draws.shape[2] * seeds} chains; raise max_draws or warmup of its sampler"
        )
    draws = found.draws[..., 0, :].movedim(0, 2)  # (R, chains, draws, d)
    pooled = (draws.flatten(0, 2)[None] if problem.shared else draws.flatten(1, 2)).double()  # (R', N, d)
    mean = pooled.mean(1)
    every = max(1, pooled.shape[1] // predictive)
    probability = evaluate.predictive(problem, pooled[:, None, ::every].float())
    log_loss = evaluate.all_scores(probability, problem.y_test)["log_loss"][:, 0]
    return Reference(mean, covariances(pooled), log_loss, found.mixing.r_hat[:, 0], found.mixing.ess[:, 0])


def covariances(draws: Tensor) -> Tensor:
    """``sum_s (theta_s - mean)(theta_s - mean)^T/(S - 1)`` in float64: ``(..., S, d)`` to ``(..., d, d)``."""
    centred = draws.double() - draws.double().mean(-2, keepdim=True)
    return centred.mT @ centred / (draws.shape[-2] - 1)


def distances(theta: Tensor, log_loss: Tensor, reference: Reference) -> dict[str, Tensor]:
    """How far the kept draws are from the posterior, each ``(R, E)``; the first R are taken of more posteriors.

    mean_distance: ``sqrt(mean_j (m^_j - m_j)^2/v_j)``, in posterior standard deviations; m^ is the mean of the draws.
    covariance_distance: ``||S^ - S||_F/||S||_F``, unitless, left out for releases of a single draw.
    predictive_gap: log_loss minus the posterior's, in nats per row.  Both distances contain the Monte Carlo error of
    the draws.  theta ``(R, E, samples, d)``, log_loss ``(R, E)``.
    """
    reference = Reference(*(moment[: len(theta)] for moment in reference))
    variance = reference.covariance.diagonal(dim1=-2, dim2=-1)  # (R', d)
    gap = (theta.double().mean(2) - reference.mean[:, None]).square() / variance[:, None]
    found = {
        "mean_distance": gap.mean(-1).sqrt(),
        "predictive_gap": log_loss - reference.log_loss[:, None],
    }
    if theta.shape[2] > 1:
        exact = reference.covariance[:, None]
        size = torch.linalg.matrix_norm(exact)
        found["covariance_distance"] = torch.linalg.matrix_norm(covariances(theta) - exact) / size
    return found


def save(path: Path, references: Mapping[str, Reference]) -> None:
    """Write references by scaling; the bytes depend on the values only."""
    named = {
        f"{scaling}.{field}": value.numpy()
        for scaling, reference in references.items()
        for field, value in reference._asdict().items()
    }
    save_arrays(path, named)


def load(path: Path, scaling: str) -> Reference:
    """The reference for one scaling.  Raises DataError naming the stage that makes it."""
    try:
        with open(path, "rb") as handle, np.load(handle, allow_pickle=False) as archive:
            fields = [torch.from_numpy(archive[f"{scaling}.{field}"]) for field in Reference._fields]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"no reference posterior for scaling {scaling!r} in {path}: {error}. "
            f"Make it: dvc repro reference@{path.parent.name}-{path.stem}"
        ) from error
    return Reference(*fields)
