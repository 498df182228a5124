"""`report`: what a campaign left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiertune.tuner.cli.failures import guarded, say
from tiertune.tuner.cli.options import RESULTS, Json, Results

if TYPE_CHECKING:
    from tiertune.tuner.report.document import Report


@guarded
def report(
    campaign: Annotated[str, typer.Argument(help="Name of a campaign that was run, or its file.")],
    results: Results = RESULTS,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the report as Markdown.")] = False,
    figures: Annotated[
        Path | None,
        typer.Option("--figures", metavar="FOLDER", help="Also write each figure as SVG, PDF and CSV."),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Show the page in a browser.")] = False,
    as_json: Json = False,
) -> None:
    """Write the report of a campaign from its journal.

    Makes report.html and report.json beside it, also while it still runs.

    \b
    Examples:
      tiertune report demo
      tiertune report demo --open
      tiertune report demo --figures paper/figures
      tiertune report demo --json
    """
    import sys

    from tiertune.tuner.api.results import campaign_folder
    from tiertune.tuner.cli.output import console
    from tiertune.tuner.report.files import write_report
    from tiertune.tuner.report.text import render_json, render_markdown

    made, paths = write_report(campaign_folder(campaign, results))
    page = paths[0]
    if figures is not None:
        from tiertune.tuner.report.figure_files import write_figures

        paths = [*paths, *write_figures(figures, made)]
    if as_json:
        sys.stdout.write(render_json(made))
    elif markdown:
        sys.stdout.write(render_markdown(made))
    else:
        print_verdict(made)
        for path in paths:
            console().print(str(path), markup=False, soft_wrap=True)
    if open_page:
        import webbrowser

        if not webbrowser.open(page.resolve().as_uri()):
            say(f"no browser was found; the page is {page.resolve()}")


def print_verdict(made: Report) -> None:
    """The verdict, and one line a cell where there are several."""
    from tiertune.tuner.cli.output import console

    out = console()
    out.print(made.verdict, markup=False, style="bold")
    if len(made.cells) > 1:
        for cell in made.cells:
            out.print(f"  {cell.verdict}", markup=False)
