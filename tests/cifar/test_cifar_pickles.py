"""Pickles that are hostile, damaged or something else."""

import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from formats import pickled
from small_cifar import load

from dplangevin.data import DataError
from dplangevin.loaders import batches

EVIL = "evil.txt"


def reduced(module: str, name: str) -> bytes:
    """A pickle that calls module.name("evil.txt", "w") while it is read."""
    return f"\x80\x02c{module}\n{name}\n".encode("latin1") + b"U\x08evil.txtU\x01w\x86R."


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("builtins", "open"),
        ("__builtin__", "file"),
        ("io", "open"),
        ("os", "system"),
        ("numpy", "fromfile"),
        ("numpy", "ndarray.tofile"),
        ("numpy.core.multiarray", "fromfile"),
        ("dplangevin.loaders.batches", "pickle.os.system"),
    ],
)
def test_a_pickle_that_names_anything_else_is_refused_before_it_runs(
    ten: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (ten / "data_batch_1").write_bytes(reduced(module, name))
    with pytest.raises(DataError, match=rf"data_batch_1 is not a batch .* {module}\.{name}.*refused"):
        load(ten)
    assert not (tmp_path / EVIL).exists()


def test_that_pickle_would_run_with_the_ordinary_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pickle.loads(reduced("builtins", "open")).close()
    assert (tmp_path / EVIL).exists()


def test_arrays_of_objects_and_of_other_numbers_are_refused(ten: Path) -> None:
    for code in (b"O8", b"f8", b"V1"):
        path = ten / "data_batch_1"
        path.write_bytes(path.read_bytes().replace(b"U\x02u1", b"U\x02" + code))
        with pytest.raises(DataError, match=f"an array of {code!r}, expected bytes"):
            load(ten)
        path.write_bytes(path.read_bytes().replace(b"U\x02" + code, b"U\x02u1"))
    load(ten)


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[:-1],
        lambda b: b[: len(b) // 2],
        lambda b: b[:30],
        lambda b: b"",
        lambda b: b"<html>moved</html>",
        lambda b: b.replace(struct.pack("<i", 60 * 3072), struct.pack("<i", 60 * 3071)),
    ],
    ids=["end", "half", "start", "empty", "html", "fewer"],
)
def test_a_damaged_file_is_named(ten: Path, damage: Callable[[bytes], bytes]) -> None:
    path = ten / "data_batch_5"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"data_batch_5 is not a batch of CIFAR"):
        load(ten)


def test_any_flipped_byte_gives_images_or_a_clear_error(ten: Path, rng: np.random.Generator) -> None:
    path = ten / "test_batch"
    whole = path.read_bytes()
    messages: list[str] = []
    structure = [at for at in range(len(whole)) if at < 400 or at > len(whole) - 60]
    for at in rng.choice(structure, 200, replace=False):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ int(rng.integers(1, 256))]) + whole[at + 1 :])
        try:
            batches.read([path], "labels", 10, None)
        except DataError as error:
            messages.append(str(error))
    assert len(messages) > 50
    assert all("test_batch" in message for message in messages)


def test_something_else_than_a_dictionary_is_named(ten: Path) -> None:
    (ten / "test_batch").write_bytes(pickled([1, 2]))
    with pytest.raises(DataError, match="test_batch holds a list, expected a dictionary"):
        load(ten)


def test_a_missing_file_is_named_with_the_fix(ten: Path) -> None:
    for name in ("batches.meta", "test_batch"):
        (ten / name).rename(ten / "aside")
        with pytest.raises(DataError, match=rf"{name} is missing.*dvc repro -f fetch@cifar10"):
            load(ten)
        (ten / "aside").rename(ten / name)
