"""Measure one step of a training loop: how far a row moves it, and where its noise is."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import torch
from scipy.stats import chi2
from torch import Tensor, nn

from dplangevin.checks import count, positive, require

ERROR = 1e-6  # probability that a right standard deviation is called wrong
FAR = 1e3  # factor by which a row is enlarged, so that its gradient exceeds the clip
MOST = 10_000  # coordinates of a parameter whose noise is measured one by one
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
    rows = list(batch) if isinstance(batch, (tuple, list)) else [batch]
    require(len(rows[0]) >= 4, f"the minibatch has {len(rows[0])} rows: give at least 4")
    state = copy.deepcopy(model.state_dict()) if model is not None else {}
    before, random_state = dict(state), torch.get_rng_state()

    def run(parts: list[Tensor], with_seed: int) -> dict[str, Tensor]:
        torch.manual_seed(with_seed)
        if model is not None:
            model.load_state_dict(state)
            model.zero_grad()
        found = step(parts[0] if not isinstance(batch, (tuple, list)) else type(batch)(parts))
        if found is None:
            require(model is not None, "step returned None: return the noisy gradients, or pass model=")
            assert model is not None
            found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        return {name: divisor * g.detach().clone().double().ravel() for name, g in found.items()}

    try:
        base = run(rows, seed)
        faults = _randomness(run, rows, base, seed)
        moved = removed = 0.0
        for at in range(min(len(rows[0]), 4)):
            without = run([torch.cat([part[:at], part[at + 1 :]]) for part in rows], seed)
            for other in (base, *(run(changed, seed) for changed in _replaced(rows, at))):
                moved, removed = max(moved, _far(base, other)), max(removed, _far(without, other))
        copies = len(rows[0]) - len(rows[0]) // 2
        alike = 0.0
        for at, factor in product(range(min(len(rows[0]), 4)), (FAR, -FAR)):
            same = [part[at : at + 1].expand_as(part).clone() for part in _enlarged(rows, at, factor)]
            alike = max(alike, _far(run(same, seed), run([part[copies:] for part in same], seed)))
        noise, every = _noise(run, rows, repeats, seed, base)
        faults += _buffers(model, state)
    finally:
        if model is not None:
            model.load_state_dict(before)
        torch.set_rng_state(random_state)
    faults += _sensitivity(moved, removed, alike, copies, clip)
    for name, found in noise.items():
        faults += _noise_faults(name, found, len(base[name]), noise_std, divisor, repeats)
    alone = math.sqrt(sum(together**2 for _, together, _ in noise.values()))
    if not faults and not _fits(every, alone, repeats - 1):
        faults.append("the noise of one parameter is not independent of that of another")
    return StepCheck(moved, removed, {name: std for name, (std, *_) in noise.items()}, faults)


def _randomness(run: Any, rows: list[Tensor], base: dict[str, Tensor], seed: int) -> list[str]:
    if _far(base, run(rows, seed)) > 1e-6 * (1 + _far(base, {name: 0 * g for name, g in base.items()})):
        raise ValueError("one seed gave two results: take all noise from torch's global generator")
    if _far(base, run(rows, seed + 1)) == 0:
        return ["the noise is the same under another seed: the step seeds its own generator, or has no noise"]
    return []


def _far(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """Return the Euclidean distance of two sums; inf if one is not finite."""
    far = math.sqrt(sum(float(((a[name] - b[name]) ** 2).sum()) for name in a))
    return far if math.isfinite(far) else math.inf


def _enlarged(rows: list[Tensor], at: int, factor: float = FAR) -> list[Tensor]:
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
    run: Any, rows: list[Tensor], repeats: int, seed: int, base: dict[str, Tensor]
) -> tuple[dict[str, tuple[float, float, float]], float]:
    """Return the standard deviations of each parameter's noise and of its coordinates' sum, and its fourth moment.

    The last number is the standard deviation of the sum over all parameters. A sum of independent coordinates has
    sqrt(coordinates) times the standard deviation of one. A Gaussian has a standardised fourth moment of 3.
    """
    drawn: dict[str, list[Tensor]] = {name: [] for name in base}
    totals: dict[str, list[float]] = {name: [] for name in base}
    for number in range(repeats):
        for name, values in run(rows, seed + 1 + number).items():
            drawn[name].append((values - base[name])[:MOST])
            totals[name].append(float((values - base[name]).sum()))
    noise: dict[str, tuple[float, float, float]] = {}
    for name, each in drawn.items():
        centred = torch.stack(each) - torch.stack(each).mean(0)
        std = math.sqrt(float(torch.stack(each).var(0).mean()))
        fourth = float((centred**4).mean() / (centred**2).mean() ** 2) if std else 3.0
        noise[name] = std, float(torch.tensor(totals[name]).std()), fourth
    every = [sum(values) for values in zip(*totals.values(), strict=True)]
    return noise, float(torch.tensor(every).std())


def _buffers(model: nn.Module | None, state: Mapping[str, Tensor]) -> list[str]:
    if model is None:
        return []
    changed = [name for name, value in model.named_buffers() if not torch.equal(value, state[name])]
    return [f"the step changes {', '.join(changed)} without noise"] if changed else []


def _sensitivity(moved: float, removed: float, alike: float, copies: int, clip: float) -> list[str]:
    """Return the faults of the sums; `alike` is how far so many copies of one large row moved the sum."""
    faults = []
    if moved > 2 * clip * SLACK:
        faults.append(f"replacing a row moves the sum by {moved:.4g}, more than 2 clip = {2 * clip:.4g}")
    if removed > clip * SLACK:
        faults.append(f"removing a row moves the sum by {removed:.4g}, more than clip = {clip:.4g}")
    if alike < clip * copies / SLACK:
        share = alike / (clip * copies)
        faults.append(
            f"{copies} equal rows move the sum by {share:.3g} of {copies} clip: the clip acts on sums and not on rows, "
            "or the divisor is another"
        )
    return faults


def _fits(found: float, stated: float, freedom: int) -> bool:
    """Return whether a standard deviation found with these degrees of freedom is consistent with a stated one."""
    low, high = (stated * math.sqrt(chi2.ppf(p, freedom) / freedom) for p in (ERROR / 2, 1 - ERROR / 2))
    return bool(low <= found <= high)


def _noise_faults(
    name: str, found: tuple[float, float, float], size: int, stated: float, divisor: float, repeats: int
) -> list[str]:
    """Return the faults of a parameter's noise, see `_noise`."""
    std, together, fourth = found
    joint, freedom = together / math.sqrt(size), min(size, MOST) * (repeats - 1)
    if std < 1e-6 * stated:
        return [f"{name} has no noise"]
    if not _fits(std, stated, freedom):
        on_mean = (
            f": it stands on the mean, or is {divisor:g} times"
            if _fits(std / divisor, stated, freedom)
            else ""
        )
        return [f"{name} has noise of {std:.4g} on the sum, stated {stated:.4g}{on_mean}"]
    if not _fits(joint, stated, repeats - 1):
        return [
            f"the noise of {name} is not independent: its sum has {joint / std:.2g} times the standard deviation"
        ]
    if abs(fourth - 3) > 6 * math.sqrt(24 / freedom) + 6 / repeats:
        return [f"the noise of {name} is not Gaussian: its fourth moment is {fourth:.2g}, not 3"]
    return []
