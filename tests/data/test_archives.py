"""Files that are members of an official archive: from mirrors as they are, or out of the archive."""

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest
from loading import entry
from web import closed_port, served

from dplangevin.data import DataError
from dplangevin.data.fetch import DataUnavailable, fetch

CONTENT = {"first": b"one " * 5000, "second": b"two " * 3000}


def packed(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for info, content in members:
            info.size = len(content) if info.isreg() else 0
            tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def plain(**change: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    """The members, and others beside them that nobody asked for."""
    wanted = {f"toy-py/{name}": content for name, content in (CONTENT | change).items()}
    others = {
        "toy-py/readme.html": b"<p>",
        "../escaped": b"no",
        "/escaped": b"no",
        "toy-py/../first": b"no",
    }
    return [(tarfile.TarInfo(name), content) for name, content in {**others, **wanted}.items()]


def get(raw: Path, archive: bytes, *mirror: str, urls: tuple[str, ...] = ()) -> None:
    """Fetch the files of a data set whose archive has these bytes."""
    stated = {
        "name": "toy.tar.gz",
        "sha256": hashlib.sha256(archive).hexdigest(),
        "size": len(archive),
        "folder": "toy-py",
        "urls": list(urls),
    }
    fetch("toy", [entry(name, content) for name, content in CONTENT.items()], raw, mirror, stated)


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def complete(raw: Path) -> bool:
    """Every member, and nothing beside them: neither the archive nor a part of it, here or further up."""
    files = sorted(path.relative_to(raw.parent) for path in raw.parent.rglob("*") if path.is_file())
    return files == [Path("toy/first"), Path("toy/second")] and all(
        (raw / name).read_bytes() == content for name, content in CONTENT.items()
    )


@pytest.mark.parametrize("place", ["toy", "toy/toy-py", "toy-py"])
def test_members_in_a_mirror_need_no_archive(tmp_path: Path, raw: Path, place: str) -> None:
    for name, content in CONTENT.items():
        put(tmp_path / "mirror" / place / name, content)
    get(raw, b"", "nowhere", str(tmp_path / "mirror"))
    assert complete(raw)


def test_the_archive_from_its_url_once_for_all_members(tmp_path: Path, raw: Path) -> None:
    archive = packed(plain())
    put(tmp_path / "www/kriz/toy.tar.gz", archive)
    with served(tmp_path / "www") as url:
        wrong = f"http://127.0.0.1:{closed_port()}/toy.tar.gz"
        get(raw, archive, f"{url}/mirror", urls=(wrong, f"{url}/kriz/toy.tar.gz"))
    assert complete(raw)


def test_only_what_is_missing_or_wrong_is_taken_from_the_archive(tmp_path: Path, raw: Path) -> None:
    archive = packed(plain())
    put(tmp_path / "mirror/toy/toy.tar.gz", archive)
    put(raw / "first", CONTENT["first"])
    put(raw / "second", b"damaged")
    before = (raw / "first").stat().st_mtime_ns
    get(raw, archive, str(tmp_path / "mirror"))
    assert complete(raw)
    assert (raw / "first").stat().st_mtime_ns == before


def test_an_archive_of_another_sha256_is_not_opened(
    tmp_path: Path, raw: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, other = packed(plain()), packed(plain(first=b"one?" * 5000))
    put(tmp_path / "mirror/toy/toy.tar.gz", other)
    with monkeypatch.context() as patch:
        patch.setattr(tarfile, "open", lambda *_, **__: pytest.fail("unpacked before the check"))
        with pytest.raises(DataError) as caught:
            get(raw, right, str(tmp_path / "mirror"))
    assert f"found sha256 {hashlib.sha256(other).hexdigest()} ({len(other)} bytes)" in str(caught.value)
    assert os.listdir(raw) == []
    put(tmp_path / "second/toy/toy.tar.gz", right)
    get(raw, right, str(tmp_path / "mirror"), str(tmp_path / "second"))
    assert complete(raw)


def test_a_wrong_member_of_a_right_archive_does_not_appear(tmp_path: Path, raw: Path) -> None:
    archive = packed(plain(second=b"2wo " * 3000))  # of the size that the config says
    put(tmp_path / "mirror/toy/toy.tar.gz", archive)
    with pytest.raises(DataError) as caught:
        get(raw, archive, str(tmp_path / "mirror"))
    text = str(caught.value)
    found = hashlib.sha256(b"2wo " * 3000).hexdigest()
    assert f"of toy-py/second in it found sha256 {found}" in text
    assert f"{raw / 'second'} is not available" in text
    assert f"{raw / 'first'} is not available" not in text  # it was in order, and is there
    assert os.listdir(raw) == ["first"]


def test_a_member_that_is_not_there_is_named(tmp_path: Path, raw: Path) -> None:
    archive = packed(plain()[:-1])
    put(tmp_path / "mirror/toy/toy.tar.gz", archive)
    with pytest.raises(DataError, match="it lacks toy-py/second"):
        get(raw, archive, str(tmp_path / "mirror"))
    assert os.listdir(raw) == ["first"]


def test_the_message_says_what_would_do(raw: Path) -> None:
    url = f"http://127.0.0.1:{closed_port()}/toy.tar.gz"
    with pytest.raises(DataUnavailable) as caught:
        get(raw, b"archive", "mirror", urls=(url,))
    text = " ".join(str(caught.value).split())
    for part in (
        f"{raw / 'second'} is not available: expected sha256 {hashlib.sha256(CONTENT['second']).hexdigest()}",
        "tried mirror/toy/toy-py/first: FileNotFoundError",
        "set DATA_MIRROR to folders or URL prefixes",
        f"expected sha256 {hashlib.sha256(b'archive').hexdigest()} (7 bytes)",
        f"tried {url}: ConnectionError",
        "hold toy/first or toy/second or the archive toy/toy.tar.gz; then dvc repro prepare@toy",
    ):
        assert part in text
    assert text.count("toy.tar.gz, which holds first, second, is not available") == 1
