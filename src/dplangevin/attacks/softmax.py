"""An attack on the problem of a result row: neighbours that softmax regression admits, trained the same way.

All records except one are x = 0, which the problem admits, with gradient 0. The differing record is (x, y) under D and
(x', y') under D', with ``|x|, |x'| <= row_bound``. One feature is enough: all other coordinates of theta are noise that
does not depend on the data. So theta has length K. With b = row_bound and without a clip, the gradients ``(p - e_y) x``
differ by

    flipped label, (b, 0) and (b, 1)    sqrt(2) b, for every theta
    x to -x, (b, 0) and (-b, 0)         2 b ||p - e_0||, which is 2 b sqrt(1 - 1/K) at theta = 0

A pilot run tries x and x' of length b or b/2 and selects the pair that it separates best. A bias (a feature 1) is left
out if rows have no bound: the attack is the limit of pairs whose other records lie along an axis of their own.

A use of the record is a step of `Glm.descent`, as in training. For uniform subsets and for Poisson samples, each step
uses it independently with probability batch/records. With shuffled epochs, one uniform step of each epoch uses it, or
none if it is in the remainder of the epoch.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dplangevin.attacks.audit import audit
from dplangevin.methods import Method, Plan
from dplangevin.problems import Problem
from dplangevin.problems.chain import Chain
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import softmax
from dplangevin.problems.sampling import BY_EPOCH, Sampling
from dplangevin.random import Batch

LENGTHS = (1.0, 0.5)  # lengths of x and x', in row bounds
UNBOUNDED = 2.0  # in clips: the longest x if rows have no bound
PILOT_LAST, PILOT_ALL = 40_000, 200  # most runs of the pilot: for each record; for each data set of a pair
EVEN = 0.5  # confidence in the pilot, whose bounds are only compared with each other
LOOKS = 300  # about how often a long run computes the displacements of `all_iterates`
CHUNK = 2**14  # runs that are computed together
Step = Callable[
    [Tensor, Batch, Tensor, Tensor], None
]  # a `problems.FusedStep` without noise, which is added here


class Record(NamedTuple):
    """A record with one feature x and a label."""

    x: float
    label: int


class RecordPair(NamedTuple):
    """The differing record under D and under D'."""

    name: str
    first: Record
    second: Record


class Attack(NamedTuple):
    """The pair that the runs used, and one statistic for every run, (runs,), under D and under D'."""

    pair: RecordPair
    first: np.ndarray
    second: np.ndarray


@dataclass(frozen=True)
class Training:
    """The training that is attacked: the chain of a result row, and its problem.

    - `row_bound`: bound on ||x||; inf for none.
    - `row_quantile`: a length that 99 % of public rows do not exceed. It limits a pair if rows have no bound.
    """

    chain: Chain
    records: int
    classes: int
    row_bound: float
    row_quantile: float = math.inf

    @property
    def rate(self) -> float:
        return self.chain.sampling.rate(self.records)

    @property
    def per_epoch(self) -> int:
        return self.chain.sampling.per_epoch(self.records)

    @property
    def places(self) -> tuple[int, int]:
        """Places of a record in an epoch, and how many of them make one step."""
        if self.chain.sampling.scheme == "random_allocation":
            return self.per_epoch, 1
        return self.records, self.chain.sampling.size(self.records)

    @property
    def noise_std(self) -> np.ndarray:
        """Standard deviation of the noise on theta, ``(T,)``."""
        size = self.chain.sampling.size(self.records)
        return (self.chain.step * self.chain.noise_std / size).double().numpy()

    @property
    def step_sizes(self) -> np.ndarray:
        """Step sizes eta_k, ``(T,)``."""
        return self.chain.step.double().numpy()

    def descent(self, problem: Glm) -> Step:
        """Return a step of training; its minibatch is a Poisson sample of the 0 or 1 rows that are not zero."""
        size = self.chain.sampling.size(self.records)
        step = problem.descent([self.chain._replace(sampling=Sampling("poisson", 1, 1))])
        assert step is not None  # only chains on all rows have none
        return lambda theta, batch, eta, keep: step(theta, batch, eta / size, keep)

    @property
    def reach(self) -> float:
        """The length of the longest x of a pair: the row bound.

        Without one, a length at which gradients are clipped, at most that which 99 % of the public rows do not exceed.
        """
        free = min(UNBOUNDED * self.chain.clip, self.row_quantile)
        reach = self.row_bound if self.row_bound < math.inf else free
        if not reach < math.inf:
            raise ValueError("rows without a bound need a clip: set row_bound or clip")
        return reach


def pairs(reach: float) -> list[RecordPair]:
    """Return what a pilot tries: a flipped label, x and -x, and pairs of `LENGTHS` with x > 0 and label 0 at first."""
    first = Record(reach, 0)
    found = [
        RecordPair("flipped label", first, Record(reach, 1)),
        RecordPair("x to -x", first, Record(-reach, 0)),
    ]
    sides = [sign * length for length in LENGTHS for sign in (1, -1)]
    for length, side, label in product(LENGTHS, sides, (0, 1)):
        first, second = Record(length * reach, 0), Record(side * reach, label)
        if first != second and all((first, second) != pair[1:] for pair in found):
            name = f"optimised: {length:g} b, label 0 to {side:g} b, label {label}"
            found.append(RecordPair(name, first, second))
    return found


def last_iterate(training: Training, runs: int, rng: torch.Generator, delta: float) -> Attack:
    """Return theta_K, projected on the direction in which its means under D and D' differ, for runs >= 8.

    The direction comes from a pilot with common random numbers, whose noise cancels. The pair is the one of `pairs`
    whose pilot shows the largest epsilon at delta, or else whose means are most standard deviations apart.
    """
    _check(training, runs)
    pilot, tried = min(PILOT_LAST, runs), pairs(training.reach)
    seed = int(torch.randint(2**62, (1,), generator=rng))
    ends: dict[Record, Tensor] = {}
    for record in {record: None for each in tried for record in each[1:]}:
        ends[record] = end_points(training, record, pilot, torch.Generator().manual_seed(seed)).double()
    separations = [_separation(ends[each.first], ends[each.second], delta) for each in tried]
    best = max(range(len(tried)), key=lambda at: separations[at][0])
    chosen, direction = tried[best], separations[best][1]
    first, second = (
        (end_points(training, record, runs, rng).double() @ direction).numpy() for record in chosen[1:]
    )
    return Attack(chosen, first, second)


def all_iterates(
    training: Training, runs: int, rng: torch.Generator, pair: RecordPair | None = None
) -> Attack:
    """Return the log-likelihood ratio of all iterates, for runs >= 8.

    With the noise N(0, s_k^2 I) of each step and the rate q = batch/records it is::

        r = sum_k log((1 - q) + q e^(<m_k, a_k>/s_k^2 - |a_k|^2/(2 s_k^2))) - the same with b_k,
        m_k = theta_(k+1) - (1 - eta_k lambda) theta_k

    a_k and b_k are the displacements by the record under D and D' at theta_k. In runs of more than `LOOKS` steps they
    are computed about `LOOKS` times. The ratio is still a function of all iterates, so the audit stays valid. pair =
    None takes the one of `pairs` whose ratio separates D and D' best in a pilot.
    """
    _check(training, runs)
    if pair is None:
        tried = pairs(training.reach)
        each = torch.arange(len(tried)).repeat_interleave(min(PILOT_ALL, runs))
        first, second = (_ratios(training, tried, each, side, rng).view(len(tried), -1) for side in (0, 1))
        scores = (first.mean(1) - second.mean(1)) / _pooled(first, second, dim=1)
        pair = tried[int(scores.argmax())]
    parts = torch.zeros(runs, dtype=torch.long).split(CHUNK)
    out = [torch.cat([_ratios(training, [pair], part, side, rng) for part in parts]) for side in (0, 1)]
    return Attack(pair, out[0].numpy(), out[1].numpy())


def end_points(training: Training, record: Record, runs: int, rng: torch.Generator) -> Tensor:
    """Return theta_K (runs, K) of training on `record` among zeros.

    The steps that use the record and all normals depend only on the state of `rng`, not on the record.
    """
    parts = [min(CHUNK, runs - at) for at in range(0, runs, CHUNK)]
    return torch.cat([_jumped(training, record, part, rng) for part in parts])


def _check(training: Training, runs: int) -> None:
    if runs < 8:
        raise ValueError(f"runs = {runs} must be at least 8, as an audit needs")
    if min(training.chain.mean_clip, training.chain.radius) < math.inf:
        raise ValueError(
            "no such attack on chains with a clipped mean or a ball: leave out attack, mean_clip and radius"
        )
    if not bool((training.chain.noise_std > 0).all()):
        raise ValueError("noise_std must be positive in every step: there is nothing to attack")


def _separation(first: Tensor, second: Tensor, delta: float) -> tuple[tuple[float, float], Tensor]:
    """Return (attack epsilon, standard deviations between the means) of theta_K ``(runs, d)``, and their direction."""
    shift = first.mean(0) - second.mean(0)
    direction = shift / shift.norm().clamp(min=torch.finfo(shift.dtype).tiny)
    along = first @ direction, second @ direction
    distance = float(shift.norm() / _pooled(*along, dim=0))
    return (audit(along[0].numpy(), along[1].numpy(), delta, EVEN).epsilon, distance), direction


def _pooled(first: Tensor, second: Tensor, dim: int) -> Tensor:
    """Return the pooled standard deviation along a dimension, which is never 0."""
    tiny = torch.finfo(first.dtype).tiny
    return ((first.var(dim) + second.var(dim)) / 2).sqrt().clamp(min=tiny)


def _problem(training: Training, records: Sequence[Record]) -> Glm:
    """Return a problem with the records and one zero record for all others: rows ``(1, records + 1, 1)``."""
    x = torch.zeros(1, len(records) + 1, 1)
    x[0, :-1, 0] = torch.tensor([record.x for record in records])
    y = torch.tensor([[*(float(record.label) for record in records), 0.0]])
    return Glm(x, y, softmax(training.classes), row_bound=training.reach)


def _displaced(descend: Step, theta: Tensor, rows: Tensor) -> Tensor:
    """Return how far one use of the records in `rows` (R,) moves theta (R, 1, K), per unit of step size."""
    moved, one = theta.clone(), torch.ones(1, 1)
    descend(moved, Batch(rows[:, None], torch.ones(len(rows), dtype=torch.long), one), one, one)
    return moved.sub_(theta)


def _jumped(training: Training, record: Record, runs: int, rng: torch.Generator) -> Tensor:  # noqa: PLR0914
    """Return theta_K, computing one by one only the steps that use the record.

    The steps between them are linear, and their noise is drawn as one Gaussian. After `done` steps theta contains
    these steps except the noise of the last one. Let P_k be the product of the first k factors 1 - eta lambda, and C_k
    = sum_(m < k) s_m^2/P_(m+1)^2. After step k - 1 the noise of steps m to k - 1 has variance ``P_k^2 (C_k - C_m)``.
    P_k and C_k are stored as logarithms.
    """
    chain = training.chain
    sizes, std = training.step_sizes, training.noise_std
    steps, keep = len(sizes), 1 - sizes * chain.l2
    log_keep = np.append(0.0, np.cumsum(np.log(keep)))
    log_noise = np.append(-math.inf, np.logaddexp.accumulate(2 * (np.log(std) - log_keep[1:])))
    log_kept, noise = torch.as_tensor(log_keep), torch.as_tensor(log_noise)
    etas, keeps = (torch.as_tensor(part, dtype=torch.float32) for part in (sizes, keep))
    descend = training.descent(_problem(training, [record]))
    theta = chain.start_std * torch.randn(runs, 1, training.classes, generator=rng)
    out, still = torch.empty(runs, training.classes), torch.arange(runs)
    done = torch.zeros(runs, dtype=torch.long)
    while len(still):
        use = _next_use(training, done, rng)
        since = (done - 1).clamp(min=0)
        variance = (2 * log_kept[use] + noise[use]).exp() * -torch.expm1(noise[since] - noise[use])
        spread = variance.where(use > since, 0.0).sqrt().float()[:, None, None]
        normals = torch.randn(theta.shape, generator=rng)
        theta = theta * (log_kept[use] - log_kept[done]).exp().float()[:, None, None] + spread * normals
        ended = use == steps
        out[still[ended]] = theta[ended, 0]
        left = ~ended
        theta, use, still = theta[left], use[left], still[left]
        if len(still):
            by = _displaced(descend, theta, torch.zeros(len(still), dtype=torch.long))
            theta = theta * keeps[use][:, None, None] + by * etas[use][:, None, None]
        done = use + 1
    return out


def _next_use(training: Training, done: Tensor, rng: torch.Generator) -> Tensor:
    """Return the first step >= done (one more than the last use) that uses the record, (R,), or the number of steps."""
    rate, steps = training.rate, len(training.chain.step)
    if training.chain.sampling.scheme not in BY_EPOCH:
        uniform = 1 - torch.rand(len(done), generator=rng, dtype=torch.float64)  # in (0, 1]
        gap = (uniform.log() / math.log1p(-rate)).floor() if rate < 1 else torch.zeros_like(uniform)
        return (done + gap.clamp(max=float(steps)).long()).clamp(max=steps)
    (places, size), per_epoch = training.places, training.per_epoch
    use = torch.full_like(done, steps)
    epoch = (done + per_epoch - 1) // per_epoch  # the first epoch without a use so far
    lacking = torch.arange(len(done))
    while len(lacking):
        place = torch.randint(places, (len(lacking),), generator=rng)  # in the epoch's order
        at = epoch[lacking] * per_epoch + place // size
        found = (place < per_epoch * size) | (at >= steps)
        use[lacking[found]] = at[found].clamp(max=steps)
        epoch[lacking] += 1
        lacking = lacking[~found]
    return use


def _uses(
    training: Training, own: Tensor, zeros: int, rng: torch.Generator
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield the one row of each step's minibatch, the record's `own` (R,) or `zeros`, 1 if it is used, and normals."""
    place = torch.empty(0)
    for t in range(len(training.chain.step)):
        if training.chain.sampling.scheme in BY_EPOCH:
            places, size = training.places
            if t % training.per_epoch == 0:
                place = torch.randint(places, own.shape, generator=rng)
            used = place // size == t % training.per_epoch
        else:
            used = torch.rand(len(own), generator=rng) < training.rate
        normals = torch.randn(len(own), 1, training.classes, generator=rng)
        yield own.where(used, zeros)[:, None], used.long(), normals


def _ratios(
    training: Training, tried: Sequence[RecordPair], each: Tensor, side: int, rng: torch.Generator
) -> Tensor:
    """Return the ratios ``(R,)`` of runs on D (side 0) or D' (side 1) of the pairs ``tried[each]``.

    Every step is in law as in `samplers.chains.loop`; gradients are computed only for runs that use their record.
    """
    problem = _problem(training, [record for pair in tried for record in pair[1:]])
    rows, descend, rate = (2 * each, 2 * each + 1), training.descent(problem), training.rate
    etas, stds = training.step_sizes.tolist(), training.noise_std.tolist()
    by = squares = torch.empty(0)
    total = torch.zeros(len(each), dtype=torch.float64)
    theta = training.chain.start_std * torch.randn(len(each), 1, problem.d, generator=rng)
    for t, (row, uses, normals) in enumerate(_uses(training, rows[side], problem.n - 1, rng)):
        if t % max(1, len(etas) // LOOKS) == 0:
            by = torch.stack([_displaced(descend, theta, of)[:, 0] for of in rows], 2)  # (R, K, 2)
            squares = by.square().sum(1)
        eta, keep = torch.full((1, 1), etas[t]), torch.full((1, 1), 1 - etas[t] * training.chain.l2)
        used = uses.nonzero()[:, 0]
        some = theta[used]
        theta.mul_(keep)
        kept = theta.clone()
        if len(used):
            descend(some, Batch(row[used], uses[used], normals[used]), eta, keep)
            theta[used] = some
        theta.add_(normals, alpha=stds[t])
        along = torch.bmm(theta - kept, by)[:, 0]  # (R, 2)
        hit = along.mul_(etas[t] / stds[t] ** 2).sub_(squares, alpha=etas[t] ** 2 / (2 * stds[t] ** 2))
        if rate < 1:
            top = hit.clamp(min=0)  # log((1 - q) + q e^hit) without overflow
            hit = top + ((1 - rate) * torch.exp(-top) + rate * torch.exp(hit - top)).log()
        total += hit[:, 0] - hit[:, 1]
    return total


@dataclass(frozen=True)
class OnRow:
    """The attack on a result row. It trains `single` times a data set if the last iterate is released, else `chain`."""

    single: int
    chain: int
    confidence: float = 0.95

    def __call__(
        self, method: Method, plan: Plan, problem: Problem, delta: float, rng: torch.Generator
    ) -> dict[str, Any]:
        facts = problem.facts
        classes = facts.linear.classes
        training = Training(plan.work, facts.n, classes, facts.row_bound, facts.row_quantile)
        if plan.guarantee.released == "final":
            attack = last_iterate(training, self.single, rng, delta)
        else:
            attack = all_iterates(training, self.chain, rng)
        return audit(attack.first, attack.second, delta, self.confidence).columns(attack.pair.name)
