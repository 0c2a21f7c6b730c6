"""Record the steps of a PyTorch training, plain or with Opacus, while it runs."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from dplangevin.checks import require
from dplangevin.receipt.record import Receipt, Step


class _Watch:
    """What happens between two steps; a step uses all minibatches that the loader yielded since the step before.

    `pieces` says whether these are pieces of one draw (Opacus' BatchMemoryManager).
    """

    def __init__(self, receipt: Receipt, optimizer: Any, buffers: Iterator[Any], pieces: bool) -> None:
        self.receipt, self.optimizer, self.pieces = receipt, optimizer, pieces
        self.tensors = [*(p for group in optimizer.param_groups for p in group["params"]), *buffers]
        self.begin()

    def begin(self) -> None:
        self.drawn: list[np.ndarray] = []
        self.versions = [tensor._version for tensor in self.tensors]

    def before(self, *_: Any) -> None:
        if self.versions != [tensor._version for tensor in self.tensors]:
            self.receipt.notes.append("parameters or buffers changed outside optimizer.step")

    def after(self, stated: dict[str, Any]) -> None:
        """Record a step that the optimizer took."""
        if not self.drawn:
            self.receipt.notes.append("a step used no new minibatch of the loader that is watched")
        of, rows = self.optimizer, self.drawn or [np.empty(0, int)]
        if hasattr(of, "noise_multiplier"):  # Opacus
            clip, times = float(of.max_grad_norm), 1 if self.pieces else of.accumulated_iterations
            divisor = of.expected_batch_size * times if of.loss_reduction == "mean" else 1.0
            stated = {"clip": clip, "noise_std": of.noise_multiplier * clip, "divisor": divisor}
        self.receipt.steps.append(Step((np.concatenate(rows),) if self.pieces else tuple(rows), **stated))
        self.begin()


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
) -> Iterator[Receipt]:
    """Record every `optimizer.step` inside the `with` block, and the rows that the loader yielded for it.

    Of an Opacus optimizer it reads clip, noise and divisor at each step. For a loop of your own, say what it does:
    clip, noise_std (on the sum), divisor.

    Parameters
    ----------
    model : torch.nn.Module
    optimizer : torch.optim.Optimizer, or that of Opacus after `make_private`.
    loader : DataLoader of a data set with a length, or what Opacus' BatchMemoryManager makes of it.
    delta : float in (0, 1).
    clip, noise_std, divisor : float, as in `Receipt.step`.
    rate : float, the stated rate of Poisson samples; read from a loader of Opacus.
    claim : float, the epsilon that you would state.
    rows_per_person : int, at most so many rows belong to one person.
    """
    sampler: Any = loader.batch_sampler
    numbered = (
        hasattr(loader.dataset, "__len__") and sampler is not None and getattr(loader, "in_order", True)
    )
    require(
        bool(numbered), "rows need numbers: give a data set with a length, batch_size= and no in_order=False"
    )
    pieces = type(sampler).__name__ == "BatchSplittingSampler"
    rate = rate or getattr(sampler.sampler if pieces else sampler, "sample_rate", None)
    receipt = Receipt(len(loader.dataset), delta, rate, claim, rows_per_person)  # type: ignore[arg-type]
    stated = {"clip": clip, "noise_std": noise_std, "divisor": divisor}
    Step((), **stated)  # raises, if they cannot be
    seen = _Watch(receipt, optimizer, model.buffers(), pieces)
    batch_norm = nn.modules.batchnorm._BatchNorm
    mixed = any(isinstance(part, batch_norm) and part.training for part in model.modules())
    ranks = torch.distributed.is_available() and torch.distributed.is_initialized()
    notes = {
        "batch norm mixes the rows of a minibatch": mixed,
        "the clip adapts to the rows": "AdaClip" in type(optimizer).__name__,
        "several processes step together": ranks and torch.distributed.get_world_size() > 1,
    }
    receipt.notes += [text for text, applies in notes.items() if applies]
    inner = getattr(optimizer, "original_optimizer", optimizer)
    hooks = (
        inner.register_step_pre_hook(seen.before),
        inner.register_step_post_hook(lambda *_: seen.after(stated)),
    )
    kind, drawn = type(loader), _Drawn(sampler)

    class Watched(kind):  # type: ignore[misc, valid-type]
        def __iter__(self) -> Iterator[Any]:
            drawn.ahead.clear()
            for batch in super().__iter__():
                seen.drawn.append(drawn.ahead.popleft())
                yield batch

    loader.__class__, vars(loader)["batch_sampler"] = Watched, drawn
    try:
        yield receipt
        seen.before()
    finally:
        loader.__class__, vars(loader)["batch_sampler"] = kind, sampler
        for hook in hooks:
            hook.remove()


class _Drawn:
    """A batch sampler that keeps the minibatches that it draws until the loader yields them."""

    def __init__(self, sampler: Any) -> None:
        self.sampler, self.ahead = sampler, deque[np.ndarray]()

    def __iter__(self) -> Iterator[Any]:
        for rows in self.sampler:
            self.ahead.append(np.asarray(rows, dtype=np.int64))
            yield rows

    def __len__(self) -> int:
        return len(self.sampler)
