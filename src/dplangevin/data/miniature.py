"""Small stand-ins for the image data sets and weights, in their official formats, used by scale=smoke.

The images are scikit-learn's 8 x 8 digits, enlarged. The weights are random. No byte depends on the machine:

- nothing is compressed, because compressed bytes differ between builds of zlib;
- nothing has a date;
- random numbers go through elementwise IEEE operations only.

`python -m dplangevin.data.miniature FOLDER` writes all files in the layout of a DATA_MIRROR, and prints the
`files` of conf/scale/smoke.yaml.
"""

import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy as np

from dplangevin.data.splits import generator
from dplangevin.files import sha256

SOURCE = "miniature"  # the word among the urls of a file that asks for a stand-in
PARTS = {"train": slice(0, 600), "test": slice(600, 800), "extra": slice(800, 1000)}  # of 1,797 digits
CIFAR = ((60,) * 5, 100)  # images in each training batch, in the test batch; CIFAR-100 has one batch of 300
PNEUMONIA = {"train": 120, "val": 6, "test": 60}  # images in each folder


@cache
def files(group: str) -> dict[str, bytes]:
    """Return the files of a data set, or of "weights", by name."""
    if group not in MAKERS:
        raise ValueError(f"no miniature of {group!r}: there are {', '.join(MAKERS)}")
    return MAKERS[group]()


def write(folder: str | Path, parts: Mapping[str, slice] = PARTS) -> None:
    """Write all files in the layout of a mirror.

    - `folder`: The root of the mirror.
    - `parts`: mapping of str to slice. Rows of the digits for mnist/ and svhn/.
    """
    for group, make in MAKERS.items():
        (Path(folder) / group).mkdir(parents=True, exist_ok=True)
        for name, data in (make(parts) if make in (mnist, svhn) else files(group)).items():
            (Path(folder) / group / name).write_bytes(data)


def digits(rows: slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
    """Return the ink (n, 8, 8) of the digits, from 0 to 16, and their labels (n,)."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return bunch.images[rows].astype(np.int64), bunch.target[rows]


def mnist(parts: Mapping[str, slice] = PARTS) -> dict[str, bytes]:
    """Return the four idx files of MNIST, from the given rows of the digits."""
    files = {}
    for part, name in (("train", "train"), ("test", "t10k")):
        ink, y = digits(parts[part])
        grey = np.pad(enlarged(ink * 255 // 16, 3), ((0, 0), (2, 2), (2, 2)))
        files[f"{name}-images-idx3-ubyte.gz"] = stored_gzip(idx(grey))
        files[f"{name}-labels-idx1-ubyte.gz"] = stored_gzip(idx(y.astype(np.uint8)))
    return files


def svhn(parts: Mapping[str, slice] = PARTS) -> dict[str, bytes]:
    """Return the MATLAB files of SVHN, one for each part."""
    files = {}
    for part, rows in parts.items():
        ink, y = digits(rows)
        files[f"{part}_32x32.mat"] = mat(coloured(ink), np.where(y == 0, 10, y).astype(np.uint8)[:, None])
    return files


def cifar() -> tuple[np.ndarray, list[int], int]:
    """Return the pixels (n + m, 3072), the digits, and the number n of training images."""
    n, m = sum(CIFAR[0]), CIFAR[1]
    ink, y = digits(slice(n + m))
    return coloured(ink).transpose(3, 2, 0, 1).reshape(-1, 3072), y.astype(int).tolist(), n


def cifar10() -> dict[str, bytes]:
    """Return the files of CIFAR-10; the label is the digit."""
    pixels, y, _ = cifar()
    batches, test = CIFAR
    files = {}
    for k, (a, b) in enumerate(pairwise(np.cumsum([0, *batches, test]).tolist()), 1):
        last = k == len(batches) + 1
        content = {
            "batch_label": "testing batch 1 of 1" if last else f"training batch {k} of {len(batches)}",
            "labels": y[a:b],
            "data": pixels[a:b],
            "filenames": [f"digit_{row:04d}.png" for row in range(a, b)],
        }
        files["test_batch" if last else f"data_batch_{k}"] = pickled(content)
    meta: dict[str, object] = {"num_cases_per_batch": batches[0], "num_vis": 3072}
    meta["label_names"] = [f"digit {digit}" for digit in range(10)]
    return files | {"batches.meta": pickled(meta)}


def cifar100() -> dict[str, bytes]:
    """Return the files of CIFAR-100; the fine label is 10 times the digit plus the row mod 10."""
    pixels, y, n = cifar()
    fine = [10 * digit + row % 10 for row, digit in enumerate(y)]
    files = {}
    for name, a, b in (("train", 0, n), ("test", n, len(y))):
        content = {
            "filenames": [f"digit_{row:04d}.png" for row in range(a, b)],
            "batch_label": f"{name}ing batch 1 of 1",
            "fine_labels": fine[a:b],
            "coarse_labels": [label // 5 for label in fine[a:b]],
            "data": pixels[a:b],
        }
        files[name] = pickled(content)
    meta = {"fine_label_names": [f"digit {label // 10}, {label % 10}" for label in range(100)]}
    meta["coarse_label_names"] = [f"digits {label}" for label in range(20)]
    return files | {"meta": pickled(meta)}


def pneumonia() -> dict[str, bytes]:
    """Return the archive of X-rays; the label is the digit modulo 3.

    The pictures are PGM, because no encoder can change their bytes.
    """
    n = sum(PNEUMONIA.values())
    ink, y = digits(slice(n))
    pictures = [
        b"P5\n112 112\n255\n" + grey.tobytes() for grey in enlarged(ink * 255 // 16, 14).astype(np.uint8)
    ]
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


def resnet20() -> dict[str, np.ndarray]:
    """Return random parameters with the names and shapes of conf/weights/resnet20_cifar100.yaml.

    Convolutions and the last layer are uniform with the variance 1 / fan-in. Batch normalisations are the
    identity, as before any training.
    """
    rng, arrays = generator(0, "resnet20"), {}

    def uniform(name: str, *shape: int) -> None:
        bound = np.sqrt(3.0 / np.prod(shape[1:]))
        arrays[f"{name}.weight"] = ((2 * rng.random(shape) - 1) * bound).astype(np.float32)

    def norm(name: str, channels: int) -> None:
        values = {"weight": 1, "bias": 0, "running_mean": 0, "running_var": 1}
        for part, value in values.items():
            arrays[f"{name}.{part}"] = np.full(channels, value, np.float32)
        arrays[f"{name}.num_batches_tracked"] = np.array(0, np.int64)

    uniform("conv1", 64, 3, 3, 3)
    norm("bn1", 64)
    before = 64
    for stage, channels in enumerate((16, 32, 64), 1):
        for block in range(3):
            name = f"layer{stage}.{block}"
            uniform(f"{name}.conv1", channels, before, 3, 3)
            norm(f"{name}.bn1", channels)
            uniform(f"{name}.conv2", channels, channels, 3, 3)
            norm(f"{name}.bn2", channels)
            if before != channels:
                uniform(f"{name}.shortcut.0", channels, before, 1, 1)
                norm(f"{name}.shortcut.1", channels)
            before = channels
    uniform("linear", 100, 256)
    arrays["linear.bias"] = np.zeros(100, np.float32)
    return arrays


def weights() -> dict[str, bytes]:
    """Return the files of published weights."""
    return {"resnet20_cifar100.npz": npz(resnet20())}


MAKERS: dict[str, Callable[..., dict[str, bytes]]] = {
    "mnist": mnist, "svhn": svhn, "cifar10": cifar10, "cifar100": cifar100, "pneumonia": pneumonia,
    "weights": weights,
}  # fmt: skip


def enlarged(images: np.ndarray, factor: int) -> np.ndarray:
    """Return images whose pixels became squares of factor x factor: (n, h, w) to (n, factor h, factor w)."""
    return images.repeat(factor, axis=1).repeat(factor, axis=2)


def coloured(ink: np.ndarray) -> np.ndarray:
    """Return light digits on dark ground, each in its own two colours: (n, 8, 8) to (32, 32, 3, n) uint8."""
    seed = np.arange(3)[:, None] * 89 + np.arange(len(ink)) * 37  # (3, n)
    dark, light = seed % 96, 160 + seed * 5 % 96
    cover = enlarged(ink, 4).transpose(1, 2, 0)[:, :, None]  # (32, 32, 1, n)
    return (dark + (light - dark) * cover // 16).astype(np.uint8)


# File formats


def idx(array: np.ndarray) -> bytes:
    """Return an array of bytes in the idx format: magic number, lengths of the axes, values."""
    header = struct.pack(f">{array.ndim + 1}I", 0x0800 + array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def stored_gzip(content: bytes) -> bytes:
    """Return a gzip file of stored blocks, without name or time.

    Nothing is compressed, because compressed bytes differ between builds of zlib.
    """
    packed = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
    for start in range(0, len(content), 0xFFFF):
        block = content[start : start + 0xFFFF]
        last = start + len(block) == len(content)
        packed += struct.pack("<BHH", last, len(block), len(block) ^ 0xFFFF) + block
    return packed + struct.pack("<II", zlib.crc32(content), len(content))


def mat(images: np.ndarray, labels: np.ndarray) -> bytes:
    """Return an uncompressed MATLAB 5 file of X and y.

    Its header text of 116 bytes names neither machine nor date.
    """
    from scipy.io import savemat

    file = BytesIO()
    savemat(file, {"X": images, "y": labels})
    return b"MATLAB 5.0 MAT-file".ljust(116) + file.getvalue()[116:]


def npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return an .npz of arrays with any number of axes, uncompressed and without dates."""
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = BytesIO()
            np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy")  # its default date is in 1980
            info.create_system = 3
            archive.writestr(info, member.getvalue())
    return file.getvalue()


def pickled(value: object) -> bytes:
    """Return a dictionary as Python 2 pickled it (protocol 2, NumPy 1).

    The memo is left out, because nothing here refers to it.
    """
    return b"\x80\x02" + _opcodes(value) + b"."


def _opcodes(value: object) -> bytes:
    match value:
        case str():
            return b"U" + bytes([len(value)]) + value.encode("ascii")
        case int():
            return b"J" + struct.pack("<i", value)
        case list():
            return b"](" + b"".join(map(_opcodes, value)) + b"e"
        case dict():
            items = b"".join(_opcodes(key) + _opcodes(item) for key, item in value.items())
            return b"}(" + items + b"u"
        case np.ndarray():  # (n, d) bytes
            empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
            kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNN" + _opcodes(-1) * 2 + b"K\x00tb"
            shape = b"".join(map(_opcodes, value.shape)) + b"\x86"
            data = b"T" + struct.pack("<i", value.size) + value.tobytes()
            return empty + b"(K\x01" + shape + kind + b"\x89" + data + b"tb"
        case _:
            raise TypeError(f"{type(value).__name__} has no place in a batch")


def main(argv: Sequence[str]) -> None:
    """Write all files to the folder argv[0] and print their entries for conf/scale/smoke.yaml."""
    folder = Path(argv[0])
    write(folder)
    print("dataset:")
    for key in [*MAKERS][:-1]:
        print_files(key, sorted(folder.joinpath(key).iterdir()))
    print("weights:")
    for path in sorted(folder.joinpath("weights").iterdir()):
        print_files(path.stem, [path])


def print_files(key: str, paths: Sequence[Path]) -> None:
    """Print the `files` of one entry of conf/scale/smoke.yaml: names, sizes and sha256."""
    print(f"  {key}:\n    files:")
    for path in paths:
        print(f"      - {{name: {path.name}, size: {path.stat().st_size}, urls: [{SOURCE}],")
        print(f"         sha256: {sha256(path)}}}")


if __name__ == "__main__":
    main(sys.argv[1:])
