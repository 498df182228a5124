"""Hosts that are alike and hosts that are not, in words."""

from __future__ import annotations

from typing import Any

from tiertune.tuner.fleet.likeness import differences, traits


def facts(**changes: Any) -> dict[str, Any]:
    nodes = [
        {"number": 0, "total_bytes": 64 << 30, "cpus": [0, 1], "distances": [10, 20], "access": {}},
        {
            "number": 1,
            "total_bytes": 128 << 30,
            "cpus": [],
            "distances": [20, 10],
            "access": {"read_latency": "250"},
        },
    ]
    return {
        "kernel": "6.12.9",
        "firmware": "F12",
        "processor": "a processor",
        "microcode": "0x1",
        "memory_speed": ["16x 4800 MT/s"],
        "tiers": [[0], [1]],
        "nodes": nodes,
        **changes,
    }


def test_equal_hosts_do_not_differ() -> None:
    assert differences({name: traits(facts(), 0, 1) for name in ("a", "b", "c")}) == []


def test_a_difference_names_who_has_what_and_the_common_one_first() -> None:
    found = {"a": traits(facts(kernel="6.1.0"), 0, 1), "b": traits(facts(), 0, 1), "c": traits(facts(), 0, 1)}
    assert differences(found) == ["kernel: 6.12.9 on b, c; 6.1.0 on a"]


def test_a_few_reserved_mebibytes_are_no_difference_and_a_module_is() -> None:
    nodes = facts()["nodes"]
    near = [{**nodes[0], "total_bytes": nodes[0]["total_bytes"] - (60 << 20)}, nodes[1]]
    less = [{**nodes[0], "total_bytes": nodes[0]["total_bytes"] - (4 << 30)}, nodes[1]]
    usual = traits(facts(), 0, 1)
    assert differences({"a": usual, "b": traits(facts(nodes=near), 0, 1)}) == []
    assert differences({"a": usual, "b": traits(facts(nodes=less), 0, 1)}) == [
        "fast node: 60GiB, 2 processors on b; 64GiB, 2 processors on a"
    ]


def test_what_is_missing_is_said() -> None:
    lone = traits(facts(nodes=facts()["nodes"][:1], memory_speed=[], firmware=""), 0, 1)
    assert (lone["slow node"], lone["memory speed"], lone["firmware"]) == (
        "there is no node 1",
        "not told",
        "not told",
    )
