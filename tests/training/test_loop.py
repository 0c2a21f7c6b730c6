"""The training loop against explicit ones, and its checkpoints."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.func import functional_call

from dplangevin import noise
from dplangevin.cache import Checkpoint
from dplangevin.chains.chain import Chain
from dplangevin.data import Dataset
from dplangevin.data.pixels import scaled
from dplangevin.engine.clipped import clipped_sum
from dplangevin.networks import Network
from dplangevin.training import Task
from dplangevin.training.loop import Steps
from dplangevin.training.prices import Prices

Make = Callable[..., Task]
STEPS = Steps(batch=40, epochs=1.5, measured=3)
T = 15  # steps of 40 of 400 examples in 1.5 epochs


def chain(momentum: float = 0.5, clip: float = math.inf, std: float = 0.0) -> Chain:
    eta = torch.linspace(0.2, 0.1, T, dtype=torch.float64)
    return Chain(eta, torch.full((T,), std), STEPS.sampling, clip, 2.0 / 400, momentum)


def free(n: int = 400) -> Prices:
    return Prices(0.0, 40 / n, 1e-3)


def unstacked(network: Network, theta: torch.Tensor) -> dict[str, torch.Tensor]:
    named, start = {}, 0
    for name, parameter in network.module.named_parameters():
        named[name] = theta[start : start + parameter.numel()].view(parameter.shape)
        start += parameter.numel()
    return named


def test_without_noise_it_is_sgd_with_momentum(task: Make, network: Network, images: Dataset) -> None:
    """Against autograd and torch.optim.SGD, on the same draws."""
    predicted, _ = STEPS.run(task(), chain(), free())
    rng = task().rng
    theta = network.init(rng, 2)
    stacks = [theta[s].clone().requires_grad_() for s in range(2)]
    optimisers = [torch.optim.SGD([stack], lr=0.1, momentum=0.5) for stack in stacks]
    x, y = scaled(torch.as_tensor(images.x_train[0])), torch.as_tensor(images.y_train[0])
    for t in range(T):
        rows, mask, _ = next(noise.poisson_stream(rng, 2, 400, 0.1, network.d, 1, 1))
        for s, (stack, optimiser) in enumerate(zip(stacks, optimisers, strict=True)):
            here = rows[s][mask[s]]
            logits = functional_call(network.module, unstacked(network, stack), (x[here],))
            loss = F.cross_entropy(logits, y[here], reduction="sum") / 40 + stack.square().sum() / 400
            optimiser.param_groups[0]["lr"] = float(chain().step[t])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    tests = scaled(torch.as_tensor(images.x_test[0]))
    with torch.no_grad():
        expected = [
            functional_call(network.module, unstacked(network, s), (tests,)).softmax(-1) for s in stacks
        ]
    torch.testing.assert_close(predicted["single"], torch.stack(expected), rtol=0, atol=1e-5)


def test_noise_has_its_deviation(task: Make, network: Network) -> None:
    """One long step without examples' gradients: theta moves by eta/tau N(0, std^2)."""
    steps = Steps(batch=1, epochs=1 / 400, measured=1)
    eta, std = torch.tensor([1.0]), torch.tensor([3.0])
    moved = []
    for seed in range(40):
        again = task(seeds=2)._replace(rng=noise.generator(seed, "n"), folder=task().folder / str(seed))
        steps.run(again, Chain(eta, std, steps.sampling, 1e-9), Prices(0.0, 1 / 400, 1e-3))
        state = Checkpoint(again.folder / "key.pt", "key").load()
        assert state is not None
        moved.append(state["theta"][:, 0] - network.init(noise.generator(seed, "n"), 2))
    values = torch.stack(moved).flatten()
    assert abs(float(values.std()) / 3 - 1) < 4 / math.sqrt(2 * len(values))


def test_average_is_the_mean_over_kept_steps(task: Make) -> None:
    parts = []
    for last in (10, 15):
        steps = Steps(batch=40, epochs=last / 10, measured=1)
        whole = chain(std=0.5)
        cut = whole._replace(step=whole.step[:last], noise_std=whole.noise_std[:last])
        parts.append(steps.run(task(folder=str(last)), cut, free())[0]["single"])
    predicted, _ = STEPS.run(task(), chain(std=0.5), free(), average=[10, 15])
    torch.testing.assert_close(predicted["average"], sum(parts) / 2)
    torch.testing.assert_close(predicted["single"], parts[1])


def test_curve(task: Make) -> None:
    _, curve = STEPS.run(task(epsilon=1.0), chain(clip=1.0, std=2.0), Prices(2.0, 0.1, 1e-3))
    assert [(row["seed"], row["epoch"]) for row in curve] == [(s, e) for e in (0.5, 1.0, 1.5) for s in (0, 1)]
    spent = [row["epsilon_add_remove"] for row in curve[::2]]
    assert spent == sorted(spent)
    assert all(row["epsilon_replace_one"] > row["epsilon_add_remove"] > 0 for row in curve)
    assert all(0 < row["loss"] < 3 for row in curve)


def test_interrupted_run_ends_in_the_same_bytes(task: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = (chain(std=0.5), Prices(2.0, 0.1, 1e-3), [5, 9, 15])
    whole = STEPS.run(task(), *arguments)
    monkeypatch.setattr(Checkpoint.__init__, "__defaults__", (0.0,))  # write after every step
    for stop in (1, 7, 14):
        calls = 0

        def stopping(*given: object, stop: int = stop, **more: object) -> object:
            nonlocal calls
            calls += 1
            if calls > stop:
                raise KeyboardInterrupt
            return clipped_sum(*given, **more)  # type: ignore[arg-type]

        with monkeypatch.context() as context:
            context.setattr("dplangevin.problems.network.clipped_sum", stopping)
            with pytest.raises(KeyboardInterrupt):
                STEPS.run(task(folder=str(stop)), *arguments)
        again = STEPS.run(task(folder=str(stop))._replace(rng=torch.Generator()), *arguments)
        assert again[1] == whole[1]
        assert all(torch.equal(again[0][name], whole[0][name]) for name in whole[0])


SCRIPT = """
import sys
sys.path[:0] = {path!r}
import torch
from pathlib import Path
from dplangevin import noise
from dplangevin.chains.chain import Chain
from dplangevin.cache import Checkpoint
from dplangevin.data import Dataset
from dplangevin.networks import build
from dplangevin.privacy import Budget
from dplangevin.problems.network import NetworkProblem
from dplangevin.training import Task
from dplangevin.training.loop import Steps
from dplangevin.training.prices import Prices
Checkpoint.__init__.__defaults__ = (0.05,)
network = build([{{"conv": 4, "kernel": 3, "stride": 2}}, {{"activation": "tanh"}}, {{"linear": 3}}], [1, 8, 8], 3)
folder = Path(sys.argv[1])
images = Dataset.load(folder / "images.npz")
problem = NetworkProblem.of_images(network, images, torch.device("cpu"))
task = Task(problem, Budget(1.0, 1e-3), 2, noise.generator(1, "t"), folder / "units", "key")
n = int(sys.argv[2])
steps = Steps(batch=40, epochs=n / 10, measured=4)
chain = Chain(torch.full((n,), 0.1), torch.full((n,), 0.5), steps.sampling, 1.0, momentum=0.5)
predicted, curve = steps.run(task, chain, Prices(0.0, 0.1, 1e-3), [n // 2, n])
torch.save([predicted, curve], folder / "done.pt")
"""


def test_killed_run_ends_in_the_same_bytes(images: Dataset, tmp_path: Path) -> None:
    """SIGKILL at some moment after the first checkpoint."""
    steps, results = 400, []
    for name in ("whole", "killed"):
        folder = tmp_path / name
        folder.mkdir()
        images.save(folder / "images.npz")
        command = [sys.executable, "-c", SCRIPT.format(path=sys.path[:3]), str(folder), str(steps)]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        if name == "killed":
            process = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
            while not (folder / "units/key.pt").exists():
                assert process.poll() is None
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert not (folder / "done.pt").exists()
        subprocess.run(command, env=env, check=True, stderr=subprocess.DEVNULL)
        results.append(torch.load(folder / "done.pt"))
    (first, first_curve), (second, second_curve) = results
    assert first_curve == second_curve
    assert all(torch.equal(first[name], second[name]) for name in ("single", "average"))


def test_diverging_chain_is_named(task: Make) -> None:
    eta = torch.full((T,), 1e39, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"step \d+: .*lower its step size"):
        STEPS.run(task(), Chain(eta, torch.zeros(T), STEPS.sampling), free())


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"batch": 0}, "batch must be a whole number"),
        ({"batch": 1.5}, "batch must be a whole number"),
        ({"epochs": -1}, "epochs must be positive"),
        ({"measured": 0.5}, "measured must be a whole number"),
    ],
)
def test_bad_settings(arguments: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Steps(**{"batch": 4, "epochs": 1.0, **arguments})  # type: ignore[arg-type]


def test_steps_that_do_not_fit_the_data() -> None:
    with pytest.raises(ValueError, match="batch = 40 is larger than the data set"):
        STEPS.rate(39)
    with pytest.raises(ValueError, match=r"make no step with batch = 40: raise epochs"):
        Steps(40, 0.01).count(400)
    assert STEPS.count(400) == T
    assert Steps(40, 1.5, 100).measurements(400) == set(range(1, T + 1))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_gpu_gives_the_same_to_tolerance(task: Make) -> None:
    arguments = (chain(clip=1.0, std=0.5), free(), [10, 15])
    cpu, _ = STEPS.run(task(), *arguments)
    there = replace(task().problem, x=task().problem.x.cuda(), y=task().problem.y.cuda())
    gpu, _ = STEPS.run(task(folder="gpu")._replace(problem=there), *arguments)
    for name in cpu:
        np.testing.assert_allclose(cpu[name], gpu[name], atol=1e-3)
