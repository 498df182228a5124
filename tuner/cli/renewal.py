"""`gallery --renew`: which stale entries are the same with this build."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tiertune.tuner.cli.failures import INCOMPLETE, say, was_interrupted

if TYPE_CHECKING:
    from tiertune.tuner.gallery.definition import Gallery
    from tiertune.tuner.gallery.renewal import Repeatable, Repeated, Unrepeatable


def renew_gallery(results: Path, folder: Path | None, jobs: int | None, dry_run: bool, as_json: bool) -> None:
    """Runs the validations of stale entries again and marks those that came to the same.

    Raises `InputError` where there is no gallery, `typer.Exit` where something stays stale.
    """
    from tiertune.tuner.cli.output import print_json
    from tiertune.tuner.gallery.renewal import confirmed, stale_of
    from tiertune.tuner.gallery.staleness import now

    paths, galleries = _read(results, folder)
    entries = sum(len(gallery.entries) for gallery in galleries)
    can, cannot = stale_of(galleries, now(), results)
    if dry_run:
        _print_plan(entries, can, cannot, as_json)
        return
    repeated = _measure(can, results, jobs)
    if any(one.same for one in repeated):
        # Read again: hours may have passed, and what was gathered meanwhile is not to be undone.
        _write(paths, confirmed(_read(results, folder)[1], repeated, now()))
    moved = [one for one in repeated if not one.same]
    document: dict[str, Any] = {
        "entries": entries,
        "renewed": [_row(one) for one in repeated if one.same],
        "moved": [
            {
                **_row(one),
                "default": one.default,
                "tuned": one.tuned,
                "gain": None if one.gain is None else one.gain.model_dump(),
                "why": one.moved,
            }
            for one in moved
        ],
        "not_run": [{**_row(one), "why": one.why} for one in cannot],
        "files": [str(path) for path in paths],
    }
    print_json(document) if as_json else _print(document)
    if moved or cannot:
        left = len(moved) + len(cannot)
        stay = "stays" if left == 1 else "stay"
        say(f"{paths[0].parent}: {left} of the gallery's {entries} entries {stay} stale")
        raise typer.Exit(INCOMPLETE)


def _read(results: Path, folder: Path | None) -> tuple[list[Path], list[Gallery]]:
    from tiertune.files import InputError
    from tiertune.tuner.gallery.definition import load_gallery
    from tiertune.tuner.gallery.folder import paths_in, places

    # What comes with tiertune is renewed where it is named: an installation may not be written to.
    place = places(results, folder)[0]
    paths = paths_in(place)
    if not paths:
        raise InputError(f"{place}: there is no gallery; gather one, or name its folder with --gallery-dir")
    return paths, [load_gallery(str(path)) for path in paths]


def _write(paths: Sequence[Path], galleries: Sequence[Gallery]) -> None:
    from tiertune.tuner.gallery.folder import text_of
    from tiertune.tuner.report.files import write_whole

    for path, gallery in zip(paths, galleries, strict=True):
        write_whole(path, text_of(gallery))


def _measure(can: Sequence[Repeatable], results: Path, jobs: int | None) -> list[Repeated]:
    from tiertune.tuner.api.limits import jobs_of
    from tiertune.tuner.cli.output import console
    from tiertune.tuner.gallery.renewal import repeat
    from tiertune.tuner.sweep.progress import watching
    from tiertune.tuner.transfer.measuring import Laboratory

    try:
        with watching(console(stderr=True)) as (listener, notify):
            return repeat(can, Laboratory(results, jobs_of(jobs), notify, listener))
    except BaseException as error:
        if not was_interrupted(error):
            raise
        raise KeyboardInterrupt(
            "stopped; what is measured is kept and the gallery is as it was, the same command goes on"
        ) from None


def _row(one: Repeatable | Repeated | Unrepeatable) -> dict[str, Any]:
    from tiertune.tuner.gallery.renewal import what

    return {"system": one.system, "what": what(one.entry), "command": one.entry.made_by.command}


def _print_plan(
    entries: int, can: Sequence[Repeatable], cannot: Sequence[Unrepeatable], as_json: bool
) -> None:
    """`--dry-run`: what would be run again, and what cannot be."""
    from tiertune.tuner.cli.output import console, print_json

    runs = sum(one.runs for one in can)
    left = [{**_row(one), "why": one.why} for one in cannot]
    if as_json:
        print_json({"entries": entries, "runs": runs, "to_run": [_row(one) for one in can], "not_run": left})
        return
    _print_left(left)
    stale = len(can) + len(cannot)
    text = f"{entries} entries, {stale} of them stale; {runs} runs for {len(can)} of these"
    console().print(text, markup=False)


def _print(document: dict[str, Any]) -> None:
    from tiertune.tuner.cli.output import console

    _print_left([*document["moved"], *document["not_run"]])
    out = console()
    if not any(document[key] for key in ("renewed", "moved", "not_run")):
        out.print(f"{document['entries']} entries, none is stale", markup=False)
        return
    for command in dict.fromkeys(one["command"] for one in [*document["moved"], *document["not_run"]]):
        out.print(f"again: {command}", markup=False, soft_wrap=True)
    counts = [f"{document['entries']} entries", f"{len(document['renewed'])} the same with this build"]
    for key, told in (("moved", "moved"), ("not_run", "not run")):
        if document[key]:
            counts.append(f"{len(document[key])} {told}")
    out.print(", ".join(counts), markup=False)


def _print_left(rows: Sequence[dict[str, Any]]) -> None:
    from tiertune.tuner.cli.output import console

    for one in rows:
        console().print(f"{one['system']}, {one['what']}: {one['why']}", markup=False, soft_wrap=True)
