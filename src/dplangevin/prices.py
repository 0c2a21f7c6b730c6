"""What a row says of its privacy: what the paper charges, tight accountants, and attacks on the row itself.

An experiment names the prices that it wants beside those that every row has, `epsilon_paper` and `epsilon_tight`:
"neighbours" (both kinds), "ryffel2022" (Theorem 3.1 with K in epochs and in steps) and "last_iterate"; and it may name
an attack on its rows.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import attr
import torch
from dp_accounting import DpEvent, NonPrivateDpEvent

from dplangevin.chains.chain import Chain
from dplangevin.methods import Method, Plan, chain_columns
from dplangevin.privacy.accountants.bok2024 import Bok2024
from dplangevin.privacy.accountants.protocol import Accountant
from dplangevin.privacy.accountants.ryffel2022 import Ryffel2022
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.events import Adjacency, LangevinDpEvent, ShuffledEpochsDpEvent
from dplangevin.privacy.stepsize import steps_event
from dplangevin.privacy.subsampled_gaussian import composed_steps
from dplangevin.problems import Facts

NEIGHBOURS: tuple[Adjacency, ...] = ("add_remove", "replace_one")
KNOWN = "neighbours", "ryffel2022", "last_iterate"
# plan, facts, delta, generator -> columns
Attack = Callable[[Plan, Facts, float, torch.Generator], dict[str, Any]]


def priced(
    method: Method,
    plan: Plan,
    facts: Facts,
    delta: float,
    adjacency: Adjacency,
    names: Sequence[str] = (),
    formula: Accountant | None = None,
    attack: Attack | None = None,
    rng: torch.Generator | None = None,
) -> dict[str, Any]:
    """The columns of a row that say what it costs and how, and "violated".

    adjacency: that epsilon_tight is priced under.  formula: the paper's accountant where that is not the method's, for
    the events that it has a theorem for.  attack: on rows of a chain with noise, with draws from rng.
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
    tight = Tight().price(event, delta, adjacency)
    found: dict[str, Any] = {
        "epsilon_paper": claimed,
        "accountant_paper": by,
        "epsilon_tight": tight.epsilon,
        "accountant_tight": tight.accountant,
        "adjacency": guarantee.adjacency,
        "adjacency_tight": adjacency,
    }
    if "neighbours" in names:
        found |= both(event, delta)
    if isinstance(plan.paper, LangevinDpEvent):
        found |= _langevin(plan, plan.paper, facts, delta, names)
    if attack is not None and isinstance(plan.work, Chain) and bool((plan.work.noise_std > 0).all()):
        assert rng is not None, "an attack draws: give it a generator"
        if adjacency != "replace_one":
            raise ValueError(
                f"attacks on rows replace a record, so no price under {adjacency}: audit = replace_one"
            )
        found |= attack(plan, facts, delta, rng)
    found |= {"released": guarantee.released, "sampling": guarantee.sampling}
    found |= {**chain_columns(plan, facts.n), **plan.settings}
    return found | {"violated": "; ".join(violated(method, plan))}


def violated(method: Method, plan: Plan) -> list[str]:
    """What the guarantee needs and does not have, conditions of the paper's theorem among it."""
    guarantee = plan.guarantee
    check = getattr(method.accountant, "violated", None)
    notes = list(plan.violated)
    if plan.paper is None and check and guarantee.sampling != "shuffled":  # of which no theorem here is
        notes += check(guarantee.event, guarantee.delta)
    return notes


def spent(plan: Plan, facts: Facts, steps: int, delta: float) -> dict[str, float]:
    """Tight prices of the first `steps` steps of a chain with every iterate visible, for both kinds of neighbours."""
    return both(first_steps(plan, facts, steps), delta)


def both(event: DpEvent, delta: float) -> dict[str, float]:
    """Tight prices for both kinds of neighbours; nan for one that has none, as of subsets that lose a record."""
    found = {}
    for kind in NEIGHBOURS:
        try:
            found[f"epsilon_{kind}"] = _epsilon(event, delta, kind)
        except ValueError:
            found[f"epsilon_{kind}"] = math.nan
    return found


def first_steps(plan: Plan, facts: Facts, steps: int) -> DpEvent:
    """The event of the first steps of a chain with clipped gradients."""
    chain, n = plan.work, facts.n
    if isinstance(plan.guarantee.event, NonPrivateDpEvent) or not chain.clip < math.inf:
        return NonPrivateDpEvent()
    multipliers = (chain.noise_std / chain.clip)[:steps]
    if chain.sampling.scheme == "poisson":
        schedule = "fixed" if bool((multipliers == multipliers[0]).all()) else "decreasing"
        sigma = float(plan.settings["noise_multiplier"])
        return steps_event(sigma, rate=chain.sampling.rate(n), steps=steps, schedule=schedule)  # type: ignore[arg-type]
    if chain.sampling.scheme == "shuffled":
        return ShuffledEpochsDpEvent.of(chain.sampling.per_epoch(n), multipliers.numpy())
    return composed_steps(n, chain.sampling.size(n), multipliers.numpy())


def whole(event: DpEvent) -> DpEvent:
    """The event with every iterate visible."""
    return event.all_iterates() if isinstance(event, LangevinDpEvent) else event


@cache
def _epsilon(event: DpEvent, delta: float, adjacency: Adjacency) -> float:
    return Tight().epsilon(event, delta, adjacency)


def _langevin(
    plan: Plan, paper: LangevinDpEvent, facts: Facts, delta: float, names: Sequence[str]
) -> dict[str, Any]:
    """Of DP-SGLD as ryffel2022 has it: its formula, and the last-iterate bound where there is one."""
    found: dict[str, Any] = {}
    if "ryffel2022" in names:
        epochs = plan.work.sampling.passes(facts.n)
        passes = attr.evolve(paper, steps=max(1, round(epochs)))
        found["epsilon_formula_epochs"] = Ryffel2022().epsilon(passes, delta)
        found["epsilon_formula_steps"] = Ryffel2022().epsilon(paper, delta)
    if "last_iterate" in names and isinstance(plan.guarantee.event, LangevinDpEvent):
        # what all iterates tell includes the last; both for replace-one neighbours
        last, every = plan.guarantee.event, whole(plan.guarantee.event)
        found["epsilon_last"] = min(Bok2024().epsilon(last, delta), _epsilon(every, delta, "replace_one"))
    return found
