"""`report`: what a campaign left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiertune.tuner.cli.failures import guarded, say
from tiertune.tuner.cli.options import RESULTS, Figures, Json, OpenPage, PolicyFiles, Results

if TYPE_CHECKING:
    from tiertune.tuner.report.document import Report


@guarded
def report(
    campaign: Annotated[str, typer.Argument(help="Name of a campaign that was run, or its file.")],
    results: Results = RESULTS,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the report as Markdown.")] = False,
    figures: Figures = None,
    open_page: OpenPage = False,
    policy_file: PolicyFiles = None,
    as_json: Json = False,
) -> None:
    """Write the report of a campaign from its journal.

    Makes report.html and report.json beside it, also while it still runs.
    Where that cannot be written, --json and --markdown still print it.

    \b
    Examples:
      tiertune report demo
      tiertune report demo --open
      tiertune report demo --figures paper/figures
      tiertune report demo --json
    """
    import sys
    from itertools import chain

    from tiertune.tuner.api.results import campaign_folder, names_file
    from tiertune.tuner.cli.output import console, figure_files, show
    from tiertune.tuner.cli.policies import register_policies
    from tiertune.tuner.disk_trouble import NOT_WRITABLE
    from tiertune.tuner.progress import watching
    from tiertune.tuner.report.files import read_report, write_report
    from tiertune.tuner.report.html import figures_of
    from tiertune.tuner.report.text import render_json, render_markdown

    register_policies(policy_file)
    folder = campaign_folder(campaign, results)
    if names_file(campaign):
        _tell_changes(campaign, folder)
    paths: list[Path] = []
    with watching(console(stderr=True), {}) as watcher:
        made = read_report(folder, watcher)
        try:
            _, paths = write_report(folder, made)
        except OSError as error:
            if open_page or error.errno not in NOT_WRITABLE or not (as_json or markdown):
                raise
            say(f"{error.filename} was not written: {(error.strerror or str(error)).lower()}")
        paths += figure_files(figures, lambda: chain.from_iterable(figures_of(made).values()))
    if as_json:
        sys.stdout.write(render_json(made))
    elif markdown:
        sys.stdout.write(render_markdown(made))
    else:
        print_verdict(made)
        for path in paths:
            console().print(str(path), markup=False, soft_wrap=True)
    if open_page:
        show(paths[0])


def _tell_changes(file: str, folder: Path) -> None:
    """Says where a campaign's file was edited since: the report is of what was run."""
    from tiertune.tuner.campaign import load_campaign
    from tiertune.tuner.journal import Journal
    from tiertune.tuner.journal_claim import PLACE, settings_changed
    from tiertune.tuner.plan import plan_of

    with Journal(folder / "journal.sqlite", writer=False) as journal:
        stored = journal.claimed().document
    changes = settings_changed(stored, plan_of(load_campaign(file)).document)
    # Where trials run is in no file.
    told = [str(change) for change in changes if not PLACE.fullmatch(change.key)]
    if told:
        more = f" and {len(told) - 3} more" if len(told) > 3 else ""
        say(f"{file} has changed since ({'; '.join(told[:3])}{more}); the report is of what was run")


def print_verdict(made: Report) -> None:
    """The verdict, whether there is more to come, and one line a cell where there are several."""
    from tiertune.tuner.cli.output import console

    out = console()
    out.print(made.verdict, markup=False, style="bold")
    if not made.complete:
        out.print("not finished: this is what its journal holds so far", markup=False)
    if len(made.cells) > 1:
        for cell in made.cells:
            out.print(f"  {cell.verdict}", markup=False)
