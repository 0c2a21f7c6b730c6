"""The mechanism that the options of `dplangevin price` and `calibrate` describe.

The plan of a method gives the event, as in an experiment. Without a method, the event is Gaussian steps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, cast

from dplangevin.checks import require
from dplangevin.cli.options import config_of, flag, method_named, option
from dplangevin.cli.output import counted
from dplangevin.text import meant

WHAT, DATA, STEPS, NOISE, SHOWN = (
    partial(option, rich_help_panel=title)
    for title in ("What is priced", "The data (public)", "Steps", "Noise and settings", "Output")
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
ONLY_METHODS = ("noise_std", "radius", "teachers", "set")  # options that Gaussian steps lack
OF_EVENTS = ("rho", "ridge", "answers", "queries")  # numbers of an event that no plan states
MOST_STEPS = 10**8  # prices were checked up to this number, see docs/privacy.md


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
    records: Annotated[int | None, DATA("Number of records.", min=1)] = None
    classes: Annotated[int, DATA("Number of classes.", min=2)] = 2
    public_rows: Annotated[int, DATA("Unlabelled rows that PATE may ask about.", min=0)] = 0
    sampling: Annotated[
        Literal["poisson", "subset", "random_allocation", "shuffled", "full"] | None,
        STEPS("How a step draws its rows; a method has its own way."),
    ] = None
    batch: Annotated[int | None, STEPS("Rows in a step; for Poisson samples their mean.", min=1)] = None
    epochs: Annotated[float | None, STEPS("Number of passes over the rows, or give --steps.")] = None
    steps: Annotated[int | None, STEPS("Number of steps; alone, steps without sampling.", min=1)] = None
    noise: Annotated[float | None, NOISE("Standard deviation over the bound on one record.")] = None
    noise_std: Annotated[float | None, NOISE("sigma of ryffel2022, in place of --epsilon.")] = None
    radius: Annotated[float | None, NOISE("Radius of the ball that OPS samples on.")] = None
    teachers: Annotated[int | None, NOISE("Number of PATE's teachers.")] = None
    set: Annotated[list[str] | None, NOISE("Any setting: clip=2, vote.threshold=150, ...")] = None
    explain: Annotated[
        bool, SHOWN("Also what each number rests on, and which accountants cannot price it.", "--explain")
    ] = False
    json: Annotated[bool, SHOWN("One JSON document; infinity is the text inf.", "--json")] = False


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
    delta, least = options.delta, 1e-100 if options.method is None else 1e-4
    require(0 < delta < 1, f"--delta {delta} must be between 0 and 1: take less than 1/records, such as 1e-5")
    require(None in (options.epochs, options.steps), "--epochs and --steps say the same: give one of them")
    for name, smallest in {"epsilon": 0.0, "noise": least, "noise_std": 1e-15}.items():
        if (value := getattr(options, name)) is not None:
            require(0 < value < math.inf, f"{flag(name)} {value} must be positive and finite, such as 1")
            little = f"{flag(name)} {value} is too little noise to price: take {smallest:g} or more"
            require(value >= smallest, little)


def needed(options: Options, **examples: float) -> None:
    """Raise ValueError naming the missing options, with an example value for each."""
    missing = [name for name in examples if getattr(options, name) is None]
    example = " ".join(f"{flag(name)} {examples[name]}" for name in missing)
    require(not missing, f"{' and '.join(map(flag, missing))} missing: add for example {example}")


def sampling_of(options: Options) -> tuple[Any, int]:
    """Return the sampling and the number of records of Gaussian steps; raise ValueError for options of a method."""
    from dplangevin.problems.sampling import Sampling

    for name in ONLY_METHODS:
        without = not getattr(options, name)
        require(without, f"{flag(name)} belongs to a method: name one by --method, or leave it out")
    plain = options.steps is not None and options.records is options.batch is None
    scheme = options.sampling or ("full" if plain else "poisson")
    if not (plain and scheme == "full"):
        needed(options, records=60000, **({} if scheme == "full" else {"batch": 128}))
    timed = options.epochs is not None or options.steps is not None
    require(timed, "how many steps is missing: add for example --epochs 20, or --steps 1000")
    records = options.records or 1  # steps on all rows cost the same on any number of them
    sampling = with_steps(Sampling(scheme, options.batch, options.epochs), options.steps, records)
    many = f"{sampling.steps(records):.4g} steps are more than the {MOST_STEPS:.0e} that are composed"
    require(sampling.steps(records) <= MOST_STEPS, f"{many}: lower --epochs or --steps")
    return sampling, records


def with_steps(sampling: Any, steps: int | None, records: int) -> Any:
    """Return the sampling with the number of epochs for which `Sampling.steps` returns `steps`."""
    from dplangevin.problems.sampling import BY_EPOCH

    if steps is None:
        return sampling
    each = sampling.per_epoch(records) if sampling.scheme in BY_EPOCH else records / sampling.size(records)
    epochs = steps / each
    while math.floor(each * epochs) < steps:
        epochs = math.nextafter(epochs, math.inf)
    return replace(sampling, epochs=epochs)


def noisy_steps(sampling: Any, records: int, noise: float) -> Any:
    """Return Gaussian steps with a noise multiplier."""
    import numpy as np

    from dplangevin.receipt.minibatches import Sampler
    from dplangevin.receipt.prices import NoisySteps

    sampler = Sampler(sampling.scheme, sampling.per_epoch(records))
    noises = np.full(sampling.steps(records), noise)
    return NoisySteps(sampler, records, noises, sampling.rate(records), sampling.size(records))


def gaussian(options: Options) -> Mechanism:
    """Return Gaussian steps with --noise."""
    from dplangevin.privacy.survey import records_public

    sampling, n = sampling_of(options)
    needed(options, noise=1.1)
    noise: Any = options.noise
    of = f"of {sampling.size(n):,} of {n:,} rows"
    how = {
        "poisson": f"on Poisson samples {of}",
        "subset": f"on uniform subsets {of}",
        "random_allocation": f"on randomly allocated minibatches {of}",
        "shuffled": f"on shuffled minibatches {of}",
        "full": "without sampling" + f", on all {n:,} rows" * (n > 1),
    }[sampling.scheme]
    public = records_public(lambda n: (noisy_steps(sampling, n, noise).event(), sampling.rate(n)), n)
    steps = sampling.steps(n)
    return Mechanism(
        f"{counted(steps, 'Gaussian step')} {how}, noise multiplier {noise:.6g}",
        noisy_steps(sampling, n, noise).event(),
        settings={"noise_multiplier": noise, "steps": steps, "rate": sampling.rate(n)},
        rounding=rounding(sampling, options),
        assumptions=("every step's result released", *public),
    )


def of_a_person(options: Options, event: Any, adjacency: Any, rows: int) -> dict[str, Any]:
    """Return the price of a person with up to `rows` records."""
    from dplangevin.receipt.prices import of_records, price

    if options.method is None:
        steps = noisy_steps(*sampling_of(options), cast(float, options.noise))
        epsilon, argument = price(steps, options.delta, adjacency, rows)
    else:
        epsilon, argument = of_records(event, options.delta, adjacency, rows)
    return {"adjacency": adjacency, "rows": rows, "epsilon": epsilon, "argument": argument}


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


def method_of(options: Options) -> Any:
    """Return the method with the settings from the options and from --set."""
    import yaml
    from hydra.utils import instantiate

    from dplangevin.data.yaml_file import OMEGACONF, inexact
    from dplangevin.pipeline import plan, validate

    name, method = str(options.method), method_named(str(options.method))
    public = f"--method {name} has no privacy to price: take a private one, such as dp_sgd or ops"
    require(method.budgeted, public)
    flags = {setting: flag(key) for key, setting in SETTINGS.items() if getattr(options, key) is not None}
    settings = {setting: getattr(options, key) for key, setting in SETTINGS.items() if setting in flags}
    flags |= {"sampling.epochs": "--steps"} if options.steps is not None else {}
    for text in options.set or ():
        setting, equals, value = text.partition("=")
        require(bool(setting and equals), f"--set {text} must be NAME=VALUE, such as --set precision=1")
        twice = f"{flags.get(setting)} and --set {text} set the same: give one of them"
        require(setting not in flags, twice)
        require(not (why := inexact(value)), f"--set {text}: {why}")
        try:
            settings[setting] = yaml.load(value, Loader=OMEGACONF)
        except yaml.YAMLError as error:
            fix = "give a number, a word or a list, such as 1, ridge or [1, 2]"
            raise ValueError(f"--set {text}: {value!r} cannot be read: {fix}") from error
    if settings:
        config = config_of(method)
        for key in (setting.partition(".")[0] for setting in settings):
            own = f"--set NAME=VALUE sets {', '.join(sorted({*config} - {'_target_'}))}"
            require(key in config, f"{name} has no setting {key!r}{meant(key, config)}; {own}")
        config = plan.changed(config, settings)
        for fault in validate.check(config, key=name):
            raise ValueError(fault)
        method = instantiate(config, _convert_="all")
    if options.steps is None:
        return method
    require(hasattr(method, "sampling"), f"{name} takes no steps: leave out --steps {options.steps}")
    records: Any = options.records
    return replace(method, sampling=with_steps(method.sampling, options.steps, records))


def facts_of(options: Options) -> Any:
    """Return the public facts of a linear model on rows of norm at most 1."""
    from dplangevin.problems.glm import linear_facts
    from dplangevin.problems.losses import classifier

    needed(options, records=32561)
    records: Any = options.records
    facts = linear_facts(classifier(options.classes), records, 1, 1.0, options.public_rows)
    return facts._replace(tested=False)


def given(options: Options) -> Mechanism:
    """Return the mechanism that the options describe."""
    return gaussian(options) if options.method is None else planned(options)


def planned(options: Options) -> Mechanism:
    """Return what the method plans for --epsilon; if the options give the noise, nothing is promised."""
    from dplangevin.methods import chain_columns
    from dplangevin.methods.pricing import violated, what_is_done
    from dplangevin.privacy import Budget
    from dplangevin.privacy.events import PUBLIC_RECORDS
    from dplangevin.privacy.survey import records_public

    facts, method = facts_of(options), method_of(options)
    unasked = "--public-rows missing: how many unlabelled rows may be asked about, for example 10000"
    require(not hasattr(method, "vote") or options.public_rows > 0, unasked)
    budget = Budget(options.epsilon or 1.0, options.delta)
    plan = method.plan(facts, budget)
    unpromised = f"{options.method}: --epsilon, which its theorem is asked for, is missing: add for example "
    unpromised += "--epsilon 1, or where it has that setting --noise, --noise-std or --set calibrated=null"
    require(options.epsilon is not None or plan.noise_given, unpromised)
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

    from dplangevin.papers.analyses.mechanisms import described as in_words
    from dplangevin.privacy.accountants.protocol import leaves

    with suppress(AttributeError):  # of an event that is neither Gaussian steps, nor a chain, nor a posterior
        return re.sub(r"\b1 steps", "1 step", in_words(event))
    if [*leaves(event)] != [(event, 1)]:
        return "; ".join(f"{count:,} x {described(leaf)}" for leaf, count in leaves(event))
    numbers = {
        each.name.replace("_", " "): value
        for each in attr.fields(type(event))
        if type(value := getattr(event, each.name)) in (int, float) and value != each.default
    }
    name = re.sub(r"\B([A-Z])", r" \1", type(event).__name__.removesuffix("DpEvent")).lower()
    return ", ".join([name, *(f"{each} {value:.4g}" for each, value in numbers.items())])


def calibrated(options: Options, key: str, adjacency: Any) -> Options:
    """Return the options with the least noise whose ε by this accountant is at most --epsilon.

    With a method, its theorem is given the largest ε that satisfies this, to a relative 1e-4.
    """
    from dplangevin.privacy import Budget, noise_for
    from dplangevin.privacy.survey import ACCOUNTANTS, event_for

    noise_free = options.noise is None and options.noise_std is None
    require(noise_free, "calibrate finds the noise: leave out --noise and --noise-std, or use price")
    needed(options, epsilon=1)
    there = f"{meant(key, ACCOUNTANTS)}; there are {', '.join(ACCOUNTANTS)}"
    require(key in ACCOUNTANTS, f"accountant {key!r} is unknown{there}")
    accountant, goal = ACCOUNTANTS[key].accountant, Budget(options.epsilon or 1.0, options.delta)
    if options.method is None:
        sampling, n = sampling_of(options)
        event = lambda noise: noisy_steps(sampling, n, noise).event()  # noqa: E731
        noise = noise_for(accountant, event, goal, adjacency=adjacency)
        return replace(options, noise=noise)

    from dplangevin.methods.pricing import equal_budget

    promised = equal_budget(
        method_of(options),
        facts_of(options),
        goal,
        adjacency,
        rtol=1e-4,
        accountant=accountant,
        event=lambda plan: event_for(key, plan.guarantee.event, plan.paper),
    )
    return replace(options, epsilon=promised.epsilon)
