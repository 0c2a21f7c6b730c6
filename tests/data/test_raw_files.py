"""What is the same for every data set: raw files that are missing or damaged."""

import lzma
import shutil
from collections.abc import Callable
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


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[:-4],
        lambda b: b[: len(b) // 2],
        lambda b: b[:30],
        lambda b: b[:1],
        lambda b: b"<html>moved</html>" * 20,
    ],
    ids=["end", "half", "start", "byte", "html"],
)
@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("mnist", "train-images-idx3-ubyte.gz"),
        ("svhn", "extra_32x32.mat"),
        ("cifar10", "data_batch_5"),
        ("pneumonia", "chest_xray_112_webp.npz"),
    ],
)
def test_a_damaged_file_is_named(
    copied: Callable[[str], Path], key: str, name: str, damage: Callable[[bytes], bytes]
) -> None:
    path = copied(key) / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=rf"{name} (is not|has) "):
        load(key, path.parent)
