"""What earlier campaigns in the same results folder know of a system: their best configs and all their
trials.

Nearest is the cell whose scenario differs least: workload, then machine, page size, contention, ratio and
threads. Only cells that searched exactly the same space count, since a config of another space may not even
exist here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiertune.tuner.journal import Journal, Row
from tiertune.tuner.journal_claim import JournalError
from tiertune.tuner.optimiser.warm import Remembered
from tiertune.tuner.search.constraint import Constraint, broken
from tiertune.tuner.trial import Scenario, Status, called, canonical
from tiertune.tuner.validation import best_rows, selected

BEST = 3
ADVICE = ("presets", "prior")
"""Keys of a space that decide what is tried first, not what can be tried."""
MIN_TRIALS = 8  # a search that was stopped before is no memory


@dataclass(frozen=True)
class Source:
    """The cell of an earlier campaign: where it lies, how far it is, and its trials."""

    journal: str
    cell: str
    distance: float
    trials: list[Remembered]


def nearest(
    results: Path,
    own: Path,
    scenario: Scenario,
    contents: Mapping[str, Any],
    system: str,
    campaign: str | None = None,
    rules: Sequence[Constraint] = (),
) -> Source | None:
    """The nearest source under `results`, or in `campaign` there; `own` is the journal that asks, `contents`
    what its campaign's document says of the cell, and `rules` are the constraints of that campaign. None
    where no campaign searched this space for this metric."""
    found: list[Source] = []
    for path in sorted(results.glob(f"{campaign or '*'}/journal.sqlite")):
        if path.resolve() == own.resolve():
            continue
        try:
            with Journal(path, writer=False) as journal:
                found += _sources(journal, path.parent.name, scenario, contents, system, rules)
        except (JournalError, OSError):
            continue  # of an older version, damaged, or closed to us: somebody else's matter
    return min(found, key=lambda source: (source.distance, source.journal, source.cell), default=None)


def _sources(
    journal: Journal,
    name: str,
    scenario: Scenario,
    contents: Mapping[str, Any],
    system: str,
    rules: Sequence[Constraint],
) -> list[Source]:
    claim = journal.claimed()
    found = []
    for key, other in claim.document.get("cells", {}).items():
        # Another version of a policy written in Python is another system.
        if any(_configs(other, part) != _configs(contents, part) for part in ("space", "default", "code")):
            continue
        metric = other["workload"]["metric"]
        if metric != contents["workload"]["metric"]:
            continue
        rows = [row for row in journal.rows(key, "search") if row.status.finished]
        if not rows or rows[0].trial.system != system:
            continue
        trials = _remembered(rows, selected(journal, key, claim.generation), rules)
        if len(trials) >= MIN_TRIALS:
            found.append(Source(name, key, distance(scenario, rows[0].trial.scenario), trials))
    return found


def _configs(contents: Mapping[str, Any], part: str) -> str:
    """What a part of a cell's document says of the configs that there are, without advice on them."""

    def bare(said: Any) -> Any:
        if not isinstance(said, dict):
            return said
        return {key: bare(value) for key, value in said.items() if key not in ADVICE}

    return canonical(bare(contents.get(part)))


def _remembered(rows: list[Row], winner: Row | None, rules: Sequence[Constraint]) -> list[Remembered]:
    """The trials that worked, relative to the first one, the winner first among the best that keep `rules`.

    Searches of one space start at one config, the system's own default or not; it is none of the trials.
    """
    first = rows[0]
    if first.trial.number > 0 or first.cost is None:
        return []
    known: dict[str, Row] = {}
    breaking: set[str] = set()
    for row in rows:
        if row.status is Status.OK and row.cost is not None and row.trial.fidelity == 1.0:
            text = canonical(row.trial.config)
            known.setdefault(text, row)
            if broken(rules, row.metrics, first.metrics):
                breaking.add(text)
    found = [*([] if winner is None else [winner]), *best_rows(rows, BEST + 1, rules)]
    texts = dict.fromkeys(canonical(row.trial.config) for row in found if row.trial.number > 0)
    best = [text for text in texts if text not in breaking][:BEST]
    ranks = {text: rank for rank, text in enumerate(best)}
    return [
        Remembered(row.trial.config, row.cost - first.cost, ranks.get(text), text not in breaking)
        for text, row in known.items()
        if row.cost is not None and row.trial.number > 0
    ]


def distance(one: Scenario, other: Scenario) -> float:
    """How much two scenarios differ; weights only order what is near, no number is read into them."""
    apart = 4.0 * (called(one.workload) != called(other.workload))
    apart += 2.0 * (Path(one.machine).stem != Path(other.machine).stem)
    apart += 2.0 * (one.page_bytes != other.page_bytes) + 1.0 * (one.contention != other.contention)
    apart += abs(math.log2(_share(one.ratio) / _share(other.ratio)))
    if one.threads and other.threads:
        apart += abs(math.log2(one.threads / other.threads))
    return apart


def _share(ratio: str) -> float:
    fast, _, slow = ratio.partition(":")
    return float(fast) / (float(fast) + float(slow))
