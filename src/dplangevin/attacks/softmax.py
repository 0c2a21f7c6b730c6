r"""An attack on the problem of a row: neighbours that softmax regression itself admits, through the step that trains.

No record is one of the row's data set.  Every record but one is x = 0, which is admissible, with gradient 0.  The
differing one is (x, y) under D and (x', y') under D' with ``|x|, |x'| <= row_bound``.  One feature is enough: all other
coordinates of theta are noise that does not depend on the data, so theta has length K.  With b = row_bound and no clip,
the gradients ``(p - e_y) x`` differ by

    flipped label, (b, 0) and (b, 1)    sqrt(2) b, whatever theta
    x to -x, (b, 0) and (-b, 0)         2 b ||p - e_0||, which is 2 b sqrt(1 - 1/K) at theta = 0

where the hypotheses of a theorem may allow 2 L = 2 sqrt(2) b, see `attacks.langevin`.  A pilot run tries x and x' of
length b or b/2 and keeps the pair that it tells apart best; the runs of the audit are drawn after it.

A bias on rows without a bound (a feature 1) is left out.  That problem admits records as long as one likes; the
differing one is no longer than 99 % of the public rows, where these are known.  The others may lie along an axis of
their own; their clipped gradients then have no part in the bias, nor has it in what the differing record tells: the
attack is the limit of such pairs.

Released are the last iterate (`last_iterate`) or all of them (`all_iterates`).  A use of the record is a step of
`Glm.descent`, as in training; whether a step uses it is Bernoulli(batch/records), independently over steps,
for uniform subsets as for Poisson samples; of shuffled epochs it is one step of each, uniform and independent, or none
where it is left over.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dplangevin.audit import audit
from dplangevin.chains.chain import Chain
from dplangevin.chains.sampling import Sampling
from dplangevin.losses import softmax
from dplangevin.methods import Plan
from dplangevin.problems import Descent, Facts
from dplangevin.problems.glm import Glm
from dplangevin.random import Batch

LENGTHS = (1.0, 0.5)  # of x and x', in row bounds
UNBOUNDED = 2.0  # clips: the longest x where rows have no bound
PILOT_LAST, PILOT_ALL = 40_000, 200  # runs of the pilot at most, per record and per data set
EVEN = 0.5  # confidence in the pilot: its bounds are compared, not kept
LOOKS = 300  # about how often in a long run the displacements of `all_iterates` are taken anew
CHUNK = 2**14  # runs at a time


class Record(NamedTuple):
    x: float
    label: int


class Pair(NamedTuple):
    """The differing record under D and under D'."""

    name: str
    first: Record
    second: Record


class Attack(NamedTuple):
    """One statistic for every run, ``(runs,)`` on either data set, as `audit` takes them."""

    pair: Pair
    first: np.ndarray
    second: np.ndarray


@dataclass(frozen=True)
class Training:
    """What is attacked: `chain` on `records` rows, ||x|| <= row_bound (inf: none), with labels 0, ..., classes - 1.

    features: what theta is wide of; it matters only where the chain is projected on a ball.  row_quantile: a length
    that 99 % of public rows do not exceed, which limits a pair where rows have no bound.
    """

    chain: Chain
    records: int
    classes: int
    features: int
    row_bound: float
    row_quantile: float = math.inf

    @property
    def rate(self) -> float:
        """Of a step that a record is in its minibatch."""
        return self.chain.sampling.rate(self.records)

    @property
    def per_epoch(self) -> int:
        """Steps of a shuffled epoch."""
        return self.chain.sampling.per_epoch(self.records)

    @property
    def noise_std(self) -> np.ndarray:
        """Of the noise on theta, ``(T,)``."""
        size = self.chain.sampling.size(self.records)
        return (self.chain.step * self.chain.noise_std / size).double().numpy()

    @property
    def step_sizes(self) -> np.ndarray:
        return self.chain.step.double().numpy()

    def descent(self, problem: Glm) -> Descent:
        """A step of training, whose minibatch here has at most one row that is not zero: a Poisson sample of 0 or 1."""
        size = self.chain.sampling.size(self.records)
        step = problem.descent([self.chain._replace(sampling=Sampling("poisson", 1, 1))])

        def descend(theta: Tensor, batch: Batch, eta: Tensor, keep: Tensor) -> None:
            step(theta, batch, eta / size, keep)

        return descend

    @property
    def reach(self) -> float:
        """The longest x of a pair: the row bound, or where there is none one whose gradient is clipped, no longer than
        99 % of the public rows."""
        free = min(UNBOUNDED * self.chain.clip, self.row_quantile)
        reach = self.row_bound if self.row_bound < math.inf else free
        if not reach < math.inf:
            raise ValueError("rows without a bound need a clip: set row_bound or clip")
        return reach


def flipped(reach: float) -> Pair:
    """The same x of length `reach`, label 0 and label 1."""
    return Pair("flipped label", Record(reach, 0), Record(reach, 1))


def opposite(reach: float) -> Pair:
    """x of length `reach` and -x, both with label 0."""
    return Pair("x to -x", Record(reach, 0), Record(-reach, 0))


def pairs(reach: float) -> list[Pair]:
    """Every pair that a pilot tries: `flipped`, `opposite`, then others with x > 0 of label 0, shorter ones too."""
    found = [flipped(reach), opposite(reach)]
    sides = [sign * length for length in LENGTHS for sign in (1, -1)]
    for length, side, label in product(LENGTHS, sides, (0, 1)):
        first, second = Record(length * reach, 0), Record(side * reach, label)
        if first != second and all((first, second) != pair[1:] for pair in found):
            name = f"optimised: {length:g} b, label 0 to {side:g} b, label {label}"
            found.append(Pair(name, first, second))
    return found


def last_iterate(
    training: Training,
    runs: int,
    rng: torch.Generator,
    delta: float,
    pair: Pair | None = None,
    pilot: int = PILOT_LAST,
) -> Attack:
    """theta_K, projected on the direction in which its means under D and D' differ.

    That direction comes from a pilot with common random numbers, whose noise cancels, and so does the pair, where it is
    None: the one of `pairs` that shows the largest epsilon at delta there (of those that show none, the one whose means
    are most standard deviations apart).  A pair whose gradients differ more at first may tell less in the tails, where
    one record is already learned.
    Raises ValueError for runs < 8 or a chain without noise.
    """
    pilot = min(pilot, runs)
    _check(training, runs)
    tried = pairs(training.reach) if pair is None else [pair]
    seed = int(torch.randint(2**62, (1,), generator=rng))
    ends: dict[Record, Tensor] = {}
    for record in {record: None for each in tried for record in each[1:]}:
        ends[record] = end_points(training, record, pilot, torch.Generator().manual_seed(seed)).double()
    seen = [_seen(ends[each.first], ends[each.second], delta) for each in tried]
    best = max(range(len(tried)), key=lambda at: seen[at].score)
    chosen, direction = tried[best], seen[best].direction
    first, second = (
        (end_points(training, record, runs, rng).double() @ direction).numpy() for record in chosen[1:]
    )
    return Attack(chosen, first, second)


def all_iterates(
    training: Training,
    runs: int,
    rng: torch.Generator,
    pair: Pair | None = None,
    pilot: int = PILOT_ALL,
    looks: int = LOOKS,
) -> Attack:
    r"""Log-likelihood ratio of all iterates, for the noise N(0, s_k^2 I) of each step and the rate q = batch/records::

        r = sum_k log((1 - q) + q e^(<m_k, a_k>/s_k^2 - |a_k|^2/(2 s_k^2))) - the same with b_k,
        m_k = theta_(k+1) - (1 - eta_k lambda) theta_k,

    with a_k and b_k the displacements by the record under D and D' at theta_k.  In runs of more than `looks` steps they
    are kept for a few steps each: still a function of all iterates, so that the audit stays valid.  pair: None for the
    one of `pairs` whose ratio tells most in a pilot.
    Raises ValueError for runs < 8, a chain without noise, or one that is projected on a ball.
    """
    pilot = min(pilot, runs)
    _check(training, runs)
    if training.chain.radius < math.inf:
        raise ValueError("a projection has no density: all_iterates needs radius = inf")
    tried = pairs(training.reach) if pair is None else [pair]
    chosen = tried[0]
    if len(tried) > 1:
        each = torch.arange(len(tried)).repeat_interleave(pilot)
        first, second = (
            _ratios(training, tried, each, side, rng, looks).view(len(tried), -1) for side in (0, 1)
        )
        scores = (first.mean(1) - second.mean(1)) / _pooled(first, second, dim=1)
        chosen = tried[int(scores.argmax())]
    out = []
    for side in (0, 1):
        parts = torch.zeros(runs, dtype=torch.long).split(CHUNK)
        out.append(torch.cat([_ratios(training, [chosen], part, side, rng, looks) for part in parts]).numpy())
    return Attack(chosen, out[0], out[1])


def end_points(training: Training, record: Record, runs: int, rng: torch.Generator) -> Tensor:
    """theta_K ``(runs, d)`` with `record` among zeros; d = K, or K features where the chain is projected on a ball.

    Which steps use the record and all normals are the same for any record, given the state of rng.
    """
    each = _stepwise if training.chain.radius < math.inf else _jumped
    parts = [min(CHUNK, runs - at) for at in range(0, runs, CHUNK)]
    return torch.cat([each(training, record, part, rng) for part in parts])


def _check(training: Training, runs: int) -> None:
    if runs < 8:
        raise ValueError(f"runs = {runs} must be at least 8, as an audit needs")
    if not bool((training.chain.noise_std > 0).all()):
        raise ValueError("noise_std must be positive in every step: there is nothing to attack")


class _Seen(NamedTuple):
    """What a pilot shows of a pair: epsilon, then the distance of the means; direction: of theta, length 1."""

    score: tuple[float, float]
    direction: Tensor


def _seen(first: Tensor, second: Tensor, delta: float) -> _Seen:
    shift = first.mean(0) - second.mean(0)
    direction = shift / shift.norm().clamp(min=torch.finfo(shift.dtype).tiny)
    along = first @ direction, second @ direction
    apart = float(shift.norm() / _pooled(*along, dim=0))
    return _Seen((audit(along[0].numpy(), along[1].numpy(), delta, EVEN).epsilon, apart), direction)


def _pooled(first: Tensor, second: Tensor, dim: int) -> Tensor:
    tiny = torch.finfo(first.dtype).tiny
    return ((first.var(dim) + second.var(dim)) / 2).sqrt().clamp(min=tiny)


def _problem(training: Training, records: Sequence[Record]) -> Glm:
    """The records, then one of zeros that stands for all others: rows ``(1, records + 1, p)``."""
    width = training.features if training.chain.radius < math.inf else 1
    x = torch.zeros(1, len(records) + 1, width)
    x[0, :-1, 0] = torch.tensor([record.x for record in records])
    y = torch.tensor([[*(float(record.label) for record in records), 0.0]])
    return Glm(x, y, softmax(training.classes), row_bound=training.reach)


def _displaced(descend: Descent, theta: Tensor, rows: Tensor) -> Tensor:
    """How far a use of a record, by its row ``(R,)``, moves theta ``(R, 1, K)`` per unit of step size."""
    moved, one = theta.clone(), torch.ones(1, 1)
    descend(moved, Batch(rows[:, None], torch.ones(len(rows), dtype=torch.long), one), one, one)
    return moved.sub_(theta)


def _jumped(training: Training, record: Record, runs: int, rng: torch.Generator) -> Tensor:
    """Steps that use the record one by one; those between are linear, and their noise is drawn as one Gaussian.

    After `done` steps theta has all but the noise of the last of them.  With P_k the product of the first k factors
    1 - eta lambda, and C_k = sum_(m < k) s_m^2/P_(m+1)^2, the noise of steps m to k - 1 has variance
    ``P_k^2 (C_k - C_m)`` after step k - 1; both are kept as logs.
    """
    chain = training.chain
    sizes, std = training.step_sizes, training.noise_std
    steps, keep = len(sizes), 1 - sizes * chain.l2
    log_keep = np.append(0.0, np.cumsum(np.log(keep)))
    log_noise = np.append(-math.inf, np.logaddexp.accumulate(2 * (np.log(std) - log_keep[1:])))
    kept, noise = torch.as_tensor(log_keep), torch.as_tensor(log_noise)
    etas, keeps = (torch.as_tensor(part, dtype=torch.float32) for part in (sizes, keep))
    descend = training.descent(_problem(training, [record]))
    theta = chain.start_std * torch.randn(runs, 1, training.classes, generator=rng)
    out, still = torch.empty(runs, training.classes), torch.arange(runs)
    done = torch.zeros(runs, dtype=torch.long)
    while len(still):
        use = _next_use(training, done, rng)
        since = (done - 1).clamp(min=0)
        variance = (2 * kept[use] + noise[use]).exp() * -torch.expm1(noise[since] - noise[use])
        spread = variance.where(use > since, 0.0).sqrt().float()[:, None, None]
        normals = torch.randn(theta.shape, generator=rng)
        theta = theta * (kept[use] - kept[done]).exp().float()[:, None, None] + spread * normals
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
    """The first step >= done that uses the record, ``(R,)``, or the number of steps; done: one after the last use."""
    rate, steps = training.rate, len(training.chain.step)
    if training.chain.sampling.scheme != "shuffled":
        uniform = 1 - torch.rand(len(done), generator=rng, dtype=torch.float64)  # in (0, 1]
        gap = (uniform.log() / math.log1p(-rate)).floor() if rate < 1 else torch.zeros_like(uniform)
        return (done + gap.clamp(max=float(steps)).long()).clamp(max=steps)
    size, per_epoch = training.chain.sampling.size(training.records), training.per_epoch
    use = torch.full_like(done, steps)
    epoch = (done + per_epoch - 1) // per_epoch  # the first without a use so far
    lacking = torch.arange(len(done))
    while len(lacking):
        place = torch.randint(training.records, (len(lacking),), generator=rng)  # in the order of the epoch
        at = epoch[lacking] * per_epoch + place // size
        found = (place < per_epoch * size) | (at >= steps)
        use[lacking[found]] = at[found].clamp(max=steps)
        epoch[lacking] += 1
        lacking = lacking[~found]
    return use


def _uses(training: Training, own: Tensor, zeros: int, width: int, rng: torch.Generator) -> Iterator[Batch]:
    """Batches of one row: the record's, `own` ``(R,)``, or `zeros`; of size 0 where a sample lacks the record."""
    place = torch.empty(0)
    for t in range(len(training.chain.step)):
        if training.chain.sampling.scheme == "shuffled":
            if t % training.per_epoch == 0:
                place = torch.randint(training.records, own.shape, generator=rng)
            used = place // training.chain.sampling.size(training.records) == t % training.per_epoch
        else:
            used = torch.rand(len(own), generator=rng) < training.rate
        normals = torch.randn(len(own), 1, width, generator=rng)
        yield Batch(own.where(used, zeros)[:, None], used.long(), normals)


def _trained(training: Training, start: Tensor, stream: Iterator[Batch], descend: Descent) -> Tensor:
    """theta_K ``(R, 1, d)``, every step as in `chains.chain`.  start: standard normals ``(R, 1, d)``."""
    chain = training.chain
    theta = _projected(chain.start_std * start, chain.radius)
    sizes, stds = training.step_sizes.tolist(), training.noise_std.tolist()
    for eta, std, batch in zip(sizes, stds, stream, strict=True):
        descend(theta, batch, torch.full((1, 1), eta), torch.full((1, 1), 1 - eta * chain.l2))
        theta = _projected(theta.add_(batch.normals, alpha=std), chain.radius)
    return theta


def _projected(theta: Tensor, radius: float) -> Tensor:
    if radius == math.inf:
        return theta
    return theta * (radius / theta.norm(dim=-1, keepdim=True)).clamp_(max=1.0)


def _stepwise(training: Training, record: Record, runs: int, rng: torch.Generator) -> Tensor:
    """Every step as in training, in full width: a projection on a ball sees the other features too."""
    problem = _problem(training, [record])
    start = torch.randn(runs, 1, problem.d, generator=rng)
    stream = _uses(training, torch.zeros(runs, dtype=torch.long), 1, problem.d, rng)
    return _trained(training, start, stream, training.descent(problem))[:, 0]


class _Watched:
    """A `Descent` that sums the log-likelihood ratio of all iterates as it sees them; see `all_iterates`.

    own, first, second: rows ``(R,)`` of the record that is there, and of those under D and D'.
    """

    def __init__(self, training: Training, descend: Descent, rows: tuple[Tensor, Tensor], looks: int) -> None:
        self.descend, self.rows, self.rate = descend, rows, training.rate
        self.etas, self.stds = training.step_sizes.tolist(), training.noise_std.tolist()
        self.every = max(1, len(self.etas) // looks)
        self.total = torch.zeros(len(rows[0]), dtype=torch.float64)
        self.step = 0
        self.kept = self.by = self.squares = torch.empty(0)

    def __call__(self, theta: Tensor, batch: Batch, eta: Tensor, keep: Tensor) -> None:
        """A step; only runs that use their record need its gradient."""
        if self.step:
            self.see(theta)
        if self.step % self.every == 0:
            sides = [_displaced(self.descend, theta, row)[:, 0] for row in self.rows]
            self.by = torch.stack(sides, 2)  # (R, K, 2)
            self.squares = self.by.square().sum(1)
        assert batch.sizes is not None
        used = batch.sizes.nonzero()[:, 0]
        some = theta[used]
        theta.mul_(keep)
        self.kept = theta.clone()
        if len(used):
            self.descend(some, Batch(batch.rows[used], batch.sizes[used], batch.normals[used]), eta, keep)
            theta[used] = some
        self.step += 1

    def see(self, theta: Tensor) -> None:
        """The iterate after a step: its part of the ratio."""
        eta, std = self.etas[self.step - 1], self.stds[self.step - 1]
        along = torch.bmm(theta - self.kept, self.by)[:, 0]  # (R, 2)
        hit = along.mul_(eta / std**2).sub_(self.squares, alpha=eta**2 / (2 * std**2))
        if self.rate < 1:
            top = hit.clamp(min=0)  # log((1 - q) + q e^hit) without overflow
            parts = top + ((1 - self.rate) * torch.exp(-top) + self.rate * torch.exp(hit - top)).log()
        else:
            parts = hit
        self.total += parts[:, 0] - parts[:, 1]


def _ratios(
    training: Training, tried: Sequence[Pair], each: Tensor, side: int, rng: torch.Generator, looks: int
) -> Tensor:
    """Ratios ``(R,)`` of runs on D (side 0) or D' (side 1) of the pair ``tried[each]``, each ``(R,)``."""
    problem = _problem(training, [record for pair in tried for record in pair[1:]])
    rows = 2 * each, 2 * each + 1
    descend = training.descent(problem)
    watched = _Watched(training, descend, rows, looks)
    start = torch.randn(len(each), 1, problem.d, generator=rng)
    stream = _uses(training, rows[side], problem.n - 1, problem.d, rng)
    theta = _trained(training, start, stream, watched)
    watched.see(theta)
    return watched.total


@dataclass(frozen=True)
class OnRow:
    """The attack on the problem of a row of an experiment, as `prices.priced` takes it.

    single: runs where the last iterate is seen, chain: where all are; confidence: of the bound.
    """

    single: int
    chain: int
    confidence: float = 0.95

    def __call__(self, plan: Plan, facts: Facts, delta: float, rng: torch.Generator) -> dict[str, Any]:
        """The columns of the row that say what the attack shows."""
        classes = facts.linear.classes
        training = Training(
            plan.work, facts.n, classes, facts.d // classes, facts.row_bound, facts.row_quantile
        )
        if plan.guarantee.released == "final":
            attack = last_iterate(training, self.single, rng, delta)
        else:
            attack = all_iterates(training, self.chain, rng)
        found = audit(attack.first, attack.second, delta, self.confidence)
        return {
            "epsilon_audit": found.epsilon,
            "audit_confidence": found.confidence,
            "audit_pair": attack.pair.name,
        }
