"""Comparison of all methods on a table of the user: the experiment, its budgets and its results.

A comparison is an ordinary experiment, `Comparison.config`. For each ε of the user, every private method runs at two
promised ε: at ε itself, and at the one whose proven ε is ε, by the tight accountant for the same neighbours.

Without a seed, the noise comes from the system's entropy. An interrupted run continues with the same noise:
the folder of results contains the secret that determines it, until these results are complete.
"""

import math
import os
import pickle
import re
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from dp_accounting import UnsupportedDpEvent
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from dplangevin import files
from dplangevin.checks import require
from dplangevin.cli.options import config_of, is_own, method_named
from dplangevin.cli.output import counted
from dplangevin.cli.persons import NEIGHBOURS, OfPersons, split_by_person
from dplangevin.data import DataError, Dataset, table_schema
from dplangevin.data.csv_table import Table
from dplangevin.data.loaders import table
from dplangevin.data.splits import Split
from dplangevin.data.table_schema import Schema
from dplangevin.files import File, atomic_path, key
from dplangevin.library import budget_for
from dplangevin.methods import Method, planned
from dplangevin.methods.pate import Pate
from dplangevin.methods.registry import METHODS
from dplangevin.pipeline.cache import Store
from dplangevin.pipeline.environment import pinned
from dplangevin.pipeline.executor import workers
from dplangevin.pipeline.plan import plain
from dplangevin.pipeline.sweep import Inputs, Progress, first_line, sweep
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.moments_accountant import Moments
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problems import Facts
from dplangevin.problems.glm import Glm
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
SLOW_FITS = 10  # fits that take as long as one of these methods


class Outcome(NamedTuple):
    """Results of a comparison; a mapping has the methods as keys."""

    runs: pd.DataFrame  # columns of `read.read_runs`
    notes: dict[str, list[str]]  # why the method, or one of its budgets, has no result
    meta: Mapping[str, Any]  # facts about the data
    rows: tuple[int, int]  # to train and to test on
    constant: pd.Series  # score of the best constant answer, by repeat
    methods: Mapping[str, Any]  # with the settings for this number of rows


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
            raise DataError(
                f"{self.name} has {data.n} rows to train on, the others are tested on: need at least {LEAST}"
            )
        if self.scored == "odd" and data.x_test.shape[1] < 2:
            raise DataError(
                f"{self.name} has 1 row to test on, and pate needs 2: give fewer --folds or more test rows, or leave "
                "pate out by --methods"
            )
        if data.y_train.min() == data.y_train.max():
            raise DataError(
                f"column {self.schema.target}: all rows to train on have one value: nothing to learn"
            )
        return data

    def persons(self) -> np.ndarray:
        """Return whose each labelled row is; raise DataError where that is missing."""
        group = str(self.group)
        rows = table._labelled(Table.read(self.table, form=self.schema.form), self.schema)
        for text in rows.columns[group]:
            if text in {*self.schema.marks, ""}:
                raise DataError(
                    f"{rows.at(group, text)}: {text!r} is missing: --group needs a person in every row"
                )
        return np.array(rows.columns[group])

    def run(self, say: Callable[[str], Any] = print) -> Outcome:
        """Compute what is not yet finished and return all results; `say` gets the number of fits before the sweep."""
        data = self.data()
        meta, rows, constant = data.meta, (data.n, data.x_test.shape[1]), self.constant(data)
        problem = problem_of(data)
        facts = instantiate(problem)(data.scaled("global"), self.seeds).facts
        methods, promised, notes = self.planned(facts)
        cfg = self.config(problem, methods, promised, facts.n)
        columns = table_schema.to_yaml(self.schema.given(), self.table.name)
        texts = {"config.yaml": OmegaConf.to_yaml(cfg).encode(), "schema.yaml": columns.encode()}
        files.write(self.results, texts)
        store = Store([self.results / f"{name}.csv" for name in ("runs", "scores")], self.results / "units")
        record = Progress(lambda task: len(task.epsilons) * (SLOW_FITS if task.run.method in SLOW else 1))
        with TemporaryDirectory() as spare, pinned():
            prepared = Path(spare) / f"{self.name}.npz"
            data.save(prepared)
            del data
            fits = counted(self.seeds * sum(map(len, promised.values())), "fit")
            say(
                f"{fits} of {counted(len(methods), 'method')} on {counted(workers(), 'core')}. "
                "Ctrl-C keeps what is finished, and the same command goes on from there."
            )
            file = File.at(prepared)
            if self.seed is None:
                cfg.seed = self.secret_seed(cfg, file.sha256)
            keys = sweep(cfg, NAME, self.name, Inputs(file), store, record)
        for name in filter(record.lost.__contains__, methods):
            notes.setdefault(name, []).append(record.lost[name])
        _some(keys, notes)
        store.write(keys)
        if store.folder.exists():
            store.folder.rmdir()
        folder = self.results.resolve()
        runs = read.read_runs([folder.name], root=folder.parent)
        return Outcome(runs, notes, meta, rows, constant, methods)

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
        which = slice(1, None, 2) if self.scored == "odd" else slice(None)
        few = replace(data, x_test=data.x_test[:, which], y_test=data.y_test[:, which])
        (values,) = few.constant().values()
        return pd.Series(np.broadcast_to(values, self.seeds).copy())

    def secret_seed(self, cfg: DictConfig, data: str) -> int:
        """Return a seed of 128 bits that depends on the secret of this run, all settings and all rows.

        So the same noise is never added for other rows or settings.
        """
        secret = self.secret.read_bytes() if self.secret.exists() else b""
        if not re.fullmatch(rb"[0-9a-f]{64}", secret):
            secret = secrets.token_hex(32).encode()
            with atomic_path(self.secret) as part:
                part.touch(0o600)
                part.write_bytes(secret)
        return int(f"1{key([secret.decode(), plain(cfg), data])}", 16)  # with the 1, >= `random.LARGE`

    def config(
        self,
        problem: Mapping[str, Any],
        methods: Mapping[str, Any],
        promised: Mapping[str, Sequence[float]],
        records: int,
    ) -> DictConfig:
        """Return the experiment for the sweep, as `params.yaml` would contain it, with no text of the table.

        A seed of null stands for the system's entropy.
        """
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
                "method": {name: _config_of(method) for name, method in methods.items()},
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


def on_odd_rows(data: Dataset, *given: Any, **settings: Any) -> Glm:
    """Return the linear model of `problem_of` whose test rows are the odd ones of a data set."""
    odd = {name: getattr(data, name)[:, 1::2] for name in ("x_test", "y_test")}
    return Glm.from_dataset(replace(data, **odd), *given, **settings)


def methods_named(words: Sequence[str], quick: bool = False) -> dict[str, Any]:
    """Return the methods to compare by name; words are names of the package, or classes such as mine.MyMethod.

    Without a name of the package: all its private methods (`quick`: those that are not slow), and the one without.
    """
    own, names = [*filter(is_own, words)], [word for word in words if not is_own(word)]
    if not names:
        names = [name for name, make in METHODS.items() if name == "nonprivate" or make().budgeted]
        names = [name for name in names if not (quick and name in SLOW)]
    methods = {name: method_named(name) for name in names}
    for target in own:
        method = method_named(target)
        name = type(method).__name__
        known = name in methods or name in METHODS
        require(not known, f"{target}: there is a method {name} already, call yours differently")
        methods[name] = Own(method)
    return methods


class Own:
    """`Own(method)` is the user's method itself, whose errors are one line with its class and the fix."""

    budgeted = True  # the comparison gives its budgets
    priced_by_release = True  # no training is kept: it may use anything

    def __new__(cls, method: Any) -> Any:
        """Return the method, whose plan and release are watched."""
        with suppress(AttributeError):  # of a class with slots
            for part in ("plan", "release"):
                object.__setattr__(method, part, partial(_watched, getattr(method, part), type(method), part))
        return method


def _watched(call: Callable[..., Any], kind: type, part: str, *given: Any) -> Any:
    """Return what a user's method returns; raise ValueError if it fails, or if theta has a wrong shape."""
    try:
        made = call(*given)
        if part == "plan":
            pickle.dumps(made)  # another process may carry it out
        if part == "release":
            problem, plans, how = given
            shape = (*made.theta.shape,)
            d = problem.facts.d if made.predicted is None else shape[-1]
            wanted = f"({how.seeds}, {len(plans)}, kept, {d}), see dplangevin.Method"
            right = shape[:2] + shape[3:] == (how.seeds, len(plans), d)
            require(right, f"theta has the shape {shape}, and must be {wanted}")
    except Exception as error:
        if isinstance(error, ValueError) or os.environ.get("DPL_DEBUG"):
            raise
        fix = "dplangevin.Method says what to take and return; DPL_DEBUG=1 shows the line that fails"
        name = f"{kind.__module__}.{kind.__name__}.{part}"
        raise ValueError(f"{name}: {type(error).__name__}: {error}: {fix}") from error
    return made


def _ours(method: Any) -> bool:
    return type(method).__module__.startswith("dplangevin.")


def _config_of(method: Any) -> dict[str, Any]:
    """Return the config that builds a method; one of the user's is built by its class alone."""
    if isinstance(method, OfPersons):
        return config_of(method) | {"method": _config_of(method.method)}
    config: dict[str, Any] = config_of(method)
    if _ours(method):
        return config
    return {"_target_": f"{__name__}.Own", "method": {"_target_": config["_target_"]}}


def classes_of(value: Any) -> set[type]:
    """Return the classes that the repr of a method names."""
    own = set() if type(value).__module__ == "builtins" else {type(value)}
    parts = fields(value) if is_dataclass(value) else ()
    return own.union(*(classes_of(getattr(value, part.name)) for part in parts))


def fitted(method: Any, facts: Facts) -> Any:
    """Return the method with the settings that make it comparable to the others; one of the user's is not changed.

    All private methods get the same prior, the same number of passes over the rows in minibatches, and prices
    by the tight accountant for the same neighbours. PATE gets teachers and votes that fit the number of rows.
    """
    if not _ours(method):
        return method
    if isinstance(method, Pate):
        teachers = max(2, min(method.teachers, facts.n // TEACHER_ROWS))
        scales: dict[str, Any] = {"threshold": 0.6 * teachers, "answer_std": 0.16 * teachers}
        vote = replace(method.vote, **scales, asked=2.5, fewest=10)
        student: Any = method.student
        return replace(
            method, teachers=teachers, vote=vote, student=replace(student, ridge=PRIOR), scored="odd"
        )
    known = {part.name: getattr(method, part.name) for part in fields(method)}
    prior = ("precision", "ridge") if method.budgeted else ()
    changes: dict[str, Any] = {name: PRIOR for name in prior if name in known}
    if "sampling" in known:
        changes["sampling"] = replace(method.sampling, epochs=min(PASSES, max(1, round(math.sqrt(facts.n)))))
    if "adjacency" in known and isinstance(method.accountant, Moments):
        changes |= {"accountant": Tight(), "adjacency": NEIGHBOURS}
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
    if not promised and len({reason.partition(": ")[2] for reason in why}) == 1:
        why = [why[0].partition(": ")[2]]  # the same reason at every budget: report it once
    return sorted(promised), why
