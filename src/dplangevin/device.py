"""The device of the tensors (DPL_DEVICE); their random numbers are always drawn on the CPU."""

import os

import torch

CPU = torch.device("cpu")
PAYS = (
    10**8
)  # numbers that a step of linear chains gathers (chains x rows x features) from which on a GPU pays


def pick(cells: float = float("inf"), given: str | torch.device | None = None) -> torch.device:
    """Return the device that `given`, or else DPL_DEVICE, names: a device, or "auto".

    "auto", the default, is a GPU if there is one and a step gathers at least `PAYS` numbers (`cells`: chains times rows
    of a minibatch times features), else the CPU. Results depend on the device only by rounding, see `full_float32`.
    """
    full_float32()
    name = given or os.environ.get("DPL_DEVICE") or "auto"
    if name == "auto":
        return torch.device("cuda") if cells >= PAYS and torch.cuda.is_available() else CPU
    return named(name, "DPL_DEVICE" if given is None else "device")


def full_float32() -> None:
    """Make PyTorch compute float32 in full from now on, in this process.

    Its own default for convolutions on a GPU is TF32, whose relative error is about 1e-3.  A clipped gradient
    could then be longer than the clip, while a price assumes that it is not.
    """
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False


def named(name: str | torch.device, where: str) -> torch.device:
    """Return the device of a name; a ValueError says that it came from `where`."""
    text = f"{where} = {str(name)!r}"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"{text} must be auto, cpu, cuda, or cuda:1 and so on") from error
    there = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= there:
        raise ValueError(f"{text}, but this machine has {there} CUDA devices: use auto or cpu")
    try:
        torch.ones(1, dtype=torch.float64, device=device).sum().item()
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"{text} has no float64, which the solvers need: use auto or cpu") from error
    return device
