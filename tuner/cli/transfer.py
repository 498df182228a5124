"""`transfer`: configs tuned in one context run in all others, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiertune.tuner.api.limits import CANDIDATES, JOBS, LEAST_PCT, PORTFOLIO, SEEDS
from tiertune.tuner.cli.failures import guarded, stopped_measuring, was_interrupted
from tiertune.tuner.cli.options import RESULTS, DryRun, Figures, Json, OpenPage, PolicyFiles, Results

if TYPE_CHECKING:
    from tiertune.tuner.api.transferring import Walk
    from tiertune.tuner.plan import CampaignPlan
    from tiertune.tuner.transfer.study import Settings


@guarded
def transfer(
    campaigns: Annotated[
        list[str], typer.Argument(metavar="CAMPAIGN...", help="Campaigns; those not run yet are run first.")
    ],
    seeds: Annotated[
        int, typer.Option(min=SEEDS.least, max=SEEDS.most, help="Fresh seeds of judgement.")
    ] = 8,
    candidates: Annotated[
        int,
        typer.Option(
            min=CANDIDATES.least, max=CANDIDATES.most, help="Finalists of each context that may be chosen."
        ),
    ] = 5,
    portfolio: Annotated[
        int, typer.Option(min=PORTFOLIO.least, max=PORTFOLIO.most, help="Configurations of the portfolio.")
    ] = 2,
    aim: Annotated[str, typer.Option(help="What the portfolio is to be best at: mean or worst.")] = "mean",
    along: Annotated[
        str | None, typer.Option(metavar="AXIS", help="Walk an axis: ratio, threads or latency-gap.")
    ] = None,
    first: Annotated[str | None, typer.Option("--from", help="Where the walk begins, such as 2:1.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Where it ends, such as 1:16.")] = None,
    least: Annotated[
        float,
        typer.Option(
            min=LEAST_PCT.least, max=LEAST_PCT.most, help="Gain in percent that counts as better on a walk."
        ),
    ] = 1.0,
    context: Annotated[
        list[int] | None, typer.Option(min=1, help="Walk with this context's config only; repeat for more.")
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
    """Run what was tuned in each context in all others.

    Says how much of the gain carries over, which differences decide, and what
    one configuration for all, or a few with a rule, cost. Along an axis: where
    a tuned configuration stops being better. Everything measured is kept.

    \b
    Examples:
      tiertune transfer transfer
      tiertune transfer transfer --along ratio --from 2:1 --to 1:16
      tiertune transfer transfer --open --figures paper/figures
    """
    from tiertune.tuner.api.transferring import planned, settings_of, walk_of
    from tiertune.tuner.cli.campaign import tuned_campaign
    from tiertune.tuner.cli.policies import register_policies

    register_policies(policy_file)
    settings = settings_of(seeds, candidates, portfolio, aim)
    walk = walk_of(along, first, last, least, context)
    contexts = planned(campaigns, results, walk)
    if dry_run:
        _print_plan(contexts, results, as_json)
        return
    try:
        names = [tuned_campaign(campaign, results) for campaign in campaigns]
        document = _measure(names, results, jobs, fresh, settings, walk)
    except BaseException as error:
        if not was_interrupted(error):
            raise
        raise stopped_measuring(fresh) from None
    _conclude(document, names, results, figures, as_json, open_page)


def _measure(
    names: Sequence[str],
    results: Path,
    jobs: int | None,
    fresh: bool,
    settings: Settings,
    walk: Walk | None,
) -> dict[str, Any]:
    from tiertune.tuner.api.limits import jobs_of
    from tiertune.tuner.api.transferring import document_of
    from tiertune.tuner.cli.output import console
    from tiertune.tuner.sweep.progress import watching
    from tiertune.tuner.transfer.measuring import Laboratory

    with watching(console(stderr=True)) as (listener, notify):
        laboratory = Laboratory(results, jobs_of(jobs), notify, listener, fresh)
        return document_of(names, results, settings, walk, laboratory)


def _print_plan(contexts: Sequence[tuple[CampaignPlan, str]], results: Path, as_json: bool) -> None:
    """`--dry-run`: which contexts there are, and which campaigns would run first."""
    from tiertune.tuner.cli.dry_run import state_of
    from tiertune.tuner.cli.output import console, print_json, print_table

    plans = {plan.name: plan for plan, _ in contexts}
    states = {name: state_of(plan, results) for name, plan in plans.items()}
    rows = [(number, key, plan.name, states[plan.name]) for number, (plan, key) in enumerate(contexts, 1)]
    if as_json:
        names = ("number", "context", "campaign", "state")
        print_json({"contexts": [dict(zip(names, row, strict=True)) for row in rows], "campaigns": states})
        return
    told = [[str(part) for part in row] for row in rows]
    print_table(["no.", "context", "campaign", "state"], told)
    console().print(f"{len(rows)} contexts, {len(rows) * (len(rows) - 1)} transfers at most", markup=False)


def _conclude(
    document: dict[str, Any],
    names: Sequence[str],
    results: Path,
    figures: Path | None,
    as_json: bool,
    open_page: bool,
) -> None:
    from tiertune.tuner.cli.output import figure_files, print_json, show
    from tiertune.tuner.transfer.report import figures_of, folder_of, write_files

    folder = folder_of(results, names)
    if document["along"]:
        folder = folder / f"along-{document['along'][0]['axis']}"
    paths = write_files(folder, document)
    drawn = figure_files(figures, lambda: figures_of(document))
    if as_json:
        print_json({**document, "files": [str(path) for path in [*paths, *drawn]]})
    else:
        _print(document, [*paths[:2], *drawn])
    if open_page:
        show(paths[0])


def _print(document: dict[str, Any], paths: Sequence[Path]) -> None:
    from tiertune.tuner.cli.output import console, print_table

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
    for path in paths:
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
