"""Boots the guest: two nodes of memory, fast and slow by its firmware's word, so two tiers for the kernel.

There is no performance in it: instructions are emulated, and both nodes are the same memory of the host. It
shows where pages are and what the kernel counts.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.host.guest import archive, initramfs

EXCHANGE = "/run/exchange"
# Stock kernels do not run under every hypervisor's KVM, and what is asserted does not depend on speed.
ACCELERATOR = "tcg"
FAST_MIB, SLOW_MIB = 1024, 512
# Emulated processors flush cached translations only with these; otherwise accessed bits are not set again.
FLUSHING = ["pti=on", "nopcid"]
BROKEN = re.compile(r"GUEST-BROKEN|Kernel panic|Oops:|general protection fault|BUG: ")
START, END = "GUEST-START", "GUEST-END"
# It takes 8 s on an idle machine.
START_TIMEOUT_S = 90
BOOTS = 3


@dataclass(frozen=True)
class Boot:
    """What a boot left behind."""

    console: str
    exchange: Path
    results: list[dict[str, Any]]
    seconds: float
    boots: int


def nodes() -> list[str]:
    """Firmware's description: node 0 with the processors; node 1 without, further away and narrower."""
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


def command(parts: archive.Parts, initrd: Path, exchange: Path, words: Sequence[str]) -> list[str]:
    """The whole command line of the emulator; `words` are further ones for the kernel."""
    shares = []
    for tag, folder, readonly in (("host", Path("/"), ",readonly=on"), ("exchange", exchange, "")):
        local = f"local,path={folder},mount_tag={tag},security_model=none,multidevs=remap{readonly}"
        shares += ["-virtfs", local]
    # Nobody attacks it, and what keeps processors from guessing takes a twentieth of an emulated one's time.
    kernel = ["console=ttyS0", "quiet", "panic=-1", "oops=panic", "nokaslr", "mitigations=off", *words]
    return [
        *parts.emulator,
        *("-machine", f"q35,accel={ACCELERATOR},hmat=on", "-cpu", "max", "-smp", "2"),
        *("-m", f"{FAST_MIB + SLOW_MIB}M", "-display", "none", "-monitor", "none", "-nic", "none"),
        *("-no-reboot", "-nodefaults", "-serial", "stdio"),
        *nodes(),
        *shares,
        *("-kernel", str(parts.kernel), "-initrd", str(initrd), "-append", " ".join(kernel)),
    ]


def boot(
    start: str,
    folder: Path,
    timeout_s: float,
    devices: Sequence[str] = (),
    kernel: Sequence[str] = FLUSHING,
) -> Boot:
    """Runs the shell script `start` in the guest, which may leave lines of JSON in `EXCHANGE/results`.

    `devices` are further words for the emulator, `kernel` for the kernel.

    A boot that breaks before the script begins, or by an oops (emulated kernels are known for early ones), is
    repeated, twice at most; a script that does not come to its end is not.

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
        console = _console(
            [*command(parts, initrd, exchange, kernel), *devices],
            parts,
            folder / f"console-{number}",
            timeout_s,
        )
        seconds = time.monotonic() - begin
        if BROKEN.search(console) is None:
            if END in console:
                return Boot(console, exchange, _results(exchange / "results"), seconds, number)
            if START in console:
                raise AssertionError(f"no end after {seconds:.0f} s; the console ends in:\n{console[-3000:]}")
    raise AssertionError(f"the guest broke {BOOTS} times; its console ends in:\n{console[-3000:]}")


def _console(call: list[str], parts: archive.Parts, path: Path, timeout_s: float) -> str:
    """What the console says until the emulator ends, or is ended since it takes too long or never begins."""
    begin = time.monotonic()
    with path.open("wb") as console:
        streams = {"stdin": subprocess.DEVNULL, "stdout": console, "stderr": subprocess.STDOUT}
        with subprocess.Popen(call, env=parts.environment, **streams) as emulator:  # type: ignore[call-overload]
            while emulator.poll() is None:
                time.sleep(0.2)
                seconds = time.monotonic() - begin
                text = path.read_text(errors="replace")
                if seconds > timeout_s or (seconds > START_TIMEOUT_S and START not in text):
                    emulator.kill()
    return path.read_text(errors="replace")


def _results(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]
