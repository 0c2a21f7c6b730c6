"""Scikit-learn's 8 x 8 digits, enlarged to the images of another data set: what scale=smoke learns from."""

from pathlib import Path

import numpy as np

from dplangevin.data import Dataset

ROWS = {  # data set -> the digits to train on, and those to test on
    "mnist": (np.r_[:600], np.r_[600:800]),
    "svhn": (np.r_[:600, 800:1000], np.r_[600:800]),
    "cifar10": (np.r_[:300], np.r_[300:400]),
    "cifar100": (np.r_[:300], np.r_[300:400]),
    "pneumonia": (np.r_[:120], np.r_[126:186]),
}
CLASSES = {"cifar100": 100, "pneumonia": 3}  # of the others, 10


def load(folder: str | Path, name: str, limit: int | None = None, extra: bool = True) -> Dataset:
    """Return images with the shape of those of the data set `name`; `limit` keeps the first of each part.

    The label is the digit; for CIFAR-100, 10 times the digit plus the row mod 10; for Pneumonia, the digit mod 3.
    """
    from sklearn.datasets import load_digits

    bunch, rows = load_digits(), np.arange(1000)
    ink, y = bunch.images[rows].astype(np.int64), bunch.target[rows].astype(np.int64)
    if name == "mnist":
        x = np.pad(enlarged(ink * 255 // 16, 3), ((0, 0), (2, 2), (2, 2)))[:, None]
    elif name == "pneumonia":
        x, y = enlarged(ink * 255 // 16, 14)[:, None], y % 3
    else:
        x = coloured(ink, np.where(rows < 600, rows, rows % 200) if name == "svhn" else rows)
        y = 10 * y + rows % 10 if name == "cifar100" else y
    train, test = (part[:limit] for part in ROWS[name])
    x = x.astype(np.uint8)
    meta = {"name": name, "classes": CLASSES.get(name, 10)}
    return Dataset.from_arrays(x[train], y[train], x[test], y[test], meta)


def enlarged(images: np.ndarray, factor: int) -> np.ndarray:
    """Return images whose pixels became squares: (n, h, w) to (n, factor h, factor w)."""
    return images.repeat(factor, axis=1).repeat(factor, axis=2)


def coloured(ink: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return light digits on dark ground, in two colours by the number of the row: (n, 8, 8) to (n, 3, 32, 32)."""
    seed = (np.arange(3) * 89 + rows[:, None] * 37)[..., None, None]
    dark, light = seed % 96, 160 + seed * 5 % 96
    return dark + (light - dark) * enlarged(ink, 4)[:, None] // 16
