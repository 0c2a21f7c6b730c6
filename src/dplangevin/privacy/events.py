"""What was promised (`Budget`), what was done to the data (`DpEvent`s), and both together (`Guarantee`).

The `noise_multiplier` of a `GaussianDpEvent` is the standard deviation of the noise over the bound on *one record's*
norm (L, or the clip), for all neighbour relations. It is not relative to the replace-one sensitivity 2L.

>>> PosteriorSampleDpEvent(rho=0.1, radius=5.0).range
1.0
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import attr
import numpy as np
from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent, SelfComposedDpEvent

from dplangevin.checks import count, not_negative, positive, real, require
from dplangevin.privacy.gaussian_steps import composed_steps

Adjacency = Literal["replace_one", "add_remove"]
Released = Literal["final", "all_iterates", "sample"]
PUBLIC_RECORDS = "number of records public"  # an assumption of a guarantee
SamplingScheme = Literal["poisson", "without_replacement", "random_allocation", "shuffled", "full"]


@dataclass(frozen=True)
class Budget:
    """An (epsilon, delta) that a method may spend.

    Attributes
    ----------
    epsilon : float in (0, inf]; inf means no privacy.
    delta : float in [0, 1).
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        real(epsilon=self.epsilon)
        real(delta=self.delta)
        if not self.epsilon > 0:
            raise ValueError(f"epsilon = {self.epsilon} must be in (0, inf]; ask for a positive number")
        check_delta(self.delta)


class Guarantee(NamedTuple):
    """What a release promises and why; one for each budget.

    Attributes
    ----------
    epsilon, delta : float, what the paper's own theorem promises.
    event : DpEvent, what was done to the data.
    adjacency : {"replace_one", "add_remove"}, how neighbours differ: by replacing, or by adding or removing, a record.
    released : {"final", "all_iterates", "sample"}, what crosses the privacy boundary.
    sampling : {"poisson", "without_replacement", "random_allocation", "shuffled", "full"}, how minibatches were drawn.
    assumptions : tuple of str, conditions that the guarantee needs and the code cannot enforce, e.g. PUBLIC_RECORDS.
    """

    epsilon: float
    delta: float
    event: DpEvent
    adjacency: Adjacency
    released: Released
    sampling: SamplingScheme
    assumptions: tuple[str, ...]


def check_delta(delta: float) -> None:
    """Raise ValueError unless 0 <= delta < 1."""
    if not 0 <= delta < 1:
        raise ValueError(f"delta = {delta} must be in [0, 1); typical values are below 1 / number of records")


def check_adjacency(
    adjacency: str, supported: tuple[str, ...] = get_args(Adjacency), who: str = "dplangevin"
) -> None:
    """Raise ValueError, in the name of `who`, unless `adjacency` is one of `supported`."""
    if adjacency not in supported:
        raise ValueError(f"{who} cannot price adjacency {adjacency!r}; it supports {', '.join(supported)}")


def _checked(check: Callable[..., None]) -> Callable[[object, attr.Attribute, Any], None]:
    return lambda event, attribute, value: check(**{attribute.name: value})


POSITIVE, NOT_NEGATIVE = _checked(positive), _checked(not_negative)
AT_LEAST_1, AT_LEAST_2 = _checked(partial(count, 1)), _checked(partial(count, 2))


def _at_most_records(instance: Any, attribute: attr.Attribute, value: int) -> None:
    require(
        value <= instance.records, f"{attribute.name} = {value} must be at most records = {instance.records}"
    )


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PosteriorSampleDpEvent(DpEvent):
    """One exact draw from exp(-rho sum_i l(theta, z_i)) prior(theta), normalised, on ||theta|| <= radius.

    The defaults are for the logistic loss log(1 + exp(-y x.theta)) with ||x|| <= 1: the margin lies in [-D, D], so
    largest_loss is log(1 + e^D) and loss_range is log(1 + e^D) - log(1 + e^-D) = D exactly.

    Attributes
    ----------
    rho : float > 0, scale of the log-likelihood.
    radius : float > 0, D.
    largest_loss : float, bound on ``|l|`` on the ball.
    loss_range : float, bound on how far one record's l can vary over the ball.

    References
    ----------
    wang2015, Algorithm 1.
    """

    rho: float = attr.ib(validator=POSITIVE)
    radius: float = attr.ib(validator=POSITIVE)
    largest_loss: float = attr.ib(
        default=attr.Factory(lambda self: self.radius + math.log1p(math.exp(-self.radius)), takes_self=True),
        validator=POSITIVE,
    )
    loss_range: float = attr.ib(
        default=attr.Factory(lambda self: self.radius, takes_self=True), validator=POSITIVE
    )

    @property
    def range(self) -> float:
        """The replace-one bounded range, 2 rho loss_range; a loss that is only 1-Lipschitz has a loss_range of 2 D."""
        return 2.0 * self.rho * self.loss_range


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ObjectivePerturbationDpEvent(DpEvent):
    """The noisy minimiser of sum_i l(theta, z_i) + ridge/2 ||theta||^2 + b.theta, with b ~ N(0, noise_std^2 I).

    This is Algorithm 1 of Kifer, Smith, Thakurta (2012), times n. l is a convex function of the record's margins with
    a Lipschitz gradient. The release is theta~ + N(0, output_std^2 I), where the gradient of the whole objective at
    theta~ has norm at most gradient_bound (Iyengar et al. 2019). By default it is the exact minimiser.

    Attributes
    ----------
    noise_std : float > 0, standard deviation of b.
    lipschitz : float > 0, L >= ||grad l||.
    smoothness : float >= 0, beta; a record's Hessian has a trace of at most rank times beta. Logistic, ||x|| <= 1: 1/4.
    ridge : float > 0, Lambda.
    rank : int, dimension of the space that a record's gradients span; 1 for one margin.
    one_sided : bool, whether a record's gradients are all multiples >= 0 of one vector, as for the logistic loss.
    gradient_bound : float >= 0, gamma.
    output_std : float >= 0, standard deviation of the noise on theta~.
    """

    noise_std: float = attr.ib(validator=POSITIVE)
    lipschitz: float = attr.ib(validator=POSITIVE)
    smoothness: float = attr.ib(validator=NOT_NEGATIVE)
    ridge: float = attr.ib(validator=POSITIVE)
    rank: int = attr.ib(default=1, validator=AT_LEAST_1)
    one_sided: bool = True
    gradient_bound: float = attr.ib(default=0.0, validator=NOT_NEGATIVE)
    output_std: float = attr.ib(default=0.0, validator=NOT_NEGATIVE)

    @property
    def log_determinant(self) -> float:
        """The most that one record adds to the log-determinant of the Hessian: rank log(1 + beta/Lambda)."""
        return self.rank * math.log1p(self.smoothness / self.ridge)

    @property
    def output_mu(self) -> float:
        """The mu of the Gaussian mechanism that releases theta~, given the minimiser: 2 gamma/(Lambda output_std)."""
        if self.gradient_bound == 0:
            return 0.0
        return 2 * self.gradient_bound / (self.ridge * self.output_std) if self.output_std else math.inf


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PureObjectivePerturbationDpEvent(DpEvent):
    """`ObjectivePerturbationDpEvent` with other laws of the two noises; the other attributes are the same.

    Attributes
    ----------
    rate : float > 0; the density of b is proportional to exp(-rate ||b||).
    output_scale : float >= 0; that of the noise on theta~ is proportional to exp(-||eta||/output_scale).

    References
    ----------
    Chaudhuri, Monteleoni, Sarwate (2011), Algorithm 2, times n.
    """

    rate: float = attr.ib(validator=POSITIVE)
    lipschitz: float = attr.ib(validator=POSITIVE)
    smoothness: float = attr.ib(validator=NOT_NEGATIVE)
    ridge: float = attr.ib(validator=POSITIVE)
    rank: int = attr.ib(default=1, validator=AT_LEAST_1)
    gradient_bound: float = attr.ib(default=0.0, validator=NOT_NEGATIVE)
    output_scale: float = attr.ib(default=0.0, validator=NOT_NEGATIVE)

    @property
    def log_determinant(self) -> float:
        """The number rank log(1 + beta/Lambda), as for `ObjectivePerturbationDpEvent`."""
        return self.rank * math.log1p(self.smoothness / self.ridge)

    @property
    def output_epsilon(self) -> float:
        """The pure epsilon of the noise on theta~, given the minimiser: 2 gamma/(Lambda output_scale)."""
        if self.gradient_bound == 0:
            return 0.0
        return 2 * self.gradient_bound / (self.ridge * self.output_scale) if self.output_scale else math.inf


@attr.s(frozen=True, slots=True, auto_attribs=True)
class NearbyDpEvent(DpEvent):
    """A release whose law is within `total_variation`, in [0, 1), of the law of `event`, on every data set.

    If the event is (eps, delta)-DP, the release is (eps, delta + (1 + e^eps) total_variation)-DP. Proof: P'(E) <= P(E)
    + tv <= e^eps Q(E) + delta + tv <= e^eps (Q'(E) + tv) + delta + tv.

    References
    ----------
    wang2015, Proposition 3, which states it in L1 distance.
    """

    event: DpEvent
    total_variation: float = attr.ib(validator=NOT_NEGATIVE)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class LangevinDpEvent(DpEvent):
    """The last iterate alone, theta_K, of DP-Langevin (ryffel2022, Algorithm 1).

    For k = 0, ..., K - 1:

        theta_(k+1) = Proj_C(theta_k - eta_k grad L_(B_k)(theta_k) + sqrt(2 eta_k) sigma N(0, I)),
        eta_k = step_size/(1 + decay step_size k).

    L_B is the mean of the losses over B, a new uniform subset of `batch` of `records` records in each step. C is
    convex. The paper's decreasing steps 1/(2 beta + lambda k/2) have step_size 1/(2 beta) and decay lambda/2.

    Attributes
    ----------
    records, batch : int, 1 <= batch <= records; equal: full batches.
    steps : int >= 1, K.
    step_size : float > 0, eta_0.
    noise_std : float > 0, sigma.
    lipschitz : float > 0, L >= ||grad l||.
    strong_convexity, smoothness : float, lambda and beta of *every* record's loss, not the mean; 0 <= lambda <= beta.
    decay : float >= 0
    radius : float > 0, C lies in a ball of this radius. inf: C may be the whole space.
    """

    records: int = attr.ib(validator=AT_LEAST_1)
    batch: int = attr.ib(validator=[AT_LEAST_1, _at_most_records])
    steps: int = attr.ib(validator=AT_LEAST_1)
    step_size: float = attr.ib(validator=POSITIVE)
    noise_std: float = attr.ib(validator=POSITIVE)
    lipschitz: float = attr.ib(validator=POSITIVE)
    strong_convexity: float = attr.ib(validator=NOT_NEGATIVE)
    smoothness: float = attr.ib(validator=NOT_NEGATIVE)
    decay: float = attr.ib(default=0.0, validator=NOT_NEGATIVE)
    radius: float = math.inf

    def __attrs_post_init__(self) -> None:
        require(self.radius > 0, f"radius = {self.radius} must be positive, or inf")
        require(
            self.strong_convexity <= self.smoothness,
            f"strong_convexity = {self.strong_convexity} must be at most smoothness = {self.smoothness}",
        )

    def step_sizes(self) -> np.ndarray:
        """Return the step sizes eta_k, (steps,)."""
        return self.step_size / (1 + self.decay * self.step_size * np.arange(self.steps))

    def multipliers(self) -> np.ndarray:
        """Return the noise of each step over one record's share eta_k L/batch: sigma batch sqrt(2/eta_k)/L."""
        return self.noise_std * self.batch * np.sqrt(2 / self.step_sizes()) / self.lipschitz

    def all_iterates(self) -> DpEvent:
        """Return the same steps with every iterate visible; they never cost less than the last iterate."""
        return composed_steps(self.records, self.batch, self.multipliers())

    def gaussian_steps(self, adjacency: Adjacency) -> DpEvent:
        return self.all_iterates()


@attr.s(frozen=True, slots=True, auto_attribs=True)
class FisherScoringDpEvent(DpEvent):
    """All iterates of DP-SGFS (wang2015, Algorithm 4), on `batch` of `records` without replacement.

    A step releases the mean gradient plus F Z, with Z ~ N(0, sigma^2 I), and the sample covariance of the gradients
    plus W, with W_ij ~ N(0, 49 ||F||^4 sigma^2). Every gradient lies in F times the unit ball.

    Attributes
    ----------
    records, steps : int >= 1
    batch : int, tau, 2 <= tau <= records.
    noise_std : float > 0, sigma, unitless.
    """

    records: int = attr.ib(validator=AT_LEAST_1)
    batch: int = attr.ib(validator=[AT_LEAST_2, _at_most_records])
    steps: int = attr.ib(validator=AT_LEAST_1)
    noise_std: float = attr.ib(validator=POSITIVE)

    def gaussian_steps(self, adjacency: Adjacency = "replace_one") -> DpEvent:
        """Return `steps` sampled Gaussian steps, each for gradient and covariance of one minibatch (replace_one only).

        In F's norm a record moves the mean gradient by 1/tau, so z_g = sigma tau. Replacing a record moves the
        covariance by at most 7 ||F||^2/(tau - 1) (Lemma 6), so z_c = 2 sigma (tau - 1). Both together: 1/z^2 = 1/z_g^2
        + 1/z_c^2.
        """
        check_adjacency(adjacency, ("replace_one",), "tight (DP-SGFS)")
        gradient, covariance = self.noise_std * self.batch, 2 * self.noise_std * (self.batch - 1)
        joint = gradient * covariance / math.hypot(gradient, covariance)
        return composed_steps(self.records, self.batch, np.full(self.steps, joint))


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ShuffledEpochsDpEvent(DpEvent):
    """Gaussian steps on shuffled epochs with every result visible, for replace-one neighbours only.

    Given the orders, a replaced record is in at most one minibatch of an epoch, so `epochs` has one Gaussian mechanism
    for each. A mixture over orders reveals no more than the worst order. Privacy that shuffling may add is not
    counted. Under add_remove an added record also moves others between minibatches, which is not covered.
    """

    epochs: DpEvent

    @classmethod
    def of(cls, per_epoch: int, multipliers: np.ndarray) -> "ShuffledEpochsDpEvent":
        """Return the event of steps with these multipliers, (steps,); the least noise of an epoch counts."""
        starts = np.arange(0, len(multipliers), per_epoch)
        return cls(composed_steps(1, 1, np.minimum.reduceat(multipliers, starts)))

    def gaussian_steps(self, adjacency: Adjacency) -> DpEvent:
        check_adjacency(adjacency, ("replace_one",), "tight (shuffled epochs)")
        return self.epochs


@attr.s(frozen=True, slots=True, auto_attribs=True)
class RandomAllocationDpEvent(DpEvent):
    """An epoch of Gaussian steps, with every result visible, in which each record is in one random step.

    Every record draws its step uniformly, independently of the others (balls and bins). An incomplete epoch, of which
    only the first steps are taken, costs no more.

    Attributes
    ----------
    steps : int, number of steps of an epoch, which is public.
    event : DpEvent, the Gaussian mechanism of one step, with the least noise of the epoch.
    whole : bool, whether all steps are taken, with equal noise; else an attack shows less than the event says.

    References
    ----------
    Chua et al. (2024), "Balls-and-Bins Sampling for DP-SGD". Feldman and Shenfeld (2025), "Privacy
    amplification by random allocation".
    """

    steps: int = attr.ib(validator=AT_LEAST_1)
    event: DpEvent
    whole: bool = True

    @classmethod
    def of(cls, per_epoch: int, multipliers: np.ndarray) -> DpEvent:
        """Return the event of given steps, as in `ShuffledEpochsDpEvent.of`."""
        parts = np.split(multipliers, range(per_epoch, len(multipliers), per_epoch))
        whole = np.array([len(part) == per_epoch and part.min() == part.max() for part in parts])
        shown = []
        for kind in (True, False):
            of_kind = [part for part, same in zip(parts, whole.tolist(), strict=True) if same is kind]
            if not of_kind:
                continue
            epochs = composed_steps(1, 1, np.array([part.min() for part in of_kind]))
            levels = epochs.events if isinstance(epochs, ComposedDpEvent) else [epochs]
            shown += [SelfComposedDpEvent(cls(per_epoch, level.event, kind), level.count) for level in levels]
        return ComposedDpEvent(tuple(shown))


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PateDpEvent(DpEvent):
    """At most `queries` threshold tests and `answers` answers of PATE (Papernot et al. 2018, Algorithm 1).

    n_j teachers vote for class j. A test releases whether max_j n_j + N(0, threshold_std^2) >= T, an answer argmax_j
    (n_j + N(0, answer_std^2)). A record reaches one teacher. So under every neighbour relation it moves max_j n_j by
    at most 1 and the counts by at most sqrt(2).

    Attributes
    ----------
    queries, answers : int >= 0, limits that are fixed beforehand.
    threshold_std, answer_std : float > 0, standard deviations of the noise, in votes.
    order : float, an order lambda > 1 of the Renyi divergence, or 0 if no value was published.
    released_rdp : float, the published Renyi divergence of this order, with the cost of publishing it (see `votes`).
    """

    queries: int = attr.ib(validator=NOT_NEGATIVE)
    answers: int = attr.ib(validator=NOT_NEGATIVE)
    threshold_std: float = attr.ib(validator=POSITIVE)
    answer_std: float = attr.ib(validator=POSITIVE)
    order: float = attr.ib(default=0.0, validator=NOT_NEGATIVE)
    released_rdp: float = attr.ib(default=math.inf)

    @property
    def rho(self) -> float:
        """The data-independent Renyi divergence of order lambda is rho lambda (Proposition 8)."""
        return self.queries / (2 * self.threshold_std**2) + self.answers / self.answer_std**2

    def gaussian_steps(self, adjacency: Adjacency) -> DpEvent:
        """Return the Gaussian mechanisms that determine the tests and the answers.

        A test has mu = 1/threshold_std, an answer mu = sqrt(2)/answer_std. Earlier results decide which query is
        answered, but on every path the sum of mu^2 is at most that of the limits. So they compose as if they were
        fixed (Smith and Thakurta 2022; for `rho` Feldman and Zrnic 2021).
        """
        share = 2.0 if adjacency == "replace_one" else 1.0  # `mu_of`: mu = share/noise multiplier
        tests = SelfComposedDpEvent(GaussianDpEvent(share * self.threshold_std), self.queries)
        votes = SelfComposedDpEvent(GaussianDpEvent(share * self.answer_std / math.sqrt(2)), self.answers)
        return ComposedDpEvent([tests, votes])
