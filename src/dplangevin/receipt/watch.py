"""Record the steps of a PyTorch training, plain or with Opacus, while it runs."""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from dplangevin.checks import require
from dplangevin.receipt.record import Receipt

CHANGED = (
    "parameters changed outside optimizer.step",
    "buffers changed without noise (statistics of batch norm?)",
)


class _Watch:
    """What happens between two steps: minibatches drawn, then used by a gradient, then used by a step."""

    pieces = False  # whether minibatches are pieces of one draw (Opacus' BatchMemoryManager)

    def __init__(self, receipt: Receipt, model: nn.Module, optimizer: Any, stated: dict[str, Any]) -> None:
        self.receipt, self.optimizer, self.stated = receipt, optimizer, stated
        self.inner = getattr(optimizer, "original_optimizer", optimizer)
        self.parameters = [p for group in self.inner.param_groups for p in group["params"]]
        self.buffers = [*model.buffers()]
        self.last: list[np.ndarray] = []
        self._begin()

    def _begin(self) -> None:
        self.drawn: list[np.ndarray] = []
        self.used: list[np.ndarray] = []
        self.zeroed: list[np.ndarray] = []  # used by a gradient that was then set to zero
        self.rows = 0  # that the model saw since the last gradient
        self.versions = self._versions()

    def _versions(self) -> list[list[int]]:
        return [[tensor._version for tensor in each] for each in (self.parameters, self.buffers)]

    def forward(self, _: Any, inputs: tuple[Any, ...]) -> None:
        self.rows += next((len(each) for each in inputs if isinstance(each, Tensor) and each.dim()), 0)

    def backward(self, _: Any) -> None:
        """Count minibatches as used by a gradient: all that the model saw together, or the last one."""
        together = self.rows == sum(map(len, self.drawn))
        if not together and len(self.drawn) > 1 and self.rows != len(self.drawn[-1]):
            self.receipt.note("it is unknown which of several minibatches a gradient used")
        self.used += self.drawn if together else self.drawn[-1:]
        self.drawn, self.rows = [], 0

    def zero_grad(self, *args: Any, **named: Any) -> None:
        if self.used and not getattr(self.optimizer, "_is_last_step_skipped", False):
            self.used, self.zeroed = [], self.used
        type(self.inner).zero_grad(self.inner, *args, **named)

    def before(self, *_: Any) -> None:
        for now, then, what in zip(self._versions(), self.versions, CHANGED, strict=True):
            if now != then:
                self.receipt.note(what)

    def after(self, *_: Any) -> None:
        """Record a step that the optimizer took."""
        rows = self.used or self.drawn or self.zeroed
        if not rows:
            self.receipt.note("a step repeated the gradient of the step before")
        self.last = [np.concatenate(rows)] if self.pieces and rows else rows or self.last
        require(bool(self.last), "a step came before the first minibatch: pass the loader that is used")
        of, stated = self.optimizer, self.stated
        if hasattr(of, "noise_multiplier"):  # Opacus
            clip, times = float(of.max_grad_norm), 1 if self.pieces else of.accumulated_iterations
            divisor = _ranks() * (of.expected_batch_size * times if of.loss_reduction == "mean" else 1.0)
            noise = of.noise_multiplier * clip
            stated = {**stated, "clip": clip, "noise_std": noise, "divisor": divisor}
        self.receipt.step(self.last, **stated)
        self._begin()


def _ranks() -> int:
    here = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if here else 1


@contextmanager
def watch(
    model: nn.Module,
    optimizer: Any,
    loader: DataLoader,
    *,
    delta: float = 1e-5,
    clip: float | None = None,
    noise_std: float | None = None,
    divisor: float | None = None,
    rate: float | None = None,
    claim: float | None = None,
    rows_per_person: int = 1,
    persons: Sequence[Any] | None = None,
    rows_per_clip: int = 1,
) -> Iterator[Receipt]:
    """Record every `optimizer.step` inside the `with` block, and the rows of the minibatches that it used.

    Of an Opacus optimizer it reads clip, noise, divisor and Opacus' own epsilon at each step. For a loop of your own,
    say what it does: clip, noise_std (on the sum), divisor. On several ranks, the minibatches of all are joined.

    Parameters
    ----------
    model : torch.nn.Module
    optimizer : torch.optim.Optimizer, or that of Opacus after `make_private`.
    loader : DataLoader of a data set with a length; Opacus' BatchMemoryManager may wrap it.
    delta : float in (0, 1).
    clip, noise_std, divisor : float, as in `Receipt.step`.
    rate : float, the stated rate of Poisson samples; read from a loader of Opacus.
    claim : float, the epsilon that you would state.
    rows_per_person : int, at most so many rows belong to one person.
    persons : sequence, the person of each row; ValueError if one has more rows.
    rows_per_clip : int >= 1, rows that are averaged before they are clipped (microbatches).
    """
    numbered = hasattr(loader.dataset, "__len__") and getattr(loader, "in_order", True)
    require(numbered, "rows need numbers: give a data set with a length, and no in_order=False")
    records = len(loader.dataset)  # type: ignore[arg-type]
    if persons is not None:
        require(len(persons) == records, f"persons has {len(persons)} entries for {records} rows")
        most = Counter(np.asarray(persons).tolist()).most_common(1)[0][1]
        require(most <= rows_per_person, f"a person has {most} rows, not {rows_per_person} at most")
    stated = {"clip": clip, "noise_std": noise_std, "divisor": divisor, "rows_per_clip": rows_per_clip}
    rate = rate or getattr(loader, "sample_rate", None)
    receipt = Receipt(records, delta, rate, claim, rows_per_person=rows_per_person)
    Receipt(1).step((), **stated)  # raises, if they cannot be
    seen = _Watch(receipt, model, optimizer, stated)
    batch_norm = nn.modules.batchnorm._BatchNorm
    mixed = any(isinstance(part, batch_norm) and part.training for part in model.modules())
    found = {
        "batch norm mixes the rows of a minibatch": mixed,
        "the clip adapts to the rows": "AdaClip" in type(optimizer).__name__,
        "the training began before it was watched": any(of.history for of in _accountants(optimizer)),
    }
    receipt.notes = {text: 1 for text, applies in found.items() if applies}
    first = next(p for p in seen.parameters if p.requires_grad)
    with ExitStack() as undo:
        _watch_loaders(loader, seen, undo)
        for hook in (
            seen.inner.register_step_pre_hook(seen.before),
            seen.inner.register_step_post_hook(seen.after),
            model.register_forward_pre_hook(seen.forward),
            first.register_post_accumulate_grad_hook(seen.backward),
        ):
            undo.callback(hook.remove)
        seen.inner.zero_grad = seen.zero_grad
        undo.callback(vars(seen.inner).pop, "zero_grad", None)
        yield receipt
        seen.before()
    if _ranks() > 1:
        _join(receipt)
    for accountant in _accountants(optimizer):
        if receipt.claim is None and receipt.steps:
            receipt.claim, receipt.claimed_by = float(accountant.get_epsilon(receipt.delta)), "Opacus"


def _watch_loaders(loader: DataLoader, seen: _Watch, undo: ExitStack) -> None:
    """Let this loader, and loaders that split its minibatches, tell which rows they yield, until `undo`."""
    iterate: Any = DataLoader.__iter__
    logs: dict[DataLoader, _Drawn] = {}

    def each(of: DataLoader) -> Iterator[Any]:
        name = "sampler" if of.batch_sampler is None else "batch_sampler"
        sampler, split = vars(of)[name], vars(loader)["batch_sampler"]
        splits = split is not None and getattr(sampler, "sampler", None) is split
        if of not in logs and (of is loader or splits):
            logs[of] = vars(of)[name] = _Drawn(sampler)
            undo.callback(vars(of).update, {name: sampler})
            seen.pieces = seen.pieces or of is not loader
        for batch in iterate(of):
            if of in logs:
                seen.drawn.append(logs[of].ahead.popleft())
            yield batch

    undo.callback(setattr, DataLoader, "__iter__", iterate)
    DataLoader.__iter__ = each  # type: ignore[method-assign, assignment]


class _Drawn:
    """A sampler that keeps the minibatches that it draws until the loader yields them."""

    def __init__(self, sampler: Any) -> None:
        self.sampler, self.ahead = sampler, deque[np.ndarray]()

    def __iter__(self) -> Iterator[Any]:
        self.ahead.clear()
        for rows in self.sampler:
            self.ahead.append(np.atleast_1d(np.asarray(rows, dtype=np.int64)))
            yield rows

    def __len__(self) -> int:
        return len(self.sampler)


def _join(receipt: Receipt) -> None:
    """Join the minibatches of all ranks, which step together: zip raises if one took more steps."""
    gathered: list[Any] = [None] * _ranks()
    torch.distributed.all_gather_object(gathered, receipt.steps)
    receipt.steps = [
        replace(ranks[0], minibatches=(np.concatenate([rows for of in ranks for rows in of.minibatches]),))
        for ranks in zip(*gathered, strict=True)
    ]


def _accountants(optimizer: Any) -> list[Any]:
    """Return the accountants that Opacus attached to an optimizer."""
    hook = getattr(optimizer, "step_hook", None)
    cells = [cell.cell_contents for cell in getattr(hook, "__closure__", None) or ()]
    return [each for each in cells if hasattr(each, "get_epsilon")]
