"""DPVI against the known mean-field optimum, autograd and its own event."""

import math

import pytest
import torch
from dp_accounting import NonPrivateDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from hydra.utils import instantiate
from omegaconf import OmegaConf
from scenarios import gaussian, logistic, rows

from dplangevin import noise
from dplangevin.losses import softmax
from dplangevin.methods.dpvi import Dpvi
from dplangevin.poisson import Poisson
from dplangevin.privacy import Budget
from dplangevin.privacy.accountants.li2019 import Li2019
from dplangevin.privacy.accountants.tight import Tight
from dplangevin.problem import Problem

DELTA = 1e-4


def method(clip: float = 1.0, **settings: object) -> Dpvi:
    values = {
        "step": 0.5,
        "precision": 0.5,
        "spread": 0.1,
        "samples": 3,
        "accountant": Li2019(2048),
        "minibatches": Poisson(40, 4),
    }
    return Dpvi(clip, **{**values, **settings})  # type: ignore[arg-type]


def run(found: Dpvi, problem: object, *epsilons: float) -> object:
    return found(problem, [Budget(e, DELTA) for e in epsilons], noise.generator(0, "dpvi"))  # type: ignore[arg-type]


def test_without_privacy_it_is_the_mean_field_optimum_of_a_gaussian_posterior() -> None:
    """Mean: the posterior's; variances: 1 over the diagonal of its precision, below the marginal variances."""
    problem, least_squares, covariance = gaussian(repeats=24)
    found = method(math.inf, step=0.02, precision=2.0, samples=1000, minibatches=Poisson(problem.n, 4000))
    theta = run(found, problem, math.inf).theta[:, 0].double()  # type: ignore[attr-defined]
    precision = torch.linalg.inv(covariance)
    posterior = precision + 2.0 * torch.eye(4, dtype=torch.float64)
    mean = torch.linalg.solve(posterior, precision @ least_squares)
    variance = 1 / posterior.diagonal()
    assert torch.allclose(theta.mean((0, 1)), mean, atol=0.05 * float(variance.min().sqrt()))
    assert torch.allclose(theta.var(1).mean(0), variance, rtol=0.04)
    assert (torch.linalg.inv(posterior).diagonal() > 1.03 * variance).any()


def test_gradients_are_clipped_jointly_per_record() -> None:
    """The sum over a minibatch against autograd through m and s, one record at a time."""
    problem = logistic(repeats=2, n=30)
    rng = torch.Generator().manual_seed(0)
    mean, log_std, draw = (torch.randn(2, 3, problem.d, generator=rng) for _ in range(3))
    rows = torch.stack([torch.randperm(30, generator=rng)[:12] for _ in range(2)])
    mask = torch.rand(2, 12, generator=rng) < 0.7
    clip, scale = 0.5, 0.3
    shift = log_std.exp() * draw
    weight = 1 + (shift / scale).square()
    found = problem.clipped_grad(mean + shift, rows, mask, clip, weight)
    clipped = 0
    for r in range(2):
        for e in range(3):
            wanted = torch.zeros(2, problem.d)
            for i in rows[r][mask[r]].tolist():
                at = mean[r, e].clone().requires_grad_()
                scaled = (log_std[r, e] * scale).requires_grad_()
                theta = at + (scaled / scale).exp() * draw[r, e]
                loss = problem.loss.value((problem.x[r, i] * theta).sum(), problem.y[r, i])
                grad = torch.stack(torch.autograd.grad(loss, (at, scaled)))
                clipped += bool(grad.norm() > clip)
                wanted += grad * min(1.0, clip / float(grad.norm()))
            both = torch.stack([found[r, e], found[r, e] * shift[r, e] / scale])
            assert torch.allclose(both, wanted, atol=1e-5)
    assert 0 < clipped < int(mask.sum()) * 3


def test_the_first_step_by_hand() -> None:
    """Gradients of the log-likelihood by autograd, one record at a time; noise from the same stream."""
    problem = logistic(repeats=2, n=30, d=3)
    clip, precision, spread = 0.3, 0.5, 0.7
    found = method(clip, step=0.5, precision=precision, spread=spread, minibatches=Poisson(30, 1))
    noise_std = torch.tensor([[0.0], [0.2], [60.0]])
    mean, log_std = found._fit(problem, noise_std, noise.generator(3, "step"))
    _, _, normals = next(noise.poisson_stream(noise.generator(3, "step"), 2, 30, 1.0, 9, 1))
    unit = (30 / 4 + precision) ** -0.5
    scale = unit / spread
    for r in range(2):
        draw, on_mean, on_std = normals[r, 0].split(3)
        total = torch.zeros(2, 3)
        for x, y in zip(problem.x[r], problem.y[r], strict=True):
            at, scaled = torch.zeros(3, requires_grad=True), torch.full((3,), math.log(unit) * scale)
            theta = at + (scaled.requires_grad_() / scale).exp() * draw
            grad = torch.stack(torch.autograd.grad(problem.loss.value(x @ theta, y), (at, scaled)))
            total += grad * min(1.0, clip / float(grad.norm()))
        for e, std in enumerate((0.0, 0.2, 60.0)):
            most = math.sqrt(3 / precision) / (unit**2 * std) if std else math.inf
            eta = min(0.5, most)
            wanted = -eta * unit**2 * (total[0] + std * on_mean)
            assert torch.allclose(mean[r, e], wanted, rtol=1e-4, atol=1e-5)
            pull = scale * (total[1] + std * on_std) + precision * unit**2 - 1
            wanted = (math.log(unit) - eta * pull).clamp(math.log(unit), -math.log(precision) / 2)
            assert torch.allclose(log_std[r, e], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("adjacency", "accountant"), [("add_remove", Li2019(2048)), ("replace_one", Tight())]
)
def test_the_event_spends_the_budget(adjacency: str, accountant: object) -> None:
    problem = logistic()
    release = run(
        method(adjacency=adjacency, accountant=accountant, minibatches=Poisson(40, 1)),
        problem,
        0.5,
        math.inf,
    )
    promise, free = release.guarantee  # type: ignore[attr-defined]
    assert isinstance(promise.event, SelfComposedDpEvent)
    assert promise.event.count == 10
    assert promise.event.event == PoissonSampledDpEvent(0.1, promise.event.event.event)
    assert 0.49 < promise.epsilon <= 0.5
    assert promise[3:6] == (adjacency, "all_iterates", "poisson")
    assert isinstance(free.event, NonPrivateDpEvent)


def test_noise_is_what_the_event_says() -> None:
    """One step on rows of zeros: m and s are noise alone, of known standard deviation."""
    problem = logistic(repeats=4000, n=20, d=1, shared=True, answers=4000)
    problem = Problem(torch.zeros_like(problem.x), problem.y, problem.loss, 4000)
    found = method(step=1e-3, precision=1.0, spread=1.0, minibatches=Poisson(20, 1))
    release = run(found, problem, 2.0)
    sigma = release.guarantee[0].event.event.event.noise_multiplier  # type: ignore[attr-defined]
    mean, log_std = found._fit(problem, torch.tensor([[sigma]]), noise.generator(1, "noise"))
    unit = (problem.n / 4 + 1) ** -0.5
    assert float(mean.std()) == pytest.approx(1e-3 * unit**2 * sigma, rel=0.04)
    drift = (log_std - math.log(unit) - 1e-3 * (1 - unit**2)).flatten()
    upper = float(
        drift.quantile(0.8413)
    )  # one standard deviation; s is kept above log u, the median is not touched
    assert upper == pytest.approx(1e-3 * unit * sigma, rel=0.05)


def test_the_smallest_budgets_give_finite_answers_and_epsilon_inf_the_most_likely_ones() -> None:
    problem = logistic()
    theta = run(method(), problem, 0.01, 2.0, math.inf).theta  # type: ignore[attr-defined]
    assert theta.shape == (3, 3, 3, problem.d)
    assert theta.isfinite().all()
    loss = problem.value_and_grad(theta.mean(2))[0].mean(0)
    assert (loss[1:] < loss[0]).all()


def test_same_generator_same_draws() -> None:
    problem = logistic()
    first, second = (run(method(), problem, 1.0).theta for _ in range(2))  # type: ignore[attr-defined]
    assert torch.equal(first, second)


def test_softmax_gradients_are_clipped_over_all_classes() -> None:
    problem = softmax_problem()
    rng = torch.Generator().manual_seed(0)
    theta, weight = (
        torch.randn(2, 3, problem.d, generator=rng),
        1 + torch.rand(2, 3, problem.d, generator=rng),
    )
    at = torch.arange(8).expand(2, 8)
    each = problem.example_grads(theta, at)  # (R, E, tau, d)
    norm = (each.square() * weight[:, :, None]).sum(-1, keepdim=True).sqrt()
    wanted = (each * (0.4 / norm).clamp(max=1)).sum(2)
    assert (norm > 0.4).any()
    assert (norm < 0.4).any()
    found = problem.clipped_grad(theta, at, torch.ones(2, 8, dtype=torch.bool), 0.4, weight)
    assert torch.allclose(found, wanted, atol=1e-6)
    assert run(method(), problem, 1.0).theta.shape == (2, 1, 3, problem.d)  # type: ignore[attr-defined]


def softmax_problem() -> Problem:
    x = torch.tensor(rows(2, 60, 4), dtype=torch.float32)
    return Problem(x, x[..., :3].argmax(-1).float(), softmax(3), 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"precision": 0.0}, "precision"), ({"spread": 0.0}, "spread"), ({"clip": 0.0}, "clip")],
)
def test_settings_out_of_their_domain_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        method(**settings)


def test_a_private_gradient_needs_a_clip() -> None:
    with pytest.raises(ValueError, match="clip must be finite"):
        run(method(math.inf), logistic(), 1.0)


def test_the_configured_method_is_this_one() -> None:
    assert isinstance(instantiate(OmegaConf.load("conf/method/dpvi.yaml")), Dpvi)
