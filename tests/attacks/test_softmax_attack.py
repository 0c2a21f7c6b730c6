"""The attack on a row of softmax regression against the loop that trains, and against what can be proved."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp
from torch import Tensor

from dplangevin import random
from dplangevin.attacks import release, softmax
from dplangevin.attacks.softmax import OnRow, Record, RecordPair, Training, pairs
from dplangevin.methods.dp_sgd import DpSgd
from dplangevin.methods.dp_sgld_ryffel2022 import DpSgldRyffel2022
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problems.chain import Chain
from dplangevin.problems.glm import Glm
from dplangevin.problems.losses import LOGISTIC
from dplangevin.problems.losses import softmax as softmax_loss
from dplangevin.problems.sampling import Sampling
from dplangevin.samplers.chains.loop import run

N, K, BOUND, DELTA, BATCH, STEPS = 12, 3, 2.0, 1e-3, 3, 10


def training(chain: Chain, **other: Any) -> Training:
    return replace(Training(chain, N, K, BOUND), **other)


def chain_of(scheme: Any = "subset", noise: float = 0.5, **other: Any) -> Chain:
    """Decreasing steps, noise about as large as a record's push, a ridge that can be felt."""
    sizes = 1 / (2 + 0.3 * torch.arange(STEPS, dtype=torch.float64))
    batch = {"full": None}.get(scheme, BATCH)
    sampling = Sampling(scheme, batch, STEPS * (batch or N) / N)
    size = sampling.size(N)
    return Chain(sizes, noise * size / sizes.sqrt(), sampling, l2=0.4)._replace(**other)


def rng(label: str = "attack") -> torch.Generator:
    return random.generator(3, label)


def problem_of(x: Tensor, y: Tensor) -> Glm:
    return Glm(x[None], y[None].float(), softmax_loss(K), row_bound=BOUND)


def trained(target: Training, record: Record, runs: int, label: str) -> Tensor:
    """The last iterates ``(runs, K p)`` of the loop on all rows: zeros, and the record in one of them."""
    x = torch.zeros(target.records, 2)
    x[5, 0] = record.x
    y = torch.arange(target.records) % K
    y[5] = record.label
    return run(problem_of(x, y), [target.chain], runs, rng(label))[:, 0, 0]


def test_every_pair_is_admissible() -> None:
    found = pairs(BOUND)
    assert [pair.name for pair in found[:2]] == ["flipped label", "x to -x"]
    assert len({pair[1:] for pair in found}) == len({pair.name for pair in found}) == len(found) == 14
    for pair in found:
        assert pair.first != pair.second
        assert all(abs(record.x) <= BOUND and record.label in (0, 1) for record in pair[1:])


@pytest.mark.parametrize("sampling", ["subset", "poisson", "shuffled", "full"])
@pytest.mark.parametrize(("clip", "start"), [(math.inf, 1.0), (1.0, 0.0)])
def test_last_iterates_have_the_law_of_training(sampling: Any, clip: float, start: float) -> None:
    target = training(chain_of(sampling, clip=clip, start_std=start))
    record = Record(BOUND, 1)
    ours = softmax.end_points(target, record, 6000, rng("ours"))
    theirs = trained(target, record, 6000, "theirs").view(6000, K, 2)
    for direction in (torch.tensor([1.0, -1.0, 0.0]), torch.tensor([0.0, 1.0, 0.0]), torch.ones(3)):
        assert ks_2samp(ours @ direction, theirs[..., 0] @ direction).pvalue > 1e-3


def test_a_shuffled_epoch_uses_the_record_at_most_once() -> None:
    """Not where it is left over, as one of 13 rows is."""
    chain = chain_of("shuffled")._replace(step=torch.ones(12))
    target, runs = training(chain, records=13), 20_000
    done, uses, draws = torch.zeros(runs, dtype=torch.long), torch.zeros(runs, 13), rng()
    for _ in range(3):
        at = softmax._next_use(target, done, draws)
        uses[torch.arange(runs), at] += 1
        done = (at + 1).clamp(max=12)
    epochs = uses[:, :12].unflatten(1, (3, 4))
    assert (epochs.sum(-1) <= 1).all()
    share = 3 / 13  # of a step
    assert (epochs.mean(0) - share).abs().max() < 5 * math.sqrt(share * (1 - share) / runs)


def iterates(target: Training, record: Record, runs: int, label: str) -> Tensor:
    """theta_0, ..., theta_T along the record's feature, ``(steps + 1, runs, K)``, of the loop's steps."""
    x = torch.zeros(target.records, 1)
    x[5] = record.x
    problem = problem_of(x, torch.full((target.records,), record.label))
    chain = target.chain._replace(keep=tuple(range(1, STEPS + 1)))
    theta = run(problem, [chain], runs, rng(label))[:, 0]
    return torch.cat([torch.zeros(runs, 1, K), theta], 1).transpose(0, 1)


def ratios(target: Training, pair: RecordPair, theta: Tensor) -> np.ndarray:
    """Log-likelihood ratios ``(runs,)`` by the formula of `all_iterates`, gradients by hand."""
    theta, total = theta.double(), torch.zeros(theta.shape[1], dtype=torch.float64)
    q = BATCH / target.records
    for k, (eta, std) in enumerate(zip(target.step_sizes, target.noise_std, strict=True)):
        move = theta[k + 1] - (1 - eta * target.chain.l2) * theta[k]
        for sign, record in zip((1, -1), pair[1:], strict=True):
            slope = torch.softmax(theta[k] * record.x, 1) - torch.eye(K, dtype=torch.float64)[record.label]
            gradient = slope * record.x
            gradient *= (target.chain.clip / gradient.norm(dim=1, keepdim=True)).clamp(max=1.0)
            mean = -eta / BATCH * gradient
            hit = ((move * mean).sum(1) - mean.square().sum(1) / 2) / std**2
            total += sign * torch.log((1 - q) + q * torch.exp(hit))
    return total.numpy()


@pytest.mark.parametrize("clip", [math.inf, 1.0])
@pytest.mark.parametrize("pair", [pairs(BOUND)[0], pairs(BOUND)[-1]])
def test_ratios_of_all_iterates_have_the_law_of_training(clip: float, pair: RecordPair) -> None:
    target = training(chain_of("poisson", clip=clip))
    found = softmax.all_iterates(target, 6000, rng("ours"), pair)
    for record, ours in ((pair.first, found.first), (pair.second, found.second)):
        theirs = ratios(target, pair, iterates(target, record, 6000, f"theirs{record}"))
        assert ks_2samp(ours, theirs).pvalue > 1e-3
    assert np.exp(-found.first).mean() == pytest.approx(1.0, abs=0.1)  # it is a likelihood ratio
    assert np.exp(found.second).mean() == pytest.approx(1.0, abs=0.1)


RYFFEL = DpSgldRyffel2022(Sampling("subset", BATCH, 2.0), 0.2, Tight(), noise_std=0.4)
ROWS = problem_of(torch.zeros(N, 2), torch.zeros(N))
SPREAD = problem_of(  # records that are longer along the first feature
    torch.randn(N, 2, generator=torch.Generator().manual_seed(1)) * torch.tensor([0.7, 0.1]),
    torch.arange(N) % K,
)


def descent(scheme: Any, epochs: float) -> DpSgd:
    sampling = Sampling(scheme, BATCH, epochs)
    method = DpSgd(0.5, 1.0, sampling, Tight(), unit="mean_smoothness", noise_multiplier=1.5)
    return replace(method, schedule="constant", adjacency="replace_one", precision=0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        *(
            replace(RYFFEL, schedule=schedule, initial=initial)
            for schedule in ("constant", "ryffel2022")
            for initial in ("theorem", "zero")
        ),
        replace(RYFFEL, sampling=Sampling("shuffled", BATCH, 2.0), initial="code"),
        descent("shuffled", 2.0),
        descent("poisson", 2.0),
    ],
)
def test_a_row_tells_less_than_its_price(method: Any) -> None:
    """The last iterate, or all of them.  What shuffling hides is not counted in the price."""
    plan = method.plan(ROWS.facts, Budget(1.0, DELTA))
    promise = plan.guarantee
    price = Tight().epsilon(promise.event, DELTA, promise.adjacency)
    last = promise.released == "final"
    found = OnRow(40_000, 40_000)(method, plan, ROWS, DELTA, rng())
    loose = last or promise.sampling == "shuffled"
    assert (0.04 if loose else 0.3) * price < found["epsilon_attack"] <= price
    assert found["attack_pair"] in {pair.name for pair in pairs(BOUND)}
    assert found["attack_confidence"] == 0.95


def test_rows_without_a_bound_reach_the_clip() -> None:
    target = training(chain_of(clip=1.0), row_bound=math.inf)
    found = softmax.last_iterate(target, 100, rng(), DELTA)
    assert target.reach == max(abs(record.x) for record in found.pair[1:]) == 2.0
    with pytest.raises(ValueError, match="need a clip"):
        softmax.last_iterate(training(chain_of(), row_bound=math.inf), 100, rng(), DELTA)


def test_nothing_to_attack() -> None:
    with pytest.raises(ValueError, match="nothing to attack"):
        softmax.last_iterate(training(chain_of(noise=0.0)), 10, rng(), DELTA)
    with pytest.raises(ValueError, match="at least 8"):
        softmax.all_iterates(training(chain_of("poisson")), 0, rng())
    with pytest.raises(ValueError, match="or a ball"):
        softmax.all_iterates(training(chain_of("poisson", radius=1.0)), 10, rng())


# Among the records of a data set


def test_the_pair_among_records_is_the_worst_that_the_problem_admits() -> None:
    """It differs in the sign of one record, as long as the bound allows, along which the others are shortest."""
    first, second, along = release.among_records(SPREAD)
    for other in (first, second):
        assert torch.equal(other.x[:, 1:], SPREAD.x[:, 1:])
        assert torch.equal(other.y[:, 1:], SPREAD.y[:, 1:])
    assert torch.equal(first.y, second.y)
    assert torch.equal(first.x[0, 0], -second.x[0, 0])
    assert float(first.x[0, 0].norm()) == pytest.approx(BOUND)
    moments = [float((SPREAD.x[0, 1:] @ other).square().sum()) for other in torch.eye(2)]
    assert float((SPREAD.x[0, 1:] @ along).square().sum()) <= min(moments)


@pytest.mark.slow
def test_among_records_a_row_tells_less_than_its_price_and_less_noise_is_caught() -> None:
    method = descent("poisson", 1.0)
    plan = method.plan(SPREAD.facts, Budget(1.0, DELTA))
    price = Tight().epsilon(plan.guarantee.event, DELTA, "replace_one")
    attack = release.AmongRecords(20_000)
    less = plan._replace(work=plan.work._replace(noise_std=0.2 * plan.work.noise_std))
    found = [attack(method, each, SPREAD, DELTA, rng())["epsilon_attack"] for each in (plan, less)]
    assert 0.1 * price < found[0] <= price < found[1]


def test_among_records_needs_softmax_and_a_bound() -> None:
    with pytest.raises(ValueError, match="for softmax regression"):
        release.among_records(Glm(torch.zeros(1, 3, 1), torch.ones(1, 3), LOGISTIC))
    with pytest.raises(ValueError, match="rows with a bound"):
        release.among_records(replace(SPREAD, row_bound=math.inf))
