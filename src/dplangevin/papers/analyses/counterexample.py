"""A pair of data sets that meets all hypotheses of Theorem 3.1 of ryffel2022 but violates its bound.

The pair is one-dimensional. On C = [-r, r], with g = L - lambda r, the losses are (pair "flat" in
`attacks.langevin`)

- -g theta + lambda/2 theta^2 for the record that differs,
- g theta + lambda/2 theta^2 for its replacement,
- lambda/2 theta^2 for each of the n - 1 other records.

They are lambda-strongly convex and lambda-smooth on the whole line. They are L-Lipschitz on C, since
|l'| <= g + lambda r = L. The step size is eta < 1/beta = 1/lambda. theta_0 is drawn from Proj_C
N(0, 2 sigma^2/lambda). A batch holds one record, and Algorithm 1 takes K steps.

Before the projection, theta after one step has the law (1 - 1/n) N(0, s^2) + (1/n) N(+- eta g, s^2), where
s^2 = (1 - eta lambda)^2 2 sigma^2/lambda + 2 eta sigma^2. This is a bump of weight 1/n on one side or on the
other. At the bump, one density is e^(2 eta g |theta|/s^2) times the other. The weight 1/n only divides this
factor. So R_2 is about mu^2 - 2 ln n with mu = eta g/s, while the theorem has a multiple of (mu/n)^2.

Why the proof fails: the sensitivity lemma averages the difference of the drifts over the batch B, P(B != B')
2L/m = 2L/n, and takes this average for the sensitivity S_g of the Renyi dynamics. The Fokker-Planck equation
there holds *given* B. Given B, the drifts differ by up to 2L/m if B contains the record, and not at all
otherwise. Without B given, the law is a mixture over B. Its Renyi divergence is at most log E_B
exp((alpha - 1) R_alpha(B))/(alpha - 1). The rare batches with the record dominate this mean; the divergence
at the mean drift is no bound.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dplangevin.attacks.audit import audit
from dplangevin.attacks.langevin import last_iterate, pair_for
from dplangevin.attacks.quadrature import Distributions, epsilon_of, last_iterate_distributions, renyi
from dplangevin.privacy.accountants.ryffel2022 import Ryffel2022
from dplangevin.privacy.events import LangevinDpEvent
from dplangevin.random import generator


@dataclass(frozen=True)
class Counterexample:
    """Tables of the exact laws, the promised values and the attack on this pair of data sets.

    The tasks are

    - "density": both laws after `shown` steps,
    - "renyi": R_order against K,
    - "profile": epsilon against delta after `shown` steps: promised ("claimed"), exact, and shown by an
      attack ("audit"),
    - "hypotheses": what each hypothesis requires (x) and what the pair has (value).

    The columns are quantity, x, value and note. Except in "hypotheses", x is theta, K or delta.

    Attributes
    ----------
    records, batch : n and m.
    step_size, noise_std : eta and sigma.
    lipschitz : L.
    strong_convexity : lambda, equal to beta.
    radius : r.
    order : alpha of the Renyi divergence.
    shown : number of steps in the tasks "density" and "profile".
    steps : the values of K in the task "renyi".
    nodes : number of quadrature nodes.
    deltas : the values of delta on the curves.
    attacked : the values of delta at which the pair is attacked.
    runs : runs of the attack on each data set.
    confidence : of each attack epsilon (lower bound).
    """

    records: int
    batch: int
    step_size: float
    noise_std: float
    lipschitz: float
    strong_convexity: float
    radius: float
    order: float
    shown: int
    steps: Sequence[int]
    nodes: int
    deltas: Sequence[float]
    attacked: Sequence[float]
    runs: int
    confidence: float

    def units(self) -> list[str]:
        return ["density", "renyi", "profile", "hypotheses"]

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        if unit == "profile":
            cases = self._profile(generator(seed, unit))
        else:
            cases = {"density": self._density, "renyi": self._renyi, "hypotheses": self._hypotheses}[unit]()
        columns = ("quantity", "x", "value", "note")
        return [{"kind": unit, **dict(zip(columns, row, strict=True))} for row in cases]

    def event(self, steps: int) -> LangevinDpEvent:
        return LangevinDpEvent(
            records=self.records,
            batch=self.batch,
            steps=steps,
            step_size=self.step_size,
            noise_std=self.noise_std,
            lipschitz=self.lipschitz,
            strong_convexity=self.strong_convexity,
            smoothness=self.strong_convexity,
        )

    def distributions(self, steps: int) -> Distributions:
        """Return both exact distributions of theta_K, projections included."""
        return last_iterate_distributions(
            self.event(steps), project=self.radius, others="flat", nodes=self.nodes
        )

    def _density(self) -> list[tuple[str, float, float, str]]:
        pair = self.distributions(self.shown)
        width = self.radius * np.polynomial.legendre.leggauss(self.nodes)[1]
        return [
            (name, theta, density, f"K = {self.shown}")
            for name, logs in (("first", pair.first), ("second", pair.second))
            for theta, density in zip(pair.points[1:-1], np.exp(logs[1:-1]) / width, strict=True)
        ]

    def _renyi(self) -> list[tuple[str, float, float, str]]:
        rows: list[tuple[str, float, float, str]] = []
        note = f"order {self.order:g}"
        for steps in self.steps:
            event = self.event(steps)
            rows.append(("claimed", steps, Ryffel2022().renyi(event, self.order), note))
            rows.append(("exact", steps, renyi(self.distributions(steps), self.order), note))
        return rows

    def _profile(self, rng: torch.Generator) -> list[tuple[str, float, float, str]]:
        event = self.event(self.shown)
        pair, note = self.distributions(self.shown), f"K = {self.shown}"
        rows = [("claimed", delta, Ryffel2022().epsilon(event, delta), note) for delta in self.deltas]
        rows += [("exact", delta, epsilon_of(pair, delta), note) for delta in self.deltas]
        first, second = last_iterate(event, self.runs, rng, project=self.radius, others="flat")
        for delta in self.attacked:
            attack = audit(first, second, delta, self.confidence)
            text = f"{note}, {attack.runs} runs per data set, confidence {attack.confidence:g}"
            rows.append(("audit", delta, attack.epsilon, text))
        return rows

    def _hypotheses(self) -> list[tuple[str, float, float, str]]:
        convexity = self.strong_convexity
        start = self.noise_std * math.sqrt(2 / convexity)
        pair = pair_for(self.event(1), start, self.radius, "flat")
        largest = max(map(abs, pair.pushes)) * self.batch + convexity * pair.radius
        hypotheses: list[tuple[str, float, float, bool]] = [  # last: whether it holds
            (
                "Lipschitz: largest |gradient| on C, at most L",
                self.lipschitz,
                largest,
                largest <= self.lipschitz * (1 + 1e-12),
            ),
            ("strongly convex: second derivative, at least lambda", convexity, convexity, True),
            ("smooth: second derivative, at most beta", convexity, convexity, True),
            ("step size, less than 1/beta", 1 / convexity, self.step_size, self.step_size < 1 / convexity),
            ("start, before the projection: standard deviation sqrt(2/lambda) sigma", start, start, True),
        ]
        return [(name, x, value, "holds" if holds else "fails") for name, x, value, holds in hypotheses]
