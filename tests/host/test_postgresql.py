"""A team's tracking store: Debian's PostgreSQL, two campaigns that write at once, a server that goes away."""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.small import CAMPAIGN, WORKLOAD

pytestmark = pytest.mark.host

COMMAND = [sys.executable, "-c", "from tiertune.tuner.cli import main; main()"]
EXPERIMENT = "team"


class Server:
    """A PostgreSQL of its own on a free port of loopback, with a password."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.password = folder, secrets.token_hex(12)
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        assert found, "PostgreSQL is not installed; .ci/prerequisites host says how"
        self.programs = found[-1]
        # It refuses to run as root.
        owner = pwd.getpwnam("postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name)
        self.user, self.data = owner.pw_name, folder / "data"
        secret = folder / "password"
        secret.write_text(self.password)
        if os.geteuid() == 0:
            for path in (folder, secret):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        setting = ["--username", "tiertune", "--auth", "scram-sha-256", "--pwfile", str(secret), "--no-sync"]
        self.call("initdb", "--pgdata", str(self.data), *setting)
        self.start()

    def call(self, program: str, *arguments: str) -> None:
        command = [str(self.programs / program), *arguments]
        # Output goes to a file: a server that inherits a pipe would keep it open.
        with (self.folder / "server.log").open("ab") as log:
            user: dict[str, Any] = {"user": self.user} if os.geteuid() == 0 else {}
            subprocess.run(command, check=True, timeout=120, cwd=self.folder, stdout=log, stderr=log, **user)

    def start(self) -> None:
        options = f"-p {self.port} -h 127.0.0.1 -k {self.folder}"
        self.call("pg_ctl", "start", "--wait", "--pgdata", str(self.data), "--options", options)

    def stop(self) -> None:
        self.call("pg_ctl", "stop", "--mode", "immediate", "--pgdata", str(self.data))

    @property
    def uri(self) -> str:
        return f"postgresql://tiertune@127.0.0.1:{self.port}/postgres"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    # Not below pytest's own folder, which the server's user may not enter.
    folder = Path("/var/tmp") / f"tiertune-postgresql-{os.getpid()}"
    folder.mkdir(mode=0o755)
    running = Server(folder)
    yield running
    running.stop()
    shutil.rmtree(folder)


def campaign(folder: Path, name: str, server: Server, trials: int) -> subprocess.Popen[str]:
    (folder / "workloads").mkdir(exist_ok=True)
    (folder / "workloads" / "small.yaml").write_text(WORKLOAD)
    changes = {
        "name: small": f"name: {name}",
        "./small-workload.yaml": "small",
        "tracking: {mlflow: false}": f"tracking: {{uri: '{server.uri}', experiment: {EXPERIMENT}}}",
        "trials: 8": f"trials: {trials}",
    }
    text = CAMPAIGN
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (folder / f"{name}.yaml").write_text(text)
    return run(folder, server, "tune", f"{name}.yaml")


def run(folder: Path, server: Server, *arguments: str) -> subprocess.Popen[str]:
    call = [*COMMAND, *arguments, "--results", "results"]
    environment = {**os.environ, "PGPASSWORD": server.password}
    log = (folder / f"{time.monotonic_ns()}.log").open("w")
    return subprocess.Popen(
        call, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT, text=True
    )


def journal(folder: Path, name: str) -> list[tuple[Any, ...]]:
    path = folder / "results" / name / "journal.sqlite"
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        return list(db.execute("select purpose, number, status from trial order by 1, 2"))


def finished(folder: Path, name: str) -> int:
    try:
        return sum(status == "ok" for _, _, status in journal(folder, name))
    except sqlite3.OperationalError:
        return 0


def wait_until(holds: Any, what: str, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited {seconds:g} s until {what}"
        time.sleep(0.1)


def mirrored(server: Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Statuses of the trials in the store by campaign, parents apart."""
    monkeypatch.setenv("PGPASSWORD", server.password)
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=server.uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    found: dict[str, list[str]] = {}
    keys = set()
    for run in client.search_runs([experiment.experiment_id], max_results=5000):
        key = run.data.tags["tiertune.key"]
        identity = run.data.tags["tiertune.campaign"]
        assert (identity, key) not in keys, f"{key} is there twice"
        keys.add((identity, key))
        if key != "campaign":
            found.setdefault(key.split("/")[0], []).append(run.info.status)
    return found


def test_two_campaigns_at_once_and_a_server_that_stops_in_the_middle_lose_nothing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("first", "second")
    running = {name: campaign(tmp_path, name, server, 60) for name in names}
    wait_until(lambda: all(finished(tmp_path, name) >= 5 for name in names), "both campaigns are at work")
    server.stop()
    seen = {name: finished(tmp_path, name) for name in names}
    # Neither waits for the server.
    wait_until(lambda: all(finished(tmp_path, name) > seen[name] for name in names), "both go on without it")
    server.start()
    for name in names:
        assert running[name].wait(timeout=300) == 0
    # What a campaign could not send in time is sent when it is called again.
    for name in names:
        assert run(tmp_path, server, "resume", name).wait(timeout=120) == 0
    expected = {name: ["FINISHED"] * len(journal(tmp_path, name)) for name in names}
    assert mirrored(server, monkeypatch) == expected
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert server.password.encode() not in path.read_bytes(), f"the password is in {path}"


def test_a_server_that_is_away_is_told_and_owed(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.stop()
    try:
        assert campaign(tmp_path, "away", server, 8).wait(timeout=240) == 0
    finally:
        server.start()
    said = "".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert re.search(r"MLflow.*(resume|owed)", said, re.DOTALL), said
    assert "Traceback" not in said
    assert run(tmp_path, server, "resume", "away").wait(timeout=120) == 0
    assert mirrored(server, monkeypatch)["away"] == ["FINISHED"] * len(journal(tmp_path, "away"))
