"""Diagnostics of samplers: convergence and effective sample size, by arviz."""

import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    import xarray


class Mixing(NamedTuple):
    """Worst coordinate of each group of chains: r_hat and bulk ess, both ``(groups, budgets)``."""

    r_hat: Tensor
    ess: Tensor


def mixing(draws: Tensor) -> Mixing:
    """Rank-normalised split R-hat and bulk ESS (Vehtari et al. 2021).  draws: ``(draws, groups, chains, E, d)``.

    R-hat compares chains; a single chain is cut into halves that count as two.  Coordinates that never move are left
    out.  nan where none moves, or a draw is not finite.  Raises ValueError for fewer draws than `least_draws`.
    """
    with (
        warnings.catch_warnings()
    ):  # arviz announces its own next major version on import, which takes a second
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    count, groups, chains, *rest = draws.shape
    if count < least_draws(chains):
        raise ValueError(f"{count} draws of {chains} chains are too few: keep {least_draws(chains)} or more")
    halves = draws
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
    """The fewest draws per chain that `mixing` takes."""
    return 4 if chains > 1 else 8


def _labelled(draws: Tensor) -> "xarray.Dataset":
    import xarray

    axes = ("draw", "group", "chain", "budget", "coordinate")
    return xarray.Dataset({"theta": (axes, draws.double().numpy())})
