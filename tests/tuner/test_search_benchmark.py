"""What `make bench-search` computes from races, on made-up races, and that its data fit its cells."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from tests.bench.search import cheap, fronts, summary
from tests.bench.search.cells import HERE, cells
from tests.bench.search.optimum import near_optima
from tests.bench.search.race import Race
from tests.bench.search.summary import curves, interval, trials_to_reach
from tests.bench.search.variants import VARIANTS
from tiertune.spaces.configspace import to_configspace
from tiertune.workloads.definition import load_workload

ROOT = Path(__file__).resolve().parents[2]


def race(variant: str, cell: str, seed: int, regrets: list[float], best_s: float = 10.0) -> Race:
    truths = [math.log(best_s * (1.0 + regret)) for regret in regrets]
    return Race(variant, cell, seed, truths, truths[-1], 0.0, [], [])


def test_there_are_two_dozen_cells_with_near_optima_that_fit_their_spaces() -> None:
    stored = near_optima()
    assert len(cells()) >= 24
    for cell in cells():
        entry = stored[cell.name]
        space = to_configspace(cell.space, 0)
        known = {name: value for name, value in entry["config"].items() if name in space}
        assert known, cell.name
        assert all(space[name].legal_value(value) for name, value in known.items()), cell.name
        assert entry["runtime_s"] <= entry["default_s"], cell.name


def test_a_near_optimum_still_takes_as_long_as_stored() -> None:
    """Of the cheapest cell; `make bench-search` notices others, as races find better configs."""
    cell = next(cell for cell in cells() if cell.name == "sparse/mru")
    entry = near_optima()[cell.name]
    assert math.exp(cell.true(entry["config"])) == pytest.approx(entry["runtime_s"], rel=0.02)


def test_regrets_are_of_the_best_that_anything_found(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = "sparse/mru", "sparse/memtis"
    monkeypatch.setattr(
        summary, "near_optima", lambda: {first: {"runtime_s": 11.0}, second: {"runtime_s": 9.0}}
    )
    races = [race("study", cell, seed, [0.5, 0.2, 0.1]) for cell in (first, second) for seed in (0, 1)]
    races += [race("default", first, seed, [0.3, 0.0, 0.0]) for seed in (0, 1)]
    races += [race("default", second, seed, [0.5, 0.4, 0.3]) for seed in (0, 1)]
    made = curves(races)
    ours = made["default"]
    assert ours.cells == (second, first)
    assert ours.regrets.shape == (2, 2, 3)
    # A race beat the stored one in the first cell (10 s, not 11), not in the second (9 s).
    assert ours.median()[1] == pytest.approx([0.3, 0.0, 0.0])
    assert ours.median()[0] == pytest.approx([15.0 / 9.0 - 1, 14.0 / 9.0 - 1, 13.0 / 9.0 - 1])
    assert list(trials_to_reach(ours, made["study"], at=3)) == [math.inf, 2.0]


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    random = np.random.default_rng(3)
    held = 0
    for _ in range(100):
        low, high = interval(random.standard_normal((25, 1)), resamples=300)
        held += bool(low[0] <= 0.0 <= high[0])
    assert 86 <= held <= 100


def test_the_page_says_of_every_way_of_searching_what_it_is() -> None:
    page = (ROOT / "docs" / "search.md").read_text(encoding="utf-8")
    for name in VARIANTS:
        assert re.search(rf"(\*\*{name}\*\*|memory: {name})", page), name
    for name in re.findall(r"\(search/([^)]+)\)", page):
        assert (ROOT / "docs" / "search" / name).is_file()


def test_the_area_of_a_front_is_that_of_its_steps() -> None:
    x, y = fronts.CORNER
    assert fronts.area([(x, y), (x + 1.0, y - 1.0), (math.inf, math.inf)]) == 0.0
    steps = [(x - 3.0, y - 1.0), (x - 2.0, y - 1.0), (x - 1.0, y - 3.0)]
    assert fronts.area(steps) == pytest.approx(3.0 * 1.0 + 1.0 * 2.0)
    assert fronts.placed((200.0, 0.0), (100.0, 1e9)) == pytest.approx((math.log(2.0), math.log(0.01)))


def test_a_smaller_footprint_is_a_share_of_every_object_in_whole_pages() -> None:
    moving = load_workload(str(HERE / "workloads" / "moving.yaml"))
    small = cheap.of_streams(moving, 0.25).sim.streams
    assert small is not None
    assert [one.bytes for one in small.objects] == [2**28]
    recorded = cheap.of_recorded(load_workload("gups"), 0.25).sim.carry
    assert (recorded.table_bytes, recorded.hot_bytes) == (2**34, 2**31)
    assert cheap.of_recorded(load_workload("bc-kron"), 0.25).sim.carry.scale == 27
