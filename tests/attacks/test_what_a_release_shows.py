"""What a release shows beside its noisy numbers: their precision, another record's fit, an error.

A price covers the law of a release.  Where a solver's path depends on the rows, its answer tells neighbours apart by
questions that no likelihood asks; those are asked here, of every private method.
"""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import attacked
import numpy as np
import pytest
import torch
from attacked import CHAINS, FITS
from torch import Tensor

from dplangevin.attacks.audit import audit
from dplangevin.attacks.release import precision
from dplangevin.methods import Execution, Workspace
from dplangevin.methods.teachers import RidgeLearner
from dplangevin.privacy import Budget
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC, softmax

CONFIDENCE = 0.95


def trial(*case: Any) -> Any:
    """A case with as many runs as `make faults` has time for; the others have enough for a fault that shows often."""
    return pytest.param(*case, marks=[pytest.mark.slow, pytest.mark.trial("an unpriced path")])


def fits_of(x: Tensor, y: Tensor, of: Any, count: int) -> Tensor:
    """All teachers' parameters ``(count, d)``."""
    found, fit = [], RidgeLearner._fit
    with pytest.MonkeyPatch.context() as patch:

        def seen(*given: Any) -> Tensor:
            found.append(fit(*given))
            return found[-1]

        patch.setattr(RidgeLearner, "_fit", seen)
        RidgeLearner().votes(
            Glm(x[None], y[None], of, x_test=x[None, :3]),
            count,
            torch.arange(3)[None],
            0,
            Workspace(Path(), ""),
        )
    return found[0]


# A fit depends on its own rows alone


@pytest.mark.parametrize("of", [LOGISTIC, softmax(3)])
def test_a_linear_teacher_depends_on_its_own_rows_alone(of: Any) -> None:
    """Bit for bit: whoever is beside it, on however many threads, however much all are padded."""
    count, rng = 40, torch.Generator().manual_seed(1)
    x = torch.randn(count * 9 - 3, 5, generator=rng)
    x = x / x.norm(dim=1, keepdim=True)
    y = torch.randint(0, max(2, of.classes), (len(x),), generator=rng).float()
    y = 2 * y - 1 if of is LOGISTIC else y
    whole = fits_of(x, y, of, count)
    for row in range(0, len(x), 17):
        other, label = x.clone(), y.clone()
        other[row], label[row] = (0.0 if row % 2 else 1.0) * other[row].flip(0), y[row + 1]
        changed = (fits_of(other, label, of, count) != whole).any(-1)
        changed[row % count] = False
        assert not bool(changed.any()), row
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    assert torch.equal(fits_of(x, y, of, count), whole)
    torch.set_num_threads(threads)
    some = torch.arange(len(x)) % count < 7  # of seven teachers
    last = some & (torch.arange(len(x)) >= 8 * count)
    assert int(last.sum()) == 7
    assert torch.equal(fits_of(x[some], y[some], of, 7), whole[:7])


# Random pairs of neighbours, all methods


METHODS = {**dict.fromkeys(CHAINS, "chain"), **dict.fromkeys(FITS, "fit"), "pate": "vote"}
SLOWEST = {"ops", "ops_gdp", "hybrid", "hybrid_sgld"}  # posterior samples by HMC
KINDS = {"logistic": LOGISTIC, "softmax": softmax(3)}


@lru_cache
def neighbours(kind: str, records: int, count: int) -> tuple[Glm, Glm]:
    """As many pairs of data sets of so many records in two dimensions; of each the first record is replaced."""
    rng, loss = np.random.default_rng(5), KINDS[kind]
    x = rng.normal(size=(count, records + 1, 2))
    x *= rng.choice([0.0, 0.3, 1.0], size=(count, records + 1, 1)) / np.linalg.norm(x, axis=2, keepdims=True)
    x *= 1 - 1e-6
    y = rng.integers(0, max(2, loss.classes), size=(count, records + 1))
    labels = loss.labels(torch.tensor(y if loss.classes > 1 else 2 * y - 1, dtype=torch.float32))
    rows = torch.tensor(x, dtype=torch.float32)
    public = torch.tensor(x[:1, :1], dtype=torch.float32).expand(1, attacked.QUERIES, -1)
    kept = [torch.arange(records), torch.tensor([records, *range(1, records)])]
    return tuple(Glm(rows[:, at], labels[:, at], loss, x_test=public) for at in kept)  # type: ignore[return-value]


def made(name: str, kind: str) -> tuple[Any, int, float]:
    """The method, how many records it takes, and the epsilon that is asked for."""
    if name in CHAINS:
        return attacked.made(name, attacked.adjacency_of(name)), CHAINS[name].records, CHAINS[name].epsilon
    if name in FITS:
        return attacked.fit_of(name, kind), 6, FITS[name].epsilon
    method = replace(attacked.fit_of(name, kind), teachers=3)
    return replace(method, vote=replace(method.vote, threshold=1.0)), 6, 5.0


PAIRS = [
    (name, kind) for name in METHODS for kind in KINDS if name not in CHAINS or kind in CHAINS[name].kinds
]


@pytest.mark.parametrize(
    ("name", "kind", "count"),
    [
        *((name, "logistic", 2_000) for name in ("dp_sgd", "dp_sgfs", "dpvi", "outpert", "objpert", "dp_gd")),
        *(trial(*pair, 300 if pair[0] in SLOWEST else 10_000) for pair in PAIRS),
    ],
)
def test_nothing_tells_random_neighbours_apart_better_than_the_price(
    name: str, kind: str, count: int
) -> None:
    """Law, precision, last bits, zeros and divergence; an error would end the test."""
    method, records, epsilon = made(name, kind)
    problems, found = neighbours(kind, records, count), []
    plan = method.plan(problems[0].facts, Budget(epsilon, attacked.DELTA))
    first, second = (problem.grad(torch.zeros(count, 1, problem.d))[:, 0] for problem in problems)
    toward = torch.nn.functional.normalize(first - second, dim=-1)
    for which, problem in zip("ab", problems, strict=True):
        release = method.release(problem, [plan], Execution(count, attacked.rng(name + which)))
        theta = release.theta[:, 0, -1]
        along, zeros = (theta * toward).sum(-1).double(), (theta == 0).double().mean(-1)
        found.append(np.column_stack([along, precision(theta), theta.isfinite().all(-1), zeros]))
    delta = FITS[name].delta if name in FITS else attacked.DELTA
    shown = audit(found[0], found[1], delta, 1 - (1 - CONFIDENCE) / len(PAIRS)).epsilon
    assert shown <= attacked.prices(plan, delta)[0]
