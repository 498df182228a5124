"""`tiertune record` on real processes: our own GUPS, whose hot set is known, and a Redis server of Debian."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.host.programs import program
from tiertune import engine
from tiertune.workloads.profile_file import opened

pytestmark = pytest.mark.host

MIB = 2**20
TABLE_BYTES, HOT_BYTES = 64 * MIB, 8 * MIB
COMMAND = [sys.executable, "-c", "from tiertune.tuner.cli import main; main()"]


def recorded(
    path: Path, sampler: str, seconds: float, *command: str
) -> subprocess.CompletedProcess[str] | None:
    """Runs `tiertune record`; None where this host does not allow it, and says so."""
    call = [*COMMAND, "record", "-o", str(path), "--sampler", sampler, "--seconds", str(seconds), "--json"]
    done = subprocess.run([*call, "--", *command], capture_output=True, text=True, timeout=240)
    if done.returncode == 3:
        assert "tiertune: " in done.stderr
        assert not path.exists()
        return None
    assert done.returncode == 0, done.stderr
    return done


def hot_pages(reads: np.ndarray[Any, Any]) -> set[int]:
    """Pages that are read at least three times as often as the average one."""
    return set(np.flatnonzero(reads > 3 * reads.mean()).tolist())


@pytest.fixture(scope="module")
def tierload() -> Path:
    """The native command."""
    return program("tierload")


@pytest.fixture(scope="module")
def own() -> set[int]:
    """Hot pages of GUPS as the kernel's own recording has them."""
    request = {"kernel": "gups", "table_bytes": TABLE_BYTES, "hot_bytes": HOT_BYTES, "threads": 1}
    columns, _ = engine.record({**request, "updates": 4_000_000, "llc_bytes": MIB})
    hot = hot_pages(np.bincount(columns["page"], weights=columns["reads"], minlength=TABLE_BYTES // 4096))
    assert len(hot) == HOT_BYTES // 4096
    return hot


@pytest.mark.parametrize(("sampler", "off_pages"), [("written", 32), ("referenced", 1024)])
def test_the_hot_set_of_gups(
    sampler: str, off_pages: int, tierload: Path, own: set[int], tmp_path: Path
) -> None:
    """As large as in the kernel's own recording and at the same place, to some pages or to two chunks."""
    path = tmp_path / "gups.parquet"
    sizes = ("--table-bytes", str(TABLE_BYTES), "--hot-bytes", str(HOT_BYTES))
    command = (str(tierload), "gups", "gups", *sizes, "--updates", "10000000000", "--threads", "1")
    if recorded(path, sampler, 8, *command) is None:
        return
    columns, metadata = opened(path)
    objects = json.loads(metadata)["objects"]
    table = max(range(len(objects)), key=lambda number: int(objects[number]["bytes"]))
    assert TABLE_BYTES <= objects[table]["bytes"] <= TABLE_BYTES + 4 * MIB
    mine = columns["object"] == table
    reads = np.bincount(columns["page"][mine], weights=columns["reads"][mine], minlength=TABLE_BYTES // 4096)
    found = hot_pages(reads)
    assert abs(len(found) - len(own)) <= off_pages
    # Chunks lie as addresses do, so a hot set that begins within one takes one more.
    assert len(found ^ own) <= off_pages, (min(found), max(found), min(own), max(own))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def load(port: int, *arguments: str) -> None:
    benchmark = ["redis-benchmark", "-p", str(port), "-q", "-d", "1000", "-P", "16", *arguments]
    # It complains when the server goes while it asks; the server's end is the end of the recording.
    subprocess.run(benchmark, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)


def test_a_redis_server_is_recorded_and_tuned_at_once(tmp_path: Path) -> None:
    port, path = free_port(), tmp_path / "redis.parquet"
    server = ["redis-server", "--port", str(port), "--save", "", "--appendonly", "no", "--dir", str(tmp_path)]
    call = [*COMMAND, "record", "-o", str(path), "--seconds", "15", "--", *server]
    recording = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(100):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    load(port, "-t", "set", "-r", "100000", "-n", "100000")
    load(port, "-t", "get", "-r", "100000", "-n", "100000000")
    _, said = recording.communicate(timeout=120)
    if recording.returncode == 3:
        assert "tiertune: " in said
        return
    assert recording.returncode == 0, said
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", port)) != 0, "the server is still there"
    _, metadata = opened(path)
    told = json.loads(metadata)
    footprint = sum(info["bytes"] for info in told["objects"])
    # Below 63 200 different keys of 1000 bytes, as keys are drawn at random, and their headers.
    assert 55 * MIB < footprint < 250 * MIB
    assert "loads" in told["measured"]["sees"]
    tune = [*COMMAND, "tune", "--workload", str(path), "--system", "memtis", "--ratio", "1:4", "--json"]
    results = ["--trials", "6", "--results", str(tmp_path / "results")]
    done = subprocess.run([*tune, *results], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["complete"]
    assert verdict["cells"][0]["system"] == "memtis"
