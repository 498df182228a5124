"""Who is told, what happens when that fails, and that no secret is left anywhere."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tiertune.tuner.nightly.history import History
from tiertune.tuner.nightly.notification import deliver, events_of, owe
from tiertune.tuner.nightly.suite import Notify, Suite

TOKEN = "planted-secret-3141"
CONTENT = {"suite": "two", "verdict": "fine"}


class Listening:
    """A webhook on this machine; answers with `answer`."""

    def __init__(self) -> None:
        self.heard: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.answer = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.heard.append((dict(self.headers), json.loads(body)))
                self.send_response(outer.answer)
                if outer.answer == 302:
                    self.send_header("Location", f"/{TOKEN}/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/hook"


@pytest.fixture
def hook() -> Iterator[Listening]:
    listening = Listening()
    thread = threading.Thread(target=listening.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield listening
    listening.server.shutdown()
    thread.join()
    listening.server.server_close()


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History(tmp_path / "history.sqlite") as opened:
        opened.begin("2026-11-01")
        yield opened


def suite_of(*entries: Notify) -> Suite:
    return Suite.model_validate(
        {"name": "two", "campaigns": [{"campaign": "demo"}], "notify": [e.model_dump() for e in entries]}
    )


def test_a_webhook_gets_the_token_and_nothing_else_keeps_it(
    hook: Listening, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_TOKEN", TOKEN)
    monkeypatch.setenv("HOOK_ADDRESS", f"{hook.address}/{TOKEN}")
    suite = suite_of(Notify(webhook_env="HOOK_ADDRESS", secret_env="HOOK_TOKEN"))
    owe(history, suite, "2026-11-01", events_of("regression", [3], []))
    for answer in (500, 302):
        hook.answer = answer
        (said,) = deliver(history, suite, CONTENT)
        assert said == f"webhook $HOOK_ADDRESS: alarm 3 raised: answered {answer}; the next night tries again"
    assert [notice.attempts for notice in history.owed()] == [2]
    hook.answer = 200
    assert deliver(history, suite, CONTENT) == []
    assert deliver(history, suite, CONTENT) == []
    # One request an attempt: a redirection is not followed, as it would take the token elsewhere.
    assert len(hook.heard) == 3
    headers, body = hook.heard[-1]
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert (body["event"], body["event_night"], body["verdict"]) == ("alarm 3 raised", "2026-11-01", "fine")
    assert body.keys() == {*CONTENT, "event", "event_night"}
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]
    assert kept == []


def test_what_is_not_set_or_not_there_is_said_and_tried_again(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK_ADDRESS", raising=False)
    monkeypatch.setenv("HOOK_CLEAR", "http://example.org/hook")
    suite = suite_of(
        Notify(webhook_env="HOOK_ADDRESS"),
        Notify(webhook_env="HOOK_CLEAR"),
        Notify(webhook="http://127.0.0.1:9/"),
        Notify(command=["/no/such/program", TOKEN]),
        Notify(command=["sh", "-c", f"echo {TOKEN} >&2; exit 3"]),
    )
    owe(history, suite, "2026-11-01", events_of("fine", [1], []))
    said = deliver(history, suite, CONTENT)
    reasons = [text.split(": ", 2)[2].partition(";")[0] for text in said]
    assert reasons[0] == "$HOOK_ADDRESS is not set"
    assert reasons[1].startswith("$HOOK_CLEAR would be posted in the clear")
    assert reasons[2] == "not reached: connection refused"
    assert reasons[3] == "cannot be run: no such file or directory"
    assert reasons[4] == "exit code 3"
    assert TOKEN not in "".join(said)
    assert len(history.owed()) == 5


def test_only_what_was_asked_for_is_told(history: History, tmp_path: Path) -> None:
    out = tmp_path / "out"
    suite = suite_of(
        Notify(command=["sh", "-c", f"cat >> {out}; echo >> {out}"], events=["incomplete", "cleared"])
    )
    for _ in range(2):  # a night that goes on owes nothing twice
        owe(history, suite, "2026-11-01", events_of("incomplete", [1], [2]))
    assert deliver(history, suite, CONTENT) == []
    told = [json.loads(line)["event"] for line in out.read_text().splitlines()]
    assert told == ["alarm 2 cleared", "incomplete"]
