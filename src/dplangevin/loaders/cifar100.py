"""CIFAR-100 (Krizhevsky 2009): what is in the picture? Colour images of 32 x 32 pixels, 100 classes."""

from pathlib import Path

from dplangevin.images import ImageSet
from dplangevin.loaders.batches import names, read


def load(folder: str | Path, limit: int | None = None) -> ImageSet:
    """The files train and test: x (n, 3, 32, 32), 50,000 and 10,000 images in the official order, y = the fine label.

    limit: images of each part to keep, from the top (None = all). meta has the names of the classes as `labels`.
    Raises DataError, naming the file and what is wrong with it, for a file that is not of this format.
    """
    folder = Path(folder)
    labels = names(folder / "meta", "fine_label_names", 100)
    train = read([folder / "train"], "fine_labels", 100, limit)
    test = read([folder / "test"], "fine_labels", 100, limit)
    return ImageSet(*train, *test, {"name": "cifar100", "classes": 100, "labels": labels})
