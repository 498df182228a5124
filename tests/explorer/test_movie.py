"""Movies show what the engine's page maps hold, and what maps are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.small import tiertune, write_small
from tests.explorer.made import NAME, campaign
from tiertune.files import InputError
from tiertune.tuner.explorer.figures.movie import frame_times, hottest_first, moment_at, movie, whole_run
from tiertune.tuner.explorer.folder import Results
from tiertune.tuner.explorer.look import DARK
from tiertune.tuner.explorer.page_maps import BINS, page_maps
from tiertune.tuner.trial import Trial

MAPS: dict[str, dict[str, Any]] = {
    "default": {
        "time_s": [1.0, 2.0, 4.0],
        "reads_per_s": [[1.0, 10.0, 0.0], [1.0, 10.0, 0.0], [8.0, 2.0, 0.0]],
        "fast_share": [[1.0, 0.0, 0.0], [1.0, 0.5, 0.0], [1.0, 1.0, 0.0]],
    },
    "tuned": {
        "time_s": [1.0, 2.0],
        "reads_per_s": [[1.0, 10.0, 0.0], [8.0, 2.0, 0.0]],
        "fast_share": [[0.0, 1.0, 0.0], [1.0, 1.0, 0.0]],
    },
}


def test_both_sides_have_the_same_pages_and_times() -> None:
    assert hottest_first(MAPS) == [1, 0, 2]
    times = frame_times(MAPS)
    assert (times[0], times[-1]) == (1.0, 4.0)
    assert [moment_at(MAPS["default"], at) for at in (0.0, 1.0, 1.99, 2.0, 3.9, 4.0)] == [0, 0, 0, 1, 1, 2]
    # A run that is over stays as it ended.
    assert moment_at(MAPS["tuned"], 4.0) == 1


def test_bars_add_up_to_the_reads_and_show_where_they_went() -> None:
    made = movie(MAPS, DARK)
    first = [list(trace.y) for trace in made.data]
    assert first == [[0.0, 1.0, 0.0], [10.0, 0.0, 0.0], [10.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert [trace.name for trace in made.data] == ["in fast memory", "in slow memory"] * 2
    last = [list(bar.y) for bar in made.frames[-1].data]
    assert last == [[2.0, 8.0, 0.0], [0.0, 0.0, 0.0], [2.0, 8.0, 0.0], [0.0, 0.0, 0.0]]
    assert len(made.layout.sliders[0].steps) == len(made.frames)
    left, right = whole_run(MAPS, DARK).data
    assert [list(row) for row in left.z] == [[0.0, 0.5, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    assert list(right.x) == [1.0, 2.0]


def test_maps_are_of_the_validated_runs_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tiertune.tuner.simulation import SimBackend

    assert tiertune("tune", write_small(tmp_path), "--results", tmp_path / "results").exit_code == 0
    asked: list[Trial] = []

    def recorded(self: SimBackend, trial: Trial, bins: int, moments: int) -> dict[str, Any]:
        asked.append(trial)
        return {"bins": bins}

    monkeypatch.setattr(SimBackend, "page_map", recorded)
    results = Results(tmp_path / "results")
    before = {path: path.stat().st_mtime_ns for path in results.path.rglob("*") if path.is_file()}
    maps = page_maps(results, "small", "1")
    assert maps == {"default": {"bins": BINS}, "tuned": {"bins": BINS}}
    assert [trial.origin for trial in asked] == ["default", "winner"]
    assert asked[0].seed == asked[1].seed
    assert page_maps(results, "small", "1") is maps
    after = {path: path.stat().st_mtime_ns for path in results.path.rglob("*") if path.is_file()}
    assert before == after, "looking wrote into the results"


def test_the_engine_maps_pages(tmp_path: Path) -> None:
    assert tiertune("tune", write_small(tmp_path), "--results", tmp_path / "results").exit_code == 0
    maps = page_maps(Results(tmp_path / "results"), "small", "1")
    for one in maps.values():
        assert sum(one["pages"]) == pytest.approx(1024)  # 2 GiB in pages of 2 MiB
        assert len(one["time_s"]) > 10
        # A tenth of the table takes nine tenths of the reads.
        reads = one["reads_per_s"][-1]
        assert sum(reads[-BINS // 10 :]) > 0.8 * sum(reads)
    assert len(movie(maps, DARK).frames) > 10


def test_before_validation_there_is_a_sentence(tmp_path: Path) -> None:
    campaign(tmp_path / NAME, until="search")
    with pytest.raises(InputError, match="before validation"):
        page_maps(Results(tmp_path), NAME, "1")
