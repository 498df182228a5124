"""A system as its authors published it: a library that is built for each configuration, and loaded before the
workload."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pydantic import Field

from tiertune.document import Path as Place
from tiertune.fields import Number, Text
from tiertune.files import Strict
from tiertune.workloads.secret import clear_secrets

SYSTEMS = ("hemem",)
"""Those that are published as such a library."""

HEADER = "header"
SIZES = ("fast_bytes", "slow_bytes")
SETS_ITSELF = "LD_PRELOAD"
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Upstream(Strict):
    """How a system's own library is made and what it works on, where live trials are to be of that."""

    build: list[Text] = Field(
        min_length=1,
        max_length=64,
        description="program and arguments that build the library, without a shell; {header} is a file with"
        " the macros that `tiertune show SYSTEM --native` prints, {fast_bytes} and {slow_bytes} are sizes",
    )
    library: Text = Field(description="the library that it writes, such as /opt/hemem/src/libhemem.so")
    fast: Text = Field(description="device of fast memory, such as /dev/dax0.0 (variable DRAMPATH)")
    slow: Text = Field(description="device of slow memory, such as /dev/dax1.0 (variable NVMPATH)")
    environment: dict[str, Text] = Field(
        default={},
        max_length=64,
        description="further variables for the workload; {fast_bytes} and {slow_bytes} as above",
    )
    build_timeout_s: Number = Field(
        default=600.0, gt=0, le=86_400, description="seconds after which a build is ended"
    )

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Files are named from the root, as the build runs in a folder of its own; placeholders are known."""
        for key in ("library", "fast", "slow"):
            if not getattr(self, key).startswith("/"):
                yield (key,), f"'{getattr(self, key)}' is not a whole path; it begins with /"
        for number, word in enumerate(self.build):
            yield from _placeholders(("build", number), word, (HEADER, *SIZES))
        for name, value in self.environment.items():
            if not VARIABLE.fullmatch(name):
                yield ("environment", name), "is no name of a variable, such as DRAMOFFSET"
            if name == SETS_ITSELF:
                yield ("environment", name), "is the library; leave it out"
            yield from _placeholders(("environment", name), value, SIZES)
        # What a program is given, a library in it has.
        yield from clear_secrets(self.environment, "in the workload's host part")

    @property
    def sets(self) -> frozenset[str]:
        """Variables that the workload is given."""
        return frozenset(self.variables("", dict.fromkeys(SIZES, 0)))

    def words(self, header: str, sizes: Mapping[str, int]) -> list[str]:
        """The command that builds a library."""
        return [_filled(word, {HEADER: header, **_texts(sizes)}) for word in self.build]

    def variables(self, library: str, sizes: Mapping[str, int]) -> dict[str, str]:
        """What the workload's environment has beside that of tiertune."""
        usual = {"DRAMPATH": self.fast, "NVMPATH": self.slow}
        usual |= {"DRAMSIZE": str(sizes["fast_bytes"]), "NVMSIZE": str(sizes["slow_bytes"])}
        given = {name: _filled(value, _texts(sizes)) for name, value in self.environment.items()}
        return {**usual, **given, SETS_ITSELF: library}


def _placeholders(place: Place, text: str, known: tuple[str, ...]) -> Iterator[tuple[Place, str]]:
    for name in re.findall(r"\{(\w*)\}", text):
        if name not in known:
            there = ", ".join(f"{{{one}}}" for one in known)
            yield place, f"{{{name}}} stands for nothing; there are {there}"


def _texts(sizes: Mapping[str, int]) -> dict[str, str]:
    return {name: str(value) for name, value in sizes.items()}


def _filled(text: str, known: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: known[found[1]], text)
