"""Tuning that is charged: many private runs with settings of a public list, of which the best one leaves.

One run draws its settings uniformly, trains on a part A of the rows, and scores the model on the other part B with
Gaussian noise.  The number of runs K is random and secret.  The model with the best noisy score is released, without
K, without that score and without the settings and the models of all other runs.

Proof of the price, for neighbours with the same number of records.  A and B depend on this number alone, so the
record that differs is in A on both data sets, or in B on both.

* In A.  The settings do not depend on the rows.  Whatever they are, the model is the result of a mechanism of
  `event(settings)` on A, and the score is post-processing of the model, because B is the same.  The law of one run is
  a mixture with known weights.  Its hockey-stick divergence is the mean over the settings, so at most the largest.
* In B.  The model has the same law on both data sets.  Given the model, one record moves the sum of the scores of
  rows, each in [0, 1], by at most 1.  So one run is a Gaussian mechanism with noise multiplier ``2 std``, after a
  draw that does not depend on the record.  For this, every score is finite, whatever the model and the row:
  coordinates of theta count up to `FARTHEST`, and a prediction that is nan counts as one of no information.

In both cases the pair (model, noisy score) is the result of one run, and the order looks only at it.  So the price of
the best of K runs follows from that of one run (Papernot and Steinke 2022; `privacy.selection` has the proof).  A
record is in A or in B, never in both, so the whole costs the larger of the two prices, not their sum.  A Poisson K
can be 0.  Then theta = 0 is released, with the same probability on all data sets.

The price does not cover how long a release takes, which shows K.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from dp_accounting import DpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from torch import Tensor

from dplangevin import random
from dplangevin.checks import require
from dplangevin.methods import Execution, Method, Plan, Release, guaranteed
from dplangevin.methods.evaluate import predictive, rightness
from dplangevin.privacy import Budget, HalfReplacedDpEvent, OneOfDpEvent, calibrate
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.selection import check_runs, probabilities
from dplangevin.problems import Facts, Problem
from dplangevin.problems.glm import FARTHEST, NO_TEST, Glm
from dplangevin.problems.losses import Loss

RTOL = 5e-4  # relative tolerance of both calibrations
# The epsilon of one run is the whole epsilon divided by a number in this range. Under a Poisson law the number can be
# `runs` times larger. It is below 1 if the theorem of the method promises a much larger epsilon than the proven one.
WIDEST, NARROWEST = 1e-3, 16.0
SPLIT = "held back"  # names the public stream that draws B
# How the assumption "... chosen without accounting" names a setting
WORDS = {"step": "step size", "l2": "ridge", "precision": "prior"}
UNACCOUNTED = " chosen without accounting"
GIVEN = "noise_multiplier", "noise_std"  # settings by which a caller gives the noise
WHOLE = int, int | None, "int", "int | None"  # types of whole-number settings


class Tries(NamedTuple):
    """What `Tuned.release` carries out: the plan of each setting, and the noise of a sum of scores."""

    plans: tuple[Plan, ...]
    score_std: float


@dataclass(frozen=True)
class Tuned:
    """The best of a random number of runs of a method, on a linear model; see the module's docstring.

    The runs and the scores share one budget: each part of the rows spends all of it.  Both the method and the noise
    of the scores are calibrated to it, so that the best of all runs keeps the budget.

    A score is the number of rows of B whose label is predicted.  For numbers it is the sum of
    ``1 - |predicted - y|/(2 Y)`` with the public bound Y on labels.

    Attributes
    ----------
    method : Method.  It must keep a budget and calibrate itself; its other settings hold for all runs.
    choices : Field of the method -> values.  The public grid: every combination is equally likely.
    runs : float, >= 1.  Mean of the number of runs K.
    shape : float in [0, inf].  Law of K: negative binomial, truncated at 1 (0: logarithmic, 1: geometric), or
        Poisson (inf).  A logarithmic law is cheapest, and makes a single run more often.
    held_back : float in (0, 1).  Share of the rows in B.

    References
    ----------
    Papernot, Steinke (2022), "Hyperparameter tuning with Renyi differential privacy". Liu, Talwar (2019), "Private
    selection from private candidates".
    """

    budgeted: ClassVar[bool] = True
    accountant: ClassVar[Accountant] = Tight()
    method: Method
    choices: Mapping[str, Sequence[float]]
    runs: float = 10.0
    shape: float = 1.0
    held_back: float = 0.2

    def __post_init__(self) -> None:
        check_runs(self.runs, self.shape)
        require(0 < self.held_back < 1, f"held_back must be in (0, 1), not {self.held_back}")
        name = type(self.method).__name__
        require(self.method.budgeted, f"{name} keeps no budget: nothing is private of its best run")
        known = [part.name for part in fields(self.method)]  # type: ignore[arg-type]
        for field in GIVEN:
            given = field in self.choices or (field in known and getattr(self.method, field) is not None)
            fault = f"{field} of {name} is given, but tuning calibrates the noise: leave {field} out"
            require(field not in known or not given, fault)
        require(bool(self.choices), "choices is empty: give at least one field of the method, with values")
        for field, values in self.choices.items():
            require(field in known, f"{name} has no setting {field!r}; it has {', '.join(known)}")
            require(len(values) > 0, f"choices of {field} is empty: give values")
        _ = self.candidates

    @property
    def candidates(self) -> list[Any]:
        """The method with each combination of settings."""
        whole = {part.name for part in fields(self.method) if part.type in WHOLE}  # type: ignore[arg-type]
        grid = product(
            *([_number(of, value, of in whole) for value in self.choices[of]] for of in self.choices)
        )
        return [replace(self.method, **dict(zip(self.choices, values, strict=True))) for values in grid]  # type: ignore[type-var]

    @property
    def law(self) -> str:
        """The law of the number of runs, in words."""
        named = {0.0: "logarithmic", 1.0: "geometric", math.inf: "Poisson"}
        return named.get(self.shape, f"negative binomial of shape {self.shape:g}")

    def best_of(self, event: DpEvent) -> DpEvent:
        """Return the event of the best run, given that of one run."""
        return RepeatAndSelectDpEvent(event, self.runs, self.shape)

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        facts.need_linear()
        held = held_rows(facts.n, self.held_back)
        known = facts._replace(n=facts.n - held, public=0)
        private = budget.epsilon < math.inf

        def planned(epsilon: float) -> list[Plan]:
            share = Budget(epsilon, budget.delta / self.runs)
            plans = [method.plan(known, share) for method in self.candidates]
            given = any(plan.noise_given for plan in plans)
            require(not given, "a method whose noise is given cannot be calibrated: leave its noise out")
            return plans

        def of_models(plans: Sequence[Plan]) -> DpEvent:
            return self.best_of(one_of([plan.guarantee.event for plan in plans]))

        def of_scores(multiplier: float) -> DpEvent:
            return self.best_of(HalfReplacedDpEvent(multiplier / 2))

        share, multiplier, event = 1.0, 0.0, None
        if private:
            narrowest = NARROWEST * (self.runs if self.shape == math.inf else 1.0)
            share = calibrate(
                self.accountant,
                lambda share: of_models(planned(budget.epsilon / share)),
                budget,
                low=WIDEST,
                high=narrowest,
                rtol=RTOL,
            )
            multiplier = calibrate(self.accountant, of_scores, budget, low=1e-3, high=1e6, rtol=RTOL)
        plans = planned(budget.epsilon / share)
        if private:
            event = one_of([of_models(plans), of_scores(multiplier)])
        guarantees = [plan.guarantee for plan in plans]
        texts = dict.fromkeys(
            charged(text, self.choices) for each in guarantees for text in each.assumptions if private
        )
        guarantee = guaranteed(
            self.accountant,
            event,
            budget,
            "replace_one",
            guarantees[0].released,
            guarantees[0].sampling,
            [
                *filter(None, texts),
                f"choices of {' and '.join(self.choices)}, runs and held-back rows public",
            ],
        )
        std = multiplier / 2  # a record that is replaced or removed moves the sum by 1: mu = 1/std
        settings: dict[str, float | str] = {"calibration": "tight"}
        violated = dict.fromkeys(text for plan in plans for text in plan.violated)
        return Plan(guarantee, Tries(tuple(plans), std), settings, violated=tuple(violated))

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        assert isinstance(problem, Glm)
        learned, held = parts(problem, self.held_back)
        works: list[Tries] = [plan.work for plan in plans]
        candidates = self.candidates
        std = torch.tensor([work.score_std for work in works], dtype=torch.float64)
        count = drawn_runs(how.rng, self.runs, self.shape, how.seeds, len(plans))
        lots = random.integers(how.rng, len(candidates), *count.shape, int(count.max())).cpu()
        made = torch.arange(lots.shape[-1]) < count[..., None]
        best = torch.full(count.shape, -math.inf, dtype=torch.float64)
        chosen = torch.full(count.shape, -1)
        theta = torch.zeros(*count.shape, 1, problem.d, device=problem.device)
        notes: list[dict[str, None]] = [{} for _ in plans]
        for i, method in enumerate(candidates):
            times = (made & (lots == i)).sum(-1)
            for done in range(int(times.max()) if times.numel() else 0):
                active = times > done
                cells = active.any(1).nonzero()[:, 0], active.any(0).nonzero()[:, 0]
                at = torch.meshgrid(*cells, indexing="ij")
                own = how._replace(
                    seeds=len(cells[0]), observe=None, workspace=None, start=None, schemes=None
                )
                tried = method.release(
                    of_seeds(learned, cells[0]), [works[e].plans[i] for e in cells[1].tolist()], own
                )
                noise = random.noise(how.rng, *active[at].shape).cpu() * std[cells[1]]
                score = scored(of_seeds(held, cells[0]), tried.theta) + noise
                better = active[at] & (score > best[at])
                theta = theta.expand(-1, -1, tried.theta.shape[2], -1).clone()
                theta = theta.to(tried.theta.dtype)
                where = better.to(theta.device)[..., None, None]
                spots = tuple(each.to(theta.device) for each in at)
                theta[spots] = torch.where(where, tried.theta, theta[spots])
                best[at], chosen[at] = score.where(better, best[at]), chosen[at].where(~better, i)
                for e, note in zip(cells[1].tolist(), tried.not_reached, strict=True):
                    notes[e] |= {note: None} if note else {}
        shown = {"chosen": chosen.double(), "runs": count.double(), "score": best}
        return Release(theta, not_private=shown, not_reached=["; ".join(each) for each in notes])


def one_of(events: Sequence[DpEvent]) -> DpEvent:
    """Return the event of one of several mechanisms: the event itself if all are the same."""
    different = tuple(dict.fromkeys(events))
    return different[0] if len(different) == 1 else OneOfDpEvent(different)


def charged(text: str, tuned: Mapping[str, Any]) -> str:
    """Return an assumption without the settings that the tuning chose and paid for; "" if none is left.

    >>> charged("step size, clip and prior chosen without accounting", {"clip": ()})
    'step size and prior chosen without accounting'
    """
    if not text.endswith(UNACCOUNTED):
        return text
    *first, last = text.removesuffix(UNACCOUNTED).split(" and ")
    words = [*(word for part in first for word in part.split(", ")), last]
    left = [word for word in words if word not in {WORDS.get(field, field) for field in tuned}]
    listed = " and ".join(filter(None, [", ".join(left[:-1]), *left[-1:]]))
    return f"{listed}{UNACCOUNTED}" if left else ""


def held_rows(n: int, share: float) -> int:
    """Return the number of rows that are held back, at least 1."""
    require(n >= 2, f"tuning needs rows to learn from and rows to score on, not {n} in all")
    return min(max(1, round(share * n)), n - 1)


def parts(problem: Glm, share: float) -> tuple[Glm, Glm]:
    """Return the problem of part A, and a problem whose test rows are part B.

    B is a public subset: a draw that depends on the number of rows alone.
    """
    n = problem.n
    order = torch.randperm(n, generator=random.generator(n, SPLIT)).to(problem.device)
    held, learned = order.split([held := held_rows(n, share), n - held])
    x, y = problem.x[:, held], asked(problem.y[:, held].cpu(), problem.loss)
    train = replace(problem, x=problem.x[:, learned], y=problem.y[:, learned], x_test=None, y_test=NO_TEST)
    return train, replace(problem, x_test=x, y_test=y)


def asked(y: Tensor, loss: Loss) -> Tensor:
    """Return labels of private rows as those of test rows: classes 0, ..., K - 1, or numbers."""
    if not loss.classifies:
        return y
    return y.nan_to_num(0.0).long().clamp(0, loss.classes - 1) if loss.classes > 1 else (y > 0).long()


def of_seeds(problem: Glm, seeds: Tensor) -> Glm:
    """Return the problem for some of its seeds."""
    if problem.shared or len(seeds) == len(problem.x):
        return problem
    at = seeds.to(problem.device)
    test = {} if problem.x_test is None else {"x_test": problem.x_test[at], "y_test": problem.y_test[seeds]}
    return replace(problem, x=problem.x[at], y=problem.y[at], **test)  # type: ignore[arg-type]


def scored(problem: Glm, theta: Tensor) -> Tensor:
    """Return the sum of the scores of the test rows, each in [0, 1], ``(S, E)`` in float64 on the CPU.

    No row and no theta makes the score of another row nan, and none raises an error.
    """
    theta, y = theta.nan_to_num(0.0, 0.0, 0.0).clamp(-FARTHEST, FARTHEST), problem.y_test[:, None]
    if problem.loss.classifies:
        predicted = predictive(problem, theta).nan_to_num(0.0)
        return rightness(predicted, y).sum(-1)
    bound = problem.loss.label_bound
    predicted = problem.predict_margins(theta.mean(2))[..., 0].double().clamp(-bound, bound)
    away = (predicted - y.double().clamp(-bound, bound)).abs()
    return (1 - away / (2 * bound)).nan_to_num(0.0).sum(-1)


def _number(field: str, value: float, whole: bool) -> float:
    """Return a value of a grid; that of a setting that is a whole number stays whole."""
    require(not whole or value == int(value), f"choices of {field} must be whole numbers, not {value}")
    return int(value) if whole else float(value)


def drawn_runs(rng: torch.Generator, mean: float, shape: float, *size: int) -> Tensor:
    """Draw numbers of runs, by inversion of their law, on the CPU.

    - `rng`: The generator of the draws.
    - `mean`: >= 1. Mean of the number of runs.
    - `shape`: in [0, inf]. Law of the number of runs, see `Tuned`.
    - `*size`: Shape of the result.
    """
    first, table = _table(mean, shape)
    drawn = random.uniform(rng, math.prod(size)).cpu().numpy()
    return torch.as_tensor(first + np.searchsorted(table, drawn, side="right")).view(size)


@lru_cache
def _table(mean: float, shape: float) -> tuple[int, np.ndarray]:
    """Return the least number of runs, and the cumulative probabilities from there on, without their last 1."""
    first, mass = probabilities(mean, shape)
    return first, np.cumsum(mass)[:-1]
