"""`host`: what a host is like, and in what two of them, or two trials, differ."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiertune.tuner.cli.failures import guarded
from tiertune.tuner.cli.options import RESULTS, Json, Results

if TYPE_CHECKING:
    from tiertune.tuner.host.state import HostState

host = typer.Typer(
    no_args_is_help=True,
    help="What this host is like (show), and how hosts differ (diff).\n\n"
    "\b\n"
    "Examples:\n"
    "  tiertune host show --json > monday.json\n"
    "  tiertune host diff monday.json here",
)

HERE = "here"
State = Annotated[
    str,
    typer.Argument(
        help=f"`{HERE}`, a file of `host show --json`, or a live trial: CAMPAIGN/CELL/PURPOSE/NUMBER."
    ),
]


@host.command()
@guarded
def show(as_json: Json = False) -> None:
    """Show all settings of this host that decide how memory is tiered.

    Changes nothing and needs no privilege.

    \b
    Examples:
      tiertune host show
      tiertune host show --json > monday.json
    """
    from tiertune.tuner.cli.output import console, print_json, print_table
    from tiertune.tuner.host.state import aspect_of, read_state

    state = read_state()
    if as_json:
        print_json(state.document())
        return
    print_table(["setting", "value", "why it is recorded"], _rows(state.settings, aspect_of))
    console().print()
    quantities = {name: f"{value:,.10g}" for name, value in state.quantities.items()}
    print_table(["quantity", "value", "why it is recorded"], _rows(quantities, aspect_of), numeric=["value"])


@host.command()
@guarded
def diff(a: State, b: State, results: Results = RESULTS, as_json: Json = False) -> None:
    """Say in words what differs between two hosts, moments or live trials.

    \b
    Examples:
      tiertune host diff monday.json here
      tiertune host diff rack/hemem/search/3 rack/hemem/search/4
    """
    from tiertune.tuner.cli.output import console, print_json, print_table
    from tiertune.tuner.host.difference import MEANING, ORDER, differences, verdict

    found = differences(_state(a, results), _state(b, results))
    if as_json:
        print_json({"verdict": verdict(found), "differences": [asdict(difference) for difference in found]})
        return
    out = console()
    out.print(verdict(found), markup=False)
    for weight in ORDER:
        rows = [(d.name, d.a, d.b, d.why) for d in found if d.weight == weight]
        if rows:
            out.print(f"\n{MEANING[weight].capitalize()}:", markup=False)
            print_table(["", a, b, "why"], rows)


def _rows(values: dict[str, str], aspect_of: object) -> list[tuple[str, str, str]]:
    assert callable(aspect_of)
    return [(name, value, aspect_of(name).why) for name, value in values.items()]


def _state(origin: str, results: Path) -> HostState:
    """The state behind an argument. Raises InputError."""
    import json

    from tiertune.files import InputError
    from tiertune.tuner.host.state import HostState, read_state

    if origin == HERE:
        return read_state()
    path = Path(origin)
    if not path.is_file():
        found = _of_trial(origin, results)
        if found is None:
            raise InputError(
                f"{origin}: neither a file nor a live trial in {results}; a file comes from"
                f" `tiertune host show --json`, this host is `{HERE}`"
            )
        return found
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        document = None
    return HostState.parse(document if isinstance(document, dict) else {}, origin)


def _of_trial(key: str, results: Path) -> HostState | None:
    """What the host was like when a trial of this key began; None where no campaign has such a trial."""
    from tiertune.files import InputError
    from tiertune.tuner.host.state import state_of_raw
    from tiertune.tuner.journal import Journal
    from tiertune.tuner.loop import journal_path

    campaign, _, rest = key.partition("/")
    path = journal_path(results, campaign)
    if not rest or not path.is_file():
        return None
    with Journal(path, writer=False) as journal:
        for row in journal.rows():
            if row.trial.key == key:
                found = state_of_raw(row.raw, key)
                if found is None:
                    raise InputError(f"{key}: this trial was simulated, or its host was not looked at")
                return found
    return None
