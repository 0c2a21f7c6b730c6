"""The mechanism that the options of `dplangevin price` and `calibrate` describe.

The plan of a method gives the event, as in an experiment. Without a method, the event is Gaussian steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

from dplangevin.checks import require
from dplangevin.cli.options import config_of, flag, method_named, option
from dplangevin.cli.output import counted
from dplangevin.text import meant

OF_STEPS = ("sampling", "batch", "epochs", "steps", "noise")  # options; a method has settings for that
OF_EVENTS = ("rho", "ridge", "answers", "queries")  # numbers of an event that no plan states
LEAST = 1e-100  # noise that is less cannot be priced
MOST_STEPS = 10**8  # prices were checked up to this number, see docs/privacy.md


@dataclass(frozen=True)
class Options:
    """The options that `price` and `calibrate` share."""

    method: Annotated[str | None, option("Name, or module.Class of your own; else Gaussian steps.")] = None
    delta: Annotated[float, option("A number in (0, 1), best below 1/records.")] = 1e-5
    epsilon: Annotated[float | None, option("What its theorem promises; for calibrate the budget.")] = None
    records: Annotated[int | None, option("Number of records (public).", min=1)] = None
    classes: Annotated[int, option("Number of classes (public).", min=2)] = 2
    public_rows: Annotated[int, option("Unlabelled rows that PATE may ask about.", min=0)] = 0
    sampling: Annotated[
        Literal["poisson", "subset", "random_allocation", "shuffled", "full"] | None,
        option("How a step draws its rows."),
    ] = None
    batch: Annotated[int | None, option("Rows in a step; for Poisson samples their mean.", min=1)] = None
    epochs: Annotated[float | None, option("Number of passes over the rows.")] = None
    steps: Annotated[int | None, option("Instead of --epochs; alone, without sampling.", min=1)] = None
    noise: Annotated[float | None, option("Standard deviation over the bound on one record.")] = None
    set: Annotated[list[str] | None, option("A setting of the method: radius=10, vote.threshold=150.")] = None
    explain: Annotated[bool, option("Also print what each number rests on.", "--explain")] = False
    json: Annotated[bool, option("One JSON document; infinity is the text inf.", "--json")] = False


class Mechanism(NamedTuple):
    """A mechanism to price."""

    title: str
    event: Any
    settings: Mapping[str, float | str]
    assumptions: Sequence[str]
    steps: Any = None  # the Gaussian steps, for which persons have a price of their own
    paper: Any = None  # event that Theorem 3.1 of ryffel2022 prices, if it differs
    promised: Mapping[str, float | str] | None = None  # ε of the method's own theorem, and the theorem's name
    violated: Sequence[str] = ()  # conditions of the guarantee that fail


def given(options: Options) -> Mechanism:
    """Return the mechanism that the options describe; raise ValueError for numbers that none can have."""
    require(0 < options.delta < 1, f"--delta {options.delta} must be between 0 and 1, such as 1e-5")
    for name in ("epsilon", "noise"):
        value = 1.0 if getattr(options, name) is None else getattr(options, name)
        require(LEAST <= value < math.inf, f"{flag(name)} {value} must be positive and finite, such as 1")
    return gaussian(options) if options.method is None else planned(options)


def needed(options: Options, **examples: float) -> None:
    """Raise ValueError naming the missing options, with an example value for each."""
    missing = [name for name in examples if getattr(options, name) is None]
    example = " ".join(f"{flag(name)} {examples[name]}" for name in missing)
    require(not missing, f"{' and '.join(map(flag, missing))} missing: add for example {example}")


def gaussian_steps(options: Options) -> Any:
    """Return the Gaussian steps of options without a method."""
    import numpy as np

    from dplangevin.problems.sampling import Sampling
    from dplangevin.receipt.minibatches import Sampler
    from dplangevin.receipt.prices import NoisySteps

    for name in ("set", "epsilon", "public_rows"):
        require(not getattr(options, name), f"{flag(name)} is for a method: name one by --method")
    require(None in (options.epochs, options.steps), "--epochs and --steps say the same: give one of them")
    plain = options.steps is not None and options.records is options.batch is None
    scheme = options.sampling or ("full" if plain else "poisson")
    if not (plain and scheme == "full"):
        needed(options, records=60000, **({} if scheme == "full" else {"batch": 128}))
    needed(options, noise=1.1, **({"epochs": 20} if options.steps is None else {}))
    n = options.records or 1  # steps on all rows cost the same on any number of them
    sampling = Sampling(scheme, options.batch, options.epochs)
    steps = options.steps or sampling.steps(n)
    require(steps <= MOST_STEPS, f"{steps:.4g} steps: at most {MOST_STEPS:.0e} are composed")
    sampler = Sampler(scheme, sampling.per_epoch(n))
    return NoisySteps(sampler, n, np.full(steps, options.noise), sampling.rate(n), sampling.size(n))


def gaussian(options: Options) -> Mechanism:
    """Return Gaussian steps with --noise."""
    from dplangevin.privacy.survey import records_public

    def public(n: int) -> Any:
        steps = gaussian_steps(replace(options, records=n))
        return steps.event(), steps.rate

    steps = gaussian_steps(options)
    how = {
        "poisson": "on Poisson samples",
        "subset": "on uniform subsets",
        "random_allocation": "on randomly allocated minibatches",
        "shuffled": "on shuffled minibatches",
        "full": "without sampling",
    }[steps.sampler.scheme]
    of = f" of {steps.batch:,} of {steps.records:,} rows" * (steps.batch < steps.records)
    many, epochs = len(steps.multipliers), options.epochs or 0.0
    more = f"{many:,} steps, as --epochs {epochs:g} makes {epochs / steps.rate:.6g}: for more give --steps"
    return Mechanism(
        f"{counted(many, 'Gaussian step')} {how}{of}, noise multiplier {options.noise:.6g}",
        steps.event(),
        {"noise_multiplier": float(steps.multipliers[0]), "steps": many, "rate": steps.rate},
        [
            "every step's result released",
            *[more] * (epochs / steps.rate > many * (1 + 1e-9)),
            *(records_public(public, options.records) if options.records else ()),
        ],
        steps,
    )


def method_of(options: Options) -> Any:
    """Return the method with the settings from the options and from --set."""
    import yaml
    from hydra.utils import instantiate

    from dplangevin.data.yaml_file import OMEGACONF, inexact
    from dplangevin.pipeline import plan, validate

    name, method = str(options.method), method_named(str(options.method))
    require(method.budgeted, f"--method {name} has no privacy to price: take a private one, such as dp_sgd")
    for each in (each for each in OF_STEPS if getattr(options, each) is not None):
        fix = "--set says it, for example --set sampling.epochs=20 or --set noise_multiplier=1.1"
        raise ValueError(f"{flag(each)} is for Gaussian steps; of a method {fix}")
    settings: dict[str, Any] = {}
    for text in options.set or ():
        setting, equals, value = text.partition("=")
        fault = inexact(value) if setting and equals else "must be NAME=VALUE, such as precision=1"
        require(not fault, f"--set {text}: {fault}")
        try:
            settings[setting] = yaml.load(value, Loader=OMEGACONF)
        except yaml.YAMLError as error:
            raise ValueError(f"--set {text}: {value!r} cannot be read: give a number or a word") from error
    if not settings:
        return method
    config = config_of(method)
    for key in (setting.partition(".")[0] for setting in settings):
        own = f"it has {', '.join(sorted({*config} - {'_target_'}))}"
        require(key in config, f"{name} has no setting {key!r}{meant(key, config)}; {own}")
    config = plan.changed(config, settings)
    for fault in validate.check(config, key=f"{name}."):
        raise ValueError(fault)
    return instantiate(config, _convert_="all")


def planned(options: Options) -> Mechanism:
    """Return what the method plans for --epsilon, for a linear model."""
    from dplangevin.methods import chain_columns
    from dplangevin.methods.pricing import violated, what_is_done
    from dplangevin.privacy import Budget
    from dplangevin.privacy.events import PUBLIC_RECORDS
    from dplangevin.privacy.survey import records_public
    from dplangevin.problems.glm import linear_facts
    from dplangevin.problems.losses import classifier

    needed(options, records=32561)
    records: Any = options.records
    facts = linear_facts(classifier(options.classes), records, 1, 1.0, options.public_rows)
    facts = facts._replace(tested=False)
    method = method_of(options)
    unasked = "--public-rows missing: how many unlabelled rows may be asked about, for example 10000"
    require(not hasattr(method, "vote") or options.public_rows > 0, unasked)
    budget = Budget(options.epsilon or 1.0, options.delta)
    plan = method.plan(facts, budget)
    if not plan.noise_given:
        needed(options, epsilon=1)
    guarantee, event = plan.guarantee, plan.guarantee.event
    of_event = {name: getattr(event, name) for name in OF_EVENTS if hasattr(event, name)}
    public = records_public(what_is_done(method, facts, budget), facts.n)
    return Mechanism(
        f"{options.method} on {facts.n:,} rows",
        event,
        {**of_event, **chain_columns(plan, facts.n), **plan.settings},
        [*(text for text in guarantee.assumptions if text != PUBLIC_RECORDS), *public],
        None,
        plan.paper,
        None if plan.noise_given else {"epsilon": guarantee.epsilon, "by": method.accountant.name},
        [text for text in violated(method, plan) if text],
    )


def calibrated(options: Options, key: str, adjacency: Any) -> Options:
    """Return the options with the least noise whose ε by this accountant is at most --epsilon."""
    from dplangevin.privacy import Budget, noise_for
    from dplangevin.privacy.survey import ACCOUNTANTS

    require(options.method is None, f"--method {options.method}: use `dplangevin.budget_for` in Python")
    require(options.noise is None, "calibrate finds the noise: leave out --noise, or use price")
    needed(options, epsilon=1)
    there = f"{meant(key, ACCOUNTANTS)}; there are {', '.join(ACCOUNTANTS)}"
    require(key in ACCOUNTANTS, f"accountant {key!r} is unknown{there}")
    one = gaussian_steps(replace(options, epsilon=None, noise=1.0))
    event = lambda noise: one._replace(multipliers=noise * one.multipliers).event()  # noqa: E731
    goal = Budget(options.epsilon or 1.0, options.delta)
    noise = noise_for(ACCOUNTANTS[key], event, goal, adjacency=adjacency)
    return replace(options, epsilon=None, noise=noise)
