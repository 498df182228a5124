"""How a workload runs on a real host: its command, and where in the output its metrics are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from tiertune.document import Path as Place
from tiertune.fields import Integer, Number, Size, Text
from tiertune.files import Strict
from tiertune.units import format_size

PLACEHOLDERS = ("threads", "seed")
PROCESSORS = r"\d+(-\d+)?(,\d+(-\d+)?)*"
HEADROOM_BYTES = 256 << 20
"""What a container may have over the footprint and a twentieth of it: the daemon, the program itself."""


class NoMetrics(ValueError):
    """The output is not what the workload's file says; a sentence."""


class ContainerPart(Strict):
    """What a container of the workload is made of and may have, where a campaign runs it in one."""

    image: Text | None = Field(
        default=None,
        description="image by its digest, NAME@sha256:...; absent: one that is made here and holds tierload",
    )
    memory: Size | None = Field(
        default=None, description="most memory; absent: the footprint, a twentieth of it and 256 MiB"
    )
    cpus: Number | None = Field(
        default=None, gt=0, le=4096, description="most processor time, in processors; absent: all"
    )
    processors: Text | None = Field(
        default=None, description="processors that it may run on, such as 0-7,16; absent: all"
    )
    pids: Integer = Field(default=4096, ge=16, le=2**22, description="most processes and threads")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Processors are a list of numbers and ranges."""
        if self.processors is not None and not re.fullmatch(PROCESSORS, self.processors):
            yield ("processors",), f"'{self.processors}' is no list of processors such as 0-7,16"


class HostPart(Strict):
    """What is run on a host, for how long at most, and how its output is read."""

    command: list[Text] = Field(
        min_length=1, description="program and arguments; {threads} and {seed} stand for those of the trial"
    )
    footprint: Size = Field(description="memory that the run takes, of which the ratio makes a part fast")
    metrics: Literal["tierload"] | dict[str, Text] = Field(
        default="tierload",
        description="tierload (run with --json), or for each metric a regular expression with one group",
    )
    timeout_s: Number = Field(
        default=3600.0, gt=0, le=604_800, description="seconds after which a run is ended"
    )
    container: ContainerPart | None = Field(
        default=None, description="image and limits where it runs in a container; absent: our own image"
    )

    @property
    def memory_bytes(self) -> int:
        """Most memory of a container."""
        given = self.container.memory if self.container is not None else None
        return given if given is not None else self.footprint * 21 // 20 + HEADROOM_BYTES

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Placeholders are known, expressions have one group, and a container holds the footprint."""
        if self.memory_bytes < self.footprint:
            yield (
                ("container", "memory"),
                (
                    f"{format_size(self.memory_bytes)} is less than the footprint;"
                    f" the smallest valid size is {format_size(self.footprint)}"
                ),
            )
        for number, word in enumerate(self.command):
            for name in re.findall(r"\{(\w*)\}", word):
                if name not in PLACEHOLDERS:
                    yield (
                        ("command", number),
                        f"{{{name}}} stands for nothing; there are {{threads}} and {{seed}}",
                    )
        if self.metrics == "tierload":
            if "--json" not in self.command:
                yield ("command",), "lacks --json, from which the metrics of tierload are read"
            return
        for name, pattern in self.metrics.items():
            try:
                groups = re.compile(pattern).groups
            except re.error as error:
                yield ("metrics", name), f"'{pattern}' is no regular expression: {error}"
            else:
                if groups != 1:
                    yield (
                        ("metrics", name),
                        f"'{pattern}' has {groups} groups; it needs one, around the number",
                    )

    def words(self, threads: int, seed: int) -> list[str]:
        """The command of a trial."""
        known = {"threads": str(threads), "seed": str(seed)}
        return [re.sub(r"\{(\w+)\}", lambda found: known[found[1]], word) for word in self.command]

    def read(self, output: str) -> dict[str, float]:
        """The metrics in the output of a run. Raises NoMetrics where they are not there."""
        return _tierload(output) if self.metrics == "tierload" else _matched(output, self.metrics)


def _tierload(output: str) -> dict[str, float]:
    """Metrics of all runs of a `tierload --json`: runtime and throughput, and what the kernel says itself."""
    documents = []
    for line in output.splitlines():
        try:
            documents.append(json.loads(line))
        except ValueError:
            continue  # something else on the same output, such as a warning of a library
    events = [document for document in documents if isinstance(document, dict)]
    end = next((event for event in events if event.get("event") == "end"), None)
    if end is None:
        raise NoMetrics("tierload did not say how it ended")
    trials = [event for event in events if event.get("event") == "trial"]
    failed = [c["name"] for trial in trials for c in trial.get("checks", ()) if not c["passed"]]
    if failed:
        raise NoMetrics(f"tierload computed a wrong result: {failed[0]}")
    own = {name: float(value) for trial in trials for name, value in trial.get("metrics", {}).items()}
    said = {name: float(value) for name, value in end.items() if isinstance(value, int | float)}
    return {**own, **said}


def _matched(output: str, patterns: dict[str, str]) -> dict[str, float]:
    """The last number that each expression finds, since programs print intermediate ones before."""
    found: dict[str, float] = {}
    for name, pattern in patterns.items():
        hits = re.findall(pattern, output, re.MULTILINE)
        if not hits:
            raise NoMetrics(f"nothing in the output matches '{pattern}', which is {name}")
        try:
            found[name] = float(hits[-1])
        except ValueError as error:
            raise NoMetrics(f"'{hits[-1]}', which '{pattern}' finds for {name}, is no number") from error
    return found
