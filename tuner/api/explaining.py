"""Explanations: which of the changed knobs carry the gain, as frames."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from tiertune.tuner.api.campaigns import Progress
    from tiertune.tuner.explanation.study import Settings
    from tiertune.tuner.transfer.measuring import Laboratory


@dataclass(frozen=True)
class Explanation:
    """What carries the gain of a campaign's cells. Ratios are performance over the default, above 1 is
    better."""

    campaign: str
    document: dict[str, Any] = field(repr=False)
    """The same as `tiertune explain --json` prints."""

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        return str(self.document["verdict"])

    @property
    def steps(self) -> pd.DataFrame:
        """The way from the default to the winner: each change, ratio with its interval, share of the gain."""
        import pandas as pd

        return pd.DataFrame(
            [
                {"cell": cell["label"], **step, "enough": step["step"] == cell["way"]["enough"]}
                for cell in self.document["cells"]
                for step in cell["way"]["steps"]
            ]
        )

    @property
    def importance(self) -> pd.DataFrame:
        """Share of the variance over the search's trials, by knob and by pair, with intervals."""
        import pandas as pd

        return pd.DataFrame(
            [
                {"cell": cell["label"], **part, "knobs": " x ".join(part["knobs"])}
                for cell in self.document["cells"]
                for part in [*cell["importance"]["knobs"], *cell["importance"]["pairs"]]
            ]
        )

    @property
    def few_changes(self) -> dict[str, dict[str, Any]]:
        """The fewest changes that keep the gain, by cell."""
        return {cell["label"]: dict(cell["way"]["config"]) for cell in self.document["cells"]}

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p><b>{escape(self.verdict)}</b></p>{self.steps.to_html()}"


def explain(
    campaign: str | Path,
    *,
    cells: Sequence[int] | None = None,
    keep: float = 95.0,
    seeds: int = 8,
    slices: int = 3,
    points: int = 9,
    grid: int = 7,
    fresh: bool = False,
    jobs: int | None = None,
    results: str | Path = "results",
    progress: Callable[[Progress], None] | None = None,
) -> Explanation:
    """Explains what a campaign has tuned; where it was not run yet, it is run first.

    `keep` is percent of the gain that the fewest changes keep, `cells` are numbers from 1. Everything
    measured is kept under `results`. Raises `InputError`.
    """
    from tiertune.tuner.api import limits
    from tiertune.tuner.api.campaigns import tuned_here
    from tiertune.tuner.explanation.study import Settings

    limits.check("keep (percent)", keep, limits.KEEP_PCT)
    limits.check("seeds", seeds, limits.SEEDS)
    limits.check("slices", slices, limits.SLICES)
    limits.check("points", points, limits.POINTS)
    limits.check("grid", grid, limits.GRID)
    folder = Path(results)
    quiet = laboratory(folder, jobs, fresh)
    numbers = None if cells is None else list(cells)
    check_cells(str(campaign), folder, numbers, False)
    name = tuned_here(str(campaign), folder, progress)
    settings = Settings(seeds, keep / 100.0, slices, points, grid)
    return Explanation(name, document_of(name, folder, numbers, settings, False, quiet))


def laboratory(results: Path, jobs: int | None, fresh: bool) -> Laboratory:
    """One that measures without a word; raises `InputError`."""
    from tiertune.tuner.api.limits import jobs_of
    from tiertune.tuner.transfer.measuring import Laboratory

    return Laboratory(results, jobs_of(jobs), lambda text: None, lambda told: None, fresh)


def check_cells(source: str, results: Path, numbers: Sequence[int] | None, one: bool) -> None:
    """Raises `InputError` where a campaign, which may be still to be run, has no cells of these numbers."""
    from tiertune.tuner.api.campaigns import campaign_to_build_on
    from tiertune.tuner.plan import plan_of

    plan = plan_of(campaign_to_build_on(source, results))
    _chosen(plan.name, sum(cell.search == 0 for cell in plan.cells), numbers, one)


def _chosen(name: str, count: int, numbers: Sequence[int] | None, one: bool) -> list[int]:
    """Numbers of the cells that are explained; `one` where there may be one only. Raises `InputError`."""
    from tiertune.files import InputError
    from tiertune.tuner.api.limits import check_numbers

    check_numbers("--cell", numbers, count, f"{name} has")
    chosen = list(dict.fromkeys(numbers or range(1, count + 1)))
    if one and len(chosen) > 1:
        raise InputError(f"--write: {name} has {len(chosen)} cells; pick one with --cell, such as --cell 1")
    return chosen


def document_of(
    name: str,
    results: Path,
    numbers: Sequence[int] | None,
    settings: Settings,
    one: bool,
    laboratory: Laboratory,
) -> dict[str, Any]:
    """What is told of the campaign `name`; `one` where there may be one cell only. Raises `InputError`."""
    from tiertune.tuner.explanation.document import cell_document, labels_of, verdict_of
    from tiertune.tuner.explanation.report import NOT_MEASURED
    from tiertune.tuner.explanation.study import run_study
    from tiertune.tuner.explanation.trials import trials_of
    from tiertune.tuner.journal import Journal
    from tiertune.tuner.journal_claim import codes_of
    from tiertune.tuner.report.data import python_policies, reproduction
    from tiertune.tuner.transfer.context import contexts_of

    path = results / name / "journal.sqlite"
    contexts = contexts_of([path])
    chosen = _chosen(name, len(contexts), numbers, one)
    labels = labels_of(contexts)
    cells = []
    for number in chosen:
        context = contexts[number - 1]
        if len(chosen) > 1:
            laboratory.notify(f"cell {number}: {labels[number - 1]}")
        study = run_study(context, trials_of(context, path), settings, laboratory)
        cells.append(cell_document(study, number, labels[number - 1], settings))
    with Journal(path, writer=False) as journal:
        commands = reproduction(journal.claimed(), list(journal.environments().values()))
        _, policies = python_policies(codes_of(journal.claimed()))
    command = ["tiertune", "explain", name, *(f"--cell={number}" for number in numbers or ())]
    command += ["--keep", f"{settings.keep * 100:g}", "--seeds", str(settings.seeds)]
    command += ["--slices", str(settings.slices), "--points", str(settings.points)]
    command += ["--grid", str(settings.grid)]
    return {
        "campaign": name,
        "verdict": verdict_of(cells),
        "cells_in_all": len(contexts),
        "cells": cells,
        "not_measured": list(NOT_MEASURED),
        "reproduce": [*commands, f".venv/bin/{shlex.join(command)} --results results-again{policies}"],
    }
