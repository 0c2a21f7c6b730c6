"""The sweep: it computes the tidy rows of an experiment on a data set, over budgets and seeds, with prices.

The work is cut into tasks (`Unit`: a run, a scaling, a variant, a block of budgets), which `pipeline.cache.Store`
caches.  An interrupted sweep continues where it stopped.  Only tasks whose parameters, data or code have
changed are computed again.  Chains that share rows and noise run together, as one tensor program.
"""

import io
import math
import sys
import traceback
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig
from torch import Tensor
from tqdm import tqdm

from dplangevin import random
from dplangevin.data import DataError, Dataset
from dplangevin.data import generator as data_generator
from dplangevin.data.splits import subset
from dplangevin.files import File, key
from dplangevin.methods import ChainMethod, Execution, Method, Plan, Release, Workspace, planned, settled
from dplangevin.methods.evaluate import all_scores, mixed, predictive, reliability
from dplangevin.methods.prices import Attack, priced
from dplangevin.pipeline import reference
from dplangevin.pipeline.cache import Rows, Store, code_hash, kept, targets
from dplangevin.pipeline.executor import Need, computed
from dplangevin.pipeline.plan import PART, TABLES, Unit, learned_from, merged, nested, plain, runs, units
from dplangevin.privacy import Budget
from dplangevin.problems import Facts, Problem
from dplangevin.problems.chain import Chain
from dplangevin.problems.glm import Glm

# words of an experiment that enter a task's key in another way, or that determine no row
OF_UNITS = (
    "block", "seeds", "runs", "methods", "settings", "vary", "epsilons", "datasets", "budgets_per_unit", "metrics",
    "scalings", "noise",
)  # fmt: skip
PAIRED = {"poisson", "subset"}  # schemes whose chains see the same rows and noise in paired experiments
# diagnostics of a release that are metrics, too, if the method reports them; they are not private
REPORTED = (
    "r_hat", "ess", "answered", "label_accuracy", "teacher_accuracy", "epsilon_data_dependent", "epsilon_released",
)  # fmt: skip


TOGETHER = 1_000  # chains of one tensor program; more would be no faster
BAR = {"unit": "unit", "disable": None}  # settings of tqdm
MEMORY, COPIES = 1e9, 4  # bytes that a process takes, and copies of the rows in it


class Inputs(NamedTuple):
    """The prepared files of an experiment.

    Attributes
    ----------
    data : File, the data set or features.
    posterior : File of `reference.save`, which releases are compared with.
    weights : File, weights of a backbone.
    prepared : function that returns the data for other settings of conf/dataset or conf/features; for sweeps
        that vary these.
    """

    data: File
    posterior: File | None = None
    weights: File | None = None
    prepared: Callable[[Mapping[str, Any]], File] | None = None

    @property
    def files(self) -> tuple[File | None, ...]:
        return self[:3]

    def of(self, unit: Unit) -> "Inputs":
        """Return the inputs of a task."""
        settings = {name: value for name, value in unit.data.items() if name not in PART}
        if not settings:
            return self
        if self.prepared is None:
            raise ValueError(
                f"{', '.join(settings)}: these data are prepared already, vary {' or '.join(PART)} of them"
            )
        return self._replace(data=self.prepared(nested(settings)))


@dataclass
class Watch:
    """A record of a sweep, for reports and the progress bar.

    Attributes
    ----------
    cost : function that returns the cost of a task, in any measure of time, for the progress bar.
    lost : dict, run -> reason why it has no result.
    seconds : dict, run -> seconds that its tasks took, each on one worker.  Tasks that run together share the
        time in proportion to their cost.
    """

    cost: Callable[[Unit], float]
    lost: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def bar(self) -> dict[str, Any]:
        """Settings of tqdm: on a terminal, show the bar at once; elsewhere print a line every half minute."""
        terminal = sys.stderr.isatty()
        layout = "{desc}: {percentage:3.0f}% |{bar:20}| {elapsed} gone, {remaining} left"
        return {
            "desc": "Fitting",
            "bar_format": layout if terminal else f"{layout}\n",
            "delay": 0 if terminal else 30,
            "mininterval": 0.1 if terminal else 30,
        }

    def took(self, units: Sequence[Unit], seconds: float) -> None:
        """Add the seconds that tasks took together to those of their runs."""
        costs = [self.cost(unit) for unit in units]
        for unit, cost in zip(units, costs, strict=True):
            share = seconds * cost / sum(costs)
            self.seconds[unit.run.name] = self.seconds.get(unit.run.name, 0.0) + share


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
    watch: "Watch | None" = None,
) -> list[str]:
    """Finish all tasks of an experiment on a data set; return their keys in order.

    Parameters
    ----------
    store : Store of the tables that `tables` names.
    watch : Watch or None; if given, it records failures, and the keys are those of the finished tasks.

    Raises
    ------
    ValueError : Without a watch: a method or a budget failed.  The other tasks are finished first, and the
        message names all failures.  If all failures have one type, derived from ValueError or OSError, that
        type is raised.
    """
    work = Work(cfg, experiment, dataset, inputs, store.folder)
    missing = [i for i, name in enumerate(work.keys) if not store.find(name)]
    failed: dict[int, Exception] = {}
    if missing:
        files = work.files(missing)
        for file in files:
            file.get()  # makes it once, or fails once instead of in every task
        groups = work.groups(missing, failed)
        code = targets(*(work.units[i].config for i in missing), plain(work.spec))
        costs = [sum(1.0 if watch is None else watch.cost(work.units[i]) for i in group) for group in groups]
        with tqdm(total=sum(costs), **(BAR if watch is None else watch.bar)) as shown:
            for done in computed(work.compute, groups, work.need(files), code):
                group = groups[done.place]
                if done.value is None:
                    assert done.error is not None
                    failed |= dict.fromkeys(group, told(done.error))
                else:
                    for i, frames in zip(group, done.value, strict=True):
                        found = (frames[path.stem] for path in store.paths)
                        store.keep(work.keys[i], *found, made=done.made)
                if watch is not None:
                    watch.took([work.units[i] for i in group], done.seconds)
                shown.update(costs[done.place])
    if watch is not None:
        for i, error in sorted(failed.items()):
            watch.lost.setdefault(work.units[i].run.name, str(error))
        return [name for i, name in enumerate(work.keys) if i not in failed]
    if failed:
        reasons = dict.fromkeys(f"{work.units[i].run.name}: {error}" for i, error in sorted(failed.items()))
        kind = type(next(iter(failed.values()))) if len(set(map(type, failed.values()))) == 1 else ValueError
        raise (kind if issubclass(kind, ValueError | OSError) else ValueError)("\n".join(reasons))
    return work.keys


def unit_keys(
    cfg: DictConfig, experiment: str, dataset: str, inputs: Inputs, asked: Sequence[Unit]
) -> list[str]:
    """Return the keys of tasks; a key is a hash of everything that determines the task's rows."""
    spec = plain(cfg.experiment[experiment])
    rest = {name: value for name, value in spec.items() if name not in OF_UNITS}
    base = {
        "names": [experiment, dataset],
        "spec": rest,
        "seed": cfg.seed,
        "noise": str(drawn_in(spec)),
        "delta": spec.get("delta", cfg.delta),
        "assumptions": list(described(cfg, dataset).get("assumptions") or []),
    }
    found, files = [], dict[str, list[Any]]()
    for unit in asked:
        of_data = str(unit.data)
        if of_data not in files:
            files[of_data] = [file and file.sha256 for file in inputs.of(unit).files]
        problem = model(cfg, unit)
        if "backbone" in problem:
            problem["backbone"] = plain(cfg.backbone[problem["backbone"]])
        code = code_hash(__name__, *targets(unit.config, problem, rest))
        run = unit.run._replace(config={}, epsilons=[])
        data = {
            "inputs": files[of_data],
            "part": learned_from({**plain(described(cfg, dataset)), **unit.data}),
        }
        found.append(
            key([base, data, code, problem, unit.config, run, unit.scaling, unit.variant, unit.epsilons])
        )
    return found


def drawn_in(spec: Mapping[str, Any] | DictConfig) -> torch.dtype:
    """Return the precision in which an experiment draws the noise of its chains."""
    asked: str | None = spec.get("noise")
    return {None: random.NORMALS, "float32": torch.float32, "float64": torch.float64}[asked]


def model(cfg: DictConfig, unit: Unit) -> dict[str, Any]:
    """Return the entry of conf/problem with the changes of a task."""
    return merged(plain(cfg.problem[unit.run.problem]), nested(unit.problem))


def described(cfg: DictConfig, dataset: str) -> DictConfig:
    """Return the entry of conf/dataset or conf/features."""
    found: DictConfig = cfg.dataset[dataset] if dataset in cfg.dataset else cfg.features[dataset]
    return found


class Work:
    """The tasks of a sweep, and how each is computed.

    `folder` holds unfinished work, such as checkpoints.
    """

    def __init__(self, cfg: DictConfig, experiment: str, dataset: str, inputs: Inputs, folder: Path) -> None:
        self.cfg, self.experiment, self.dataset = cfg, experiment, dataset
        self.inputs, self.folder = inputs, folder
        self.spec = cfg.experiment[experiment]
        self.units = [
            unit for run in runs(cfg, experiment, dataset) for unit in units(self.spec, run, dataset)
        ]
        self.keys = unit_keys(cfg, experiment, dataset, inputs, self.units)
        self.delta = float(self.spec.get("delta", cfg.delta))
        if inputs.posterior and any(unit.problem or any(self.part(unit).values()) for unit in self.units):
            raise ValueError(
                f"{experiment} is compared with the exact posterior on all rows: set compared: false for a part of them"
            )
        # networks: each budget is a task of its own; linear models: their chains are one program
        self.one_budget_per_task = bool(self.spec.get("one_budget_per_task") or self.spec.get("curve"))
        self.problems: dict[Any, Problem] = {}

    def files(self, wanted: Iterable[int]) -> list[File]:
        """Return the files that these tasks read, each once."""
        read = [file for i in wanted for file in self.inputs.of(self.units[i]).files if file is not None]
        return list({file.sha256: file for file in read}.values())

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the problems, which another process makes itself."""
        return {**self.__dict__, "problems": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state and import all code of the tasks, because their keys do not cover later edits."""
        self.__dict__.update(state)
        for name in targets(*(unit.config for unit in self.units), plain(self.spec)):
            get_object(name)

    def need(self, files: Sequence[File]) -> Need:
        """Return what the computation of a group on some of these files needs.

        Networks use a GPU.  The memory estimate covers the rows as they are read, scaled, and as tensors.
        """
        return Need(MEMORY + COPIES * max(map(_unpacked, files)), gpu=int(self.one_budget_per_task))

    def groups(self, missing: Sequence[int], failed: dict[int, Exception]) -> list[list[int]]:
        """Return groups of tasks that run together: chains on the same rows and noise; others run alone.

        A task whose budget is not affordable fails here, before any training.
        """
        if self.one_budget_per_task:
            return [[i] for i in missing]
        found: dict[Any, list[int]] = {}
        for i in missing:
            unit = self.units[i]
            try:
                method, plans = self.planned(unit)
            except Exception as error:
                failed[i] = told(error)
                continue
            plain_chain = isinstance(method, ChainMethod) and type(method).kernel is ChainMethod.kernel
            name: Any = i
            if plain_chain and all(isinstance(plan.work, Chain) for plan in plans):
                chain = plans[0].work
                n = self.problem(unit).facts.n
                name = *self.place(unit), unit.run.stream
                name += len(chain.step), chain.sampling.size(n), chain.keep, chain.momentum
                drawn_alike = self.spec.get("paired") and chain.sampling.scheme in PAIRED
                if not drawn_alike:
                    name += chain.sampling.scheme, chain.start_std > 0
            found.setdefault(name, []).append(i)
        return [part for group in found.values() for part in self.parts(group)]

    def parts(self, group: Sequence[int]) -> list[list[int]]:
        """Split a group at `TOGETHER` chains, above which a larger program is no faster."""
        found: list[list[int]] = []
        room = 0
        for i in group:
            chains = len(self.units[i].epsilons) * self.units[i].run.seeds
            if chains > room:
                found.append([])
                room = TOGETHER
            found[-1].append(i)
            room -= chains
        return found

    def planned(self, unit: Unit) -> tuple[Method, list[Plan]]:
        """Return the method of a task, and its plan for each budget."""
        method: Method = instantiate(unit.config)
        facts = self.problem(unit).facts
        budgets = [Budget(epsilon, self.delta) for epsilon in unit.epsilons]
        return method, planned(method, facts, budgets, unit.run.name)

    def stream(self, unit: Unit, method: Method) -> str:
        """Return the name of the random stream of a task.

        Chains and networks use the stream of their run.  Any other method has one stream for each budget.  So
        its budgets are independent, and its variants share the noise.
        """
        name = unit.run.stream
        return (
            name
            if self.one_budget_per_task or isinstance(method, ChainMethod)
            else f"{name}/{unit.epsilons[0]}"
        )

    def place(self, unit: Unit) -> tuple[Any, ...]:
        """Return everything that determines the problem of a task."""
        return unit.run.problem, str(unit.problem), str(unit.data), unit.scaling, unit.run.seeds

    def problem(self, unit: Unit) -> Problem:
        """Return the problem of a task, which is made once."""
        place = self.place(unit)
        if place not in self.problems:
            self.problems = {at: made for at, made in self.problems.items() if at[1:] == place[1:]}
            config = model(self.cfg, unit)
            more: dict[str, Any] = {}
            if "backbone" in config:
                assert self.inputs.weights is not None
                files = {"data": self.data(unit), "weights": self.inputs.weights}
                network = plain(self.cfg.backbone[config.pop("backbone")])
                code = code_hash(*targets(config, network))
                more = {"backbone": network, "inputs": files, "folder": self.folder.parent, "code": code}
            self.problems[place] = instantiate(config, _convert_="all")(
                self.scaled(unit), unit.run.seeds, **more
            )
        return self.problems[place]

    def workspace(self, i: int) -> Workspace:
        """Return where the unfinished work of a task is stored."""
        return Workspace(self.folder, self.keys[i], code_hash(*targets(self.units[i].config)))

    def part(self, unit: Unit) -> dict[str, Any]:
        """Return the settings that select the rows that a task trains on."""
        return learned_from({**plain(described(self.cfg, self.dataset)), **unit.data})

    def data(self, unit: Unit) -> File:
        """Return the prepared file of a task; its sha256 also covers which rows it trains on."""
        file, of = self.inputs.of(unit).data, self.part(unit)
        return file._replace(sha256=key([file.sha256, of, self.cfg.seed])) if any(of.values()) else file

    def scaled(self, unit: Unit, scaling: str | None = None) -> Dataset:
        """Return the rows of a task, with its own scaling or with `scaling`; "" is for none."""
        rng = data_generator(self.cfg.seed, f"{self.dataset}/part")
        rows = Dataset.load(self.inputs.of(unit).data.get()).first(unit.run.seeds)
        rows = subset(rows, **self.part(unit), rng=rng)
        how = unit.scaling if scaling is None else scaling
        return rows.scaled(how) if how else rows

    def compute(self, group: Sequence[int]) -> list[dict[str, pd.DataFrame]]:
        """Return the tables of tasks that run together."""
        several = [self.planned(self.units[i]) for i in group]
        prices = [self.prices(i, plans) for i, (_, plans) in zip(group, several, strict=True)]
        first, method = self.units[group[0]], several[0][0]
        problem, plans = self.problem(first), [plan for _, each in several for plan in each]
        curve: Any = None  # LearningCurve or None
        if self.spec.get("curve"):
            curve = instantiate(self.spec.curve)(problem, plans[0], first.run.seeds, self.delta)
            plans = [curve.shortened(plans[0])]
        if self.spec.get("best_epoch"):
            plans = [plan._replace(work=by_epoch(plan.work, problem.facts.n)) for plan in plans]
        digit_classifier: Any = None  # a `digit_classifier.DigitClassifier`
        if self.spec.get("digit_classifier"):
            digit_classifier = instantiate(self.spec.digit_classifier)(problem, self.cfg.seed)
        how = Execution(
            first.run.seeds,
            random.generator(self.cfg.seed, self.stream(first, method)),
            observe=curve,
            workspace=self.workspace(group[0]) if self.one_budget_per_task else None,
            schemes=PAIRED if self.spec.get("paired") and _drawn(plans[0]) in PAIRED else None,
            drawn_in=drawn_in(self.spec),
        )
        release = method.release(problem, plans, how)
        if release.guarantees is not None:  # then the method is alone in its group
            plans = settled(release, plans)
            several, prices = [(method, plans)], [self.prices(group[0], plans)]
        out, start = [], 0
        for i, (_, each), found in zip(group, several, prices, strict=True):
            part = cut(release, start, start + len(each))
            out.append(self.tables(self.units[i], problem, each, found, part, curve, digit_classifier))
            start += len(each)
        return out

    def prices(self, i: int, plans: Sequence[Plan]) -> pd.DataFrame:
        """Return the price columns of a task's rows.

        With an attack they are stored until the task is finished, because an attack takes long.
        """
        unit, spec = self.units[i], self.spec
        problem = self.problem(unit)
        method: Method = instantiate(unit.config)
        formula = instantiate(spec.formula) if spec.get("formula") else None
        attack: Attack | None = instantiate(spec.attack) if spec.get("attack") else None

        def compute() -> pd.DataFrame:
            rows = []
            for epsilon, plan in zip(unit.epsilons, plans, strict=True):
                rng = random.generator(
                    self.cfg.seed, f"{self.experiment}/{unit.run.name}/{unit.variant}/{epsilon}"
                )
                adjacency = spec.get("price_neighbours") or plan.guarantee.adjacency
                names = spec.get("prices") or []
                on_row = attack and partial(attack, method, plan, problem, self.delta, rng)
                rows.append(
                    priced(method, plan, problem.facts, self.delta, adjacency, names, formula, on_row)
                )
            return pd.DataFrame(rows)

        if attack is None:
            return compute()
        return read(kept(self.folder, f"price-{self.keys[i]}", compute))

    def tables(
        self,
        unit: Unit,
        problem: Problem,
        plans: Sequence[Plan],
        prices: pd.DataFrame,
        release: Release,
        curve: Any,
        digit_classifier: Any,
    ) -> dict[str, pd.DataFrame]:
        """Return the rows of one task, by name of the table."""
        metrics, violated = self.measured(unit, problem, release, curve, digit_classifier)
        more = [*unit.run.assumptions, *(described(self.cfg, self.dataset).get("assumptions") or [])]
        more += self.spec.get("assumptions") or []
        if share := self.part(unit)["held_out"]:
            more.append(f"scored on {share:.3g} of the training rows, held out, not on the test rows")
        if isinstance(problem, Glm):
            more += [note for note in problem.notes if note]
        rows, scores = [], []
        for e, (epsilon, plan) in enumerate(zip(unit.epsilons, plans, strict=True)):
            names = {
                "experiment": self.experiment,
                "dataset": self.dataset,
                "problem": unit.run.problem,
                "run": unit.run.name,
                "method": unit.run.method,
                "variant": unit.variant,
                "scaling": unit.scaling,
                "block": unit.run.block,
                "epsilon": epsilon,
                "delta": self.delta,
            }
            price = {str(name): value for name, value in prices.iloc[e].to_dict().items()}
            failed = [price.pop("violated", ""), violated[e]]
            assumptions = dict.fromkeys([*plan.guarantee.assumptions, *more])
            last = {
                "violated": "; ".join(filter(None, failed)),
                "assumptions": "; ".join(assumptions),
                "settings": unit.settings,
            }
            rows.append({**names, **stated(problem.facts), **price, **last})
            where = [unit.run.name, unit.variant, unit.scaling, epsilon]
            for metric, values in metrics.items():
                scores += [[*where, seed, metric, value] for seed, value in enumerate(values[:, e].tolist())]
        found = {
            "runs": pd.DataFrame(rows, columns=TABLES["runs"]),
            "scores": pd.DataFrame(scores, columns=TABLES["scores"]),
        }
        if curve is not None:
            found["curve"] = curve.table(unit.run.name, unit.epsilons[0])
            found["reliability"] = self.reliability(unit, problem, release, curve)
        if digit_classifier is not None:
            where = [[unit.run.name, unit.variant, unit.scaling, epsilon] for epsilon in unit.epsilons]
            found["samples"] = digit_classifier.table(where, release.theta)
        return found

    def measured(
        self, unit: Unit, problem: Problem, release: Release, curve: Any, digit_classifier: Any
    ) -> tuple[dict[str, Tensor], list[str]]:
        """Return metrics by name, ``(S, E)``, and for each budget what the run did not reach.

        A diverged chain has nan for every metric, and a note counts it.  The mixing of the chains of its
        budget is nan, too, if all seeds share the data.
        """
        finite = release.theta.isfinite().all(-1).all(-1)  # (S, E)
        theta = release.theta.nan_to_num(0.0, 0.0, 0.0)
        which = self.scored(release)
        y, epochs = problem.y_test[:, which], theta
        if self.spec.get("best_epoch"):
            theta = theta[:, :, -1:]
        predicted = {
            name: value.where(finite[..., None, None].to(value.device), 1 / value.shape[-1])
            for name, value in self.predictions(problem, theta, release, curve).items()
        }
        best = predicted.get("average", predicted["single"])
        metrics = all_scores(best[:, :, which], y)
        if self.spec.get("best_epoch"):
            each = [all_scores(predictive(problem, at), y)["accuracy"] for at in epochs.split(1, 2)]
            metrics["accuracy_best_epoch"] = torch.stack(each).amax(0)
        if curve is not None:
            single = all_scores(predicted["single"][:, :, which], y)
            metrics |= {f"{name}_single": value for name, value in single.items()}
        if self.inputs.posterior is not None:
            exact = reference.load(self.inputs.posterior.get(), unit.scaling)
            metrics |= reference.distances(theta, metrics["log_loss"], exact)
        if digit_classifier is not None:  # a `digit_classifier.DigitClassifier`
            metrics |= digit_classifier.metrics(theta)
        metrics = {name: value.where(finite, torch.nan) for name, value in metrics.items()}
        if isinstance(problem, Glm) and curve is None:
            clean = finite.all(0) if problem.shared else finite
            metrics |= {
                name: value.where(clean, torch.nan) for name, value in mixed(theta, problem.shared).items()
            }
        metrics |= {name: release.not_private[name] for name in REPORTED if name in release.not_private}
        if unit.epsilons == [math.inf] and isinstance(problem, Glm):
            data = self.scaled(unit, "")
            data = replace(data, x_test=data.x_test[:, which], y_test=data.y_test[:, which])
            for name, value in data.constant().items():
                metrics[name] = torch.as_tensor(value)[:, None].expand(unit.run.seeds, 1)
        notes = [
            "; ".join(filter(None, [note, f"{lost} of {len(finite)} chains diverged" if lost else ""]))
            for note, lost in zip(release.not_reached, (~finite).sum(0).tolist(), strict=True)
        ]
        return metrics, notes

    def predictions(self, problem: Problem, theta: Tensor, release: Release, curve: Any) -> dict[str, Tensor]:
        """Return probabilities of the test rows, ``(S, E, m, K)``.

        "single" is of the last iterate, or of all kept iterates.  "average" is of a network's posterior
        samples.
        """
        if release.predicted is not None:
            return {"single": release.predicted}
        if curve is None:
            return {"single": predictive(problem, theta)}
        found = {"single": problem.predict(theta[:, :, -1])}
        return found | ({} if curve.average is None else {"average": curve.average})

    def reliability(self, unit: Unit, problem: Problem, release: Release, curve: Any) -> pd.DataFrame:
        """Return the table "reliability", for the seeds whose chain has not diverged."""
        which, finite = self.scored(release), release.theta.isfinite().flatten(1).all(1).tolist()
        rows = []
        for predictor, value in self.predictions(problem, release.theta, release, curve).items():
            for seed in [seed for seed, whole in enumerate(finite) if whole]:
                one = slice(seed, seed + 1)
                y = problem.y_test[one if len(problem.y_test) > 1 else slice(None), which]
                names = {"run": unit.run.name, "epsilon": unit.epsilons[0], "predictor": predictor}
                rows += [{**names, **row, "seed": seed} for row in reliability(value[one, 0, which], y)]
        return pd.DataFrame(rows, columns=TABLES["reliability"])

    def scored(self, release: Release) -> Any:
        """Return the test rows that a release is scored on: those that it names.

        With `scored: odd`, an experiment scores all methods on the odd rows.
        """
        if self.spec.get("scored") == "odd":
            return slice(1, None, 2)
        return slice(None) if release.rows is None else release.rows


def told(error: Exception) -> Exception:
    """Return the error; first print its traceback unless its type is meant for users.

    A method from outside this package can raise any exception.
    """
    if not isinstance(error, (ValueError, OSError, DataError)):
        traceback.print_exception(error)
    return error


def _unpacked(file: File) -> int:
    """Return the bytes of the arrays of a prepared file."""
    with zipfile.ZipFile(file.get()) as arrays:
        return sum(each.file_size for each in arrays.infolist())


def _drawn(plan: Plan) -> str:
    """Return the scheme by which a chain draws its minibatches."""
    return plan.work.sampling.scheme if isinstance(plan.work, Chain) else "subset"


def by_epoch(chain: Chain, n: int) -> Chain:
    """Return the same chain, with its iterates after each epoch kept."""
    return chain._replace(keep=chain.sampling.ends(n))


def stated(facts: Facts) -> dict[str, Any]:
    """Return the columns of a row that describe its problem."""
    return {"records": facts.n, "parameters": facts.d, "classes": facts.classes, "row_bound": facts.row_bound}


def cut(release: Release, start: int, end: int) -> Release:
    """Return the part of a release that belongs to the plans from `start` to before `end`."""
    return Release(
        release.theta[:, start:end],
        None if release.predicted is None else release.predicted[:, start:end],
        release.rows,
        not_private={name: value[:, start:end] for name, value in release.not_private.items()},
        not_reached=release.not_reached[start:end],
    )


def read(piece: Rows) -> pd.DataFrame:
    """Return stored prices as a frame; a text may be empty."""
    frame = pd.read_csv(io.StringIO(piece.content))
    texts = [
        str(name)
        for name in frame
        if frame[name].dtype == object or name in ("violated", "attack_pair", "schedule")
    ]
    return frame.assign(**{name: frame[name].astype(object).where(frame[name].notna(), "") for name in texts})
