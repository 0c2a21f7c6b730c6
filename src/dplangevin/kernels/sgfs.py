"""Stochastic gradient Fisher scoring."""

from typing import NamedTuple

import torch
from torch import Tensor

from dplangevin.kernels import Kernel


class SgfsState(NamedTuple):
    """theta ``(S, C, d)``; estimated Fisher information of one record, positive semi-definite, ``(S, C, d, d)`` or,
    where chains share it, with 1 for S or C; Cholesky factor of the last step's P, None before the first step."""

    theta: Tensor
    fisher: Tensor
    cholesky: Tensor | None = None


def sgfs(factor: Tensor, records: int, batch: int) -> Kernel:
    r"""Wang, Fienberg and Smola (2015), Algorithm 4, steps 4 and 5 (Ahn, Korattikara and Welling 2012, B = F F^T)::

        I_t         = (1 - kappa) I_{t-1} + kappa V
        P           = (tau + N) N/tau I_t + 4 F F^T/eta
        theta_{t+1} = theta_t - 2 P^-1 (grad U(theta_t) + noise)

    factor: F ``(d, d)``, of full rank, public; records, batch: N, tau.  As eta goes to 0 the noise of Ahn et al.,
    N(0, 4 F F^T/eta), targets exp(-U).  Algorithm 4 adds N F Z with Z ~ N(0, 1/(N^2 eta)), that is N(0, F F^T/eta):
    exp(-4U).  As eta grows the noise of the minibatch takes over and both tend to the normal approximation of the
    posterior.
    Differs: the printed update is ``theta + 2 P^-1 (...)``, for the gradient of the log-posterior; eq. 4.1 has l and r
    as minus logarithms, so here as there the gradient is that of U and the sign is minus.
    init(theta, fisher); step(state, gradient, noise, step_size, covariance, rate): estimate of grad U and the noise on
    it, both ``(S, C, d)``; eta ``(C, 1)``; the minibatch's covariance of gradients V, of the shape of I and positive
    semi-definite, private if the chain is to be; kappa ``(C, 1)`` in [0, 1].  Without covariance and rate, kappa is 0
    and P stays as it was, for a step size that has not changed.  I and F may be of a wider type than theta.
    Raises ValueError for a batch outside 1..records or a factor that is not square.
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

    return Kernel(SgfsState, step)
