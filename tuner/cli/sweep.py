"""`sweep`: a matrix of systems, workloads, machines and conditions, measured row by row."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from tiertune.tuner.cli.failures import BUG, guarded, stopped_measuring, was_interrupted
from tiertune.tuner.cli.options import RESULTS, DryRun, Figures, Json, OpenPage, PolicyFiles, Results

if TYPE_CHECKING:
    from tiertune.tuner.sweep.definition import Sweep, Table
    from tiertune.tuner.sweep.measured import Group
    from tiertune.tuner.sweep.row import PlannedRow

MOST_REASONS = 10


@guarded
def sweep(
    file: Annotated[str, typer.Argument(metavar="SWEEP", help="A sweep of `tiertune list sweeps`, or file.")],
    by: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Coordinates of the table's lines: system,config")
    ] = None,
    across: Annotated[
        str | None, typer.Option(metavar="NAME", help="Coordinate of its columns, such as workload; or none.")
    ] = None,
    show: Annotated[
        str | None, typer.Option(metavar="NAMES", help="What it shows: slowdown,rank,promotions")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds in place of the file's: 1, 1-5 or 1,7,9.")] = None,
    timelines: Annotated[bool, typer.Option("--timelines", help="Also keep time series.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what was measured before.")] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=256, help="Runs at a time; one for each core by default.")
    ] = None,
    results: Results = RESULTS,
    figures: Figures = None,
    open_page: OpenPage = False,
    policy_file: PolicyFiles = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Measure every combination of a matrix of experiments.

    A page, Parquet and JSON go to results/sweeps. What was measured before with
    the same engine is read back; Ctrl-C loses nothing that is done.
    Exit code 1 where a row crashed, 2 where no combination can run.

    \b
    Examples:
      tiertune sweep all-systems
      tiertune sweep all-systems --show runtime_s,promotions --seeds 1
      tiertune sweep ratios --open --figures paper/figures
      tiertune sweep sweeps/hemem-ablation.yaml --dry-run
      tiertune sweep mine.yaml --policy-file greedy/greedy.py
    """
    from tiertune.tuner.api.evaluation import parse_seeds
    from tiertune.tuner.api.sweeping import check_runnable, with_seeds
    from tiertune.tuner.cli.policies import options, register_policies
    from tiertune.tuner.sweep.definition import load_sweep
    from tiertune.tuner.sweep.matrix import rows_of

    register_policies(policy_file)
    loaded = load_sweep(file)
    loaded = loaded.model_copy(update={"table": _table(loaded, by, across, show)})
    if seeds is not None:
        loaded = with_seeds(loaded, parse_seeds(seeds))
    plans = rows_of(loaded, results)
    if dry_run and plans:
        _print_plan(loaded, plans, results, fresh, timelines or loaded.timelines, as_json)
        return
    check_runnable(loaded, plans)
    given = (("--by", by), ("--across", across), ("--show", show), ("--seeds", seeds))
    command = [
        "sweep",
        file,
        *(word for option, text in given if text is not None for word in (option, text)),
        *options(policy_file),
    ]
    crashed = _measure(
        loaded,
        plans,
        command,
        results,
        jobs,
        fresh,
        timelines or loaded.timelines,
        figures,
        open_page,
        as_json,
    )
    if crashed:
        raise typer.Exit(BUG)


def _measure(
    loaded: Sweep,
    plans: Sequence[PlannedRow],
    command: Sequence[str],
    results: Path,
    jobs: int | None,
    fresh: bool,
    timelines: bool,
    figures: Path | None,
    open_page: bool,
    as_json: bool,
) -> bool:
    """Measures, writes and prints; whether a row crashed."""
    import os

    from tiertune.tuner.api.sweeping import measured, reproduction
    from tiertune.tuner.cli.output import console, figure_files, print_json, show
    from tiertune.tuner.sweep.page import figures_of
    from tiertune.tuner.sweep.progress import watching

    cores = len(os.sched_getaffinity(0))
    try:
        with watching(console(stderr=True)) as (listener, notify):
            rows, groups, document, paths = measured(
                loaded,
                plans,
                results,
                jobs=jobs or cores,
                fresh=fresh,
                timelines=timelines,
                notify=notify,
                listener=listener,
                reproduce=reproduction(loaded, command, results),
            )
    except BaseException as error:
        if not was_interrupted(error):
            raise
        raise stopped_measuring(fresh) from None
    page = paths[0]
    paths += figure_files(figures, lambda: figures_of(loaded, rows))
    if as_json:
        print_json({**document, "files": [str(path) for path in paths]})
    else:
        _print(loaded.table, groups, paths)
    if open_page:
        show(page)
    return any(row.crashed for row in rows)


def _print(table: Table, groups: Sequence[Group], paths: Sequence[Path]) -> None:
    from tiertune import engine
    from tiertune.tuner.cli.output import console, print_table
    from tiertune.tuner.sweep.table import SMALL, Detail, grid_of, pieces, widest_range

    out = console()
    directions = {metric.name: metric.direction for metric in engine.metrics()}
    # As much of the seeds' ranges as fits beside each other; what never fits is cut into tables, with all.
    for detail in (Detail.RANGES, Detail.LARGE_RANGES, Detail.MEDIANS, Detail.RANGES):
        grid = grid_of(table, groups, directions, detail)
        cut = pieces(grid, out.width)
        if len(cut) == 1:
            break
    for number, (columns, rows) in enumerate(cut):
        if number:
            print()
        print_table(columns, rows, numeric=columns[grid.keys :])
    counts = sorted({sum(group.statuses.values()) for group in groups})
    seeds = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[-1]}"
    print()
    if counts[-1] > 1:
        said = {
            Detail.RANGES: " (lowest-highest)",
            Detail.LARGE_RANGES: f" (lowest-highest where they differ by more than {SMALL:.0%})",
            Detail.MEDIANS: f"; they differ by {widest_range(groups, table.show):.1%} of it at most",
        }
        out.print(f"median over {seeds} seeds{said[detail]}", markup=False)
    else:
        out.print("one seed", markup=False)
    _print_notes(table, groups)
    for path in paths:
        out.print(str(path), markup=False, soft_wrap=True)


def _print_notes(table: Table, groups: Sequence[Group]) -> None:
    """What the table's words mean, and why rows are missing from it."""
    from tiertune.nearest import nearest
    from tiertune.tuner.cli.output import console
    from tiertune.tuner.sweep.definition import GAUGE, OBJECT
    from tiertune.tuner.sweep.quantity import NOT_RANKED
    from tiertune.tuner.sweep.table import lacks

    out = console()
    if any(name.startswith("slowdown") for name in table.show):
        out.print("slowdown: the workload's metric against all-fast, how many times worse", markup=False)
    there = {name for group in groups for name in group.spreads}
    if any("ok" in group.statuses and len(group.statuses) > 1 for group in groups):
        out.print("* some of these seeds failed", markup=False)
    elif any(name in there and lacks(group, name) for name in table.show for group in groups):
        out.print("* not all of these rows have the figure", markup=False)
    for name in table.show:
        if name not in there and name not in NOT_RANKED:
            # Gauges and objects have their names from what runs; all others are known.
            alike = [other for other in there if other.startswith((GAUGE, OBJECT))]
            near = nearest(name, sorted(alike)) if name.startswith((GAUGE, OBJECT)) else None
            out.print(f"no row has {name}" + (f"; did you mean {near}?" if near else ""), markup=False)
    reasons: Counter[tuple[str, str]] = Counter()
    for group in groups:
        reasons.update(group.errors)
    for (status, error), count in list(reasons.items())[:MOST_REASONS]:
        rows = "1 row" if count == 1 else f"{count} rows"
        out.print(f"{status}, {rows}: {error}", markup=False)
    if len(reasons) > MOST_REASONS:
        out.print(f"and {len(reasons) - MOST_REASONS} more reasons, in the files", markup=False)


def _print_plan(
    loaded: Sweep, plans: Sequence[PlannedRow], results: Path, fresh: bool, timelines: bool, as_json: bool
) -> None:
    """`--dry-run`: the rows, and how much of them would have to be measured."""
    from dataclasses import asdict

    from tiertune.tuner.cli.output import console, print_json, print_table
    from tiertune.tuner.sweep.cache import Cache
    from tiertune.tuner.sweep.files import cache_path, folder_of
    from tiertune.tuner.sweep.measurement import runs_of
    from tiertune.tuner.sweep.row import NOT_APPLICABLE

    runs = runs_of(plans)
    cached: set[str] = set()
    if cache_path(results).is_file() and not fresh:
        with Cache(cache_path(results)) as cache:
            cached = set(cache.read([run.key for run in runs], timelines))
    rows: list[dict[str, Any]] = []
    for plan in plans:
        state = NOT_APPLICABLE if plan.run is None else "cached" if plan.run.key in cached else "to measure"
        reason = {"reason": plan.reason} if plan.run is None else {}
        rows.append({"id": plan.id, **asdict(plan.at), "knobs": plan.config, "state": state, **reason})
    files = [
        str(folder_of(results, loaded.name) / name) for name in ("report.html", "rows.parquet", "rows.json")
    ]
    if as_json:
        print_json(
            {"sweep": loaded.name, "runs": len(runs), "cached": len(cached), "rows": rows, "files": files}
        )
        return
    names = [name for name in asdict(plans[0].at) if name in ("system", "workload") or _varies(plans, name)]
    spelled = {"page_bytes": "page_size"}
    lines = [[plan.at.value(spelled.get(n, n)) for n in names] for plan in plans]
    states = [[str(row["state"])] for row in rows]
    print_table(
        [*(spelled.get(name, name) for name in names), "state"],
        [line + state for line, state in zip(lines, states, strict=True)],
    )
    for why in dict.fromkeys(plan.reason for plan in plans if plan.run is None):
        console().print(f"{NOT_APPLICABLE}: {why}", markup=False)
    print(
        f"{len(plans)} rows; {len(runs)} runs with all-fast for the slowdowns, {len(cached)} of them cached"
    )


def _varies(plans: Sequence[PlannedRow], name: str) -> bool:
    return len({getattr(plan.at, name) for plan in plans}) > 1


def _table(loaded: Sweep, by: str | None, across: str | None, show: str | None) -> Table:
    """The file's table with what the command line says in its place; raises `InputError`."""
    from tiertune.files import InputError
    from tiertune.tuner.sweep.axes import Coordinate
    from tiertune.tuner.sweep.definition import Table, known_values, unmeasured

    coordinates = list(get_args(Coordinate))
    given = loaded.table.model_dump()
    if by is not None:
        given["by"] = _choices("--by", by, coordinates)
    if across is not None:
        named = [None] if across == "none" else _choices("--across", across, coordinates)
        given["across"] = named[0]
        if len(named) > 1:
            raise InputError(f"--across {across}: columns are of one coordinate; name the others in --by")
    if show is not None:
        known = known_values(loaded)
        given["show"] = _choices("--show", show, known, lambda name: unmeasured(loaded, name, known))
    for option, key, text in (("--by", "by", by), ("--show", "show", show)):
        (most,) = (
            rule.max_length for rule in Table.model_fields[key].metadata if hasattr(rule, "max_length")
        )
        if len(given[key]) > most:
            raise InputError(
                f"{option} {text}: {len(given[key])} names; the most that a table takes is {most}"
            )
    return Table.model_validate(given)


def _choices(
    option: str, text: str, known: Sequence[str], mistake: Callable[[str], str | None] | None = None
) -> list[str]:
    """The names in `text`, each one of `known` or with no `mistake`; raises `InputError`."""
    from tiertune.files import InputError
    from tiertune.nearest import nearest

    names = [name.strip() for name in text.split(",")]
    for name in (name for name in names if name not in known):
        near = f"there is no '{name}'; did you mean '{nearest(name, known)}'?"
        if found := near if mistake is None else mistake(name):
            raise InputError(f"{option} {shlex.quote(text)}: {found}")
    return names
