r"""The one loop: noisy sums of clipped gradients of a `Problem`, and what a kernel makes of them.

Chain (s, e), of seed s and variant e, with clipped gradients g_i of the loss of one record::

    G_t   = sum_(i in B_t) g_i + N(0, noise_std_t^2 I)
    theta = what the kernel makes of G_t and of what it has seen; by default gradient descent with momentum,
            v <- momentum v + G_t/tau + l2 theta,    theta <- Proj(theta - step_t v),    Proj: onto ||theta|| <= radius

A kernel is given G_t and the state that it made of earlier ones, not the records (but for that of DP-SGFS, which says
so): whatever it does is post-processing, and so is what a problem does around it (`Problem.around`).  Chains of one
run share batches and normal draws, so that variants are compared on the same noise.  The sum is divided by tau, a
constant, whatever number of rows a Poisson sample has.  Only the part that depends on a record is clipped; l2 needs no
data.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from tqdm import tqdm

from dplangevin.cache import Checkpoint
from dplangevin.chains.sampling import Sampling
from dplangevin.kernels import Kernel as Dynamics
from dplangevin.problems import Problem, Sums
from dplangevin.random import NORMALS, Batch, batches, epochs, noise

AT_ONCE = {
    True: 64,
    False: 256,
}  # steps whose random numbers are drawn together, with Poisson samples and without
State = tuple[Tensor, ...]  # theta (S, E, d) first


class Chain(NamedTuple):
    """One chain.  step: eta_t, noise_std: deviation of the noise on the sum of clipped gradients, both ``(T,)``.

    clip: bound on the norm of one record's gradient, inf for none.  l2: weight of ``l2/2 ||theta||^2`` beside the mean
    loss.  momentum: in [0, 1).  start_std: of N(0, start_std^2 I), added to the problem's start (and projected).  keep:
    steps, 1-based, after which theta is kept; none: after the last.
    """

    step: Tensor
    noise_std: Tensor
    sampling: Sampling
    clip: float = math.inf
    l2: float = 0.0
    momentum: float = 0.0
    radius: float = math.inf
    start_std: float = 0.0
    keep: tuple[int, ...] = ()


class Observer(Protocol):
    """Sees every step and decides nothing; its `state` (tensors, numbers, lists) is part of a checkpoint."""

    state: dict[str, Any]

    def __call__(self, step: int, theta: Tensor, rows: Tensor, sums: Sums) -> None:
        """After step (1-based): theta ``(S, E, d)``, how many rows its minibatches had, ``(S, E)``, and their sums."""
        ...

    def shown(self) -> str:
        """A text for the progress bar."""
        ...


class Kernel(Protocol):
    """What becomes of the noisy sums."""

    def init(self, theta: Tensor, rng: torch.Generator) -> State:
        """The first state, from theta ``(S, E, d)``."""
        ...

    def step(self, state: Any, noisy: Tensor, t: int, batch: Batch) -> State:
        """The state after step t = 0, 1, ...; noisy: G_t, ``(S, E, d)``."""
        ...


class Descent:
    """Gradient descent with momentum, the module's equation without its projection."""

    def __init__(self, chains: Sequence[Chain], size: int, device: torch.device) -> None:
        self.size, self.step_size = size, schedules(chains, "step", device)
        self.l2, self.momentum = columns(chains, "l2", device), columns(chains, "momentum", device)

    def init(self, theta: Tensor, rng: torch.Generator) -> State:
        return theta, torch.zeros_like(theta)

    def step(self, state: State, noisy: Tensor, t: int, batch: Batch) -> State:
        theta, velocity = state
        velocity = self.momentum * velocity + (noisy / self.size + self.l2 * theta)
        return theta - self.step_size[t] * velocity, velocity


@dataclass(frozen=True)
class Langevin:
    """A kernel of `kernels` in units of ``U = sum of losses + n l2/2 ||theta||^2``, of whose gradient it has the
    estimate ``(n/tau) G_t + n l2 theta``; the noise of the update is in G_t.

    dynamics: of `kernels`.  start: the rest of its state, from theta and the generator.  step_size: of U,
    ``(T, E, 1)``.  share: n/tau.  precision: n l2, ``(E, 1)``.
    """

    dynamics: Dynamics
    start: Callable[[Tensor, torch.Generator], State]
    step_size: Tensor
    share: float
    precision: Tensor

    def init(self, theta: Tensor, rng: torch.Generator) -> State:
        return theta, *self.start(theta, rng)

    def step(self, state: State, noisy: Tensor, t: int, batch: Batch) -> State:
        gradient = (self.share * noisy).add_(self.precision * state[0])
        found = self.dynamics.step(self.dynamics.init(*state), gradient, None, self.step_size[t])
        return tuple(found)


def columns(chains: Sequence[Chain], name: str, device: torch.device) -> Tensor:
    """A number of every chain, ``(E, 1)``."""
    return torch.tensor([getattr(c, name) for c in chains], dtype=torch.float32, device=device)[:, None]


def schedules(chains: Sequence[Chain], name: str, device: torch.device) -> Tensor:
    """A number of every step and chain, ``(T, E, 1)``."""
    return torch.stack([getattr(c, name).float() for c in chains], 1)[..., None].to(device)


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
    """theta after the steps in ``keep``, ``(S, E, kept, d)``.

    schemes: what the random stream is drawn for (and a random start), if more than what these chains need; with the
    same, a chain sees the same rows and noise whatever it is run with.  start: theta_0 ``(S, E, d)``, that of the
    problem by default.  drawn_in: precision that the noise is drawn in, see `random.noise`.
    checkpoint: the state is kept there now and then, and a run that finds one goes on from it to the same bytes.
    Raises ValueError for chains that cannot share batches, and, naming the step, when a network's chain diverges; that
    of a linear model ends in nan.
    """
    n, d, first = problem.facts.n, problem.facts.d, chains[0]
    steps, size, device = len(first.step), first.sampling.size(n), problem.device
    if any(len(c.step) != steps or c.sampling.size(n) != size or c.keep != first.keep for c in chains):
        raise ValueError(
            "chains that are run together need equally many steps, one batch size and one `keep`"
        )
    if any(not c.clip > 0 for c in chains):
        raise ValueError(f"clips {[c.clip for c in chains]} must be positive; inf for none")
    poisson = torch.tensor([c.sampling.scheme == "poisson" for c in chains], device=device)
    radius, clips = columns(chains, "radius", device), columns(chains, "clip", device)[:, 0]
    clip = None if bool(clips.isinf().all()) else clips
    step, std = schedules(chains, "step", device), schedules(chains, "noise_std", device)
    l2, wanted = columns(chains, "l2", device), set(first.keep or (steps,))
    plain = kernel is None and observe is None and not any(c.momentum for c in chains)
    order = sorted(range(len(chains)), key=lambda e: chains[e].sampling.scheme == "poisson")
    if plain and order != sorted(order):  # a descent of the problem's own wants Poisson samples last
        arranged, begin = [chains[e] for e in order], None if start is None else start[:, order]
        found = run(
            problem,
            arranged,
            seeds,
            rng,
            schemes=schemes,
            start=begin,
            checkpoint=checkpoint,
            drawn_in=drawn_in,
        )
        return found[:, [order.index(e) for e in range(len(chains))]]
    descend = problem.descent(chains) if plain else None
    shrunk, moved = (
        1 - step * l2,
        step * std / size,
    )  # what a step keeps of theta, and the standard deviation of its noise
    bounded = not bool((radius == math.inf).all())
    kernel = problem.around(kernel or Descent(chains, size, device), chains)

    paired, schemes = schemes is not None, schemes or {c.sampling.scheme for c in chains}
    if "shuffled" in schemes and len(schemes) > 1:
        raise ValueError(f"chains of shuffled epochs cannot share minibatches with others: {sorted(schemes)}")
    saved = None if checkpoint is None else checkpoint.load()
    if saved is None:
        if start is None:
            start = problem.init(seeds, rng)[:, None].repeat(1, len(chains), 1)
        theta = start.clone()  # a descent of the problem's own works in place
        if paired or any(c.start_std for c in chains):
            drawn = noise(rng, seeds, 1, d, dtype=drawn_in).float()
            theta = theta + columns(chains, "start_std", torch.device("cpu")) * drawn
        saved = {"step": 0, "kept": [], "state": list(kernel.init(_projected(theta.to(device), radius), rng))}
        saved["order"] = int(torch.randint(2**31, (1,), generator=rng)) if "shuffled" in schemes else 0
    else:
        rng.set_state(saved["rng"])
        if observe is not None:
            observe.state = saved["observer"]
    order, done, kept = saved["order"], saved["step"], [each.to(device) for each in saved["kept"]]
    state = tuple(each.to(device) for each in saved["state"])

    def snapshot() -> dict[str, Any]:
        found = {"step": done, "state": [each.cpu() for each in state], "rng": rng.get_state()}
        found["order"] = order
        found["kept"] = [each.cpu() for each in kept]
        return found | {"observer": observe.state if observe else None}

    block = 1 if checkpoint is not None else AT_ONCE["poisson" in schemes]
    shuffled = epochs(order, seeds, n, size, done) if "shuffled" in schemes else None
    stream = batches(rng, schemes, seeds, n, size, d, steps - done, block, shuffled, drawn_in)
    with tqdm(
        total=steps, initial=done, unit="step", mininterval=1, leave=checkpoint is not None, disable=None
    ) as bar:
        for drawn_batch in stream:
            batch, t = drawn_batch if device.type == "cpu" else drawn_batch.to(device), done
            if descend is not None:
                theta = state[0]
                descend(theta, batch, step[t], shrunk[t])
                theta.addcmul_(moved[t], batch.normals, value=-1)
            else:
                mask = _mask(batch, poisson, size)
                try:
                    sums = problem.clipped_sum(state[0], batch.rows, mask, clip)
                except ValueError as error:
                    raise ValueError(
                        f"step {t + 1}: {error} (if the chain diverges, lower its step size)"
                    ) from error
                noisy = (std[t] * batch.normals).add_(sums.gradient)
                state = kernel.step(state, noisy, t, batch)
            if bounded:
                state = (_projected(state[0], radius), *state[1:])
            done += 1
            if done in wanted:
                kept.append(state[0].clone())
            if observe is not None:
                observe(done, state[0], _counts(batch, poisson, size), sums)
                bar.set_postfix_str(observe.shown())
            bar.update()
            if checkpoint is not None:
                checkpoint.save(snapshot)
    if checkpoint is not None:
        checkpoint.save(snapshot, force=True)
    return torch.stack(kept, 2)


def thinned(steps: int, burn_in: float, samples: int) -> tuple[int, ...]:
    """At most `samples` step numbers, evenly spaced after the burn-in share, the last step included."""
    first = math.floor(burn_in * steps)
    return tuple(sorted({first + math.ceil((steps - first) * (i + 1) / samples) for i in range(samples)}))


def _counts(batch: Batch, poisson: Tensor, size: int) -> Tensor:
    """(S, E): how many rows, from the start, are a chain's minibatch."""
    fixed = torch.full((len(batch.rows), len(poisson)), size, device=batch.rows.device)
    return fixed if batch.sizes is None else torch.where(poisson, batch.sizes[:, None], fixed)


def _mask(batch: Batch, poisson: Tensor, size: int) -> Tensor | None:
    """(S, E, B), None where all rows take part."""
    if batch.sizes is None and batch.rows.shape[1] == size:
        return None
    place = torch.arange(batch.rows.shape[1], device=batch.rows.device)
    return place < _counts(batch, poisson, size)[..., None]


def _projected(theta: Tensor, radius: Tensor) -> Tensor:
    if bool((radius == math.inf).all()):
        return theta
    return theta * (radius / theta.norm(dim=-1, keepdim=True)).clamp_(max=1.0)
