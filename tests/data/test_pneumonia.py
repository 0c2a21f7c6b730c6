"""Pneumonia: a small archive in the format of the mirror's, and the real one where DATA_MIRROR has it."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loading import arrays, config, load, real
from PIL import Image

from dplangevin.data.miniature import npz

FILE = "chest_xray_112_webp.npz"


@pytest.fixture
def folder(copied: Callable[[str], Path]) -> Path:
    """120 pictures to train on, 6 in val and 60 to test on."""
    return copied("pneumonia")


def content(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / FILE) as archive:
        return dict(archive)


def pictures(folder: Path, encoded: list[bytes], label: list[int], split: list[int]) -> None:
    """An archive of these pictures."""
    found = content(folder) | {
        "webp": np.frombuffer(b"".join(encoded), np.uint8),
        "offsets": np.cumsum([0, *map(len, encoded)]),
        "label": np.array(label, np.uint8),
        "split": np.array(split, np.uint8),
    }
    (folder / FILE).write_bytes(npz(found))


def encoded(grey: np.ndarray, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(grey).save(file, kind, **options)
    return file.getvalue()


def test_webp_pictures_decode_to_the_greys_that_were_encoded(folder: Path, rng: np.random.Generator) -> None:
    greys = rng.integers(0, 256, (3, 112, 112)).astype(np.uint8)
    exact = [encoded(np.stack([grey] * 3, axis=-1), "WEBP", lossless=True) for grey in greys]
    pictures(folder, exact, [2, 0, 1], [0, 2, 0])
    data = arrays("pneumonia", folder)
    assert data.y_train.tolist() == [2, 1]
    assert data.y_test.tolist() == [0]
    assert np.array_equal(data.x_train[:, 0], greys[[0, 2]])
    assert np.array_equal(data.x_test[:, 0], greys[[1]])
    smooth = np.add.outer(np.arange(112), np.arange(112)).astype(np.uint8)
    pictures(folder, [encoded(smooth, "WEBP", quality=75)] * 2, [0, 1], [0, 2])
    assert np.abs(arrays("pneumonia", folder).x_test[0, 0].astype(float) - smooth).mean() < 3


def test_validation_pictures_are_left_out_or_trained_on(folder: Path) -> None:
    left_out, with_them = arrays("pneumonia", folder), arrays("pneumonia", folder, validation="train")
    assert config("pneumonia").validation == "drop"
    assert len(with_them.y_train) == 126
    assert np.array_equal(with_them.x_train[:120], left_out.x_train)
    assert np.array_equal(with_them.x_test, left_out.x_test)
    with pytest.raises(ValueError, match=r"validation is 'test': use one of \['drop', 'train'\]"):
        load("pneumonia", folder, validation="test")


def test_limit_takes_pictures_from_the_whole_file(folder: Path) -> None:
    whole, some = arrays("pneumonia", folder), arrays("pneumonia", folder, limit=7)
    rows = [0, 17, 34, 51, 68, 85, 102]
    assert np.array_equal(some.x_train, whole.x_train[rows])
    assert np.array_equal(some.y_train, whole.y_train[rows])
    assert len(some.y_test) == 7
    for limit in (120, 10**6):
        assert load("pneumonia", folder, limit=limit).n == 120


@pytest.mark.slow
def test_the_real_pictures(tmp_path: Path) -> None:
    """If a folder of DATA_MIRROR has them: the counts of the common edition, and greys that look like X-rays."""
    real("pneumonia", tmp_path / "pneumonia")
    stated = content(tmp_path / "pneumonia")
    assert np.bincount(stated["label"][stated["split"] < 2]).tolist() == [1349, 2538, 1345]
    data = arrays("pneumonia", tmp_path / "pneumonia")
    assert np.bincount(data.y_train).tolist() == [1341, 2530, 1345]
    assert np.bincount(data.y_test).tolist() == [234, 242, 148]
    assert 100 < data.x_train.mean() < 140
    spread = data.x_train.reshape(len(data.x_train), -1).std(axis=1)
    assert spread.min() > 15
    distinct = {image.tobytes() for image in data.x_train}
    assert len(data.x_train) - len(distinct) == 26  # as conf/dataset/pneumonia.yaml says
    assert not distinct & {image.tobytes() for image in data.x_test}
