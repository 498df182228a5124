"""`transfer`: configs tuned in one context run in all others, and what follows from it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiertune.tuner.cli.failures import guarded, was_interrupted
from tiertune.tuner.cli.options import RESULTS, DryRun, Json, Results

if TYPE_CHECKING:
    from tiertune.tuner.transfer.context import Context
    from tiertune.tuner.transfer.measuring import Laboratory
    from tiertune.tuner.transfer.robust import Aim


@guarded
def transfer(
    campaigns: Annotated[
        list[str], typer.Argument(metavar="CAMPAIGN...", help="Campaigns; those not run yet are run first.")
    ],
    seeds: Annotated[int, typer.Option(min=5, max=1000, help="Fresh seeds of judgement.")] = 8,
    candidates: Annotated[
        int, typer.Option(min=1, max=5, help="Finalists of each context that may be chosen.")
    ] = 5,
    portfolio: Annotated[int, typer.Option(min=1, max=8, help="Configurations of the portfolio.")] = 2,
    aim: Annotated[str, typer.Option(help="What the portfolio is to be best at: mean or worst.")] = "mean",
    along: Annotated[
        str | None, typer.Option(metavar="AXIS", help="Walk an axis: ratio, threads or latency-gap.")
    ] = None,
    first: Annotated[str | None, typer.Option("--from", help="Where the walk begins, such as 2:1.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Where it ends, such as 1:16.")] = None,
    least: Annotated[
        float, typer.Option(min=0.0, max=1000.0, help="Gain in percent that counts as better on a walk.")
    ] = 1.0,
    context: Annotated[
        list[int] | None, typer.Option(min=1, help="Walk with this context's config only; repeat for more.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what was measured before.")] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=256, help="Runs at a time; one for each core by default.")
    ] = None,
    results: Results = RESULTS,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Run what was tuned in each context in all others.

    Says how much of the gain carries over, which differences decide, and what
    one configuration for all, or a few with a rule, cost. Along an axis: where
    a tuned configuration stops being better. Everything measured is kept.

    \b
    Examples:
      tiertune transfer transfer
      tiertune transfer transfer --along ratio --from 2:1 --to 1:16
    """
    from tiertune.files import InputError
    from tiertune.tuner.cli.campaign import tuned_campaign

    if aim not in ("mean", "worst"):
        raise InputError(f"--aim {aim}: use mean or worst")
    if along is None and (first or last or context):
        raise InputError("--from, --to and --context are about a walk; name its axis, such as --along ratio")
    ends = _ends(along, first, last) if along else None
    if dry_run:
        _print_plan(campaigns, results, as_json)
        return
    try:
        names = [tuned_campaign(campaign, results) for campaign in campaigns]
        document = _measure(
            names, results, jobs, fresh, seeds, candidates, portfolio, "mean" if aim == "mean" else "worst",
            along, ends, least, context,
        )  # fmt: skip
    except BaseException as error:
        if not was_interrupted(error):
            raise
        raise KeyboardInterrupt("stopped; what is measured is kept, the same command goes on") from None
    _conclude(document, names, results, as_json)


def _ends(along: str, first: str | None, last: str | None) -> tuple[float, float]:
    from tiertune.files import InputError
    from tiertune.tuner.transfer.axis import axis_called

    axis = axis_called(along)
    found = []
    for option, text in (("--from", first), ("--to", last)):
        if text is None:
            raise InputError(f"{option} is missing: an end of the walk along {along}, such as {axis.example}")
        try:
            found.append(axis.parse(text))
        except InputError as error:
            raise InputError(*(f"{option} {sentence}" for sentence in error.sentences)) from error
    if found[0] == found[1]:
        raise InputError(f"--to {last}: the walk ends where it begins; give two different ends")
    return found[0], found[1]


def _measure(
    names: Sequence[str],
    results: Path,
    jobs: int | None,
    fresh: bool,
    seeds: int,
    candidates: int,
    portfolio: int,
    aim: Aim,
    along: str | None,
    ends: tuple[float, float] | None,
    least: float,
    numbers: Sequence[int] | None,
) -> dict[str, Any]:
    import os

    from tiertune.files import InputError
    from tiertune.tuner.cli.output import console
    from tiertune.tuner.sweep.progress import watching
    from tiertune.tuner.transfer.context import contexts_of
    from tiertune.tuner.transfer.document import study_document
    from tiertune.tuner.transfer.measuring import Laboratory
    from tiertune.tuner.transfer.report import NOT_MEASURED
    from tiertune.tuner.transfer.study import Settings, groups_of, run_study

    contexts = contexts_of([results / name / "journal.sqlite" for name in names])
    groups = groups_of(contexts)
    settings = Settings(seeds, candidates, portfolio, aim)
    with watching(console(stderr=True)) as (listener, notify):
        laboratory = Laboratory(results, jobs or len(os.sched_getaffinity(0)), notify, listener, fresh)
        if along is not None:
            assert ends is not None
            studies, walks = [], [_walk(contexts, numbers, along, ends, least, seeds, laboratory)]
        else:
            alone = [group[0] for group in groups if len(group) == 1]
            if alone:
                raise InputError(
                    f"{alone[0].system} was tuned in one context only, {alone[0].cell}: there is nowhere to"
                    " carry it; name a campaign with several scenarios, or several campaigns"
                )
            studies, walks = [study_document(run_study(group, settings, laboratory)) for group in groups], []
    verdict = "; ".join(one["verdict"] for one in [*studies, *walks])
    command = ["tiertune", "transfer", *names, "--seeds", str(seeds)]
    if along is not None and ends is not None:
        command += [
            "--along",
            along,
            "--from",
            walks[0]["from"].rstrip("x"),
            "--to",
            walks[0]["to"].rstrip("x"),
        ]
        command += ["--least", f"{least:g}", *(f"--context={number}" for number in numbers or ())]
    else:
        command += ["--candidates", str(candidates), "--portfolio", str(portfolio), "--aim", aim]
    return {
        "campaigns": list(names),
        "verdict": verdict,
        "studies": studies,
        "along": walks,
        "not_measured": list(NOT_MEASURED),
        "reproduce": [*_commits(names, results), shlex.join(command)],
    }


def _walk(
    contexts: Sequence[Context],
    numbers: Sequence[int] | None,
    along: str,
    ends: tuple[float, float],
    least: float,
    seeds: int,
    laboratory: Laboratory,
) -> dict[str, Any]:
    from tiertune.files import InputError
    from tiertune.tuner.transfer.axis import axis_called
    from tiertune.tuner.transfer.breakpoint import along_document, walk
    from tiertune.tuner.transfer.context import labels_of

    several = len({context.system for context in contexts}) > 1
    labels = [
        f"{number} {context.system + ' ' if several else ''}{label}"
        for number, (context, label) in enumerate(zip(contexts, labels_of(contexts), strict=True), start=1)
    ]
    tuned = [number for number, one in enumerate(contexts, start=1) if one.improved]
    if not tuned:
        raise InputError(
            "nothing better than the default was found in any context: there is nothing to walk with"
        )
    wrong = [number for number in numbers or () if number > len(contexts)]
    if wrong:
        raise InputError(f"--context {wrong[0]}: there are {len(contexts)}; the largest is {len(contexts)}")
    chosen = [number - 1 for number in dict.fromkeys(numbers or tuned)]
    axis = axis_called(along)
    pairs = [(contexts[number], labels[number]) for number in chosen]
    for one, _ in pairs:
        for end in ends:
            axis.place(one, end)  # before anything is measured: both ends can be run
    lines = walk(pairs, axis, ends, least, seeds, laboratory)
    return along_document(lines, axis, ends, least, seeds)


def _commits(names: Sequence[str], results: Path) -> list[str]:
    """The commands that make the campaigns again, from their own reports."""
    from tiertune.tuner.journal import Journal
    from tiertune.tuner.report.data import reproduction

    lines: list[str] = []
    for name in names:
        with Journal(results / name / "journal.sqlite", writer=False) as journal:
            lines += reproduction(journal.claimed(), list(journal.environments().values()))
    return list(dict.fromkeys(lines))


def _print_plan(campaigns: Sequence[str], results: Path, as_json: bool) -> None:
    """`--dry-run`: which contexts there are, and which campaigns would run first."""
    from tiertune.tuner.campaign import load_campaign
    from tiertune.tuner.cli.campaign import is_complete
    from tiertune.tuner.cli.output import console, print_json, print_table
    from tiertune.tuner.plan import plan_of

    rows: list[tuple[str, ...]] = []
    states: dict[str, str] = {}
    for source in campaigns:
        stored = results / source / "campaign.yaml"
        plan = plan_of(load_campaign(str(stored) if stored.is_file() else source))
        states[plan.name] = "tuned" if is_complete(results / plan.name, plan.document) else "to be tuned"
        rows += [(str(len(rows) + 1), cell.key, plan.name, states[plan.name]) for cell in plan.cells]
    if as_json:
        names = ("number", "context", "campaign", "state")
        print_json({"contexts": [dict(zip(names, row, strict=True)) for row in rows], "campaigns": states})
        return
    print_table(["no.", "context", "campaign", "state"], rows)
    console().print(f"{len(rows)} contexts, {len(rows) * (len(rows) - 1)} transfers at most", markup=False)


def _conclude(document: dict[str, Any], names: Sequence[str], results: Path, as_json: bool) -> None:
    from tiertune.tuner.cli.output import console, print_json, print_table
    from tiertune.tuner.transfer.report import folder_of, write_files

    folder = folder_of(results, names)
    if document["along"]:
        folder = folder / f"along-{document['along'][0]['axis']}"
    paths = write_files(folder, document)
    if as_json:
        print_json({**document, "files": [str(path) for path in paths]})
        return
    out = console()
    for study in document["studies"]:
        print_table(
            ["no.", "tuned in", *(str(one["number"]) for one in study["contexts"])],
            [_line(study, one) for one in study["contexts"]],
            ["no.", *(str(one["number"]) for one in study["contexts"])],
        )
        out.print("performance relative to the default of each column's context", markup=False)
        if study["advice"]:
            out.print(study["advice"], markup=False)
        if not all(one["improved"] for one in study["contexts"]):
            out.print("- nothing better than the default was found there to carry elsewhere", markup=False)
        out.print()
    for walk in document["along"]:
        print_table(
            ["tuned for", "better", "breakpoints"],
            [
                (line["label"], line["told"], "\n".join(one["told"] for one in line["breakpoints"]) or "none")
                for line in walk["lines"]
            ],
        )
        out.print()
    out.print(document["verdict"], markup=False)
    for path in paths[:2]:
        out.print(str(path), markup=False, soft_wrap=True)


def _line(study: dict[str, Any], context: dict[str, Any]) -> list[str]:
    cells = [cell for cell in study["matrix"] if cell["from"] == context["number"]]
    shown = [
        f"{cell['ratio']:.2f}"
        if cell["ratio"] is not None
        else "failed"
        if cell["status"] == "failed"
        else "-"
        for cell in cells
    ]
    return [str(context["number"]), context["label"], *shown]
