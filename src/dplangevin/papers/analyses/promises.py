"""Every (epsilon, delta) that the papers print, with the proven epsilon and the attack epsilon, one row for each.

- epsilon_formula, formula: by the paper's own formula, and other readings of it; formula_adjacency: its neighbours;
- epsilon_add_remove, epsilon_replace_one: proven by `Tight`, missing if the sampling has no such neighbours;
- epsilon_attack: for replace-one neighbours that the hypotheses admit, from `attack_runs` runs (95 % confidence), or
  exact for one pair (0 runs); epsilon_attack_add_remove: exact for one pair of add/remove neighbours;
- tight: 1 if some pair of data sets costs the proven epsilon, 0 if it is only an upper bound;
- chosen: the values that we chose for settings that the paper does not state;
- solved, epsilon_solved: settings that would keep the promise, and their proven epsilon for replace-one;
- rescued: 1 if there are such settings, and the paper leaves them open;
- violated: the conditions of the formula's theorem that fail.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import torch
from dp_accounting import DpEvent, GaussianDpEvent, PoissonSampledDpEvent

from dplangevin import random
from dplangevin.attacks.audit import audit
from dplangevin.papers.analyses.mechanisms import described
from dplangevin.privacy.accountants.protocol import Accountant, leaves
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import Adjacency
from dplangevin.privacy.gaussian_steps import coarsened

Draw = Callable[[DpEvent, int, torch.Generator], tuple[np.ndarray, np.ndarray]]
CONFIDENCE = 0.95
# Mechanisms whose proven epsilon some pair of data sets costs.
ATTAINED = (GaussianDpEvent, PoissonSampledDpEvent)


@dataclass(frozen=True)
class Formula:
    """An epsilon by the paper's own theorem."""

    name: str
    accountant: Accountant
    event: DpEvent | None = None  # None: that of the promise, as `delta`
    delta: float | None = None
    adjacency: Adjacency = "replace_one"  # the neighbours that the formula holds for


@dataclass(frozen=True)
class Attack:
    """An attack by simulation, for replace_one neighbours."""

    draw: Draw  # (event, runs, rng) -> the statistics of the runs on both data sets
    runs: int  # on each data set
    event: DpEvent | None = None  # the attacked part of the mechanism; None: all of it


@dataclass(frozen=True)
class ExactPair:
    """The exact epsilon of one pair of data sets; None: the price of `event`, which opposite gradients cost."""

    epsilon: Callable[[DpEvent, float], float] | None = None
    event: DpEvent | None = None  # None: that of the promise


@dataclass(frozen=True)
class SmallestBatch:
    """The smallest batch in [least, most] that keeps a promise at the same number of epochs, by bisection."""

    make: Callable[..., DpEvent]
    least: int
    most: int
    open: bool  # True if the paper does not state the batch

    def __call__(self, epsilon: float, delta: float, adjacency: Adjacency) -> int | None:
        """Return the smallest batch, or None if even the batch `most` costs more than epsilon."""

        def holds(batch: int) -> bool:
            return Tight().epsilon(self.make(batch=batch), delta, adjacency) <= epsilon

        low, high = self.least - 1, self.most
        if not holds(high):
            return None
        while high - low > 1:
            middle = max(low + 1, min(high - 1, round(math.sqrt(max(low, 1) * high))))
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high


@dataclass(frozen=True)
class Promise:
    """One printed (epsilon, delta) and what we compute for it."""

    paper: str
    where: str  # section
    statement: str  # the paper's words
    published: str  # the printed numbers
    label: str  # name in the figure
    epsilon: float | None = None  # None if the words give no number, as `delta`
    delta: float | None = None
    event: DpEvent | None = None  # None if the paper states too little
    neighbours: Sequence[Adjacency] = get_args(Adjacency)  # relations for which an epsilon is proven
    formulas: Sequence[Formula] = ()  # the paper's own first, then other readings of it
    attack: Attack | ExactPair | None = None
    solve: SmallestBatch | None = None  # searches a batch that keeps the promise
    chosen: str = ""  # the values that we chose for settings that the paper does not state
    note: str = ""

    def row(self, seed: int) -> dict[str, Any]:
        """Return the row of the promise; equal mechanisms are attacked with the same random numbers."""
        source = {key: getattr(self, key) for key in ("paper", "where", "statement", "published", "label")}
        claimed = math.nan if self.epsilon is None else self.epsilon
        delta = math.nan if self.delta is None else self.delta
        row = {**source, "epsilon_claimed": claimed, "delta": delta, "mechanism": "", "formula": ""}
        prices = ("formula", "add_remove", "replace_one", "attack", "attack_add_remove", "solved")
        row |= dict.fromkeys((f"epsilon_{name}" for name in prices), math.nan)
        row |= {"formula_adjacency": "", "attack_runs": 0, "chosen": self.chosen}
        row |= {"solved": "", "rescued": 0, "tight": 0, "violated": "", "note": self.note}
        if self.event is None:
            return row
        row["mechanism"] = described(self.event)
        levels = {leaf for leaf, _ in leaves(self.event)}  # several: their noise is rounded down
        row["tight"] = int(len(levels) == 1 and isinstance(levels.pop(), ATTAINED))
        for adjacency in self.neighbours:
            row[f"epsilon_{adjacency}"] = Tight().epsilon(self.event, delta, adjacency)
        rng = random.generator(seed, row["mechanism"])
        row |= self._by_formula(self.event, delta) | self._attacked(self.event, delta, rng)
        return row | self._solved(claimed, delta)

    def _by_formula(self, event: DpEvent, delta: float) -> dict[str, Any]:
        prices, failed = [], []
        for formula in self.formulas:
            priced, at = formula.event or event, formula.delta or delta
            prices.append(formula.accountant.epsilon(priced, at, formula.adjacency))
            violated = getattr(formula.accountant, "violated", None)
            failed += [text for text in (violated(priced, at) if violated else ()) if text not in failed]
        if not prices:
            return {}
        others = [f"{f.name}: {p:.3g}" for f, p in zip(self.formulas[1:], prices[1:], strict=True)]
        text, kind = "; ".join([self.formulas[0].name, *others]), self.formulas[0].adjacency
        row = {"epsilon_formula": prices[0], "formula": text, "formula_adjacency": kind}
        return {**row, "violated": "; ".join(failed)}

    def _attacked(self, event: DpEvent, delta: float, rng: torch.Generator) -> dict[str, Any]:
        if self.attack is None:
            return {}
        attacked = self.attack.event or event
        if isinstance(self.attack, Attack):
            first, second = self.attack.draw(attacked, self.attack.runs, rng)
            result = audit(first, second, delta, CONFIDENCE)
            return {"epsilon_attack": result.epsilon, "attack_runs": result.runs}
        if self.attack.epsilon:
            return {"epsilon_attack": self.attack.epsilon(attacked, delta)}
        parts = Counter(dict(leaves(attacked)))
        if coarsened(parts) != parts:
            raise ValueError(
                f"{self.label}: {len(parts)} noise levels, so the price of the pair is rounded up"
            )
        columns = {"replace_one": "epsilon_attack", "add_remove": "epsilon_attack_add_remove"}
        return {columns[kind]: Tight().epsilon(attacked, delta, kind) for kind in self.neighbours}

    def _solved(self, epsilon: float, delta: float) -> dict[str, Any]:
        if self.solve is None:
            return {}
        batches = {a: self.solve(epsilon, delta, a) for a in self.neighbours}
        texts = [f"batch >= {b} ({a.replace('_', '-')})" for a, b in batches.items() if b is not None]
        solved = ", ".join(texts) or f"no batch up to {self.solve.most} records"
        if (batch := batches.get("replace_one")) is None:
            return {"solved": solved}
        price = Tight().epsilon(self.solve.make(batch=batch), delta)
        return {"solved": solved, "rescued": int(self.solve.open), "epsilon_solved": price}


@dataclass(frozen=True)
class Promises:
    """All promises, one task for each, in the order of the papers."""

    promises: Mapping[str, Promise]  # id -> promise
    search: int | None = None  # batches that `solve` tries above the smallest; 0: none; None: up to `most`

    def units(self) -> list[str]:
        return list(self.promises)

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        promise = self.promises[unit]
        if self.search is not None and promise.solve is not None:
            most = min(promise.solve.most, promise.solve.least + self.search)
            promise = replace(promise, solve=replace(promise.solve, most=most) if self.search else None)
        return [{"id": unit, **promise.row(seed)}]
