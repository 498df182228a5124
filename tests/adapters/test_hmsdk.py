"""HMSDK's files: what the generator writes, and what DAMON's sysfs files amount to when read alone."""

from __future__ import annotations

import pytest

from tiertune.adapters.base import AdapterError, Config
from tiertune.adapters.registry import adapter_for

HMSDK = adapter_for("hmsdk")
ADMIN = "/sys/kernel/mm/damon/admin/kdamonds"
SCHEME = "contexts/0/schemes/0"


def test_defaults_are_what_the_generator_writes() -> None:
    native = HMSDK.to_native({})
    assert native["*/contexts/0/monitoring_attrs/intervals/sample_us"] == 100_000
    assert native["*/contexts/0/monitoring_attrs/intervals/aggr_us"] == 2_000_000
    assert native["*/contexts/0/monitoring_attrs/nr_regions/max"] == 10_000
    assert native[f"1/{SCHEME}/access_pattern/nr_accesses/min"] == 1
    assert native[f"1/{SCHEME}/access_pattern/nr_accesses/max"] == 20
    assert native[f"1/{SCHEME}/access_pattern/age/max"] == 2**64 - 1
    assert native[f"0/{SCHEME}/access_pattern/nr_accesses/max"] == 0
    assert native[f"0/{SCHEME}/access_pattern/age/min"] == 15
    assert native[f"0/{SCHEME}/quotas/bytes"] == 50 << 30
    assert native[f"*/{SCHEME}/quotas/reset_interval_ms"] == 20_000


def test_percent_and_seconds_are_cut_off_and_follow_the_intervals_only_when_derived_again() -> None:
    config: Config = {"sample_interval_us": 25_000, "aggr_ratio": 12}
    age, rate = f"0/{SCHEME}/access_pattern/age/min", f"1/{SCHEME}/access_pattern/nr_accesses/min"
    native = HMSDK.to_native(config)
    assert (native[age], native[rate]) == (100, 0)
    native = HMSDK.to_native(config | {"thresholds": "kernel"})
    assert (native[age], native[rate]) == (15, 1)


def test_files_without_remarks_are_read_as_what_they_amount_to() -> None:
    script = f"""\
echo 50000 > {ADMIN}/1/contexts/0/monitoring_attrs/intervals/sample_us
echo 500000 > {ADMIN}/1/contexts/0/monitoring_attrs/intervals/aggr_us
echo 3 > {ADMIN}/1/{SCHEME}/access_pattern/nr_accesses/min
echo 10 > {ADMIN}/0/{SCHEME}/access_pattern/age/min
echo young > {ADMIN}/0/{SCHEME}/filters/1/type
echo on > {ADMIN}/0/state
"""
    assert HMSDK.from_block(script) == {
        "sample_interval_us": 50_000,
        "aggr_ratio": 10,
        "prom_accesses_min_percent": pytest.approx(30.0),
        "dem_age_min_s": pytest.approx(5.0),
        "young_filter": True,
    }


def test_both_kdamonds_have_the_same_intervals() -> None:
    file = "contexts/0/monitoring_attrs/intervals/sample_us"
    with pytest.raises(AdapterError, match="50000 for one kdamond and 60000 for the other"):
        HMSDK.from_block(f"echo 50000 > {ADMIN}/0/{file}\necho 60000 > {ADMIN}/1/{file}\n")


def test_an_unknown_file_is_refused_with_the_nearest() -> None:
    with pytest.raises(AdapterError, match="quotas/ms"):
        HMSDK.from_native({f"1/{SCHEME}/quotas/mss": 5})


def test_a_file_takes_whole_numbers() -> None:
    with pytest.raises(AdapterError, match="whole number, not 'x'"):
        HMSDK.from_block(f"echo x > {ADMIN}/1/{SCHEME}/quotas/ms\n")


def test_watermarks_are_read_as_shares_of_each_other() -> None:
    marks = {"metric": "free_mem_rate", "interval_us": 20_000, "high": 200, "mid": 150, "low": 30}
    lines = [f"echo {value} > {ADMIN}/0/{SCHEME}/watermarks/{name}" for name, value in marks.items()]
    config = HMSDK.from_block("\n".join(lines))
    assert config == {
        "wmark_metric": "free_mem_rate",
        "wmark_interval_ms": 20,
        "wmark_high_permil": 200,
        "wmark_mid_ratio": 0.75,
        "wmark_low_ratio": 0.2,
    }
    written = HMSDK.native_block(config)
    assert all(line in written.splitlines() for line in lines)
    with pytest.raises(AdapterError, match=r"watermarks/low says nothing without .*watermarks/mid"):
        HMSDK.from_block(lines[-1])
