"""CIFAR-10 (Krizhevsky 2009): what is in the picture? Colour images of 32 x 32 pixels, 10 classes."""

from pathlib import Path

from dplangevin.images import ImageSet
from dplangevin.loaders.batches import names, read

TRAIN = tuple(f"data_batch_{k}" for k in range(1, 6))


def load(folder: str | Path, limit: int | None = None) -> ImageSet:
    """Five batches to train on and one to test on: x (n, 3, 32, 32), 50,000 and 10,000 images in the official order.

    limit: images of each part to keep, from the top (None = all). meta has the names of the classes as `labels`.
    Raises DataError, naming the file and what is wrong with it, for a file that is not of this format.
    """
    folder = Path(folder)
    labels = names(folder / "batches.meta", "label_names", 10)
    train = read([folder / name for name in TRAIN], "labels", 10, limit)
    test = read([folder / "test_batch"], "labels", 10, limit)
    return ImageSet(*train, *test, {"name": "cifar10", "classes": 10, "labels": labels})
