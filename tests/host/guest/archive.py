"""What the guest is made of, fetched from Debian's archive: a kernel, an emulator and a static shell.

Nothing is installed: packages are unpacked into a cache folder (`$XDG_CACHE_HOME/tiertune/guest`), with
lists of packages of their own, so that neither the machine's sources nor what it has installed matter. The
emulator comes with all its libraries, down to the loader, and runs on those.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Debian 12's own kernel (6.1) has neither DAMON nor PAGEMAP_SCAN, and its QEMU (7.2) breaks newer kernels.
SUITE, NEWER = "bookworm", "bookworm-backports"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
KERNEL = "linux-image-amd64"
EMULATOR = "qemu-system-x86"
SHELL = "busybox-static"
DEFAULT_SITE = "http://deb.debian.org/debian"
TIMEOUT_S = 300


class NoGuestError(RuntimeError):
    """The guest cannot be put together here; the message says what is missing."""


@dataclass(frozen=True)
class Parts:
    """Where the unpacked parts lie."""

    root: Path

    @property
    def kernel(self) -> Path:
        """The kernel's image."""
        return next(self.root.glob("kernel/boot/vmlinuz-*"))

    def module(self, name: str) -> Path:
        """A kernel module, still packed (`.ko.xz`)."""
        return next(self.root.glob(f"kernel/lib/modules/**/{name}.ko.xz"))

    @property
    def shell(self) -> Path:
        """A static busybox."""
        return self.root / "shell/bin/busybox"

    @property
    def emulator(self) -> list[str]:
        """The command that starts QEMU on the libraries it came with."""
        root = self.root / "emulator"
        libraries = f"{root}/lib/x86_64-linux-gnu:{root}/usr/lib/x86_64-linux-gnu"
        loader = f"{root}/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
        program = f"{root}/usr/bin/qemu-system-x86_64"
        firmware = ("-L", f"{root}/usr/share/seabios", "-L", f"{root}/usr/share/qemu")
        return [loader, "--library-path", libraries, program, *firmware]

    @property
    def environment(self) -> dict[str, str]:
        """Keeps that QEMU from modules of another one that the machine has."""
        return {**os.environ, "QEMU_MODULE_DIR": f"{self.root}/emulator/usr/lib/x86_64-linux-gnu/qemu"}


def run(*command: str, environment: dict[str, str] | None = None, where: Path | None = None) -> str:
    """Standard output of a command.

    Raises:
        NoGuestError: when it fails, with the end of what it said.
    """
    done = subprocess.run(
        command, env=environment, cwd=where, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    if done.returncode != 0:
        raise NoGuestError(f"{' '.join(command)} failed: {done.stderr.strip()[-400:]}")
    return done.stdout


def site() -> str:
    """The mirror of Debian that this machine uses, where it uses one."""
    listing = run("apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages")
    sites = (line.rstrip("/") for line in listing.splitlines())
    return next((line for line in sites if line.endswith("/debian")), DEFAULT_SITE)


class Apt:
    """Package lists of our own, on top of the machine's settings (mirror, proxy)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for made in ("lists/partial", "archives/partial", "sources", "preferences"):
            (folder / made).mkdir(parents=True, exist_ok=True)
        # An empty list of what is installed: packages come with everything that they need.
        (folder / "status").write_text("")
        line = f"deb [arch=amd64 signed-by={KEYRING}] {site()}"
        (folder / "sources.list").write_text(f"{line} {SUITE} main\n{line} {NEWER} main\n")
        settings = {
            "Dir::State": folder,
            "Dir::State::Lists": folder / "lists",
            "Dir::State::status": folder / "status",
            "Dir::Cache": folder,
            "Dir::Cache::Archives": folder / "archives",
            "Dir::Etc::SourceList": folder / "sources.list",
            "Dir::Etc::SourceParts": folder / "sources",
            "Dir::Etc::PreferencesParts": folder / "preferences",
            # The user that apt changes to may not read a cache folder in somebody's home.
            "APT::Sandbox::User": "root",
        }
        text = "".join(f'{key} "{value}";\n' for key, value in settings.items())
        (folder / "apt.conf").write_text(text)
        self.environment = {**os.environ, "APT_CONFIG": str(folder / "apt.conf"), "LC_ALL": "C"}
        run("apt-get", "update", "-qq", environment=self.environment)

    def closure(self, package: str, suite: str) -> list[Path]:
        """A package and all that it needs, downloaded."""
        shutil.rmtree(self.folder / "archives")
        (self.folder / "archives/partial").mkdir(parents=True)
        options = ["-y", "-qq", "--no-install-recommends", "--download-only", "-t", suite]
        run("apt-get", *options, "install", package, environment=self.environment)
        return sorted((self.folder / "archives").glob("*.deb"))

    def alone(self, package: str, suite: str) -> Path:
        """One package without what it needs, downloaded."""
        place = self.folder / "alone"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        run("apt-get", "download", "-qq", "-t", suite, package, environment=self.environment, where=place)
        return next(place.glob("*.deb"))

    def newest_kernel(self) -> str:
        """The package behind the one that always names the newest kernel."""
        said = run("apt-cache", "depends", "--important", f"{KERNEL}/{NEWER}", environment=self.environment)
        names = [line.split()[-1] for line in said.splitlines() if "Depends: linux-image-" in line]
        if not names:
            raise NoGuestError(f"{NEWER} has no kernel under the name {KERNEL}")
        return names[0]


def fetched() -> Parts:
    """The parts, from the cache or else from the archive (150 MB, about 20 s).

    Raises:
        NoGuestError: without apt, without Debian's keys, or when the archive cannot be reached.
    """
    for needed in ("apt-get", "dpkg"):
        if shutil.which(needed) is None:
            raise NoGuestError(f"the guest is unpacked from Debian packages, and there is no {needed} here")
    if not Path(KEYRING).exists():
        raise NoGuestError(f"{KEYRING} is missing: apt-get install debian-archive-keyring")
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tiertune/guest"
    cache.mkdir(parents=True, exist_ok=True)
    parts = Parts(cache / recipe)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if parts.root.exists():
            return parts
        for old in cache.iterdir():
            if old.is_dir():
                shutil.rmtree(old)
        work = cache / "unfinished"
        apt = Apt(work / "apt")
        unpack([apt.alone(apt.newest_kernel(), NEWER)], work / "kernel")
        unpack([apt.alone(SHELL, SUITE)], work / "shell")
        unpack(apt.closure(EMULATOR, NEWER), work / "emulator")
        shutil.rmtree(work / "apt")
        work.rename(parts.root)
    return parts


def unpack(packages: list[Path], into: Path) -> None:
    """Unpacks packages over each other."""
    into.mkdir(parents=True, exist_ok=True)
    for package in packages:
        run("dpkg", "-x", str(package), str(into))
