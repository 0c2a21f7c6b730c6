"""The papers' samplers as printed, on a Gaussian posterior: the kernels, and their linear maps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dplangevin.kernels.sgfs import SgfsState, sgfs
from dplangevin.kernels.sghmc import SghmcState, sghmc
from dplangevin.kernels.sgld import SgldState, sgld
from dplangevin.kernels.sgnht import SgnhtState, sgnht


class Chain(NamedTuple):
    """One sampler on the Gaussian posterior of precision H ``(d, d)`` at one step size eta.

    state: its first state, theta ``(R, 1, d)``.  step: ``(state, rng) -> state``.  linear: ``A, Q`` of the chain
    ``x' = A x + N(0, Q)`` whose first d coordinates are theta; for SGNHT, which is not linear, those of SGHMC.
    """

    state: Any
    step: Callable[[Any, torch.Generator], Any]
    linear: tuple[np.ndarray, np.ndarray]


def langevin(theta: Tensor, precision: Tensor, eta: float, *, records: int, noise_variance: float) -> Chain:
    """``theta - eta grad U/records + N(0, eta noise_variance/records)``: eq. 4.1 of wang2015 (records 1, variance 1),
    Algorithm 1 of li2019 (N, 1) and of ryffel2022 (1, 2 sigma^2).

    Differs: li2019 subtracts the gradient of ln l and ln p; read as minus the logarithms, or theta runs away.
    """
    kernel, std = sgld(), math.sqrt(eta * noise_variance / records)

    def step(state: SgldState, rng: torch.Generator) -> SgldState:
        return kernel.step(state, state.theta @ precision / records, std * normals(theta, rng), column(eta))

    identity, h = np.eye(len(precision)), precision.numpy()
    return Chain(kernel.init(theta), step, (identity - eta / records * h, std**2 * identity))


def hamiltonian(
    theta: Tensor, precision: Tensor, eta: float, *, friction: Callable[[float], float], thermostat: bool
) -> Chain:
    """Eq. 4.4 of wang2015, or 4.5 with a thermostat; noise N(0, 2 a eta), as both print it.  friction: a of eta."""
    a = friction(eta)
    kernel = sgnht() if thermostat else sghmc(a)
    start = torch.zeros_like(theta), torch.full_like(theta[..., :1], a)
    state = SgnhtState(theta, *start) if thermostat else SghmcState(theta, start[0])
    std = math.sqrt(2 * a * eta)

    def step(state: Any, rng: torch.Generator) -> Any:
        return kernel.step(state, state.theta @ precision, std * normals(theta, rng), column(eta))

    identity, zero, h = np.eye(len(precision)), np.zeros_like(precision), precision.numpy()
    drift = np.block([[identity, identity], [-eta * h, (1 - a) * identity]])
    return Chain(state, step, (drift, np.block([[zero, zero], [zero, std**2 * identity]])))


def fisher_scoring(
    theta: Tensor, precision: Tensor, eta: float, *, records: int, batch: int, noise: float, sampled: bool
) -> Chain:
    """Algorithm 4 of wang2015 with F = I and the Fisher information known, noise ``noise F F^T/eta`` on the gradient.

    sampled: with the noise N(0, N H/tau) that a minibatch of tau records adds to the gradient by the sampler's model.
    """
    identity, h = torch.eye(len(precision), dtype=theta.dtype), precision
    kernel = sgfs(identity, records, batch)
    gradient_noise = noise / eta * identity + (records / batch * h if sampled else 0 * h)
    root = torch.linalg.cholesky(gradient_noise)
    fisher, kappa = h / records, torch.zeros(1, 1, dtype=theta.dtype)

    def step(state: SgfsState, rng: torch.Generator) -> SgfsState:
        shaken = normals(theta, rng) @ root.T
        return kernel.step(state, state.theta @ h, shaken, column(eta), fisher, kappa)

    gain = 2 * np.linalg.inv((1 + records / batch) * h.numpy() + 4 / eta * identity.numpy())
    linear = identity.numpy() - gain @ h.numpy(), gain @ gradient_noise.numpy() @ gain.T
    return Chain(kernel.init(theta, fisher[None, None]), step, linear)


def normals(like: Tensor, rng: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=rng, dtype=like.dtype)


def column(eta: float) -> Tensor:
    return torch.full((1, 1), eta, dtype=torch.float64)
