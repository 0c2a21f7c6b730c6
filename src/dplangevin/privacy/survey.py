"""Comparison of all accountants on one mechanism: for which neighbours, and by what argument.

>>> from dp_accounting import GaussianDpEvent
>>> found = survey(GaussianDpEvent(4.0), 1e-5)
>>> [f"{row.name}: {row.epsilon:.2f}" for row in found.prices if row.key in ("tight", "rdp")][:2]
['tight (analytic Gaussian): 0.93', 'RDP: 1.01']
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, get_args

from dp_accounting import DpEvent, GaussianDpEvent, SampledWithoutReplacementDpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent

from dplangevin.privacy.accountants import profiles
from dplangevin.privacy.accountants.analytic_gaussian import AnalyticGaussian, mu_of
from dplangevin.privacy.accountants.bok2024 import Bok2024
from dplangevin.privacy.accountants.chaudhuri2011 import Chaudhuri2011
from dplangevin.privacy.accountants.google import FAINTEST, DpAccounting
from dplangevin.privacy.accountants.kifer2012 import Kifer2012
from dplangevin.privacy.accountants.li2019 import Li2019
from dplangevin.privacy.accountants.papernot2018 import Papernot2018
from dplangevin.privacy.accountants.protocol import Accountant, leaves, refuse
from dplangevin.privacy.accountants.rdp import Rdp
from dplangevin.privacy.accountants.ryffel2022 import Ryffel2022
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.accountants.wang2015 import Wang2015
from dplangevin.privacy.events import Adjacency, LangevinDpEvent, check_delta
from dplangevin.privacy.subsampled_gaussian import is_subsampled, rate_and_multiplier
from dplangevin.text import short

MOST_BYTES = 1e9  # for all grids of an accountant; such grids take up to 7 seconds
N_PUBLIC = "n is taken as public: the steps, the rates, the noise or the prior depend on it (add/remove)"
Status = Literal["tight", "proven", "claim", "reference"]
Scope = Literal["last iterate", "all iterates"]


class Entry(NamedTuple):
    """An accountant, its theorem in words, and what it prices of a `LangevinDpEvent`; `status` as in `Row`."""

    accountant: Accountant
    argument: str
    status: Status = "proven"
    scopes: tuple[Scope, ...] = ("all iterates",)


ACCOUNTANTS: Mapping[str, Entry] = {
    "tight": Entry(
        Tight(),
        "closed forms and privacy loss distributions, every rounding error charged to delta",
        "tight",
        get_args(Scope),
    ),
    "analytic_gaussian": Entry(
        AnalyticGaussian(), "the exact curve of Gaussian noise (Balle and Wang 2018); no sampling"
    ),
    "rdp": Entry(
        Rdp(),
        "Renyi divergences of a step add up; one conversion to epsilon (Mironov 2017); the best of several runs by "
        "Theorems 2 and 6 of Papernot and Steinke (2022)",
    ),
    "li2019": Entry(
        Li2019(), "moments accountant with orders 1 to 32, which cannot report less than ln(1/delta)/32"
    ),
    "li2019_2048": Entry(Li2019(max_order=2048), "moments accountant with orders 1 to 2,048"),
    "li2019_printed": Entry(
        Li2019(max_order=2048, bound="printed"),
        "Remark 1's closed form of the moments, which Lemma 2 proves for small rates, much noise and low orders",
    ),
    "wang2015": Entry(
        Wang2015(), "Theorems 1, 4 and 5: advanced composition of subsets, 4 rho B of a posterior sample"
    ),
    "wang2015_range": Entry(
        Wang2015("range"), "the same, with 2 rho times the range of a record's loss for a posterior sample"
    ),
    "ryffel2022": Entry(
        Ryffel2022(),
        "Theorem 3.1: hidden iterates, full batches, strongly convex and smooth losses, a random start",
        scopes=("last iterate",),
    ),
    "bok2024": Entry(
        Bok2024(),
        "shifted interpolation: hidden iterates; every record's loss convex and smooth, or full batches in a ball",
        scopes=("last iterate",),
    ),
    "kifer2012": Entry(
        Kifer2012(), "Theorem 2 of objective perturbation with Gaussian noise, exact minimiser"
    ),
    "chaudhuri2011": Entry(
        Chaudhuri2011(), "Theorem 9 of objective perturbation, pure epsilon, exact minimiser"
    ),
    "papernot2018": Entry(Papernot2018(), "Renyi divergences of noisy votes, whatever the votes"),
    "dp_accounting_pld": Entry(
        DpAccounting(),
        "Google's privacy loss distributions at a fixed grid, on their own code",
        "reference",
    ),
}


class Row(NamedTuple):
    """The epsilon that one accountant reports for the mechanism.

    `status`: "tight": the smallest epsilon that we can prove. "proven": an upper bound. "claim": a formula with a
    condition that fails here (`violated`). "reference": an upper bound by other people's code.
    """

    key: str
    name: str
    adjacency: Adjacency
    epsilon: float
    status: Status
    scope: Scope
    violated: tuple[str, ...]
    argument: str


class Refusal(NamedTuple):
    """The reason why an accountant reports no epsilon; adjacency "" stands for all."""

    name: str
    adjacency: Adjacency | Literal[""]
    reason: str


class Survey(NamedTuple):
    """For each neighbour relation, the smallest proven epsilon first, then the others; and the refusals."""

    prices: list[Row]
    refusals: list[Refusal]


def survey(
    event: DpEvent,
    delta: float,
    paper: LangevinDpEvent | None = None,
    neighbours: Sequence[Adjacency] = ("add_remove", "replace_one"),
    violated: Sequence[str] = (),
) -> Survey:
    """Price the event by all of ACCOUNTANTS; a `LangevinDpEvent` also with all its iterates visible.

    Two variants of one accountant with the same epsilon give one row.

    - `paper`: The event that ryffel2022's Theorem 3.1 prices, if it differs from `event`.
    - `violated`: Conditions of that theorem that the run fails and `paper` does not show, for example a clip. They
      make that row a claim.
    """
    check_delta(delta)
    rows: list[Row] = []
    refused: dict[tuple[str, Adjacency], ValueError] = {}
    for adjacency in neighbours:
        found: dict[tuple[type, float, Scope], Row] = {}
        for key, scope, priced in _asked(event, paper):
            try:
                row = _row(key, scope, priced, delta, adjacency, violated if priced is paper else ())
                found.setdefault((type(ACCOUNTANTS[key].accountant), row.epsilon, scope), row)
            except ValueError as error:
                refused[key, adjacency] = error
        rows += sorted(found.values(), key=lambda row: (row.status != "tight", row.epsilon))
    return Survey(rows, _refusals(refused, neighbours))


def event_for(key: str, event: DpEvent, paper: DpEvent | None = None) -> DpEvent:
    """Return the event that ACCOUNTANTS[key] prices: the last iterate alone if it has a theorem for that."""
    return next(priced for name, _, priced in _asked(event, paper) if name == key)


def _asked(event: DpEvent, paper: DpEvent | None) -> Iterator[tuple[str, Scope, DpEvent]]:
    for key, entry in ACCOUNTANTS.items():
        if key == "ryffel2022" and paper is not None:
            yield key, "last iterate", paper
        elif not isinstance(event, LangevinDpEvent):
            yield key, "all iterates", event
        else:
            for scope in entry.scopes:
                yield key, scope, event if scope == "last iterate" else event.all_iterates()


def _row(
    key: str, scope: Scope, event: DpEvent, delta: float, adjacency: Adjacency, violated: Sequence[str]
) -> Row:
    """Return the accountant's epsilon as a row, or raise ValueError if its grids would be too large."""
    accountant, argument, status, _ = ACCOUNTANTS[key]
    size = grid_bytes(accountant, event, adjacency)
    if size > MOST_BYTES:
        why = f"skipped, since its grids add up to about {short(size / 1e9)} GB, more than {MOST_BYTES / 1e9:g} GB"
        raise refuse(accountant.name, event, why)
    name, failed = accountant.name, tuple(dict.fromkeys((*_failed(accountant, event, delta), *violated)))
    if isinstance(accountant, Tight):
        epsilon, by = accountant.price(event, delta, adjacency)
        name = f"{name} ({by})"
    else:
        epsilon = accountant.epsilon(event, delta, adjacency)
    status = "claim" if failed else status
    return Row(key, name, adjacency, epsilon, status, scope, failed, argument)


def grid_bytes(accountant: Accountant, event: DpEvent, adjacency: Adjacency) -> float:
    """Return about how many bytes the accountant's grids take, as measured, summed over distinct Gaussian steps.

    It is 0 for steps that the accountant refuses itself. `Tight` and `Bok2024` limit their own grids.
    """
    steps, total = Counter[DpEvent](), 0.0
    for leaf, count in leaves(event):
        steps[leaf] += count
    for leaf, count in steps.items():
        if isinstance(leaf, RepeatAndSelectDpEvent):
            total += grid_bytes(accountant, leaf.event, adjacency)
        if not isinstance(leaf.event if is_subsampled(leaf) else leaf, GaussianDpEvent):
            continue
        rate, multiplier = rate_and_multiplier(leaf)
        subset = isinstance(leaf, SampledWithoutReplacementDpEvent)
        if rate == 0 or multiplier == 0:
            continue
        if isinstance(accountant, Li2019) and accountant.bound == "numerical" and not subset:
            total += 1e5 / multiplier
        elif isinstance(accountant, Rdp) and rate < 1 and subset is (adjacency == "replace_one"):
            total += 7e6 / multiplier if subset else 1.1e5 / min(multiplier, 1.0) ** 2
        elif isinstance(accountant, DpAccounting) and not subset and multiplier >= FAINTEST:
            if is_subsampled(leaf):
                pair, number = profiles.poisson(rate, multiplier, adjacency)[0], count
            else:
                pair, number = profiles.gaussian(mu_of(multiplier / math.sqrt(count), adjacency)), 1
            low, high = pair.reach(math.exp(-50), math.exp(-50))
            one = high - low
            both = min(number * one, one + 16 * math.sqrt(number) * pair.spread) if number > 1 else 0.0
            total += (
                430 * one + 100 * both
            ) / 1e-4  # bytes of a point, in a step and in the sum, over the spacing
    return total


def _failed(accountant: Accountant, event: DpEvent, delta: float) -> Iterator[str]:
    """Yield the conditions of the accountant's theorem that the event fails, as text with the values."""
    if hasattr(accountant, "violated"):
        with suppress(ValueError):  # the accountant refuses the event, and its `epsilon` says why
            yield from accountant.violated(event, delta)
    for leaf, _ in leaves(event) if isinstance(accountant, Ryffel2022) else ():
        if isinstance(leaf, LangevinDpEvent) and leaf.batch < leaf.records:
            yield f"proved for full batches: batch {leaf.batch} of {leaf.records}"
        if isinstance(leaf, LangevinDpEvent) and not leaf.convex:
            yield "proved for convex losses"


def _refusals(
    errors: Mapping[tuple[str, Adjacency], ValueError], neighbours: Sequence[Adjacency]
) -> list[Refusal]:
    """Return one refusal for each reason and relation; variants of an accountant with the same reason share it."""
    found: dict[tuple[object, str, Adjacency | Literal[""]], Refusal] = {}
    for (key, adjacency), error in errors.items():
        accountant, every = ACCOUNTANTS[key].accountant, all((key, other) in errors for other in neighbours)
        if every:  # then the event itself is refused; choose the error that says so
            each = [errors[key, other] for other in neighbours]
            error = max(each, key=lambda e: ("skipped" in str(e), "cannot price adjacency" not in str(e)))
        of: Adjacency | Literal[""] = "" if every else adjacency
        found.setdefault((type(accountant), reason(error), of), Refusal(accountant.name, of, reason(error)))
    return list(found.values())


def reason(error: ValueError) -> str:
    """Return why something was refused, without the part before "; " that names the code, see `protocol.refuse`."""
    return str(error).partition("; ")[2] or str(error)


def records_public(mechanism: Callable[[int], Any], n: int) -> tuple[str, ...]:
    """Return N_PUBLIC if the mechanism, event and settings, for n records differs from that for n + 1."""
    try:
        return () if repr(mechanism(n)) == repr(mechanism(n + 1)) else (N_PUBLIC,)
    except ValueError:  # only one of the two numbers can be planned for
        return (N_PUBLIC,)
