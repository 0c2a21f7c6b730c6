"""The attack on a row of softmax regression against the loop that trains, and against what can be proved."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp
from torch import Tensor

from dplangevin import noise
from dplangevin.attacks import softmax
from dplangevin.attacks.softmax import Pair, Record, Training, flipped, opposite, pairs
from dplangevin.audit import audit
from dplangevin.chains.linear import Chain, batches, descent, run, train
from dplangevin.heads import Audits, Setting
from dplangevin.heads.dp_langevin import DpLangevin
from dplangevin.heads.dp_sgd import DpSgd
from dplangevin.heads.softmax import problem_of
from dplangevin.privacy.accountants.tight import Tight

N, K, BOUND, DELTA = 12, 3, 2.0, 1e-3
SETTING = Setting(N, 2, K, BOUND, 3.0, DELTA, Audits(100, 100))


def training(chain: Chain, **other: Any) -> Training:
    return replace(Training(chain, N, 3, K, 2, BOUND), **other)


def chain_of(sampling: Any = "subsets", **other: Any) -> Chain:
    """Decreasing steps, noise about as large as a record's push, a ridge that can be felt."""
    sizes = 1 / (2 + 0.3 * np.arange(10))
    return replace(Chain(sizes, 0.5 * np.sqrt(sizes), 0.4, sampling), **other)


def rng(label: str = "attack") -> torch.Generator:
    return noise.generator(3, label)


def trained(target: Training, record: Record, runs: int, label: str) -> Tensor:
    """The last iterates ``(runs, K p)`` of `train` on all rows: zeros, and the record in one of them."""
    x = np.zeros((target.records, target.features), dtype=np.float32)
    x[5, 0] = record.x
    y = np.arange(target.records) % K
    y[5] = record.label
    problem = problem_of(x, y, K, runs, BOUND)
    return train(problem, [target.chain], target.batch, rng(label))[:, 0]


def test_gradients_of_a_flipped_label_differ_by_the_same_whatever_theta() -> None:
    target = training(chain_of())
    first, second = (displacement(target, record) for record in flipped(BOUND)[1:])
    gap = target.batch * (first - second).norm(dim=-1)
    torch.testing.assert_close(gap, torch.full_like(gap, math.sqrt(2) * BOUND), rtol=1e-4, atol=0)
    assert (first.norm(dim=-1) * target.batch <= SETTING.lipschitz).all()


def displacement(target: Training, record: Record) -> Tensor:
    """By a use of the record at many theta, the first of them 0, per unit of step size: ``(50, K)``."""
    theta = torch.randn(50, 1, K, generator=rng("theta"))
    theta[0] = 0
    problem = softmax._problem(target, [record])
    rows = torch.zeros(50, dtype=torch.long)
    return softmax._displaced(descent(problem, [target.chain], target.batch), theta, rows)[:, 0]


def test_gradients_of_x_and_minus_x_differ_by_more() -> None:
    target = training(chain_of())
    first, second = (displacement(target, record) for record in opposite(BOUND)[1:])
    gap = target.batch * (first - second).norm(dim=-1)
    assert float(gap[0]) == pytest.approx(2 * BOUND * math.sqrt(1 - 1 / K), rel=1e-5)
    assert (gap <= math.sqrt(6) * BOUND).all()


def test_every_pair_is_admissible() -> None:
    found = pairs(BOUND)
    assert [pair.name for pair in found[:2]] == ["flipped label", "x to -x"]
    assert len({pair[1:] for pair in found}) == len({pair.name for pair in found}) == len(found) == 14
    for pair in found:
        assert pair.first != pair.second
        assert all(abs(record.x) <= BOUND and record.label in (0, 1) for record in pair[1:])


@pytest.mark.parametrize("sampling", ["subsets", "poisson"])
@pytest.mark.parametrize(("clip", "radius"), [(math.inf, math.inf), (1.0, math.inf), (math.inf, 1.5)])
@pytest.mark.parametrize("start", [0.0, 1.0])
def test_last_iterates_have_the_law_of_training(
    sampling: Any, clip: float, radius: float, start: float
) -> None:
    target = training(chain_of(sampling, clip=clip, radius=radius, start_std=start))
    record = Record(BOUND, 1)
    ours = softmax.end_points(target, record, 6000, rng("ours"))
    theirs = trained(target, record, 6000, "theirs").view(6000, K, target.features)
    ours = ours.view(6000, K, -1)[..., 0]
    for direction in (torch.tensor([1.0, -1.0, 0.0]), torch.tensor([0.0, 1.0, 0.0]), torch.ones(3)):
        assert ks_2samp(ours @ direction, theirs[..., 0] @ direction).pvalue > 1e-3


def test_a_full_batch_uses_the_record_in_every_step() -> None:
    target = training(chain_of(), batch=N)
    record = Record(-BOUND, 0)
    ours, theirs = softmax.end_points(target, record, 4000, rng("ours")), trained(target, record, 4000, "t")
    assert ks_2samp(ours[:, 0], theirs.view(4000, K, 2)[:, 0, 0]).pvalue > 1e-3


def test_random_numbers_are_common_to_all_records() -> None:
    """Without a difference in the gradients nothing differs: x of length 1e-9, and 0."""
    target = training(chain_of(start_std=1.0))
    first, second = (softmax.end_points(target, Record(x, 0), 500, rng()) for x in (0.0, 1e-9))
    torch.testing.assert_close(first, second)


def iterates(target: Training, record: Record, runs: int, label: str) -> Tensor:
    """theta_0, ..., theta_K along the record's feature, ``(steps + 1, runs, K)``, of the steps of `train`."""
    x = np.zeros((target.records, 1), dtype=np.float32)
    x[5] = record.x
    y = np.full(target.records, record.label)
    problem, source, seen = problem_of(x, y, K, runs, BOUND), rng(label), []
    step = descent(problem, [target.chain], target.batch)

    def descend(theta: Tensor, *rest: Tensor) -> None:
        seen.append(theta[:, 0].clone())
        step(theta, *rest)

    start = torch.randn(runs, 1, problem.d, generator=source)
    stream = batches(source, problem, target.batch, len(target.chain.step_sizes))
    seen.append(run([target.chain], start, stream, descend)[:, 0])
    return torch.stack(seen)


def ratios(target: Training, pair: Pair, theta: Tensor) -> np.ndarray:
    """Log-likelihood ratios ``(runs,)`` by the formula of `all_iterates`, gradients by hand."""
    theta, total = theta.double(), torch.zeros(theta.shape[1], dtype=torch.float64)
    q = target.batch / target.records
    for k, (eta, std) in enumerate(zip(target.chain.step_sizes, target.chain.noise_std, strict=True)):
        move = theta[k + 1] - (1 - eta * target.chain.precision) * theta[k]
        for sign, record in zip((1, -1), pair[1:], strict=True):
            slope = torch.softmax(theta[k] * record.x, 1) - torch.eye(K, dtype=torch.float64)[record.label]
            gradient = slope * record.x
            gradient *= (target.chain.clip / gradient.norm(dim=1, keepdim=True)).clamp(max=1.0)
            mean = -eta / target.batch * gradient
            hit = ((move * mean).sum(1) - mean.square().sum(1) / 2) / std**2
            total += sign * torch.log((1 - q) + q * torch.exp(hit))
    return total.numpy()


@pytest.mark.parametrize("clip", [math.inf, 1.0])
@pytest.mark.parametrize("pair", [flipped(BOUND), pairs(BOUND)[-1]])
def test_ratios_of_all_iterates_have_the_law_of_training(clip: float, pair: Pair) -> None:
    target = training(chain_of("poisson", clip=clip))
    found = softmax.all_iterates(target, 6000, rng("ours"), pair)
    for record, ours in ((pair.first, found.first), (pair.second, found.second)):
        theirs = ratios(target, pair, iterates(target, record, 6000, f"theirs{record}"))
        assert ks_2samp(ours, theirs).pvalue > 1e-3
    assert np.exp(-found.first).mean() == pytest.approx(1.0, abs=0.1)  # it is a likelihood ratio
    assert np.exp(found.second).mean() == pytest.approx(1.0, abs=0.1)


def test_looks_that_are_a_few_steps_old_see_nearly_as_much() -> None:
    target = training(chain_of("poisson"))
    fresh, stale = (
        softmax.all_iterates(target, 2000, rng(), flipped(BOUND), looks=looks) for looks in (10, 5)
    )
    assert np.corrcoef(fresh.first, stale.first)[0, 1] > 0.98


@pytest.mark.parametrize("schedule", ["constant", "decreasing"])
@pytest.mark.parametrize("initial", ["theorem", "zero"])
def test_the_last_iterate_tells_less_than_its_price(schedule: Any, initial: Any) -> None:
    method = DpLangevin("published", schedule, 3, 2.0, 0.2, noise_std=0.4, initial=initial)
    price = Tight().epsilon(method.provable(SETTING, 0.4), DELTA)
    found = softmax.last_iterate(method.attacked(SETTING, 0.4), 40_000, rng(), DELTA)
    bound = audit(found.first, found.second, DELTA).epsilon
    assert 0.05 * price < bound <= price


def test_all_iterates_tell_less_than_their_price() -> None:
    method = DpSgd("published", "constant", 3, 2.0, 0.2, 1.0, noise_multiplier=1.5)
    price = Tight().epsilon(method.event(SETTING, 1.5), DELTA, "replace_one")
    found = softmax.all_iterates(method.attacked(SETTING, 1.5), 40_000, rng())
    bound = audit(found.first, found.second, DELTA).epsilon
    assert 0.3 * price < bound <= price


def test_the_pilot_chooses_the_pair_that_tells_most() -> None:
    target = training(chain_of(noise_std=np.full(10, 0.3)), classes=10)
    found = softmax.last_iterate(target, 40_000, rng(), DELTA)
    label = softmax.last_iterate(target, 40_000, rng(), DELTA, flipped(BOUND))
    assert found.pair != label.pair == flipped(BOUND)
    best, other = (audit(each.first, each.second, DELTA).epsilon for each in (found, label))
    assert best > other > 0


def test_rows_without_a_bound_reach_the_clip() -> None:
    target = training(chain_of(clip=1.0), row_bound=math.inf)
    found = softmax.last_iterate(target, 100, rng(), DELTA)
    assert target.reach == max(abs(record.x) for record in found.pair[1:]) == 2.0
    with pytest.raises(ValueError, match="need a clip"):
        softmax.last_iterate(training(chain_of(), row_bound=math.inf), 100, rng(), DELTA)


def test_nothing_to_attack() -> None:
    with pytest.raises(ValueError, match="nothing to attack"):
        softmax.last_iterate(training(chain_of(noise_std=np.zeros(10))), 10, rng(), DELTA)
    with pytest.raises(ValueError, match="at least 8"):
        softmax.all_iterates(training(chain_of("poisson")), 0, rng())
    with pytest.raises(ValueError, match="radius = inf"):
        softmax.all_iterates(training(chain_of("poisson", radius=1.0)), 10, rng())
