"""One small document of every kind of report, as its page: most by the real command on tiny workloads."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.claims.test_reproduce import CLAIMS
from tests.cli.small import tiertune
from tests.cli.test_objectives import write_two as write_two_objectives
from tests.comparison.test_command import write_comparison
from tests.explanation.one_cell import QUICK, write_one
from tests.nightly.two import night, slow_down, write_two
from tests.report.example import example_report
from tests.sweep.small import SWEEP, write_sweep
from tests.transfer.few import write_few
from tiertune.tuner.report.html import render_html


def _ran(*arguments: str | Path) -> None:
    done = tiertune(*arguments)
    assert done.exit_code == 0, done.stderr


def two_cells(folder: Path) -> Path:
    """A report by formula, on two cells and with everything that a report may hold; the same for ever."""
    path = folder / "example.html"
    path.write_text(render_html(example_report(2)), encoding="utf-8")
    return path


def tune(folder: Path) -> Path:
    """The report of a campaign of one cell. Its folder serves `explain` as well."""
    _ran("tune", write_one(folder), "--results", folder / "results")
    return folder / "results/mine/report.html"


def front(folder: Path) -> Path:
    """The report of a campaign with two objectives."""
    _ran("tune", write_two_objectives(folder), "--results", folder / "results")
    return folder / "results/small/report.html"


def explain(folder: Path) -> Path:
    """The smallest set of changes, with all its figures."""
    _ran("explain", write_one(folder), *QUICK, "--results", folder / "results")
    return folder / "results/mine/explain/report.html"


def compare(folder: Path) -> Path:
    """Three systems in two scenarios."""
    _ran("compare", write_comparison(folder), "--results", folder / "results")
    return folder / "results/small/comparison.html"


def transfer(folder: Path) -> Path:
    """Three contexts against each other."""
    command = ("transfer", write_few(folder), "--seeds", "5", "--candidates", "2")
    _ran(*command, "--results", folder / "results")
    return folder / "results/few/transfer/report.html"


def along(folder: Path) -> Path:
    """A walk along the ratio, of what `transfer` tuned."""
    walk = ("--along", "ratio", "--from", "1:4", "--to", "1:12", "--context", "2", "--seeds", "5")
    _ran("transfer", write_few(folder), *walk, "--results", folder / "results")
    return folder / "results/few/transfer/along-ratio/report.html"


def reproduce(folder: Path) -> Path:
    """Four claims: met, missed, not checkable."""
    (folder / "small.yaml").write_text(CLAIMS)
    _ran("reproduce", "--claims", folder / "small.yaml", "--results", folder / "results")
    return folder / "results/claims/small.html"


def nightly(folder: Path) -> Path:
    """Two nights of a panel; in the second a workload is slower, which raises an alarm."""
    before = Path.cwd()
    os.chdir(folder)  # workloads are found from the current directory
    try:
        suite = write_two(folder)
        with suite.open("a") as stream:
            stream.write("search: false\n")
        night(folder, suite, "2026-11-01")
        slow_down(folder, "tiered", 0.06)
        night(folder, suite, "2026-11-02")
    finally:
        os.chdir(before)
    return folder / "results/nightly/two/2026-11-02/digest.html"


def sweep(folder: Path) -> Path:
    """Two systems, one with two configs, over ratios and seeds: lines, and who is how far behind."""
    path = write_sweep(folder, SWEEP.replace('ratios: ["1:4"]', 'ratios: ["1:2", "1:4", "1:8"]'))
    _ran("sweep", path, "--results", folder / "results")
    return folder / "results/sweeps/small/report.html"


def sensitivity(folder: Path) -> Path:
    """A conclusion in two scenarios, over two parameters of the model."""
    path = write_sweep(folder, SWEEP.replace('ratios: ["1:4"]', 'ratios: ["1:4", "1:8"]'))
    common = ("--parameters", "migration_cost,curve_shape", "--together", "4")
    claim = "hemem/eager beats notier"
    _ran("sensitivity", path, "--claim", claim, *common, "--results", folder / "results")
    return folder / "results/sensitivity/small/hemem-eager-beats-notier/report.html"


KINDS: dict[str, Callable[[Path], Path]] = {
    "two cells": two_cells,
    "tune": tune,
    "front": front,
    "explain": explain,
    "compare": compare,
    "transfer": transfer,
    "along": along,
    "reproduce": reproduce,
    "nightly": nightly,
    "sweep": sweep,
    "sensitivity": sensitivity,
}
SHARED = {"explain": "tune", "along": "transfer"}
"""Pages that go on in the folder of another one, so that nothing is measured twice."""
