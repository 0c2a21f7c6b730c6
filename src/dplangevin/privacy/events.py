"""What was promised (`Budget`), what was done (`DpEvent`s) and both together (`Guarantee`).

dp_accounting's events are used wherever they fit. The classes here say what they cannot. In this
project the `noise_multiplier` of a `GaussianDpEvent` is the noise's standard deviation divided by the bound
on *one record's* norm (L, or the clip), whatever the adjacency; it is not relative to the replace-one
sensitivity 2L.

>>> Budget(1.0, 1e-5)
Budget(epsilon=1.0, delta=1e-05)
>>> PosteriorSampleDpEvent(rho=0.1, radius=5.0).range
1.0
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import attr
from dp_accounting import DpEvent

Adjacency = Literal["replace_one", "add_remove"]
Released = Literal["final", "all_iterates", "sample"]
Sampling = Literal["poisson", "without_replacement", "full"]


@dataclass(frozen=True)
class Budget:
    """An (epsilon, delta) to be spent. epsilon: in (0, inf], inf meaning no privacy. delta: in [0, 1)."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise ValueError(f"epsilon = {self.epsilon} must be in (0, inf]; ask for a positive number")
        check_delta(self.delta)


class Guarantee(NamedTuple):
    """What a release promises and why; one per budget.

    epsilon, delta: what the paper's own theorem promises. event: what was done to the data, so that any
    accountant can price it. adjacency: neighbouring data sets differ by replacing or by adding/removing one
    record. released: what crosses the privacy boundary. sampling: how minibatches were drawn. assumptions:
    conditions that the guarantee needs and the code cannot enforce, e.g. "number of records public".
    """

    epsilon: float
    delta: float
    event: DpEvent
    adjacency: Adjacency
    released: Released
    sampling: Sampling
    assumptions: tuple[str, ...]


def check_delta(delta: float) -> None:
    """Raise ValueError unless 0 <= delta < 1."""
    if not 0 <= delta < 1:
        raise ValueError(f"delta = {delta} must be in [0, 1); typical values are below 1 / number of records")


def check_adjacency(
    adjacency: str, supported: tuple[str, ...] = get_args(Adjacency), who: str = "dplangevin"
) -> None:
    """Raise ValueError unless adjacency is one of `supported`."""
    if adjacency not in supported:
        raise ValueError(f"{who} cannot price adjacency {adjacency!r}; it supports {', '.join(supported)}")


def positive(instance: object, attribute: attr.Attribute, value: float) -> None:
    """Validator of an attrs class: positive and finite."""
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{type(instance).__name__}: {attribute.name} = {value} must be positive and finite")


def whole(instance: object, attribute: attr.Attribute, value: int) -> None:
    """Validator of an attrs class: a whole number >= 1."""
    if value < 1 or value != int(value):
        raise ValueError(f"{type(instance).__name__}: {attribute.name} = {value} must be a whole number >= 1")


def not_negative(instance: object, attribute: attr.Attribute, value: float) -> None:
    """Validator of an attrs class: finite and >= 0."""
    if not (value >= 0 and math.isfinite(value)):
        raise ValueError(f"{type(instance).__name__}: {attribute.name} = {value} must be finite and >= 0")


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PosteriorSampleDpEvent(DpEvent):
    """One exact draw from exp(-rho sum_i l(theta, z_i)) prior(theta), normalised, on ||theta|| <= radius.

    wang2015 Algorithm 1. rho: scale of the log-likelihood, > 0. radius: D > 0. largest_loss: bound on |l| on
    the ball; loss_range: how far one record's l can vary over the ball. Both default to those of the logistic
    loss log(1 + exp(-y x.theta)) with ||x|| <= 1: log(1 + e^D) and, since it falls with the margin, which
    lies in [-D, D], log(1 + e^D) - log(1 + e^-D) = D exactly.
    """

    rho: float = attr.ib(validator=positive)
    radius: float = attr.ib(validator=positive)
    largest_loss: float = attr.ib(
        default=attr.Factory(lambda self: self.radius + math.log1p(math.exp(-self.radius)), takes_self=True),
        validator=positive,
    )
    loss_range: float = attr.ib(
        default=attr.Factory(lambda self: self.radius, takes_self=True), validator=positive
    )

    @property
    def range(self) -> float:
        """Replace-one bounded range: how far log p(theta|X) - log p(theta|X') can vary over theta.

        Twice rho times `loss_range`, the range of the difference of two records' losses.  (A loss that is
        only known to be 1-Lipschitz in the margin has a loss_range of 2 D.)
        """
        return 2.0 * self.rho * self.loss_range


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ObjectivePerturbationDpEvent(DpEvent):
    """The exact minimiser of sum_i l(theta, z_i) + ridge/2 ||theta||^2 + b.theta, b ~ N(0, noise_std^2 I).

    Sum scale throughout (Kifer, Smith, Thakurta 2012, Algorithm 1, times n). l is a convex function of the
    margins of the record, with a Lipschitz gradient. noise_std: > 0. lipschitz: L >= ||grad l||, > 0. rank: of
    the space that a record's gradients span, so at least that of its Hessian; 1 for one margin. smoothness:
    beta, >= 0; a record's Hessian has trace at most rank beta (at rank 1 beta bounds its largest eigenvalue;
    1/4 for the logistic loss with ||x|| <= 1). ridge: Lambda, > 0. one_sided: a record's gradients are all
    multiples >= 0 of one vector, as for the logistic loss.
    """

    noise_std: float = attr.ib(validator=positive)
    lipschitz: float = attr.ib(validator=positive)
    smoothness: float = attr.ib(validator=not_negative)
    ridge: float = attr.ib(validator=positive)
    rank: int = attr.ib(default=1, validator=whole)
    one_sided: bool = True

    @property
    def log_determinant(self) -> float:
        """rank log(1 + beta/Lambda): what one record can add to the log-determinant of the Hessian."""
        return self.rank * math.log1p(self.smoothness / self.ridge)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PureObjectivePerturbationDpEvent(DpEvent):
    """As `ObjectivePerturbationDpEvent`, with b of density proportional to exp(-rate ||b||).

    Chaudhuri, Monteleoni, Sarwate (2011), Algorithm 2, times n. rate: > 0; the rest as there.
    """

    rate: float = attr.ib(validator=positive)
    lipschitz: float = attr.ib(validator=positive)
    smoothness: float = attr.ib(validator=not_negative)
    ridge: float = attr.ib(validator=positive)
    rank: int = attr.ib(default=1, validator=whole)

    @property
    def log_determinant(self) -> float:
        """As of `ObjectivePerturbationDpEvent`."""
        return self.rank * math.log1p(self.smoothness / self.ridge)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class NearbyDpEvent(DpEvent):
    """A release whose law is within `total_variation` of what `event` describes, on every data set.

    If the event is (eps, delta)-DP, the release is (eps, delta + (1 + e^eps) total_variation)-DP: P'(E) <= P(E)
    + tv <= e^eps Q(E) + delta + tv <= e^eps (Q'(E) + tv) + delta + tv (wang2015, Proposition 3, in L1 distance).
    total_variation: in [0, 1).
    """

    event: DpEvent
    total_variation: float = attr.ib(validator=not_negative)
