"""Pneumonia (Kermany et al. 2018): is a child's chest X-ray normal, or with bacterial or viral pneumonia?

Differs: ryffel2022 has the original pictures, of many sizes; here each is 112 x 112 greys, resized and lossy
(`source` of conf/dataset/pneumonia.yaml says how). Its 5,163 training images are the cleaned edition of
gkaissis/PriMIA; the common one, which is ours, has 5,216 in its folder train and 16 in val, the original 5,232. Its
shares of the classes (26 % bacterial, 48 % normal) are those of the files with the two names exchanged.
"""

from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image

from dplangevin.data import DataError, Dataset, raw_file

FILE = "chest_xray_112_webp.npz"
SIDE = 112
LABELS = ("normal", "bacteria", "virus")
SPLITS = ("train", "val", "test")
TRAINING = {"drop": (0,), "train": (0, 1)}  # folders to train on, by `validation`
MOST = 2**26  # bytes of the archive's arrays; those of the real one are 8 million


def load(folder: str | Path, validation: str = "drop", limit: int | None = None) -> Dataset:
    """Greys x (1, n, 1, 112, 112), y = 0 normal, 1 bacteria, 2 virus, in the order of the file; 624 images to test on.

    validation: "drop" trains on the folder train, 5,216 images, and leaves the 16 of val out; "train" trains on
    both, 5,232. limit: images of each part to keep, evenly spaced, since the file is sorted by class (None = all).
    Raises DataError, naming the file and what is wrong with it, for a file that is not of this format, and
    ValueError for another `validation`.
    """
    if validation not in TRAINING:
        raise ValueError(f"validation is {validation!r}: use one of {list(TRAINING)}")
    path = Path(folder) / FILE
    pictures, y, split = read(path)

    def part(folders: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        rows = np.flatnonzero(np.isin(split, folders))
        if limit is not None and limit < len(rows):
            rows = rows[np.arange(limit) * len(rows) // limit]
        x = np.empty((len(rows), 1, SIDE, SIDE), np.uint8)
        for i, row in enumerate(rows):
            x[i, 0] = greys(pictures[row], f"{path}: picture {row} (from 0)")
        return x, y[rows]

    meta = {"name": "pneumonia", "classes": len(LABELS), "labels": list(LABELS)}
    return Dataset.from_arrays(*part(TRAINING[validation]), *part((2,)), meta)


def read(path: Path) -> tuple[list[bytes], np.ndarray, np.ndarray]:
    """The n pictures as they are encoded, their labels (n,) int64 and their folders (n,), 0 train, 1 val, 2 test.

    In the archive `webp` holds the bytes of all pictures and `offsets` (n + 1,) where each begins and the last ends.
    """
    file = raw_file(path)
    try:
        with open(file, "rb") as handle, np.load(handle, allow_pickle=False) as archive:
            if (size := sum(info.file_size for info in archive.zip.infolist())) > MOST:
                raise ValueError(f"{size} bytes of arrays, expected at most {MOST}")
            content = {key: archive[key] for key in ("webp", "offsets", "label", "split")}
            written = tuple(archive["label_names"].tolist()), tuple(archive["split_names"].tolist())
    except Exception as error:  # numpy and zipfile raise many kinds
        raise DataError(f"{path} is not the archive of pictures: {type(error).__name__}: {error}") from error
    if written != (LABELS, SPLITS):
        raise DataError(f"{path}: labels and folders are {written}, expected {(LABELS, SPLITS)}")
    encoded, offsets, label, split = content.values()
    n = len(label) if label.ndim == 1 else -1
    if offsets.shape != (n + 1,) or split.shape != (n,):
        shapes = {key: array.shape for key, array in content.items()}
        raise DataError(f"{path} has {shapes}, expected label (n,), split (n,) and offsets (n + 1,)")
    if offsets[0] != 0 or offsets[-1] != encoded.size or (np.diff(offsets) < 0).any():
        raise DataError(f"{path}: offsets do not run from 0 to the {encoded.size} bytes of webp")
    for name, values, count in (("label", label, len(LABELS)), ("split", split, len(SPLITS))):
        if (wrong := values[~np.isin(values, np.arange(count))]).size:
            raise DataError(f"{path}: {name} has {wrong[0]}, expected 0 to {count - 1}")
    whole = encoded.tobytes()
    pictures = [whole[a:b] for a, b in pairwise(offsets)]
    return pictures, label.astype(np.int64), split


def greys(picture: bytes, where: str) -> np.ndarray:
    """One WebP (or PGM) picture as (112, 112) uint8. `where` begins the message of a DataError."""
    try:
        with Image.open(BytesIO(picture), formats=("WEBP", "PPM")) as image:
            width, height = image.size  # as the header says: nothing is decoded yet
            if (width, height) == (SIDE, SIDE):
                return np.asarray(image.convert("L"))
    except Exception as error:  # Pillow raises many kinds
        raise DataError(f"{where} cannot be decoded: {error}") from error
    raise DataError(f"{where} is {height} x {width} pixels, expected {SIDE} x {SIDE}")
