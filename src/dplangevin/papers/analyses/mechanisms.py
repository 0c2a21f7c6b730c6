"""The papers' mechanisms as events, built from the settings that the papers state."""

import math
from typing import Literal

import attr
import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent

from dplangevin.checks import require
from dplangevin.papers.analyses.langevin import Setting
from dplangevin.privacy.accountants.protocol import leaves
from dplangevin.privacy.events import FisherScoringDpEvent, LangevinDpEvent, PosteriorSampleDpEvent
from dplangevin.privacy.gaussian_steps import (
    StepSchedule,
    composed_steps,
    falling,
    rate_and_multiplier,
    steps_event,
)
from dplangevin.privacy.li2019 import multiplier_of


def sgld(
    *,
    records: int,  # N
    batch: int,  # tau
    step_size: float,  # eta of the first step, > 0
    lipschitz: float,  # L, the bound on the gradient of one record
    steps: int | None = None,
    epochs: float | None = None,
    schedule: StepSchedule = "fixed",  # counts only with Poisson sampling
    sampling: Literal["poisson", "without_replacement"] = "poisson",
) -> DpEvent:
    """Return the event of Algorithm 1 of li2019 (DP-SGLD), for a number of steps or of epochs."""
    require((steps is None) != (epochs is None), f"give steps or epochs, not steps={steps}, epochs={epochs}")
    count = steps if steps is not None else round(epochs * records / batch)  # type: ignore[operator]
    multiplier = multiplier_of(step_size, records=records, batch=batch, lipschitz=lipschitz)
    if sampling == "poisson":
        return steps_event(multiplier, rate=batch / records, steps=count, schedule=schedule)
    return composed_steps(records, batch, np.full(count, multiplier))


def dp_sgd(*, records: int, batch: int, epochs: float, noise_multiplier: float) -> DpEvent:
    """Return the event of DP-SGD with Poisson samples, as Opacus accounts; noise_multiplier is over the clip."""
    steps = round(epochs * records / batch)
    return steps_event(noise_multiplier, rate=batch / records, steps=steps, schedule="fixed")


def decreasing_sgld_with_more_noise(
    *, records: int, batch: int, steps: int, step_size: float, lipschitz: float, ratio: float
) -> DpEvent:
    """Return the event of `sgld` with decreasing steps, sigma_t = sigma_1 t^(1/6), rounded up to sigma_1 ratio^k."""
    first = multiplier_of(step_size, records=records, batch=batch, lipschitz=lipschitz)
    return falling(
        first, batch / records, np.ceil(np.log(np.arange(1, steps + 1)) / 6 / math.log(ratio)), ratio
    )


def langevin(
    *, setting: Setting, batch: int, schedule: str, counted: Literal["steps", "epochs"] = "steps"
) -> LangevinDpEvent:
    """Return the event of Algorithm 1 of ryffel2022 (DP-Langevin); counted "epochs" takes an epoch as one step."""
    steps = setting.steps(batch) if counted == "steps" else setting.epochs
    return setting.event(batch, steps, schedule)


def utility(*, setting: Setting, batch: int, dimension: int, epsilon: float, delta: float) -> LangevinDpEvent:
    """Return the event with the settings of Section 4.1 of ryffel2022 for (epsilon, delta); d is `dimension`.

    sigma^2 = 8 L^2 (eps + 2 ln(1/delta))/(eps^2 lambda n^2), K = 2 beta/lambda ln(eps^2 n^2/(4 ln(1/delta) d)).
    """
    log, strength = math.log(1 / delta), setting.strong_convexity
    scale = (epsilon * setting.records) ** 2
    steps = math.ceil(2 * setting.smoothness / strength * math.log(scale / (4 * log * dimension)))
    noise_std = math.sqrt(8 * setting.lipschitz**2 * (epsilon + 2 * log) / (strength * scale))
    event = setting.event(batch, steps)
    return attr.evolve(event, step_size=1 / (2 * setting.smoothness), noise_std=noise_std)


def posterior_weight(epsilon: float, radius: float) -> float:
    """Return rho of Algorithm 1 of wang2015: min(1, epsilon/4B), B = log(1 + e^D), D = radius."""
    return min(1.0, epsilon / (4 * float(np.logaddexp(0, radius))))


def posterior(*, epsilon: float, radius: float) -> PosteriorSampleDpEvent:
    """Return the event of Algorithm 1 of wang2015, with D = radius."""
    return PosteriorSampleDpEvent(posterior_weight(epsilon, radius), radius)


def noisy_gradients(
    *,
    records: int,  # N
    batch: int,  # tau
    epochs: float,  # T, passes over the data
    epsilon: float,  # promised, as `delta`
    delta: float,
    inner: float = 2.5,
    outer: float = 2.0,
) -> DpEvent:
    """Return the event of Algorithm 2 of wang2015: k = floor(N T/tau) steps with the noise of Theorem 4.

    The noise on the minibatch sum is (z L)^2 = 128 k L^2/eps^2 (tau/N)^2 ln(inner k/delta) ln(outer/delta).
    """
    steps = math.floor(records * epochs / batch)
    logs = math.log(inner * steps / delta) * math.log(outer / delta)
    multiplier = batch / records * math.sqrt(128 * steps * logs) / epsilon
    return composed_steps(records, batch, np.full(steps, multiplier))


def fisher_scoring(
    *, records: int, batch: int, epochs: float, epsilon: float, delta: float
) -> FisherScoringDpEvent:
    """Return Algorithm 4 of wang2015: sigma^2 = 32 T ln(2.5 N T/(tau delta)) ln(2/delta)/(N tau eps^2)."""
    steps = math.floor(records * epochs / batch)
    logs = math.log(2.5 * steps / delta) * math.log(2 / delta)
    return FisherScoringDpEvent(
        records, batch, steps, math.sqrt(32 * epochs * logs / (records * batch)) / epsilon
    )


def non_spherical(*, epsilon: float, delta: float) -> GaussianDpEvent:
    """Return Lemma 5 of wang2015, noise (1 + sqrt(ln(1/delta)))/eps on a sum in a unit ball.

    Differs: the text has 1 log(1/delta) under the root, which we take as printed.
    """
    return GaussianDpEvent((1 + math.sqrt(math.log(1 / delta))) / epsilon)


def described(event: DpEvent) -> str:
    """Describe the mechanism in a few words, with its numbers."""
    parts: list[str] = []
    steps: list[tuple[float, float, int]] = []
    for leaf, count in leaves(event):
        if isinstance(leaf, PosteriorSampleDpEvent):
            parts.append(f"posterior sample, rho = {leaf.rho:.4g}, D = {leaf.radius:g}")
        elif isinstance(leaf, LangevinDpEvent):
            eta = f"eta = {leaf.step_size:.3g}{', decreasing' if leaf.decay else ''}"
            shape = f"batch {leaf.batch} of {leaf.records}, {eta}, sigma = {leaf.noise_std:g}"
            parts.append(f"last of {leaf.steps} steps, {shape}, L = {leaf.lipschitz:g}")
        elif isinstance(leaf, FisherScoringDpEvent):
            shape = f"batch {leaf.batch} of {leaf.records}, sigma = {leaf.noise_std:.4g}"
            parts.append(f"{leaf.steps} steps of gradient and covariance, {shape}")
        else:
            steps.append((*rate_and_multiplier(leaf), count))
    if steps:
        rates, multipliers, counts = zip(*steps, strict=True)
        least, most = (f"{end:.4g}" for end in (min(multipliers), max(multipliers)))
        noise_text = least if least == most else f"{least} to {most}"
        parts.append(f"{sum(counts)} steps, q = {rates[0]:.4g}, noise multiplier {noise_text}")
    return "; ".join(parts)
