"""In a virtual machine with two memory tiers: what sources see of a known hot set; hosts are left as found.

Guests are booted once for each file of scenarios; a test asserts on what its scenario wrote down. Nothing is
about time.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.configs.corpus import ROOT
from tests.host.guest import machine, sources

pytestmark = pytest.mark.host

# Debian's own, which is not where Python packages of the checkout are: scenarios need none.
PYTHON = "/usr/bin/python3 -B -m"


@pytest.fixture(scope="module")
def programs() -> Path:
    """The programs that scenarios run, built here."""
    build = ["cargo", "build", "--quiet", "--release", "--locked", "--package", "tiertune-host", "--examples"]
    subprocess.run(build, cwd=ROOT / "engine", check=True, timeout=1200)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "engine/target")) / "release/examples"


def found(boot: machine.Boot, **wanted: str) -> dict[str, Any]:
    """The one result with these values."""
    matching = [result for result in boot.results if wanted.items() <= result.items()]
    assert len(matching) == 1, (wanted, boot.console[-2000:])
    return matching[0]


@pytest.fixture(scope="module")
def watched(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> machine.Boot:
    """A boot in which sources watch a process."""
    start = f"cd {ROOT} && {PYTHON} tests.host.guest.sources {programs}\n"
    return machine.boot(start, tmp_path_factory.mktemp("watched"), 240)


def shares(result: dict[str, Any]) -> tuple[float, float]:
    """Mean of what was seen in hot buckets and in those that are far from them."""
    buckets = result["found"]["buckets"]
    width = sources.SIZE_BYTES // len(buckets)
    first, last = sources.HOT_AT // width, (sources.HOT_AT + sources.HOT_BYTES) // width
    # A region may reach over the border of the hot set by some.
    far = [*buckets[: first - 4], *buckets[last + 4 :]]
    return sum(buckets[first:last]) / (last - first), sum(far) / len(far)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("source", sorted(sources.SECONDS))
def test_sources_find_the_hot_set(source: str, watched: machine.Boot) -> None:
    result = found(watched, scenario="source", source=source)
    assert result["code"] == 0, result["said"]
    hot, far = shares(result)
    assert hot > 3 * far, result["found"]
    assert result["found"]["lost"] == 0


def test_hint_faults_are_those_that_the_kernel_counts(watched: machine.Boot) -> None:
    """Every fault that is reported is one, few are not seen, and the kernel moves nothing itself."""
    result = found(watched, scenario="source", source="hint-faults")
    counted = result["counters"]["numa_hint_faults"]
    # Pages of its libraries and its stack fault, too, and are nobody's areas here.
    assert 0.9 * counted <= result["found"]["seen"] <= counted
    assert result["counters"]["pgpromote_success"] == result["counters"]["pgmigrate_success"] == 0


@pytest.mark.parametrize("source", sorted(sources.SECONDS))
def test_sources_leave_settings_as_found(source: str, watched: machine.Boot) -> None:
    result = found(watched, scenario="source", source=source)
    assert result["found"]["restored"] > 0
    assert result["found"]["problems"] == 0
    assert result["changed"] == {}


@pytest.mark.parametrize("source", sorted(sources.SECONDS))
def test_settings_come_back_after_kill_9(source: str, watched: machine.Boot) -> None:
    result = found(watched, scenario="killed", source=source)
    assert result["left"], "it had changed nothing when it was killed"
    assert result["code"] == 0, result["said"]
    assert result["changed"] == {}
