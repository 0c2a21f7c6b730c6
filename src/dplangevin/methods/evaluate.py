"""Scores of predictions, and diagnostics of how well released draws have mixed."""

import torch
from torch import Tensor

from dplangevin.problems import Problem
from dplangevin.samplers.diagnostics import least_draws, mixing

BINS = 15


def predictive(problem: Problem, theta: Tensor) -> Tensor:
    """Return ``mean_s p(. | x, theta_s)`` on the test rows, ``(S, E, m, K)``, for theta ``(S, E, samples, d)``.

    For regression K = 1, and it is the mean of the predicted targets.
    """
    samples = theta.unbind(2)
    total = problem.predict(samples[0])
    for each in samples[1:]:
        total = total + problem.predict(each)
    return total / len(samples)


def scores(probability: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Compute accuracy, log_loss, brier and ece of probabilities ``(S, m, K)``, each ``(S,)`` in float64.

    * accuracy: share of rows whose label has the largest probability; of t tied classes each counts 1/t.
    * log_loss: mean of -log p(y), in nats, with p at least the smallest normal number of its type.
    * brier: mean over rows of ``sum_k (p_k - [y = k])^2``, in [0, 2], over all K classes (Brier 1950).
    * ece: expected calibration error ``sum_b |B_b|/m |mean of right in B_b - mean confidence in B_b|`` (Guo et al.
      2017, eq. 3).  Confidence is max_k p_k, B_b has the rows with a confidence in ``((b - 1)/15, b/15]``, and
      right is what a row counts for the accuracy.

    Labels y are ``(m,)`` or ``(1 or S, m)`` in 0..K-1.
    """
    p, given, confidence, right = _judged(probability, y)
    miss = p.square().sum(-1) - 2 * given + 1  # sum_k (p_k - [y = k])^2
    gap = p.new_zeros(len(p), BINS).scatter_add_(1, _bins(confidence), right - confidence)
    return {
        "accuracy": right.mean(1),
        "log_loss": -given.clamp_min(torch.finfo(probability.dtype).tiny).log().mean(1),
        "brier": miss.clamp_min(0).mean(1),
        "ece": gap.abs().sum(1) / p.shape[1],
    }


def all_scores(probability: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Compute `scores`, or `errors` if K = 1, of predictions ``(S, E, m, K)``, each ``(S, E)``."""
    if probability.shape[-1] == 1:
        return errors(probability[..., 0], y)
    each = [scores(part, y) for part in probability.unbind(1)]
    return {name: torch.stack([found[name] for found in each], 1) for name in each[0]}


def errors(predicted: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Compute means of ``|p - y|`` and ``(p - y)^2``, each ``(S, E)``, in the units of the targets and their square.

    p is ``(S, E, m)``, y is ``(1 or S, m)``.
    """
    away = predicted.double() - y[:, None].double()
    return {"absolute_error": away.abs().mean(-1), "squared_error": away.square().mean(-1)}


def reliability(probability: Tensor, y: Tensor) -> list[dict[str, float]]:
    """Return the points of a reliability diagram, one for each bin 1..15 of `scores` that has rows."""
    _, _, confidence, right = _judged(probability, y)
    bins = _bins(confidence)
    rows = []
    for seed in range(len(bins)):
        for b in bins[seed].unique().tolist():
            inside = bins[seed] == b
            rows.append(
                {
                    "seed": seed,
                    "bin": b + 1,
                    "confidence": float(confidence[seed, inside].mean()),
                    "accuracy": float(right[seed, inside].mean()),
                    "count": int(inside.sum()),
                }
            )
    return rows


def mixed(theta: Tensor, shared: bool) -> dict[str, Tensor]:
    """Compute split R-hat and bulk ESS of released draws ``(S, E, samples, d)``, each ``(S, E)``.

    Both are of the worst coordinate.  Seeds that share one data set are the chains of one group, and get the same
    value.  Else each seed is a group with one chain.  The result is {} for too few draws.
    """
    seeds, budgets, samples, _ = theta.shape
    if samples < least_draws(seeds if shared else 1):
        return {}
    draws = theta.permute(2, 0, 1, 3)  # (samples, S, E, d)
    found = mixing(draws[:, None] if shared else draws[:, :, None])
    return {name: value.expand(seeds, budgets) for name, value in found._asdict().items()}


def _judged(probability: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return p in float64, and the label's p, the confidence and what each row counts for the accuracy, ``(S, m)``."""
    y = y if y.ndim == 2 else y[None]
    fits = probability.ndim == 3 and y.ndim == 2 and y.shape[1] == probability.shape[1] > 0
    if not (fits and len(y) in (1, len(probability))):
        raise ValueError(
            f"probability {tuple(probability.shape)} and y {tuple(y.shape)}: give (S, m, K) and (m,), m >= 1"
        )
    classes = probability.shape[-1]
    if int(y.min()) < 0 or int(y.max()) >= classes:
        raise ValueError(f"labels from {int(y.min())} to {int(y.max())}: they must be in 0..{classes - 1}")
    p = probability.double()
    off = (p.sum(-1) - 1).abs()
    if not (bool((p >= 0).all()) and float(off.max()) < 1e-3):
        raise ValueError(f"rows must be probabilities, >= 0 with sum 1: one is off by {float(off.max()):.3g}")
    confidence = p.amax(-1)
    given = p.gather(-1, y.long().expand(len(p), -1)[..., None])[..., 0]
    right = (given == confidence) / (p == confidence[..., None]).sum(-1).double()
    return p, given, confidence, right


def _bins(confidence: Tensor) -> Tensor:
    """Return the bin of each confidence, in 0..14; bin b is the interval (b/15, (b + 1)/15]."""
    return (confidence * BINS).ceil().long().clamp(1, BINS) - 1
