from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from scenarios import logistic

from dplangevin import device, random
from dplangevin.problems.chain import Chain
from dplangevin.problems.sampling import Sampling
from dplangevin.samplers.chains.loop import run


def a_chain() -> None:
    step = torch.full((1,), 0.1, dtype=torch.float64)
    problem = logistic(1, 20, 2)
    run(problem, [Chain(step, step, Sampling("poisson", 5, 0.3), 1.0)], 1, random.generator(0, "device"))


@pytest.mark.parametrize(
    ("name", "there", "cells", "kind"),
    [
        (None, True, float("inf"), "cuda"),
        ("auto", True, device.PAYS, "cuda"),
        ("auto", True, device.PAYS - 1, "cpu"),
        ("auto", False, float("inf"), "cpu"),
        ("cpu", True, float("inf"), "cpu"),
    ],
)
def test_auto_is_the_gpu_where_there_is_one_and_the_work_is_large(
    name: str | None, there: bool, cells: float, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.delenv("DPL_DEVICE", raising=False)
    if name:
        monkeypatch.setenv("DPL_DEVICE", name)
    assert device.pick(cells).type == kind
    monkeypatch.setenv("DPL_DEVICE", "tpu")
    assert device.pick(cells, name or "auto").type == kind  # what is given goes before


@pytest.mark.parametrize("start", [partial(device.pick, given="cpu"), a_chain])
def test_float32_is_computed_in_full(start: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        start()
        assert torch.get_float32_matmul_precision() == "highest"
        assert not torch.backends.cudnn.allow_tf32
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cuda:7", "DPL_DEVICE = 'cuda:7', but this machine has 1 CUDA devices: use auto or cpu"),
        ("tpu", "DPL_DEVICE = 'tpu' must be auto, cpu, cuda, or cuda:1"),
        ("mps", "DPL_DEVICE = 'mps' has no float64"),
    ],
)
def test_a_device_that_cannot_be_used_is_refused(
    name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("DPL_DEVICE", name)
    with pytest.raises(ValueError, match=message):
        device.pick()
