"""`nightly`: a suite of campaigns, every night, and the alarms over its history."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from tiertune.tuner.cli.campaign import ByKernel, Container, Here, Hosts, MixedHosts, Scheduler
from tiertune.tuner.cli.failures import BUG, INCOMPLETE, REGRESSION, guarded, say, was_interrupted
from tiertune.tuner.cli.options import RESULTS, DryRun, Figures, Json, OpenPage, Results
from tiertune.tuner.cli.places import (
    Places,
    live_plan,
    nodes_here,
    nodes_of_container,
    place_options,
    places_of,
    running,
)

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from tiertune.tuner.backend import Backend
    from tiertune.tuner.campaign import Campaign
    from tiertune.tuner.events import Event, Listener
    from tiertune.tuner.nightly.digest import Digest
    from tiertune.tuner.nightly.history import History
    from tiertune.tuner.nightly.lock import NightLock
    from tiertune.tuner.nightly.suite import Suite
    from tiertune.tuner.plan import CampaignPlan


class NightlyGroup(TyperGroup):
    """`tiertune nightly SUITE` is `tiertune nightly run SUITE`: what is said every night is short."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts `run` before what is no command."""
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


nightly = typer.Typer(
    cls=NightlyGroup,
    no_args_is_help=True,
    help="Run a suite night by night; alarms on regressions.\n\n"
    "\b\n"
    "tiertune nightly SUITE runs a night: `tiertune nightly run --help`.\n"
    "Exit codes beside the usual ones: 4 an alarm was raised, 5 not all that\n"
    "was due was measured.\n\n"
    "\b\n"
    "Examples:\n"
    "  tiertune nightly suites/nightly.yaml\n"
    "  tiertune nightly install nightly --dry-run\n"
    "  tiertune nightly accept nightly 1 --reason 'new kernel'",
)

SuiteName = Annotated[str, typer.Argument(help="A suite of `tiertune list suites`, or a file.")]
Date = Annotated[
    str | None,
    typer.Option("--date", metavar="YYYY-MM-DD", help="Date of the night; absent: by clock and window."),
]
User = Annotated[bool, typer.Option("--user/--system", help="Units of this user, or of the whole machine.")]
Cron = Annotated[bool, typer.Option("--cron", help="A line of the crontab instead of systemd units.")]


@nightly.command("run")
@guarded
def run_night(
    suite: SuiteName,
    results: Results = RESULTS,
    date: Date = None,
    any_time: Annotated[bool, typer.Option("--any-time", help="Run now, whatever the windows say.")] = False,
    scheduler: Scheduler = None,
    hosts: Hosts = None,
    mixed_hosts: MixedHosts = False,
    here: Here = None,
    by_kernel: ByKernel = None,
    container: Container = None,
    figures: Figures = None,
    open_page: OpenPage = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Run tonight's part of a suite and write the digest.

    First the panel (default and accepted winner of each cell, on the same
    seeds every night), then searches by priority, each from where it stopped.
    Exit codes: 0 fine, 1 a bug of ours, 2 bad input, 3 unfit host, 4 an alarm
    was raised, 5 not all that was due was measured, 130 stopped.

    \b
    Examples:
      tiertune nightly suites/nightly.yaml
      tiertune nightly nightly --dry-run
      tiertune nightly nightly --open --figures paper/figures
    """
    from datetime import datetime

    from tiertune.tuner.cli.output import figure_files, show
    from tiertune.tuner.nightly.lock import Busy, NightLock
    from tiertune.tuner.nightly.page import figures_of
    from tiertune.tuner.nightly.schedule import night_of
    from tiertune.tuner.nightly.suite import load_suite

    places = places_of(scheduler, hosts, mixed_hosts, here, by_kernel or [], container)
    _check(places)
    loaded = load_suite(suite)
    span = loaded.window.span if loaded.window else None
    night = _checked_date(date) if date else night_of(datetime.now(), span).isoformat()
    if dry_run:
        described = _described(loaded, results, night)
        _print_plan(described, as_json)
        return
    try:
        lock = NightLock(_home(results) / "lock", loaded.name)
    except Busy as busy:
        say(str(busy))
        raise typer.Exit(INCOMPLETE) from None
    with lock:
        digest, paths, bugs, notes = _run(loaded, results, night, lock, places, limited=not any_time)
    drawn = figure_files(figures, lambda: figures_of(digest))
    _print_digest(digest, paths, drawn, notes, as_json)
    if open_page:
        show(paths[0])
    for bug in bugs:
        say(f"a bug of ours, sorry; its traceback is in {paths[0].parent / 'night.log'}: {bug}")
    codes = {"regression": REGRESSION, "incomplete": INCOMPLETE, "fine": 0}
    code = BUG if bugs else codes[digest.outcome]
    if code:
        raise typer.Exit(code)


@nightly.command()
@guarded
def accept(
    suite: SuiteName,
    alarms: Annotated[list[int] | None, typer.Argument(help="Numbers of alarms; absent: all open.")] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why this is the new normal.")] = "accepted",
    results: Results = RESULTS,
    as_json: Json = False,
) -> None:
    """Close alarms: what changed is meant, and the new normal.

    Later nights are compared with the nights since the change.

    \b
    Example:
      tiertune nightly accept nightly 1 --reason 'larger data set'
    """
    from tiertune.files import InputError
    from tiertune.tuner.cli.output import console, print_json
    from tiertune.tuner.nightly.alarms import accept as accepted
    from tiertune.tuner.nightly.lock import Busy, NightLock

    name = _suite_name(suite, results)
    try:
        lock = NightLock(_home(results) / "lock", name)
    except Busy as busy:
        raise InputError(str(busy)) from None
    with lock, _history(results, name) as history:
        watch = history.watch()
        known = {alarm.number: alarm for alarm in watch.alarms}
        still = [number for number, alarm in known.items() if alarm.state == "raised"]
        wanted = alarms or still
        for number in wanted:
            if number not in still:
                what = f"is {known[number].state} already" if number in known else "is none of its alarms"
                there = ", ".join(map(str, still)) or "none"
                raise InputError(f"suite {name}: alarm {number} {what}; open alarms: {there}")
        night = (history.nights() or [""])[-1]
        history.keep_watch(accepted(watch, wanted, night, reason))
    if as_json:
        print_json({"suite": name, "accepted": wanted, "reason": reason})
    else:
        text = f"accepted: {', '.join(map(str, wanted))}" if wanted else "no alarm is open"
        console().print(text, markup=False)


@nightly.command()
@guarded
def install(
    suite: SuiteName,
    results: Results = RESULTS,
    user: User = True,
    cron: Cron = False,
    scheduler: Scheduler = None,
    hosts: Hosts = None,
    mixed_hosts: MixedHosts = False,
    here: Here = None,
    by_kernel: ByKernel = None,
    container: Container = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="HH:MM", help="When it starts; absent: as the window begins, or 22:00."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Start the suite every night: systemd units, or a crontab line.

    Units are written and checked; the commands that enable them are printed.
    Where nights run is told here as to `tiertune nightly run`.

    \b
    Examples:
      tiertune nightly install nightly --dry-run
      tiertune nightly install nightly --here auto --by-kernel nbt --system
      tiertune nightly install nightly --cron --at 23:30
    """
    from tiertune.files import InputError
    from tiertune.tuner.cli.output import console
    from tiertune.tuner.nightly.schedule import parse_clock
    from tiertune.tuner.nightly.suite import load_suite
    from tiertune.tuner.nightly.units import (
        Start,
        cron_line,
        service,
        timer,
        unit_folder,
        verified,
        with_line,
    )
    from tiertune.tuner.report.files import write_whole

    # What is there then is looked at every night; what is written wrongly is told now.
    places = places_of(scheduler, hosts, mixed_hosts, here, by_kernel or [], container)
    loaded = load_suite(suite)
    begin = at or (loaded.window.begin if loaded.window else "22:00")
    if parse_clock(begin) is None:
        raise InputError(f'--at {begin}: is not a time of the day; write hours and minutes, such as "22:30"')
    span = loaded.window.span if loaded.window else None
    arguments: tuple[str, ...] = (
        str(_command()),
        "nightly",
        _lasting(suite),
        "--results",
        str(results.resolve()),
    )
    arguments += place_options(places)
    start = Start(loaded.name, arguments, Path.cwd(), begin.zfill(5), span)
    out = console()
    if cron:
        line = cron_line(start)
        if dry_run:
            out.print(line, markup=False, soft_wrap=True)
            return
        _crontab(lambda text: with_line(text, start, line))
        out.print(f"the crontab starts {loaded.name} at {start.at} every night", markup=False)
        return
    texts = {f"{start.unit}.service": service(start, user), f"{start.unit}.timer": timer(start)}
    _verify(texts, user, verified)
    if dry_run:
        for name, text in texts.items():
            out.print(f"# {unit_folder(user, Path.home()) / name}\n{text}", markup=False, soft_wrap=True)
        return
    folder = unit_folder(user, Path.home())
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_whole(folder / name, text)
        out.print(str(folder / name), markup=False, soft_wrap=True)
    systemctl = "systemctl --user" if user else "systemctl"
    out.print("to enable it:", markup=False)
    out.print(f"  {systemctl} daemon-reload", markup=False, soft_wrap=True)
    out.print(f"  {systemctl} enable --now {start.unit}.timer", markup=False, soft_wrap=True)
    if user:
        out.print("  loginctl enable-linger    (so that it runs while nobody is logged in)", markup=False)


@nightly.command()
@guarded
def uninstall(suite: SuiteName, user: User = True, cron: Cron = False, dry_run: DryRun = False) -> None:
    """Remove what `install` wrote; history and results stay.

    \b
    Example:
      tiertune nightly uninstall nightly
    """
    from tiertune.files import InputError
    from tiertune.tuner.cli.output import console
    from tiertune.tuner.nightly.units import MARK, Start, unit_folder, with_line

    out = console()
    start = Start(_bare_name(suite), (), Path(), "22:00", None)
    if cron:
        table = _read_crontab()
        if with_line(table, start, None).splitlines() == table.splitlines():
            raise InputError(f"the crontab has no line that starts {start.suite}; install --cron writes it")
        if not dry_run:
            _crontab(lambda text: with_line(text, start, None))
        words = "would not start" if dry_run else "does not start"
        out.print(f"the crontab {words} {start.suite} any more", markup=False)
        return
    folder = unit_folder(user, Path.home())
    paths = [folder / f"{start.unit}.{ending}" for ending in ("timer", "service")]
    there = [path for path in paths if path.is_file()]
    if not there:
        raise InputError(f"{paths[0]}: there is no such unit; install writes it")
    for path in there:
        if not path.read_text(encoding="utf-8").startswith(MARK):
            raise InputError(f"{path}: was not written by tiertune; remove it yourself")
    systemctl = "systemctl --user" if user else "systemctl"
    for path in there:
        if not dry_run:
            path.unlink()
        out.print(f"{'would remove' if dry_run else 'removed'} {path}", markup=False, soft_wrap=True)
    out.print(
        f"if it was enabled: {systemctl} disable --now {start.unit}.timer", markup=False, soft_wrap=True
    )


class _Workshop:
    """Campaigns as `tune` runs them."""

    def __init__(self, results: Path, places: Places, log: Listener) -> None:
        self._results = results
        self._log = log
        self._places = places

    def plan(self, campaign: Campaign, plan: CampaignPlan) -> CampaignPlan:
        """The plan as `tune` would run it there."""
        return live_plan(campaign, plan, self._places) if self._places.live else plan

    def backend(
        self, campaign: Campaign, plan: CampaignPlan, listener: Listener
    ) -> AbstractContextManager[Backend]:
        """The one that the campaign's trials run on."""
        return running(campaign, plan, self._results, self._places, listener)

    def search(self, campaign: Campaign, plan: CampaignPlan, listener: Listener) -> None:
        """What `tune` does; `report` makes a report of it for whoever asks."""
        from tiertune.tuner.cli.campaign import run_campaign
        from tiertune.tuner.events import Note

        def also(event: Event) -> None:
            # Notes are shown by the campaign itself.
            self._log(event) if isinstance(event, Note) else listener(event)

        run_campaign(campaign, plan, self._results, extend=False, places=self._places, also=also)


def _check(places: Places) -> None:
    """Raises what is wrong with hosts before a night begins, not once for each campaign."""
    if places.here is not None:
        nodes_here(places.here)
    if places.container is not None:
        # Which systems run there is known campaign by campaign.
        nodes_of_container(places.container, [])
    if places.hosts is not None:
        from tiertune.tuner.fleet.inventory import hosts_of

        hosts_of(places.hosts)


def _run(
    suite: Suite, results: Path, date: str, lock: NightLock, places: Places, *, limited: bool
) -> tuple[Digest, list[Path], list[str], list[str]]:
    """A night from its first run to its digest; also bugs and remarks."""
    from datetime import datetime
    from time import time

    from tiertune.tuner.cli.output import console
    from tiertune.tuner.events import Note
    from tiertune.tuner.nightly import notification
    from tiertune.tuner.nightly.digest import build_digest
    from tiertune.tuner.nightly.night import Night
    from tiertune.tuner.nightly.page import write_digest
    from tiertune.tuner.nightly.retention import tidy
    from tiertune.tuner.nightly.verdict import judge
    from tiertune.tuner.sweep.progress import Lines

    home = _home(results) / suite.name
    folder = home / date
    notes: list[str] = []
    with _history(results, suite.name, new=True) as history, _log(folder) as log:

        def listener(event: Event) -> None:
            log(event)
            if isinstance(event, Note):
                say(event.text.partition("\n")[0])

        if lock.left_by is not None:
            text = f"an earlier night did not end in order ({lock.left_by.words(time())}); it is taken up"
            listener(Note(text))
        night = Night(
            suite,
            history,
            date,
            results,
            _Workshop(results, places, log),
            lock,
            listener,
            datetime.now,
            limited,
            Lines(console(stderr=True)),
        )
        try:
            night.run()
        except BaseException as error:
            if not was_interrupted(error):
                raise
            raise KeyboardInterrupt(
                "stopped; nothing that was finished is lost: the same command goes on with this night"
            ) from None
        for bug in night.bugs:
            log(Note(bug))
        judge(history, suite, date)
        history.end(date, "judged")
        digest = build_digest(history, suite, date)
        told = [[a.number for a in digest.alarms if a.news == news] for news in ("raised", "cleared")]
        notification.owe(history, suite, date, notification.events_of(digest.outcome, *told))
        notes += notification.deliver(history, suite, _message(digest, folder))
        digest = build_digest(history, suite, date)
        paths = write_digest(folder, digest)
        notes += _track(history, suite, results, home)
        tidy(history, suite, home, results)
        history.end(date, "closed")
        for text in notes:
            log(Note(text))
    return digest, paths, [bug.strip().splitlines()[-1] for bug in night.bugs], notes


def _track(history: History, suite: Suite, results: Path, home: Path) -> list[str]:
    """Send nights that the tracking store lacks; a sentence where it does not take them."""
    from tiertune.tuner.nightly.digest import build_digest

    tracking = suite.tracking
    if not tracking.mlflow:
        return []
    try:
        from tiertune.tuner.nightly.mirror import NightMirror

        mirror = NightMirror(results, tracking.uri, tracking.experiment)
        nights = history.nights()
        if owed := len(history.untracked()):
            say(f"sending {owed} night{'s' if owed > 1 else ''} to MLflow")
        for night in history.untracked():
            files = [home / night / name for name in ("digest.html", "digest.json")]
            mirror.send(build_digest(history, suite, night), files, nights.index(night))
            history.tracked(night)
    except Exception as error:  # whatever a tracking server does, the night stands
        first = (str(error).strip().splitlines() or [""])[0][:200]
        owed = len(history.untracked())
        text = f"MLflow lacks {owed} nights ({type(error).__name__}: {first}); the next night sends them"
        return [text]
    return []


@contextmanager
def _log(folder: Path) -> Iterator[Listener]:
    """A listener that writes the log of the night; a night that goes on adds to it."""
    from datetime import datetime

    from tiertune.tuner.events import Finished, Note, Phase, Plan

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "night.log").open("a", encoding="utf-8") as stream:

        def listener(event: Event) -> None:
            text = ""
            if isinstance(event, Note):
                text = event.text
            elif isinstance(event, Plan):
                text = f"{event.campaign}: {event.done} of about {event.trials} trials done before"
            elif isinstance(event, Phase):
                text = f"{event.cell}: {event.purpose}, {event.done} of {event.trials} done"
            elif isinstance(event, Finished) and event.value is None:
                text = f"{event.trial.key}: {event.measurement.status}: {event.measurement.error}"
            if text:
                # Further lines of a text (tracebacks, recorded settings) are indented below the first.
                stamped = "\n  ".join(text.splitlines())
                stream.write(f"{datetime.now():%Y-%m-%d %H:%M:%S} {stamped}\n")
                stream.flush()

        yield listener


def _message(digest: Digest, folder: Path) -> dict[str, Any]:
    """What is told to people: short, with the place of the rest."""
    import platform

    return {
        "suite": digest.suite,
        "night": digest.night,
        "host": platform.node(),
        "outcome": digest.outcome,
        "verdict": digest.verdict,
        "alarms": [
            {"number": one.number, "state": one.state, "news": one.news, "text": one.text}
            for one in digest.alarms
        ],
        "improved": [f"{one.label}: {one.text}" for one in digest.improved],
        "not_measured": [f"{one.campaign}: {one.what}: {one.why}" for one in digest.not_measured],
        "digest": str((folder / "digest.html").resolve()),
    }


def _described(suite: Suite, results: Path, night: str) -> dict[str, Any]:
    """What a night would do, as plain data."""
    from tiertune.tuner.nightly.panel import base_cells, cell_name
    from tiertune.tuner.plan import plan_of

    path = _home(results) / suite.name / "history.sqlite"
    campaigns, alarms = [], []
    history = None
    if path.is_file():
        history = _history(results, suite.name)
        alarms = [alarm.number for alarm in history.watch().alarms if alarm.state == "raised"]
    for entry, campaign in suite.ordered():
        plan = plan_of(campaign)
        cells = base_cells(plan)
        rounds = history.rounds(campaign.name) if history else []
        tuned = (
            sum(history.incumbent(cell_name(campaign.name, c)) is not None for c in cells) if history else 0
        )
        going = bool(rounds) and rounds[-1].ended is None
        campaigns.append(
            {
                "campaign": campaign.name,
                "priority": entry.priority,
                "panel_runs": (len(cells) + tuned) * suite.panel.seeds,
                "round": rounds[-1].number if going else len(rounds) + 1,
                "goes_on": going,
                "trials_a_night": entry.trials,
                "minutes_a_night": entry.minutes,
            }
        )
    window = suite.window
    return {
        "suite": suite.name,
        "night": night,
        "window": f"{window.begin} to {window.end}" if window else None,
        "campaigns": campaigns,
        "open_alarms": alarms,
        "notify": [entry.name for entry in suite.notify],
        "files": [str(_home(results) / suite.name / night / name) for name in ("digest.html", "night.log")],
    }


def _print_plan(described: dict[str, Any], as_json: bool) -> None:
    from tiertune.tuner.cli.output import console, print_json

    if as_json:
        print_json(described)
        return
    out = console()

    def line(text: str) -> None:
        out.print(text, markup=False, soft_wrap=True)

    window = f", between {described['window']}" if described["window"] else ""
    line(f"suite {described['suite']}, night of {described['night']}{window}")
    for one in described["campaigns"]:
        limits = [f"{one['trials_a_night']} trials" if one["trials_a_night"] else ""]
        limits += [f"{one['minutes_a_night']:g} minutes" if one["minutes_a_night"] else ""]
        budget = ", at most " + " or ".join(filter(None, limits)) if any(limits) else ""
        verb = "goes on with" if one["goes_on"] else "begins"
        line(
            f"  {one['campaign']}: {one['panel_runs']} runs of the panel, {verb} round {one['round']}{budget}"
        )
    line(f"open alarms: {', '.join(map(str, described['open_alarms'])) or 'none'}")
    line(f"tells: {', '.join(described['notify']) or 'nobody'}")
    line("would write:")
    for file in described["files"]:
        line(f"  {file}")


def _print_digest(
    digest: Digest, paths: list[Path], drawn: list[Path], notes: list[str], as_json: bool
) -> None:
    from tiertune.tuner.cli.output import console, print_json
    from tiertune.tuner.nightly.digest import document

    for note in notes:
        say(note)
    if as_json:
        print_json({**document(digest), "files": [str(path) for path in [*paths, *drawn]]})
        return
    out = console()
    out.print(f"{digest.suite}, night of {digest.night}: {digest.verdict}", markup=False)
    for alarm in digest.alarms:
        out.print(f"alarm {alarm.number} {alarm.news or 'open'}: {alarm.text}", markup=False)
    for better in digest.improved:
        out.print(f"improved: {better.label}: {better.text}", markup=False)
    for told in digest.not_measured:
        out.print(f"not measured: {told.campaign}: {told.what}: {told.why}", markup=False)
    out.print(f"digest   {paths[0]}", markup=False, soft_wrap=True)
    out.print(f"log      {paths[0].parent / 'night.log'}", markup=False, soft_wrap=True)
    for path in drawn:
        out.print(f"figure   {path}", markup=False, soft_wrap=True)


def _home(results: Path) -> Path:
    return results / "nightly"


def _history(results: Path, name: str, *, new: bool = False) -> History:
    from tiertune.files import InputError
    from tiertune.tuner.nightly.history import History

    path = _home(results) / name / "history.sqlite"
    if not new and not path.is_file():
        raise InputError(
            f"{path}: there is no such history; `tiertune nightly {shlex.quote(name)}` begins one"
        )
    return History(path)


def _suite_name(given: str, results: Path) -> str:
    """The name of a suite that ran, also where its file is gone."""
    name = _bare_name(given)
    if (_home(results) / name / "history.sqlite").is_file() and "/" not in given:
        return name
    from tiertune.tuner.nightly.suite import load_suite

    return load_suite(given).name


def _bare_name(given: str) -> str:
    """A suite's name, from its file where that can be read."""
    if "/" not in given and not given.endswith((".yaml", ".yml")):
        return given
    from tiertune.tuner.nightly.suite import load_suite

    return load_suite(given).name


def _lasting(given: str) -> str:
    """A suite as a scheduler can name it: files by their whole path."""
    from tiertune.files import find

    return str(find("suites", given).resolve())


def _checked_date(text: str) -> str:
    from datetime import date

    from tiertune.files import InputError

    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        try:
            return date.fromisoformat(text).isoformat()
        except ValueError:
            pass
    raise InputError(f"--date {text}: is no date; write one such as {date.today().isoformat()}")


def _command() -> Path:
    """The `tiertune` that a scheduler starts: that of this environment."""
    beside = Path(sys.executable).with_name("tiertune")
    return beside if beside.is_file() else Path(sys.argv[0]).resolve()


def _verify(texts: dict[str, str], user: bool, verified: Callable[..., str | None]) -> None:
    """Raises InputError where systemd would not take these units."""
    import tempfile

    from tiertune.files import InputError

    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in texts]
        for path in paths:
            path.write_text(texts[path.name], encoding="utf-8")
        wrong = verified(paths, user)
    if wrong:
        raise InputError(f"systemd does not take these units: {wrong}")


def _crontab(change: Callable[[str], str]) -> None:
    """Reads, changes and writes this user's crontab. Raises Unfit where there is no cron."""
    from tiertune.tuner.cli.failures import Unfit

    written = _call_crontab("-", change(_read_crontab()))
    if written.returncode:
        raise Unfit(f"crontab -: {written.stderr.strip() or 'failed'}")


def _read_crontab() -> str:
    """This user's crontab. Raises Unfit where it cannot be read."""
    from tiertune.tuner.cli.failures import Unfit

    read = _call_crontab("-l")
    # Without a crontab it says so and fails. Whatever else fails must not cost the lines that are there.
    if read.returncode and "no crontab" not in read.stderr:
        raise Unfit(f"crontab -l: {read.stderr.strip() or 'failed'}")
    return read.stdout if not read.returncode else ""


def _call_crontab(option: str, text: str | None = None) -> CompletedProcess[str]:
    import subprocess

    from tiertune.tuner.cli.failures import Unfit

    try:
        return subprocess.run(["crontab", option], input=text, capture_output=True, text=True, timeout=30)
    except FileNotFoundError:
        raise Unfit("crontab is missing; install cron, or leave --cron out to use systemd") from None
