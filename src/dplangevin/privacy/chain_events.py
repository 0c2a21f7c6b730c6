"""Events of whole chains: the last iterate of DP-SGLD, and all iterates of DP-SGFS."""

import math
from collections.abc import Callable
from typing import Any

import attr
import numpy as np
from dp_accounting import DpEvent

from dplangevin.privacy.events import not_negative, positive
from dplangevin.privacy.subsampled_gaussian import composed_steps


def _whole(least: int) -> Callable[[object, attr.Attribute, int], None]:
    def check(instance: object, attribute: attr.Attribute, value: int) -> None:
        if not (isinstance(value, int | np.integer) and value >= least):
            raise ValueError(
                f"{type(instance).__name__}: {attribute.name} = {value} must be a whole number >= {least}"
            )

    return check


def _at_most_records(instance: Any, attribute: attr.Attribute, value: int) -> None:
    if value > instance.records:
        raise ValueError(
            f"{type(instance).__name__}: {attribute.name} = {value} must be at most records = {instance.records}"
        )


@attr.s(frozen=True, slots=True, auto_attribs=True)
class LangevinDpEvent(DpEvent):
    """The last iterate alone, theta_K, of ryffel2022 Algorithm 1, for k = 0, ..., K - 1:

        theta_(k+1) = Proj_C(theta_k - eta_k grad L_(B_k)(theta_k) + sqrt(2 eta_k) sigma N(0, I)),
        eta_k = step_size/(1 + decay step_size k).

    L_B is the mean of the losses over B, a uniform subset of `batch` of `records` records drawn anew each
    step; batch == records is the full batch. C is convex. Constant steps: decay 0; the paper's decreasing
    steps 1/(2 beta + lambda k/2): step_size 1/(2 beta), decay lambda/2. steps: K >= 1. step_size, noise_std
    (sigma), lipschitz (L >= ||grad l||): > 0. strong_convexity, smoothness: of *every* record's loss l,
    0 <= lambda <= beta. decay: >= 0.
    """

    records: int = attr.ib(validator=_whole(1))
    batch: int = attr.ib(validator=[_whole(1), _at_most_records])
    steps: int = attr.ib(validator=_whole(1))
    step_size: float = attr.ib(validator=positive)
    noise_std: float = attr.ib(validator=positive)
    lipschitz: float = attr.ib(validator=positive)
    strong_convexity: float = attr.ib(validator=not_negative)
    smoothness: float = attr.ib(validator=not_negative)
    decay: float = attr.ib(default=0.0, validator=not_negative)

    def __attrs_post_init__(self) -> None:
        if self.strong_convexity > self.smoothness:
            raise ValueError(
                f"LangevinDpEvent: strong_convexity = {self.strong_convexity} must be at most "
                f"smoothness = {self.smoothness}"
            )

    def step_sizes(self) -> np.ndarray:
        """eta_k, (steps,)."""
        return self.step_size / (1 + self.decay * self.step_size * np.arange(self.steps))

    def multipliers(self) -> np.ndarray:
        """Noise over one record's share eta_k L/batch of a step: sigma batch sqrt(2/eta_k)/L, (steps,)."""
        return self.noise_std * self.batch * np.sqrt(2 / self.step_sizes()) / self.lipschitz

    def all_iterates(self) -> DpEvent:
        """The same steps with every iterate visible; never cheaper than the last iterate alone."""
        return composed_steps(self.records, self.batch, self.multipliers())


@attr.s(frozen=True, slots=True, auto_attribs=True)
class FisherScoringDpEvent(DpEvent):
    """All iterates of DP-SGFS (wang2015 Algorithm 4).

    Each step draws `batch` (tau) of `records` without replacement and releases the mean gradient plus F Z,
    Z ~ N(0, sigma^2 I), and the sample covariance of the gradients plus W, W_ij ~ N(0, 49 ||F||^4 sigma^2).
    Every gradient lies in F times the unit ball. steps: >= 1. batch: >= 2. noise_std: sigma > 0, unitless.
    """

    records: int = attr.ib(validator=_whole(1))
    batch: int = attr.ib(validator=[_whole(2), _at_most_records])
    steps: int = attr.ib(validator=_whole(1))
    noise_std: float = attr.ib(validator=positive)

    def gaussian_steps(self) -> DpEvent:
        """Gradient and covariance of one minibatch as one Gaussian step, sampled, `steps` times.

        In F's norm a record moves the mean gradient by 1/tau: multiplier z_g = sigma tau. Replacing one moves
        the covariance by at most 7 ||F||^2/(tau - 1) (Lemma 6), so mu = 1/(sigma (tau - 1)) = 2/z_c with z_c
        = 2 sigma (tau - 1). Both at once: 1/z^2 = 1/z_g^2 + 1/z_c^2. Replace-one only.
        """
        gradient, covariance = self.noise_std * self.batch, 2 * self.noise_std * (self.batch - 1)
        joint = gradient * covariance / math.hypot(gradient, covariance)
        return composed_steps(self.records, self.batch, np.full(self.steps, joint))
