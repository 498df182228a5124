"""`mru` of the engine once more, in Python and in plain words: what it decides has to be the same.

Only the variant by recency, without eviction on allocation: lists are dicts, which keep the order of
insertion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiertune.policy import (
    Context,
    Extent,
    Float,
    Gauge,
    Int,
    Mechanics,
    Migrated,
    Overheads,
    Placement,
    Policy,
    Sample,
    Sampler,
    Topology,
)

LIST_ENTRY_NS = 100.0
RECORD_NS = 300.0


class Recency(Policy):
    """The most recently sampled pages go up, the least recently sampled make room."""

    name = "recency"
    summary = "mru of the engine, written in Python"
    source = "the engine's mru"
    signal = "hardware samples of LLC load misses"

    sampling_period = Int(
        5003, 100, 50_000, "LLC load misses per hardware sample", log=True, cost="restart-system"
    )
    period_ms = Float(10.0, 1.0, 1000.0, "Time between two rounds of promotions", unit="ms", log=True)
    batch_pages = Int(64, 1, 4096, "Most pages promoted per round", unit="pages", log=True)
    window_ms = Float(500.0, 1.0, 60_000.0, "Pages not seen for so long stay", unit="ms", log=True)
    hysteresis_ms = Float(0.0, 0.0, 1000.0, "How much longer ago a victim must have been seen", unit="ms")

    def __init__(self, config: Mapping[str, bool | int | float | str], topology: Topology) -> None:
        super().__init__(config, topology)
        self.period_ns = max(round(self.period_ms * 1e6), 1)
        self.window_ns = round(self.window_ms * 1e6)
        self.hysteresis_ns = round(self.hysteresis_ms * 1e6)
        self.seen_at = [0] * topology.pages
        self.moving: set[int] = set()
        self.fast: dict[int, None] = {}
        """The next victim first."""
        self.slow: dict[int, None] = {}
        """The next candidate last."""
        self.arrived: list[tuple[int, int, int]] = []
        self.tick_start_ns = 0
        self.in_flight = 0
        self.failed_moves = 0

    def samplers(self) -> Sequence[Sampler]:
        return [Sampler("load-miss", self.sampling_period)]

    def mechanics(self) -> Mechanics:
        return Mechanics.as_hemem(self.topology.page_bytes)

    def overheads(self) -> Overheads:
        entries = 2.0 * self.batch_pages
        return Overheads(1.0 + min(entries * LIST_ENTRY_NS / self.period_ns, 1.0), RECORD_NS)

    def on_alloc(self, extent: Extent, cx: Context) -> Placement:
        self.admit(cx)
        self.arrived.append((extent.start, extent.pages, cx.now_ns))
        return "fastest-free"

    def on_free(self, extent: Extent, cx: Context) -> None:
        self.admit(cx)
        for page in range(extent.start, extent.start + extent.pages):
            self.unlist(page)
            self.seen_at[page] = 0

    def on_samples(self, samples: Sequence[Sample], cx: Context) -> None:
        self.admit(cx)
        now_ns = cx.now_ns
        for sample in samples:
            page = sample.page
            listed = page in self.fast or page in self.slow
            if self.seen_at[page] == now_ns and (listed or page in self.moving):
                continue
            self.seen_at[page] = now_ns
            if page in self.moving:
                continue
            fast = page in self.fast if listed else cx.tier_of(page) == 0
            self.unlist(page)
            self.enlist(page, fast)

    def on_migrations(self, ended: Sequence[Migrated], idle: bool, cx: Context) -> None:
        self.admit(cx)
        for migrated in ended:
            self.moving.discard(migrated.page)
            if migrated.outcome == "gone":
                continue
            fast = cx.tier_of(migrated.page) == 0
            if fast or migrated.to == 0:
                self.enlist(migrated.page, fast)
        if ended:
            self.failed_moves += sum(migrated.outcome == "no-space" for migrated in ended)
            self.in_flight -= len(ended)
            if self.in_flight == 0:
                cx.wake_at(max(cx.now_ns, self.tick_start_ns + self.period_ns))

    def on_wake(self, cx: Context) -> None:
        self.admit(cx)
        if self.in_flight:
            return
        self.tick_start_ns = cx.now_ns
        self.promote(cx)
        if self.in_flight == 0:
            cx.wake_at(self.tick_start_ns + self.period_ns)

    def gauges(self) -> Sequence[Gauge]:
        return [
            Gauge("seen_slow_pages", "pages of slow memory that were seen and wait", float(len(self.slow))),
            Gauge("failed_moves", "moves that found no space", float(self.failed_moves)),
        ]

    def admit(self, cx: Context) -> None:
        """Pages that were placed since the last call join the end of the list of fast memory."""
        for start, pages, at_ns in self.arrived:
            for page in range(start, start + pages):
                if cx.tier_of(page) == 0:
                    self.seen_at[page] = at_ns
                    self.enlist(page, True)
        self.arrived.clear()

    def enlist(self, page: int, fast: bool) -> None:
        """Puts a page at the back of a list."""
        (self.fast if fast else self.slow)[page] = None

    def unlist(self, page: int) -> None:
        """Takes a page out of the list that it is in, if any."""
        self.fast.pop(page, None)
        self.slow.pop(page, None)

    def ask(self, page: int, to: int, cx: Context) -> None:
        """Asks for a move."""
        self.unlist(page)
        self.moving.add(page)
        self.in_flight += 1
        cx.migrate(page, to)

    def candidate(self, now_ns: int) -> int | None:
        """The page of slow memory that was seen last, within the window."""
        while self.slow:
            page = next(reversed(self.slow))
            if now_ns - self.seen_at[page] <= self.window_ns:
                return page
            self.unlist(page)
        return None

    def promote(self, cx: Context) -> None:
        """One round."""
        tiers = len(self.topology.capacity_pages)
        room = [cx.free_pages(tier) for tier in range(tiers)]
        for _ in range(self.batch_pages):
            page = self.candidate(cx.now_ns)
            if page is None:
                break
            if room[0] == 0:
                victim = next(iter(self.fast), None)
                below = next((tier for tier in range(1, tiers) if room[tier] > 0), None)
                if victim is None or below is None:
                    break
                if self.seen_at[victim] + self.hysteresis_ns >= self.seen_at[page]:
                    break
                room[0] += 1
                room[below] -= 1
                self.ask(victim, below, cx)
            room[cx.tier_of(page)] += 1
            room[0] -= 1
            self.ask(page, 0, cx)
