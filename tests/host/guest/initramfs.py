"""The first file system of the guest: a shell, some kernel modules, and the few lines that mount the rest."""

from __future__ import annotations

import gzip
import lzma
import stat
from pathlib import Path

from tests.host.guest.archive import Parts

# The guest's root is the host's, read-only over 9p, under a layer in memory.
MODULES = ["netfs", "9pnet", "9pnet_virtio", "9p", "overlay"]
FOLDERS = ["bin", "dev", "host", "layer", "modules", "proc", "root", "sys"]

INIT = """#!/bin/busybox sh
B=/bin/busybox
$B mount -t proc proc /proc
$B mount -t devtmpfs dev /dev
for M in {modules}; do $B insmod /modules/$M.ko || echo "GUEST-BROKEN module $M"; done
O=trans=virtio,version=9p2000.L,msize=524288
$B mount -t 9p -o $O,cache=loose,ro host /host || echo "GUEST-BROKEN root"
$B mount -t tmpfs layer /layer
$B mkdir /layer/over /layer/work
L=lowerdir=/host,upperdir=/layer/over,workdir=/layer/work
$B mount -t overlay -o $L root /root || echo "GUEST-BROKEN layer"
R=/root
$B mkdir -p $R/proc $R/sys $R/dev $R/run $R{exchange}
$B mount -t proc proc $R/proc
$B mount -t sysfs sys $R/sys
$B mount -t devtmpfs dev $R/dev
$B mount -t debugfs debug $R/sys/kernel/debug
$B mount -t tmpfs run $R/run
$B mkdir -p $R{exchange}
$B mount -t 9p -o $O,cache=none exchange $R{exchange} || echo "GUEST-BROKEN exchange"
echo GUEST-START
$B chroot $R {exchange}/start
echo "GUEST-END $?"
$B sync
$B poweroff -f
"""


class Archive:
    """A cpio archive in the kernel's format (`newc`), the same bytes each time."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.count = 0

    def add(self, name: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
        """Adds an entry; `device` is the major and minor number of a device file."""
        path = name.encode() + b"\0"
        self.count += 1
        fields = (self.count, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(path), 0)
        self.data += b"070701" + b"".join(b"%08X" % field for field in fields) + path
        self._pad()
        self.data += content
        self._pad()

    def _pad(self) -> None:
        self.data += b"\0" * (-len(self.data) % 4)

    def closed(self) -> bytes:
        """The whole archive."""
        self.add("TRAILER!!!", 0)
        return bytes(self.data)


def built(parts: Parts, exchange: str, path: Path) -> None:
    """Writes the file; `exchange` is where the folder that is shared with the host appears in the guest."""
    archive = Archive()
    for folder in FOLDERS:
        archive.add(folder, stat.S_IFDIR | 0o755)
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    archive.add("bin/busybox", stat.S_IFREG | 0o755, parts.shell.read_bytes())
    for module in MODULES:
        content = lzma.decompress(parts.module(module).read_bytes())
        archive.add(f"modules/{module}.ko", stat.S_IFREG | 0o644, content)
    script = INIT.format(modules=" ".join(MODULES), exchange=exchange)
    archive.add("init", stat.S_IFREG | 0o755, script.encode())
    path.write_bytes(gzip.compress(archive.closed(), 1, mtime=0))
