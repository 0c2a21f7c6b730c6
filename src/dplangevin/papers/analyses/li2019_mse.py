"""Propositions 5 and 6 of li2019: error of a posterior average against the number of steps, by schedule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dplangevin import random
from dplangevin.papers.analyses.averages import FUNCTIONS, Target
from dplangevin.papers.statistics import Interval, t_interval
from dplangevin.privacy import Budget
from dplangevin.privacy.li2019_theorems import wang_step

TEMPERATURES = {"printed": 1.0, "proper": 2.0}  # kappa: the noise is N(0, kappa eta/N)
PRIVATE = ("private_fixed", "private_decreasing")
SCHEDULES = ("optimal", "decreasing", *PRIVATE, "wang2015")


@dataclass(frozen=True)
class PosteriorAverages:
    """Mean squared errors on the problem of `averages.Target`, simulated and in closed form.

    With ``eta~ = eps^2/(constant L^2 ln(1/delta))`` the step sizes of t = 1..T are

        optimal             step_size T^(-1/3)                           Proposition 6
        decreasing          step_size t^(-1/3)                           Theorem 3 without its privacy
        private_fixed       eta~ N/T                                     Theorem 4
        private_decreasing  eta~ N t^(-1/3) T^(-2/3)                     Theorem 3, Proposition 5
        wang2015            eps^2 N/(128 L^2 T ln(2.5 T/delta) ln(2/delta))
    """

    target: Target
    steps: Sequence[int]  # T of the panel "steps", at the budget `epsilon`
    budgets: Sequence[float]  # eps of the panel "budget"
    budget_steps: int  # T of the panel "budget"
    chains: int  # number of simulated chains
    step_size: float  # eta of the schedules without privacy
    epsilon: float
    delta: float
    lipschitz: float  # L
    constant: float  # c_2^2 of Theorem 3 and c^2 of Theorem 4

    def units(self) -> list[str]:
        return [*(f"steps {steps}" for steps in self.steps), "budget"]

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        """Return the errors, relative to the posterior variance, with 95 % Student limits over chains."""
        if unit == "budget":
            cases = [(name, epsilon) for name in PRIVATE for epsilon in self.budgets]
            return self.errors("budget", cases, self.budget_steps, seed)
        steps = int(unit.removeprefix("steps "))
        return self.errors("steps", [(name, self.epsilon) for name in SCHEDULES], steps, seed)

    def budget_step(self, epsilon: float) -> float:
        """Return eta~ for this epsilon."""
        return epsilon**2 / (self.constant * self.lipschitz**2 * math.log(1 / self.delta))

    def schedule(self, name: str, epsilon: float, steps: int) -> np.ndarray:
        """Return the step sizes ``(T,)`` of one of SCHEDULES; those without privacy ignore epsilon."""
        t = np.arange(1, steps + 1, dtype=float)
        n, eta = self.target.records, self.budget_step(epsilon)
        if name == "optimal":
            return np.full(steps, self.step_size * steps ** (-1 / 3))
        if name == "decreasing":
            return self.step_size * t ** (-1 / 3)
        if name == "private_fixed":
            return np.full(steps, eta * n / steps)
        if name == "private_decreasing":
            return eta * n * t ** (-1 / 3) * steps ** (-2 / 3)
        budget = Budget(epsilon, self.delta)
        return np.full(steps, wang_step(budget, records=n, steps=steps, lipschitz=self.lipschitz))

    def errors(
        self, panel: str, cases: Sequence[tuple[str, float]], steps: int, seed: int
    ) -> list[dict[str, Any]]:
        """Return the rows of several (schedule, epsilon) at one T; all of them use the same noise."""
        columns = [(*case, heat) for case in cases for heat in TEMPERATURES]
        eta = np.stack([self.schedule(name, epsilon, steps) for name, epsilon, _ in columns], 1)
        kappa = np.array([TEMPERATURES[heat] for *_, heat in columns])
        exact = self.target.closed_form(eta, kappa)
        rng = random.generator(seed, f"li2019_mse {panel} {steps}")
        squares = self.target.simulate(eta, kappa, self.chains, rng)
        rows = []
        for e, (name, epsilon, heat) in enumerate(columns):
            private = name in PRIVATE
            base = {
                "panel": panel,
                "schedule": name,
                "temperature": heat,
                "steps": steps,
                "epsilon": epsilon if private or name == "wang2015" else math.nan,
                "eta": self.budget_step(epsilon) if private else math.nan,
            }
            for f, function in enumerate(FUNCTIONS):
                base["function"] = function
                rows.append({**base, "kind": "simulated", **t_interval(squares[f, :, e]).columns()})
                known = Interval(*[float(exact[f, e])] * 3)
                rows.append({**base, "kind": "closed form", **known.columns()})
        return rows
