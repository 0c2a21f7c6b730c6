"""The exact posterior that releases are compared with: its sampling by HMC, its file, and distances to it."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from dplangevin.data.archives import opened, save_arrays, stage
from dplangevin.methods import evaluate
from dplangevin.problems.glm import Glm
from dplangevin.samplers.posterior import R_HAT, Sampler


class Reference(NamedTuple):
    """Moments of the posterior ``exp(-U(theta) - precision/2 ||theta||^2)``, with diagnostics, in float64.

    Shapes ``(R', ...)``, with R' = 1 if all repeats share their data, else R' = R.
    """

    mean: Tensor
    covariance: Tensor
    log_loss: Tensor
    r_hat: Tensor
    ess: Tensor


def sample_reference(
    problem: Glm, precision: float, sampler: Sampler, predictive: int, seeds: int, rng: torch.Generator
) -> Reference:
    """Return the moments of the posterior by HMC; log_loss averages over about `predictive` draws."""
    weight = torch.ones(1, device=problem.device)
    sample = sampler.sample(problem, weight, precision * weight, float("inf"), seeds, rng)
    worst = float(sample.mixing.r_hat.max())
    if not worst < R_HAT:
        raise ValueError(
            f"reference posterior refused: split R-hat {worst:.3f} >= {R_HAT} after {len(sample.draws)} draws of "
            f"{sample.draws.shape[2] * seeds} chains; raise max_draws or warmup of its sampler"
        )
    draws = sample.draws[..., 0, :].movedim(0, 2).cpu()  # (R, chains, draws, d)
    pooled = (draws.flatten(0, 2)[None] if problem.shared else draws.flatten(1, 2)).double()  # (R', N, d)
    every = max(1, pooled.shape[1] // predictive)
    probability = evaluate.predictive(problem, pooled[:, None, ::every].float().to(problem.device))
    log_loss = evaluate.all_scores(probability, problem.y_test)["log_loss"][:, 0]
    mixing = sample.mixing
    return Reference(pooled.mean(1), covariances(pooled), log_loss, mixing.r_hat[:, 0], mixing.ess[:, 0])


def covariances(draws: Tensor) -> Tensor:
    """Return ``sum_s (theta_s - mean)(theta_s - mean)^T/(S - 1)`` in float64, shape ``(..., d, d)``."""
    centred = draws.double() - draws.double().mean(-2, keepdim=True)
    return centred.mT @ centred / (draws.shape[-2] - 1)


def distances(theta: Tensor, log_loss: Tensor, reference: Reference) -> dict[str, Tensor]:
    """Return distances ``(R, E)`` of draws theta ``(R, E, samples, d)`` from the posteriors, or from the only one.

    - `mean_distance`: ``sqrt(mean_j (m^_j - m_j)^2/v_j)``, in posterior standard deviations; m^ is the draws' mean.
    - `predictive_gap`: how far their `log_loss` is above the posterior's.
    - `covariance_distance`: ``||S^ - S||_F/||S||_F``; missing for a single draw.
    """
    reference = Reference(*(moment[: len(theta)] for moment in reference))
    variance = reference.covariance.diagonal(dim1=-2, dim2=-1)  # (R', d)
    gap = (theta.double().mean(2) - reference.mean[:, None]).square() / variance[:, None]
    metrics = {"mean_distance": gap.mean(-1).sqrt(), "predictive_gap": log_loss - reference.log_loss[:, None]}
    if theta.shape[2] > 1:
        exact = reference.covariance[:, None]
        size = torch.linalg.matrix_norm(exact)
        metrics["covariance_distance"] = torch.linalg.matrix_norm(covariances(theta) - exact) / size
    return metrics


def save(path: Path, references: Mapping[str, Reference]) -> None:
    """Write references, a mapping of scaling to `Reference`; the bytes depend on the values only."""
    fields = [(scaling, *each) for scaling, of in references.items() for each in of._asdict().items()]
    save_arrays(path, {f"{scaling}.{name}": value.numpy() for scaling, name, value in fields})


def load(path: Path, scaling: str) -> Reference:
    """Return the reference for one scaling; if it cannot be read, DataError names the stage that makes it."""
    again = f"Make it: dvc repro {stage('reference', path.stem)}"
    with opened(path, f"the reference posterior for scaling {scaling!r} in", again) as archive:
        return Reference(*(torch.from_numpy(archive[f"{scaling}.{field}"]) for field in Reference._fields))
