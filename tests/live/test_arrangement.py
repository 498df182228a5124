"""Systems that the kernel runs, as lists of settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.small import tiertune
from tests.live.test_host_backend import HOST
from tests.tuner.test_backends import TINY
from tiertune import engine
from tiertune.adapters.registry import adapter_for
from tiertune.spaces.definition import load_space
from tiertune.tuner.backend import ConfigRejected, HostUnfit
from tiertune.tuner.live.arrangement import (
    GROUP,
    cap,
    check_kernel,
    constants_searched,
    group_of,
    memory_of,
    reservation,
    settings,
    systems_of_kernels,
)
from tiertune.tuner.live.fitness import Nodes

NODES = Nodes(0, 1)
ZONES = """\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 1
  pages free     3840
        spanned  4095
        present  3998
  start_pfn:           1
Node 0, zone    Movable
        spanned  0
        present  0
  start_pfn:           0
Node 1, zone   Normal
  pages free     100
        spanned  65536
        present  65536
  start_pfn:           131072
Node 10, zone   Normal
        spanned  7
        present  7
  start_pfn:           9
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/zoneinfo").write_text(ZONES)
    return tmp_path


def made(system: str, root: Path, **knobs: bool | int | float | str) -> dict[str, object]:
    config = dict(engine.check_config(system, knobs))
    entries = settings(system, config, NODES, root)
    assert len({entry["path"] for entry in entries}) == len(entries), "each file once"
    return {str(entry["path"]): entry["value"] for entry in entries}


def test_what_kernels_run() -> None:
    # FlexMem has knobs of Memtis, and no public kernel.
    assert set(systems_of_kernels()) == {"autonuma", "hmsdk", "memtis", "nbt", "nomad", "tpp"}


def test_constants_of_a_kernels_code_are_known_before_a_trial() -> None:
    assert constants_searched("nbt", ["scan_size_mb", "free_enough_mib"]) == ["free_enough_mib"]
    assert constants_searched("hmsdk", ["min_regions", "young_filter", "merge_divisor"]) == ["merge_divisor"]
    # Macros of a module are in its code, too.
    assert "work_delay_ms" in constants_searched("nomad", ["work_delay_ms", "scan_size_mb"])


def test_a_space_for_a_kernel_has_nothing_but_its_files() -> None:
    for space in ("nbt-kernel", "hmsdk", "hmsdk-paper", "memtis-kernel", "memtis-paper"):
        loaded = load_space(space)
        assert constants_searched(loaded.system, [axis.name for axis in loaded.axes()]) == [], space
    axes = [axis.name for axis in load_space("nbt-kernel").axes()]
    assert {axis.name for axis in load_space("nbt").axes()} - set(axes) == {"free_enough_mib"}
    axes = [axis.name for axis in load_space("memtis-kernel").axes()]
    assert {axis.name for axis in load_space("memtis").axes()} - set(axes) == {
        "initial_period_index",
        "demo_wm_pct",
        "promo_wm_gap_pct",
    }


def test_a_space_that_searches_a_constant_is_refused_before_the_first_trial(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY + HOST)
    (tmp_path / "mine.yaml").write_text(
        "name: mine\nscenarios: [{workload: ./tiny.yaml, machine: skx-numa, ratio: '1:8'}]\n"
        "systems: [{system: nbt, space: nbt}]\nbudget: {trials: 2, initial: 1}\n"
    )
    words = ["tune", str(tmp_path / "mine.yaml"), "--here", "0,1", "--by-kernel", "nbt"]
    done = tiertune(*words, "--results", tmp_path / "results")
    assert done.exit_code == 2, done.output
    said = " ".join(done.output.split())
    assert "the space nbt searches free_enough_mib, a constant of the kernel's code" in said
    assert "take the space nbt-kernel" in said
    assert not (tmp_path / "results").exists()


def test_balancing_is_switched_on_when_all_else_is_set(root: Path) -> None:
    found = made("nbt", root, scan_size_mb=64, hot_threshold_ms=250, demotion_enabled=True)
    assert list(found)[-1] == "/proc/sys/kernel/numa_balancing"
    assert found["/proc/sys/kernel/numa_balancing"] == 2
    assert found["/sys/kernel/debug/sched/numa_balancing/scan_size_mb"] == 64
    assert found["/sys/kernel/debug/sched/numa_balancing/hot_threshold_ms"] == 250
    assert found["/sys/kernel/mm/numa/demotion_enabled"] == "true"
    assert all(path.startswith(("/proc/sys/", "/sys/")) for path in found)


def test_generations_are_set_where_the_kernel_has_them(root: Path) -> None:
    path = "/sys/kernel/mm/lru_gen/enabled"
    assert path not in made("nbt", root), "a kernel without them goes by the classic lists"
    with pytest.raises(HostUnfit, match=r"lru_gen is mglru; boot a kernel from 6\.1 on"):
        made("nbt", root, lru_gen="mglru")
    (root / path[1:]).parent.mkdir(parents=True)
    (root / path[1:]).write_text("0x0000\n")
    assert made("nbt", root, lru_gen="mglru")[path] == "0x0007"
    assert made("nbt", root)[path] == "0x0000"


def test_constants_of_the_kernel_are_not_tuned_on_it(root: Path) -> None:
    with pytest.raises(ConfigRejected, match="threshold_steps is a constant there"):
        made("nbt", root, threshold_steps=32)


@pytest.mark.parametrize(
    ("knob", "value", "usual"),
    [("merge_divisor", 20, 10), ("quota_goal", True, False), ("region_max_size_mib", 4096, 0)],
)
def test_what_damon_has_no_file_for_is_not_tuned_on_it(
    root: Path, knob: str, value: bool | int, usual: bool | int
) -> None:
    with pytest.raises(ConfigRejected, match=rf"{knob} is a constant there \({usual}\), not {value}"):
        made("hmsdk", root, **{knob: value})


def test_thresholds_of_damon_are_converted_as_the_config_says(root: Path) -> None:
    age = "/sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/access_pattern/age/min"
    short = {"sample_interval_us": 5000, "dem_age_min_s": 30.0}
    assert made("hmsdk", root, **short, thresholds="rederived")[age] == 300
    assert made("hmsdk", root, **short, thresholds="kernel")[age] == 15


def test_watermarks_of_damon_are_thousandths_of_memory(root: Path) -> None:
    scheme = "/sys/kernel/mm/damon/admin/kdamonds/1/contexts/0/schemes/0/watermarks"
    assert made("hmsdk", root)[f"{scheme}/metric"] == "none"
    shares = {"wmark_mid_ratio": 0.5, "wmark_low_ratio": 0.1}
    numbers = {"wmark_high_permil": 300, "wmark_interval_ms": 100}
    found = made("hmsdk", root, wmark_metric="free_mem_rate", **numbers, **shares)
    marks = {name: found[f"{scheme}/{name}"] for name in ("metric", "interval_us", "high", "mid", "low")}
    assert marks == {"metric": "free_mem_rate", "interval_us": 100_000, "high": 300, "mid": 150, "low": 15}


def test_systems_of_user_space_have_no_settings(root: Path) -> None:
    with pytest.raises(ConfigRejected, match=r"hemem is run by no kernel; those that are: .*nbt"):
        made("hemem", root)


def test_damon_watches_each_node_and_moves_to_the_other(root: Path) -> None:
    found = made("hmsdk", root, sample_interval_us=5000)
    admin = "/sys/kernel/mm/damon/admin/kdamonds"
    first = [str(path) for path in found]
    assert first[0] == f"{admin}/nr_kdamonds"
    assert first[-2:] == [f"{admin}/0/state", f"{admin}/1/state"]
    scheme = "contexts/0/schemes/0"
    assert (found[f"{admin}/0/{scheme}/action"], found[f"{admin}/0/{scheme}/target_nid"]) == (
        "migrate_cold",
        1,
    )
    assert (found[f"{admin}/1/{scheme}/action"], found[f"{admin}/1/{scheme}/target_nid"]) == (
        "migrate_hot",
        0,
    )
    regions = "contexts/0/targets/0/regions"
    assert found[f"{admin}/1/{regions}/0/start"] == 131072 * 4096
    assert found[f"{admin}/1/{regions}/0/end"] == (131072 + 65536) * 4096
    for number in "01":
        assert found[f"{admin}/{number}/contexts/0/monitoring_attrs/intervals/sample_us"] == 5000
    # A folder is there once its number is: parents come before what lies in them.
    for count in (
        "nr_contexts",
        "targets/nr_targets",
        "regions/nr_regions",
        "schemes/nr_schemes",
        "nr_filters",
    ):
        place = next(nth for nth, path in enumerate(first) if path.endswith(count))
        folder = first[place].rpartition("/")[0]
        below = [nth for nth, path in enumerate(first) if path.startswith(f"{folder}/0/")]
        assert below, folder
        assert min(below) > place, folder


def test_every_setting_of_the_adapter_is_made(root: Path) -> None:
    config = dict(engine.check_config("hmsdk", {}))
    native = adapter_for("hmsdk").to_native(config)
    text = "\n".join(made("hmsdk", root))
    for name in native:
        if (
            "/access_pattern/" in name
            or "/quotas/" in name
            or "/intervals/" in name
            or "/nr_regions/" in name
        ):
            assert name.partition("/")[2] in text, name


def test_memory_of_a_node_is_that_of_its_zones(root: Path) -> None:
    assert memory_of(0, root) == [(4096, 4096 * 4096)]
    assert memory_of(10, root) == [(9 * 4096, 16 * 4096)]
    with pytest.raises(HostUnfit, match="nothing of the memory of node 2"):
        memory_of(2, root)


def test_the_rest_of_the_fast_node_is_set_aside() -> None:
    huge = 2 << 20
    found = reservation(10.5 * huge, 4 * huge, 3, NODES)
    assert found == {
        "path": "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages",
        "value": 9,
    }
    assert reservation(4.5 * huge, 4 * huge, 3, NODES) is None
    with pytest.raises(HostUnfit, match=r"0.01 GiB free, and the ratio grants 0.02"):
        reservation(4 * huge, 8 * huge, 0, NODES)


# What the kernel of Memtis (5.15.19) has there.
HTMM = [
    "htmm_sample_period",
    "htmm_inst_sample_period",
    "htmm_split_period",
    "htmm_thres_hot",
    "htmm_cooling_period",
    "htmm_adaptation_period",
    "ksampled_min_sample_ratio",
    "ksampled_max_sample_ratio",
    "htmm_demotion_period_in_ms",
    "htmm_promotion_period_in_ms",
    "ksampled_soft_cpu_quota",
    "htmm_thres_split",
    "htmm_nowarm",
    "htmm_util_weight",
    "htmm_mode",
    "htmm_gamma",
    "htmm_cxl_mode",
    "htmm_skip_cooling",
    "htmm_thres_cooling_alloc",
]


@pytest.fixture
def memtis_root(root: Path) -> Path:
    """The files of a host whose kernel is Memtis'."""
    folders = {
        "sys/kernel/mm/htmm": HTMM,
        "sys/kernel/mm/transparent_hugepage/khugepaged": ["pages_to_scan", "scan_sleep_millisecs"],
        "proc/sys/kernel": ["numa_balancing"],
    }
    for folder, names in folders.items():
        (root / folder).mkdir(parents=True)
        for name in names:
            (root / folder / name).touch()
    groups = root / "sys/fs/cgroup"
    groups.mkdir(parents=True)
    for name in ("cgroup.controllers", "cgroup.subtree_control"):
        (groups / name).write_text("cpuset cpu memory\n")
    return root


def test_every_file_of_memtis_kernel_is_set_and_no_other(memtis_root: Path) -> None:
    found = made("memtis", memtis_root, htmm_thres_split=False, htmm_cxl_mode=True, cooling_ratio=10)
    files = {f"/{path.relative_to(memtis_root)}" for path in memtis_root.rglob("*") if path.is_file()}
    assert set(found) == {path for path in files if "cgroup" not in path and "zoneinfo" not in path}
    htmm = "/sys/kernel/mm/htmm"
    assert found["/proc/sys/kernel/numa_balancing"] == 0
    assert found[f"{htmm}/htmm_thres_split"] == "0"
    assert found[f"{htmm}/htmm_cxl_mode"] == "enabled"
    assert found[f"{htmm}/htmm_cooling_period"] == "1000000"


def test_the_one_file_that_says_other_words_than_it_takes_is_told(memtis_root: Path) -> None:
    entries = settings("memtis", dict(engine.check_config("memtis", {})), NODES, memtis_root)
    says = {entry["path"]: entry["says"] for entry in entries if "says" in entry}
    assert list(says) == ["/sys/kernel/mm/htmm/htmm_mode"]
    assert says["/sys/kernel/mm/htmm/htmm_mode"] == {
        "0": "NO MIG-0",
        "1": "BASELINE-1",
        "2": "HUGEPAGE_OPT-2",
        "3": "HUGEPAGE_OPT_V2",
    }


def test_memtis_holds_a_control_group_to_the_fast_memory_that_the_ratio_grants() -> None:
    assert (group_of("memtis"), group_of("nbt")) == (GROUP, None)
    assert cap(Nodes(2, 3), 1 << 30) == [
        {"path": f"{GROUP}/memory.max_at_node2", "value": 1 << 30},
        {"path": f"{GROUP}/memory.htmm_enabled", "value": "enabled"},
    ]


def test_a_kernel_that_is_not_memtis_is_told_before_the_first_trial(memtis_root: Path) -> None:
    check_kernel("memtis", NODES, memtis_root)
    check_kernel("nbt", NODES, Path("/nowhere"))
    control = memtis_root / "sys/fs/cgroup/cgroup.subtree_control"
    control.write_text("cpu\n")
    with pytest.raises(HostUnfit, match=r"echo \+memory > /sys/fs/cgroup/cgroup.subtree_control") as unfit:
        check_kernel("memtis", NODES, memtis_root)
    assert "CONFIG_HTMM" not in str(unfit.value)
    with pytest.raises(HostUnfit, match=r"(?s)/sys/kernel/mm/htmm is not there.*cgroup_no_v1=memory"):
        check_kernel("memtis", NODES, Path("/nowhere"))


def test_a_kernel_that_has_nowhere_to_demote_to_is_told_before_the_first_trial(root: Path) -> None:
    def zones(of_fast: int, of_slow: int) -> None:
        lines = [
            f"Node {node}, zone Normal, toptier {1 - node} next_demotion_node {target}\n  pages free     9\n"
            for node, target in ((0, of_fast), (1, of_slow))
        ]
        (root / "proc/zoneinfo").write_text("".join(lines))

    check_kernel("nomad", NODES, root)  # a kernel that does not tell
    zones(of_fast=1, of_slow=-1)
    check_kernel("nomad", NODES, root)
    zones(of_fast=-1, of_slow=-1)
    for system in ("nomad", "tpp"):
        with pytest.raises(HostUnfit, match=rf"{system} would fill node 0 and then stop: .* -1 there\."):
            check_kernel(system, NODES, root)
    check_kernel("hmsdk", NODES, root)  # DAMON's schemes name their node


def test_constants_of_memtis_kernel_are_not_tuned_on_it(memtis_root: Path) -> None:
    with pytest.raises(ConfigRejected, match=r"demo_wm_pct is a constant there \(2.0\), not 5.0"):
        made("memtis", memtis_root, demo_wm_pct=5.0)
    with pytest.raises(ConfigRejected, match="flexmem is run by no kernel"):
        made("flexmem", memtis_root)


def test_another_kernel_ends_a_campaign_of_memtis_with_what_is_missing(tmp_path: Path) -> None:
    """This machine's kernel is none of Memtis', as CI's."""
    (tmp_path / "tiny.yaml").write_text(TINY + HOST)
    (tmp_path / "mine.yaml").write_text(
        "name: mine\nscenarios: [{workload: ./tiny.yaml, machine: skx-numa, ratio: '1:8'}]\n"
        "systems: [{system: memtis, space: memtis-kernel}]\nbudget: {trials: 2, initial: 1}\n"
    )
    words = ["tune", str(tmp_path / "mine.yaml"), "--here", "0,1", "--by-kernel", "memtis"]
    done = tiertune(*words, "--results", tmp_path / "results")
    assert done.exit_code == 3, done.output
    said = " ".join(done.output.split())
    assert "memtis is not run by this kernel: /sys/kernel/mm/htmm is not there" in said
    assert "leave out --by-kernel" in said
