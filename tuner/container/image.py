"""Images of containers: our own, made from two static programs, and others, pinned by digests."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import struct
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tiertune.tuner.backend import HostUnfit

NAME = "tiertune"
PROGRAMS = ("tierd", "tierload")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_BEGINNING = "1970-01-01T00:00:00Z"
_INTERPRETER = 3
"""Type of the ELF segment that names a dynamic loader."""


@dataclass(frozen=True)
class OwnImage:
    """An image as `docker load` takes it. Equal programs give equal bytes, on any day and machine."""

    tag: str
    layer: str
    archive: bytes


def own_image(programs: Mapping[str, Path]) -> OwnImage:
    """An image from nothing with these programs in /bin. Raises HostUnfit where one is not static."""
    contents = {f"bin/{name}": static(path) for name, path in sorted(programs.items())}
    layer = tar_of(contents, folders=("bin", "tmp"))
    digest = hashlib.sha256(layer).hexdigest()
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "created": _BEGINNING,
        "config": {"Env": ["PATH=/bin"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created": _BEGINNING, "created_by": "tiertune"}],
    }
    text = json.dumps(config, sort_keys=True).encode()
    name = f"{hashlib.sha256(text).hexdigest()}.json"
    tag = f"{NAME}:{digest[:12]}"
    manifest = [{"Config": name, "RepoTags": [tag], "Layers": ["layer.tar"]}]
    files = {name: text, "layer.tar": layer, "manifest.json": json.dumps(manifest).encode()}
    return OwnImage(tag, f"sha256:{digest}", tar_of(files))


def static(path: Path) -> bytes:
    """The bytes of a program that runs where nothing else is. Raises HostUnfit for any other."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise HostUnfit(f"{path}: {error.strerror}") from error
    if content[:4] != b"\x7fELF" or content[4] != 2:
        raise HostUnfit(f"{path} is no program for an image; `make {path.name}` builds one")
    start, size, count = struct.unpack_from("<Q", content, 32)[0], *struct.unpack_from("<HH", content, 54)
    kinds = {struct.unpack_from("<I", content, start + number * size)[0] for number in range(count)}
    if _INTERPRETER in kinds:
        raise HostUnfit(
            f"{path} needs shared libraries, which a container lacks; `make {path.name}` builds a static one"
        )
    return content


def tar_of(files: Mapping[str, bytes], folders: tuple[str, ...] = ()) -> bytes:
    """A tar of root's files that anyone may run, of no time."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as made:
        for name in folders:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            made.addfile(entry)
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            made.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def is_pinned(name: str) -> bool:
    """Whether a name says which content it means: NAME@sha256:… or an image's id, sha256:…"""
    _, found, digest = name.rpartition("sha256:")
    return bool(found) and len(digest) == 64 and set(digest) <= set("0123456789abcdef")
