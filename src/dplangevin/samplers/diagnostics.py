"""Diagnostics of samplers, computed by arviz: convergence and effective sample size (ESS)."""

import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    import xarray


class Mixing(NamedTuple):
    """Split R-hat and bulk ESS of each group of chains, ``(groups, budgets)``, for its worst coordinate."""

    r_hat: Tensor
    ess: Tensor


def mixing(draws: Tensor) -> Mixing:
    """Compute rank-normalised split R-hat and bulk ESS of draws ``(draws, groups, chains, E, d)``.

    Source: Vehtari et al. (2021). A single chain is cut into halves, which count as two chains. Coordinates that never
    move are left out. The result is nan where no coordinate moves, where a draw is not finite, and for too few draws.
    """
    count, groups, chains, *rest = draws.shape
    if count < least_draws(chains):
        unknown = torch.full((groups, rest[0]), torch.nan)
        return Mixing(unknown, unknown)
    with warnings.catch_warnings():  # the import takes a second, and warns of arviz's next major version
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    halves = draws = draws.cpu()
    if chains == 1:
        halves = draws[count % 2 :].unflatten(0, (2, -1)).movedim(0, 2).reshape(-1, groups, 2, *rest)
    with np.errstate(divide="ignore", invalid="ignore"):  # coordinates that never move
        r_hat = arviz.rhat(_labelled(halves), method="rank")["theta"].max("coordinate")
        ess = arviz.ess(_labelled(draws), method="bulk")["theta"].min("coordinate")
    order = ("group", "budget")
    finite = draws.isfinite().all(-1).all(2).all(0)
    found = (torch.tensor(v.transpose(*order).values) for v in (r_hat, ess))
    return Mixing(*(value.where(finite, torch.nan) for value in found))


def least_draws(chains: int) -> int:
    """Return the smallest number of draws per chain from which `mixing` is known."""
    return 4 if chains > 1 else 8


def _labelled(draws: Tensor) -> "xarray.Dataset":
    import xarray

    axes = ("draw", "group", "chain", "budget", "coordinate")
    return xarray.Dataset({"theta": (axes, draws.double().numpy())})
