"""The receipt: the steps of a training, what they cost, and what may be published of them."""

import json
import math
import os
from collections import Counter
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic.dataclasses import dataclass as checked_dataclass
from scipy.stats import binomtest, spearmanr

from dplangevin.checks import require
from dplangevin.privacy.events import Adjacency
from dplangevin.receipt.minibatches import WORDS, Recognition, Sampler, recognised
from dplangevin.receipt.prices import NoisySteps, Price, price
from dplangevin.text import epsilon as shown
from dplangevin.text import number

RELATIONS: dict[Any, str] = {"add_remove": "adding or removing", "replace_one": "replacing"}
ROUNDING = 1e-4  # relative; our prices of one event lie so far above those of other accountants
BY_SIZE = "depends on the realised size"
SECRET = "was computed from the sizes of secret minibatches"
SETTINGS = ("clip", "noise_std", "divisor", "rows_per_clip")
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


Minibatch = Annotated[
    np.ndarray,
    BeforeValidator(_row_numbers),
    PlainSerializer(np.ndarray.tolist),
    WithJsonSchema({"type": "array", "items": {"type": "integer"}}),
]
Positive = Annotated[FiniteFloat, Field(gt=0)]
AtLeast1 = Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class Step:
    """One step of the optimizer: the row numbers, from 0, of each minibatch that it used, and its mechanism.

    `clip` bounds one row's gradient, `noise_std` is the noise's standard deviation on the sum, and the sum is divided
    by `divisor`. None is unknown. `rows_per_clip` rows are averaged before they are clipped (microbatches).
    """

    minibatches: tuple[Minibatch, ...]
    clip: Positive | None = None
    noise_std: Annotated[FiniteFloat, Field(ge=0)] | None = None
    divisor: Positive | None = None
    rows_per_clip: AtLeast1 = 1
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    @classmethod
    def checked(cls, minibatches: tuple[Any, ...], **mechanism: Any) -> "Step":
        """Return the step that these values describe; ValueError names a wrong one."""
        try:
            return STEP.validate_python({"minibatches": minibatches, **mechanism})
        except ValidationError as error:
            raise ValueError(_in_one_line(error)) from None


STEP = TypeAdapter(Step)


@checked_dataclass(config=ConfigDict(extra="forbid"))
class Receipt:
    """What a training did, in memory; `save` writes what may be published, `save_log` the private log.

    Attributes
    ----------
    records : int, number of rows of the training data.
    delta : float in (0, 1).
    rate : float or None, the stated sampling rate of Poisson samples.
    claim : float or None, the epsilon that the program or its framework states.
    claimed_by : str, who states it.
    rows_per_person : int
        At most so many rows belong to one person; prices are for a person, not for a row.
    notes : dict, what no price covers, with how often it happened; there is no price then.
    private : True, because a log says which rows were drawn.
    """

    records: AtLeast1
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    rate: Annotated[float, Field(gt=0, le=1)] | None = None
    claim: Positive | None = None
    claimed_by: str = "the program"
    rows_per_person: AtLeast1 = 1
    notes: dict[str, int] = Field(default_factory=dict)
    private: Literal[True] = True

    def __post_init__(self) -> None:
        self.steps: list[Step] = []

    def step(self, minibatches: Any, **mechanism: Any) -> None:
        """Record one step of a training loop.

        Parameters
        ----------
        minibatches : row numbers from 0 of the minibatch, or a list of arrays for several minibatches in one step.
        clip : float > 0, bound on the norm of one row's gradient.
        noise_std : float >= 0
            Standard deviation of the noise on the sum of gradients. Noise on the mean: times the divisor.
        divisor : float > 0, what the noisy sum is divided by.
        rows_per_clip : int >= 1, rows that are averaged before they are clipped (microbatches).
        """
        several = isinstance(minibatches, (list, tuple)) and any(np.ndim(each) for each in minibatches)
        step = Step.checked(tuple(minibatches) if several else (minibatches,), **mechanism)
        for rows in step.minibatches:
            outside = rows[(rows < 0) | (rows >= self.records)]
            require(not len(outside), f"index {outside[:1]} is none of the {self.records} rows: count from 0")
        self.steps.append(step)

    def note(self, text: str) -> None:
        """Count something that happened on the way and that no price covers."""
        self.notes[text] = self.notes.get(text, 0) + 1

    def recognise(self) -> tuple[Recognition, list[np.ndarray], int]:
        """Return the samplers that fit, the minibatches that show it, and how many of these a step adds up.

        Minibatches of one step are one if they come from epochs, in which no row returns; else independent samples.
        """
        require(bool(self.steps), "no step was recorded: did the optimizer step inside `watch`?")
        joined = [np.concatenate(step.minibatches) for step in self.steps]
        found, most = recognised(joined, self.records, self.rate), max(len(s.minibatches) for s in self.steps)
        epochs = {each.scheme for each in found.samplers} & {"in_order", "shuffled", "random_allocation"}
        if most == 1 or epochs:
            return found, joined, 1
        apart = [rows for step in self.steps for rows in step.minibatches]
        return recognised(apart, self.records, self.rate), apart, most

    def candidates(self) -> list[NoisySteps]:
        """Return the noisy steps under each sampler that fits; ValueError if too little is known to price them."""
        found, minibatches, samples = self.recognise()
        for text in self.notes:
            raise ValueError(f"no price covers this: {text}")
        noise = [s.noise_std / s.clip for s in self.steps if None not in (s.clip, s.noise_std)]  # type: ignore[operator]
        unknown = len(self.steps) - len(noise)
        require(not unknown, f"clip or noise_std of {unknown} steps is unknown: give both for every step")
        sizes, by_size = [*map(len, minibatches)], self._size_dependent()
        rate, batch = self.rate or 1.0, max(sizes) if by_size else sizes[0]
        if self.rate is None and "poisson" in {each.scheme for each in found.samplers}:
            drawn = binomtest(sum(sizes), self.records * len(sizes), alternative="less")
            rate = drawn.proportion_ci(0.999).high
        grouped = any(step.rows_per_clip > 1 for step in self.steps)
        return [
            NoisySteps(sampler, self.records, np.array(noise), rate, batch, samples, by_size, grouped)
            for sampler in found.samplers or (Sampler(""),)
        ]

    def _size_dependent(self) -> bool:
        """Return whether, where sizes of minibatches vary, the divisor varies, too, or the noise follows the sizes.

        Noise that changes with time alone is a schedule. By chance, one in a million correlates with the sizes.
        """
        sizes = [sum(map(len, step.minibatches)) for step in self.steps]
        noise = [step.noise_std for step in self.steps]
        if len(set(sizes)) == 1 or len({step.divisor for step in self.steps}) > 1:
            return len(set(sizes)) > 1
        if None in noise or len(set(noise)) == 1:
            return False
        a_function = len(set(zip(sizes, noise, strict=True))) == len(set(sizes))
        return a_function or bool(spearmanr(sizes, noise).pvalue < CHANCE)

    def prices(self) -> dict[Adjacency, Price]:
        """Return the price for each neighbour relation, "add_remove" and "replace_one"; nan where none is known.

        If several samplers fit, it is the largest price of them, and none if one of them has none.
        """
        try:
            candidates = self.candidates()
        except ValueError as error:
            return dict.fromkeys(RELATIONS, Price(math.nan, str(error)))
        return {adjacency: self._price(candidates, adjacency) for adjacency in RELATIONS}

    def _price(self, candidates: list[NoisySteps], adjacency: Adjacency) -> Price:
        found = []
        for steps in candidates:
            try:
                of = price(steps, self.delta, adjacency, self.rows_per_person)
            except ValueError as error:  # of an accountant that refuses such steps
                of = Price(math.nan, str(error))
            more = ", rate at its 99.9 % bound" * (steps.sampler.scheme == "poisson" and self.rate is None)
            found.append(Price(of.epsilon, of.accountant + more))
        return max(found, key=lambda of: (math.isnan(of.epsilon), of.epsilon))

    def statement(self) -> dict[str, Any]:
        """Return what may be published: scheme, counts that it makes public, clip, noise, steps and prices.

        ValueError if it would tell the sizes of secret minibatches.
        """
        return self._summary(published=True)

    def _summary(self, published: bool = False) -> dict[str, Any]:
        found, minibatches, _ = self.recognise()
        sampler, prices = found.samplers[0] if found.samplers else Sampler(""), self.prices()
        scheme, by_size = sampler.scheme, self._size_dependent()
        schemes = {each.scheme for each in found.samplers or [sampler]}
        public = schemes <= {"full", "subset", "shuffled", "in_order"}  # no secret draw decides the sizes
        batch = {"batch": len(minibatches[0])} if public else {}
        size = {"rate": self.rate} if scheme == "poisson" else batch
        if published:
            require(None not in size.values(), f"the rate {SECRET}: give the stated rate= to publish")
            require(public or not by_size, f"divisor or noise {SECRET}: make them constant to publish")
        also = [WORDS[each.scheme] for each in found.samplers[1:]]
        settings = [*map(attrgetter(*SETTINGS), self.steps)]
        changed = len(set(settings)) > 1
        if by_size:
            settings = [(clip, BY_SIZE, BY_SIZE, rows) for clip, _, _, rows in settings]
        stages = Counter(settings).items()
        costs = {name: of.epsilon if math.isfinite(of.epsilon) else None for name, of in prices.items()}
        claim = {"epsilon": self.claim, "by": self.claimed_by, "verdict": self._verdict(prices)}
        return {
            "records": self.records,
            "delta": self.delta,
            "rows_per_person": self.rows_per_person,
            "sampling": WORDS.get(scheme, "none that has a price"),
            **({} if published else {"also_consistent_with": also, "ruled_out": found.ruled_out}),
            **size,
            **({"steps_per_epoch": sampler.per_epoch} if sampler.per_epoch else {}),
            "steps": len(self.steps),
            "mechanism": [{"steps": times, **dict(zip(SETTINGS, of, strict=True))} for of, times in stages],
            "prices": {n: {"epsilon": costs[n], "argument": of.accountant} for n, of in prices.items()},
            "claim": claim if self.claim else None,
            "notes": list(self.notes),
            "assumptions": [*[CHANGED] * changed, *ASSUMPTIONS],
        }

    def _verdict(self, prices: dict[Adjacency, Price]) -> str:
        """Return in a sentence how the claim compares with the price of what ran."""
        costs: dict[str, float] = {n: of.epsilon for n, of in prices.items() if not math.isnan(of.epsilon)}
        claim, unit = (self.claim or math.nan) * (1 + ROUNDING), self._unit()
        for name, more in (("add_remove", ""), ("replace_one", ", not for adding or removing")):
            if costs.get(name, math.inf) <= claim:
                return f"covered for {RELATIONS[name]} {unit}{more}"
        if not costs:
            return "not covered: no price is known for what ran"
        cost, name = min((cost, name) for name, cost in costs.items())
        return f"not covered: what ran is proven for epsilon = {shown(cost)}, {RELATIONS[name]} {unit}"

    def _unit(self) -> str:
        return "one row" if self.rows_per_person == 1 else f"a person's {self.rows_per_person} rows"

    def save(self, path: str | Path) -> None:
        """Write `statement` as JSON."""
        Path(path).write_text(json.dumps(self.statement(), indent=1) + "\n", encoding="utf-8")

    def save_log(self, path: str | Path) -> None:
        """Write all steps with their row numbers as JSON lines. The file is as private as the rows."""
        private = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(private, "wb") as file:
            file.write(TypeAdapter(Receipt).dump_json(self) + b"\n")
            file.writelines(STEP.dump_json(step) + b"\n" for step in self.steps)

    @classmethod
    def read(cls, path: str | Path) -> "Receipt":
        """Return the receipt of a log that `save_log` or another program wrote; ValueError names a wrong line."""
        receipt: Receipt | None = None
        with open(path, encoding="utf-8") as file:
            for at, text in enumerate(file, 1):
                try:
                    if receipt is None:
                        receipt = TypeAdapter(cls).validate_json(text)
                    else:
                        receipt.step(**json.loads(text))
                except (ValueError, TypeError) as error:
                    why = _in_one_line(error) if isinstance(error, ValidationError) else error
                    raise ValueError(f"{path}, line {at}: {why}") from None
        if receipt is None:
            raise ValueError(f"{path} is empty: its first line states the number of records")
        return receipt

    def registry(self) -> dict[str, Any]:
        """Return a record for a registry of deployments, in the words of OpenDP's."""
        said, person = self.statement(), self.rows_per_person > 1
        return {
            "unit_of_privacy": f"a person with at most {self.rows_per_person} rows" if person else "a row",
            "privacy_loss": [{"relation": n, "delta": self.delta, **of} for n, of in said["prices"].items()],
            "mechanism": "sums of clipped gradients with Gaussian noise; every step is released",
            "composition": "all steps of one training; no other release is counted",
            "tuning": "not counted",
            "not_protected": ["the number of rows", "hyperparameters", "whatever else used the rows"],
            **{name: said[name] for name in ("sampling", "steps", "notes", "assumptions")},
        }

    def paragraph(self) -> str:
        """Return one paragraph for a paper, with every assumption."""
        said = self.statement()
        costs = [
            f"epsilon = {shown(of['epsilon'])} for {RELATIONS[name]} {self._unit()} ({of['argument']})"
            for name, of in said["prices"].items()
            if of["epsilon"] is not None
        ]
        cost = " and ".join(costs) or "no known finite price"
        return (
            f"The training took {said['steps']:,} noisy steps on {self.records:,} rows. Its minibatches are consistent "
            f"with {said['sampling']}. At delta = {number(self.delta)} it has {cost}. "
            f"This assumes: {'; '.join(said['assumptions'])}."
        )

    def __str__(self) -> str:
        """Return the receipt as people read it."""
        said = self._summary()
        lines = [f"{said['steps']:,} steps on {self.records:,} rows, consistent with {said['sampling']}."]
        lines += [f"  also consistent with {each}" for each in said["also_consistent_with"]]
        named = (scheme for scheme in ("poisson", "subset", "shuffled") if scheme in said["ruled_out"])
        lines += [f"  ruled out: {WORDS[scheme]} ({said['ruled_out'][scheme]})" for scheme in named]
        for stage in said["mechanism"]:
            texts = (f"{name} {_value(stage[name])}" for name in ("clip", "noise_std", "divisor"))
            lines.append(f"{stage['steps']:,} steps with {', '.join(texts)}")
        lines.append(f"Cost at delta = {number(self.delta)}:")
        for name, of in said["prices"].items():
            cost, argument = of["epsilon"], of["argument"]
            cost = argument if cost is None else f"epsilon <= {shown(cost)} ({argument})"
            lines.append(f"  {RELATIONS[name]} {self._unit()}: {cost}")
        if claim := said["claim"]:
            lines.append(f"{claim['by']} states epsilon = {shown(claim['epsilon'])}: {claim['verdict']}.")
        lines += [f"On the way: {text} ({number:,} times)" for text, number in self.notes.items()]
        return "\n".join(lines)


def _in_one_line(error: ValidationError) -> str:
    wrong = error.errors()[0]
    return f"{'.'.join(map(str, wrong['loc'])) or 'the line'}: {wrong['msg']}"


def _value(value: Any) -> str:
    return "unknown" if value is None else value if isinstance(value, str) else f"{value:.6g}"
