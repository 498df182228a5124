"""The result of a comparison as data: what the page, the CSV files and `--json` are made from.

Ratios of one system over another are of speed, so above 1 is better; slowdowns are against all-fast, so
lower is better, and 1 is as fast as if all memory were fast.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiertune.tuner.comparison.fairness import Check


@dataclass(frozen=True)
class Span:
    """A figure with its 95 % interval; the ends are None where there is too little to tell."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Contender:
    """One system over all scenarios. Means are geometric, over the workloads, then over their scenarios."""

    name: str
    knobs: int
    slowdown_default: Span
    slowdown_tuned: Span
    oracle_share_default: float | None
    oracle_share_tuned: float | None
    gain: Span
    rank_default: float
    rank_tuned: float
    improved: int
    worse: int
    kept_default: int
    at_bound: int
    winners: int
    failed_trials: int
    simulated_s: float


@dataclass(frozen=True)
class Entry:
    """One system in one scenario. `verdict` is of tuned against default, adjusted over all entries;
    `searches_ahead` counts searches whose winner was ahead of the default on average, shown or not."""

    scenario: str
    workload: str
    machine: str
    ratio: str
    system: str
    slowdown_default: Span | None
    slowdown_tuned: Span | None
    gain: Span | None
    p: float | None
    p_adjusted: float | None
    verdict: str
    rank_default: float
    rank_tuned: float
    spread_over_searches: float | None
    searches_ahead: int
    kept_default: int
    failed_runs: int


@dataclass(frozen=True)
class Pair:
    """Two systems over all scenarios, at `stage` default or tuned.

    `ratio` is how many times as fast the first is, over workloads; `wins` and `losses` count scenarios in
    which one is shown to be faster, adjusted over the scenarios of the pair. `p_signed_rank` is Wilcoxon's
    over workloads, adjusted over all pairs of the stage.
    """

    stage: str
    first: str
    second: str
    ratio: Span
    wins: int
    losses: int
    undecided: int
    p_signed_rank: float
    apart: bool


@dataclass(frozen=True)
class Duel:
    """Two systems in one scenario, at `stage`; `outcome` is first, second, or not shown."""

    stage: str
    scenario: str
    first: str
    second: str
    ratio: Span
    p: float
    p_adjusted: float
    outcome: str


@dataclass(frozen=True)
class Ranks:
    """Mean ranks at `stage`, best first; `joined` are runs of `order` that are not told apart."""

    stage: str
    order: list[str]
    mean_ranks: list[float]
    p: float | None
    critical_difference: float | None
    blocks: int
    joined: list[tuple[int, int]]


@dataclass(frozen=True)
class Flip:
    """A pair that changes order when both are tuned; shown where both orders are, adjusted over all pairs.
    Ratios are of the speed of who is ahead at default over the other's."""

    scenario: str
    ahead_at_default: str
    ahead_at_tuned: str
    ratio_default: Span
    ratio_tuned: Span
    shown: bool


@dataclass(frozen=True)
class Tuning:
    """How much of the ranking is due to tuning. Tau is Kendall's: 1 is the same order, 0 unrelated, -1
    reversed.

    `tau_repeated` is between two measurements of the default, so what noise alone does; `tau_searches` is the
    mean between searches, so what the optimiser's luck does. `tau_scenarios` has one tau per scenario.
    """

    tau: Span | None
    tau_repeated: float | None
    tau_searches: float | None
    tau_scenarios: list[float | None]
    pairs: int
    flips: list[Flip]
    reordered: int
    median_gain: float
    median_spread_default: float
    median_spread_tuned: float


@dataclass(frozen=True)
class Calibration:
    """Defaults compared with themselves on fresh seeds: every small p is a false alarm.

    `alarms` count p under 5 %, of which `shown` are also as large as what counts; `rate` is that of alarms.
    """

    tests: int
    alarms: int
    shown: int
    rate: float
    low: float
    high: float
    adjusted_alarms: int
    gained: int
    holds: bool


@dataclass(frozen=True)
class Curve:
    """Slowdown of the best trial so far, over scenarios, with its quartiles over searches.

    `cost` counts search trials, or simulated time in runs of all-fast (`axis` says which).
    """

    system: str
    axis: str
    cost: list[float]
    median: list[float]
    low: list[float]
    high: list[float]


@dataclass(frozen=True)
class Bound:
    """How many winners of a system lie on an end of a knob's range."""

    system: str
    knob: str
    low: float
    high: float
    default: str
    at_low: int
    at_high: int
    winners: int


@dataclass(frozen=True)
class Setting:
    """What every search got."""

    trials: int
    initial: int
    searches: int
    validation_seeds: int
    optimiser: str
    seed: int
    scenarios: list[str]
    workloads: int
    machines: int
    search_runs: int
    validation_runs: int
    run_wall_s: float
    ask_cpu_s: float


@dataclass(frozen=True)
class Comparison:
    """The whole result. `void` holds the reasons why nothing may be concluded, empty for a fair one."""

    campaign: str
    description: str
    verdict: str
    void: list[str]
    setting: Setting
    oracle_slowdown: Span | None
    contenders: list[Contender]
    entries: list[Entry]
    ranks: list[Ranks]
    pairs: list[Pair]
    duels: list[Duel]
    tuning: Tuning
    calibration: Calibration
    curves: list[Curve]
    bounds: list[Bound]
    checks: list[Check]
    left_out: list[str]
    not_measured: list[str]
    reproduce: list[str]
