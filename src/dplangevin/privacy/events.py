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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import attr
import numpy as np
from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent, SelfComposedDpEvent

from dplangevin.checks import real
from dplangevin.privacy.subsampled_gaussian import composed_steps

Adjacency = Literal["replace_one", "add_remove"]
Released = Literal["final", "all_iterates", "sample"]
Sampling = Literal["poisson", "without_replacement", "shuffled", "full"]


@dataclass(frozen=True)
class Budget:
    """An (epsilon, delta) to be spent. epsilon: in (0, inf], inf meaning no privacy. delta: in [0, 1)."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        real(epsilon=self.epsilon)
        real(delta=self.delta)
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


def not_negative(instance: object, attribute: attr.Attribute, value: float) -> None:
    """Validator of an attrs class: finite and >= 0."""
    if not (value >= 0 and math.isfinite(value)):
        raise ValueError(f"{type(instance).__name__}: {attribute.name} = {value} must be finite and >= 0")


def whole(least: int) -> Callable[[object, attr.Attribute, int], None]:
    """Validator of an attrs class: a whole number >= least."""

    def check(instance: object, attribute: attr.Attribute, value: int) -> None:
        if not (isinstance(value, int | np.integer) and value >= least):
            raise ValueError(
                f"{type(instance).__name__}: {attribute.name} = {value} must be a whole number >= {least}"
            )

    return check


def _at_most_records(instance: Any, attribute: attr.Attribute, value: int) -> None:
    if value > instance.records:
        raise ValueError(
            f"{type(instance).__name__}: {attribute.name} = {value} must be at most records = {instance.records}"
        )


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
    """The minimiser of sum_i l(theta, z_i) + ridge/2 ||theta||^2 + b.theta, b ~ N(0, noise_std^2 I), with noise on it.

    Sum scale throughout (Kifer, Smith, Thakurta 2012, Algorithm 1, times n). l is a convex function of the
    margins of the record, with a Lipschitz gradient. noise_std: > 0. lipschitz: L >= ||grad l||, > 0. rank: of
    the space that a record's gradients span, so at least that of its Hessian; 1 for one margin. smoothness:
    beta, >= 0; a record's Hessian has trace at most rank beta (at rank 1 beta bounds its largest eigenvalue;
    1/4 for the logistic loss with ||x|| <= 1). ridge: Lambda, > 0. one_sided: a record's gradients are all
    multiples >= 0 of one vector, as for the logistic loss.

    gradient_bound: gamma, >= 0; the release is theta~ + N(0, output_std^2 I) for a point theta~ at which the
    gradient of the whole objective has norm at most gamma (Iyengar et al. 2019). 0, the default: the exact
    minimiser, without more noise.
    """

    noise_std: float = attr.ib(validator=positive)
    lipschitz: float = attr.ib(validator=positive)
    smoothness: float = attr.ib(validator=not_negative)
    ridge: float = attr.ib(validator=positive)
    rank: int = attr.ib(default=1, validator=whole(1))
    one_sided: bool = True
    gradient_bound: float = attr.ib(default=0.0, validator=not_negative)
    output_std: float = attr.ib(default=0.0, validator=not_negative)

    @property
    def log_determinant(self) -> float:
        """rank log(1 + beta/Lambda): what one record can add to the log-determinant of the Hessian."""
        return self.rank * math.log1p(self.smoothness / self.ridge)

    @property
    def output_mu(self) -> float:
        """mu of the Gaussian mechanism that theta~ is released by, given the minimiser: 2 gamma/(Lambda output_std)."""
        if self.gradient_bound == 0:
            return 0.0
        return 2 * self.gradient_bound / (self.ridge * self.output_std) if self.output_std else math.inf


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PureObjectivePerturbationDpEvent(DpEvent):
    """As `ObjectivePerturbationDpEvent`, with b of density proportional to exp(-rate ||b||).

    Chaudhuri, Monteleoni, Sarwate (2011), Algorithm 2, times n. rate: > 0. The noise on the fit has density
    proportional to exp(-||eta||/output_scale). The rest as there.
    """

    rate: float = attr.ib(validator=positive)
    lipschitz: float = attr.ib(validator=positive)
    smoothness: float = attr.ib(validator=not_negative)
    ridge: float = attr.ib(validator=positive)
    rank: int = attr.ib(default=1, validator=whole(1))
    gradient_bound: float = attr.ib(default=0.0, validator=not_negative)
    output_scale: float = attr.ib(default=0.0, validator=not_negative)

    @property
    def log_determinant(self) -> float:
        """As of `ObjectivePerturbationDpEvent`."""
        return self.rank * math.log1p(self.smoothness / self.ridge)

    @property
    def output_epsilon(self) -> float:
        """Pure epsilon of the noise on the fit, given the minimiser: 2 gamma/(Lambda output_scale)."""
        if self.gradient_bound == 0:
            return 0.0
        return 2 * self.gradient_bound / (self.ridge * self.output_scale) if self.output_scale else math.inf


@attr.s(frozen=True, slots=True, auto_attribs=True)
class NearbyDpEvent(DpEvent):
    """A release whose law is within `total_variation` of what `event` describes, on every data set.

    If the event is (eps, delta)-DP, the release is (eps, delta + (1 + e^eps) total_variation)-DP: P'(E) <= P(E)
    + tv <= e^eps Q(E) + delta + tv <= e^eps (Q'(E) + tv) + delta + tv (wang2015, Proposition 3, in L1 distance).
    total_variation: in [0, 1).
    """

    event: DpEvent
    total_variation: float = attr.ib(validator=not_negative)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class LangevinDpEvent(DpEvent):
    """The last iterate alone, theta_K, of ryffel2022 Algorithm 1, for k = 0, ..., K - 1:

        theta_(k+1) = Proj_C(theta_k - eta_k grad L_(B_k)(theta_k) + sqrt(2 eta_k) sigma N(0, I)),
        eta_k = step_size/(1 + decay step_size k).

    L_B is the mean of the losses over B, a uniform subset of `batch` of `records` records drawn anew each
    step; batch == records is the full batch. C is convex. Constant steps: decay 0; the paper's decreasing
    steps 1/(2 beta + lambda k/2): step_size 1/(2 beta), decay lambda/2. steps: K >= 1. step_size, noise_std
    (sigma), lipschitz (L >= ||grad l||): > 0. strong_convexity, smoothness: of *every* record's loss l,
    0 <= lambda <= beta. decay: >= 0.
    """

    records: int = attr.ib(validator=whole(1))
    batch: int = attr.ib(validator=[whole(1), _at_most_records])
    steps: int = attr.ib(validator=whole(1))
    step_size: float = attr.ib(validator=positive)
    noise_std: float = attr.ib(validator=positive)
    lipschitz: float = attr.ib(validator=positive)
    strong_convexity: float = attr.ib(validator=not_negative)
    smoothness: float = attr.ib(validator=not_negative)
    decay: float = attr.ib(default=0.0, validator=not_negative)

    def __attrs_post_init__(self) -> None:
        if self.strong_convexity > self.smoothness:
            raise ValueError(
                f"LangevinDpEvent: strong_convexity = {self.strong_convexity} must be at most "
                f"smoothness = {self.smoothness}"
            )

    def step_sizes(self) -> np.ndarray:
        """eta_k, (steps,)."""
        return self.step_size / (1 + self.decay * self.step_size * np.arange(self.steps))

    def multipliers(self) -> np.ndarray:
        """Noise over one record's share eta_k L/batch of a step: sigma batch sqrt(2/eta_k)/L, (steps,)."""
        return self.noise_std * self.batch * np.sqrt(2 / self.step_sizes()) / self.lipschitz

    def all_iterates(self) -> DpEvent:
        """The same steps with every iterate visible; never cheaper than the last iterate alone."""
        return composed_steps(self.records, self.batch, self.multipliers())


@attr.s(frozen=True, slots=True, auto_attribs=True)
class FisherScoringDpEvent(DpEvent):
    """All iterates of DP-SGFS (wang2015 Algorithm 4).

    Each step draws `batch` (tau) of `records` without replacement and releases the mean gradient plus F Z,
    Z ~ N(0, sigma^2 I), and the sample covariance of the gradients plus W, W_ij ~ N(0, 49 ||F||^4 sigma^2).
    Every gradient lies in F times the unit ball. steps: >= 1. batch: >= 2. noise_std: sigma > 0, unitless.
    """

    records: int = attr.ib(validator=whole(1))
    batch: int = attr.ib(validator=[whole(2), _at_most_records])
    steps: int = attr.ib(validator=whole(1))
    noise_std: float = attr.ib(validator=positive)

    def gaussian_steps(self) -> DpEvent:
        """Gradient and covariance of one minibatch as one Gaussian step, sampled, `steps` times.

        In F's norm a record moves the mean gradient by 1/tau: multiplier z_g = sigma tau. Replacing one moves
        the covariance by at most 7 ||F||^2/(tau - 1) (Lemma 6), so mu = 1/(sigma (tau - 1)) = 2/z_c with z_c
        = 2 sigma (tau - 1). Both at once: 1/z^2 = 1/z_g^2 + 1/z_c^2. Replace-one only.
        """
        gradient, covariance = self.noise_std * self.batch, 2 * self.noise_std * (self.batch - 1)
        joint = gradient * covariance / math.hypot(gradient, covariance)
        return composed_steps(self.records, self.batch, np.full(self.steps, joint))


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ShuffledEpochsDpEvent(DpEvent):
    """Gaussian steps on shuffled epochs with every result visible; replace-one neighbours only.

    Given the orders, a replaced record is in at most one minibatch of an epoch, and no other step looks at it: one
    Gaussian an epoch.  A mixture over orders tells no more than the worst of them.  What shuffling may hide is not
    counted.  An added record also moves others from minibatch to minibatch, which this says nothing of.
    epochs: the Gaussians, one for each epoch.
    """

    epochs: DpEvent

    @classmethod
    def of(cls, per_epoch: int, multipliers: np.ndarray) -> "ShuffledEpochsDpEvent":
        """per_epoch: steps of an epoch, whose least noise counts; multipliers: ``(steps,)``, > 0, noise over the bound
        on one record's norm."""
        starts = np.arange(0, len(multipliers), per_epoch)
        return cls(composed_steps(1, 1, np.minimum.reduceat(multipliers, starts)))


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PateDpEvent(DpEvent):
    """At most `queries` threshold tests and `answers` answers (Papernot et al. 2018, Algorithm 1).

    A test releases whether max_j n_j + N(0, threshold_std^2) >= T, an answer argmax_j (n_j + N(0, answer_std^2)), where
    n_j teachers vote for class j.  A record reaches one teacher, so adding, removing or replacing it moves at most one
    vote: max_j n_j by at most 1, the counts by at most sqrt(2), whatever the adjacency.  queries, answers: caps fixed
    beforehand, >= 0.  threshold_std, answer_std: in votes, > 0.
    order, released_rdp: an order lambda > 1 and the published value, its own cost included, of the Renyi divergence of
    that order (`votes`); order 0 where nothing was published.
    """

    queries: int = attr.ib(validator=not_negative)
    answers: int = attr.ib(validator=not_negative)
    threshold_std: float = attr.ib(validator=positive)
    answer_std: float = attr.ib(validator=positive)
    order: float = attr.ib(default=0.0, validator=not_negative)
    released_rdp: float = attr.ib(default=math.inf)

    @property
    def rho(self) -> float:
        """The data-independent Renyi divergence of order lambda is rho lambda (Proposition 8)."""
        return self.queries / (2 * self.threshold_std**2) + self.answers / self.answer_std**2

    def gaussian_steps(self, adjacency: Adjacency) -> DpEvent:
        """The Gaussian mechanisms that tests and answers are functions of: mu = 1/threshold_std, sqrt(2)/answer_std.

        Which query is answered depends on earlier results, but the sum of mu^2 is at most that of the caps on every
        path, so they compose as if fixed (Smith and Thakurta 2022; for `rho` Feldman and Zrnic 2021).
        """
        share = 2.0 if adjacency == "replace_one" else 1.0  # mu = share/noise multiplier, as `mu_of` has it
        tests = SelfComposedDpEvent(GaussianDpEvent(share * self.threshold_std), self.queries)
        votes = SelfComposedDpEvent(GaussianDpEvent(share * self.answer_std / math.sqrt(2)), self.answers)
        return ComposedDpEvent([tests, votes])
