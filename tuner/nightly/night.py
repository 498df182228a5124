"""A night: the panel first, then what is left of each search, then the verdict over all nights.

Everything that is measured is stored as it ends. A night that was killed goes on when it is started again,
and one that never was is judged with what it had when the next night comes.
"""

from __future__ import annotations

import math
import platform
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from tiertune.files import InputError
from tiertune.tuner.backend import NOTES, Backend, BackendLost, HostUnfit
from tiertune.tuner.campaign import Campaign
from tiertune.tuner.disk_trouble import disk_trouble
from tiertune.tuner.events import Event, Finished, Listener, Note, Phase
from tiertune.tuner.host_facts import environment_facts
from tiertune.tuner.journal import Journal
from tiertune.tuner.nightly.figures import FIGURES, tuner_figures
from tiertune.tuner.nightly.history import Followed, History, Round, Work
from tiertune.tuner.nightly.lock import NightLock
from tiertune.tuner.nightly.panel import (
    Ended,
    Entry,
    Place,
    base_cells,
    cell_name,
    entry_of,
    measure_into,
    panel_seeds,
)
from tiertune.tuner.nightly.promotion import Bench, Unjudged, promoted, winner_of
from tiertune.tuner.nightly.rounds import next_round, outdated, seeded
from tiertune.tuner.nightly.suite import Suite, SuiteEntry
from tiertune.tuner.plan import CampaignPlan, plan_of
from tiertune.tuner.sweep.measurement import Progress
from tiertune.tuner.trial import Measurement, Status, fingerprint

PANEL, SEARCH = "panel", "search"


class Workshop(Protocol):
    """What a night needs from whoever starts it."""

    def plan(self, campaign: Campaign, plan: CampaignPlan) -> CampaignPlan:
        """The plan with what follows from where its trials run."""

    def backend(
        self, campaign: Campaign, plan: CampaignPlan, listener: Listener
    ) -> AbstractContextManager[Backend]:
        """Where the runs of a campaign are made; closed by the night."""

    def search(self, campaign: Campaign, plan: CampaignPlan, listener: Listener) -> None:
        """Run what is left of a campaign, to its end or until the listener raises."""


class Enough(Exception):
    """A search has to stop for tonight; `budget` says that this was planned."""

    def __init__(self, why: str, budget: bool) -> None:
        super().__init__(why)
        self.budget = budget


class Night:
    """One night of a suite. `results` is the folder that holds campaigns; `clock` gives local time.

    `progress` hears how far the runs are that are of no search.
    """

    def __init__(
        self,
        suite: Suite,
        history: History,
        date: str,
        results: Path,
        workshop: Workshop,
        lock: NightLock,
        listener: Listener,
        clock: Callable[[], datetime] = datetime.now,
        limited: bool = True,
        progress: Callable[[Progress], None] = lambda told: None,
    ) -> None:
        self.suite = suite
        self.history = history
        self.date = date
        self.bugs: list[str] = []
        self._results = results
        self._workshop = workshop
        self._lock = lock
        self._listener = listener
        self._clock = clock
        self._limited = limited
        self._progress = progress
        self._closing = self._end_of(suite.window.span if suite.window else None)
        self._facts: dict[str, str] = {}

    def run(self) -> None:
        """Measure all that fits; what does not is noted, with the reason. Only Ctrl-C is raised."""
        self.history.begin(self.date)
        campaigns = self.suite.ordered()
        for entry, campaign in campaigns:
            with self._guarded(campaign, PANEL):
                self._panel(entry, campaign)
        for entry, campaign in campaigns if self.suite.search else ():
            with self._guarded(campaign, SEARCH):
                self._search(entry, campaign)

    # --- the panel

    def _panel(self, entry: SuiteEntry, campaign: Campaign) -> None:
        plan = self._workshop.plan(campaign, plan_of(campaign))
        with self._backend(campaign, plan) as backend:
            place = Place(backend.name, platform.node())
            self._know(plan, backend)
            cells = base_cells(plan)
            text = f"{campaign.name}: panel of {len(cells)} cells on {self.suite.panel.seeds} seeds"
            self._listener(Note(text))
            followed = []
            for cell in cells:
                seeds = panel_seeds(self.suite.name, cell, self.suite.panel.seeds)
                roles = [("default", cell.default)]
                known = self.history.incumbent(cell_name(campaign.name, cell))
                roles += [("tuned", known[0])] if known else []
                followed += [(entry_of(campaign.name, plan, cell, *one, place), seeds) for one in roles]
            ended = self._counting(followed)
            for one, seeds in followed:
                why = measure_into(
                    self.history, self.date, one, seeds, backend, plan.workers, self._go_on(entry), ended
                )
                self._lock.beat()
                if why:
                    self._note(campaign, f"{PANEL}: {one.followed.label}", why, undone=True, due=True)

    def _counting(self, followed: Sequence[tuple[Entry, list[int]]]) -> Ended:
        """Tells how far the night is with these configurations on these seeds."""
        total = sum(len(seeds) for _, seeds in followed)
        before = sum(
            len(self.history.seeds_run(self.date, one.followed.key).intersection(seeds))
            for one, seeds in followed
        )
        done, failed = before, 0
        self._progress(Progress(total, before, done, failed))

        def ended(measured: Measurement) -> None:
            nonlocal done, failed
            done += 1
            failed += measured.status is not Status.OK
            self._progress(Progress(total, before, done, failed))

        return ended

    # --- searches

    def _search(self, entry: SuiteEntry, campaign: Campaign) -> None:
        rounds = self.history.rounds(campaign.name)
        if rounds and rounds[-1].ended == self.date and not (rounds[-1].note or "").startswith("given up"):
            self._note(campaign, SEARCH, f"round {rounds[-1].number} ended tonight", undone=False)
            return
        if not self._go_on(entry)():
            self._note(campaign, SEARCH, self._closed(entry), undone=True, due=True)
            return
        current = rounds[-1] if rounds and rounds[-1].ended is None else None
        if current is not None:
            mine, plan = self._seeded(campaign, current)
            with self._backend(mine, plan) as backend:
                why = outdated(self._results, plan, backend)
            if why:
                self.history.end_round(current, self.date, f"given up: {why}")
                self._note(campaign, SEARCH, f"round {current.number} was given up: {why}", undone=False)
                current = None
        current = current or next_round(self.history, self.suite.name, campaign, self.date)
        mine, plan = self._seeded(campaign, current)
        try:
            self._workshop.search(mine, plan, self._limits(entry, self._spent(plan) if entry.trials else 0))
        except Enough as enough:
            done, trials = self._done(plan)
            text = f"round {current.number}, {done} of about {trials} trials so far: {enough}"
            self._note(campaign, SEARCH, text, undone=True, due=not enough.budget)
            return
        self._conclude(entry, campaign, current, plan)

    def _conclude(self, entry: SuiteEntry, campaign: Campaign, current: Round, plan: CampaignPlan) -> None:
        """A round is over: winners may take over, and its figures enter the history."""
        self._listener(Note(f"{campaign.name}: round {current.number} is searched; its winners are judged"))
        with self._backend(campaign, plan) as backend:
            place = Place(backend.name, platform.node())
            path = self._results / plan.name / "journal.sqlite"
            seeds, go_on = self.suite.panel.seeds, self._go_on(entry)
            bench = Bench(
                self.history, self.date, self.suite.name, max(seeds, 5), backend, plan.workers, place, go_on,
                self._counting,
            )  # fmt: skip
            with Journal(path, writer=False) as journal:
                for cell in base_cells(plan):
                    won = winner_of(journal, plan, cell)
                    if won is None:
                        continue
                    try:
                        new = promoted(bench, campaign.name, plan, cell, *won)
                    except Unjudged as unjudged:
                        text = f"round {current.number} is searched, its winners are not judged yet"
                        said = f"{text}: {unjudged.why or self._closed(entry)}"
                        self._note(campaign, SEARCH, said, undone=True, due=True)
                        return
                    if new is not None:
                        fixed = panel_seeds(self.suite.name, cell, seeds)
                        ended = self._counting([(new, fixed)])
                        why = measure_into(
                            self.history, self.date, new, fixed, backend, plan.workers, go_on, ended
                        )
                        if why:
                            what = f"{PANEL}: {new.followed.label}"
                            self._note(campaign, what, why, undone=True, due=True)
                figures = tuner_figures(journal, plan)
            for one in figures:
                declared = FIGURES[one.name]
                where = f"{place.backend} {place.host}" if declared.local else place.of_performance
                key = f"{campaign.name}: tuner | {one.name} | {where}"
                subject = f"tuner of {campaign.name}"
                label = f"{campaign.name}: {declared.words}"
                worse = "maximize" if one.name == "gain" else "minimize"
                self.history.follow(
                    Followed(key, one.name, subject, campaign.name, label, one.name, worse, declared.unit)
                )
                self.history.add_figure(self.date, key, one.value, one.failed, one.runs)
        self.history.end_round(current, self.date, "complete")
        self._note(campaign, SEARCH, f"round {current.number} is complete: {plan.name}", undone=False)

    def _done(self, plan: CampaignPlan) -> tuple[int, int]:
        """Trials that ended, and how many a round takes at most."""
        from tiertune.tuner.validation import judgement_trials

        with Journal(self._results / plan.name / "journal.sqlite", writer=False) as journal:
            done = sum(row.status.finished for row in journal.rows())
        each = plan.trials + sum(judgement_trials(plan.trials, plan.validation_seeds, plan.rules.objectives))
        return done, each * len(plan.cells)

    def _spent(self, plan: CampaignPlan) -> int:
        """Trials of a search that ended in this night already."""
        path = self._results / plan.name / "journal.sqlite"
        if not path.is_file():
            return 0
        began, _ = self.history.times(self.date)
        with Journal(path, writer=False) as journal:
            return sum(row.status.finished and (row.finished_at or "") >= began for row in journal.rows())

    # --- time and budgets

    def _end_of(self, span: object) -> datetime | None:
        from tiertune.tuner.nightly.schedule import Span

        if not self._limited or not isinstance(span, Span):
            return None
        now = self._clock()
        return span.closing(now) or now

    def _go_on(self, entry: SuiteEntry) -> Callable[[], bool]:
        """Whether a run may be started now."""

        def open_now() -> bool:
            now = self._clock()
            if self._closing is not None and now >= self._closing:
                return False
            own = entry.window.span if entry.window and self._limited else None
            return own is None or own.opening(now) is not None

        return open_now

    def _closed(self, entry: SuiteEntry) -> str:
        """Why nothing may be started."""
        now = self._clock()
        if self._closing is not None and now >= self._closing:
            return f"the window closed at {self._closing:%H:%M}, before its turn"
        assert entry.window is not None
        return f"its own window, {entry.window.begin} to {entry.window.end}, is closed at {now:%H:%M}"

    def _limits(self, entry: SuiteEntry, spent: int) -> Listener:
        """A listener that passes events on, and ends a search at its budget or with the window; `spent`
        trials were made before the night was taken up again."""
        began, ended = self._clock(), [spent]
        mutex = threading.Lock()
        go_on = self._go_on(entry)

        def listener(event: Event) -> None:
            self._listener(event)
            if isinstance(event, Phase) and event.done < event.trials and spent >= (entry.trials or math.inf):
                raise Enough(f"its budget of {entry.trials} trials a night is spent", budget=True)
            if not isinstance(event, Finished):
                return
            self._lock.beat()
            with mutex:
                ended[0] += 1
                count = ended[0]
            if entry.trials is not None and count >= entry.trials:
                raise Enough(f"its budget of {entry.trials} trials a night is spent", budget=True)
            if entry.minutes is not None and self._clock() >= began + timedelta(minutes=entry.minutes):
                raise Enough(f"its budget of {entry.minutes:g} minutes a night is spent", budget=True)
            if not go_on():
                raise Enough("the window closed", budget=False)

        return listener

    # --- what all parts need

    def _seeded(self, campaign: Campaign, current: Round) -> tuple[Campaign, CampaignPlan]:
        mine, plan = seeded(campaign, current)
        return mine, self._workshop.plan(mine, plan)

    @contextmanager
    def _backend(self, campaign: Campaign, plan: CampaignPlan) -> Iterator[Backend]:
        with self._workshop.backend(campaign, plan, self._listener) as backend:
            try:
                for cell in base_cells(plan):
                    backend.prepare(cell.scenario, lambda text: self._listener(Note(text)))
                yield backend
            finally:
                backend.close()

    @contextmanager
    def _guarded(self, campaign: Campaign, what: str) -> Iterator[None]:
        """One campaign that cannot run does not cost the others their night."""
        try:
            yield
        except (InputError, HostUnfit, BackendLost, PermissionError) as error:
            self._note(campaign, what, str(error), undone=True, due=True)
        except Exception as error:
            if (trouble := disk_trouble(error)) is not None:
                self._note(campaign, what, trouble, undone=True, due=True)
                return
            self.bugs.append("".join(traceback.format_exception(error)))
            text = f"a bug of ours, {type(error).__name__}: {error}"
            self._note(campaign, what, text, undone=True, due=True)

    def _note(self, campaign: Campaign, what: str, why: str, *, undone: bool, due: bool = False) -> None:
        self._listener(Note(f"{campaign.name}: {what}: {why}"))
        self.history.note_work(self.date, Work(campaign.name, what, why, undone, due))

    def _know(self, plan: CampaignPlan, backend: Backend) -> None:
        """Facts of this night, for when somebody asks what changed."""
        for name, value in _flat({**environment_facts(), "backend": backend.facts()}):
            if not name.startswith(f"backend {NOTES}"):
                self._facts[name] = value
        for contents in plan.document["cells"].values():
            for kind in ("workload", "machine", "space"):
                self._facts[f"{kind} {contents[kind]['name']}"] = fingerprint(contents[kind])[:12]
        self.history.record_environment(self.date, self._facts)


def _flat(document: dict[str, object], name: str = "") -> Iterator[tuple[str, str]]:
    """Leaves with their path in words."""
    for key, value in document.items():
        path = f"{name} {key}".strip()
        if isinstance(value, dict):
            yield from _flat(value, path)
        elif value not in (None, ""):
            yield path, str(value)
