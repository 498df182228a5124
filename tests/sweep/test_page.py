"""The page of a sweep: what is set against what, who is first, what is drawn, and what the command leaves."""

from __future__ import annotations

import csv
import io
import json
import re
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.small import WORKLOAD, tiertune
from tests.sweep.small import SWEEP, one, rows, sweep, write_sweep
from tiertune.tuner.sweep.measured import MeasuredRow
from tiertune.tuner.sweep.outcome import Outcome, Standing, estimate, outcome_of
from tiertune.tuner.sweep.picture import along_of, points_of
from tiertune.tuner.sweep.quantity import direction_of, quantity_of
from tiertune.tuner.sweep.row import Coordinates, PlannedRow, Result, Run, Setting
from tiertune.tuner.sweep.scenario import plane_of
from tiertune.tuner.sweep.verdict import verdict_of
from tiertune.tuner.trial import Status

AT = Coordinates("all", "a", "default", "w", "none", "m", "1:4", 4, "none", 4096, 1)
NOISE = (1.0, 1.001, 0.999, 1.002)


class Runnable(Run):
    """A run that nobody asks for anything but what it is of: the same for all."""

    def __init__(self) -> None:
        setting = Setting.__new__(Setting)
        setting.__dict__["documents"] = ("", "")
        self.__dict__["setting"] = setting


def made(
    values: Mapping[str, float], figure: str = "slowdown", seeds: int = 4, **at: Any
) -> list[MeasuredRow]:
    """Rows of systems whose figure differs from seed to seed by a little noise, another one for each."""
    found = []
    for turn, (system, value) in enumerate(values.items()):
        for seed in range(seeds):
            place = replace(AT, **{**at, "system": system, "seed": seed + 1})
            row = MeasuredRow(PlannedRow(place, Runnable(), {}), Result(Status.OK), None)
            row.values = {figure: value * NOISE[(seed + turn) % len(NOISE)]}
            found.append(row)
    return found


def judged(found: Sequence[MeasuredRow], figure: str = "slowdown") -> Outcome:
    return outcome_of(plane_of(found), quantity_of(figure))


def said(found: Sequence[MeasuredRow], figure: str = "slowdown") -> str:
    return verdict_of(judged(found, figure), 0, len(found))


def test_what_follows_from_something_else_is_no_axis() -> None:
    found = [
        *made({"a": 2.0, "b": 3.0}, workload="w1", machine="m1", part="p1"),
        *made({"a": 2.0, "b": 3.0}, workload="w2", machine="m2", part="p2"),
    ]
    plane = plane_of(found)
    assert [axis.name for axis in plane.scenes] == ["workload"]
    assert plane.contenders == ("a", "b")
    # Page sizes of the systems' own are not set against each other; those that all have are.
    own = [*made({"a": 2.0}, page_bytes=4096), *made({"b": 3.0}, page_bytes=2 << 20)]
    assert plane_of(own).scenes == ()
    both = [row for size in (2 << 20, 4096) for row in made({"a": 2.0, "b": 3.0}, page_bytes=size)]
    assert [axis.values for axis in plane_of(both).scenes] == [("4KiB", "2MiB")]
    # Parts that nothing else tells apart are told apart.
    twice = [*made({"a": 2.0, "b": 3.0}, part="p1"), *made({"a": 2.0, "b": 3.0}, part="p2")]
    assert [axis.name for axis in plane_of(twice).scenes] == ["part"]


def test_ratios_are_in_the_order_of_their_size() -> None:
    found = [row for fast in ("1:16", "1:2", "2:1") for row in made({"a": 2.0, "b": 3.0}, fast=fast)]
    (axis,) = plane_of(found).scenes
    assert axis.values == ("2:1", "1:2", "1:16")
    assert axis.sizes == [0.5, 2.0, 16.0]


def test_the_first_and_who_is_not_told_apart_from_it() -> None:
    (scene,) = judged(made({"a": 2.0, "b": 2.001, "c": 3.0})).scenes
    assert [entry.standing for entry in scene.entries] == [Standing.FIRST, Standing.LEVEL, Standing.BEHIND]
    behind = scene.entries[2].times
    assert behind is not None
    assert behind.low is not None
    assert behind.high is not None
    assert behind.low < 1.5 < behind.high
    assert scene.firsts == ("a", "b")
    more = judged(made({"a": 2.0, "c": 3.0}, "throughput_mops"), "throughput_mops").scenes[0]
    assert [entry.subject for entry in more.entries] == ["c", "a"]
    assert more.entries[1].times is not None
    assert more.entries[1].times.value == pytest.approx(1.5, rel=0.01)


def test_one_seed_has_no_interval_and_nobody_is_behind() -> None:
    (scene,) = judged(made({"a": 2.0, "b": 2.01, "c": 3.0}, seeds=1)).scenes
    assert [entry.standing for entry in scene.entries] == [Standing.FIRST, Standing.LEVEL, Standing.ONE_SEED]
    assert all(entry.estimate and entry.estimate.low is None for entry in scene.entries)
    assert said(made({"a": 2.0, "c": 3.0}, seeds=1)) == "lowest slowdown on one seed: a 2, then c 3.003"


def test_who_fails_on_a_seed_is_never_first() -> None:
    found = made({"a": 2.0, "b": 3.0})
    found[0].result, found[0].values = Result(Status.CRASHED, error="it fell over"), {}
    (scene,) = judged(found).scenes
    assert [(entry.subject, entry.standing) for entry in scene.entries] == [
        ("b", Standing.FIRST), ("a", Standing.FAILED),
    ]  # fmt: skip
    assert verdict_of(judged(found), 1, len(found)).endswith("; 1 of 8 rows failed")


def test_yardsticks_are_shown_and_not_ranked() -> None:
    found = made({"all-fast": 1.0, "oracle": 1.5, "a": 2.0, "b": 3.0})
    (scene,) = judged(found).scenes
    assert scene.firsts == ("a",)
    assert {entry.subject for entry in scene.entries if entry.standing is Standing.YARDSTICK} == {
        "all-fast", "oracle",
    }  # fmt: skip
    assert "all-fast" not in said(found)
    # Where there is nothing else, they are what was asked for.
    assert judged(made({"all-fast": 1.0, "oracle": 1.5})).scenes[0].firsts == ("all-fast",)


def test_verdicts() -> None:
    assert re.fullmatch(
        r"lowest slowdown: a 2\.0\d+ \(.+ to .+\), then b 3\.0\d+ \(.+ to .+\)",
        said(made({"a": 2.0, "b": 3.0})),
    )
    assert "; b is not told apart from it" in said(made({"a": 2.0, "b": 2.001, "c": 3.0}))
    many = {name: 2.0 + place for place, name in enumerate("abcdefg")}
    assert re.fullmatch(r"lowest slowdown: a [^;]+; last of 7 is g 8\.0.+", said(made(many)))
    better, worse = {"a": 2.0, "b": 3.0}, {"a": 3.0, "b": 2.0}
    along = [row for fast in ("1:1", "1:2", "1:4") for row in made(better, fast=fast)] + made(
        worse, fast="1:8"
    )
    assert said(along) == "lowest slowdown: a at 1:1, 1:2 and 1:4; b at 1:8"
    # Of two axes, the one that decides is named; where neither does, scenarios are counted.
    deciding = [
        row
        for workload, values in (("w1", better), ("w2", worse))
        for fast in ("1:1", "1:8")
        for row in made(values, workload=workload, fast=fast)
    ]
    assert said(deciding) == "lowest slowdown: a on w1; b on w2"
    mixed = [*deciding[:-8], *made(better, workload="w2", fast="1:8")]
    assert said(mixed) == "lowest slowdown: a in 3 of 4 scenarios; b in 1"
    everywhere = [row for fast in ("1:1", "1:8") for row in made(better, fast=fast)]
    assert said(everywhere) == "lowest slowdown: a in all 2 scenarios"
    # Neither more nor fewer promotions are better.
    spoken = said(made(better, "promotions"), "promotions")
    assert re.fullmatch(r"promotions from 2\S* \(a\) to 3\S* \(b\) pages", spoken)


def test_a_single_contender_is_ordered_over_what_varies() -> None:
    found = [row for fast, value in (("1:1", 2.0), ("1:8", 3.0)) for row in made({"a": value}, fast=fast)]
    outcome = judged(found)
    assert (outcome.subject.name, outcome.axes) == ("fast", ())
    assert re.fullmatch(r"lowest slowdown: 1:1 2\S* \(.*\), then 1:8 3\S* \(.*\)", said(found))


def test_lines_are_drawn_over_what_grows_and_varies_most() -> None:
    found = [
        row
        for fast in ("1:1", "1:2", "1:8")
        for threads in (4, 8)
        for row in made({"a": 2.0, "b": 3.0}, fast=fast, threads=threads)
    ]
    along = along_of(plane_of(found))
    assert along is not None
    assert along.name == "fast"
    points = points_of(plane_of(found), quantity_of("slowdown"))
    assert len(points) == 3 * 2 * 2
    assert points[0].estimate == estimate([row.values["slowdown"] for row in found[:4]])
    workloads = [row for name in ("w1", "w2") for row in made({"a": 2.0, "b": 3.0}, workload=name)]
    assert along_of(plane_of(workloads)) is None
    crowd = {f"s{number}": 2.0 + number for number in range(12)}
    assert along_of(plane_of([row for fast in ("1:1", "1:8") for row in made(crowd, fast=fast)])) is None


def test_directions_of_figures() -> None:
    directions = {"runtime_s": "minimize", "throughput_mops": "maximize", "promotions": ""}
    ways = {
        "slowdown": "minimize", "slowdown_pct": "minimize", "x.slowdown_points": "minimize",
        "x.speedup": "maximize", "x.runtime_s": "minimize", "throughput_mops": "maximize",
        "promotions": "", "gauge.runtime_s": "",
    }  # fmt: skip
    assert {name: direction_of(name, directions) for name in ways} == ways
    assert quantity_of("vs-quiet.runtime_s").words == "runtime relative to quiet"


def test_an_estimate_is_geometric_where_it_can_be() -> None:
    mean = estimate([1.0, 4.0])
    assert mean.value == pytest.approx(2.0)
    assert mean.low is not None
    assert mean.high is not None
    assert mean.low < 1.0 < 4.0 < mean.high
    assert estimate([0.0, 4.0]).value == 2.0
    assert estimate([3.0]) == estimate([3.0])
    assert estimate([3.0]).low is None


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sweep over ratios and what it left under `results`."""
    folder = tmp_path_factory.mktemp("page")
    path = write_sweep(folder, SWEEP.replace('ratios: ["1:4"]', 'ratios: ["1:4", "1:8", "1000:1"]'))
    sweep(path, folder / "results")
    return folder


def page(folder: Path) -> str:
    return (folder / "results/sweeps/small/report.html").read_text(encoding="utf-8")


def test_the_page_has_every_row_and_figure(swept: Path) -> None:
    text = page(swept)
    assert "<script src" not in text
    found = rows(swept / "results")
    assert len(found) > 6
    for row in found:
        assert text.count(f"<code>{row['id']}</code>") == 1
    fast = one(found, system="notier", fast="1:4", seed=1)["derived"]["slowdown"]
    assert f'data-value="{fast}"' in text
    addresses = re.findall(r'download="([^"]+)" href="data:text/csv;base64,([^"]+)"', text)
    assert [name for name, _ in addresses] == [
        "small-along-slowdown.csv", "small-along-notier-speedup.csv", "small-behind-slowdown.csv",
    ]  # fmt: skip
    assert f".venv/bin/tiertune sweep {swept}/small.yaml --results results-again" in text


def test_pages_of_equal_rows_are_equal(swept: Path) -> None:
    before = page(swept)
    sweep(swept / "small.yaml", swept / "results")
    assert page(swept) == before


def test_what_the_table_shows_is_what_the_page_shows(swept: Path, tmp_path: Path) -> None:
    figures = tmp_path / "figures"
    options = ("--show", "throughput_mops,status", "--seeds", "1", "--figures", str(figures), "--json")
    printed = json.loads(sweep(swept / "small.yaml", swept / "results", *options).stdout)
    assert Path(printed["files"][0]) == swept / "results/sweeps/small/report.html"
    assert {path.name for path in figures.iterdir()} == {
        f"small-{name}-throughput-mops.{ending}"
        for name in ("along", "behind")
        for ending in ("svg", "pdf", "csv")
    }
    text = page(swept)
    assert "Highest throughput on one seed" in text
    assert "--show throughput_mops,status --seeds 1 --results results-again" in text
    lines = list(csv.DictReader(io.StringIO((figures / "small-behind-throughput-mops.csv").read_text())))
    assert {line["standing"] for line in lines} <= {str(standing) for standing in Standing}
    values = {
        (line["fast"], line["contender"]): float(line["throughput_mops"])
        for line in lines
        if line["seeds"] == "1"
    }
    measured = one(rows(swept / "results"), system="notier", fast="1:8", seed=1)["metrics"]
    assert values["1:8", "notier"] == measured["throughput_mops"]


def test_the_page_is_named_and_opened(swept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    def opened(address: str) -> bool:
        shown.append(address)
        return len(shown) == 1

    monkeypatch.setattr(webbrowser, "open", opened)
    path = swept / "results/sweeps/small/report.html"
    done = sweep(swept / "small.yaml", swept / "results", "--open")
    assert str(path) in done.stdout.splitlines()
    assert (shown, done.stderr) == ([path.as_uri()], "")
    again = sweep(swept / "small.yaml", swept / "results", "--open")
    assert again.stderr == f"tiertune: no browser was found; the page is {path}\n"


def test_rows_that_cannot_run_are_said_and_stand_in_no_order(tmp_path: Path) -> None:
    text = SWEEP.replace("machines: [skx-numa]", "machines: [skx-numa]\nfast_bytes: [8TiB]")
    sweep(write_sweep(tmp_path, text), tmp_path / "results")
    found = page(tmp_path)
    assert "not-applicable" in found
    assert "8TiB are asked for" in found
    assert "rows failed" not in found
    assert re.search(r"<h1>Lowest slowdown: \S+ .*</h1>", found)


def test_a_matrix_from_python_says_how_to_run_it_again(tmp_path: Path) -> None:
    import tiertune as package

    (tmp_path / "w.yaml").write_text(WORKLOAD)
    matrix = {
        "systems": ["hemem", "notier"], "workloads": [str(tmp_path / "w.yaml")], "machines": ["skx-numa"],
        "ratios": ["1:4"],
    }  # fmt: skip
    done = package.sweep(matrix, seeds=[1], results=tmp_path / "results")
    assert done.files[0].name == "report.html"
    text = done.files[0].read_text(encoding="utf-8")
    assert "cat &gt; sweep.yaml &lt;&lt;&#39;END&#39;" in text
    assert ".venv/bin/tiertune sweep sweep.yaml --seeds 1 --results results-again" in text
    refused = tiertune("sweep", "nothing-like-it", "--results", tmp_path)
    assert refused.exit_code == 2
