"""Diagnostics of samplers: convergence and effective sample size, by arviz."""

import warnings
from typing import NamedTuple

import torch
import xarray
from torch import Tensor

with warnings.catch_warnings():  # arviz announces its own next major version on import
    warnings.simplefilter("ignore", FutureWarning)
    import arviz


class Mixing(NamedTuple):
    """Worst coordinate of each group of chains: r_hat and bulk ess, both ``(groups, budgets)``."""

    r_hat: Tensor
    ess: Tensor


def mixing(draws: Tensor) -> Mixing:
    """Rank-normalised split R-hat and bulk ESS (Vehtari et al. 2021).  draws: ``(draws, groups, chains, E, d)``."""
    axes = ("draw", "group", "chain", "budget", "coordinate")
    posterior = xarray.Dataset({"theta": (axes, draws.double().numpy())})
    r_hat = arviz.rhat(posterior, method="rank")["theta"].max("coordinate")
    ess = arviz.ess(posterior, method="bulk")["theta"].min("coordinate")
    order = ("group", "budget")
    return Mixing(*(torch.tensor(v.transpose(*order).values) for v in (r_hat, ess)))
