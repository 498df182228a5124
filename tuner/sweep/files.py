"""What a sweep leaves: rows as Parquet and JSON, time series as Parquet, each written whole or not at all."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiertune import engine
from tiertune.tuner.report.files import write_whole
from tiertune.tuner.sweep.definition import CACHE, Sweep
from tiertune.tuner.sweep.measured import Group, MeasuredRow, knobs_text
from tiertune.tuner.sweep.row import Coordinates


def folder_of(results: Path, sweep: str) -> Path:
    """Where the files of a sweep lie."""
    return results / "sweeps" / sweep


def cache_path(results: Path) -> Path:
    """The cache that all sweeps of a results folder share."""
    return results / "sweeps" / CACHE


def document_of(sweep: Sweep, rows: Sequence[MeasuredRow], groups: Sequence[Group]) -> dict[str, Any]:
    """Everything that was measured, as plain data; the same for equal results, cached or not."""
    return {
        "sweep": sweep.name,
        "description": sweep.description,
        "engine": {"version": engine.version(), "digest": engine.sources()},
        **({"policies": codes} if (codes := codes_of(rows)) else {}),
        "statuses": dict(sorted(Counter(str(row.result.status) for row in rows).items())),
        "rows": [row.document() for row in rows],
        "groups": [group.document() for group in groups],
    }


def codes_of(rows: Sequence[MeasuredRow]) -> dict[str, str]:
    """Digests of the systems that are policies written in Python."""
    systems = {row.at.system for row in rows}
    return {name: code for name, code in engine.registered().items() if name in systems}


def write_files(
    folder: Path, document: dict[str, Any], rows: Sequence[MeasuredRow], timelines: bool
) -> list[Path]:
    """Writes rows.json, rows.parquet and, with `timelines`, timelines.parquet; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(folder / "rows.json", f"{text}\n")
    _write_parquet(folder / "rows.parquet", _columns(rows))
    paths = [folder / "rows.parquet", folder / "rows.json"]
    if timelines:
        _write_parquet(folder / "timelines.parquet", _timeline_columns(rows))
        paths.append(folder / "timelines.parquet")
    return paths


def _columns(rows: Sequence[MeasuredRow]) -> dict[str, Any]:
    """Columns of rows.parquet: coordinates, status, every metric of the engine, then what else was found."""
    import pyarrow as pa

    columns: dict[str, Any] = {"id": pa.array([row.plan.id for row in rows], pa.string())}
    for name in Coordinates.__dataclass_fields__:
        kind = pa.int64() if name in ("threads", "page_bytes", "seed") else pa.string()
        columns[name] = pa.array([getattr(row.at, name) for row in rows], kind)
    columns["status"] = pa.array([str(row.result.status) for row in rows], pa.string())
    columns["error"] = pa.array([row.said for row in rows], pa.string())
    columns["knobs"] = pa.array([knobs_text(row) for row in rows], pa.string())
    columns["traffic"] = pa.array(
        [json.dumps([dict(e) for e in row.plan.contention]) for row in rows], pa.string()
    )
    for name in ("footprint_bytes", "fast_bytes"):
        sizes = [getattr(row.result, name) if row.ok else None for row in rows]
        columns[name] = pa.array(sizes, pa.int64())
    measured = [metric.name for metric in engine.metrics()]
    for name in dict.fromkeys([*measured, *(name for row in rows for name in row.values)]):
        columns[name] = pa.array([row.values.get(name) for row in rows], pa.float64())
    columns["wall_s"] = pa.array([row.result.wall_s for row in rows], pa.float64())
    return columns


def _timeline_columns(rows: Sequence[MeasuredRow]) -> dict[str, Any]:
    """One line a point: the row's id, then the columns of the series."""
    import pyarrow as pa

    names = list(dict.fromkeys(name for row in rows for name in row.result.timeline))
    series = [row for row in rows if row.result.timeline]
    lengths = [len(row.result.timeline["time_s"]) for row in series]
    ids = [row.plan.id for row, length in zip(series, lengths, strict=True) for _ in range(length)]
    columns: dict[str, Any] = {"id": pa.array(ids, pa.string())}
    for name in names:
        values = [value for row in series for value in row.result.timeline[name]]
        columns[name] = pa.array(values, pa.float64())
    return columns


def _write_parquet(path: Path, columns: dict[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        pq.write_table(pa.table(columns), part, compression="zstd")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
