"""What is the same for every data set: raw files that are missing."""

import lzma
import shutil
from pathlib import Path

import pytest
from loading import ROOT, config, load

from dplangevin.data import DataError

KEYS = sorted(path.stem for path in (ROOT / "conf/dataset").glob("*.yaml"))


@pytest.mark.parametrize("key", KEYS)
def test_a_missing_file_is_named_with_the_fix(mirror: Path, tmp_path: Path, key: str) -> None:
    folder = tmp_path / key
    if (mirror / key).exists():
        shutil.copytree(mirror / key, folder)
    folder.mkdir(exist_ok=True)
    for file in config(key).files:
        if file.get("bundled"):
            (folder / file.name).write_bytes(lzma.decompress((ROOT / file.bundled).read_bytes()))
    if (
        not any(folder.iterdir()) and config(key).files
    ):  # a table out of a package, of which nobody makes a small one
        with pytest.raises(
            DataError, match=rf"{config(key).files[0].name} is missing.*dvc repro -f prepare@{key}"
        ):
            load(key, folder)
        return
    load(key, folder, limit=20)
    for file in config(key).files:
        (folder / file.name).rename(tmp_path / "aside")
        with pytest.raises(DataError, match=rf"{file.name} is missing.*dvc repro -f prepare@{key}"):
            load(key, folder)
        (tmp_path / "aside").rename(folder / file.name)
