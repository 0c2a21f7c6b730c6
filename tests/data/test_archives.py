"""Raw files: the order of their sources, and members of an official archive, from mirrors or out of the archive."""

import hashlib
import io
import lzma
import os
import tarfile
from pathlib import Path

import pytest
from loading import entry
from web import closed_port, served

from dplangevin import files
from dplangevin.data import DataError
from dplangevin.data.fetch import DataUnavailable, fetch, mirrors

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


def complete(raw: Path) -> bool:
    """Every member, and nothing beside them: neither the archive nor a part of it, here or further up."""
    found = sorted(path.relative_to(raw.parent) for path in raw.parent.rglob("*") if path.is_file())
    return found == [Path("toy/first"), Path("toy/second")] and all(
        (raw / name).read_bytes() == content for name, content in CONTENT.items()
    )


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Where the files of the data set are to be."""
    return tmp_path / "raw" / "toy"


@pytest.mark.parametrize("place", ["toy", "toy/toy-py", "toy-py"])
def test_members_in_a_mirror_need_no_archive(tmp_path: Path, raw: Path, place: str) -> None:
    files.write(tmp_path / "mirror" / place, CONTENT)
    get(raw, b"", "nowhere", str(tmp_path / "mirror"))
    assert complete(raw)


def test_the_archive_from_its_url_once_for_all_members(tmp_path: Path, raw: Path) -> None:
    archive = packed(plain())
    files.write(tmp_path / "www/kriz", {"toy.tar.gz": archive})
    with served(tmp_path / "www") as url:
        wrong = f"http://127.0.0.1:{closed_port()}/toy.tar.gz"
        get(raw, archive, f"{url}/mirror", urls=(wrong, f"{url}/kriz/toy.tar.gz"))
    assert complete(raw)


def test_only_what_is_missing_or_wrong_is_taken_from_the_archive(tmp_path: Path, raw: Path) -> None:
    archive = packed(plain())
    files.write(tmp_path / "mirror/toy", {"toy.tar.gz": archive})
    files.write(raw, {**CONTENT, "second": b"damaged"})
    before = (raw / "first").stat().st_mtime_ns
    get(raw, archive, str(tmp_path / "mirror"))
    assert complete(raw)
    assert (raw / "first").stat().st_mtime_ns == before


def test_an_archive_of_another_sha256_is_not_opened(
    tmp_path: Path, raw: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, other = packed(plain()), packed(plain(first=b"one?" * 5000))
    files.write(tmp_path / "mirror/toy", {"toy.tar.gz": other})
    with monkeypatch.context() as patch:
        patch.setattr(tarfile, "open", lambda *_, **__: pytest.fail("unpacked before the check"))
        with pytest.raises(DataError) as caught:
            get(raw, right, str(tmp_path / "mirror"))
    assert f"found sha256 {hashlib.sha256(other).hexdigest()} ({len(other)} bytes)" in str(caught.value)
    assert os.listdir(raw) == []
    files.write(tmp_path / "second/toy", {"toy.tar.gz": right})
    get(raw, right, str(tmp_path / "mirror"), str(tmp_path / "second"))
    assert complete(raw)


def test_a_wrong_member_of_a_right_archive_does_not_appear(tmp_path: Path, raw: Path) -> None:
    archive = packed(plain(second=b"2wo " * 3000))  # of the size that the config says
    files.write(tmp_path / "mirror/toy", {"toy.tar.gz": archive})
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
    files.write(tmp_path / "mirror/toy", {"toy.tar.gz": archive})
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
        f"tried {url}: ConnectionError",
        "hold toy/first or toy/second or toy/toy.tar.gz",
    ):
        assert part in text


def test_official_url_and_order_of_sources(tmp_path: Path, raw: Path) -> None:
    files.write(tmp_path / "mirror/toy", {"first": b"<html>moved</html>"})
    files.write(tmp_path / "www/data/toy", CONTENT)
    cut, content = str(tmp_path / "cut.xz"), CONTENT["first"]
    files.write(tmp_path, {"cut.xz": lzma.compress(content)[:-40]})
    with served(tmp_path / "www") as url:
        stated = entry("first", content, bundled=cut, urls=[f"{url}/absent"])
        with pytest.raises(DataError) as caught:
            fetch("toy", [stated], raw, [str(tmp_path / "mirror")])
        stated["urls"].append(f"{url}/data/toy/first")
        fetch("toy", [stated], raw)
        fetch("toy", [entry("first", content)], tmp_path / "other", [f"{url}/data/"])
    places = [
        str(caught.value).index(part) for part in ("mirror/toy/first", "cut.xz", "/absent: HTTPError: 404")
    ]
    assert places == sorted(places)
    for folder in (raw, tmp_path / "other"):
        assert [(path.name, path.read_bytes()) for path in folder.iterdir()] == [("first", content)]


def test_mirrors_are_separated_by_spaces_or_commas(tmp_path: Path) -> None:
    assert mirrors("") == []
    assert mirrors("http://a:80/x,/b  c") == ["http://a:80/x", "/b", "c"]
    (tmp_path / "my data").mkdir()
    assert mirrors(str(tmp_path / "my data")) == [str(tmp_path / "my data")]
