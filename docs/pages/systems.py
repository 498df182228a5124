"""A page for each system: what it is, what it looks at, its knobs, and its settings in its own names."""

from __future__ import annotations

from docs.pages.markdown import code, plain, points, table
from tiertune import engine
from tiertune.adapters.registry import adapter_for
from tiertune.engine import KnobInfo, SystemInfo
from tiertune.units import format_size


def pages() -> dict[str, str]:
    """Page by place on the site."""
    made = {f"systems/{system.name}.md": page(system) for system in engine.systems()}
    return {"systems/index.md": _index(), **made}


def _index() -> str:
    names = "\n".join(system.name for system in engine.systems())
    rows = [
        (
            f"[{system.name}]({system.name}.md)",
            str(len(system.knobs)),
            plain(system.summary),
            plain(system.signal),
        )
        for system in engine.systems()
    ]
    return f"""# Systems

Every system that can be run, tuned and compared, at the page sizes that it manages. Those with a `+` are
compositions: the first part decides when and how much, the last one which pages. Any composition whose parts
go together works by its name, also where it is not in this list. `tiertune list systems` prints the same.

{table(["system", "knobs", "what it is", "what it looks at"], rows)}
```{{toctree}}
:hidden:

{names}
```
"""


def page(system: SystemInfo) -> str:
    """The page of one system, from its declaration alone."""
    sizes = " and ".join(format_size(size) for size in system.page_bytes)
    head = f"""# {system.name}

{plain(system.summary[0].upper() + system.summary[1:])}.

{points([("looks at", plain(system.signal)), ("from", plain(system.source)), ("pages", sizes)])}
```sh
tiertune show {system.name}
tiertune run {system.name} -w gups -m skx-numa --page-size {format_size(system.page_bytes[0])}
```
"""
    if not system.knobs:
        return f"{head}\nIt has no knobs.\n"
    searched = "Those that campaigns search come first; `log`: searched by the logarithm."
    return f"{head}\n## Knobs\n\n{searched}\n\n{_rows(system)}\n{_details(system)}{_native(system)}"


def _rows(system: SystemInfo) -> str:
    rows = [
        (
            f"[`{knob.name}`](#{anchor(system, knob)})",
            code(spelled(knob.default)),
            values(knob),
            plain(knob.unit),
        )
        for knob in _ordered(system)
    ]
    return table(["knob", "default", "values", "unit"], rows)


def _details(system: SystemInfo) -> str:
    return "".join(_detail(system, knob) for knob in _ordered(system))


def _detail(system: SystemInfo, knob: KnobInfo) -> str:
    whole = "whole numbers, " if knob.type == "int" else ""
    rows = [("default", code(spelled(knob.default))), ("values", whole + values(knob))]
    rows += [(f"at `{value}`", plain(meaning)) for value, meaning in knob.special]
    if knob.condition:
        said = knob.condition.said(lambda value: f"`{spelled(value)}`")
        rows.append(("acts only while", f"`{knob.condition.knob}` {said}"))
    rows.append(("searched by campaigns", "yes" if knob.tunable else "no, unless a space names it"))
    rows.append(("a change needs", knob.change_cost.replace("-", " ")))
    rows.append(("from", plain(knob.source)))
    unit = f" ({plain(knob.unit)})" if knob.unit else ""
    target = anchor(system, knob)
    return f"({target})=\n### `{knob.name}`\n\n{plain(knob.meaning)}{unit}.\n\n{points(rows)}\n"


def _native(system: SystemInfo) -> str:
    block = adapter_for(system.name).native_block({})
    said = f"The defaults, as `tiertune show {system.name} --native` prints them:"
    return f"## In its own names\n\n{said}\n\n```text\n{block}```\n"


def _ordered(system: SystemInfo) -> list[KnobInfo]:
    """Those that campaigns search first."""
    return sorted(system.knobs, key=lambda knob: not knob.tunable)


def anchor(system: SystemInfo, knob: KnobInfo) -> str:
    """A name for links to a knob that no other page has."""
    return f"{system.name}-{knob.name}".replace("_", "-").replace("+", "-")


def values(knob: KnobInfo) -> str:
    """The values that a knob takes, in words; `log` where they are searched by their logarithm."""
    if knob.type == "bool":
        return "`true`, `false`"
    if knob.type == "choice":
        return ", ".join(code(choice) for choice in knob.choices)
    span = f"{spelled(knob.min)} to {spelled(knob.max)}"
    special = "".join(f" or {value}" for value, _ in knob.special)
    return f"{span}{special}{', log' if knob.log else ''}"


def spelled(value: object) -> str:
    """A value as people write it in a config file."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else str(value)
