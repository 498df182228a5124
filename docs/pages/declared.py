"""Pages of what is declared once in the code: knobs, metrics, statuses, exit codes."""

from __future__ import annotations

from docs.pages.markdown import code, plain, table
from docs.pages.systems import anchor, spelled
from tiertune import engine
from tiertune.tuner.cli.failures import EXIT_CODES
from tiertune.tuner.trial import Status

DIRECTIONS = {"minimize": "lower", "maximize": "higher", "": ""}


def pages() -> dict[str, str]:
    """Page by place on the site."""
    return {
        "reference/knobs.md": _knobs(),
        "reference/metrics.md": _metrics(),
        "reference/statuses.md": _statuses(),
        "reference/exit-codes.md": _exit_codes(),
    }


def _knobs() -> str:
    """Those of a wrapper once, by the first composition that has it; other compositions have those of their
    parts."""
    rows: dict[tuple[str, str], tuple[str, ...]] = {}
    for system in engine.systems():
        for knob in system.knobs:
            wrapper, _, hosts = system.name.partition("+")
            if hosts and not knob.name.startswith(f"{wrapper}_"):
                continue
            link = f"[`{knob.name}`](../systems/{system.name}.md#{anchor(system, knob)})"
            row = (link, wrapper, code(spelled(knob.default)), plain(knob.meaning))
            rows.setdefault((knob.name, wrapper), row)
    ordered = [rows[key] for key in sorted(rows)]
    return f"""# Knobs

All {len(ordered)} knobs, from A to Z. A name that several systems have may stand for
different things in each.

{table(["knob", "system", "default", "meaning"], ordered)}"""


def _metrics() -> str:
    rows = [
        (code(metric.name), plain(metric.unit), DIRECTIONS[metric.direction], plain(metric.meaning))
        for metric in engine.metrics()
    ]
    return f"""# Metrics

What a run on the modelled machine is measured by. Reports, journals, JSON and MLflow use these names; any of
them that has a better direction can be a campaign's objective.

{table(["metric", "unit", "better", "meaning"], rows)}"""


def _statuses() -> str:
    rows = [(code(status.value), plain(status.meaning)) for status in Status]
    return f"""# Statuses

How a trial ended. A trial that failed counts as one, and is never taken for a slow one.

{table(["status", "meaning"], rows)}"""


def _exit_codes() -> str:
    rows = [(code(number), plain(meaning)) for number, meaning in EXIT_CODES.items()]
    return f"""# Exit codes

Of every command of `tiertune`. Whatever is not 0 comes with one sentence on standard error. The daemon
`tierd` has one more, see [live](../live.md).

{table(["code", "meaning"], rows)}"""
