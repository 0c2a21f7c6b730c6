import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import torch
import torch.nn.functional as F
from hydra.utils import instantiate
from one_by_one import row_loss
from scenarios import gaussian, linear, logistic, multinomial, rows
from torch import Tensor

from dplangevin.data import Dataset
from dplangevin.pipeline.config import load
from dplangevin.problems.glm import Glm, linear_facts
from dplangevin.problems.losses import LOSSES, Loss, huber, softmax

MAKERS: dict[str, Callable[..., Glm]] = {"logistic": logistic, "huber": linear, "softmax": multinomial}
EVERY = [pytest.param(name, shared, id=f"{name}-{shared}") for name in MAKERS for shared in (True, False)]


def draw(name: str, shared: bool) -> tuple[Glm, Tensor, Tensor]:
    """A problem in float64, theta ``(3, 2, d)`` and minibatch rows ``(3, 4)``."""
    problem = MAKERS[name](shared=shared, n=60).to(torch.float64)
    rng = torch.Generator().manual_seed(0)
    theta = torch.randn(3, 2, problem.d, dtype=torch.float64, generator=rng)
    return problem, theta, torch.tensor([[0, 5, 59, 8], [7, 8, 9, 2], [1, 2, 3, 4]])


@pytest.mark.parametrize(("name", "shared"), EVERY)
def test_value_gradient_and_hessian_agree_with_automatic_differentiation(name: str, shared: bool) -> None:
    problem, theta, _ = draw(name, shared)
    value, grad = problem.value_and_grad(theta)
    hessians = problem.hessian(theta)
    for r in range(3):
        x, y = problem.x[0 if shared else r], problem.y[0 if shared else r]

        def total(at: Tensor, x: Tensor = x, y: Tensor = y) -> Tensor:
            parts = [row_loss(problem, at, row, label) for row, label in zip(x, y, strict=True)]
            return torch.stack(parts).sum()

        for e in range(2):
            at = theta[r, e].clone().requires_grad_()
            out = total(at)
            (expected,) = torch.autograd.grad(out, at)
            assert torch.allclose(value[r, e], out.detach(), rtol=1e-12)
            assert torch.allclose(grad[r, e], expected, rtol=1e-10, atol=1e-10)
        hessian = torch.autograd.functional.hessian(total, theta[r, 0])
        assert torch.allclose(hessians[r, 0], hessian, rtol=1e-9, atol=1e-9)
    assert torch.equal(problem.grad(theta), grad)
    bound = torch.kron(torch.eye(problem.classes, dtype=torch.float64), problem.gram[0])
    slack = problem.loss.smoothness * bound - hessians[0, 0]
    assert float(torch.linalg.eigvalsh(slack).min()) > -1e-9


@pytest.mark.parametrize(("name", "shared"), EVERY)
def test_clipped_sums_are_those_of_an_explicit_loop(name: str, shared: bool) -> None:
    """Each chain with its own rows and clip; of one margin also with weights in the norm."""
    problem, theta, index = draw(name, shared)
    mask = torch.rand(3, 2, 4, generator=torch.Generator().manual_seed(7)) < 0.7
    weight = torch.rand(theta.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    clip, all_rows = torch.tensor([0.3, 0.5]).double(), torch.ones(3, 2, 4).bool()
    each = problem.example_grads(theta, index)
    sums = {
        "clipped": problem.clipped_sum(theta, index, mask, clip).gradient,
        "mixed": problem.clipped_sum(theta, index, mask, torch.tensor([0.3, math.inf])).gradient,
        "whole": problem.clipped_sum(theta, index, all_rows, math.inf * clip).gradient,
    }
    if problem.classes == 1:
        sums["weighted"] = problem.clipped_sum(theta, index, mask, clip, weight).gradient
    wanted, cut = {kind: torch.zeros_like(found) for kind, found in sums.items()}, 0
    for r in range(3):
        at = 0 if shared else r
        for e in range(2):
            limit = float(clip[e])
            for i, row in enumerate(index[r]):
                own = theta[r, e].clone().requires_grad_()
                loss = row_loss(problem, own, problem.x[at, row], problem.y[at, row])
                (g,) = torch.autograd.grad(loss, own)
                assert torch.allclose(each[r, e, i], g, atol=1e-12)
                wanted["whole"][r, e] += g
                if mask[r, e, i]:
                    size, weighted = float(g.norm()), float((weight[r, e] * g.square()).sum().sqrt())
                    wanted["clipped"][r, e] += g * min(1.0, limit / size)
                    wanted["mixed"][r, e] += g * (min(1.0, limit / size) if e == 0 else 1.0)
                    if "weighted" in wanted:
                        wanted["weighted"][r, e] += g * min(1.0, limit / weighted)
                    cut += size > limit
    for kind, found in sums.items():
        assert torch.allclose(found, wanted[kind], atol=1e-7 if kind == "mixed" else 1e-12), kind
    assert 0 < cut < int(mask.sum())


@pytest.mark.parametrize(("name", "shared"), EVERY)
def test_predictions_are_probabilities_of_the_test_rows(name: str, shared: bool) -> None:
    """Of one margin m those of -1 and +1, sigmoid(-m) and sigmoid(m)."""
    problem, theta, _ = draw(name, shared)
    with pytest.raises(ValueError, match="give the problem x_test"):
        problem.predict(theta)
    problem = replace(problem, x_test=problem.x[:, :7].float())
    found = problem.predict(theta)
    assert found.shape == (3, 2, 7, max(2, problem.classes))
    for r in range(3):
        for e in range(2):
            margins = problem.x[0 if shared else r, :7] @ theta[r, e].view(problem.classes, -1).T
            if problem.classes == 1:
                margins = torch.cat([torch.zeros_like(margins), margins], 1)
            torch.testing.assert_close(found[r, e].double(), margins.softmax(-1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MAKERS)
def test_constants_bound_every_rows_gradient_and_hessian(name: str) -> None:
    problem = replace(MAKERS[name](seeds=1, n=50).to(torch.float64), row_bound=3.0)
    problem = replace(problem, x=3 * problem.x / problem.x.norm(dim=-1, keepdim=True))
    theta = torch.randn(1, 40, problem.d, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    theta = theta * torch.logspace(-2, 1, 40, dtype=torch.float64)[:, None]
    each = problem.example_grads(theta, torch.arange(50)[None])
    assert 0.7 * problem.lipschitz < float(each.norm(dim=-1).max()) <= problem.lipschitz * (1 + 1e-12)
    assert int(torch.linalg.matrix_rank(each[0, :, 0])) == problem.loss.rank  # of one row, over theta
    for i in range(5):
        one = Glm(problem.x[:, i : i + 1], problem.y[:, i : i + 1], problem.loss)
        spectrum = torch.linalg.eigvalsh(one.hessian(theta))[0]
        assert float(spectrum.max()) <= problem.facts.smoothness * (1 + 1e-9)
        assert float(spectrum.sum(-1).max()) <= problem.loss.rank * problem.facts.mean_curvature * (1 + 1e-9)
        assert int((spectrum > 1e-9).sum(-1).max()) <= problem.loss.rank


@pytest.mark.parametrize(
    "loss", [softmax(2), softmax(6), huber(0.5, 1.0)], ids=lambda loss: f"{loss.name}-{loss.classes}"
)
@pytest.mark.parametrize("radius", [0.2, 6.0])
def test_largest_loss_and_range_on_the_ball_are_found_by_optimisation(loss: Loss, radius: float) -> None:
    """Over theta in the ball and x of norm 2 = row_bound, two features, for each label."""
    rng = np.random.default_rng(0)
    x = torch.tensor([[[1.2, -1.6]]], dtype=torch.float64)
    most, spread = -math.inf, -math.inf
    for label in [0.0] if loss.classes > 1 else [-1.0, 0.3, 1.0]:
        problem = Glm(x, torch.tensor([[label]], dtype=torch.float64), loss, row_bound=2.0)

        def on_ball(free: np.ndarray, sign: float, problem: Glm = problem) -> tuple[float, np.ndarray]:
            z = torch.tensor(free, requires_grad=True)
            theta = radius * z / z.norm().clamp(min=1)
            value, grad = problem.value_and_grad(theta.detach()[None, None])
            theta.backward(sign * grad[0, 0])
            assert z.grad is not None
            return sign * float(value), z.grad.numpy()

        found = {}
        for sign in (-1.0, 1.0):
            starts = rng.normal(size=(5, problem.d))
            ends = [scipy.optimize.minimize(on_ball, z, (sign,), jac=True).fun for z in starts]
            found[sign] = sign * min(ends)
        most, spread = max(most, found[-1.0]), max(spread, found[-1.0] - found[1.0])
    largest, varies = problem.facts.on_ball(radius)
    assert most * (1 - 1e-6) <= largest <= most * (1 + 2e-4)
    assert spread * (1 - 1e-6) <= varies <= spread * (1 + 2e-4)


def test_logistic_bounds_on_the_ball_are_those_of_algorithm_1() -> None:
    problem = replace(logistic(), row_bound=2.0)
    assert problem.facts.on_ball(3.0) == pytest.approx((math.log1p(math.e**6), 6.0), rel=1e-15)
    with pytest.raises(ValueError, match="the squared loss has no bound on a ball: use the huber loss"):
        gaussian()[0].facts.on_ball(1.0)


def test_labels_are_checked() -> None:
    with pytest.raises(ValueError, match=r"labels \[0.0, 3.0\] do not fit softmax with 3 classes"):
        softmax(3).labels(torch.tensor([0.0, 3.0]))
    with pytest.raises(ValueError, match="> label_bound 2: raise it or scale the labels"):
        huber(1.0, 2.0).labels(torch.tensor([0.0, -2.5]))
    with pytest.raises(ValueError, match="classes must be at least 2, not 1"):
        softmax(1)
    with pytest.raises(ValueError, match="threshold must be positive and finite, not 0"):
        huber(0.0, 1.0)


@pytest.mark.parametrize("name", ["softmax", "linear", "logistic"])
def test_problems_are_made_of_a_raw_data_set_with_its_row_bound_and_test_rows(name: str) -> None:
    x = 4 * rows(1, 20, 3)
    y = np.where(np.arange(20) % 2, 1.0, -1.0)[None]
    data = Dataset(x, y, x[:, :7], y[:, :7], {"row_norm_bound": 2.0}).scaled("raw")
    make = instantiate(load().problem[name], _convert_="all")
    problem = make(data, 2)
    assert problem.row_bound == 2.0
    assert problem.facts.lipschitz == 2 * problem.loss.lipschitz
    assert problem.facts.smoothness == problem.facts.mean_smoothness == 4 * problem.loss.smoothness
    assert problem.facts.d == problem.classes * problem.features == problem.classes * 3
    assert (problem.facts.n, problem.facts.public, problem.facts.private) == (20, 7, {})
    assert float(problem.x.norm(dim=-1).max()) == pytest.approx(2.0)
    assert torch.equal(problem.x_test, problem.x[:, :7])
    assert problem.y_test[0].tolist() == [0, 1, 0, 1, 0, 1, 0]
    unit = make(data.scaled("unit"), 2)
    assert (unit.row_bound, float(unit.x.norm(dim=-1).max())) == pytest.approx((1.0, 1.0))


def features(n: int = 60, p: int = 4) -> Dataset:
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(n + 20, p)) + 0.5).astype(np.float32)
    public = {"set": "others", "images": 9, "norm_q99": 2.0}
    return Dataset.from_arrays(
        x[:n], np.arange(n) % 3, x[n:], np.arange(20) % 3, {"classes": 3, "public": public}
    )


def test_the_smoothness_of_features_bounds_the_mean_losses_hessian_and_says_where_it_is_from() -> None:
    """lambda_max(X^T X/n)/2, read off the private rows, against autograd; in public its bound."""
    private = Glm.of_features(features(), 2, None, None, "private")
    ridge, largest = 0.05, 0.0
    for scale in (0.0, 0.1, 1.0, 10.0):
        theta = scale * torch.randn(12, generator=torch.Generator().manual_seed(3), dtype=torch.float64)

        def mean(at: Tensor) -> Tensor:
            margins = private.x[0].double() @ at.view(3, 4).T
            return F.cross_entropy(margins, private.y[0].long()) + ridge / 2 * at.square().sum()

        values = torch.linalg.eigvalsh(torch.autograd.functional.hessian(mean, theta))
        assert values[0] >= ridge * (1 - 1e-9)
        largest = max(largest, float(values[-1]))
    beta = private.facts.mean_smoothness + ridge
    assert beta / 3 < largest <= beta
    assert "private features" in private.facts.private["mean_smoothness"]
    assert private.facts.row_bound == private.facts.smoothness == math.inf
    public = Glm.of_features(features(), 2, "norm_q99", 5.0, "public")
    assert public.facts.mean_smoothness == public.facts.smoothness == 5.0**2 / 2
    assert public.facts.private == {}
    assert float(public.x.norm(dim=-1).max()) == pytest.approx(5.0, rel=1e-5)
    assert "norm_q99 = 2 of the features of 9 public images (others), and scaled to 5" in public.notes[0]
    with pytest.raises(ValueError, match="smoothness = public needs rows with a public bound"):
        Glm.of_features(features(), 2, None, None, "public")
    with pytest.raises(ValueError, match="must be private or public"):
        Glm.of_features(features(), 2, 3.0, 3.0, "both")  # type: ignore[arg-type]


@pytest.mark.parametrize("part", ["x_train", "x_test"])
def test_rows_that_are_infinite_in_float32_are_refused(part: str) -> None:
    x, y = rows(1, 20, 3), np.where(np.arange(20) % 2, 1.0, -1.0)[None]
    large = x.copy()
    large[0, 7, 1] = 1e39
    made = Dataset(
        **{"x_train": x, "y_train": y, "x_test": x, "y_test": y, part: large}, meta={"row_bound": math.inf}
    )
    with pytest.raises(
        ValueError, match=rf"{part} has a number above 3\.4e38, the largest of float32: scale"
    ):
        Glm.from_dataset(made, 1, "squared")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 10.5}, r"records = 10\.5 must be a whole number of at least 0"),
        ({"features": 0}, "features = 0 must be a whole number of at least 1"),
        ({"row_bound": math.nan}, "row_bound = nan must be above 0"),
        ({"row_bound": "1"}, "row_bound = '1' must be a number, not str: give it as a float"),
    ],
)
def test_facts_of_odd_values_are_refused(change: dict[str, Any], message: str) -> None:
    given: Any = {"loss": LOSSES["logistic"], "n": 10, "features": 2, "row_bound": 1.0}
    assert linear_facts(**given | {"n": np.int64(10), "row_bound": np.float32(1)}) == linear_facts(**given)
    with pytest.raises(ValueError, match=message):
        linear_facts(**given | change)


def test_predictions_do_not_depend_on_the_rows_beside_them() -> None:
    """In float32 they did, by 1e-8: a product's sums are added in an order that depends on the place of a row."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 11))
    problem = Glm.from_arrays(x, np.arange(300) % 3, row_bound=2.0, clip_rows=True, bias=True)
    theta = torch.as_tensor(rng.normal(size=(1, 1, problem.d)))
    whole, order = problem.with_test_rows(x).predict(theta)[0, 0], rng.permutation(300)
    assert whole.dtype == torch.float64
    torch.testing.assert_close(
        problem.with_test_rows(x[order]).predict(theta)[0, 0], whole[order], rtol=0, atol=1e-13
    )
    alone = torch.cat([problem.with_test_rows(x[[i]]).predict(theta)[0, 0] for i in range(300)])
    torch.testing.assert_close(alone, whole, rtol=0, atol=1e-13)


def test_problems_refuse_what_the_proofs_do_not_cover() -> None:
    x = rows(1, 20, 3) * 2
    y = np.where(np.arange(20) % 2, 1.0, -1.0)[None]
    unscaled = Dataset(x, y, x, y, {"row_norm_bound": 2.0})
    with pytest.raises(ValueError, match=r"norm 2 > 1: scale the rows first"):
        Glm.from_dataset(unscaled, 1)
    with pytest.raises(ValueError, match="loss 'hinge' is unknown"):
        Glm.from_dataset(unscaled.scaled("unit"), 1, "hinge")
    two = Dataset(np.repeat(x, 2, 0), np.repeat(y, 2, 0), x, y, {}).scaled("unit")
    with pytest.raises(ValueError, match="holds 2 repeats and 5 are asked for"):
        Glm.from_dataset(two, 5)
    assert gaussian()[0].facts.lipschitz == float("inf")
