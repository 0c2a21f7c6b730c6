"""Perturbed fits as computed: a point near the minimum, and noise that covers the remaining distance.

A solver stops at a point theta~ near the minimum theta* of an objective that is Lambda-strongly convex.  The theorem of
the method is about theta*.  So noise eta is added, and the release is theta~ + eta (Iyengar et al. 2019, Algorithm 1).

Proof.  The perturbation b is a function of theta* and the data.  The solver draws nothing, so theta~ - theta* is
such a function, too.  Given theta*, its norm is at most gamma/Lambda on either data set, where gamma bounds the
gradient at theta~.  Consider the release of theta*, which its theorem prices, and then of theta~ - theta* + eta,
whose sensitivity is 2 gamma/Lambda.  The two compose adaptively, and their sum is post-processing.  This needs the
same gamma on every data set: `samplers.minimise.reachable`.

Differs: Iyengar et al. let the user choose gamma.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from dp_accounting import DpEvent, GaussianDpEvent
from torch import Tensor

from dplangevin.methods import Execution, Method, Plan, Release, guaranteed, of_works
from dplangevin.privacy import Adjacency, Budget, noise_for
from dplangevin.privacy.accountants.analytic_gaussian import AnalyticGaussian
from dplangevin.privacy.accountants.objective import SHARE
from dplangevin.problems import Facts, Problem
from dplangevin.problems.glm import Glm
from dplangevin.random import on_grid
from dplangevin.samplers.minimise import estimated, minimise, private_minimum


class Fit(NamedTuple):
    """What a plan of a perturbed fit has to compute.

    - `ridge`: on the summed loss; > 0 if there is noise.
    - `scale`: Scale of the perturbation b; 0 without privacy.
    - `gradient_bound`: gamma, for the summed objective.
    - `output_scale`: Scale of the noise on the fit, in units of theta; 0 without privacy.
    """

    ridge: float
    scale: float
    gradient_bound: float = 0.0
    output_scale: float = 0.0


def shares(budget: Budget) -> tuple[Budget, Budget]:
    """Split a budget into a part for the objective's noise and a `SHARE` for the noise on the fit."""
    return (
        Budget((1 - SHARE) * budget.epsilon, (1 - SHARE) * budget.delta),
        Budget(SHARE * budget.epsilon, SHARE * budget.delta),
    )


def output_multiplier(budget: Budget) -> float:
    """Return the noise multiplier (standard deviation/sensitivity) that Gaussian noise on the fit needs."""
    return noise_for(
        AnalyticGaussian(), GaussianDpEvent, budget, low=1e-3, high=1e9, adjacency="add_remove", rtol=1e-10
    )


def perturbed(
    problem: Problem, plans: Sequence[Plan], how: Execution, draw: Callable[..., Tensor]
) -> Release:
    """Return the fits; `draw` draws both the perturbations b and the noise on the fits at scale 1, ``(S, E, d)``."""
    assert isinstance(problem, Glm)
    shape, device = (how.seeds, len(plans), problem.d), problem.device
    linear = draw(how.rng, *shape, device=device) * of_works(plans, "scale", device)[:, None]
    noise = draw(how.rng, *shape, device=device)
    return Release(fitted(problem, [plan.work for plan in plans], linear, noise)[:, :, None])


def fitted(problem: Glm, works: list[Fit], linear: Tensor, noise: Tensor) -> Tensor:
    """Return the fits ``(S, E, d)`` with noise, for perturbations b and noise of scale 1, both ``(S, E, d)``."""
    numbers = torch.tensor(works, dtype=torch.float64, device=problem.device)
    ridge, scale, bound, output = numbers.unbind(-1)
    theta, private = torch.empty_like(noise), scale > 0
    if bool(private.any()):
        theta[:, private] = private_minimum(
            estimated(problem), ridge[private], linear[:, private], bound[private]
        )
    if not bool(private.all()):
        theta[:, ~private] = minimise(estimated(problem), ridge[~private], linear[:, ~private]).theta
    return on_grid(theta + noise * output[:, None], output[:, None])


def planned_fit(
    method: Method,
    facts: Facts,
    budget: Budget,
    event: DpEvent | None,
    fit: Fit,
    columns: Mapping[str, float | str],
    adjacency: Adjacency = "replace_one",
) -> Plan:
    """Return the plan of a fit with this event; None: without privacy."""
    assumptions = *facts.rows, "ridge and scaling chosen without accounting"
    return Plan(
        guaranteed(method.accountant, event, budget, adjacency, "final", "full", assumptions), fit, columns
    )
