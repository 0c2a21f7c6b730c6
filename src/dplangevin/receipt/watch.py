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
from dplangevin.receipt.record import Receipt, Step

CHANGED = (
    "parameters changed outside optimizer.step",
    "buffers changed without noise (statistics of batch norm?)",
)


class _Watch:
    """What happens between two steps: minibatches drawn, then used by a gradient, then used by a step.

    `pieces` says whether minibatches are pieces of one draw (Opacus' BatchMemoryManager).
    """

    pieces = False

    def __init__(self, receipt: Receipt, model: nn.Module, optimizer: Any, stated: dict[str, Any]) -> None:
        self.receipt, self.optimizer, self.stated = receipt, optimizer, stated
        Step.checked((), **stated)  # raises, if they cannot be
        self.inner = getattr(optimizer, "original_optimizer", optimizer)
        self.parameters = [p for group in self.inner.param_groups for p in group["params"]]
        self.buffers = [*model.buffers()]
        self.last: list[np.ndarray] = []
        self._begin()

    def _begin(self) -> None:
        """Begin a step."""
        self.drawn: list[np.ndarray] = []
        self.used: list[np.ndarray] = []
        self.zeroed: list[np.ndarray] = []  # used by a gradient that was then set to zero
        self.rows = 0  # that the model saw since the last gradient
        self.versions = self._versions()

    def _versions(self) -> list[list[int]]:
        return [[tensor._version for tensor in each] for each in (self.parameters, self.buffers)]

    def forward(self, _: Any, inputs: tuple[Any, ...]) -> None:
        self.rows += next((len(each) for each in inputs if isinstance(each, Tensor) and each.dim()), 0)

    def backward(self, _: Any = None) -> None:
        """Count minibatches as used by a gradient: the last one, or all that the model saw together."""
        last = self.drawn[-1:]
        if len(self.drawn) > 1 and self.rows == sum(map(len, self.drawn)):
            last = self.drawn
        elif len(self.drawn) > 1 and self.rows != len(self.drawn[-1]):
            self.receipt.note("it is unknown which of several minibatches a gradient used")
        self.used += last
        self.drawn, self.rows = [], 0

    def zero_grad(self) -> None:
        if self.used and not getattr(self.optimizer, "_is_last_step_skipped", False):
            self.used, self.zeroed = [], self.used

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
        require(bool(self.last), "a step came before the loader's first minibatch: pass the loader in use")
        self.receipt.steps.append(Step(tuple(self.last), **self._mechanism()))
        self._begin()

    def _mechanism(self) -> dict[str, Any]:
        of = self.optimizer
        if not hasattr(of, "noise_multiplier"):
            return self.stated
        clip, divisor = float(of.max_grad_norm), 1.0
        if of.loss_reduction == "mean":
            divisor = of.expected_batch_size * (1 if self.pieces else of.accumulated_iterations)
        noise = of.noise_multiplier * clip
        return {**self.stated, "clip": clip, "noise_std": noise, "divisor": divisor * _ranks()}


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
    require(hasattr(loader.dataset, "__len__"), "the data set has no length: its rows have no numbers")
    ordered = getattr(loader, "in_order", True)
    require(ordered, "in_order=False hides which rows a minibatch has: leave it out")
    records = len(loader.dataset)  # type: ignore[arg-type]
    if persons is not None:
        require(len(persons) == records, f"persons has {len(persons)} entries for {records} rows")
        most = max(Counter(np.asarray(persons).tolist()).values())
        require(most <= rows_per_person, f"a person has {most} rows, above rows_per_person={rows_per_person}")
    stated = {"clip": clip, "noise_std": noise_std, "divisor": divisor, "rows_per_clip": rows_per_clip}
    rate = rate or getattr(loader, "sample_rate", None)
    receipt = Receipt(records, delta, rate, claim, rows_per_person=rows_per_person)
    seen = _Watch(receipt, model, optimizer, stated)
    norms = (part for part in model.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm))
    for text, applies in {
        "batch norm mixes the rows of a minibatch": any(part.training for part in norms),
        "the clip adapts to the rows": "AdaClip" in type(optimizer).__name__,
        "the training began before it was watched": any(of.history for of in _accountants(optimizer)),
    }.items():
        if applies:
            receipt.note(text)
    zero, first = seen.inner.zero_grad, next(p for p in seen.parameters if p.requires_grad)

    def zero_grad(*args: Any, **named: Any) -> None:
        seen.zero_grad()
        zero(*args, **named)

    with ExitStack() as undo:
        _watch_loaders(loader, seen, undo)
        for hook in (
            seen.inner.register_step_pre_hook(seen.before),
            seen.inner.register_step_post_hook(seen.after),
            model.register_forward_pre_hook(seen.forward),
            first.register_post_accumulate_grad_hook(seen.backward),
        ):
            undo.callback(hook.remove)
        seen.inner.zero_grad = zero_grad
        undo.callback(lambda: vars(seen.inner).pop("zero_grad", None))
        yield receipt
        seen.before()
    if _ranks() > 1:
        _join(receipt)
    for accountant in _accountants(optimizer):
        if receipt.claim is None and receipt.steps:
            receipt.claim, receipt.claimed_by = float(accountant.get_epsilon(receipt.delta)), "Opacus"


def _watch_loaders(loader: DataLoader, seen: _Watch, undo: ExitStack) -> None:
    """Let this loader, and loaders that split its minibatches, tell which rows they yield, until `undo`."""
    index: Any = DataLoader._index_sampler
    iterate: Any = DataLoader.__iter__
    queues: dict[int, deque[np.ndarray]] = {}  # minibatches in the order in which the loader yields them

    class Logged:
        def __init__(self, of: DataLoader) -> None:
            self.sampler, self.queue = index.fget(of), queues.setdefault(id(of), deque())

        def __iter__(self) -> Iterator[Any]:
            for rows in self.sampler:
                self.queue.append(np.atleast_1d(np.asarray(rows, dtype=np.int64)))
                yield rows

        def __len__(self) -> int:
            return len(self.sampler)

    def ours(of: DataLoader) -> bool:
        inner = getattr(of.batch_sampler, "sampler", None)
        return of is loader or (loader.batch_sampler is not None and inner is loader.batch_sampler)

    def each(of: DataLoader) -> Iterator[Any]:
        if not ours(of):
            yield from iterate(of)
            return
        queues.setdefault(id(of), deque()).clear()
        seen.pieces = seen.pieces or of is not loader
        for batch in iterate(of):
            seen.drawn.append(queues[id(of)].popleft())
            yield batch

    sampler = property(lambda of: Logged(of) if ours(of) else index.fget(of))
    for name, new, old in (("_index_sampler", sampler, index), ("__iter__", each, iterate)):
        undo.callback(setattr, DataLoader, name, old)
        setattr(DataLoader, name, new)


def _join(receipt: Receipt) -> None:
    """Join the minibatches of all ranks, which step together."""
    gathered: list[Any] = [None] * _ranks()
    torch.distributed.all_gather_object(gathered, receipt.steps)
    steps = {len(each) for each in gathered}
    require(len(steps) == 1, f"the ranks took {sorted(steps)} steps: they must step together")
    receipt.steps = [
        replace(ranks[0], minibatches=(np.concatenate([rows for of in ranks for rows in of.minibatches]),))
        for ranks in zip(*gathered, strict=True)
    ]


def _accountants(optimizer: Any) -> list[Any]:
    """Return the accountants that Opacus attached to an optimizer."""
    hook = getattr(optimizer, "step_hook", None)
    cells = [cell.cell_contents for cell in getattr(hook, "__closure__", None) or ()]
    return [each for each in cells if hasattr(each, "get_epsilon")]
