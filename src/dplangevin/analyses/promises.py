"""Every (epsilon, delta) that the papers print: by the paper's own formula, tight for both neighbours, and attacked.

A row is one promise. epsilon_claimed, delta: what is printed. epsilon_formula: by the paper's formula (`formula`
names it and, where there is one, another reading with its value). epsilon_add_remove, epsilon_replace_one: by `Tight`;
missing where the sampling has no such neighbours. audit_epsilon: lower bound by an attack on the hypotheses: at 95 %
from `audit_runs` runs, or exact for one pair of data sets (0 runs).
tight: 1 if a pair of data sets costs what is proven, 0 if that is an upper bound alone, as of a last iterate.
chosen: settings that the paper leaves out, as they are here. solved: the settings that would keep the promise; rescued:
1 if the paper leaves them open. violated: conditions of the formula's theorem that fail. A promise without settings has
no mechanism, no prices.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import torch
from dp_accounting import DpEvent

from dplangevin import random
from dplangevin.analyses.mechanisms import described
from dplangevin.audit import audit
from dplangevin.privacy.accountants.protocol import Accountant, leaves
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import Adjacency, FisherScoringDpEvent, LangevinDpEvent

Draw = Callable[[DpEvent, int, torch.Generator], tuple[np.ndarray, np.ndarray]]
CONFIDENCE = 0.95
LOOSE = (LangevinDpEvent, FisherScoringDpEvent)  # whose prices are upper bounds


@dataclass(frozen=True)
class Formula:
    """A price by the paper's own theorem. event, delta: those of the promise unless given."""

    name: str
    accountant: Accountant
    event: DpEvent | None = None
    delta: float | None = None
    adjacency: Adjacency = "replace_one"


@dataclass(frozen=True)
class Attack:
    """An audit: `draw(event, runs, rng)` under replace_one. event: a part of the mechanism, if not the whole."""

    draw: Draw
    runs: int
    event: DpEvent | None = None


@dataclass(frozen=True)
class ExactPair:
    """The exact epsilon of one pair of data sets that a theorem admits, `epsilon(event, delta)` under replace_one."""

    epsilon: Callable[[DpEvent, float], float]


@dataclass(frozen=True)
class SmallestBatch:
    """The smallest batch in [least, most] at which `make(batch)` keeps a promise, by bisection.

    epochs are fixed, so that a larger batch means fewer steps, each with less noise to the record.  open: the paper
    does not state the batch.
    """

    make: Callable[..., DpEvent]
    least: int
    most: int
    open: bool

    def __call__(self, epsilon: float, delta: float, adjacency: Adjacency) -> int | None:
        """None if even `most` costs more than epsilon."""

        def kept(batch: int) -> bool:
            return Tight().epsilon(self.make(batch=batch), delta, adjacency) <= epsilon

        low, high = self.least - 1, self.most
        if not kept(high):
            return None
        while high - low > 1:
            middle = max(low + 1, min(high - 1, round(math.sqrt(max(low, 1) * high))))
            low, high = (low, middle) if kept(middle) else (middle, high)
        return high


@dataclass(frozen=True)
class Promise:
    """One printed (epsilon, delta), and what was done for it. epsilon, delta: None where the words give none."""

    paper: str
    where: str
    statement: str
    published: str
    label: str
    epsilon: float | None = None
    delta: float | None = None
    event: DpEvent | None = None
    neighbours: Sequence[Adjacency] = get_args(Adjacency)
    formulas: Sequence[Formula] = ()
    attack: Attack | ExactPair | None = None
    solve: SmallestBatch | None = None
    chosen: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if self.event is not None and None in (self.epsilon, self.delta):
            raise ValueError(f"{self.label}: a promise with an event needs its epsilon and delta")

    def row(self, seed: int) -> dict[str, Any]:
        """The promise's row; the same mechanism is attacked with the same random numbers."""
        said = {key: getattr(self, key) for key in ("paper", "where", "statement", "published", "label")}
        claimed = math.nan if self.epsilon is None else self.epsilon
        delta = math.nan if self.delta is None else self.delta
        row = {**said, "epsilon_claimed": claimed, "delta": delta, "mechanism": "", "formula": ""}
        prices = ("epsilon_formula", "epsilon_add_remove", "epsilon_replace_one", "audit_epsilon")
        row |= dict.fromkeys(prices, math.nan) | {
            "audit_adjacency": "",
            "audit_runs": 0,
            "chosen": self.chosen,
        }
        row |= {"solved": "", "rescued": 0, "tight": 0, "violated": "", "note": self.note}
        if self.event is None:
            return row
        row["mechanism"] = described(self.event)
        row["tight"] = int(not any(isinstance(leaf, LOOSE) for leaf, _ in leaves(self.event)))
        for adjacency in self.neighbours:
            row[f"epsilon_{adjacency}"] = Tight().epsilon(self.event, delta, adjacency)
        rng = random.generator(seed, row["mechanism"])
        row |= self._by_formula(self.event, delta) | self._audited(self.event, delta, rng)
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
        text = "; ".join([self.formulas[0].name, *others])
        return {"epsilon_formula": prices[0], "formula": text, "violated": "; ".join(failed)}

    def _audited(self, event: DpEvent, delta: float, rng: torch.Generator) -> dict[str, Any]:
        if self.attack is None:
            return {}
        if isinstance(self.attack, ExactPair):
            epsilon, runs = self.attack.epsilon(event, delta), 0
        else:
            first, second = self.attack.draw(self.attack.event or event, self.attack.runs, rng)
            found = audit(first, second, delta, CONFIDENCE)
            epsilon, runs = found.epsilon, found.runs
        return {"audit_epsilon": epsilon, "audit_adjacency": "replace_one", "audit_runs": runs}

    def _solved(self, epsilon: float, delta: float) -> dict[str, Any]:
        if self.solve is None:
            return {}
        batches = {a: self.solve(epsilon, delta, a) for a in self.neighbours}
        texts = [f"batch >= {b} ({a.replace('_', '-')})" for a, b in batches.items() if b is not None]
        solved = ", ".join(texts) or f"no batch up to {self.solve.most}"
        return {"solved": solved, "rescued": int(self.solve.open and bool(texts))}


@dataclass(frozen=True)
class Promises:
    """One unit per promise, in the order of the papers.

    search: no batch is tried that is further than this above the smallest of a `SmallestBatch`; 0: none is sought;
    None: no such limit.
    """

    promises: Mapping[str, Promise]
    search: int | None = None

    def units(self) -> list[str]:
        return list(self.promises)

    def rows(self, unit: str, seed: int) -> list[dict[str, Any]]:
        promise = self.promises[unit]
        if self.search is not None and promise.solve is not None:
            most = min(promise.solve.most, promise.solve.least + self.search)
            promise = replace(promise, solve=replace(promise.solve, most=most) if self.search else None)
        return [{"id": unit, **promise.row(seed)}]
