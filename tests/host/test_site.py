"""The built site as a reader sees it: wide and narrow, light and dark, by keyboard."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.host.browser.page import PHONE, Watched, browser, page
from tests.source_tree import ROOT

__all__ = ["browser", "page"]
PAGES = ("index", "tutorial", "systems/arms", "reference/cli/tune")


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and says nothing of it."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """Its address. Built again only where something changed since `make docs`."""
    command = [sys.executable, "-m", "docs.pages", "build/docs"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    handler = partial(Quiet, directory=str(ROOT / "build/docs/html"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.host
@pytest.mark.parametrize("name", PAGES)
def test_a_page_reads_well(name: str, site: str, page: Watched) -> None:
    page.page.goto(f"{site}/{name}.html")
    assert page.accessibility() == []
    assert not page.scrolls_sideways()
    page.page.emulate_media(color_scheme="dark")
    page.page.set_viewport_size(PHONE)
    page.page.reload()
    assert page.accessibility() == []
    assert not page.scrolls_sideways()
    assert page.complaints == []


@pytest.mark.host
@pytest.mark.parametrize("name", ["files", "reference/knobs", "systems/colloid+memtis"])
def test_long_pages_fit_a_phone(name: str, site: str, page: Watched) -> None:
    page.page.set_viewport_size(PHONE)
    page.page.goto(f"{site}/{name}.html")
    assert not page.scrolls_sideways()


@pytest.mark.host
def test_search_finds_a_knob(site: str, page: Watched) -> None:
    page.page.goto(f"{site}/search.html?q=read_hot_threshold")
    page.page.wait_for_selector("#search-results li a")
    found = page.page.eval_on_selector_all("#search-results li a", "links => links.map(a => a.href)")
    assert any("systems/hemem.html" in address for address in found)
