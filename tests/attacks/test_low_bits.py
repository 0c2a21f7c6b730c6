"""What the last bits of a noisy sum tell of its rows: nothing, because it lies on a grid of public numbers."""

import math
from typing import Any

import attacked
import pytest
import torch
from attacked import CHAINS, NETWORKS
from torch import Tensor

from dplangevin import random
from dplangevin.methods.dp_sgfs import _Scoring
from dplangevin.methods.dp_sghmc import Hamiltonian
from dplangevin.methods.dpvi import _MeanField
from dplangevin.privacy import Budget
from dplangevin.problems.chain import Chain
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC
from dplangevin.problems.sampling import Sampling
from dplangevin.samplers.chains import loop

FINE = 2.0**-25


def off_the_grid(numbers: Tensor, grid: float) -> Tensor:
    return (numbers.double() / grid).frac() != 0


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name, spec in CHAINS.items() for kind in spec.kinds if kind in ("logistic", *NETWORKS)],
)
def test_every_noisy_sum_is_on_the_grid(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, problem = attacked.neighbours(name, kind, attacked.adjacency_of(name))
    method = attacked.made(name, attacked.adjacency_of(name))
    plan = method.plan(problem.facts, Budget(CHAINS[name].epsilon, attacked.DELTA))
    std, seen = attacked.chain_of(plan).noise_std, list[Tensor]()
    for kernel in (loop.Momentum, Hamiltonian, _MeanField, _Scoring):

        def watched(self: Any, state: Any, noisy: Tensor, t: int, *rest: Any, step: Any = kernel.step) -> Any:
            grid = 2.0 ** math.floor(math.log2(float(std[t]) * random.GRID))
            seen.append(off_the_grid(noisy, grid))
            return step(self, state, noisy, t, *rest)

        monkeypatch.setattr(kernel, "step", watched)
    monkeypatch.setattr(Glm, "descent", lambda *_: None)  # the fused step has a test of its own
    method.release(problem, [plan], attacked.Execution(50, attacked.rng("bits")))
    assert len(seen) >= attacked.STEPS
    assert not any(bool(each.any()) for each in seen)


def tells(noisy: Tensor) -> int:
    """How often a sum near 0 has bits that a float32 sum with .5 cannot have."""
    return int((off_the_grid(noisy, FINE) & (noisy.abs() < 2.0**-5)).sum())


@pytest.mark.parametrize("scheme", ["full", "subset", "poisson"])
def test_no_last_bit_of_one_step_tells_where_a_row_was(scheme: Any) -> None:
    """Before the grid this showed an epsilon of 4.6 where 1 is promised; the sum is 1/2 or 0 in the first direction."""
    runs, sampling = 150_000, Sampling(scheme, None if scheme == "full" else 4, 1.0)
    chain = Chain(torch.ones(1), torch.ones(1), sampling)
    for row in ([1.0, 0.0], [0.0, 1.0]):
        x = torch.zeros(1, 4, 2)
        x[0, 0] = torch.tensor(row)
        theta = loop.run(Glm(x, torch.ones(1, 4), LOGISTIC), [chain], runs, random.generator(0, "bits"))
        assert tells(theta[:, 0, 0, 0] * 4) == 0  # the step is 1/4 of the sum, exactly
    normals = random.normals(random.generator(0, "bits"), runs)  # the fault: numbers of float32, and no grid
    assert tells(0.5 + normals) == 0
    assert tells(0.0 + normals) > 100
