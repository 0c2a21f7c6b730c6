"""The sweep: it computes the tidy rows of an experiment on a data set, over budgets and seeds, with prices.

`pipeline.cache.Store` caches tasks (`plan.Task`: a run, a scaling, a variant, a block of budgets), so only those whose
parameters, data or code have changed are computed again.  Where only the code that plans and prices has changed, a task
is planned again, and if its plan has the same numbers, only its prices are computed.  Chains that share rows and noise
are one tensor program.
"""

import io
import json
import math
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from hydra.utils import get_class, get_object, instantiate
from omegaconf import DictConfig
from torch import Tensor
from tqdm import tqdm

from dplangevin import random
from dplangevin.data import DataError, Dataset
from dplangevin.data import generator as data_generator
from dplangevin.data.splits import subset
from dplangevin.device import drawing, pick
from dplangevin.files import File, key
from dplangevin.methods import (
    ChainMethod,
    Execution,
    Method,
    Plan,
    Release,
    Workspace,
    placed,
    planned,
)
from dplangevin.methods.evaluate import predictive
from dplangevin.methods.pricing import Attack, equal_budget, priced
from dplangevin.pipeline.cache import Rows, Store, cached_rows
from dplangevin.pipeline.code import PACKAGE, PRICING, code_hash, targets
from dplangevin.pipeline.executor import CallResults, TaskTables, computed
from dplangevin.pipeline.observers import BestEpoch, Distance, LearningCurve, Mixing, Observer, Seen
from dplangevin.pipeline.plan import SUBSET, TABLES, Task, delta, plain, tasks
from dplangevin.privacy import Budget
from dplangevin.problems import Facts, Problem
from dplangevin.problems.chain import Chain
from dplangevin.problems.glm import Glm

# words of an experiment that enter a task's key in another way, or that determine no row
NOT_IN_SPEC = (
    "block", "seeds", "runs", "methods", "settings", "vary", "epsilons", "datasets", "budgets_per_unit", "metrics",
    "scalings", "noise",
)  # fmt: skip
# words of an experiment that determine prices and texts of a row, and the plans, but no score of a plan
PRICED = ("assumptions", "tuned", "prices", "price_neighbours", "formula", "attack", "calibrated")
PAIRED = {"poisson", "subset"}  # schemes whose chains see the same rows and noise in paired experiments
# diagnostics of a release that are metrics, too, if the method reports them; they are not private
REPORTED = (
    "r_hat", "ess", "answered", "label_accuracy", "teacher_accuracy", "epsilon_data_dependent", "epsilon_released",
)  # fmt: skip
TOGETHER = 1_000  # chains of one tensor program; more would be no faster
BAR = {"unit": "unit", "disable": None}  # settings of tqdm
CLOSE = 2e-3  # relative tolerance of the proven ε for which budgets are found


class Inputs(NamedTuple):
    """The prepared files of an experiment; `prepared` returns the data for other settings of conf/dataset."""

    data: File
    posterior: File | None = None
    weights: File | None = None
    prepared: Callable[[Mapping[str, Any]], File] | None = None

    @property
    def files(self) -> tuple[File | None, ...]:
        return self[:3]

    def of(self, task: Task) -> "Inputs":
        """Return the inputs of a task."""
        if not (changes := task.loader_changes):
            return self
        if self.prepared is None:
            raise ValueError(
                f"{', '.join(changes)}: these data are prepared already, vary {' or '.join(SUBSET)} of them"
            )
        return self._replace(data=self.prepared(changes))


@dataclass
class Progress:
    """By run: the reason why it has no result, and the seconds of its tasks, each on one worker."""

    cost: Callable[[Task], float]
    lost: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def bar(self) -> dict[str, Any]:
        terminal = sys.stderr.isatty()
        layout = "{desc}: {percentage:3.0f}% |{bar:20}| {elapsed} gone, {remaining} left"
        return {
            "desc": "Fitting",
            "bar_format": layout if terminal else f"{layout}\n",
            "delay": 0 if terminal else 30,
            "mininterval": 0.1 if terminal else 30,
        }

    def took(self, tasks: Sequence[Task], seconds: float) -> None:
        costs = [self.cost(task) for task in tasks]
        for task, cost in zip(tasks, costs, strict=True):
            share = seconds * cost / sum(costs)
            self.seconds[task.run.name] = self.seconds.get(task.run.name, 0.0) + share


def tables(spec: DictConfig) -> list[str]:
    """Return the names of the tables that an experiment writes."""
    of_curve = ["curve", "reliability"] if spec.get("curve") else []
    return ["runs", "scores", *of_curve, *(["samples"] if spec.get("digit_classifier") else [])]


def sweep(
    cfg: DictConfig,
    experiment: str,
    dataset: str,
    inputs: Inputs,
    store: Store,
    progress: "Progress | None" = None,
) -> list[str]:
    """Finish all tasks of an experiment on a data set; return their keys in order, with `progress` of the finished."""
    work = SweepTasks(cfg, experiment, dataset, inputs, store.folder)
    missing = [i for i, name in enumerate(work.keys) if not store.find(name)]
    failed: dict[int, Exception] = {}
    if missing:
        for file in work.files(missing):
            file.get()  # makes it once, or fails once instead of in every task
        before = {i: rows for i in missing if (rows := store.trained(work.scores_key(i, failed)))}
        groups = [[i] for i in before]
        groups += work.groups([i for i in missing if i not in before and i not in failed], failed)
        jobs = [Job(group, before.get(group[0])) for group in groups]
        code = [__name__, *targets(*(work.tasks[i].config for i in missing), plain(work.spec))]
        results = CallResults(store, [[work.keys[i] for i in group] for group in groups])
        costs = [
            sum(1.0 if progress is None else progress.cost(work.tasks[i]) for i in group) for group in groups
        ]
        with tqdm(total=sum(costs), **(BAR if progress is None else progress.bar)) as shown:
            for done in computed(work.run, jobs, work.one_budget_per_task, code, results):
                group = groups[done.number]
                if done.error is not None:
                    failed |= dict.fromkeys(group, reported(done.error))
                if progress is not None:
                    progress.took([work.tasks[i] for i in group], done.seconds)
                shown.update(costs[done.number])
    if progress is not None:
        for i, error in sorted(failed.items()):
            progress.lost.setdefault(work.tasks[i].run.name, first_line(error))
        return [name for i, name in enumerate(work.keys) if i not in failed]
    if failed:
        reasons = dict.fromkeys(f"{work.tasks[i].run.name}: {error}" for i, error in sorted(failed.items()))
        kind = type(next(iter(failed.values()))) if len(set(map(type, failed.values()))) == 1 else ValueError
        raise (kind if issubclass(kind, ValueError | OSError) else ValueError)("\n".join(reasons))
    return work.keys


class Job(NamedTuple):
    """Tasks that run together; or one whose training is stored, with the rows of its tables `before`."""

    group: list[int]
    before: list[Rows] | None = None


def drawn_in(spec: Mapping[str, Any] | DictConfig) -> torch.dtype:
    """Return the precision in which an experiment draws the noise of its chains."""
    name: str | None = spec.get("noise")
    return {None: random.NORMALS, "float32": torch.float32, "float64": torch.float64}[name]


class SweepTasks:
    """The tasks of a sweep, and how each is computed; `folder` holds unfinished work, such as checkpoints."""

    def __init__(self, cfg: DictConfig, experiment: str, dataset: str, inputs: Inputs, folder: Path) -> None:
        self.cfg, self.experiment, self.dataset = cfg, experiment, dataset
        self.inputs, self.folder = inputs, folder
        self.spec = cfg.experiment[experiment]
        self.tasks = tasks(cfg, experiment, dataset)
        self.files_of: dict[str, list[Any]] = {}  # sha256 of the inputs, by the loader's changes
        self.keys = [self.key(task) for task in self.tasks]
        if inputs.posterior and any(
            task.problem_changes or any(task.data_subset.values()) for task in self.tasks
        ):
            raise ValueError(
                f"{experiment} is compared with the exact posterior on all rows: set compared: false for a part of them"
            )
        # networks: each budget is a task of its own; linear models: their chains are one program
        self.one_budget_per_task = bool(self.spec.get("one_budget_per_task") or self.spec.get("curve"))
        self.problems: dict[Any, Problem] = {}

    def key(self, task: Task, plans: Sequence[Plan] | None = None) -> str:
        """Return a hash of everything that determines a task's rows; with its plans, that determines its scores."""
        spec = plain(self.spec)
        left_out = NOT_IN_SPEC if plans is None else (*NOT_IN_SPEC, *PRICED)
        rest = {name: value for name, value in spec.items() if name not in left_out}
        given = spec.get("delta") or self.cfg.delta
        base = {
            "names": [self.experiment, self.dataset],
            "spec": rest,
            "seed": self.cfg.seed,
            "noise": str(drawn_in(spec)),
            "delta": [given, self.cfg.delta] if given == "1/n^2" else given,
        }
        if (where := drawing(pick())).type != "cpu":
            base["random numbers"] = where.type
        changes = str(task.loader_changes)
        if changes not in self.files_of:
            self.files_of[changes] = [file and file.sha256 for file in self.inputs.of(task).files]
        problem = dict(task.problem)
        if "backbone" in problem:
            problem["backbone"] = plain(self.cfg.backbone[problem["backbone"]])
        without = () if plans is None else PRICING
        code = code_hash(__name__, *targets(task.config, problem, rest), without=without)
        run = task.run._replace(config={}, epsilons=[])
        data = {"inputs": self.files_of[changes], "subset": task.data_subset}
        found = [base, data, code, problem, task.config, run, task.scaling, task.variant, task.epsilons]
        if plans is not None:
            found[5] = run._replace(assumptions=[], block="")
            found.append([[digits(plan.work), digits(dict(plan.settings))] for plan in plans])
        return key(found)

    def scores_key(self, i: int, failed: dict[int, Exception] | None = None) -> str:
        """Return the key of a task's training; "" where it cannot be planned, or its prices need the training.

        So a vote, whose scores include a price of its answers, is computed again, as is a method from outside the
        package, whose training may use anything.
        """
        task = self.tasks[i]
        target = task.config["_target_"]
        if not target.startswith(f"{PACKAGE}.") or getattr(get_class(target), "priced_by_release", False):
            return ""
        try:
            return self.key(task, self.planned(task)[1])
        except Exception as error:
            if failed is not None:
                failed[i] = reported(error)
            return ""

    def files(self, wanted: Iterable[int]) -> list[File]:
        """Return the files that these tasks read, each once."""
        read = [file for i in wanted for file in self.inputs.of(self.tasks[i]).files if file is not None]
        return list({file.sha256: file for file in read}.values())

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the problems, which another process makes itself."""
        return {**self.__dict__, "problems": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state and import all code of the tasks, because their keys do not cover later edits."""
        self.__dict__.update(state)
        for name in targets(*(task.config for task in self.tasks), plain(self.spec)):
            get_object(name)

    def groups(self, missing: Sequence[int], failed: dict[int, Exception]) -> list[list[int]]:
        """Return groups of tasks that run together: chains on the same rows and noise; others run alone.

        A task that cannot be planned, such as one whose budget is out of reach, fails here, before any training.
        """
        if self.one_budget_per_task:
            return [[i] for i in missing]
        by_draws: dict[Any, list[int]] = {}
        for i in missing:
            task = self.tasks[i]
            try:
                method, plans = self.planned(task)
            except Exception as error:
                failed[i] = reported(error)
                continue
            plain_chain = isinstance(method, ChainMethod) and type(method).kernel is ChainMethod.kernel
            name: Any = i
            if plain_chain and all(isinstance(plan.work, Chain) for plan in plans):
                chain = plans[0].work
                n = self.problem(task).facts.n
                name = *self.problem_key(task), task.run.stream
                name += len(chain.step), chain.sampling.size(n), chain.keep, chain.momentum
                drawn_alike = self.spec.get("paired") and chain.sampling.scheme in PAIRED
                if not drawn_alike:
                    name += chain.sampling.scheme, chain.start_std > 0
            by_draws.setdefault(name, []).append(i)
        return [smaller for group in by_draws.values() for smaller in self.split_group(group)]

    def split_group(self, group: Sequence[int]) -> list[list[int]]:
        """Split a group at `TOGETHER` chains, above which a larger program is no faster."""
        groups: list[list[int]] = []
        room = 0
        for i in group:
            chains = len(self.tasks[i].epsilons) * self.tasks[i].run.seeds
            if chains > room:
                groups.append([])
                room = TOGETHER
            groups[-1].append(i)
            room -= chains
        return groups

    def planned(self, task: Task) -> tuple[Method, list[Plan]]:
        """Return the method of a task, and its plan for each budget."""
        method: Method = instantiate(task.config)
        facts = self.problem(task).facts
        budgets = [self.budget(method, facts, epsilon) for epsilon in task.epsilons]
        return method, planned(method, facts, budgets, task.run.name)

    def budget(self, method: Method, facts: Facts, epsilon: float) -> Budget:
        """Return the budget of a method for an epsilon of the experiment, see `schema.Experiment.calibrated`."""
        asked = Budget(epsilon, delta(self.cfg, self.spec, facts.n))
        if self.spec.get("calibrated") != "proven":
            return asked
        if (neighbours := self.spec.get("price_neighbours")) is None:
            raise ValueError(f"{self.experiment}: calibrated: proven needs price_neighbours")
        return equal_budget(method, facts, asked, neighbours, rtol=CLOSE)

    def stream(self, task: Task, method: Method) -> str:
        """Return the name of the random stream of a task: of its run for chains and networks, else of its budget too.

        So budgets of a method without chains are independent, and its variants share the noise.
        """
        name = task.run.stream
        return (
            name
            if self.one_budget_per_task or isinstance(method, ChainMethod)
            else f"{name}/{task.epsilons[0]}"
        )

    def problem_key(self, task: Task) -> tuple[Any, ...]:
        """Return everything that determines the problem of a task."""
        changes = str(task.problem_changes), str(task.data_changes)
        return task.run.problem, *changes, task.scaling, task.run.seeds

    def problem(self, task: Task) -> Problem:
        """Return the problem of a task, which is made once; those on other rows are then forgotten."""
        name = self.problem_key(task)
        if name not in self.problems:
            self.problems = {
                other: problem for other, problem in self.problems.items() if other[1:] == name[1:]
            }
            config = dict(task.problem)
            more: dict[str, Any] = {}
            if "backbone" in config:
                assert self.inputs.weights is not None
                files = {"data": self.data(task), "weights": self.inputs.weights}
                network = plain(self.cfg.backbone[config.pop("backbone")])
                code = code_hash(*targets(config, network))
                more = {"backbone": network, "inputs": files, "folder": self.folder.parent, "code": code}
            make = instantiate(config, _convert_="all")
            self.problems[name] = make(self.scaled(task), task.run.seeds, **more)
        return self.problems[name]

    def workspace(self, i: int) -> Workspace:
        """Return where the unfinished work of a task is stored."""
        return Workspace(self.folder, self.keys[i], code_hash(*targets(self.tasks[i].config)))

    def data(self, task: Task) -> File:
        """Return the prepared file of a task; its sha256 also covers which rows it trains on."""
        file, chosen = self.inputs.of(task).data, task.data_subset
        if not any(chosen.values()):
            return file
        return file._replace(sha256=key([file.sha256, chosen, self.cfg.seed]))

    def scaled(self, task: Task, scaling: str | None = None) -> Dataset:
        """Return the rows of a task, with its own scaling or with `scaling`; "" is for none."""
        rng = data_generator(self.cfg.seed, f"{self.dataset}/part")
        rows = Dataset.load(self.inputs.of(task).data.get()).first(task.run.seeds)
        rows = subset(rows, **task.data_subset, rng=rng)
        how = task.scaling if scaling is None else scaling
        return rows.scaled(how) if how else rows

    def run(self, job: Job) -> list[TaskTables]:
        """Return the tables of the tasks of a job."""
        return self.compute(job.group) if job.before is None else [self.repriced(job.group[0], job.before)]

    def repriced(self, i: int, before: Sequence[Rows]) -> TaskTables:
        """Return the tables of a task with today's prices and the scores of its stored training."""
        task, stored = self.tasks[i], before[0]
        _, plans = self.planned(task)
        notes = json.loads(stored.notes) if stored.notes else [""] * len(plans)
        found = TaskTables(runs=self.rows(task, plans, self.prices(i, plans), notes))
        names = tables(self.spec)
        for name, rows in zip(names[1:], before[1:], strict=True):
            found[name] = pd.read_csv(io.StringIO(rows.content), dtype=str, keep_default_na=False)
        if "curve" in found:
            facts, spent = self.problem(task).facts, found["runs"].delta[0]
            found["curve"] = LearningCurve.repriced(found["curve"], plans[0], facts, spent)
        found.origin = stored.origin
        return found

    def compute(self, group: Sequence[int]) -> list[TaskTables]:
        """Return the tables of tasks that run together."""
        several = [self.planned(self.tasks[i]) for i in group]
        prices = [self.prices(i, plans) for i, (_, plans) in zip(group, several, strict=True)]
        first, method = self.tasks[group[0]], several[0][0]
        plans = [plan for _, each in several for plan in each]
        problem = placed(self.problem(first), plans, first.run.seeds)
        observers = self.observers(first, problem, plans[0])
        for observer in observers:
            plans = [observer.kept(plan) for plan in plans]
        how = Execution(
            first.run.seeds,
            random.generator(self.cfg.seed, self.stream(first, method), drawing(problem.device)),
            observe=next((each for each in observers if isinstance(each, LearningCurve)), None),
            workspace=self.workspace(group[0]) if self.one_budget_per_task else None,
            schemes=PAIRED if self.spec.get("paired") and _drawn(plans[0]) in PAIRED else None,
            drawn_in=drawn_in(self.spec),
        )
        try:
            release = method.release(problem, plans, how)
        except torch.OutOfMemoryError as error:
            raise ValueError(
                f"{first.run.name}: the memory of {problem.device} is full ({error}): lower DPL_MEMORY, repeats or "
                "budgets_per_unit, or set DPL_DEVICE=cpu"
            ) from error
        found, start = [], 0
        for i, (_, each), price in zip(group, several, prices, strict=True):
            seen = self.seen(self.tasks[i], problem, of_plans(release, start, start + len(each)), observers)
            found.append(self.tables(i, seen, each, price, observers))
            start += len(each)
        return found

    def observers(self, task: Task, problem: Problem, plan: Plan) -> list[Observer]:
        """Return what the experiment adds to the scores of a release; tasks that run together have the same."""
        spec, seeds = self.spec, task.run.seeds
        found: list[Observer] = [BestEpoch(problem.facts.n)] if spec.get("best_epoch") else []
        if spec.get("curve"):
            found.append(
                instantiate(spec.curve)(problem, plan, seeds, delta(self.cfg, spec, problem.facts.n))
            )
        elif isinstance(problem, Glm):
            found.append(Mixing())
        if self.inputs.posterior is not None:
            found.insert(0, Distance(self.inputs.posterior.get(), task.scaling))
        if spec.get("digit_classifier"):
            found.append(instantiate(spec.digit_classifier)(problem, self.cfg.seed))
        return found

    def prices(self, i: int, plans: Sequence[Plan]) -> pd.DataFrame:
        """Return the price columns of a task's rows; with an attack, which takes long, they are stored meanwhile."""
        task, spec = self.tasks[i], self.spec
        problem = self.problem(task)
        method: Method = instantiate(task.config)
        at = delta(self.cfg, spec, problem.facts.n)
        formula = instantiate(spec.formula) if spec.get("formula") else None
        attack: Attack | None = instantiate(spec.attack) if spec.get("attack") else None

        def compute() -> pd.DataFrame:
            rows = []
            for epsilon, plan in zip(task.epsilons, plans, strict=True):
                rng = random.generator(
                    self.cfg.seed, f"{self.experiment}/{task.run.name}/{task.variant}/{epsilon}"
                )
                adjacency = spec.get("price_neighbours") or plan.guarantee.adjacency
                names = spec.get("prices") or []
                on_row = attack and partial(attack, method, plan, problem, at, rng)
                rows.append(priced(method, plan, problem.facts, at, adjacency, names, formula, on_row))
            return pd.DataFrame(rows)

        if attack is None:
            return compute()
        return read(cached_rows(self.folder, f"price-{self.keys[i]}", compute))

    def rows(
        self, task: Task, plans: Sequence[Plan], prices: pd.DataFrame, notes: Sequence[str]
    ) -> pd.DataFrame:
        """Return the rows of a task in runs.csv; `notes` says for each budget what the training did not reach."""
        problem = self.problem(task)
        more = list(task.run.assumptions)
        if share := task.data_subset["held_out"]:
            more.append(f"scored on {share:.3g} of the training rows, held out, not on the test rows")
        if isinstance(problem, Glm):
            more += [note for note in problem.notes if note]
        rows = []
        for e, (epsilon, plan) in enumerate(zip(task.epsilons, plans, strict=True)):
            names = {
                "experiment": self.experiment,
                "dataset": self.dataset,
                "problem": task.run.problem,
                "run": task.run.name,
                "method": task.run.method,
                "variant": task.variant,
                "scaling": task.scaling,
                "block": task.run.block,
                "epsilon": epsilon,
                "delta": delta(self.cfg, self.spec, problem.facts.n),
            }
            price = {str(name): value for name, value in prices.iloc[e].to_dict().items()}
            failed = [price.pop("violated", ""), notes[e]]
            assumptions = dict.fromkeys([*plan.guarantee.assumptions, *more])
            last = {
                "violated": "; ".join(filter(None, failed)),
                "assumptions": "; ".join(assumptions),
                "settings": task.settings,
            }
            rows.append({**names, **problem_columns(problem.facts), **price, **last})
        return pd.DataFrame(rows, columns=TABLES["runs"])

    def tables(
        self, i: int, seen: Seen, plans: Sequence[Plan], prices: pd.DataFrame, observers: Sequence[Observer]
    ) -> TaskTables:
        """Return the rows of one task, by name of the table."""
        task, metrics, notes = self.tasks[i], self.metrics(seen, observers), seen.notes
        scores = []
        for e, epsilon in enumerate(task.epsilons):
            where = [task.run.name, task.variant, task.scaling, epsilon]
            for metric, values in metrics.items():
                scores += [[*where, seed, metric, value] for seed, value in enumerate(values[:, e].tolist())]
        found = TaskTables(
            runs=self.rows(task, plans, prices, notes),
            scores=pd.DataFrame(scores, columns=TABLES["scores"]),
        )
        found.origin = {"scores": self.scores_key(i)} | ({"notes": json.dumps(notes)} if any(notes) else {})
        for each in observers:
            found.update(each.rows(seen))
        return found

    def seen(self, task: Task, problem: Problem, release: Release, observers: Sequence[Observer]) -> Seen:
        """Return a task's release with its predictions; a chain that diverged predicts all classes alike.

        Scored are the test rows that the release names, or the odd ones.
        """
        every = slice(None) if release.rows is None else release.rows
        seen = Seen.of(
            task, problem, release, slice(1, None, 2) if self.spec.get("scored") == "odd" else every
        )
        predicted = {} if release.predicted is None else {"single": release.predicted}
        for each in observers:
            seen = seen._replace(theta=each.scored(seen.theta))
            predicted = predicted or each.predictions(seen)
        predicted = predicted or {"single": predictive(problem, seen.theta)}
        finite = seen.finite[..., None, None]
        return seen._replace(
            predicted={name: p.where(finite, 1 / p.shape[-1]) for name, p in predicted.items()}
        )

    def metrics(self, seen: Seen, observers: Sequence[Observer]) -> dict[str, Tensor]:
        """Return metrics by name, ``(S, E)``; nan where a chain has diverged."""
        task, which = seen.task, seen.which
        metrics = seen.scores(seen.predicted.get("average", seen.predicted["single"]))
        for each in observers:
            metrics |= each.metrics(seen, metrics)
        metrics = {name: value.where(seen.finite, torch.nan) for name, value in metrics.items()}
        reports = seen.release.not_private
        metrics |= {name: reports[name] for name in REPORTED if name in reports}
        if task.epsilons == [math.inf] and isinstance(seen.problem, Glm):
            data = self.scaled(task, "")
            data = replace(data, x_test=data.x_test[:, which], y_test=data.y_test[:, which])
            for name, value in data.constant().items():
                metrics[name] = torch.as_tensor(value)[:, None].expand(task.run.seeds, 1)
        return metrics


def reported(error: Exception) -> Exception:
    """Return the error; first print its traceback unless its type is meant for users."""
    if not isinstance(error, (ValueError, OSError, DataError)):
        traceback.print_exception(error)
    return error


def first_line(error: Exception) -> str:
    """Return the first line of an error's message; the name of its type too, unless a ValueError has a message."""
    line = next(filter(str.strip, str(error).splitlines()), "")
    if line and isinstance(error, ValueError):
        return line
    return ": ".join(filter(None, [type(error).__name__, line]))


def _drawn(plan: Plan) -> str:
    """Return the scheme by which a chain draws its minibatches."""
    return plan.work.sampling.scheme if isinstance(plan.work, Chain) else "subset"


def digits(work: Any) -> Any:
    """Return what a plan does in a JSON-like form, its numbers with nine digits."""
    if isinstance(work, Plan):
        return digits(work.work)
    if isinstance(work, Tensor):
        return [list(work.shape), [f"{value:.9g}" for value in work.double().flatten().tolist()]]
    if isinstance(work, float):
        return f"{work:.9g}"
    if work is None or isinstance(work, str | int):
        return work
    if isinstance(work, Mapping):
        return {name: digits(value) for name, value in work.items()}
    if isinstance(work, tuple | list):
        return [type(work).__name__, *map(digits, work)]
    if is_dataclass(work):
        return [type(work).__name__, *(digits(getattr(work, each.name)) for each in fields(work))]
    raise TypeError(f"a plan holds {type(work).__name__}, which has no numbers")


def problem_columns(facts: Facts) -> dict[str, Any]:
    """Return the columns of a row that describe its problem."""
    return {"records": facts.n, "parameters": facts.d, "classes": facts.classes, "row_bound": facts.row_bound}


def of_plans(release: Release, start: int, end: int) -> Release:
    """Return the part, without `guarantees`, of a release that belongs to the plans from `start` to before `end`."""
    return Release(
        release.theta[:, start:end],
        None if release.predicted is None else release.predicted[:, start:end],
        release.rows,
        not_private={name: value[:, start:end] for name, value in release.not_private.items()},
        not_reached=release.not_reached[start:end],
    )


def read(stored: Rows) -> pd.DataFrame:
    """Return stored prices as a frame; a text may be empty."""
    frame = pd.read_csv(io.StringIO(stored.content))
    texts = [
        str(name)
        for name in frame
        if frame[name].dtype == object or name in ("violated", "attack_pair", "schedule")
    ]
    return frame.assign(**{name: frame[name].astype(object).where(frame[name].notna(), "") for name in texts})
