"""The heart: `search` is what tiertune does. Read it first; everything it calls is one step that it names.

`tune` is a whole campaign: search and judgement of each of its cells.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from tiertune.tuner.backend import Backend
from tiertune.tuner.events import Listener, Note, Phase, Plan, silent
from tiertune.tuner.execution import Bench, same_value
from tiertune.tuner.host_facts import environment_facts
from tiertune.tuner.journal import Journal, Row
from tiertune.tuner.journal_claim import Claim
from tiertune.tuner.optimiser.base import Observation, Optimiser, Proposal
from tiertune.tuner.plan import CampaignPlan, PlannedCell
from tiertune.tuner.trial import Config, Origin, Scenario, Status, Trial, derive_seed
from tiertune.tuner.validation import FINALISTS, SELECTION_SEEDS, STAGE, Outcome, judge


@dataclass(frozen=True)
class Job:
    """The search of one cell: which trials to make, and who proposes them.

    `default` is the config that the system declares.
    """

    campaign: str
    cell: str
    scenario: Scenario
    system: str
    default: Config
    seed: int
    trials: int
    lag: int
    optimiser: Optimiser


def search(job: Job, bench: Bench) -> None:
    """Make the trials of a job that the journal does not hold yet.

    Trial n is proposed from the results of trials before n - lag and from the configs of those in flight,
    however fast they end. So the same trials are made in every run, killed or not, and on any number of
    workers up to lag + 1.
    """
    journal, lag = bench.journal, job.lag
    rows = journal.rows(job.cell, "search")
    bench.listener(Phase(job.cell, "search", job.trials, sum(row.status.finished for row in rows)))
    with ThreadPoolExecutor(bench.workers) as pool:
        flying: dict[int, Future[None]] = {}
        for number in range(job.trials):
            for done in [n for n in flying if n < number - lag]:
                flying.pop(done).result()
            stored = journal.row(job.cell, "search", number)
            if stored is not None and stored.status.finished:
                continue
            if stored is not None:  # it was killed: the same proposal again
                trial, ask_cpu_s, decision = stored.trial, stored.ask_cpu_s, "again, it was interrupted"
            else:
                # Tell: the optimiser knows what the journal holds, and nothing else.
                history = observed(journal.rows(job.cell, "search", before=number), number - lag, bench)
                proposal, ask_cpu_s = timed_ask(job.optimiser, number, history)
                trial, decision = new_trial(job, number, proposal), proposal.reason
            bench.start(trial, ask_cpu_s, decision)
            flying[number] = pool.submit(bench.run, trial)  # apply, verify, run, measure, store
        for future in flying.values():
            future.result()


def observed(rows: Sequence[Row], complete: int, bench: Bench) -> list[Observation]:
    """What an optimiser may know of `rows`: results of trials before `complete`, only the configs of later
    ones."""
    observations = []
    for row in rows:
        known = row.trial.number < complete
        status, cost = (row.status, row.cost) if known else (Status.RUNNING, None)
        bound = bench.objective.cost(row.metrics) if status is Status.TIMEOUT else None
        observations.append(Observation(row.trial.number, row.trial.config, status, cost, bound))
    return observations


def timed_ask(optimiser: Optimiser, number: int, history: Sequence[Observation]) -> tuple[Proposal, float]:
    """The proposal and the CPU seconds that the optimiser took for it."""
    began = time.thread_time()
    proposal = optimiser.ask(number, history)
    return proposal, time.thread_time() - began


def new_trial(job: Job, number: int, proposal: Proposal) -> Trial:
    """The trial of a proposal. Its seed does not depend on the system, so that systems are compared on equal
    seeds.

    A space may start elsewhere than at the system's own default; such a start is not called default.
    """
    origin: Origin = proposal.origin
    if origin == "default" and not all(
        name in job.default and same_value(job.default[name], value)
        for name, value in proposal.config.items()
    ):
        origin = "initial"
    return Trial(
        campaign=job.campaign,
        cell=job.cell,
        number=number,
        scenario=job.scenario,
        system=job.system,
        config=proposal.config,
        seed=derive_seed(job.seed, job.scenario.key, "search", number),
        origin=origin,
    )


def tune(
    plan: CampaignPlan,
    results: Path,
    backend: Backend,
    listener: Listener = silent,
    *,
    extend: bool = False,
    mirror: Callable[[Journal], AbstractContextManager[object]] = nullcontext,
) -> dict[str, Outcome]:
    """Run a campaign, or what is left of it, and say what came of each cell, by its key.

    The journal is `results/NAME/journal.sqlite`. `mirror` makes, of the open journal, a context that copies
    it elsewhere while the campaign runs. Raises JournalError where the journal is of other settings or in
    use, and InputError where a scenario does not fit; then no trial was made.
    """
    try:
        with Journal(journal_path(results, plan.name)) as journal:
            claim = journal.claim(plan.name, plan.document, plan.workers - 1, extend=extend)
            for cell in plan.cells:
                backend.prepare(cell.scenario, lambda text: listener(Note(text)))
            environment = journal.environment({**environment_facts(), "backend": backend.facts()})
            with mirror(journal):
                listener(_announcement(plan, journal, claim))
                outcomes = {}
                for cell in plan.cells:
                    bench = Bench(backend, journal, cell.objective, environment, listener, plan.workers)
                    outcomes[cell.key] = _cell(plan, cell, claim, bench)
            return outcomes
    finally:
        backend.close()


def journal_path(results: Path, name: str) -> Path:
    """Where the journal of the campaign called `name` is."""
    return results / name / "journal.sqlite"


def _cell(plan: CampaignPlan, cell: PlannedCell, claim: Claim, bench: Bench) -> Outcome:
    rows = bench.journal.rows(cell.key, "search")
    if sum(row.status.finished for row in rows) < plan.trials:  # a finished search is spared SMAC's imports
        optimiser = plan.new_optimiser(cell)
        names = (plan.name, cell.key, cell.scenario, cell.system, cell.default)
        search(Job(*names, plan.search_seed(cell), plan.trials, claim.lag, optimiser), bench)
    first = bench.journal.row(cell.key, "search", 0)
    assert first is not None
    default = replace(first.trial, config=cell.default)
    return judge(default, plan.seed, plan.validation_seeds, claim.generation, bench)


def _announcement(plan: CampaignPlan, journal: Journal, claim: Claim) -> Plan:
    """How many trials there are, as far as it is known: fewer finalists than usual mean fewer selection
    trials."""
    finalists = min(FINALISTS, plan.trials - 1)
    each = plan.trials + (finalists + 1) * SELECTION_SEEDS + 2 * plan.validation_seeds
    first = claim.generation * STAGE
    rows = [row for row in journal.rows() if row.trial.purpose == "search" or row.trial.number >= first]
    done = sum(row.status.finished for row in rows)
    return Plan(plan.name, tuple(cell.key for cell in plan.cells), each * len(plan.cells), done, claim.lag)
