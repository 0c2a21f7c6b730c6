"""The site in a browser, opened as files: nothing fails, nothing is fetched, menus and keys work, axe finds nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browsing import serious, watched
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.slow

SITE = Path(__file__).parents[3] / "results/report"
PAGES = [
    "index.html",
    "claims.html",
    "exhibits.html",
    "exhibit-wang2015_fig1c.html",
    "privacy.html",
    "how.html",
]


@contextmanager
def opened(browser: Browser, name: str, **options: Any) -> Iterator[Page]:
    """A page. Fails, when it is left, on what the browser complained of and on requests outside of results/."""
    with watched(browser, f"{SITE.as_uri()}/{name}", SITE.parent.as_uri(), **options) as page:
        yield page


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])  # a desktop and a phone
def test_axe_finds_nothing_serious_and_no_page_scrolls_sideways(
    browser: Browser, name: str, scheme: Any, width: int
) -> None:
    # each claim is like the others
    filtered = f"{name}#verdict=fails&paper=wang2015" if name == "claims.html" else name
    viewport: Any = {"width": width, "height": 740}
    with opened(browser, filtered, color_scheme=scheme, viewport=viewport) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert serious(page) == []


def shown(page: Page) -> int:
    return page.locator("article.claim:visible").count()


def test_filters_of_the_claims_and_their_links(browser: Browser) -> None:
    with opened(browser, "claims.html") as page:
        everything = shown(page)
        page.locator("select[name=verdict]").select_option("fails")
        page.locator("select[name=paper]").select_option("ryffel2022")
        some = shown(page)
        assert 0 < some < everything
        assert page.locator("article.claim:visible:not([data-verdict=fails])").count() == 0
        page.locator("input[name=text]").fill("sensitivity")
        fewer = shown(page)
        assert 0 < fewer < some
        expect(page.get_by_role("status")).to_contain_text(f"{fewer} of {everything}")
        link = page.url.rpartition("/")[2]
    with opened(browser, link) as page:
        assert shown(page) == fewer
        expect(page.locator("select[name=paper]")).to_have_value("ryffel2022")
        page.get_by_role("button", name="Show all").click()
        expect(page.locator("article.claim:visible")).to_have_count(everything)
    with opened(browser, "claims.html#exhibit=li2019_fig3&kind=extension") as page:
        assert {"extension"} == {
            claim.get_attribute("data-kind") for claim in page.locator("article.claim:visible").all()
        }
    with opened(browser, "claims.html#verdict=too imprecise to tell") as page:
        assert 0 < shown(page) < everything
        assert page.locator("article.claim:visible:not([data-verdict='open'])").count() == 0
    with opened(browser, "claims.html#wang2015_ops") as page:
        assert shown(page) == everything
        expect(page.locator("#wang2015_ops q")).to_be_in_viewport()
        expect(page.locator("#wang2015_ops dl")).to_be_visible()  # a linked claim is open


def test_a_link_has_a_filter_and_a_claim(browser: Browser) -> None:
    with opened(browser, "claims.html#verdict=fails&id=wang2015_lemma5") as page:
        expect(page.locator("#wang2015_lemma5 q")).to_be_in_viewport()
        expect(page.locator("#wang2015_lemma5 dl")).to_be_visible()
        assert page.locator("article.claim:visible:not([data-verdict=fails])").count() == 0
        page.locator("#wang2015_target_sgfs h3 a").click()
        assert page.url.endswith("#verdict=fails&id=wang2015_target_sgfs")


@pytest.mark.parametrize(("width", "tallest"), [(1280, 50_000), (360, 90_000)])  # evidence is folded
def test_the_page_of_claims_is_short(browser: Browser, width: int, tallest: int) -> None:
    viewport: Any = {"width": width, "height": 740}
    with opened(browser, "claims.html", viewport=viewport) as page:
        assert page.evaluate("document.documentElement.scrollHeight") < tallest


def test_claims_are_a_list_without_scripts(browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{SITE.as_uri()}/claims.html")
    assert page.locator("article.claim").first.is_visible()
    assert not page.locator("#filter").is_visible()
    context.close()


def test_the_keyboard_reaches_everything(browser: Browser) -> None:
    with opened(browser, "privacy.html") as page:
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.querySelector('main').contains(document.activeElement)")
        for place in ("figure a", ".scroll"):  # a wide table scrolls by arrow keys
            expect(page.locator(place).first).to_be_focused()
            page.keyboard.press("Tab")


def test_a_button_copies_the_command_of_an_exhibit(browser: Browser) -> None:
    with opened(browser, "exhibits.html", permissions=["clipboard-read", "clipboard-write"]) as page:
        card = page.locator(".card", has_text="make exhibit ID=wang2015_fig1c").first
        button = card.get_by_role("button", name="Copy: make exhibit ID=wang2015_fig1c FORCE=1")
        button.click()
        expect(button).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()") == "make exhibit ID=wang2015_fig1c FORCE=1"
        page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
        button.click()
        expect(button).to_have_text("Press Ctrl-C")
        assert page.evaluate("getSelection().toString()") == "make exhibit ID=wang2015_fig1c FORCE=1"
