"""Pairs of data sets that meet all hypotheses of Theorem 3.1 of ryffel2022 but violate its bound.

On C = [-r, r], with g = L - lambda r, the losses are -g theta + lambda/2 theta^2 for the record that differs, g theta +
lambda/2 theta^2 for its replacement, and lambda/2 theta^2 for the others (pair "flat" in `attacks.dp_langevin`). With a
batch of m of n records, q = m/n, the law of theta after one step, before the projection, is

    (1 - q) N(0, s^2) + q N(+- eta g/m, s^2),    s^2 = (1 - eta lambda)^2 2 sigma^2/lambda + 2 eta sigma^2.

So R_2 is about mu^2 - 2 ln(n/m) with mu = eta g/(m s), while the theorem has a multiple of (mu m/n)^2.

Why the proof fails: it averages the difference of the drifts over the batch, 2L/n, and takes this average for the
sensitivity S_g of the Renyi dynamics, which hold *given* the batch. Rare batches with the record dominate.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from dplangevin.attacks.audit import audit
from dplangevin.attacks.dp_langevin import last_iterate, last_iterate_distributions, pair_for
from dplangevin.attacks.laws import Distributions, epsilon_of, renyi
from dplangevin.privacy.accountants.last_iterate import Ryffel2022
from dplangevin.privacy.events import LangevinDpEvent
from dplangevin.random import generator

Values = Iterator[tuple[str, float, float, str]]  # quantity, x, value, note


@dataclass(frozen=True)
class Counterexample:
    """Tables of the exact laws, the promised values and the attack; x is theta, K or delta, except in two tasks.

    "minibatches" has for each m (x), after one step, R_order promised and exact, and three epsilons. "hypotheses" has
    what each requires (x) and what the pair has (value).
    """

    records: int  # n
    batch: int  # m
    step_size: float  # eta
    noise_std: float  # sigma
    lipschitz: float  # L
    strong_convexity: float  # lambda = beta
    radius: float  # r
    order: float  # alpha of the Renyi divergence
    shown: int  # number of steps in the tasks "density" and "profile"
    steps: Sequence[int]  # the values of K in the task "renyi"
    nodes: int  # of the quadrature
    deltas: Sequence[float]  # of the curves
    attacked: Sequence[float]  # the values of delta at which the pair is attacked
    runs: int  # of the attack on each data set
    confidence: float
    minibatches: Sequence[Mapping[str, float]]  # pairs with other n, m, sigma and r
    delta: float  # of the task "minibatches"

    def units(self) -> list[str]:
        return ["density", "renyi", "profile", "minibatches", "hypotheses"]

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        rng = [generator(seed, unit)] if unit in ("profile", "minibatches") else []
        cases = getattr(self, f"_{unit}")(*rng)
        columns = ("quantity", "x", "value", "note")
        return [{"kind": unit, **dict(zip(columns, row, strict=True))} for row in cases]

    def event(self, steps: int) -> LangevinDpEvent:
        names = ("records", "batch", "step_size", "noise_std", "lipschitz", "strong_convexity")
        given = {name: getattr(self, name) for name in names}
        return LangevinDpEvent(**given, steps=steps, smoothness=self.strong_convexity)

    def distributions(self, steps: int) -> Distributions:
        """Return both exact distributions of theta_K, projections included."""
        return last_iterate_distributions(
            self.event(steps), project=self.radius, others="flat", nodes=self.nodes
        )

    def _density(self) -> Values:
        pair = self.distributions(self.shown)
        width = self.radius * np.polynomial.legendre.leggauss(self.nodes)[1]
        for name, logs in (("first", pair.first), ("second", pair.second)):
            for theta, density in zip(pair.points[1:-1], np.exp(logs[1:-1]) / width, strict=True):
                yield name, theta, density, f"K = {self.shown}"

    def _renyi(self) -> Values:
        note = f"order {self.order:g}"
        for steps in self.steps:
            yield "claimed", steps, Ryffel2022().renyi(self.event(steps), self.order), note
            yield "exact", steps, renyi(self.distributions(steps), self.order), note

    def _profile(self, rng: torch.Generator) -> Values:
        event = self.event(self.shown)
        pair, note = self.distributions(self.shown), f"K = {self.shown}"
        for delta in self.deltas:
            yield "claimed", delta, Ryffel2022().epsilon(event, delta), note
        for delta in self.deltas:
            yield "exact", delta, epsilon_of(pair, delta), note
        first, second = last_iterate(event, self.runs, rng, project=self.radius, others="flat")
        for delta in self.attacked:
            attack = audit(first, second, delta, self.confidence)
            text = f"{note}, {attack.runs} runs per data set, confidence {attack.confidence:g}"
            yield "audit", delta, attack.epsilon, text

    def _minibatches(self, rng: torch.Generator) -> Values:
        for given in self.minibatches:
            pair = replace(self, **given)  # type: ignore[arg-type]
            assert all(note == "holds" for *_, note in pair._hypotheses())
            event, laws, delta = pair.event(1), pair.distributions(1), self.delta
            runs = last_iterate(event, self.runs, rng, project=pair.radius, others="flat")
            attack = audit(*runs, delta, self.confidence)
            found = {
                "R promised": Ryffel2022().renyi(event, self.order),
                "R exact": renyi(laws, self.order),
                "ε promised": Ryffel2022().epsilon(event, delta),
                "ε exact": epsilon_of(laws, delta),
                "ε audit": attack.epsilon,
            }
            slope = self.lipschitz - self.strong_convexity * pair.radius
            note = (
                f"n = {pair.records:,}, σ = {pair.noise_std:g}, r = {pair.radius:g}, a = {slope:g}, δ = {delta:g}, "
                f"{attack.runs:,} runs per data set"
            )
            for name, value in found.items():
                yield name, pair.batch, value, note

    def _hypotheses(self) -> Values:
        limit, convexity = self.lipschitz, self.strong_convexity
        start = self.noise_std * math.sqrt(2 / convexity)
        pair = pair_for(self.event(1), start, self.radius, "flat")
        largest = max(map(abs, pair.pushes)) * self.batch + convexity * pair.radius
        hypotheses: list[tuple[str, float, float, bool]] = [  # last: whether it holds
            ("Lipschitz: largest |gradient| on C, at most L", limit, largest, largest <= limit * (1 + 1e-12)),
            ("strongly convex: second derivative, at least lambda", convexity, convexity, True),
            ("smooth: second derivative, at most beta", convexity, convexity, True),
            ("step size, less than 1/beta", 1 / convexity, self.step_size, self.step_size < 1 / convexity),
            ("start, before the projection: standard deviation sqrt(2/lambda) sigma", start, start, True),
        ]
        for name, x, value, holds in hypotheses:
            yield name, x, value, "holds" if holds else "fails"
