"""Measure one step of a training loop: how far a row moves it, and where its noise is."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from scipy.stats import chi2
from torch import Tensor, nn

from dplangevin.checks import count, positive, require

ERROR = 1e-6  # probability that a right standard deviation is called wrong
FAR = 1e3  # factor by which a row is enlarged, so that its gradient exceeds the clip
MOST = 10_000  # coordinates of a parameter whose noise is measured one by one
Sums = dict[str, Tensor]  # by name of the parameter
Run = Callable[..., Sums]
SLACK = 1.02  # of sensitivities, for rounding and for clips like clip/(norm + 1e-6)


@dataclass(frozen=True)
class StepCheck:
    """What was measured of one step, on the scale of the sum of gradients.

    Attributes
    ----------
    moved : float, the most that replacing a row moved the sum; at most 2 clip.
    removed : float, the most that removing a row moved the sum; at most clip.
    noise_std : dict, for each parameter the noise's standard deviation on the sum.
    faults : list of str, what differs from what was stated; [] if nothing was found.
    """

    moved: float
    removed: float
    noise_std: dict[str, float]
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        noises = ", ".join(f"{name} {std:.4g}" for name, std in self.noise_std.items())
        lines = [f"replacing a row moves the sum by {self.moved:.4g}, removing one by {self.removed:.4g}"]
        lines.append(f"standard deviation of the noise on the sum: {noises}")
        return "\n".join([*lines, *(f"fault: {each}" for each in self.faults or ["none was found"])])


def check_step(
    step: Callable[[Any], Mapping[str, Tensor] | None],
    batch: Any,
    *,
    clip: float,
    noise_std: float,
    divisor: float,
    model: nn.Module | None = None,
    repeats: int = 200,
    seed: int = 0,
) -> StepCheck:
    """Measure one step of your own on neighbouring minibatches, and compare it with what you state.

    The step is called many times from the same parameters. Its randomness must come from torch's global generator: a
    row's influence is measured with the noise of one seed, the noise with fresh seeds. It finds faults and proves
    nothing: a row that moves the sum further may exist.

    Parameters
    ----------
    step : function of a minibatch
        It returns the noisy gradient by name of the parameter, or None if it leaves it in `p.grad` of `model`.
    batch : Tensor, or tuple of Tensors (rows first) of features and labels, at least 4 rows.
    clip : float > 0, stated bound on one row's gradient.
    noise_std : float > 0, stated standard deviation of the noise on the sum.
    divisor : float > 0, stated divisor of the noisy sum.
    model : nn.Module, whose parameters and buffers are restored after each call.
    repeats : int >= 20, calls with fresh noise.
    seed : int
    """
    positive(clip=clip, noise_std=noise_std, divisor=divisor)
    count(20, repeats=repeats)
    several = isinstance(batch, (tuple, list))
    rows = list(batch) if several else [batch]
    require(len(rows[0]) >= 4, f"the minibatch has {len(rows[0])} rows: give at least 4")
    network = nn.Module() if model is None else model
    state = copy.deepcopy(network.state_dict())

    def run(parts: list[Tensor], with_seed: int = seed) -> Sums:
        torch.manual_seed(with_seed)
        network.load_state_dict(state)
        network.zero_grad()
        gradients = step(type(batch)(parts) if several else parts[0])
        if gradients is None:
            gradients = {name: p.grad for name, p in network.named_parameters() if p.grad is not None}
            require(bool(gradients), "step returned None: return the noisy gradients, or pass model=")
        return {name: divisor * g.detach().clone().double().ravel() for name, g in gradients.items()}

    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            base = run(rows)
            size = _far(base, {name: 0 * g for name, g in base.items()})
            same = _far(base, run(rows)) <= 1e-6 * (1 + size)
            require(same, "one seed gave two results: take all noise from torch's global generator")
            fixed = _far(base, run(rows, seed + 1)) == 0
            moved, removed, equal, copies = _moved(run, rows, base)
            stds, faulty = _noise(run, rows, base, range(seed + 1, seed + 1 + repeats), noise_std, divisor)
            buffers = network.named_buffers()
            changed = ", ".join(name for name, value in buffers if not torch.equal(value, state[name]))
    finally:
        network.load_state_dict(state)
    share = equal / (clip * copies)
    faults = {
        "the noise is the same under another seed: the step seeds its own generator, or has no noise": fixed,
        f"the step changes {changed} without noise": changed,
        "replacing a row moves the sum by more than 2 clip": moved > 2 * clip * SLACK,
        "removing a row moves the sum by more than clip": removed > clip * SLACK,
        f"{copies} equal rows move the sum by {share:.3g} of {copies} clip: the clip acts on sums and not on rows, or "
        "the divisor is another": share < 1 / SLACK,
    }
    found = [text for text, applies in faults.items() if applies]
    return StepCheck(moved, removed, stds, found + faulty)


def _far(a: Sums, b: Sums) -> float:
    """Return the Euclidean distance of two sums; inf if one is not finite."""
    far = math.sqrt(sum(float(((a[name] - b[name]) ** 2).sum()) for name in a))
    return far if math.isfinite(far) else math.inf


def _moved(run: Run, rows: list[Tensor], base: Sums) -> tuple[float, float, float, int]:
    """Return how far replacing and removing a row moved the sum, and so many copies of one large row."""
    moved = removed = equal = 0.0
    copies = len(rows[0]) - len(rows[0]) // 2
    for at in range(4):
        without = run([torch.cat([part[:at], part[at + 1 :]]) for part in rows])
        for other in (base, *map(run, _replaced(rows, at))):
            moved, removed = max(moved, _far(base, other)), max(removed, _far(without, other))
        for factor in (FAR, -FAR):
            same = [part[at : at + 1].expand_as(part).clone() for part in _enlarged(rows, at, factor)]
            equal = max(equal, _far(run(same), run([part[copies:] for part in same])))
    return moved, removed, equal, copies


def _enlarged(rows: list[Tensor], at: int, factor: float) -> list[Tensor]:
    """Return rows of which one's features are `factor` times as large."""
    changed = [part.clone() for part in rows]
    changed[0][at] = changed[0][at] * factor if changed[0].is_floating_point() else changed[0][at]
    return changed


def _replaced(rows: list[Tensor], at: int) -> Iterator[list[Tensor]]:
    """Yield minibatches in which one row is replaced: by a large one, by its opposite, with another's label."""
    for factor in (FAR, -FAR, -1.0):
        yield _enlarged(rows, at, factor)
        changed = _enlarged(rows, at, factor)
        for part in changed[1:2]:
            part[at] = part[(at + 1) % len(part)]
        yield changed


def _noise(
    run: Run, rows: list[Tensor], base: Sums, seeds: range, stated: float, divisor: float
) -> tuple[dict[str, float], list[str]]:
    """Return the standard deviation of each parameter's noise, and what differs from Gaussian noise as stated."""
    drawn: dict[str, list[Tensor]] = {name: [] for name in base}
    sums: dict[str, list[Tensor]] = {name: [] for name in base}
    for seed in seeds:
        for name, values in run(rows, seed).items():
            drawn[name].append((values - base[name])[:MOST].clone())
            sums[name].append((values - base[name]).sum())
    faults: list[str] = []
    stds, joint = {}, {}
    for name, each in drawn.items():
        noise = torch.stack(each)
        stds[name], joint[name] = math.sqrt(float(noise.var(0).mean())), float(torch.stack(sums[name]).std())
        one = joint[name] / math.sqrt(len(base[name]))
        faults += filter(None, [_fault(name, noise, stds[name], one, stated, divisor)])
    total = float(torch.stack([torch.stack(each) for each in sums.values()]).sum(0).std())
    if not faults and not _fits(total, math.hypot(*joint.values()), len(seeds) - 1):
        faults.append("the noise of one parameter is not independent of that of another")
    return stds, faults


def _fault(name: str, noise: Tensor, std: float, joint: float, stated: float, divisor: float) -> str:
    """Return the first fault of a parameter's noise (repeats, coordinates), or "".

    `joint` is the standard deviation of the coordinates' sum over sqrt(coordinates), which is that of one if they are
    independent. A Gaussian has a standardised fourth moment of 3.
    """
    repeats, freedom = len(noise), noise.shape[1] * (len(noise) - 1)
    if std < 1e-6 * stated:
        return f"{name} has no noise"
    if not _fits(std, stated, freedom):
        where = f": it stands on the mean, or is {divisor:g} times" * _fits(std / divisor, stated, freedom)
        return f"{name} has noise of {std:.4g} on the sum, stated {stated:.4g}{where}"
    if not _fits(joint, stated, repeats - 1):
        times = f"{joint / std:.2g} times the standard deviation"
        return f"the noise of {name} is not independent: its sum has {times}"
    centred = noise - noise.mean(0)
    fourth = float((centred**4).mean() / (centred**2).mean() ** 2)
    if abs(fourth - 3) > 6 * math.sqrt(24 / freedom) + 6 / repeats:
        return f"the noise of {name} is not Gaussian: its fourth moment is {fourth:.2g}, not 3"
    return ""


def _fits(found: float, stated: float, freedom: int) -> bool:
    """Return whether a standard deviation found with these degrees of freedom is consistent with a stated one."""
    low, high = (stated * math.sqrt(chi2.ppf(p, freedom) / freedom) for p in (ERROR / 2, 1 - ERROR / 2))
    return bool(low <= found <= high)
