"""Debian's own sshd without installing it: an installed one would listen on the machine that tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

PACKAGES = ("openssh-server", "libwrap0")


def unpacked_sshd(folder: Path) -> Path:
    """A tree with `usr/sbin/sshd` and the library that only it needs, from Debian's archive."""
    tree = folder / "sshd-tree"
    if (tree / "usr/sbin/sshd").is_file():
        return tree
    downloads = folder / "sshd-packages"
    downloads.mkdir(parents=True, exist_ok=True)
    fetch = ["apt-get", "download", "-qq", *PACKAGES]
    if subprocess.run(fetch, cwd=downloads, capture_output=True, check=False).returncode:
        subprocess.run(["apt-get", "update", "-qq"], capture_output=True, check=True)
        subprocess.run(fetch, cwd=downloads, capture_output=True, check=True)
    for package in sorted(downloads.glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", str(package), str(tree)], check=True)
    return tree
