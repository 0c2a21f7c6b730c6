"""What a classifier says of generated images, and what of it is stored."""

import math
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from dplangevin.data import Dataset
from dplangevin.methods import Release
from dplangevin.papers.exhibits.gan import image
from dplangevin.pipeline import digit_classifier
from dplangevin.pipeline.digit_classifier import GREYS, DigitClassifier, coverage
from dplangevin.pipeline.observers import Seen
from dplangevin.pipeline.plan import TABLES
from dplangevin.problems.adversarial import GanProblem

K, EACH, SIDE = 4, 30, 8


def striped(seed: int, each: int) -> tuple[np.ndarray, np.ndarray]:
    """Images of K classes that are told apart by which pair of rows is white."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(K), each)
    x = rng.integers(0, 80, (len(y), 1, SIDE, SIDE), dtype=np.uint8)
    for k in range(K):
        x[y == k, :, 2 * k : 2 * k + 2] = 255
    return x[None], y[None]


@pytest.fixture(scope="module")
def problem() -> GanProblem:
    data = Dataset(*striped(0, EACH), *striped(1, 5), {"name": "stripes", "classes": K})
    return GanProblem.of_images(
        data, 2, labels="public", seed=3, labelled=2, channels=(4, 8), latent=3, batch=5
    )


@pytest.fixture(scope="module")
def classifier(problem: GanProblem) -> Iterator[DigitClassifier]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"IMAGES": 40, "SHOWN": 3, "BATCH": 20, "EPOCHS": 20}.items():
            patch.setattr(digit_classifier, name, value)
        yield observer(problem)


def observer(problem: GanProblem) -> DigitClassifier:
    plan: Any = None
    return DigitClassifier(problem, plan, 2, 1e-5, 7)


def seen(problem: GanProblem, theta: torch.Tensor) -> Seen:
    task: Any = SimpleNamespace(
        run=SimpleNamespace(name="r"), variant="", scaling="", epsilons=[1.0, 2.0, 3.0]
    )
    return Seen(task, problem, Release(theta), slice(None), [])


def test_coverage_of_known_probabilities() -> None:
    p = torch.full((1, 1, 10, K), 0.01)
    for i, (k, sure) in enumerate(
        [(0, 1), (0, 1), (0, 1), (0, 1), (1, 1), (1, 1), (2, 0), (3, 0), (3, 0), (3, 0)]
    ):
        p[0, 0, i, k] = 0.97 if sure else 0.5
    found = coverage(p, 0.9, 0.3)
    assert float(found["recognised"]) == pytest.approx(0.6)
    assert float(found["digits_covered"]) == 1  # the second has a fifth of all, less than .3
    assert float(coverage(p, 0.9, 0.2)["digits_covered"]) == 2
    assert float(found["digit_entropy"]) == pytest.approx(
        -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
    )
    nothing = coverage(p.clamp(max=0.5), 0.9, 0.3)
    assert [float(nothing[name]) for name in nothing] == [0, 0, 0]
    even = coverage(torch.eye(K)[None, None], 0.9, 0.1)
    assert (float(even["digits_covered"]), float(even["digit_entropy"])) == pytest.approx((K, math.log(K)))


def test_the_classifier_knows_the_classes(classifier: DigitClassifier, problem: GanProblem) -> None:
    assert classifier.theta is not None
    real = problem.x[torch.arange(0, K * EACH, 3)] / 127.5 - 1
    p = classifier.classifier(real).predict(classifier.theta[:, :, -1])[0, 0]
    y = problem.every_label
    assert y is not None
    assert float((p.argmax(-1) == y[::3]).double().mean()) > 0.95


def test_metrics_and_pictures_are_of_the_last_iterate(
    classifier: DigitClassifier, problem: GanProblem
) -> None:
    theta = problem.init(2, torch.Generator().manual_seed(1))[:, None, None].expand(-1, 3, 2, -1).clone()
    other = theta.clone()
    other[:, :, 0] += 1.0
    found = classifier.metrics(seen(problem, theta), {})
    assert set(found) == {"accuracy_single", "recognised", "digits_covered", "digit_entropy"}
    assert {value.shape for value in found.values()} == {(2, 3)}
    assert all(
        torch.equal(value, classifier.metrics(seen(problem, other), {})[name])
        for name, value in found.items()
    )
    table = classifier.rows(seen(problem, theta))["samples"]
    assert list(table.columns) == TABLES["samples"]
    assert len(table) == 9
    made = classifier.generated(theta[:1, :, -1], 3)[0, 1, 2, 0]
    shown = image(table.pixels[5])
    assert np.abs(shown - (made.numpy() + 1) / 2).max() <= 1 / GREYS


def test_without_a_generator_there_is_nothing_to_score(problem: GanProblem) -> None:
    alone = replace(problem, adversary=None, public=None)
    none = observer(alone)
    theta = alone.init(2, torch.Generator().manual_seed(1))[:, None, None]
    assert none.metrics(seen(alone, theta), {}) == {}
    assert none.rows(seen(alone, theta))["samples"].empty
