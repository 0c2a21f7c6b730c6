"""Events for the options of `dplangevin price` and `calibrate`.

The plan of a method gives the event, as in an experiment. Without a method, the event is Gaussian steps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

from dplangevin.checks import require
from dplangevin.cli.options import flag, option
from dplangevin.cli.output import counted
from dplangevin.text import meant

WHAT, DATA, STEPS, NOISE = (
    partial(option, rich_help_panel=title)
    for title in ("What is priced", "The data (public)", "Steps", "Noise and settings")
)
# option -> the setting of a method that it sets
SETTINGS = {
    "batch": "sampling.batch",
    "epochs": "sampling.epochs",
    "schedule": "schedule",
    "noise": "noise_multiplier",
    "noise_std": "noise_std",
    "step": "step",
    "clip": "clip",
    "radius": "radius",
    "ridge": "ridge",
    "teachers": "teachers",
    "queries": "vote.queries",
}
NOISES = ("noise", "noise_std")
POSITIVE = ("records", "batch", "steps", "epochs", *NOISES, "step", "clip", "radius", "row_bound")
PLAIN = ("batch", "epochs", "noise", "schedule")  # the options among these that Gaussian steps have
OF_EVENTS = ("rho", "ridge", "answers", "queries")  # numbers of an event that no plan states
MOST_STEPS = 10**8  # prices were checked up to this number, see docs/privacy.md
SMALLEST, LARGEST = 1e-2, 1e6  # noise multipliers that `calibrated` tries


@dataclass(frozen=True)
class Options:
    """The options that `price` and `calibrate` share."""

    method: Annotated[
        str | None,
        WHAT(
            "A method of this package (ops, objpert, pate, dp_sgld, dp_sgld_li2019, dp_sgld_ryffel2022, ...) or "
            "package.module.Class of your own; without it, Gaussian steps with --noise."
        ),
    ] = None
    delta: Annotated[float, WHAT("A number in (0, 1), best below 1/records.")] = 1e-5
    epsilon: Annotated[
        float | None,
        WHAT("price: the epsilon that the method's own theorem promises. calibrate: the budget."),
    ] = None
    records: Annotated[int | None, DATA("Number of records.")] = None
    loss: Annotated[
        Literal["logistic", "softmax", "huber", "none"],
        DATA("Loss of a linear model; none: a network, whose gradients are clipped."),
    ] = "logistic"
    classes: Annotated[int, DATA("Number of classes, for softmax, networks and PATE.")] = 2
    row_bound: Annotated[float, DATA("Bound on the norm of a row.")] = 1.0
    label_bound: Annotated[float, DATA("Bound on |y|, for huber.")] = 1.0
    threshold: Annotated[float, DATA("Residual beyond which huber is linear.")] = 1.0
    public_rows: Annotated[int, DATA("Unlabelled rows that PATE may ask about.")] = 0
    sampling: Annotated[
        Literal["poisson", "subset", "random_allocation", "full"] | None,
        STEPS("How a step draws its rows; a method has its own way."),
    ] = None
    batch: Annotated[int | None, STEPS("Rows in a step; for Poisson samples their mean.")] = None
    epochs: Annotated[float | None, STEPS("Number of passes over the rows, or give --steps.")] = None
    steps: Annotated[
        int | None, STEPS("Number of steps, or give --epochs; alone, steps without sampling.")
    ] = None
    schedule: Annotated[
        str | None,
        STEPS(
            "Of Gaussian steps: fixed, or decreasing, whose noise multiplier grows as t^(1/6) (li2019). Of a "
            "method: one of its own, such as phase (wang2015) or ryffel2022."
        ),
    ] = None
    noise: Annotated[
        float | None, NOISE("Noise multiplier: standard deviation over the bound on one record.")
    ] = None
    noise_std: Annotated[float | None, NOISE("sigma of ryffel2022, in place of --epsilon.")] = None
    step: Annotated[float | None, NOISE("Step size eta.")] = None
    clip: Annotated[float | None, NOISE("Bound on the norm of a gradient.")] = None
    radius: Annotated[float | None, NOISE("Radius of the ball that OPS samples on.")] = None
    ridge: Annotated[float | None, NOISE("Ridge of objective perturbation, on the summed loss.")] = None
    teachers: Annotated[int | None, NOISE("Number of PATE's teachers.")] = None
    queries: Annotated[int | None, NOISE("Largest number of queries that PATE tests.")] = None
    set: Annotated[
        list[str] | None, NOISE("Any other setting of the method as NAME=VALUE, e.g. vote.threshold=150.")
    ] = None


class Mechanism(NamedTuple):
    """A mechanism to price."""

    title: str
    event: Any  # of `dp_accounting`
    paper: Any = None  # event that Theorem 3.1 of ryffel2022 prices, if it differs
    settings: Mapping[str, float | str] = {}  # of the plan, and numbers that follow from the budget
    promised: tuple[float, str] | None = None  # ε of the method's own theorem, and the theorem's name
    assumptions: Sequence[str] = ()
    violated: Sequence[str] = ()  # conditions of the guarantee that fail
    rounding: str = ""  # how --epochs became a whole number of steps, if they make none


def check(options: Options) -> None:
    """Raise ValueError for numbers that no mechanism can have."""
    delta, epsilon, batch, records = options.delta, options.epsilon, options.batch, options.records
    require(0 < delta < 1, f"--delta {delta} must be between 0 and 1: take less than 1/records, such as 1e-5")
    usable = epsilon is None or 0 < epsilon < math.inf
    require(usable, f"--epsilon {epsilon} must be positive and finite, such as 1")
    require(None in (options.epochs, options.steps), "--epochs and --steps say the same: give one of them")
    for name in POSITIVE:
        if (value := getattr(options, name)) is not None:
            hint = "; without noise nothing is private" if name in NOISES else ""
            require(0 < value < math.inf, f"{flag(name)} {value} must be positive and finite{hint}")
    least = {"noise": 1e-100 if options.method is None else 1e-4, "noise_std": 1e-15}
    for name, bound in least.items():
        value = getattr(options, name)
        enough = value is None or value >= bound
        require(enough, f"{flag(name)} {value} is too little noise to price: take {bound:g} or more")
    require(
        records is None or batch is None or batch <= records,
        f"--batch {batch} must be at most --records {records}: lower it, or take --sampling full",
    )


def needed(options: Options, **examples: float) -> None:
    """Raise ValueError naming the missing options, with an example value for each."""
    missing = [name for name in examples if getattr(options, name) is None]
    if missing:
        example = " ".join(f"{flag(name)} {examples[name]}" for name in missing)
        raise ValueError(f"{' and '.join(map(flag, missing))} missing: add for example {example}")


class Steps(NamedTuple):
    """Gaussian steps whose noise is not yet chosen."""

    sampling: Any
    records: int
    schedule: Literal["fixed", "decreasing"]  # decreasing: the noise multiplier grows as t^(1/6) (li2019)
    rounding: str = ""

    @property
    def size(self) -> int:
        """Rows in a step."""
        return int(self.sampling.size(self.records))

    @property
    def number(self) -> int:
        return int(self.sampling.steps(self.records))

    def event(self, noise: float) -> Any:
        """Return the event for a noise multiplier: that of the first step, if the schedule is decreasing."""
        import numpy as np
        from dp_accounting import SelfComposedDpEvent

        from dplangevin.privacy.stepsize import steps_event
        from dplangevin.privacy.subsampled_gaussian import composed_steps

        if self.sampling.scheme == "poisson":
            rate = self.size / self.records
            return steps_event(noise, rate=rate, steps=self.number, schedule=self.schedule)
        allocated, fixed = self.sampling.scheme == "random_allocation", self.schedule == "fixed"
        if fixed and not allocated:
            one = composed_steps(self.records, self.size, np.array([noise]))
            return SelfComposedDpEvent(one, self.number)
        noises = noise * np.arange(1, self.number + 1) ** (0.0 if fixed else 1 / 6)
        if allocated:
            from dplangevin.privacy.events import RandomAllocationDpEvent

            return RandomAllocationDpEvent.of(self.sampling.per_epoch(self.records), noises)
        return composed_steps(self.records, self.size, noises)

    def mechanism(self, noise: float) -> Mechanism:
        from dplangevin.privacy.survey import records_public

        of = f"of {self.size:,} of {self.records:,} rows"
        how = {
            "poisson": f"on Poisson samples {of}",
            "subset": f"on uniform subsets {of}",
            "random_allocation": f"on randomly allocated minibatches {of}",
            "full": "without sampling" + f", on all {self.records:,} rows" * (self.records > 1),
        }[self.sampling.scheme]
        title = f"{counted(self.number, 'Gaussian step')} {how}, noise multiplier {noise:.6g}"
        if self.schedule == "decreasing":
            title += " at first, growing as t^(1/6)"
        settings = {"noise_multiplier": noise, "steps": self.number, "rate": self.size / self.records}
        public = records_public(
            lambda n: (self._replace(records=n).event(noise), self.sampling.rate(n)), self.records
        )
        assumptions = "every step's result released", *public
        event = self.event(noise)
        return Mechanism(title, event, settings=settings, assumptions=assumptions, rounding=self.rounding)


def gaussian(options: Options) -> Steps:
    """Return the Gaussian steps that the options describe; raise ValueError for options of a method."""
    from dplangevin.problems.sampling import Sampling

    for name in (*SETTINGS, "set"):
        if name not in PLAIN and getattr(options, name):
            raise ValueError(f"{flag(name)} belongs to a method: name one by --method, or leave it out")
    plain = options.steps is not None and options.records is options.batch is None
    schedule: Any = options.schedule or "fixed"
    scheme = options.sampling or ("full" if plain else "poisson")
    known = ("fixed", "decreasing")
    near = meant(schedule, known)
    require(schedule in known, f"--schedule {schedule} is unknown{near}: take fixed or decreasing")
    if not (plain and scheme == "full"):
        needed(options, records=60000, **({} if scheme == "full" else {"batch": 128}))
    batch_fits = scheme != "full" or options.batch is None
    require(batch_fits, f"--sampling full takes all rows: leave out --batch {options.batch}")
    records = options.records or 1  # steps on all rows cost the same on any number of them
    sampling = Sampling(scheme, options.batch, options.epochs)
    if options.steps is not None:
        sampling = replace(sampling, epochs=passes(options.steps, sampling, records))
    elif options.epochs is None:
        raise ValueError("how many steps is missing: add for example --epochs 20, or --steps 1000")
    steps = Steps(sampling, records, schedule, rounding(sampling, options))
    given = "--epochs" if options.steps is None else "--steps"
    many = f"{given} makes {steps.number:.4g} steps, more than the {MOST_STEPS:.0e} that are composed"
    require(steps.number <= MOST_STEPS, f"{many}: lower it")
    return steps


def rounding(sampling: Any, options: Options) -> str:
    """Return how --epochs became a whole number of steps; "" if they are one, or if --steps was given."""
    if options.epochs is None or options.records is None or sampling is None:
        return ""
    each, steps = options.records / sampling.size(options.records), sampling.steps(options.records)
    if math.isclose(made := each * options.epochs, steps):
        return ""
    text = f"--epochs {options.epochs:g} makes {round(made, 2):,.12g} steps; we take {steps:,}."
    kept = math.ceil(math.ceil(each) * options.epochs)
    more = f" A program that keeps the last, smaller batch makes {kept:,}: give --steps {kept}."
    return text + more * (sampling.scheme in ("shuffled", "subset"))


def passes(steps: int, sampling: Any, records: int) -> float:
    """Return the number of epochs for which `Sampling.steps` returns `steps`."""
    from dplangevin.problems.sampling import BY_EPOCH

    each = sampling.per_epoch(records) if sampling.scheme in BY_EPOCH else records / sampling.size(records)
    epochs = steps / each
    while math.floor(each * epochs) < steps:
        epochs = math.nextafter(epochs, math.inf)
    return epochs


def method_of(options: Options) -> Any:
    """Return the method with the settings from the options.

    Raise ValueError if a method or a setting does not exist; the message suggests similar names.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    from dplangevin.data.yaml_file import inexact
    from dplangevin.methods.registry import METHODS, named

    assert options.method is not None
    if "." in options.method and options.method not in METHODS:
        from dplangevin.cli.comparison import class_named

        method: Any = class_named(options.method)()
    else:
        method = named(options.method)
    public = f"--method {options.method} has no privacy to price: take a private one, such as dp_sgd or ops"
    require(method.budgeted, public)
    given = {SETTINGS[name]: value for name in SETTINGS if (value := getattr(options, name)) is not None}
    known = {each.name for each in fields(method)}
    for name, setting in SETTINGS.items():
        require(
            setting not in given or setting.partition(".")[0] in known,
            f"--method {options.method} has no use for {flag(name)}: its settings, for --set, are "
            f"{', '.join(sorted(known))}",
        )
    if options.step is not None and "unit" in known:
        given["unit"] = "absolute"
    if options.steps is not None and options.records is not None and hasattr(method, "sampling"):
        scheme = options.sampling or method.sampling.scheme
        batch = None if scheme == "full" else options.batch or method.sampling.batch
        sampling = replace(method.sampling, scheme=scheme, batch=batch)
        given["sampling.epochs"] = passes(options.steps, sampling, options.records)
    if options.sampling is not None:
        given["sampling.scheme"] = options.sampling
    tree: Any = OmegaConf.create()
    for name, value in given.items():
        OmegaConf.update(tree, name, value)
    for text in options.set or ():
        name, equals, value = text.partition("=")
        if not equals or not all(part.isidentifier() for part in name.split(".")):
            raise ValueError(f"--set {text} must be NAME=VALUE, such as --set precision=1")
        if why := inexact(value):
            raise ValueError(f"--set {text}: {why}")
        try:
            tree = OmegaConf.merge(tree, OmegaConf.from_dotlist([text]))
        except (YAMLError, OmegaConfBaseException) as error:
            raise ValueError(
                f"--set {text}: {value!r} cannot be read: give a number, a word or a list, such as 1, ridge or [1, 2]"
            ) from error
    return changed(method, OmegaConf.to_container(tree), options.method)


def changed(thing: Any, tree: Any, where: str) -> Any:
    """Return a dataclass with some settings replaced; those of a nested dataclass are a mapping.

    `where` is the name of the object, for messages.
    """
    from dplangevin.pipeline import validate

    known, hints = {each.name for each in fields(thing)}, validate.annotations(type(thing))
    settings = {}
    for name, value in tree.items():
        if name not in known:
            raise ValueError(
                f"{where} has no setting {name!r}{meant(name, known)}; it has {', '.join(sorted(known))}"
            )
        own = getattr(thing, name)
        if isinstance(value, dict):
            if not is_dataclass(own):
                raise ValueError(f"{where}.{name} has no settings of its own: give it a value")
            value = changed(own, value, f"{where}.{name}")
        elif name == "accountant":
            value = accountant_named(value)
        elif faults := validate.check(value, hints[name], f"{where}.{name}", objects=False):
            raise ValueError(faults[0])
        settings[name] = value
    return replace(thing, **settings)


def accountant_named(name: str) -> Any:
    """Return an accountant; raise ValueError if there is none of this name."""
    from dplangevin.privacy.survey import ACCOUNTANTS

    if name not in ACCOUNTANTS:
        near = meant(str(name), ACCOUNTANTS)
        raise ValueError(f"accountant {name!r} is unknown{near}; there are {', '.join(ACCOUNTANTS)}")
    return ACCOUNTANTS[name].accountant


def facts_of(options: Options) -> Any:
    """Return the facts about the data that a method may use in its plan."""
    from dplangevin.problems import Facts
    from dplangevin.problems.glm import linear_facts
    from dplangevin.problems.losses import LOGISTIC, huber, softmax

    needed(options, records=32561)
    assert options.records is not None
    if options.loss == "none":
        return Facts(options.records, 1, max(options.classes, 2), public=options.public_rows, tested=False)
    loss = LOGISTIC
    if options.loss == "softmax":
        loss = softmax(options.classes)
    elif options.loss == "huber":
        loss = huber(options.threshold, options.label_bound)
    facts = linear_facts(loss, options.records, 1, options.row_bound, options.public_rows)
    return facts._replace(tested=False)


def planned(options: Options) -> Mechanism:
    """Return what the method plans for --epsilon; if the options give the noise, nothing is promised."""
    from dplangevin.methods import chain_columns
    from dplangevin.methods.prices import violated, what_is_done
    from dplangevin.privacy import Budget
    from dplangevin.privacy.events import PUBLIC_RECORDS
    from dplangevin.privacy.survey import records_public

    method, facts = method_of(options), facts_of(options)
    noises = [each.name for each in fields(method) if each.name in ("noise_multiplier", "noise_std")]
    noise_given = any(getattr(method, name) is not None for name in noises)
    step_given = None not in (options.step, options.clip)
    if options.epsilon is None and options.method == "dp_sgld_li2019" and step_given:
        method, noise_given = replace(method, calibrated=None), True
    if options.epsilon is None and not noise_given:
        flags = [flag({"noise_multiplier": "noise"}.get(name, name)) for name in noises]
        if hasattr(method, "calibrated") and hasattr(method, "clip"):
            flags = ["both --step and --clip"]
        raise ValueError(
            f"{options.method}: --epsilon, which its theorem is asked for, is missing: add for example --epsilon 1"
            + (f", or {' or '.join(flags)}" if flags else "")
        )
    require(
        not hasattr(method, "vote") or options.public_rows != 0,
        "--public-rows missing: how many unlabelled rows may be asked about, for example --public-rows 10000",
    )
    budget = Budget(options.epsilon or 1.0, options.delta)
    plan = method.plan(facts, budget)
    public = records_public(what_is_done(method, facts, budget), facts.n)
    guarantee, event = plan.guarantee, plan.guarantee.event
    of_event = {name: getattr(event, name) for name in OF_EVENTS if hasattr(event, name)}
    what = re.sub(r"\b1 steps", "1 step", described(event))
    return Mechanism(
        f"{options.method} on {facts.n:,} rows: {what}",
        event,
        plan.paper,
        {**of_event, **chain_columns(plan, facts.n), **plan.settings},
        None if noise_given else (guarantee.epsilon, method.accountant.name),
        (*(text for text in guarantee.assumptions if text != PUBLIC_RECORDS), *public),
        tuple(text for text in violated(method, plan) if text),
        rounding(getattr(method, "sampling", None), options),
    )


def described(event: Any) -> str:
    """Return the mechanism in a few words, with its numbers."""
    from dplangevin.papers.analyses.mechanisms import described as in_words
    from dplangevin.privacy import events

    if isinstance(event, events.NearbyDpEvent):
        return f"within total variation {event.total_variation:g} of {described(event.event)}"
    if isinstance(event, events.ShuffledEpochsDpEvent):
        return f"shuffled epochs, one Gaussian mechanism each: {in_words(event.epochs)}"
    if isinstance(event, events.RandomAllocationDpEvent):
        return f"epochs of {event.steps:,} randomly allocated steps: {in_words(event.event)}"
    if isinstance(event, events.ObjectivePerturbationDpEvent):
        noise = f"{event.noise_std:.4g} on the summed loss"
        return f"objective perturbation, noise {noise}, ridge {event.ridge:.4g}"
    if isinstance(event, events.PureObjectivePerturbationDpEvent):
        return f"objective perturbation, noise exp(-{event.rate:.4g} ||b||), ridge {event.ridge:.4g}"
    if isinstance(event, events.SufficientStatisticsDpEvent):
        return f"sufficient statistics, noise {event.matrix:.4g} on second moments of rows of norm 1"
    if isinstance(event, events.PateDpEvent):
        noise = f"noise {event.threshold_std:.4g} and {event.answer_std:.4g} votes"
        return f"at most {event.queries} threshold tests and {event.answers} answers, {noise}"
    return in_words(event)


def calibrated(options: Options, key: str, adjacency: Any) -> Mechanism:
    """Return the mechanism with the least noise whose ε by this accountant is at most --epsilon.

    With a method, its theorem is given the largest ε that satisfies this, to a relative 1e-4.
    """
    from dplangevin.privacy import Budget, calibrate
    from dplangevin.privacy.survey import event_for

    if options.noise is not None or options.noise_std is not None:
        raise ValueError("calibrate finds the noise: leave out --noise and --noise-std, or use price")
    needed(options, epsilon=1)
    accountant = accountant_named(key)
    assert options.epsilon is not None
    budget = Budget(options.epsilon, options.delta)
    if options.method is None:
        steps = gaussian(options)
        noise = calibrate(accountant, steps.event, budget, low=SMALLEST, high=LARGEST, adjacency=adjacency)
        return steps.mechanism(noise)

    from dplangevin import library

    promised = library.calibrate(
        method_of(options),
        facts_of(options),
        budget,
        adjacency,
        rtol=1e-4,
        accountant=accountant,
        event=lambda plan: event_for(key, plan.guarantee.event, plan.paper),
    )
    return planned(replace(options, epsilon=promised.epsilon))
