"""Comparison of all accountants on one mechanism: for which neighbours, and by what argument.

>>> from dp_accounting import GaussianDpEvent
>>> found = survey(GaussianDpEvent(4.0), 1e-5)
>>> [f"{row.name}: {row.epsilon:.2f}" for row in found.prices if row.key in ("tight", "rdp")][:2]
['tight (analytic Gaussian): 0.93', 'RDP: 1.01']
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, get_args

from dp_accounting import DpEvent

from dplangevin.privacy.accountants.analytic_gaussian import AnalyticGaussian
from dplangevin.privacy.accountants.last_iterate import Bok2024, Ryffel2022
from dplangevin.privacy.accountants.moments_accountant import Moments, Rdp
from dplangevin.privacy.accountants.objective import Chaudhuri2011, Kifer2012
from dplangevin.privacy.accountants.papernot2018 import Papernot2018
from dplangevin.privacy.accountants.protocol import Accountant, leaves
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.privacy.accountants.wang2015 import Wang2015
from dplangevin.privacy.events import Adjacency, LangevinDpEvent, check_delta

NEIGHBOURS: tuple[Adjacency, ...] = ("add_remove", "replace_one")
N_PUBLIC = "n is taken as public: the steps, the rates, the noise or the prior depend on it (add/remove)"
Status = Literal["tight", "proven", "claim"]
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
        "Renyi divergences of a step add up; one conversion to epsilon (Mironov 2017)",
    ),
    "li2019": Entry(
        Moments(), "moments accountant with orders 1 to 32, which cannot report less than ln(1/delta)/32"
    ),
    "li2019_2048": Entry(Moments(max_order=2048), "moments accountant with orders 1 to 2,048"),
    "li2019_printed": Entry(
        Moments(max_order=2048, bound="printed"),
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
        "shifted interpolation: hidden iterates; every record's loss convex and smooth",
        scopes=("last iterate",),
    ),
    "kifer2012": Entry(
        Kifer2012(), "Theorem 2 of objective perturbation with Gaussian noise, exact minimiser"
    ),
    "chaudhuri2011": Entry(
        Chaudhuri2011(), "Theorem 9 of objective perturbation, pure epsilon, exact minimiser"
    ),
    "papernot2018": Entry(Papernot2018(), "Renyi divergences of noisy votes, whatever the votes"),
}


class Row(NamedTuple):
    """The epsilon that one accountant reports for the mechanism.

    `status`: "tight": the smallest epsilon that we can prove. "proven": an upper bound. "claim": a formula with a
    condition that fails here (`violated`).
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
    adjacency: str
    reason: str


class Survey(NamedTuple):
    """For each neighbour relation, the smallest proven epsilon first, then the others; and the refusals."""

    prices: list[Row]
    refusals: list[Refusal]


def survey(
    event: DpEvent, delta: float, paper: LangevinDpEvent | None = None, violated: Sequence[str] = ()
) -> Survey:
    """Price the event by all of ACCOUNTANTS; a `LangevinDpEvent` also with all its iterates visible.

    Two variants of one accountant with the same epsilon give one row.

    - `paper`: The event that ryffel2022's Theorem 3.1 prices, if it differs from `event`.
    - `violated`: Conditions of that theorem that the run fails and `paper` does not show, for example a clip. They
      make that row a claim.
    """
    check_delta(delta)
    rows: list[Row] = []
    refused: dict[str, dict[Adjacency, str]] = {}
    for adjacency in NEIGHBOURS:
        found: dict[tuple[type, float, Scope], Row] = {}
        for key, scope, priced in _asked(event, paper):
            try:
                row = _row(key, scope, priced, delta, adjacency, violated if priced is paper else ())
                found.setdefault((type(ACCOUNTANTS[key].accountant), row.epsilon, scope), row)
            except ValueError as error:
                refused.setdefault(key, {})[adjacency] = str(error)
        rows += sorted(found.values(), key=lambda row: (row.status != "tight", row.epsilon))
    return Survey(rows, _refusals(refused))


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
    """Return the accountant's epsilon as a row."""
    accountant, argument, status, _ = ACCOUNTANTS[key]
    name, failed = accountant.name, tuple(dict.fromkeys((*_failed(accountant, event, delta), *violated)))
    if isinstance(accountant, Tight):
        epsilon, by = accountant.price(event, delta, adjacency)
        name = f"{name} ({by})"
    else:
        epsilon = accountant.epsilon(event, delta, adjacency)
    return Row(key, name, adjacency, epsilon, "claim" if failed else status, scope, failed, argument)


def _failed(accountant: Accountant, event: DpEvent, delta: float) -> Iterator[str]:
    """Yield the conditions of the accountant's theorem that the event fails, as text with the values."""
    if hasattr(accountant, "violated"):
        with suppress(ValueError):  # the accountant refuses the event, and its `epsilon` says why
            yield from accountant.violated(event, delta)
    for leaf, _ in leaves(event) if isinstance(accountant, Ryffel2022) else ():
        if isinstance(leaf, LangevinDpEvent) and leaf.batch < leaf.records:
            yield f"proved for full batches: batch {leaf.batch} of {leaf.records}"


def _refusals(refused: Mapping[str, Mapping[Adjacency, str]]) -> list[Refusal]:
    """Return one refusal for each reason and relation; variants of an accountant with the same reason share it."""
    found: dict[tuple[object, str, str], Refusal] = {}
    for key, given in refused.items():
        accountant, errors = ACCOUNTANTS[key].accountant, {str(of): text for of, text in given.items()}
        if len(errors) == len(NEIGHBOURS):  # then the event itself is refused; choose the error that says so
            errors = {"": max(errors.values(), key=lambda text: "cannot price adjacency" not in text)}
        for of, text in errors.items():
            found.setdefault((type(accountant), reason(text), of), Refusal(accountant.name, of, reason(text)))
    return list(found.values())


def reason(error: ValueError | str) -> str:
    """Return why something was refused, without the part before "; " that names the code, see `protocol.refuse`."""
    return str(error).partition("; ")[2] or str(error)


def records_public(mechanism: Callable[[int], Any], n: int) -> tuple[str, ...]:
    """Return N_PUBLIC if the mechanism, event and settings, for n records differs from that for n + 1."""
    try:
        return () if repr(mechanism(n)) == repr(mechanism(n + 1)) else (N_PUBLIC,)
    except ValueError:  # only one of the two numbers can be planned for
        return (N_PUBLIC,)
