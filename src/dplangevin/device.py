"""Where tensors live: the environment variable DPL_DEVICE, which no result depends on beyond rounding."""

import os

import torch

KINDS = ("auto", "cpu", "cuda")


def pick() -> torch.device:
    """The device that DPL_DEVICE names: "cpu", "cuda", or "auto" (the default), a GPU where there is one.

    Random numbers are drawn on the CPU whatever the device, so that a seed means the same everywhere.  Raises
    ValueError for another name, and for "cuda" where there is none.
    """
    kind = os.environ.get("DPL_DEVICE") or "auto"
    if kind not in KINDS:
        raise ValueError(f"DPL_DEVICE = {kind!r} must be one of {', '.join(KINDS)}")
    there = torch.cuda.is_available()
    if kind == "cuda" and not there:
        raise ValueError("DPL_DEVICE = 'cuda', but this machine has no CUDA device: use auto or cpu")
    return torch.device("cuda" if there and kind != "cpu" else "cpu")
