"""`gallery`, and the part of `show` that asks it: tuned configurations that there are already."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiertune.tuner.api.limits import JOBS
from tiertune.tuner.cli.failures import INCOMPLETE, guarded, say, stopped_measuring, was_interrupted
from tiertune.tuner.cli.options import RESULTS, DryRun, Json, PolicyFiles, Results
from tiertune.tuner.cli.renewal import renew_gallery

if TYPE_CHECKING:
    from tiertune.tuner.transfer.traits import Traits

PAGE_SIZE = "2MiB"
GalleryFolder = Annotated[
    Path | None,
    typer.Option(
        "--gallery-dir",
        metavar="DIR",
        help="Folder of the gallery, or one file of it; by default RESULTS/gallery, and what comes with"
        " tiertune.",
    ),
]


@guarded
def gallery(
    campaigns: Annotated[
        list[str] | None,
        typer.Argument(metavar="CAMPAIGN...", help="Campaigns to gather; those not run yet are run first."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="List what is stale; the exit code is 5 where there is some.")
    ] = False,
    renew: Annotated[
        bool,
        typer.Option(
            "--renew", help="Run validations of what is stale again; what is the same is of this build, too."
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=JOBS.least, max=JOBS.most, help="Runs at a time of --renew; one for each core by default."
        ),
    ] = None,
    gallery_dir: GalleryFolder = None,
    results: Results = RESULTS,
    policy_file: PolicyFiles = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Gather tuned configurations, or list what there is.

    Each has its context, its gain on held-back seeds with the interval, its
    budget, versions, and the command that makes it again. What `tiertune
    transfer` measured in the same results says how far to trust it elsewhere.
    The gallery holds exactly what the named campaigns found.

    \b
    Examples:
      tiertune gallery compare
      tiertune gallery
      tiertune gallery --check
      tiertune gallery --renew
      tiertune show hemem --gallery -w bc-kron -m skx-numa --ratio 1:4
    """
    from tiertune.files import InputError
    from tiertune.tuner.cli.policies import register_policies

    register_policies(policy_file)
    if campaigns and check:
        raise InputError("--check: looks at what was gathered before; leave the campaigns out")
    if campaigns and renew:
        raise InputError("--renew: runs what was gathered before; leave the campaigns out")
    if check and renew:
        raise InputError("--check: --renew says what is stale afterwards; leave one of the two out")
    if jobs is not None and not renew:
        raise InputError("--jobs: goes with --renew; campaigns have their own number of workers")
    if dry_run and not campaigns and not renew:
        raise InputError("--dry-run: goes with campaigns to gather, or with --renew")
    if campaigns and dry_run:
        _print_plan(campaigns, results, as_json)
    elif renew:
        renew_gallery(results, gallery_dir, jobs, dry_run, as_json)
    elif campaigns:
        _gather(campaigns, results, gallery_dir, policy_file, as_json)
    else:
        _look(results, gallery_dir, check, as_json)


def _gather(
    campaigns: Sequence[str],
    results: Path,
    folder: Path | None,
    policies: Sequence[Path] | None,
    as_json: bool,
) -> None:
    from tiertune.files import InputError
    from tiertune.tuner.cli.campaign import tuned_campaign
    from tiertune.tuner.cli.output import console, print_json
    from tiertune.tuner.cli.policies import words
    from tiertune.tuner.gallery.answer import listing, uncommitted
    from tiertune.tuner.gallery.definition import FOLDER
    from tiertune.tuner.gallery.folder import write_galleries
    from tiertune.tuner.gallery.gathering import gather
    from tiertune.tuner.gallery.staleness import now

    if folder is not None and folder.is_file():
        raise InputError(f"--gallery-dir {folder}: is a file; a gallery is written to a folder")
    try:
        names = list(dict.fromkeys(tuned_campaign(campaign, results) for campaign in campaigns))
    except BaseException as error:
        if not was_interrupted(error):
            raise
        raise stopped_measuring() from None
    gathered = gather(names, results, words(policies))
    paths = write_galleries(folder or results / FOLDER, gathered)
    rows = listing(gathered, now())
    if told := uncommitted(gathered):
        console(stderr=True).print(told, markup=False, soft_wrap=True)
    if as_json:
        print_json({"entries": rows, "files": [str(path) for path in paths]})
        return
    _print_rows(rows)
    for path in paths:
        console().print(str(path), markup=False, soft_wrap=True)


def _print_plan(campaigns: Sequence[str], results: Path, as_json: bool) -> None:
    """`--dry-run`: what would be gathered, and which campaigns would run first."""
    from tiertune.tuner.api.campaigns import campaign_to_build_on
    from tiertune.tuner.cli.dry_run import state_of
    from tiertune.tuner.cli.output import console, print_json, print_table
    from tiertune.tuner.plan import plan_of

    states: list[tuple[str, int, str]] = []
    for source in campaigns:
        plan = plan_of(campaign_to_build_on(source, results))
        contexts = sum(cell.search == 0 for cell in plan.cells)
        states.append((plan.name, contexts, state_of(plan, results)))
    if as_json:
        print_json([dict(zip(("campaign", "entries", "state"), row, strict=True)) for row in states])
        return
    told = [(name, str(entries), state) for name, entries, state in states]
    print_table(["campaign", "entries", "state"], told, ["entries"])
    console().print("`tiertune tune CAMPAIGN --dry-run` says how long one takes", markup=False)


def _look(results: Path, folder: Path | None, check: bool, as_json: bool) -> None:
    from tiertune.files import InputError
    from tiertune.tuner.cli.output import console, print_json
    from tiertune.tuner.gallery.answer import listing, older_tests, stale_entries
    from tiertune.tuner.gallery.definition import load_gallery
    from tiertune.tuner.gallery.folder import paths_in, places
    from tiertune.tuner.gallery.staleness import now

    # The first place that holds something: what comes with tiertune is not looked at beside one's own.
    paths = next((paths for place in places(results, folder) if (paths := paths_in(place))), [])
    if not paths:
        where = places(results, folder)[0]
        raise InputError(f"{where}: there is no gallery; gather one: tiertune gallery CAMPAIGN")
    found = [load_gallery(str(path)) for path in paths]
    if not check:
        rows = listing(found, now())
        files = [str(path) for path in paths]
        print_json({"entries": rows, "files": files}) if as_json else _print_rows(rows)
        return
    stale, older = stale_entries(found, now()), older_tests(found, now())
    entries = sum(len(one.entries) for one in found)
    if as_json:
        files = [str(path) for path in paths]
        print_json({"entries": entries, "stale": stale, "older_tests": older, "files": files})
    else:
        for one in stale:
            console().print(f"{one['system']}, {one['what']}: {one['why']}", markup=False, soft_wrap=True)
        commands = dict.fromkeys(one["command"] for one in stale)
        for command in commands:
            console().print(f"again: {command}", markup=False, soft_wrap=True)
        if stale:
            console().print("or see what has not moved: tiertune gallery --renew", markup=False)
        else:
            console().print(f"{entries} entries, none is stale", markup=False)
        for one in older:
            text = f"{one['system']}, {one['what']}: {one['why']}; its entries are the same with this one"
            console().print(text, markup=False, soft_wrap=True)
    if stale:
        say(f"{paths[0].parent}: {len(stale)} of the gallery's figures are stale")
        raise typer.Exit(INCOMPLETE)


def _print_rows(rows: Sequence[dict[str, Any]]) -> None:
    from tiertune.tuner.cli.output import print_table

    print_table(
        ["system", "context", "gain", "knobs", "stale"],
        [
            (
                row["system"],
                " ".join(row[part] for part in ("workload", "machine", "ratio", "threads", "pages")),
                _gain(row),
                str(len(row["knobs"])),
                "stale" if row["stale"] else "",
            )
            for row in rows
        ],
        ["knobs"],
    )


def _gain(row: dict[str, Any]) -> str:
    gain = row["gain"]
    if row["outcome"] != "improved" or gain is None:
        return "default is as good"
    return f"{gain['ratio']:.2f} ({gain['low']:.2f} to {gain['high']:.2f})"


def show_nearest(
    system: str,
    workload: str | None,
    machine: str | None,
    ratio: str | None,
    threads: int | None,
    page_size: str | None,
    results: Path,
    folder: Path | None,
    native: bool,
    as_json: bool,
) -> None:
    """`show SYSTEM --gallery`: the nearest entry for a context; without one, all entries of the system."""
    from tiertune import engine
    from tiertune.files import InputError
    from tiertune.tuner.api.campaigns import RATIO
    from tiertune.tuner.cli.output import print_json
    from tiertune.tuner.gallery.answer import answer, listing
    from tiertune.tuner.gallery.folder import galleries_of, places
    from tiertune.tuner.gallery.staleness import now

    engine.system(system)  # whoever mistypes a name is told which is near
    if folder is not None and not folder.exists():
        raise InputError(f"--gallery-dir {folder}: there is no such folder")
    found = galleries_of(system, places(results, folder))
    if not found:
        where = " or ".join(str(place) for place in places(results, folder)[:1])
        raise InputError(
            f"{where}: the gallery has nothing of {system}; tune it, then gather: tiertune gallery CAMPAIGN"
        )
    if not any((workload, machine, ratio, threads, page_size)):
        if native:
            raise InputError("--native: goes with --workload and --machine, which say what for")
        rows = listing(found, now())
        print_json({"entries": rows}) if as_json else _print_rows(rows)
        return
    for option, given in (("--workload", workload), ("--machine", machine)):
        if given is None:
            raise InputError(f"{option} is missing: a context has a workload and a machine")
    wanted = _wanted(system, str(workload), str(machine), ratio or RATIO, threads, page_size or PAGE_SIZE)
    said = answer(wanted, found, now())
    said["tune"] = None
    if not said["exact"] and threads is None and page_size is None:
        words = ["tune", "-w", str(workload), "-m", str(machine), "--ratio", wanted.ratio, "--system", system]
        said["tune"] = f"tiertune {shlex.join(words)}"
    if as_json:
        print_json(said)
        return
    if said["stale"]:
        say(f"stale: {said['stale']}; again: {said['entry']['made_by']['command']}")
    if native:
        if not said["exact"]:
            say(f"of the nearest context that was tuned; {said['trust']['told']}")
        print(said["entry"]["native"], end="")
        return
    _print_answer(said)


def _wanted(
    system: str, workload: str, machine: str, ratio: str, threads: int | None, page_size: str
) -> Traits:
    from tiertune import engine
    from tiertune.machines.definition import load_machine
    from tiertune.tuner.api.evaluation import check_fit, checked
    from tiertune.tuner.transfer.traits import traits_of
    from tiertune.tuner.trial import Scenario
    from tiertune.workloads.definition import load_workload

    page_bytes = checked("--page-size", page_size)
    checked("--ratio", ratio)
    definition, model = load_workload(workload), load_machine(machine)
    check_fit(engine.system(system), definition, model, threads, page_bytes, ratio)
    return traits_of(definition, model, Scenario(workload, machine, ratio, threads, page_bytes))


def _print_answer(said: dict[str, Any]) -> None:
    from textwrap import fill, indent

    from tiertune import engine
    from tiertune.tuner.cli.output import console
    from tiertune.tuner.report.numbers import exact

    out, entry = console(), said["entry"]
    made = entry["made_by"]
    words = said["wanted"]
    out.print(f"{said['system']} for {_in_words(words)}", markup=False, style="bold")

    def line(name: str, text: str) -> None:
        out.print(f"\n{name}", markup=False)
        for one in text.splitlines():
            whole = " " not in one or one.startswith("tiertune ")  # commands are for pasting
            print(indent(one if whole else fill(one, out.width - 4), "    "))

    if said["exact"]:
        line("in the gallery", "this very context was tuned")
    else:
        parts = [f"{one['part']}: {one['there']} there, {one['here']} here" for one in said["differs"]]
        line(f"nearest of {said['entries']} in the gallery", "\n".join(parts))
    line("found there", entry["verdict"])
    line("how far to trust it", said["trust"]["told"])
    measured = said["trust"]["measured"]
    if measured is not None and measured["stale"]:
        line("the transfer test is stale", measured["stale"])
    if said["tune"]:
        line("to be sure", said["tune"])
    build = ", ".join(made["builds"]) or "unknown build"
    told = (
        f"{made['command']}\n{entry['trials']} trials, seed {entry['seed']}; tiertune {made['tiertune']},"
        f" engine {made['engine']} ({build})"
    )
    if (later := made["confirmed"]) is not None:
        told += (
            f"\nits validation was run again with tiertune {later['tiertune']}, engine {later['engine']}"
            f" ({later['build']}): the same to the last bit"
        )
    line("made by", told)
    knobs = entry["knobs"]
    out.print(f"\n{'knobs off their default' if knobs else 'the configuration is the default'}")
    defaults = {knob.name: knob.default for knob in engine.system(said["system"]).knobs}
    for name, value in knobs.items():
        out.print(f"    {name} = {exact(value)}    default {exact(defaults[name])}", markup=False)
    if entry["native"]:
        out.print("\nin the system's own names")
        print("".join(f"    {one}\n" if one else "\n" for one in entry["native"].splitlines()), end="")


def _in_words(words: dict[str, str]) -> str:
    """`bc-kron on skx-numa, fast:slow 1:8, 12 threads, pages of 2MiB`."""
    threads = words["threads"].removesuffix("t")
    return (
        f"{words['workload']} on {words['machine']}, fast:slow {words['ratio']}, {threads} threads, pages of"
        f" {words['pages']}"
    )
