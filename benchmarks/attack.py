"""The audit's attack on a visible chain: all runs as a batch, against one run at a time."""

import math
from functools import partial

import numpy as np
from measure import Options, Row, medians

from dplangevin import random
from dplangevin.attacks.sampled import all_iterates
from dplangevin.privacy.stepsize import steps_event

RATE, STEPS, MULTIPLIER = 128 / 60_000, 9375, 3.18  # the MNIST setting of li2019
RUNS, ONE_BY_ONE = 50_000, 50


def rows(options: Options) -> list[Row]:
    times = medians(options.runs, attacked, partial(one_by_one, np.random.default_rng(0)))
    own, peer = 1e9 * times[0] / (2 * RUNS * STEPS), 1e9 * times[1] / (2 * ONE_BY_ONE * STEPS)
    return [
        Row(
            f"attack on a chain of {STEPS} Poisson-sampled steps, one chain-step",
            f"{own:.2f} ns",
            f"numpy, one chain at a time {peer:.1f} ns",
            f"{peer / own:.0f} times",
            "-",
            "-",
            str(options.threads),
            f"median of {options.runs} runs in turns; chains per data set: ours {RUNS}, peer {ONE_BY_ONE}; the peer "
            "draws every step of a chain at once, ours how often the steps' outputs fell into each cell",
        )
    ]


def attacked() -> object:
    """Return what the attack finds in all runs."""
    event = steps_event(MULTIPLIER, rate=RATE, steps=STEPS, schedule="fixed")
    return all_iterates(event, RUNS, random.generator(0, "bench/attack"), "add_remove")


def one_by_one(rng: np.random.Generator) -> list[float]:
    """Log-likelihood ratios of single chains on both data sets, each with one vector of all its steps."""
    found = []
    for rate in (RATE, 0.0):
        for _ in range(ONE_BY_ONE):
            x = MULTIPLIER * rng.standard_normal(STEPS) + (rng.random(STEPS) < rate)
            ratio = np.log1p(RATE * np.expm1((x - 0.5) / MULTIPLIER**2))
            found.append(math.fsum(ratio))
    return found
