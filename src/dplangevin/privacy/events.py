"""What was promised (`Budget`), what was done to the data (`DpEvent`s), and both together (`Guarantee`).

We use dp_accounting's events wherever they fit. The classes here describe the other mechanisms. In this
project the `noise_multiplier` of a `GaussianDpEvent` is the standard deviation of the noise divided by the
bound on *one record's* norm (L, or the clip). This holds for both neighbour relations. It is not relative to
the replace-one sensitivity 2L.

>>> Budget(1.0, 1e-5)
Budget(epsilon=1.0, delta=1e-05)
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
from dplangevin.privacy.subsampled_gaussian import composed_steps

Adjacency = Literal["replace_one", "add_remove", "zero_out"]
CHANGED: tuple[Adjacency, ...] = ("replace_one", "add_remove")  # the relations that results are priced for
Released = Literal["final", "all_iterates", "sample"]
PUBLIC_RECORDS = "number of records public"  # an assumption of a guarantee
SamplingScheme = Literal["poisson", "without_replacement", "random_allocation", "shuffled", "full"]


@dataclass(frozen=True)
class Budget:
    """An (epsilon, delta) that a method may spend.

    Attributes
    ----------
    epsilon : float
        In (0, inf]; inf means no privacy.
    delta : float
        In [0, 1).
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
    epsilon, delta : float
        What the paper's own theorem promises.
    event : DpEvent
        What was done to the data, so that any accountant can price it.
    adjacency : {"replace_one", "add_remove", "zero_out"}
        Whether neighbouring data sets differ by replacing one record, by adding or removing one, or by replacing
        one by a record that contributes nothing. Under "zero_out" the number of records is the same.
    released : {"final", "all_iterates", "sample"}
        What crosses the privacy boundary.
    sampling : {"poisson", "without_replacement", "random_allocation", "shuffled", "full"}
        How minibatches were drawn.
    assumptions : tuple of str
        Conditions that the guarantee needs and the code cannot enforce, e.g. PUBLIC_RECORDS.
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
    """Raise ValueError unless `adjacency` is one of `supported`.

    Parameters
    ----------
    adjacency : str
        The neighbour relation to check.
    supported : tuple of str
        The relations that are allowed.
    who : str
        Name of the caller, for the message.
    """
    if adjacency not in supported:
        raise ValueError(f"{who} cannot price adjacency {adjacency!r}; it supports {', '.join(supported)}")


def _checked(check: Callable[..., None]) -> Callable[[object, attr.Attribute, Any], None]:
    """Return an attrs validator that calls a check of `dplangevin.checks`."""
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

    The defaults of largest_loss and loss_range are for the logistic loss log(1 + exp(-y x.theta)) with
    ||x|| <= 1. Its margin lies in [-D, D], and the loss falls with the margin. So largest_loss is
    log(1 + e^D), and loss_range is log(1 + e^D) - log(1 + e^-D) = D exactly.

    Attributes
    ----------
    rho : float
        Scale of the log-likelihood, > 0.
    radius : float
        D > 0.
    largest_loss : float
        Bound on ``|l|`` on the ball.
    loss_range : float
        Bound on how far one record's l can vary over the ball.

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
        """The replace-one bounded range: how far log p(theta|X) - log p(theta|X') can vary over theta.

        It is rho times the range of the difference of two records' losses, which is twice `loss_range`. (A
        loss that is only known to be 1-Lipschitz in the margin has a loss_range of 2 D.)
        """
        return 2.0 * self.rho * self.loss_range


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ObjectivePerturbationDpEvent(DpEvent):
    """The noisy minimiser of an objective with a random linear term.

    The objective is sum_i l(theta, z_i) + ridge/2 ||theta||^2 + b.theta, with b ~ N(0, noise_std^2 I). All
    quantities are on the sum scale: Algorithm 1 of Kifer, Smith, Thakurta (2012), times n. The loss l is a
    convex function of the margins of the record, with a Lipschitz gradient.

    The release is theta~ + N(0, output_std^2 I). At the point theta~ the gradient of the whole objective has
    norm at most gradient_bound (Iyengar et al. 2019). At gradient_bound = 0, the default, the release is the
    exact minimiser, without this noise.

    Attributes
    ----------
    noise_std : float
        Standard deviation of b, > 0.
    lipschitz : float
        L >= ||grad l||, > 0.
    smoothness : float
        beta >= 0. A record's Hessian has trace at most rank beta. At rank 1 beta bounds its largest
        eigenvalue. For the logistic loss with ||x|| <= 1, beta is 1/4.
    ridge : float
        Lambda > 0.
    rank : int
        Dimension of the space that a record's gradients span, so at least the rank of its Hessian; 1 for one
        margin.
    one_sided : bool
        Whether a record's gradients are all multiples >= 0 of one vector, as for the logistic loss.
    gradient_bound : float
        gamma >= 0.
    output_std : float
        Standard deviation of the noise on theta~, >= 0.
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
        """The mu of the Gaussian mechanism that releases theta~, given the minimiser.

        It is 2 gamma/(Lambda output_std).
        """
        if self.gradient_bound == 0:
            return 0.0
        return 2 * self.gradient_bound / (self.ridge * self.output_std) if self.output_std else math.inf


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PureObjectivePerturbationDpEvent(DpEvent):
    """The same as `ObjectivePerturbationDpEvent`, except for the laws of the two noises.

    b has a density proportional to exp(-rate ||b||). The noise eta on theta~ has a density proportional to
    exp(-||eta||/output_scale). The other attributes are those of `ObjectivePerturbationDpEvent`.

    Attributes
    ----------
    rate : float
        Rate of the density of b, > 0.
    output_scale : float
        Scale of the noise on theta~, >= 0.

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
        """The same as `ObjectivePerturbationDpEvent.log_determinant`."""
        return self.rank * math.log1p(self.smoothness / self.ridge)

    @property
    def output_epsilon(self) -> float:
        """The pure epsilon of the noise on theta~, given the minimiser: 2 gamma/(Lambda output_scale)."""
        if self.gradient_bound == 0:
            return 0.0
        return 2 * self.gradient_bound / (self.ridge * self.output_scale) if self.output_scale else math.inf


@attr.s(frozen=True, slots=True, auto_attribs=True)
class NearbyDpEvent(DpEvent):
    """A release whose law is within `total_variation` of the law that `event` describes, on every data set.

    If the event is (eps, delta)-DP, the release is (eps, delta + (1 + e^eps) total_variation)-DP. Proof:
    P'(E) <= P(E) + tv <= e^eps Q(E) + delta + tv <= e^eps (Q'(E) + tv) + delta + tv.

    Attributes
    ----------
    event : DpEvent
        The event that the release approximates.
    total_variation : float
        In [0, 1).

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

    L_B is the mean of the losses over B, a uniform subset of `batch` of `records` records. Each step draws a
    new subset. batch == records is the full batch. C is convex. Constant steps have decay 0. The paper's
    decreasing steps 1/(2 beta + lambda k/2) have step_size 1/(2 beta) and decay lambda/2.

    With convex = False, the gradient of each record is lambda theta + g(theta). g needs no potential, and is
    (beta - lambda)-Lipschitz. An example is a clipped gradient with a ridge. Clipping is the projection onto a
    ball, so it keeps the Lipschitz constant of each record's gradient. A mean keeps it, too.

    Attributes
    ----------
    records, batch : int
        Number of records, and size of a minibatch, 1 <= batch <= records.
    steps : int
        K >= 1.
    step_size : float
        eta_0 > 0.
    noise_std : float
        sigma > 0.
    lipschitz : float
        L >= ||grad l||, > 0.
    strong_convexity, smoothness : float
        lambda and beta of *every* record's loss l, 0 <= lambda <= beta.
    decay : float
        Decay of the step sizes, >= 0.
    radius : float
        C lies in a ball of this radius, > 0. inf: C may be the whole space.
    convex : bool
        Whether every record's loss is lambda-strongly convex. If not, lambda is only the ridge.
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
    convex: bool = True

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
        """Return the noise of each step divided by one record's share eta_k L/batch, (steps,).

        This is sigma batch sqrt(2/eta_k)/L.
        """
        return self.noise_std * self.batch * np.sqrt(2 / self.step_sizes()) / self.lipschitz

    def all_iterates(self) -> DpEvent:
        """Return the same steps with every iterate visible; they never cost less than the last iterate."""
        return composed_steps(self.records, self.batch, self.multipliers())


@attr.s(frozen=True, slots=True, auto_attribs=True)
class FisherScoringDpEvent(DpEvent):
    """All iterates of DP-SGFS (wang2015, Algorithm 4).

    Each step draws `batch` (tau) of `records` without replacement. It releases the mean gradient plus F Z,
    with Z ~ N(0, sigma^2 I). It also releases the sample covariance of the gradients plus W, with W_ij ~
    N(0, 49 ||F||^4 sigma^2). Every gradient lies in F times the unit ball.

    Attributes
    ----------
    records : int
        Number of records.
    batch : int
        tau, 2 <= tau <= records.
    steps : int
        Number of steps, >= 1.
    noise_std : float
        sigma > 0, unitless.
    """

    records: int = attr.ib(validator=AT_LEAST_1)
    batch: int = attr.ib(validator=[AT_LEAST_2, _at_most_records])
    steps: int = attr.ib(validator=AT_LEAST_1)
    noise_std: float = attr.ib(validator=POSITIVE)

    def gaussian_steps(self) -> DpEvent:
        """Return `steps` sampled Gaussian steps, each for the gradient and covariance of one minibatch.

        In F's norm a record moves the mean gradient by 1/tau, so the multiplier is z_g = sigma tau. Replacing
        a record moves the covariance by at most 7 ||F||^2/(tau - 1) (Lemma 6). So mu = 1/(sigma
        (tau - 1)) = 2/z_c with z_c = 2 sigma (tau - 1). Both together have 1/z^2 = 1/z_g^2 + 1/z_c^2. This
        holds for replace_one only.
        """
        gradient, covariance = self.noise_std * self.batch, 2 * self.noise_std * (self.batch - 1)
        joint = gradient * covariance / math.hypot(gradient, covariance)
        return composed_steps(self.records, self.batch, np.full(self.steps, joint))


@attr.s(frozen=True, slots=True, auto_attribs=True)
class SecondMomentDpEvent(DpEvent):
    """The matrix sum_i x_i x_i^T with symmetric Gaussian noise, for rows ||x_i|| <= B.

    The noise is s (Z + Z^T)/2, where Z has standard normal entries. In the Frobenius norm it is a Gaussian
    vector of standard deviation s in each direction of the symmetric matrices.

    Attributes
    ----------
    noise_multiplier : float
        s/B^2, > 0.

    References
    ----------
    Dwork, Talwar, Thakurta, Zhang (2014), Algorithm 1.
    """

    noise_multiplier: float = attr.ib(validator=POSITIVE)

    def gaussian_steps(self, adjacency: Adjacency) -> GaussianDpEvent:
        """Return the Gaussian mechanism with the same cost.

        Adding a row x moves the matrix by ||x||^2 <= B^2, so mu = B^2/s. Replacing x by y moves it by
        (||x||^4 + ||y||^4 - 2 <x, y>^2)^(1/2) <= sqrt(2) B^2, so mu = sqrt(2) B^2/s = 2/(sqrt(2) s/B^2).
        """
        return GaussianDpEvent(self.noise_multiplier * (math.sqrt(2) if adjacency == "replace_one" else 1.0))


@attr.s(frozen=True, slots=True, auto_attribs=True)
class HalfReplacedDpEvent(DpEvent):
    """The vector f(D) + s Z with ||f(D) - f(D')|| <= B where a record is added, removed or replaced; Z ~ N(0, I).

    So mu = B/s for all neighbours. An example is a sum of psi(x_i) whose values lie in a ball of diameter B that
    contains 0.

    Attributes
    ----------
    noise_multiplier : float
        s/B, > 0.
    """

    noise_multiplier: float = attr.ib(validator=POSITIVE)

    def gaussian_steps(self, adjacency: Adjacency) -> GaussianDpEvent:
        """Return the Gaussian mechanism with the same cost: mu = B/s, as accountants double its mu to replace one."""
        return GaussianDpEvent(self.noise_multiplier * (2 if adjacency == "replace_one" else 1))


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ShuffledEpochsDpEvent(DpEvent):
    """Gaussian steps on shuffled epochs with every result visible, for replace-one neighbours only.

    Given the orders, a replaced record is in at most one minibatch of an epoch, and no other step uses it. So
    an epoch is one Gaussian mechanism. A mixture over orders reveals no more than the worst order. Privacy
    that shuffling may add is not counted. Under add_remove, an added record also moves other records between
    minibatches. This event does not cover that.

    Attributes
    ----------
    epochs : DpEvent
        The Gaussian mechanisms, one for each epoch.
    """

    epochs: DpEvent

    @classmethod
    def of(cls, per_epoch: int, multipliers: np.ndarray) -> "ShuffledEpochsDpEvent":
        """Return the event of given steps; the least noise of an epoch counts.

        Parameters
        ----------
        per_epoch : int
            Number of steps in an epoch.
        multipliers : ndarray, shape (steps,)
            Noise divided by the bound on one record's norm, > 0.
        """
        return cls(_epochs(per_epoch, multipliers))


def _epochs(per_epoch: int, multipliers: np.ndarray) -> DpEvent:
    """Return a Gaussian mechanism for each epoch, with the least noise of its steps."""
    starts = np.arange(0, len(multipliers), per_epoch)
    return composed_steps(1, 1, np.minimum.reduceat(multipliers, starts))


@attr.s(frozen=True, slots=True, auto_attribs=True)
class RandomAllocationDpEvent(DpEvent):
    """An epoch of Gaussian steps, with every result visible, in which each record is in one random step.

    Every record draws its step uniformly, independently of the other records (balls and bins). An incomplete
    epoch, of which only the first steps are taken, costs no more.

    Attributes
    ----------
    steps : int
        Number of steps of an epoch, which is public.
    event : DpEvent
        The Gaussian mechanism of one step, with the least noise of the epoch.
    whole : bool
        Whether all steps of the epoch are taken, with equal noise. Prices do not ask. An attack does, because
        another epoch shows less than this event says.

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
        return ComposedDpEvent(shown)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PateDpEvent(DpEvent):
    """At most `queries` threshold tests and `answers` answers of PATE (Papernot et al. 2018, Algorithm 1).

    n_j teachers vote for class j. A test releases whether max_j n_j + N(0, threshold_std^2) >= T. An answer
    releases argmax_j (n_j + N(0, answer_std^2)). A record reaches one teacher, so adding, removing or
    replacing it moves at most one vote. It moves max_j n_j by at most 1 and the counts by at most sqrt(2),
    under both neighbour relations.

    Attributes
    ----------
    queries, answers : int
        Limits that are fixed beforehand, >= 0.
    threshold_std, answer_std : float
        Standard deviations of the noise, in votes, > 0.
    order : float
        An order lambda > 1 of the Renyi divergence, or 0 if no value was published.
    released_rdp : float
        The published Renyi divergence of this order, which includes the cost of publishing it (see `votes`).
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

        A test has mu = 1/threshold_std, an answer mu = sqrt(2)/answer_std. Earlier results decide which query
        is answered. On every path the sum of mu^2 is at most that of the limits. So the mechanisms compose as
        if they were fixed (Smith and Thakurta 2022; for `rho` Feldman and Zrnic 2021).
        """
        share = 2.0 if adjacency == "replace_one" else 1.0  # `mu_of`: mu = share/noise multiplier
        tests = SelfComposedDpEvent(GaussianDpEvent(share * self.threshold_std), self.queries)
        votes = SelfComposedDpEvent(GaussianDpEvent(share * self.answer_std / math.sqrt(2)), self.answers)
        return ComposedDpEvent([tests, votes])


@attr.s(frozen=True, slots=True, auto_attribs=True)
class SufficientStatisticsDpEvent(DpEvent):
    """Noisy second moments A = X^T X and B = sum_i u_i x_i^T, and perhaps the noisy least eigenvalue of A.

    A record has ||x|| <= 1 and ||u|| <= 1. The noise on A is a symmetric Gaussian matrix. Its variance is
    matrix^2 on the diagonal, and at least half of it elsewhere.

    Attributes
    ----------
    matrix, vector : float
        Standard deviations of the noise on A and on B, > 0.
    eigenvalue : float
        Standard deviation of the noise on the least eigenvalue, > 0; inf if it is not released.
    """

    matrix: float = attr.ib(validator=POSITIVE)
    vector: float = attr.ib(validator=POSITIVE)
    eigenvalue: float = math.inf

    def __attrs_post_init__(self) -> None:
        require(self.eigenvalue > 0, f"eigenvalue = {self.eigenvalue} must be in (0, inf]")

    def gaussian_steps(self, adjacency: Adjacency) -> GaussianDpEvent:
        """Return the Gaussian mechanism of all parts together, for the worst pair of records.

        All noise is Gaussian and no part depends on another. So the release is one Gaussian mechanism. Let a,
        b and c be the inverse squares of matrix, vector and eigenvalue. A symmetric matrix D moves A by
        ||D||_F deviations, and by less where variances off the diagonal are larger.

        add_remove: mu^2 = a + b + c. The record x moves A by ||x||^2 and the eigenvalue by at most as much.

        replace_one: D = x x^T - x' x'^T. The eigenvalue moves by at most the norm of D (Weyl). If both records
        grow by one factor, every part moves more. So let ||x'|| = 1, s = ||x||^2 <= 1 and ``k = |<x, x'>|`` <=
        sqrt(s). Then ||D||_F^2 = s^2 + 1 - 2 k^2, and the norm of D is (1 - s + sqrt((1 + s)^2 - 4 k^2))/2.
        B moves by at most sqrt(s + 1 + 2 k), at opposite u. All three increase with s, so s = 1. Then

            mu^2 = max over k in [0, 1] of (2 a + c) (1 - k^2) + 2 b (1 + k),  at k = min(1, b/(2 a + c)).

        A pair attains it in two dimensions, if the other records are many and leave one direction free.
        """
        a, b, c = self.matrix**-2, self.vector**-2, self.eigenvalue**-2
        if adjacency == "add_remove":
            return GaussianDpEvent(1 / math.sqrt(a + b + c))
        k = min(1.0, b / (2 * a + c))
        return GaussianDpEvent(2 / math.sqrt((2 * a + c) * (1 - k * k) + 2 * b * (1 + k)))


@attr.s(frozen=True, slots=True, auto_attribs=True)
class OneOfDpEvent(DpEvent):
    """One of several mechanisms sees the record that differs.

    Which one depends on a draw with a law that is the same on all data sets, or on the place of the record. Places
    can depend on the number of records, so the event has no price under add_remove.

    At each delta the price is the largest epsilon of the mechanisms. For a place this is plain. For a draw, the
    hockey-stick divergence of the mixture is at most the mean of the mechanisms' divergences, whether or not the
    draw is released.

    Attributes
    ----------
    events : tuple of DpEvent
        The mechanisms, at least one.
    """

    events: tuple[DpEvent, ...] = attr.ib(converter=tuple)

    def __attrs_post_init__(self) -> None:
        require(len(self.events) > 0, "events is empty: give at least one mechanism")
