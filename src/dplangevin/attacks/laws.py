"""The exact law of objective perturbation on pairs of one-dimensional losses.

The record's loss is, under D, linear with slope -L up to a point t, then bends with curvature beta until its slope is
0. Under D' it is linear with slope L. All other losses are 0. So theta is a one-to-one function of the perturbation:
``b = -(Lambda theta + phi'(theta))``. Its density is that of b times ``Lambda + phi''(theta)``. The log-ratio at t is
the largest that slopes can give there, plus log(1 + beta/Lambda).

The noise that covers the solver's error is left out. It has less than a thousandth of the width of the events that are
used, and costs 1 % of epsilon.
"""

import math

import numpy as np
from scipy.special import log_ndtr

from dplangevin.attacks.langevin import Distributions
from dplangevin.privacy.accountants.protocol import refuse
from dplangevin.privacy.events import (
    Adjacency,
    ObjectivePerturbationDpEvent,
    PureObjectivePerturbationDpEvent,
)

REACH = 40.0  # scales of b on either side
CELLS = 400  # in one scale of b
BENDS = np.arange(0.0, 5.01, 0.25)  # values of b at t, in scales of b below 0
WIDEST = 1e-3  # of the noise on the fit, in scales of the fit


def laws(
    event: ObjectivePerturbationDpEvent | PureObjectivePerturbationDpEvent, adjacency: Adjacency
) -> list[Distributions]:
    """Return the laws of theta for several points t, for replaced records."""
    gaussian = isinstance(event, ObjectivePerturbationDpEvent)
    scale = event.noise_std if gaussian else 1 / event.rate
    output = event.output_std if gaussian else event.output_scale
    if event.rank > 1:
        raise refuse("attacks.fits", event, "it attacks losses of one margin")
    if output * event.ridge > WIDEST * scale:
        raise refuse("attacks.fits", event, "the noise on the fit is not small beside the perturbation")
    found = []
    for bend in BENDS:
        t = (event.lipschitz + bend * scale) / event.ridge  # where b = -bend scale under D
        edges = (np.arange(-REACH, REACH, 1 / CELLS) * scale) / event.ridge + t
        slope = np.clip(event.smoothness * (edges - t), 0.0, event.lipschitz) - event.lipschitz
        sides = -(event.ridge * edges + slope), -(event.ridge * edges + event.lipschitz)
        masses = [_between(b / scale, gaussian) for b in sides]
        found.append(Distributions(edges[1:], masses[0], masses[1]))
    return found


def _between(b: np.ndarray, gaussian: bool) -> np.ndarray:
    """Return the log probability that b, of scale 1, is between neighbours of decreasing numbers."""

    def log_tail(x: np.ndarray) -> np.ndarray:
        return log_ndtr(-x) if gaussian else -x - math.log(2)

    low, high = b[1:], b[:-1]
    mirrored = np.abs(np.where(low + high > 0, low, high)), np.abs(np.where(low + high > 0, high, low))
    near, far = log_tail(mirrored[0]), log_tail(mirrored[1])
    inside = near + np.log(-np.expm1(np.minimum(far - near, -1e-300)))
    across = (low < 0) & (high > 0)
    both = np.log1p(-np.exp(np.minimum(near, 0.0)) - np.exp(np.minimum(far, 0.0)))
    return np.where(across, both, inside)
