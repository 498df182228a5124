"""All commands. Their modules import what is heavy inside functions, so that `--help` is quick."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from textwrap import wrap
from typing import Annotated

import typer
from typer.main import get_command_name
from typer.models import CommandInfo

from tiertune import __version__
from tiertune.tuner.cli import (
    calibrate,
    campaign,
    catalog,
    compare,
    doctor,
    evaluate,
    explain,
    gallery,
    host,
    new_policy,
    nightly,
    profiles,
    recording,
    reproduce,
    results,
    schema,
    sensitivity,
    sweep,
    transfer,
    ui,
    worker,
)

WHAT_IT_DOES = "tiertune finds, checks and compares the best settings of memory-tiering systems."
FIRST_STEPS = (
    ("tiertune demo", "tune HeMem for a graph computation, in 3 minutes"),
    ("tiertune list systems", "what can be tuned; also workloads, machines"),
    ("tiertune run hemem -w WORKLOAD -m MACHINE", "one evaluation, with defaults or your own knobs"),
    ("tiertune sweep all-systems", "a table of every system on three workloads"),
    ("tiertune tune CAMPAIGN", "a whole campaign: search, validation, report"),
    ("tiertune explain CAMPAIGN", "which of the changed knobs carry the gain"),
    ("tiertune ui", "look at campaigns, trials and knobs in a browser"),
    ("tiertune doctor", "what this machine is ready for"),
)
MORE_HELP = "`tiertune --help` has every command; `tiertune COMMAND --help` has examples."
COMMAND_WIDTH, WIDTH = 30, 80

app = typer.Typer(
    name="tiertune",
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tiertune {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Find, check and compare the best settings of memory-tiering systems.

    \b
    Exit codes: 0 done, 1 a bug of ours, 2 bad input, 3 unfit host, 130 stopped.
    TIERTUNE_RESULTS is the default of --results, NO_COLOR turns colour off,
    TIERTUNE_DEBUG=1 shows tracebacks.
    """
    if context.invoked_subcommand is None:
        print("\n".join(first_steps(shutil.get_terminal_size((WIDTH, 24)).columns)))


def first_steps(width: int) -> list[str]:
    """What to do first, in lines for a terminal: what a command does stands beside it where there is room."""
    lines = []
    for command, what in FIRST_STEPS:
        if width < WIDTH:
            lines += [f"  {command}", *wrap(what, width, initial_indent=" " * 6, subsequent_indent=" " * 6)]
        elif len(command) + 3 > COMMAND_WIDTH:
            lines += [f"  {command}", f"{'':{COMMAND_WIDTH + 2}}{what}"]
        else:
            lines.append(f"  {command:{COMMAND_WIDTH}}{what}")
    return [*wrap(WHAT_IT_DOES, width), "", "First steps:", *lines, "", *wrap(MORE_HELP, width)]


app.command()(campaign.demo)
app.command()(campaign.tune)
app.command()(campaign.resume)
app.command()(compare.compare)
app.command()(evaluate.run)
app.command()(sweep.sweep)
app.command()(reproduce.reproduce)
app.command()(sensitivity.sensitivity)
app.command()(transfer.transfer)
app.command()(explain.explain)
app.command()(gallery.gallery)
app.command()(recording.record)
app.command()(calibrate.calibrate)
app.command("new-policy")(new_policy.new_policy)
app.command("check-policy")(new_policy.check_policy)
app.add_typer(nightly.nightly, name="nightly")
app.add_typer(profiles.profile, name="profile")
app.add_typer(host.host, name="host")
app.command("list")(catalog.list_names)
app.command()(catalog.show)
app.command()(schema.schema)
app.command()(worker.worker)
app.command()(results.report)
app.command()(ui.ui)
app.command()(doctor.doctor)


def describe_only(word: str) -> None:
    """Leave the command of this name alone in `app`, if there is one.

    Describing all of them takes a fifth of what `tiertune list systems` does.
    """
    commands = [one for one in app.registered_commands if _name(one) == word]
    groups = [one for one in app.registered_groups if one.name == word]
    if commands or groups:
        app.registered_commands, app.registered_groups = commands, groups


def _name(command: CommandInfo) -> str:
    return command.name or get_command_name(getattr(command.callback, "__name__", ""))


def main() -> None:
    """The `tiertune` command."""
    if not sys.warnoptions and os.environ.get("TIERTUNE_DEBUG") != "1":
        # Warnings of libraries are for those who develop with them; they would tear the progress display.
        warnings.simplefilter("ignore")
    for word in sys.argv[1:2]:
        describe_only(word)
    try:
        app(prog_name="tiertune")
    except OSError as error:  # of a help text; commands tell their own
        from tiertune.tuner.cli.failures import told

        sys.exit(told(error, {}))
