"""Worst-case pairs of problems for the project's own methods, and statistics of what they release.

All rows are x = 1 in one dimension.  One record has label +1 under D and -1 under D'; all others have -1.  With the
`LINEAR` loss its gradients differ by 2L at every theta, so noise on a minimiser or on a gradient has its full
replace-one sensitivity to hide; with the logistic loss they differ by L, since two directions of opposite sign are one
and the same margin.  `repeats` of the problems are the runs: one call of a method makes them all.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dplangevin.attacks.sampled import log_density
from dplangevin.losses import LOGISTIC, Loss
from dplangevin.privacy import Adjacency
from dplangevin.problem import Problem

# What the logistic loss is, up to a constant, where the margin is far negative; the constants are those of the latter.
LINEAR = Loss(
    "linear",
    value=lambda m, y: -y * m,
    slope=lambda m, y: m.copy_(-y.expand_as(m)),
    curvature=lambda m, y: torch.zeros_like(m),
    lipschitz=LOGISTIC.lipschitz,
    smoothness=LOGISTIC.smoothness,
    one_sided=True,
)


class Chain(NamedTuple):
    """How a released chain was made: minibatches of `batch` of `records`; step size eta; std of the noise in a step."""

    records: int
    batch: int
    step_size: float
    noise_std: float


def opposite(
    runs: int, records: int = 1, loss: Loss = LINEAR, length: float = 1.0
) -> tuple[Problem, Problem]:
    """The problems of D and D', `records` rows shared by all runs.

    length: of the differing record, 1 for an honest pair; a longer one breaks the promise ||x|| <= 1.
    """
    if records < 1 or runs < 1:
        raise ValueError(f"records = {records} and runs = {runs} must be at least 1")
    x = torch.ones(1, records, 1)
    x[0, 0] = length
    problems = []
    for label in (1.0, -1.0):
        y = -torch.ones(1, records)
        y[0, 0] = label
        problems.append(Problem(x, y, loss, runs))
    return problems[0], problems[1]


def alone(runs: int, records: int, adjacency: Adjacency, length: float = 1.0) -> tuple[Problem, Problem]:
    """The problems of D and D', linear loss: all records but one are x = 0, whose gradient is 0.

    The one is x = length, label +1, under D; under D' its label is -1 ("replace_one"), or it is 0 as well, as if it had
    been taken away while N stays ("add_remove").  Against Poisson sampling this is the worst pair, since no other
    record adds noise.
    """
    first, second = opposite(runs, records, LINEAR, length)
    x = torch.zeros_like(first.x)
    x[0, 0] = length
    other = x if adjacency == "replace_one" else torch.zeros_like(x)
    return replace(first, x=x), replace(second, x=other)


def last(theta: Tensor) -> np.ndarray:
    """The last sample of each run, ``(runs,)``, of theta ``(runs, samples, 1)``; it grows with the record's label."""
    return theta[:, -1, 0].double().numpy()


def sgld_ratio(theta: Tensor, chain: Chain, loss: Loss = LINEAR) -> np.ndarray:
    """Log-likelihood ratio ``(runs,)`` of all iterates of `DpSgld`, constant steps and precision 0, after theta_0.

    theta: ``(runs, 1 + steps, 1)``, theta_0 first.
    """
    theta = theta[..., 0].double()
    return _ratio(theta[:, 1:] - theta[:, :-1], theta[:, :-1], chain, loss)


def sgnht_ratio(theta: Tensor, chain: Chain, friction: float, loss: Loss = LINEAR) -> np.ndarray:
    """The same for `DpSgnht`: increments of theta are the velocities, and these give the thermostat back.

    The last step moves only the velocity, which is not released, so ``steps - 1`` of the steps are seen.
    """
    theta = theta[..., 0].double()
    velocity = theta[:, 1:] - theta[:, :-1]  # v_0, ..., v_(steps - 1)
    thermostat, moves = torch.full_like(velocity[:, 0], friction), []
    for before, after in zip(velocity.mT[:-1], velocity.mT[1:], strict=True):
        moves.append(after - (1 - thermostat) * before)
        thermostat = thermostat + after.square() - chain.step_size
    return _ratio(torch.stack(moves, 1), theta[:, : len(moves)], chain, loss)


def sghmc_ratio(theta: Tensor, chain: Chain, friction: float, loss: Loss = LINEAR) -> np.ndarray:
    """The same for `DpSghmc`, whose friction stays."""
    theta = theta[..., 0].double()
    velocity = theta[:, 1:] - theta[:, :-1]
    moves = velocity[:, 1:] - (1 - friction) * velocity[:, :-1]
    return _ratio(moves, theta[:, : moves.shape[1]], chain, loss)


def poisson_ratio(
    theta: Tensor, rate: float, unit: float, noise_std: float, adjacency: Adjacency
) -> np.ndarray:
    """Log-likelihood ratio ``(runs,)`` of all iterates on the pair `alone`, Poisson-sampled at `rate`, precision 0.

    theta: ``(runs, 1 + steps, 1)``, theta_0 first.  unit: how far the record moves a step, eta clip/tau.  noise_std: of
    a step.
    """
    theta = theta[..., 0].double()
    x, noise = (theta[:, 1:] - theta[:, :-1]) / unit, noise_std / unit
    away = (rate, -1.0) if adjacency == "replace_one" else (0.0, 0.0)
    return (log_density(x, (rate, 1.0), noise) - log_density(x, away, noise)).sum(1).numpy()


def _ratio(moves: Tensor, at: Tensor, chain: Chain, loss: Loss) -> np.ndarray:
    """moves = -eta (N/tau) sum_S grad + noise, ``(runs, steps)``, with gradients taken at theta `at`.

    In units of eta N/tau and less what D' would give, a step is N(0, z^2), or N(s, z^2) if it used the record of D.
    """
    unit = chain.step_size * chain.records / chain.batch
    label = at.new_ones(())
    away = loss.slope(at.clone(), -label)  # of a record with label -1
    shift = away - loss.slope(at.clone(), label)
    gap = float(shift.mean())
    if not torch.allclose(shift, shift.new_tensor(gap)):
        raise ValueError(
            f"the {loss.name} loss moves a step by an amount that depends on theta: use linear or logistic"
        )
    rate = chain.batch / chain.records
    x = moves / unit + chain.batch * away
    return log_density(x, (rate, gap), chain.noise_std / unit).sum(1).numpy()
