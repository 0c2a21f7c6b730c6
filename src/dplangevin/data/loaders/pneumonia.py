"""Pneumonia (Kermany et al. 2018): chest X-rays of children, normal or with bacterial or viral pneumonia.

Differs: ryffel2022 uses the original pictures, of many sizes. Ours are grey, 112 x 112, resized and lossy.
Differs: ryffel2022 trains on 5,163 images, the cleaned edition of gkaissis/PriMIA. We use the common edition.

`source` in conf/dataset/pneumonia.yaml says how the pictures were resized. The common edition has 5,216
images in its folder train and 16 in val, together the original 5,232. The shares of the classes in ryffel2022
(26 % bacterial, 48 % normal) are the shares of our files if the two names are exchanged.
"""

from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image

from dplangevin.data import DataError, Dataset
from dplangevin.data.files import raw_file

FILE = "chest_xray_112_webp.npz"
SIDE = 112
LABELS = ("normal", "bacteria", "virus")
SPLITS = ("train", "val", "test")
TRAINING = {"drop": (0,), "train": (0, 1)}  # `validation` -> the folders to train on
MOST = 2**26  # at most this many bytes in the arrays; the real archive has 8 million


def load(folder: str | Path, validation: str = "drop", limit: int | None = None) -> Dataset:
    """Load grey images x (1, n, 1, 112, 112), y = 0 normal, 1 bacteria, 2 virus, in the order of the file.

    There are 624 images to test on. With "drop", the folder train (5,216 images) is trained on and the 16 images of
    val are left out; with "train", both are trained on. `limit` keeps images evenly spaced, because the file is
    sorted by class.
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
    """Return the n pictures as encoded bytes, their labels (n,) int64 and their folders (n,): 0 train, 1 val, 2 test.

    In the archive, `webp` holds the bytes of all pictures, and `offsets` (n + 1,) holds where each begins and the last
    ends.
    """
    file = raw_file(path)
    try:
        with open(file, "rb") as handle, np.load(handle, allow_pickle=False) as archive:
            if (size := sum(info.file_size for info in archive.zip.infolist())) > MOST:
                raise ValueError(f"{size} bytes of arrays, expected at most {MOST}")
            content = {key: archive[key] for key in ("webp", "offsets", "label", "split")}
            written = tuple(archive["label_names"].tolist()), tuple(archive["split_names"].tolist())
    except Exception as error:  # numpy and zipfile raise many kinds of errors
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
    """Return one WebP (or PGM) picture as (112, 112) uint8; `where` begins the message of a DataError."""
    try:
        with Image.open(BytesIO(picture), formats=("WEBP", "PPM")) as image:
            width, height = image.size  # from the header: nothing is decoded yet
            if (width, height) == (SIDE, SIDE):
                return np.asarray(image.convert("L"))
    except Exception as error:  # Pillow raises many kinds of errors
        raise DataError(f"{where} cannot be decoded: {error}") from error
    raise DataError(f"{where} is {height} x {width} pixels, expected {SIDE} x {SIDE}")
