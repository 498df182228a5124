"""`demo`, `tune` and `resume`: whole campaigns, from search to report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiertune.tuner.api.campaigns import MACHINE, RATIO, SYSTEMS, TRIALS
from tiertune.tuner.cli.failures import guarded, say, was_interrupted
from tiertune.tuner.cli.options import RESULTS, DryRun, Json, PolicyFiles, Results
from tiertune.tuner.cli.places import ELSEWHERE, Places, live_plan, place_options, places_of, running
from tiertune.tuner.cli.then_host import live_campaign, tell_prediction

if TYPE_CHECKING:
    from tiertune.tuner.campaign import Campaign
    from tiertune.tuner.events import Event, Listener
    from tiertune.tuner.plan import CampaignPlan
    from tiertune.tuner.report.document import Report

Name = Annotated[
    str | None, typer.Option("--name", help="Run it under another name, with a results folder of its own.")
]
Extend = Annotated[
    bool, typer.Option("--extend", help="Go on with a larger budget than it was started with.")
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        help="Dask scheduler whose workers run the trials, tcp://HOST:PORT, or local for processes here;"
        " absent: threads of this process.",
    ),
]
Hosts = Annotated[
    Path | None,
    typer.Option(
        "--hosts",
        help="Ansible inventory whose tier_hosts run workloads that have a host part; see docs/fleet.md.",
    ),
]
Here = Annotated[
    str | None,
    typer.Option(
        "--here",
        metavar="FAST,SLOW|auto",
        help="Run workloads that have a host part live on this machine, on these two memory nodes;"
        " see docs/live.md.",
    ),
]
Container = Annotated[
    str | None,
    typer.Option(
        "--container",
        metavar="FAST,SLOW|NODE|auto",
        help="Run them live in containers of this machine's Docker Engine, on these memory nodes;"
        " see docs/containers.md.",
    ),
]
ByKernel = Annotated[
    list[str] | None,
    typer.Option(
        "--by-kernel",
        metavar="SYSTEM",
        help="With --here: this host's own kernel runs the system, instead of tierd; may be repeated.",
    ),
]
ThenHost = Annotated[
    int | None,
    typer.Option(
        "--then-host",
        min=12,
        metavar="TRIALS",
        help="With --here, --hosts or --container: search in simulation first, then live with so many"
        " trials, which begin with what the simulator holds for best; say how well it foretold them.",
    ),
]
MixedHosts = Annotated[bool, typer.Option("--mixed-hosts", help="Measure on hosts that differ all the same.")]
HALVES = ("simulated", "live", "prediction")
"""What `--then-host --json` prints, by key."""


@guarded
def demo(
    results: Results = RESULTS, name: Name = None, dry_run: DryRun = False, as_json: Json = False
) -> None:
    """Tune HeMem for a graph computation, under 3 minutes.

    Records the computation here, searches on a modelled server, proves the
    winner on fresh seeds and writes a report.

    \b
    Examples:
      tiertune demo
      tiertune demo --dry-run
    """
    _tune("demo", results, name, extend=False, dry_run=dry_run, as_json=as_json)


@guarded
def tune(
    campaign: Annotated[
        str | None, typer.Argument(help="A campaign of `tiertune list campaigns`, or a file.")
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option("--workload", "-w", help="Instead of a campaign: a workload or measured profile."),
    ] = None,
    machine: Annotated[
        str | None, typer.Option("--machine", "-m", help=f"Machine for --workload; {MACHINE} if absent.")
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(
            "--system", help=f"System for --workload; repeat it to tune several; {SYSTEMS[0]} if absent."
        ),
    ] = None,
    ratio: Annotated[
        str | None, typer.Option(help=f"Fast to slow memory for --workload; {RATIO} if absent.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help=f"Search trials for --workload; {TRIALS} if absent.")
    ] = None,
    results: Results = RESULTS,
    name: Name = None,
    extend: Extend = False,
    scheduler: Scheduler = None,
    hosts: Hosts = None,
    mixed_hosts: MixedHosts = False,
    here: Here = None,
    by_kernel: ByKernel = None,
    container: Container = None,
    then_host: ThenHost = None,
    policy_file: PolicyFiles = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Run a campaign: search, fresh-seed validation, report.

    A campaign that was started before goes on where it was. With --workload
    no file is needed: one workload is tuned on one machine.

    \b
    Examples:
      tiertune tune demo --dry-run
      tiertune tune campaigns/demo.yaml --results /tmp/results
      tiertune tune --workload redis.parquet --system hemem --trials 40
      tiertune tune campaigns/rack.yaml --hosts inventory.yml
      tiertune tune campaigns/rack.yaml --here 0,2 --then-host 20
      tiertune tune campaigns/rack.yaml --container 0,2
      tiertune tune -w gups --system greedy --policy-file greedy/greedy.py
    """
    import tempfile

    from tiertune.files import InputError
    from tiertune.tuner.api.campaigns import SYSTEMS, campaign_of, one_of, space_of
    from tiertune.tuner.cli.policies import refuse_elsewhere, register_policies

    places_given = {"--scheduler": scheduler, "--hosts": hosts, "--here": here, "--container": container}
    refuse_elsewhere(policy_file, places_given)
    register_policies(policy_file)
    said = {"--machine": machine, "--system": system or None, "--ratio": ratio, "--trials": trials}
    one_of(campaign, workload, **said)
    places = places_of(scheduler, hosts, mixed_hosts, here, by_kernel or [], container)
    if then_host is not None and places.live is None:
        raise InputError("--then-host needs --here, --hosts or --container, which say where live trials run")
    with ExitStack() as stack:
        if workload is not None:
            # Spaces of policies in Python are kept with the results, but not for a plan.
            kept = Path(stack.enter_context(tempfile.TemporaryDirectory())) if dry_run else results
            spaces = {one: space_of(one, kept) for one in system or SYSTEMS}
            made = campaign_of(workload, machine, system, ratio, trials, spaces)
            campaign = str(stack.enter_context(made))
        assert campaign is not None
        _tune(
            campaign,
            results,
            name,
            places,
            extend=extend,
            dry_run=dry_run,
            as_json=as_json,
            then_host=then_host,
            policies=policy_file,
        )


@guarded
def resume(
    campaign: Annotated[str, typer.Argument(help="Name of a campaign that was started, or its file.")],
    results: Results = RESULTS,
    extend: Extend = False,
    scheduler: Scheduler = None,
    hosts: Hosts = None,
    mixed_hosts: MixedHosts = False,
    here: Here = None,
    by_kernel: ByKernel = None,
    container: Container = None,
    policy_file: PolicyFiles = None,
    as_json: Json = False,
) -> None:
    """Go on with a campaign that was stopped or killed.

    Finished trials are kept; the rest comes out as it would have.

    \b
    Example:
      tiertune resume demo
    """
    from tiertune.tuner.api.results import campaign_folder, names_file
    from tiertune.tuner.cli.policies import check_policies_of, refuse_elsewhere, register_policies

    places_given = {"--scheduler": scheduler, "--hosts": hosts, "--here": here, "--container": container}
    refuse_elsewhere(policy_file, places_given)
    register_policies(policy_file)
    folder = campaign_folder(campaign, results)
    check_policies_of(folder, f"tiertune resume {shlex.quote(campaign)}{_folder_words(results)}")
    stored = folder / "campaign.yaml"
    if not stored.is_file():
        _check_known(campaign, stored, results)
    if extend:
        _check_file_given(campaign, folder.name, results)
    # A file that is named may have been edited since: as with `tune`, that is refused and not passed over.
    source = campaign if names_file(campaign) or extend or not stored.is_file() else str(stored)
    places = places_of(scheduler, hosts, mixed_hosts, here, by_kernel or [], container)
    _tune(
        source,
        results,
        folder.name,
        places,
        extend=extend,
        dry_run=False,
        as_json=as_json,
        policies=policy_file,
    )


def _check_known(campaign: str, stored: Path, results: Path) -> None:
    """Raises InputError where neither its folder nor the name says what a campaign with a journal is."""
    from tiertune.files import InputError, names
    from tiertune.tuner.journal import Journal

    if campaign != stored.parent.name or campaign in names("campaigns"):
        return
    with Journal(stored.with_name("journal.sqlite"), writer=False) as journal:
        journal.claimed()  # says what is wrong with a file that is no journal
    raise InputError(
        f"{stored}: no such file, so the campaign ended before its first trial or somebody took it away;"
        f" `tiertune tune FILE{_folder_words(results)}` goes on"
    )


def _check_file_given(campaign: str, name: str, results: Path) -> None:
    """Raises InputError where a larger budget is asked for, but `campaign` is a name that no file goes by."""
    from tiertune.files import InputError, names

    if campaign == name and campaign not in names("campaigns"):
        raise InputError(
            f"--extend takes the larger budget from the campaign's file, and {campaign} is its name alone;"
            f" `tiertune resume FILE --extend{_folder_words(results)}` goes on"
        )


def _folder_words(results: Path) -> str:
    return "" if results == RESULTS else f" --results {shlex.quote(str(results))}"


def _tune(
    source: str,
    results: Path,
    name: str | None,
    places: Places = ELSEWHERE,
    *,
    extend: bool,
    dry_run: bool,
    as_json: bool,
    then_host: int | None = None,
    policies: Sequence[Path] | None = None,
) -> None:
    from tiertune.tuner.api.campaigns import check_name
    from tiertune.tuner.campaign import load_campaign
    from tiertune.tuner.cli.policies import words
    from tiertune.tuner.plan import plan_of

    campaign = load_campaign(source)
    check_name(name)
    plan = plan_of(campaign, name)
    runs = [(campaign, plan, places)]
    if then_host is not None:
        simulated = Places(places.scheduler)
        runs = [(campaign, plan, simulated), (*live_campaign(campaign, plan, then_host, places), places)]
    elif places.live is not None:
        runs = [(campaign, live_plan(campaign, plan, places), places)]
    if dry_run:
        from tiertune.tuner.cli.dry_run import describe, print_plan

        described = [describe(campaign, plan, results, extend) for campaign, plan, _ in runs]
        if as_json:
            _print_json(described)
            return
        for one in described:
            print_plan(one)
        return
    if then_host is not None:
        _look_ahead(*runs[1], results)
    concluded: list[dict[str, Any]] = []
    for campaign, plan, places in runs:
        try:
            run_campaign(campaign, plan, results, extend, places)
        except BaseException as error:
            if not was_interrupted(error):
                raise
            again = shlex.join(["tiertune", "resume", plan.name, *place_options(places)])
            again = f"`{again}{_folder_words(results)}{words(policies)}`"
            if then_host is not None:
                again = "the same command"  # both halves, and what the one is worth for the other
            raise KeyboardInterrupt(f"stopped; nothing that was finished is lost: {again} goes on") from None
        concluded.append(_conclude(campaign, plan, results, quiet=as_json))
    if then_host is not None:
        concluded.append(tell_prediction(runs[0][1].name, runs[1][1].name, results, quiet=as_json))
    if as_json:
        _print_json(concluded)


def _look_ahead(campaign: Campaign, plan: CampaignPlan, places: Places, results: Path) -> None:
    """Raises HostUnfit where live trials would find no host in order: before the simulated ones, which may
    take hours. A live campaign that was begun had found one."""
    from tiertune.tuner.cli.output import console
    from tiertune.tuner.events import Note
    from tiertune.tuner.loop import journal_path
    from tiertune.tuner.progress import watching

    if journal_path(results, plan.name).exists():
        return
    with watching(console(stderr=True), {}) as watcher:

        def told(sentence: str) -> None:
            watcher(Note(sentence))

        with running(campaign, plan, results, places, watcher) as backend:
            for scenario in {cell.scenario.key: cell.scenario for cell in plan.cells}.values():
                backend.prepare(scenario, told)


def run_campaign(
    campaign: Campaign,
    plan: CampaignPlan,
    results: Path,
    extend: bool,
    places: Places = ELSEWHERE,
    also: Listener | None = None,
) -> None:
    """Runs what is left of a campaign, watched and mirrored; writes campaign.yaml beside its journal.

    `also` hears every event, too; what it raises when a trial has ended ends the campaign for now.
    """
    from tiertune.tuner.api.campaigns import conduct
    from tiertune.tuner.cli.output import console
    from tiertune.tuner.progress import watching

    objectives = {cell.key: cell.objective for cell in plan.cells}
    with watching(console(stderr=True), objectives, plan.rules.constraints) as watcher:

        def listener(event: Event) -> None:
            watcher(event)
            if also is not None:
                also(event)

        with running(campaign, plan, results, places, watcher) as backend:
            conduct(campaign, plan, results, backend, listener, extend)


def tuned_campaign(source: str, results: Path) -> str:
    """The name of a campaign whose journal is complete: run now, or as far as it was not."""
    from tiertune.tuner.api.campaigns import tuned

    return tuned(source, results, lambda campaign, plan: run_campaign(campaign, plan, results, extend=False))


def _conclude(campaign: Campaign, plan: CampaignPlan, results: Path, quiet: bool) -> dict[str, Any]:
    """Writes the report and prints it in short unless `quiet`; returns that as data."""
    from tiertune.tuner.api.campaigns import attach_report
    from tiertune.tuner.cli.output import console
    from tiertune.tuner.events import Doing
    from tiertune.tuner.progress import watching
    from tiertune.tuner.report.files import write_report

    with watching(console(stderr=True), {}) as watcher:
        watcher(Doing("writing the report"))
        made, paths = write_report(results / plan.name)
        if campaign.tracking.mlflow:
            watcher(Doing("sending the report to MLflow"))
        failure = attach_report(campaign, plan, results, paths)
    if failure:
        say(failure)
    if not quiet:
        _print_short(made, paths, results)
    document = made.model_dump(mode="json", include={"campaign", "verdict", "complete"})
    keep = {"id", "system", "workload", "machine", "ratio", "verdict", "outcome", "effect", "statuses"}
    keep.add("front")
    document["cells"] = [
        {
            **cell.model_dump(mode="json", include=keep),
            **({} if cell.front else {"config": {knob.name: knob.tuned for knob in cell.knobs}}),
        }
        for cell in made.cells
    ]
    for one in document["cells"]:
        if "front" in one:
            del one["front"]["search"]
    return {**document, "files": [str(path) for path in paths]}


def _print_short(made: Report, paths: Sequence[Path], results: Path) -> None:
    from tiertune.tuner.cli.output import console
    from tiertune.tuner.cli.results import print_verdict

    print_verdict(made)
    out = console()
    out.print(f"report   {paths[0]}", markup=False, soft_wrap=True)
    out.print(f"data     {paths[1]}", markup=False, soft_wrap=True)
    configs = [path for path in paths[2:] if path.suffix == ".yaml"]
    if configs:
        place = configs[0] if len(configs) == 1 else configs[0].parent
        out.print(f"config   {place}", markup=False, soft_wrap=True)
    for table in (path for path in paths if path.suffix == ".csv"):
        out.print(f"front    {table}", markup=False, soft_wrap=True)
    where = "" if results == RESULTS else f" --results {shlex.quote(str(results))}"
    out.print(f"browser  tiertune ui{where}", markup=False, soft_wrap=True)


def _print_json(parts: Sequence[dict[str, Any]]) -> None:
    """One document: of a campaign, or of both halves of `--then-host` and what the one foretold."""
    from tiertune.tuner.cli.output import print_json

    print_json(parts[0] if len(parts) == 1 else dict(zip(HALVES, parts, strict=False)))
