"""Sweeps: a matrix of experiments, as a frame with a row for each combination."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from tiertune.tuner.backend import Notify
    from tiertune.tuner.sweep.definition import Sweep
    from tiertune.tuner.sweep.measured import Group, MeasuredRow
    from tiertune.tuner.sweep.measurement import Progress
    from tiertune.tuner.sweep.row import PlannedRow

MOST_REASONS = 10


@dataclass(frozen=True)
class SweepResult:
    """What a sweep measured.

    `rows` has a row for each combination and seed: coordinates, ``status``, every metric, slowdowns against
    all-fast and ratios to other rows. `groups` has medians over seeds. `timelines` is empty unless asked for.
    """

    name: str
    rows: pd.DataFrame
    groups: pd.DataFrame
    timelines: pd.DataFrame
    files: tuple[Path, ...]
    document: dict[str, Any] = field(repr=False)
    """The same as `tiertune sweep --json` prints."""

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p><b>sweep {escape(self.name)}</b>, {len(self.rows)} rows</p>{self.groups.to_html()}"


def sweep(
    matrix: str | Path | Mapping[str, Any],
    *,
    seeds: int | str | Sequence[int] | None = None,
    timelines: bool = False,
    fresh: bool = False,
    jobs: int | None = None,
    results: str | Path = "results",
    progress: Callable[[Progress], None] | None = None,
) -> SweepResult:
    """Measures every combination of `matrix`: the name of a sweep, its file, or what such a file holds.

    What was measured before with the same engine is read back from `results`. `seeds` go in place of the
    matrix's. Raises `InputError` where it is wrong, or no combination can run.
    """
    from tiertune.files import InputError
    from tiertune.tuner.api.campaigns import written
    from tiertune.tuner.api.evaluation import seeds_of
    from tiertune.tuner.api.limits import jobs_of
    from tiertune.tuner.sweep.definition import load_sweep
    from tiertune.tuner.sweep.matrix import rows_of

    folder = Path(results)
    if isinstance(matrix, Mapping):
        with written("sweep", {"name": "sweep", **matrix}) as path:
            loaded = load_sweep(str(path))
            again = [f"cat > sweep.yaml <<'END'\n{path.read_text(encoding='utf-8')}END"]
        command = ["sweep", "sweep.yaml"]
    else:
        loaded, again, command = load_sweep(str(matrix)), [], ["sweep", str(matrix)]
    if seeds is not None:
        loaded = with_seeds(loaded, seeds_of(seeds))
        command += ["--seeds", ",".join(map(str, loaded.seeds or ()))]
    plans = rows_of(loaded, folder)
    check_runnable(loaded, plans)
    rows, groups, document, paths = measured(
        loaded, plans, folder, jobs=jobs_of(jobs), fresh=fresh,
        timelines=timelines or loaded.timelines, notify=lambda text: None,
        listener=progress or (lambda told: None), reproduce=[*again, *reproduction(loaded, command, folder)],
    )  # fmt: skip
    if not rows:
        raise InputError(f"sweep {loaded.name}: nothing was measured")
    return _result(loaded, rows, groups, document, paths)


def check_runnable(loaded: Sweep, plans: Sequence[PlannedRow]) -> None:
    """Raises `InputError` where no combination can run."""
    from tiertune.files import InputError

    if not plans:
        raise InputError(f"sweep {loaded.name}: the matrix is empty: no config is for any of its systems")
    if all(plan.run is None for plan in plans):
        reasons = dict.fromkeys(plan.reason for plan in plans)
        raise InputError(f"sweep {loaded.name}: no combination can run", *list(reasons)[:MOST_REASONS])


def measured(
    loaded: Sweep,
    plans: Sequence[PlannedRow],
    results: Path,
    *,
    jobs: int,
    fresh: bool,
    timelines: bool,
    notify: Notify,
    listener: Callable[[Progress], None],
    reproduce: Sequence[str],
) -> tuple[list[MeasuredRow], list[Group], dict[str, Any], list[Path]]:
    """Measures and writes what a sweep leaves: rows, groups, the document, the paths of its files, of which
    the first is the page. `reproduce` are the commands that the page gives."""
    from tiertune.tuner.sweep.files import document_of, folder_of, write_files
    from tiertune.tuner.sweep.measured import groups_of, measured_rows
    from tiertune.tuner.sweep.measurement import measure
    from tiertune.tuner.sweep.page import write_page

    found = measure(
        plans, results, jobs=jobs, fresh=fresh, timelines=timelines, notify=notify, listener=listener
    )
    rows = measured_rows(plans, found, loaded.relative_to)
    groups = groups_of(rows)
    document = document_of(loaded, rows, groups)
    folder = folder_of(results, loaded.name)
    paths = write_files(folder, document, rows, timelines)
    return list(rows), groups, document, [write_page(folder, loaded, rows, reproduce), *paths]


def reproduction(loaded: Sweep, command: Sequence[str], results: Path) -> list[str]:
    """Commands that make the page of a sweep again from nothing, with the campaigns whose winners it runs."""
    import shlex

    from tiertune.tuner.host_facts import environment_facts
    from tiertune.tuner.report.data import checkout

    entries = [entry for _, axes in loaded.matrices() for entry in axes.configs or ()]
    again = ["--results", "results-again"]
    commands = [
        ["tune", str(results / name / "campaign.yaml"), *again]
        for name in dict.fromkeys(entry.campaign for entry in entries if entry.campaign)
    ]
    commands.append([*command, *again])
    lines = [shlex.join([".venv/bin/tiertune", *words]) for words in commands]
    return [*checkout([environment_facts()["git"]]), *lines]


def with_seeds(loaded: Sweep, seeds: Sequence[int]) -> Sweep:
    """The sweep with other seeds."""
    parts = [part.model_copy(update={"seeds": None}) for part in loaded.parts]
    return loaded.model_copy(update={"seeds": list(seeds), "parts": parts})


def _result(
    loaded: Sweep,
    rows: Sequence[MeasuredRow],
    groups: Sequence[Group],
    document: dict[str, Any],
    paths: Sequence[Path],
) -> SweepResult:
    import pandas as pd

    from tiertune.tuner.trial import Status

    flat = [
        {
            "id": row.plan.id,
            **vars(row.at),
            "status": str(row.result.status),
            "error": row.said,
            **{f"knob.{name}": value for name, value in row.plan.config.items()},
            **row.values,
        }
        for row in rows
    ]
    medians = []
    for group in groups:
        at = {name: value for name, value in vars(group.at).items() if name != "seed"}
        seeds = group.statuses.get(Status.OK, 0)
        spreads = {name: spread.median for name, spread in group.spreads.items()}
        medians.append({**at, "seeds": seeds, **spreads})
    series = [pd.DataFrame(row.result.timeline).assign(id=row.plan.id) for row in rows if row.result.timeline]
    return SweepResult(
        name=loaded.name,
        rows=pd.DataFrame(flat),
        groups=pd.DataFrame(medians),
        timelines=pd.concat(series, ignore_index=True) if series else pd.DataFrame(),
        files=tuple(paths),
        document=document,
    )
