"""The panel: configurations that every night measures again on the same seeds, apart from that night's
search.

Searches find other winners each night, so their winners cannot say whether the system got slower. The
panel is fixed: the default of each cell, and the last winner that was accepted for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from tiertune.tuner.backend import Backend
from tiertune.tuner.execution import attempt
from tiertune.tuner.nightly.history import Followed, History
from tiertune.tuner.plan import CampaignPlan, PlannedCell
from tiertune.tuner.trial import Config, Measurement, Status, Trial, derive_seed, fingerprint

SIMULATED = ("sim", "dask")
"""Backends whose figures are the same wherever they are computed."""

Ended = Callable[[Measurement], None]
"""Hears of runs, each when it has ended."""


@dataclass(frozen=True)
class Entry:
    """A configuration of a cell that is followed. `role`: default or tuned."""

    followed: Followed
    cell: PlannedCell
    role: str
    config: Config


@dataclass(frozen=True)
class Place:
    """Where runs are made: by which backend, and started from which host."""

    backend: str
    host: str

    @property
    def of_performance(self) -> str:
        """Simulated figures do not depend on the host that computes them."""
        return "sim" if self.backend in SIMULATED else f"{self.backend} {self.host}"


def base_cells(plan: CampaignPlan) -> list[PlannedCell]:
    """One cell for each scenario x system; further searches of it have the same default."""
    return [cell for cell in plan.cells if cell.search == 0]


def cell_name(campaign: str, cell: PlannedCell) -> str:
    """What incumbents and series of a cell are stored under; equal for all searches of it."""
    return f"{campaign}: {cell.key.partition('#')[0]}"


def entry_of(
    campaign: str, plan: CampaignPlan, cell: PlannedCell, role: str, config: Config, place: Place
) -> Entry:
    """A configuration as a series: another tuned configuration is another series."""
    contents = plan.document["cells"][cell.key]
    workload = contents["workload"]["name"]
    scenario = cell.scenario
    label = f"{workload}, {contents['machine']['name']}, {scenario.ratio}, {cell.contender}, {role}"
    print_of = "" if role == "default" else f" {fingerprint(config)[:12]}"
    followed = Followed(
        key=f"{cell_name(campaign, cell)} | {role}{print_of} | {place.of_performance}",
        figure="performance",
        subject=f"workload {workload}",
        campaign=campaign,
        label=label,
        metric=cell.objective.metric,
        direction=cell.objective.direction,
        unit=_unit(cell.objective.metric),
    )
    return Entry(followed, cell, role, config)


def panel_seeds(suite: str, cell: PlannedCell, count: int, purpose: str = "panel") -> list[int]:
    """Seeds of the scenario, so that systems and nights are compared on equal ones."""
    return [derive_seed(suite, cell.scenario.seed_name, "nightly", purpose, block) for block in range(count)]


def measure(
    entry: Entry, seeds: list[int], backend: Backend, workers: int, go_on: Callable[[], bool]
) -> Iterator[tuple[int, Measurement, float | None]]:
    """Runs of a configuration, as they end: seed, measurement and cost. Stops where `go_on` says no."""

    def run(seed: int) -> tuple[int, Measurement, float | None] | None:
        if not go_on():
            return None
        trial = Trial(
            campaign="nightly",
            cell=entry.cell.key,
            number=0,
            scenario=entry.cell.scenario,
            system=entry.cell.system,
            config=entry.config,
            seed=seed,
            noise="paired",
            purpose="validation",
            origin="default" if entry.role == "default" else "winner",
        )
        measured = attempt(backend, trial)
        cost = entry.cell.objective.cost(measured.metrics) if measured.status is Status.OK else None
        return seed, measured, cost

    pool = ThreadPoolExecutor(workers)
    try:
        for future in as_completed([pool.submit(run, seed) for seed in seeds]):
            made = future.result()
            if made is not None:
                yield made
    finally:
        # After an error only runs in flight are awaited, those in the queue never start.
        pool.shutdown(cancel_futures=True)


def measure_into(
    history: History,
    date: str,
    entry: Entry,
    seeds: list[int],
    backend: Backend,
    workers: int,
    go_on: Callable[[], bool],
    ended: Ended,
) -> str | None:
    """Measure what a night lacks of a configuration; why it is not whole, None where it is.

    A run on a host that was not in order says nothing of the configuration and is not kept.
    """
    history.follow(entry.followed)
    known = history.seeds_run(date, entry.followed.key)
    unfit = None
    missing = [seed for seed in seeds if seed not in known]
    for seed, measured, cost in measure(entry, missing, backend, workers, go_on):
        ended(measured)
        if measured.status is Status.HOST_UNFIT:
            unfit = measured.error
            continue
        if measured.status is Status.OK and cost is None:
            said = f"{entry.cell.objective.metric} is no number above 0"
            measured = Measurement(Status.NO_METRIC, measured.metrics, error=said)
        history.add_run(date, entry.followed.key, seed, measured, cost)
    lacking = set(seeds) - history.seeds_run(date, entry.followed.key)
    if not lacking:
        return None
    return unfit or f"the window closed {len(lacking)} runs too early"


def _unit(metric: str) -> str:
    from tiertune.engine import metrics

    return next((one.unit for one in metrics() if one.name == metric), "")
