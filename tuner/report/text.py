"""The report as JSON and as Markdown."""

from __future__ import annotations

from tiertune.tuner.report import numbers
from tiertune.tuner.report.document import Cell, FrontPart, HostPart, Report, Robustness


def render_json(report: Report) -> str:
    """report.json: every number behind every figure, keys in the order of the schema."""
    return report.model_dump_json(indent=1) + "\n"


def render_markdown(report: Report) -> str:
    """A short form for terminals and pull requests."""
    lines = [f"# {report.verdict}", ""]
    if not report.complete:
        lines += ["This campaign has not finished; this is what its journal holds so far.", ""]
    for cell in report.cells:
        lines += _cell(cell)
    if report.robustness:
        lines += ["## Over the model's uncertain parameters", "", *map(_robustness, report.robustness), ""]
    lines += ["## Not measured", "", *(f"- {line}" for line in report.not_measured), ""]
    lines += ["## Reproduce", "", *(f"    {line}" for line in report.reproduce), ""]
    return "\n".join(lines)


def _robustness(line: Robustness) -> str:
    span = ""
    if line.lowest_lead_pct is not None and line.highest_lead_pct is not None:
        span = f"; lead {line.lowest_lead_pct:+.1f} to {line.highest_lead_pct:+.1f} %"
    holds = f"holds in {line.models_where_it_holds} of {line.models} models"
    return f"- {line.claim}, {line.scene}: {line.verdict}, {holds}{span}"


def _hosts(part: HostPart) -> list[str]:
    lines = [part.note, ""]
    if part.gains:
        lines += ["| host | pairs | gain |", "|---|---:|---:|"]
        lines += [f"| {gain.host} | {gain.pairs} | {gain.ratio:.4f}x |" for gain in part.gains]
        lines.append("")
    by_host: dict[str, list[str]] = {}
    for run in part.runs:
        by_host.setdefault(run.host, []).append(f"{run.purpose} {run.number}")
    lines += [f"- {host} ran {', '.join(runs)}" for host, runs in sorted(by_host.items())]
    return [*lines, ""]


def _front(front: FrontPart) -> list[str]:
    """The table of two objectives."""
    lines = [
        f"| configuration | {front.first.name} / default | {front.second.name} / default | on the front |",
        "|---|---:|---:|---|",
    ]
    for point in front.points:
        one, other = (
            "-" if s.ratio is None else f"{s.ratio:.3f} ({s.low:.3f} to {s.high:.3f})"
            for s in (point.first, point.second)
        )
        name = point.label or f"trial {point.trial}"
        lines.append(f"| {name} | {one} | {other} | {'yes' if point.on_front else point.reason} |")
    return [*lines, "", *(f"- {line}" for line in front.failed), ""]


def _cell(cell: Cell) -> list[str]:
    lines = [
        f"## {cell.system} on {cell.workload}, {cell.machine}, {cell.ratio}, {cell.threads} threads",
        "",
        cell.verdict,
        "",
        f"Search: {len(cell.search)} of {cell.budget_trials} trials. All trials by status: "
        + ", ".join(f"{count} {status}" for status, count in cell.statuses.items())
        + ".",
        "",
    ]
    if cell.metrics:
        lines += ["| metric | default | tuned | unit | change |", "|---|---:|---:|---|---:|"]
        for row in cell.metrics:
            default, tuned, unit = numbers.pair(row.default, row.tuned, row.metric.unit)
            change = numbers.change(row.default, row.tuned)
            lines.append(f"| {row.metric.name} | {default} | {tuned} | {unit} | {change} |")
        lines.append("")
    if cell.front is not None:
        lines += _front(cell.front)
    changed = [knob for knob in cell.knobs if knob.changed]
    if changed:
        lines += ["| knob | default | tuned | unit |", "|---|---:|---:|---|"]
        for knob in changed:
            lines.append(
                f"| {knob.name} | {numbers.exact(knob.default)} | {numbers.exact(knob.tuned)} | {knob.unit} |"
            )
        lines.append("")
    if cell.hosts is not None:
        lines += _hosts(cell.hosts)
    blocks = [point for point in cell.front.found if point.native_block] if cell.front is not None else []
    for point in blocks:
        lines += [f"Configuration {point.label}:", "", "```", point.native_block.rstrip(), "```", ""]
    if cell.native_block and not blocks:
        if cell.outcome != "improved":
            lines += ["Best candidate, not an improvement:", ""]
        lines += ["```", cell.native_block.rstrip(), "```", ""]
    return lines
