"""A host's state, read back from its own files; what a host does not have is left out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tiertune.files import InputError
from tiertune.tuner.host.aspects import COUNTERS, KERNEL_PARAMETERS, QUANTITIES, SETTINGS, Aspect

SCHEMA = 1


@dataclass(frozen=True)
class HostState:
    """Settings and quantities at one moment, counters since boot; all by name."""

    settings: dict[str, str] = field(default_factory=dict)
    quantities: dict[str, float] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    host: str = ""

    def document(self) -> dict[str, Any]:
        """Plain data that `parse` reads back."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def parse(cls, document: Mapping[str, Any], origin: str) -> HostState:
        """The inverse of `document`. Raises InputError naming `origin` where it is no state of a host."""
        settings, quantities, counters = (
            document.get(part) for part in ("settings", "quantities", "counters")
        )
        known = document.get("schema") == SCHEMA
        if not (
            known
            and isinstance(settings, dict)
            and isinstance(quantities, dict)
            and isinstance(counters, dict)
        ):
            raise InputError(f"{origin}: this is no state of a host as `tiertune host show --json` prints it")
        for part, entries, kind, what in (
            ("settings", settings, str, "a text"),
            ("quantities", quantities, (int, float), "a number"),
            ("counters", counters, int, "a whole number"),
        ):
            for name, value in entries.items():
                if not isinstance(value, kind) or isinstance(value, bool):
                    raise InputError(f"{origin}: {part}: {name}: {json.dumps(value)} is not {what}")
        return cls(settings, quantities, counters, str(document.get("host", "")))

    def since(self, before: HostState) -> dict[str, int]:
        """How much each counter has grown, those that stand still left out."""
        grown = {
            name: value - before.counters.get(name, 0)
            for name, value in self.counters.items()
            if name in before.counters
        }
        return {name: by for name, by in grown.items() if by}


def read_state(root: Path = Path("/")) -> HostState:
    """The state of the host whose /proc and /sys lie below `root`; changes nothing."""
    settings = {name: text for aspect in SETTINGS for name, text in _values(root, aspect)}
    quantities = {}
    for aspect in QUANTITIES:
        for name, text in _values(root, aspect):
            number = re.match(r"-?[\d.]+", text)
            if number:
                quantities[name] = float(number.group())
    counters = {}
    for aspect in COUNTERS:
        # Those of processors are added up: there may be hundreds, and which one it was says little.
        found = [int(text) for _, text in _values(root, aspect)]
        if found:
            counters[aspect.name] = sum(found)
    host = _text(root / "proc/sys/kernel/hostname") or ""
    return HostState(_together(settings), quantities, counters, host)


def told(before: HostState, after: HostState) -> dict[str, Any]:
    """What a live trial stores about its host, for `raw` of its measurement."""
    return {"before": before.document(), "after": after.document(), "counters": after.since(before)}


def state_of_raw(raw: str | None, origin: str) -> HostState | None:
    """The host as it was before the live trial whose `raw` this is; None where nothing is told of it."""
    try:
        document = json.loads(raw or "null")
    except ValueError:
        return None
    told_of = document.get("host_state") if isinstance(document, dict) else None
    return None if not isinstance(told_of, dict) else HostState.parse(told_of.get("before", {}), origin)


def aspect_of(name: str) -> Aspect:
    """The declaration behind a name in a state, such as that of `governor of cpu3`. States are kept for long,
    and may have what another version recorded."""
    declared = [
        a for a in (*SETTINGS, *QUANTITIES, *COUNTERS) if name == a.name or name.startswith(f"{a.name} of ")
    ]
    unknown = Aspect(name, "", "this version of tiertune does not record it", "notes")
    return max(declared, key=lambda aspect: len(aspect.name), default=unknown)


def _values(root: Path, aspect: Aspect) -> Iterator[tuple[str, str]]:
    places = (
        sorted(root.glob(aspect.pattern), key=_in_order) if "*" in aspect.pattern else [root / aspect.pattern]
    )
    for place in places:
        text = _text(place)
        value = None if text is None else _picked(text, aspect)
        if value is not None:
            yield aspect.name + _which(root, place, aspect.pattern), value


def _picked(text: str, aspect: Aspect) -> str | None:
    if aspect.pattern == "proc/swaps":
        return str(sum(int(line.split()[3]) for line in text.splitlines()[1:]))
    if aspect.pattern == "proc/loadavg":
        return text.split()[0]
    if aspect.pattern == "proc/cmdline":
        # The rest may hold anything, tokens included, and is nobody's business.
        return " ".join(word for word in text.split() if word.partition("=")[0] in KERNEL_PARAMETERS)
    if aspect.key is not None:
        found = re.search(rf"(?:^|\s){re.escape(aspect.key)}\s*:?\s+(.+)$", text, re.MULTILINE)
        return found.group(1).strip() if found else None
    if aspect.chosen:
        found = re.search(r"\[([^\]]+)\]", text)
        return found.group(1) if found else text.strip()
    return " ".join(text.split())


def _which(root: Path, place: Path, pattern: str) -> str:
    """` of node1` where the pattern has a star."""
    for part, known in zip(place.relative_to(root).parts, Path(pattern).parts, strict=True):
        if "*" in known:
            return f" of {part}"
    return ""


def _together(settings: dict[str, str]) -> dict[str, str]:
    """What all processors have alike is one entry."""
    groups: dict[str, dict[str, str]] = {}
    for name, value in settings.items():
        kind, _, which = name.partition(" of ")
        groups.setdefault(kind if re.fullmatch(r"cpu\d+", which) else name, {})[name] = value
    found: dict[str, str] = {}
    for kind, entries in groups.items():
        alike = len(set(entries.values())) == 1
        found.update({kind: next(iter(entries.values()))} if alike else entries)
    return found


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _in_order(path: Path) -> list[tuple[int, str]]:
    """Processor 10 comes after processor 9."""
    return [(int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d+)", str(path))]
