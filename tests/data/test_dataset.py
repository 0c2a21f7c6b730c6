"""The Dataset value: what it refuses, scaling and clipping, splits, and files with the same bytes everywhere."""

import math
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loading import pictures

from dplangevin.data import DataError, Dataset, clip_rows, pixels, row_norms
from dplangevin.data.dataset import ARRAYS
from dplangevin.data.rows import MARGIN
from dplangevin.data.splits import Split
from dplangevin.files import sha256


def table(bound: float = 2.0, rows: int = 50, d: int = 7) -> Dataset:
    """Two repeats with labels -1 and +1, and test rows that they share."""
    rng = np.random.default_rng(1)
    x = (3 * rng.standard_normal((2, rows, d))).astype(np.float32)
    y = np.where(rng.random((2, rows)) < 0.3, 1.0, -1.0).astype(np.float32)
    return Dataset(x, y, x[:1], y[:1], {"name": "small", "row_norm_bound": bound})


images = partial(pictures, 12, 5, (3, 6, 4), 10)


def features() -> Dataset:
    """Four classes, with norms of a public set."""
    rng = np.random.default_rng(1)
    x = [rng.normal(size=(rows, 7)).astype(np.float32) for rows in (12, 5)]
    y = [rng.integers(0, 4, rows) for rows in (12, 5)]
    meta = {"name": "small", "classes": 4, "public": {"norm_mean": 2.0}}
    return Dataset.from_arrays(x[0], y[0], x[1], y[1], meta)


KINDS = pytest.mark.parametrize("make", [table, images, features])


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (table, {"x_train": np.zeros((3, 2), np.float32)}, r"x_train float32 \(3, 2\)"),
        (table, {"y_test": np.ones((1, 4))}, r"x_test .* \(1, 50, 7\), y_test .* \(1, 4\): need \(R, n"),
        (images, {"x_test": np.zeros((1, 0, 3, 6, 4), np.uint8), "y_test": np.zeros((1, 0), np.int64)}, "none"),
        (features, {"x_train": np.zeros((1, 12, 7), np.int32)}, "x_train int32 .*: need rows of uint8"),
        (images, {"y_train": np.zeros((1, 12), np.int32)}, "y_train int32 .*: need labels"),
        (table, {"x_train": np.full((1, 50, 7), np.nan), "y_train": np.ones((1, 50))}, "need finite numbers"),
        (table, {"y_train": np.zeros((2, 50))}, "need labels -1"),
        (images, {"y_train": np.full((1, 12), 10)}, "need labels -1 and .*, or 0 to classes"),
        (features, {"y_test": np.array([[0, 3, -1, 0, 0]])}, "need labels"),
        (images, {"x_test": np.zeros((1, 5, 3, 6, 5), np.uint8)}, r"4\), .* 5\), .*: need rows of one shape"),
        (features, {"x_test": np.zeros((1, 5, 7), np.float64)}, "x_test float64 .*: need rows of one"),
        (table, {"x_test": np.zeros((3, 9, 7), np.float32), "y_test": np.ones((3, 9))}, "need as many repeats"),
        (images, {"meta": {"name": "small"}}, "need labels"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(make: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        replace(make(), **change)


@pytest.mark.parametrize("how", ["unit", "global"])
@pytest.mark.parametrize("d", [1, 7, 109])
def test_scaled_rows_have_norm_at_most_one(how: str, d: int) -> None:
    scaled = table(rows=200, d=d).scaled(how)
    for x in (scaled.x_train, scaled.x_test):
        assert x.dtype == np.float64
        assert row_norms(x).max() <= 1.0
        assert row_norms(x.astype(np.float32)).max() <= 1.0
        assert np.linalg.norm(x, axis=-1).max() <= 1.0


def test_raw_scaling_only_shortens_rows_beyond_the_public_bound() -> None:
    dataset = table(bound=9.0)
    norms = row_norms(dataset.x_train)
    raw = dataset.scaled("raw")
    assert raw.meta == {**dataset.meta, "row_bound": 9.0}
    kept = norms < 8.99
    assert 0 < kept.sum() < kept.size
    np.testing.assert_allclose(raw.x_train[kept], dataset.x_train[kept], rtol=1e-15)
    longer = norms > 9.0
    np.testing.assert_allclose(row_norms(raw.x_train[longer]), 9.0, rtol=1e-6)
    factor = raw.x_train[longer] / dataset.x_train[longer]
    np.testing.assert_allclose(factor, np.repeat(factor[:, :1], 7, axis=1), rtol=1e-12)
    assert row_norms(raw.x_train.astype(np.float32)).max() <= 9.0
    assert row_norms(raw.x_test).max() <= 9.0
    assert raw.scaled("unit").meta["row_bound"] == 1.0


def test_ordinary_rows_are_clipped_as_results_have_them() -> None:
    """Bit for bit by the formula that committed results were made with, wherever squares are normal numbers."""
    rng = np.random.default_rng(3)
    for d, powers in ((1, 140), (7, 140), (109, 30)):
        x = rng.standard_normal((2, 60, d)) * 10.0 ** rng.uniform(-powers, powers, (2, 60, 1))
        x[:, :9] = 0.0
        for norm, bound in ((1.0, 1.0), (8.0, 0.5), (1e-6, 1e5)):
            lengths = np.linalg.norm(x, axis=-1, keepdims=True)
            wanted = (x * (bound / np.maximum(lengths, norm)) / MARGIN).astype(np.float32)
            assert clip_rows(x, norm, bound).tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    "row", [[1e200, 0], [1e308, 1e308], [1.7e308, -1.7e308], [1e154, 1e154], [1e39, -1e39]]
)
def test_rows_whose_squares_overflow_are_clipped_to_the_bound(row: list[float]) -> None:
    found = clip_rows(np.array([[row, [0.3, 0.4]]]), 1.0, 2.0)[0].astype(float)
    np.testing.assert_allclose(found[0], 2 * np.sign(row) / np.linalg.norm(np.sign(row)), rtol=4e-7)
    assert np.linalg.norm(found, axis=1).max() <= 2.0


@pytest.mark.parametrize(
    ("row", "norm", "bound", "message"),
    [
        ([3.0, 4.0], math.inf, 1.0, r"row_norm = inf .* must be positive, and both finite or neither"),
        ([3.0, 4.0], 0.0, 1.0, r"row_norm = 0.0 .* must be positive"),
        ([math.inf, 0.0], 1.0, 1.0, "a row has a number that is nan or infinite: fill it in"),
        ([math.nan, 0.0], 1.0, 1.0, "a row has a number that is nan or infinite: fill it in"),
        ([1e-200, 0.0], 1e-200, 1.0, r"row_norm = 1e-200 in \[1e-150, 1e\+150\]: scale the rows"),
        ([1e39, 0.0], math.inf, math.inf, r"a row has a number that float32 does not hold, .* 3\.4e38: scale the rows"),
        ([1.0, 0.0], 1.0, 1e39, r"row_bound = 1e\+39 must be in \[1e-18, 1e18\], .*: scale the rows"),
        ([1.0, 0.0], 1.0, 1e-44, r"row_bound = 1e-44 must be in \[1e-18, 1e18\]"),
    ],
)  # fmt: skip
def test_rows_and_bounds_that_float32_does_not_hold_are_refused(
    row: list[float], norm: float, bound: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        clip_rows(np.array([[0.1, 0.2], row]), norm, bound)


def test_features_are_clipped_to_a_public_norm_by_name_or_to_a_number() -> None:
    found = features()
    named, numbered, free = (
        found.clipped("norm_mean", 0.5),
        found.clipped(2.0, None),
        found.clipped(None, None),
    )
    np.testing.assert_array_equal(named.x_train, clip_rows(found.x_train, 2.0, 0.5))
    np.testing.assert_array_equal(numbered.x_test, clip_rows(found.x_test, 2.0, 2.0))
    np.testing.assert_array_equal(free.x_train, found.x_train)
    assert [d.meta["row_bound"] for d in (named, numbered, free)] == [0.5, 2.0, math.inf]
    assert "row_bound" not in found.meta
    with pytest.raises(ValueError, match="norm_q98"):
        found.clipped("norm_q98", None)


def test_what_cannot_be_scaled_is_refused() -> None:
    with pytest.raises(ValueError, match="'l1'"):
        table().scaled("l1")
    for use in (lambda: images().scaled("unit"), lambda: images().clipped(None, None)):
        with pytest.raises(DataError, match=r"small has rows uint8 \(3, 6, 4\): need vectors"):
            use()


def test_the_constant_answer_is_that_of_the_training_majority() -> None:
    x, y_train = np.zeros((2, 4, 1)), np.array([[1.0, 1, 1, -1], [-1, -1, 1, -1]])
    dataset = Dataset(x, y_train, np.zeros((1, 5, 1)), np.array([[1.0, -1, -1, -1, -1]]))
    assert dataset.constant()["majority_accuracy"].tolist() == [0.2, 0.8]
    ties = replace(dataset, y_train=np.array([[1.0, 1, -1, -1], [-1, -1, 1, 1]]))
    assert ties.constant()["majority_accuracy"].tolist() == [0.2, 0.2]
    classes = Dataset(
        x, np.array([[2, 0, 2, 1], [0, 1, 1, 0]]), x[:1], np.array([[0, 2, 0, 0]]), {"classes": 3}
    )
    assert classes.constant()["majority_accuracy"].tolist() == [0.25, 0.75]


def test_pixels_go_through_one_public_map() -> None:
    given = torch.arange(256, dtype=torch.uint8).reshape(4, 1, 8, 8)
    found = pixels.scaled(given)
    expected = np.arange(256, dtype=np.float32) / np.float32(127.5) - np.float32(1)
    assert np.array_equal(found.flatten().numpy(), expected)
    assert torch.equal(given.flatten(), torch.arange(256, dtype=torch.uint8))
    with pytest.raises(ValueError, match=r"torch\.int64: give them as uint8"):
        pixels.scaled(torch.zeros(2, dtype=torch.int64))


@KINDS
def test_a_saved_file_gives_the_same_values(tmp_path: Path, make: Any) -> None:
    dataset = make()
    dataset.save(tmp_path / "new" / "small.npz")
    again = Dataset.load(tmp_path / "new" / "small.npz")
    for name in ARRAYS:
        assert np.array_equal(getattr(again, name), getattr(dataset, name))
        assert getattr(again, name).dtype == getattr(dataset, name).dtype
        assert getattr(again, name).flags.writeable  # torch.from_numpy warns of others
    assert again.meta == dataset.meta
    assert os.listdir(tmp_path / "new") == ["small.npz"]


def test_bytes_depend_on_the_values_only(tmp_path: Path) -> None:
    dataset = images()
    dataset.save(tmp_path / "here.npz")
    turned = np.asfortranarray(dataset.x_train)
    assert not turned.flags.c_contiguous
    replace(dataset, x_train=turned, meta=dict(reversed(dataset.meta.items()))).save(tmp_path / "turned.npz")
    assert sha256(tmp_path / "here.npz") == sha256(tmp_path / "turned.npz")


@KINDS
@pytest.mark.parametrize("kept", [0, 30, 0.5, 0.999])
def test_a_damaged_file_is_named_with_the_fix(tmp_path: Path, make: Any, kept: float) -> None:
    path = tmp_path / "mnist.npz"
    make().save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content)) if kept < 1 else int(kept)])
    with pytest.raises(DataError, match=r"(?s)mnist\.npz: .*dvc repro -f prepare@mnist"):
        Dataset.load(path)


def test_a_missing_file_or_one_of_another_kind_is_named_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"svhn\.npz.*prepare@svhn"):
        Dataset.load(tmp_path / "svhn.npz")
    np.savez(tmp_path / "svhn.npz", x_train=np.zeros(3))
    with pytest.raises(DataError, match=r"svhn\.npz: .*meta.*prepare@svhn"):
        Dataset.load(tmp_path / "svhn.npz")
    with pytest.raises(DataError, match="dvc repro -f features@cifar10-resnet20"):
        Dataset.load(tmp_path / "features/cifar10_resnet20.npz")


def test_splits_are_disjoint_complete_and_do_not_depend_on_how_many_follow() -> None:
    train, test = Split(0.8, repeats=5, seed=3).rows(41, "abalone")
    assert (train.shape, test.shape) == ((5, 32), (5, 9))
    assert np.array_equal(np.sort(np.hstack([train, test]), axis=1), np.tile(np.arange(41), (5, 1)))
    assert len({row.tobytes() for row in train}) == 5
    assert np.array_equal(Split(0.8, repeats=2, seed=3).rows(41, "abalone")[0], train[:2])
    assert not np.array_equal(Split(0.8, repeats=2, seed=4).rows(41, "abalone")[0], train[:2])
    with pytest.raises(ValueError, match="empty part"):
        Split(0.1).rows(4, "abalone")
