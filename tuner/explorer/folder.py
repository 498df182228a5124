"""What a results folder holds, and how to tell cheaply that something in it changed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiertune.files import InputError
from tiertune.tuner.comparison import DOCUMENT as COMPARISON

JOURNAL = "journal.sqlite"
EXPLANATION = "explain/explain.json"
HISTORY = "history.sqlite"
LOG_HEADER_BYTES = 48


@dataclass(frozen=True)
class Results:
    """A results folder. Names are what addresses of pages hold; nothing is read but what a listing found, so
    that no address leads out of the folder."""

    path: Path

    def campaigns(self) -> list[str]:
        """Names of campaigns, those that changed last first."""
        found = sorted(self.path.glob(f"*/{JOURNAL}"))
        return [path.parent.name for path in sorted(found, key=_changed_ns, reverse=True)]

    def comparisons(self) -> list[str]:
        """Names of campaigns that were compared."""
        return sorted(path.parent.name for path in self.path.glob(f"*/{COMPARISON}"))

    def transfers(self) -> list[str]:
        """Names of transfer tests: that of the campaigns, and an axis where they were moved along one."""
        found = [*self.path.glob("*/transfer/transfer.json"), *self.path.glob("*/transfer/*/transfer.json")]
        return sorted("/".join([self._parts(path)[0], *self._parts(path)[2:-1]]) for path in found)

    def explanations(self) -> list[str]:
        """Names of campaigns that were explained."""
        return sorted(path.parents[1].name for path in self.path.glob(f"*/{EXPLANATION}"))

    def suites(self) -> list[str]:
        """Names of suites of which there are nights."""
        return sorted(path.parent.name for path in self.path.glob(f"nightly/*/{HISTORY}"))

    def journal(self, campaign: str) -> Path:
        """The journal of a campaign. Raises InputError where there is none of that name."""
        return self._known("campaign", campaign, self.campaigns()) / JOURNAL

    def comparison(self, campaign: str) -> dict[str, Any]:
        """A comparison as it was written. Raises InputError."""
        return read_json(self._known("comparison", campaign, self.comparisons()) / COMPARISON)

    def explanation(self, campaign: str) -> dict[str, Any] | None:
        """What `explain` wrote of a campaign, None where it was not explained."""
        if campaign not in self.explanations():
            return None
        return read_json(self.path / campaign / EXPLANATION)

    def transfer(self, name: str) -> dict[str, Any]:
        """A transfer test as it was written. Raises InputError."""
        self._known("transfer test", name, self.transfers())
        campaign, _, axis = name.partition("/")
        return read_json(self.path / campaign / "transfer" / axis / "transfer.json")

    def history(self, suite: str) -> Path:
        """The history of a suite. Raises InputError."""
        if suite not in self.suites():
            raise InputError(f"there are no nights of a suite '{suite}' in {self.path}")
        return self.path / "nightly" / suite / HISTORY

    def _known(self, what: str, name: str, names: list[str]) -> Path:
        if name not in names:
            from tiertune.nearest import nearest

            near = nearest(name, names)
            hint = f"; did you mean '{near}'?" if near else ""
            raise InputError(f"there is no {what} '{name}' in {self.path}{hint}")
        return self.path / name

    def _parts(self, path: Path) -> tuple[str, ...]:
        return path.relative_to(self.path).parts


def read_json(path: Path) -> dict[str, Any]:
    """A document that one of our commands wrote. Raises InputError where it is none, or gone."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: not readable ({error}); the command that made it makes it again"
        ) from error
    if not isinstance(document, dict):
        raise InputError(f"{path}: holds no document of ours; the command that made it makes it again")
    return document


def stamp(*paths: Path) -> str:
    """A text that changes when one of the files does. A journal's newest rows are in the log beside it."""
    parts = []
    for path in paths:
        for one in (path, path.with_name(path.name + "-wal")):
            try:
                found = one.stat()
            except OSError:
                parts.append("-")
            else:
                parts.append(f"{found.st_mtime_ns}.{found.st_size}")
        parts.append(_log_counter(path))
    return " ".join(parts)


def _log_counter(path: Path) -> str:
    """The header of the log's index, which counts transactions: file times are the same for a few
    milliseconds, and a log that is begun again keeps its size."""
    try:
        with path.with_name(path.name + "-shm").open("rb") as index:
            return index.read(LOG_HEADER_BYTES).hex()
    except OSError:
        return "-"


def _changed_ns(path: Path) -> int:
    try:
        return max(
            one.stat().st_mtime_ns for one in (path, path.with_name(path.name + "-wal")) if one.exists()
        )
    except (OSError, ValueError):
        return 0  # it went away meanwhile
