import pytest
import torch

from dplangevin import device


def test_auto_is_the_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPL_DEVICE", raising=False)
    for there, kind in ((False, "cpu"), (True, "cuda")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert device.pick().type == kind
        monkeypatch.setenv("DPL_DEVICE", "cpu")
        assert device.pick().type == "cpu"
        monkeypatch.setenv("DPL_DEVICE", "auto")


def test_what_cannot_be_had_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("DPL_DEVICE", "cuda")
    with pytest.raises(ValueError, match="no CUDA device: use auto or cpu"):
        device.pick()
    monkeypatch.setenv("DPL_DEVICE", "tpu")
    with pytest.raises(ValueError, match="'tpu' must be one of auto, cpu, cuda"):
        device.pick()
