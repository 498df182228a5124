"""Telling people: a command with JSON on its standard input, or a webhook. What fails is owed to the next
night.

Addresses and tokens come from environment variables; nothing here puts them into a sentence, a file or a
log.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from tiertune.tuner.nightly.history import History
from tiertune.tuner.nightly.suite import Notify, Suite, address_mistake

PATIENCE_S = 20.0
ATTEMPTS = 30
SAID_CHARACTERS = 200


def events_of(outcome: str, raised: Sequence[int], cleared: Sequence[int]) -> list[tuple[str, str]]:
    """What there is to tell of a night: the kind of event and its own name."""
    found = [("raised", f"alarm {number} raised") for number in raised]
    found += [("cleared", f"alarm {number} cleared") for number in cleared]
    found += [("incomplete", "incomplete")] if outcome == "incomplete" else []
    return [*found, ("night", "night")]


def owe(history: History, suite: Suite, date: str, events: Sequence[tuple[str, str]]) -> None:
    """Store what has to be told to whom, before anybody is."""
    for number, entry in enumerate(suite.notify):
        for kind, name in events:
            if kind in entry.events:
                history.owe(date, name, f"{number + 1}: {entry.name}")


def deliver(history: History, suite: Suite, content: Mapping[str, Any]) -> list[str]:
    """Tell what is owed; a sentence for each message that did not get through. Never raises."""
    recipients = {f"{number + 1}: {entry.name}": entry for number, entry in enumerate(suite.notify)}
    failures = []
    for notice in history.owed():
        entry = recipients.get(notice.recipient)
        if entry is None or notice.attempts >= ATTEMPTS:
            history.tried(notice, None)  # nobody of that name is to be told any more
            continue
        message = {**content, "event": notice.event, "event_night": notice.night}
        error = _told(entry, message)
        history.tried(notice, error)
        if error:
            failures.append(f"{entry.name}: {notice.event}: {error}; the next night tries again")
    return failures


def _told(entry: Notify, message: Mapping[str, Any]) -> str | None:
    """Why a message did not get through, None where it did; without secrets."""
    body = json.dumps(message, ensure_ascii=False, allow_nan=False).encode()
    try:
        if entry.command is not None:
            return _run(entry.command, body)
        return _post(entry, body)
    except Exception as error:  # whatever a recipient does, the night is over and its results stand
        return _safe(type(error).__name__)


def _run(command: Sequence[str], body: bytes) -> str | None:
    try:
        done = subprocess.run(list(command), input=body, capture_output=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return f"did not end within {PATIENCE_S:.0f} s"
    except OSError as error:
        return f"cannot be run: {(error.strerror or 'unknown').lower()}"
    # What it said may hold what it was given in secret, so only how it ended is kept.
    return f"exit code {done.returncode}" if done.returncode else None


class _NoRedirect(HTTPRedirectHandler):
    """A redirected request would carry its token elsewhere."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _post(entry: Notify, body: bytes) -> str | None:
    address = entry.webhook
    if entry.webhook_env is not None:
        address = os.environ.get(entry.webhook_env, "")
        wrong = address_mistake(address) if address else "is not set"
        if wrong:
            return f"${entry.webhook_env} {wrong}"
    headers = {"Content-Type": "application/json", "User-Agent": "tiertune"}
    if entry.secret_env is not None:
        token = os.environ.get(entry.secret_env, "")
        if not token:
            return f"${entry.secret_env} is not set"
        if not token.isascii() or not token.isprintable():
            return f"${entry.secret_env} holds what a header may not"
        headers["Authorization"] = f"Bearer {token}"
    request = Request(address or "", data=body, headers=headers, method="POST")
    try:
        with build_opener(_NoRedirect()).open(request, timeout=PATIENCE_S) as answer:
            return None if answer.status < 300 else f"answered {answer.status}"
    except HTTPError as error:
        return f"answered {error.code}"
    except URLError as error:
        reason = error.reason
        text = reason.strerror if isinstance(reason, OSError) and reason.strerror else "no connection"
        return f"not reached: {text.lower()}"
    except TimeoutError:
        return f"no answer within {PATIENCE_S:.0f} s"


def _safe(text: str) -> str:
    return text[:SAID_CHARACTERS]
