"""The one loop that runs chains of noisy clipped gradient steps on a `Problem`.

Chain (s, e) has seed s and variant e. Step t uses the minibatch B_t, and g_i is the clipped gradient of the loss of
record i. The noisy sum of the step is::

    G_t = sum_(i in B_t) g_i + N(0, noise_std_t^2 I)

The noise is added in float64, and G_t is rounded to a public grid before theta moves (`random.on_grid`). A kernel
computes the next theta from G_t and its own state. The default kernel is gradient descent with momentum::

    v     <- momentum v + G_t/tau + l2 theta
    theta <- Proj(theta - step_t v)

Proj is the projection onto the ball ||theta|| <= radius, and the loop does it for every kernel.

Only the kernels of DP-SGFS use records. Every other kernel is post-processing, and so is `Problem.around`. The chains
of one run share minibatches and normal draws. tau is constant, also where a Poisson sample has another number of rows.
The clip leaves out the l2 term, which needs no data.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from dplangevin.device import full_float32
from dplangevin.files import Checkpoint
from dplangevin.problems import Problem, Sums
from dplangevin.problems.chain import Chain, Kernel, Observer, State
from dplangevin.problems.sampling import BY_EPOCH, RANDOM_SIZE
from dplangevin.random import NORMALS, Batch, allocations, batches, epochs, grid_shift, noise, stream_seed

TINY, LARGEST = 2.0**-126, 1e30  # the least normal float32; noise of a step times the minibatch, at most
# steps whose random numbers are drawn together; the key says whether a chain has Poisson samples
AT_ONCE = {True: 64, False: 256}


class Momentum:
    """Gradient descent with momentum: the equation in the module's docstring without its projection."""

    def __init__(self, chains: Sequence[Chain], size: int, device: torch.device) -> None:
        self.size, self.step_size = size, schedules(chains, "step", device)
        self.l2, self.momentum = columns(chains, "l2", device), columns(chains, "momentum", device)

    def init(self, theta: Tensor, rng: torch.Generator) -> State:
        return theta, torch.zeros_like(theta)

    def step(self, state: State, noisy: Tensor, t: int, batch: Batch) -> State:
        theta, velocity = state
        velocity = self.momentum * velocity + (noisy / self.size + self.l2 * theta)
        return theta - self.step_size[t] * velocity, velocity


def columns(chains: Sequence[Chain], name: str, device: torch.device) -> Tensor:
    """Return the attribute `name` of every chain, ``(E, 1)`` in float32."""
    return torch.tensor([getattr(c, name) for c in chains], dtype=torch.float32, device=device)[:, None]


def schedules(
    chains: Sequence[Chain], name: str, device: torch.device, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return the attribute `name` of every step and chain, ``(T, E, 1)``."""
    return torch.stack([getattr(c, name).to(dtype) for c in chains], 1)[..., None].to(device)


def run(
    problem: Problem,
    chains: Sequence[Chain],
    seeds: int,
    rng: torch.Generator,
    *,
    schemes: set[str] | None = None,
    start: Tensor | None = None,
    kernel: Kernel | None = None,
    observe: Observer | None = None,
    checkpoint: Checkpoint | None = None,
    drawn_in: torch.dtype = NORMALS,
) -> Tensor:
    """Run the chains, and return theta after the steps in `Chain.keep`, ``(S, E, kept, d)``.

    - `chains`: E of them, with equal numbers of steps, batch sizes and `keep`.
    - `schemes`: the sampling schemes that the random stream is drawn for; by default those of `chains`. With the same
      `schemes`, a chain sees the same rows and noise, whichever chains run beside it. A given set also draws the noise
      of a random start.
    - `start`: (S, E, d), theta_0; by default the problem's.
    - `checkpoint`: where the state is saved. A run that finds a saved state ends in the same bytes.
    - `drawn_in`: precision in which the noise is drawn, see `random.noise`.
    """
    full_float32()
    plain = kernel is None and observe is None
    plain = plain and not any(c.momentum or c.mean_clip < math.inf for c in chains)
    # `Problem.descent` needs the chains whose minibatches differ in size last
    arranged = sorted(range(len(chains)), key=lambda e: plain and chains[e].sampling.scheme in RANDOM_SIZE)
    chains = [chains[e] for e in arranged]
    n, size, steps = problem.facts.n, chains[0].sampling.size(problem.facts.n), len(chains[0].step)
    update = _Update(problem, chains, kernel, plain)
    drawn_for = schemes or {c.sampling.scheme for c in chains}
    if drawn_for & BY_EPOCH and len(drawn_for) > 1:
        raise ValueError(
            f"chains of random allocation or shuffled epochs cannot share minibatches with others: {sorted(drawn_for)}"
        )
    saved = None if checkpoint is None else checkpoint.load()
    if saved is None:
        start = None if start is None else start[:, arranged]
        theta = _start(problem, chains, seeds, rng, start, schemes is not None, drawn_in)
        state, order = tuple(update.kernel.init(update.projected(theta), rng)), ""
        done, kept = 0, list[Tensor]()
        if drawn_for & BY_EPOCH:  # the seed of the epochs' orders
            order = hex(stream_seed(rng, secret="random_allocation" in drawn_for))
    else:
        done, order = saved["step"], saved["order"]
        state = tuple(each.to(problem.device) for each in saved["state"])
        kept = [each.to(problem.device) for each in saved["kept"]]
        rng.set_state(saved["rng"])
        if observe is not None:
            observe.state = saved["observer"]

    def snapshot() -> dict[str, Any]:
        tensors = {"state": [each.cpu() for each in state], "kept": [each.cpu() for each in kept]}
        numbers = {"step": done, "order": order, "observer": observe.state if observe else None}
        return tensors | numbers | {"rng": rng.get_state()}

    rows_of = epochs if "shuffled" in drawn_for else allocations
    by_epoch = rows_of(int(order, 16), seeds, n, size, done) if order else None
    block = 1 if checkpoint is not None else AT_ONCE["poisson" in drawn_for]
    stream = batches(rng, drawn_for, seeds, n, size, problem.facts.d, steps - done, block, by_epoch, drawn_in)
    with tqdm(
        total=steps, initial=done, unit="step", mininterval=1, leave=checkpoint is not None, disable=None
    ) as bar:
        for batch in (drawn.to(problem.device) for drawn in stream):
            state, sums = update(state, batch, done)
            done += 1
            if done in (chains[0].keep or (steps,)):
                kept.append(state[0].clone())
            if observe is not None and sums is not None:
                observe(done, state[0], _counts(batch, update.varied, size), sums)
            bar.update()
            if checkpoint is not None:
                checkpoint.save(snapshot)
    if checkpoint is not None:
        checkpoint.save(snapshot, force=True)
    return torch.stack(kept, 2)[:, [arranged.index(e) for e in range(len(chains))]]


class _Update:
    """A step of all chains; the equations are in the module's docstring."""

    def __init__(self, problem: Problem, chains: Sequence[Chain], kernel: Kernel | None, plain: bool) -> None:
        device, n = problem.device, problem.facts.n
        self.problem, self.size = problem, _common_size(chains, n)
        self.varied = torch.tensor([c.sampling.scheme in RANDOM_SIZE for c in chains], device=device)
        self.radius, clips = columns(chains, "radius", device), columns(chains, "clip", device)[:, 0]
        self.clip = None if bool(clips.isinf().all()) else clips
        # bound on the norm of a minibatch's sum
        self.longest = self.size * columns(chains, "mean_clip", device)
        self.cut = bool((self.longest < math.inf).any())
        self.bounded = not bool((self.radius == math.inf).all())
        self.step = schedules(chains, "step", device)
        self.std = schedules(chains, "noise_std", device, torch.float64)
        self.shift = grid_shift(self.std)
        self.shrunk = 1 - self.step * columns(chains, "l2", device)  # the factor on theta in a step
        self.descend = problem.descent(chains) if plain else None
        if self.descend is not None:
            _check_scale(self.step / self.size, self.step * self.std / self.size, self.size)
        largest = n * min(float(clips.max()), problem.facts.lipschitz)
        if bool((self.std > 0).any()) and LARGEST < largest < math.inf:
            raise ValueError(
                f"a sum of gradients up to {largest:.3g} may overflow float32: scale the rows, or lower the clip"
            )
        self.kernel = problem.around(kernel or Momentum(chains, self.size, device), chains)

    def __call__(self, state: State, batch: Batch, t: int) -> tuple[State, Sums | None]:
        """Return the state after step t = 0, 1, ..., and the minibatch's sums; None from the problem's own step."""
        sums = None
        if self.descend is not None:
            self.descend(state[0], batch, self.step[t], self.shrunk[t], (self.std[t], self.shift[t]))
        else:
            try:
                mask = _mask(batch, self.varied, self.size)
                sums = self.problem.clipped_sum(state[0], batch.rows, mask, self.clip)
            except ValueError as error:
                raise ValueError(
                    f"step {t + 1}: {error} (if the chain diverges, lower its step size)"
                ) from error
            gradient = _shortened(sums.gradient, self.longest) if self.cut else sums.gradient
            noisy = (gradient + self.std[t] * batch.normals).add_(self.shift[t]).sub_(self.shift[t])
            state = self.kernel.step(state, noisy.to(state[0].dtype), t, batch)
        return (self.projected(state[0]), *state[1:]), sums

    def projected(self, theta: Tensor) -> Tensor:
        return _shortened(theta, self.radius) if self.bounded else theta


def _common_size(chains: Sequence[Chain], n: int) -> int:
    """Return the batch size of the chains; raise ValueError if they cannot be run together, or for a clip <= 0."""
    first, size = chains[0], chains[0].sampling.size(n)
    steps = len(first.step)
    if any(len(c.step) != steps or c.sampling.size(n) != size or c.keep != first.keep for c in chains):
        raise ValueError(
            "chains that are run together need equally many steps, one batch size and one `keep`"
        )
    for name in ("clip", "mean_clip"):
        given = [getattr(c, name) for c in chains]
        if not all(value > 0 for value in given):
            raise ValueError(f"{name} {given} must be positive; inf for none")
    return size


def _start(
    problem: Problem,
    chains: Sequence[Chain],
    seeds: int,
    rng: torch.Generator,
    start: Tensor | None,
    paired: bool,
    drawn_in: torch.dtype,
) -> Tensor:
    """Return theta_0 ``(S, E, d)``, with the noise of a random start, before it is projected."""
    if start is None:
        start = problem.init(seeds, rng)[:, None].repeat(1, len(chains), 1)
    theta = start.to(problem.device, copy=True)  # `Problem.descent` changes theta in place
    if not paired and not any(c.start_std for c in chains):
        return theta
    drawn = noise(rng, seeds, 1, problem.facts.d, dtype=drawn_in).float().to(theta.device)
    return theta + columns(chains, "start_std", theta.device) * drawn


def thinned(steps: int, burn_in: float, samples: int) -> tuple[int, ...]:
    """Return at most `samples` step numbers (1-based), evenly spaced after the burn-in, with the last step."""
    first = math.floor(burn_in * steps)
    return tuple(sorted({first + math.ceil((steps - first) * (i + 1) / samples) for i in range(samples)}))


def _check_scale(share: Tensor, moved: Tensor, size: int) -> None:
    """Raise ValueError if float32 cannot hold what a step multiplies: share with the sum, moved with the noise.

    Below the least normal number the two round differently, and the noise is not that which is priced.
    """
    for name, values, high in (
        ("step size/minibatch", share, math.inf),
        ("noise of a step", moved, LARGEST / size),
    ):
        values = values.double()
        wrong = (values > high) | (values > 0) & (values < TINY)
        if bool(wrong.any()) and bool((moved > 0).any()):
            raise ValueError(
                f"{name} {float(values[wrong][0]):.3g} is out of the range of float32, {TINY:.3g} to {LARGEST:.3g}: "
                "scale the rows, or change the step size"
            )


def _counts(batch: Batch, varied: Tensor, size: int) -> Tensor:
    """Return how many of `batch.rows`, from the first on, are each chain's minibatch, ``(S, E)``."""
    fixed = torch.full((len(batch.rows), len(varied)), size, device=batch.rows.device)
    return fixed if batch.sizes is None else torch.where(varied, batch.sizes[:, None], fixed)


def _mask(batch: Batch, varied: Tensor, size: int) -> Tensor | None:
    """Return True for the rows in each chain's minibatch, ``(S, E, B)``; None if all rows are in it."""
    if batch.sizes is None and batch.rows.shape[1] == size:
        return None
    place = torch.arange(batch.rows.shape[1], device=batch.rows.device)
    return place < _counts(batch, varied, size)[..., None]


def _shortened(vectors: Tensor, longest: Tensor) -> Tensor:
    """Return vectors ``(S, E, d)`` scaled down to norms of at most `longest` ``(E, 1)``."""
    return vectors * (longest / vectors.norm(dim=-1, keepdim=True)).clamp_(max=1.0)
