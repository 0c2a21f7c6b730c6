r"""The one loop: chains of noisy clipped gradient steps on a `Problem`, for all seeds and variants at once.

Chain (s, e), of seed s and variant e, with clipped gradients g_i of the loss of one record::

    v     <- momentum v + (sum_(i in B_t) g_i + N(0, noise_std_t^2 I))/tau + l2 theta
    theta <- Proj(theta - step_t v),    Proj: onto ||theta|| <= radius

Chains of one run share batches and normal draws, so that variants are compared on the same noise.  The sum is divided
by tau, a constant, whatever number of rows a Poisson sample has.  Only the part that depends on a record is clipped;
l2 needs no data.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from tqdm import tqdm

from dplangevin.cache import Checkpoint
from dplangevin.chains.sampling import Batch, Sampling, batches
from dplangevin.problems import Problem, Sums

AT_ONCE = 64  # steps whose random numbers are drawn together, where no checkpoint needs them one by one


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

    def __call__(self, step: int, theta: Tensor, mask: Tensor, sums: Sums) -> None:
        """After step (1-based): theta ``(S, E, d)``, the mask ``(S, E, B)`` and sums of its minibatch."""
        ...


def run(
    problem: Problem,
    chains: Sequence[Chain],
    seeds: int,
    rng: torch.Generator,
    *,
    start: Tensor | None = None,
    observe: Observer | None = None,
    checkpoint: Checkpoint | None = None,
    progress: Callable[[], str] | None = None,
) -> Tensor:
    """theta after the steps in ``keep``, ``(S, E, kept, d)``.

    start: theta_0 ``(S, E, d)``, that of the problem by default.  checkpoint: the state is kept there now and then, and
    a run that finds one goes on from it to the same bytes.  progress: a text for the progress bar.
    Raises ValueError for chains that cannot share batches, and, naming the step, when a chain diverges.
    """
    n, d, first = problem.facts.n, problem.facts.d, chains[0]
    steps, size = len(first.step), first.sampling.size(n)
    if any(len(c.step) != steps or c.sampling.size(n) != size or c.keep != first.keep for c in chains):
        raise ValueError(
            "chains that are run together need equally many steps, one batch size and one `keep`"
        )
    if any(not c.clip > 0 for c in chains):
        raise ValueError(f"clips {[c.clip for c in chains]} must be positive; inf for none")
    schemes = {c.sampling.scheme for c in chains}
    poisson = torch.tensor([c.sampling.scheme == "poisson" for c in chains])
    device = problem.device

    def column(values: list[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32, device=device)[:, None]

    def schedule(name: str) -> Tensor:  # (T, E, 1)
        return torch.stack([getattr(c, name).float() for c in chains], 1)[..., None].to(device)

    l2, momentum, radius = (
        column([getattr(c, name) for c in chains]) for name in ("l2", "momentum", "radius")
    )
    clip, step, std = column([c.clip for c in chains])[:, 0], schedule("step"), schedule("noise_std")
    wanted = set(first.keep or (steps,))

    saved = None if checkpoint is None else checkpoint.load()
    if saved is None:
        theta = start if start is not None else problem.init(seeds, rng)[:, None].repeat(1, len(chains), 1)
        if any(c.start_std for c in chains):
            theta = theta + column([c.start_std for c in chains]).cpu() * torch.randn(
                seeds, 1, d, generator=rng
            )
        theta = _projected(theta.to(device), radius)
        saved = {"step": 0, "theta": theta, "velocity": torch.zeros_like(theta), "kept": []}
    else:
        rng.set_state(saved["rng"])
        if observe is not None:
            observe.state = saved["observer"]
    done, theta, velocity = saved["step"], saved["theta"].to(device), saved["velocity"].to(device)
    kept = [each.to(device) for each in saved["kept"]]

    def snapshot() -> dict[str, Any]:
        found = {"step": done, "theta": theta.cpu(), "velocity": velocity.cpu(), "rng": rng.get_state()}
        found["kept"] = [each.cpu() for each in kept]
        return found | {"observer": observe.state if observe else None}

    block = 1 if checkpoint is not None else AT_ONCE
    stream = batches(rng, schemes, seeds, n, size, d, steps - done, block)
    with tqdm(
        total=steps, initial=done, unit="step", mininterval=1, leave=checkpoint is not None, disable=None
    ) as bar:
        for drawn in stream:
            batch, t = drawn.to(device), done
            mask = _mask(batch, poisson, size)
            try:
                sums = problem.clipped_sum(theta, batch.rows, mask, clip)
            except ValueError as error:
                raise ValueError(
                    f"step {t + 1}: {error} (if the chain diverges, lower its step size)"
                ) from error
            gradient = (sums.gradient + std[t] * batch.normals) / size + l2 * theta
            velocity = momentum * velocity + gradient
            theta = theta - step[t] * velocity
            theta = _projected(theta, radius)
            done += 1
            if done in wanted:
                kept.append(theta.clone())
            if observe is not None:
                observe(done, theta, mask, sums)
            if progress is not None:
                bar.set_postfix_str(progress())
            bar.update()
            if checkpoint is not None:
                checkpoint.save(snapshot)
    if checkpoint is not None:
        checkpoint.save(snapshot, force=True)
    return torch.stack(kept, 2)


def _mask(batch: Batch, poisson: Tensor, size: int) -> Tensor:
    """(S, E, B): the first `size` rows, or those of the Poisson sample."""
    place = torch.arange(batch.rows.shape[1], device=batch.rows.device)
    fixed = (place < size).expand(len(batch.rows), 1, -1)
    if batch.sizes is None:
        return fixed.expand(-1, len(poisson), -1)
    sampled = (place < batch.sizes[:, None])[:, None]
    return torch.where(poisson.to(place.device)[None, :, None], sampled, fixed)


def _projected(theta: Tensor, radius: Tensor) -> Tensor:
    if bool((radius == math.inf).all()):
        return theta
    return theta * (radius / theta.norm(dim=-1, keepdim=True)).clamp_(max=1.0)
