"""Chains on a device that refuses to mix with the CPU; test_every_method has every pair of method and problem."""

from collections import Counter
from collections.abc import Callable, Iterator

import emulated
import pytest
import torch
from emulated import DEVICE, Device
from quick import sample
from scenarios import logistic, multinomial, network

from dplangevin import device, random
from dplangevin.problems import Problem
from dplangevin.problems.chain import Chain
from dplangevin.problems.sampling import Sampling, Scheme
from dplangevin.samplers.chains.loop import run

SEEDS, STEPS = 2, 10
PROBLEMS: dict[str, Callable[[], Problem]] = {
    "logistic": lambda: logistic(SEEDS, 200),
    "softmax": lambda: multinomial(SEEDS, 200),
    "network": network,
}


@pytest.fixture
def here() -> Iterator[Device]:
    with Device() as entered:
        yield entered


def chains(scheme: Scheme, steps: int) -> list[Chain]:
    sampling = Sampling(scheme, None if scheme == "full" else 20, 1.0)
    step, noise = torch.full((steps,), 0.01), torch.full((steps,), 0.5)
    return [Chain(step, noise, sampling, clip, l2=0.1) for clip in (0.5, 2.0)]


@pytest.mark.parametrize("of", sample(PROBLEMS, lambda of: of == next(iter(PROBLEMS))))
@pytest.mark.parametrize("scheme", ["subset", "poisson", "random_allocation", "shuffled", "full"])
@pytest.mark.parametrize("drawn", ["cpu", "device"])
def test_a_step_copies_the_batch_that_is_drawn_on_the_cpu_and_nothing_else(
    of: str, scheme: Scheme, drawn: str, here: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "_on", emulated.generator)
    monkeypatch.setenv("DPL_RANDOM", drawn)
    problem, copied = PROBLEMS[of]().to(DEVICE), []
    for steps in (STEPS, 2 * STEPS):
        rng = random.generator(0, "test", device.drawing(DEVICE))
        here.transfers.clear()
        theta = run(problem, chains(scheme, steps), SEEDS, rng)
        copied.append(Counter(here.transfers))
        assert bool(theta.isfinite().all())
    more = copied[1] - copied[0]
    looks = STEPS if of == "network" else 0  # a network reads its clips, and whether its sums are finite
    looks += STEPS if scheme == "random_allocation" else 0  # at most: an epoch reads its longest minibatch
    # whether the rows are all rows in their order
    looks += STEPS if scheme == "full" and of != "network" else 0
    assert more["to the host"] <= looks
    assert more["numbers to the host"] <= 9 * looks
    assert more["to the device"] <= (3 * STEPS if drawn == "cpu" else 0)
