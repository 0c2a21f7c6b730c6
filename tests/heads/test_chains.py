"""The chains against loops written out, and against laws in closed form."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dplangevin import noise
from dplangevin.chains.linear import Batch, Chain, batches, descent, run, step_sizes
from dplangevin.heads import Audits, Setting, steps_of
from dplangevin.heads.dp_langevin import DpLangevin
from dplangevin.heads.dp_sgd import DpSgd
from dplangevin.heads.sgd import Sgd
from dplangevin.heads.softmax import problem_of, spread
from dplangevin.losses import SQUARED
from dplangevin.problem import Problem

N, P, K, SEEDS, BATCH = 50, 3, 4, 2, 8
BOUND = 2.0


@pytest.fixture
def problem(rng: np.random.Generator) -> Problem:
    x = rng.normal(size=(N, P))
    x *= BOUND / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), BOUND)
    return problem_of(x.astype(np.float32), rng.integers(0, K, N), K, SEEDS, BOUND * 1.001)


@pytest.fixture
def setting(problem: Problem) -> Setting:
    return Setting(N, P, K, problem.row_bound, spread(problem), 1e-3, Audits(100, 100))


def written_out(
    problem: Problem,
    stream: Iterator[Batch],
    theta: Tensor,
    etas: np.ndarray,
    precision: float,
    clip: float,
    poisson: bool = False,
) -> Tensor:
    """DP-SGD's drift for every seed, one record at a time."""
    rows = [theta.clone() for _ in range(SEEDS)]
    for eta, (indices, sizes, _) in zip(etas.tolist(), stream, strict=True):
        for r in range(SEEDS):
            total = torch.zeros(P * K)
            for i in indices[r, : int(sizes[r]) if poisson else BATCH].tolist():
                w = rows[r].clone().requires_grad_()
                loss = F.cross_entropy(w.view(K, P) @ problem.x[0, i], problem.y[0, i].long())
                (found,) = torch.autograd.grad(loss, w)
                total += found * min(1.0, clip / float(found.norm()))
            rows[r] = rows[r] - eta * (total / BATCH + precision * rows[r])
    return torch.stack(rows)


@pytest.mark.parametrize("schedule", ["constant", "decreasing"])
def test_no_noise_is_sgd(problem: Problem, setting: Setting, schedule: str) -> None:
    method = DpLangevin("published", schedule, BATCH, 1.0, 0.1, noise_std=1.0)  # type: ignore[arg-type]
    plain = Sgd(schedule, BATCH, 1.0, 0.1)  # type: ignore[arg-type]
    pairs = [(method, {"noise": 0.0}), (plain, {"noise": 0.0})]
    theta = DpLangevin.trained(problem, setting, pairs, noise.generator(1, "same")).theta
    assert torch.equal(theta[:, 0], theta[:, 1])
    again = noise.generator(1, "same")
    torch.randn(SEEDS, 1, P * K, generator=again)  # the start's
    steps = steps_of(N, BATCH, 1.0)
    etas = step_sizes(schedule, setting.beta(0.1), 0.1, steps)  # type: ignore[arg-type]
    stream = batches(again, problem, BATCH, steps)
    expected = written_out(problem, stream, torch.zeros(P * K), etas, 0.1, math.inf)
    torch.testing.assert_close(theta[:, 0], expected, rtol=1e-4, atol=1e-6)


def test_dp_sgd_clips_every_record_of_a_poisson_sample(problem: Problem, setting: Setting) -> None:
    """Two runs at once, each with its own clip."""
    methods = [DpSgd("published", "decreasing", BATCH, 1.0, 0.1, clip, 1.0) for clip in (0.5, 1.5)]
    pairs = [(method, {"noise": 0.0}) for method in methods]
    theta = DpSgd.trained(problem, setting, pairs, noise.generator(2, "poisson")).theta
    steps = steps_of(N, BATCH, 1.0)
    etas = step_sizes("decreasing", setting.beta(0.1), 0.1, steps)
    for e, clip in enumerate((0.5, 1.5)):
        again = noise.generator(2, "poisson")
        torch.randn(SEEDS, 1, P * K, generator=again)
        stream = batches(again, problem, BATCH, steps)
        expected = written_out(problem, stream, torch.zeros(P * K), etas, 0.1, clip, poisson=True)
        torch.testing.assert_close(theta[:, e], expected, rtol=1e-4, atol=1e-6)


def test_batches(problem: Problem) -> None:
    """Every row is in a subset, and in a Poisson sample, with probability m/n; pairs too."""
    steps, many = 4000, problem_of(np.zeros((N, 1), np.float32), np.zeros(N, np.int64), 2, 2, 1.0)
    subset, poisson = torch.zeros(steps, 2, N), torch.zeros(steps, 2, N)
    lengths = []
    for k, (rows, sizes, normals) in enumerate(batches(noise.generator(6, "rows"), many, BATCH, steps)):
        assert normals.shape == (2, 1, 2)
        subset[k].scatter_(1, rows[:, :BATCH], 1.0)
        for r in range(2):
            poisson[k, r, rows[r, : int(sizes[r])]] = 1.0
        lengths.append(sizes)
    assert (subset.sum(-1) == BATCH).all()
    drawn = torch.stack(lengths).double()
    rate = BATCH / N
    assert (poisson.sum(-1) == drawn).all()
    assert float(drawn.mean()) == pytest.approx(BATCH, abs=4 * math.sqrt(BATCH / (2 * steps)))
    assert float(drawn.var()) == pytest.approx(BATCH * (1 - rate), rel=0.1)
    error = math.sqrt(rate / (2 * steps))
    for found, together in ((subset, rate * (BATCH - 1) / (N - 1)), (poisson, rate**2)):
        assert (found.mean((0, 1)) - rate).abs().max() < 5 * error
        both = found.flatten(0, 1).T @ found.flatten(0, 1) / (2 * steps)
        assert (both[~torch.eye(N, dtype=torch.bool)] - together).abs().max() < 6 * error


def test_a_poisson_sample_may_be_empty(problem: Problem) -> None:
    """Then only the ridge acts."""
    chains = [Chain(np.ones(1), np.zeros(1), 0.1, "poisson", 1.0) for _ in range(2)]
    theta = torch.ones(SEEDS, 2, P * K)
    rows = torch.arange(BATCH).expand(SEEDS, -1)
    descent(problem, chains, BATCH)(
        theta, rows, torch.zeros(SEEDS, dtype=torch.long), torch.ones(2, 1), torch.full((2, 1), 0.9)
    )
    assert (theta == 0.9).all()


def test_seeds_go_in_parts(problem: Problem, setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many at once changes nothing but rounding; subsets and Poisson samples side by side, in any order."""
    methods = [
        DpSgd("published", "constant", BATCH, 1.0, 0.1, 0.7, 1.0),
        DpLangevin("published", "constant", BATCH, 1.0, 0.1, 0.7, 0.2),
        DpSgd("published", "decreasing", BATCH, 1.0, 0.1, 0.7, 1.0),
    ]
    chosen = [(method, {"noise": 0.2}) for method in methods]
    first = DpSgd.trained(problem, setting, chosen, noise.generator(9, "parts")).theta
    monkeypatch.setattr("dplangevin.chains.linear.CELLS", 1)
    second = DpSgd.trained(problem, setting, chosen, noise.generator(9, "parts")).theta
    torch.testing.assert_close(first, second)
    for e, pair in enumerate(chosen):
        alone = DpSgd.trained(problem, setting, [pair], noise.generator(9, "parts")).theta
        torch.testing.assert_close(alone[:, 0], first[:, e])


def test_noise_of_a_step(problem: Problem, setting: Setting) -> None:
    """sqrt(2 eta) sigma of DP-Langevin, eta z C/m of DP-SGD."""
    langevin = DpLangevin("published", "constant", BATCH, 1.0, 0.1, noise_std=0.7).chain(setting, 0.7)
    eta = 1 / (2 * setting.beta(0.1))
    np.testing.assert_allclose(langevin.noise_std, math.sqrt(2 * eta) * 0.7)
    assert langevin.start_std == pytest.approx(0.7 * math.sqrt(2 / 0.1))
    dp_sgd = DpSgd("published", "constant", BATCH, 1.0, 0.1, 1.5, 4.0).chain(setting, 4.0)
    np.testing.assert_allclose(dp_sgd.noise_std, eta * 4.0 * 1.5 / BATCH)
    assert dp_sgd.start_std == 0.0


def test_step_sizes() -> None:
    found = step_sizes("decreasing", 3.0, 0.2, 5)
    np.testing.assert_allclose(found, [1 / (6 + 0.1 * k) for k in range(5)])
    np.testing.assert_allclose(step_sizes("constant", 3.0, 0.2, 2), [1 / 6, 1 / 6])
    with pytest.raises(ValueError, match="schedule"):
        step_sizes("falling", 1.0, 0.1, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_last_iterate_of_a_quadratic(decay: float) -> None:
    """Least squares on full batches: theta_k is Gaussian, with mean and covariance by recursion."""
    rng = np.random.default_rng(8)
    n, p, seeds, steps, ridge, sigma = 20, 2, 20_000, 12, 0.3, 0.4
    x, y = rng.normal(size=(n, p)), rng.normal(size=n)
    problem = Problem(torch.tensor(x)[None].float(), torch.tensor(y)[None].float(), SQUARED, seeds, 10.0)
    etas = 0.1 / (1 + decay * np.arange(steps))
    start_std = sigma * math.sqrt(2 / ridge)
    mean, covariance = np.zeros(p), start_std**2 * np.eye(p)
    for eta in etas:
        keep = np.eye(p) - eta * (x.T @ x / n + ridge * np.eye(p))
        mean = keep @ mean + eta * x.T @ y / n
        covariance = keep @ covariance @ keep.T + 2 * eta * sigma**2 * np.eye(p)
    chain = Chain(etas, np.sqrt(2 * etas) * sigma, ridge, start_std=start_std)
    generator = noise.generator(3, "quadratic")
    start = torch.randn(seeds, 1, p, generator=generator)
    stream = batches(generator, problem, n, steps)
    theta = run([chain], start, stream, descent(problem, [chain], n))[:, 0].double().numpy()
    error = np.sqrt(np.diag(covariance) / seeds)
    assert (np.abs(theta.mean(0) - mean) < 4 * error).all()
    spread = np.sqrt((covariance**2 + np.outer(np.diag(covariance), np.diag(covariance))) / seeds)
    assert (np.abs(np.cov(theta.T) - covariance) < 4 * spread).all()


def test_projection(problem: Problem, setting: Setting) -> None:
    """Written out with the same draws; the start is projected too, and a run without a ball is not."""
    settings = {
        "calibration": "published",
        "schedule": "constant",
        "batch": BATCH,
        "epochs": 0.5,
        "precision": 0.1,
    }
    free = DpLangevin(**settings, noise_std=2.0)  # type: ignore[arg-type]
    ball = DpLangevin(**settings, noise_std=2.0, radius=0.3)  # type: ignore[arg-type]
    pairs = [(free, {"noise": 2.0}), (ball, {"noise": 2.0})]
    theta = DpLangevin.trained(problem, setting, pairs, noise.generator(4, "ball")).theta
    assert theta[:, 0].norm(dim=-1).min() > 1
    generator = noise.generator(4, "ball")
    chain = ball.chain(setting, 2.0)

    def onto(at: Tensor) -> Tensor:
        return torch.stack([each * min(1.0, 0.3 / float(each.norm())) for each in at])

    at = onto(chain.start_std * torch.randn(SEEDS, 1, P * K, generator=generator)[:, 0])
    eta, keep = (
        torch.tensor([[chain.step_sizes[0]]]).float(),
        torch.tensor([[1 - 0.1 * chain.step_sizes[0]]]).float(),
    )
    descend = descent(problem, [chain], BATCH)
    for rows, sizes, normals in batches(generator, problem, BATCH, len(chain.step_sizes)):
        moved = at[:, None].clone()
        descend(moved, rows, sizes, eta, keep)
        at = onto(moved[:, 0] + float(chain.noise_std[0]) * normals[:, 0])
    torch.testing.assert_close(theta[:, 1], at, rtol=1e-4, atol=1e-6)


def test_runs_of_other_lengths_cannot_share_batches(problem: Problem) -> None:
    chains = [Chain(np.ones(steps), np.zeros(steps), 0.1) for steps in (2, 3)]
    with pytest.raises(ValueError, match=r"\[2, 3\] steps"):
        run(chains, torch.zeros(SEEDS, 1, P * K), iter([]), descent(problem, chains, BATCH))


def test_settings_that_make_no_sense(setting: Setting) -> None:
    with pytest.raises(ValueError, match="noise_std belongs"):
        DpLangevin("tight", "constant", 8, 1.0, 0.1, noise_std=1.0)
    with pytest.raises(ValueError, match="noise_multiplier belongs"):
        DpSgd("published", "constant", 8, 1.0, 0.1, 1.0)
    with pytest.raises(ValueError, match="batch = 51"):
        steps_of(N, 51, 1.0)
    unbounded = Setting(N, P, K, math.inf, 1.0, 1e-3, Audits(100, 100))
    with pytest.raises(ValueError, match="need a clip"):
        DpLangevin("tight", "constant", 8, 1.0, 0.1).limit(unbounded)
