"""A page for each command of `tiertune`, from the command line itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from docs.pages.markdown import code, plain, table
from tiertune.tuner.cli.app import app


def pages() -> dict[str, str]:
    """Page by place on the site."""
    top: Any = get_command(app)
    made = {}
    rows = []
    for name, command in top.commands.items():
        made[f"reference/cli/{name}.md"] = _page(name, command)
        rows.append((f"[`tiertune {name}`]({name}.md)", plain(_first(command))))
    return {"reference/cli/index.md": _index(top, rows), **made}


def _index(top: Any, rows: list[tuple[str, str]]) -> str:
    names = "\n".join(top.commands)
    return f"""# Command line

{_words(top)}
{table(["command", "what it does"], rows)}
## Options of all

{_parameters(top, "option")}
```{{toctree}}
:hidden:

{names}
```
"""


def _page(name: str, command: Any) -> str:
    return "\n".join([f"# tiertune {name}\n", *_parts(f"tiertune {name}", command, "##")])


def _parts(line: str, command: Any, level: str) -> Iterator[str]:
    yield _words(command)
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            yield f"{level} {line} {name}\n"
            yield from _parts(f"{line} {name}", below, f"{level}#")
        return
    context = command.context_class(command, info_name=line)
    usage = " ".join([line, *command.collect_usage_pieces(context)])
    yield f"```text\n{usage}\n```\n"
    yield _parameters(command, "argument")
    yield _parameters(command, "option")


def _parameters(command: Any, kind: str) -> str:
    """A table of what `--help` says about arguments or options."""
    context = command.context_class(command, info_name="tiertune")
    rows = []
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if parameter.param_type_name == kind and record:
            name, meaning = record
            rows.append((code(name), plain(meaning.replace("  [", " ["))))
    return table([kind, "meaning"], rows) if rows else ""


def _first(command: Any) -> str:
    return (command.help or "").strip().split("\n\n")[0].replace("\n", " ")


def _words(command: Any) -> str:
    """The help text: paragraphs as paragraphs, examples as a block of commands.

    A paragraph that starts with \\b keeps its lines, in a terminal and here.
    """
    made = []
    for paragraph in re.split(r"\n\s*\n", (command.help or "").strip()):
        lines = paragraph.strip("\n").splitlines()
        if lines and lines[0].strip() == "\b":
            made.append(_kept(lines[1:]))
        else:
            made.append(plain(" ".join(line.strip() for line in lines)))
    return "\n\n".join(made) + "\n"


def _kept(lines: list[str]) -> str:
    said = [plain(line.strip()) for line in lines if not line.startswith("  ")]
    run = [line.strip() for line in lines if line.startswith("  ")]
    block = "\n".join(run)
    return "  \n".join(said) + (f"\n\n```sh\n{block}\n```" if run else "")
