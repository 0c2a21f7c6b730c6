"""The sum of the clipped gradients of single examples, for networks; DP-SGD and DP-SGLD add their noise to it.

One forward and one backward pass run the layers by hand.  They keep each layer's inputs and output gradients, from
which the norms of the examples' gradients follow, and then the weighted sum, without a second backward pass (Bu et
al. 2022, arXiv 2210.00038).  Modules that the engine does not know go through torch.func, see recognise.py.
"""

import math
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from dplangevin.engine import long_sums, memory, passes
from dplangevin.engine.recognise import materialised_size, plan

memory.keep_heap()


class Classifier(Protocol):
    """The properties of a network that the engine needs."""

    @property
    def module(self) -> nn.Module: ...

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one example."""

    @property
    def classes(self) -> int: ...

    @property
    def d(self) -> int:
        """Number of parameters."""


class Sums(NamedTuple):
    """Sums and values for S networks and B examples.

    - `gradient`: (S, d). ``sum_i mask_si min(1, clip/||g_si||) g_si``, in float64 if B is above `long_sums.LONG`.
    - `loss`: (S, B). Losses in nats; 0 where masked out.
    - `norm`: (S, B). ``||g_si||`` before clipping; 0 where masked out, nan if clip is infinite.
    """

    gradient: Tensor
    loss: Tensor
    norm: Tensor


@torch.no_grad()
def clipped_sum(
    network: Classifier,
    theta: Tensor,
    x: Tensor,
    y: Tensor,
    mask: Tensor,
    clip: float,
    *,
    loss_of: passes.Loss = passes.cross_entropy,
    micro_batch: int | None = None,
) -> Sums:
    """Return the sum over examples of the gradients of the loss, each scaled to a norm of at most clip.

    An example contributes nothing if its loss or its gradient is not finite.  No error or message reports this: it
    would reveal that a record is there.

    Shapes: theta (S, d); x (S or 1, B, C, H, W), of theta's dtype; y (S or 1, B), labels or the targets of `loss_of`;
    mask (S, B), False for examples that take no part.  `micro_batch` examples go through the network at once; None:
    as many as DPL_MEMORY allows.  With clip = inf no norms are computed.
    """
    _check(y, mask, clip, network.classes if loss_of is passes.cross_entropy else None)
    theta = theta.contiguous()
    made = partial(_sums, network, theta, loss_of=loss_of, micro_batch=micro_batch)
    sums = made(*_blank(x, y, mask), mask, clip)
    if _finite(sums, clip):
        return sums
    if not bool(theta.isfinite().all()):
        lost = int((~theta.isfinite().all(-1)).nonzero()[0])
        raise ValueError(f"the parameters of network {lost} are not finite: lower the step size")
    # the norms identify the example; without a clip they were not computed
    found = sums if clip < math.inf else made(*_blank(x, y, mask), mask, 1.0)
    good = mask & found.loss.isfinite() & found.norm.isfinite()
    sums = made(*_good_alone(x, y, good), good, clip)
    some = good.any(1)
    if bool(some.all()):
        return sums
    return Sums(*(torch.where(some.view(-1, 1), each, torch.zeros_like(each)) for each in sums))


def _blank(x: Tensor, y: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    if bool(mask.all()):
        return x, y
    shape = (*mask.shape, 1, 1, 1)
    return torch.where(mask.view(shape), x, 0.0), torch.where(mask, y, 0)


def _good_alone(x: Tensor, y: Tensor, good: Tensor) -> tuple[Tensor, Tensor]:
    """Return examples and labels in which the first good example of each network replaces those that are not good."""
    first = torch.arange(len(good), device=good.device), good.int().argmax(1)
    x, y = x.expand(len(good), *x.shape[1:]), y.expand(good.shape)
    shape = (*good.shape, 1, 1, 1)
    return torch.where(good.view(shape), x, x[first][:, None]), torch.where(good, y, y[first][:, None])


def _sums(
    network: Classifier,
    theta: Tensor,
    x: Tensor,
    y: Tensor,
    mask: Tensor,
    clip: float,
    *,
    loss_of: passes.Loss,
    micro_batch: int | None,
) -> Sums:
    seeds, batch = mask.shape
    x, y = x.expand(seeds, *x.shape[1:]), y.expand(seeds, batch)
    layers = plan(network.module)
    size = micro_batch or memory.micro_batch(
        network.module, network.shape, materialised_size(layers, network.d), theta
    )
    gradient = torch.zeros_like(theta)
    if batch > long_sums.LONG:
        gradient, size = gradient.double(), min(size, long_sums.BLOCK)
    loss, norm = theta.new_zeros(seeds, batch), theta.new_full((seeds, batch), math.nan)
    for part in _blocks(seeds, batch, size):
        given = theta[part[0]], x[part], y[part], clip < math.inf, loss_of
        block = passes.gradients(layers, network.module, *given)
        weight = mask[part].to(theta.dtype)
        if block.squares is not None:
            norm[part] = block.squares.sqrt_()
            weight = weight * (clip / norm[part]).clamp_(max=1)
        block.add(weight, gradient[part[0]])
        loss[part] = block.loss
    return Sums(gradient, loss * mask, norm if clip == math.inf else norm * mask)


def _finite(sums: Sums, clip: float) -> bool:
    """Return True if all of a sum is finite; without a clip the norms are unknown and not checked."""
    checked = sums.gradient.sum() + sums.loss.sum() + (0 if clip == math.inf else sums.norm.sum())
    if bool(torch.isfinite(checked)):
        return True
    parts = (sums.gradient, sums.loss) if clip == math.inf else (sums.gradient, sums.loss, sums.norm)
    return all(bool(part.isfinite().all()) for part in parts)


def forward(network: Classifier, theta: Tensor, x: Tensor) -> Tensor:
    """Return the logits (S, B, K) without a graph, for theta (S, d) and x (S or 1, B, C, H, W)."""
    with torch.no_grad():
        theta = theta.contiguous()
        seeds, batch = len(theta), x.shape[1]
        x = x.expand(seeds, *x.shape[1:])
        layers = plan(network.module)
        logits = theta.new_empty(seeds, batch, network.classes)
        size = memory.micro_batch(network.module, network.shape, 0, theta)
        for part in _blocks(seeds, batch, size):
            logits[part] = passes.logits(layers, network.module, theta[part[0]], x[part])
        return logits


def _blocks(seeds: int, batch: int, size: int) -> Iterator[tuple[slice, slice]]:
    """Yield blocks of S x B with at most `size` examples: of one network, or all of several networks."""
    rows = math.ceil(batch / math.ceil(batch / size)) if batch else 1  # blocks of about equal size
    networks = max(1, size // rows)
    for s in range(0, seeds, networks):
        for b in range(0, batch, rows):
            yield slice(s, s + networks), slice(b, b + rows)


def _check(y: Tensor, mask: Tensor, clip: float, labels: int | None) -> None:
    """Raise ValueError for labels or a clip out of their range; `labels` None accepts any y."""
    if labels is not None and bool(((y < 0) | (y >= labels)).logical_and(mask).any()):
        raise ValueError(f"labels must be 0, ..., {labels - 1} for {labels} classes")
    if not clip > 0:
        raise ValueError(f"clip must be positive (inf for none), not {clip}")
