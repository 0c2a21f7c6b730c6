"""Pneumonia (Kermany et al. 2018): chest X-rays of children, normal or with bacterial or viral pneumonia.

Differs: ryffel2022 uses the original pictures, of many sizes. Ours are grey, 112 x 112, resized and lossy.
Differs: ryffel2022 trains on 5,163 images, the cleaned edition of gkaissis/PriMIA. We use the common edition.

`source` in conf/dataset/pneumonia.yaml says how the pictures were resized. The common edition has 5,216
images in its folder train and 16 in val, together the original 5,232. The shares of the classes in ryffel2022
(26 % bacterial, 48 % normal) are the shares of our files if the two names are exchanged.
"""

from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from dplangevin.data import Dataset
from dplangevin.data.archives import raw_file

FILE = "chest_xray_112_webp.npz"
SIDE = 112
LABELS = ("normal", "bacteria", "virus")


def load(folder: str | Path, limit: int | None = None) -> Dataset:
    """Load grey images x (1, n, 1, 112, 112), y = 0 normal, 1 bacteria, 2 virus, in the order of the file.

    There are 5,216 images to train on and 624 to test on. `limit` keeps images evenly spaced, because the file is
    sorted by class. In the archive, `webp` has the bytes of all pictures, `offsets` (n + 1,) where each begins and the
    last ends.
    """
    with open(raw_file(Path(folder) / FILE), "rb") as handle, np.load(handle, allow_pickle=False) as archive:
        encoded, offsets, y, split = (archive[key] for key in ("webp", "offsets", "label", "split"))

    def part(folder: int) -> tuple[np.ndarray, np.ndarray]:
        rows = np.flatnonzero(split == folder)
        if limit is not None and limit < len(rows):
            rows = rows[np.arange(limit) * len(rows) // limit]
        x = np.empty((len(rows), 1, SIDE, SIDE), np.uint8)
        for i, row in enumerate(rows):
            picture = BytesIO(encoded[offsets[row] : offsets[row + 1]].tobytes())
            with Image.open(picture, formats=("WEBP",)) as image:
                x[i, 0] = np.asarray(image.convert("L"))
        return x, y[rows].astype(np.int64)

    meta = {"name": "pneumonia", "classes": len(LABELS), "labels": list(LABELS)}
    return Dataset.from_arrays(*part(0), *part(2), meta)
