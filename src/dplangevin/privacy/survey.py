"""Comparison of all accountants on one mechanism: for which neighbours, and with what status.

>>> from dp_accounting import GaussianDpEvent
>>> [f"{row.name}: {row.epsilon:.2f}" for row in survey(GaussianDpEvent(4.0), 1e-5) if row.key in ("tight", "rdp")][:2]
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
from dplangevin.privacy.events import Adjacency, LangevinDpEvent

NEIGHBOURS: tuple[Adjacency, ...] = ("add_remove", "replace_one")
N_PUBLIC = "n is taken as public: the steps, the rates, the noise or the prior depend on it (add/remove)"
Status = Literal["tight", "proven", "claim"]
Scope = Literal["last iterate", "all iterates"]
ACCOUNTANTS: Mapping[str, Accountant] = {
    "tight": Tight(),
    "analytic_gaussian": AnalyticGaussian(),
    "rdp": Rdp(),
    "li2019": Moments(),
    "li2019_2048": Moments(max_order=2048),
    "li2019_printed": Moments(max_order=2048, bound="printed"),
    "wang2015": Wang2015(),
    "wang2015_range": Wang2015("range"),
    "ryffel2022": Ryffel2022(),
    "bok2024": Bok2024(),
    "kifer2012": Kifer2012(),
    "chaudhuri2011": Chaudhuri2011(),
    "papernot2018": Papernot2018(),
}
# of a `LangevinDpEvent`; all other accountants price all iterates
SCOPES: Mapping[str, tuple[Scope, ...]] = {
    "tight": get_args(Scope),
    "ryffel2022": ("last iterate",),
    "bok2024": ("last iterate",),
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


def survey(
    event: DpEvent, delta: float, paper: LangevinDpEvent | None = None, violated: Sequence[str] = ()
) -> list[Row]:
    """Price the event by all of ACCOUNTANTS that can; a `LangevinDpEvent` also with all its iterates visible.

    For each neighbour relation, the smallest proven epsilon comes first. Two variants of one accountant with the same
    epsilon give one row.

    - `paper`: The event that ryffel2022's Theorem 3.1 prices, if it differs from `event`.
    - `violated`: Conditions of that theorem that the run fails and `paper` does not show, for example a clip. They
      make that row a claim.
    """
    rows: list[Row] = []
    for adjacency in NEIGHBOURS:
        found: dict[tuple[type, float, Scope], Row] = {}
        for key, scope, priced in _asked(event, paper):
            with suppress(ValueError):  # the accountant has no theorem for this event
                row = _row(key, scope, priced, delta, adjacency, violated if priced is paper else ())
                found.setdefault((type(ACCOUNTANTS[key]), row.epsilon, scope), row)
        rows += sorted(found.values(), key=lambda row: (row.status != "tight", row.epsilon))
    if not rows:
        Tight().epsilon(event, delta, "replace_one")  # raises the error that says why
    return rows


def _asked(event: DpEvent, paper: DpEvent | None) -> Iterator[tuple[str, Scope, DpEvent]]:
    for key in ACCOUNTANTS:
        if key == "ryffel2022" and paper is not None:
            yield key, "last iterate", paper
        elif not isinstance(event, LangevinDpEvent):
            yield key, "all iterates", event
        else:
            for scope in SCOPES.get(key, ("all iterates",)):
                yield key, scope, event if scope == "last iterate" else event.all_iterates()


def _row(
    key: str, scope: Scope, event: DpEvent, delta: float, adjacency: Adjacency, violated: Sequence[str]
) -> Row:
    accountant = ACCOUNTANTS[key]
    status: Status = "tight" if key == "tight" else "proven"
    name, failed = accountant.name, tuple(dict.fromkeys((*_failed(accountant, event, delta), *violated)))
    if isinstance(accountant, Tight):
        epsilon, by = accountant.price(event, delta, adjacency)
        name = f"{name} ({by})"
    else:
        epsilon = accountant.epsilon(event, delta, adjacency)
    return Row(key, name, adjacency, epsilon, "claim" if failed else status, scope, failed)


def _failed(accountant: Accountant, event: DpEvent, delta: float) -> Iterator[str]:
    """Yield the conditions of the accountant's theorem that the event fails, as text with the values."""
    if hasattr(accountant, "violated"):
        with suppress(ValueError):  # the accountant refuses the event, and its `epsilon` says why
            yield from accountant.violated(event, delta)
    for leaf, _ in leaves(event) if isinstance(accountant, Ryffel2022) else ():
        if isinstance(leaf, LangevinDpEvent) and leaf.batch < leaf.records:
            yield f"proved for full batches: batch {leaf.batch} of {leaf.records}"


def reason(error: ValueError | str) -> str:
    """Return why something was refused, without the part before "; " that names the code, see `protocol.refuse`."""
    return str(error).partition("; ")[2] or str(error)


def records_public(mechanism: Callable[[int], Any], n: int) -> tuple[str, ...]:
    """Return N_PUBLIC if the mechanism, event and settings, for n records differs from that for n + 1."""
    try:
        return () if repr(mechanism(n)) == repr(mechanism(n + 1)) else (N_PUBLIC,)
    except ValueError:  # only one of the two numbers can be planned for
        return (N_PUBLIC,)
