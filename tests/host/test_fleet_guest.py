"""The playbooks' own files on a real kernel: two nodes are provisioned, CXL memory comes online and goes."""

from __future__ import annotations

import lzma
from typing import Any

import pytest

from tests.configs.corpus import ROOT
from tests.host.fleet import inside
from tests.host.guest import archive, machine

pytestmark = pytest.mark.host

CXL_BYTES = 256 << 20
MODULES = [
    "libnvdimm",
    "cxl_core",
    "cxl_port",
    "cxl_acpi",
    "cxl_pci",
    "cxl_mem",
    "einj",
    "device_dax",
    "dax_cxl",
    "kmem",
]
CXL = [
    *("-M", "cxl=on", "-cpu", "max,hypervisor=off"),
    *("-m", f"{machine.FAST_MIB + machine.SLOW_MIB}M,slots=2,maxmem=8G"),
    *("-object", f"memory-backend-ram,id=cxl,size={CXL_BYTES}"),
    *("-device", "pxb-cxl,bus_nr=12,bus=pcie.0,id=host-bridge"),
    *("-device", "cxl-rp,port=0,bus=host-bridge,id=root-port,chassis=0,slot=2"),
    *("-device", "cxl-type3,bus=root-port,volatile-memdev=cxl,id=cxl-memory,sn=1"),
    *("-M", "cxl-fmw.0.targets.0=host-bridge,cxl-fmw.0.size=4G"),
]


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What each scenario left, by its name."""
    folder = tmp_path_factory.mktemp("provisioned")
    modules = folder / "modules"
    modules.mkdir()
    parts = archive.fetched()
    for name in MODULES:
        found = list(parts.root.glob(f"kernel/lib/modules/**/{name}.ko.xz"))
        for path in found:  # others are part of this kernel
            (modules / f"{name}.ko").write_bytes(lzma.decompress(path.read_bytes()))
    start = f"cd {ROOT} && /usr/bin/python3 -B tests/host/fleet/inside.py {modules}\n"
    boot = machine.boot(start, folder, 240, CXL)
    return {result["scenario"]: result for result in boot.results}


@pytest.mark.timeout(900)
def test_a_host_with_two_nodes_is_provisioned_and_comes_back(steps: dict[str, dict[str, Any]]) -> None:
    step = steps["provision"]
    assert [node["number"] for node in step["facts"]["nodes"]] == [0, 1]
    assert step["facts"]["tiers"] == [[0], [1]], "the firmware tells latencies, so the kernel makes two tiers"
    assert step["facts"]["nodes"][1]["cpus"] == []
    looked, applied, again = step["changed"]
    assert looked == applied > 6
    assert again == 0
    truth = {"true": "1", "false": "0"}
    during = {path: truth.get(value, value) for path, value in step["during"].items()}
    assert {path: during[path] for path in step["wanted"]} == step["wanted"]
    assert [during[path] for path in step["blocks"]].count("offline") == inside.BLOCKS
    assert "numa_balancing: cannot be set to 77" in step["refused"]
    assert step["after"] == step["before"]
    assert not step["record"]


def test_memory_of_a_cxl_device_comes_online_once_and_goes_again(steps: dict[str, dict[str, Any]]) -> None:
    before, online, again, offline = (steps[name] for name in ("before", "online", "again", "offline"))
    assert online["code"] == 0, online["errors"]
    assert online["cxl"] == ["mem0"]
    assert online["output"].endswith("changed\n")
    assert online["record"].startswith("region region")
    (node,) = set(online["nodes"]) - set(before["nodes"])
    assert online["nodes"][node] == CXL_BYTES
    assert [int(node)] in online["tiers"]
    assert (again["code"], again["output"]) == (0, ""), again["errors"]
    assert again["record"] == online["record"]
    assert offline["code"] == 0, offline["errors"]
    assert offline["nodes"] == before["nodes"]
    assert not offline["record"]
