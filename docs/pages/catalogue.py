"""One page of the files that come with tiertune: workloads, machines, spaces, campaigns and so on."""

from __future__ import annotations

from docs.pages.markdown import code, plain, table
from tiertune.tuner.cli.catalog import Kind, described

INTRODUCTION = """\
# What comes with it

Files that are installed with tiertune. Each can be named wherever one of its kind is asked for; a file of the
same name in the current directory goes first. [Files](files.md) says what they may hold.
"""


def pages() -> dict[str, str]:
    """Page by place on the site."""
    parts = [INTRODUCTION]
    for kind in Kind:
        if kind is not Kind.SYSTEMS:
            rows = [(code(row["name"]), plain(row["description"])) for row in described(kind)]
            parts.append(f"## {kind.value.capitalize()}\n\n{table(['name', 'description'], rows)}")
    return {"catalogue.md": "\n".join(parts)}
