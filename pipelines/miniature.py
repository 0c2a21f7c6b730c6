"""Small stand-ins for the image data sets and weights, in their official formats: pipelines/miniature.py FOLDER.

The images are scikit-learn's 8 x 8 digits, enlarged; the weights are random. FOLDER can then be a DATA_MIRROR;
the command prints the `files` of conf/scale/smoke.yaml. No byte depends on the machine: nothing is compressed and
nothing is dated, and random numbers go through elementwise IEEE operations only.
"""

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from formats import idx, mat, npz, pickled, stored_gzip
from sklearn.datasets import load_digits

from dplangevin.data import generator, sha256

KEYS = ("mnist", "svhn", "cifar10", "cifar100", "pneumonia")
PARTS = {"train": slice(0, 600), "test": slice(600, 800), "extra": slice(800, 1000)}  # of 1,797 digits
CIFAR = ((60,) * 5, 100)  # images of each training batch, and of the test batch; CIFAR-100 has one of 300
PNEUMONIA = {"train": 120, "val": 6, "test": 60}  # images of each folder


def write(folder: str | Path, parts: dict[str, slice] = PARTS) -> None:
    """The files of conf/dataset/ and conf/weights/; mnist/ and svhn/ from the given rows of the digits."""
    for name in (*KEYS, "weights"):
        (Path(folder) / name).mkdir(parents=True, exist_ok=True)
    write_digits(Path(folder), parts)
    write_cifar(Path(folder))
    write_pneumonia(Path(folder) / "pneumonia")
    (Path(folder) / "weights/resnet20_cifar100.npz").write_bytes(npz(resnet20()))


def write_digits(folder: Path, parts: dict[str, slice]) -> None:
    """mnist/ and svhn/, from the given rows of the digits."""
    bunch = load_digits()
    for part, rows in parts.items():
        ink, y = bunch.images[rows].astype(np.int64), bunch.target[rows].astype(np.uint8)  # ink 0 to 16
        content = mat(coloured(ink), np.where(y == 0, 10, y)[:, None])
        folder.joinpath(f"svhn/{part}_32x32.mat").write_bytes(content)
        if part != "extra":
            name = {"train": "train", "test": "t10k"}[part]
            grey = np.pad(enlarged(ink * 255 // 16, 3), ((0, 0), (2, 2), (2, 2)))
            folder.joinpath(f"mnist/{name}-images-idx3-ubyte.gz").write_bytes(stored_gzip(idx(grey)))
            folder.joinpath(f"mnist/{name}-labels-idx1-ubyte.gz").write_bytes(stored_gzip(idx(y)))


def write_cifar(folder: Path) -> None:
    """cifar10/, whose label is the digit, and cifar100/, whose fine label is 10 times the digit plus its row mod 10."""
    bunch, (batches, test) = load_digits(), CIFAR
    n = sum(batches)
    pixels = coloured(bunch.images[: n + test].astype(np.int64)).transpose(3, 2, 0, 1).reshape(-1, 3072)
    y = bunch.target[: n + test].astype(int).tolist()
    fine = [10 * digit + row % 10 for row, digit in enumerate(y)]
    starts = np.cumsum([0, *batches, test]).tolist()
    for k, (a, b) in enumerate(pairwise(starts), 1):
        last = k == len(batches) + 1
        content = {
            "batch_label": "testing batch 1 of 1" if last else f"training batch {k} of {len(batches)}",
            "labels": y[a:b],
            "data": pixels[a:b],
            "filenames": [f"digit_{row:04d}.png" for row in range(a, b)],
        }
        name = "test_batch" if last else f"data_batch_{k}"
        folder.joinpath("cifar10", name).write_bytes(pickled(content))
    meta: dict[str, object] = {"num_cases_per_batch": batches[0], "num_vis": 3072}
    meta["label_names"] = [f"digit {digit}" for digit in range(10)]
    folder.joinpath("cifar10/batches.meta").write_bytes(pickled(meta))
    for name, a, b in (("train", 0, n), ("test", n, n + test)):
        content = {
            "filenames": [f"digit_{row:04d}.png" for row in range(a, b)],
            "batch_label": f"{name}ing batch 1 of 1",
            "fine_labels": fine[a:b],
            "coarse_labels": [label // 5 for label in fine[a:b]],
            "data": pixels[a:b],
        }
        folder.joinpath("cifar100", name).write_bytes(pickled(content))
    meta = {"fine_label_names": [f"digit {label // 10}, {label % 10}" for label in range(100)]}
    meta["coarse_label_names"] = [f"digits {label}" for label in range(20)]
    folder.joinpath("cifar100/meta").write_bytes(pickled(meta))


def write_pneumonia(folder: Path) -> None:
    """The archive of pictures, here PGM, which no encoder can change; the label is the digit modulo 3."""
    n = sum(PNEUMONIA.values())
    bunch = load_digits()
    greys = enlarged(bunch.images[:n].astype(np.int64) * 255 // 16, 14).astype(np.uint8)
    pictures = [b"P5\n112 112\n255\n" + grey.tobytes() for grey in greys]
    arrays = {
        "webp": np.frombuffer(b"".join(pictures), np.uint8),
        "offsets": np.cumsum([0, *map(len, pictures)]).astype(np.int64),
        "names": np.array([f"digit_{row:04d}.pgm" for row in range(n)]),
        "label": (bunch.target[:n] % 3).astype(np.uint8),
        "split": np.repeat(np.arange(3, dtype=np.uint8), list(PNEUMONIA.values())),
        "label_names": np.array(["normal", "bacteria", "virus"]),
        "split_names": np.array(list(PNEUMONIA)),
    }
    folder.joinpath("chest_xray_112_webp.npz").write_bytes(npz(arrays))


def resnet20() -> dict[str, np.ndarray]:
    """Random parameters under the names and with the shapes of conf/weights/resnet20_cifar100.yaml.

    Convolutions and the last layer are uniform with the variance 1 / fan-in; batch norms, as before
    any training, change nothing.
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


def enlarged(images: np.ndarray, factor: int) -> np.ndarray:
    """Every pixel as a square of factor x factor: (n, h, w) to (n, factor h, factor w)."""
    return images.repeat(factor, axis=1).repeat(factor, axis=2)


def coloured(ink: np.ndarray) -> np.ndarray:
    """Digits of a light colour on a dark one, other colours each: (n, 8, 8) to (32, 32, 3, n) uint8."""
    seed = np.arange(3)[:, None] * 89 + np.arange(len(ink)) * 37  # (3, n)
    dark, light = seed % 96, 160 + seed * 5 % 96
    cover = enlarged(ink, 4).transpose(1, 2, 0)[:, :, None]  # (32, 32, 1, n)
    return (dark + (light - dark) * cover // 16).astype(np.uint8)


def main(argv: Sequence[str]) -> None:
    folder = Path(argv[0])
    write(folder)
    print("dataset:")
    for key in KEYS:
        print_files(key, sorted(folder.joinpath(key).iterdir()))
    print("weights:")
    for path in sorted(folder.joinpath("weights").iterdir()):
        print_files(path.stem, [path])


def print_files(key: str, paths: Sequence[Path]) -> None:
    print(f"  {key}:\n    files:")
    for path in paths:
        print(f"      - {{name: {path.name}, size: {path.stat().st_size}, bundled: null, urls: [],")
        print(f"         sha256: {sha256(path)}}}")


if __name__ == "__main__":
    main(sys.argv[1:])
