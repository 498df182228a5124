"""Native blocks given with --config: what sets nothing, or almost something, is no default in disguise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.small import tiertune
from tiertune import engine
from tiertune.adapters.registry import ADAPTERS, adapter_for
from tiertune.tuner.cli.configs import read_config

BALANCING = "/sys/kernel/debug/sched/numa_balancing"


def refusal(system: str, path: Path) -> str:
    refused = tiertune("show", system, "--config", path)
    assert refused.exit_code == 2, refused.stderr
    assert refused.stdout == ""
    return refused.stderr.strip()


@pytest.mark.parametrize(
    ("system", "of"),
    [("memtis", "hemem"), ("hemem", "memtis"), ("hmsdk", "pact"), ("colloid+hemem", "hemem")],
)
def test_a_block_of_another_system_is_refused_with_its_name(system: str, of: str, tmp_path: Path) -> None:
    path = tmp_path / "block"
    text = adapter_for(of).native_block({})
    path.write_text("\n".join(line for line in text.splitlines() if "tiertune:" not in line))
    assert refusal(system, path) == f"tiertune: {path}: holds no setting of {system}; is it of {of}?"


@pytest.mark.parametrize("text", ["a", "# nothing but a remark\n"])
def test_a_file_without_settings_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "block"
    path.write_text(text)
    said = f"{path}: holds no setting of memtis; `tiertune show memtis --native` prints all"
    assert refusal("memtis", path) == f"tiertune: {said}"


@pytest.mark.parametrize(
    ("system", "line", "near"),
    [
        ("hemem", "#define HOT_READ_THRESHLD 10", "HOT_READ_THRESHOLD"),
        ("hemem", "#define hot_read_threshold 10", "HOT_READ_THRESHOLD"),
        ("hemem", "#undef COOL_INPLACE", "COOL_IN_PLACE"),
        ("memtis", "echo 3 > /sys/kernel/mm/htmm/htmm_tres_hot", "htmm_thres_hot"),
        ("nbt", "sysctl -w vm.watermark_scale_factr=99", "watermark_scale_factor"),
        ("nbt", f"echo 3 > {BALANCING}/scan_sze_mb", "scan_size_mb"),
        ("nomad", "#define PROMOTE_QUEUE_LENG 4", "PROMOTE_QUEUE_LEN"),
    ],
)
def test_a_misspelt_setting_is_refused_with_the_right_one(
    system: str, line: str, near: str, tmp_path: Path
) -> None:
    path = tmp_path / "block"
    path.write_text(f"{adapter_for(system).native_block({})}{line}\n")
    assert refusal(system, path).endswith(f"' is no setting; did you mean '{near}'?")


@pytest.mark.parametrize(
    ("system", "line"),
    [
        ("hemem", "#define KSWAPD_MIGRATE_RATE 10"),
        ("memtis", f"echo 3 > {BALANCING}/scan_period_max_ms"),
        ("memtis", "echo 3 > /sys/kernel/mm/transparent_hugepage/khugepaged/alloc_sleep_millisecs"),
        ("nbt", "sysctl -w vm.watermark_boost_factor=99"),
        ("autonuma", "sysctl -w kernel.numa_balancing_promote_rate_limit_MBps=99"),
        ("nbt", "echo 3 > /sys/kernel/mm/lru_gen/min_ttl_ms"),
    ],
)
def test_settings_that_are_there_as_well_are_left_alone(system: str, line: str) -> None:
    adapter = adapter_for(system)
    block = adapter.native_block({})
    assert adapter.from_block(f"{block}{line}\n") == adapter.from_block(block)


@pytest.mark.parametrize("system", [*ADAPTERS, "colloid+hemem"])
def test_every_own_block_is_taken(system: str, tmp_path: Path) -> None:
    path = tmp_path / "block"
    path.write_text(adapter_for(system).native_block({}))
    assert set(read_config(adapter_for(system), path, [])) == {k.name for k in engine.system(system).knobs}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("read_hot_treshold: 2", "hemem has no knob 'read_hot_treshold'; did you mean 'read_hot_threshold'?"),
        ("read_hot_threshold: 65", "hemem knob 'read_hot_threshold': 65 is not a whole number from 1 to 64"),
    ],
)
def test_a_mistake_in_a_config_is_told_with_its_file_and_line(line: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"# mine\nsampling_period: 5000\n{line}\n")
    assert refusal("hemem", path).startswith(f"tiertune: {path}:3: {said}")


@pytest.mark.parametrize(
    ("system", "text", "said"),
    [
        ("pact", "pact --pebs-period '400", "'pact --pebs-period '400' has a quote that does not end"),
        ("pact", "# tiertune: pebs_period = [1, 2]", "pebs_period takes one value, not a list"),
        ("hemem", "// tiertune: rate_mode = null", "rate_mode takes one value, not a list"),
        ("hemem", f"#define PEBS_KSWAPD_INTERVAL ({'9' * 400})", "holds a number with more digits than any"),
        ("hemem", f"#define SAMPLE_PERIOD ({'9' * 5000})", "holds a number with more digits than any"),
        (
            "memtis",
            "echo \u00b2 > /sys/kernel/mm/htmm/htmm_thres_hot",
            "'\u00b2' is no value for htmm_thres_hot",
        ),
        ("tpp", "sysctl -w kernel.numa_balancing=--2", "tpp knob 'numa_balancing_mode': --2 is not"),
        ("tpp", "sysctl -w kernel.numa_balancing=7", "tpp knob 'numa_balancing_mode': 7 is not"),
        ("mru", "sampling_period = NaN", "sampling_period: nan is not a usable number; write a finite one"),
    ],
)
def test_what_is_wrong_in_a_block_is_told_with_its_file(
    system: str, text: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "block"
    path.write_text(f"{text}\n")
    assert said in refusal(system, path)
    assert refusal(system, path).startswith(f"tiertune: {path}: ")


def test_a_value_that_is_no_number_is_told_after_its_option() -> None:
    refused = tiertune("show", "hemem", "-k", "sampling_period=.inf")
    assert refused.stderr.startswith("tiertune: --knob sampling_period: .inf is not a usable number")


def test_a_file_without_end_is_no_config() -> None:
    said = "tiertune: /dev/zero: is larger than 4 MiB, which no config is"
    assert refusal("hemem", Path("/dev/zero")) == said
