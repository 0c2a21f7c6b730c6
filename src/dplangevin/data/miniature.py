"""Small stand-ins for the image data sets and weights, in formats that their loaders read, for smoke runs and tests.

The images are scikit-learn's 8 x 8 digits, enlarged; the weights are random. No byte depends on the machine: nothing is
compressed or has a date, and random numbers go through elementwise IEEE operations only.
"""

import pickle
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from io import BytesIO
from itertools import pairwise

import numpy as np

from dplangevin.data.files import write_arrays
from dplangevin.data.splits import generator

SOURCE = "miniature"  # the word among the urls of a file that asks for a stand-in
PARTS = {"train": slice(0, 600), "test": slice(600, 800), "extra": slice(800, 1000)}  # of 1,797 digits
PNEUMONIA = {"train": 120, "val": 6, "test": 60}  # images in each folder


@cache
def files(group: str) -> dict[str, bytes]:
    """Return the files of a data set, or of "weights", by name."""
    return MAKERS[group]()


def digits(rows: slice) -> tuple[np.ndarray, np.ndarray]:
    """Return the ink (n, 8, 8) of the digits, from 0 to 16, and their labels (n,)."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return bunch.images[rows].astype(np.int64), bunch.target[rows]


def mnist() -> dict[str, bytes]:
    """Return the four idx files of MNIST: magic number, lengths of the axes, values."""
    files = {}
    for part, name in (("train", "train"), ("test", "t10k")):
        ink, y = digits(PARTS[part])
        grey = np.pad(enlarged(ink * 255 // 16, 3), ((0, 0), (2, 2), (2, 2)))
        for kind, array in (("images-idx3", grey), ("labels-idx1", y)):
            header = struct.pack(f">{array.ndim + 1}I", 0x0800 + array.ndim, *array.shape)
            files[f"{name}-{kind}-ubyte.gz"] = stored_gzip(header + array.astype(np.uint8).tobytes())
    return files


def svhn() -> dict[str, bytes]:
    """Return the MATLAB 5 files of SVHN, whose header of 116 bytes names neither machine nor date."""
    from scipy.io import savemat

    files = {}
    for part, rows in PARTS.items():
        (ink, y), file = digits(rows), BytesIO()
        savemat(file, {"X": coloured(ink), "y": np.where(y == 0, 10, y).astype(np.uint8)[:, None]})
        files[f"{part}_32x32.mat"] = b"MATLAB 5.0 MAT-file".ljust(116) + file.getvalue()[116:]
    return files


def cifar10() -> dict[str, bytes]:
    """Return the files of CIFAR-10; the label is the digit."""
    names = [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]
    ends = dict(zip(names, (60, 120, 180, 240, 300, 400), strict=True))
    return cifar("batches.meta", "label_names", "labels", ends, [b"digit %d" % digit for digit in range(10)])


def cifar100() -> dict[str, bytes]:
    """Return the files of CIFAR-100; the fine label is 10 times the digit plus the row mod 10."""
    classes = [b"digit %d, %d" % divmod(label, 10) for label in range(100)]
    return cifar("meta", "fine_label_names", "fine_labels", {"train": 300, "test": 400}, classes)


def cifar(
    meta: str, names: str, key: str, ends: Mapping[str, int], classes: Sequence[bytes]
) -> dict[str, bytes]:
    """Return the file `meta` with the names of the classes, and batches that each end at a row of the first 400."""
    ink, y = digits(slice(400))
    labels = (y if len(classes) == 10 else 10 * y + np.arange(400) % 10).tolist()
    pixels = coloured(ink).transpose(3, 2, 0, 1).reshape(-1, 3072)
    files, start = {meta: pickled({names: classes})}, 0
    for name, end in ends.items():
        files[name] = pickled({key: labels[start:end], "data": pixels[start:end].copy()})
        start = end
    return files


def pneumonia() -> dict[str, bytes]:
    """Return the archive of X-rays; the label is the digit mod 3. No encoder changes the bytes of PGM pictures."""
    n = sum(PNEUMONIA.values())
    ink, y = digits(slice(n))
    greys = enlarged(ink * 255 // 16, 14).astype(np.uint8)
    pictures = [b"P5\n112 112\n255\n" + grey.tobytes() for grey in greys]
    arrays: dict[str, np.ndarray] = {
        "webp": np.frombuffer(b"".join(pictures), np.uint8),
        "offsets": np.cumsum([0, *map(len, pictures)]).astype(np.int64),
        "names": np.array([f"digit_{row:04d}.pgm" for row in range(n)]),
        "label": (y % 3).astype(np.uint8),
        "split": np.repeat(np.arange(3, dtype=np.uint8), list(PNEUMONIA.values())),
        "label_names": np.array(["normal", "bacteria", "virus"]),
        "split_names": np.array(list(PNEUMONIA)),
    }
    return {"chest_xray_112_webp.npz": npz(arrays)}


def weights() -> dict[str, bytes]:
    """Return random weights of conf/weights/resnet20_cifar100.yaml.

    Convolutions and the last layer are uniform with the variance 1 / fan-in, batch normalisations the identity.
    """
    layers = [("conv1", "bn1", (64, 3, 3, 3))]
    for stage, (before, k) in enumerate(pairwise((64, 16, 32, 64)), 1):
        for block in range(3):
            at, into = f"layer{stage}.{block}", k if block else before
            layers.append((f"{at}.conv1", f"{at}.bn1", (k, into, 3, 3)))
            layers.append((f"{at}.conv2", f"{at}.bn2", (k, k, 3, 3)))
            layers += [(f"{at}.shortcut.0", f"{at}.shortcut.1", (k, into, 1, 1))] * (into != k)
    rng, arrays = generator(0, "resnet20"), dict[str, np.ndarray]()
    for name, norm, shape in [*layers, ("linear", "", (100, 256))]:
        bound = np.sqrt(3.0 / np.prod(shape[1:]))
        arrays[f"{name}.weight"] = ((2 * rng.random(shape) - 1) * bound).astype(np.float32)
        if norm:
            for part, value in {"weight": 1, "bias": 0, "running_mean": 0, "running_var": 1}.items():
                arrays[f"{norm}.{part}"] = np.full(shape[0], value, np.float32)
            arrays[f"{norm}.num_batches_tracked"] = np.array(0, np.int64)
    return {"resnet20_cifar100.npz": npz(arrays | {"linear.bias": np.zeros(100, np.float32)})}


MAKERS: dict[str, Callable[[], dict[str, bytes]]] = {
    make.__name__: make for make in (mnist, svhn, cifar10, cifar100, pneumonia, weights)
}


def enlarged(images: np.ndarray, factor: int) -> np.ndarray:
    """Return images whose pixels became squares: (n, h, w) to (n, factor h, factor w)."""
    return images.repeat(factor, axis=1).repeat(factor, axis=2)


def coloured(ink: np.ndarray) -> np.ndarray:
    """Return light digits on dark ground, each in its own two colours: (n, 8, 8) to (32, 32, 3, n) uint8."""
    seed = np.arange(3)[:, None] * 89 + np.arange(len(ink)) * 37  # (3, n)
    dark, light = seed % 96, 160 + seed * 5 % 96
    cover = enlarged(ink, 4).transpose(1, 2, 0)[:, :, None]  # (32, 32, 1, n)
    return (dark + (light - dark) * cover // 16).astype(np.uint8)


def stored_gzip(content: bytes) -> bytes:
    """Return a gzip file of stored blocks, because compressed bytes differ between builds of zlib."""
    blocks = [content[start : start + 0xFFFF] for start in range(0, len(content), 0xFFFF)]
    packed = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
    for block in blocks:
        packed += struct.pack("<BHH", block is blocks[-1], len(block), len(block) ^ 0xFFFF) + block
    return packed + struct.pack("<II", zlib.crc32(content), len(content))


def npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return an .npz, as `write_arrays` writes it."""
    file = BytesIO()
    write_arrays(file, arrays)
    return file.getvalue()


def pickled(batch: Mapping[str, object]) -> bytes:
    """Return a batch of CIFAR, whose keys are bytes."""
    return pickle.dumps({key.encode(): value for key, value in batch.items()}, protocol=3)
