"""Comparison of all methods on a table of the user: the experiment, its budgets and its results.

A comparison is an ordinary experiment. `Comparison.config` writes the configuration that conf/ would contain,
and `pipeline.sweep` runs it. For each ε of the user, every private method runs at two promised ε: at ε
itself, and at the one whose proven ε is ε. The proven ε is that of the tight accountant for the same
neighbours. So the results can be read at equal promised ε and at equal proven ε.

Without a seed, the noise comes from the system's entropy. An interrupted run continues with the same noise:
the folder of results contains the secret that determines it, until these results are complete.
"""

import math
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from dp_accounting import UnsupportedDpEvent
from hydra.utils import instantiate
from omegaconf import DictConfig, ListConfig, OmegaConf

from dplangevin import files
from dplangevin.checks import require
from dplangevin.cli.options import class_named
from dplangevin.data import DataError, Dataset, schema
from dplangevin.data.loaders import table
from dplangevin.data.schema import Schema
from dplangevin.data.splits import Split
from dplangevin.files import File, atomic_path, key
from dplangevin.library import calibrate
from dplangevin.methods import Method, planned
from dplangevin.methods.pate import Pate
from dplangevin.methods.registry import METHODS
from dplangevin.papers.exhibits import read
from dplangevin.pipeline.cache import Store
from dplangevin.pipeline.environment import pinned
from dplangevin.pipeline.plan import plain
from dplangevin.pipeline.sweep import Inputs, Progress, first_line, sweep, tables
from dplangevin.privacy import Adjacency, Budget
from dplangevin.privacy.accountants.li2019 import Li2019
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problems import Facts
from dplangevin.problems.glm import Glm
from dplangevin.text import meant, number

NAME = "compare"  # name of the experiment
NEIGHBOURS: Adjacency = "replace_one"  # every method has a guarantee for these neighbours
PRIOR = 1.0  # precision of the Gaussian prior, or ridge of the summed loss, of every method
PASSES = 30  # largest number of passes over the rows
TEACHER_ROWS = 20  # fewest rows for each teacher of PATE
LEAST = 20  # fewest training rows
TOGETHER = 2**22  # rows times repeats times budgets of one fit, at most: bounds its memory
CLOSE = 2e-3  # relative tolerance of the proven ε
SECRET = "secret-seed"  # file in the folder of results, if the noise comes from the system's entropy


class Cost(NamedTuple):
    """Seconds of F fits of one method on one core: ``fixed + F d (per_parameter + per_cell n)``."""

    fixed: float
    per_parameter: float
    per_cell: float
    slow: bool = False  # whether `quick` leaves the method out: minutes for its samples or its price


START = 8.0  # seconds to start the processes that fit, and to write the page
OTHER = Cost(0.1, 5e-3, 0.0)  # of a method without an entry in COSTS
# Measured on one core at n = 480 to 24,000, d = 11 to 105. OPS and hybrids: twice what float32 took (on Adult 1.9).
COSTS = {
    "nonprivate": Cost(0.1, 2e-5, 3e-8),
    "objpert": Cost(0.15, 2e-5, 8e-8),
    "objpert_pure": Cost(0.15, 2e-5, 1e-7),
    "objpert_tight": Cost(0.15, 2e-5, 8e-8),
    "outpert": Cost(0.1, 2e-5, 2e-8),
    "dp_sgd": Cost(0.2, 1e-4, 7e-7),
    "dp_gd": Cost(0.1, 1e-4, 6e-7),
    "dp_sgfs": Cost(0.1, 1e-2, 8e-7),
    "dp_sghmc": Cost(0.1, 5e-3, 0.0),
    "dp_sghmc_li2019": Cost(0.1, 6e-3, 0.0),
    "dp_sgld": Cost(0.1, 6e-3, 0.0),
    "dp_sgld_li2019": Cost(0.1, 6e-3, 0.0),
    "dp_sgld_ryffel2022": Cost(2.0, 1.2e-3, 0.0, slow=True),  # the price of a last iterate
    "dp_sgnht": Cost(0.1, 4e-3, 0.0),
    "dpvi": Cost(0.1, 8e-3, 0.0),
    "pate": Cost(0.2, 2e-3, 0.0),
    "ops": Cost(8.0, 5e-3, 8e-7, slow=True),  # exact posterior samples
    "ops_gdp": Cost(1.0, 4e-3, 6e-7, slow=True),
    "hybrid": Cost(7.0, 5e-3, 8e-7, slow=True),
    "hybrid_sgld": Cost(4.0, 5e-3, 8e-7, slow=True),
}


class Outcome(NamedTuple):
    """Results of a comparison; a mapping has the methods as keys."""

    runs: pd.DataFrame  # columns of `read.read_runs`
    notes: dict[str, list[str]]  # why the method, or one of its budgets, has no result
    meta: Mapping[str, Any]  # facts about the data
    rows: tuple[int, int]  # to train and to test on
    constant: pd.Series  # score of the best constant answer, by repeat
    seconds: Mapping[str, float]  # processor time of the fits that this run computed
    methods: Mapping[str, Mapping[str, Any]]  # config with the settings for this number of rows


@dataclass(frozen=True)
class Comparison:
    """The methods, the table and the budgets of a comparison."""

    name: str  # of the data set
    folder: Path
    file: str
    schema: Schema
    splits: Mapping[str, Any]  # arguments of `data.splits.Split`
    methods: Mapping[str, Mapping[str, Any]]  # name -> config, see `methods_named`
    epsilons: Sequence[float]
    delta: float
    seeds: int  # repeats of every method, each with its own split of the rows if `splits` makes as many
    seed: int | None  # whoever knows it can recompute the noise; None: the system's entropy
    results: Path  # folder of runs.csv, scores.csv and unfinished work

    def __post_init__(self) -> None:
        given = ", ".join(map(number, self.epsilons))
        usable = bool(self.epsilons) and all(0 < epsilon < math.inf for epsilon in self.epsilons)
        require(usable, f"--epsilon {given}: must be one or more positive, finite numbers")
        require(0 < self.delta < 1, f"--delta {self.delta:g}: must be in (0, 1)")
        require(self.seed is None or self.seed >= 0, f"--seed {self.seed}: must be at least 0")
        few = f"{self.seeds} repeats or folds have no interval: give --repeats or --folds at least 2"
        require(self.seeds >= 2, few)
        is_file = self.results.exists() and not self.results.is_dir()
        require(not is_file, f"--out {self.results} is a file: name a folder, which may be a new one")

    def data(self) -> Dataset:
        """Return the prepared rows; raise DataError if nothing can be learned from them."""
        data = table.load(self.folder, self.name, self.file, self.schema, Split(**self.splits))
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

    def run(
        self,
        progress: Callable[[str], Any] = lambda name: None,
        begin: Callable[[int, float], Any] = lambda fits, seconds: None,
    ) -> Outcome:
        """Compute what is not yet finished and return all results.

        `progress` is called before the budgets of each method are computed. `begin` is called before the sweep,
        with the number of fits and the seconds that they may take one after the other.
        """
        data = self.data()
        meta, rows = data.meta, (data.n, data.x_test.shape[1])
        loss = self.loss(data)
        facts = Glm.from_dataset(data.scaled("global"), self.seeds, instantiate(loss)).facts
        constant = self.constant(data)
        notes: dict[str, list[str]] = {}
        methods, promised = {}, {}
        for name, given in self.methods.items():
            progress(name)
            try:
                config = sized(given, facts)
                method = instantiate(config)
                promised[name], why = budgets(name, method, facts, self.epsilons, self.delta)
            except Exception as error:  # a method from anywhere can raise anything
                promised[name], why = [], [first_line(error)]
            if why:
                notes[name] = why
            if promised[name]:
                methods[name] = config
        if not methods:
            reasons = "\n".join(f"{name}: {'; '.join(why)}" for name, why in notes.items())
            raise ValueError(f"no method can be run:\n{reasons}")
        cfg = self.config(loss, methods, promised, facts.n)
        columns = schema.to_yaml(self.schema.given(), self.file)
        texts = {"config.yaml": OmegaConf.to_yaml(cfg).encode(), "schema.yaml": columns.encode()}
        files.write(self.results, texts)
        spec = cfg.experiment[NAME]
        store = Store([self.results / f"{table}.csv" for table in tables(spec)], self.results / "units")

        def seconds(name: str, budgets: int) -> float:
            cost = COSTS.get(name, OTHER)
            fits = budgets * self.seeds
            return cost.fixed + fits * facts.d * (cost.per_parameter + cost.per_cell * facts.n)

        record = Progress(lambda unit: seconds(unit.run.method, len(unit.epsilons)))
        with TemporaryDirectory() as spare, pinned():
            prepared = Path(spare) / f"{self.name}.npz"
            data.save(prepared)
            del data
            begin(
                self.seeds * sum(map(len, promised.values())),
                sum(seconds(name, len(promised[name])) for name in methods),
            )
            file = File.at(prepared)
            if self.seed is None:
                cfg.seed = self.secret_seed(cfg, file.sha256)
            keys = sweep(cfg, NAME, self.name, Inputs(file), store, record)
        for name, reason in record.lost.items():
            notes.setdefault(name, []).append(reason)
        if not keys:
            raise ValueError(
                "no method could be run:\n" + "\n".join(f"{n}: {why}" for n, why in record.lost.items())
            )
        store.write(keys)
        if store.folder.exists():
            store.folder.rmdir()
        runs = read.read_runs([self.results.name], root=self.results.parent)
        return Outcome(runs, notes, meta, rows, constant, record.seconds, methods)

    @property
    def scored(self) -> str:
        """The test rows that all methods are scored on.

        PATE learns from the even test rows, without their labels. If it takes part, only the odd rows are
        scored.
        """
        return "odd" if "pate" in self.methods else "all"

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
        path = self.results / SECRET
        secret = path.read_bytes() if path.exists() else b""
        if not re.fullmatch(rb"[0-9a-f]{64}", secret):
            secret = secrets.token_hex(32).encode()
            with atomic_path(path) as part:
                part.touch(0o600)
                part.write_bytes(secret)
        return int(f"1{key([secret.decode(), plain(cfg), data])}", 16)  # with the 1, >= `random.LARGE`

    def forget_secret(self) -> None:
        """Delete the secret behind the noise, once all results of the run are written."""
        (self.results / SECRET).unlink(missing_ok=True)

    def loss(self, data: Dataset) -> dict[str, Any]:
        """Return logistic loss for two classes, softmax for more, Huber for a numeric target."""
        losses = "dplangevin.problems.losses"
        if data.target is not None:
            return {"_target_": f"{losses}.huber", "threshold": 1.0, "label_bound": 1.0}
        if data.classes > 2:
            return {"_target_": f"{losses}.softmax", "classes": data.classes}
        return {"_target_": f"{losses}.named", "loss": "logistic"}

    def config(
        self,
        loss: Mapping[str, Any],
        methods: Mapping[str, Any],
        promised: Mapping[str, Sequence[float]],
        records: int,
    ) -> DictConfig:
        """Return the configuration that conf/ would contain; a seed of null stands for the system's entropy.

        It contains nothing of the table itself, because OmegaConf would fill in a `${...}` and take a `???`
        for a missing value.
        """
        split = {
            "_target_": f"{Split.__module__}.{Split.__name__}",
            **{word: literal(value) for word, value in self.splits.items()},
        }
        loader = {
            "_target_": f"{table.load.__module__}.{table.load.__name__}",
            "name": self.name,
            "file": literal(self.file),
            "schema": "schema.yaml",  # beside config.yaml
            "split": split,
        }
        dataset = {"title": self.name, "assumptions": self.schema.assumptions, "loader": loader}
        problem = {"_target_": "dplangevin.problems.glm.Glm.from_dataset", "_partial_": True, "loss": loss}
        together = max(1, TOGETHER // (self.seeds * records))
        experiment = {
            "datasets": [self.name],
            "methods": [*methods],
            "problem": "linear",
            "scalings": ["global"],
            "price_neighbours": NEIGHBOURS,
            "scored": self.scored,
            "epsilons": {self.name: {name: [*promised[name]] for name in methods}},
            "budgets_per_unit": min(max(map(len, promised.values())), together),
        }
        return OmegaConf.create(
            {
                "seed": self.seed,
                "delta": self.delta,
                "repeats": self.seeds,
                "dataset": {self.name: dataset},
                "features": {},
                "problem": {"linear": problem},
                "method": {**methods},
                "experiment": {NAME: experiment},
            }
        )


def literal(value: Any) -> Any:
    """Return the value with `${` escaped if it is a text, so that OmegaConf does not change it."""
    return value.replace("${", r"\${") if isinstance(value, str) else value


def methods_named(
    names: Sequence[str] | None, own: Sequence[str] = (), quick: bool = False
) -> dict[str, dict[str, Any]]:
    """Return name -> config of the methods to compare: without names all private ones, and the fit without privacy.

    `own` are the user's classes, such as "mine.MyMethod". `quick` without names leaves out the slow methods.
    """
    if names is None:
        names = [name for name, make in METHODS.items() if name == "nonprivate" or make().budgeted]
        names = [name for name in names if not (quick and COSTS.get(name, OTHER).slow)]
    configs = {}
    for name in names:
        if name not in METHODS:
            raise ValueError(f"no method {name!r}{meant(name, METHODS)}; there are {', '.join(METHODS)}")
        configs[name] = written(METHODS[name]())
    for target in own:
        name = class_named(target).__name__
        if name in configs or name in METHODS:
            raise ValueError(f"{target}: there is a method {name} already, call yours differently")
        configs[name] = {"_target_": target}
    return configs


def written(value: Any) -> Any:
    """Return the config that builds an object of frozen dataclasses."""
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        parts = {part.name: written(getattr(value, part.name)) for part in fields(value) if part.init}
        return {"_target_": f"{kind.__module__}.{kind.__qualname__}", **parts}
    return [*map(written, value)] if isinstance(value, (list, tuple)) else value


def expression(value: Any, classes: set[type], indent: int) -> str:
    """Return Python that makes an object, without the defaults of its class; add the classes that it names."""
    if isinstance(value, (list, tuple, ListConfig)):
        return f"[{', '.join(expression(each, classes, indent) for each in value)}]"
    if isinstance(value, Mapping):
        return (
            "{" + ", ".join(f"{key!r}: {expression(of, classes, indent)}" for key, of in value.items()) + "}"
        )
    kind, parts = type(value), list[str]()
    if kind.__module__ == "builtins":
        return 'float("inf")' if value == math.inf else repr(value)
    classes.add(kind)  # a user's class that is no dataclass takes no arguments
    for part in fields(kind) if is_dataclass(kind) else ():
        usual = part.default if part.default_factory is MISSING else part.default_factory()
        if part.init and (own := getattr(value, part.name)) != usual:
            parts.append(f"{part.name}={expression(own, classes, indent + 4)}")
    line = f"{kind.__name__}({', '.join(parts)})"
    if len(line) + indent < 76:
        return line
    pad = "\n" + " " * (indent + 4)
    return f"{kind.__name__}({pad}{f',{pad}'.join(parts)},\n{' ' * indent})"


def sized(config: Mapping[str, Any], facts: Facts) -> dict[str, Any]:
    """Return the config of a method for this number of rows; a user's own method stays unchanged."""
    if not config["_target_"].startswith("dplangevin."):
        return {**config}
    new: dict[str, Any] = written(fitted(instantiate(config), facts))
    return new


def fitted(method: Any, facts: Facts) -> Any:
    """Return the method with the settings that make it comparable to the others.

    All private methods get the same prior, the same number of passes over the rows in minibatches, and prices
    by the tight accountant for the same neighbours. PATE gets teachers and votes that fit the number of rows.
    """
    known = {part.name for part in fields(method)}
    prior = ("precision", "ridge") if method.budgeted else ()
    changes: dict[str, Any] = {name: PRIOR for name in prior if name in known}
    if "sampling" in known:
        passes = min(PASSES, max(1, round(math.sqrt(facts.n))))
        changes["sampling"] = replace(method.sampling, epochs=passes)
    if "adjacency" in known and isinstance(method.accountant, Li2019):
        changes |= {"accountant": Tight(), "adjacency": NEIGHBOURS}
    changes |= {
        name: fitted(getattr(method, name), facts) for name in ("first", "second", "method") if name in known
    }
    if isinstance(method, Pate):
        teachers = max(2, min(method.teachers, facts.n // TEACHER_ROWS))
        vote = replace(
            method.vote, threshold=0.6 * teachers, answer_std=0.16 * teachers, asked=2.5, fewest=10
        )
        student: Any = method.student
        return replace(
            method, teachers=teachers, vote=vote, student=replace(student, ridge=PRIOR), scored="odd"
        )
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
            equal = calibrate(method, facts, Budget(epsilon, delta), NEIGHBOURS, rtol=CLOSE)
            promised.add(float(f"{equal.epsilon:.6g}") if equal.epsilon != epsilon else epsilon)
        except ValueError as error:
            why.append(f"ε = {number(epsilon)}: {first_line(error)}")
    if not promised and len({reason.partition(": ")[2] for reason in why}) == 1:
        why = [why[0].partition(": ")[2]]  # the same reason at every budget: report it once
    return sorted(promised), why
