"""A headless Chromium of the distribution for tests that look at pages as a reader does.

A test module gets the fixture by `from tests.host.browser.page import browser, page`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, ViewportSize, sync_playwright

DESKTOP: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
# Without what draws a window, tests of pages take a third less CPU than with the browser that has one.
BROWSER = "/usr/bin/chromium-headless-shell"
ABORTED = "net::ERR_ABORTED"


@dataclass
class Watched:
    """A page, and everything that it complained of since it was opened."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    def accessibility(self) -> list[str]:
        """What axe-core finds wrong, one line a rule and element; empty when the page is clean."""
        found = Axe().run(self.page).response["violations"]
        return [f"{rule['id']}: {node['html'][:120]}" for rule in found for node in rule["nodes"]]

    def scrolls_sideways(self) -> bool:
        """Whether the page itself (not a table in it) is wider than the window."""
        root = "document.documentElement"
        return bool(self.page.evaluate(f"{root}.scrollWidth > {root}.clientWidth + 1"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Tests run as root, where Chromium's own sandbox does not start.
        launched = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Watched]:
    """A page at desktop width; its errors, failed requests and console errors are written down."""
    opened = browser.new_page(viewport=DESKTOP)
    watched = Watched(opened)
    opened.on("pageerror", lambda error: watched.complaints.append(f"error: {error}"))

    def not_loaded(request: Request) -> None:
        # What is under way when a page is left is given up, which is nobody's fault.
        if request.failure != ABORTED:
            watched.complaints.append(f"not loaded: {request.url}: {request.failure}")

    opened.on("requestfailed", not_loaded)

    def written(message: ConsoleMessage) -> None:
        if message.type == "error":
            watched.complaints.append(f"console: {message.text}")

    opened.on("console", written)
    yield watched
    opened.close()
