"""An accelerator for tests: its tensors report a device of their own and refuse to mix with the CPU's.

The numbers are computed on the CPU.  PyTorch's key for backends of third parties, "private use 1", carries the device.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_iter, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "emulated"
if not torch.cuda.is_available():
    # torch knows one accelerator: after this, gradients on a GPU raise an error
    _setup_privateuseone_for_python_backend(NAME)
DEVICE = torch.device("cpu" if torch.cuda.is_available() else NAME, 0)
aten = torch.ops.aten
COPY, CONVERT = aten.copy_.default, aten._to_copy.default
EIGENVECTORS = aten._linalg_eigh.default  # the device gives them the other sign, as a GPU does for some


class MixedDevices(RuntimeError):
    """An operation on tensors of two devices, or a generator that draws a tensor of another device."""


class Emulated(torch.Tensor):
    """A tensor of the emulated device.  `own` is the tensor of the CPU that holds its numbers."""

    own: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> "Emulated":
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            layout=inner.layout,
            device=DEVICE,
            requires_grad=inner.requires_grad,
        )
        made.own = inner
        return made

    def __deepcopy__(self, memo: Any) -> torch.Tensor:
        made = Emulated(self.own.detach().clone())
        return torch.nn.Parameter(made, self.requires_grad) if isinstance(self, torch.nn.Parameter) else made

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return _computed(op, args, kwargs or {})


def _computed(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Return the result of an operation, on the device that it belongs to."""
    tensors = [x for x in tree_iter((args, kwargs)) if isinstance(x, torch.Tensor)]
    ours = [x for x in tensors if isinstance(x, Emulated)]
    asked = kwargs.get("device")
    there = bool(ours) if asked is None else torch.device(asked).type == NAME
    if not ours and not there:
        return op(*args, **kwargs)
    if op not in (COPY, CONVERT):
        strangers = [x for x in tensors if not isinstance(x, Emulated) and x.dim()]
        if ours and strangers:  # a single number of the CPU may meet any tensor, as in PyTorch
            raise MixedDevices(f"{op}: a tensor of {NAME} meets one of cpu, {tuple(strangers[0].shape)}")
    if asked is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    inner = tree_map(lambda x: x.own if isinstance(x, Emulated) else x, (args, kwargs))
    found = op(*inner[0], **inner[1])
    if op is EIGENVECTORS:
        found = found[0], -found[1]
    if not there:
        return found
    made = tree_map(lambda x: Emulated(x) if isinstance(x, torch.Tensor) else x, found)
    return return_and_correct_aliasing(op, args, kwargs, made) if ours else made


class _Calls(TorchFunctionMode):
    """What PyTorch computes before it asks a `TorchDispatchMode`."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if (rng := kwargs.get("generator")) is not None:
            like = [x.device for x in args if isinstance(x, torch.Tensor)]
            drawn = torch.device(kwargs.get("device") or (like[0] if like else "cpu"))
            if drawn.type != rng.device.type:
                raise MixedDevices(f"{func.__name__}: a generator of {rng.device.type} draws on {drawn.type}")
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") is not None:
            return func(*args, **{**kwargs, "device": None}).to(kwargs["device"])
        if args and isinstance(args[0], Emulated):
            if func is torch.Tensor.tolist:
                return args[0].cpu().tolist()
            if func is torch.Tensor.__getitem__:
                at = args[1] if isinstance(args[1], tuple) else (args[1],)
                lists = (torch.tensor(x).to(DEVICE) if isinstance(x, list) else x for x in at)
                args = args[0], tuple(lists)
        return func(*args, **kwargs)


class Device(TorchDispatchMode):
    """While this is entered, the emulated device works."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = _Calls()

    def __enter__(self) -> "Device":
        self.calls.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        super().__exit__(*failure)
        self.calls.__exit__(*failure)

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(op, args, kwargs or {})


@contextmanager
def on(name: str) -> Iterator[torch.device]:
    """A device by name: the emulated one, or one that this machine must have.  A machine has one of the two."""
    if name == NAME:
        if torch.cuda.is_available():
            pytest.skip("this machine has a GPU, on which the same test runs")
        with Device():
            yield DEVICE
        return
    if not torch.cuda.is_available():
        pytest.skip(f"this machine has no device {name}")
    yield torch.device(name, 0)


EVERY = [NAME, pytest.param("cuda", marks=pytest.mark.gpu)]  # devices on which a test runs
