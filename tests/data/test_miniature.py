"""The stand-ins of the smoke run: digits, with the bytes that conf/ asks for."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from composed import composed
from loading import arrays
from sklearn.datasets import load_digits

from dplangevin.data import miniature
from dplangevin.files import sha256


@pytest.mark.slow
def test_the_smoke_scale_asks_for_every_file_by_its_bytes(mirror: Path) -> None:
    cfg = composed("scale=smoke", "pipeline=svhn")
    asked = {key: cfg.dataset[key].files for key in cfg.pipeline.datasets}
    asked["weights"] = [file for name in cfg.pipeline.weights for file in cfg.weights[name].files]
    files = {
        f"{key}/{file.name}": file for key, own in asked.items() for file in own if "bundled" not in file
    }
    assert {*files} == {str(path.relative_to(mirror)) for path in mirror.rglob("*") if path.is_file()}
    for name, file in files.items():
        made = (sha256(mirror / name), (mirror / name).stat().st_size, [miniature.SOURCE])
        assert (file.sha256, file.size, file.urls) == made


@pytest.mark.parametrize(
    ("key", "train", "test", "centres", "digit"),
    [
        ("mnist", slice(0, 600), slice(600, 800), slice(3, 27, 3), lambda y: y),
        ("svhn", [*range(600), *range(800, 1000)], slice(600, 800), slice(2, None, 4), lambda y: y),
        ("cifar10", slice(0, 300), slice(300, 400), slice(2, None, 4), lambda y: y),
        ("cifar100", slice(0, 300), slice(300, 400), slice(2, None, 4), lambda y: y * 10),
        ("pneumonia", slice(0, 120), slice(126, 186), slice(7, None, 14), lambda y: y % 3),
    ],
)
def test_the_miniature_is_the_digits(
    mirror: Path,
    key: str,
    train: slice,
    test: slice,
    centres: slice,
    digit: Callable[[np.ndarray], np.ndarray],
) -> None:
    data, digits = arrays(key, mirror / key), load_digits()
    unit = 10 if key == "cifar100" else 1  # a fine label is 10 times the digit plus a number below 10
    assert np.array_equal(data.y_train // unit * unit, digit(digits.target[train]))
    assert np.array_equal(data.y_test // unit * unit, digit(digits.target[test]))
    for image, ink in zip(data.x_test.mean(1)[:, centres, centres], digits.images[test], strict=True):
        assert np.corrcoef(image.ravel(), ink.ravel())[0, 1] > 0.99
