"""HeMem's macros: names, units, and what the public code means by its rate."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tiertune.adapters.base import AdapterError, Config
from tiertune.adapters.registry import adapter_for

HEMEM = adapter_for("hemem")

TEN = {
    "sampling_period": "SAMPLE_PERIOD",
    "write_sampling_period": "WRITE_SAMPLE_PERIOD",
    "read_hot_threshold": "HOT_READ_THRESHOLD",
    "write_hot_threshold": "HOT_WRITE_THRESHOLD",
    "cooling_threshold": "PEBS_COOLING_THRESHOLD",
    "cooling_pages": "COOLING_PAGES",
    "migration_period_ms": "PEBS_KSWAPD_INTERVAL",
    "max_migration_rate_gib": "PEBS_KSWAPD_MIGRATE_RATE",
    "hot_ring_reqs_threshold": "HOT_RING_REQS_THRESHOLD",
    "cold_ring_reqs_threshold": "COLD_RING_REQS_THRESHOLD",
}


def test_the_ten_knobs_have_their_public_names() -> None:
    native = {knob: HEMEM.native_knob(knob) for knob in TEN}
    assert {knob: n.name for knob, n in native.items() if n is not None} == TEN
    tunable = {knob.name for knob in HEMEM.info.knobs if knob.tunable}
    assert tunable == set(TEN)


def test_periods_become_microseconds_and_rates_bytes() -> None:
    native = HEMEM.to_native(
        {"migration_period_ms": 12.5, "max_migration_rate_gib": 2.0, "rate_mode": "per_tick"}
    )
    assert native["PEBS_KSWAPD_INTERVAL"] == 12_500
    assert native["PEBS_KSWAPD_MIGRATE_RATE"] == 2 << 30


def test_a_rate_per_second_becomes_bytes_of_one_tick_as_the_public_loop_counts_them() -> None:
    config: Config = {"migration_period_ms": 100.0, "max_migration_rate_gib": 2.0, "rate_mode": "per_second"}
    assert HEMEM.to_native(config)["PEBS_KSWAPD_MIGRATE_RATE"] == round((2 << 30) / 10)


def test_a_spinning_thread_has_no_tick() -> None:
    config: Config = {"migration_period_ms": 0.0, "max_migration_rate_gib": 2.0, "rate_mode": "per_second"}
    native = HEMEM.to_native(config)
    assert native["PEBS_KSWAPD_INTERVAL"] == 0
    assert native["PEBS_KSWAPD_MIGRATE_RATE"] == 2 << 30
    assert HEMEM.from_native(native)["max_migration_rate_gib"] == 2.0


def test_a_public_header_is_read_and_foreign_macros_are_left_alone() -> None:
    header = """\
#ifndef HEMEM_PEBS_H
#define LOG_STREAM (stdout)
#define HOT_READ_THRESHOLD        (3)
//#define HOT_WRITE_THRESHOLD     (9)
#define SAMPLE_PERIOD 10007
#define COOL_IN_PLACE
"""
    assert HEMEM.from_block(header) == {
        "read_hot_threshold": 3,
        "sampling_period": 10007,
        "cool_in_place": True,
    }


def test_a_macro_that_is_no_plain_number_is_refused_in_words() -> None:
    with pytest.raises(AdapterError, match=r"PEBS_KSWAPD_MIGRATE_RATE.*plain whole number"):
        HEMEM.from_block("#define PEBS_KSWAPD_MIGRATE_RATE  (10UL * 1024UL * 1024UL * 1024UL)\n")


def test_an_unknown_macro_is_refused_with_the_nearest() -> None:
    with pytest.raises(AdapterError, match="SAMPLE_PERIOD"):
        HEMEM.from_native({"SAMPLE_PERIODS": 5})


def test_the_block_is_c_that_a_compiler_takes(tmp_path: Path) -> None:
    block = HEMEM.native_block({"migration_period_ms": 12.5, "cool_in_place": False})
    names = re.findall(r"^#define (\w+) +\(", block, flags=re.MULTILINE)
    uses = "\n".join(f"unsigned long use_{name} = {name};" for name in names)
    source = tmp_path / "block.c"
    source.write_text(f"{block}\n{uses}\n#ifdef COOL_IN_PLACE\n#error it was switched off\n#endif\n")
    compiler = shutil.which("cc")
    assert compiler is not None, "the engine cannot be built without a C compiler either"
    done = subprocess.run(
        [compiler, "-fsyntax-only", "-Wall", "-Werror", str(source)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_public_headers_rate_is_bytes_of_one_tick() -> None:
    header = "#define PEBS_KSWAPD_INTERVAL (10000)\n#define PEBS_KSWAPD_MIGRATE_RATE (1073741824UL)\n"
    assert HEMEM.from_block(header) == {
        "migration_period_ms": 10.0,
        "max_migration_rate_gib": 1.0,
        "rate_mode": "per_tick",
    }


def test_a_block_without_its_remarks_moves_as_many_bytes_a_tick() -> None:
    config: Config = {"migration_period_ms": 100.0, "max_migration_rate_gib": 2.0, "rate_mode": "per_second"}
    block = HEMEM.native_block(config)
    stripped = "\n".join(line for line in block.splitlines() if not line.startswith("//"))
    restored = HEMEM.from_block(stripped)
    assert restored["rate_mode"] == "per_tick"
    rate = "PEBS_KSWAPD_MIGRATE_RATE"
    assert HEMEM.to_native(restored)[rate] == HEMEM.to_native(config)[rate]
