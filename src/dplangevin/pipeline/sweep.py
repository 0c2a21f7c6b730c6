"""The sweep: it computes the tidy rows of an experiment on a data set, over budgets and seeds, with prices.

If a task's parameters, data or code have changed, but the numbers of its plan and the code that carries it out have
not, only its prices are computed.
"""

import io
import json
import math
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
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
from dplangevin.files import File, key
from dplangevin.methods import ChainMethod, Execution, Plan, Workspace, placed, planned
from dplangevin.methods.pricing import equal_budget, priced
from dplangevin.pipeline.cache import Rows, Store
from dplangevin.pipeline.code import PACKAGE, PRICING, code_hash, targets
from dplangevin.pipeline.executor import TaskTables, computed
from dplangevin.pipeline.observers import Distance, Mixing, Observer, Seen
from dplangevin.pipeline.plan import TABLES, Task, delta, plain, tasks
from dplangevin.privacy import Budget
from dplangevin.problems import Problem
from dplangevin.problems.chain import Chain
from dplangevin.problems.glm import Glm

# words of an experiment that enter a task's key in another way, or that determine no row
NOT_IN_SPEC = {
    "block", "seeds", "runs", "methods", "settings", "vary", "epsilons", "datasets", "budgets_per_unit", "metrics",
    "scalings",
}  # fmt: skip
# words of an experiment that determine prices and texts of a row, and the plans, but no score of a plan
PRICED = {"assumptions", "prices", "price_neighbours", "formula", "attack", "calibrated"}
PAIRED = {"poisson", "subset"}  # schemes whose chains see the same rows and noise in paired experiments
TOGETHER = 1_000  # chains of one tensor program; more would be no faster
CLOSE = 2e-3  # relative tolerance of the proven ε for which budgets are found


class Inputs(NamedTuple):
    """The prepared files of an experiment."""

    data: File
    posterior: File | None = None
    weights: File | None = None


class Job(NamedTuple):
    """Tasks that run together, with their plans; or one whose training is stored, with the rows of its tables."""

    group: list[int]
    plans: list[list[Plan]]
    before: list[Rows] | None = None


def tables(spec: DictConfig) -> list[str]:
    """Return the names of the tables that an experiment writes."""
    return ["runs", "scores", *(name for kind in kinds(spec) for name in kind.tables)]


def kinds(spec: DictConfig) -> list[Any]:
    """Return the classes of an experiment's own observers."""
    return [get_class(each["_target_"]) for each in (spec.get("observers") or {}).values()]


def sweep(work: "SweepTasks", store: Store, lost: dict[str, str] | None = None) -> list[str]:
    """Finish all tasks; return their keys. `lost` gets why a run has no result; without it, ValueError says so."""
    missing = [i for i, name in enumerate(work.keys) if not store.find(name)]
    failed: dict[int, Exception] = {}
    for file in filter(None, work.inputs if missing else ()):
        file.get()  # makes it once, or fails once instead of in every task
    jobs = work.jobs(missing, store, failed)
    keys = [[work.keys[i] for i in job.group] for job in jobs]
    with tqdm(total=len(missing) - len(failed), desc="Fitting", disable=None if jobs else True) as bar:
        for done in computed(work.run, jobs, work.one_budget_per_task, work.code, store, keys):
            if done.error is not None:
                failed |= dict.fromkeys(jobs[done.number].group, done.error)
            bar.update(len(jobs[done.number].group))
    for error in dict.fromkeys(failed.values()):
        if not isinstance(error, (ValueError, OSError, DataError)):
            traceback.print_exception(error)
    errors = [(work.tasks[i].run.name, failed[i]) for i in sorted(failed)]
    if lost is not None:
        for name, error in errors:
            lost.setdefault(name, first_line(error))
    elif errors:
        raise ValueError("\n".join(dict.fromkeys(f"{name}: {error}" for name, error in errors)))
    return [name for i, name in enumerate(work.keys) if i not in failed]


class SweepTasks:
    """The tasks of a sweep, and how each is computed; `folder` holds unfinished work, such as checkpoints."""

    def __init__(self, cfg: DictConfig, experiment: str, dataset: str, inputs: Inputs, folder: Path) -> None:
        self.cfg, self.experiment, self.dataset = cfg, experiment, dataset
        self.inputs, self.folder, self.spec = inputs, folder, cfg.experiment[experiment]
        self.tasks = tasks(cfg, experiment, dataset)
        self.keys = [self.key(task) for task in self.tasks]
        configs = (config for task in self.tasks for config in (task.config, self.problem_config(task)))
        self.code = [__name__, *targets(*configs, plain(self.spec))]
        parts = (task.problem_changes or any(task.data_subset.values()) for task in self.tasks)
        if inputs.posterior and any(parts):
            posterior = "the exact posterior on all rows: set compared: false for a part of them"
            raise ValueError(f"{experiment} is compared with {posterior}")
        # networks: each budget is a task of its own; linear models: their chains are one program
        self.one_budget_per_task = bool(self.spec.get("one_budget_per_task") or "curve" in tables(self.spec))
        self.problems: dict[Any, Problem] = {}
        self.plans: dict[int, list[Plan]] = {}

    def __getstate__(self) -> dict[str, Any]:
        # another process makes its problems, and gets plans with its jobs
        return {**self.__dict__, "problems": {}, "plans": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in self.code:
            get_object(name)  # imports all code now, because the keys of the tasks do not cover later edits

    # Tasks: their problems, plans and keys

    def problem_config(self, task: Task) -> dict[str, Any]:
        """Return the config of a task's problem, with that of its backbone."""
        name = task.problem.get("backbone")
        return task.problem | ({"backbone": plain(self.cfg.backbone[name])} if name else {})

    def problem_key(self, task: Task) -> tuple[Any, ...]:
        changes = str(task.problem_changes), str(task.data_changes)
        return task.run.problem, *changes, task.scaling, task.run.seeds

    def problem(self, task: Task) -> Problem:
        """Return the problem of a task, which is made once; those on other rows are then forgotten."""
        name = self.problem_key(task)
        if name not in self.problems:
            self.problems = {other: kept for other, kept in self.problems.items() if other[1:] == name[1:]}
            config, more = self.problem_config(task), dict[str, Any]()
            if "backbone" in config:
                rows = key([self.inputs.data.sha256, task.data_subset, self.cfg.seed])
                files = {"data": self.inputs.data._replace(sha256=rows), "weights": self.inputs.weights}
                more = {"inputs": files, "folder": self.folder.parent, "code": code_hash(*targets(config))}
                more["backbone"] = config.pop("backbone")
            make = instantiate(config, _convert_="all")
            self.problems[name] = make(self.scaled(task, task.scaling), task.run.seeds, **more)
        return self.problems[name]

    def scaled(self, task: Task, scaling: str) -> Dataset:
        """Return the rows of a task; scaling "" is for none."""
        rng = data_generator(self.cfg.seed, f"{self.dataset}/part")
        rows = Dataset.load(self.inputs.data.get()).first(task.run.seeds)
        rows = subset(rows, **task.data_subset, rng=rng)
        return rows.scaled(scaling) if scaling else rows

    def delta(self, task: Task) -> float:
        return delta(self.cfg, self.spec, self.problem(task).facts.n)

    def planned(self, i: int) -> list[Plan]:
        """Return the plan of a task for each budget, made once."""
        if i not in self.plans:
            task, facts = self.tasks[i], self.problem(self.tasks[i]).facts
            method = instantiate(task.config)
            budgets = [Budget(epsilon, self.delta(task)) for epsilon in task.epsilons]
            if self.spec.get("calibrated") == "proven":
                kind = self.spec["price_neighbours"]
                budgets = [equal_budget(method, facts, asked, kind, rtol=CLOSE) for asked in budgets]
            self.plans[i] = planned(method, facts, budgets, task.run.name)
        return self.plans[i]

    def key(self, task: Task, plans: Sequence[Plan] | None = None) -> str:
        """Return a hash of everything that determines a task's rows; with its plans, that determines its scores."""
        left_out, run, training = NOT_IN_SPEC, task.run._replace(config={}, epsilons=[]), plans is not None
        if training:
            left_out, run = NOT_IN_SPEC | PRICED, run._replace(assumptions=[], block="")
        spec = {name: value for name, value in plain(self.spec).items() if name not in left_out}
        config, names = self.problem_config(task), [self.experiment, self.dataset]
        data = [file and file.sha256 for file in self.inputs], task.data_subset
        code = code_hash(__name__, *targets(task.config, config, spec), without=PRICING if training else ())
        settings = task.config, run, task.scaling, task.variant, task.epsilons
        numbers = [[digits(plan), digits(dict(plan.settings))] for plan in plans or ()]
        most = delta(self.cfg, self.spec, 1)
        return key([names, spec, self.cfg.seed, most, data, code, config, settings, numbers])

    def trained_key(self, i: int) -> str:
        """Return the key of a task's training; "" where its prices need it, or it is from outside the package."""
        target = self.tasks[i].config["_target_"]
        if not target.startswith(f"{PACKAGE}.") or getattr(get_class(target), "priced_by_release", False):
            return ""
        return self.key(self.tasks[i], self.planned(i))

    # Groups

    def jobs(self, missing: Sequence[int], store: Store, failed: dict[int, Exception]) -> list[Job]:
        """Return the jobs of these tasks; one whose budget is out of reach fails here, before any training."""
        before: dict[int, list[Rows] | None] = {}
        for i in missing:
            try:
                before[i] = store.trained(self.trained_key(i) if self.planned(i) else "")
            except Exception as error:
                failed[i] = error
        jobs = [self.job([i], rows) for i, rows in before.items() if rows]
        return jobs + [self.job(group) for group in self.groups([i for i in before if not before[i]])]

    def job(self, group: list[int], before: list[Rows] | None = None) -> Job:
        return Job(group, [self.planned(i) for i in group], before)

    def groups(self, indices: Iterable[int]) -> list[list[int]]:
        """Return groups of tasks that run together: up to `TOGETHER` chains on the same rows and noise."""
        by_draws: dict[Any, list[list[int]]] = {}
        for i in indices:
            own = by_draws.setdefault(self.draws(i), [])
            some = [self.tasks[j] for j in [*(own or [[]])[-1], i]]
            if not own or sum(len(task.epsilons) * task.run.seeds for task in some) > TOGETHER:
                own.append([])
            own[-1].append(i)
        return [group for groups in by_draws.values() for group in groups]

    def draws(self, i: int) -> Any:
        """Return what determines the rows, the noise and the shape of a task's chains; its number for other tasks."""
        task = self.tasks[i]
        kind: Any = get_class(task.config["_target_"])
        fused = issubclass(kind, ChainMethod) and kind.kernel is ChainMethod.kernel
        alone = self.one_budget_per_task or not fused
        if alone or not all(isinstance(plan.work, Chain) for plan in self.planned(i)):
            return i
        chain = self.planned(i)[0].work
        size = chain.sampling.size(self.problem(task).facts.n)
        name = *self.problem_key(task), task.run.stream, len(chain.step), size, chain.keep, chain.momentum
        if self.spec.get("paired") and chain.sampling.scheme in PAIRED:
            return name
        return *name, chain.sampling.scheme, chain.start_std > 0

    # Computation

    def run(self, job: Job) -> list[TaskTables]:
        self.plans |= zip(job.group, job.plans, strict=True)
        return self.compute(job) if job.before is None else [self.repriced(job.group[0], job.before)]

    def repriced(self, i: int, before: Sequence[Rows]) -> TaskTables:
        """Return the tables of a task with today's prices and the scores of its stored training."""
        task, plans, stored = self.tasks[i], self.planned(i), before[0]
        notes = json.loads(stored.notes) if stored.notes else [""] * len(plans)
        found = TaskTables(runs=self.rows(i, self.prices(i), notes))
        for name, rows in zip(tables(self.spec)[1:], before[1:], strict=True):
            found[name] = pd.read_csv(io.StringIO(rows.content), dtype=str, keep_default_na=False)
        for kind in kinds(self.spec):
            found.update(kind.repriced(found, plans[0], self.problem(task).facts, self.delta(task)))
        found.origin = stored.origin
        return found

    def compute(self, job: Job) -> list[TaskTables]:
        """Return the tables of tasks that run together."""
        first, plans = self.tasks[job.group[0]], [plan for own in job.plans for plan in own]
        method, prices = instantiate(first.config), [self.prices(i) for i in job.group]
        problem = placed(self.problem(first), plans, first.run.seeds)
        observers = self.observers(first, problem, plans[0])
        for observer in observers:
            plans = [observer.kept(plan) for plan in plans]
        # budgets of a method without chains are independent, and its variants share the noise
        shared = self.one_budget_per_task or isinstance(method, ChainMethod)
        stream = first.run.stream if shared else f"{first.run.stream}/{first.epsilons[0]}"
        scheme = plans[0].work.sampling.scheme if isinstance(plans[0].work, Chain) else "subset"
        place = Workspace(self.folder, self.keys[job.group[0]], code_hash(*targets(first.config)))
        watching: Any = next(filter(callable, observers), None)
        how = Execution(
            first.run.seeds,
            random.generator(self.cfg.seed, stream),
            observe=watching,
            workspace=place if self.one_budget_per_task else None,
            schemes=PAIRED if self.spec.get("paired") and scheme in PAIRED else None,
            drawn_in=getattr(torch, self.spec.get("noise") or "float64"),
        )
        release, found, start = method.release(problem, plans, how), list[TaskTables](), 0
        for i, own, price in zip(job.group, job.plans, prices, strict=True):
            part, start = slice(start, start + len(own)), start + len(own)
            seen = Seen(self.tasks[i], problem, release, part, observers)
            found.append(TaskTables(runs=self.rows(i, price, seen.notes), scores=self.scores(seen)))
            for observer in observers:
                found[-1].update(observer.rows(seen))
            notes = json.dumps(seen.notes) if any(seen.notes) else ""
            found[-1].origin = {"scores": self.trained_key(i), "notes": notes}
        return found

    def observers(self, task: Task, problem: Problem, plan: Plan) -> list[Observer]:
        """Return what adds to the scores of a release; tasks that run together have the same."""
        exact, given = self.inputs.posterior, (problem, plan, task.run.seeds, self.delta(task), self.cfg.seed)
        found: list[Observer] = [] if exact is None else [Distance(exact.get(), task.scaling)]
        found += [instantiate(each)(*given) for each in (self.spec.get("observers") or {}).values()]
        return [*found, Mixing()] if isinstance(problem, Glm) else found

    # Tables

    def prices(self, i: int) -> list[dict[str, Any]]:
        """Return the price columns of a task's rows."""
        task, spec, found = self.tasks[i], self.spec, []
        problem, at, method = self.problem(task), self.delta(task), instantiate(task.config)
        formula, attack = instantiate(spec.get("formula")), instantiate(spec.get("attack"))
        for epsilon, plan in zip(task.epsilons, self.planned(i), strict=True):
            name = f"{self.experiment}/{task.run.name}/{task.variant}/{epsilon}"
            rng = random.generator(self.cfg.seed, name)
            on_row = attack and partial(attack, method, plan, problem, at, rng)
            kind, names = spec.get("price_neighbours") or plan.guarantee.adjacency, spec.get("prices") or []
            found.append(priced(method, plan, problem.facts, at, kind, names, formula, on_row))
        return found

    def rows(self, i: int, prices: Sequence[dict[str, Any]], notes: Sequence[str]) -> pd.DataFrame:
        """Return the rows of a task in runs.csv; `notes` says for each budget what the training did not reach."""
        task, problem, rows = self.tasks[i], self.problem(self.tasks[i]), []
        run, facts, more = task.run, problem.facts, list(task.run.assumptions)
        names = {**run._asdict(), "experiment": self.experiment, "dataset": self.dataset, "run": run.name}
        names |= {each: getattr(task, each) for each in ("variant", "scaling", "settings")}
        names |= {"records": facts.n, "parameters": facts.d, "classes": facts.classes}
        names |= {"row_bound": facts.row_bound, "delta": self.delta(task)}
        if share := task.data_subset["held_out"]:
            more.append(f"scored on {share:.3g} of the training rows, held out, not on the test rows")
        if isinstance(problem, Glm):
            more += filter(None, problem.notes)
        for epsilon, plan, price, note in zip(task.epsilons, self.planned(i), prices, notes, strict=True):
            own = {"violated": "; ".join(filter(None, [price["violated"], note]))}
            own["assumptions"] = "; ".join(dict.fromkeys([*plan.guarantee.assumptions, *more]))
            rows.append({**names, "epsilon": epsilon, **price, **own})
        return pd.DataFrame(rows, columns=TABLES["runs"])

    def scores(self, seen: Seen) -> pd.DataFrame:
        """Return the rows of a task in scores.csv."""
        task, scores, metrics = seen.task, [], seen.metrics
        if task.epsilons == [math.inf] and isinstance(seen.problem, Glm):
            data = self.scaled(task, "")
            data = replace(data, x_test=data.x_test[:, seen.which], y_test=data.y_test[:, seen.which])
            for name, value in data.constant().items():
                metrics[name] = torch.as_tensor(value)[:, None].expand(task.run.seeds, 1)
        for e, epsilon in enumerate(task.epsilons):
            where = [task.run.name, task.variant, task.scaling, epsilon]
            for metric, values in metrics.items():
                scores += [[*where, seed, metric, value] for seed, value in enumerate(values[:, e].tolist())]
        return pd.DataFrame(scores, columns=TABLES["scores"])


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, with the name of its type unless it is a ValueError."""
    text = str(error).strip() if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return text.partition("\n")[0]


def digits(work: Any) -> Any:
    """Return what a plan does in a JSON-like form, its numbers with nine digits."""
    if isinstance(work, Plan):
        return digits(work.work)
    if isinstance(work, Tensor):
        return [list(work.shape), digits(work.double().flatten().tolist())]
    if isinstance(work, float):
        return f"{work:.9g}"
    if work is None or isinstance(work, str | int):
        return work
    if isinstance(work, Mapping):
        return {name: digits(value) for name, value in work.items()}
    parts = [getattr(work, each.name) for each in fields(work)] if is_dataclass(work) else work
    if isinstance(parts, tuple | list):
        return [type(work).__name__, *map(digits, parts)]
    raise TypeError(f"a plan holds {type(work).__name__}, which has no numbers")
