"""What the site is made of, before Sphinx: pages from declarations, links from the checkout, one index."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

import tiertune
from docs.pages.links import LinkError, carried, external
from docs.pages.staging import places, stage, write
from tests.source_tree import ROOT
from tiertune import engine
from tiertune.tuner.cli.app import app
from tiertune.tuner.cli.failures import EXIT_CODES
from tiertune.tuner.trial import Status


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("site")
    stage(folder)
    return folder


def test_every_system_has_a_page_with_every_knob(staged: Path) -> None:
    index = (staged / "systems/index.md").read_text()
    for system in engine.systems():
        text = (staged / f"systems/{system.name}.md").read_text()
        assert f"]({system.name}.md)" in index
        assert set(re.findall(r"^### `(\w+)`$", text, re.M)) == {knob.name for knob in system.knobs}
        targets = re.findall(r"^\((\S+)\)=$", text, re.M)
        assert len(set(targets)) == len(system.knobs)


def test_links_to_knobs_lead_to_them(staged: Path) -> None:
    linked = re.findall(r"\.\./systems/([^#)]+)#([^)]+)\)", (staged / "reference/knobs.md").read_text())
    assert len(linked) > 100
    for page, target in linked:
        assert f"\n({target})=\n" in (staged / "systems" / page).read_text()


def test_every_command_has_a_page_with_every_option(staged: Path) -> None:
    from typer.main import get_command

    top: Any = get_command(app)
    for name, command in top.commands.items():
        text = (staged / f"reference/cli/{name}.md").read_text()
        for below in [command, *getattr(command, "commands", {}).values()]:
            for option in below.params:
                assert option.param_type_name == "argument" or option.opts[0] in text, (
                    f"{name}: {option.opts}"
                )
        assert re.search(r"^```sh\n.*tiertune ", text, re.M), f"tiertune {name} has no example"


def test_everything_that_the_package_offers_is_on_the_page(staged: Path) -> None:
    text = (staged / "reference/api.md").read_text()
    assert sorted(re.findall(r"^\.\. auto\w+:: tiertune\.(\w+)$", text, re.M)) == tiertune.__all__


def test_closed_lists_are_whole(staged: Path) -> None:
    reference = staged / "reference"
    assert re.findall(r"^\| `(\S+)` \|", (reference / "statuses.md").read_text(), re.M) == list(Status)
    codes = re.findall(r"^\| `(\d+)` \|", (reference / "exit-codes.md").read_text(), re.M)
    assert codes == [str(code) for code in EXIT_CODES]
    metrics = re.findall(r"^\| `(\w+)` \|", (reference / "metrics.md").read_text(), re.M)
    assert metrics == [metric.name for metric in engine.metrics()]


def test_every_page_is_in_the_index_once(staged: Path) -> None:
    blocks = re.findall(r"^```\{toctree\}\n.*?\n\n(.*?)^```", (staged / "index.md").read_text(), re.M | re.S)
    listed = [name for block in blocks for name in block.split()]
    assert len(listed) == len(set(listed))
    assert {f"{name}.md" for name in listed if "/" not in name} == {
        place.name
        for place in [*places().values(), PurePosixPath("catalogue.md")]
        if place.name != "index.md"
    }


def test_writing_again_keeps_dates_and_removes_what_is_gone(tmp_path: Path) -> None:
    old, new = PurePosixPath("old.md"), PurePosixPath("sub/new.md")
    made = tmp_path / "gallery/made.rst"
    made.parent.mkdir()
    made.touch()
    write(tmp_path, {old: b"old", new: b"new"})
    date = (tmp_path / new).stat().st_mtime_ns
    write(tmp_path, {new: b"new"})
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {tmp_path / new, made}
    assert (tmp_path / new).stat().st_mtime_ns == date
    write(tmp_path, {new: b"newer"})
    assert (tmp_path / new).read_bytes() == b"newer"


PAGE = PurePosixPath("docs/a.md")
PLACES = {PAGE: PurePosixPath("a.md"), PurePosixPath("README.md"): PurePosixPath("sub/readme.md")}


def test_links_are_carried(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "table.csv"):
        (tmp_path / name).touch()
    text = "[r](../README.md#top) [t](../table.csv) [d](../docs) [o](https://example.org/x) [h](#here)\n"
    block = "```sh\n[x](nowhere.md)\n```\n"
    got, files = carried(text + block, PAGE, PLACES, tmp_path)
    assert got == (
        "[r](sub/readme.md#top) [t](files/table.csv) `d` [o](https://example.org/x) [h](#here)\n" + block
    )
    assert files == {PurePosixPath("table.csv")}
    assert external(text + "<https://example.org/y> `<https://example.org/code>`") == {
        "https://example.org/x",
        "https://example.org/y",
    }


@pytest.mark.parametrize("target", ["gone.md", "../../outside.md"])
def test_a_link_that_leads_nowhere_is_named(target: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    with pytest.raises(LinkError, match=rf"docs/a\.md: \[word\]\({re.escape(target)}\) leads nowhere"):
        carried(f"a [word]({target})", PAGE, PLACES, tmp_path)


def test_the_citation_is_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # What version 1.2.0 of the format demands, and what has to agree with the package.
    assert cited["cff-version"] == "1.2.0"
    assert cited["message"]
    assert all(author.get("name") or author.get("family-names") for author in cited["authors"])
    assert (cited["title"], cited["version"]) == (project["name"], project["version"])
    assert cited["license"] == project["license"]
    assert f"version = {{{project['version']}}}" in (ROOT / "docs/citing.md").read_text(encoding="utf-8")
