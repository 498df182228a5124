"""What `--figures` and `--open` leave, held against the page that a command writes."""

from __future__ import annotations

import base64
import html
import json
import re
import webbrowser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cli.small import tiertune

ENDINGS = (".svg", ".pdf", ".csv")


def check_figures(
    command: tuple[str | Path, ...], page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Runs a command that has everything measured with both options, and holds the figures' files to `page`;
    what was printed as JSON."""
    shown: list[str] = []

    def opened(address: str) -> bool:
        shown.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", opened)
    done = tiertune(*command, "--figures", folder, "--open", "--json")
    printed: dict[str, Any] = json.loads(done.stdout)
    assert shown == [page.resolve().as_uri()]
    text = page.read_text(encoding="utf-8")
    drawn = re.findall(r'<figure id="[^"]+">(.*?)</figure>', text, flags=re.DOTALL)
    assert drawn
    data = {}
    for figure in drawn:
        name, address = re.findall(r'<a class="download" download="([^"]+)" href="([^"]+)"', figure)[0]
        data[name] = base64.b64decode(html.unescape(address).partition(",")[2]).decode()
    assert len(data) == len(drawn), "files of the same name"
    assert {path.name for path in folder.iterdir()} == {
        f"{name.removesuffix('.csv')}{ending}" for name in data for ending in ENDINGS
    }
    for name, rows in data.items():
        path = folder / name
        assert path.read_bytes().decode() == rows
        assert ElementTree.parse(path.with_suffix(".svg")).getroot().tag.endswith("svg")
        assert path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    assert {str(path) for path in folder.iterdir()} <= set(printed["files"])
    return printed
