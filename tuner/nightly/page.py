"""A night's files: digest.html, digest.md and digest.json, each written whole or not at all."""

from __future__ import annotations

import shlex
from pathlib import Path

from tiertune.tuner.nightly.digest import Digest, Trend, document
from tiertune.tuner.nightly.text import change, mark, render_markdown, shown
from tiertune.tuner.report.data import checkout
from tiertune.tuner.report.environment import Figure, report_environment
from tiertune.tuner.report.files import write_whole
from tiertune.tuner.report.plain import csv_text, json_text

PAGE = "digest.html"
MOST_TRENDS = 40
MODELLED = (
    "Real hardware: every number comes from the modelled machine; its file has the source of each figure."
)
LIMITS = (
    "Other workloads, machines and ratios than those of the suite's campaigns.",
    "Changes that are smaller than what the seeds of a night tell apart; the bars of the trends show it.",
)


def write_digest(folder: Path, digest: Digest) -> list[Path]:
    """Writes all files into the folder of the night; the page comes first in what is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        PAGE: render_html(digest),
        "digest.md": render_markdown(digest),
        "digest.json": json_text(document(digest)),
    }
    for name, text in texts.items():
        write_whole(folder / name, text)
    return [folder / name for name in texts]


def render_html(digest: Digest) -> str:
    """The page; equal digests give equal text."""
    environment = report_environment()
    environment.filters.update(shown=shown, change=change, mark=mark)
    trends = figures_of(digest)
    return environment.get_template("nightly.html.j2").render(
        digest=digest,
        trends=trends,
        more=len(digest.trends) - len(trends),
        not_measured=_not_measured(digest),
        reproduce=_commands(digest),
    )


def figures_of(digest: Digest) -> list[Figure]:
    """The figures of the page, those with alarms first."""
    alarmed = {line.key for line in digest.figures if line.alarm is not None}
    ordered = sorted(digest.trends, key=lambda one: one.key not in alarmed)
    return [_figure(digest, one, f"t{place}") for place, one in enumerate(ordered[:MOST_TRENDS])]


def _figure(digest: Digest, one: Trend, name: str) -> Figure:
    from markupsafe import Markup

    from tiertune.tuner.nightly.picture import trend

    head = ["night", "log_change_from_first", "standard_error", "new_level"]
    rows = [[point.night, point.value, point.error, point.night in one.steps] for point in one.points]
    caption = f"{len(rows)} nights."
    file = f"{digest.suite}-{digest.night}-{name}.csv"
    return Figure(name, one.label, caption, Markup(trend(one, name)), csv_text([head, *rows]), file)


def _not_measured(digest: Digest) -> list[str]:
    """What was due and was not measured first, then what no night measures."""
    due = [f"{told.campaign}: {told.what}: {told.why}" for told in digest.not_measured]
    lines = due or ["Everything that was due was measured. Beyond it:"]
    if digest.environment.get("backend backend") == "sim":
        lines.append(MODELLED)
    return [*lines, *LIMITS]


def _commands(digest: Digest) -> list[str]:
    """What runs such a night again; its history cannot be made again, it is of the nights that were."""
    facts = digest.environment
    git = {"commit": facts.get("git commit", ""), "modified": facts.get("git modified") == "True"}
    night = [".venv/bin/tiertune", "nightly", "run", digest.suite, "--date", digest.night, "--any-time"]
    return [
        *checkout([git]),
        "# A suite that is not one of suites/ is named by its file. This measures the panel anew; the nights",
        "# that a night is compared with are in history.sqlite, beside their folders.",
        shlex.join([*night, "--results", "results-again"]),
    ]
