"""The receipt: the steps of a training, what they cost, and what may be published of them."""

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dplangevin.checks import count, not_negative, positive, require
from dplangevin.privacy.events import Adjacency, check_delta
from dplangevin.receipt.prices import Price, Ran, price
from dplangevin.receipt.sampling import WORDS, Found, Sampler, recognised
from dplangevin.text import epsilon as shown
from dplangevin.text import number

RELATIONS: dict[Adjacency, str] = {"add_remove": "adding or removing", "replace_one": "replacing"}
ROUNDING = 1e-4  # relative; our prices of one event lie so far above those of other accountants
LOG = "dplangevin receipt log 1"


class Step(NamedTuple):
    """One step: the rows of each minibatch that it used, and what it did with their sum.

    `clip` bounds one row's gradient, `noise_std` is the noise's standard deviation on the sum, and the sum is divided
    by `divisor`. None is unknown. `rows_per_clip` rows are averaged before they are clipped (microbatches).
    """

    draws: tuple[np.ndarray, ...]
    clip: float | None
    noise_std: float | None
    divisor: float | None
    rows_per_clip: int = 1


class LogHeader(BaseModel):
    """First line of a log; the log is as private as the rows, because it says which rows were drawn."""

    model_config = ConfigDict(extra="forbid")
    log: str = Field(LOG, pattern=f"^{LOG}$")
    private: bool = True
    records: int = Field(ge=1, description="number of rows of the training data")
    delta: float = Field(1e-5, gt=0, lt=1)
    rate: float | None = Field(None, gt=0, le=1, description="of Poisson samples, as the program states it")
    claim: float | None = Field(None, gt=0, description="the epsilon that the program states")
    claimed_by: str = "the program"
    rows_per_person: int = Field(1, ge=1)
    notes: dict[str, int] = Field(default_factory=dict, description="what no price covers, with how often")


class LogLine(BaseModel):
    """A line of a log for each optimizer step."""

    model_config = ConfigDict(extra="forbid")
    draws: list[list[int]] = Field(
        description="row numbers from 0, a list for each minibatch that the step used"
    )
    clip: float | None = Field(None, gt=0, description="bound on one row's gradient")
    noise_std: float | None = Field(None, ge=0, description="standard deviation of the noise on the sum")
    divisor: float | None = Field(None, gt=0, description="what the noisy sum was divided by")
    rows_per_clip: int = Field(1, ge=1, description="rows that were averaged before they were clipped")


@dataclass
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
    """

    records: int
    delta: float = 1e-5
    rate: float | None = None
    claim: float | None = None
    claimed_by: str = "the program"
    rows_per_person: int = 1
    steps: list[Step] = field(default_factory=list, repr=False)
    notes: dict[str, int] = field(default_factory=dict)

    _found: Any = field(default=None, init=False, repr=False, compare=False)  # steps, and what is recognised

    def __post_init__(self) -> None:
        count(1, records=self.records, rows_per_person=self.rows_per_person)
        check_delta(self.delta)
        require(self.delta > 0, "delta = 0 has no price for Gaussian noise: take less than 1/records")
        require(self.rate is None or 0 < self.rate <= 1, f"rate = {self.rate} must be in (0, 1]")

    def step(
        self,
        indices: Any,
        *,
        clip: float | None = None,
        noise_std: float | None = None,
        divisor: float | None = None,
        rows_per_clip: int = 1,
    ) -> None:
        """Record one step of a training loop.

        Parameters
        ----------
        indices : row numbers from 0 of the minibatch, or a list of arrays for several minibatches in one step.
        clip : float > 0, bound on the norm of one row's gradient.
        noise_std : float >= 0
            Standard deviation of the noise on the sum of gradients. Noise on the mean: times the divisor.
        divisor : float > 0, what the noisy sum is divided by.
        rows_per_clip : int >= 1, rows that are averaged before they are clipped (microbatches).
        """
        count(1, rows_per_clip=rows_per_clip)
        clip, noise_std, divisor = (
            each if each is None else float(each) for each in (clip, noise_std, divisor)
        )
        nested = isinstance(indices, (list, tuple)) and any(np.ndim(each) for each in indices)
        given = [np.asarray(each) for each in (indices if nested else [indices])]
        numbers = all(each.dtype.kind in "iu" or not each.size for each in given)
        require(numbers, "indices must be row numbers from 0: of a mask take numpy.flatnonzero")
        draws = tuple(each.astype(np.int64).ravel() for each in given)
        for draw in draws:
            outside = draw[(draw < 0) | (draw >= self.records)]
            require(not len(outside), f"index {outside[:1]} is none of the {self.records} rows: count from 0")
        positive(**{name: each for name, each in (("clip", clip), ("divisor", divisor)) if each is not None})
        not_negative(noise_std=noise_std or 0.0)
        self.steps.append(Step(draws, clip, noise_std, divisor, rows_per_clip))

    def note(self, text: str) -> None:
        """Count something that happened on the way and that no price covers: there is no price then."""
        self.notes[text] = self.notes.get(text, 0) + 1

    @property
    def found(self) -> Found:
        """The samplers that the minibatches are consistent with."""
        return self._recognised()[0]

    def _recognised(self) -> tuple[Found, list[np.ndarray], int]:
        """Return the samplers, the draws that they were recognised by, and how many of them a step adds up.

        Minibatches of one step are one draw if they come from epochs, in which no row returns; else independent draws.
        """
        require(bool(self.steps), "no step was recorded: did the optimizer step inside `watch`?")
        if self._found is None or self._found[0] != len(self.steps):
            draws, several = [np.concatenate(step.draws) for step in self.steps], 1
            found = recognised(draws, self.records, self.rate)
            most = max(len(step.draws) for step in self.steps)
            epochs = {each.scheme for each in found.samplers} & {"in_order", "shuffled", "random_allocation"}
            if most > 1 and not epochs:
                draws, several = [draw for step in self.steps for draw in step.draws], most
                found = recognised(draws, self.records, self.rate)
            self._found = len(self.steps), (found, draws, several)
        return self._found[1]

    def ran(self, sampler: Sampler) -> Ran:
        """Return what was done to the data, by this sampler."""
        _, draws, several = self._recognised()
        sizes = np.array([len(draw) for draw in draws])
        unknown = [step for step in self.steps if step.clip is None or step.noise_std is None]
        require(not self.notes, f"no price covers this: {next(iter(self.notes), '')}")
        why = f"clip or noise_std of {len(unknown)} steps is unknown: give both to `watch` or `step`"
        require(not unknown, why)
        noise = np.array([step.noise_std / step.clip for step in self.steps])  # type: ignore[operator]
        rate, realised = self.rate or _upper_rate(sizes, self.records), self._realised()
        batch = int(sizes.max() if realised else sizes[0])
        grouped = max(step.rows_per_clip for step in self.steps)
        return Ran(sampler, self.records, noise, rate, batch, several, realised, grouped > 1)

    def _realised(self) -> bool:
        """Return whether divisor or noise are a function of the minibatch's size, and not constant."""
        by_size: dict[int, list[Any]] = {}
        for step in self.steps:
            by_size.setdefault(sum(map(len, step.draws)), []).append((step.divisor, step.noise_std))
        values = [set(each) for each in by_size.values()]
        again = [len(set(each)) == 1 for each in by_size.values() if len(each) > 1]
        follows = not again or sum(again) >= 0.9 * len(again)
        return follows and len(set().union(*values)) >= max(2, len(values) / 2)

    def prices(self) -> dict[Adjacency, Price]:
        """Return the price for each neighbour relation, "add_remove" and "replace_one"; nan where none is known.

        If several samplers fit, it is the largest price of them, and none if one of them has none.
        """
        return {each: self._price(each) for each in RELATIONS}

    def _price(self, adjacency: Adjacency) -> Price:
        samplers = self.found.samplers or (Sampler(""),)
        found = []
        for sampler in samplers:
            try:
                of = price(self.ran(sampler), self.delta, adjacency, self.rows_per_person)
            except ValueError as error:
                return Price(math.nan, str(error))
            more = ", rate at its 99.9 % bound" * (sampler.scheme == "poisson" and self.rate is None)
            more += f", if they are {WORDS[sampler.scheme]}" if len(samplers) > 1 else ""
            found.append(Price(of.epsilon, of.argument + more))
        return max(found, key=lambda of: (math.isnan(of.epsilon), of.epsilon))

    def statement(self) -> dict[str, Any]:
        """Return what may be published: the scheme, counts that it makes public, clip, noise, steps and prices."""
        found, prices, realised = self.found, self.prices(), self._realised()
        sampler = found.samplers[0] if found.samplers else Sampler("")
        stages: dict[tuple[Any, ...], int] = {}
        for step in self.steps:
            size = "depends on the realised size"
            noise, divisor = (size, size) if realised else (step.noise_std, step.divisor)
            key = step.clip, noise, divisor, step.rows_per_clip
            stages[key] = stages.get(key, 0) + 1
        sizes = (
            {"rate": self.rate} if sampler.scheme == "poisson" else {"batch": len(self._recognised()[1][0])}
        )
        if sampler.scheme in ("random_allocation", "with_replacement", "weighted", ""):
            sizes = {}
        claim = {"epsilon": self.claim, "by": self.claimed_by, "verdict": self.verdict(prices)}
        return {
            "records": self.records,
            "delta": self.delta,
            "rows_per_person": self.rows_per_person,
            "sampling": WORDS.get(sampler.scheme, "none that has a price"),
            "also_consistent_with": [WORDS[each.scheme] for each in found.samplers[1:]],
            **sizes,
            **({"steps_per_epoch": sampler.per_epoch} if sampler.per_epoch else {}),
            **({"rows_left_out_of_each_epoch": sampler.left_out} if sampler.left_out else {}),
            "steps": len(self.steps),
            "mechanism": [
                {
                    "steps": times,
                    "clip": clip,
                    "noise_std": noise,
                    "divisor": divisor,
                    "rows_per_clip": grouped,
                }
                for (clip, noise, divisor, grouped), times in stages.items()
            ],
            "prices": {
                name: {"epsilon": of.epsilon if math.isfinite(of.epsilon) else None, "argument": of.argument}
                for name, of in prices.items()
            },
            "claim": claim if self.claim else None,
            "notes": list(self.notes),
            "assumptions": self.assumptions(),
        }

    def verdict(self, prices: dict[Adjacency, Price]) -> str:
        """Return in a sentence how the claim compares with the price of what ran."""
        add, replaced = prices["add_remove"].epsilon, prices["replace_one"].epsilon
        claim, unit = (self.claim or math.nan) * (1 + ROUNDING), self._unit()
        if add <= claim:
            return f"covered for adding or removing {unit}"
        if replaced <= claim:
            return f"covered for replacing {unit}, not for adding or removing"
        if math.isnan(add) and math.isnan(replaced):
            return "not covered: no price is known for what ran"
        name = min(RELATIONS, key=lambda each: np.nan_to_num(prices[each].epsilon, nan=math.inf))
        return f"not covered: what ran is proven for epsilon = {shown(prices[name].epsilon)}, {RELATIONS[name]} {unit}"

    def assumptions(self) -> list[str]:
        """Return what the prices rest on and no record of steps can show."""
        changed = len({step[1:] for step in self.steps}) > 1
        return [
            *["clip, noise and divisor changed on the way, whatever the rows were"] * changed,
            "the number of rows is public, and rate and divisor do not change with one row",
            "minibatches are drawn with secret randomness, and which rows they hold stays secret",
            "clip and noise are what the optimizer or the caller states (`check_step` measures them)",
            "hyperparameters, and the choice of this run among others, cost nothing here",
            "nothing else was released: only the recorded steps are counted",
            "sampling is judged by one run: consistent with a sampler, not proven to be it",
        ]

    def save(self, path: str | Path) -> None:
        """Write `statement` as JSON; ValueError for Poisson samples whose rate is only estimated, which is secret."""
        Path(path).write_text(json.dumps(self.public(), indent=1) + "\n", encoding="utf-8")

    def public(self) -> dict[str, Any]:
        found = self.found.samplers
        poisson = found[:1] == (Sampler("poisson"),)
        secret = "was computed from the sizes of secret minibatches"
        require(not poisson or self.rate is not None, f"the rate {secret}: give the stated rate= to publish")
        secret_sizes = not found or found[0].scheme in ("poisson", "random_allocation", "weighted")
        sized = secret_sizes and self._realised()
        require(not sized, f"divisor or noise {secret}: make them constant to publish")
        return {name: value for name, value in self.statement().items() if name != "also_consistent_with"}

    def save_log(self, path: str | Path) -> None:
        """Write all steps with their row numbers as JSON lines. The file is as private as the rows."""
        names = LogHeader.model_fields.keys() & vars(self).keys()
        lines = [LogHeader(**{name: getattr(self, name) for name in names}).model_dump()]
        lines += [{**step._asdict(), "draws": [draw.tolist() for draw in step.draws]} for step in self.steps]
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
        ) as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    @classmethod
    def read(cls, path: str | Path) -> "Receipt":
        """Return the receipt of a log that `save_log` or another program wrote; ValueError names a wrong line."""
        receipt: Receipt | None = None
        with open(path, encoding="utf-8") as file:
            for at, text in enumerate(file, 1):
                try:
                    if receipt is None:
                        header = LogHeader.model_validate_json(text).model_dump(exclude={"log", "private"})
                        receipt = cls(**header)
                        continue
                    line = LogLine.model_validate_json(text)
                    receipt.step(line.draws, **line.model_dump(exclude={"draws"}))
                except ValidationError as error:
                    first = error.errors()[0]
                    where = ".".join(map(str, first["loc"])) or "the line"
                    raise ValueError(f"{path}, line {at}: {where}: {first['msg']}") from None
                except ValueError as error:
                    raise ValueError(f"{path}, line {at}: {error}") from None
        require(receipt is not None, f"{path} is empty: its first line states the number of records")
        assert receipt is not None
        return receipt

    def __str__(self) -> str:
        return "\n".join(report(self))

    def registry(self) -> dict[str, Any]:
        """Return a record for a registry of deployments, in the words of OpenDP's."""
        said, person = self.public(), self.rows_per_person > 1
        return {
            "unit_of_privacy": f"a person with at most {self.rows_per_person} rows" if person else "a row",
            "privacy_loss": [
                {"relation": name, "epsilon": of["epsilon"], "delta": self.delta, "argument": of["argument"]}
                for name, of in said["prices"].items()
            ],
            "mechanism": "sums of clipped gradients with Gaussian noise; every step is released",
            "sampling": said["sampling"],
            "steps": said["steps"],
            "composition": "all steps of one training; no other release is counted",
            "tuning": "not counted",
            "notes": said["notes"],
            "not_protected": ["the number of rows", "hyperparameters", "whatever else used the rows"],
            "assumptions": said["assumptions"],
        }

    def paragraph(self) -> str:
        """Return one paragraph for a paper, with every assumption."""
        said = self.public()
        costs = [
            f"epsilon = {shown(of.epsilon)} for {RELATIONS[name]} {self._unit()} ({of.argument})"
            for name, of in self.prices().items()
            if not math.isnan(of.epsilon)
        ]
        cost = " and ".join(costs) if costs else "no known price"
        rests = "; ".join(said["assumptions"])
        return (
            f"The training took {said['steps']:,} noisy steps on {self.records:,} rows. Its minibatches are consistent "
            f"with {said['sampling']}. At delta = {number(self.delta)} it has {cost}. This assumes: {rests}."
        )

    def _unit(self) -> str:
        return "one row" if self.rows_per_person == 1 else f"a person's {self.rows_per_person} rows"


def report(receipt: Receipt) -> Sequence[str]:
    """Return the lines of a receipt as people read it."""
    said, found = receipt.statement(), receipt.found
    lines = [f"{said['steps']:,} steps on {receipt.records:,} rows, consistent with {said['sampling']}."]
    lines += [f"  also consistent with {each}" for each in said["also_consistent_with"]]
    asked = [scheme for scheme in ("poisson", "subset", "shuffled") if scheme in found.rejected]
    lines += [f"  ruled out: {WORDS[scheme]} ({found.rejected[scheme]})" for scheme in asked]
    for stage in said["mechanism"]:
        text = ", ".join(f"{name} {_value(stage[name])}" for name in ("clip", "noise_std", "divisor"))
        lines.append(f"{stage['steps']:,} steps with {text}")
    lines.append(f"Cost at delta = {number(receipt.delta)}:")
    for name, of in receipt.prices().items():
        cost = of.argument if math.isnan(of.epsilon) else f"epsilon <= {shown(of.epsilon)} ({of.argument})"
        lines.append(f"  {RELATIONS[name]} {receipt._unit()}: {cost}")
    if said["claim"]:
        claim = said["claim"]
        lines.append(f"{claim['by']} states epsilon = {shown(claim['epsilon'])}: {claim['verdict']}.")
    lines += [f"On the way: {text} ({number:,} times)" for text, number in receipt.notes.items()]
    return lines


def _value(value: Any) -> str:
    return "unknown" if value is None else value if isinstance(value, str) else f"{value:.6g}"


def _upper_rate(sizes: Iterable[int], records: int) -> float:
    """Return an upper 99.9 % confidence bound on the rate of Poisson samples of these sizes (Clopper and Pearson)."""
    from scipy.stats import beta

    sizes = list(sizes)
    drawn, possible = sum(sizes), records * len(sizes)
    return 1.0 if drawn == possible else float(beta.isf(1e-3, drawn + 1, possible - drawn))
