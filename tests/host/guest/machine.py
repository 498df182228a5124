"""Boots the guest: two nodes of memory that firmware describes as fast and slow, so that the kernel makes two tiers of them.

There is no performance in it: instructions are emulated, and both nodes are the same memory of the host. What it shows is
where pages are and what the kernel counts.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.host.guest import archive, initramfs

EXCHANGE = "/run/exchange"
# Stock kernels do not run under every hypervisor's KVM, and what is asserted does not depend on speed.
ACCELERATOR = "tcg"
FAST_MIB, SLOW_MIB = 1024, 512
# Emulated processors flush their cached translations only with these, without which accessed bits stay as they are.
FLUSHING = ["pti=on", "nopcid"]
BROKEN = re.compile(r"GUEST-BROKEN|Kernel panic|Oops:|general protection fault|BUG: ")
BOOTS = 3


@dataclass(frozen=True)
class Boot:
    """What a boot left behind."""

    console: str
    results: list[dict[str, Any]]
    seconds: float
    boots: int


def nodes() -> list[str]:
    """Firmware's description: node 0 with the processors, node 1 without, three times as far and a fifth as wide."""
    options = []
    for node, mebibytes in enumerate((FAST_MIB, SLOW_MIB)):
        options += ["-object", f"memory-backend-ram,id=memory{node},size={mebibytes}M"]
    options += ["-numa", "node,nodeid=0,cpus=0-1,memdev=memory0,initiator=0"]
    options += ["-numa", "node,nodeid=1,memdev=memory1,initiator=0", "-numa", "dist,src=0,dst=1,val=20"]
    for node, latency_ns, bandwidth in ((0, 80, "100G"), (1, 300, "20G")):
        target = f"hmat-lb,initiator=0,target={node},hierarchy=memory"
        options += ["-numa", f"{target},data-type=access-latency,latency={latency_ns}"]
        options += ["-numa", f"{target},data-type=access-bandwidth,bandwidth={bandwidth}"]
    return options


def command(parts: archive.Parts, initrd: Path, exchange: Path) -> list[str]:
    """The whole command line of the emulator."""
    shares = []
    for tag, folder, readonly in (("host", Path("/"), ",readonly=on"), ("exchange", exchange, "")):
        local = f"local,path={folder},mount_tag={tag},security_model=none,multidevs=remap{readonly}"
        shares += ["-virtfs", local]
    kernel = ["console=ttyS0", "quiet", "panic=-1", "oops=panic", "nokaslr", *FLUSHING]
    return [
        *parts.emulator,
        *("-machine", f"q35,accel={ACCELERATOR},hmat=on", "-cpu", "max", "-smp", "2"),
        *("-m", f"{FAST_MIB + SLOW_MIB}M", "-display", "none", "-monitor", "none", "-nic", "none"),
        *("-no-reboot", "-nodefaults", "-serial", "stdio"),
        *nodes(),
        *shares,
        *("-kernel", str(parts.kernel), "-initrd", str(initrd), "-append", " ".join(kernel)),
    ]


def boot(start: str, folder: Path, timeout_s: float) -> Boot:
    """Runs the shell script `start` in the guest, which may leave lines of JSON in `EXCHANGE/results`.

    A boot that breaks before the script ends (early oopses of emulated kernels are known) is repeated, twice at most.

    Raises:
        AssertionError: when no boot came to the end; with the console's last lines.
    """
    parts = archive.fetched()
    initrd = folder / "initrd.gz"
    initramfs.built(parts, EXCHANGE, initrd)
    for number in range(1, BOOTS + 1):
        exchange = folder / f"exchange-{number}"
        exchange.mkdir()
        script = exchange / "start"
        script.write_text(f"#!/bin/sh\n{start}")
        script.chmod(0o755)
        begin = time.monotonic()
        console = _console(command(parts, initrd, exchange), parts.environment, timeout_s)
        if "GUEST-END" in console and BROKEN.search(console) is None:
            return Boot(console, _results(exchange / "results"), time.monotonic() - begin, number)
    raise AssertionError(f"the guest broke {BOOTS} times; its console ends in:\n{console[-3000:]}")


def _console(call: list[str], environment: dict[str, str], timeout_s: float) -> str:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        call, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as emulator:
        try:
            return emulator.communicate(timeout=timeout_s)[0]
        except subprocess.TimeoutExpired:
            emulator.kill()
            return f"{emulator.communicate()[0]}\nno end after {timeout_s:.0f} s"


def _results(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]
