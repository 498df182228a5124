"""What of a node has to go for a ratio, and what makes a node a far one."""

from __future__ import annotations

import re
import shlex
from typing import Any

import jinja2
import pytest

from tests.playbooks.loading import loaded
from tests.source_tree import ROOT

tiering = loaded("filter_plugins/tiering")

GIB = 1 << 30
FACTS: dict[str, Any] = {
    "memory_block_bytes": 128 << 20,
    "nodes": [
        {"number": 0, "total_bytes": 64 * GIB, "cpus": [0, 1], "blocks": list(range(512))},
        {"number": 1, "total_bytes": 64 * GIB, "cpus": [2, 3], "blocks": list(range(512, 1024))},
    ],
}


def test_the_fast_part_of_a_footprint() -> None:
    assert tiering.fast_bytes(9 * GIB, "1:8") == GIB
    with pytest.raises(ValueError, match="in quotes"):
        tiering.fast_bytes(9 * GIB, 68)  # what YAML makes of 1:8 without quotes


def test_what_is_left_over_goes() -> None:
    surplus = tiering.surplus_bytes(FACTS, "0", 8 * GIB, 4 * GIB)
    assert surplus == 52 * GIB
    (pages,) = tiering.limit_settings(surplus, "hugepages", FACTS, "0")
    assert int(pages["value"]) * (2 << 20) == surplus
    (blocks,) = tiering.limit_settings(surplus, "blocks", FACTS, "0")
    assert blocks["count"] * (128 << 20) == surplus
    assert blocks["paths"][0].endswith("/memory511/state")
    assert len(blocks["paths"]) == 512
    assert tiering.memmap_argument(surplus, FACTS, "0") == f"memmap={52 * GIB:#x}${12 * GIB:#x}"
    assert tiering.limit_settings(surplus, "none", FACTS, "0") == []


def test_no_surplus_takes_no_block() -> None:
    assert tiering.limit_settings(0, "blocks", FACTS, "0") == []


def test_a_node_that_is_too_small_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="node 0 holds"):
        tiering.surplus_bytes(FACTS, "0", 63 * GIB, 4 * GIB)
    with pytest.raises(ValueError, match="has the nodes 0, 1"):
        tiering.surplus_bytes(FACTS, "2", GIB, GIB)


def test_a_far_node_has_no_processors() -> None:
    entries = tiering.far_settings(FACTS, "1", "800000", "0x808")
    assert [entry["value"] for entry in entries] == ["800000", "0x808", "0", "0"]
    assert entries[-1]["path"].endswith("/cpu3/online")
    with pytest.raises(ValueError, match="processor 0"):
        tiering.far_settings(FACTS, "0", "", "")
    assert tiering.far_settings(FACTS, "", "", "") == []


def test_words_of_a_command_stay_words_in_a_unit() -> None:
    """A worker whose name had a blank in it was started again every ten seconds."""
    words = ["/opt/tiertune", "--name", "rack 1", "100%", "$HOME", 'a"b\\c', "", "tcp://h:1"]
    environment = jinja2.Environment(autoescape=False)
    environment.filters.update(tiering.FilterModule().filters())
    template = ROOT / "playbooks/roles/dask_worker/templates/tiertune-worker.service.j2"
    text = environment.from_string(template.read_text()).render(__dask_worker_call=words)
    (line,) = [line.removeprefix("ExecStart=") for line in text.splitlines() if line.startswith("ExecStart=")]
    # As systemd reads it: quotes as in a shell, then these two are what they stand for.
    assert [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line)] == words
    assert line.startswith("/opt/tiertune --name ")
    assert not re.search(r"(?<!%)%(%%)*(?!%)|(?<!\$)\$(\$\$)*(?!\$)", line)
