"""Data sets: fetched, loaded and prepared, with the public bounds of their rows."""

from dplangevin.data.archives import DataError, save_arrays, stage
from dplangevin.data.dataset import Arrays, Dataset
from dplangevin.data.rows import clip_rows, row_norms
from dplangevin.data.splits import generator

__all__ = [
    "Arrays",
    "DataError",
    "Dataset",
    "clip_rows",
    "generator",
    "row_norms",
    "save_arrays",
    "stage",
]
