"""How many examples go through a network at once, from a bound on memory in the environment."""

import functools
import math
import os
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

NAME = "DPL_MEMORY"
CPU, GPU = 64, 2048  # MB where nothing is set; on a CPU larger blocks leave the caches and run slower
HEAP = 30 * 2**20  # bytes


def keep_heap() -> None:
    """Has the C library keep what is freed, for the next step, instead of giving it back to the system.

    glibc takes blocks larger than the largest one yet freed straight from the system, and gives the top of its heap
    back once that is twice as large; each step would then have its pages cleared anew, a quarter of the time of a
    small network.  The block is never written to, so that it takes no memory.
    """
    torch.empty(HEAP, dtype=torch.uint8)


def bound(device: torch.device) -> int:
    """Bytes that the tensors of one micro-batch may take: environment variable DPL_MEMORY, in MB."""
    text = os.environ.get(NAME, "").strip()
    if not text:
        return (CPU if device.type == "cpu" else GPU) * 2**20
    try:
        size = float(text)
    except ValueError:
        size = math.nan
    if not (size > 0 and math.isfinite(size)):
        raise ValueError(
            f"{NAME} must be a positive number of megabytes, not {text!r}: set it to {CPU}, or unset it"
        )
    return int(size * 2**20)


def micro_batch(module: nn.Module, shape: tuple[int, int, int], written: int, theta: Tensor) -> int:
    """Examples whose tensors fit into the bound, at least 1.

    shape: of one example, channels, height, width.  written: numbers in a gradient that is written out.
    """
    numbers = 2 * _activations(module, shape) + written  # activations and their gradients
    return max(1, bound(theta.device) // (numbers * theta.element_size()))


@functools.lru_cache(maxsize=32)
def _activations(module: nn.Module, shape: tuple[int, int, int]) -> int:
    """Numbers in all that a forward pass computes from one example."""
    kind = next(module.parameters()).dtype
    with torch.no_grad(), _Counter() as counter:
        module(torch.zeros(1, *shape, dtype=kind))
    return counter.numbers


class _Counter(TorchDispatchMode):
    """Counts the numbers in the results of all operations."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        given = {a.untyped_storage().data_ptr() for a in args if isinstance(a, Tensor)}  # what a view returns
        for result in results if isinstance(results, tuple) else (results,):
            if isinstance(result, Tensor) and result.untyped_storage().data_ptr() not in given:
                self.numbers += result.numel()
        return results
