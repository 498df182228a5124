"""A night's files: digest.html, digest.md and digest.json, each written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

from tiertune.tuner.nightly.digest import Digest, document
from tiertune.tuner.nightly.text import change, mark, render_markdown, shown
from tiertune.tuner.report.environment import report_environment
from tiertune.tuner.report.files import write_whole

PAGE = "digest.html"
MOST_TRENDS = 40


def write_digest(folder: Path, digest: Digest) -> list[Path]:
    """Writes all files into the folder of the night; the page comes first in what is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        PAGE: render_html(digest),
        "digest.md": render_markdown(digest),
        "digest.json": json.dumps(document(digest), indent=1, ensure_ascii=False, allow_nan=False) + "\n",
    }
    for name, text in texts.items():
        write_whole(folder / name, text)
    return [folder / name for name in texts]


def render_html(digest: Digest) -> str:
    """The page; equal digests give equal text."""
    from markupsafe import Markup

    from tiertune.tuner.nightly.picture import trend

    environment = report_environment()
    environment.filters.update(shown=shown, change=change, mark=mark)
    alarmed = {line.key for line in digest.figures if line.alarm is not None}
    ordered = sorted(digest.trends, key=lambda one: one.key not in alarmed)
    drawn = [(one, Markup(trend(one, f"t{place}"))) for place, one in enumerate(ordered[:MOST_TRENDS])]
    return environment.get_template("nightly.html.j2").render(
        digest=digest, trends=drawn, more=max(0, len(ordered) - MOST_TRENDS)
    )
