"""Comparison of all methods on a table of the user: the experiment, its budgets and its results.

For each ε of the user, every private method runs at two promised ε: at ε itself, and at the one whose proven ε is ε,
by the tight accountant for the same neighbours. Without a seed, an interrupted run continues with the same noise: the
folder of results contains the secret that determines it, until these results are complete.
"""

import math
import re
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import attr
import numpy as np
import pandas as pd
from dp_accounting import DpEvent, NonPrivateDpEvent, NoOpDpEvent, UnsupportedDpEvent
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from dplangevin import files
from dplangevin.checks import require
from dplangevin.cli.options import config_of, is_own, method_named
from dplangevin.cli.output import counted
from dplangevin.data import DataError, Dataset, table_schema
from dplangevin.data.csv_table import Table
from dplangevin.data.loaders import table
from dplangevin.data.splits import Split, generator
from dplangevin.data.table_schema import Schema
from dplangevin.files import File, atomic_path, key
from dplangevin.library import budget_for
from dplangevin.methods import Execution, Method, Plan, Release, planned
from dplangevin.methods.pate import Pate
from dplangevin.methods.pricing import violated, whole
from dplangevin.methods.registry import METHODS
from dplangevin.pipeline.cache import Store
from dplangevin.pipeline.environment import pinned
from dplangevin.pipeline.plan import plain
from dplangevin.pipeline.sweep import Inputs, SweepTasks, first_line, sweep
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants import tight
from dplangevin.privacy.accountants.moments_accountant import Moments
from dplangevin.privacy.events import Adjacency
from dplangevin.problems import Facts, Problem
from dplangevin.problems.glm import Glm
from dplangevin.receipt.prices import MOST, grown, of_records
from dplangevin.reporting import read
from dplangevin.text import number

NAME = "compare"  # name of the experiment
PRIOR = 1.0  # precision of the Gaussian prior, or ridge of the summed loss, of every method
PASSES = 30  # largest number of passes over the rows
TEACHER_ROWS = 20  # fewest rows for each teacher of PATE
LEAST = 20  # fewest training rows
TOGETHER = 2**22  # rows times repeats times budgets of one fit, at most: bounds its memory
CLOSE = 2e-3  # relative tolerance of the proven ε
SLOW = {"dp_sgld_ryffel2022", "ops", "ops_gdp", "hybrid", "hybrid_sgld"}  # minutes for samples or for a price
NEIGHBOURS: Adjacency = "replace_one"  # every method has a guarantee for these neighbours
SAME = (NonPrivateDpEvent, NoOpDpEvent, UnsupportedDpEvent)  # events whose price is not one of records
SPARE = 1e-9  # relative, of delta, for rounding


class Outcome(NamedTuple):
    """Results of a comparison."""

    runs: pd.DataFrame  # columns of `read.read_runs`
    notes: dict[str, list[str]]  # why the method, or one of its budgets, has no result
    meta: Mapping[str, Any]  # facts about the data
    rows: tuple[int, int]  # to train and to test on
    constant: pd.Series  # score of the best constant answer, by repeat


@dataclass(frozen=True)
class Comparison:
    """The methods, the table and the budgets of a comparison."""

    table: Path
    schema: Schema
    splits: Mapping[str, Any]  # arguments of `data.splits.Split`
    methods: Mapping[str, Any]  # see `methods_named`
    epsilons: Sequence[float]
    delta: float
    seeds: int  # repeats of every method, each with its own split of the rows if `splits` makes as many
    seed: int | None  # whoever knows it can recompute the noise; None: the system's entropy
    results: Path  # folder of runs.csv, scores.csv and unfinished work
    group: str | None = None  # column that says whose a row is; every ε is then for all rows of a person
    rows_per_person: int = 1

    @property
    def name(self) -> str:
        """Name of the data set."""
        return re.sub(r"\W+", "_", self.table.stem)

    @property
    def scored(self) -> str:
        """The test rows that all methods are scored on: "odd" with PATE, which learns from the even ones, or "all"."""
        return "odd" if "pate" in self.methods else "all"

    @property
    def secret(self) -> Path:
        """The file with the secret behind the noise, until all results of the run are written."""
        return self.results / "secret-seed"

    @property
    def public(self) -> list[str]:
        """What `--group` assumes: it decides which rows are used, and on which side of a split."""
        return [f"the column {self.group} and the order of the rows are public"] if self.group else []

    def data(self) -> Dataset:
        """Return the prepared rows; raise DataError if nothing can be learned from them."""
        split = Split(**self.splits)
        load = partial(table.load, self.table.parent, self.name, self.table.name, self.schema)
        if self.group is None:
            data = load(split)
        else:
            data = load(Split(test_file=self.table.name))  # all rows
            x, y = data.x_train[0], data.y_train[0]
            train, test = split_by_person(self.persons(), self.rows_per_person, split, self.name)
            data = Dataset(x[train], y[train], x[test], y[test], data.meta)
        if data.n < LEAST:
            raise DataError(f"{self.name} has {data.n} rows to train on: need at least {LEAST}")
        return data

    def persons(self) -> np.ndarray:
        """Return whose each labelled row is; raise DataError where that is missing."""
        group = str(self.group)
        rows = table._labelled(Table.read(self.table, form=self.schema.form), self.schema)
        for text in {*self.schema.marks, ""}.intersection(rows.columns[group]):
            raise DataError(f"{rows.at(group, text)}: --group needs a person in every row, not {text!r}")
        return np.array(rows.columns[group])

    def run(self, say: Callable[[str], Any] = print) -> Outcome:
        """Compute what is not yet finished and return all results; `say` gets the number of fits before the sweep."""
        data = self.data()
        meta, rows, constant = data.meta, (data.n, data.x_test.shape[1]), self.constant(data)
        problem = problem_of(data)
        facts = instantiate(problem)(data.scaled("global"), self.seeds).facts
        methods, promised, notes = self.planned(facts)
        cfg = self.config(problem, methods, promised, facts.n)
        columns = table_schema.to_yaml(self.schema.given(), self.table.name).encode()
        files.write(self.results, {"config.yaml": OmegaConf.to_yaml(cfg).encode(), "schema.yaml": columns})
        store = Store([self.results / f"{name}.csv" for name in ("runs", "scores")], self.results / "units")
        lost = dict[str, str]()
        with TemporaryDirectory() as spare, pinned():
            prepared = Path(spare) / f"{self.name}.npz"
            data.save(prepared)
            del data
            fits = counted(self.seeds * sum(map(len, promised.values())), "fit")
            say(f"{fits} of {counted(len(methods), 'method')}. Ctrl-C keeps what is finished.")
            file = File.at(prepared)
            if self.seed is None:
                cfg.seed = self.secret_seed(cfg, file.sha256)
            keys = sweep(SweepTasks(cfg, NAME, self.name, Inputs(file), store.folder), store, lost)
        for name in filter(lost.__contains__, methods):
            notes.setdefault(name, []).append(lost[name])
        _some(keys, notes)
        store.write(keys)
        if store.folder.exists():
            store.folder.rmdir()
        folder = self.results.resolve()
        runs = read.read_runs([folder.name], root=folder.parent)
        return Outcome(runs, notes, meta, rows, constant)

    def planned(self, facts: Facts) -> tuple[dict[str, Any], dict[str, list[float]], dict[str, list[str]]]:
        """Return, by name, the methods to run, the promised ε of each, and why others are impossible."""
        methods, promised, notes = {}, {}, {}
        for name, given in self.methods.items():
            method = fitted(given, facts)
            if method.budgeted and self.rows_per_person > 1:
                method = OfPersons(method, self.rows_per_person)
            found, why = budgets(name, method, facts, self.epsilons, self.delta)
            if why:
                notes[name] = why
            if found:
                methods[name], promised[name] = method, found
        _some(methods, notes)
        return methods, promised, notes

    def constant(self, data: Dataset) -> pd.Series:
        """Return the score of the best constant answer, by repeat, on the rows of `scored`."""
        (values,) = (_odd(data) if self.scored == "odd" else data).constant().values()
        return pd.Series(np.broadcast_to(values, self.seeds).copy())

    def secret_seed(self, cfg: DictConfig, data: str) -> int:
        """Return a seed of 128 bits by secret, settings and rows: the same noise is never added for other rows."""
        secret = self.secret.read_bytes() if self.secret.exists() else b""
        if not re.fullmatch(rb"[0-9a-f]{64}", secret):
            secret = secrets.token_hex(32).encode()
            with atomic_path(self.secret) as part:
                part.touch(0o600)
                part.write_bytes(secret)
        return int(f"1{key([secret.decode(), plain(cfg), data])}", 16)  # with the 1, >= `random.LARGE`

    def config(
        self, problem: Any, methods: Mapping[str, Any], promised: Mapping[str, Sequence[float]], records: int
    ) -> DictConfig:
        """Return the experiment for the sweep, with no text of the table; seed null stands for entropy."""
        together = max(1, TOGETHER // (self.seeds * records))
        problems = {"linear": problem}
        if self.scored == "odd":  # PATE learns from the even ones
            problems = {"linear": {**problem, "_target_": f"{__name__}.on_odd_rows"}, "public": problem}
        learns = {name: "public" if name == "pate" else "linear" for name in methods}
        experiment = {
            "runs": {name: {"method": name, "problem": learns[name]} for name in methods},
            "scalings": ["global"],
            "price_neighbours": NEIGHBOURS,
            "epsilons": {self.name: {name: [*promised[name]] for name in methods}},
            "budgets_per_unit": min(max(map(len, promised.values())), together),
        }
        return OmegaConf.create(
            {
                "seed": self.seed,
                "delta": self.delta,
                "repeats": self.seeds,
                "dataset": {self.name: {"assumptions": [*self.schema.assumptions, *self.public]}},
                "problem": problems,
                "method": {name: config_of(method, own=False) for name, method in methods.items()},
                "experiment": {NAME: experiment},
            }
        )


def _some(runnable: Collection[str], notes: Mapping[str, Sequence[str]]) -> None:
    reasons = "\n".join(f"{name}: {'; '.join(why)}" for name, why in notes.items())
    require(len(runnable) > 0, f"no method can be run:\n{reasons}")


def problem_of(data: Dataset) -> dict[str, Any]:
    """Return the config of a linear model: logistic loss for two classes, softmax for more, Huber for a number."""
    losses = "dplangevin.problems.losses"
    loss: dict[str, Any] = {"_target_": f"{losses}.classifier", "classes": data.classes}
    if data.target is not None:
        loss = {"_target_": f"{losses}.huber", "threshold": 1.0, "label_bound": 1.0}
    return {"_target_": "dplangevin.problems.glm.Glm.from_dataset", "_partial_": True, "loss": loss}


def _odd(data: Dataset) -> Dataset:
    return replace(data, x_test=data.x_test[:, 1::2], y_test=data.y_test[:, 1::2])


def on_odd_rows(data: Dataset, *given: Any, **settings: Any) -> Glm:
    """Return the linear model of `problem_of` whose test rows are the odd ones of a data set."""
    return Glm.from_dataset(_odd(data), *given, **settings)


def methods_named(words: Sequence[str], quick: bool = False) -> dict[str, Any]:
    """Return methods by name, also classes such as mine.MyMethod; by default all private ones and the one without."""
    everything = [name for name, make in METHODS.items() if name == "nonprivate" or make().budgeted]
    names = [word for word in words if not is_own(word)]
    names = names or [name for name in everything if not (quick and name in SLOW)]
    methods = {name: method_named(name) for name in names}
    for method in map(method_named, filter(is_own, words)):
        name = type(method).__name__
        require(name not in {*methods, *METHODS}, f"there is a method {name} already, call yours differently")
        methods[name] = method
    return methods


def fitted(method: Any, facts: Facts) -> Any:
    """Return the method with the settings that make it comparable to the others; one of the user's is not changed.

    All private methods get the same prior, the same number of passes over the rows in minibatches, and prices
    by the tight accountant for the same neighbours. PATE gets teachers and votes that fit the number of rows.
    """
    if not type(method).__module__.startswith("dplangevin."):
        return method
    if isinstance(method, Pate):
        teachers = max(2, min(method.teachers, facts.n // TEACHER_ROWS))
        scales: dict[str, Any] = {"threshold": 0.6 * teachers, "answer_std": 0.16 * teachers}
        vote = replace(method.vote, **scales, asked=2.5, fewest=10)
        student: Any = method.student
        student = replace(student, ridge=PRIOR)
        return replace(method, teachers=teachers, vote=vote, student=student, scored="odd")
    known = {part.name: getattr(method, part.name) for part in fields(method)}
    prior = ("precision", "ridge") if method.budgeted else ()
    changes: dict[str, Any] = {name: PRIOR for name in prior if name in known}
    if "sampling" in known:
        changes["sampling"] = replace(method.sampling, epochs=min(PASSES, max(1, round(math.sqrt(facts.n)))))
    if "adjacency" in known and isinstance(method.accountant, Moments):
        changes |= {"accountant": tight.Tight(), "adjacency": NEIGHBOURS}
    changes |= {name: fitted(known[name], facts) for name in ("first", "second", "method") if name in known}
    return replace(method, **changes)


def budgets(
    name: str, method: Method, facts: Facts, epsilons: Sequence[float], delta: float
) -> tuple[list[float], list[str]]:
    """Return the promised ε to run a method at, ascending, and the reasons why others are impossible."""
    if not method.budgeted:
        return [math.inf], []
    promised, why = set[float](), []
    for epsilon in epsilons:
        try:
            (plan,) = planned(method, facts, [Budget(epsilon, delta)], name)
            promised.add(epsilon)
            if isinstance(plan.guarantee.event, UnsupportedDpEvent):  # the claim of another package
                continue
            equal = budget_for(method, facts, Budget(epsilon, delta), NEIGHBOURS, rtol=CLOSE)
            promised.add(float(f"{equal.epsilon:.6g}") if equal.epsilon != epsilon else epsilon)
        except Exception as error:  # a method from anywhere can raise anything
            why.append(f"ε = {number(epsilon)}: {first_line(error)}")
    return sorted(promised), why


# Persons: at most K rows of each are used, and every ε is for all of these together


@attr.frozen
class RecordsDpEvent(DpEvent):
    """`event`, where neighbours differ in `rows` records; the tight accountant prices it by `of_records`."""

    event: DpEvent
    rows: int


@tight.alone.register
def _(leaf: RecordsDpEvent, delta: float, adjacency: Adjacency) -> tight.Price:
    return of_records(leaf.event, delta, adjacency, leaf.rows)


@dataclass(frozen=True)
class OfPersons:
    """`method` with budgets and prices for `rows` records together.

    The method's own theorem gets the budget of one record that by the group lemma gives the budget of K.
    """

    method: Any
    rows: int
    budgeted: ClassVar[bool] = True
    priced_by_release: ClassVar[bool] = True  # as an inner PATE: no training is kept under another price

    @property
    def accountant(self) -> Any:
        return SimpleNamespace(name=f"{self.method.accountant.name}, {self.rows} records by the group lemma")

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        one = (budget.epsilon if budget.epsilon == math.inf else min(budget.epsilon, MOST / 2)) / self.rows
        asked = Budget(one, budget.delta / grown(one, self.rows) * (1 - SPARE))
        plan = self.method.plan(facts, asked)
        of, event = plan.guarantee, whole(plan.guarantee.event)
        guarantee = of._replace(
            epsilon=self.rows * of.epsilon,
            delta=of.delta * grown(of.epsilon, self.rows),
            event=event if isinstance(event, SAME) else RecordsDpEvent(event, self.rows),
        )
        return plan._replace(guarantee=guarantee, paper=None, violated=(*violated(self.method, plan),))

    def release(self, problem: Problem, plans: Sequence[Plan], how: Execution) -> Release:
        """Return the method's release of its own plans, without what it says of the privacy of one record."""
        release: Release = self.method.release(problem, [self._of_one(plan) for plan in plans], how)
        seen = {name: each for name, each in release.not_private.items() if not name.startswith("epsilon")}
        return replace(release, not_private=seen)

    def _of_one(self, plan: Plan) -> Plan:
        of = plan.guarantee
        one = of.epsilon / self.rows
        event = of.event.event if isinstance(of.event, RecordsDpEvent) else of.event
        own = of._replace(epsilon=one, delta=of.delta / grown(one, self.rows), event=event)
        return plan._replace(guarantee=own)


def split_by_person(persons: np.ndarray, most: int, split: Split, name: str) -> list[np.ndarray]:
    """Return training rows (R, n) and test rows (R, m), with at most `most` rows of a person, who is in one of them.

    `persons` (N,) says whose a row is. All repeats have as many rows as the smallest.
    """
    order = generator(split.seed, f"{name}/persons").permutation(len(persons))
    names, whose = np.unique(persons[order], return_inverse=True)
    by_person = np.argsort(whose, kind="stable")
    rank = np.empty(len(order), int)
    rank[by_person] = np.arange(len(order)) - np.searchsorted(whose[by_person], whose[by_person])
    kept, whose = order[rank < most], whose[rank < most]
    parts = []
    for drawn in split.rows(len(names), name):
        rows = [kept[np.isin(whose, own)] for own in drawn]
        least = min(map(len, rows))
        parts.append(np.stack([each[:least] for each in rows]))
    return parts
