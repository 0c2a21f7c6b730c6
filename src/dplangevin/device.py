"""The device of the tensors, which the environment variable DPL_DEVICE selects.

Results depend on it only by rounding.
"""

import os

import torch

KINDS = ("auto", "cpu", "cuda")


def pick() -> torch.device:
    """Return the device that DPL_DEVICE names.

    "cpu" and "cuda" name a device.  "auto", the default, is a GPU if there is one, else the CPU.  Random
    numbers are drawn on the CPU whatever the device, so that a seed means the same everywhere.

    Raises
    ------
    ValueError
        For another name, and for "cuda" on a machine without a CUDA device.
    """
    kind = os.environ.get("DPL_DEVICE") or "auto"
    if kind not in KINDS:
        raise ValueError(f"DPL_DEVICE = {kind!r} must be one of {', '.join(KINDS)}")
    there = torch.cuda.is_available()
    if kind == "cuda" and not there:
        raise ValueError("DPL_DEVICE = 'cuda', but this machine has no CUDA device: use auto or cpu")
    return torch.device("cuda" if there and kind != "cpu" else "cpu")
