"""What stays on the disk: the last nights and all with alarms; the last rounds, and those that
configurations in use come from. The history itself is never shortened.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tiertune.tuner.journal_lock import is_held
from tiertune.tuner.nightly.history import History
from tiertune.tuner.nightly.suite import Suite


def tidy(history: History, suite: Suite, folder: Path, results: Path) -> list[Path]:
    """Delete what need not stay; the folders that are gone."""
    gone = [path for path in _nights(history, suite, folder) if _deleted(path)]
    return gone + [path for path in _rounds(history, suite, results) if _deleted(path)]


def _nights(history: History, suite: Suite, folder: Path) -> list[Path]:
    alarms = history.watch().alarms
    keep = {date for alarm in alarms for date in (alarm.raised, alarm.since, alarm.closed)}
    keep |= set(history.nights()[-suite.keep.nights :])
    return [folder / date for date in history.nights() if date not in keep]


def _rounds(history: History, suite: Suite, results: Path) -> list[Path]:
    """Only folders whose rounds the history knows to be over, and that nobody writes."""
    used = history.sources()
    old: list[Path] = []
    for name in sorted({campaign.name for _, campaign in suite.ordered()}):
        over = [entry for entry in history.rounds(name) if entry.ended is not None]
        for entry in over[: -suite.keep.rounds]:
            path = results / entry.name
            if entry.name not in used and not is_held(path / "journal.sqlite"):
                old.append(path)
    return old


def _deleted(path: Path) -> bool:
    if not path.is_dir() or path.is_symlink():
        return False
    shutil.rmtree(path)
    return True
