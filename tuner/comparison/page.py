"""A comparison as files: one HTML page without network, JSON, and CSV beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from tiertune.tuner.comparison import DOCUMENT
from tiertune.tuner.comparison.anytime import TIME, TRIALS
from tiertune.tuner.comparison.document import Comparison, Span
from tiertune.tuner.comparison.figures import anytime, ranks, scatter, slowdowns
from tiertune.tuner.comparison.measured import Measured
from tiertune.tuner.comparison.scores import DEFAULT, TUNED
from tiertune.tuner.comparison.tables import csv_files, page_csv_files
from tiertune.tuner.report.environment import Figure, report_environment
from tiertune.tuner.report.files import write_whole
from tiertune.tuner.report.plain import csv_address, json_text, plain

if TYPE_CHECKING:
    from markupsafe import Markup

PAGE = "comparison.html"
SCHEMA = 1


def write_comparison(folder: Path, found: Comparison, figures: Measured) -> list[Path]:
    """Writes all files into the campaign's folder; the page comes first in what is returned."""
    texts = {
        PAGE: render_html(found),
        DOCUMENT: json_text(document(found)),
        **csv_files(found, figures),
    }
    for name, text in texts.items():
        write_whole(folder / name, text)
    return [folder / name for name in texts]


def document(found: Comparison) -> dict[str, Any]:
    """The comparison as plain data; what is not a number is null."""
    made: dict[str, Any] = plain({"schema": SCHEMA, **asdict(found)})
    return made


def render_html(found: Comparison) -> str:
    """The page; equal comparisons give equal text."""
    environment = report_environment()
    environment.filters.update(span=span, ratio=ratio, p=p_value, percent=percent)
    environment.filters.update(median=median, median_and_range=median_and_range)
    tables = page_csv_files(found)
    environment.globals["data"] = lambda name: _link(name, tables[name])
    entries = {(entry.scenario, entry.system): entry for entry in found.entries}
    at = {(pair.stage, pair.first, pair.second): pair for pair in found.pairs}
    return environment.get_template("comparison.html.j2").render(
        found=found,
        figures=_figures(found, tables),
        entries=entries,
        pairs=at,
        systems=[contender.name for contender in found.contenders],
        ranks={one.stage: one for one in found.ranks},
        bounds=[bound for bound in found.bounds if bound.at_low + bound.at_high],
        not_measured=found.not_measured,
        reproduce=found.reproduce,
    )


def figures_of(found: Comparison) -> list[Figure]:
    """All figures of the page."""
    return [one for some in _figures(found, page_csv_files(found)).values() for one in some]


def _figures(found: Comparison, tables: Mapping[str, str]) -> dict[str, list[Figure]]:
    """Figures by the part of the page in which they stand."""
    from markupsafe import Markup

    made: dict[str, list[Figure]] = {"result": [], "ranks": [], "search": []}

    def add(place: str, table: str, title: str, svg: str, caption: str) -> None:
        file = f"comparison-{table}.csv"
        if svg:
            made[place].append(Figure(f"figure-{table}", title, caption, Markup(svg), tables[file], file))

    setting = found.setting
    p = {one.stage: p_value(one.p) for one in found.ranks}
    add(
        "result",
        "systems",
        "Slowdown at default and tuned",
        slowdowns(found, "figure-systems"),
        f"Bars are 95 % intervals over {setting.workloads} workloads without each workload's own level."
        " Systems by mean rank when tuned.",
    )
    add(
        "result",
        "scenarios",
        "Tuned against default, in each scenario",
        scatter(found, "figure-scenarios"),
        "Under the dashed line tuning gained. Better and worse are shown at 5 % after Holm's adjustment"
        f" over all {len(found.entries)} points, and differ by 1 % or more.",
    )
    add(
        "ranks",
        "ranks",
        "Mean ranks and critical differences",
        ranks(found, "figure-ranks"),
        f"Mean rank over {max((one.blocks for one in found.ranks), default=0)} workloads, 1 is best; machines"
        " that run the same workload count as one, as they are no independent evidence. Thick lines join"
        " systems that are not told apart: closer than Nemenyi's critical difference at 5 %, or all of them"
        f" where Friedman's test finds no difference (p at default {p.get(DEFAULT, '-')},"
        f" tuned {p.get(TUNED, '-')}).",
    )
    add(
        "search",
        "anytime-trials",
        "Best so far over trials",
        anytime(found, TRIALS, "figure-anytime-trials"),
        f"Median and quartiles over {setting.searches} searches of the geometric mean over scenarios; grey:"
        " the other systems; dashed: the system's default, validated. Single runs flatter the best of them,"
        " so a curve may end below what validation found.",
    )
    add(
        "search",
        "anytime-time",
        "Best so far over simulated time",
        anytime(found, TIME, "figure-anytime-time"),
        "The same at equal simulated time: a system whose trials are slow gets fewer of them. Ends where the"
        " quickest system has spent its trials.",
    )
    return made


def _link(name: str, text: str) -> Markup:
    from markupsafe import Markup

    link = Markup('<a download="{0}" href="{1}">{0}</a>')
    return link.format(name, csv_address(text))


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


def median_and_range(values: Sequence[float]) -> str:
    """`0.333 (-1.000 to 1.000)`."""
    return f"{ratio(median(values))} ({ratio(min(values))} to {ratio(max(values))})"


def p_value(value: float | None) -> str:
    """Two significant digits, never 0."""
    if value is None:
        return "-"
    return "under 0.0001" if value < 1e-4 else f"{value:.2g}"


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.0f} %"
