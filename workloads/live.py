"""How a workload runs on a real host: its command, and where in the output its metrics are."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from tiertune.document import Path as Place
from tiertune.engine import kernels
from tiertune.fields import Integer, Number, Size, Text
from tiertune.files import Strict
from tiertune.units import format_size
from tiertune.workloads.phases import figures, phases_of
from tiertune.workloads.reading import Check, NoMetrics, Reading, number_in
from tiertune.workloads.secret import clear_secrets, secret_mistakes

__all__ = ["ContainerPart", "HostPart", "NoMetrics", "Probe", "UpstreamPart", "events_of"]

PROGRAMS = "programs"
PLACEHOLDERS = ("threads", "seed")
PROCESSORS = r"\d+(-\d+)?(,\d+(-\d+)?)*"
HEADROOM_BYTES = 256 << 20
"""What a container may have over the footprint and a twentieth of it: the daemon, the program itself."""


OF_TIERLOAD = ("runtime_s", "throughput_mops")
"""What `tierload` says of every kernel."""

WALL = "wall"
"""In place of an expression: the time from the start of the program to its end."""


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


class Probe(Strict):
    """How it is found out, before the first trial, that a program is the one that is meant."""

    arguments: list[Text] = Field(description="arguments with which the program says what it is")
    expect: Text = Field(description="regular expression that its output or its error output has to match")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """The expression is one."""
        try:
            re.compile(self.expect)
        except re.error as error:
            yield ("expect",), f"'{self.expect}' is no regular expression: {error}"


class HostPart(Strict):
    """What is run on a host, for how long at most, and how its output is read."""

    command: list[Text] = Field(
        min_length=1, description="program and arguments; {threads} and {seed} stand for those of the trial"
    )
    footprint: Size = Field(description="memory that the run takes, of which the ratio makes a part fast")
    metrics: Literal["tierload"] | dict[str, Text] = Field(
        default="tierload",
        description="tierload (run with --json), or for each metric an expression with one group, or wall",
    )
    readings: dict[str, Reading] | None = Field(
        default=None, description="metrics that take more than an expression, beside or instead of `metrics`"
    )
    checks: dict[str, Check] | None = Field(
        default=None, description="by name, what the output has to say for a result to be right"
    )
    environment: dict[str, Text] | None = Field(
        default=None, description="variables for the command; placeholders as there"
    )
    secret_environment: dict[str, Text] | None = Field(
        default=None,
        description="variables whose values are secret: for each the variable of tiertune's own environment"
        " that has the value when a trial begins; only that name is stored",
    )
    exit_codes: list[Integer] | None = Field(
        default=None, min_length=1, description="exit codes of a run that ended well; absent: 0"
    )
    probe: Probe | None = Field(default=None, description="how the program is told from others; absent: not")
    timeout_s: Number = Field(
        default=3600.0, gt=0, le=604_800, description="seconds after which a run is ended"
    )
    container: ContainerPart | None = Field(
        default=None, description="image and limits where it runs in a container; absent: our own image"
    )

    @property
    def _placeholders(self) -> tuple[str, ...]:
        return PLACEHOLDERS

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
        given: list[tuple[Place, str]] = [
            (("command", number), word) for number, word in enumerate(self.command)
        ]
        given += [(("environment", name), word) for name, word in (self.environment or {}).items()]
        for place, word in given:
            for name in re.findall(r"\{(\w*)\}", word):
                if name not in self._placeholders:
                    known = [f"{{{one}}}" for one in self._placeholders]
                    told = f"{', '.join(known[:-1])} and {known[-1]}"
                    yield place, f"{{{name}}} stands for nothing; there are {told}"
        for name in self.environment or {}:
            if not re.fullmatch(r"[A-Za-z_]\w*", name):
                yield ("environment",), f"'{name}' is no name of a variable"
        yield from clear_secrets(self.environment or {})
        yield from secret_mistakes(self.secret_environment or {}, self.environment or {})
        if self.metrics == "tierload":
            if "--json" not in self.command:
                yield ("command",), "lacks --json, from which the metrics of tierload are read"
            return
        for name, regex in self.metrics.items():
            if name in (self.readings or {}):
                yield ("readings", name), "is among the metrics, too; keep one of the two"
            if regex != WALL:
                for _, sentence in Reading.model_construct(regex=regex).mistakes():
                    yield ("metrics", name), sentence

    @property
    def measures(self) -> frozenset[str]:
        """What every run is measured by, beside what a kernel of ours says itself."""
        own = OF_TIERLOAD if self.metrics == "tierload" else self.metrics
        return frozenset((*own, *(self.readings or {})))

    @property
    def ends_well(self) -> frozenset[int]:
        """Exit codes of a run that ended well."""
        return frozenset(self.exit_codes or [0])

    def words(self, threads: int, seed: int) -> list[str]:
        """The command of a trial."""
        known = {"threads": str(threads), "seed": str(seed)}

        def filled(word: str) -> str:
            return re.sub(r"\{(\w+)\}", lambda found: known[found[1]], word)

        variables = [f"{name}={filled(word)}" for name, word in (self.environment or {}).items()]
        return [*(["env", *variables] if variables else []), *map(filled, self.command)]

    def read(self, output: str, errors: str = "", wall_s: float | None = None) -> dict[str, float]:
        """The metrics of a run: a pure function of what it said and how long it took.

        Raises NoMetrics where they are not there, or where a check fails.
        """
        for name, check in (self.checks or {}).items():
            check.look(name, output, errors)
        readings = self.readings or {}
        found = {name: number_in(name, reading, output, errors) for name, reading in readings.items()}
        if self.metrics == "tierload":
            return {**_tierload(output), **found}
        for name, regex in self.metrics.items():
            if regex != WALL:
                found[name] = number_in(name, Reading(regex=regex), output, errors)
            elif wall_s is None:
                raise NoMetrics(f"nobody says how long the program ran, which is {name}")
            else:
                found[name] = wall_s
        return found


class UpstreamPart(HostPart):
    """The original program, as the operator has it: where a campaign names the folder of `programs`, live
    trials are of that instead of the `host` part."""

    origin: Text = Field(description="repository, commit and licence of the program, which is not ours")

    metrics: dict[str, Text] = Field(
        default={}, description="for each metric an expression with one group, or wall: the time of the run"
    )

    @property
    def _placeholders(self) -> tuple[str, ...]:
        """Also the folder, for files that lie beside the program."""
        return (*PLACEHOLDERS, PROGRAMS)

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """The program lies in the operator's folder."""
        yield from super().mistakes()
        if Path(self.command[0]).is_absolute() or ".." in Path(self.command[0]).parts:
            yield (
                ("command", 0),
                f"'{self.command[0]}' is not below a folder; write it as it lies in the folder of programs",
            )

    def host(self, folder: str) -> HostPart:
        """The same as a host part, its program in `folder`."""
        plain = {name: getattr(self, name) for name in HostPart.model_fields}

        def filled(word: str) -> str:
            return word.replace(f"{{{PROGRAMS}}}", folder)

        command = [str(Path(folder) / self.command[0]), *map(filled, self.command[1:])]
        environment = self.environment and {name: filled(word) for name, word in self.environment.items()}
        return HostPart.model_construct(**{**plain, "command": command, "environment": environment})


def events_of(output: str) -> list[dict[str, Any]]:
    """What `tierload --json` said, line by line; whatever else is on the same output is passed over."""
    documents = []
    for line in output.splitlines():
        try:
            documents.append(json.loads(line))
        except ValueError:
            continue  # such as a warning of a library
    return [document for document in documents if isinstance(document, dict)]


def _tierload(output: str) -> dict[str, float]:
    """Metrics of all runs of a `tierload --json`: runtime and throughput, what the kernel says itself, and
    figures of its phases."""
    events = events_of(output)
    end = next((event for event in events if event.get("event") == "end"), None)
    if end is None:
        raise NoMetrics("tierload did not say how it ended")
    trials = [event for event in events if event.get("event") == "trial"]
    failed = [c["name"] for trial in trials for c in trial.get("checks", ()) if not c["passed"]]
    each: dict[str, list[float]] = {}
    for trial in trials:
        for name, value in trial.get("metrics", {}).items():
            each.setdefault(name, []).append(float(value))
    wrong = {one.name for kernel in kernels() for one in kernel.metrics if one.role == "validity"}
    failed += [name for name, values in each.items() if name in wrong and any(values)]
    if failed:
        raise NoMetrics(f"tierload computed a wrong result: {failed[0]}")
    said = {name: float(value) for name, value in end.items() if isinstance(value, int | float)}
    # Runtime and throughput are means over the trials, and so is everything else.
    own = {name: statistics.fmean(values) for name, values in each.items()}
    return {**own, **figures(phases_of(events)), **said}
