"""The data behind every figure and table of a comparison, as CSV."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from tiertune.tuner.comparison.anytime import TIME, TRIALS
from tiertune.tuner.comparison.document import Comparison
from tiertune.tuner.comparison.measured import Measured
from tiertune.tuner.report.plain import csv_text

RUNS = "comparison-runs.csv"


def csv_files(found: Comparison, figures: Measured) -> dict[str, str]:
    """Texts by file name, those of the page and every run; spans have a column for the value and each end."""
    return {**page_csv_files(found), RUNS: _runs(figures)}


def page_csv_files(found: Comparison) -> dict[str, str]:
    """The data behind the figures and tables of the page, by file name."""
    return {
        "comparison-systems.csv": _records(found.contenders),
        "comparison-scenarios.csv": _records(found.entries),
        "comparison-ranks.csv": _rows(
            ["stage", "system", "mean_rank", "friedman_p", "critical_difference", "workloads"],
            (
                [one.stage, system, rank, one.p, one.critical_difference, one.blocks]
                for one in found.ranks
                for system, rank in zip(one.order, one.mean_ranks, strict=True)
            ),
        ),
        "comparison-pairs.csv": _records(found.pairs),
        "comparison-duels.csv": _records(found.duels),
        "comparison-flips.csv": _records(found.tuning.flips),
        "comparison-anytime-trials.csv": _curves(found, TRIALS),
        "comparison-anytime-time.csv": _curves(found, TIME),
        "comparison-bounds.csv": _records(found.bounds),
        "comparison-checks.csv": _records(found.checks),
    }


def _runs(figures: Measured) -> str:
    """Every judged run: what all other tables are made from. `log_cost` is the natural log, lower is
    better."""

    def lines() -> Iterable[Sequence[object]]:
        for s, scene in enumerate(figures.scenes):
            place = [scene.name, scene.workload, scene.machine, scene.scenario.ratio]
            place += [scene.metric, scene.direction]
            for system, values in (("all-fast", figures.all_fast[s]), ("oracle", figures.oracle[s])):
                yield from ([*place, system, "yardstick", "", v, cost] for v, cost in enumerate(values))
            for c, name in enumerate(figures.contenders):
                for stage, costs in (("default", figures.default[s, c]), ("again", figures.again[s, c])):
                    yield from ([*place, name, stage, "", v, cost] for v, cost in enumerate(costs))
                for j, costs in enumerate(figures.tuned[s, c]):
                    yield from ([*place, name, "tuned", j + 1, v, cost] for v, cost in enumerate(costs))

    head = ["scenario", "workload", "machine", "ratio", "metric", "direction"]
    return _rows([*head, "system", "stage", "search", "seed_number", "log_cost"], lines())


def _curves(found: Comparison, axis: str) -> str:
    return _rows(
        ["system", "cost", "median", "quartile_low", "quartile_high"],
        (
            [curve.system, *values]
            for curve in found.curves
            if curve.axis == axis
            for values in zip(curve.cost, curve.median, curve.low, curve.high, strict=True)
        ),
    )


def _records(entries: Sequence[Any]) -> str:
    flat = [_flat(asdict(entry)) for entry in entries if is_dataclass(entry) and not isinstance(entry, type)]
    columns = list(dict.fromkeys(name for entry in flat for name in entry))
    return _rows(columns, ([entry.get(name) for name in columns] for entry in flat))


def _flat(entry: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in entry.items():
        if isinstance(value, Mapping):  # a span
            found |= {name: value["value"], f"{name}_low": value["low"], f"{name}_high": value["high"]}
        else:
            found[name] = value
    return found


def _rows(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return csv_text([head, *rows])
