"""A comparison as files: one HTML page without network, JSON, and CSV beside it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tiertune.tuner.comparison.anytime import TIME, TRIALS
from tiertune.tuner.comparison.document import Comparison, Span
from tiertune.tuner.comparison.figures import anytime, ranks, scatter, slowdowns
from tiertune.tuner.comparison.measured import Measured
from tiertune.tuner.comparison.tables import csv_files
from tiertune.tuner.report.environment import report_environment
from tiertune.tuner.report.files import write_whole

PAGE = "comparison.html"
SCHEMA = 1


def write_comparison(folder: Path, found: Comparison, figures: Measured) -> list[Path]:
    """Writes all files into the campaign's folder; the page comes first in what is returned."""
    texts = {
        PAGE: render_html(found),
        "comparison.json": json.dumps(document(found), indent=1, ensure_ascii=False, allow_nan=False) + "\n",
        **csv_files(found, figures),
    }
    for name, text in texts.items():
        write_whole(folder / name, text)
    return [folder / name for name in texts]


def document(found: Comparison) -> dict[str, Any]:
    """The comparison as plain data; what is not a number is null."""
    plain: dict[str, Any] = _plain({"schema": SCHEMA, **asdict(found)})
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def render_html(found: Comparison) -> str:
    """The page; equal comparisons give equal text."""
    from markupsafe import Markup

    environment = report_environment()
    environment.filters.update(span=span, ratio=ratio, p=p_value, percent=percent)
    drawn = {
        "slowdowns": slowdowns(found, "slowdowns"),
        "ranks": ranks(found, "ranks"),
        "scatter": scatter(found, "scatter"),
        "trials": anytime(found, TRIALS, "anytime-trials"),
        "time": anytime(found, TIME, "anytime-time"),
    }
    entries = {(entry.scenario, entry.system): entry for entry in found.entries}
    at = {(pair.stage, pair.first, pair.second): pair for pair in found.pairs}
    return environment.get_template("comparison.html.j2").render(
        found=found,
        figures={name: Markup(svg) for name, svg in drawn.items() if svg},
        entries=entries,
        pairs=at,
        systems=[contender.name for contender in found.contenders],
        ranks={one.stage: one for one in found.ranks},
        bounds=[bound for bound in found.bounds if bound.at_low + bound.at_high],
    )


def span(value: Span | None, digits: int = 3) -> str:
    """`1.234 (1.211 to 1.301)`, a dash for nothing."""
    if value is None or math.isnan(value.value):
        return "-"
    if value.low is None or value.high is None:
        return f"{value.value:.{digits}f}"
    return f"{value.value:.{digits}f} ({value.low:.{digits}f} to {value.high:.{digits}f})"


def ratio(value: float | None) -> str:
    """Three digits after the point, a dash for nothing."""
    return "-" if value is None or math.isnan(value) else f"{value:.3f}"


def p_value(value: float | None) -> str:
    """Two significant digits, never 0."""
    if value is None:
        return "-"
    return "under 0.0001" if value < 1e-4 else f"{value:.2g}"


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.0f} %"
