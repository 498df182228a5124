"""Profiles are recorded once, kept as Parquet that any tool opens, and recorded again when damaged."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.configs.corpus import ROOT
from tiertune import engine
from tiertune.machines.definition import Machine, load_machine
from tiertune.memory_limit import TooLittleMemory
from tiertune.units import rounded_size
from tiertune.workloads import profile
from tiertune.workloads.definition import BcRecord, Workload, load_workload
from tiertune.workloads.kernels import carried
from tiertune.workloads.profile import (
    profile_for,
    profile_path,
    record_request,
    recording_bytes,
)
from tiertune.workloads.profile_file import UnreadableProfile, read_profile, write_profile

GOOD = ROOT / "tests/configs/good/workload"


@pytest.fixture(scope="module")
def machine() -> Machine:
    return load_machine("skx-numa")


GOOD_KERNELS = sorted(path.stem for path in GOOD.glob("full-*.yaml") if path.stem != "full-streams")


@pytest.fixture(params=["minimal", *GOOD_KERNELS])
def workload(request: pytest.FixtureRequest) -> Workload:
    return load_workload(str(GOOD / f"{request.param}.yaml"))


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def runtime(loaded: engine.EngineWorkload, machine: Machine) -> float:
    request = {
        "machine": machine.document(),
        "system": "notier",
        "page_bytes": 2 * 2**20,
        "fast_bytes": 2 * 2**20,
        "seed": 1,
    }
    return float(engine.run(loaded, request)["metrics"]["runtime_s"])


def test_recorded_once_and_the_same_when_read_back(
    workload: Workload, machine: Machine, tmp_path: Path
) -> None:
    said: list[str] = []
    first = profile_for(workload, machine, None, tmp_path, said.append)
    assert [line.split(" ", 1)[0] for line in said] == ["recording", "recorded"]
    stored = only_file(tmp_path)
    before = stored.read_bytes()
    again = profile_for(workload, machine, None, tmp_path, said.append)
    assert len(said) == 2
    assert stored.read_bytes() == before
    assert again.describe() == first.describe()
    assert runtime(again, machine) == runtime(first, machine) > 0


@pytest.mark.parametrize("size", ["as given", "larger"])
def test_a_recording_takes_no_more_memory_than_is_foretold(
    workload: Workload, machine: Machine, size: str
) -> None:
    record = workload.kernel_request()
    if size == "larger":
        # So that what grows with the objects is most of it.
        document = workload.model_dump(mode="json", exclude={"host"})
        for name in carried(str(record["kernel"]))[:1]:
            # The volume of a grid grows with the cube of its edge.
            factor = 2 if record["kernel"] in ("bwaves", "npb_lu", "npb_sp", "npb_ft") else 8
            document["sim"]["record"][name] = record[name] + 4 if name == "scale" else factor * record[name]
        document["sim"]["carry"] = {}
        workload = Workload.model_validate(document)
    foretold = recording_bytes(workload, machine, workload.threads)
    script = (
        "import json, resource, sys; from tiertune import engine; import numpy;"
        "most = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10;"
        "engine.profile_version(); before = most();"
        "engine.record(json.loads(sys.argv[1])); print(most() - before)"
    )
    request = json.dumps(record_request(workload, machine, workload.threads))
    took = int(
        subprocess.run([sys.executable, "-c", script, request], capture_output=True, check=True).stdout
    )
    assert took <= foretold


def test_a_recording_that_memory_cannot_hold_is_refused_before_it_begins(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = load_workload("bc-kron")
    needed = recording_bytes(graph, machine, graph.threads)
    said: list[str] = []
    monkeypatch.setattr(profile, "free_bytes", lambda: needed - 1)
    with pytest.raises(TooLittleMemory) as refused:
        profile_for(graph, machine, None, tmp_path, said.append)
    assert not said
    assert not list(tmp_path.iterdir())
    need, free = (rounded_size(size) for size in (needed, needed - 1))
    assert str(refused.value) == (
        f"recording bc-kron: about {need} of memory are needed, {free} are free; write a smaller"
        " sim.record.scale (it is 18), sim.carry.scale keeps what it stands for, or end what else"
        " runs; `tiertune doctor` says how much is free"
    )
    monkeypatch.setattr(profile, "free_bytes", lambda: needed)
    profile_for(graph, machine, None, tmp_path, said.append)
    # What is recorded already takes no such memory.
    monkeypatch.setattr(profile, "free_bytes", lambda: 0)
    profile_for(graph, machine, None, tmp_path, said.append)
    assert [line.split(" ", 1)[0] for line in said] == ["recording", "recorded"]


def test_stored_file_is_ordinary_parquet(workload: Workload, machine: Machine, tmp_path: Path) -> None:
    profile_for(workload, machine, None, tmp_path, lambda _: None)
    table = pq.read_table(only_file(tmp_path))
    assert table.num_rows > 0
    assert {"slice", "object", "class", "page", "reads", "stores"} <= set(table.column_names)
    metadata = json.loads(table.schema.metadata[b"tiertune.metadata"])
    assert metadata["request"] == record_request(workload, machine, workload.threads)


def test_streams_need_no_recording(machine: Machine, tmp_path: Path) -> None:
    streams = load_workload(str(GOOD / "full-streams.yaml"))
    said: list[str] = []
    loaded = profile_for(streams, machine, None, tmp_path / "profiles", said.append)
    assert loaded.footprint_bytes == streams.footprint_bytes == 3 * 512 * 2**20
    assert said == []
    assert not (tmp_path / "profiles").exists()


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other"])
def test_damaged_file_is_recorded_again_with_one_warning(
    damage: str, machine: Machine, tmp_path: Path
) -> None:
    workload = load_workload(str(GOOD / "minimal.yaml"))
    whole = profile_for(workload, machine, None, tmp_path, lambda _: None).describe()
    stored = only_file(tmp_path)
    content = stored.read_bytes()
    damaged = {
        "cut": content[: len(content) // 2],
        "flipped": content[:1000] + bytes([content[1000] ^ 0xFF]) + content[1001:],
        "empty": b"",
        "other": b"PAR1 is not all that it takes",
    }
    stored.write_bytes(damaged[damage])
    said: list[str] = []
    assert profile_for(workload, machine, None, tmp_path, said.append).describe() == whole
    assert [line.split(" ", 1)[0] for line in said] == ["warning:", "recording", "recorded"]
    assert str(stored) in said[0]
    said.clear()
    profile_for(workload, machine, None, tmp_path, said.append)
    assert said == []


def test_parquet_of_somebody_else_is_no_profile(tmp_path: Path) -> None:
    columns = {"page": np.arange(10, dtype=np.uint32)}
    write_profile(tmp_path / "a.parquet", columns, "{}")
    table = pq.read_table(tmp_path / "a.parquet").replace_schema_metadata(None)
    pq.write_table(table, tmp_path / "b.parquet")
    with pytest.raises(UnreadableProfile, match=r"no tiertune\.metadata"):
        read_profile(tmp_path / "b.parquet")
    changed = table.replace_schema_metadata({b"tiertune.metadata": b"{}", b"tiertune.sha256": b"0"})
    pq.write_table(changed, tmp_path / "c.parquet")
    with pytest.raises(UnreadableProfile, match="checksum"):
        read_profile(tmp_path / "c.parquet")


def test_columns_and_types_survive(tmp_path: Path) -> None:
    columns: dict[str, np.ndarray[Any, Any]] = {
        "slice": np.array([0, 1, 2**32 - 1], dtype=np.uint32),
        "class": np.array([0, 4, 255], dtype=np.uint8),
        "object": np.array([0, 1, 65535], dtype=np.uint16),
    }
    write_profile(tmp_path / "a.parquet", columns, '{"a": "ä"}')
    back, metadata = read_profile(tmp_path / "a.parquet")
    assert metadata == '{"a": "ä"}'
    for name, values in columns.items():
        assert back[name].dtype == values.dtype
        assert (back[name] == values).all()


def test_name_follows_what_is_asked_for(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = load_workload(str(GOOD / "full-gups.yaml"))
    request = record_request(workload, machine, 8)
    path = profile_path(Path("p"), workload.name, request)
    assert path == profile_path(Path("p"), workload.name, dict(reversed(request.items())))
    assert path != profile_path(Path("p"), workload.name, {**request, "seed": 8})
    assert path != profile_path(Path("p"), workload.name, record_request(workload, machine, 4))
    for part in ("version", "profile_version"):
        with monkeypatch.context() as patched:
            patched.setattr(profile, part, lambda: "another")
            assert path != profile_path(Path("p"), workload.name, request)
    assert path == profile_path(Path("p"), workload.name, request)


def test_profile_version_is_what_the_profile_says(machine: Machine) -> None:
    _, metadata = engine.record(record_request(load_workload(str(GOOD / "minimal.yaml")), machine, 4))
    written = json.loads(metadata)
    versions = f"{written['format_version']}.{written['recorder_version']}."
    assert engine.profile_version().startswith(versions)
    assert re.fullmatch(r"[0-9a-f]{16}", engine.profile_version().removeprefix(versions)), "of the sources"


def test_cache_is_scaled_with_the_footprint(machine: Machine) -> None:
    gups = load_workload(str(GOOD / "full-gups.yaml"))
    assert record_request(gups, machine, 8)["llc_bytes"] == 8 * 2**20 * 16 // 1024
    minimal = load_workload(str(GOOD / "minimal.yaml"))
    assert record_request(minimal, machine, 4)["llc_bytes"] == machine.llc_bytes


def test_cache_of_a_graph_is_scaled_with_its_edges(machine: Machine, tmp_path: Path) -> None:
    """Bytes per vertex grow with a Kronecker graph, because fewer of its edges are duplicates."""
    text = (GOOD / "full-betweenness.yaml").read_text(encoding="utf-8")
    (tmp_path / "kron.yaml").write_text(text.replace("graph: uniform", "graph: kron"), encoding="utf-8")
    betweenness = load_workload(str(tmp_path / "kron.yaml"))
    request = record_request(betweenness, machine, 4)
    columns, metadata = engine.record(request)
    recorded = sum(entry["bytes"] for entry in json.loads(metadata)["objects"])
    carry = betweenness.carry_request(2 * 2**20)
    replayed = engine.EngineWorkload.from_profile(columns, metadata, carry, 4)
    # The offsets are there before the run only.
    objects = [entry for entry in replayed.describe()["objects"] if entry["name"] != "offsets"]
    carried = sum(entry["bytes"] for entry in objects)
    scaled = machine.llc_bytes * recorded / carried
    assert request["llc_bytes"] == pytest.approx(scaled, rel=0.02)
    record_, scale = betweenness.sim.record, betweenness.sim.carry.scale
    assert isinstance(record_, BcRecord)
    assert scale is not None
    assert request["llc_bytes"] < 0.95 * machine.llc_bytes * 2.0 ** (record_.scale - scale)


def test_footprint_is_known_before_anything_is_recorded(
    workload: Workload, machine: Machine, tmp_path: Path
) -> None:
    replayed = profile_for(workload, machine, None, tmp_path, lambda _: None).footprint_bytes
    assert workload.footprint_bytes == pytest.approx(replayed, rel=0.02)


def test_failed_write_leaves_nothing_and_the_run_goes_on(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full_disk)
    said: list[str] = []
    workload = load_workload(str(GOOD / "minimal.yaml"))
    loaded = profile_for(workload, machine, None, tmp_path, said.append)
    assert loaded.footprint_bytes > 0
    assert "No space left on device" in said[-1]
    assert list(tmp_path.iterdir()) == []


def test_windows_are_part_of_a_recording_and_predict_the_same_run(machine: Machine, tmp_path: Path) -> None:
    whole = load_workload("gups@smoke")
    document = whole.model_dump(mode="json")
    assert "window_share" not in document["sim"], "what is stored of older campaigns stays as it is"
    document["sim"]["window_share"] = 0.1
    some = Workload.model_validate(document)
    assert some.model_dump(mode="json")["sim"]["window_share"] == 0.1
    requests = [record_request(one, machine, 4) for one in (whole, some)]
    assert requests[1] == {**requests[0], "window_share": 0.1}
    paths = {profile_path(tmp_path, "gups", request) for request in requests}
    assert len(paths) == 2
    runtimes = [
        runtime(profile_for(one, machine, 4, tmp_path, lambda _: None), machine) for one in (whole, some)
    ]
    assert runtimes[1] == pytest.approx(runtimes[0], rel=0.02)
