"""`compare`: systems ranked at default and at each one's tuned optimum, at equal budgets."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiertune.tuner.cli.campaign import Extend, Name, Scheduler, run_campaign
from tiertune.tuner.cli.failures import BAD_INPUT, guarded, say, was_interrupted
from tiertune.tuner.cli.options import RESULTS, DryRun, Figures, Json, OpenPage, PolicyFiles, Results
from tiertune.tuner.cli.places import Places, check_scheduler, place_options

if TYPE_CHECKING:
    from tiertune.tuner.campaign import Campaign
    from tiertune.tuner.comparison.document import Comparison
    from tiertune.tuner.plan import CampaignPlan


@guarded
def compare(
    campaign: Annotated[str, typer.Argument(help="Campaign: a name or a file, with searches: 3 or more.")],
    results: Results = RESULTS,
    name: Name = None,
    extend: Extend = False,
    scheduler: Scheduler = None,
    figures: Figures = None,
    open_page: OpenPage = False,
    policy_file: PolicyFiles = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Compare systems fairly, at default and tuned.

    Every system gets the same trials, seeds and validation, and each search
    is made several times. What ran before is kept; Ctrl-C loses nothing.

    \b
    Examples:
      tiertune compare compare-small --dry-run
      tiertune compare campaigns/compare.yaml --results /tmp/results
      tiertune compare compare-small --open --figures paper/figures
      tiertune compare mine.yaml --policy-file greedy/greedy.py
    """
    from tiertune.tuner.api.campaigns import check_name
    from tiertune.tuner.api.comparing import check_comparison
    from tiertune.tuner.campaign import load_campaign
    from tiertune.tuner.cli.policies import refuse_elsewhere, register_policies, words
    from tiertune.tuner.plan import plan_of

    refuse_elsewhere(policy_file, {"--scheduler": scheduler})
    check_scheduler(scheduler)
    register_policies(policy_file)
    loaded = load_campaign(campaign)
    check_name(name)
    check_comparison(loaded, campaign)
    plan = plan_of(loaded, name)
    if dry_run:
        _print_plan(loaded, plan, results, extend, as_json)
        return
    try:
        run_campaign(loaded, plan, results, extend, Places(scheduler))
        _references(loaded, plan, results, extend)
    except BaseException as error:
        if not was_interrupted(error):
            raise
        where = "" if results == RESULTS else f" --results {shlex.quote(str(results))}"
        told = [*(["--name", name] if name else []), *place_options(Places(scheduler))]
        again = shlex.join(["tiertune", "compare", campaign]) + where
        again += "".join(f" {shlex.quote(word)}" for word in told) + words(policy_file)
        raise KeyboardInterrupt(f"stopped; nothing that was finished is lost: `{again}` goes on") from None
    _conclude(loaded, plan, results, figures, as_json, open_page)


def _print_plan(campaign: Campaign, plan: CampaignPlan, results: Path, extend: bool, as_json: bool) -> None:
    from tiertune.tuner.cli.dry_run import describe, print_plan
    from tiertune.tuner.cli.output import print_json
    from tiertune.tuner.comparison import DOCUMENT
    from tiertune.tuner.comparison.page import PAGE
    from tiertune.tuner.comparison.references import FILE

    described = describe(campaign, plan, results, extend)
    described["files"] = [
        file for file in described["files"] if not file.endswith(("report.html", "report.json"))
    ]
    described["files"] += [str(results / plan.name / file) for file in (FILE, PAGE, DOCUMENT)]
    print_json(described) if as_json else print_plan(described)


def _references(campaign: Campaign, plan: CampaignPlan, results: Path, extend: bool) -> None:
    from tiertune.tuner.api.comparing import references
    from tiertune.tuner.cli.output import console
    from tiertune.tuner.progress import watching

    with watching(console(stderr=True), {}) as watcher:
        references(campaign, plan, results, watcher, extend)


def _conclude(
    campaign: Campaign,
    plan: CampaignPlan,
    results: Path,
    figures: Path | None,
    as_json: bool,
    open_page: bool,
) -> None:
    from tiertune.tuner.api.comparing import analysed
    from tiertune.tuner.cli.output import figure_files, print_json, show
    from tiertune.tuner.comparison.page import document, figures_of

    found, paths = analysed(campaign, plan, results)
    drawn = figure_files(figures, lambda: figures_of(found))
    if as_json:
        print_json({**document(found), "files": [str(path) for path in [*paths, *drawn]]})
    else:
        _print(found, paths, drawn)
    if open_page:
        show(paths[0])
    if found.void:
        say(f"{found.verdict}: {'; '.join(found.void)}")
        raise typer.Exit(BAD_INPUT)


def _print(found: Comparison, paths: list[Path], drawn: list[Path]) -> None:
    from tiertune.tuner.cli.output import console, print_table
    from tiertune.tuner.comparison.page import ratio

    out = console()
    out.print(found.verdict, markup=False)
    print_table(
        ["system", "default", "tuned", "gain", "rank default", "rank tuned", "better"],
        [
            (
                one.name,
                ratio(one.slowdown_default.value),
                ratio(one.slowdown_tuned.value),
                ratio(one.gain.value),
                f"{one.rank_default:.2f}",
                f"{one.rank_tuned:.2f}",
                f"{one.improved} of {len(found.setting.scenarios)}",
            )
            for one in found.contenders
        ],
        ["default", "tuned", "gain", "rank default", "rank tuned", "better"],
    )
    out.print(
        "slowdowns against all-fast, geometric means; better: tuned shown to beat default", markup=False
    )
    aa = found.calibration
    out.print(f"A against A: {aa.alarms} false alarms in {aa.tests} tests", markup=False)
    out.print(f"page     {paths[0]}", markup=False, soft_wrap=True)
    out.print(f"data     {paths[1]}, and CSV beside it", markup=False, soft_wrap=True)
    for path in drawn:
        out.print(f"figure   {path}", markup=False, soft_wrap=True)
