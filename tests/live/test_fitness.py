"""What keeps a host from running trials, and that each comes with a remedy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tiertune.tuner.host.state import HostState
from tiertune.tuner.live.fitness import Nodes, disturbance, throttling, two_nodes, unfitness

GIB = 1 << 30
KB = 1024
FIT = HostState(
    settings={"THP": "madvise"},
    quantities={
        "node memory (kB) of node0": 64 * GIB / KB,
        "node memory (kB) of node1": 256 * GIB / KB,
        "node free memory (kB) of node0": 60 * GIB / KB,
        "node free memory (kB) of node1": 250 * GIB / KB,
        "swap used (kB)": 0.0,
        "load": 0.1,
    },
)
NODES = Nodes(0, 1)


def said(
    state: HostState = FIT, nodes: Nodes = NODES, page_bytes: int = 2 << 20, busy: float = 0.0
) -> list[str]:
    return [str(one) for one in unfitness(state, nodes, page_bytes, 128 * GIB, busy)]


def changed(**quantities: float) -> HostState:
    names = {"free0": "node free memory (kB) of node0", "free1": "node free memory (kB) of node1"}
    names["swap"] = "swap used (kB)"
    return replace(FIT, quantities={**FIT.quantities, **{names[k]: v for k, v in quantities.items()}})


def test_a_fit_host_has_nothing_said_about_it() -> None:
    assert said() == []
    assert said(page_bytes=4096) == []


@pytest.mark.parametrize(
    ("state", "nodes", "page_bytes", "busy", "problem", "remedy"),
    [
        (FIT, Nodes(0, 0), 2 << 20, 0.0, "node 0 cannot be both tiers", "two memory nodes, such as 0,1"),
        (FIT, Nodes(0, 3), 2 << 20, 0.0, "memory node 3 has no memory", "nodes with memory are 0, 1"),
        (
            changed(free1=60 * GIB / KB),
            NODES,
            2 << 20,
            0.0,
            "120.0 GiB of the two nodes are free",
            "drop_caches",
        ),
        (changed(swap=4096), NODES, 2 << 20, 0.0, "4,096 kB are swapped out", "swapoff"),
        (replace(FIT, settings={"THP": "never"}), NODES, 2 << 20, 0.0, "huge pages are off", "echo madvise"),
        (replace(FIT, settings={"THP": "always"}), NODES, 4096, 0.0, "THP is always", "echo madvise"),
        (FIT, NODES, 2 << 20, 0.5, "others use 50 % of the processors", "nobody else computes"),
    ],
)
def test_what_is_not_in_order_is_said_with_what_to_do(
    state: HostState, nodes: Nodes, page_bytes: int, busy: float, problem: str, remedy: str
) -> None:
    found = said(state, nodes, page_bytes, busy)
    assert len(found) == 1, found
    assert problem in found[0]
    assert remedy in found[0]


def test_nodes_without_processors_are_the_slow_tier(tmp_path: Path) -> None:
    def node(number: int, processors: str) -> None:
        place = tmp_path / f"sys/devices/system/node/node{number}"
        place.mkdir(parents=True)
        (place / "cpulist").write_text(processors + "\n")

    assert two_nodes(tmp_path) is None
    node(0, "0-15")
    assert two_nodes(tmp_path) is None
    node(1, "16-31")
    assert two_nodes(tmp_path) == Nodes(0, 1), "the other socket, where there is nothing better"
    node(2, "")
    assert two_nodes(tmp_path) == Nodes(0, 2)


@pytest.mark.parametrize(("name", "grown_ms"), [("cores", 5000), ("sockets", 5000), ("cores", 700)])
def test_processors_that_ran_slower_for_a_hundredth_of_the_time_are_out_of_order(
    name: str, grown_ms: int
) -> None:
    counted = {"cores throttled (ms)": 90, "sockets throttled (ms)": 80}
    before = replace(FIT, counters=counted)
    key = f"{name} throttled (ms)"
    after = replace(FIT, counters={**counted, key: counted[key] + grown_ms})
    found = throttling(before, after, wall_s=10.0, processors=8)
    if grown_ms > 800:
        assert found is not None
        assert str(found).startswith("processors were throttled for 6 % of the time while the trial ran; see")
    else:
        assert found is None
    assert throttling(FIT, FIT, 10.0, 8) is None, "a host that does not say"


def test_a_trial_that_swapped_or_was_not_alone_was_disturbed() -> None:
    counted = {"pswpin": 7, "pswpout": 9, "cores throttled (ms)": 0}
    before = replace(FIT, counters=counted)
    for name in ("pswpin", "pswpout"):
        found = disturbance(before, replace(FIT, counters={**counted, name: 1049}), 10.0, 8)
        assert found is not None
        assert found.about == "swap"
        assert "pages were swapped while the trial ran" in str(found)
        assert "swapoff" in found.remedy
    others = disturbance(before, before, 10.0, 8, busy_share=0.4)
    assert others is not None
    assert "right after the trial others use 40 % of the processors" in str(others)
    hot = replace(FIT, counters={**counted, "cores throttled (ms)": 10**9})
    assert getattr(disturbance(before, hot, 10.0, 8), "about", "") == "clock"
    assert disturbance(before, before, 10.0, 8, busy_share=0.05) is None
