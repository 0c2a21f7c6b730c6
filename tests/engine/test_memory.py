"""The bound on memory: read from the environment, and kept."""

import weakref

import pytest
import torch
from one_by_one import network_of, problem
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from dplangevin.engine import memory
from dplangevin.engine.clipped import clipped_sum
from dplangevin.problems.architectures import Network


@pytest.fixture
def network() -> Network:
    return network_of(nn.Conv2d(1, 8, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), shape=(1, 20, 20))


class Live(TorchDispatchMode):
    """The most bytes of tensors that operations returned and that were still held."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        results = func(*args, **(kwargs or {}))
        for result in results if isinstance(results, tuple | list) else (results,):
            if isinstance(result, Tensor):
                self.hold(result.untyped_storage())
        return results

    def hold(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self.known:
            self.known.add(key)
            self.now += size
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self.drop, key, size)

    def drop(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size


def peak(network: Network, batch: int) -> int:
    given = problem(network, batch=batch, dtype=torch.float32)
    with Live() as live:
        clipped_sum(network, *given, 1.0)
    return live.most


def test_default_and_megabytes_of_the_environment(network, monkeypatch):
    monkeypatch.delenv("DPL_MEMORY", raising=False)
    assert memory.bound(torch.device("cpu")) == memory.CPU * 2**20
    for free, megabytes in ((2**40, memory.GPU), (2**30, 512)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=free: (free, 2**40))
        assert memory.bound(torch.device("cuda")) == megabytes * 2**20
    monkeypatch.setenv("DPL_MEMORY", " 0.5 ")
    assert memory.bound(torch.device("cpu")) == 2**19 == memory.bound(torch.device("cuda"))


@pytest.mark.parametrize("text", ["much", "0", "-3", "nan", "inf", "12MB"])
def test_bad_values_are_refused(text, monkeypatch, network):
    monkeypatch.setenv("DPL_MEMORY", text)
    with pytest.raises(ValueError, match=f"DPL_MEMORY must be a positive number of megabytes, not '{text}'"):
        clipped_sum(network, *problem(network), 1.0)


@pytest.mark.parametrize("bound", [1, 4, 16])
def test_the_bound_is_kept(network, bound, monkeypatch):
    """Except for a block of columns and what is as long as the batch."""
    monkeypatch.setenv("DPL_MEMORY", str(bound))
    assert peak(network, 512) < 2**20 * (1.2 * bound + 1)
    monkeypatch.setenv("DPL_MEMORY", "1000")
    assert peak(network, 512) > 2**20 * 17  # what it would take
