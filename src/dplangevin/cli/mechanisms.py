"""Events for the options of `dplangevin price` and `calibrate`.

The plan of a method gives the event, as in an experiment. Without a method, the event is Gaussian steps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

from dplangevin.checks import require
from dplangevin.cli.options import class_named, flag, option
from dplangevin.cli.output import counted
from dplangevin.text import meant

WHAT, DATA, STEPS, NOISE = (
    partial(option, rich_help_panel=title)
    for title in ("What is priced", "The data (public)", "Steps", "Noise and settings")
)
# option -> the setting of a method that it sets
SETTINGS = {
    "sampling": "sampling.scheme",
    "batch": "sampling.batch",
    "epochs": "sampling.epochs",
    "noise": "noise_multiplier",
    "noise_std": "noise_std",
    "radius": "radius",
    "teachers": "teachers",
}
NOISES = {"noise_multiplier": "--noise", "noise_std": "--noise-std", "calibrated": "--set calibrated=null"}
POSITIVE = ("records", "batch", "steps", "epochs", "noise", "noise_std", "radius")
ONLY_METHODS = ("noise_std", "radius", "teachers", "set")  # options that Gaussian steps lack
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
    epsilon: Annotated[float | None, WHAT("What its theorem promises; for calibrate the budget.")] = None
    records: Annotated[int | None, DATA("Number of records.")] = None
    classes: Annotated[int, DATA("Number of classes.")] = 2
    public_rows: Annotated[int, DATA("Unlabelled rows that PATE may ask about.")] = 0
    sampling: Annotated[
        Literal["poisson", "subset", "random_allocation", "full"] | None,
        STEPS("How a step draws its rows; a method has its own way."),
    ] = None
    batch: Annotated[int | None, STEPS("Rows in a step; for Poisson samples their mean.")] = None
    epochs: Annotated[float | None, STEPS("Number of passes over the rows, or give --steps.")] = None
    steps: Annotated[int | None, STEPS("Number of steps; alone, steps without sampling.")] = None
    noise: Annotated[float | None, NOISE("Standard deviation over the bound on one record.")] = None
    noise_std: Annotated[float | None, NOISE("sigma of ryffel2022, in place of --epsilon.")] = None
    radius: Annotated[float | None, NOISE("Radius of the ball that OPS samples on.")] = None
    teachers: Annotated[int | None, NOISE("Number of PATE's teachers.")] = None
    set: Annotated[list[str] | None, NOISE("Any setting: clip=2, vote.threshold=150, ...")] = None


class Mechanism(NamedTuple):
    """A mechanism to price."""

    title: str
    event: Any  # of `dp_accounting`
    paper: Any = None  # event that Theorem 3.1 of ryffel2022 prices, if it differs
    promised: Mapping[str, float | str] | None = None  # ε of the method's own theorem, and the theorem's name
    settings: Mapping[str, float | str] = {}  # of the plan, and numbers that follow from the budget
    rounding: str = ""  # how --epochs became a whole number of steps, if they make none
    assumptions: Sequence[str] = ()
    violated: Sequence[str] = ()  # conditions of the guarantee that fail


def check(options: Options) -> None:
    """Raise ValueError for numbers that no mechanism can have."""
    delta, epsilon, batch, records = options.delta, options.epsilon, options.batch, options.records
    require(0 < delta < 1, f"--delta {delta} must be between 0 and 1: take less than 1/records, such as 1e-5")
    usable = epsilon is None or 0 < epsilon < math.inf
    require(usable, f"--epsilon {epsilon} must be positive and finite, such as 1")
    require(None in (options.epochs, options.steps), "--epochs and --steps say the same: give one of them")
    least = {"noise": 1e-100 if options.method is None else 1e-4, "noise_std": 1e-15}
    for name in POSITIVE:
        if (value := getattr(options, name)) is not None:
            hint = "; without noise nothing is private" if name in least else ""
            require(0 < value < math.inf, f"{flag(name)} {value} must be positive and finite{hint}")
            little = f"{flag(name)} {value} is too little noise to price: take {least.get(name, 0):g} or more"
            require(value >= least.get(name, 0), little)
    fits = records is None or batch is None or batch <= records
    require(fits, f"--batch {batch} must be at most --records {records}: lower it, or take --sampling full")


def needed(options: Options, **examples: float) -> None:
    """Raise ValueError naming the missing options, with an example value for each."""
    missing = [name for name in examples if getattr(options, name) is None]
    example = " ".join(f"{flag(name)} {examples[name]}" for name in missing)
    require(not missing, f"{' and '.join(map(flag, missing))} missing: add for example {example}")


class Steps(NamedTuple):
    """Gaussian steps whose noise is not yet chosen."""

    sampling: Any
    records: int
    rounding: str = ""

    @property
    def number(self) -> int:
        return int(self.sampling.steps(self.records))

    def event(self, noise: float) -> Any:
        """Return the event for a noise multiplier."""
        import numpy as np
        from dp_accounting import SelfComposedDpEvent

        from dplangevin.privacy.events import RandomAllocationDpEvent
        from dplangevin.privacy.subsampled_gaussian import composed_steps

        if self.sampling.scheme == "random_allocation":
            noises = np.full(self.number, noise)
            return RandomAllocationDpEvent.of(self.sampling.per_epoch(self.records), noises)
        poisson, size = self.sampling.scheme == "poisson", self.sampling.size(self.records)
        return SelfComposedDpEvent(
            composed_steps(self.records, size, np.array([noise]), poisson), self.number
        )

    def mechanism(self, noise: float) -> Mechanism:
        from dplangevin.privacy.survey import records_public

        of = f"of {self.sampling.size(self.records):,} of {self.records:,} rows"
        how = {
            "poisson": f"on Poisson samples {of}",
            "subset": f"on uniform subsets {of}",
            "random_allocation": f"on randomly allocated minibatches {of}",
            "full": "without sampling" + f", on all {self.records:,} rows" * (self.records > 1),
        }[self.sampling.scheme]
        title = f"{counted(self.number, 'Gaussian step')} {how}, noise multiplier {noise:.6g}"
        rate = self.sampling.rate(self.records)
        public = records_public(
            lambda n: (self._replace(records=n).event(noise), self.sampling.rate(n)), self.records
        )
        return Mechanism(
            title,
            self.event(noise),
            settings={"noise_multiplier": noise, "steps": self.number, "rate": rate},
            assumptions=("every step's result released", *public),
            rounding=self.rounding,
        )


def gaussian(options: Options) -> Steps:
    """Return the Gaussian steps that the options describe; raise ValueError for options of a method."""
    from dplangevin.problems.sampling import Sampling

    for name in ONLY_METHODS:
        without = not getattr(options, name)
        require(without, f"{flag(name)} belongs to a method: name one by --method, or leave it out")
    plain = options.steps is not None and options.records is options.batch is None
    scheme = options.sampling or ("full" if plain else "poisson")
    if not (plain and scheme == "full"):
        needed(options, records=60000, **({} if scheme == "full" else {"batch": 128}))
    batch_fits = scheme != "full" or options.batch is None
    require(batch_fits, f"--sampling full takes all rows: leave out --batch {options.batch}")
    records = options.records or 1  # steps on all rows cost the same on any number of them
    sampling = Sampling(scheme, options.batch, options.epochs)
    if options.steps is not None:
        sampling = with_steps(sampling, options.steps, records)
    elif options.epochs is None:
        raise ValueError("how many steps is missing: add for example --epochs 20, or --steps 1000")
    steps = Steps(sampling, records, rounding(sampling, options))
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


def with_steps(sampling: Any, steps: int, records: int) -> Any:
    """Return the sampling with the number of epochs for which `Sampling.steps` returns `steps`."""
    from dplangevin.problems.sampling import BY_EPOCH

    each = sampling.per_epoch(records) if sampling.scheme in BY_EPOCH else records / sampling.size(records)
    epochs = steps / each
    while math.floor(each * epochs) < steps:
        epochs = math.nextafter(epochs, math.inf)
    return replace(sampling, epochs=epochs)


def method_of(options: Options) -> Any:
    """Return the method with the settings from the options and from --set."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    from dplangevin.data.yaml_file import inexact
    from dplangevin.methods.registry import METHODS, named

    name = str(options.method)
    method: Any = class_named(name)() if "." in name and name not in METHODS else named(name)
    public = f"--method {name} has no privacy to price: take a private one, such as dp_sgd or ops"
    require(method.budgeted, public)
    given = {setting: getattr(options, key) for key, setting in SETTINGS.items()}
    texts = [f"{setting}={value}" for setting, value in given.items() if value is not None]
    flags = {setting: flag(key) for key, setting in SETTINGS.items() if getattr(options, key) is not None}
    flags |= {"sampling.epochs": "--steps"} if options.steps is not None else {}
    tree: Any = OmegaConf.create()
    for text in (*texts, *(options.set or ())):
        setting, equals, value = text.partition("=")
        named_setting = equals and all(part.isidentifier() for part in setting.split("."))
        require(bool(named_setting), f"--set {text} must be NAME=VALUE, such as --set precision=1")
        twice = setting in flags and text not in texts
        require(not twice, f"{flags.get(setting)} and --set {text} set the same: give one of them")
        why = inexact(value)
        require(not why, f"--set {text}: {why}")
        try:
            tree = OmegaConf.merge(tree, OmegaConf.from_dotlist([text]))
        except (YAMLError, OmegaConfBaseException) as error:
            raise ValueError(
                f"--set {text}: {value!r} cannot be read: give a number, a word or a list, such as 1, ridge or [1, 2]"
            ) from error
    method = changed(method, OmegaConf.to_container(tree), name)
    if options.steps is None:
        return method
    require(hasattr(method, "sampling"), f"{name} takes no steps: leave out --steps {options.steps}")
    assert options.records is not None
    return replace(method, sampling=with_steps(method.sampling, options.steps, options.records))


def changed(thing: Any, tree: Any, where: str) -> Any:
    """Return a dataclass with some settings replaced; those of a nested dataclass are a mapping.

    `where` is the name of the object, for messages.
    """
    from dplangevin.pipeline import validate

    known, hints = {each.name for each in fields(thing)}, validate.annotations(type(thing))
    settings = {}
    for name, value in tree.items():
        own = f"; --set NAME=VALUE sets {', '.join(sorted(known))}"
        require(name in known, f"{where} has no setting {name!r}{meant(name, known)}{own}")
        inner, key = getattr(thing, name), f"{where}.{name}"
        if isinstance(value, dict):
            require(is_dataclass(inner), f"{key} has no settings of its own: give it a value")
            value = changed(inner, value, key)
        elif faults := validate.check(value, hints[name], key):
            raise ValueError(faults[0])
        settings[name] = value
    return replace(thing, **settings)


def facts_of(options: Options) -> Any:
    """Return the public facts of a linear model on rows of norm at most 1."""
    from dplangevin.problems.glm import linear_facts
    from dplangevin.problems.losses import classifier

    needed(options, records=32561)
    assert options.records is not None
    facts = linear_facts(classifier(options.classes), options.records, 1, 1.0, options.public_rows)
    return facts._replace(tested=False)


def given(options: Options) -> Mechanism:
    """Return the mechanism that `price` prices."""
    if options.method is not None:
        return planned(options)
    steps = gaussian(options)
    needed(options, noise=1.1)
    assert options.noise is not None
    return steps.mechanism(options.noise)


def planned(options: Options) -> Mechanism:
    """Return what the method plans for --epsilon; if the options give the noise, nothing is promised."""
    from dplangevin.methods import chain_columns
    from dplangevin.methods.prices import violated, what_is_done
    from dplangevin.privacy import Budget
    from dplangevin.privacy.events import PUBLIC_RECORDS
    from dplangevin.privacy.survey import records_public

    facts, method = facts_of(options), method_of(options)
    require(
        not hasattr(method, "vote") or options.public_rows != 0,
        "--public-rows missing: how many unlabelled rows may be asked about, for example --public-rows 10000",
    )
    budget = Budget(options.epsilon or 1.0, options.delta)
    plan = method.plan(facts, budget)
    flags = [NOISES[each.name] for each in fields(method) if each.name in NOISES]
    require(
        options.epsilon is not None or plan.noise_given,
        f"{options.method}: --epsilon, which its theorem is asked for, is missing: add for example --epsilon 1"
        + f", or {' or '.join(flags)}" * bool(flags),
    )
    public = records_public(what_is_done(method, facts, budget), facts.n)
    guarantee, event = plan.guarantee, plan.guarantee.event
    of_event = {name: getattr(event, name) for name in OF_EVENTS if hasattr(event, name)}
    promised = {"epsilon": guarantee.epsilon, "by": method.accountant.name}
    return Mechanism(
        f"{options.method} on {facts.n:,} rows: {described(event)}",
        event,
        plan.paper,
        None if plan.noise_given else promised,
        {**of_event, **chain_columns(plan, facts.n), **plan.settings},
        rounding(getattr(method, "sampling", None), options),
        (*(text for text in guarantee.assumptions if text != PUBLIC_RECORDS), *public),
        tuple(text for text in violated(method, plan) if text),
    )


def described(event: Any) -> str:
    """Return the mechanism in a few words: the class of the event, with the numbers that are not its defaults."""
    import attr
    from dp_accounting import DpEvent

    from dplangevin.papers.analyses.mechanisms import described as in_words
    from dplangevin.privacy.accountants.protocol import leaves

    with suppress(AttributeError):  # of an event that is neither Gaussian steps, nor a chain, nor a posterior
        return re.sub(r"\b1 steps", "1 step", in_words(event))
    if [*leaves(event)] != [(event, 1)]:
        return "; ".join(f"{count:,} x {described(leaf)}" for leaf, count in leaves(event))
    words = re.sub(r"\B([A-Z])", r" \1", type(event).__name__.removesuffix("DpEvent")).lower()
    for each in attr.fields(type(event)):
        value, name = getattr(event, each.name), each.name.replace("_", " ")
        if isinstance(value, DpEvent):
            words += f", {name}: {described(value)}"
        elif type(value) in (int, float) and value != each.default:
            words += f", {name} {value:.4g}"
    return words


def calibrated(options: Options, key: str, adjacency: Any) -> Mechanism:
    """Return the mechanism with the least noise whose ε by this accountant is at most --epsilon.

    With a method, its theorem is given the largest ε that satisfies this, to a relative 1e-4.
    """
    from dplangevin.privacy import Budget, calibrate
    from dplangevin.privacy.survey import ACCOUNTANTS, event_for

    noise_free = options.noise is None and options.noise_std is None
    require(noise_free, "calibrate finds the noise: leave out --noise and --noise-std, or use price")
    needed(options, epsilon=1)
    there = f"{meant(key, ACCOUNTANTS)}; there are {', '.join(ACCOUNTANTS)}"
    require(key in ACCOUNTANTS, f"accountant {key!r} is unknown{there}")
    accountant = ACCOUNTANTS[key].accountant
    assert options.epsilon is not None
    budget = Budget(options.epsilon, options.delta)
    if options.method is None:
        steps = gaussian(options)
        noise = calibrate(accountant, steps.event, budget, low=SMALLEST, high=LARGEST, adjacency=adjacency)
        return steps.mechanism(noise)

    from dplangevin.methods.prices import equal_budget

    promised = equal_budget(
        method_of(options),
        facts_of(options),
        budget,
        adjacency,
        rtol=1e-4,
        accountant=accountant,
        event=lambda plan: event_for(key, plan.guarantee.event, plan.paper),
    )
    return planned(replace(options, epsilon=promised.epsilon))
