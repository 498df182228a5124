"""A host's state from a made-up /proc and /sys, and what is said of two that differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tiertune.files import InputError
from tiertune.tuner.host.aspects import COUNTERS, QUANTITIES, SETTINGS
from tiertune.tuner.host.difference import differences, verdict
from tiertune.tuner.host.state import HostState, aspect_of, read_state, state_of_raw, told

FILES = {
    "proc/sys/kernel/osrelease": "6.12.95\n",
    "proc/sys/kernel/hostname": "rack1\n",
    "proc/sys/kernel/numa_balancing": "0\n",
    "proc/cmdline": "root=/dev/sda token=hunter2 transparent_hugepage=always memmap=8G!4G\n",
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: Some CPU 2.10GHz\nmicrocode\t: 0x5003\n",
    "proc/swaps": "Filename Type Size Used Priority\n/swap file 100 40 -2\n/more file 100 2 -3\n",
    "proc/loadavg": "0.25 0.10 0.05 1/200 4000\n",
    "proc/vmstat": "compact_stall 10\npgdemote_kswapd 5\nthp_collapse_alloc_failed 0\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/devices/system/cpu/cpu2/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/cpu/cpu10/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/cpu/cpu2/thermal_throttle/core_throttle_total_time_ms": "40\n",
    "sys/devices/system/cpu/cpu10/thermal_throttle/core_throttle_total_time_ms": "2\n",
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 1000 kB\nNode 0 MemFree: 900 kB\n",
    "sys/devices/system/node/node1/meminfo": "Node 1 MemTotal: 4000 kB\nNode 1 MemFree: 3900 kB\n",
}


def made(root: Path, **changes: str) -> HostState:
    """A state read from files; `changes` by the last part of a path."""
    for path, text in FILES.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(changes.get(place.name, text))
    return read_state(root)


def test_what_is_there_is_read(tmp_path: Path) -> None:
    state = made(tmp_path)
    assert state.host == "rack1"
    assert state.settings == {
        "kernel": "6.12.95",
        "kernel parameters": "transparent_hugepage=always memmap=8G!4G",
        "processor": "Some CPU 2.10GHz",
        "microcode": "0x5003",
        "THP": "madvise",
        "NUMA balancing": "0",
        "governor": "performance",
    }
    assert state.quantities == {
        "node memory (kB) of node0": 1000,
        "node memory (kB) of node1": 4000,
        "node free memory (kB) of node0": 900,
        "node free memory (kB) of node1": 3900,
        "swap used (kB)": 42,
        "load": 0.25,
    }
    assert state.counters == {
        "cores throttled (ms)": 42,
        "compact_stall": 10,
        "pgdemote_kswapd": 5,
        "thp_collapse_alloc_failed": 0,
    }


def test_processors_that_differ_are_told_apart(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "sys/devices/system/cpu/cpu10/cpufreq/scaling_governor").write_text("powersave\n")
    settings = read_state(tmp_path).settings
    assert settings["governor of cpu2"] == "performance"
    assert settings["governor of cpu10"] == "powersave"
    assert aspect_of("governor of cpu10").name == "governor"


def test_names_are_declared_once() -> None:
    names = [aspect.name for aspect in (*SETTINGS, *QUANTITIES, *COUNTERS)]
    assert len(names) == len(set(names))
    assert not [name for name in names if " of " in name], "what a star stands for comes after ' of '"


def test_equal_states_do_not_differ(tmp_path: Path) -> None:
    state = made(tmp_path)
    assert differences(state, state) == []
    assert verdict([]) == "Nothing that is recorded differs."


def test_what_decides_comes_first(tmp_path: Path) -> None:
    a = made(tmp_path / "a")
    b = made(
        tmp_path / "b",
        enabled="[always] madvise never\n",
        microcode="x",
        cpuinfo=FILES["proc/cpuinfo"] + "\n",
    )
    (tmp_path / "b/proc/cpuinfo").write_text(FILES["proc/cpuinfo"].replace("0x5003", "0x5004"))
    found = differences(a, read_state(tmp_path / "b"))
    assert [(d.name, d.weight, d.a, d.b) for d in found] == [
        ("THP", "decides", "madvise", "always"),
        ("microcode", "shifts", "0x5003", "0x5004"),
    ]
    assert "must not be compared" in verdict(found)
    assert "THP" in verdict(found)
    assert b.settings["THP"] == "always"
    assert "more than noise, because of microcode" in verdict(found[1:])


def test_quantities_have_a_tolerance_and_a_missing_node_is_a_difference(tmp_path: Path) -> None:
    a = made(tmp_path)
    near = HostState(a.settings, {**a.quantities, "node free memory (kB) of node0": 850.0}, a.counters)
    assert differences(a, near) == []
    far = HostState(a.settings, {**a.quantities, "node free memory (kB) of node0": 500.0}, a.counters)
    assert [(d.name, d.a, d.b) for d in differences(a, far)] == [
        ("node free memory (kB) of node0", "900", "500")
    ]
    without = HostState(a.settings, {k: v for k, v in a.quantities.items() if "node1" not in k}, a.counters)
    assert ("node memory (kB) of node1", "4,000", "nothing") in [
        (d.name, d.a, d.b) for d in differences(a, without)
    ]


def test_a_trial_tells_the_state_before_it_and_what_counters_grew_by(tmp_path: Path) -> None:
    before = made(tmp_path)
    after = HostState(before.settings, before.quantities, {**before.counters, "compact_stall": 13})
    document = told(before, after)
    assert document["counters"] == {"compact_stall": 3}
    assert state_of_raw(json.dumps({"host_state": document}), "x") == before
    assert state_of_raw(json.dumps({"gauges": {}}), "x") is None
    assert state_of_raw("no JSON", "x") is None


@pytest.mark.parametrize("document", [{}, {"schema": 99, "settings": {}}, {"schema": 1, "settings": []}])
def test_what_is_no_state_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"monday\.json: this is no state of a host"):
        HostState.parse(document, "monday.json")


def tiertune(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from tiertune.tuner.cli import main; main()", "host", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, env={**os.environ})


def test_the_command_shows_and_compares(tmp_path: Path) -> None:
    shown = tiertune("show", "--json", folder=tmp_path)
    assert shown.returncode == 0, shown.stderr
    state = json.loads(shown.stdout)
    assert state["settings"]["kernel"] == os.uname().release
    state["settings"]["kernel"] = "2.6.9"
    (tmp_path / "old.json").write_text(json.dumps(state))
    compared = tiertune("diff", "old.json", "here", folder=tmp_path)
    assert compared.returncode == 0, compared.stderr
    assert compared.stdout.startswith("Results of the two must not be compared: they differ in kernel")
    assert "2.6.9" in compared.stdout
    refused = tiertune("diff", "old.jsn", "here", folder=tmp_path)
    assert refused.returncode == 2
    assert "old.jsn: neither a file nor a live trial" in refused.stderr
    for name, content in (("zero", b""), ("bytes", b"\xff\x00"), ("list", b"[]")):
        (tmp_path / name).write_bytes(content)
        refused = tiertune("diff", "here", name, folder=tmp_path)
        assert refused.returncode == 2
        assert f"{name}: this is no state of a host as" in refused.stderr


def test_what_another_version_recorded_is_a_difference_and_no_bug(tmp_path: Path) -> None:
    state = made(tmp_path)
    document = state.document()
    document["settings"]["cluster of caches"] = "4"
    document["quantities"]["node dirty (kB) of node0"] = 7
    found = differences(state, HostState.parse(document, "later.json"))
    assert {(one.name, one.weight, one.b) for one in found} == {
        ("cluster of caches", "notes", "4"),
        ("node dirty (kB) of node0", "notes", "7"),
    }
    assert "does not record it" in found[0].why


@pytest.mark.parametrize(
    ("part", "value", "sentence"),
    [
        ("settings", 3, "edited.json: settings: x: 3 is not a text"),
        ("quantities", "lots", 'edited.json: quantities: x: "lots" is not a number'),
        ("counters", 1.5, "edited.json: counters: x: 1.5 is not a whole number"),
        ("counters", True, "edited.json: counters: x: true is not a whole number"),
    ],
)
def test_a_state_with_a_value_of_another_kind_is_refused(
    tmp_path: Path, part: str, value: object, sentence: str
) -> None:
    document = made(tmp_path).document()
    document[part]["x"] = value
    with pytest.raises(InputError) as raised:
        HostState.parse(document, "edited.json")
    assert str(raised.value) == sentence
