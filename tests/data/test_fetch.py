"""Fetching and preparing when sources are absent, wrong, cut short or removed."""

import hashlib
import lzma
import os
from collections.abc import Iterator
from pathlib import Path

import loading
import pytest
from web import Quiet, served

from dplangevin.data import DataError
from dplangevin.data.fetch import DataUnavailable, fetch, mirrors

CONTENT = b"".join(b"M,0.455,0.365,0.095,0.514,0.2245,0.101,0.15,%d\n" % (i % 20) for i in range(500))
OTHER = b"<html>moved</html>"


def entry(bundled: str | None = None, urls: tuple[str, ...] = ()) -> dict:
    return loading.entry("toy.data", CONTENT, bundled=bundled, urls=list(urls))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """(URL prefix, folder) of a local web server."""
    folder = tmp_path / "www"
    folder.mkdir()
    with served(folder) as url:
        yield url, folder


def put(folder: Path, content: bytes = CONTENT) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "toy.data").write_bytes(content)
    return folder


def only_the_right_file(raw: Path) -> bool:
    return os.listdir(raw) == ["toy.data"] and (raw / "toy.data").read_bytes() == CONTENT


def test_official_url_and_order_of_sources(server: tuple[str, Path], raw: Path, tmp_path: Path) -> None:
    url, www = server
    put(www)
    (tmp_path / "cut.xz").write_bytes(lzma.compress(CONTENT)[:-40])
    put(tmp_path / "mirror" / "toy", OTHER)
    with pytest.raises(DataError) as caught:
        fetch("toy", [entry(str(tmp_path / "cut.xz"), (f"{url}/absent",))], raw, [str(tmp_path / "mirror")])
    text = str(caught.value)
    places = [text.index(part) for part in ("mirror/toy/toy.data", "cut.xz", "/absent: HTTPError: 404")]
    assert places == sorted(places)
    fetch("toy", [entry(str(tmp_path / "cut.xz"), (f"{url}/absent", f"{url}/toy.data"))], raw)
    assert only_the_right_file(raw)
    put(www / "data/toy")
    fetch("toy", [entry()], tmp_path / "other", [f"{url}/data/"])
    assert only_the_right_file(tmp_path / "other")


def test_a_connection_cut_short_leaves_nothing(raw: Path, tmp_path: Path) -> None:
    class Cut(Quiet):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT[:5000])

    with served(tmp_path, Cut) as url, pytest.raises(DataUnavailable):
        fetch("toy", [entry()], raw, [url])
    assert os.listdir(raw) == []


def test_a_corrupt_file_is_fetched_again_or_else_left_and_named(raw: Path, tmp_path: Path) -> None:
    put(raw, OTHER)
    with pytest.raises(DataError, match=hashlib.sha256(OTHER).hexdigest()):
        fetch("toy", [entry()], raw)
    assert (raw / "toy.data").read_bytes() == OTHER
    put(tmp_path / "mirror" / "toy")
    fetch("toy", [entry()], raw, [str(tmp_path / "mirror")])
    assert only_the_right_file(raw)


def test_mirrors_are_separated_by_spaces_or_commas(tmp_path: Path) -> None:
    assert mirrors("") == []
    assert mirrors("http://a:80/x,/b  c") == ["http://a:80/x", "/b", "c"]
    (tmp_path / "my data").mkdir()
    assert mirrors(str(tmp_path / "my data")) == [str(tmp_path / "my data")]
