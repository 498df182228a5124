"""Memtis's files: names, relations between them, and what its run script writes."""

from __future__ import annotations

import pytest

from tiertune.adapters.base import AdapterError
from tiertune.adapters.memtis import FILES, SYSFS
from tiertune.adapters.registry import adapter_for

MEMTIS = adapter_for("memtis")


def test_all_nineteen_files_of_its_folder_are_written() -> None:
    block = MEMTIS.native_block({})
    files = [name for name, file in FILES.items() if file.folder == SYSFS]
    assert len(files) == 19
    for name in files:
        assert f" > {SYSFS}/{name}" in block


def test_the_cooling_period_is_a_multiple_of_the_adaptation_period() -> None:
    native = MEMTIS.to_native({"htmm_adaptation_period": 50_000, "cooling_ratio": 8})
    assert (native["htmm_adaptation_period"], native["htmm_cooling_period"]) == (50_000, 400_000)
    assert "cooling_ratio" not in native
    assert MEMTIS.from_native({"htmm_cooling_period": 1_000_000}) == {"cooling_ratio": 10}
    with pytest.raises(AdapterError, match=r"no multiple of htmm_adaptation_period = 100000.* 1900000"):
        MEMTIS.from_native({"htmm_cooling_period": 1_950_000})


def test_the_promotion_watermark_lies_above_the_demotion_watermark() -> None:
    native = MEMTIS.to_native({"demo_wm_pct": 4.0, "promo_wm_gap_pct": 2.5})
    assert (native["demo_wm_pct"], native["promo_wm_pct"]) == (4.0, 6.5)
    assert MEMTIS.from_native(native) == MEMTIS.resolve({"demo_wm_pct": 4.0, "promo_wm_gap_pct": 2.5})


def test_lines_of_a_run_script_are_read_and_others_left_alone() -> None:
    text = f"""
    echo 199 > {SYSFS}/htmm_sample_period
    echo 2 > {SYSFS}/htmm_thres_split
    echo disabled > {SYSFS}/htmm_cxl_mode
    echo 100000 > {SYSFS}/htmm_adaptation_period
    echo 2000000 > {SYSFS}/htmm_cooling_period
    echo always > /sys/kernel/mm/transparent_hugepage/enabled
    """
    assert MEMTIS.from_block(text) == {
        "htmm_sample_period": 199,
        "htmm_thres_split": True,
        "htmm_cxl_mode": False,
        "htmm_adaptation_period": 100_000,
        "cooling_ratio": 20,
    }


def test_its_own_script_writes_files_through_tee() -> None:
    text = f"""
    echo 199 | tee {SYSFS}/htmm_sample_period
    echo 7 | sudo tee {SYSFS}/htmm_gamma > /dev/null
\techo "enabled" | tee {SYSFS}/htmm_cxl_mode
    """
    assert MEMTIS.from_block(text) == {"htmm_sample_period": 199, "htmm_gamma": 7, "htmm_cxl_mode": True}


def test_of_two_branches_of_a_script_nobody_knows_which_ran() -> None:
    text = f"echo 1 | tee {SYSFS}/htmm_nowarm\nelse\necho 0 | tee {SYSFS}/htmm_nowarm\n"
    with pytest.raises(AdapterError, match="htmm_nowarm is written twice, with different values"):
        MEMTIS.from_block(text)


def test_a_value_that_the_file_does_not_take_is_named() -> None:
    with pytest.raises(AdapterError, match="'maybe' is no value for htmm_skip_cooling"):
        MEMTIS.from_block(f"echo maybe > {SYSFS}/htmm_skip_cooling")


def test_constants_of_the_kernel_have_no_file() -> None:
    assert MEMTIS.native_knob("warm_fill_pct") is None
    assert "# tiertune: warm_fill_pct = 75.0" in MEMTIS.native_block({})
