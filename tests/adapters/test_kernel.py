"""Kernel systems: sysctls, debugfs files, and what is in their code only."""

from __future__ import annotations

import pytest

from tiertune.adapters.base import AdapterError
from tiertune.adapters.registry import adapter_for

TPP, NBT, AUTONUMA = adapter_for("tpp"), adapter_for("nbt"), adapter_for("autonuma")
NOMAD = adapter_for("nomad")


def test_knobs_go_where_the_kernel_has_them() -> None:
    assert (
        TPP.native_block({"demote_scale_factor": 1000, "scan_size_mb": 512})
        == """\
# TPP, a patched Linux: as root, with debugfs mounted.
sysctl -w kernel.numa_balancing=3
sysctl -w vm.demote_scale_factor=1000
echo 1000 > /sys/kernel/debug/sched/numa_balancing/scan_period_min_ms
echo 60000 > /sys/kernel/debug/sched/numa_balancing/scan_period_max_ms
echo 512 > /sys/kernel/debug/sched/numa_balancing/scan_size_mb
echo 1000 > /sys/kernel/debug/sched/numa_balancing/scan_delay_ms
echo true > /sys/kernel/mm/numa/demotion_enabled
# In the kernel's code, not settable; as tiertune ran it:
# tiertune: faults_to_promote = 2
# tiertune: footprint_scale = 1.0
# tiertune: kswapd_retry_ms = 10000
# tiertune: maps_inactive = true
# tiertune: poison_demoted = true
# tiertune: promote_active_only = true
"""
    )


def test_constants_of_a_module_are_macros_of_its_source() -> None:
    block = NOMAD.native_block({"pf_lookback_dist": 40, "work_delay_ms": 5})
    lines = [line for line in block.splitlines() if line.startswith("#define")]
    assert lines == [
        "#define PG_FAULT_LOOKBACK_DIST 40",
        "#define PROMOTE_QUEUE_LEN 512",
        "#define WORK_DELAY (msecs_to_jiffies(5))",
    ]
    read = NOMAD.from_block(block)
    assert (read["pf_lookback_dist"], read["work_delay_ms"], read["max_retry_passes"]) == (40, 5, 10)
    assert NOMAD.from_block("#define PG_FAULT_TASK_CAPACITY 128\n") == {}


def test_the_longest_period_is_the_ratio_times_the_shortest() -> None:
    native = NBT.to_native({"scan_period_min_ms": 250, "scan_period_ratio": 8})
    assert native["/sys/kernel/debug/sched/numa_balancing/scan_period_max_ms"] == 2000
    assert NBT.from_native(native)["scan_period_ratio"] == 8


def test_settings_of_a_running_kernel_are_read_and_foreign_ones_left_alone() -> None:
    block = """\
# from a machine
sysctl -w kernel.numa_balancing=2
sysctl -w vm.swappiness=60
sysctl -w kernel.numa_balancing_promote_rate_limit_MBps=2048
echo 5000 > /sys/kernel/debug/sched/numa_balancing/scan_period_max_ms
echo 1 > /sys/kernel/mm/ksm/run
"""
    assert NBT.from_block(block) == {"promote_rate_limit_mbps": 2048, "scan_period_ratio": 5}


@pytest.mark.parametrize(
    ("said", "lists"),
    [
        ("0x0007", "mglru"),
        ("0x0003", "mglru"),
        ("1", "mglru"),
        ("y", "mglru"),
        ("0x0000", "classic"),
        ("0x0006", "classic"),
        ("0", "classic"),
        ("n", "classic"),
    ],
)
def test_generations_are_on_if_the_first_bit_is(said: str, lists: str) -> None:
    path = "/sys/kernel/mm/lru_gen/enabled"
    assert NBT.from_block(f"echo {said} > {path}\n") == {"lru_gen": lists}
    word = {"mglru": "0x0007", "classic": "0x0000"}[lists]
    assert f"echo {word} > {path}\n" in NBT.native_block({"lru_gen": lists})
    with pytest.raises(AdapterError, match="one of 0x0000, 0x0007, not 'most'"):
        NBT.from_block(f"echo most > {path}\n")


@pytest.mark.parametrize(("variant", "mode"), [("autonuma", 1), ("tiering-0.8", 2)])
def test_the_variant_is_the_mode(variant: str, mode: int) -> None:
    assert AUTONUMA.to_native({"variant": variant})["kernel.numa_balancing"] == mode
    assert AUTONUMA.from_native({"kernel.numa_balancing": mode}) == {"variant": variant}


@pytest.mark.parametrize(
    "line",
    [
        "sysctl -w kernel.numa_balancing=2",
        "sudo sysctl kernel.numa_balancing=2  # tiering",
        "echo 2 > /proc/sys/kernel/numa_balancing",
        "echo '2' | sudo tee /proc/sys/kernel/numa_balancing > /dev/null",
    ],
)
def test_a_sysctl_is_read_however_a_script_writes_it(line: str) -> None:
    """Left alone, the default would run in its place."""
    assert TPP.from_block(line) == {"numa_balancing_mode": 2}


@pytest.mark.parametrize(("said", "on"), [("1", True), ("0", False), ("true", True), ("false", False)])
def test_demotion_is_switched_by_words_and_numbers(said: str, on: bool) -> None:
    assert TPP.from_block(f"echo {said} > /sys/kernel/mm/numa/demotion_enabled") == {"demotion_enabled": on}


@pytest.mark.parametrize(
    ("longest", "near"),
    [(2500, 2000), (900, 1000), (2_000_000, 1_000_000)],
    ids=["between", "below", "above"],
)
def test_a_longest_period_that_is_no_ratio_is_refused(longest: int, near: int) -> None:
    """Rounded, it would be another setting than the one in the file."""
    with pytest.raises(AdapterError, match=rf"scan_period_max_ms = {longest} .* valid value is {near}$"):
        NBT.from_block(f"echo {longest} > /sys/kernel/debug/sched/numa_balancing/scan_period_max_ms")


def test_mistakes_are_refused_in_words() -> None:
    with pytest.raises(AdapterError, match="one of 1, 2, not 7"):
        AUTONUMA.from_native({"kernel.numa_balancing": 7})
    with pytest.raises(AdapterError, match="neither"):
        NBT.from_block("numactl --hardware\n")
    with pytest.raises(AdapterError, match=r"scan_period_max_ms takes a whole number, not 'long'"):
        NBT.from_block("echo long > /sys/kernel/debug/sched/numa_balancing/scan_period_max_ms\n")


@pytest.mark.parametrize(
    ("system", "mode"), [("colloid+nbt", 6), ("colloid+tpp", 7), ("alto+colloid+tpp", 7), ("alto+tpp", 3)]
)
def test_the_mode_switches_colloid_on(system: str, mode: int) -> None:
    """Colloid's kernel does without it unless 4 is in kernel.numa_balancing."""
    adapter = adapter_for(system)
    block = adapter.native_block({})
    assert f"\nsysctl -w kernel.numa_balancing={mode}\n" in block
    assert adapter.resolve(adapter.from_block(block)) == adapter.resolve({})
    native = adapter.to_native({})
    assert native.get("kernel.numa_balancing", mode) == mode
    assert adapter.resolve(adapter.from_native(native)) == adapter.resolve({})
    before = block.replace(f"numa_balancing={mode}", f"numa_balancing={mode & 3}")
    assert adapter.from_block(before) == adapter.from_block(block)
    assert (
        "numa_balancing_mode" not in adapter.resolve({})
        or adapter.from_block(block)["numa_balancing_mode"] == 3
    )
