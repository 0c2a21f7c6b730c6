"""The privacy columns of a row of results: promised epsilon, proven epsilon, and further prices by name.

* "neighbours": the proven epsilon for both kinds of neighbours.
* "ryffel2022": Theorem 3.1, with K in epochs and in steps.
* "last_iterate": a bound for the release of the last iterate alone.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import attr
import numpy as np
import torch
from dp_accounting import DpEvent, NonPrivateDpEvent, UnsupportedDpEvent

from dplangevin.methods import Method, Plan, chain_columns
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.last_iterate import Bok2024, Ryffel2022
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.tight import Price, Tight
from dplangevin.privacy.calibration import noise_for
from dplangevin.privacy.events import (
    Adjacency,
    LangevinDpEvent,
    RandomAllocationDpEvent,
    ShuffledEpochsDpEvent,
)
from dplangevin.privacy.gaussian_steps import composed_steps, steps_event
from dplangevin.problems import Facts, Problem
from dplangevin.problems.chain import Chain

NEIGHBOURS: tuple[Adjacency, ...] = ("add_remove", "replace_one")
TIGHT = Tight()
WIDER, NARROWER = 1e3, 16.0  # `equal_budget` tries budgets from 1/NARROWER to WIDER times the target
KNOWN = "neighbours", "ryffel2022", "last_iterate"
# method, plan, problem, delta, generator -> columns
Attack = Callable[[Method, Plan, Problem, float, torch.Generator], dict[str, Any]]


def priced(
    method: Method,
    plan: Plan,
    facts: Facts,
    delta: float,
    adjacency: Adjacency,
    names: Sequence[str] = (),
    formula: Accountant | None = None,
    attack: Callable[[], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return the columns of a row of results that say what the plan costs and how, and "violated".

    - `adjacency`: neighbour relation of the proven epsilon, at `delta`. `names`: further prices of the module's list.
    - `formula`: Accountant of the paper for the events that it covers, if it is not the method's own.
    - `attack`: returns the columns of an attack; called only for a chain with noise in every step.
    """
    if unknown := sorted(set(names) - set(KNOWN)):
        raise ValueError(f"unknown prices {unknown}: an experiment can ask for {', '.join(KNOWN)}")
    guarantee, event = plan.guarantee, whole(plan.guarantee.event)
    claimed, by = guarantee.epsilon, method.accountant.name
    if formula is not None:
        try:
            claimed, by = formula.epsilon(event, guarantee.delta, "add_remove"), formula.name
        except ValueError:
            by = "the method's own"
    proven = not isinstance(event, UnsupportedDpEvent)  # else it is the claim of another package
    tight = Tight().price(event, delta, adjacency) if proven else Price(math.nan, "none")
    found: dict[str, Any] = {
        "epsilon_promised": claimed,
        "accountant_promised": by,
        "epsilon_proven": tight.epsilon,
        "accountant_proven": tight.accountant,
        "adjacency": guarantee.adjacency,
        "adjacency_proven": adjacency,
    }
    if "neighbours" in names:
        found |= both(event, delta)
    if isinstance(plan.paper, LangevinDpEvent):
        found |= _langevin(plan, plan.paper, facts, delta, names)
    if attack is not None and isinstance(plan.work, Chain) and bool((plan.work.noise_std > 0).all()):
        if adjacency != "replace_one":
            raise ValueError(
                f"attacks on rows replace a record, so no price under {adjacency}: price_neighbours = replace_one"
            )
        found |= attack()
    found |= {"released": guarantee.released, "sampling": guarantee.sampling}
    found |= {**chain_columns(plan, facts.n), **plan.settings}
    return found | {"violated": "; ".join(violated(method, plan))}


def violated(method: Method, plan: Plan) -> list[str]:
    """Return what the guarantee needs and does not have, with the conditions of the paper's theorem."""
    guarantee = plan.guarantee
    check = getattr(method.accountant, "violated", None)
    notes = list(plan.violated)
    if plan.paper is None and check and guarantee.sampling != "shuffled":  # no theorem covers it
        notes += check(guarantee.event, guarantee.delta)
    return notes


def what_is_done(method: Method, facts: Facts, budget: Budget) -> Callable[[int], Any]:
    """Return a function of n, for `records_public`, that returns the guarantee's event and the settings of the plan."""

    def mechanism(n: int) -> Any:
        plan = method.plan(facts._replace(n=n), budget)
        parts = [chain_columns(plan._replace(work=chain), n) for chain in _chains(plan.work)]
        done: list[dict[str, Any]] = [dict(plan.settings), *parts]
        if teachers := getattr(method, "teachers", None):  # all have steps and shapes for the largest of them
            done.append({"teacher_rows": math.ceil(n / teachers)})
        for part in done:
            if "l2" in part:  # a column on the scale of the mean loss; the prior itself is on that of the sum
                part["l2"] = f"{float(part['l2']) * n:.9g}"
        return plan.guarantee.event, done

    return mechanism


def _chains(work: Any) -> list[Chain]:
    if isinstance(work, Chain):
        return [work]
    if isinstance(work, Plan):
        return _chains(work.work)
    return [chain for part in work for chain in _chains(part)] if isinstance(work, tuple) else []


def spent(plan: Plan, facts: Facts, steps: int, delta: float) -> dict[str, float]:
    """Return the proven epsilon of the first steps of a chain, every iterate visible, for both kinds of neighbours."""
    return both(first_steps(plan, facts, steps), delta)


def both(event: DpEvent, delta: float) -> dict[str, float]:
    """Return the proven epsilon for both kinds of neighbours; nan for a kind that has none."""
    found = {}
    for kind in NEIGHBOURS:
        try:
            found[f"epsilon_{kind}"] = _epsilon(event, delta, kind)
        except ValueError:
            found[f"epsilon_{kind}"] = math.nan
    return found


def first_steps(plan: Plan, facts: Facts, steps: int) -> DpEvent:
    """Return the event of the first steps of a chain with clipped gradients."""
    chain, n = plan.work, facts.n
    moved = chain.sensitivity(n)
    if isinstance(plan.guarantee.event, NonPrivateDpEvent) or not moved < math.inf:
        return NonPrivateDpEvent()
    multipliers = (chain.noise_std / moved)[:steps]
    if chain.sampling.scheme == "poisson":
        sigma, rate = float(plan.settings["noise_multiplier"]), chain.sampling.rate(n)
        if bool((multipliers == multipliers[0]).all()):
            return steps_event(sigma, rate=rate, steps=steps, schedule="fixed")
        if np.allclose(multipliers, sigma * np.arange(1, steps + 1) ** (1 / 6), rtol=1e-6, atol=0):
            return steps_event(sigma, rate=rate, steps=steps, schedule="decreasing")
        return composed_steps(n, chain.sampling.size(n), multipliers.numpy(), poisson=True)
    if chain.sampling.scheme == "random_allocation":
        return RandomAllocationDpEvent.of(chain.sampling.per_epoch(n), multipliers.numpy())
    if chain.sampling.scheme == "shuffled":
        return ShuffledEpochsDpEvent.of(chain.sampling.per_epoch(n), multipliers.numpy())
    return composed_steps(n, chain.sampling.size(n), multipliers.numpy())


def whole(event: DpEvent) -> DpEvent:
    """Return the event, with every iterate visible."""
    return event.all_iterates() if isinstance(event, LangevinDpEvent) else event


def visible(plan: Plan) -> DpEvent:
    """Return the event of a plan with every iterate visible, as the proven epsilon counts it."""
    return whole(plan.guarantee.event)


def equal_budget(
    method: Method,
    facts: Facts,
    target: Budget,
    adjacency: Adjacency,
    *,
    rtol: float,
    accountant: Accountant = TIGHT,
    event: Callable[[Plan], DpEvent] = visible,
) -> Budget:
    """Return the budget to give to a method so that the proven epsilon of `event` is `target`, to a relative rtol."""
    if target.epsilon == math.inf:
        return target

    def asked(noise: float) -> Budget:
        return Budget(target.epsilon / noise, target.delta)

    def made(noise: float) -> DpEvent:
        return event(method.plan(facts, asked(noise)))

    cost = accountant.epsilon(made(1.0), target.delta, adjacency)
    if (1 - rtol) * target.epsilon < cost <= target.epsilon:
        return target
    high = NARROWER if cost > target.epsilon else 1.0
    noise = noise_for(accountant, made, target, low=1 / WIDER, high=high, adjacency=adjacency, rtol=rtol)
    return asked(noise)


@cache
def _epsilon(event: DpEvent, delta: float, adjacency: Adjacency) -> float:
    return Tight().epsilon(event, delta, adjacency)


def _langevin(
    plan: Plan, paper: LangevinDpEvent, facts: Facts, delta: float, names: Sequence[str]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "ryffel2022" in names:
        epochs = plan.work.sampling.passes(facts.n)
        passes = attr.evolve(paper, steps=max(1, round(epochs)))
        found["epsilon_formula_epochs"] = Ryffel2022().epsilon(passes, delta)
        found["epsilon_formula_steps"] = Ryffel2022().epsilon(paper, delta)
    if "last_iterate" in names and isinstance(plan.guarantee.event, LangevinDpEvent):
        # a bound for all iterates holds for the last one, too; both are for replace-one neighbours
        last, every = plan.guarantee.event, whole(plan.guarantee.event)
        found["epsilon_last"] = min(Bok2024().epsilon(last, delta), _epsilon(every, delta, "replace_one"))
    return found
