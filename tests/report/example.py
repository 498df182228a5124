"""A made-up report, by formula: no tiering system produced these numbers."""

from __future__ import annotations

import math
import random

from tiertune.tuner.report.data import overall
from tiertune.tuner.report.document import (
    Cell,
    Effect,
    Fact,
    FrontPart,
    FrontPoint,
    FrontShare,
    FrontTrial,
    KnobChange,
    Metric,
    MetricChange,
    Report,
    Robustness,
    SearchTrial,
    Timeline,
    ValidationPair,
)

RUNTIME = Metric(name="runtime_s", unit="s", direction="minimize", meaning="Time the workload takes")
HITS = Metric(
    name="fast_hit_ratio", unit="", direction="maximize", meaning="Share of misses served by the fast tier"
)
BYTES = Metric(name="migrated_bytes", unit="bytes", direction="", meaning="Bytes copied between tiers")


def knob(
    name: str, unit: str, default: float, tuned: float, low: float, high: float, native: str | None
) -> KnobChange:
    """A log-scaled, searched knob."""

    def place(value: float) -> float | None:
        return math.log(value / low) / math.log(high / low) if low <= value <= high else None

    return KnobChange(
        name=name,
        meaning=f"What {name.replace('_', ' ')} does, in one line.",
        unit=unit,
        native_name=native,
        default=default,
        tuned=tuned,
        changed=default != tuned,
        searched=True,
        active=True,
        at_bound="high" if tuned == high else "low" if tuned == low else "",
        default_position=place(default),
        tuned_position=place(tuned),
    )


def example_cell(seed: int = 1, trials: int = 100, improved: bool = True) -> Cell:
    """A cell with a search of `trials` trials, some failed, and ten validation pairs."""
    draw = random.Random(seed)
    search: list[SearchTrial] = []
    best: float | None = None
    for number in range(trials):
        origin = (
            "default"
            if number == 0
            else "initial"
            if number < 20
            else "random"
            if number % 5 == 0
            else "model"
        )
        failed = number in (13, 41)
        spread = 25 * math.exp(-number / 30) if origin == "model" else 30
        value = None if failed else 61.0 if number == 0 else 42 + abs(draw.gauss(0, spread)) + draw.random()
        best = best if value is None else value if best is None else min(best, value)
        search.append(
            SearchTrial(
                number=number,
                origin=origin,
                status="crashed" if failed else "ok",
                value=value,
                best_so_far=best,
                seed=number + 7,
                run_wall_s=0.3 + 0.05 * draw.random(),
                optimiser_cpu_s=0.002 if number < 20 else 0.1 + 0.3 * draw.random(),
                config={"read_hot_threshold": 1 + number % 9, "migration_period": 10.0},
                error="the engine refused: <page> & tier" if failed else None,
            )
        )
    factor = 1.42 if improved else 1.0
    pairs = []
    for number in range(10):
        default = 61 + draw.gauss(0, 0.8)
        tuned = default / (factor + draw.gauss(0, 0.012))
        pairs.append(ValidationPair(seed=1000 + number, default=default, tuned=tuned, ratio=default / tuned))
    return Cell(
        id=f"bc-kron/dimes-numa/1:8/12t/2MiB/hemem-{seed}",
        system="hemem",
        workload="bc-kron",
        machine="dimes-numa",
        ratio="1:8",
        threads=12,
        page_bytes=2 << 20,
        metric=RUNTIME,
        verdict=f"tuned is {factor:.2f}x faster than default, 95 % interval 1.41 to 1.43"
        if improved
        else "no improvement found",
        outcome="improved" if improved else "no-improvement",
        effect=Effect(
            ratio=factor, low=factor - 0.01, high=factor + 0.01, confidence=0.95, pairs=10, improved=improved
        ),
        winner_trial=87,
        budget_trials=100,
        statuses={"ok": 118, "crashed": 2},
        search=search,
        validation=pairs,
        metrics=[
            MetricChange(metric=RUNTIME, default=61.1, tuned=43.02),
            MetricChange(metric=HITS, default=0.61, tuned=0.83),
            MetricChange(metric=BYTES, default=12.5e9, tuned=88.0e9),
        ],
        knobs=[
            knob("sampling_period", "events/sample", 5003, 1021, 100, 50000, "SAMPLE_PERIOD"),
            knob("read_hot_threshold", "samples", 8, 1, 1, 64, "HOT_READ_THRESHOLD"),
            knob("cooling_threshold", "samples", 18, 18, 2, 128, "PEBS_COOLING_THRESHOLD"),
            knob("migration_period", "ms", 10, 135.25, 1, 5000, "PEBS_KSWAPD_INTERVAL"),
        ],
        native_block="// HeMem, pebs.h: replace these, then rebuild.\n#define SAMPLE_PERIOD (1021UL)\n",
        timelines=[example_timeline("default", 61.0, 0.61), example_timeline("tuned", 43.0, 0.83)],
        workload_notes=["graph of scale 18 executed; page statistics carried to scale 29 <paper input>"],
    )


def example_front() -> FrontPart:
    """Three on the front, the default among those that are not; a search around them."""

    def share(ratio: float, default: float, noise: float) -> FrontShare:
        return FrontShare(mean=ratio * default, ratio=ratio, low=ratio - noise, high=ratio + noise)

    rows = [
        ("1", 87, True, "", 0.71, 2.4),
        ("2", 45, True, "", 0.84, 1.3),
        ("", 52, False, "beaten by configuration 2", 0.86, 1.5),
        ("3", 61, True, "", 0.99, 0.6),
        ("default", None, False, "beaten by configuration 3", 1.0, 1.0),
    ]
    return FrontPart(
        first=RUNTIME,
        second=BYTES.model_copy(update={"direction": "minimize"}),
        seeds=10,
        confidence=0.95,
        points=[
            FrontPoint(
                label=label,
                trial=trial,
                on_front=on_front,
                reason=reason,
                first=share(runtime, 61.1, 0.01),
                second=share(copied, 12.5e9, 0.08),
                config={"sampling_period": 1021 + 10 * place, "read_hot_threshold": 1},
            )
            for place, (label, trial, on_front, reason, runtime, copied) in enumerate(rows)
        ],
        failed=["trial 33 failed in 2 of 10 validation runs"],
        search=[
            FrontTrial(number=n, first=61.1 * (0.7 + 0.01 * n), second=12.5e9 * (2.5 - 0.02 * n))
            for n in range(100)
        ],
    )


def example_timeline(role: str, runtime_s: float, hits: float) -> Timeline:
    """200 points that settle at `hits`."""
    times = [runtime_s * (step + 1) / 200 for step in range(200)]
    settle = [1 - math.exp(-t / 6) for t in times]
    return Timeline.model_validate(
        {
            "role": role,
            "seed": 1004,
            "columns": {
                "time_s": times,
                "fast_hit_ratio": [0.12 + (hits - 0.12) * s for s in settle],
                "promotions_per_s": [4000 * (1 - s) + 300 for s in settle],
                "demotions_per_s": [3500 * (1 - s) + 300 for s in settle],
                "fast_latency_ns": [95 + 40 * s for s in settle],
                "slow_latency_ns": [240 - 60 * s for s in settle],
            },
        }
    )


def example_report(cells: int = 1, *, front: bool = False) -> Report:
    """A report of `cells` cells; the second one found nothing. With `front`, the first has two objectives."""
    made = [example_cell(seed=index + 1, improved=index == 0) for index in range(cells)]
    if front:
        made[0] = made[0].model_copy(update={"front": example_front()})
    return Report(
        campaign="example",
        description="Made-up numbers for looking at the report.",
        verdict=overall(made, [1e-4, *[0.9] * (cells - 1)]),
        complete=True,
        cells=made,
        environment=[Fact(name="tiertune", value="0.1.0"), Fact(name="commit", value="0123abcd")],
        robustness=[
            Robustness(
                claim="hemem/tuned beats hemem/default",
                scene="made-up",
                verdict="mostly robust",
                models=33,
                models_where_it_holds=31,
                nominal_lead_pct=12.5,
                lowest_lead_pct=-0.5,
                highest_lead_pct=30.0,
            )
        ],
        not_measured=["Real hardware: every number comes from the simulated machine."],
        reproduce=["git checkout 0123abcd", "tiertune tune campaigns/example.yaml"],
    )
