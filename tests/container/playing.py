"""An engine that is made up: containers are processes of this machine, limits are whatever was asked for."""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiertune.tuner.container.confinement import FOLDER, RIGHTS
from tiertune.tuner.container.engine import Order, Ran
from tiertune.tuner.container.image import OwnImage
from tiertune.tuner.container.owner import boot_id
from tiertune.tuner.live.scope import run_in_scope

IMAGE = "sha256:" + "1" * 64
Changed = Callable[[dict[str, Any]], dict[str, Any]]


def program(path: Path, *, interpreter: bool = False) -> Path:
    """A file with the head of a program, static or not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = bytearray(b"\x7fELF\x02" + bytes(59))
    struct.pack_into("<Q", head, 32, 64)
    struct.pack_into("<HH", head, 54, 56, 1)
    path.write_bytes(bytes(head) + struct.pack("<I", 3 if interpreter else 1) + bytes(52))
    return path


def seen_inside(options: dict[str, Any]) -> dict[str, Any]:
    """What `tierd limits` sees in a container that has all that these options ask for."""
    return {
        "memory_bytes": options["mem_limit"] // 4096 * 4096,
        "cpus": options["nano_cpus"] / 1e9 if "nano_cpus" in options else None,
        "pids": options["pids_limit"],
        "processors": options.get("cpuset_cpus", "0-3"),
        "nodes": options["cpuset_mems"],
        "capabilities": sum(1 << RIGHTS[name] for name in options.get("cap_add", ())),
        "no_new_privileges": True,
        "seccomp": True,
        "read_only": True,
        "interfaces": ["lo"],
        "boot": boot_id(),
    }


class PlayedEngine:
    """`programs` stand in for those of the image; `change` has what a container sees of its limits, `oom`
    whether the kernel ended it."""

    def __init__(
        self, programs: dict[str, str], change: Changed = lambda inside: inside, oom: bool = False
    ) -> None:
        self.programs, self.change, self.oom = programs, change, oom
        self.left = 0
        self.orders: list[Order] = []

    def facts(self) -> dict[str, str]:
        return {"engine": "made up"}

    def own(self, image: OwnImage) -> str:
        return IMAGE

    def given(self, name: str) -> str:
        return name

    def sweep(self) -> int:
        left, self.left = self.left, 0
        return left

    def stop(self) -> None:
        pass

    def run(self, order: Order, timeout_s: float) -> Ran:
        self.orders.append(order)
        with tempfile.TemporaryDirectory() as place:
            for name, content in order.files.items():
                Path(place, name).write_bytes(content)
            inside = self.change(seen_inside(dict(order.options)))
            Path(place, "limits.json").write_text(json.dumps(inside))
            words = [word.replace(FOLDER, place) for word in order.command]
            words = words[words.index("--") + 1 :]
            words[0] = self.programs.get(words[0], words[0])
            ended = run_in_scope(words, Path(place), timeout_s)
            fetched = {
                name: Path(place, name).read_text() for name in order.fetch if Path(place, name).is_file()
            }
        return Ran(ended, fetched, self.oom)
