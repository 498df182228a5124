"""The caches of processors that are made of parts, as Linux tells them."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

from tiertune.tuner.calibration import measuring

FACTS = Path(__file__).parents[2] / "playbooks" / "library" / "tiering_facts.py"
SOCKETS, PARTS, CORES = 2, 4, 3
"""Sockets, parts of a socket with a last level each, cores of a part."""


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """Processors of two sockets; the last of them is switched off and has no folders of its own."""
    folder = tmp_path / "system" / "cpu"
    for number in range(SOCKETS * PARTS * CORES):
        place = folder / f"cpu{number}"
        place.mkdir(parents=True)
        if number == SOCKETS * PARTS * CORES - 1:
            continue
        (place / "topology").mkdir()
        (place / "topology" / "physical_package_id").write_text(f"{number // (PARTS * CORES)}\n")
        part = number // CORES * CORES
        shared = {1: str(number), 2: str(number), 3: f"{part}-{part + CORES - 1}"}
        caches = [
            (1, "Data", "32K"),
            (1, "Instruction", "32K"),
            (2, "Unified", "512K"),
            (3, "Unified", "16M"),
        ]
        for index, (level, kind, size) in enumerate(caches):
            cache = place / "cache" / f"index{index}"
            cache.mkdir(parents=True)
            texts = {"level": level, "type": kind, "size": size, "shared_cpu_list": shared[level]}
            for name, text in texts.items():
                (cache / name).write_text(f"{text}\n")
    (folder / "online").write_text(f"0-{SOCKETS * PARTS * CORES - 2}\n")
    return folder


def facts_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tiering_facts", FACTS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_last_level_is_that_of_all_parts_of_a_socket(told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "CPU", told)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    cpu = measuring.host_cpu()
    assert (cpu.llc_bytes, cpu.inner_cache_bytes) == (PARTS * 16 << 20, 512 << 10)


def test_other_hosts_say_the_same(told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = facts_module()
    monkeypatch.setattr(module, "SYS", str(told.parents[1]))
    sizes = {"1": 32 << 10, "2": 512 << 10, "3": PARTS * 16 << 20}
    assert module.cpu()["cache_bytes"] == sizes
