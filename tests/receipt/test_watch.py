"""`watch` records what a PyTorch loop and Opacus really do."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from dplangevin import Receipt, watch

N, B = 300, 30
ROWS = TensorDataset(torch.randn(N, 4, generator=torch.Generator().manual_seed(1)), torch.arange(N) % 2)
DELTA = 1e-5


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        yield


def model(*more: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), *more, nn.Linear(4, 2))


def plain(loader: DataLoader, epochs: int = 3, of: Any = None, body: Any = None, **stated: Any) -> Receipt:
    """Return the receipt of a loop by hand, which says what it clips and adds; `body` may take the step's place."""
    of = of or model()
    optimizer = torch.optim.SGD(of.parameters(), lr=1e-9)
    stated = {"clip": 1.0, "noise_std": 2.0, "divisor": B, **stated}
    with watch(of, optimizer, loader, delta=DELTA, **stated) as receipt:
        for _ in range(epochs):
            for number, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                if body is not None and body(number, of, x):
                    continue
                nn.functional.cross_entropy(of(x), y).backward()
                optimizer.step()
    return receipt


def scheme(receipt: Receipt) -> str:
    return receipt.recognise()[0].samplers[0].scheme


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_the_rows_of_each_step_are_those_that_the_loop_used(workers: int) -> None:
    """Workers prefetch minibatches; a loop that skips one never uses it."""
    used: list[list[int]] = []

    def skips(number: int, _: nn.Module, x: torch.Tensor) -> bool:
        used.extend([x[:, 0].long().tolist()] * (number != 6))
        return number == 6

    rows = TensorDataset(torch.arange(N)[:, None].float().repeat(1, 4), torch.arange(N) % 2)
    receipt = plain(DataLoader(rows, B, shuffle=True, num_workers=workers), body=skips)
    assert [step.minibatches[0].tolist() for step in receipt.steps] == used


def test_what_happened_on_the_way_is_noted() -> None:
    shuffled = DataLoader(ROWS, B, shuffle=True)
    assert not plain(shuffled).notes
    skipped = plain(shuffled, body=lambda number, *_: number == 3)
    assert (len(skipped.steps), scheme(skipped), skipped.notes) == (27, "shuffled", {})

    def raw(_: int, of: nn.Module, x: torch.Tensor) -> bool:
        with torch.no_grad():
            of.get_parameter("0.bias").sub_(0.1)
        return False

    assert any("outside optimizer.step" in note for note in plain(shuffled, body=raw).notes)
    normed = plain(shuffled, of=model(nn.BatchNorm1d(4)))
    assert any("batch norm mixes" in note for note in normed.notes)
    assert any("buffers changed" in note for note in normed.notes)


def test_minibatches_that_one_gradient_joins_are_all_used() -> None:
    of = model()
    optimizer = torch.optim.SGD(of.parameters(), lr=0.1)
    loader = DataLoader(ROWS, B, shuffle=True)
    with watch(of, optimizer, loader, clip=1.0, noise_std=2.0, divisor=B) as receipt:
        batches = iter(loader)
        for (x, _), (z, _) in zip(batches, batches, strict=True):
            of(torch.cat([x, z])).sum().backward()
            optimizer.step()
    assert [len(step.minibatches) for step in receipt.steps] == [2] * 5
    assert not receipt.notes


def test_a_gradient_for_each_row_that_is_set_to_zero_again() -> None:
    def by_row(_: int, of: nn.Module, x: torch.Tensor) -> bool:
        for row in x:
            of.zero_grad()
            of(row[None]).sum().backward()
        return False

    receipt = plain(DataLoader(ROWS, B, shuffle=True), body=by_row)
    assert [len(step.minibatches[0]) for step in receipt.steps] == [B] * 30


@pytest.mark.parametrize(
    ("loader", "found"),
    [
        (lambda: DataLoader(ROWS, 40, shuffle=True, drop_last=True), "shuffled"),
        (lambda: DataLoader(ROWS, B), "in_order"),
        (lambda: DataLoader(ROWS, B, sampler=torch.utils.data.RandomSampler(ROWS, replacement=True)),
         "with_replacement"),
        (lambda: DataLoader(ROWS, B, sampler=WeightedRandomSampler([1.0] * 270 + [20.0] * 30, N)), "weighted"),
    ],
)  # fmt: skip
def test_planted_samplers(loader: Callable[[], DataLoader], found: str) -> None:
    assert scheme(plain(loader(), epochs=6)) == found


def test_one_more_epoch_is_more_than_the_claim() -> None:
    loader = DataLoader(ROWS, B, shuffle=True)
    claim = plain(loader, epochs=2).prices()["replace_one"].epsilon
    assert "covered for replacing" in str(plain(loader, epochs=2, claim=claim))
    assert "not covered" in str(plain(loader, epochs=3, claim=claim))


def test_persons() -> None:
    loader, persons = DataLoader(ROWS, B, shuffle=True), [row // 3 for row in range(N)]
    with pytest.raises(ValueError, match="a person has 3 rows"):
        plain(loader, persons=persons, rows_per_person=2)
    three = plain(loader, persons=persons, rows_per_person=3, noise_std=6.0)
    one = plain(loader, noise_std=2.0)
    assert three.prices()["replace_one"].epsilon == pytest.approx(one.prices()["replace_one"].epsilon)


def test_without_noise_stated_there_is_no_price() -> None:
    loader = DataLoader(ROWS, B, shuffle=True)
    assert "clip or noise_std of 30 steps is unknown" in str(plain(loader, noise_std=None))
    with pytest.raises(ValueError, match=r"^noise_std: Input should be greater than"):
        plain(loader, noise_std=-1.0)


def private(of: nn.Module, pieces: int = 0, every: int = 1, **settings: Any) -> tuple[Receipt, float]:
    """Return the receipt of four epochs with Opacus, and Opacus' epsilon."""
    opacus = pytest.importorskip("opacus")
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    engine = opacus.PrivacyEngine()
    of, optimizer, loader = engine.make_private(
        module=of,
        optimizer=torch.optim.SGD(of.parameters(), lr=0.1),
        data_loader=DataLoader(ROWS, B, shuffle=True),
        noise_multiplier=1.5,
        max_grad_norm=0.8,
        **settings,
    )
    smaller = BatchMemoryManager(data_loader=loader, max_physical_batch_size=pieces or B, optimizer=optimizer)
    with watch(of, optimizer, loader, delta=DELTA) as receipt:
        for _ in range(4):
            with smaller if pieces else nullcontext(loader) as batches:
                for number, (x, y) in enumerate(batches, 1):
                    nn.functional.cross_entropy(of(x), y).backward()
                    if number % every == 0:
                        optimizer.step()
                        optimizer.zero_grad()
    return receipt, engine.get_epsilon(DELTA)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("poisson", "every", "pieces"), [(True, 1, 0), (False, 1, 0), (False, 2, 0), (True, 1, 7), (False, 1, 7)]
)
def test_opacus(poisson: bool, every: int, pieces: int) -> None:
    """With Poisson samples Opacus' epsilon is that of the receipt; with shuffled epochs it is not covered."""
    receipt, stated = private(model(), pieces, every, poisson_sampling=poisson)
    assert scheme(receipt) == ("poisson" if poisson else "shuffled")
    assert receipt.claim == pytest.approx(stated)
    (stage,) = receipt.statement()["mechanism"]
    settings = {"clip": 0.8, "noise_std": pytest.approx(1.2), "divisor": B * every, "rows_per_clip": 1}
    assert stage == {"steps": 40 // every, **settings}
    if poisson:
        assert receipt.prices()["add_remove"].epsilon == pytest.approx(stated, rel=0.02)
    assert ("not covered" in str(receipt)) is not poisson


@pytest.mark.slow
def test_two_ranks_are_one_training() -> None:
    pytest.importorskip("opacus")
    from web import closed_port  # which the ranks, scripts of their own, do not find

    command = [sys.executable, "-W", "ignore", __file__, str(closed_port())]
    ranks = [subprocess.Popen([*command, rank], stdout=subprocess.PIPE, text=True) for rank in "01"]
    out, _ = (rank.communicate(timeout=120)[0] for rank in ranks)
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert "40 steps on 300 rows, consistent with Poisson samples" in out
    assert "covered for adding or removing one row" in out


if __name__ == "__main__":  # a rank of the test above
    from opacus.distributed import DifferentiallyPrivateDistributedDataParallel as Private

    address, this = f"tcp://127.0.0.1:{sys.argv[1]}", int(sys.argv[2])
    torch.distributed.init_process_group("gloo", address, rank=this, world_size=2)
    torch.manual_seed(0)
    network = Private(nn.Linear(4, 2))
    torch.manual_seed(this)
    print(private(network)[0])
