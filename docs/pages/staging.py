"""The folder that Sphinx builds: pages of the checkout, pages made from declarations, one index of all."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from docs.pages import api, catalogue, commands, declared, systems
from docs.pages.links import carried, external

ROOT = Path(__file__).resolve().parents[2]
INDEX = PurePosixPath("docs/README.md")
ELSEWHERE = {
    PurePosixPath("README.md"): PurePosixPath("readme.md"),
    PurePosixPath("CONTRIBUTING.md"): PurePosixPath("contributing.md"),
    PurePosixPath("CHANGELOG.md"): PurePosixPath("changelog.md"),
    PurePosixPath("engine/README.md"): PurePosixPath("engine.md"),
    PurePosixPath("results/README.md"): PurePosixPath("results.md"),
    # Sphinx has a page of that name for its own search.
    PurePosixPath("docs/search.md"): PurePosixPath("searching.md"),
}
"""Pages that lie elsewhere on the site, and those that do not lie in docs/."""
GENERATED = {
    "Concepts": ("systems/index", "catalogue"),
    "Reference": (
        "reference/cli/index",
        "reference/api",
        "reference/knobs",
        "reference/metrics",
        "reference/statuses",
        "reference/exit-codes",
    ),
}
"""Pages made here, by the heading of docs/README.md that they stand under."""
EXAMPLES = ROOT / "docs/examples"


def places() -> dict[PurePosixPath, PurePosixPath]:
    """Every page of the checkout, and where it is on the site."""
    pages = {
        PurePosixPath("docs", path.name): PurePosixPath(path.name)
        for path in sorted((ROOT / "docs").glob("*.md"))
    }
    return {**pages, **ELSEWHERE, INDEX: PurePosixPath("index.md")}


def stage(folder: Path) -> list[str]:
    """Makes `folder` hold the sources of the site; returns links to other sites.

    Raises LinkError for a link that leads to nothing in the checkout.
    """
    outside: set[str] = set()
    wanted: dict[PurePosixPath, bytes] = {}
    for page, place in places().items():
        text = (ROOT / page).read_text(encoding="utf-8")
        outside |= external(text)
        carried_text, files = carried(text, page, places(), ROOT)
        if page == INDEX:
            carried_text = _titled(carried_text) + _contents(carried_text)
        wanted[place] = carried_text.encode()
        wanted.update({"files" / file: (ROOT / file).read_bytes() for file in files})
    made = {**systems.pages(), **commands.pages(), **declared.pages(), **catalogue.pages(), **api.pages()}
    wanted.update({PurePosixPath(name): text.encode() for name, text in made.items()})
    for path in sorted(EXAMPLES.glob("*")) if has_examples() else []:
        if path.is_file():
            wanted[PurePosixPath("examples", path.name)] = path.read_bytes()
    write(folder, wanted)
    return sorted(outside)


def has_examples() -> bool:
    """Whether there are example scripts, which the build executes."""
    return any(EXAMPLES.glob("*.py"))


def _titled(index: str) -> str:
    """Links of the index by the titles of pages, where the checkout has their file names."""
    titles = {
        place.name: (ROOT / page).read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")
        for page, place in places().items()
    }
    return re.sub(
        r"\[[^\]]*\.md\]\(([a-z-]+\.md)\)", lambda match: f"[{titles[match[1]]}]({match[1]})", index
    )


def _contents(index: str) -> str:
    """The order of the site, as Sphinx wants it: under each heading of the index the pages linked there."""
    parts = re.split(r"^## (.+)$", index, flags=re.MULTILINE)
    blocks = []
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        linked = [match[:-3] for match in re.findall(r"\]\(([a-z-]+\.md)\)", text)]
        names = [*dict.fromkeys(linked), *GENERATED.get(heading, ())]
        if heading == "Reference" and has_examples():
            names.append("gallery/index")
        lines = "\n".join(names)
        blocks.append(f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{lines}\n```\n")
    return "".join(blocks)


def write(folder: Path, wanted: dict[PurePosixPath, bytes]) -> None:
    """Makes `folder` hold `wanted`, and what the gallery made of examples, and nothing else. Files that are
    as they were keep their dates, so that Sphinx reads only what changed."""
    for path in sorted(folder.rglob("*")):
        place = PurePosixPath(path.relative_to(folder).as_posix())
        if path.is_file() and place not in wanted and place.parts[0] != "gallery":
            path.unlink()
    for place, content in wanted.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_bytes() != content:
            path.write_bytes(content)
