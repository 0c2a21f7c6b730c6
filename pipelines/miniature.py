"""Small stand-ins for the image data sets, in their official formats: python pipelines/miniature.py FOLDER.

The images are scikit-learn's 8 x 8 digits, enlarged. FOLDER can then be a DATA_MIRROR; the command prints the
`files` of conf/scale/smoke.yaml. No byte depends on the machine: nothing is compressed and nothing is dated.
"""

import struct
import sys
import zlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from scipy.io import savemat
from sklearn.datasets import load_digits

from dplangevin.data import sha256

PARTS = {"train": slice(0, 600), "test": slice(600, 800), "extra": slice(800, 1000)}  # of 1,797 digits


def write(folder: str | Path, parts: dict[str, slice] = PARTS) -> None:
    """mnist/ and svhn/ with every file of conf/dataset/, from the given rows of the digits."""
    bunch = load_digits()
    mnist, svhn = Path(folder) / "mnist", Path(folder) / "svhn"
    for directory in (mnist, svhn):
        directory.mkdir(parents=True, exist_ok=True)
    for part, rows in parts.items():
        ink, y = bunch.images[rows].astype(np.int64), bunch.target[rows].astype(np.uint8)  # ink 0 to 16
        svhn.joinpath(f"{part}_32x32.mat").write_bytes(mat(coloured(ink), np.where(y == 0, 10, y)[:, None]))
        if part != "extra":
            name = {"train": "train", "test": "t10k"}[part]
            grey = np.pad(enlarged(ink * 255 // 16, 3), ((0, 0), (2, 2), (2, 2)))
            mnist.joinpath(f"{name}-images-idx3-ubyte.gz").write_bytes(stored_gzip(idx(grey)))
            mnist.joinpath(f"{name}-labels-idx1-ubyte.gz").write_bytes(stored_gzip(idx(y)))


def enlarged(images: np.ndarray, factor: int) -> np.ndarray:
    """Every pixel as a square of factor x factor: (n, h, w) to (n, factor h, factor w)."""
    return images.repeat(factor, axis=1).repeat(factor, axis=2)


def coloured(ink: np.ndarray) -> np.ndarray:
    """Digits of a light colour on a dark one, other colours each: (n, 8, 8) to (32, 32, 3, n) uint8."""
    seed = np.arange(3)[:, None] * 89 + np.arange(len(ink)) * 37  # (3, n)
    dark, light = seed % 96, 160 + seed * 5 % 96
    cover = enlarged(ink, 4).transpose(1, 2, 0)[:, :, None]  # (32, 32, 1, n)
    return (dark + (light - dark) * cover // 16).astype(np.uint8)


def idx(array: np.ndarray) -> bytes:
    """The idx format of bytes: magic number, lengths of the axes, values."""
    header = struct.pack(f">{array.ndim + 1}I", 0x0800 + array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def stored_gzip(content: bytes) -> bytes:
    """A gzip file of stored blocks, without name or time: compressed bytes differ between builds of zlib."""
    packed = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
    for start in range(0, len(content), 0xFFFF):
        block = content[start : start + 0xFFFF]
        last = start + len(block) == len(content)
        packed += struct.pack("<BHH", last, len(block), len(block) ^ 0xFFFF) + block
    return packed + struct.pack("<II", zlib.crc32(content), len(content))


def mat(images: np.ndarray, labels: np.ndarray) -> bytes:
    """A MATLAB 5 file of X and y, not compressed; its text of 116 bytes says neither machine nor date."""
    file = BytesIO()
    savemat(file, {"X": images, "y": labels})
    return b"MATLAB 5.0 MAT-file".ljust(116) + file.getvalue()[116:]


def main(argv: Sequence[str]) -> None:
    write(argv[0])
    for directory in sorted(Path(argv[0]).iterdir()):
        print(f"  {directory.name}:\n    files:")
        for path in sorted(directory.iterdir()):
            print(f"      - {{name: {path.name}, size: {path.stat().st_size}, bundled: null, urls: [],")
            print(f"         sha256: {sha256(path)}}}")


if __name__ == "__main__":
    main(sys.argv[1:])
