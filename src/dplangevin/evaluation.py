"""What a release is worth: prediction and calibration on the test rows, and how well its draws have mixed."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from dplangevin.data import Dataset
from dplangevin.diagnostics import least_draws, mixing

BINS = 15
# tensors (R, E) of a release's info that are metrics too, where the method reports them
REPORTED = ("r_hat", "ess", "epsilon_data_dependent", "epsilon_released", "answered")


def evaluate(theta: Tensor, data: Dataset) -> dict[str, Tensor]:
    """Metrics of the posterior predictive ``p(y | x) = mean_s sigmoid(y x.theta_s)`` on the test rows, each ``(R, E)``.

    accuracy: share of rows whose label is the more probable one, a tie counting half.  log_loss: mean of -log p(y), in
    nats per row.  brier: mean of ``(p(+1) - [y = +1])^2``, in [0, 1], half of the sum over both labels.  ece: expected
    calibration error, see `calibration_error`.  theta: ``(R, E, samples, d)``.
    """
    repeats, budgets, samples, _ = theta.shape
    x = torch.as_tensor(data.x_test, dtype=torch.float32)  # (1 or R, m, d)
    y = torch.as_tensor(data.y_test, dtype=torch.float32)[:, None]
    yes = torch.full((repeats, budgets, x.shape[1]), -torch.inf)  # log of the summed probability of y
    no = yes.clone()
    for s in range(samples):
        margins = y * (theta[:, :, s].float() @ x.mT)  # (R, E, m)
        yes, no = torch.logaddexp(yes, F.logsigmoid(margins)), torch.logaddexp(no, F.logsigmoid(-margins))
    right = ((yes > no).float() + 0.5 * (yes == no).float()).double()
    missed = (no.double() - math.log(samples)).exp()  # the probability of the other label
    confidence = (torch.maximum(yes, no).double() - math.log(samples)).exp()
    return {
        "accuracy": right.mean(-1),
        "log_loss": (math.log(samples) - yes).double().mean(-1),
        "brier": missed.square().mean(-1),
        "ece": calibration_error(confidence, right),
    }


def calibration_error(confidence: Tensor, right: Tensor) -> Tensor:
    """``sum_b |B_b|/m |mean of right in B_b - mean of confidence in B_b|`` (Guo et al. 2017, eq. 3).

    B_b: the rows whose confidence, the probability of the predicted label, is in ``((b - 1)/15, b/15]``; with two
    labels it is at least 1/2, so 8 of the 15 bins are in use.  Both ``(R, E, m)``; returns ``(R, E)``.
    """
    bins = (confidence * BINS).ceil().long().clamp(1, BINS) - 1
    gap = confidence.new_zeros(*confidence.shape[:-1], BINS)
    return gap.scatter_add_(-1, bins, right - confidence).abs().sum(-1) / confidence.shape[-1]


def mixed(theta: Tensor, shared: bool) -> dict[str, Tensor]:
    """Split R-hat and bulk ESS of the kept draws, worst coordinate, each ``(R, E)``; {} for too few draws.

    Repeats that share their data are chains of one group, which has one value for all of them; else each repeat is a
    group of one chain.  The draws of a private chain, thinned as they were released; theta ``(R, E, samples, d)``.
    """
    repeats, budgets, samples, _ = theta.shape
    if samples < least_draws(repeats if shared else 1):
        return {}
    draws = theta.permute(2, 0, 1, 3)  # (samples, R, E, d)
    found = mixing(draws[:, None] if shared else draws[:, :, None])
    return {name: value.expand(repeats, budgets) for name, value in found._asdict().items()}
