"""Presets of a workload: the same program at a size with a name, such as `smoke`, `ci` or `paper`.

A workload is named with one as `NAME@PRESET` wherever it is named at all: on command lines, in campaigns and
in sweeps. It then is called `NAME-PRESET`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field

from tiertune import files
from tiertune.document import Path as Place
from tiertune.fields import Flag, Integer, Name, Number, Size, Text
from tiertune.files import InputError, Strict, find

__all__ = ["Preset", "PresetName", "lasting", "located"]

SEPARATOR = "@"
# Neither a folder nor an ending: what follows an @ in a path is the preset only where it can be none of them.
_NAMED = re.compile(rf"(?P<workload>.+){SEPARATOR}(?P<preset>[^/.{SEPARATOR}]*)")

PresetName = Name

Value = Flag | Integer | Number | Text


class Preset(Strict):
    """The workload at another size: what is given here stands in the place of what the workload says."""

    description: Text = Field(description="one line on the workload at this size")
    source: Text | None = Field(
        default=None, description="where size and threads are from; absent: as the workload"
    )
    threads: Annotated[Integer, Field(ge=1, le=4096)] | None = Field(
        default=None, description="threads of the application; absent: as the workload says"
    )
    rss: Size | None = Field(
        default=None, description="resident size that the source reports, shown beside the footprint"
    )
    record: dict[str, Value] = Field(
        default={}, description="parameters of the recorded kernel that are other ones"
    )
    carry: dict[str, Value] = Field(
        default={}, description="sizes that the recording is carried to, and loading, that are other ones"
    )
    share: Annotated[Number, Field(gt=0, le=1)] | None = Field(
        default=None, description="for streams: part of their operations and seconds that is run; absent: all"
    )
    size_share: Annotated[Number, Field(gt=0, le=1)] | None = Field(
        default=None, description="for streams: part of the size of their objects; absent: all"
    )

    @property
    def resizes(self) -> bool:
        """Whether the program itself runs at another size than in the workload."""
        sizes = self.carry.keys() - {"loading"}
        return bool(self.record or sizes or self.share is not None or self.size_share is not None)

    def fitting(
        self, kernel: str | None, has_streams: bool, counted: Iterable[str]
    ) -> Iterator[tuple[Place, str]]:
        """What is given for another kind of workload. `counted`: what the kernel that hosts run in the place
        of streams is carried by and is no size in bytes."""
        if kernel is None:
            for key in ("record", "carry"):
                if getattr(self, key):
                    yield (key,), "is for a kernel that is recorded, of which this workload has none"
        elif "kernel" in self.record:
            text = f"'{self.record['kernel']}' cannot be chosen by a preset, which is of the same program"
            yield ("record", "kernel"), f"{text}; the kernel is {kernel}, leave it out"
        if self.share is not None and not has_streams:
            yield ("share",), "is for streams, of which this workload has none; carry.runs is of a recording"
        if self.size_share is not None and not has_streams:
            yield ("size_share",), "is for streams, of which this workload has none; carry is of a recording"
        for name in counted:
            if self.size_share is not None:
                text = f"is of sizes in bytes, and what hosts run has its size by native.{name}"
                yield ("size_share",), f"{text}; leave one of the two out"


def located(name_or_path: str, base: Path | None = None) -> tuple[Path, str | None]:
    """The file of a workload and the preset that is asked for; raises `InputError` as `find` does."""
    named = _NAMED.fullmatch(name_or_path)
    if named is None or ("/" in name_or_path and Path(base or "", name_or_path).is_file()):
        return find("workloads", name_or_path, base), None
    if not named["preset"]:
        raise InputError(f"'{name_or_path}': no preset stands after the {SEPARATOR}; leave that out")
    return find("workloads", named["workload"], base), named["preset"]


def lasting(name_or_path: str, base: Path | None = None) -> str:
    """The workload in words that mean the same from anywhere: as `files.lasting`, and a preset stays."""
    _, preset = located(name_or_path, base)
    if preset is None:
        return files.lasting("workloads", name_or_path, base)
    return files.lasting("workloads", name_or_path.rpartition(SEPARATOR)[0], base) + f"{SEPARATOR}{preset}"
