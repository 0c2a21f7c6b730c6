"""What the arithmetic and the memory of a machine allow: measured rates, and the work that operations ask for."""

from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import torch
from measure import seconds
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


class Machine(NamedTuple):
    """The measured rates of a machine.

    - `flops`: multiplications and additions a second, of a product of two 2048 x 2048 matrices.
    - `bytes`: bytes a second that a copy of 2^26 float32 numbers reads and writes.
    """

    flops: float
    bytes: float

    @classmethod
    def measured(cls, runs: int, dtype: torch.dtype = torch.float32) -> "Machine":
        """Measure the rates, the first in `dtype`; each is a median of `runs` + 1."""
        a, x = torch.rand(2048, 2048, dtype=dtype), torch.rand(2**26)
        y = torch.empty_like(x)
        product = median(seconds(lambda: a @ a) for _ in range(runs + 1))
        copy = median(seconds(lambda: y.copy_(x)) for _ in range(runs + 1))
        return cls(2 * 2048**3 / product, 2 * x.nbytes / copy)


class Work(TorchDispatchMode):
    """Counts what torch's operations ask for; views ask for nothing.

    - `flops`: dtype -> operations of products and convolutions, by PyTorch's formulas.
    - `bytes`: bytes of all arguments and results.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flops, self.bytes = dict[torch.dtype, int](), 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        if func.is_view:
            return results
        outputs = results if isinstance(results, tuple | list) else (results,)
        tensors = [each for each in (*args, *outputs) if isinstance(each, Tensor)]
        self.bytes += sum(each.numel() * each.element_size() for each in tensors)
        formula = flop_registry.get(func.overloadpacket)
        if formula is not None:
            dtype = tensors[0].dtype
            given = {key: value for key, value in (kwargs or {}).items() if key != "out"}
            self.flops[dtype] = self.flops.get(dtype, 0) + formula(*args, **given, out_val=results)
        return results

    def __str__(self) -> str:
        return f"{sum(self.flops.values()) / 1e9:.2f} GFLOP, {self.bytes / 1e6:.0f} MB"


def work(call: Callable[[], object]) -> Work:
    """Return what a call asks for."""
    with Work() as found:
        call()
    return found


def shares(call: Callable[[], object], first: int = 7, calls: int = 10) -> str:
    """Return the operations that most of the time of a call goes to, with their shares."""
    with torch.profiler.profile() as profile:
        for _ in range(calls):
            call()
    events = sorted(profile.key_averages(), key=lambda e: e.self_cpu_time_total, reverse=True)
    total = sum(e.self_cpu_time_total for e in events)
    return ", ".join(
        f"{e.key.removeprefix('aten::')} {e.self_cpu_time_total / total:.0%}" for e in events[:first]
    )
