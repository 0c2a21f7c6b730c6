r"""Perturbed fits as they are computed: the minimum up to rounding, and noise that covers what is left of the gradient.

A solver stops at a point theta~ near the minimum theta* of an objective that is Lambda-strongly convex.  Its theorem
is about theta*; what theta~ shows beyond it (a precision, a number of steps, gaps between possible values) is not
priced by that theorem.  So noise eta is added, and the release is theta~ + eta (Iyengar et al. 2019, Algorithm 1).

Proof.  The perturbation b is a function of theta* and the data, hence so is theta~ - theta*, since the solver draws
nothing.  Given theta*, theta~ - theta* has norm at most gamma/Lambda on either data set, where gamma bounds the
gradient at theta~.  Releasing theta*, which its theorem prices, and then theta~ - theta* + eta, of sensitivity
2 gamma/Lambda, composes adaptively, whatever path the solver took; their sum is post-processing.
The proof needs gamma on every data set, so it is one that float64 reaches on all of them: `minimise.reachable`.

Differs: Iyengar et al. let the user choose gamma.
"""

from typing import NamedTuple

import torch
from dp_accounting import GaussianDpEvent
from torch import Tensor

from dplangevin.minimise import estimated, minimise, private_minimum
from dplangevin.privacy import Budget, calibrate
from dplangevin.privacy.accountants.analytic_gaussian import AnalyticGaussian
from dplangevin.privacy.accountants.objective import SHARE
from dplangevin.problems import Facts
from dplangevin.problems.glm import Glm

GRID = 1024  # points of the grid of released numbers in one scale of their noise


class Fit(NamedTuple):
    """Work of a plan.

    Attributes
    ----------
    ridge : Lambda, on the summed loss; > 0 where there is noise.
    scale : of the perturbation b, 0 without privacy.
    gradient_bound : gamma, on the norm of the gradient of the summed objective where the solver stops.
    output_scale : of the noise on the fit, in units of theta, 0 without privacy.
    """

    ridge: float
    scale: float
    gradient_bound: float = 0.0
    output_scale: float = 0.0


def shares(budget: Budget) -> tuple[Budget, Budget]:
    """What the objective's noise may spend, and what the noise on the fit may: `SHARE` of epsilon and of delta."""
    return (
        Budget((1 - SHARE) * budget.epsilon, (1 - SHARE) * budget.delta),
        Budget(SHARE * budget.epsilon, SHARE * budget.delta),
    )


def output_multiplier(budget: Budget) -> float:
    """Return the noise multiplier, standard deviation over sensitivity, that a Gaussian on the fit needs."""
    return calibrate(
        AnalyticGaussian(), GaussianDpEvent, budget, low=1e-3, high=1e9, adjacency="add_remove", rtol=1e-10
    )


def fitted(problem: Glm, works: list[Fit], linear: Tensor, noise: Tensor) -> Tensor:
    """Return the fits ``(S, E, d)``, with their noise on them.

    Parameters
    ----------
    problem : Glm
        Its rows are private.
    works : list of Fit
        One for each budget.
    linear : Tensor (S, E, d)
        The perturbation b.
    noise : Tensor (S, E, d)
        Of scale 1, for the fits.
    """
    ridge, scale, bound, output = torch.tensor(works, dtype=torch.float64).unbind(-1)
    theta, private = torch.empty_like(noise), scale > 0
    if bool(private.any()):
        theta[:, private] = private_minimum(
            estimated(problem), ridge[private], linear[:, private], bound[private]
        )
    if not bool(private.all()):
        theta[:, ~private] = minimise(estimated(problem), ridge[~private], linear[:, ~private]).theta
    return on_grid(theta + noise * output[:, None], output)


def on_grid(theta: Tensor, scale: Tensor) -> Tensor:
    """Round theta ``(S, E, d)`` to multiples of a power of two, at most `scale` ``(E,)`` over `GRID`; 0 leaves it.

    The last bits of a float64 sum depend on both of its parts (Mironov 2012); the grid, which is public, drops them.
    """
    grid = torch.exp2(torch.floor(torch.log2(scale / GRID)))[:, None]
    return torch.where(grid > 0, torch.round(theta / grid) * grid, theta)


def assumptions(facts: Facts) -> tuple[str, ...]:
    """Return what a perturbed fit needs beyond its event."""
    return *facts.rows, "ridge and scaling chosen without accounting"
