"""Files that stages write: byte-stable, whole or not at all."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from dplangevin.data import atomic_path


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """A frame as CSV with ten significant digits."""
    return frame.to_csv(index=False, float_format="%.10g", lineterminator="\n").encode()


def write(folder: Path, contents: Mapping[str, bytes], only: bool = False) -> None:
    """Write files into `folder`, each whole or not at all; with `only`, then remove every other file there."""
    for name, content in contents.items():
        with atomic_path(folder / name) as part:
            part.write_bytes(content)
    if only:
        for path in folder.iterdir():
            if path.name not in contents:
                path.unlink()
