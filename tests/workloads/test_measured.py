"""From touched pages to profiles: rates, sums, classes, and what is said of what was not seen."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tiertune import engine
from tiertune.files import InputError
from tiertune.workloads.definition import load_workload
from tiertune.workloads.measured import (
    LINE_NS,
    Area,
    Declaration,
    NothingSeen,
    Sightings,
    Slice,
    key_of,
    profile_of,
    touch_rate,
)
from tiertune.workloads.profile_file import opened, write_profile
from tiertune.workloads.sampling import sightings

PAGES = 16_384
FIRST = 0x7F0000000


def seen(**changed: Any) -> Sightings:
    """64 MiB of heap, the second quarter of it visited nine times as often, in two slices of a second."""
    key = np.arange(FIRST, FIRST + PAGES, dtype=np.int64)
    visits = np.ones(PAGES)
    visits[PAGES // 4 : PAGES // 2] = 9.0
    fields: dict[str, Any] = {
        "program": "kv --keys 7",
        "sampler": "referenced",
        "sees": "accesses",
        "threads": 2,
        "areas": (Area(0, FIRST, FIRST + PAGES, "heap"),),
        "slices": (Slice("run", 1.0, 2e9), Slice("run", 1.0, 2e9)),
        "slice": np.repeat([0, 1], PAGES),
        "key": np.tile(key, 2),
        "visits": np.tile(visits, 2),
        "resident": key,
    }
    return Sightings(**{**fields, **changed})


@pytest.mark.parametrize("rate", [0.01, 0.1, 1.0, 3.0])
def test_rates_come_back_from_looks(rate: float) -> None:
    looks = 400
    hits = np.random.default_rng(1).binomial(looks, -np.expm1(-rate), size=2000).astype(float)
    found = touch_rate(hits, np.full(len(hits), float(looks)))
    assert found.mean() == pytest.approx(rate, rel=0.03)


def test_a_page_that_was_always_touched_has_a_finite_rate() -> None:
    hits, looks = np.array([0.0, 1.0, 10.0]), np.array([10.0, 1.0, 10.0])
    rates = touch_rate(hits, looks)
    assert rates[0] == 0
    assert 0 < rates[1] < rates[2] < 10


def test_traffic_is_as_much_as_the_stalled_time_allows() -> None:
    columns, metadata = profile_of(seen(), stalled_share=0.4)
    told = json.loads(metadata)
    for number in (0, 1):
        reads = columns["reads"][columns["slice"] == number].sum(dtype=np.int64)
        assert reads == pytest.approx(0.4 * 2e9 / LINE_NS["random"], rel=1e-6)
    hot = columns["reads"][(columns["page"] >= PAGES // 4) & (columns["page"] < PAGES // 2)]
    assert hot.sum(dtype=np.int64) / columns["reads"].sum(dtype=np.int64) == pytest.approx(9 / 12, rel=1e-4)
    assert [part["cpu_ns_per_op"] for part in told["slices"]] == [600.0, 600.0]
    assert told["measured"]["scaling"]["stalled_share"] == 0.4
    assert any("Assumed" in note and "40%" in note for note in told["measured"]["notes"])


def test_measured_lines_are_kept_as_they_are() -> None:
    slices = (Slice("run", 1.0, 2e9, 1e6), Slice("run", 1.0, 2e9, 3e6))
    columns, metadata = profile_of(seen(slices=slices))
    sums = [int(columns["reads"][columns["slice"] == number].sum()) for number in (0, 1)]
    assert sums == [1_000_000, 3_000_000]
    assert "stalled_share" not in json.loads(metadata)["measured"]["scaling"]


def test_declared_classes_go_where_they_are_declared() -> None:
    quarter = PAGES // 4
    declared = [
        Declaration("dependent", label="heap"),
        Declaration("sequential", pages=(FIRST, FIRST + quarter)),
    ]
    columns, _ = profile_of(seen(), declared)
    classes = {page: int(number) for page, number in zip(columns["page"], columns["class"], strict=True)}
    assert {classes[page] for page in range(quarter)} == {4}
    assert {classes[page] for page in range(quarter, PAGES)} == {0}
    stores, _ = profile_of(seen(stores_only=True))
    assert set(stores["class"]) == {3}
    assert (stores["writebacks"] == stores["reads"]).all()


def test_the_engine_replays_what_was_measured() -> None:
    loaded = engine.EngineWorkload.from_profile(*profile_of(seen()), {"page_bytes": 2 << 20, "runs": 1}, 2)
    described = loaded.describe()
    assert described["footprint_bytes"] == PAGES * 4096
    assert [info["name"] for info in described["objects"]] == ["heap"]
    assert "kv --keys 7" in described["notes"][0]
    with pytest.raises(engine.EngineError, match=r"carry\.scale is for a kernel"):
        engine.EngineWorkload.from_profile(*profile_of(seen()), {"page_bytes": 2 << 20, "scale": 20}, 2)


def test_small_areas_are_one_object_and_absent_pages_none() -> None:
    stack = Area(1, 100, 110, "stack")
    unused = Area(0, FIRST + PAGES, FIRST + 2 * PAGES, "anonymous")
    extra = np.array([key_of(1, page) for page in range(100, 110)], dtype=np.int64)
    resident = np.concatenate([seen().resident, extra])
    areas = (Area(0, FIRST, FIRST + PAGES, "heap"), unused, stack)
    _, metadata = profile_of(seen(areas=areas, resident=resident))
    objects = {info["name"]: info["bytes"] for info in json.loads(metadata)["objects"]}
    assert objects == {"heap": PAGES * 4096, "small areas": 10 * 4096}


def test_nothing_seen_is_said() -> None:
    none = np.zeros(0, dtype=np.int64)
    with pytest.raises(NothingSeen, match="no page was seen"):
        profile_of(seen(slice=none, key=none, visits=np.zeros(0)))
    with pytest.raises(NothingSeen, match="lies in an area"):
        profile_of(seen(key=np.tile(seen().resident, 2) + 10**6))


def test_looks_are_put_together_to_slices_of_equal_work() -> None:
    """Three busy windows and an idle one: the idle one is left out."""
    cpu = [1_000_000_000, 1_000_000_000, 1, 1_000_000_000]
    windows = [{"elapsed_s": 1.0, "cpu_ns": ns, "looks": 10, "watched_s": 0.1} for ns in cpu]
    columns: dict[str, Any] = {
        "window": np.array([0, 0, 1, 3], dtype=np.uint32),
        "process": np.zeros(4, dtype=np.uint16),
        "start": np.array([FIRST, FIRST + 512, FIRST, FIRST + 512], dtype=np.uint64),
        "pages": np.array([512, 512, 512, 512], dtype=np.uint32),
        "hits": np.array([2560, 51, 5120, 10], dtype=np.uint32),
    }
    told = {
        "windows": windows,
        "areas": [[0, FIRST, FIRST + 4096, "heap"]],
        "resident": [[0, FIRST, FIRST + 1024], [0, FIRST + 2048, FIRST + 4096]],
        "threads": 3,
        "looking_share": 0.05,
        "notes": [],
    }
    found = sightings(columns, told, "kv", "referenced", 0.1)
    assert [round(part.cpu_ns / 1e9) for part in found.slices] == [1, 1, 0, 1]
    assert len(found.resident) == 3072
    first = found.visits[(found.slice == 0) & (found.key == FIRST)]
    assert first == pytest.approx(np.log(2), rel=1e-6)
    assert found.threads == 1
    profiled, metadata = profile_of(found)
    assert [part["ops"] for part in json.loads(metadata)["slices"]] == [1_000_000] * 3
    assert set(profiled["page"]) <= set(range(1024))
    halves = profiled["reads"][profiled["slice"] == 0].reshape(2, 512).sum(axis=1)
    assert halves[0] / halves[1] == pytest.approx(np.log(2) / -np.log1p(-51 / 5120), rel=1e-3)


def test_a_profile_is_a_workload_until_its_content_changes(tmp_path: Any) -> None:
    file = tmp_path / "Key Value.parquet"
    write_profile(file, *profile_of(seen()))
    workload = load_workload(str(file))
    assert (workload.name, workload.threads, workload.footprint_bytes) == ("key-value", 2, PAGES * 4096)
    assert workload.sim.profile is not None
    opened(file, workload.sim.profile.digest)
    write_profile(file, *profile_of(seen(), stalled_share=0.2))
    with pytest.raises(InputError, match="is another one"):
        opened(file, workload.sim.profile.digest)


def test_profiles_of_kernels_are_replayed_by_their_workload(tmp_path: Any) -> None:
    request = {
        "kernel": "gups",
        "table_bytes": 1 << 20,
        "hot_bytes": 1 << 16,
        "updates": 1000,
        "threads": 1,
        "llc_bytes": 4096,
    }
    file = tmp_path / "gups.parquet"
    write_profile(file, *engine.record(request))
    with pytest.raises(InputError, match="recorded from our kernel gups"):
        load_workload(str(file))


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ({"threads": 0}, "no threads"),
        ({"slices": []}, "names slice 0, it has 0"),
        ({"objects": []}, "an object without a page"),
        ({"ops": 0}, "slice 1 of the profile has no work"),
        ({"format_version": 9}, "format version 9"),
    ],
)
def test_the_engine_refuses_what_does_not_fit(damage: dict[str, Any], expected: str) -> None:
    columns, metadata = profile_of(seen())
    told = json.loads(metadata)
    for key, value in damage.items():
        if key == "ops":
            told["slices"][1]["ops"] = value
        elif key == "threads":
            told["measured"]["threads"] = value
        else:
            told[key] = value
    with pytest.raises(engine.EngineError, match=expected):
        engine.EngineWorkload.from_profile(columns, json.dumps(told), {"page_bytes": 4096, "runs": 1}, 1)


def test_a_table_of_another_size_than_asked_for_is_refused() -> None:
    """Found by fuzzing: the engine counted the pages of the request in the columns of the object."""
    request = {"kernel": "gups", "table_bytes": 1 << 20, "hot_bytes": 1 << 16, "updates": 1000, "threads": 1}
    columns, metadata = engine.record({**request, "llc_bytes": 4096})
    told = json.loads(metadata)
    told["request"]["table_bytes"] = 1 << 31
    with pytest.raises(engine.EngineError, match="not those of its request"):
        engine.EngineWorkload.from_profile(columns, json.dumps(told), {"page_bytes": 4096, "runs": 1}, 1)
