"""Contexts: the scenarios of campaigns, each with what was tuned for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tiertune import engine
from tiertune.files import InputError
from tiertune.machines.definition import Machine
from tiertune.tuner.journal import Journal
from tiertune.tuner.journal_files import stored_machine, stored_workload
from tiertune.tuner.search.constraint import Constraint, broken, constraints_of, means
from tiertune.tuner.sweep.row import Setting
from tiertune.tuner.transfer.traits import Traits, traits_of
from tiertune.tuner.trial import Config, Objective, Scenario, Status, fingerprint, plain_config
from tiertune.tuner.validation import FINALISTS, Outcome, best_rows, outcome
from tiertune.workloads.definition import Workload


@dataclass(frozen=True, eq=False)
class Context:
    """A scenario in which a system was tuned. Configs have every knob of the system.

    `tuned` is the winner of its search where validation found it better than the default, else the default:
    what its campaign tells people to run. `finalists` are the configs that the search thought best of those
    that keep its campaign's constraints, the winner first unless validation found that it does not.
    `used_seeds` are all seeds that its campaign has spent on it.
    """

    campaign: str
    cell: str
    seed: int
    scenario: Scenario
    system: str
    space: str
    workload: Workload
    machine: Machine
    tuned: Config
    improved: bool
    finalists: tuple[Config, ...]
    used_seeds: frozenset[int]

    @property
    def objective(self) -> Objective:
        """What is better here."""
        return Objective(self.workload.metric.name, self.workload.metric.direction)

    @property
    def threads(self) -> int:
        """Threads of the application."""
        return self.traits.threads

    @cached_property
    def setting(self) -> Setting:
        """What its runs share."""
        return Setting(self.workload, self.machine, self.threads, self.scenario.page_bytes)

    @property
    def traffic(self) -> tuple[dict[str, float], ...]:
        """Co-runners, as the engine takes them."""
        return tuple(
            {"tier": one.tier, "read_gbps": one.read_gbps, "write_gbps": one.write_gbps}
            for one in self.scenario.contention
        )

    @cached_property
    def identity(self) -> str:
        """Equal for contexts in which the same runs."""
        return fingerprint(self.setting.key, self.scenario.ratio, [*map(dict, self.traffic)])

    @cached_property
    def traits(self) -> Traits:
        """What is known of it before anything runs in it."""
        return traits_of(self.workload, self.machine, self.scenario)

    @property
    def words(self) -> dict[str, str]:
        """What tells contexts apart, in words, by the name of the part."""
        return self.traits.words


def contexts_of(journals: Sequence[Path]) -> list[Context]:
    """The contexts of finished campaigns, in the order of the journals and of their files.

    Of several searches of one cell the first one counts. Raises `InputError` where a cell was not searched
    yet, and where two campaigns have the same context.
    """
    seen: dict[tuple[str, str, str], Context] = {}
    for context in (context for path in journals for context in _read(path)):
        first = seen.setdefault((context.system, context.space, context.identity), context)
        if first.campaign != context.campaign:
            raise InputError(
                f"{context.cell} of {context.campaign} is the same context as {first.cell} of"
                f" {first.campaign}; leave one of the two out"
            )
    return list(seen.values())


def _read(path: Path) -> Iterable[Context]:
    with Journal(path, writer=False) as journal:
        claim = journal.claimed()
        cells = {key: journal.rows(key) for key in claim.document["cells"]}
        rules = constraints_of(claim.document["campaign"])
        unsearched = [key for key, rows in cells.items() if not rows]
        if unsearched:
            raise InputError(f"{path}: {unsearched[0]} was not searched yet: tiertune resume {claim.name}")
        # In the order in which they ran, which is that of the campaign's file.
        for key, rows in sorted(cells.items(), key=lambda cell: min(row.id for row in cell[1])):
            cell = claim.document["cells"][key]
            workload = stored_workload(cell["workload"])
            searched = [row for row in rows if row.trial.purpose == "search"]
            metric = workload.metric
            found = outcome(journal, key, Objective(metric.name, metric.direction), claim.generation)
            trial = searched[0].trial
            system = trial.system
            best = [complete(system, row.trial.config) for row in best_rows(searched, FINALISTS, rules)]
            if found.winner is not None:
                winner = complete(system, found.winner.trial.config)
                others = [config for config in best if config != winner]
                best = [winner, *others] if _keeps(rules, found) else others
            yield Context(
                campaign=claim.name,
                cell=key,
                seed=int(claim.document["campaign"]["seed"]),
                scenario=trial.scenario,
                system=system,
                space=str(cell["space"]["name"]),
                workload=workload,
                machine=stored_machine(cell["machine"]),
                tuned=best[0] if found.improved else complete(system, {}),
                improved=found.improved,
                finalists=tuple(best),
                used_seeds=frozenset(row.trial.seed for row in rows),
            )


def _keeps(rules: Sequence[Constraint], found: Outcome) -> bool:
    """Whether the winner keeps the constraints on average over the validation seeds."""
    default, winner = (
        [row.metrics for row in rows if row.status is Status.OK]
        for rows in (found.default_rows, found.winner_rows)
    )
    return not winner or not broken(rules, means(winner), means(default))


def complete(system: str, config: Config) -> Config:
    """The config with every knob of the system, defaults filled in."""
    return plain_config(engine.check_config(system, config))


def labels_of(contexts: Sequence[Context]) -> list[str]:
    """A short name for each context: the parts in which they differ; the workload where nothing does."""
    words = [context.words for context in contexts]
    varying = [name for name in words[0] if len({word[name] for word in words}) > 1] or ["workload"]
    return [" ".join(word[name] for name in varying) for word in words]
