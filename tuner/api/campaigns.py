"""Whole campaigns: tuned, read back, gone on with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiertune.tuner.api.results import Results
    from tiertune.tuner.backend import Backend
    from tiertune.tuner.campaign import Campaign
    from tiertune.tuner.events import Listener
    from tiertune.tuner.journal import Journal
    from tiertune.tuner.journal_claim import Claim
    from tiertune.tuner.plan import CampaignPlan

Document = Mapping[str, Any]

MACHINE = "skx-numa"
SYSTEMS = ("hemem",)
RATIO = "1:8"
TRIALS = 60
"""What a workload is tuned with where nothing else was said."""
OPTIONS_OF_KEYS = {
    r"scenarios\[0\]\.workload": "--workload",
    r"scenarios\[0\]\.machine": "--machine",
    r"scenarios\[0\]\.ratio": "--ratio",
    r"systems\[\d+\]\.(system|space)": "--system",
}
"""Where keys of the campaign that is made for a workload come from."""


@dataclass(frozen=True)
class Progress:
    """How far a campaign is; counts are of trials."""

    doing: str
    done: int
    total: int
    failed: int
    left_s: float | None
    """Seconds to go at the pace so far; None while there is none."""
    best: str
    """The best value so far and the default's, as a line; empty before the first."""


def tune(
    campaign: str | Path | Document | None = None,
    *,
    workload: str | Path | None = None,
    machine: str | Path | None = None,
    systems: Sequence[str] | str | None = None,
    ratio: str | None = None,
    trials: int | None = None,
    name: str | None = None,
    results: str | Path = "results",
    extend: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Results:
    """Runs a campaign to its end, in simulation: search, validation on fresh seeds; returns what came of it.

    `campaign` is a name, a file, or what such a file holds; or give a `workload`, as `tiertune tune
    --workload`, to be tuned on `machine` (skx-numa), for `systems` (hemem), at `ratio` (1:8) of fast to slow
    memory, with `trials` (60) of search. What ran before is kept, so a call that was interrupted goes on when
    it is made again.
    `progress` is called from the threads that run trials. Raises `InputError`, and `JournalError` where the
    results are of others.
    """
    from tiertune.tuner.api.results import load_results
    from tiertune.tuner.campaign import load_campaign
    from tiertune.tuner.plan import plan_of
    from tiertune.tuner.simulation import SimBackend

    one_of(campaign, workload, machine=machine, systems=systems, ratio=ratio, trials=trials)
    folder = Path(results)
    check_name(name)
    with _campaign_file(campaign, workload, machine, systems, ratio, trials, folder) as source:
        loaded = load_campaign(source)
    plan = plan_of(loaded, name)
    backend = SimBackend(folder / "profiles", loaded.workload, loaded.machine)
    conduct(loaded, plan, folder, backend, listener_of(plan, progress), extend)
    return load_results(plan.name, folder)


def one_of(campaign: object, workload: object, **of_workload: object) -> None:
    """Raises InputError unless there is a campaign or a workload, and nothing that a campaign says itself."""
    from tiertune.files import InputError

    if (campaign is None) == (workload is None):
        raise InputError("give a campaign or a workload, one of the two")
    if campaign is not None:
        told = [name for name, given in of_workload.items() if given is not None]
        if told:
            raise InputError(
                f"{' and '.join(told)}: goes with a workload only; a campaign says it in its file"
            )


@contextmanager
def _campaign_file(
    campaign: str | Path | Document | None,
    workload: str | Path | None,
    machine: str | Path | None,
    systems: Sequence[str] | str | None,
    ratio: str | None,
    trials: int | None,
    results: Path,
) -> Iterator[str]:
    from tiertune.files import InputError

    if isinstance(campaign, str | Path):
        yield str(campaign)
    elif campaign is not None:
        with written("campaign", campaign) as path:
            yield str(path)
    else:
        names = [systems] if isinstance(systems, str) else list(SYSTEMS if systems is None else systems)
        if not names:
            raise InputError("systems: an empty list names nothing to tune; leave it out for hemem")
        spaces = {one: space_of(one, results) for one in names}
        with campaign_of(str(workload), str(machine or MACHINE), names, ratio, trials, spaces) as path:
            yield str(path)


def space_of(system: str, results: Path) -> str:
    """The space of a system: its own by name or, for a policy written in Python, one that is kept in
    `results` and holds every knob to be tuned."""
    from tiertune import engine
    from tiertune.files import names

    if system in names("spaces") or system not in engine.registered():
        return system
    path = results / "spaces" / f"{system}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_space(system, path)
    return str(path.resolve())


def write_space(system: str, path: Path) -> None:
    """Writes a space of all knobs of `system` that are to be tuned, in the ranges declared."""
    import yaml

    from tiertune import engine
    from tiertune.files import InputError

    knobs = {knob.name: None for knob in engine.system(system).knobs if knob.tunable}
    if not knobs:
        raise InputError(f"system {system} has no knobs to tune; declare one as tuned")
    text = yaml.safe_dump(
        {"name": system, "description": f"all knobs of {system} that are to be tuned", "system": system},
        sort_keys=False,
    )
    lines = "".join(f"  {knob}:\n" for knob in knobs)
    path.write_text(f"{text}knobs:\n{lines}", encoding="utf-8")


@contextmanager
def written(kind: str, document: Document) -> Iterator[Path]:
    """`document` as a file of its kind, gone afterwards: what is wrong in it is told without its place."""
    import tempfile

    import yaml

    from tiertune.files import InputError

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{kind}.yaml")
        try:
            text = yaml.safe_dump(_plain(document), sort_keys=False, allow_unicode=True)
        except yaml.YAMLError as error:
            what = error.args[1] if len(error.args) > 1 else error
            raise InputError(
                f"{kind}: {what!r} is nothing that a file holds; give text, numbers, lists or mappings"
            ) from None
        path.write_text(text, encoding="utf-8")
        try:
            yield path
        except InputError as error:
            place = rf"^{re.escape(str(path))}(:\d+)?: "
            raise InputError(*(re.sub(place, f"{kind}: ", one) for one in error.sentences)) from None


def _plain(value: object) -> object:
    """Paths as text, ranges as lists, and mappings and lists of any kind as plain ones."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | range):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, Path) else value


def listener_of(plan: CampaignPlan, progress: Callable[[Progress], None] | None) -> Listener:
    """What hears the events of a campaign and tells `progress` after each trial."""
    from tiertune.tuner.events import Finished, Phase, silent
    from tiertune.tuner.progress import Watcher

    if progress is None:
        return silent
    tell = progress

    class Told(Watcher):
        """Counts, and tells."""

        def on_plan(self, plan: object) -> None:
            """Nothing was done yet."""

        def on_phase(self, phase: Phase) -> None:
            """Told with its first trial."""

        def on_finished(self, event: Finished) -> None:
            """A trial ended."""
            pace = self.pace
            tell(Progress(self.phase, pace.done, pace.total, pace.failed, pace.left_s(), self.best()))

        def on_note(self, text: str) -> None:
            """Notes are of what a terminal shows."""

        def on_doing(self, text: str) -> None:
            """As notes."""

    return Told({cell.key: cell.objective for cell in plan.cells}, constraints=plan.rules.constraints)


def conduct(
    campaign: Campaign, plan: CampaignPlan, results: Path, backend: Backend, listener: Listener, extend: bool
) -> None:
    """Runs what is left of a campaign, mirrored as it says; writes campaign.yaml beside its journal.

    What `listener` raises when a trial has ended ends the campaign for now.
    """
    from tiertune.tuner.loop import tune
    from tiertune.tuner.memory_need import check_campaign_memory

    check_campaign_memory()
    stored = results / plan.name / "campaign.yaml"

    @contextmanager
    def preparing(claim: Claim) -> Iterator[None]:
        # Recordings take minutes, in which it may be stopped or killed: that can be resumed. A scenario that
        # does not fit is corrected in the campaign's own file, before which the stored one would be found.
        anew = not stored.exists()
        keep_campaign(campaign, plan, results, claim.lag)
        try:
            yield
        except Exception:
            if anew:
                stored.unlink(missing_ok=True)
            raise

    mirror = mirror_of(campaign, plan, results, listener)
    tune(plan, results, backend, listener, extend=extend, preparing=preparing, mirror=mirror)


def tuned_here(source: str, results: Path, progress: Callable[[Progress], None] | None) -> str:
    """The name of a campaign that is complete: run now, or as far as it was not."""
    from tiertune.tuner.simulation import SimBackend

    def run(campaign: Campaign, plan: CampaignPlan) -> None:
        backend = SimBackend(results / "profiles", campaign.workload, campaign.machine)
        conduct(campaign, plan, results, backend, listener_of(plan, progress), False)

    return tuned(source, results, run)


def tuned(source: str, results: Path, run: Callable[[Campaign, CampaignPlan], None]) -> str:
    """The name of a campaign whose journal is complete: made so with `run` where it was not."""
    from tiertune.tuner.plan import plan_of

    campaign = campaign_to_build_on(source, results)
    plan = plan_of(campaign)
    if not is_complete(results / plan.name, plan.document):
        run(campaign, plan)
    return plan.name


def campaign_to_build_on(source: str, results: Path) -> Campaign:
    """The campaign that was run under the name `source`, or of that name or file; raises InputError where it
    has no one tuned configuration."""
    from tiertune.tuner.campaign import load_campaign, refuse_objectives

    stored = results / source / "campaign.yaml"
    campaign = load_campaign(str(stored) if stored.is_file() else source)
    refuse_objectives(campaign, source, "what is built on a tuned configuration is of")
    return campaign


@contextmanager
def campaign_of(
    workload: str,
    machine: str | None,
    systems: Sequence[str] | None,
    ratio: str | None,
    trials: int | None,
    spaces: Mapping[str, str] | None = None,
) -> Iterator[Path]:
    """A campaign file for one workload on one machine; gone afterwards, as results keep the resolved one."""
    trials, systems = TRIALS if trials is None else trials, systems or SYSTEMS
    import tempfile

    import yaml

    from tiertune import files
    from tiertune.files import InputError
    from tiertune.workloads.definition import load_workload
    from tiertune.workloads.preset import lasting

    model = files.lasting("machines", machine or MACHINE)
    document = {
        "name": load_workload(workload).name,
        "description": f"{', '.join(systems)} tuned for one workload",
        "scenarios": [
            {
                "workload": lasting(workload),
                "machine": model,
                "ratio": ratio or RATIO,
            }
        ],
        "systems": [{"system": name, "space": (spaces or {}).get(name, name)} for name in systems],
        "budget": {"trials": trials, "initial": max(1, min(20, trials // 4))},
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "campaign.yaml")
        path.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), encoding="utf-8")
        try:
            yield path
        except InputError as error:
            raise InputError(*(_as_option(one, path) for one in error.sentences)) from None


def _as_option(sentence: str, path: Path) -> str:
    """A sentence about a file that nobody wrote, by the option that the mistake stands in."""
    place = re.match(rf"{re.escape(str(path))}:\d+: ", sentence)
    if place is None:
        return sentence
    told = sentence[place.end() :]
    for key, option in OPTIONS_OF_KEYS.items():
        if found := re.match(key, told):
            return f"{option}{told[found.end() :]}"
    return f"this campaign: {told}"


def is_complete(folder: Path, document: dict[str, Any]) -> bool:
    """Whether a journal is of this very campaign and has nothing left to run."""
    from tiertune.tuner.journal import Journal
    from tiertune.tuner.journal_claim import JournalError
    from tiertune.tuner.report.data import build_report

    path = folder / "journal.sqlite"
    if not path.is_file():
        return False
    try:
        with Journal(path, writer=False) as journal:
            return journal.claimed().document == document and build_report(journal).complete
    except JournalError:
        # Whoever goes on with it brings an old one up to date, and says what is wrong with another.
        return False


def check_own(plan: CampaignPlan, results: Path, *, extend: bool = False) -> None:
    """Raises InputError where the results are of another campaign of this name, which is not gone on with."""
    from tiertune.tuner.journal import Journal
    from tiertune.tuner.journal_claim import EmptyJournal

    path = results / plan.name / "journal.sqlite"
    if not path.is_file():
        return
    try:
        with Journal(path, writer=False) as journal:
            journal.check(plan.name, plan.document, extend=extend)
    except EmptyJournal:
        return


def mirror_of(
    campaign: Campaign, plan: CampaignPlan, results: Path, listener: Listener
) -> Callable[[Journal], AbstractContextManager[object]]:
    from tiertune.tuner.tracking import Mirror

    tracking = campaign.tracking
    if not tracking.mlflow:
        return nullcontext
    return lambda journal: Mirror(journal, plan, results, tracking.uri, tracking.experiment, listener)


def attach_report(campaign: Campaign, plan: CampaignPlan, results: Path, files: Sequence[Path]) -> str | None:
    """Puts what a campaign left on its MLflow run; a sentence on what went wrong, None where nothing did."""
    from tiertune.tuner.journal import Journal
    from tiertune.tuner.tracking import attach_files

    tracking = campaign.tracking
    if not tracking.mlflow:
        return None
    with Journal(results / plan.name / "journal.sqlite", writer=False) as journal:
        if journal.unsent():
            return None  # the mirror said so already, and whoever resumes sends these, too
        return attach_files(journal, plan, results, files, tracking.uri, tracking.experiment)


def keep_campaign(campaign: Campaign, plan: CampaignPlan, results: Path, lag: int) -> None:
    """Writes campaign.yaml with the workers that the search was started with: they shape its proposals."""
    import yaml

    from tiertune.tuner.report.files import write_whole

    resolved = {**campaign.document(), "name": plan.name, "workers": lag + 1}
    text = yaml.safe_dump(resolved, sort_keys=False, allow_unicode=True)
    head = "# The campaign as it was resolved when it ran; `tiertune resume` reads it.\n"
    write_whole(results / plan.name / "campaign.yaml", head + text)


def check_name(name: str | None) -> None:
    """Raises InputError where `--name` is none for a folder."""
    import re

    from tiertune.files import InputError

    if name is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", name):
        raise InputError(f"--name {name}: use letters, digits, '.', '_', '+' and '-', 64 at most")
