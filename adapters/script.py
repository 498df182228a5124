"""Lines of shell scripts that write a file or a sysctl, in the forms that scripts of these systems have."""

from __future__ import annotations

import re

ECHO = re.compile(
    r"(?:sudo\s+)?echo\s+(?P<quote>[\"']?)(?P<value>[^\s\"'>|]+)(?P=quote)\s*"
    r"(?:>\s*|\|\s*(?:sudo\s+)?tee\s+)(?P<file>/\S+)(?:\s*>\s*/dev/null)?\s*(?:#.*)?"
)
SYSCTL = re.compile(r"(?:sudo\s+)?sysctl\s+(?:-w\s+)?(?P<name>[\w.]+)=(?P<value>[^\s;|&]+)\s*(?:#.*)?")
SYSCTLS = "/proc/sys/"


def written(line: str) -> tuple[str, str] | None:
    """What a line sets, and to what: a file, or a sysctl by its dotted name, also where its file below
    /proc/sys is written. None for a line that does something else."""
    line = line.strip()
    if echo := ECHO.fullmatch(line):
        place = echo["file"]
        if place.startswith(SYSCTLS):
            place = place.removeprefix(SYSCTLS).replace("/", ".")
        return place, echo["value"]
    sysctl = SYSCTL.fullmatch(line)
    return (sysctl["name"], sysctl["value"]) if sysctl else None


def whole(text: str) -> int | None:
    """The whole number that a script writes; None for anything else."""
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else None
