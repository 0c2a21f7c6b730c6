"""The number of examples that go through a network at once, from a bound on memory (DPL_MEMORY)."""

import copy
import functools
import math
import os
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

NAME = "DPL_MEMORY"
CPU, GPU = 64, 2048  # default in MB; on a CPU larger blocks do not fit the caches and run slower
HEAP = 30 * 2**20  # bytes


def keep_heap() -> None:
    """Make the C library keep freed memory for the next step, instead of returning it to the system.

    glibc takes a block larger than any freed so far straight from the system, and returns the top of its heap once that
    is twice as large. Clearing these pages is a quarter of a small network's step. The block here is never written to.
    """
    torch.empty(HEAP, dtype=torch.uint8)


def bound(device: torch.device) -> int:
    """Return how many bytes the tensors of one micro-batch may take: DPL_MEMORY megabytes.

    Without it, `CPU` MB, or on a GPU `GPU` MB and at most half of the memory that is free there.
    """
    text = os.environ.get(NAME, "").strip()
    if not text:
        if device.type == "cpu":
            return CPU * 2**20
        free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else math.inf
        return int(min(GPU * 2**20, free / 2))
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
    """Return the number of examples that fit into the bound; `written` numbers of a gradient are written out."""
    numbers = 2 * _activations(module, shape) + written  # activations and their gradients
    return max(1, bound(theta.device) // (numbers * theta.element_size()))


@functools.lru_cache(maxsize=32)
def _activations(module: nn.Module, shape: tuple[int, int, int]) -> int:
    module = copy.deepcopy(module).cpu()
    kind = next(module.parameters()).dtype
    with torch.no_grad(), _Counter() as counter:
        module(torch.zeros(1, *shape, dtype=kind))
    return counter.numbers


class _Counter(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        # the result of a view is memory of an argument and is not counted
        given = {a.untyped_storage().data_ptr() for a in args if isinstance(a, Tensor)}
        for result in results if isinstance(results, tuple) else (results,):
            if isinstance(result, Tensor) and result.untyped_storage().data_ptr() not in given:
                self.numbers += result.numel()
        return results
