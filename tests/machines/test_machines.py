"""Packaged machines carry the printed figures, and the engine takes them."""

from __future__ import annotations

import pytest

from tiertune.files import names
from tiertune.machines.definition import load_machine

PRINTED = {
    # name: (latencies in ns, read bandwidths in 1e9 bytes/s), as the papers print them.
    "skx-cxl-emul": ((90, 190), (49, 17)),
    "spr-cxl": ((114, 271), (218, 26)),
    "pact-skx-cxl": ((90, 190), (52, None)),
    "pact-skx-numa": ((90, 140), (52, 32)),
    "clx-optane": ((98, 348), (None, None)),
    "icx-pmem": ((80, 250), (138, 7.45)),
    "skx-numa": ((95, 180), (56, 22)),
    "icx-upi": ((70, 135), (None, None)),
    "icx-upi-slow27": ((70, 189), (None, None)),
}


@pytest.mark.parametrize("name", PRINTED)
def test_printed_figures(name: str) -> None:
    machine = load_machine(name)
    latencies, bandwidths = PRINTED[name]
    assert tuple(tier.latency_ns for tier in machine.tiers) == latencies
    for tier, read_gbps in zip(machine.tiers, bandwidths, strict=True):
        assert read_gbps is None or tier.read_gbps == read_gbps


@pytest.mark.parametrize("name", names("machines"))
def test_sources_are_words(name: str) -> None:
    machine = load_machine(name)
    for sources in (machine.sources, *(tier.sources for tier in machine.tiers)):
        for figure, source in sources.items():
            assert len(source.split()) >= 2, f"{figure}: {source}"


@pytest.mark.parametrize("name", ["skx-cxl-emul", "pact-skx-cxl", "pact-skx-numa"])
def test_loaded_latency_of_skylake_as_measured(name: str) -> None:
    """OSDI'25 prints 140 ns at 81 % and 180 ns at 98 % of the bandwidth of its 90 ns memory."""
    tier = load_machine(name).tiers[0]
    loaded = {utilisation: multiple * tier.latency_ns for utilisation, multiple in tier.curve}
    assert loaded[0.81] == pytest.approx(140, abs=0.5)
    assert loaded[0.98] == pytest.approx(180, abs=0.5)


@pytest.mark.parametrize("name", names("machines"))
def test_a_mix_of_reads_and_writes_on_a_shared_bus_is_slower_than_reads(name: str) -> None:
    for tier in load_machine(name).tiers:
        if not tier.duplex:
            assert tier.write_gbps < tier.read_gbps


def test_optane_moves_a_quarter_of_its_bandwidth_in_single_lines() -> None:
    """Blocks of 256 bytes (Yang et al., FAST'20)."""
    for name in ("clx-optane", "icx-pmem"):
        dram, optane = load_machine(name).tiers
        assert optane.random_read_gbps == pytest.approx(optane.read_gbps / 4, rel=0.03)
        assert optane.random_write_gbps == pytest.approx(optane.write_gbps / 4, rel=0.03)
        assert dram.random_read_gbps == pytest.approx(0.885 * dram.read_gbps, rel=0.001)


def test_document_is_what_the_engine_takes() -> None:
    document = load_machine("icx-pmem").document()
    assert document["llc_bytes"] == 18 * 2**20
    assert document["tiers"][1]["sequential_latency_ns"] == 150
    assert "sources" not in document
    assert all("sources" not in tier for tier in document["tiers"])
