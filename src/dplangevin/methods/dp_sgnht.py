"""Differentially private stochastic gradient Nose-Hoover thermostat (wang2015, eq. 4.5)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from dplangevin.checks import require
from dplangevin.methods.dp_sghmc import DpSghmc
from dplangevin.problems.chain import State
from dplangevin.samplers import kernels
from dplangevin.samplers.kernels.sgnht import sgnht


@dataclass(frozen=True)
class DpSgnht(DpSghmc):
    """DP-SGNHT: eq. 4.5 on uniform subsets, with noise ``N(0, 2 a eta I)`` on the velocity.

    Gradient and privacy are those of `DpSghmc`.  The thermostat starts at the friction a < 1/2.  It has an
    equilibrium where 2 a + eta V < 1, with V the variance of a coordinate of the minibatch gradient. Else it diverges.

    Source: wang2015, eq. 4.5.
    """

    name: ClassVar[str] = "dp_sgnht"
    step: float = 0.1

    def check_step(self) -> None:
        require(
            self.friction < 0.5, f"friction must be below 1/2, not {self.friction}: there is no equilibrium"
        )

    def dynamics(self) -> kernels.Dynamics:
        return sgnht()

    def rest(self, theta: Tensor) -> State:
        """Return the thermostat's start, ``(S, E, 1)``."""
        return (torch.full((*theta.shape[:2], 1), self.friction, device=theta.device),)
