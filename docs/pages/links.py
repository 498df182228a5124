"""Links of a Markdown page, carried from where the page lies in the checkout to where it lies on the site."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
OUTSIDE = re.compile(r"^[a-z]+:")
BLOCK = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`[^`\n]*`")


class LinkError(Exception):
    """A link that leads nowhere; the sentence names page and target."""


def external(text: str) -> set[str]:
    """Addresses of other sites that `text` links to, code left out."""
    prose = INLINE.sub("", BLOCK.sub("", text))
    linked = {match[3] for match in LINK.finditer(prose) if OUTSIDE.match(match[3])}
    return linked | set(re.findall(r"<(https?://[^>\s]+)>", prose))


def carried(
    text: str, page: PurePosixPath, places: Mapping[PurePosixPath, PurePosixPath], root: Path
) -> tuple[str, set[PurePosixPath]]:
    """`text` of the file `page` with its links as they must be on the site, and the other files that it
    names.

    `places` says where a file of the checkout lies on the site; both sides are relative, to `root` and to the
    site. A file that is no page keeps its path below `files/`; a folder becomes plain text. Raises LinkError
    for a target that is not in the checkout. Anchors are left to Sphinx.
    """
    here = places[page].parent
    files: set[PurePosixPath] = set()

    def replaced(match: re.Match[str]) -> str:
        mark, words, target = match.groups()
        if OUTSIDE.match(target) or target.startswith("#"):
            return match[0]
        path, hash_mark, anchor = target.partition("#")
        wanted = PurePosixPath(os.path.normpath(page.parent / path))
        if wanted.parts[:1] == ("..",) or not (root / wanted).exists():
            raise LinkError(f"{page}: [{words}]({target}) leads nowhere")
        if (root / wanted).is_dir():
            return words if words.startswith("`") else f"`{words}`"
        if wanted not in places:
            files.add(wanted)
        place = places.get(wanted, "files" / wanted)
        return f"{mark}[{words}]({os.path.relpath(place, here)}{hash_mark}{anchor})"

    parts = BLOCK.split(text)
    return "".join(part if BLOCK.match(part) else LINK.sub(replaced, part) for part in parts), files
