"""The site that `make site` builds: no warning, no broken link, nothing from elsewhere, every public name and page."""

import os
import re
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from browsing import serious, watched
from checkout import ROOT, fresh_clone, run
from playwright.sync_api import Browser, expect
from web import served

import dplangevin

pytestmark = pytest.mark.slow
READ = (".html", ".csv", ".png", ".pdf", ".txt", ".lock", ".yaml", ".json", ".js", ".css", ".svg", ".npz")
SERVED = [
    "README",
    "docs/findings",
    "docs/methods",
    "docs/api/index",
    "docs/api/dplangevin.methods.ops",
    "genindex",
]
SERVED += ["_modules/dplangevin/methods/ops", "results/runs/li2019_tab1/index", "results/report/exhibits"]
SERVED += ["results/exhibits/li2019_tab1/li2019_tab1"]


class Page(HTMLParser):
    """The ids of a page, its links, and what a browser fetches to show it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given.get("id", ""), given.get("name", "") if tag == "a" else ""}
        self.links += [given[name] for name in ("href", "src") if name in given]
        self.fetched += [given["src"]] if "src" in given else []
        self.fetched += [given.get("href", "")] if tag == "link" else []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this checkout, built in a clone by the command of the Makefile."""
    if not find_spec("sphinx"):
        pytest.skip("no Sphinx: `make site` installs requirements-site.lock, and so does .ci/run")
    clone = fresh_clone(tmp_path_factory.mktemp("site"))
    (line,) = re.findall(r"^\t@\$\(RUN\) -m sphinx (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    done = run(clone, sys.executable, "-m", "sphinx", *line.split(), PYTHONPATH="src")
    assert done.returncode == 0, done.stderr  # -W: a warning is an error
    assert run(clone, "git", "status", "--porcelain").stdout == ""  # nothing that is built is committed
    return clone / "build/site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    paths = sorted(site.rglob("*.html"))
    return {path.relative_to(site).as_posix(): Page(path.read_text("utf-8")) for path in paths}


def broken(name: str, page: Page, site: Path, pages: dict[str, Page]) -> list[str]:
    """The links of a page that lead nowhere, to a folder, or to a file that a browser does not show as a page."""
    found = []
    for link in dict.fromkeys(page.links):
        path, _, anchor = unquote(link).partition("#")
        if re.match(r"(https?|mailto|data):", link):
            continue
        place = (
            os.path.normpath(os.path.join(os.path.dirname(name), path.partition("?")[0])) if path else name
        )
        exists = (site / place).is_file() and place.endswith(READ)
        lost = anchor and "=" not in anchor and place in pages and anchor not in pages[place].ids
        found += [f"{name}: {link}"] if not exists or lost else []
    return found


def test_every_link_leads_to_a_page_or_a_file(site: Path, pages: dict[str, Page]) -> None:
    assert [each for name, page in pages.items() for each in broken(name, page, site, pages)] == []


def test_nothing_is_fetched_from_elsewhere(site: Path, pages: dict[str, Page]) -> None:
    away = re.compile(r"(\w+:)?//")
    assert [(name, link) for name, page in pages.items() for link in page.fetched if away.match(link)] == []
    for path in site.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", path.read_text("utf-8")), path.name


def test_every_public_name_has_a_place_and_its_source(site: Path, pages: dict[str, Page]) -> None:
    index = pages["docs/api/index.html"].links
    for name in dplangevin.__all__:
        (link,) = {link for link in index if link.endswith(f".{there(name)}")}
        page, _, anchor = link.partition("#")
        assert anchor in pages[f"docs/api/{page}"].ids, name
        source = f"../../_modules/{anchor.rpartition('.')[0].replace('.', '/')}.html#{there(name)}"
        if name != "METHODS":  # a constant has no source link
            assert source in pages[f"docs/api/{page}"].links, name
    rooms = "attacks", "methods", "privacy", "problems", "samplers"
    modules = [path for room in rooms for path in (ROOT / "src/dplangevin" / room).rglob("*.py")]
    for path in modules:
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        assert f"docs/api/{'.'.join(part for part in parts if part != '__init__')}.html" in pages


def there(name: str) -> str:
    return str(getattr(getattr(dplangevin, name), "__name__", name))


def test_every_page_says_what_it_was_made_from_and_how_to_cite(site: Path, pages: dict[str, Page]) -> None:
    commit = run(site, "git", "rev-parse", "--short=12", "HEAD").stdout.strip()
    for name in pages:
        if name != "index.html":  # it sends the reader on to README.html
            text = (site / name).read_text("utf-8")
            assert "file-of-repository" not in text, name  # how docs/_site/pages.py marks links
            assert re.search(rf"commit <code>{commit}</code> of 20..-..-..", text), name
            assert text.count("<summary>Cite this<") == text.count("@software{dplangevin,") == 1, name
            assert re.search(r"data manifests <code>[0-9a-f]{12}</code>", text), name


@pytest.mark.parametrize("name", SERVED)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])  # a desktop and a phone
def test_a_browser_has_nothing_to_complain_of(
    browser: Browser, site: Path, name: str, scheme: Any, width: int
) -> None:
    view: Any = {"width": width, "height": 740}
    with watched(
        browser, f"{site.as_uri()}/{name}.html", site.as_uri(), color_scheme=scheme, viewport=view
    ) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert serious(page) == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("objective perturbation", "docs/methods.html"),  # a page
        ("PrivateClassifier", "docs/api/dplangevin.estimator.html"),  # a name of the library
        ("replaced clipped sensitivity minibatch", "results/report/ryffel2022.html"),  # a claim
    ],
)
def test_the_search_finds_pages_names_and_claims(
    browser: Browser, site: Path, words: str, found: str
) -> None:
    for start in (site.as_uri(), ""):
        with served(site) as web:
            prefix = start or web
            with watched(browser, f"{prefix}/search.html?q={words}", prefix) as page:
                expect(page.locator(f"#search-results a[href*='{found}']").first).to_be_visible()
