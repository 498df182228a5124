"""A Docker Engine of its own for tests: another socket, other folders, no bridge, no rules."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.configs.corpus import ROOT

# Debian's engine needs some seconds, and more where others compute.
UP_S = 60.0


@dataclass
class Running:
    """An engine, as long as the `with` block of `running` lasts; it may be ended and started meanwhile."""

    folder: Path
    data: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"unix://{self.folder}/sock"

    @property
    def client(self) -> Any:
        import docker

        return docker.DockerClient(base_url=self.address, timeout=120)

    def start(self) -> None:
        words = ["dockerd", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--bridge=none"]
        words += ["--storage-driver=vfs", "--data-root", str(self.data), "--exec-root", f"{self.folder}/exec"]
        words += ["-H", self.address, "-p", f"{self.folder}/pid"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + UP_S
        while not self._answers():
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.1)

    def kill(self) -> None:
        """As kill -9 does; its containers run on until it is back."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        # Its containerd dies with it; where nobody reaps that, the next engine would take it for alive.
        for left in (self.folder / "pid", *self.folder.glob("exec/containerd/*.pid")):
            left.unlink(missing_ok=True)

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-2000:]

    def _answers(self) -> bool:
        import docker

        try:
            return bool(self.client.ping())
        except (docker.errors.DockerException, OSError):
            return False


@contextmanager
def running(small_data_bytes: int | None = None) -> Iterator[Running]:
    """An engine; `small_data_bytes` gives its data a file system of that size of its own."""
    # Paths of Unix sockets are short.
    folder = Path(tempfile.mkdtemp(prefix="tt-docker-", dir="/tmp"))
    data = folder / "data"
    data.mkdir()
    if small_data_bytes is not None:
        size = f"size={small_data_bytes}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(data)], check=True)
    made = Running(folder, data)
    try:
        made.start()
        yield made
    finally:
        made.end()
        _end_containers(folder)
        _unmount_all(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _end_containers(folder: Path) -> None:
    """Those of an engine that was killed and did not come back: they run on below a shim of containerd."""
    for kept in folder.glob("data/containers/*"):
        for group in (f"pids/docker/{kept.name}", f"docker/{kept.name}"):
            for pid in _lines(Path("/sys/fs/cgroup", group, "cgroup.procs")):
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _unmount_all(folder: Path) -> None:
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for place in sorted((place for place in mounted if place.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "-l", place], check=False)


# The host looks as idle as it would be without the tests, and programs are those that were built for them.
COMMAND = """\
import sys
from tiertune.tuner.container import backend
from tiertune.tuner.live.backend import look_here
backend.look_here = lambda: (look_here()[0], 0.0)
programs = sys.argv.pop(1)
backend.program_here = lambda name: f"{programs}/{name}"
from tiertune.tuner.cli import main
main()
"""


def tiertune(engine: Running, programs: Path, folder: Path, *words: str) -> subprocess.Popen[str]:
    """Starts `tiertune` with this engine in a folder; what it says, from both outputs."""
    paths = os.pathsep.join([str(ROOT / "engine" / "python"), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(programs), *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, "DOCKER_HOST": engine.address},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
