"""A bare Debian machine: a root file system of Debian's packages, where a user without rights runs commands.

Packages are unpacked into a file system in memory and not set up, so nothing of this machine is in there but
its kernel, its network and what it is told of package indices.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.host.guest.archive import SUITE, Apt, run, unpack

ESSENTIAL = "?essential"
# With everything that tiertune needs it is 1.3 GiB.
SIZE = "4g"
USER = 1000
HOME = "/home/user"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
JOIN = 'echo $$ > "$1"; shift; exec "$@"'
# The namespaces go with the command, and all that was mounted in them.
ENTER = f"""
set -e
root=$1
shift
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs -o mode=755 dev "$root/dev"
for device in null zero full random urandom; do
    : > "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/shm"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
exec chroot --userspec={USER}:{USER} "$root" /usr/bin/env -i "$@"
"""


@dataclass
class BareRoot:
    """Such a machine; `environment` is what commands find set beside the user's own."""

    root: Path
    apt: Apt
    environment: dict[str, str]
    unpacked: set[str] = field(default_factory=set)

    @property
    def home(self) -> Path:
        """The user's folder, from outside."""
        return self.root / HOME[1:]

    def install(self, *packages: str) -> None:
        """Unpacks packages and all that they need and is not there yet."""
        options = ["-y", "-qq", "--no-install-recommends", "--download-only", "-t", SUITE]
        run("apt-get", *options, "install", ESSENTIAL, *packages, environment=self.apt.environment)
        found = sorted((self.apt.folder / "archives").glob("*.deb"))
        unpack([package for package in found if package.name not in self.unpacked], self.root)
        self.unpacked |= {package.name for package in found}

    def bring(self, path: Path) -> None:
        """Copies a file or folder into the user's folder, where it is the user's."""
        kept = self.home / path.name
        shutil.copytree(path, kept) if path.is_dir() else shutil.copy2(path, kept)
        run("chown", "-R", f"{USER}:{USER}", str(kept))

    def run(
        self, script: str, group: Path | None = None, timeout_s: float = 300.0
    ) -> subprocess.CompletedProcess[str]:
        """Runs a script of bash as the user, in the user's folder and in a control group."""
        known = {"HOME": HOME, "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **self.environment}
        words = [f"{name}={value}" for name, value in known.items()]
        joined = [] if group is None else ["sh", "-c", JOIN, "join", str(group / "cgroup.procs")]
        apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        command = [*joined, *apart, "bash", "-c", ENTER, "enter", str(self.root), *words]
        return subprocess.run(
            [*command, "bash", "-c", f"set -e; cd; {script}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )


@contextmanager
def bare_root(folder: Path, environment: Mapping[str, str]) -> Iterator[BareRoot]:
    """A machine with the packages that every Debian has, below `folder`; gone afterwards."""
    root = folder / "root"
    root.mkdir()
    run("mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=755", "bare", str(root))
    try:
        made = BareRoot(root, Apt(folder / "apt"), {**index_settings(), **environment})
        made.install()
        # What maintainers' scripts would have made.
        (root / "usr/bin/awk").symlink_to("mawk")
        made.home.mkdir(parents=True)
        os.chown(made.home, USER, USER)
        for file in ("/etc/resolv.conf", "/etc/hosts", CERTIFICATES):
            if Path(file).is_file():
                place = root / file[1:]
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, place)
        yield made
    finally:
        run("umount", "--lazy", str(root))


def index_settings() -> dict[str, str]:
    """What pip is told on this machine about the package index, as environment variables."""
    settings = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    for line in run(sys.executable, "-m", "pip", "config", "list").splitlines():
        name, _, value = line.partition("=")
        key = name.rpartition(".")[2]
        if key in ("index-url", "extra-index-url", "trusted-host", "cert", "default-timeout"):
            settings[f"PIP_{key.replace('-', '_').upper()}"] = value.strip("'")
    return settings
