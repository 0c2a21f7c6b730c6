"""Differentially private stochastic gradient Nose-Hoover thermostat (Wang, Fienberg and Smola 2015, eq. 4.5)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from dplangevin import kernels
from dplangevin.chains.chain import State
from dplangevin.checks import require
from dplangevin.kernels.sgnht import sgnht
from dplangevin.methods.dp_sghmc import DpSghmc


@dataclass(frozen=True)
class DpSgnht(DpSghmc):
    r"""Eq. 4.5 with minibatch gradients ``n/tau sum_S grad l + grad r`` and ``N(0, 2 a eta I)`` on the velocity.

    Private as `DpSghmc` is; the friction a < 1/2 is also the thermostat's start.  It has an equilibrium where
    2 a + eta V < 1, with V the variance of a coordinate of the minibatch gradient; beyond that it climbs, and the chain
    diverges.
    """

    name: ClassVar[str] = "dp_sgnht"
    step: float = 0.1

    def check_step(self) -> None:
        require(
            self.friction < 0.5, f"friction must be below 1/2, not {self.friction}: there is no equilibrium"
        )

    def dynamics(self) -> kernels.Kernel:
        return sgnht()

    def rest(self, theta: Tensor) -> State:
        return (torch.full((*theta.shape[:2], 1), self.friction, device=theta.device),)
