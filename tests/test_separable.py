"""Every method on rows that a hyperplane separates: without a ridge or a ball there is no best theta."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from sampling import FOLDER, config
from sklearn.datasets import load_breast_cancer

from dplangevin import noise
from dplangevin.heads import Audits, Head, Setting
from dplangevin.heads.softmax import problem_of
from dplangevin.losses import LOGISTIC, huber, softmax
from dplangevin.methods import Release
from dplangevin.minimise import minimise
from dplangevin.posterior import Rejection, Sampler, find_centre
from dplangevin.privacy import Budget
from dplangevin.problem import Problem

INF = math.inf
METHODS = sorted(path.stem for path in FOLDER.glob("*.yaml"))
UNBUDGETED = ("nonprivate", "sgld")
HEADS = FOLDER.parent / "head"


def margin() -> tuple[np.ndarray, np.ndarray]:
    """200 rows at least 0.2 from a hyperplane."""
    x = np.random.default_rng(0).normal(size=(600, 5))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    away = x.sum(1) / math.sqrt(5)
    x, away = x[np.abs(away) > 0.2][:200], away[np.abs(away) > 0.2][:200]
    return x, np.sign(away)


def breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    """400 patients, 30 standardised features: separable, but barely."""
    x, y = load_breast_cancer(return_X_y=True)
    kept = np.random.default_rng(0).permutation(len(x))[:400]
    x = (x - x.mean(0)) / x.std(0)
    return x[kept], 2.0 * y[kept] - 1


def three_rows() -> tuple[np.ndarray, np.ndarray]:
    return np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]), np.array([1.0, -1.0, 1.0])


DATA: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "margin": margin,
    "breast_cancer": breast_cancer,
    "three_rows": three_rows,
}
LOSSES = {"logistic": LOGISTIC, "softmax": softmax(2)}


@lru_cache
def rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm 1, in float32."""
    x, y = DATA[name]()
    x = x / np.linalg.norm(x, axis=1, keepdims=True) * (1 - 1e-6)
    return x.astype(np.float32), y


def problem(name: str, loss: str = "logistic", repeats: int = 2) -> Problem:
    x, y = (torch.tensor(part, dtype=torch.float32) for part in rows(name))
    return Problem(x[None], LOSSES[loss].labels(y)[None], LOSSES[loss], repeats, public=x[None])


def method_of(name: str, data: str, **overrides: Any) -> Any:
    """The method with settings that make it quick, and that three rows allow."""
    few = data == "three_rows"
    sampler = {"warmup": 20, "block": 20, "max_draws": 20}
    without = {"minibatches": {"passes": 3, "batch": 2 if few else None}}
    poisson = {"minibatches": {"passes": 2, "batch": 2 if few else 40}}
    quick: dict[str, dict[str, Any]] = {
        "ops": {"sampler": sampler},
        "ops_gdp": {"sampler": sampler},
        **dict.fromkeys(("dp_sgld", "dp_sgnht", "dp_sghmc"), without),
        **{name: {"first": {"sampler": sampler}, "second": without} for name in ("hybrid", "hybrid_sgld")},
        **dict.fromkeys(("dp_sgld_li2019", "sgld", "dp_sgd", "dpvi"), poisson),
        "dp_sgfs": {"minibatches": {"passes": 1, "batch": 2 if few else None}, "refresh": 3},
        "pate": {
            "teachers": 3 if few else 20,
            "queries": 30,
            "answers": 10,
            "threshold": 2.0 if few else 12.0,
        },
    }
    changed = OmegaConf.merge(config(), {"method": {name: {**quick.get(name, {}), **overrides}}})
    return instantiate(changed.method[name])


def run(name: str, data: str, loss: str, epsilons: list[float], **overrides: Any) -> Release:
    method, budgets = method_of(name, data, **overrides), [Budget(epsilon, 1e-5) for epsilon in epsilons]
    release: Release = method(problem(data, loss), budgets, noise.generator(0, name))
    return release


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", METHODS)
def test_releases_are_finite_with_privacy_and_without(name: str, data: str, loss: str) -> None:
    if (name, data) == ("dp_sgfs", "three_rows"):
        with pytest.raises(
            ValueError, match="batch = 2 is too small: Lemma 6 needs more than 4 rows; raise batch"
        ):
            run(name, data, loss, [1.0, INF])
        return
    release = run(name, data, loss, [INF] if name in UNBUDGETED else [1.0, INF])
    assert bool(release.theta.isfinite().all())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("data", DATA)
def test_a_fit_without_ridge_has_no_minimum_and_says_so(data: str, loss: str) -> None:
    for name in ("nonprivate", "objpert"):
        with pytest.raises(
            ValueError, match=r"no minimum at ridge = 0: .* separates the rows .*: set ridge > 0"
        ):
            run(name, data, loss, [INF], ridge=0.0)
    assert bool(
        run("objpert", data, loss, [1.0], ridge=0.0).theta.isfinite().all()
    )  # privacy asks for a ridge


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("ridge", [1e-6, 1e-3])
def test_any_ridge_has_a_minimum(data: str, loss: str, ridge: float) -> None:
    of = problem(data, loss)
    push = torch.randn(2, 1, of.d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for linear in (torch.zeros_like(push), ridge * push):
        theta = minimise(of, torch.tensor([ridge], dtype=torch.float64), linear).theta
        left = of.to(torch.float64).grad(theta) + ridge * theta + linear
        assert float(left.norm(dim=-1).max()) < 1.1e-8 * of.n
    for name in ("nonprivate", "objpert", "objpert_pure", "outpert"):
        epsilons = (
            [INF] if name == "nonprivate" else [1.0, 30.0, INF]
        )  # at 30 the ridge alone holds theta: 1e7 long
        asked = ridge / of.n if name == "outpert" else ridge  # per row, or on the sum
        assert bool(run(name, data, loss, epsilons, ridge=asked).theta.isfinite().all())


@pytest.mark.parametrize("data", DATA)
def test_the_centre_of_the_posterior_is_its_mode(data: str) -> None:
    """In a large ball, at the ridge that is asked for; against its surface; and with a weak prior alone."""
    of = problem(data)
    one = torch.ones(1)
    for precision, radius in ((1.0, INF), (1e-3, INF), (0.0, 10.0), (0.0, 300.0)):
        centre = find_centre(of, one, precision * one, radius)
        theta = (centre.theta @ centre.basis.mT).double()
        assert float(theta.norm()) <= 0.97 * radius * (1 + 1e-6)
        ridge = precision + float(centre.multiplier)
        left = of.to(torch.float64).grad(theta) + ridge * theta
        assert float(left.norm()) < 2e-6 * of.n
        if radius < INF:
            assert (
                float(theta.norm()) > 0.4 * radius or ridge <= 1.1e-8 * of.n
            )  # the ball, not the grid, ends the path


@pytest.mark.parametrize("data", DATA)
def test_the_posterior_is_sampled(data: str) -> None:
    of = problem(data, repeats=4)
    for precision, radius in ((1.0, INF), (0.0, 10.0)):
        sampler = Sampler(block=100, max_draws=100)
        draws = sampler.sample(
            of, torch.ones(1), precision * torch.ones(1), radius, noise.generator(0, data)
        ).draws
        assert bool(draws.isfinite().all())
        assert float(draws.norm(dim=-1).max()) <= radius * (1 + 1e-4)


def test_rejection_from_a_weak_prior_is_refused_or_exact() -> None:
    one, rng = torch.ones(1), noise.generator(0, "")
    draws = Rejection().sample(problem("three_rows"), one, 1e-3 * one, INF, rng).draws
    assert bool(draws.isfinite().all())
    with pytest.raises(ValueError, match="raise precision, lower epsilon"):
        Rejection().sample(problem("breast_cancer"), one, 1e-3 * one, INF, rng)


@pytest.mark.parametrize("epsilon", [1.0, INF])
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", sorted(path.stem for path in HEADS.glob("*.yaml")))
def test_heads_are_finite_with_privacy_and_without(name: str, data: str, epsilon: float) -> None:
    x, y = rows(data)
    of = problem_of(x, (y > 0).astype(np.int64), 2, 3, 1.0)
    setting = Setting(of.n, of.features, 2, 1.0, 1.0, 1e-5, Audits(20, 20))
    quick: dict[str, Any] = {"ops": {"draws": 20}, "objpert": {}}
    settings = quick.get(name, {"batch": 2 if of.n == 3 else 16, "epochs": 2})
    head: Head = instantiate(OmegaConf.merge(OmegaConf.load(HEADS / f"{name}.yaml"), settings))
    price = head.price(setting, epsilon, noise.generator(0, "price"))
    theta = head.trained(of, setting, [(head, price)], noise.generator(0, "trained")).theta
    assert bool(theta.isfinite().all())


@pytest.mark.parametrize("data", ["margin", "three_rows"])
def test_clipped_regression_has_a_minimum_without_ridge(data: str) -> None:
    of = replace(problem(data), loss=huber(0.5, 1.0))
    theta = minimise(of, torch.zeros(1), torch.zeros(1, 1, of.d)).theta
    assert bool(theta.isfinite().all())
