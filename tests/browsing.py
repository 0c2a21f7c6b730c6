"""A browser for pages that are files, which fails on what the browser complains of and on requests for other files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@contextmanager
def chromium() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.skip(f"no browser: {CHROMIUM} is not there; install Debian's package chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@contextmanager
def watched(browser: Browser, url: str, inside: str, **options: Any) -> Iterator[Page]:
    """A page. Fails, when it is left, on messages and on requests for anything that does not begin with `inside`."""
    context = browser.new_context(**options)
    page = context.new_page()
    messages: list[str] = []
    requests: list[str] = []
    page.on("console", lambda m: messages.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(url)
    yield page
    assert messages == []
    assert [url for url in requests if not url.startswith((inside, "data:"))] == []
    context.close()


def serious(page: Page) -> list[tuple[str, str]]:
    """What axe finds to be serious or critical."""
    violations = (
        Axe().run(page, options={"resultTypes": ["violations"], "preload": False}).response["violations"]
    )
    return [
        (each["id"], each["nodes"][0]["html"][:200])
        for each in violations
        if each["impact"] in ("serious", "critical")
    ]
