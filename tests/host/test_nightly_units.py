"""systemd itself reads the units that `tiertune nightly install` writes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.small import tiertune
from tests.nightly.two import write_two
from tiertune.tuner.nightly.units import verified

pytestmark = pytest.mark.host


@pytest.mark.parametrize("whose", ["--user", "--system"])
def test_units_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    suite = write_two(tmp_path)
    suite.write_text(suite.read_text() + 'window: {begin: "22:00", end: "06:00"}\n')
    shown = tiertune("nightly", "install", suite, whose, "--dry-run")
    assert shown.exit_code == 0, shown.stderr
    units: dict[str, list[str]] = {}
    for line in shown.stdout.splitlines():
        if line.startswith("# /"):
            units[Path(line[2:]).name] = []
        else:
            units[next(reversed(units))].append(line)
    paths = []
    for name, lines in units.items():
        paths.append(tmp_path / name)
        paths[-1].write_text("\n".join(lines) + "\n")
    assert [path.suffix for path in paths] == [".service", ".timer"]
    assert verified(paths, whose == "--user") is None
    (calendar,) = [line for line in units[paths[1].name] if line.startswith("OnCalendar=")]
    command = ["systemd-analyze", "calendar", calendar.partition("=")[2]]
    next_start = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "22:00:00" in next_start
    paths[1].write_text(paths[1].read_text().replace("22:00:00", "22:00:99"))
    wrong = verified(paths, whose == "--user")
    assert wrong is not None
    assert "22:00:99" in wrong
