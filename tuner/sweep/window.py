"""Figures of stretches of a run: means, lowest and highest points of the time series between two moments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from tiertune.document import Path as Place
from tiertune.fields import Name
from tiertune.files import Strict
from tiertune.tuner.sweep.axes import Seconds

WINDOW = "window."
LINE_BYTES = 64
MIGRATION_SHARE = "migration_share"
COLUMNS = (
    "fast_hit_ratio",
    "throughput_mops",
    "promotions_per_s",
    "demotions_per_s",
    "fast_latency_ns",
    "slow_latency_ns",
    "fast_used_bytes",
    MIGRATION_SHARE,
)
"""What a window has: the columns of the engine's series, and migrations as a share of the program's reads."""
STATISTICS = ("mean", "lowest", "highest")

Timeline = Mapping[str, Sequence[float]]


class Window(Strict):
    """A stretch of every run."""

    name: Name = Field(description="name of the window in figures")
    from_s: Seconds = Field(default=0.0, description="when it begins, in seconds of the run")
    until_s: Seconds | None = Field(default=None, description="when it ends; absent: with the run")
    last_s: Seconds | None = Field(
        default=None,
        description="instead: the end of the run, so many seconds of it, or all of a shorter run",
    )

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """It has a length, and is given in one way."""
        if self.last_s is not None:
            for key in ("from_s", "until_s"):
                if key in self.model_fields_set:
                    yield (key,), "does not go with last_s; leave one of them out"
            if not self.last_s > 0.0:
                yield ("last_s",), "must be more than 0"
        if self.until_s is not None and self.until_s <= self.from_s:
            yield ("until_s",), f"must be more than from_s, which is {self.from_s:g}"


def names(windows: Sequence[Window]) -> list[str]:
    """Every figure of `windows`: `window.NAME.COLUMN.mean`."""
    return [
        f"{WINDOW}{window.name}.{column}.{statistic}"
        for window in windows
        for column in COLUMNS
        for statistic in STATISTICS
    ]


def figures(
    windows: Sequence[Window], timeline: Timeline, metrics: Mapping[str, float], page_bytes: int
) -> dict[str, float]:
    """The figures of all `windows` that the run came to, by name.

    `timeline` has `time_s`, the ends of its stretches. Means are weighted by time, a stretch across an edge
    of the window counting as far as it is inside; lowest and highest are of stretches inside by half.
    """
    ends = timeline.get("time_s", ())
    run_s = ends[-1] if ends else 0.0
    columns = {**timeline, MIGRATION_SHARE: _migration_share(timeline, metrics, page_bytes)}
    found: dict[str, float] = {}
    for window in windows:
        until_s = float("inf") if window.until_s is None else window.until_s
        from_s = window.from_s if window.last_s is None else max(0.0, run_s - window.last_s)
        inside = [
            (number, min(end, until_s) - max(start, from_s), end - start)
            for number, (start, end) in enumerate(zip([0.0, *ends], ends, strict=False))
            if min(end, until_s) > max(start, from_s)
        ]
        points = [number for number, length, whole in inside if 2 * length >= whole]
        for column in COLUMNS if points else ():
            values, name = columns[column], f"{WINDOW}{window.name}.{column}"
            total = sum(length for _, length, _ in inside)
            found[f"{name}.mean"] = sum(length * values[number] for number, length, _ in inside) / total
            found[f"{name}.lowest"] = min(values[number] for number in points)
            found[f"{name}.highest"] = max(values[number] for number in points)
    return found


def _migration_share(timeline: Timeline, metrics: Mapping[str, float], page_bytes: int) -> list[float]:
    """Bytes moved for each byte that the program reads from memory, at each point of the series.

    How much an operation reads is that of the whole run: this is for programs whose operations are alike.
    Copies thrown away are not in it.
    """
    operations = metrics["throughput_mops"] * metrics["runtime_s"]
    read_mb = LINE_BYTES * metrics["simulated_accesses"] / 1e6 / operations if operations else 0.0
    moved = [
        page_bytes * (up + down) / 1e6
        for up, down in zip(timeline["promotions_per_s"], timeline["demotions_per_s"], strict=True)
    ]
    reads = [rate * read_mb for rate in timeline["throughput_mops"]]
    return [mine / read if read else 0.0 for mine, read in zip(moved, reads, strict=True)]
