"""Options that several commands share, spelled once."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

Word = TypeVar("Word", bound=StrEnum)

Results = Annotated[
    Path,
    typer.Option(
        "--results", envvar="TIERTUNE_RESULTS", metavar="DIR", help="Folder that holds the results."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Threads = Annotated[
    int | None, typer.Option(min=1, max=4096, help="Threads of the workload; its own number by default.")
]
MachineName = Annotated[str, typer.Option("--machine", "-m", help="Machine: a name or a file.")]
Figures = Annotated[
    Path | None,
    typer.Option("--figures", metavar="FOLDER", help="Also write each figure as SVG, PDF and CSV."),
]
PolicyFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--policy-file",
        metavar="FILE.py",
        help="Python file whose policies are systems of this command, as in `new-policy`; it is executed."
        " May be repeated.",
    ),
]
OpenPage = Annotated[bool, typer.Option("--open", help="Show the page in a browser.")]

RESULTS = Path("results")


def words_of(kind: type[StrEnum]) -> dict[str, Any]:
    """What an argument or option that takes one of a few words says of itself. The word comes as text, for
    `chosen`: the parser's own message would not name the nearest one."""

    def begun(incomplete: str) -> Iterable[str]:
        return [word for word in kind if word.startswith(incomplete)]

    return {"metavar": "|".join(kind), "autocompletion": begun}


def chosen(kind: type[Word], what: str, text: str) -> Word:
    """The word that was given; `what` names the argument or option. Raises InputError."""
    from tiertune.files import InputError
    from tiertune.nearest import nearest

    if text in list(kind):
        return kind(text)
    raise InputError(f"{what}: '{text}' is none of {', '.join(kind)}; did you mean '{nearest(text, kind)}'?")
