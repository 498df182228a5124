"""The heart: `search` is what tiertune does. Read it first; everything it calls is one step that it names.

`tune` is a whole campaign: search and judgement of each of its cells.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

from threadpoolctl import ThreadpoolController

from tiertune.tuner.backend import Backend
from tiertune.tuner.events import Listener, Note, Phase, Plan, silent
from tiertune.tuner.execution import Bench, Repeats, same_value
from tiertune.tuner.host_facts import environment_facts
from tiertune.tuner.journal import Journal, Row
from tiertune.tuner.journal_claim import Claim
from tiertune.tuner.optimiser.base import Observation, Optimiser, Proposal
from tiertune.tuner.optimiser.presets import Presets
from tiertune.tuner.optimiser.racing import ROUNDS, Racing
from tiertune.tuner.optimiser.scalarised import Scalarised
from tiertune.tuner.optimiser.warm import Remembered, WarmStart
from tiertune.tuner.plan import CampaignPlan, PlannedCell
from tiertune.tuner.search.constraint import broken
from tiertune.tuner.search.fidelity import ShortRuns
from tiertune.tuner.search.memory import nearest
from tiertune.tuner.search.rules import PLAIN, SearchRules
from tiertune.tuner.search.stopping import reason_to_stop
from tiertune.tuner.trial import Config, Noise, Objective, Origin, Scenario, Status, Trial, derive_seed
from tiertune.tuner.validation import STAGE, Outcome, judge, judgement_trials


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
    rules: SearchRules = PLAIN
    generation: int = 0


def search(job: Job, bench: Bench) -> None:
    """Make the trials of a job that the journal does not hold yet.

    Trial n is proposed from the results of trials before n - lag and from the configs of those in flight,
    however fast they end. So the same trials are made in every run, killed or not, and on any number of
    workers up to lag + 1. A search that its stop rule ended is not taken up again.
    """
    journal, lag = bench.journal, job.lag
    if journal.stopped(job.cell, job.generation) is not None:
        return
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
                rows = journal.rows(job.cell, "search", before=number)
                history = observed(rows, number - lag, bench, job)
                proposal, ask_cpu_s = timed_ask(job.optimiser, number, history)
                stop = stop_reason(job, history, proposal)
                if stop is not None:
                    journal.stop(job.cell, job.generation, number, stop)
                    bench.listener(Note(f"search ended before trial {number}: {stop}"))
                    break
                trial = new_trial(job, number, proposal, cap_s(job, rows, number - lag))
                decision = proposal.reason
            bench.start(trial, ask_cpu_s, decision)
            flying[number] = pool.submit(bench.run, trial)  # apply, verify, run, measure, store
        for future in flying.values():
            future.result()


def observed(rows: Sequence[Row], complete: int, bench: Bench, job: Job) -> list[Observation]:
    """What an optimiser may know of `rows`: results of trials before `complete`, only the configs of later
    ones."""
    shared = {race_seed(job, repeat): repeat for repeat in range(ROUNDS)}
    default = next((row.metrics for row in rows if row.trial.number == 0 and row.metrics), None)
    second = job.rules.objectives.second.metric if job.rules.objectives else None
    best = fastest(job, rows, complete)
    observations = []
    for row in rows:
        known = row.trial.number < complete
        status, cost = (row.status, row.cost) if known else (Status.RUNNING, None)
        timeout = status is Status.TIMEOUT
        # A run that ended at another limit was not given up at its cap.
        capped = timeout and row.metrics.get("runtime_s", 0.0) >= (row.trial.cap or math.inf)
        bound = bound_of(row, bench.objective, best if capped else None) if timeout else None
        whole = status is Status.OK and row.trial.fidelity == 1.0
        kept = not whole or not broken(job.rules.constraints, row.metrics, default)
        repeat = shared.get(row.trial.seed) if row.trial.origin == "race" else None
        config = row.trial.config
        observations.append(
            Observation(
                row.trial.number,
                config,
                status,
                cost,
                bound,
                repeat,
                feasible=kept,
                capped=capped,
                fidelity=row.trial.fidelity,
                second=row.metrics.get(second) if status is Status.OK and second else None,
            )
        )
    return observations


def race_seed(job: Job, repeat: int) -> int:
    """The seed that all configs share in the race of that number; of the scenario, so that it is the same for
    all systems."""
    return derive_seed(job.seed, job.scenario.seed_name, "race", repeat)


def stop_reason(job: Job, history: Sequence[Observation], proposal: Proposal) -> str | None:
    """Why the search ends before this proposal by the rule of its campaign."""
    if job.rules.stop is None:
        return None
    settings = job.optimiser.settings
    expects = job.optimiser.expects and settings.random_share < 1.0
    return reason_to_stop(job.rules.stop, history, proposal, settings.initial, expects=expects)


def cap_s(job: Job, rows: Sequence[Row], complete: int) -> float | None:
    """The runtime (s) at which a trial is given up: a multiple of the fastest one's."""
    best = fastest(job, rows, complete) if job.rules.cap is not None else None
    return None if best is None or job.rules.cap is None else best.metrics["runtime_s"] * job.rules.cap


def fastest(job: Job, rows: Sequence[Row], complete: int) -> Row | None:
    """The trial before `complete` with the least runtime of those that keep the constraints: nothing need be
    nearly as fast as one that is never handed over."""
    known = [row for row in rows if row.trial.number < complete and row.cost is not None]
    default = next((row.metrics for row in known if row.trial.number == 0), None)
    whole = [
        row
        for row in known
        if row.trial.fidelity == 1.0
        and row.metrics.get("runtime_s", 0.0) > 0.0
        and not broken(job.rules.constraints, row.metrics, default)
    ]
    return min(whole, key=lambda row: row.metrics["runtime_s"], default=None)


def bound_of(row: Row, objective: Objective, best: Row | None) -> float | None:
    """The least that the cost of a timeout would have been, None where nothing is known of it.

    A metric that is known at the end alone, such as a throughput, would have been as much worse than that of
    the `best` as the runtime was longer, since all trials do the same work.
    """
    bound = objective.cost(row.metrics)
    if bound is None and best is not None and best.cost is not None:
        return best.cost + math.log(row.metrics["runtime_s"] / best.metrics["runtime_s"])
    return bound


def timed_ask(optimiser: Optimiser, number: int, history: Sequence[Observation]) -> tuple[Proposal, float]:
    """The proposal and the CPU seconds that the optimiser took for it.

    In this thread alone: Ansible's runner forks in another one, before which OpenBLAS ends its threads, and a
    matrix product that was spread over them never ends. So are all of the CPU seconds counted.
    """
    with _libraries(len(sys.modules)).limit(limits=1, user_api="blas"):
        began = time.thread_time()
        proposal = optimiser.ask(number, history)
        return proposal, time.thread_time() - began


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """What has threads in this process: looked for, which takes milliseconds, when modules came."""
    return ThreadpoolController()


def new_trial(job: Job, number: int, proposal: Proposal, cap: float | None = None) -> Trial:
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
    seed = derive_seed(job.seed, job.scenario.seed_name, "search", number)
    noise: Noise = "independent"
    if proposal.repeat is not None:
        # To its end: one that ran before passes a cap by noise, and what failed once is no finalist.
        seed, noise, cap = race_seed(job, proposal.repeat), "paired", None
    return Trial(
        campaign=job.campaign,
        cell=job.cell,
        number=number,
        scenario=job.scenario,
        system=job.system,
        config=proposal.config,
        seed=seed,
        noise=noise,
        origin=origin,
        fidelity=proposal.fidelity,
        cap=cap if proposal.fidelity == 1.0 else None,
    )


def tune(
    plan: CampaignPlan,
    results: Path,
    backend: Backend,
    listener: Listener = silent,
    *,
    extend: bool = False,
    preparing: Callable[[Claim], AbstractContextManager[object]] = nullcontext,
    mirror: Callable[[Journal], AbstractContextManager[object]] = nullcontext,
) -> dict[str, Outcome]:
    """Run a campaign, or what is left of it, and say what came of each cell, by its key.

    The journal is `results/NAME/journal.sqlite`. `preparing` makes, of what it was claimed for, a context for
    the time before the first trial; `mirror`, of the open journal, one that copies it elsewhere while the
    campaign runs. Raises JournalError where the journal is of other settings or in use, and InputError where
    a scenario does not fit; then no trial was made.
    """
    try:
        with Journal(journal_path(results, plan.name)) as journal:
            claim = journal.claim(plan.name, plan.document, plan.workers - 1, extend=extend)
            with preparing(claim):
                for cell in plan.cells:
                    backend.prepare(cell.scenario, lambda text: listener(Note(text)))
            environment = journal.environment({**environment_facts(), "backend": backend.facts()})
            with mirror(journal):
                listener(_announcement(plan, journal, claim))
                outcomes = {}
                each = _trials_of_a_cell(plan)
                for cell in plan.cells:
                    workers = max(plan.workers, backend.queue)
                    two = plan.rules.objectives
                    bench = Bench(
                        backend,
                        journal,
                        cell.objective,
                        environment,
                        listener,
                        workers,
                        two,
                        Repeats.of(each),
                    )
                    outcomes[cell.key] = _cell(plan, cell, claim, bench)
            return outcomes
    finally:
        backend.close()


def journal_path(results: Path, name: str) -> Path:
    """Where the journal of the campaign called `name` is."""
    return results / name / "journal.sqlite"


def _cell(plan: CampaignPlan, cell: PlannedCell, claim: Claim, bench: Bench) -> Outcome:
    if not searched(bench.journal, cell.key, plan.trials, claim.generation):  # spares SMAC's imports
        optimiser = equipped(plan, cell, bench)
        names = (plan.name, cell.key, cell.scenario, cell.system, cell.default)
        numbers = (plan.search_seed(cell), plan.trials, claim.lag)
        search(Job(*names, *numbers, optimiser, plan.rules, claim.generation), bench)
    first = bench.journal.row(cell.key, "search", 0)
    assert first is not None
    default = replace(first.trial, config=cell.default)
    return judge(default, plan.seed, plan.validation_seeds, claim.generation, bench)


def searched(journal: Journal, cell: str, trials: int, generation: int) -> bool:
    """Whether the search of a cell is over: all its trials have ended, or all up to where it was stopped."""
    stopped = journal.stopped(cell, generation)
    wanted = trials if stopped is None else stopped[0]
    return sum(row.status.finished for row in journal.rows(cell, "search")) >= wanted


def equipped(plan: CampaignPlan, cell: PlannedCell, bench: Bench) -> Optimiser:
    """The cell's optimiser with the presets, the memory and the races that the campaign asks for.

    What is remembered is looked up when a cell begins and kept in the journal, so that a resumed search goes
    on with the same memory.
    """
    optimiser, rules = plan.new_optimiser(cell), plan.rules
    if rules.objectives is not None:
        optimiser = Scalarised(optimiser, rules.objectives)
    if rules.memory != "off":
        optimiser = WarmStart(optimiser, memory_of(plan, cell, bench), rules.memory, len(cell.presets))
    if cell.presets:
        optimiser = Presets(optimiser, cell.presets)
    if rules.short_runs is not None:
        optimiser = ShortRuns(optimiser, rules.short_runs)
    return Racing(optimiser) if rules.race else optimiser


def memory_of(plan: CampaignPlan, cell: PlannedCell, bench: Bench) -> list[Remembered]:
    """What the journal remembers for the cell; the first time, the nearest source in the results folder."""
    journal = bench.journal
    stored = journal.remembered(cell.key)
    if stored is None:
        contents = plan.document["cells"][cell.key]
        results, known = journal.path.parents[1], plan.rules.memory_from
        bounds = plan.rules.constraints
        source = nearest(results, journal.path, cell.scenario, contents, cell.system, known, bounds)
        name = f"{source.journal}: {source.cell}" if source else ""
        journal.remember(cell.key, name, [asdict(trial) for trial in source.trials] if source else [])
        stored = journal.remembered(cell.key)
        text = f"starts from {name}" if source else "no earlier campaign searched this space: it starts cold"
        bench.listener(Note(f"{cell.key}: {text}"))
    assert stored is not None
    return [Remembered(**entry) for entry in stored[1]]


def _trials_of_a_cell(plan: CampaignPlan) -> int:
    """At most, with selection and validation."""
    return plan.trials + sum(judgement_trials(plan.trials, plan.validation_seeds, plan.rules.objectives))


def _announcement(plan: CampaignPlan, journal: Journal, claim: Claim) -> Plan:
    """How many trials there are, as far as it is known: fewer finalists than usual mean fewer selection
    trials."""
    each = _trials_of_a_cell(plan)
    first = claim.generation * STAGE
    rows = [row for row in journal.rows() if row.trial.purpose == "search" or row.trial.number >= first]
    done = sum(row.status.finished for row in rows)
    return Plan(plan.name, tuple(cell.key for cell in plan.cells), each * len(plan.cells), done, claim.lag)
