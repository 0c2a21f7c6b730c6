"""Images: small files in the official formats, hostile and damaged ones, and the real ones where they are."""

import gzip
import io
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from composed import composed
from loading import ROOT, arrays, config, load, real
from PIL import Image
from scipy.io import savemat
from sklearn.datasets import load_digits

from dplangevin.data import Arrays, DataError, save_arrays
from dplangevin.data.loaders import cifar, digits
from dplangevin.files import sha256

KEYS = sorted(path.stem for path in (ROOT / "conf/dataset").glob("*.yaml") if path.stem != "synthetic")
RNG = np.random.default_rng(1)


def drawn(n: int, *shape: int, labels: int = 10) -> tuple[np.ndarray, np.ndarray]:
    return RNG.integers(0, 256, (n, *shape), dtype=np.uint8), RNG.integers(0, labels, n)


def write_cifar(folder: Path, meta: str, names: str, key: str, classes: int, parts: dict[str, int]) -> Arrays:
    """As the authors describe it: n rows of the red, green and blue planes; the last part is the test."""
    found = []
    for name, n in parts.items():
        x, y = drawn(n, 3, 32, 32, labels=classes)
        batch = {b"data": x.reshape(n, 3072), key.encode(): y.tolist()}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=3))
        found.append((x, y))
    (folder / meta).write_bytes(
        pickle.dumps({names.encode(): [b"class %d" % k for k in range(classes)]}, protocol=3)
    )
    x, y = (np.concatenate(each) for each in zip(*found[:-1], strict=True))
    return Arrays(x, y, *found[-1])


def write_cifar10(folder: Path) -> Arrays:
    parts = {**{f"data_batch_{k}": 6 for k in range(1, 6)}, "test_batch": 9}
    return write_cifar(folder, "batches.meta", "label_names", "labels", 10, parts)


def write_cifar100(folder: Path) -> Arrays:
    return write_cifar(folder, "meta", "fine_label_names", "fine_labels", 100, {"train": 30, "test": 9})


def write_mnist(folder: Path) -> Arrays:
    """As the authors describe it: big-endian magic number and lengths, one byte a value."""
    found: list[np.ndarray] = []
    for part, n in (("train", 30), ("t10k", 9)):
        x, y = drawn(n, 28, 28)
        for name, magic, values in (("images-idx3", 2051, x), ("labels-idx1", 2049, y)):
            content = struct.pack(f">{1 + values.ndim}i", magic, *values.shape)
            content += values.astype(np.uint8).tobytes()
            (folder / f"{part}-{name}-ubyte.gz").write_bytes(gzip.compress(content))
        found += [x[:, None], y]
    return Arrays(*found)


def write_svhn(folder: Path) -> Arrays:
    """MATLAB files with X (32, 32, 3, n) and y (n, 1), where 10 is the digit 0."""
    found = []
    for name, n in (("train", 20), ("extra", 10), ("test", 9)):
        x, y = drawn(n, 3, 32, 32)
        matrices = {"X": x.transpose(2, 3, 1, 0), "y": np.where(y == 0, 10, y).astype(np.uint8)[:, None]}
        savemat(folder / f"{name}_32x32.mat", matrices, do_compression=name == "extra")
        found.append((x, y))
    x, y = (np.concatenate(each) for each in zip(*found[:2], strict=True))
    return Arrays(x, y, *found[2])


def encoded(grey: np.ndarray, **options: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.stack([grey] * 3, axis=-1)).save(file, "WEBP", **options)
    return file.getvalue()


def write_pneumonia(folder: Path, **options: Any) -> Arrays:
    """30 pictures to train on, 2 in the folder val, and 9 to test on."""
    x, y = drawn(41, 112, 112, labels=3)
    x[1] = np.add.outer(np.arange(112), np.arange(112))
    split = np.repeat([0, 1, 2], [30, 2, 9])
    pictures = [encoded(grey, **(options or {"lossless": True})) for grey in x]
    content = {
        "webp": np.frombuffer(b"".join(pictures), np.uint8),
        "offsets": np.cumsum([0, *map(len, pictures)]),
        "label": y.astype(np.uint8),
        "split": split.astype(np.uint8),
    }
    save_arrays(folder / "chest_xray_112_webp.npz", content)
    return Arrays(x[split == 0, None], y[split == 0], x[split == 2, None], y[split == 2])


WRITERS: dict[str, Callable[[Path], Arrays]] = {
    "cifar10": write_cifar10,
    "cifar100": write_cifar100,
    "mnist": write_mnist,
    "svhn": write_svhn,
    "pneumonia": write_pneumonia,
}


@pytest.mark.parametrize("key", WRITERS)
@pytest.mark.parametrize("limit", [None, 7])
def test_images_and_labels_in_the_order_of_the_files(tmp_path: Path, key: str, limit: int | None) -> None:
    """`limit` keeps the first of each file, and of Pneumonia, which is sorted by class, some of all."""
    written, meta = WRITERS[key](tmp_path), load(key, tmp_path).meta
    rows: Any = slice(limit)
    if limit and key == "svhn":
        rows = [*range(7), *range(20, 27)]
    if limit and key == "pneumonia":
        rows = [0, 4, 8, 12, 17, 21, 25]
    data = arrays(key, tmp_path, limit=limit)
    assert np.array_equal(data.x_train, written.x_train[rows])
    assert np.array_equal(data.y_train, written.y_train[rows])
    assert data.y_train.dtype == np.int64
    assert data.x_train.flags.c_contiguous
    assert data.x_train.flags.writeable
    if key != "pneumonia":
        assert np.array_equal(data.x_test, written.x_test[:limit])
    assert (meta["name"], meta["classes"]) == (key, {"cifar100": 100, "pneumonia": 3}.get(key, 10))
    if key.startswith("cifar"):
        assert meta["labels"][3] == "class 3"


@pytest.mark.parametrize("key", KEYS)
def test_a_missing_file_is_named_with_the_fix(tmp_path: Path, key: str) -> None:
    first = {"cifar10": "batches.meta", "cifar100": "meta", "mnist": "train-images", "svhn": "train_32x32"}
    (tmp_path / key).mkdir()
    with pytest.raises(
        DataError,
        match=rf"{first.get(key, config(key).files[0].name)}.* is missing.*dvc repro -f prepare@{key}",
    ):
        load(key, tmp_path / key)


def test_svhn_without_its_extra_images(tmp_path: Path) -> None:
    written = write_svhn(tmp_path)
    (tmp_path / "extra_32x32.mat").unlink()
    data = arrays("svhn", tmp_path, loader={"extra": False})
    assert np.array_equal(data.x_train, written.x_train[:20])


def test_lossy_pictures_are_read(tmp_path: Path) -> None:
    smooth = write_pneumonia(tmp_path, quality=75).x_train[1].astype(float)
    assert np.abs(arrays("pneumonia", tmp_path).x_train[1] - smooth).mean() < 3


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("builtins", "open"),
        ("os", "system"),
        ("numpy", "ndarray.tofile"),
        ("numpy.core.multiarray", "fromfile"),
        ("dplangevin.data.loaders.cifar", "pickle.os.system"),
    ],
)
def test_a_pickle_that_names_anything_else_is_refused_before_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    """The pickle calls module.name("evil.txt", "w") while it is read."""
    write_cifar10(tmp_path)
    monkeypatch.chdir(tmp_path)
    evil = f"\x80\x02c{module}\n{name}\n".encode("latin1") + b"U\x08evil.txtU\x01w\x86R."
    (tmp_path / "data_batch_1").write_bytes(evil)
    with pytest.raises(DataError, match=rf"data_batch_1 is not a batch .* {module}\.{name}.*refused"):
        load("cifar10", tmp_path)
    assert not (tmp_path / "evil.txt").exists()


@pytest.mark.parametrize("code", ["O8", "f8", "V1"])
def test_arrays_of_objects_and_of_other_numbers_are_refused(tmp_path: Path, code: str) -> None:
    write_cifar10(tmp_path)
    path = tmp_path / "data_batch_1"
    path.write_bytes(path.read_bytes().replace(b"u1", code.encode()))
    with pytest.raises(DataError, match=f"an array of {code!r}, expected bytes"):
        load("cifar10", tmp_path)


def test_what_python_2_pickled_is_read(tmp_path: Path) -> None:
    """As the official files are: texts without an encoding, arrays of NumPy 1."""
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01K\x02M\x00\x0c\x86"
    )
    kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    pixels = np.arange(6144).astype(np.uint8)
    (tmp_path / "batch").write_bytes(
        b"\x80\x02}(U\x06labels](K\x07K\x00eU\x04data%s%s\x89T\x00\x18\x00\x00%stbu."
        % (array, kind, pixels.tobytes())
    )
    x, y = cifar.read([tmp_path / "batch"], "labels", None)
    assert np.array_equal(x.reshape(-1), pixels)
    assert y.tolist() == [7, 0]


MOMENTS: dict[
    str, tuple[list[float], list[float]]
] = {  # of the training pixels, as published with many models
    "mnist": ([0.1307], [0.3081]),
    "cifar10": ([0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]),
    "cifar100": ([0.5071, 0.4865, 0.4409], [0.2673, 0.2564, 0.2762]),
    "pneumonia": ([], []),
}
COUNTS = {  # images of each class
    "mnist": ([5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
              [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]),
    "cifar10": ([5000] * 10, [1000] * 10),
    "cifar100": ([500] * 100, [100] * 100),
    "pneumonia": ([1341, 2530, 1345], [234, 242, 148]),
}  # fmt: skip
PROCESSED = {
    "mnist": "0de39fcbe616856fd0ad8da142cde07c7f31a890de2bb02f1347bf99e975ce15",
    "cifar10": "b142e2e0b2b8f773086914fc41d6b3b88266cf2b2da9ddc0042dcdabeb4631a1",
    "cifar100": "2cbd327f99bfa02873ba2c1170f77247c634702ba9fd94a7539ddda3df8ed447",
    "pneumonia": "a5de291deb52368d0679cd5d99b5c5672d7e222667bde3e311cf60f0bd28e074",
}


@pytest.mark.slow
@pytest.mark.parametrize("key", PROCESSED)
def test_the_real_files(tmp_path: Path, key: str) -> None:
    """If a folder of DATA_MIRROR has them: classes, moments, processed bytes."""
    real(key, tmp_path / key)
    dataset = load(key, tmp_path / key)
    data = dataset.arrays()
    assert tuple(np.bincount(y).tolist() for y in (data.y_train, data.y_test)) == COUNTS[key]
    for c, (mean, std) in enumerate(zip(*MOMENTS[key], strict=True)):
        assert data.x_train[:, c].mean() / 255 == pytest.approx(mean, abs=1e-4)
        assert data.x_train[:, c].std() / 255 == pytest.approx(std, abs=1e-4)
    if key == "pneumonia":  # as conf/dataset/pneumonia.yaml says
        distinct = {image.tobytes() for image in data.x_train}
        assert len(data.x_train) - len(distinct) == 26
        assert not distinct & {image.tobytes() for image in data.x_test}
    dataset.save(tmp_path / f"{key}.npz")
    assert sha256(tmp_path / f"{key}.npz") == PROCESSED[key]


def test_the_smoke_scale_learns_from_digits(tmp_path: Path) -> None:
    cfg, ink = composed("scale=smoke", "pipeline=svhn"), load_digits().images
    for key, (train, test) in digits.ROWS.items():
        assert cfg.dataset[key].loader._target_ == "dplangevin.data.loaders.digits.load"
        data = digits.load(tmp_path, key).arrays()
        assert (len(data.y_train), len(data.y_test)) == (len(train), len(test))
        side, step = (28, 3) if key == "mnist" else (112, 14) if key == "pneumonia" else (32, 4)
        assert data.x_test.shape[2:] == (side, side)
        centres = slice((side - 8 * step) // 2 + step // 2, None, step)
        for image, digit in zip(data.x_test.mean(1)[:, centres, centres], ink[test], strict=True):
            assert np.corrcoef(image[:8, :8].ravel(), digit.ravel())[0, 1] > 0.99
