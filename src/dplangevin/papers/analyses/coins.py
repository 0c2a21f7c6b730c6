"""Statements of wang2015 on coin tosses, where theta is the logit of heads: exact posteriors, tests and chains."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats
from scipy.special import expit, log_expit, logit, logsumexp

# Posteriors


def far_mass(heads: np.ndarray, n: int, chance: np.ndarray, far: np.ndarray) -> np.ndarray:
    """Return the posterior mass ``(n + 1,)`` of the parameters ``(K,)`` that are `far`, by heads; uniform prior."""
    log = heads[:, None] * np.log(chance) + (n - heads[:, None]) * np.log1p(-chance)
    return np.exp(logsumexp(log[:, far], axis=1) - logsumexp(log, axis=1))


def rejections(
    theta: float, theta0: float, radius: float, n: int, rho: float, level: float
) -> tuple[float, float]:
    """Return the probabilities that Wald's and the likelihood-ratio test of one posterior sample reject theta0.

    The prior of the logit is uniform on [-radius, radius]; heads are at most about 1000 numbers within 7 deviations.
    """
    chance = float(expit(theta))
    wide = 7 * math.sqrt(n * chance * (1 - chance))
    low, high = max(0, math.floor(n * chance - wide)), min(n, math.ceil(n * chance + wide))
    heads = np.arange(low, high + 1, max(1, (high - low) // 1000))
    weight = stats.binom.pmf(heads, n, chance)
    centre = np.clip(logit(np.clip(heads / n, 1e-9, 1 - 1e-9)), -radius, radius)
    spread = 8 / np.sqrt(rho * n * expit(centre) * expit(-centre))
    ends = [np.clip(centre + sign * spread, -radius, radius) for sign in (-1, 1)]
    cells = (np.arange(2000) + 0.5) / 2000
    draw = ends[0][:, None] + (ends[1] - ends[0])[:, None] * cells  # (heads, cells)
    log = rho * (heads[:, None] * log_expit(draw) + (n - heads[:, None]) * log_expit(-draw))
    posterior = np.exp(log - log.max(1, keepdims=True))
    posterior /= posterior.sum(1, keepdims=True)
    error = draw - theta0
    wald = expit(draw) * expit(-draw) * error**2
    ratio = 2 * (expit(draw) * error + log_expit(-draw) - log_expit(-theta0))  # 2 KL
    limit = stats.chi2.ppf(1 - level, 1) * (1 + 1 / rho) / n
    first, second = (
        float(weight @ (posterior * (statistic > limit)).sum(1) / weight.sum()) for statistic in (wald, ratio)
    )
    return first, second


def central_mass(theta: float, radius: float, n: int, rho: float) -> float:
    """Return the probability that a tempered posterior sample lies in the posterior's central 95 %.

    With s heads the tempered posterior is Beta(rho s, rho (n - s)), truncated to logits in [-radius, radius].
    """
    ends = expit([-radius, radius])
    chance = float(expit(theta))
    heads = np.unique(stats.binom.ppf((np.arange(200) + 0.5) / 200, n, chance))
    weight = stats.binom.pmf(heads, n, chance)
    posterior, tempered = (stats.beta(power * heads, power * (n - heads)) for power in (1.0, rho))
    low, high = posterior.cdf(ends[0]), posterior.cdf(ends[1])
    central = [posterior.ppf(low + share * (high - low)) for share in (0.025, 0.975)]
    mass = tempered.cdf(central[1]) - tempered.cdf(central[0])
    mass /= tempered.cdf(ends[1]) - tempered.cdf(ends[0])
    return float(weight @ mass / weight.sum())


# Chains


def sgld_transition(theta: np.ndarray, pairs: int, batch: int, eta: float, variance: float) -> np.ndarray:
    """Return the transition ``(points, points)`` of theta - eta (2 pairs/tau) sum_batch grad + N(0, variance)."""
    total = 2 * pairs
    move = np.zeros((len(theta), len(theta)))
    for positive in range(batch + 1):
        chance = stats.hypergeom.pmf(positive, total, pairs, batch)
        pull = -positive * expit(-theta) + (batch - positive) * expit(theta)
        centre = theta - eta * total / batch * pull
        kernel = np.exp(-((theta[None] - centre[:, None]) ** 2) / (2 * variance))
        move += chance * kernel / kernel.sum(1, keepdims=True)
    return move


def scoring_transition(theta: np.ndarray, records: int, heads: int, batch: int) -> np.ndarray:
    """Return the transition ``(points, points)`` of theta - 2/((1 + N/tau) N I) N/tau sum of gradients (SGFS)."""
    move = np.zeros((len(theta), len(theta)))
    every, information = np.arange(len(theta)), heads * (1 - heads / records)
    gain = 2 / ((1 + records / batch) * information) * records / batch
    for positive in range(batch + 1):
        chance = stats.hypergeom.pmf(positive, records, heads, batch)
        position = (theta - gain * (batch * expit(theta) - positive) - theta[0]) / (theta[1] - theta[0])
        position = np.clip(position, 0, len(theta) - 1)
        left = np.minimum(position.astype(int), len(theta) - 2)
        np.add.at(move, (every, left), chance * (1 - (position - left)))
        np.add.at(move, (every, left + 1), chance * (position - left))
    return move
