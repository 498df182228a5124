"""What schedulers get: units, crontab lines, windows; and what a night deletes."""

from __future__ import annotations

import os
import shlex
from datetime import datetime
from pathlib import Path

import pytest

from tests.cli.small import tiertune
from tests.nightly.two import write_two
from tiertune.tuner.nightly.history import History, Round
from tiertune.tuner.nightly.retention import tidy
from tiertune.tuner.nightly.schedule import Span, night_of, parse_clock
from tiertune.tuner.nightly.suite import load_suite
from tiertune.tuner.nightly.units import Start, cron_line, service, with_line


def span(begin: str, end: str) -> Span:
    times = parse_clock(begin), parse_clock(end)
    assert times[0] is not None
    assert times[1] is not None
    return Span(times[0], times[1])


@pytest.mark.parametrize(
    ("window", "now", "closes", "night"),
    [
        (span("22:00", "06:00"), "2026-11-01 23:30", "2026-11-02 06:00", "2026-11-01"),
        (span("22:00", "06:00"), "2026-11-02 05:59", "2026-11-02 06:00", "2026-11-01"),
        (span("22:00", "06:00"), "2026-11-02 06:00", None, "2026-11-02"),
        (span("01:00", "05:00"), "2026-11-02 01:00", "2026-11-02 05:00", "2026-11-02"),
        (span("20:00", "20:00"), "2026-11-02 19:00", "2026-11-02 20:00", "2026-11-01"),
    ],
)
def test_windows(window: Span, now: str, closes: str | None, night: str) -> None:
    at = datetime.fromisoformat(now)
    closing = window.closing(at)
    assert (closing and closing.isoformat(" ", "minutes")) == closes
    assert night_of(at, window).isoformat() == night


def test_units_quote_what_systemd_would_read_otherwise() -> None:
    start = Start(
        "s",
        ("/opt/a b/tiertune", "nightly", "100%/$x.yaml"),
        Path("/srv/50%"),
        "22:00",
        span("22:00", "06:00"),
    )
    text = service(start, user=False)
    assert 'ExecStart="/opt/a b/tiertune" nightly 100%%/$$x.yaml\n' in text
    assert "WorkingDirectory=/srv/50%%\n" in text
    assert "RuntimeMaxSec=32400\n" in text
    assert "EnvironmentFile=-/etc/tiertune/s.env\n" in text


def test_a_crontab_line_is_put_in_place_of_the_one_before() -> None:
    start = Start("s", ("/bin/tier tune", "nightly", "a%b.yaml"), Path("/srv"), "05:07", None)
    line = cron_line(start)
    assert line.startswith("7 5 * * * cd /srv && '/bin/tier tune' nightly a\\%b.yaml >/dev/null")
    own = "0 1 * * * backup\n"
    once = with_line(own, start, line)
    assert with_line(once, start, line) == once == own + line + "\n"
    assert with_line(once, start, None) == own


def test_install_and_uninstall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    suite = write_two(tmp_path)
    folder = tmp_path / ".config/systemd/user"
    shown = tiertune("nightly", "install", suite, "--dry-run", "--at", "3:15")
    assert (shown.exit_code, folder.exists()) == (0, False)
    assert "OnCalendar=*-*-* 03:15:00\n" in shown.stdout
    both = tiertune("nightly", "install", suite, "--dry-run", "--container", "0", "--here", "0,1")
    assert (both.exit_code, "exclude each other" in both.stderr) == (2, True)
    wrote = tiertune("nightly", "install", suite)
    assert wrote.exit_code == 0, wrote.stderr
    assert "systemctl --user enable --now tiertune-nightly-two.timer" in wrote.stdout
    text = (folder / "tiertune-nightly-two.service").read_text()
    (command,) = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    program, *arguments = shlex.split(command.removeprefix("ExecStart="))
    assert os.access(program, os.X_OK)
    assert arguments == ["nightly", str(suite), "--results", str(tmp_path / "results")]
    assert tiertune("nightly", "uninstall", suite).exit_code == 0
    assert list(folder.iterdir()) == []
    again = tiertune("nightly", "uninstall", "two")
    assert again.exit_code == 2
    assert "there is no such unit" in again.stderr
    foreign = folder / "tiertune-nightly-two.timer"
    foreign.write_text("[Timer]\n")
    assert "was not written by tiertune" in tiertune("nightly", "uninstall", "two").stderr
    assert foreign.exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--container", "0,1"],
        ["--scheduler", "tcp://rack7:8786"],
        ["--here", "auto", "--by-kernel", "nbt", "--by-kernel", "hmsdk"],
        ["--hosts", "hosts.yaml", "--mixed-hosts"],
    ],
)
@pytest.mark.parametrize("cron", [False, True])
def test_where_nights_run_is_told_to_what_starts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], cron: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    suite = write_two(tmp_path)
    (tmp_path / "hosts.yaml").write_text("{}")
    shown = tiertune("nightly", "install", suite, "--dry-run", *(["--cron"] if cron else []), *options)
    assert shown.exit_code == 0, shown.stderr
    (line,) = [line for line in shown.stdout.splitlines() if " nightly " in line and str(suite) in line]
    words = shlex.split(line.partition(" >/dev/null")[0])
    given = words[words.index(str(tmp_path / "results")) + 1 :]
    assert given == [str(tmp_path / word) if word == "hosts.yaml" else word for word in options]
    # Whatever is written there, the command of every night has to take.
    run = tiertune("nightly", "run", suite, *given, "--date", "never")
    said = {"--date never": 2, "tier_hosts": 2, "this host has one memory node": 3}
    assert [code for words, code in said.items() if words in run.stderr] == [run.exit_code], run.stderr


def test_every_option_on_where_nights_run_is_one_of_install() -> None:
    from inspect import signature

    from tiertune.tuner.cli.nightly import install, run_night
    from tiertune.tuner.cli.places import places_of

    asked = set(signature(places_of).parameters) - {"mixed"} | {"mixed_hosts"}
    for command in (run_night, install):
        assert asked <= set(signature(command).parameters)


def test_cron(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "table"
    program = tmp_path / "bin/crontab"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\nif [ $1 = -l ]; then\n"
        f"cat {table} 2>/dev/null || {{ echo no crontab for me >&2; exit 1; }}\n"
        f"else cat > {table}; fi\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    suite = write_two(tmp_path)
    for at in ("21:30", "23:05"):
        assert tiertune("nightly", "install", suite, "--cron", "--at", at).exit_code == 0
    (line,) = table.read_text().splitlines()
    assert line.startswith("5 23 * * * cd ")
    dry = tiertune("nightly", "uninstall", suite, "--cron", "--dry-run")
    assert (dry.exit_code, dry.stdout) == (0, "the crontab would not start two any more\n")
    assert table.read_text() == f"{line}\n"
    done = tiertune("nightly", "uninstall", suite, "--cron")
    assert (done.exit_code, done.stdout) == (0, "the crontab does not start two any more\n")
    assert table.read_text() == ""
    for again in (["--dry-run"], []):
        none = tiertune("nightly", "uninstall", "panl-small", "--cron", *again)
        assert none.exit_code == 2
        assert "the crontab has no line that starts panl-small; install --cron writes it" in none.stderr
    program.write_text("#!/bin/sh\necho 'not allowed' >&2; exit 1\n")
    refused = tiertune("nightly", "install", suite, "--cron")
    assert (refused.exit_code, "not allowed" in refused.stderr) == (3, True)
    assert table.read_text() == ""


def test_retention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_two(tmp_path)
    path.write_text(path.read_text() + "keep: {nights: 2, rounds: 1}\n")
    suite, home, results = load_suite(str(path)), tmp_path / "home", tmp_path / "results"
    with History(home / "history.sqlite") as history:
        for day in range(1, 6):
            history.begin(f"2026-11-0{day}")
            (home / f"2026-11-0{day}").mkdir()
        for number in range(1, 5):
            entry = Round("tiered", number, f"two-tiered-r{number}", 1, "2026-11-01")
            history.begin_round(entry)
            (results / entry.name).mkdir(parents=True)
            if number < 4:
                history.end_round(entry, "2026-11-02", "complete")
        history.promote("cell", "2026-11-01", {}, "two-tiered-r1", {"label": "", "text": "", "source": ""})
        gone = tidy(history, suite, home, results)
        assert tidy(history, suite, home, results) == []
        assert history.nights() == [f"2026-11-0{day}" for day in range(1, 6)]
    # The round of the configuration in use stays, as do the last that ended and the one that goes on.
    assert [path.name for path in gone] == ["2026-11-01", "2026-11-02", "2026-11-03", "two-tiered-r2"]
