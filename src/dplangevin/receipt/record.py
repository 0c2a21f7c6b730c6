"""The receipt: the steps of a training, what they cost, and what may be published of them."""

import json
import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, ConfigDict, Field, FiniteFloat, ValidationError
from pydantic.dataclasses import dataclass
from scipy.stats import spearmanr

from dplangevin.checks import require
from dplangevin.privacy.events import Adjacency
from dplangevin.receipt.minibatches import WORDS, Recognition, Sampler, recognised
from dplangevin.receipt.prices import NoisySteps, Price, price
from dplangevin.text import epsilon as shown
from dplangevin.text import number

RELATIONS: dict[Adjacency, str] = {"add_remove": "adding or removing", "replace_one": "replacing"}
ROUNDING = 1e-4  # relative; our prices of one event lie so far above those of other accountants
SETTINGS = ("clip", "noise_std", "divisor")
CHANCE = 1e-6  # that a schedule of noise is taken for noise that follows the sizes
CHANGED = "clip, noise and divisor changed on the way, whatever the rows were"
ASSUMPTIONS = (
    "the number of rows is public, and rate and divisor do not change with one row",
    "minibatches are drawn with secret randomness, and which rows they hold stays secret",
    "clip and noise are what the optimizer or the caller states (`check_step` measures them)",
    "hyperparameters, and the choice of this run among others, cost nothing here",
    "nothing else was released: only the recorded steps are counted",
    "sampling is judged by one run: consistent with a sampler, not proven to be it",
)


def _row_numbers(given: Any) -> np.ndarray:
    rows = np.asarray(given)
    integers = rows.dtype.kind in "iu" or not rows.size
    require(integers, "these are no row numbers from 0: of a mask take numpy.flatnonzero")
    return rows.astype(np.int64).ravel()


Positive = Annotated[FiniteFloat, Field(gt=0)]
AtLeast1 = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Step:
    """One step of the optimizer: the row numbers, from 0, of each minibatch that it used, and its mechanism.

    `clip` bounds one row's gradient, `noise_std` is of the noise on the sum, `divisor` divides it. None is unknown.
    """

    minibatches: tuple[Annotated[Any, BeforeValidator(_row_numbers)], ...]
    clip: Positive | None = None
    noise_std: Annotated[FiniteFloat, Field(ge=0)] | None = None
    divisor: Positive | None = None


@dataclass(config=ConfigDict(extra="forbid"))
class Receipt:
    """What a training did, in memory; `save` writes what may be published, `save_log` the private log.

    Attributes
    ----------
    records : int, number of rows of the training data.
    delta : float in (0, 1).
    rate : float or None, the stated sampling rate of Poisson samples, which have no price without it.
    claim : float or None, the epsilon that the program or its framework states.
    rows_per_person : int, at most so many rows belong to one person; prices are for a person.
    notes : list of what happened and no price covers; there is no price then.
    """

    records: AtLeast1
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    rate: Annotated[float, Field(gt=0, le=1)] | None = None
    claim: Positive | None = None
    rows_per_person: AtLeast1 = 1
    notes: list[str] = Field(default_factory=list)

    def __post_init__(self) -> None:
        self.steps: list[Step] = []

    def step(self, minibatches: Any, **mechanism: Any) -> None:
        """Record one step of a training loop.

        Parameters
        ----------
        minibatches : row numbers from 0 of the minibatch, or a list of arrays for several minibatches in one step.
        clip : float > 0, bound on the norm of one row's gradient.
        noise_std : float >= 0, of the noise on the sum of gradients. Noise on the mean: times the divisor.
        divisor : float > 0, what the noisy sum is divided by.
        """
        several = isinstance(minibatches, (list, tuple)) and any(np.ndim(each) for each in minibatches)
        step = Step(tuple(minibatches) if several else (minibatches,), **mechanism)
        for rows in step.minibatches:
            outside = rows[(rows < 0) | (rows >= self.records)]
            require(not len(outside), f"index {outside[:1]} is none of the {self.records} rows: count from 0")
        self.steps.append(step)

    def recognise(self) -> Recognition:
        """Return the samplers that fit; if a step has several minibatches, these must be of one epoch."""
        found = recognised(self._joined(), self.records, self.rate)
        epochs = {each.scheme for each in found.samplers} & {"in_order", "shuffled"}
        several = any(len(step.minibatches) > 1 for step in self.steps)
        return Recognition((), found.ruled_out) if several and not epochs else found

    def candidates(self) -> list[NoisySteps]:
        """Return the noisy steps under each sampler that fits; ValueError if too little is known to price them."""
        require(not self.notes, f"no price covers this: {'; '.join(sorted({*self.notes}))}")
        noise = [s.noise_std / s.clip for s in self.steps if s.clip is not None and s.noise_std is not None]
        unknown = len(self.steps) - len(noise)
        require(not unknown, f"clip or noise_std of {unknown} steps is unknown: state both")
        batch, by_size = len(self._joined()[0]), self._size_dependent()
        return [
            NoisySteps(sampler, self.records, np.array(noise), self.rate or math.nan, batch, by_size)
            for sampler in self.recognise().samplers or (Sampler(""),)
        ]

    def _joined(self) -> list[np.ndarray]:
        require(bool(self.steps), "no step was recorded: did the optimizer step inside `watch`?")
        return [np.concatenate(step.minibatches) for step in self.steps]

    def _size_dependent(self) -> bool:
        """Return whether, where sizes of minibatches vary, the divisor varies, too, or the noise follows the sizes.

        Noise that changes with time alone is a schedule. By chance, one in a million correlates with the sizes.
        """
        sizes, noise = [*map(len, self._joined())], [step.noise_std for step in self.steps]
        if len(set(sizes)) == 1 or len({step.divisor for step in self.steps}) > 1:
            return len(set(sizes)) > 1
        if None in noise or len(set(noise)) == 1:
            return False
        a_function = len(set(zip(sizes, noise, strict=True))) == len(set(sizes))
        return a_function or bool(spearmanr(sizes, noise).pvalue < CHANCE)

    def prices(self) -> dict[Adjacency, Price]:
        """Return the largest price of the samplers that fit, for each neighbour relation; nan if one has none."""
        return {adjacency: self._price(adjacency) for adjacency in RELATIONS}

    def _price(self, adjacency: Adjacency) -> Price:
        try:
            each = [price(of, self.delta, adjacency, self.rows_per_person) for of in self.candidates()]
        except ValueError as error:  # also of an accountant that refuses such steps
            return Price(math.nan, str(error))
        return max(each, key=lambda of: (math.isnan(of.epsilon), of.epsilon))

    def statement(self) -> dict[str, Any]:
        """Return what may be published; ValueError if it would tell the sizes of secret minibatches."""
        sampler, prices = (*self.recognise().samplers, Sampler(""))[0], self.prices()
        epochs = sampler.scheme in ("shuffled", "in_order")
        secret = self._size_dependent() and not epochs
        require(
            not secret, "divisor or noise tells sizes of secret minibatches: make them constant to publish"
        )
        batch = len(self._joined()[0]) if epochs or sampler.scheme in ("full", "subset") else None
        settings = Counter(tuple(getattr(step, name) for name in SETTINGS) for step in self.steps)
        costs = {name: of.epsilon if math.isfinite(of.epsilon) else None for name, of in prices.items()}
        return {
            "records": self.records,
            "delta": self.delta,
            "rows_per_person": self.rows_per_person,
            "sampling": WORDS.get(sampler.scheme, "none that has a price"),
            "rate": self.rate,
            "batch": batch,
            "steps_per_epoch": sampler.per_epoch or None,
            "steps": len(self.steps),
            "mechanism": [{"steps": n, **dict(zip(SETTINGS, of, strict=True))} for of, n in settings.items()],
            "prices": {n: {"epsilon": costs[n], "argument": of.accountant} for n, of in prices.items()},
            "claim": {"epsilon": self.claim, "verdict": self._verdict(prices)} if self.claim else None,
            "notes": sorted({*self.notes}),
            "assumptions": [*[CHANGED] * (len(settings) > 1), *ASSUMPTIONS],
        }

    def _verdict(self, prices: dict[Adjacency, Price]) -> str:
        claim = (self.claim or math.nan) * (1 + ROUNDING)
        covered = [RELATIONS[name] for name, of in prices.items() if of.epsilon <= claim]
        return f"covered for {' and for '.join(covered)} {self._unit()}" if covered else "not covered"

    def _unit(self) -> str:
        return "one row" if self.rows_per_person == 1 else f"a person's {self.rows_per_person} rows"

    def save(self, path: str | Path) -> None:
        """Write `statement` as JSON."""
        Path(path).write_text(json.dumps(self.statement(), indent=1) + "\n", encoding="utf-8")

    def save_log(self, path: str | Path) -> None:
        """Write all steps with their row numbers as JSON lines. The file is as private as the rows."""
        private = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(private, "w", encoding="utf-8") as file:
            for each in map(asdict, (self, *self.steps)):  # type: ignore[arg-type]
                print(json.dumps(each, default=np.ndarray.tolist), file=file)

    @classmethod
    def read(cls, path: str | Path) -> "Receipt":
        """Return the receipt of a log that `save_log` or another program wrote."""
        receipt: Receipt | None = None
        with open(path, encoding="utf-8") as file:
            for at, text in enumerate(file, 1):
                try:
                    said = json.loads(text)
                    if receipt:
                        receipt.step(**said)
                    receipt = receipt or cls(**said)
                except (ValueError, TypeError) as error:
                    wrong = error.errors()[0] if isinstance(error, ValidationError) else None
                    why = f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}" if wrong else error
                    raise ValueError(f"{path}, line {at}: {why}") from None
        if receipt is None:
            raise ValueError(f"{path} is empty: its first line states the number of records")
        return receipt

    def __str__(self) -> str:
        """Return the receipt as people read it."""
        found, prices = self.recognise(), self.prices()
        fits = [WORDS[each.scheme] for each in found.samplers] or ["no sampler that has a price"]
        lines = [f"{len(self.steps):,} steps on {self.records:,} rows, consistent with {fits[0]}."]
        lines += [f"  also consistent with {each}" for each in fits[1:]]
        named = (scheme for scheme in ("poisson", "subset", "shuffled") if scheme in found.ruled_out)
        lines += [f"  ruled out: {WORDS[scheme]} ({found.ruled_out[scheme]})" for scheme in named]
        values = (f"{name} {_span([getattr(step, name) for step in self.steps])}" for name in SETTINGS)
        lines += [f"every step with {', '.join(values)}", f"Cost at delta = {number(self.delta)}:"]
        for name, of in prices.items():
            known = f"epsilon <= {shown(of.epsilon)} ({of.accountant})"
            cost = known if math.isfinite(of.epsilon) else of.accountant
            lines.append(f"  {RELATIONS[name]} {self._unit()}: {cost}")
        if self.claim:
            lines.append(f"the stated epsilon = {shown(self.claim)} is {self._verdict(prices)}.")
        lines += [f"On the way: {text} ({times:,} times)" for text, times in Counter(self.notes).items()]
        return "\n".join(lines)


def _span(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    ends = sorted({min(known), max(known)}) if len(known) == len(values) else []
    return " to ".join(f"{value:.6g}" for value in ends) or "unknown"
