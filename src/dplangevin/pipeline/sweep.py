"""The sweep: it computes the tidy rows of an experiment on a data set, over budgets and seeds, with prices.

`pipeline.cache.Store` caches tasks (`plan.Task`: a run, a scaling, a variant, a block of budgets), so only those whose
parameters, data or code have changed are planned again.  If the plan of such a task has the same numbers, and no code
from the plan to the scores has changed, only its prices are computed.
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
from dplangevin.files import File, key, made_file, write
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
from dplangevin.methods.pricing import Attack, equal_budget, priced
from dplangevin.pipeline.cache import Rows, Store
from dplangevin.pipeline.code import PACKAGE, PRICING, code_hash, targets
from dplangevin.pipeline.executor import TaskTables, computed
from dplangevin.pipeline.observers import BestEpoch, Distance, LearningCurve, Mixing, Observer, Seen, scored
from dplangevin.pipeline.plan import TABLES, Task, delta, plain, tasks
from dplangevin.privacy import Budget
from dplangevin.problems import Problem
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
TOGETHER = 1_000  # chains of one tensor program; more would be no faster
CLOSE = 2e-3  # relative tolerance of the proven ε for which budgets are found


class Inputs(NamedTuple):
    """The prepared files of an experiment."""

    data: File
    posterior: File | None = None
    weights: File | None = None


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
        form, seconds = (layout, 0) if terminal else (f"{layout}\n", 30)
        return {"desc": "Fitting", "bar_format": form, "delay": seconds, "mininterval": max(seconds, 0.1)}

    def took(self, tasks: Sequence[Task], seconds: float) -> None:
        total = sum(map(self.cost, tasks))
        for task in tasks:
            share = seconds * self.cost(task) / total
            self.seconds[task.run.name] = self.seconds.get(task.run.name, 0.0) + share


class Job(NamedTuple):
    """Tasks that run together, with their plans; or one whose training is stored, with the rows of its tables `before`.

    - `trained`: the key of the training of each task.
    """

    group: list[int]
    plans: list[list[Plan]]
    trained: list[str]
    before: list[Rows] | None = None


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
    progress: Progress | None = None,
) -> list[str]:
    """Finish all tasks of an experiment on a data set; return their keys in order, with `progress` of the finished."""
    work = SweepTasks(cfg, experiment, dataset, inputs, store.folder)
    missing = [i for i, name in enumerate(work.keys) if not store.find(name)]
    failed: dict[int, Exception] = {}
    for file in filter(None, inputs if missing else ()):
        file.get()  # makes it once, or fails once instead of in every task
    jobs = work.jobs(missing, store, failed)
    code = [__name__, *targets(*(work.tasks[i].config for i in missing), plain(work.spec))]
    keys = [[work.keys[i] for i in job.group] for job in jobs]
    cost = (lambda task: 1.0) if progress is None else progress.cost
    costs = [sum(cost(work.tasks[i]) for i in job.group) for job in jobs]
    bar = {"unit": "task", "disable": None} if progress is None else progress.bar
    with tqdm(total=sum(costs), **(bar if jobs else {"disable": True})) as shown:
        for done in computed(work.run, jobs, work.one_budget_per_task, code, store, keys):
            group = jobs[done.number].group
            if done.error is not None:
                failed |= dict.fromkeys(group, reported(done.error))
            if progress is not None:
                progress.took([work.tasks[i] for i in group], done.seconds)
            shown.update(costs[done.number])
    errors = [(work.tasks[i].run.name, error) for i, error in sorted(failed.items())]
    if progress is not None:
        progress.lost |= {name: first_line(error) for name, error in reversed(errors)}
    elif errors:
        kinds = {type(error) for _, error in errors}
        kind: type[Exception] = kinds.pop() if len(kinds) == 1 else ValueError
        reasons = dict.fromkeys(f"{name}: {error}" for name, error in errors)
        raise (kind if issubclass(kind, ValueError | OSError) else ValueError)("\n".join(reasons))
    return [name for i, name in enumerate(work.keys) if i not in failed]


def drawn_in(spec: Mapping[str, Any] | DictConfig) -> torch.dtype:
    """Return the precision in which an experiment draws the noise of its chains."""
    name: str | None = spec.get("noise")
    return random.NORMALS if name is None else getattr(torch, name)


class SweepTasks:
    """The tasks of a sweep, and how each is computed; `folder` holds unfinished work, such as checkpoints."""

    def __init__(self, cfg: DictConfig, experiment: str, dataset: str, inputs: Inputs, folder: Path) -> None:
        self.cfg, self.experiment, self.dataset = cfg, experiment, dataset
        self.inputs, self.folder = inputs, folder
        self.spec = cfg.experiment[experiment]
        self.tasks = tasks(cfg, experiment, dataset)
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
        self.plans: dict[int, list[Plan]] = {}
        self.trained: dict[int, str] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the problems, which another process makes itself, and the plans, which jobs have."""
        return {**self.__dict__, "problems": {}, "plans": {}, "trained": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state and import all code of the tasks, because their keys do not cover later edits."""
        self.__dict__.update(state)
        for name in targets(*(task.config for task in self.tasks), plain(self.spec)):
            get_object(name)

    # Plans and keys

    def planned(self, i: int) -> list[Plan]:
        """Return the plan of a task for each budget, made once."""
        if i not in self.plans:
            task = self.tasks[i]
            method: Method = instantiate(task.config)
            facts = self.problem(task).facts
            budgets = [Budget(epsilon, self.delta(task)) for epsilon in task.epsilons]
            if self.spec.get("calibrated") == "proven":
                if (kind := self.spec.get("price_neighbours")) is None:
                    raise ValueError(f"{self.experiment}: calibrated: proven needs price_neighbours")
                budgets = [equal_budget(method, facts, asked, kind, rtol=CLOSE) for asked in budgets]
            self.plans[i] = planned(method, facts, budgets, task.run.name)
        return self.plans[i]

    def delta(self, task: Task) -> float:
        return delta(self.cfg, self.spec, self.problem(task).facts.n)

    def key(self, task: Task, plans: Sequence[Plan] | None = None) -> str:
        """Return a hash of everything that determines a task's rows; with its plans, that determines its scores."""
        spec, run, training = plain(self.spec), task.run._replace(config={}, epsilons=[]), plans is not None
        if training:
            run = run._replace(assumptions=[], block="")
        numbers = [[digits(plan.work), digits(dict(plan.settings))] for plan in plans or ()]
        left_out = {*NOT_IN_SPEC, *(PRICED if training else ())}
        rest = {name: value for name, value in spec.items() if name not in left_out}
        given = spec.get("delta") or self.cfg.delta
        base = {
            "names": [self.experiment, self.dataset],
            "spec": rest,
            "seed": self.cfg.seed,
            "noise": [str(drawn_in(spec))],
            "delta": [given, self.cfg.delta] if given == "1/n^2" else given,
        }
        problem = dict(task.problem)
        if "backbone" in problem:
            problem["backbone"] = plain(self.cfg.backbone[problem["backbone"]])
        code = code_hash(__name__, *targets(task.config, problem, rest), without=PRICING if training else ())
        data = [file and file.sha256 for file in self.inputs], task.data_subset
        settings = task.config, run, task.scaling, task.variant, task.epsilons
        return key([base, data, code, problem, settings, numbers])

    def trained_key(self, i: int) -> str:
        """Return the key of a task's training; "" where its prices need the training.

        So a vote, whose scores include a price of its answers, is computed again, as is a method from outside the
        package, whose training may use anything.
        """
        if i not in self.trained:
            target = self.tasks[i].config["_target_"]
            own = target.startswith(f"{PACKAGE}.")
            keyed = own and not getattr(get_class(target), "priced_by_release", False)
            self.trained[i] = self.key(self.tasks[i], self.planned(i)) if keyed else ""
        return self.trained[i]

    # Jobs

    def jobs(self, missing: Sequence[int], store: Store, failed: dict[int, Exception]) -> list[Job]:
        """Return the jobs of these tasks.

        A task that cannot be planned, such as one whose budget is out of reach, fails here, before any training.
        """
        before: dict[int, list[Rows] | None] = {}
        for i in missing:
            try:
                before[i] = store.trained(self.trained_key(i) if self.planned(i) else "")
            except Exception as error:
                failed[i] = reported(error)
        jobs = [self.job([i], rows) for i, rows in before.items() if rows]
        return jobs + [self.job(group) for group in self.groups([i for i in before if not before[i]])]

    def job(self, group: list[int], before: list[Rows] | None = None) -> Job:
        return Job(group, [self.planned(i) for i in group], [self.trained_key(i) for i in group], before)

    def groups(self, indices: Iterable[int]) -> list[list[int]]:
        """Return groups of tasks that run together: up to `TOGETHER` chains on the same rows and noise."""
        by_draws: dict[Any, list[list[int]]] = {}
        rooms: dict[Any, int] = {}
        for i in indices:
            task = self.tasks[i]
            name, chains = self.draws(i), len(task.epsilons) * task.run.seeds
            if chains > rooms.get(name, 0):
                by_draws.setdefault(name, []).append([])
                rooms[name] = TOGETHER
            by_draws[name][-1].append(i)
            rooms[name] -= chains
        return [group for groups in by_draws.values() for group in groups]

    def draws(self, i: int) -> Any:
        """Return what determines the rows, the noise and the shape of a task's chains; its number for other tasks."""
        task = self.tasks[i]
        kind: Any = get_class(task.config["_target_"])
        if self.one_budget_per_task or not (
            issubclass(kind, ChainMethod) and kind.kernel is ChainMethod.kernel
        ):
            return i
        plans = self.planned(i)
        if not all(isinstance(plan.work, Chain) for plan in plans):
            return i
        chain = plans[0].work
        size = chain.sampling.size(self.problem(task).facts.n)
        name = *self.problem_key(task), task.run.stream, len(chain.step), size, chain.keep, chain.momentum
        if self.spec.get("paired") and chain.sampling.scheme in PAIRED:
            return name
        return *name, chain.sampling.scheme, chain.start_std > 0

    # Problems

    def problem_key(self, task: Task) -> tuple[Any, ...]:
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
                data, chosen = (
                    self.inputs.data,
                    task.data_subset,
                )  # its sha256 also covers the rows of the task
                if any(chosen.values()):
                    data = data._replace(sha256=key([data.sha256, chosen, self.cfg.seed]))
                files = {"data": data, "weights": self.inputs.weights}
                network = plain(self.cfg.backbone[config.pop("backbone")])
                code = code_hash(*targets(config, network))
                more = {"backbone": network, "inputs": files, "folder": self.folder.parent, "code": code}
            make = instantiate(config, _convert_="all")
            self.problems[name] = make(self.scaled(task, task.scaling), task.run.seeds, **more)
        return self.problems[name]

    def scaled(self, task: Task, scaling: str) -> Dataset:
        """Return the rows of a task; scaling "" is for none."""
        rng = data_generator(self.cfg.seed, f"{self.dataset}/part")
        rows = Dataset.load(self.inputs.data.get()).first(task.run.seeds)
        rows = subset(rows, **task.data_subset, rng=rng)
        return rows.scaled(scaling) if scaling else rows

    # Computation

    def run(self, job: Job) -> list[TaskTables]:
        return self.compute(job) if job.before is None else [self.repriced(job, job.before)]

    def repriced(self, job: Job, before: Sequence[Rows]) -> TaskTables:
        """Return the tables of a task with today's prices and the scores of its stored training."""
        (i,), (plans,), stored = job.group, job.plans, before[0]
        task = self.tasks[i]
        notes = json.loads(stored.notes) if stored.notes else [""] * len(plans)
        found = TaskTables(runs=self.rows(task, plans, self.prices(i, plans), notes))
        for name, rows in zip(tables(self.spec)[1:], before[1:], strict=True):
            found[name] = pd.read_csv(io.StringIO(rows.content), dtype=str, keep_default_na=False)
        if "curve" in found:
            facts, spent = self.problem(task).facts, self.delta(task)
            found["curve"] = LearningCurve.repriced(found["curve"], plans[0], facts, spent)
        found.origin = stored.origin
        return found

    def compute(self, job: Job) -> list[TaskTables]:
        """Return the tables of tasks that run together."""
        first, each = self.tasks[job.group[0]], job.plans
        method: Method = instantiate(first.config)
        prices = [self.prices(i, plans) for i, plans in zip(job.group, each, strict=True)]
        plans = [plan for own in each for plan in own]
        problem = placed(self.problem(first), plans, first.run.seeds)
        observers = self.observers(first, problem, plans[0])
        for observer in observers:
            plans = [observer.kept(plan) for plan in plans]
        # budgets of a method without chains are independent, and its variants share the noise
        shared = self.one_budget_per_task or isinstance(method, ChainMethod)
        stream = first.run.stream if shared else f"{first.run.stream}/{first.epsilons[0]}"
        scheme = plans[0].work.sampling.scheme if isinstance(plans[0].work, Chain) else "subset"
        place = Workspace(self.folder, self.keys[job.group[0]], code_hash(*targets(first.config)))
        how = Execution(
            first.run.seeds,
            random.generator(self.cfg.seed, stream),
            observe=next((each for each in observers if isinstance(each, LearningCurve)), None),
            workspace=place if self.one_budget_per_task else None,
            schemes=PAIRED if self.spec.get("paired") and scheme in PAIRED else None,
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
        for i, own, price, trained in zip(job.group, each, prices, job.trained, strict=True):
            part = of_plans(release, start, start + len(own))
            start += len(own)
            seen, metrics = scored(self.tasks[i], problem, part, observers)
            found.append(self.tables(seen, metrics, own, price))
            for observer in observers:
                found[-1].update(observer.rows(seen))
            noted = {"notes": json.dumps(seen.notes)} if any(seen.notes) else {}
            found[-1].origin = {"scores": trained, **noted}
        return found

    def observers(self, task: Task, problem: Problem, plan: Plan) -> list[Observer]:
        """Return what the experiment adds to the scores of a release; tasks that run together have the same."""
        spec, found = self.spec, list[Observer]()
        if self.inputs.posterior is not None:
            found.append(Distance(self.inputs.posterior.get(), task.scaling))
        if spec.get("best_epoch"):
            found.append(BestEpoch(problem.facts.n))
        if spec.get("curve"):
            found.append(instantiate(spec.curve)(problem, plan, task.run.seeds, self.delta(task)))
        elif isinstance(problem, Glm):
            found.append(Mixing())
        if spec.get("digit_classifier"):
            found.append(instantiate(spec.digit_classifier)(problem, self.cfg.seed))
        return found

    # Rows

    def prices(self, i: int, plans: Sequence[Plan]) -> list[dict[str, Any]]:
        """Return the price columns of a task's rows; with an attack, which takes long, they are stored meanwhile."""
        task, spec = self.tasks[i], self.spec
        problem, at = self.problem(task), self.delta(task)
        method: Method = instantiate(task.config)
        formula = instantiate(spec.formula) if spec.get("formula") else None
        attack: Attack | None = instantiate(spec.attack) if spec.get("attack") else None

        def price(epsilon: float, plan: Plan) -> dict[str, Any]:
            name = f"{self.experiment}/{task.run.name}/{task.variant}/{epsilon}"
            rng = random.generator(self.cfg.seed, name)
            on_row = attack and partial(attack, method, plan, problem, at, rng)
            adjacency = spec.get("price_neighbours") or plan.guarantee.adjacency
            names = spec.get("prices") or []
            return priced(method, plan, problem.facts, at, adjacency, names, formula, on_row)

        def compute(path: Path) -> None:
            write(path.parent, {path.name: json.dumps([*map(price, task.epsilons, plans)]).encode()})

        if attack is None:
            return [*map(price, task.epsilons, plans)]
        stored = made_file(self.folder / f"price-{self.keys[i]}.prices", compute)
        found: list[dict[str, Any]] = json.loads(stored.read_bytes())
        return found

    def rows(
        self, task: Task, plans: Sequence[Plan], prices: Sequence[dict[str, Any]], notes: Sequence[str]
    ) -> pd.DataFrame:
        """Return the rows of a task in runs.csv; `notes` says for each budget what the training did not reach."""
        problem, run, rows = self.problem(task), task.run, []
        facts, more = problem.facts, list(run.assumptions)
        names = {**run._asdict(), "experiment": self.experiment, "dataset": self.dataset, "run": run.name}
        names |= {"variant": task.variant, "scaling": task.scaling, "settings": task.settings}
        names |= {"records": facts.n, "parameters": facts.d, "classes": facts.classes}
        names |= {"row_bound": facts.row_bound}
        if share := task.data_subset["held_out"]:
            more.append(f"scored on {share:.3g} of the training rows, held out, not on the test rows")
        if isinstance(problem, Glm):
            more += [note for note in problem.notes if note]
        for epsilon, plan, price, note in zip(task.epsilons, plans, prices, notes, strict=True):
            own: dict[str, Any] = {"epsilon": epsilon, "delta": self.delta(task), **price}
            own["violated"] = "; ".join(filter(None, [price["violated"], note]))
            own["assumptions"] = "; ".join(dict.fromkeys([*plan.guarantee.assumptions, *more]))
            rows.append({**names, **own})
        return pd.DataFrame(rows, columns=TABLES["runs"])

    def tables(
        self, seen: Seen, metrics: Mapping[str, Tensor], plans: Sequence[Plan], prices: Sequence[Any]
    ) -> TaskTables:
        """Return the rows of one task in runs.csv and scores.csv, by name of the table."""
        task, scores, metrics = seen.task, [], {**metrics}
        if task.epsilons == [math.inf] and isinstance(seen.problem, Glm):
            data = self.scaled(task, "")
            data = replace(data, x_test=data.x_test[:, seen.which], y_test=data.y_test[:, seen.which])
            for name, value in data.constant().items():
                metrics[name] = torch.as_tensor(value)[:, None].expand(task.run.seeds, 1)
        for e, epsilon in enumerate(task.epsilons):
            where = [task.run.name, task.variant, task.scaling, epsilon]
            for metric, values in metrics.items():
                scores += [[*where, seed, metric, value] for seed, value in enumerate(values[:, e].tolist())]
        return TaskTables(
            runs=self.rows(task, plans, prices, seen.notes),
            scores=pd.DataFrame(scores, columns=TABLES["scores"]),
        )


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
    if is_dataclass(work):
        work = [getattr(work, each.name) for each in fields(work)]
    if isinstance(work, tuple | list):
        return [type(work).__name__, *map(digits, work)]
    raise TypeError(f"a plan holds {type(work).__name__}, which has no numbers")


def of_plans(release: Release, start: int, end: int) -> Release:
    """Return the part of a release that belongs to the plans from `start` to before `end`."""
    return Release(
        release.theta[:, start:end],
        None if release.predicted is None else release.predicted[:, start:end],
        release.rows,
        not_private={name: value[:, start:end] for name, value in release.not_private.items()},
        not_reached=release.not_reached[start:end],
    )
