"""Events for the options of `dplangevin price` and `calibrate`.

The plan of a method gives the event, as in an experiment. Without a method, the event is Gaussian steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

import typer

WHAT, DATA, STEPS, NOISE = "What is priced", "The data (public)", "Steps", "Noise and settings"
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
PLAIN = ("batch", "epochs", "noise", "schedule")  # the options among these that Gaussian steps have
MOST_STEPS = 10**8  # prices were checked up to this number, see docs/privacy.md
SMALLEST, LARGEST = 1e-2, 1e6  # noise multipliers that `calibrated` tries


@dataclass(frozen=True)
class Asked:
    """The options that `price` and `calibrate` share."""

    method: Annotated[
        str | None,
        typer.Option(
            help="A method of this package (ops, objpert, pate, dp_sgld, dp_sgld_li2019, dp_sgld_ryffel2022, ...) or "
            "package.module.Class of your own; without it, Gaussian steps with --noise.",
            rich_help_panel=WHAT,
        ),
    ] = None
    delta: Annotated[float, typer.Option(help="In (0, 1), best below 1/records.", rich_help_panel=WHAT)] = (
        1e-5
    )
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="price: what the method's own theorem is asked for. calibrate: the budget.",
            rich_help_panel=WHAT,
        ),
    ] = None
    records: Annotated[int | None, typer.Option(help="Rows of the data.", rich_help_panel=DATA)] = None
    loss: Annotated[
        Literal["logistic", "softmax", "huber", "none"],
        typer.Option(
            help="Of a method's linear model; none: a network, whose gradients are clipped.",
            rich_help_panel=DATA,
        ),
    ] = "logistic"
    classes: Annotated[int, typer.Option(help="Of softmax, networks and PATE.", rich_help_panel=DATA)] = 2
    row_bound: Annotated[float, typer.Option(help="Bound on the norm of a row.", rich_help_panel=DATA)] = 1.0
    label_bound: Annotated[float, typer.Option(help="Of huber, on |y|.", rich_help_panel=DATA)] = 1.0
    threshold: Annotated[
        float, typer.Option(help="Of huber, where residuals are cut.", rich_help_panel=DATA)
    ] = 1.0
    public_rows: Annotated[
        int, typer.Option(help="Unlabelled rows that PATE may ask about.", rich_help_panel=DATA)
    ] = 0
    sampling: Annotated[
        Literal["poisson", "subset", "full"] | None,
        typer.Option(help="How a step draws its rows; a method has its own way.", rich_help_panel=STEPS),
    ] = None
    batch: Annotated[
        int | None,
        typer.Option(help="Rows in a step, of Poisson samples in the mean.", rich_help_panel=STEPS),
    ] = None
    epochs: Annotated[
        float | None, typer.Option(help="Passes over the rows, or give --steps.", rich_help_panel=STEPS)
    ] = None
    steps: Annotated[
        int | None, typer.Option(help="Their number, or give --epochs.", rich_help_panel=STEPS)
    ] = None
    schedule: Annotated[
        str | None,
        typer.Option(
            help="Of Gaussian steps: fixed, or decreasing, whose noise multiplier grows as t^(1/6) (li2019). Of a "
            "method: one of its own, such as phase (wang2015) or ryffel2022.",
            rich_help_panel=STEPS,
        ),
    ] = None
    noise: Annotated[
        float | None,
        typer.Option(
            help="Noise multiplier: standard deviation over the bound on one record.", rich_help_panel=NOISE
        ),
    ] = None
    noise_std: Annotated[
        float | None, typer.Option(help="sigma of ryffel2022, in place of --epsilon.", rich_help_panel=NOISE)
    ] = None
    step: Annotated[float | None, typer.Option(help="Step size eta itself.", rich_help_panel=NOISE)] = None
    clip: Annotated[
        float | None, typer.Option(help="Bound on the norm of a gradient.", rich_help_panel=NOISE)
    ] = None
    radius: Annotated[
        float | None, typer.Option(help="Of the ball that OPS samples on.", rich_help_panel=NOISE)
    ] = None
    ridge: Annotated[
        float | None,
        typer.Option(help="Of objective perturbation, on the summed loss.", rich_help_panel=NOISE),
    ] = None
    teachers: Annotated[int | None, typer.Option(help="Of PATE.", rich_help_panel=NOISE)] = None
    queries: Annotated[
        int | None, typer.Option(help="Of PATE, the most that are tested.", rich_help_panel=NOISE)
    ] = None
    set: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=VALUE, any other setting of the method, e.g. vote.threshold=150.",
            rich_help_panel=NOISE,
        ),
    ] = None


class Mechanism(NamedTuple):
    """A mechanism to price.

    Attributes
    ----------
    event : DpEvent
        Event of `dp_accounting`.
    paper : DpEvent or None
        Event that Theorem 3.1 of ryffel2022 prices, if it differs.
    settings : mapping
        Settings that the plan states, and numbers that follow from the budget.
    promised : (float, str) or None
        Promised ε of the method's own theorem at `delta`, and the theorem's name.
    assumptions, violated : sequence of str
        Conditions of the guarantee, and those that fail.
    """

    title: str
    event: Any
    paper: Any = None
    settings: Mapping[str, float | str] = {}
    promised: tuple[float, str] | None = None
    assumptions: Sequence[str] = ()
    violated: Sequence[str] = ()


def taking(options: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that turns each field of `options` into an option of a command.

    The decorated command receives an instance of `options` as its first argument.
    """
    import functools
    import inspect
    import typing

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        hints = typing.get_type_hints(options, include_extras=True)
        names = [each.name for each in fields(options)]
        made = [
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=each.default,
                annotation=hints[each.name],
            )
            for each in fields(options)
        ]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            command(options(**{name: given.pop(name) for name in names}), **given)

        own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
        run.__signature__ = inspect.Signature([*made, *own])  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in [*made, *own]}
        return run

    return decorate


def checked(asked: Asked) -> None:
    """Raise ValueError for numbers that no mechanism can have."""
    from dplangevin.checks import require

    require(
        0 < asked.delta < 1,
        f"--delta {asked.delta} must be between 0 and 1: take less than 1/records, such as 1e-5",
    )
    require(
        asked.epsilon is None or (asked.epsilon > 0 and math.isfinite(asked.epsilon)),
        f"--epsilon {asked.epsilon} must be positive and finite, such as 1",
    )
    require(
        asked.epochs is None or asked.steps is None, "--epochs and --steps say the same: give one of them"
    )
    for name in (
        "records",
        "batch",
        "steps",
        "epochs",
        "noise",
        "noise_std",
        "step",
        "clip",
        "radius",
        "row_bound",
    ):
        value = getattr(asked, name)
        require(
            value is None or (value > 0 and math.isfinite(value)),
            f"{option(name)} {value} must be positive and finite"
            + ("; without noise nothing is private" if name.startswith("noise") else ""),
        )
    least = {"noise": 1e-100 if asked.method is None else 1e-4, "noise_std": 1e-15}
    for name, bound in least.items():
        value = getattr(asked, name)
        require(
            value is None or value >= bound,
            f"{option(name)} {value} is too little noise to price: take {bound:g} or more",
        )
    if asked.records is not None and asked.batch is not None:
        require(
            asked.batch <= asked.records,
            f"--batch {asked.batch} must be at most --records {asked.records}: lower it, or take --sampling full",
        )


def option(name: str) -> str:
    """Return the command-line option of a field, such as --noise-std."""
    return "--" + name.replace("_", "-")


def needed(asked: Asked, **examples: float) -> None:
    """Raise ValueError naming the missing options, with an example value for each."""
    missing = [name for name in examples if getattr(asked, name) is None]
    if missing:
        example = " ".join(f"{option(name)} {examples[name]}" for name in missing)
        raise ValueError(f"{' and '.join(map(option, missing))} missing: add for example {example}")


class Steps(NamedTuple):
    """Gaussian steps whose noise is not yet chosen.

    Attributes
    ----------
    sampling : Sampling
        Sampling scheme, with batch size and number of steps.
    records : int
        Number of rows.
    schedule : {"fixed", "decreasing"}
        "decreasing": the noise multiplier grows as t^(1/6) (li2019).
    """

    sampling: Any
    records: int
    schedule: Literal["fixed", "decreasing"]

    def event(self, noise: float) -> Any:
        """Return the event for a noise multiplier: that of the first step, if the schedule is decreasing."""
        import numpy as np
        from dp_accounting import SelfComposedDpEvent

        from dplangevin.privacy.stepsize import steps_event
        from dplangevin.privacy.subsampled_gaussian import composed_steps

        size, steps = self.sampling.size(self.records), self.sampling.steps(self.records)
        if self.sampling.scheme == "poisson":
            return steps_event(noise, rate=size / self.records, steps=steps, schedule=self.schedule)
        if self.schedule == "fixed":
            return SelfComposedDpEvent(composed_steps(self.records, size, np.array([noise])), steps)
        return composed_steps(self.records, size, noise * np.arange(1, steps + 1) ** (1 / 6))

    def mechanism(self, noise: float) -> Mechanism:
        """Return the mechanism for a noise multiplier."""
        drawn = {"poisson": "Poisson samples", "subset": "uniform subsets", "full": "all rows"}[
            self.sampling.scheme
        ]
        size, steps = self.sampling.size(self.records), self.sampling.steps(self.records)
        of = "" if self.sampling.scheme == "full" else f" of {size:,}"
        title = (
            f"{steps:,} Gaussian steps on {drawn}{of} of {self.records:,} rows, noise multiplier {noise:.6g}"
        )
        if self.schedule == "decreasing":
            title += " at first, growing as t^(1/6)"
        settings = {"noise_multiplier": noise, "steps": steps, "rate": size / self.records}
        assumed = "every step's result released", "number of records public"
        return Mechanism(title, self.event(noise), settings=settings, assumptions=assumed)


def gaussian(asked: Asked) -> Steps:
    """Return the Gaussian steps that the options describe; raise ValueError for options of a method."""
    from dplangevin.checks import require
    from dplangevin.problems.sampling import Sampling
    from dplangevin.text import meant

    for name in (*SETTINGS, "set"):
        if name not in PLAIN and getattr(asked, name):
            raise ValueError(f"{option(name)} belongs to a method: name one by --method, or leave it out")
    schedule = asked.schedule or "fixed"
    known = ("fixed", "decreasing")
    require(
        schedule in known,
        f"--schedule {schedule} is unknown{meant(schedule, known)}: take fixed or decreasing",
    )
    scheme = asked.sampling or "poisson"
    needed(asked, records=60000, **({} if scheme == "full" else {"batch": 128}))
    require(
        scheme != "full" or asked.batch is None,
        f"--sampling full takes all rows: leave out --batch {asked.batch}",
    )
    if asked.epochs is None and asked.steps is None:
        raise ValueError("how many steps is missing: add for example --epochs 20, or --steps 1000")
    assert asked.records is not None
    sampling = Sampling(scheme, asked.batch, asked.epochs)
    if asked.steps is not None:
        sampling = replace(sampling, epochs=passes(asked.steps, sampling, asked.records))
    count, given = sampling.steps(asked.records), "--steps" if asked.steps is not None else "--epochs"
    require(
        count <= MOST_STEPS,
        f"{given} makes {count:.4g} steps, more than the {MOST_STEPS:.0e} that are composed: lower it",
    )
    return Steps(sampling, asked.records, "fixed" if schedule == "fixed" else "decreasing")


def passes(steps: int, sampling: Any, records: int) -> float:
    """Return the number of epochs for which `Sampling.steps` returns `steps`."""
    each = sampling.per_epoch(records) if sampling.scheme == "shuffled" else records / sampling.size(records)
    epochs = steps / each
    while math.floor(each * epochs) < steps:
        epochs = math.nextafter(epochs, math.inf)
    return epochs


def method_of(asked: Asked, **more: Any) -> Any:
    """Return the method with the settings from the options.

    Parameters
    ----------
    asked : Asked
        The options.
    **more : object
        Further settings, by dotted name.

    Raises
    ------
    ValueError
        A method or a setting does not exist; the message suggests similar names.
    """
    from omegaconf import OmegaConf

    from dplangevin.data.yaml_file import inexact
    from dplangevin.methods.registry import METHODS, named

    assert asked.method is not None
    if "." in asked.method and asked.method not in METHODS:
        from dplangevin.cli.comparison import class_named

        method: Any = class_named(asked.method)()
    else:
        method = named(asked.method)
    if not method.budgeted:
        raise ValueError(
            f"--method {asked.method} has no privacy to price: take a private one, such as dp_sgd or ops"
        )
    given = {SETTINGS[name]: value for name in SETTINGS if (value := getattr(asked, name)) is not None}
    known = {each.name for each in fields(method)}
    for name, setting in SETTINGS.items():
        if setting in given and setting.partition(".")[0] not in known:
            raise ValueError(
                f"--method {asked.method} has no use for {option(name)}: its settings, for --set, are "
                f"{', '.join(sorted(known))}"
            )
    if asked.step is not None and "unit" in known:
        given["unit"] = "absolute"
    if asked.steps is not None and asked.records is not None and hasattr(method, "sampling"):
        scheme = asked.sampling or method.sampling.scheme
        batch = None if scheme == "full" else asked.batch or method.sampling.batch
        sampling = replace(method.sampling, scheme=scheme, batch=batch)
        given["sampling.epochs"] = passes(asked.steps, sampling, asked.records)
    if asked.sampling is not None:
        given["sampling.scheme"] = asked.sampling
    tree: Any = OmegaConf.create()
    for name, value in {**given, **more}.items():
        OmegaConf.update(tree, name, value)
    for text in asked.set or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"--set {text} must be NAME=VALUE, such as --set precision=1")
        if why := inexact(value):
            raise ValueError(f"--set {text}: {why}")
        tree = OmegaConf.merge(tree, OmegaConf.from_dotlist([text]))
    return changed(method, OmegaConf.to_container(tree), asked.method)


def changed(thing: Any, tree: Any, where: str) -> Any:
    """Return a dataclass with some settings replaced.

    Parameters
    ----------
    thing : dataclass
        The object.
    tree : mapping
        New settings by name; those of a nested dataclass are a mapping.
    where : str
        Name of the object, for messages.
    """
    from dplangevin.pipeline import validate
    from dplangevin.privacy.survey import ACCOUNTANTS
    from dplangevin.text import meant

    known, hints = {each.name for each in fields(thing)}, validate.annotations(type(thing))
    found = {}
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
            if value not in ACCOUNTANTS:
                raise ValueError(unknown_accountant(value))
            value = ACCOUNTANTS[value].accountant
        elif faults := validate.check(value, hints[name], f"{where}.{name}", objects=False):
            raise ValueError(faults[0])
        found[name] = value
    return replace(thing, **found)


def unknown_accountant(name: str) -> str:
    """Return the error message for an accountant that does not exist."""
    from dplangevin.privacy.survey import ACCOUNTANTS
    from dplangevin.text import meant

    return (
        f"accountant {name!r} is unknown{meant(str(name), ACCOUNTANTS)}; there are {', '.join(ACCOUNTANTS)}"
    )


def facts_of(asked: Asked) -> Any:
    """Return the facts about the data that a method may use in its plan."""
    from dplangevin.problems import Facts
    from dplangevin.problems.glm import linear_facts
    from dplangevin.problems.losses import LOGISTIC, huber, softmax

    needed(asked, records=32561)
    assert asked.records is not None
    if asked.loss == "none":
        return Facts(asked.records, 1, max(asked.classes, 2), public=asked.public_rows, tested=False)
    loss = {
        "logistic": lambda: LOGISTIC,
        "softmax": lambda: softmax(asked.classes),
        "huber": lambda: huber(asked.threshold, asked.label_bound),
    }[asked.loss]()
    return linear_facts(loss, asked.records, 1, asked.row_bound, asked.public_rows)._replace(tested=False)


def planned(asked: Asked) -> Mechanism:
    """Return what the method plans for --epsilon, or for the noise that the options give."""
    from dplangevin.privacy import Budget

    method, facts = method_of(asked), facts_of(asked)
    stated = any(getattr(method, name) is not None for name in _noises(method))
    if asked.epsilon is None and asked.method == "dp_sgld_li2019" and None not in (asked.step, asked.clip):
        method, stated = replace(method, calibrated=None), True
    if asked.epsilon is None and not stated:
        how = "--epsilon, which its theorem is asked for, is missing: add for example --epsilon 1"
        raise ValueError(f"{asked.method}: {how}{_or_noise(method)}")
    if hasattr(method, "vote") and not asked.public_rows:
        raise ValueError(
            "--public-rows missing: how many unlabelled rows may be asked about, for example --public-rows 10000"
        )
    plan = method.plan(facts, Budget(asked.epsilon or 1.0, asked.delta))
    return of_plan(asked, method, plan, facts, stated)


def _or_noise(method: Any) -> str:
    names = [option({"noise_multiplier": "noise"}.get(name, name)) for name in _noises(method)]
    if hasattr(method, "calibrated") and hasattr(method, "clip"):
        names = ["both --step and --clip"]
    return f", or {' or '.join(names)}" if names else ""


def _noises(method: Any) -> list[str]:
    """Return the settings that can give the noise of the method."""
    return [each.name for each in fields(method) if each.name in ("noise_multiplier", "noise_std")]


def of_plan(asked: Asked, method: Any, plan: Any, facts: Any, stated: bool) -> Mechanism:
    """Return the mechanism of a plan; if the options give the noise (`stated`), nothing is promised."""
    from dplangevin.methods import chain_columns
    from dplangevin.methods.prices import violated

    guarantee = plan.guarantee
    promise = None if stated else (guarantee.epsilon, method.accountant.name)
    settings = {**_follows(guarantee.event), **chain_columns(plan, facts.n), **plan.settings}
    title = f"{asked.method} on {facts.n:,} rows: {described(guarantee.event)}"
    notes = tuple(violated(method, plan))
    return Mechanism(title, guarantee.event, plan.paper, settings, promise, guarantee.assumptions, notes)


def _follows(event: Any) -> dict[str, float]:
    """Return the numbers of an event that no plan states."""
    return {
        name: getattr(event, name) for name in ("rho", "ridge", "answers", "queries") if hasattr(event, name)
    }


def described(event: Any) -> str:
    """Return the mechanism in a few words, with its numbers."""
    from dplangevin.papers.analyses.mechanisms import described as in_words
    from dplangevin.privacy import events

    if isinstance(event, events.NearbyDpEvent):
        return f"within total variation {event.total_variation:g} of {described(event.event)}"
    if isinstance(event, events.ShuffledEpochsDpEvent):
        return f"shuffled epochs, one Gaussian mechanism each: {in_words(event.epochs)}"
    if isinstance(event, events.ObjectivePerturbationDpEvent):
        return (
            f"objective perturbation, noise {event.noise_std:.4g} on the summed loss, ridge {event.ridge:.4g}"
        )
    if isinstance(event, events.PureObjectivePerturbationDpEvent):
        return f"objective perturbation, noise exp(-{event.rate:.4g} ||b||), ridge {event.ridge:.4g}"
    if isinstance(event, events.PateDpEvent):
        noise = f"noise {event.threshold_std:.4g} and {event.answer_std:.4g} votes"
        return f"at most {event.queries} threshold tests and {event.answers} answers, {noise}"
    return in_words(event)


def calibrated(asked: Asked, key: str, adjacency: Any) -> Mechanism:
    """Return the mechanism with the least noise whose ε by this accountant is at most --epsilon.

    With a method, its theorem is given the largest ε that satisfies this, to a relative 1e-4.
    """
    from dplangevin import library
    from dplangevin.privacy import Budget, calibrate
    from dplangevin.privacy.survey import ACCOUNTANTS, event_for

    if asked.noise is not None or asked.noise_std is not None:
        raise ValueError("calibrate finds the noise: leave out --noise and --noise-std, or use price")
    needed(asked, epsilon=1)
    if key not in ACCOUNTANTS:
        raise ValueError(unknown_accountant(key))
    assert asked.epsilon is not None
    accountant, budget = ACCOUNTANTS[key].accountant, Budget(asked.epsilon, asked.delta)
    if asked.method is None:
        steps = gaussian(asked)
        noise = calibrate(accountant, steps.event, budget, low=SMALLEST, high=LARGEST, adjacency=adjacency)
        return steps.mechanism(noise)

    found = library.calibrate(
        method_of(asked),
        facts_of(asked),
        budget,
        adjacency,
        rtol=1e-4,
        accountant=accountant,
        event=lambda plan: event_for(key, plan.guarantee.event, plan.paper),
    )
    return planned(replace(asked, epsilon=found.epsilon))
