"""Stochastic gradient Fisher scoring (SGFS)."""

from typing import NamedTuple

import torch
from torch import Tensor

from dplangevin.samplers.kernels import Dynamics


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
    to 0.  Algorithm 4 adds N F Z with ``Z ~ N(0, 1/(N^2 eta))``, that is N(0, F F^T/eta), which targets exp(-4U).
    As eta grows, the noise of the minibatch dominates, and both tend to the normal approximation of the posterior.

    Source: wang2015, Algorithm 4; Ahn, Korattikara and Welling (2012).
    Differs: the printed update is ``theta + 2 P^-1 (...)``, which fits the gradient of the log-posterior.  Eq. 4.1
    defines l and r as minus logarithms.  So the gradient here is that of U, and the sign is minus.

    - `factor`: (d, d), F, of full rank, public.
    - `records`, `batch`: N and tau, with tau in 1..N.
    - returns: ``init(theta, fisher)`` and ``step(state, gradient, noise, step_size, covariance, rate)``.  gradient,
      an estimate of grad U, and noise are ``(S, C, d)``; step_size is eta and rate is kappa in [0, 1], ``(C, 1)``.
      covariance is V, of the shape of I, positive semi-definite, and private if the chain is to be.  Without
      covariance and rate, kappa is 0 and P stays as it was, which needs an unchanged step size.
    """
    if not 0 < batch <= records:
        raise ValueError(f"batch must be in 1..{records} (records), not {batch}")
    if factor.dim() != 2 or factor.shape[0] != factor.shape[1]:
        raise ValueError(f"factor must be a square matrix (d, d), not of shape {tuple(factor.shape)}")
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
