"""CIFAR-10 and CIFAR-100: small files in the official format, and the real ones where DATA_MIRROR has them."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from formats import pickled
from sklearn.datasets import load_digits
from small_cifar import load

from dplangevin.data import DataError


def content(path: Path) -> dict[str, Any]:
    """What Python's own reader finds in a small file."""
    found = pickle.loads(path.read_bytes().replace(b"numpy.core", b"numpy._core"), encoding="latin1")
    assert isinstance(found, dict)
    return found


def test_images_and_labels_in_the_order_of_the_files(mirror: Path) -> None:
    data = load(mirror / "cifar10")
    files = [content(mirror / "cifar10" / f"data_batch_{k}") for k in range(1, 6)]
    pixels = np.concatenate([file["data"] for file in files])
    assert data.x_train.shape == (300, 3, 32, 32)
    assert data.x_test.shape == (100, 3, 32, 32)
    assert data.y_train.tolist() == [label for file in files for label in file["labels"]]
    for row, plane, i, j in ((0, 0, 3, 5), (61, 1, 0, 31), (299, 2, 31, 0)):
        assert data.x_train[row, plane, i, j] == pixels[row, 1024 * plane + 32 * i + j]
    assert data.meta["name"] == "cifar10"
    assert data.meta["classes"] == len(data.meta["labels"]) == 10
    assert data.meta["labels"][3] == "digit 3"


def test_the_miniature_is_the_digits(mirror: Path) -> None:
    digits = load_digits()
    ten, hundred = load(mirror / "cifar10"), load(mirror / "cifar100")
    assert np.array_equal(ten.y_train, digits.target[:300])
    assert np.array_equal(ten.y_test, digits.target[300:400])
    assert np.array_equal(hundred.y_test // 10, digits.target[300:400])
    assert np.array_equal(hundred.x_train, ten.x_train)
    assert hundred.meta["classes"] == len(hundred.meta["labels"]) == 100
    assert len(np.unique(hundred.y_train)) > 60
    # a pixel is brighter where there is more ink
    ink = digits.images[:300].repeat(4, axis=1).repeat(4, axis=2)
    for image, drawn in zip(ten.x_train, ink, strict=True):
        assert np.corrcoef(image.mean(0).ravel(), drawn.ravel())[0, 1] > 0.99


def test_the_small_files_are_pickles_of_protocol_2_with_the_official_keys(mirror: Path) -> None:
    batch = content(mirror / "cifar10/data_batch_2")
    assert list(batch) == ["batch_label", "labels", "data", "filenames"]
    assert batch["batch_label"] == "training batch 2 of 5"
    assert batch["filenames"][0] == "digit_0060.png"
    assert batch["data"].dtype == np.uint8
    train = content(mirror / "cifar100/train")
    assert list(train) == ["filenames", "batch_label", "fine_labels", "coarse_labels", "data"]
    assert train["coarse_labels"] == [label // 5 for label in train["fine_labels"]]
    assert content(mirror / "cifar10/batches.meta")["num_cases_per_batch"] == 60


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_numpy_pickles_today_is_read_too(ten: Path, protocol: int) -> None:
    """Beyond protocol 2 and for bytes as text, Python 3 names other functions: those are refused."""
    before = load(ten)
    batch = {key.encode(): value for key, value in content(ten / "test_batch").items()}
    (ten / "test_batch").write_bytes(pickle.dumps(batch, protocol))
    if protocol in (3, 4):
        assert np.array_equal(load(ten).x_test, before.x_test)
    else:
        with pytest.raises(DataError, match=r"test_batch is not a batch .*(codecs\.encode|_frombuffer)"):
            load(ten)


@pytest.mark.parametrize("limit", [1, 60, 61, 150, 1000])
def test_limit_keeps_the_first_images(mirror: Path, limit: int) -> None:
    for key in ("cifar10", "cifar100"):
        whole, first = load(mirror / key), load(mirror / key, limit=limit)
        assert np.array_equal(first.x_train, whole.x_train[:limit])
        assert np.array_equal(first.y_test, whole.y_test[:limit])


def test_files_beyond_the_limit_are_not_read(ten: Path) -> None:
    (ten / "data_batch_3").write_bytes(b"damaged")
    assert len(load(ten, limit=120).y_train) == 120
    with pytest.raises(DataError, match="data_batch_3"):
        load(ten, limit=121)


def change(key: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda batch: {**batch, key: value(batch[key])}


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (change("data", lambda x: x[:, :-1]), r"data is uint8 of shape \(60, 3071\), expected .*\(n, 3072\)"),
        (change("data", lambda x: 7), r"data is int, expected"),
        (change("labels", lambda y: y[:-1]), "labels is a list of 59, expected a list of 60 labels"),
        (change("labels", lambda y: "seven"), "labels is bytes, expected a list of 60"),
        (change("labels", lambda y: [*y[:3], 10, *y[4:]]), r"label 3 \(from 0\) is 10, expected 0 to 9"),
        (change("labels", lambda y: [-1, *y[1:]]), r"label 0 \(from 0\) is -1, expected 0 to 9"),
        (change("labels", lambda y: [*y[:-1], "cat"]), r"label 59 \(from 0\) is b'cat', expected 0 to 9"),
        (lambda batch: {k: v for k, v in batch.items() if k != "data"}, "data is NoneType"),
        (lambda batch: {k: v for k, v in batch.items() if k != "labels"}, "labels is NoneType"),
    ],
)
def test_a_batch_of_another_shape_is_named(
    ten: Path, edit: Callable[[dict[str, Any]], dict[str, Any]], message: str
) -> None:
    path = ten / "data_batch_4"
    path.write_bytes(pickled(edit(content(path))))
    with pytest.raises(DataError, match=f"data_batch_4: {message}"):
        load(ten)


@pytest.mark.parametrize(
    ("names", "message"),
    [(["a"] * 9, "a list of 9"), ([1] * 10, "a list of 10"), ("a", "bytes"), (None, "NoneType")],
)
def test_names_of_the_classes_that_do_not_fit_are_named(ten: Path, names: Any, message: str) -> None:
    found = {} if names is None else {"label_names": names}
    (ten / "batches.meta").write_bytes(pickled(found))
    with pytest.raises(
        DataError, match=f"batches.meta: label_names is {message}, expected a list of 10 names"
    ):
        load(ten)
