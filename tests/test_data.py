"""The Dataset value: scaling, splits, and files with the same bytes everywhere."""

import doctest
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dplangevin import data
from dplangevin.data import DataError, Dataset, atomic_path, generator, row_norms, sha256, split, verify


def small(bound: float = 2.0, rows: int = 50, d: int = 7) -> Dataset:
    rng = np.random.default_rng(1)
    x = (3 * rng.standard_normal((2, rows, d))).astype(np.float32)
    y = np.where(rng.random((2, rows)) < 0.3, 1.0, -1.0).astype(np.float32)
    return Dataset(x, y, x[:1], y[:1], {"name": "small", "row_norm_bound": bound})


def test_doctests() -> None:
    assert doctest.testmod(data).failed == 0


@pytest.mark.parametrize("how", ["unit", "global"])
@pytest.mark.parametrize("d", [1, 7, 109])
def test_scaled_rows_have_norm_at_most_one(how: str, d: int) -> None:
    scaled = small(rows=2000, d=d).scaled(how)
    for x in (scaled.x_train, scaled.x_test):
        assert x.dtype == np.float64
        assert row_norms(x).max() <= 1.0
        assert row_norms(x.astype(np.float32)).max() <= 1.0
        assert np.linalg.norm(x, axis=-1).max() <= 1.0


def test_unit_scaling_divides_by_the_row_norm_also_when_it_is_short() -> None:
    x = np.array([[[0.3, 0.4], [30.0, 40.0], [0.0, 0.0]]])
    y = np.ones((1, 3))
    unit = Dataset(x, y, x, y).scaled("unit").x_train
    np.testing.assert_allclose(unit, [[[0.6, 0.8], [0.6, 0.8], [0.0, 0.0]]], rtol=1e-6)


def test_global_scaling_keeps_relative_lengths_up_to_the_clip() -> None:
    dataset = small(bound=9.0)
    norms = row_norms(dataset.x_train)
    assert (norms > 9.0).any()
    assert (norms < 9.0).any()
    np.testing.assert_allclose(
        row_norms(dataset.scaled("global").x_train), np.minimum(norms / 9.0, 1.0), rtol=1e-6
    )


def test_raw_scaling_only_shortens_rows_beyond_the_public_bound() -> None:
    dataset = small(bound=9.0)
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


def test_scaling_leaves_labels_meta_and_the_original_alone() -> None:
    dataset = small()
    before = dataset.x_train.copy()
    scaled = dataset.scaled("unit")
    assert scaled.y_train is dataset.y_train
    assert scaled.meta == dataset.meta
    assert np.array_equal(dataset.x_train, before)


def test_unknown_scaling_is_refused() -> None:
    with pytest.raises(ValueError, match="'l1'"):
        small().scaled("l1")


def test_row_norms_agree_with_numpy() -> None:
    x = small(d=109).x_train
    np.testing.assert_allclose(row_norms(x), np.linalg.norm(x.astype(float), axis=-1), rtol=1e-14)


def test_majority_accuracy_is_that_of_the_training_majority() -> None:
    x, y_train = np.zeros((2, 4, 1)), np.array([[1.0, 1, 1, -1], [-1, -1, 1, -1]])
    dataset = Dataset(x, y_train, np.zeros((1, 5, 1)), np.array([[1.0, -1, -1, -1, -1]]))
    assert dataset.majority_accuracy.tolist() == [0.2, 0.8]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.zeros((3, 2)), np.ones((3,)), "shape"),
        (np.zeros((1, 3, 2)), np.ones((1, 4)), "shape"),
        (np.full((1, 3, 2), np.nan), np.ones((1, 3)), "not finite"),
        (np.zeros((1, 3, 2)), np.zeros((1, 3)), "labels"),
    ],
)
def test_malformed_arrays_are_refused(x: np.ndarray, y: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Dataset(x, y, np.zeros((1, 1, 2)), np.ones((1, 1)))


def test_save_and_load_give_the_same_values(tmp_path: Path) -> None:
    dataset = small()
    dataset.save(tmp_path / "new" / "small.npz")
    again = Dataset.load(tmp_path / "new" / "small.npz")
    for name in data.ARRAYS:
        assert np.array_equal(getattr(again, name), getattr(dataset, name))
        assert getattr(again, name).dtype == np.float32
    assert again.meta == dataset.meta
    assert os.listdir(tmp_path / "new") == ["small.npz"]


def test_loading_a_missing_or_damaged_file_names_the_fix(tmp_path: Path) -> None:
    path = tmp_path / "small.npz"
    with pytest.raises(DataError, match=r"small\.npz.*dvc repro -f prepare@small"):
        Dataset.load(path)
    small().save(path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match="prepare@small"):
        Dataset.load(path)


def test_bytes_do_not_depend_on_threads_time_zone_or_time(tmp_path: Path) -> None:
    script = """if True:
        import sys, time
        from dplangevin.loaders import synthetic
        real = time.time
        time.time = lambda: real() + float(sys.argv[2])
        dataset = synthetic.load(".", 0.6, 10, 300, 700, seed=7, repeats=3, row_norm_bound=5.0)
        dataset.save(sys.argv[1])
        dataset.scaled("global").save(sys.argv[1] + ".scaled")
    """
    hashes = []
    for i, (threads, zone, shift) in enumerate([("1", "UTC", "0"), ("4", "Asia/Kathmandu", "1e9")]):
        path = tmp_path / f"{i}.npz"
        env = os.environ | {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "TZ": zone}
        env["PYTHONPATH"] = str(Path(data.__file__).parents[1])
        subprocess.run([sys.executable, "-c", script, path, shift], check=True, env=env)
        hashes.append((sha256(path), sha256(f"{path}.scaled")))
    assert hashes[0] == hashes[1]


def test_a_failed_save_leaves_the_earlier_file(tmp_path: Path) -> None:
    path = tmp_path / "small.npz"
    small().save(path)
    before = path.read_bytes()
    broken = replace(small(), meta={"not JSON": object()})
    with pytest.raises(TypeError):
        broken.save(path)
    assert path.read_bytes() == before

    def interrupted() -> None:
        with atomic_path(path) as part:
            part.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["small.npz"]


def test_splits_are_disjoint_complete_and_do_not_depend_on_how_many_follow() -> None:
    train, test = split(41, 5, 0.8, generator(3, "abalone/split"))
    assert (train.shape, test.shape) == ((5, 32), (5, 9))
    assert np.array_equal(np.sort(np.hstack([train, test]), axis=1), np.tile(np.arange(41), (5, 1)))
    assert len({row.tobytes() for row in train}) == 5
    assert np.array_equal(split(41, 2, 0.8, generator(3, "abalone/split"))[0], train[:2])
    assert not np.array_equal(split(41, 2, 0.8, generator(4, "abalone/split"))[0], train[:2])
    with pytest.raises(ValueError, match="empty part"):
        split(4, 1, 0.1, generator(3, "abalone/split"))


def test_verify_names_the_file_the_hashes_and_the_fix(tmp_path: Path) -> None:
    (tmp_path / "a.data").write_text("right")
    entry = {"name": "a.data", "sha256": sha256(tmp_path / "a.data"), "size": 5}
    verify(tmp_path, [entry], "a")
    (tmp_path / "a.data").write_text("righ")
    with pytest.raises(DataError, match=rf"{entry['sha256']}.*found sha256 \w+ \(4 bytes\).*fetch@a"):
        verify(tmp_path, [entry], "a")
    (tmp_path / "a.data").unlink()
    with pytest.raises(DataError, match=r"a\.data.*missing.*dvc repro -f fetch@a"):
        verify(tmp_path, [entry], "a")
