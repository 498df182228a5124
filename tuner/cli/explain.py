"""`explain`: which knobs of a tuned configuration matter, and the fewest changes that keep its gain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiertune.tuner.api.limits import GRID, JOBS, KEEP_PCT, POINTS, SEEDS, SLICES
from tiertune.tuner.cli.failures import guarded, stopped_measuring, was_interrupted
from tiertune.tuner.cli.options import RESULTS, DryRun, Figures, Json, OpenPage, PolicyFiles, Results

if TYPE_CHECKING:
    from tiertune.tuner.explanation.study import Settings


@guarded
def explain(
    campaign: Annotated[str, typer.Argument(help="A campaign; where it was not run yet, it is run first.")],
    cell: Annotated[
        list[int] | None, typer.Option(min=1, help="Explain this cell only; repeat for more.")
    ] = None,
    keep: Annotated[
        float,
        typer.Option(
            min=KEEP_PCT.least, max=KEEP_PCT.most, help="Percent of the gain that the fewest changes keep."
        ),
    ] = 95.0,
    seeds: Annotated[
        int, typer.Option(min=SEEDS.least, max=SEEDS.most, help="Fresh seeds of judgement.")
    ] = 8,
    slices: Annotated[
        int,
        typer.Option(
            min=SLICES.least, max=SLICES.most, help="Knobs to walk along; the first two also together."
        ),
    ] = 3,
    points: Annotated[
        int, typer.Option(min=POINTS.least, max=POINTS.most, help="Values of each knob walked along.")
    ] = 9,
    grid: Annotated[
        int, typer.Option(min=GRID.least, max=GRID.most, help="Values a side of two knobs together.")
    ] = 7,
    write: Annotated[
        Path | None,
        typer.Option("--write", metavar="FILE", help="Also write the fewest changes as a config, YAML."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what was measured before.")] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=JOBS.least, max=JOBS.most, help="Runs at a time; one for each core by default."),
    ] = None,
    results: Results = RESULTS,
    figures: Figures = None,
    open_page: OpenPage = False,
    policy_file: PolicyFiles = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Explain what was tuned: which changes carry the gain.

    The fewest changes that keep it, step by step on fresh seeds; importance
    of knobs and pairs; how performance changes around the optimum. Everything
    measured is kept.

    \b
    Examples:
      tiertune explain demo
      tiertune explain demo --keep 90 --write few-changes.yaml
      tiertune explain demo --open --figures paper/figures
    """
    from tiertune.files import InputError
    from tiertune.tuner.api.explaining import check_cells
    from tiertune.tuner.cli.campaign import tuned_campaign
    from tiertune.tuner.cli.policies import register_policies
    from tiertune.tuner.cli.writable import check_file
    from tiertune.tuner.explanation.study import Settings

    register_policies(policy_file)
    if write is not None and write.suffix not in (".yaml", ".yml"):
        raise InputError(f"--write {write}: a config is YAML; write {write.with_suffix('.yaml')}")
    if write is not None:
        check_file("--write", write)
    check_cells(campaign, results, cell, write is not None)
    if dry_run:
        _print_plan(campaign, results, as_json)
        return
    settings = Settings(seeds, keep / 100.0, slices, points, grid)
    try:
        name = tuned_campaign(campaign, results)
        document = _measure(name, results, cell, settings, write is not None, jobs, fresh)
    except BaseException as error:
        if not was_interrupted(error):
            raise
        raise stopped_measuring(fresh) from None
    _conclude(document, results, write, figures, as_json, open_page)


def _measure(
    name: str,
    results: Path,
    numbers: list[int] | None,
    settings: Settings,
    one: bool,
    jobs: int | None,
    fresh: bool,
) -> dict[str, Any]:
    from tiertune.tuner.api.explaining import document_of
    from tiertune.tuner.api.limits import jobs_of
    from tiertune.tuner.cli.output import console
    from tiertune.tuner.explanation.counting import counting
    from tiertune.tuner.sweep.progress import watching
    from tiertune.tuner.transfer.measuring import Laboratory

    screen = console(stderr=True)
    with watching(screen) as (bar, notify):
        listener = bar if screen.is_terminal else counting(notify)
        laboratory = Laboratory(results, jobs_of(jobs), notify, listener, fresh)
        return document_of(name, results, numbers, settings, one, laboratory)


def _print_plan(source: str, results: Path, as_json: bool) -> None:
    """`--dry-run`: the cells, and whether the campaign would run first."""
    from tiertune.tuner.api.campaigns import campaign_to_build_on
    from tiertune.tuner.cli.dry_run import state_of
    from tiertune.tuner.cli.output import print_json, print_table
    from tiertune.tuner.plan import plan_of

    plan = plan_of(campaign_to_build_on(source, results))
    state = state_of(plan, results)
    cells = [cell for cell in plan.cells if cell.search == 0]
    names = ("number", "cell", "knobs", "state")
    rows = [(number, cell.key, len(cell.space.axes()), state) for number, cell in enumerate(cells, 1)]
    if as_json:
        found = [dict(zip(names, row, strict=True)) for row in rows]
        print_json({"campaign": plan.name, "state": state, "cells": found})
        return
    told = [[str(part) for part in row] for row in rows]
    print_table(["no.", "cell", "knobs", "state"], told, ["no.", "knobs"])


def _conclude(
    document: dict[str, Any],
    results: Path,
    write: Path | None,
    figures: Path | None,
    as_json: bool,
    open_page: bool,
) -> None:
    from tiertune.files import InputError
    from tiertune.tuner.cli.output import figure_files, print_json, show
    from tiertune.tuner.explanation.report import config_text, figures_of, folder_of, write_files
    from tiertune.tuner.report.files import write_whole

    paths = write_files(folder_of(results, document["campaign"]), document)
    if write is not None:
        cell = document["cells"][0]
        if not cell["way"]["config"]:
            raise InputError(f"--write {write}: {cell['way']['reason']}")
        try:
            write_whole(write, config_text(cell))
        except OSError as error:
            raise InputError(f"--write {write}: {error.strerror}") from error
        paths.append(write)
    drawn = figure_files(figures, lambda: figures_of(document))
    if as_json:
        print_json({**document, "files": [str(path) for path in [*paths, *drawn]]})
    else:
        _print(document, [paths[0], *([] if write is None else [write]), *drawn])
    if open_page:
        show(paths[0])


def _print(document: dict[str, Any], paths: Sequence[Path]) -> None:
    from tiertune.tuner.cli.output import console, print_table
    from tiertune.tuner.explanation.picture import step_name

    out = console()
    for cell in document["cells"]:
        if len(document["cells"]) > 1:
            out.print(f"{cell['number']}  {cell['label']}: {cell['verdict']}", markup=False)
        rows = [_line(step, step_name(step), cell["way"]["enough"]) for step in cell["way"]["steps"]]
        if rows:
            print_table(["", "change", "gain", "95 % interval", "share", ""], rows, ["gain", "share"])
        refused = cell["importance"]["refused"]
        out.print(f"importance: {refused or _important(cell['importance'])}", markup=False)
        out.print(f"around: {cell['around']}", markup=False)
        out.print()
    out.print(document["verdict"], markup=False)
    for path in paths:
        out.print(str(path), markup=False, soft_wrap=True)


def _line(step: dict[str, Any], name: str, enough: int | None) -> list[str]:
    from tiertune.tuner.report.numbers import exact

    value = f"={exact(next(iter(step['changes'].values())))}" if len(step["changes"]) == 1 else ""
    failed = step["ratio"] is None
    return [
        str(step["step"]),
        name + value,
        f"{step['ratio']:.3f}" if not failed else "forbidden" if step["forbidden"] else "failed",
        "" if failed else f"{step['low']:.3f} to {step['high']:.3f}",
        "" if step["share"] is None else f"{step['share'] * 100:.0f} %",
        "enough" if step["step"] == enough else "",
    ]


def _important(found: dict[str, Any]) -> str:
    shown = [part for part in found["knobs"] if part["shown"]]
    said = ", ".join(f"{part['knobs'][0]} {part['share'] * 100:.0f} %" for part in shown) or "no knob shown"
    pairs = [" and ".join(part["knobs"]) for part in found["pairs"] if part["shown"]]
    together = f"; {', '.join(pairs)} interact" if pairs else ""
    return f"{said}{together} (R2 {found['r2']:.2f} on trials left out)"
