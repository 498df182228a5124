"""`report` and `ui`: what a campaign left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiertune.tuner.cli.failures import guarded
from tiertune.tuner.cli.options import RESULTS, Json, Results

if TYPE_CHECKING:
    from tiertune.tuner.report.document import Report


@guarded
def report(
    campaign: Annotated[str, typer.Argument(help="Name of a campaign that was run, or its file.")],
    results: Results = RESULTS,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the report as Markdown.")] = False,
    as_json: Json = False,
) -> None:
    """Write the report of a campaign from its journal.

    Makes report.html and report.json beside it, also while it still runs.

    \b
    Examples:
      tiertune report demo
      tiertune report demo --json
    """
    import sys

    from tiertune.tuner.cli.output import console
    from tiertune.tuner.report.files import write_report
    from tiertune.tuner.report.text import render_json, render_markdown

    made, paths = write_report(campaign_folder(campaign, results))
    if as_json:
        sys.stdout.write(render_json(made))
    elif markdown:
        sys.stdout.write(render_markdown(made))
    else:
        print_verdict(made)
        for path in paths:
            console().print(str(path), markup=False, soft_wrap=True)


@guarded
def ui(
    results: Results = RESULTS,
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port on this machine's loopback address.")
    ] = 5000,
    as_json: Json = False,
) -> None:
    """Print the command that opens the MLflow pages.

    \b
    Example:
      $(tiertune ui)
    """
    import sys

    from tiertune.files import InputError
    from tiertune.tuner.cli.output import print_json

    path = (results / "mlflow.sqlite").resolve()
    if not path.is_file():
        raise InputError(
            f"{path}: no MLflow runs yet; `tiertune demo` or `tiertune tune CAMPAIGN` makes some"
        )
    beside = Path(sys.executable).with_name("mlflow")
    command = [
        str(beside) if beside.exists() else "mlflow",
        "server",
        "--backend-store-uri",
        f"sqlite:///{path}",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    if as_json:
        print_json({"command": command, "url": f"http://127.0.0.1:{port}"})
    else:
        import shlex

        print(shlex.join(command))


def campaign_folder(campaign: str, results: Path) -> Path:
    """Where campaign `campaign` keeps its journal; raises `InputError` with the nearest that was run."""
    from tiertune.files import InputError
    from tiertune.nearest import nearest

    name = campaign
    if "/" in campaign or campaign.endswith((".yaml", ".yml")):
        from tiertune.tuner.campaign import load_campaign

        name = load_campaign(campaign).name
    folder = results / name
    if (folder / "journal.sqlite").is_file():
        return folder
    near = nearest(name, [path.parent.name for path in results.glob("*/journal.sqlite")])
    hint = (
        f"did you mean '{near}'?" if near else f"nothing was run yet; start with `tiertune tune {campaign}`"
    )
    raise InputError(f"{folder}: there is no journal of campaign '{name}'; {hint}")


def print_verdict(made: Report) -> None:
    """The verdict, and one line a cell where there are several."""
    from tiertune.tuner.cli.output import console

    out = console()
    out.print(made.verdict, markup=False, style="bold")
    if len(made.cells) > 1:
        for cell in made.cells:
            out.print(f"  {cell.verdict}", markup=False)
