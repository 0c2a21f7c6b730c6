"""Kernels of stochastic gradients: SGLD, SGHMC, the Nose-Hoover thermostat (SGNHT) and Fisher scoring (SGFS)."""

from typing import NamedTuple

import torch
from torch import Tensor

from dplangevin.samplers.kernels import Dynamics


class SgldState(NamedTuple):
    """The state of SGLD: theta ``(S, C, d)``."""

    theta: Tensor


def sgld() -> Dynamics:
    """Return the kernel of SGLD (stochastic gradient Langevin dynamics), ``theta <- theta - eta grad + z``.

    With ``z ~ N(0, eta)``, as printed in wang2015, the chain targets exp(-2U).  With ``z ~ N(0, 2 eta)`` it targets
    exp(-U).  `step` is (state, gradient, z, step_size); gradient, an estimate of grad U, and z are ``(S, C, d)``,
    eta is ``(C, 1)``.

    Source: Welling and Teh (2011); wang2015, eq. 4.1 and Algorithm 2.
    """

    def step(state: SgldState, gradient: Tensor, noise: Tensor, step_size: Tensor) -> SgldState:
        return SgldState(state.theta - step_size * gradient + noise)

    return Dynamics(SgldState, step)


class SghmcState(NamedTuple):
    """The state of SGHMC: theta and velocity, both ``(S, C, d)``."""

    theta: Tensor
    velocity: Tensor


def sghmc(friction: float | Tensor) -> Dynamics:
    """Return the kernel of SGHMC, which targets exp(-U).

    The update, stable on a quadratic of curvature h while ``eta h < a``, is::

        theta_t = theta_{t-1} + v_{t-1}
        v_t     = v_{t-1} - a v_{t-1} - eta grad(theta_{t-1}) + noise,   noise ~ N(0, 2 (a - b) eta I)

    - `friction`: a in (0, 1), a number or ``(C, 1)``; b: the caller's estimate of the noise in the gradient itself.
    - returns: ``init(theta, velocity)`` and ``step(state, gradient, noise, step_size)``. gradient, an estimate of grad
      U, and noise are ``(S, C, d)``; noise is None if the gradient contains it. step_size is eta, ``(C, 1)``.

    Source: wang2015, eq. 4.4; Chen, Fox and Guestrin (2014).
    """

    def step(state: SghmcState, gradient: Tensor, noise: Tensor | None, step_size: Tensor) -> SghmcState:
        velocity = (state.velocity * (1 - friction)).sub_(step_size * gradient)
        if noise is not None:
            velocity.add_(noise)
        return SghmcState(state.theta + state.velocity, velocity)

    return Dynamics(SghmcState, step)


class SgnhtState(NamedTuple):
    """The state of SGNHT: theta and velocity ``(S, C, d)``, thermostat alpha ``(S, C, 1)``."""

    theta: Tensor
    velocity: Tensor
    thermostat: Tensor


def sgnht() -> Dynamics:
    """Return the kernel of SGNHT, with the shapes of `sghmc`.

    The update, that of Ding et al. (2014) with ``v = h p`` and ``eta = h^2``, is::

        theta_t = theta_{t-1} + v_{t-1}
        v_t     = v_{t-1} - alpha_{t-1} v_{t-1} - eta grad(theta_{t-1}) + noise,   noise ~ N(0, 2 a eta I)
        alpha_t = alpha_{t-1} + ||v_t||^2 / d - eta

    As eta -> 0 with a = A sqrt(eta), it targets exp(-U). At a fixed a the thermostat holds E v^2 = eta, and the target
    is exp(-U/T) with T = (1 + sqrt(1 - 2a))/2, which is slightly too cold.

    Source: wang2015, eq. 4.5; Ding et al. (2014).
    Differs: the printed equation has ``u_{t-1}`` for ``v_{t-1}`` and ``grad(theta_s)`` for ``grad(theta_{t-1})``. Ours
    follows eq. 4.4 instead.
    """

    def step(state: SgnhtState, gradient: Tensor, noise: Tensor | None, step_size: Tensor) -> SgnhtState:
        velocity = (state.velocity * (1 - state.thermostat)).sub_(step_size * gradient)
        if noise is not None:
            velocity.add_(noise)
        energy = velocity.square().mean(-1, keepdim=True)
        return SgnhtState(state.theta + state.velocity, velocity, state.thermostat + energy - step_size)

    return Dynamics(SgnhtState, step)


class SgfsState(NamedTuple):
    """The state of SGFS, theta ``(S, C, d)``.

    - `fisher`: (S, C, d, d), estimated Fisher information of one record; S or C is 1 where chains share it.
    - `cholesky`: Cholesky factor of the last step's P, of the shape of `fisher`; None before the first step.
    """

    theta: Tensor
    fisher: Tensor
    cholesky: Tensor | None = None


def sgfs(factor: Tensor, records: int, batch: int) -> Dynamics:
    """Return the kernel of SGFS, steps 4 and 5 of Algorithm 4 of wang2015.

    The update is::

        I_t         = (1 - kappa) I_{t-1} + kappa V
        P           = (tau + N) N/tau I_t + 4 F F^T/eta
        theta_{t+1} = theta_t - 2 P^-1 (grad U(theta_t) + noise)

    With B = F F^T in Ahn, Korattikara and Welling (2012), their noise N(0, 4 F F^T/eta) targets exp(-U) as eta goes
    to 0. Algorithm 4 adds N F Z with ``Z ~ N(0, 1/(N^2 eta))``, that is N(0, F F^T/eta), which targets exp(-4U). As
    eta grows, the noise of the minibatch dominates, and both tend to the normal approximation of the posterior.

    Source: wang2015, Algorithm 4; Ahn, Korattikara and Welling (2012).
    Differs: the printed update is ``theta + 2 P^-1 (...)``, which fits the gradient of the log-posterior. By eq. 4.1, l
    and r are minus logarithms. So the gradient here is that of U, and the sign is minus.

    - `factor`: (d, d), F, of full rank, public.
    - `records`, `batch`: N and tau, with tau in 1..N.
    - returns: ``init(theta, fisher)`` and ``step(state, gradient, noise, step_size, covariance, rate)``. gradient, an
      estimate of grad U, and noise are ``(S, C, d)``; step_size is eta and rate is kappa in [0, 1], ``(C, 1)``.
      covariance is V, of the shape of I, positive semi-definite, and private if the chain is to be. Without covariance
      and rate, kappa is 0 and P stays as it was, which needs an unchanged step size.
    """
    scale = (batch + records) * records / batch
    outer = 4 * factor @ factor.T

    def step(
        state: SgfsState,
        gradient: Tensor,
        noise: Tensor,
        step_size: Tensor,
        covariance: Tensor | None = None,
        rate: Tensor | None = None,
    ) -> SgfsState:
        fisher, cholesky = state.fisher, state.cholesky
        if covariance is not None and rate is not None:
            kappa = rate[..., None]  # (C, 1, 1)
            fisher, cholesky = (1 - kappa) * fisher + kappa * covariance, None
        if cholesky is None:
            cholesky = torch.linalg.cholesky(scale * fisher + outer / step_size[..., None])  # (S, C, d, d)
        push = (gradient + noise).to(cholesky.dtype)
        move = torch.cholesky_solve(push[..., None], cholesky)[..., 0]
        return SgfsState(state.theta - 2 * move.to(state.theta.dtype), fisher, cholesky)

    return Dynamics(SgfsState, step)
