"""Starting nights without anyone: systemd units or a crontab line. No lock is needed there, it is ours."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tiertune.tuner.nightly.schedule import Span

MARK = "# tiertune nightly"

GRACE_MINUTES = 60
"""A night ends by itself when its window closes, but for the trial in flight; after that long it is ended."""


@dataclass(frozen=True)
class Start:
    """What is started: the command and its arguments, in which folder, at which time of the day."""

    suite: str
    arguments: tuple[str, ...]
    folder: Path
    at: str
    window: Span | None

    @property
    def unit(self) -> str:
        """Name of the units, without an ending."""
        return f"tiertune-nightly-{re.sub(r'[^A-Za-z0-9.-]', '-', self.suite)}"


def service(start: Start, user: bool) -> str:
    """The service unit."""
    limit = ""
    if start.window is not None:
        limit = f"RuntimeMaxSec={int(start.window.length.total_seconds()) + GRACE_MINUTES * 60}\n"
    secrets = f"%h/.config/tiertune/{start.suite}.env" if user else f"/etc/tiertune/{start.suite}.env"
    command = " ".join(_systemd(argument) for argument in start.arguments)
    return f"""\
{MARK}
[Unit]
Description=tiertune nightly {start.suite.replace("%", "%%")}
# Exit codes: 0 fine, 1 a bug, 2 bad input, 3 unfit host, 4 a regression was found, 5 not all was measured.

[Service]
# A start has no time limit of its own here, a run has the one below.
Type=exec
WorkingDirectory={_folder(start.folder)}
# Tokens for notifications, as NAME=VALUE lines; readable by its owner alone.
EnvironmentFile=-{secrets}
ExecStart={command}
# Stopped in order, it keeps all that was measured and the next night goes on.
KillSignal=SIGINT
TimeoutStopSec=300
{limit}Nice=5
"""


def timer(start: Start) -> str:
    """The timer unit."""
    return f"""\
{MARK}
[Unit]
Description=tiertune nightly {start.suite.replace("%", "%%")}, every night at {start.at}

[Timer]
OnCalendar=*-*-* {start.at}:00
# A night that was missed because the machine was off is not made up for in the morning.
Persistent=false
AccuracySec=1min

[Install]
WantedBy=timers.target
"""


def unit_folder(user: bool, home: Path) -> Path:
    """Where units go."""
    return home / ".config/systemd/user" if user else Path("/etc/systemd/system")


def verified(paths: Sequence[Path], user: bool) -> str | None:
    """What systemd-analyze finds wrong with units; None where it is content, or not there to ask."""
    command = ["systemd-analyze", *(["--user"] if user else []), "verify", *map(str, paths)]
    with tempfile.TemporaryDirectory() as folder:
        # Without a session of that user (cron, ssh) it has no folder for what runs, and would refuse to look.
        environment = {"XDG_RUNTIME_DIR": folder, **os.environ}
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
        except FileNotFoundError:
            return None
    # It also looks at other units of the machine; only sentences on ours count.
    ours = [line for line in done.stderr.splitlines() if any(path.name in line for path in paths)]
    return "\n".join(ours) or None


def cron_line(start: Start) -> str:
    """The line of a crontab; `%` is a line end there unless it is escaped."""
    hour, minute = start.at.split(":")
    command = " ".join(shlex.quote(argument) for argument in start.arguments)
    text = f"cd {shlex.quote(str(start.folder))} && {command} >/dev/null 2>&1"
    return f"{int(minute)} {int(hour)} * * * {text} {MARK} {start.suite}".replace("%", r"\%")


def with_line(crontab: str, start: Start, line: str | None) -> str:
    """A crontab with the suite's line in place of an earlier one, or without any."""
    mine = f"{MARK} {start.suite}"
    kept = [entry for entry in crontab.splitlines() if not entry.endswith(mine)]
    return "".join(f"{entry}\n" for entry in [*kept, *([line] if line else [])])


def _systemd(argument: str) -> str:
    """An argument of ExecStart: `%` and `$` stand for themselves, spaces do not end it."""
    text = argument.replace("%", "%%").replace("$", "$$")
    if not re.search(r"[\s\"'\\;]", text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _folder(path: Path) -> str:
    return str(path).replace("%", "%%")
